//! The dispatcher: takes the hint of an effect and makes one call.
//!
//! ```text
//! read ─ PENDING ─▶ terms of the destination ─▶ guard ─▶ one call ─▶ DELIVERED
//!   │                 │                           │        ├─ already done ─▶ DELIVERED, or DEAD where nobody called before
//!   │                 │                           │        ├─ not done ─▶ wait, uncounted
//!   │                 │                           │        ├─ refused ─▶ DEAD
//!   │                 │                           │        └─ unclear ─▶ count it and wait, or DEAD
//!   │                 │                           └─ not confirmed in time ─▶ no call
//!   │                 ├─ unknown, unreadable, no turn ─▶ wait, uncounted
//!   │                 └─ an earlier call can no longer be repeated ─▶ DEAD: UNKNOWN_OUTCOME
//!   ├─ another process has the pass ─▶ wait until that process is gone
//!   ├─ too old ─▶ DEAD: STALE, or UNKNOWN_OUTCOME if it was called
//!   └─ anything else ─▶ ack
//! ```
//! The guard is one conditional write. It takes the *pass*, the right to make the next call, and notes when the first
//! call was allowed and who the callee was. Whoever reads these later knows that the callee may have done the effect,
//! also if the process died before the call. A destination without a promise (`at_least_once`) has a guard, too: it may
//! get another class, and a refusal is certain only at the first call.

mod ending;
mod key;

use crate::call::{Call, Machine, Reply, Signal, Step, Unavailable, Written};
use crate::destination::{Called, Class, NoTurn, Offer, OutboundCall, Terms};
use crate::key::RecordKind;
use crate::message::{Message, MessageError};
use crate::purpose::Purpose;
use crate::record::{DeadReason, EffectPart, EndedCall, Found, Pass, Record, Status, attribute, counted, equals, set};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};
use crate::worker::{
    Done, HOPS, Pause, Settled, TRANSIENT_VISIBILITY_MAX, VISIBILITY_MAX, early, misrouted, still_mine,
};
use crate::write::{Action, Clause, Condition, Table, Write};

pub use key::idempotency_key;

/// How often one message may repeat a write whose result is unknown.
pub const REWRITES_MAX: u8 = 3;

/// The machine for one message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dispatcher {
    timing: Timing,
    receives: i64,
    /// Identifies this receive of the message. Every repeat of its own guard has it.
    pass: String,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Reading,
    ReadingTerms {
        effect: Effect,
    },
    Guarding {
        call: Box<NextCall>,
        write: Write,
        rewrites: u8,
    },
    Calling {
        call: Box<NextCall>,
        started_at: EpochMs,
    },
    Writing {
        ending: Box<Ending>,
        rewrites: u8,
    },
    /// Before the write is repeated.
    Pausing {
        then: Box<Self>,
    },
}

/// An effect as it was read, or as the guard has left it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Effect {
    record: Box<Record>,
    part: Box<EffectPart>,
}

/// A call that is about to be made, with the effect as its guard leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NextCall {
    effect: Effect,
    terms: Terms,
    /// Whether no earlier call may have been done.
    first: bool,
}

impl NextCall {
    /// Whether no earlier call may have been done, by anybody. After a person has accepted one more call, nobody can
    /// tell: the acceptance removed the trace of the earlier one.
    fn is_first(&self) -> bool {
        self.first && !self.effect.record.accept_duplicate
    }
}

/// A write that ends this message's part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Ending {
    record: Box<Record>,
    write: Write,
    settled: Settled,
    signal: Signal,
}

type DispatcherStep = Step<Dispatcher, Settled>;

impl Effect {
    /// Requires that the record is unchanged, with its pass, its first call and the number of its calls that did
    /// nothing.
    fn unchanged(&self) -> Condition {
        let pass = match &self.part.pass {
            Some(pass) => equals(attribute::PASS, pass.id.as_str()),
            None => Clause::Absent(attribute::PASS.into()),
        };
        let attempts = equals(attribute::ATTEMPTS, self.record.attempts);
        let not_done = counted(attribute::NOT_DONE, self.part.not_done);
        self.record.guard().condition([attempts, pass, self.part.first_call_as_read(), not_done])
    }

    /// Since when it has been tried: its commit, or when an operator brought it back.
    fn since(&self) -> EpochMs {
        self.part.retried_at.unwrap_or(self.record.received_at)
    }

    /// The callee as an earlier call left it. None if there was none.
    fn first_call(&self) -> Option<(EpochMs, Option<&str>)> {
        self.part.first_call_at.map(|at| (at, self.part.callee.as_deref()))
    }

    /// Whether a callee may have done it, also before a person accepted one more call: the acceptance removed the trace
    /// of the first.
    fn may_be_done(&self) -> bool {
        self.first_call().is_some() || self.record.accept_duplicate
    }
}

impl Dispatcher {
    /// Starts with the decoded message. `receives` counts how often it was received, this time included. `pass` is
    /// unique, and drawn before the first call.
    pub fn start(
        message: Result<Message, MessageError>,
        receives: i64,
        pass: String,
        timing: Timing,
        moment: Moment,
    ) -> DispatcherStep {
        let machine = Self { timing, receives, pass, state: State::Reading };
        match message {
            Ok(Message::Ref { pk }) if pk.kind() == RecordKind::Effect => Step::call(machine, Call::Read(pk)),
            Ok(Message::Ref { .. } | Message::Slow { .. }) => misrouted(),
            // It is the only copy of a delivery. It goes to the dead-letter queue, where it is claimed.
            // It has no key: no effect comes with its payload.
            Ok(Message::Full(_)) | Err(MessageError::Unverified) => {
                Step::done(Settled::Retry(VISIBILITY_MAX)).signal(Signal::HintMisrouted)
            }
            Err(MessageError::UnknownVersion) => machine.transient(0, moment).signal(Signal::UnknownVersion),
            Err(MessageError::Malformed) => Step::done(Settled::Retry(VISIBILITY_MAX)).signal(Signal::MessageMalformed),
            Err(MessageError::Forged) => Step::done(Settled::Retry(VISIBILITY_MAX)).signal(Signal::MessageForged),
        }
    }

    fn call(mut self, state: State, call: Call) -> DispatcherStep {
        self.state = state;
        Step::call(self, call)
    }

    /// Backs off without counting, as the worker does.
    fn transient(&self, attempts: i64, moment: Moment) -> DispatcherStep {
        Step::done(Settled::Retry(self.backoff(attempts, moment)))
    }

    fn backoff(&self, attempts: i64, moment: Moment) -> Millis {
        let exponent = attempts.max(self.receives.saturating_sub(1));
        let bound = self.timing.backoff_bound(exponent).0.min(TRANSIENT_VISIBILITY_MAX.0);
        moment.uniform(Millis(bound))
    }

    fn found(self, found: Found, moment: Moment) -> DispatcherStep {
        let record = match found {
            Found::Nothing => return Step::done(Settled::Ack(Done::Absent)).signal(Signal::RecordAbsent),
            Found::Unreadable(_) => return self.transient(0, moment).signal(Signal::UnknownVersion),
            Found::Record(record) if record.status == Status::Pending => record,
            Found::Record(_) => return Step::done(Settled::Ack(Done::Elsewhere)),
        };
        let Some(part) = record.effect.clone() else { return misrouted() };
        let mut effect = Effect { record, part };
        if let Some(wait) = effect.part.pass.as_ref().and_then(|pass| self.still_held(pass, moment)) {
            return Step::done(Settled::Retry(wait)).signal(Signal::EffectWaits);
        }
        effect.part.pass_is_over();
        if let Some(settled) = early(&effect.record, &self.timing, moment) {
            return Step::done(settled);
        }
        if moment.now > effect.since().plus(self.timing.effect_age_max) {
            let reason = if effect.may_be_done() { DeadReason::UnknownOutcome } else { DeadReason::Stale };
            return self.die(effect, reason, moment);
        }
        let call = Call::Terms(effect.part.destination.clone());
        self.call(State::ReadingTerms { effect }, call)
    }

    /// How long the process that has this pass may still live.
    fn still_held(&self, pass: &Pass, moment: Moment) -> Option<Millis> {
        let left = pass.held_until(&self.timing).0.saturating_sub(moment.now.0);
        (left >= 0).then(|| Millis((left + 1).min(VISIBILITY_MAX.0)))
    }

    fn with_terms(self, offer: Result<Option<Offer>, Unavailable>, effect: Effect, moment: Moment) -> DispatcherStep {
        let Ok(Some(Offer { terms, turn })) = offer else {
            // The destination may stay unknown for days, and hidden messages would fill the queue of all destinations.
            let wait = self.backoff(effect.record.attempts, moment);
            return Step::done(Pause::new(wait).settled()).signal(Signal::DestinationUnknown);
        };
        let moved = effect.first_call().is_some_and(|(_, callee)| callee != Some(terms.callee.as_str()));
        if moved || !self.is_repeatable(&effect, terms.class, moment.now) {
            return self.die(effect, DeadReason::UnknownOutcome, moment);
        }
        // Without a turn there is no pass: whoever reads one may take it that a call follows.
        match turn {
            Ok(()) => self.guard(effect, terms, moment),
            Err(no_turn) => {
                let first = effect.first_call().is_none();
                self.uncalled(NextCall { effect, terms, first }, no_turn, moment)
            }
        }
    }

    /// Nobody calls the destination for this effect now.
    fn uncalled(self, call: NextCall, no_turn: NoTurn, moment: Moment) -> DispatcherStep {
        match no_turn {
            // The callee works, so the pauses grow slowly. They end up long enough that the relay sends few hints of
            // effects that wait for long.
            NoTurn::Busy => {
                let tries = call.effect.record.resends.saturating_add(self.receives.saturating_sub(1) / 2);
                self.postpone(call, tries, None, moment)
            }
            NoTurn::Away { retry_after } => self.not_done(call, retry_after, moment),
        }
    }

    /// The callee did nothing, whether it was called or not.
    fn not_done(self, call: NextCall, retry_after: Option<Millis>, moment: Moment) -> DispatcherStep {
        let tries = call.effect.part.not_done.max(self.receives.saturating_sub(1));
        self.postpone(call, tries, retry_after, moment)
    }

    /// Whether a call at this time is safe, given an earlier call whose outcome may be unknown.
    fn is_repeatable(&self, effect: &Effect, class: Class, at: EpochMs) -> bool {
        match self.repeatable_until(effect, class) {
            Some(until) => at <= until,
            None => effect.first_call().is_none() || class == Class::AtLeastOnce,
        }
    }

    /// Until when the callee of an earlier call certainly knows its key. `None` if there was no call, or there are no
    /// keys.
    fn repeatable_until(&self, effect: &Effect, class: Class) -> Option<EpochMs> {
        let (Class::Keyed { window }, Some((first_call_at, _))) = (class, effect.first_call()) else { return None };
        Some(EpochMs(first_call_at.0.saturating_add(window.0).saturating_sub(self.timing.key_margin.0)))
    }

    /// Takes the pass for the next call.
    fn guard(self, mut effect: Effect, terms: Terms, moment: Moment) -> DispatcherStep {
        let condition = effect.unchanged();
        let first = effect.first_call().is_none();
        let mut changes = vec![
            set(attribute::PASS, self.pass.as_str()),
            set(attribute::PASS_AT, moment.now.0),
            set(attribute::CALLEE, terms.callee.as_str()),
        ];
        if first {
            changes.push(set(attribute::FIRST_CALL_AT, moment.now.0));
            effect.part.first_call_at = Some(moment.now);
        }
        changes.extend(effect.part.noted_calls());
        effect.part.pass = Some(Pass { id: self.pass.clone(), at: moment.now });
        let write = Write {
            purpose: Purpose::GuardCall,
            table: Table::Inbox,
            key: effect.record.key.as_str().into(),
            action: Action::Update(changes),
            condition,
        };
        let call = Box::new(NextCall { effect, terms, first });
        self.call(State::Guarding { call, write: write.clone(), rewrites: 0 }, Call::Write(write))
    }

    fn guarded(
        self,
        written: &Written,
        call: Box<NextCall>,
        write: Write,
        rewrites: u8,
        moment: Moment,
    ) -> DispatcherStep {
        match written {
            Written::Applied if self.is_late(&call, moment) => self.transient(call.effect.record.attempts, moment),
            Written::Applied => self.deliver(call, moment),
            Written::ConditionFailed(found) if still_mine(found, &call.effect.record) => {
                self.transient(call.effect.record.attempts, moment).signal(Signal::EffectWaits)
            }
            Written::ConditionFailed(_) => Step::done(Settled::Ack(Done::Elsewhere)),
            Written::TransactionConflict | Written::Unavailable if rewrites < REWRITES_MAX => {
                self.pause(State::Guarding { call, write, rewrites: rewrites + 1 }, rewrites, moment)
            }
            // It may have been carried out. Without an answer there is no call, and the next process waits for this
            // one.
            Written::TransactionConflict | Written::Unavailable => self.transient(call.effect.record.attempts, moment),
            Written::Invalid => self.transient(call.effect.record.attempts, moment).signal(Signal::WriteInvalid),
        }
    }

    /// Whether this process should have ended by now. It was asleep, so the pass may be another's, and the key
    /// forgotten.
    fn is_late(&self, call: &NextCall, moment: Moment) -> bool {
        let over = |pass: &Pass| moment.now > pass.at.plus(self.timing.dispatcher_timeout);
        call.effect.part.pass.as_ref().is_none_or(over)
    }

    fn pause(self, then: State, rewrites: u8, moment: Moment) -> DispatcherStep {
        let wait = moment.uniform(Millis(100 << rewrites));
        self.call(State::Pausing { then: Box::new(then) }, Call::Wait(wait))
    }

    fn deliver(self, call: Box<NextCall>, moment: Moment) -> DispatcherStep {
        let Effect { record, part } = &call.effect;
        let (Some(event), Some(body)) = (record.parent.clone(), record.body.clone()) else {
            return self.transient(record.attempts, moment).signal(Signal::UnknownVersion);
        };
        let delivery = OutboundCall {
            effect: record.key.clone(),
            event,
            destination: part.destination.clone(),
            idempotency_key: idempotency_key(&record.key, &record.claim_id, record.generation, part.key_epoch),
            method: part.method,
            path: part.path.clone(),
            content_type: part.content_type.clone(),
            body,
            hops: record.headers.get(HOPS).and_then(|hops| hops.parse().ok()).unwrap_or(0),
        };
        self.call(State::Calling { call, started_at: moment.now }, Call::Deliver(Box::new(delivery)))
    }

    fn called(self, called: Called, mut call: NextCall, started_at: EpochMs, moment: Moment) -> DispatcherStep {
        let duration = Millis(moment.now.0.saturating_sub(started_at.0).max(0));
        if called != Called::NoTime {
            let (status, unsent) = (called.status(), called.is_unsent());
            call.effect.part.call_ended(EndedCall { at: moment.now, status, unsent });
        }
        match called {
            Called::Done { .. } => self.settle(call.effect, duration, moment),
            // Only a callee that was called before can have done it before. At a first call the answer may mean
            // something else. After a person has accepted one more call, the next one counts as a first: that person
            // knows what was done.
            Called::AlreadyDone { .. } if !call.first => self.settle(call.effect, duration, moment),
            Called::NotDone { retry_after, .. } => self.not_done(call, retry_after, moment),
            Called::NoTime => self.uncalled(call, NoTurn::Busy, moment),
            Called::Refused { .. } => {
                let reason = if call.is_first() { DeadReason::Refused } else { DeadReason::UnknownOutcome };
                self.die(call.effect, reason, moment)
            }
            Called::AlreadyDone { .. } | Called::Unknown { .. } => {
                self.die(call.effect, DeadReason::UnknownOutcome, moment)
            }
            Called::Unclear { retry_after, .. } => {
                let over = moment.now > call.effect.since().plus(call.terms.give_up_after);
                let reason = match call.terms.class {
                    Class::AtMostOnce => Some(DeadReason::UnknownOutcome),
                    Class::Keyed { .. } if over => Some(DeadReason::UnknownOutcome),
                    Class::AtLeastOnce if over => Some(DeadReason::AttemptsExhausted),
                    Class::Keyed { .. } | Class::AtLeastOnce => None,
                };
                match reason {
                    Some(reason) => self.die(call.effect, reason, moment),
                    None => self.count(call, retry_after, moment),
                }
            }
        }
    }

    fn written(self, written: &Written, ending: Box<Ending>, rewrites: u8, moment: Moment) -> DispatcherStep {
        let attempts = ending.record.attempts;
        match written {
            Written::Applied => Step::done(ending.settled).signal(ending.signal),
            Written::ConditionFailed(found) if still_mine(found, &ending.record) => self.transient(attempts, moment),
            Written::ConditionFailed(_) => Step::done(Settled::Ack(Done::Elsewhere)),
            Written::TransactionConflict | Written::Unavailable if rewrites < REWRITES_MAX => {
                self.pause(State::Writing { ending, rewrites: rewrites + 1 }, rewrites, moment)
            }
            Written::TransactionConflict | Written::Unavailable => self.transient(attempts, moment),
            Written::Invalid => self.transient(attempts, moment).signal(Signal::WriteInvalid),
        }
    }

    /// Repeats the write after the pause.
    fn again(self, then: State) -> DispatcherStep {
        let write = match &then {
            State::Guarding { write, .. } => write.clone(),
            State::Writing { ending, .. } => ending.write.clone(),
            State::Reading | State::ReadingTerms { .. } | State::Calling { .. } | State::Pausing { .. } => {
                return Step::done(Settled::Retry(Millis(0)));
            }
        };
        self.call(then, Call::Write(write))
    }
}

impl Machine for Dispatcher {
    type Output = Settled;

    fn step(mut self, reply: Reply, moment: Moment) -> DispatcherStep {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Reading => match reply.read() {
                Ok(found) => self.found(found, moment),
                Err(_) => self.transient(0, moment),
            },
            State::ReadingTerms { effect } => self.with_terms(reply.terms(), effect, moment),
            State::Guarding { call, write, rewrites } => self.guarded(&reply.written(), call, write, rewrites, moment),
            State::Calling { call, started_at } => self.called(reply.called(), *call, started_at, moment),
            State::Writing { ending, rewrites } => self.written(&reply.written(), ending, rewrites, moment),
            State::Pausing { then } => self.again(*then),
        }
    }
}
