//! Ingress: takes a verified delivery and returns an answer.
//!
//! ```text
//! claim (one conditional put) ─ won ─────────────▶ hint ─▶ accepted        (the relay owns a hint that failed)
//!    ├─ lost to this very request's own retry ───▶ hint ─▶ accepted
//!    ├─ lost to another delivery ─▶ count, best effort ──▶ duplicate       (a loser never sends)
//!    ├─ transaction in the way ─▶ read ─▶ as lost, or claim once more
//!    └─ unknown ─▶ reject: please retry  |  enqueue the payload itself: accepted
//! ```
//! Architecture Invariant: a 2xx answer needs a [`Durable`]. Only this module makes one, in exactly these cases: a won
//! claim, the record of the request's own earlier attempt, the record of another delivery, a confirmed fail-open
//! message.

use crate::call::{Call, Machine, Reply, Signal, Step, Written};
use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::item::Value;
use crate::message::Message;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Found, Guard, Record, Status, attribute, equals, set};
use crate::timing::{Moment, Timing};
use crate::words::words;
use crate::write::{Action, Change, Clause, Condition, Table, Write};

words! {
    /// What to answer when the store cannot confirm a claim.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    OnStoreOutage {
        /// Ask the provider to retry (fail-closed).
        #[default]
        Reject = "reject",
        /// Acknowledge once the queue confirms a message that carries the payload (fail-open).
        Enqueue = "enqueue",
    }
}

words! {
    /// What to do with another body under a known id.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    OnBodyMismatch {
        /// Treat it as a duplicate. Some providers render the body again for a retry.
        #[default]
        Duplicate = "duplicate",
        /// Keep the first other body as a DEAD record for an operator to inspect. Later ones count as duplicates.
        Quarantine = "quarantine",
    }
}

/// Proof that a durable copy of the delivery exists.
///
/// The same names in code that compiles, so that the example fails for its reason alone:
///
/// ```
/// fn same(durable: hookonce_protocol::ingress::Durable) -> hookonce_protocol::ingress::Durable {
///     durable
/// }
/// ```
///
/// ```compile_fail,E0423
/// // Nobody else says so.
/// let durable = hookonce_protocol::ingress::Durable(());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Durable(());

/// The answer to the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IngressAnswer {
    /// This delivery was accepted as the first.
    Accepted(Durable),
    /// The delivery is a duplicate.
    Duplicate(Durable),
    /// No durable copy is known to exist. Please retry.
    RetryPlease,
}

/// The machine for one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ingress {
    claim: Box<Claim>,
    on_store_outage: OnStoreOutage,
    message_bytes_max: usize,
    timing: Timing,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Claiming { again: bool },
    Checking { again: bool },
    Hinting,
    MarkingDue,
    Quarantining,
    Counting,
    Enqueueing,
}

/// The write that claims a record.
pub fn claim_write(record: &Record) -> Write {
    creation(record, Purpose::Claim)
}

/// The write that creates a record, if none exists.
pub(crate) fn creation(record: &Record, purpose: Purpose) -> Write {
    Write {
        purpose,
        table: Table::Inbox,
        key: record.key.as_str().into(),
        action: Action::Put(record.encode()),
        condition: Condition::item_absent(),
    }
}

/// The record that keeps another body: DEAD from the start, with its payload.
pub fn quarantined(claim: &Record, timing: &Timing, moment: Moment) -> Record {
    let record = Record { key: claim.key.alternate(), ..claim.clone() };
    record.stillborn(DeadReason::IdCollision, timing, moment)
}

/// Tells of another body under the id of this record.
pub(crate) fn body_mismatch(old: &Record, other: &[u8]) -> Signal {
    let bodies = old.body.as_ref().map(|first| Box::new([first.clone(), other.to_vec()]));
    Signal::BodyMismatch { key: old.key.clone(), bodies }
}

/// Whether a claim lost to the record of another one with another body.
pub(crate) fn has_other_body(claim: &Record, old: &Record) -> bool {
    old.claim_id != claim.claim_id && old.body_sha256 != claim.body_sha256
}

impl Ingress {
    /// Starts with the claim. The queue accepts a message of at most `message_bytes_max` bytes.
    pub fn start(
        claim: Claim,
        on_store_outage: OnStoreOutage,
        message_bytes_max: usize,
        timing: Timing,
    ) -> Step<Self, IngressAnswer> {
        let (claim, state) = (Box::new(claim), State::Claiming { again: false });
        Self { claim, on_store_outage, message_bytes_max, timing, state }.claim(false)
    }

    fn call(mut self, state: State, call: Call) -> Step<Self, IngressAnswer> {
        self.state = state;
        Step::call(self, call)
    }

    /// The record to write. Its first re-send is due some time after the receipt.
    fn record(&self) -> Record {
        self.claim.record(&self.timing, self.claim.received_at)
    }

    fn claim(self, again: bool) -> Step<Self, IngressAnswer> {
        let write = claim_write(&self.record());
        self.call(State::Claiming { again }, Call::Write(write))
    }

    fn hint(self) -> Step<Self, IngressAnswer> {
        let message = Message::Ref { pk: self.claim.pk.clone() };
        self.call(State::Hinting, Call::Send(message))
    }

    /// The claim found an item. The item is durable, whatever its state.
    fn found(self, found: Found, moment: Moment) -> Step<Self, IngressAnswer> {
        match found {
            Found::Record(old) if old.claim_id == self.claim.claim_id => match old.status {
                Status::Pending => self.hint().signal(Signal::ClaimReplyLost),
                Status::Processed | Status::Dead | Status::Discarded => {
                    Step::done(IngressAnswer::Accepted(Durable(()))).signal(Signal::ClaimReplyLost)
                }
            },
            Found::Record(old) => self.lost(&old, moment),
            Found::Unreadable(_) => Step::done(IngressAnswer::Duplicate(Durable(()))).signal(Signal::UnknownVersion),
            Found::Nothing => self.check(false),
        }
    }

    fn check(self, again: bool) -> Step<Self, IngressAnswer> {
        let key = self.claim.pk.clone();
        self.call(State::Checking { again }, Call::Read(key))
    }

    fn lost(self, old: &Record, moment: Moment) -> Step<Self, IngressAnswer> {
        if old.body_sha256 == self.claim.body_sha256 {
            return self.count(old, moment);
        }
        let mismatch = body_mismatch(old, &self.claim.body);
        if !self.claim.quarantine_mismatch {
            return self.count(old, moment).signal(mismatch);
        }
        let write = creation(&quarantined(&self.record(), &self.timing, moment), Purpose::Quarantine);
        self.call(State::Quarantining, Call::Write(write)).signal(mismatch)
    }

    /// Counts the duplicate. A sum cannot show who added to it, so the write also names its request: a repetition that
    /// finds that name does not count again. If another duplicate was counted in between, it may.
    fn count(self, old: &Record, moment: Moment) -> Step<Self, IngressAnswer> {
        let me = self.claim.claim_id.0.as_str();
        let write = Write {
            purpose: Purpose::CountDuplicate,
            table: Table::Inbox,
            key: old.key.as_str().into(),
            action: Action::Update(vec![
                Change::Add(attribute::DUPLICATE_COUNT.into(), 1),
                set(attribute::LAST_SEEN_AT, moment.now.0),
                set(attribute::LAST_SEEN_BY, me),
            ]),
            condition: Condition(vec![
                Clause::Present(crate::item::PARTITION_KEY.into()),
                equals(attribute::CLAIM_ID, old.claim_id.0.as_str()),
                Clause::Differs(attribute::LAST_SEEN_BY.into(), me.into()),
            ]),
        };
        self.call(State::Counting, Call::WriteBestEffort(write))
    }

    fn mark_due(self, moment: Moment) -> Step<Self, IngressAnswer> {
        let guard = Guard { status: Status::Pending, claim_id: self.claim.claim_id.clone(), generation: 0, retries: 0 };
        let mine = self.record().due.map_or(moment.now, |due| due.at);
        let write = Write {
            purpose: Purpose::MarkDue,
            table: Table::Inbox,
            key: self.claim.pk.as_str().into(),
            action: Action::Update(vec![set(attribute::DUE_AT, moment.now.0)]),
            condition: guard.condition([equals(attribute::DUE_AT, Value::from(mine.0))]),
        };
        self.call(State::MarkingDue, Call::WriteBestEffort(write)).signal(Signal::HintFailed)
    }

    fn outage(self) -> Step<Self, IngressAnswer> {
        match self.on_store_outage {
            OnStoreOutage::Reject => Step::done(IngressAnswer::RetryPlease),
            OnStoreOutage::Enqueue => self.enqueue(),
        }
    }

    fn enqueue(self) -> Step<Self, IngressAnswer> {
        let message = Message::Full(self.claim.clone());
        if message.encoded_bytes() > self.message_bytes_max {
            return Step::done(IngressAnswer::RetryPlease);
        }
        self.call(State::Enqueueing, Call::Send(message))
    }
}

impl Machine for Ingress {
    type Output = IngressAnswer;

    fn step(self, reply: Reply, moment: Moment) -> Step<Self, IngressAnswer> {
        match self.state {
            State::Claiming { again } => match reply.written() {
                Written::Applied => self.hint(),
                Written::ConditionFailed(found) => self.found(found, moment),
                Written::TransactionConflict if again => self.outage().signal(Signal::ClaimConflict),
                Written::TransactionConflict => self.check(true).signal(Signal::ClaimConflict),
                Written::Unavailable => self.outage(),
                // The store can never hold this record, neither written now nor from a message. A corrected release may
                // still take the provider's retry.
                Written::Invalid => Step::done(IngressAnswer::RetryPlease).signal(Signal::WriteInvalid),
            },
            State::Checking { again } => match reply.read() {
                Ok(Found::Nothing) if again => self.claim(true),
                Ok(Found::Nothing) | Err(_) => self.outage(),
                Ok(found) => self.found(found, moment),
            },
            State::Hinting => match reply.sent() {
                Ok(()) => Step::done(IngressAnswer::Accepted(Durable(()))),
                Err(_) => self.mark_due(moment),
            },
            State::MarkingDue => Step::done(IngressAnswer::Accepted(Durable(()))),
            State::Counting => Step::done(IngressAnswer::Duplicate(Durable(()))),
            // The other body is acknowledged, so it must be durable. If that is unknown, the provider's retry comes
            // back here.
            State::Quarantining => match reply.written() {
                Written::Applied => {
                    let died = Signal::RecordDead { key: self.claim.pk.alternate(), reason: DeadReason::IdCollision };
                    Step::done(IngressAnswer::Duplicate(Durable(()))).signal(died)
                }
                Written::ConditionFailed(_) => Step::done(IngressAnswer::Duplicate(Durable(()))),
                Written::Invalid => Step::done(IngressAnswer::RetryPlease).signal(Signal::WriteInvalid),
                Written::TransactionConflict | Written::Unavailable => Step::done(IngressAnswer::RetryPlease),
            },
            State::Enqueueing => match reply.sent() {
                Ok(()) => Step::done(IngressAnswer::Accepted(Durable(()))).signal(Signal::FailOpen),
                Err(_) => Step::done(IngressAnswer::RetryPlease),
            },
        }
    }
}
