//! The calls that a machine can ask for, and their replies.
//!
//! A machine has at most one call in flight, so "the process dies here" has one meaning at every step.

use crate::check::{PlanError, Scope};
use crate::destination::{Called, Offer, OutboundCall};
use crate::effect::{DestinationId, EffectDraft};
use crate::item::{Item, Value};
use crate::key::{APPLIED_AT, AppliedFact, DomainKey, RECORD, RecordKey, Tenant};
use crate::message::Message;
use crate::plan::Plan;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Found, Record, dead_shard, effect_shard, pending_shard, waiting_shard};
use crate::time::{EpochMs, Millis};
use crate::trail::Trail;
use crate::write::{Action, Write};

/// One call to carry out. Its reply goes back into the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// One conditional write. If the condition fails, the reply holds the item's head. Reply: [`Reply::Written`].
    Write(Write),
    /// One conditional write that may be dropped if it takes long. Reply: [`Reply::Done`].
    WriteBestEffort(Write),
    /// Conditional writes that are independent of each other. Reply: [`Reply::WrittenEach`], in order.
    WriteEach(Vec<Write>),
    /// One strongly consistent read of a record. Reply: [`Reply::Read`].
    Read(RecordKey),
    /// One strongly consistent read of a record's audit trail. Reply: [`Reply::Trail`].
    ReadTrail(RecordKey),
    /// Strongly consistent reads of records, without their bodies because there may be hundreds. Reply:
    /// [`Reply::ReadHeads`], in order.
    ReadHeads(Vec<RecordKey>),
    /// A transaction: all writes or none. Reply: [`Reply::Committed`].
    Commit(Vec<Write>),
    /// Sends one message. Reply: [`Reply::Sent`].
    Send(Message),
    /// Sends messages independently of each other. Reply: [`Reply::SentEach`], in order.
    SendEach(Vec<Message>),
    /// Reads one page of a shard of the index. The index may be stale. Reply: [`Reply::Due`].
    QueryDue(DueQuery),
    /// Counts the records of one journal shard that were received in this span. Reply: [`Reply::Counted`].
    CountReceived {
        /// The shard.
        shard: u16,
        /// The start of the span.
        from: EpochMs,
        /// The end of the span.
        until: EpochMs,
    },
    /// Routes the record's event to its handler, reads what it asks for, and lets it plan. Reply: [`Reply::Planned`].
    Plan(Box<Record>),
    /// Splits an envelope's body into events. Reply: [`Reply::Split`].
    Split(Box<Record>),
    /// Reads the terms of a destination, and waits for a turn there. Reply: [`Reply::Terms`].
    Terms(DestinationId),
    /// Calls a destination once, without a hidden repeat. Reply: [`Reply::Called`].
    Deliver(Box<OutboundCall>),
    /// Waits this long. Reply: [`Reply::Done`].
    Wait(Millis),
}

/// The reply to a call. A reply of the wrong kind counts as [`Unavailable`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To a write.
    Written(Written),
    /// To independent writes.
    WrittenEach(Vec<Written>),
    /// To a read.
    Read(Result<Found, Unavailable>),
    /// To a read of a trail.
    Trail(Result<Trail, Unavailable>),
    /// To reads.
    ReadHeads(Vec<Result<Found, Unavailable>>),
    /// To a commit.
    Committed(Committed),
    /// To a send.
    Sent(Result<(), Unavailable>),
    /// To sends.
    SentEach(Vec<Result<(), Unavailable>>),
    /// To a query of the index.
    Due(Result<DuePage, Unavailable>),
    /// To a count.
    Counted(Result<u64, Unavailable>),
    /// To a plan.
    Planned(Planned),
    /// To a split.
    Split(Split),
    /// To a read of terms. None if there is no such destination.
    Terms(Result<Option<Offer>, Unavailable>),
    /// To a call of a destination.
    Called(Called),
    /// To a call whose result does not matter.
    Done,
}

/// The other side did not answer, or said that it cannot. The call may have been carried out or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the other side is unavailable; the call may or may not have been carried out")]
pub struct Unavailable;

/// The result of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Written {
    /// The write was carried out, now or by an earlier try of the same call.
    Applied,
    /// The condition did not hold. This is the head of the record as it was: what has no body here may have one.
    ConditionFailed(Found),
    /// Refused because a running transaction includes the item. Nothing was written.
    TransactionConflict,
    /// The store can never carry out this write. Nothing was written, and a repetition cannot help.
    Invalid,
    /// Unknown: it was carried out or not.
    Unavailable,
}

impl Written {
    /// What it means that the condition did not hold for this item. A store client repeats a write whose reply was
    /// lost. If the lost one was carried out, the repetition meets the item as the write itself left it, and the write
    /// counts as carried out ([`Write::stands_in`]).
    ///
    /// A claim that is refused may say where the other body differs. Nobody else who is refused needs the body, and
    /// hundreds of them would not fit into memory.
    pub fn refused(write: &Write, item: Option<&Item>) -> Self {
        if write.stands_in(item) {
            return Self::Applied;
        }
        let is_claim = write.purpose == Purpose::Claim;
        Self::ConditionFailed(if is_claim { Found::from_item(item) } else { Found::head_of(item) })
    }
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Committed {
    /// All writes were carried out.
    Applied,
    /// None was carried out. One reason per write, in order.
    Cancelled(Vec<CancellationReason>),
    /// A table is missing, may not be written, or has another key than the writes name. Nothing was written.
    Denied,
    /// The store can never carry out this request. Nothing was written.
    Invalid,
    /// Unknown: all writes were carried out or none.
    Unavailable,
}

/// Why one write of a cancelled commit was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancellationReason {
    /// This write was not the reason.
    None,
    /// The condition did not hold.
    ConditionFailed,
    /// The condition of a domain key did not hold: the fact was applied, and by a record with this record's own key.
    OwnFact {
        /// When it was applied.
        applied_at: EpochMs,
    },
    /// Another transaction includes the item, or the store is short of capacity.
    Transient,
    /// The store can never carry out this write.
    Invalid,
}

impl CancellationReason {
    /// What it means that the condition of a write did not hold for this item, in a transaction. Of a domain key, the
    /// item tells who applied the fact.
    pub fn refused(write: &Write, item: Option<&Item>) -> Self {
        let applied = |item| Some((AppliedFact::of(item)?.record, item.get(APPLIED_AT)?.as_i64()?));
        match (&write.action, item.and_then(applied)) {
            (Action::Put(put), Some((record, at)))
                if write.purpose == Purpose::DomainKey && put.get(RECORD).and_then(Value::as_text) == Some(record) =>
            {
                Self::OwnFact { applied_at: EpochMs(at) }
            }
            (Action::Put(_) | Action::Update(_) | Action::Delete | Action::Check, _) => Self::ConditionFailed,
        }
    }

    /// Whether the condition did not hold.
    pub const fn is_failed_condition(self) -> bool {
        match self {
            Self::ConditionFailed | Self::OwnFact { .. } => true,
            Self::None | Self::Transient | Self::Invalid => false,
        }
    }
}

/// One page of a shard of the index of due records, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DueQuery {
    /// Which records.
    pub state: DueState,
    /// The shard.
    pub shard: u16,
    /// The latest due time, or time of death.
    pub until: EpochMs,
    /// Where the page before ended, unless this is the first.
    pub after: Option<DueCursor>,
    /// The most entries to return.
    pub limit: usize,
}

impl DueQuery {
    /// The partition of the index.
    pub fn partition(&self) -> String {
        match self.state {
            DueState::Pending => pending_shard(self.shard),
            DueState::Waiting => waiting_shard(self.shard),
            DueState::Effect => effect_shard(self.shard),
            DueState::Dead => dead_shard(self.shard),
        }
    }
}

/// The result of a query of the index.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DuePage {
    /// Its entries, oldest first. Entries whose key no version of this protocol wrote are left out.
    pub entries: Vec<DueEntry>,
    /// Where it ended, unless it is the last one.
    pub next: Option<DueCursor>,
}

/// A place in a shard of the index: that of any item, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DueCursor {
    /// The item's key.
    pub key: String,
    /// The due time in the index.
    pub due_at: EpochMs,
}

/// The records that the index of due records holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DueState {
    /// PENDING deliveries, events and envelopes, by when they fall due.
    Pending,
    /// PENDING events that wait without counting, by when they fall due.
    Waiting,
    /// PENDING effects, by when they fall due.
    Effect,
    /// DEAD records, by when they died.
    Dead,
}

/// An entry of the index of due records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DueEntry {
    /// The record.
    pub key: RecordKey,
    /// The due time in the index.
    pub due_at: EpochMs,
}

/// The result of asking a handler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Planned {
    /// The handler's decision.
    Plan(Box<HandlerPlan>),
    /// No handler wants events of this type.
    NoHandler,
    /// The handler failed.
    Failed(Failure),
    /// The items that the handler asked for, or the routes, could not be read.
    Unavailable,
    /// The handler could not be asked: the message has used up its calls, or its time.
    CallsUsedUp,
    /// The handler is unavailable: it cannot be reached, or takes no calls for now.
    HandlerAway,
    /// A user table that the handler uses is missing, or cannot be read.
    UserTableUnavailable,
    /// The handler is slow. It is asked once the event has moved to the queue of slow handlers.
    HandlerSlow {
        /// Its name or URL.
        handler: String,
    },
}

/// A plan, with its consumer and fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HandlerPlan {
    /// Who remembers the fact: the name that a route gives, else the handler's.
    pub consumer: String,
    /// The business fact.
    pub domain_key: DomainKey,
    /// The changes.
    pub plan: Plan,
    /// What is sent out of the account once the changes are committed.
    pub effects: Vec<EffectDraft>,
    /// What the handler may write, and what it has seen.
    pub scope: Scope,
}

impl HandlerPlan {
    /// Checks what the commit would write, the effects included.
    ///
    /// # Errors
    /// [`PlanError`] names the first thing that is wrong.
    pub fn check(&self, tenant: &Tenant) -> Result<(), PlanError> {
        self.plan.check_with(&self.effects, tenant, &self.scope)
    }
}

/// Why a handler failed, or why the body could not be read for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// A fixed code, for people and for metrics. It never contains a byte of the payload.
    pub code: String,
    /// Whether another attempt can succeed.
    pub retryable: bool,
}

impl Failure {
    /// A failure that another attempt can resolve.
    pub fn retryable(code: impl Into<String>) -> Self {
        Self { code: code.into(), retryable: true }
    }

    /// A failure that no attempt can resolve.
    pub fn permanent(code: impl Into<String>) -> Self {
        Self { code: code.into(), retryable: false }
    }
}

/// The result of splitting an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Split {
    /// Its events.
    Events(Vec<ChildEvent>),
    /// The envelope cannot be split.
    Failed(Failure),
}

/// One event from an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildEvent {
    /// The key of its record: the same as if it had come alone.
    pub key: RecordKey,
    /// The provider's name for the type of event.
    pub event_type: String,
    /// The compressed payload: a delivery with only this event.
    pub body: Vec<u8>,
    /// The record's `body_sha256`.
    pub sha256: [u8; 32],
    /// Whether it fits into a record of its own.
    pub fits: bool,
}

/// A machine's next step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next<State, Output> {
    /// Carry out the call and pass its reply to the machine.
    Call(State, Call),
    /// The machine has ended.
    Done(Output),
}

/// A machine's next step, with its signals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step<State, Output> {
    /// The signals, for metrics and logs.
    pub signals: Vec<Signal>,
    /// What comes next.
    pub next: Next<State, Output>,
}

impl<State, Output> Step<State, Output> {
    /// A step with a call.
    pub fn call(state: State, call: Call) -> Self {
        Self { signals: Vec::new(), next: Next::Call(state, call) }
    }

    /// The last step.
    pub fn done(output: Output) -> Self {
        Self { signals: Vec::new(), next: Next::Done(output) }
    }

    /// Adds a signal.
    #[must_use]
    pub fn signal(mut self, signal: Signal) -> Self {
        self.signals.push(signal);
        self
    }

    /// The step of a machine that this one is part of: it goes on with `call`, or with `done`.
    pub(crate) fn within<Whole, WholeOutput>(
        self,
        machine: Whole,
        call: impl FnOnce(Whole, State, Call) -> Step<Whole, WholeOutput>,
        done: impl FnOnce(Whole, Output) -> Step<Whole, WholeOutput>,
    ) -> Step<Whole, WholeOutput> {
        let step = match self.next {
            Next::Call(state, next) => call(machine, state, next),
            Next::Done(output) => done(machine, output),
        };
        self.signals.into_iter().fold(step, Step::signal)
    }
}

/// Something that is counted but changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Another body came for a record. Of a batch, the first such record.
    BodyMismatch {
        /// The record's key.
        key: RecordKey,
        /// Both compressed payloads, the one that came first and the other, if the first one was read.
        bodies: Option<Box<[Vec<u8>; 2]>>,
    },
    /// The same bytes were already applied under another id.
    SuspectedReplay,
    /// The claim found the record that an earlier try of the same request made, and that has changed since.
    ClaimReplyLost,
    /// The claim met a transaction on the same item.
    ClaimConflict,
    /// The delivery was acknowledged with only the queue message as its durable copy.
    FailOpen,
    /// The hint could not be sent. The relay will send it.
    HintFailed,
    /// A hint named a record that does not exist.
    RecordAbsent,
    /// The store can never carry out a write of the protocol.
    WriteInvalid,
    /// A record or message of an unknown version was left for the version that knows it.
    UnknownVersion,
    /// A message was not a hookonce message.
    MessageMalformed,
    /// A message carries a payload that the webhook function did not seal.
    MessageForged,
    /// A message carries a payload, and the key that verifies it is not known.
    MessageUnverified,
    /// The commit was cancelled by another transaction or for lack of capacity.
    CommitConflict,
    /// A commit's result was unknown, so the record had to be read.
    CommitUnknown,
    /// A handler failed.
    HandlerFailed,
    /// A handler in another language was called.
    HandlerCalled,
    /// A handler is unavailable.
    HandlerAway,
    /// A user table that a handler uses is missing or busy, or cannot be read or written.
    UserTableUnavailable,
    /// An event waits because others changed its items each time that it was planned.
    PlanOvertaken {
        /// Of the record that was planned.
        key: RecordKey,
        /// The condition that did not hold the last time. `None` if that plan is not known any more.
        error: Option<PlanError>,
    },
    /// A handler's plan broke a limit of the store, or has a condition that did not hold, and that it calls permanent.
    PlanRefused {
        /// Of the record that was planned.
        key: RecordKey,
        /// The limit, or the condition.
        error: PlanError,
    },
    /// A callee did an effect.
    EffectDelivered,
    /// An effect waits: its callee did not do it, or the outcome is unknown.
    EffectWaits,
    /// An effect waits for its destination, which is unknown or cannot be read.
    DestinationUnknown,
    /// A hint reached a queue that is not for records of its kind.
    HintMisrouted,
    /// A record died.
    RecordDead {
        /// The record's own key: that of a quarantined body, not of the record whose id came again.
        key: RecordKey,
        /// Why it died.
        reason: DeadReason,
    },
}

impl Signal {
    /// The metric's stable name.
    pub const fn metric(&self) -> &'static str {
        match self {
            Self::BodyMismatch { .. } => "body_mismatch",
            Self::SuspectedReplay => "suspected_replay",
            Self::ClaimReplyLost => "own_retry",
            Self::ClaimConflict => "claim_conflict",
            Self::FailOpen => "fail_open",
            Self::HintFailed => "hint_failed",
            Self::RecordAbsent => "record_absent",
            Self::WriteInvalid => "write_invalid",
            Self::UnknownVersion => "unknown_version",
            Self::MessageMalformed => "message_malformed",
            Self::MessageForged => "message_forged",
            Self::MessageUnverified => "message_unverified",
            Self::CommitConflict => "commit_conflict",
            Self::CommitUnknown => "commit_unknown",
            Self::HandlerFailed | Self::PlanRefused { .. } => "handler_failed",
            Self::HandlerCalled => "handler_calls",
            Self::HandlerAway => "handler_unavailable",
            Self::UserTableUnavailable => "table_unavailable",
            Self::PlanOvertaken { .. } => "plan_overtaken",
            Self::EffectDelivered => "effect_delivered",
            Self::EffectWaits => "effect_waits",
            Self::DestinationUnknown => "destination_unknown",
            Self::HintMisrouted => "hint_misrouted",
            Self::RecordDead { .. } => "record_dead",
        }
    }
}

/// A machine: pure, one call at a time.
pub trait Machine: Sized {
    /// The result of the machine.
    type Output;

    /// Takes the reply to the last call and returns the next step.
    fn step(self, reply: Reply, moment: crate::timing::Moment) -> Step<Self, Self::Output>;
}

impl Reply {
    /// The reply to a write.
    pub fn written(self) -> Written {
        if let Self::Written(written) = self { written } else { Written::Unavailable }
    }

    /// The replies to `count` independent writes.
    pub fn written_each(self, count: usize) -> Vec<Written> {
        let mut each = if let Self::WrittenEach(each) = self { each } else { Vec::new() };
        each.resize(count, Written::Unavailable);
        each
    }

    /// The reply to a read.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn read(self) -> Result<Found, Unavailable> {
        if let Self::Read(found) = self { found } else { Err(Unavailable) }
    }

    /// The reply to a read of a trail.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn trail(self) -> Result<Trail, Unavailable> {
        if let Self::Trail(trail) = self { trail } else { Err(Unavailable) }
    }

    /// The replies to `count` reads.
    pub fn read_heads(self, count: usize) -> Vec<Result<Found, Unavailable>> {
        let mut each = if let Self::ReadHeads(each) = self { each } else { Vec::new() };
        each.resize(count, Err(Unavailable));
        each
    }

    /// The reply to a commit.
    pub fn committed(self) -> Committed {
        if let Self::Committed(committed) = self { committed } else { Committed::Unavailable }
    }

    /// The reply to a send.
    ///
    /// # Errors
    /// [`Unavailable`] when the queue did not confirm it.
    pub fn sent(self) -> Result<(), Unavailable> {
        if let Self::Sent(sent) = self { sent } else { Err(Unavailable) }
    }

    /// The replies to `count` sends.
    pub fn sent_each(self, count: usize) -> Vec<Result<(), Unavailable>> {
        let mut each = if let Self::SentEach(each) = self { each } else { Vec::new() };
        each.resize(count, Err(Unavailable));
        each
    }

    /// The reply to a query of the index.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn due(self) -> Result<DuePage, Unavailable> {
        if let Self::Due(page) = self { page } else { Err(Unavailable) }
    }

    /// The reply to a count.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn counted(self) -> Result<u64, Unavailable> {
        if let Self::Counted(counted) = self { counted } else { Err(Unavailable) }
    }

    /// The reply to a plan.
    pub fn planned(self) -> Planned {
        if let Self::Planned(planned) = self { planned } else { Planned::Unavailable }
    }

    /// The reply to a read of terms.
    ///
    /// # Errors
    /// [`Unavailable`] when they could not be read.
    pub fn terms(self) -> Result<Option<Offer>, Unavailable> {
        if let Self::Terms(terms) = self { terms } else { Err(Unavailable) }
    }

    /// The reply to a call of a destination. If it is lost, the outcome of the call is unknown.
    pub fn called(self) -> Called {
        if let Self::Called(called) = self { called } else { Called::Unclear { status: None, retry_after: None } }
    }

    /// The reply to a split. `None` if the reply is of the wrong kind.
    pub fn split(self) -> Option<Split> {
        if let Self::Split(split) = self { Some(split) } else { None }
    }
}
