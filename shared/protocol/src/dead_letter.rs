//! Dead letters: a message that was received too often. The record decides what that means.
//!
//! A message can end here although its handler never ran (throttling, crash loops), or although another copy was
//! applied long ago, so a record dies only by a write that names the state it was read in.

use crate::call::{Call, Machine, Reply, Signal, Step, Written};
use crate::claim::Claim;
use crate::ingress::{creation, keeps_other_body, quarantined};
use crate::message::{Message, MessageError};
use crate::purpose::Purpose;
use crate::record::{DeadReason, Found, Record, Status, attribute, equals, set};
use crate::timing::{Moment, Timing};
use crate::worker::{bury, death};
use crate::write::{Action, Clause, Table, Write};

/// How often a record may come here without its handler ever having run; the next time it dies.
pub const UNTRIED_MAX: i64 = 2;

/// What becomes of the dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeadLetterOutcome {
    /// Its record is dead; delete the message.
    Dead,
    /// Its record falls due again; delete the message.
    Rearmed,
    /// Its record was settled elsewhere, or does not exist; delete the message.
    Elsewhere,
    /// The store did not answer, or the message is for another version; keep it.
    Keep,
}

/// One dead letter at work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeadLetter {
    timing: Timing,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Reading,
    Claiming { record: Box<Record> },
    KeepingOther { old: Box<Record> },
    Writing { dies: bool },
}

impl DeadLetter {
    /// Starts on a message as it was decoded.
    pub fn start(
        message: Result<Message, MessageError>,
        timing: Timing,
        moment: Moment,
    ) -> Step<Self, DeadLetterOutcome> {
        match message {
            Ok(Message::Ref { pk }) => Step::call(Self { timing, state: State::Reading }, Call::Read(pk)),
            Ok(Message::Full(claim)) => Self { timing, state: State::Reading }.claim(&claim, moment),
            Err(MessageError::UnknownVersion) => Step::done(DeadLetterOutcome::Keep).signal(Signal::UnknownVersion),
            // Nothing of ours is in it; a person can look at it until the queue lets it go.
            Err(MessageError::Malformed) => Step::done(DeadLetterOutcome::Keep).signal(Signal::MessageMalformed),
        }
    }

    /// The payload must not be lost with the message: the record is claimed, dead from the start.
    fn claim(mut self, claim: &Claim, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        let mut record = claim.record(&self.timing, moment.now);
        let stale = moment.now > claim.accept_before;
        let reason = if stale { DeadReason::Stale } else { DeadReason::DeadLetter };
        bury(&mut record, reason, &self.timing, moment);
        let call = Call::Write(creation(&record, Purpose::ClaimDead));
        self.state = State::Claiming { record: Box::new(record) };
        Step::call(self, call)
    }

    /// The claim lost. A body that the record does not hold is kept first, where the endpoint wants that.
    fn lost(mut self, found: Found, record: &Record, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        match found {
            Found::Record(old) if keeps_other_body(record, &old) => {
                let call = Call::Write(creation(&quarantined(record, &self.timing, moment), Purpose::Quarantine));
                self.state = State::KeepingOther { old };
                Step::call(self, call).signal(Signal::BodyMismatch)
            }
            found => self.found(&found, moment),
        }
    }

    fn found(mut self, found: &Found, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        let record = match found {
            Found::Nothing => return Step::done(DeadLetterOutcome::Elsewhere).signal(Signal::RecordAbsent),
            Found::Unreadable(_) => return Step::done(DeadLetterOutcome::Keep).signal(Signal::UnknownVersion),
            Found::Record(record) if record.status == Status::Pending => record,
            Found::Record(_) => return Step::done(DeadLetterOutcome::Elsewhere),
        };
        let dies = record.attempts > 0 || record.dead_letters >= UNTRIED_MAX;
        self.state = State::Writing { dies };
        let write = settle_write(record, dies, &self.timing, moment);
        Step::call(self, Call::Write(write))
    }
}

fn settle_write(record: &Record, dies: bool, timing: &Timing, moment: Moment) -> Write {
    let seen = match record.dead_letters {
        0 => Clause::Absent(attribute::DEAD_LETTERS.into()),
        count => equals(attribute::DEAD_LETTERS, count),
    };
    let mut changes = vec![set(attribute::DEAD_LETTERS, record.dead_letters + 1)];
    if dies {
        changes.extend(death(record, DeadReason::DeadLetter, timing, moment));
    } else {
        changes.push(set(attribute::DUE_AT, moment.now.0));
    }
    Write {
        purpose: if dies { Purpose::DieOfDeadLetter } else { Purpose::RearmDeadLetter },
        table: Table::Inbox,
        key: record.key.as_str().to_owned(),
        action: Action::Update(changes),
        condition: record.guard().condition([equals(attribute::ATTEMPTS, record.attempts), seen]),
    }
}

impl Machine for DeadLetter {
    type Output = DeadLetterOutcome;

    fn step(mut self, reply: Reply, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Reading => match reply.read() {
                Ok(found) => self.found(&found, moment),
                Err(_) => Step::done(DeadLetterOutcome::Keep),
            },
            State::Claiming { record } => match reply.written() {
                Written::Applied => Step::done(DeadLetterOutcome::Dead).signal(Signal::RecordDead),
                Written::ConditionFailed(Found::Nothing) | Written::TransactionConflict | Written::Unavailable => {
                    Step::done(DeadLetterOutcome::Keep)
                }
                Written::ConditionFailed(found) => self.lost(found, &record, moment),
            },
            State::KeepingOther { old } => match reply.written() {
                Written::Applied | Written::ConditionFailed(_) => self.found(&Found::Record(old), moment),
                Written::TransactionConflict | Written::Unavailable => Step::done(DeadLetterOutcome::Keep),
            },
            State::Writing { dies } => match reply.written() {
                Written::Applied if dies => Step::done(DeadLetterOutcome::Dead).signal(Signal::RecordDead),
                Written::Applied => Step::done(DeadLetterOutcome::Rearmed),
                // Someone changed the record since it was read; it is theirs, or the relay's.
                Written::ConditionFailed(_) => Step::done(DeadLetterOutcome::Elsewhere),
                Written::TransactionConflict | Written::Unavailable => Step::done(DeadLetterOutcome::Keep),
            },
        }
    }
}
