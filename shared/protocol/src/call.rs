//! What a machine can ask for, and what it can be told.
//!
//! A machine has at most one call under way, so "the process dies here" has one meaning at every step.

use crate::key::{DomainKey, RecordKey};
use crate::message::Message;
use crate::plan::Plan;
use crate::record::{Found, Record};
use crate::time::{EpochMs, Millis};
use crate::write::Write;

/// One thing to carry out. The reply goes back into the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// One conditional write; a failed condition shows the item. Reply: [`Reply::Written`].
    Write(Write),
    /// One conditional write that may be dropped when it takes long. Reply: [`Reply::Done`].
    WriteBestEffort(Write),
    /// Independent conditional writes. Reply: [`Reply::WrittenEach`], in order.
    WriteEach(Vec<Write>),
    /// One strongly consistent read of a record. Reply: [`Reply::Read`].
    Read(RecordKey),
    /// Strongly consistent reads of records without their bodies: there may be hundreds. Reply: [`Reply::ReadHeads`], in
    /// order.
    ReadHeads(Vec<RecordKey>),
    /// All writes or none. Reply: [`Reply::Committed`].
    Commit(Vec<Write>),
    /// One message. Reply: [`Reply::Sent`].
    Send(Message),
    /// Messages, each on its own. Reply: [`Reply::SentEach`], in order.
    SendEach(Vec<Message>),
    /// PENDING records of a shard of the index that fell due, oldest first; the index may be stale. Reply: [`Reply::Due`].
    QueryDue {
        /// The shard.
        shard: u16,
        /// Due at this moment or before.
        until: EpochMs,
        /// At most so many.
        limit: usize,
    },
    /// How many records of one shard of the journal were received in this span. Reply: [`Reply::Counted`].
    CountReceived {
        /// The shard.
        shard: u16,
        /// From this moment on.
        from: EpochMs,
        /// Up to this moment.
        until: EpochMs,
    },
    /// Route the record's event to its handler, read what it asks for, and let it plan. Reply: [`Reply::Planned`].
    Plan(Box<Record>),
    /// Take the envelope's body apart. Reply: [`Reply::Split`].
    Split(Box<Record>),
    /// Let this time pass. Reply: [`Reply::Done`].
    Wait(Millis),
}

/// The answer to a call. A reply of another kind than the call's is taken as [`Unavailable`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To a write.
    Written(Written),
    /// To independent writes.
    WrittenEach(Vec<Written>),
    /// To a read.
    Read(Result<Found, Unavailable>),
    /// To reads.
    ReadHeads(Vec<Result<Found, Unavailable>>),
    /// To a commit.
    Committed(Committed),
    /// To a send.
    Sent(Result<(), Unavailable>),
    /// To sends.
    SentEach(Vec<Result<(), Unavailable>>),
    /// To a query of the index.
    Due(Result<Vec<DueEntry>, Unavailable>),
    /// To a count.
    Counted(Result<u64, Unavailable>),
    /// To a plan.
    Planned(Planned),
    /// To a split.
    Split(Split),
    /// To a call whose result does not matter.
    Done,
}

/// The other side did not answer, or said that it cannot. Whether the call was carried out is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the other side is unavailable; whether the call was carried out is unknown")]
pub struct Unavailable;

/// How a conditional write ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Written {
    /// It was carried out.
    Applied,
    /// Its condition did not hold; this is the item as it was.
    ConditionFailed(Found),
    /// Refused because the item is part of a transaction under way; nothing was written.
    TransactionConflict,
    /// Unknown.
    Unavailable,
}

/// How a commit ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Committed {
    /// All writes were carried out.
    Applied,
    /// None was; one reason for each write, in order.
    Cancelled(Vec<CancellationReason>),
    /// The store can never carry out this request; nothing was written.
    Invalid,
    /// Unknown.
    Unavailable,
}

/// Why one write of a cancelled commit did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancellationReason {
    /// Nothing was wrong with this one.
    None,
    /// Its condition did not hold.
    ConditionFailed,
    /// Its item is part of another transaction, or the store is short of capacity.
    Transient,
    /// It can never be carried out.
    Invalid,
}

/// An entry of the index of due records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DueEntry {
    /// The record.
    pub key: RecordKey,
    /// When it falls due, as the index shows it.
    pub due_at: EpochMs,
}

/// What came of asking a handler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Planned {
    /// The handler's decision.
    Plan(Box<HandlerPlan>),
    /// No handler wants events of this type.
    NoHandler,
    /// The handler failed.
    Failed(Failure),
    /// What the handler asked for could not be read.
    Unavailable,
}

/// A plan, and the handler and fact that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HandlerPlan {
    /// The handler's name.
    pub handler: String,
    /// The business fact, in the handler's words.
    pub domain_key: DomainKey,
    /// What changes.
    pub plan: Plan,
}

/// Why a handler, or the body it was to see, failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// A fixed code, for people and for metrics. Never a byte of the payload.
    pub code: String,
    /// Whether another attempt can succeed.
    pub retryable: bool,
}

impl Failure {
    /// Another attempt can succeed.
    pub fn retryable(code: &str) -> Self {
        Self { code: code.to_owned(), retryable: true }
    }

    /// No attempt can succeed.
    pub fn permanent(code: &str) -> Self {
        Self { code: code.to_owned(), retryable: false }
    }
}

/// What came of taking an envelope apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Split {
    /// Its events.
    Events(Vec<ChildEvent>),
    /// It cannot be taken apart.
    Failed(Failure),
}

/// One event out of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildEvent {
    /// The event's id.
    pub event_id: String,
    /// The provider's word for what happened.
    pub event_type: String,
    /// The compressed payload: a delivery that holds just this event.
    pub body: Vec<u8>,
    /// Hash of the event's own bytes.
    pub sha256: [u8; 32],
}

/// A machine's next step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Next<State, Output> {
    /// Carry out the call and hand its reply to the state.
    Call(State, Call),
    /// The machine has ended.
    Done(Output),
}

/// A machine's next step, and what is worth counting about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step<State, Output> {
    /// For metrics and logs.
    pub signals: Vec<Signal>,
    /// What follows.
    pub next: Next<State, Output>,
}

impl<State, Output> Step<State, Output> {
    /// A step that asks for a call.
    pub fn call(state: State, call: Call) -> Self {
        Self { signals: Vec::new(), next: Next::Call(state, call) }
    }

    /// The last step.
    pub fn done(output: Output) -> Self {
        Self { signals: Vec::new(), next: Next::Done(output) }
    }

    /// The same step with a signal.
    #[must_use]
    pub fn signal(mut self, signal: Signal) -> Self {
        self.signals.push(signal);
        self
    }
}

/// Something worth counting that changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// An id came again with another body.
    BodyMismatch,
    /// The very bytes of a delivery had their effect under another id.
    SuspectedReplay,
    /// The claim found this very request's own earlier attempt.
    OwnRetry,
    /// The claim met a transaction on the same item.
    ClaimConflict,
    /// The delivery was acknowledged on the strength of the queue alone.
    FailOpen,
    /// The hint could not be sent; the relay will.
    HintFailed,
    /// A hint named a record that does not exist.
    RecordAbsent,
    /// A record or message of another version was left for the version that knows it.
    UnknownVersion,
    /// A message was not one of ours.
    MessageMalformed,
    /// The commit was cancelled by another transaction or for lack of capacity.
    CommitConflict,
    /// A commit's outcome was unknown and had to be read.
    CommitUnknown,
    /// A handler failed.
    HandlerFailed,
    /// A record died.
    RecordDead,
}

impl Signal {
    /// The stable name of the metric.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::BodyMismatch => "body_mismatch",
            Self::SuspectedReplay => "suspected_replay",
            Self::OwnRetry => "own_retry",
            Self::ClaimConflict => "claim_conflict",
            Self::FailOpen => "fail_open",
            Self::HintFailed => "hint_failed",
            Self::RecordAbsent => "record_absent",
            Self::UnknownVersion => "unknown_version",
            Self::MessageMalformed => "message_malformed",
            Self::CommitConflict => "commit_conflict",
            Self::CommitUnknown => "commit_unknown",
            Self::HandlerFailed => "handler_failed",
            Self::RecordDead => "record_dead",
        }
    }
}

/// A machine: pure, one call at a time.
pub trait Machine: Sized {
    /// What it ends with.
    type Output;

    /// The next step on a reply.
    fn step(self, reply: Reply, moment: crate::timing::Moment) -> Step<Self, Self::Output>;
}

impl Reply {
    /// As the reply to a write.
    pub fn written(self) -> Written {
        if let Self::Written(written) = self { written } else { Written::Unavailable }
    }

    /// As the replies to `count` independent writes.
    pub fn written_each(self, count: usize) -> Vec<Written> {
        let mut each = if let Self::WrittenEach(each) = self { each } else { Vec::new() };
        each.resize(count, Written::Unavailable);
        each
    }

    /// As the reply to a read.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn read(self) -> Result<Found, Unavailable> {
        if let Self::Read(found) = self { found } else { Err(Unavailable) }
    }

    /// As the replies to `count` reads.
    pub fn read_heads(self, count: usize) -> Vec<Result<Found, Unavailable>> {
        let mut each = if let Self::ReadHeads(each) = self { each } else { Vec::new() };
        each.resize(count, Err(Unavailable));
        each
    }

    /// As the reply to a commit.
    pub fn committed(self) -> Committed {
        if let Self::Committed(committed) = self { committed } else { Committed::Unavailable }
    }

    /// As the reply to a send.
    ///
    /// # Errors
    /// [`Unavailable`] when the queue did not confirm it.
    pub fn sent(self) -> Result<(), Unavailable> {
        if let Self::Sent(sent) = self { sent } else { Err(Unavailable) }
    }

    /// As the replies to `count` sends.
    pub fn sent_each(self, count: usize) -> Vec<Result<(), Unavailable>> {
        let mut each = if let Self::SentEach(each) = self { each } else { Vec::new() };
        each.resize(count, Err(Unavailable));
        each
    }

    /// As the reply to a query of the index.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn due(self) -> Result<Vec<DueEntry>, Unavailable> {
        if let Self::Due(due) = self { due } else { Err(Unavailable) }
    }

    /// As the reply to a count.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub fn counted(self) -> Result<u64, Unavailable> {
        if let Self::Counted(counted) = self { counted } else { Err(Unavailable) }
    }

    /// As the reply to a plan.
    pub fn planned(self) -> Planned {
        if let Self::Planned(planned) = self { planned } else { Planned::Unavailable }
    }

    /// As the reply to a split, `None` for a reply of another kind.
    pub fn split(self) -> Option<Split> {
        if let Self::Split(split) = self { Some(split) } else { None }
    }
}
