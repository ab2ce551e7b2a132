//! Operator actions on a record. Each is one guarded write and sends nothing. The relay sends, within its budget.
//! [`carry_out`] adds the entry of the audit trail, and [`Operator`] is the machine that does both.
//!
//! ```text
//! read the trail ─▶ commit: the record's change and the entry of its trail ─▶ done
//!   ▲                 ├─ conflict, throttling ─▶ wait ─┐
//!   └─────────────────┼────────────────────────────────┘ a few times
//!                     └─ anything else ─▶ read the trail: whether this act is in it
//! ```
//! The record is as it was shown to the operator, a moment or an hour ago. Its status, claim, generation and retries
//! tell whether it is still the same; if not, somebody was first, and the operator is told.

use crate::call::{Call, CancellationReason, Committed, Machine, Reply, Step, Unavailable};
use crate::item::Value;
use crate::key::RecordKey;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Due, Found, Outcome, Record, Status, attribute, encode_names, equals, remove, set};
use crate::time::Millis;
use crate::timing::{Moment, Timing};
use crate::trail::{Entry, Operation, Trail};
use crate::worker::death;
use crate::write::{Action, Change, Clause, Condition, Table, Write};

/// Why an operator's action is refused. The text says what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// A retry needs a record that was not applied yet.
    #[error("only PENDING, DEAD and IGNORED records can be retried; one that was applied can be forced")]
    NotRetryable,
    /// A force needs a record that was applied.
    #[error(
        "only records that were applied can be forced; replay a PENDING, DEAD or IGNORED one without --force, so that it is applied once"
    )]
    NotForceable,
    /// Its domain key says that it was applied, so a retry would only meet that once more.
    #[error(
        "it was applied before its table was restored to an earlier time; check the business data and the callees, then \
         discard it, or pass --force to apply it once more"
    )]
    Rewound,
    /// A discard needs a DEAD record.
    #[error("only DEAD records can be discarded")]
    NotDiscardable,
    /// It may already have been applied.
    #[error("it may already have been applied; check the business data, then pass --accept-duplicate")]
    OutcomeUnknown,
    /// Another body came under the id of a first one.
    #[error(
        "this body or the first one may be forged; compare both, then name this record with --key and pass \
         --accept-other-body"
    )]
    OtherBody,
    /// Without the payload, nothing can run again.
    #[error("its payload is gone")]
    NoBody,
    /// The body of a record that may still run is needed.
    #[error("only PROCESSED and DISCARDED records can be redacted; let a PENDING one end, discard a DEAD one first")]
    NotRedactable,
    /// Only what could run without an accepted duplicate can be doubted.
    #[error(
        "only PENDING, DEAD and IGNORED records can be doubted, and none that is kept for another doubt, or has lost its \
         payload"
    )]
    NotDoubtable,
    /// An envelope applies nothing itself, and its events have records of their own.
    #[error("an envelope applies nothing itself; force its events instead, which `hookonce show` lists")]
    Envelope,
    /// Only its event can be forced.
    #[error("an effect is done once; force its event instead, which sends all its effects once more")]
    Effect,
    /// A force while an effect of the last commit may still be done.
    #[error(
        "an effect of this event is still PENDING or DEAD: let it end, or discard it, before the event is forced; \
         `hookonce show` lists its effects"
    )]
    EffectOpen,
    /// The same force, for the same reason, was carried out before.
    #[error("it was forced for this reason before; give another --reason to force it once more")]
    ForcedBefore,
    /// An entry that is added rewrites the trail, and would drop what this release does not understand.
    #[error("a later release of hookonce wrote in its audit trail; use the command of that release")]
    LaterTrail,
}

/// What an operator asks for, of one record or of many.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    /// What to do.
    pub operation: Operation,
    /// Whether the operator accepts that a retry may apply the change twice.
    pub accept_duplicate: bool,
    /// Whether the operator has looked at the quarantined body and accepts that it runs.
    pub accept_other_body: bool,
    /// Who asks.
    pub by: String,
    /// Why. May be empty for a retry.
    pub reason: String,
}

impl Order {
    /// Whether it needs a reason: whatever may repeat an effect or apply a forged one, or ends what cannot be brought
    /// back.
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
        match self.operation {
            _ if trail.unread > 0 => Err(Refusal::LaterTrail),
            Operation::Retry if is_quarantined(record) && !self.accept_other_body => Err(Refusal::OtherBody),
            Operation::Retry => retry(record, self.accept_duplicate, timing, moment),
            Operation::Force if record.effect.is_some() => Err(Refusal::Effect),
            Operation::Force if record.outcome == Some(Outcome::FannedOut) => Err(Refusal::Envelope),
            // A command that is repeated, because it was killed or clicked twice, must not force again.
            Operation::Force if trail.entries.iter().any(forced) => Err(Refusal::ForcedBefore),
            Operation::Force => force(record, timing, moment),
            Operation::Discard => discard(record, timing, moment),
            Operation::Redact => redact(record),
            Operation::Doubt => doubt(record, timing, moment),
        }
    }
}

/// Whether a person must look at the body before it runs: it is not the first one under its id.
fn is_quarantined(record: &Record) -> bool {
    record.status == Status::Dead && record.dead_reason == Some(DeadReason::IdCollision)
}

/// The keys of what a redaction of an event erases with it, because it holds bytes of the event: its effects, those of
/// earlier generations, too, another body that came under its id, with the effects of that one, and what the event came
/// in. `read` is the event at first, then each record that these keys lead to.
pub fn redacted_with(event: &Record, read: &Record) -> Vec<RecordKey> {
    let is_event = read.key == event.key;
    if !is_event && read.key != event.key.alternate() {
        return Vec::new();
    }
    let mut keys = [read.effect_keys(), read.earlier_effect_keys()].concat();
    // The parent of an effect is its event, which a person who redacts one effect did not name.
    if is_event && event.effect.is_none() {
        keys.extend([Some(event.key.alternate()), event.parent.clone()].into_iter().flatten());
    }
    keys
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
        Operation::Retry | Operation::Force => Status::Pending.as_str(),
        Operation::Discard => Status::Discarded.as_str(),
        Operation::Redact => record.state_word(),
        Operation::Doubt => Status::Dead.as_str(),
    };
    let entry = Entry {
        id: id.to_owned(),
        claim_id: record.claim_id.clone(),
        at: moment.now,
        by: order.by.clone(),
        reason: order.reason.clone(),
        operation: order.operation.as_str().to_owned(),
        from: record.state_word().to_owned(),
        to: to.to_owned(),
        accept_duplicate: order.accept_duplicate,
        accept_other_body: order.accept_other_body,
    };
    Ok(vec![write, trail.add(record, entry, timing, moment)])
}

/// How often an order is tried when another transaction is in its way.
const TRIES_MAX: u8 = 4;

/// The result of an order on one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operated {
    /// It was carried out, and the trail says so.
    Done,
    /// The protocol refuses it. Nothing was written.
    Refused(Refusal),
    /// The record changed after it was read: another operator or the worker was first. Nothing was written.
    Overtaken,
    /// The store refuses the order for good, or other transactions on the record were in its way each time. Nothing was
    /// written. Other records are not concerned.
    Blocked,
    /// The store did not answer. The order was carried out or not; it is safe to repeat it.
    Unavailable,
}

/// The machine for one order on one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operator {
    record: Box<Record>,
    order: Order,
    id: String,
    timing: Timing,
    tries: u8,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    ReadingEffects { effects: usize },
    Reading,
    Committing,
    Pausing,
    Confirming { otherwise: Operated },
}

type OperatorStep = Step<Operator, Operated>;

impl Operator {
    /// Starts with the record as it was shown. `id` identifies this act in the trail, which so tells after a lost reply
    /// whether it was carried out.
    pub fn start(record: Record, order: Order, id: String, timing: Timing) -> OperatorStep {
        let machine = Self { record: Box::new(record), order, id, timing, tries: 0, state: State::Reading };
        let effects = machine.record.effect_keys();
        if machine.order.operation == Operation::Force && !effects.is_empty() {
            return machine.call(State::ReadingEffects { effects: effects.len() }, Call::ReadHeads(effects));
        }
        machine.read_trail(State::Reading)
    }

    /// Goes on if no effect of the last commit may still be done. This stays so until the force, and needs no
    /// condition: the force requires the generation whose effects these are, and a settled effect never becomes PENDING
    /// again.
    fn effects_read(self, found: Vec<Result<Found, Unavailable>>) -> OperatorStep {
        for found in found {
            match found {
                Err(Unavailable) | Ok(Found::Unreadable(_)) => return Step::done(Operated::Unavailable),
                Ok(Found::Record(effect)) if effect.may_run() => {
                    return Step::done(Operated::Refused(Refusal::EffectOpen));
                }
                Ok(Found::Record(_) | Found::Nothing) => {}
            }
        }
        self.read_trail(State::Reading)
    }

    fn key(&self) -> RecordKey {
        self.record.key.clone()
    }

    fn call(mut self, state: State, call: Call) -> OperatorStep {
        self.state = state;
        Step::call(self, call)
    }

    fn read_trail(self, state: State) -> OperatorStep {
        let call = Call::ReadTrail(self.key());
        self.call(state, call)
    }

    fn commit(self, trail: &Trail, moment: Moment) -> OperatorStep {
        if trail.has(&self.id) {
            return Step::done(Operated::Done);
        }
        match carry_out(&self.record, trail, &self.order, &self.id, &self.timing, moment) {
            Ok(writes) => self.call(State::Committing, Call::Commit(writes)),
            Err(refusal) => Step::done(Operated::Refused(refusal)),
        }
    }

    fn committed(self, committed: &Committed, moment: Moment) -> OperatorStep {
        let otherwise = match committed {
            Committed::Applied => return Step::done(Operated::Done),
            Committed::Cancelled(reasons) if reasons.iter().any(|reason| reason.is_failed_condition()) => {
                Operated::Overtaken
            }
            Committed::Cancelled(reasons) if reasons.contains(&CancellationReason::Invalid) => Operated::Blocked,
            Committed::Cancelled(_) => return self.pause(moment),
            Committed::Invalid => Operated::Blocked,
            Committed::Denied | Committed::Unavailable => Operated::Unavailable,
        };
        self.read_trail(State::Confirming { otherwise })
    }

    fn pause(mut self, moment: Moment) -> OperatorStep {
        let wait = moment.uniform(Millis(100 << self.tries));
        self.tries += 1;
        if self.tries >= TRIES_MAX {
            return Step::done(Operated::Blocked);
        }
        self.call(State::Pausing, Call::Wait(wait))
    }
}

impl Machine for Operator {
    type Output = Operated;

    fn step(mut self, reply: Reply, moment: Moment) -> OperatorStep {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::ReadingEffects { effects } => {
                let found = reply.read_heads(effects);
                self.effects_read(found)
            }
            State::Reading => match reply.trail() {
                Ok(trail) => self.commit(&trail, moment),
                Err(_) => Step::done(Operated::Unavailable),
            },
            State::Committing => self.committed(&reply.committed(), moment),
            State::Pausing => self.read_trail(State::Reading),
            State::Confirming { otherwise } => match reply.trail() {
                Ok(trail) if trail.has(&self.id) => Step::done(Operated::Done),
                Ok(_) | Err(_) => Step::done(otherwise),
            },
        }
    }
}

/// Lets a PENDING, DEAD or IGNORED record run again in the same generation. None of them wrote a domain key in it, so
/// the effect is still one. Only one that is DEAD as REWOUND did: it can be forced.
///
/// # Errors
/// [`Refusal`] when the record's state does not allow it, or when it may already have been applied and
/// `accept_duplicate` is not set.
pub fn retry(record: &Record, accept_duplicate: bool, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
    let unknown = record.outcome_unknown();
    match record.status {
        Status::Processed if record.outcome != Some(Outcome::Ignored) => return Err(Refusal::NotRetryable),
        Status::Discarded => return Err(Refusal::NotRetryable),
        Status::Dead if record.dead_reason == Some(DeadReason::Rewound) => return Err(Refusal::Rewound),
        Status::Dead if unknown && !accept_duplicate => return Err(Refusal::OutcomeUnknown),
        Status::Dead | Status::Pending | Status::Processed => {}
    }
    if record.body.is_none() {
        return Err(Refusal::NoBody);
    }
    let mut changes = rearmed(record, timing, moment);
    changes.push(set(attribute::RETRIES, record.retries + 1));
    changes.extend([remove(attribute::DEAD_AT), remove(attribute::DEAD_REASON), remove(attribute::DEAD_LETTERS)]);
    changes.extend([remove(attribute::OUTCOME), remove(attribute::PROCESSED_AT)]);
    changes.extend(retried_effect(record, accept_duplicate, moment));
    if accept_duplicate {
        changes.push(set(attribute::ACCEPT_DUPLICATE, Value::Flag(true)));
    }
    let mut condition = with_body(record);
    // Somebody may have doubted since what died for another reason.
    let reason = record.dead_reason.map(|reason| equals(attribute::DEAD_REASON, reason.as_str()));
    condition.0.extend(reason);
    Ok(update(record, Purpose::Retry, changes, condition))
}

/// What a retry changes of an effect. An accepted duplicate starts over, with the same key: the callee may still know
/// it.
fn retried_effect(record: &Record, accept_duplicate: bool, moment: Moment) -> Vec<Change> {
    if record.effect.is_none() {
        return Vec::new();
    }
    let next_key = next_key(record);
    let anew = next_key.is_some() || accept_duplicate;
    let mut changes = vec![set(attribute::RETRIED_AT, moment.now.0)];
    changes.extend(next_key);
    if anew {
        // Whoever held the pass is forgotten with it.
        let mut part = record.effect.clone();
        changes.extend(part.as_mut().and_then(|part| {
            part.pass_is_over();
            part.noted_calls()
        }));
        let guards = [attribute::PASS, attribute::PASS_AT, attribute::FIRST_CALL_AT, attribute::CALLEE];
        changes.extend(guards.map(remove));
    }
    changes
}

/// Lets a record be applied once more, in a new generation. A second force of the same generation
/// fails.
///
/// # Errors
/// [`Refusal`] when the record is neither PROCESSED nor DEAD as REWOUND, ended as IGNORED, or its payload is gone.
pub fn force(record: &Record, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
    match record.status {
        Status::Dead if record.dead_reason == Some(DeadReason::Rewound) => {}
        Status::Pending | Status::Dead | Status::Discarded => return Err(Refusal::NotForceable),
        Status::Processed if record.outcome == Some(Outcome::Ignored) => return Err(Refusal::NotForceable),
        Status::Processed => {}
    }
    if record.body.is_none() {
        return Err(Refusal::NoBody);
    }
    let mut changes = rearmed(record, timing, moment);
    changes.push(set(attribute::GENERATION, record.generation + 1));
    changes.push(set(attribute::ACCEPT_DUPLICATE, Value::Flag(true)));
    changes.extend([remove(attribute::OUTCOME), remove(attribute::PROCESSED_AT), remove(attribute::DEAD_LETTERS)]);
    changes.extend([remove(attribute::DEAD_AT), remove(attribute::DEAD_REASON)]);
    if !record.effects.is_empty() {
        // Their records stay, with what they sent. Whoever erases the event must find them.
        let mut earlier = record.earlier_effects.clone();
        earlier.extend(record.effects.iter().filter(|name| !record.earlier_effects.contains(name)).cloned());
        changes.extend([remove(attribute::EFFECTS), set(attribute::EARLIER_EFFECTS, encode_names(&earlier))]);
    }
    Ok(update(record, Purpose::Force, changes, with_body(record)))
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

/// Erases the body of a record that needs it no more. The record, its hash and its dedup stay, so a re-delivery is
/// still a duplicate.
///
/// # Errors
/// [`Refusal`] when the record may still run, or its payload is gone already.
pub fn redact(record: &Record) -> Result<Write, Refusal> {
    match record.status {
        Status::Pending | Status::Dead => return Err(Refusal::NotRedactable),
        Status::Processed | Status::Discarded if record.body.is_none() => return Err(Refusal::NoBody),
        Status::Processed | Status::Discarded => {}
    }
    Ok(update(record, Purpose::Redact, vec![remove(attribute::BODY)], with_body(record)))
}

/// Ends a record whose table was restored to a moment before it may have been applied or called. From then on it runs
/// only if an operator accepts that its effect may be done twice.
///
/// # Errors
/// [`Refusal`] when the record is not PENDING, DEAD or IGNORED, or is not kept by its payload, or is doubted.
pub fn doubt(record: &Record, timing: &Timing, moment: Moment) -> Result<Write, Refusal> {
    if !record.is_doubtable() {
        return Err(Refusal::NotDoubtable);
    }
    let reason = if record.effect.is_some() { DeadReason::UnknownOutcome } else { DeadReason::Stale };
    let mut changes = vec![set(attribute::LAST_ERROR, reason.as_str())];
    changes.extend(death(record, reason, timing, moment));
    changes.extend([remove(attribute::OUTCOME), remove(attribute::PROCESSED_AT)]);
    // Whoever retried it after that moment called with the next key.
    changes.extend(next_key(record));
    Ok(update(record, Purpose::Doubt, changes, with_body(record)))
}

/// After a refusal, which was certain, the next call has another key: the callee may have kept the refusal under the
/// first.
fn next_key(record: &Record) -> Option<Change> {
    let refused = record.dead_reason == Some(DeadReason::Refused);
    let effect = record.effect.as_ref().filter(|_| refused)?;
    Some(set(attribute::KEY_EPOCH, effect.key_epoch + 1))
}

/// The record as it was shown, and its body: another operator may have erased it since.
fn with_body(record: &Record) -> Condition {
    record.guard().condition([Clause::Present(attribute::BODY.into())])
}

fn rearmed(record: &Record, timing: &Timing, moment: Moment) -> Vec<Change> {
    let due = Due::pending(&record.key, timing.shards, moment.now);
    vec![
        remove(attribute::WAITS_SINCE),
        remove(attribute::NOT_BEFORE),
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
