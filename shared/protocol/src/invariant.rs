//! Invariants of every stored record, of every step of a record, and of every fact in the end. Tests, proofs and audits
//! run these checks.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::item::{Item, PARTITION_KEY, Value};
use crate::key::{AppliedFact, DOMAIN_KEY_PREFIX, RecordKind};
use crate::record::{
    DEAD_LIST, DeadReason, EFFECT_LIST, EffectPart, Outcome, PENDING_LIST, Record, Status, WAITING_LIST,
};
use crate::time::{EpochMs, Millis};
use crate::timing::Timing;

/// A stored record that this protocol cannot have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum RecordViolation {
    /// A1, A4: a record that still has to be applied must have its payload.
    #[error("a PENDING or DEAD record has no body")]
    BodyMissing,
    /// A1: an erasure of an event must not leave its bytes in the batches that it came in.
    #[error("a FANNED_OUT record still has its body")]
    BodyKept,
    /// A5: only a DEAD record never expires.
    #[error("a DEAD record has an expiry, or another record has none")]
    Expiry,
    /// A5: a PENDING record expires only if the relay does not run for a whole retention.
    #[error("a PENDING record expires sooner than its retention says")]
    ExpiresEarly,
    /// A6: only PENDING and DEAD records are in the index, each under its own prefix.
    #[error("a record's entry in the due index does not match its status")]
    DueEntry,
    /// A3: a processed record has an outcome.
    #[error("a PROCESSED record has no outcome")]
    OutcomeMissing,
    /// A4: a DEAD record has a reason.
    #[error("a DEAD record has no reason")]
    ReasonMissing,
    /// Only a PENDING record waits for its next attempt.
    #[error("a record that is not PENDING has a pause")]
    Pause,
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
        (RecordViolation::BodyKept, record.outcome != Some(Outcome::FannedOut) || record.body.is_none()),
        (RecordViolation::Expiry, record.expires_at.is_none() == dead),
        (RecordViolation::ExpiresEarly, is_kept(record, timing)),
        (RecordViolation::DueEntry, is_listed(record, timing)),
        (RecordViolation::OutcomeMissing, !processed || record.outcome.is_some()),
        (RecordViolation::ReasonMissing, !dead || record.dead_reason.is_some()),
        (RecordViolation::Pause, record.status == Status::Pending || record.not_before.is_none()),
        (RecordViolation::NegativeCounter, counters.iter().all(|counter| **counter >= 0)),
    ];
    rules.into_iter().filter_map(|(violation, holds)| (!holds).then_some(violation)).collect()
}

/// Whether a PENDING record is kept for its whole retention, counted from its receipt. A write that renews the expiry
/// counts from its own moment, which two clocks may put a little before the receipt. The due time does not matter: if
/// the relay does not run, a worker may move it beyond the expiry.
fn is_kept(record: &Record, timing: &Timing) -> bool {
    let (Status::Pending, Some(expires_at)) = (record.status, record.expires_at) else { return true };
    let earliest = timing.expiry(record.key.kind(), record.received_at.plus(Millis(-timing.clock_skew_max.0)));
    earliest <= expires_at
}

/// Whether the record is in the list of its status and no other, in a shard that is read.
fn is_listed(record: &Record, timing: &Timing) -> bool {
    let list = match record.status {
        Status::Pending if record.key.kind() == RecordKind::Effect => EFFECT_LIST,
        Status::Pending if record.waits_since.is_some() => WAITING_LIST,
        Status::Pending => PENDING_LIST,
        Status::Dead => DEAD_LIST,
        Status::Processed | Status::Discarded => return record.due.is_none(),
    };
    let shard = record.due.as_ref().and_then(|due| due.shard.strip_prefix(list)?.parse::<u16>().ok());
    shard.is_some_and(|shard| shard < timing.shards)
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
/// one for each second run that an operator asked for. It ends at zero if nobody sent the fact.
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

/// What the domain table holds of the facts that should be applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactCount<'a> {
    /// Expected facts that have a domain key, each as often as it is expected.
    pub applied: usize,
    /// Expected facts without a domain key, less one for each record that excuses one.
    pub lost: usize,
    /// Facts that stand more often than expected.
    pub doubled: usize,
    /// Facts that nobody expects.
    pub unexpected: Vec<&'a str>,
}

impl<'a> FactCount<'a> {
    /// Compares the domain keys with the facts that should be applied, each as `tenant#consumer#fact`. A fact that is
    /// named twice should be applied twice, because an operator forced it. A record that is kept DEAD excuses one fact
    /// that does not stand, and so does a PENDING one as long as it may still run.
    pub fn of(
        domain: impl IntoIterator<Item = &'a Item>,
        expected: impl IntoIterator<Item = &'a str>,
        excusing: usize,
    ) -> Self {
        let mut facts = BTreeMap::<_, (usize, usize)>::new();
        for applied in domain.into_iter().filter_map(AppliedFact::of) {
            facts.entry(applied.fact).or_default().0 += 1;
        }
        for fact in expected {
            facts.entry(fact).or_default().1 += 1;
        }
        let mut count = Self::default();
        for (fact, (stands, wanted)) in facts {
            count.applied += stands.min(wanted);
            match fact_violation(&stands, &(wanted..=wanted)) {
                Some(FactViolation::Lost) => count.lost += wanted - stands,
                Some(FactViolation::Doubled) => count.doubled += stands - wanted,
                Some(FactViolation::Unexpected) => count.unexpected.push(fact),
                None => {}
            }
        }
        Self { lost: count.lost.saturating_sub(excusing), ..count }
    }
}

/// What a change leaves behind, for a check of the tables: it adds one to a counter, and leaves one trace of its own.
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

/// How many changes the counters hold beyond those that left a trace: a trace is written once, so a change that was made
/// twice shows in the counter alone.
pub fn surplus_changes(domain: &[&Item], counted: &[Counted]) -> usize {
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
    /// A8: what the claim says changed, or the generation or the retries fell.
    #[error("the claim of an existing record changed, or its generation or its retries fell")]
    Identity,
    /// The state machine has no such edge.
    #[error("the state machine has no such edge")]
    Edge,
    /// A1: the payload never changes after the claim. A settled record can lose it, and a closed envelope does.
    #[error("its body changed")]
    Body,
    /// Between two counted failures, or two calls of an effect, lies the pause that the first one drew and noted.
    #[error("it was tried again before its pause was over, or the pause was cut short")]
    Pause,
    /// Only a retry or a force resets the failures, to zero.
    #[error("its attempts fell without a retry or a force")]
    Attempts,
}

/// Checks the step of one write. `None` if the state machine has this step.
///
/// | from | to | by |
/// |---|---|---|
/// | no record | PENDING, generation 0 | a claim |
/// | no record | DEAD as STALE or `ID_COLLISION`, generation 0 | a claim that came too late; another body that is kept |
/// | PENDING | PENDING, same generation | a counted failure, a re-arm, a new due time, a dead letter, a guard |
/// | PENDING | PENDING, same generation, one retry more | a retry |
/// | PENDING | PROCESSED, same generation; an effect as DELIVERED, and nothing else so | a commit, or a mark without an effect of its own; a settled effect |
/// | PENDING | DEAD, same generation; an effect that may be done as `UNKNOWN_OUTCOME` | too many failures, a permanent one, age, dead letters, its own domain key, a doubt |
/// | DEAD, PROCESSED as IGNORED | DEAD, same generation, as STALE; an effect as `UNKNOWN_OUTCOME` | a doubt |
/// | DEAD | PENDING, same generation, one retry more; accepted, if it may be applied | a retry |
/// | DEAD as REWOUND | PENDING, next generation | a force |
/// | DEAD | DISCARDED, same generation | a discard |
/// | PROCESSED as IGNORED | PENDING, same generation, one retry more | a retry |
/// | PROCESSED as APPLIED or DUPLICATE | PENDING, next generation | a force |
/// | PENDING | PROCESSED as `FANNED_OUT`, without the body | the close of an envelope |
/// | PROCESSED, DISCARDED | the same, without the body | a redaction |
/// | any | the same status, generation, outcome and dead reason | a counted duplicate |
///
/// A retry and a force start over: without failures, sends, outcome and dead reason. There is no other edge. A record
/// only disappears by its TTL, which is not a write.
pub fn illegal_step(before: Option<&Record>, after: &Record) -> Option<IllegalStep> {
    let Some(before) = before else { return (!is_claim(after)).then_some(IllegalStep::Edge) };
    let brought_back = before.generation < after.generation || before.retries < after.retries;
    let rules = [
        (IllegalStep::Identity, is_same(before, after)),
        (IllegalStep::Edge, is_edge(before, after)),
        (IllegalStep::Body, before.body == after.body || is_erased(before, after)),
        (IllegalStep::Pause, brought_back || keeps_pause(before, after)),
        (IllegalStep::Attempts, brought_back || before.attempts <= after.attempts),
    ];
    rules.into_iter().find_map(|(illegal, holds)| (!holds).then_some(illegal))
}

/// Whether no attempt fell into the pause, and nothing but an operator cut it short. Each process judges by its own
/// clock, and so does this.
fn keeps_pause(before: &Record, after: &Record) -> bool {
    let counted = after.failures.last().filter(|_| before.attempts < after.attempts).map(|failed| failed.at);
    let pass = |record: &Record| record.effect.as_ref().and_then(|effect| effect.pass.clone());
    let (had, has) = (pass(before), pass(after));
    let waits = before.attempts < after.attempts || had.is_some() && has.is_none();
    let called = has.filter(|now| had.is_none_or(|earlier| earlier.id != now.id)).map(|pass| pass.at);
    let in_time = |at: EpochMs| before.not_before.is_none_or(|pause| pause <= at);
    let noted = after.not_before >= before.not_before && (!waits || after.not_before.is_some());
    counted.into_iter().chain(called).all(in_time) && (after.status != Status::Pending || noted)
}

/// A new record: nobody has worked on it, and it dies at once only as a claim can.
fn is_claim(record: &Record) -> bool {
    let untouched = [record.generation, record.retries, record.attempts, record.resends] == [0; 4];
    untouched
        && record.outcome.is_none()
        && match record.status {
            Status::Pending => record.dead_reason.is_none(),
            Status::Dead => matches!(record.dead_reason, Some(DeadReason::Stale | DeadReason::IdCollision)),
            Status::Processed | Status::Discarded => false,
        }
}

/// What a claim says never changes, and what a person did or accepted is never undone.
fn is_same(before: &Record, after: &Record) -> bool {
    (&before.key, &before.claim_id, &before.tenant, &before.parent)
        == (&after.key, &after.claim_id, &after.tenant, &after.parent)
        && (before.received_at, before.body_sha256) == (after.received_at, after.body_sha256)
        && before.generation <= after.generation
        && before.retries <= after.retries
        && before.accept_duplicate <= after.accept_duplicate
}

/// The record will not run again: an operator erased its body, or it is a closed envelope.
fn is_erased(before: &Record, after: &Record) -> bool {
    let settled = matches!(before.status, Status::Processed | Status::Discarded) && before.status == after.status;
    let closed = before.status == Status::Pending && after.outcome == Some(Outcome::FannedOut);
    after.body.is_none() && (settled || closed)
}

fn is_edge(before: &Record, after: &Record) -> bool {
    let same_generation = before.generation == after.generation;
    let same = same_generation && before.retries == after.retries && key_epoch(before) == key_epoch(after);
    let anew = after.attempts == 0 && after.resends == 0 && after.outcome.is_none() && after.dead_reason.is_none();
    // After a refusal, which was certain, the next call has another key.
    let epochs = i64::from(before.effect.is_some() && before.dead_reason == Some(DeadReason::Refused));
    let retried = same_generation
        && after.retries == before.retries + 1
        && key_epoch(after) == key_epoch(before) + epochs
        && anew;
    let forced = after.generation == before.generation + 1 && before.retries == after.retries && anew;
    let unknown = if before.effect.is_some() { DeadReason::UnknownOutcome } else { DeadReason::Stale };
    let doubted = before.is_doubtable()
        && same_generation
        && before.retries == after.retries
        && key_epoch(after) == key_epoch(before) + epochs
        && after.outcome.is_none()
        && after.dead_reason == Some(unknown);
    match (before.status, after.status) {
        (Status::Pending, Status::Pending) => {
            (same && after.outcome.is_none() && after.dead_reason.is_none()) || retried
        }
        (Status::Pending, Status::Processed) => {
            same && (after.outcome == Some(Outcome::Delivered)) == before.effect.is_some()
        }
        (Status::Pending, Status::Dead) => same && is_death(before, after),
        (Status::Dead | Status::Discarded, Status::Discarded) => same,
        (Status::Dead, Status::Pending) if before.dead_reason == Some(DeadReason::Rewound) => {
            forced && before.effect.is_none()
        }
        (Status::Dead, Status::Pending) => retried && (after.accept_duplicate || !before.outcome_unknown()),
        (Status::Processed, Status::Processed) => same && before.outcome == after.outcome,
        (Status::Dead, Status::Dead) => (same && before.dead_reason == after.dead_reason) || doubted,
        (Status::Processed, Status::Dead) => doubted,
        (Status::Processed, Status::Pending) => match before.outcome {
            Some(Outcome::Ignored) => retried,
            Some(Outcome::Applied | Outcome::Duplicate) => forced,
            // An effect is done once, and an envelope has none of its own. The event can be forced.
            Some(Outcome::Delivered | Outcome::FannedOut) | None => false,
        },
        (Status::Pending | Status::Processed, Status::Discarded)
        | (Status::Dead, Status::Processed)
        | (Status::Discarded, Status::Pending | Status::Processed | Status::Dead) => false,
    }
}

/// Whether a PENDING record can die so. STALE and `DEAD_LETTER` say of an effect that nobody has called its callee.
fn is_death(before: &Record, after: &Record) -> bool {
    let called = |effect: &EffectPart| effect.first_call_at.is_some() || before.accept_duplicate;
    match (after.dead_reason, &before.effect) {
        (Some(DeadReason::Stale | DeadReason::DeadLetter), effect) => !effect.as_deref().is_some_and(called),
        (Some(DeadReason::AttemptsExhausted), _) => true,
        (Some(DeadReason::Permanent | DeadReason::Rewound), effect) => effect.is_none(),
        (Some(DeadReason::UnknownOutcome | DeadReason::Refused), effect) => effect.is_some(),
        (Some(DeadReason::IdCollision) | None, _) => false,
    }
}

/// How often the key of an effect was replaced.
fn key_epoch(record: &Record) -> i64 {
    record.effect.as_ref().map_or(0, |effect| effect.key_epoch)
}
