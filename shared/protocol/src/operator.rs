//! Operator actions on a record. Each is one guarded write and sends nothing. The relay sends, within its budget.

use crate::item::Value;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Due, Record, Status, attribute, equals, remove, set};
use crate::timing::{Moment, Timing};
use crate::write::{Action, Change, Clause, Condition, Table, Write};

/// Why an operator's action is refused. The text says what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// A retry needs a record that still owes its effect.
    #[error("only PENDING and DEAD records can be retried; a PROCESSED one can be forced")]
    NotRetryable,
    /// A force needs a record whose effect was applied.
    #[error("only PROCESSED records can be forced; retry a PENDING or DEAD one instead, so that it takes effect once")]
    NotForceable,
    /// A discard needs a DEAD record.
    #[error("only DEAD records can be discarded")]
    NotDiscardable,
    /// The effect may already have been applied.
    #[error("its effect may already have been applied; check the business data, then retry it with accept_duplicate")]
    EffectUnknown,
    /// Without the payload, nothing can run again.
    #[error("its payload is gone")]
    NoBody,
}

/// Lets a PENDING or DEAD record run again in the same generation.
///
/// # Errors
/// [`Refusal`] when the record's state does not allow it, or when its effect may already have been applied and
/// `accept_duplicate` is not set.
pub fn retry(record: &Record, accept_duplicate: bool, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
    let unknown = record.dead_reason.is_some_and(DeadReason::effect_unknown);
    match record.status {
        Status::Processed | Status::Discarded => return Err(Refusal::NotRetryable),
        Status::Dead if unknown && !accept_duplicate => return Err(Refusal::EffectUnknown),
        Status::Dead | Status::Pending => {}
    }
    if record.body.is_none() {
        return Err(Refusal::NoBody);
    }
    let mut changes = rearmed(record, timing, moment);
    changes.extend([remove(attribute::DEAD_AT), remove(attribute::DEAD_REASON), remove(attribute::DEAD_LETTERS)]);
    if accept_duplicate {
        changes.push(set(attribute::ACCEPT_DUPLICATE, Value::Flag(true)));
    }
    let waiting = [Status::Pending, Status::Dead].map(|status| Value::from(status.as_str())).to_vec();
    let condition = Condition(vec![
        Clause::OneOf(attribute::STATUS.into(), waiting),
        equals(attribute::CLAIM_ID, record.claim_id.0.as_str()),
        equals(attribute::GENERATION, record.generation),
        Clause::Present(attribute::BODY.into()),
    ]);
    Ok(update(record, Purpose::Retry, changes, condition))
}

/// Lets a PROCESSED record take effect once more, in a new generation. A second force of the same generation fails.
///
/// # Errors
/// [`Refusal`] when the record is not PROCESSED, or its payload is gone.
pub fn force(record: &Record, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
    match record.status {
        Status::Pending | Status::Dead | Status::Discarded => return Err(Refusal::NotForceable),
        Status::Processed if record.body.is_none() => return Err(Refusal::NoBody),
        Status::Processed => {}
    }
    let mut changes = rearmed(record, timing, moment);
    changes.push(set(attribute::GENERATION, record.generation + 1));
    changes.push(set(attribute::ACCEPT_DUPLICATE, Value::Flag(true)));
    changes.extend([remove(attribute::OUTCOME), remove(attribute::PROCESSED_AT), remove(attribute::DEAD_LETTERS)]);
    let condition = record.guard().condition([Clause::Present(attribute::BODY.into())]);
    Ok(update(record, Purpose::Force, changes, condition))
}

/// Discards a DEAD record. It then expires like a processed one.
///
/// # Errors
/// [`Refusal`] when the record is not DEAD.
pub fn discard(record: &Record, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
    if record.status != Status::Dead {
        return Err(Refusal::NotDiscardable);
    }
    let changes = vec![
        set(attribute::STATUS, Status::Discarded.as_str()),
        set(attribute::DISCARDED_AT, moment.now.0),
        set(attribute::EXPIRES_AT, timing.expiry(record.key.kind(), moment.now).0),
        remove(attribute::DUE_SHARD),
        remove(attribute::DUE_AT),
    ];
    Ok(update(record, Purpose::Discard, changes, record.guard().condition([])))
}

fn rearmed(record: &Record, timing: &Timing, moment: Moment) -> Vec<Change> {
    let due = Due::pending(&record.key, timing.shards, moment.now);
    vec![
        set(attribute::STATUS, Status::Pending.as_str()),
        set(attribute::ATTEMPTS, 0),
        set(attribute::RESENDS, 0),
        set(attribute::DUE_SHARD, due.shard),
        set(attribute::DUE_AT, due.at.0),
        set(attribute::EXPIRES_AT, timing.expiry(record.key.kind(), moment.now).0),
    ]
}

fn update(record: &Record, purpose: Purpose, changes: Vec<Change>, condition: Condition) -> Write {
    let key = record.key.as_str().to_owned();
    Write { purpose, table: Table::Inbox, key, action: Action::Update(changes), condition }
}
