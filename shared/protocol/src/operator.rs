//! Operator actions on a record. Each is one guarded write and sends nothing. The relay sends, within its budget.
//! [`carry_out`] adds the entry of the audit trail.

use crate::call::{CancellationReason, Committed};
use crate::item::Value;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Due, Outcome, Record, Status, attribute, equals, remove, set};
use crate::timing::{Moment, Timing};
use crate::trail::{Entry, Operation, Trail};
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
    /// Another body came under the id of a first one.
    #[error(
        "somebody else may have written this body or the first one; compare both, then name the record by its key and \
         retry it with accept_other_body"
    )]
    OtherBody,
    /// Without the payload, nothing can run again.
    #[error("its payload is gone")]
    NoBody,
    /// The body of a record that may still run is needed.
    #[error("only PROCESSED and DISCARDED records can be redacted; let a PENDING one end, discard a DEAD one first")]
    NotRedactable,
    /// An envelope has no effect of its own, and its events have records of their own.
    #[error("an envelope has no effect of its own; force its events instead, which `hookonce show` lists")]
    Envelope,
    /// The same force, for the same reason, was carried out before.
    #[error("it was forced for this reason before; give another --reason to force it once more")]
    ForcedBefore,
}

/// What an operator asks for, of one record or of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What to do.
    pub operation: Operation,
    /// Whether the operator accepts that a retry may apply the effect twice.
    pub accept_duplicate: bool,
    /// Whether the operator has looked at the quarantined body and accepts that it runs.
    pub accept_other_body: bool,
    /// Who asks.
    pub by: String,
    /// Why. May be empty for a retry.
    pub reason: String,
}

impl Order {
    /// Whether it needs a reason: whatever may repeat an effect or apply a forged one, or ends what cannot be brought back.
    pub fn needs_reason(&self) -> bool {
        self.accept_duplicate || self.accept_other_body || self.operation != Operation::Retry
    }

    /// The write that the order makes of this record.
    ///
    /// # Errors
    /// [`Refusal`] when the record's state or its trail does not allow the order.
    pub fn write(&self, record: &Record, trail: &Trail, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
        let forced = |entry: &Entry| {
            entry.operation == Operation::Force.as_str()
                && entry.claim_id == record.claim_id
                && entry.reason == self.reason
        };
        let mut write = match self.operation {
            Operation::Retry if is_quarantined(record) && !self.accept_other_body => return Err(Refusal::OtherBody),
            Operation::Retry => retry(record, self.accept_duplicate, timing, moment)?,
            Operation::Force if record.outcome == Some(Outcome::FannedOut) => return Err(Refusal::Envelope),
            // A command that is repeated, because it was killed or clicked twice, must not force again.
            Operation::Force if trail.entries.iter().any(forced) => return Err(Refusal::ForcedBefore),
            Operation::Force => force(record, timing, moment)?,
            Operation::Discard => discard(record, timing, moment)?,
            Operation::Redact => redact(record)?,
        };
        write.condition.0.extend(as_seen(record));
        Ok(write)
    }
}

/// Whether a person must look at the body before it runs: it is not the first one under its id.
fn is_quarantined(record: &Record) -> bool {
    record.status == Status::Dead && record.dead_reason == Some(DeadReason::IdCollision)
}

/// What else tells the state that the operator saw from a later one of the same name: another death, another retry. If
/// somebody was first, the operator is told.
fn as_seen(record: &Record) -> Option<Clause> {
    match record.status {
        Status::Pending => record.due.as_ref().map(|due| equals(attribute::DUE_AT, due.at.0)),
        Status::Dead => record.dead_at.map(|at| equals(attribute::DEAD_AT, at.0)),
        Status::Processed | Status::Discarded => None,
    }
}

/// The transaction that carries out an order: the change of the record, and the entry of its trail. `id` identifies
/// this act.
///
/// # Errors
/// [`Refusal`] when the record's state or its trail does not allow the order.
pub fn carry_out(
    record: &Record,
    trail: &Trail,
    order: &Order,
    id: &str,
    timing: &Timing,
    moment: Moment,
) -> Result<Vec<Write>, Refusal> {
    let write = order.write(record, trail, timing, moment)?;
    let to = match order.operation {
        Operation::Retry | Operation::Force => Status::Pending,
        Operation::Discard => Status::Discarded,
        Operation::Redact => record.status,
    };
    let entry = Entry {
        id: id.to_owned(),
        claim_id: record.claim_id.clone(),
        at: moment.now,
        by: order.by.clone(),
        reason: order.reason.clone(),
        operation: order.operation.as_str().to_owned(),
        from: record.state_word().to_owned(),
        to: to.as_str().to_owned(),
        accept_duplicate: order.accept_duplicate,
        accept_other_body: order.accept_other_body,
    };
    Ok(vec![write, trail.add(record, entry, timing, moment)])
}

/// The result of an order's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was carried out.
    Done,
    /// The record or its trail is no longer as it was read. Nothing was written.
    Overtaken,
    /// Nothing was written. Trying again may succeed.
    Transient,
    /// The store can never carry it out.
    Invalid,
    /// It was carried out or not. The trail tells.
    Unknown,
}

impl From<Committed> for Verdict {
    fn from(committed: Committed) -> Self {
        match committed {
            Committed::Applied => Self::Done,
            Committed::Cancelled(reasons) if reasons.contains(&CancellationReason::ConditionFailed) => Self::Overtaken,
            Committed::Cancelled(reasons) if reasons.contains(&CancellationReason::Invalid) => Self::Invalid,
            Committed::Cancelled(_) => Self::Transient,
            Committed::Invalid => Self::Invalid,
            Committed::Unavailable => Self::Unknown,
        }
    }
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
    let condition = record.guard().condition([Clause::Present(attribute::BODY.into())]);
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

/// Erases the body of a record that needs it no more. The record, its hash and its dedup stay, so a re-delivery is still
/// a duplicate.
///
/// # Errors
/// [`Refusal`] when the record may still run, or its payload is gone already.
pub fn redact(record: &Record) -> Result<Write, Refusal> {
    match record.status {
        Status::Pending | Status::Dead => return Err(Refusal::NotRedactable),
        Status::Processed | Status::Discarded if record.body.is_none() => return Err(Refusal::NoBody),
        Status::Processed | Status::Discarded => {}
    }
    Ok(update(record, Purpose::Redact, vec![remove(attribute::BODY)], record.guard().condition([])))
}

fn rearmed(record: &Record, timing: &Timing, moment: Moment) -> Vec<Change> {
    let due = Due::pending(&record.key, timing.shards, moment.now);
    vec![
        remove(attribute::HANDLER_AWAY_SINCE),
        set(attribute::STATUS, Status::Pending.as_str()),
        set(attribute::ATTEMPTS, 0),
        set(attribute::RESENDS, 0),
        set(attribute::DUE_SHARD, due.shard),
        set(attribute::DUE_AT, due.at.0),
        set(attribute::EXPIRES_AT, timing.expiry(record.key.kind(), moment.now).0),
    ]
}

fn update(record: &Record, purpose: Purpose, changes: Vec<Change>, condition: Condition) -> Write {
    let key = record.key.as_str().into();
    Write { purpose, table: Table::Inbox, key, action: Action::Update(changes), condition }
}
