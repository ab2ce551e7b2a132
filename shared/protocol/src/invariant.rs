//! What holds for every stored record at every moment, for every step of one, and for every fact in the end, as checks
//! that tests, proofs and audits run.

use std::ops::RangeInclusive;

use crate::key::RecordKey;
use crate::record::{Record, Status, dead_shard, pending_shard};
use crate::timing::Timing;

/// A stored record that cannot have come from this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum RecordViolation {
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
pub fn violations(record: &Record, timing: &Timing) -> Vec<RecordViolation> {
    let owed = matches!(record.status, Status::Pending | Status::Dead);
    let dead = record.status == Status::Dead;
    let processed = record.status == Status::Processed;
    let counters = [record.generation, record.attempts, record.resends, record.dead_letters, record.duplicate_count];
    let rules = [
        (RecordViolation::BodyMissing, !owed || record.body.is_some()),
        (RecordViolation::Expiry, record.expires_at.is_none() == dead),
        (
            RecordViolation::DueEntry,
            due_shard(record).as_deref() == expected_shard(&record.key, record.status, timing).as_deref(),
        ),
        (RecordViolation::OutcomeMissing, !processed || record.outcome.is_some()),
        (RecordViolation::ReasonMissing, !dead || record.dead_reason.is_some()),
        (RecordViolation::NegativeCounter, counters.iter().all(|counter| *counter >= 0)),
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

/// What is wrong with how often a business fact stands, once everything has come to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactViolation {
    /// P1: it stands too seldom.
    Lost,
    /// P2: it stands too often.
    Doubled,
    /// It stands although nobody sent it.
    Unexpected,
}

/// What is wrong with a fact that stands so often. `expected` begins at zero where no delivery of it was acknowledged, or
/// where a record owes it or keeps it for an operator. It ends at one, and one more for each second effect that an operator
/// asked for; it ends at zero where nobody sent the fact.
pub fn fact_violation<Count: Ord + Default>(stands: &Count, expected: &RangeInclusive<Count>) -> Option<FactViolation> {
    if stands < expected.start() {
        Some(FactViolation::Lost)
    } else if stands <= expected.end() {
        None
    } else if *expected.end() == Count::default() {
        Some(FactViolation::Unexpected)
    } else {
        Some(FactViolation::Doubled)
    }
}

/// A step of a record that this protocol never makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum IllegalStep {
    /// A8: another claim, or an earlier generation.
    #[error("its claim changed although it existed, or its generation fell")]
    Identity,
    /// The state machine has no such edge.
    #[error("the state machine has no such edge")]
    Edge,
    /// A1: the payload stays as it was claimed.
    #[error("its body changed")]
    Body,
    /// Failures are forgotten only by a retry or a force, which begin at zero.
    #[error("its attempts fell, and not by a retry or a force")]
    Attempts,
}

/// What is wrong with the step that one write made, `None` for a step of the state machine.
///
/// | from | to | by |
/// |---|---|---|
/// | no record | PENDING, generation 0 | a claim |
/// | no record | DEAD, generation 0 | a claim that came too late or as a dead letter; another body that is kept |
/// | PENDING | PENDING, same generation | a counted failure, a re-arm, a new due time, a dead letter, a retry |
/// | PENDING | PROCESSED, same generation | a commit, or a mark without an effect of its own |
/// | PENDING | DEAD, same generation | too many failures, a permanent one, age, dead letters |
/// | DEAD | PENDING, same generation | a retry |
/// | DEAD | DISCARDED, same generation | a discard |
/// | PROCESSED | PENDING, next generation | a force |
/// | any | the same status, generation, outcome and dead reason | a counted duplicate |
///
/// No other edge exists. A record goes away only by its TTL, which is no write.
pub fn illegal_step(before: Option<&Record>, after: &Record) -> Option<IllegalStep> {
    let Some(before) = before else {
        let claimed = after.generation == 0 && matches!(after.status, Status::Pending | Status::Dead);
        return (!claimed).then_some(IllegalStep::Edge);
    };
    let begins_anew = after.attempts == 0 && after.resends == 0;
    let rules = [
        (IllegalStep::Identity, before.claim_id == after.claim_id && before.generation <= after.generation),
        (IllegalStep::Edge, is_edge(before, after)),
        (IllegalStep::Body, before.body == after.body),
        (IllegalStep::Attempts, before.attempts <= after.attempts || begins_anew),
    ];
    rules.into_iter().find_map(|(illegal, holds)| (!holds).then_some(illegal))
}

fn is_edge(before: &Record, after: &Record) -> bool {
    let same_generation = before.generation == after.generation;
    match (before.status, after.status) {
        (Status::Pending, Status::Pending | Status::Processed | Status::Dead)
        | (Status::Dead, Status::Pending | Status::Discarded)
        | (Status::Discarded, Status::Discarded) => same_generation,
        (Status::Processed, Status::Processed) => same_generation && before.outcome == after.outcome,
        (Status::Dead, Status::Dead) => same_generation && before.dead_reason == after.dead_reason,
        (Status::Processed, Status::Pending) => after.generation == before.generation + 1,
        (Status::Pending, Status::Discarded)
        | (Status::Processed, Status::Dead | Status::Discarded)
        | (Status::Dead, Status::Processed)
        | (Status::Discarded, Status::Pending | Status::Processed | Status::Dead) => false,
    }
}
