//! What holds for every stored record at every moment, as a check that tests and audits run.

use crate::key::RecordKey;
use crate::record::{Record, Status, dead_shard, pending_shard};
use crate::timing::Timing;

/// A stored record that cannot have come from this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Violation {
    /// A1, A4: what is owed must still have its payload.
    #[error("a PENDING or DEAD record has no body")]
    BodyMissing,
    /// A5: only a dead record never expires.
    #[error("a record has no expiry without being DEAD, or has one although it is")]
    Expiry,
    /// A6: only what waits for someone is in the index, under that someone's prefix.
    #[error("a record's entry in the due index does not fit its status")]
    DueEntry,
    /// A3: a processed record says how it ended.
    #[error("a PROCESSED record has no outcome")]
    OutcomeMissing,
    /// A4: a dead record says why.
    #[error("a DEAD record has no reason")]
    ReasonMissing,
    /// Counters never fall below zero.
    #[error("a counter is negative")]
    NegativeCounter,
}

/// Everything that is wrong with a record.
pub fn violations(record: &Record, timing: &Timing) -> Vec<Violation> {
    let owed = matches!(record.status, Status::Pending | Status::Dead);
    let dead = record.status == Status::Dead;
    let processed = record.status == Status::Processed;
    let counters = [record.generation, record.attempts, record.resends, record.dead_letters, record.duplicate_count];
    let rules = [
        (Violation::BodyMissing, !owed || record.body.is_some()),
        (Violation::Expiry, record.expires_at.is_none() == dead),
        (
            Violation::DueEntry,
            due_shard(record).as_deref() == expected_shard(&record.key, record.status, timing).as_deref(),
        ),
        (Violation::OutcomeMissing, !processed || record.outcome.is_some()),
        (Violation::ReasonMissing, !dead || record.dead_reason.is_some()),
        (Violation::NegativeCounter, counters.iter().all(|counter| *counter >= 0)),
    ];
    rules.into_iter().filter_map(|(violation, holds)| (!holds).then_some(violation)).collect()
}

fn due_shard(record: &Record) -> Option<String> {
    record.due.as_ref().map(|due| due.shard.clone())
}

fn expected_shard(key: &RecordKey, status: Status, timing: &Timing) -> Option<String> {
    let shard = key.shard(timing.shards);
    match status {
        Status::Pending => Some(pending_shard(shard)),
        Status::Dead => Some(dead_shard(shard)),
        Status::Processed | Status::Discarded => None,
    }
}
