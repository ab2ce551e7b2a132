//! The worker: takes a message and settles its record.
//!
//! ```text
//! read ─ PENDING ─▶ plan ─▶ commit: record, domain key, every write and every effect in one transaction ─▶ hint the
//!   │                 │        │                                                             effects ─▶ ack
//!   │                 │        ├─ record no longer as read ─▶ ack (someone finished, replayed or expired it)
//!   │                 │        ├─ domain key exists ─▶ mark DUPLICATE ─▶ ack; DEAD if it is the record's own, which a
//!   │                 │        │                       restored table has forgotten
//!   │                 │        ├─ handler's own condition ─▶ read and plan again, a few times
//!   │                 │        ├─ conflict, throttling ─▶ wait, commit again, a few times; if only user tables are busy, as
//!   │                 │        │                          if they were unavailable
//!   │                 │        └─ unknown ─▶ read: PROCESSED by this claim ─▶ hint the effects ─▶ ack
//!   │                 ├─ handler slow ─▶ hint in the queue of slow handlers ─▶ ack
//!   │                 ├─ handler or table unavailable, or others changed its items each time ─▶ wait, uncounted for a day
//!   │                 └─ failed ─▶ count it, back off with full jitter; DEAD at the limit
//!   ├─ an envelope ─▶ split ─▶ look which events have records ─▶ create the missing ones ─▶ hint them ─▶ close the
//!   │                            ▲                                                            │           envelope
//!   │                            └────────────────────── the next events ─────────────────────┘
//!   └─ anything else ─▶ ack
//! ```
//! Acknowledging a `ref` message too early would be safe, because the relay owns the record. Acknowledging a `full`
//! message too early never is: it is the only copy until the record exists.

mod commit;
mod failure;
mod fan_out;
pub mod first_seen;
mod pause;

use crate::call::{
    Call, CancellationReason, ChildEvent, Committed, Failure, HandlerPlan, Machine, Planned, Reply, Signal, Step,
    Unavailable, Written,
};
use crate::check::PlanError;
use crate::claim::Claim;
use crate::code::Code;
use crate::full_claim::{Claimed, FullClaim};
use crate::key::{RecordKey, RecordKind};
use crate::message::{Message, MessageError};
use crate::plan::WhenConditionFails;
use crate::record::{DeadReason, Found, Outcome, Record, Status};
use crate::time::Millis;
use crate::timing::{Moment, Timing};
use crate::write::Write;

pub use commit::Cancellation;
pub use commit::HOPS;
pub use failure::TRANSIENT_VISIBILITY_MAX;
pub(crate) use failure::{death, still_mine};
use fan_out::FanOut;
pub(crate) use pause::{Pause, early};
pub use pause::{VISIBILITY_MAX, WAITING_VISIBILITY_MAX};

/// How often one message may plan again after a condition of the plan failed.
pub const REPLANS_MAX: u8 = 3;

/// How often one message may retry a cancelled commit.
pub const RECOMMITS_MAX: u8 = 3;

/// What to do with the message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Delete it.
    Ack(Done),
    /// Keep it, hidden for this long.
    Retry(Millis),
}

/// Why a message was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Done {
    /// This message settled the record.
    Settled(Outcome),
    /// The record was settled or changed elsewhere.
    Elsewhere,
    /// The record does not exist.
    Absent,
    /// The record is DEAD.
    Dead,
    /// The record is due later; the relay will send it then.
    Deferred,
    /// Another message for the record waits in the queue of slow handlers.
    Moved,
}

/// The machine for one message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Worker {
    timing: Timing,
    receives: i64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Reading { replans: u8 },
    Claiming { claim: FullClaim },
    ReadingOther,
    Planning { record: Box<Record>, replans: u8 },
    Moving { record: Box<Record> },
    Committing { attempt: Box<Attempt> },
    Pausing { attempt: Box<Attempt> },
    Confirming { record: Box<Record> },
    HintingEffects,
    Marking { record: Box<Record>, outcome: Outcome },
    Splitting { record: Box<Record> },
    Looking { fan_out: FanOut, chunk: Vec<ChildEvent> },
    Creating { fan_out: FanOut, missing: Vec<ChildEvent>, others: Vec<ChildEvent> },
    Quarantining { fan_out: FanOut, fresh: Vec<RecordKey>, others: Vec<RecordKey> },
    Hinting { fan_out: FanOut },
    Failing { record: Box<Record>, pause: Pause, dead: Option<DeadReason> },
    Postponing { record: Box<Record>, pause: Pause },
}

/// A commit that may be retried.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    record: Box<Record>,
    writes: Vec<Write>,
    /// The effects, whose writes are the last ones.
    effects: Vec<RecordKey>,
    when_condition_fails: WhenConditionFails,
    replans: u8,
    recommits: u8,
}

type WorkerStep = Step<Worker, Settled>;

impl Worker {
    /// Starts with the decoded message. `receives` counts how often the message was received, this time included. The
    /// more often, the longer a transient failure backs off.
    pub fn start(message: Result<Message, MessageError>, receives: i64, timing: Timing, moment: Moment) -> WorkerStep {
        let worker = |state| Self { timing, receives, state };
        match message {
            Ok(Message::Ref { pk } | Message::Slow { pk, .. }) => {
                Step::call(worker(State::Reading { replans: 0 }), Call::Read(pk))
            }
            Ok(Message::Full(claim)) => worker(State::Reading { replans: 0 }).claim(&claim, moment),
            Err(MessageError::UnknownVersion) => {
                worker(State::Reading { replans: 0 }).hold(moment).signal(Signal::UnknownVersion)
            }
            // It may be the only copy of a body.
            Err(MessageError::Unverified) => {
                worker(State::Reading { replans: 0 }).hold(moment).signal(Signal::MessageUnverified)
            }
            // Both go to the dead-letter queue, where a person can inspect them.
            Err(MessageError::Malformed) => Step::done(Settled::Retry(VISIBILITY_MAX)).signal(Signal::MessageMalformed),
            Err(MessageError::Forged) => Step::done(Settled::Retry(VISIBILITY_MAX)).signal(Signal::MessageForged),
        }
    }

    fn call(mut self, state: State, call: Call) -> WorkerStep {
        self.state = state;
        Step::call(self, call)
    }

    /// Makes the claim that ingress could not confirm, from a message that carries its payload.
    fn claim(self, claim: &Claim, moment: Moment) -> WorkerStep {
        let record = claim.record(&self.timing, moment.now);
        let (claim, call) = FullClaim::start(record, claim, &self.timing, moment);
        self.call(State::Claiming { claim }, call)
    }

    fn claiming(self, step: Step<FullClaim, Claimed>, moment: Moment) -> WorkerStep {
        let claimed = |worker: Self, claimed| match claimed {
            Claimed::Fresh(record) => worker.found(Found::Record(record), 0, moment),
            Claimed::Stale(record) => died(record.key, DeadReason::Stale),
            Claimed::Met(old) => worker.met(old, moment),
            Claimed::Unsure => worker.hold(moment),
        };
        step.within(self, |worker, claim, call| worker.call(State::Claiming { claim }, call), claimed)
    }

    /// A claim has met this record, of which it knows only the head. Who works on it needs its body.
    fn met(self, old: Box<Record>, moment: Moment) -> WorkerStep {
        if old.status == Status::Pending {
            self.call(State::ReadingOther, Call::Read(old.key))
        } else {
            self.found(Found::Record(old), 0, moment)
        }
    }

    fn found(self, found: Found, replans: u8, moment: Moment) -> WorkerStep {
        let record = match found {
            Found::Nothing => return Step::done(Settled::Ack(Done::Absent)).signal(Signal::RecordAbsent),
            Found::Unreadable(_) => return self.hold(moment).signal(Signal::UnknownVersion),
            Found::Record(record) if record.key.kind() == RecordKind::Effect => return misrouted(),
            Found::Record(record) => record,
        };
        match record.status {
            Status::Processed | Status::Dead | Status::Discarded => Step::done(Settled::Ack(Done::Elsewhere)),
            Status::Pending if self.too_old(&record, moment) => self.stale(record, moment),
            Status::Pending if let Some(settled) = early(&record, &self.timing, moment) => Step::done(settled),
            Status::Pending => match record.key.kind() {
                RecordKind::Envelope => {
                    let call = Call::Split(record.clone());
                    self.call(State::Splitting { record }, call)
                }
                RecordKind::Delivery | RecordKind::Event | RecordKind::Effect => {
                    let call = Call::Plan(record.clone());
                    self.call(State::Planning { record, replans }, call)
                }
            },
        }
    }

    /// Whether the record is too old: another record of the same event may have been applied and have expired.
    fn too_old(&self, record: &Record, moment: Moment) -> bool {
        moment.now > record.received_at.plus(self.timing.commit_age_max) && !record.accept_duplicate
    }

    fn planned(self, planned: Planned, record: Box<Record>, replans: u8, moment: Moment) -> WorkerStep {
        match planned {
            Planned::Plan(plan) => self.commit(record, *plan, replans, moment),
            Planned::NoHandler => self.mark(record, Outcome::Ignored, moment),
            Planned::Failed(failure) => self.fail(record, &failure, moment).signal(Signal::HandlerFailed),
            // Each plan of this event met changed items, and no call is left for another one: treat it as if its plans
            // were used up.
            Planned::CallsUsedUp if replans > 0 => self.overtaken(record, None, moment),
            Planned::CallsUsedUp | Planned::Unavailable => self.transient(record.attempts, moment),
            Planned::HandlerAway => self.postpone(record, Code::HandlerUnavailable, moment).signal(Signal::HandlerAway),
            Planned::UserTableUnavailable => {
                self.postpone(record, Code::TableUnavailable, moment).signal(Signal::UserTableUnavailable)
            }
            Planned::HandlerSlow { handler } => {
                let call = Call::Send(Message::Slow { pk: record.key.clone(), handler });
                self.call(State::Moving { record }, call)
            }
        }
    }

    /// Lets the record wait, because others change what its plans need.
    fn overtaken(self, record: Box<Record>, error: Option<PlanError>, moment: Moment) -> WorkerStep {
        let overtaken = Signal::PlanOvertaken { key: record.key.clone(), error };
        self.postpone(record, Code::ConditionFailed, moment).signal(overtaken)
    }

    fn commit(self, record: Box<Record>, plan: HandlerPlan, replans: u8, moment: Moment) -> WorkerStep {
        let Some(tenant) = record.owner() else {
            return self.fail(record, &Failure::permanent(Code::PlanRefused), moment).signal(Signal::HandlerFailed);
        };
        if let Err(error) = plan.check(&tenant) {
            let refused = Signal::PlanRefused { key: record.key.clone(), error };
            return self.fail(record, &Failure::permanent(Code::PlanRefused), moment).signal(refused);
        }
        let when_condition_fails = plan.plan.when_condition_fails;
        let key = |name: &str| RecordKey::effect(&record.key, &record.claim_id, record.generation, name);
        let effects = plan.effects.iter().map(|draft| key(draft.name.as_str())).collect();
        let writes = commit::writes(&record, &tenant, plan, &self.timing, moment);
        let attempt = Attempt { record, writes, effects, when_condition_fails, replans, recommits: 0 };
        self.send_commit(Box::new(attempt))
    }

    fn send_commit(self, attempt: Box<Attempt>) -> WorkerStep {
        let call = Call::Commit(attempt.writes.clone());
        self.call(State::Committing { attempt }, call)
    }

    fn committed(self, committed: Committed, attempt: Box<Attempt>, moment: Moment) -> WorkerStep {
        match committed {
            Committed::Applied => self.applied(attempt.effects),
            Committed::Cancelled(reasons) => self.cancelled(&reasons, attempt, moment),
            Committed::Invalid => self.fail(attempt.record, &Failure::permanent(Code::PlanRefused), moment),
            // If it was carried out all the same, the record is no longer PENDING, and the wait is not written.
            Committed::Denied => {
                self.postpone(attempt.record, Code::TableUnavailable, moment).signal(Signal::UserTableUnavailable)
            }
            Committed::Unavailable => self.confirm(attempt.record),
        }
    }

    /// Reads the record again, because only it can tell whether it was committed.
    fn confirm(self, record: Box<Record>) -> WorkerStep {
        let call = Call::Read(record.key.clone());
        self.call(State::Confirming { record }, call).signal(Signal::CommitUnknown)
    }

    /// The record is settled. Sends the hints of its effects; the relay sends those that fail.
    fn applied(self, effects: Vec<RecordKey>) -> WorkerStep {
        if effects.is_empty() {
            return Step::done(Settled::Ack(Done::Settled(Outcome::Applied)));
        }
        let messages = effects.into_iter().map(|pk| Message::Ref { pk }).collect();
        self.call(State::HintingEffects, Call::SendEach(messages))
    }

    fn cancelled(self, reasons: &[CancellationReason], mut attempt: Box<Attempt>, moment: Moment) -> WorkerStep {
        let exhausted = attempt.recommits >= RECOMMITS_MAX;
        match Cancellation::of(reasons, attempt.effects.len()) {
            Cancellation::Elsewhere => Step::done(Settled::Ack(Done::Elsewhere)),
            Cancellation::EffectExists => self.confirm(attempt.record),
            Cancellation::OwnFact { applied_at } if commit::is_rewound(&attempt.record, applied_at, &self.timing) => {
                self.rewound(attempt.record, moment)
            }
            Cancellation::DuplicateFact | Cancellation::OwnFact { .. } => {
                self.mark(attempt.record, Outcome::Duplicate, moment)
            }
            Cancellation::Invalid => self.fail(attempt.record, &Failure::permanent(Code::PlanRefused), moment),
            Cancellation::Overtaken => match attempt.when_condition_fails {
                WhenConditionFails::Permanent => {
                    let key = &attempt.record.key;
                    let refused = commit::failed_condition(&attempt.writes, reasons)
                        .map(|error| Signal::PlanRefused { key: key.clone(), error });
                    let step = self.fail(attempt.record, &Failure::permanent(Code::ConditionFailed), moment);
                    refused.into_iter().fold(step, Step::signal)
                }
                WhenConditionFails::Retry if attempt.replans >= REPLANS_MAX => {
                    let error = commit::failed_condition(&attempt.writes, reasons);
                    self.overtaken(attempt.record, error, moment)
                }
                WhenConditionFails::Retry => {
                    let call = Call::Read(attempt.record.key.clone());
                    self.call(State::Reading { replans: attempt.replans + 1 }, call)
                }
            },
            // Hidden messages would fill the queue that all handlers share.
            Cancellation::Transient if exhausted && commit::only_user_tables_busy(&attempt.writes, reasons) => {
                let step = self.postpone(attempt.record, Code::TableUnavailable, moment);
                step.signal(Signal::CommitConflict).signal(Signal::UserTableUnavailable)
            }
            Cancellation::Transient if exhausted => {
                self.transient(attempt.record.attempts, moment).signal(Signal::CommitConflict)
            }
            Cancellation::Transient => {
                let wait = moment.uniform(commit::pause_bound(attempt.recommits));
                attempt.recommits += 1;
                self.call(State::Pausing { attempt }, Call::Wait(wait)).signal(Signal::CommitConflict)
            }
        }
    }

    /// Ends the record without applying a change.
    fn mark(self, record: Box<Record>, outcome: Outcome, moment: Moment) -> WorkerStep {
        let call = Call::Write(commit::settle(&record, outcome, &self.timing, moment));
        self.call(State::Marking { record, outcome }, call)
    }

    fn marked(self, written: &Written, record: Box<Record>, outcome: Outcome, moment: Moment) -> WorkerStep {
        match written {
            Written::Applied => Step::done(Settled::Ack(Done::Settled(outcome))),
            Written::ConditionFailed(_) => Step::done(Settled::Ack(Done::Elsewhere)),
            Written::TransactionConflict | Written::Unavailable => self.transient(record.attempts, moment),
            Written::Invalid => self.invalid(record, moment),
        }
    }

    fn confirmed(self, found: &Found, record: &Record, moment: Moment) -> WorkerStep {
        if let Found::Record(now) = found
            && now.status == Status::Processed
            && now.claim_id == record.claim_id
            && now.generation == record.generation
        {
            // The effects of the record as it is now: another copy may have committed another plan.
            return self.applied(now.effect_keys());
        }
        // A commit that lands later is harmless: either its condition fails, or it is the one commit.
        self.transient(record.attempts, moment)
    }
}

/// The record of this message died.
fn died(key: RecordKey, reason: DeadReason) -> WorkerStep {
    Step::done(Settled::Ack(Done::Dead)).signal(Signal::RecordDead { key, reason })
}

/// A hint is in the wrong queue. Its record is in the relay's schedule.
pub(crate) fn misrouted<Machine>() -> Step<Machine, Settled> {
    Step::done(Settled::Ack(Done::Elsewhere)).signal(Signal::HintMisrouted)
}

impl Machine for Worker {
    type Output = Settled;

    fn step(mut self, reply: Reply, moment: Moment) -> WorkerStep {
        let state = std::mem::replace(&mut self.state, State::Reading { replans: 0 });
        match state {
            State::Reading { replans } => match reply.read() {
                Ok(found) => self.found(found, replans, moment),
                Err(_) => self.transient(0, moment),
            },
            State::Claiming { claim } => {
                let step = claim.step(reply.written(), &self.timing, moment);
                self.claiming(step, moment)
            }
            State::ReadingOther => match reply.read() {
                // The claim may win the next time. Until then the message may be the only copy.
                Ok(Found::Nothing) | Err(Unavailable) => self.hold(moment),
                Ok(found) => self.found(found, 0, moment),
            },
            State::Planning { record, replans } => self.planned(reply.planned(), record, replans, moment),
            State::Moving { record } => match reply.sent() {
                Ok(()) => Step::done(Settled::Ack(Done::Moved)),
                Err(_) => self.transient(record.attempts, moment),
            },
            State::Committing { attempt } => self.committed(reply.committed(), attempt, moment),
            State::Pausing { attempt } => self.send_commit(attempt),
            State::Confirming { record } => match reply.read() {
                Ok(found) => self.confirmed(&found, &record, moment),
                Err(_) => self.transient(record.attempts, moment),
            },
            State::HintingEffects => {
                let settled = Step::done(Settled::Ack(Done::Settled(Outcome::Applied)));
                let lost = !matches!(&reply, Reply::SentEach(sent) if sent.iter().all(Result::is_ok));
                if lost { settled.signal(Signal::HintFailed) } else { settled }
            }
            State::Marking { record, outcome } => self.marked(&reply.written(), record, outcome, moment),
            State::Splitting { record } => self.split(reply.split(), record, moment),
            State::Looking { fan_out, chunk } => {
                let found = reply.read_heads(chunk.len());
                self.looked(fan_out, chunk, found, moment)
            }
            State::Creating { fan_out, missing, others } => {
                let written = reply.written_each(missing.len());
                self.created(fan_out, missing, others, &written, moment)
            }
            State::Quarantining { fan_out, fresh, others } => {
                let written = reply.written_each(others.len());
                self.quarantined(fan_out, fresh, others, &written, moment)
            }
            State::Hinting { fan_out } => self.look(fan_out, moment),
            State::Failing { record, pause, dead } => self.failed(&record, reply.written(), pause, dead, moment),
            State::Postponing { record, pause } => self.not_dead(&record, reply.written(), pause, moment),
        }
    }
}
