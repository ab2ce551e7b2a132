//! Invariants of every stored record, of every step of a record, and of every fact in the end. Tests, proofs and audits
//! run these checks.

use std::ops::RangeInclusive;

use crate::item::{Item, PARTITION_KEY, Value};
use crate::key::{DOMAIN_KEY_PREFIX, RecordKind};
use crate::record::{DEAD_LIST, EFFECT_LIST, Outcome, PENDING_LIST, Record, Status};
use crate::timing::Timing;

/// A stored record that this protocol cannot have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum RecordViolation {
    /// A1, A4: a record that owes its effect must still have its payload.
    #[error("a PENDING or DEAD record has no body")]
    BodyMissing,
    /// A5: only a DEAD record never expires.
    #[error("a DEAD record has an expiry, or another record has none")]
    Expiry,
    /// A6: only PENDING and DEAD records are in the index, each under its own prefix.
    #[error("a record's entry in the due index does not match its status")]
    DueEntry,
    /// A3: a processed record has an outcome.
    #[error("a PROCESSED record has no outcome")]
    OutcomeMissing,
    /// A4: a DEAD record has a reason.
    #[error("a DEAD record has no reason")]
    ReasonMissing,
    /// Counters are never negative.
    #[error("a counter is negative")]
    NegativeCounter,
}

/// Returns all violations of a record.
pub fn violations(record: &Record, timing: &Timing) -> Vec<RecordViolation> {
    let owed = matches!(record.status, Status::Pending | Status::Dead);
    let dead = record.status == Status::Dead;
    let processed = record.status == Status::Processed;
    let Record { generation, retries, attempts, resends, dead_letters, duplicate_count, .. } = record;
    let counters = [generation, retries, attempts, resends, dead_letters, duplicate_count];
    let rules = [
        (RecordViolation::BodyMissing, !owed || record.body.is_some()),
        (RecordViolation::Expiry, record.expires_at.is_none() == dead),
        (RecordViolation::DueEntry, is_listed(record, timing)),
        (RecordViolation::OutcomeMissing, !processed || record.outcome.is_some()),
        (RecordViolation::ReasonMissing, !dead || record.dead_reason.is_some()),
        (RecordViolation::NegativeCounter, counters.iter().all(|counter| **counter >= 0)),
    ];
    rules.into_iter().filter_map(|(violation, holds)| (!holds).then_some(violation)).collect()
}

/// Whether the record is in the list of its status and no other, in a shard that is read. The number of shards may have
/// grown since it was written.
fn is_listed(record: &Record, timing: &Timing) -> bool {
    let list = match record.status {
        Status::Pending if record.key.kind() == RecordKind::Effect => EFFECT_LIST,
        Status::Pending => PENDING_LIST,
        Status::Dead => DEAD_LIST,
        Status::Processed | Status::Discarded => return record.due.is_none(),
    };
    let shard = record.due.as_ref().and_then(|due| due.shard.strip_prefix(list)?.parse::<u16>().ok());
    shard.is_some_and(|shard| shard < timing.shards_read)
}

/// A wrong number of effects of a business fact, once all processing has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactViolation {
    /// P1: it was applied too few times.
    Lost,
    /// P2: it was applied too many times.
    Doubled,
    /// It was applied although nobody sent it.
    Unexpected,
}

/// Checks how often a fact was applied. The range `expected` starts at zero if no delivery of the fact was
/// acknowledged, or if a record owes it or keeps it for an operator; otherwise it starts at one. It ends at one, plus
/// one for each second effect that an operator asked for. It ends at zero if nobody sent the fact.
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

/// What an effect leaves behind, for a check of the tables: it adds one to a counter, and leaves one trace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// A part of the key of each counter's item.
    pub counter: &'static str,
    /// The attribute that counts.
    pub attribute: &'static str,
    /// A part of the key of each trace.
    pub trace: &'static str,
    /// Whether the traces are domain keys. Otherwise they are items.
    pub by_domain_key: bool,
}

/// How many effects the counters hold beyond those that left a trace: a trace is written once, so an effect that was
/// applied twice shows in the counter alone.
pub fn surplus_effects(domain: &[&Item], counted: &[Counted]) -> usize {
    let named = |part: &'static str, by_domain_key: bool| {
        domain.iter().filter(move |item| {
            let key = item.get(PARTITION_KEY).and_then(Value::as_text).unwrap_or_default();
            key.starts_with(DOMAIN_KEY_PREFIX) == by_domain_key && key.contains(part)
        })
    };
    let surplus = |one: &Counted| {
        let count: i64 = named(one.counter, false).filter_map(|item| item.get(one.attribute)?.as_i64()).sum();
        usize::try_from(count).unwrap_or(0).saturating_sub(named(one.trace, one.by_domain_key).count())
    };
    counted.iter().map(surplus).sum()
}

/// A step of a record that this protocol never takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum IllegalStep {
    /// A8: the claim changed, or the generation or the retries fell.
    #[error("the claim of an existing record changed, or its generation or its retries fell")]
    Identity,
    /// The state machine has no such edge.
    #[error("the state machine has no such edge")]
    Edge,
    /// A1: the payload never changes after the claim, and only a settled record can lose it.
    #[error("its body changed")]
    Body,
    /// Only a retry or a force resets the failures, to zero.
    #[error("its attempts fell without a retry or a force")]
    Attempts,
}

/// Checks the step of one write. `None` if the state machine has this step.
///
/// | from | to | by |
/// |---|---|---|
/// | no record | PENDING, generation 0 | a claim |
/// | no record | DEAD, generation 0 | a claim that came too late or as a dead letter; another body that is kept |
/// | PENDING | PENDING, same generation | a counted failure, a re-arm, a new due time, a dead letter |
/// | PENDING | PENDING, same generation, one retry more | a retry |
/// | PENDING | PROCESSED, same generation | a commit, or a mark without an effect of its own |
/// | PENDING | DEAD, same generation | too many failures, a permanent one, age, dead letters |
/// | DEAD | PENDING, same generation, one retry more | a retry |
/// | DEAD | DISCARDED, same generation | a discard |
/// | PROCESSED as IGNORED | PENDING, same generation, one retry more | a retry |
/// | PROCESSED otherwise | PENDING, next generation | a force |
/// | PROCESSED, DISCARDED | the same, without the body | a redaction |
/// | any | the same status, generation, outcome and dead reason | a counted duplicate |
///
/// There is no other edge. A record only disappears by its TTL, which is not a write.
pub fn illegal_step(before: Option<&Record>, after: &Record) -> Option<IllegalStep> {
    let Some(before) = before else {
        let claimed = after.generation == 0 && matches!(after.status, Status::Pending | Status::Dead);
        return (!claimed).then_some(IllegalStep::Edge);
    };
    let begins_anew = after.attempts == 0 && after.resends == 0;
    let rules = [
        (
            IllegalStep::Identity,
            before.claim_id == after.claim_id
                && before.generation <= after.generation
                && before.retries <= after.retries,
        ),
        (IllegalStep::Edge, is_edge(before, after)),
        (IllegalStep::Body, before.body == after.body || is_redaction(before, after)),
        (IllegalStep::Attempts, before.attempts <= after.attempts || begins_anew),
    ];
    rules.into_iter().find_map(|(illegal, holds)| (!holds).then_some(illegal))
}

/// An operator erased the body of a record that will not run again.
fn is_redaction(before: &Record, after: &Record) -> bool {
    let settled = matches!(before.status, Status::Processed | Status::Discarded);
    settled && before.status == after.status && after.body.is_none()
}

fn is_edge(before: &Record, after: &Record) -> bool {
    let same_generation = before.generation == after.generation;
    let same = same_generation && before.retries == after.retries;
    let retried = same_generation && after.retries == before.retries + 1;
    let forced = after.generation == before.generation + 1 && before.retries == after.retries;
    match (before.status, after.status) {
        (Status::Pending, Status::Pending) => same || retried,
        (Status::Pending, Status::Processed | Status::Dead) | (Status::Dead | Status::Discarded, Status::Discarded) => {
            same
        }
        (Status::Dead, Status::Pending) => retried,
        (Status::Processed, Status::Processed) => same && before.outcome == after.outcome,
        (Status::Dead, Status::Dead) => same && before.dead_reason == after.dead_reason,
        (Status::Processed, Status::Pending) => match before.outcome {
            Some(Outcome::Ignored) => retried,
            // An effect is done once. Its event can be forced.
            Some(Outcome::Delivered) => false,
            Some(Outcome::Applied | Outcome::Duplicate | Outcome::FannedOut) | None => forced,
        },
        (Status::Pending, Status::Discarded)
        | (Status::Processed, Status::Dead | Status::Discarded)
        | (Status::Dead, Status::Processed)
        | (Status::Discarded, Status::Pending | Status::Processed | Status::Dead) => false,
    }
}
