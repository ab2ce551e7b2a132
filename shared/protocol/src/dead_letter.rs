//! Dead letters: messages that were received too often. The record decides what happens.
//!
//! A message can become a dead letter without its handler ever running (throttling, crash loops), or after another copy
//! was applied. So a record only becomes DEAD by a write whose condition is the state that was read.
//!
//! Dead letters count rounds, not messages. The relay sends copies while a record waits, and what makes one copy a dead
//! letter makes all of them dead letters, within minutes of each other. So a dead letter counts only if its message was
//! not sent before the last one was counted: it is then proof that another round of receives has failed. [`ROUNDS_MAX`]
//! rounds make the record DEAD, whether or not its handler has run.

use crate::call::{Call, Machine, Reply, Signal, Step, Written};
use crate::claim::Claim;
use crate::full_claim::{Claimed, FullClaim};
use crate::key::RecordKey;
use crate::message::{Message, MessageError};
use crate::purpose::Purpose;
use crate::record::{DeadReason, Due, Found, Record, Status, attribute, counted, set};
use crate::time::EpochMs;
use crate::timing::{Moment, Timing};
use crate::worker::death;
use crate::write::{Action, Table, Write};

/// The number of rounds of dead letters after which a record is DEAD.
pub const ROUNDS_MAX: i64 = 3;

/// What happened to the record of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeadLetterOutcome {
    /// The record became DEAD. Delete the message.
    Dead,
    /// The record is due again. Delete the message.
    Rearmed,
    /// The message is a copy from a round that was counted. The record is in the relay's schedule. Delete the message.
    Copy,
    /// The record was settled elsewhere or does not exist. Delete the message.
    Elsewhere,
    /// The store did not answer, or another version must handle the message. Keep it.
    Keep,
}

/// The machine for one dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeadLetter {
    timing: Timing,
    sent_at: Option<EpochMs>,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Reading,
    Claiming { claim: FullClaim },
    Writing { dies: Option<(RecordKey, DeadReason)> },
}

impl DeadLetter {
    /// Starts with the decoded message, and when it was sent, by the queue's clock. If that is not known, the dead
    /// letter counts.
    pub fn start(
        message: Result<Message, MessageError>,
        sent_at: Option<EpochMs>,
        timing: Timing,
        moment: Moment,
    ) -> Step<Self, DeadLetterOutcome> {
        let machine = Self { timing, sent_at, state: State::Reading };
        match message {
            Ok(Message::Ref { pk } | Message::Slow { pk, .. }) => Step::call(machine, Call::Read(pk)),
            Ok(Message::Full(claim)) => machine.claim(&claim, moment),
            Err(MessageError::UnknownVersion) => Step::done(DeadLetterOutcome::Keep).signal(Signal::UnknownVersion),
            // It is not a hookonce message. A person can inspect it until the queue's retention ends.
            Err(MessageError::Malformed) => Step::done(DeadLetterOutcome::Keep).signal(Signal::MessageMalformed),
            Err(MessageError::Forged) => Step::done(DeadLetterOutcome::Keep).signal(Signal::MessageForged),
            Err(MessageError::Unverified) => Step::done(DeadLetterOutcome::Keep).signal(Signal::MessageUnverified),
        }
    }

    /// Claims the record, so that the payload is not lost with the message: due now, or DEAD if the message is too old.
    fn claim(mut self, claim: &Claim, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        let mut record = claim.record(&self.timing, moment.now);
        record.due = Some(Due::pending(&record.key, self.timing.shards, moment.now));
        let (claim, call) = FullClaim::start(record, claim, &self.timing, moment);
        self.state = State::Claiming { claim };
        Step::call(self, call)
    }

    fn claiming(self, step: Step<FullClaim, Claimed>, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        let claimed = |machine: Self, claimed| match claimed {
            Claimed::Fresh(_) => Step::done(DeadLetterOutcome::Rearmed),
            Claimed::Stale(record) => dead(record.key, DeadReason::Stale),
            Claimed::Met(old) => machine.found(&Found::Record(old), moment),
            Claimed::Unsure => Step::done(DeadLetterOutcome::Keep),
        };
        let go_on = |machine, claim, call| Step::call(Self { state: State::Claiming { claim }, ..machine }, call);
        step.within(self, go_on, claimed)
    }

    fn found(mut self, found: &Found, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        let record = match found {
            Found::Nothing => return Step::done(DeadLetterOutcome::Elsewhere).signal(Signal::RecordAbsent),
            Found::Unreadable(_) => return Step::done(DeadLetterOutcome::Keep).signal(Signal::UnknownVersion),
            Found::Record(record) if record.status == Status::Pending => record,
            Found::Record(_) => return Step::done(DeadLetterOutcome::Elsewhere),
        };
        let counted = |(sent, last): (EpochMs, EpochMs)| sent < last;
        if self.sent_at.zip(record.dead_letter_at).is_some_and(counted) {
            return Step::done(DeadLetterOutcome::Copy);
        }
        let dies = record.dead_letters + 1 >= ROUNDS_MAX;
        self.state = State::Writing { dies: dies.then(|| (record.key.clone(), reason(record))) };
        let write = settle_write(record, dies, &self.timing, moment);
        Step::call(self, Call::Write(write))
    }
}

/// Why a record dies of its dead letters. An effect that was called may have been done. So may one for which a person
/// has accepted one more call: the acceptance removed the trace of the first.
fn reason(record: &Record) -> DeadReason {
    let traced = |called: bool| called || record.accept_duplicate;
    let called = record.effect.as_ref().is_some_and(|effect| traced(effect.first_call_at.is_some()));
    if called { DeadReason::UnknownOutcome } else { DeadReason::DeadLetter }
}

fn settle_write(record: &Record, dies: bool, timing: &Timing, moment: Moment) -> Write {
    let mut seen = vec![counted(attribute::DEAD_LETTERS, record.dead_letters)];
    let reason = reason(record);
    let mut changes =
        vec![set(attribute::DEAD_LETTERS, record.dead_letters + 1), set(attribute::DEAD_LETTER_AT, moment.now.0)];
    if dies {
        // Whether an effect was called decides what its death means, so it must still be as it was read.
        seen.extend(record.effect.as_ref().map(|effect| effect.first_call_as_read()));
        changes.extend(death(record, reason, timing, moment));
    } else {
        // Not within the pause of the last attempt: its hint would come too early.
        let due_at = record.not_before.map_or(moment.now, |pause| pause.max(moment.now));
        changes.push(set(attribute::DUE_AT, due_at.0));
    }
    Write {
        purpose: if dies { Purpose::DieOfDeadLetter } else { Purpose::RearmDeadLetter },
        table: Table::Inbox,
        key: record.key.as_str().into(),
        action: Action::Update(changes),
        condition: record.guard().condition(seen),
    }
}

fn dead(key: RecordKey, reason: DeadReason) -> Step<DeadLetter, DeadLetterOutcome> {
    Step::done(DeadLetterOutcome::Dead).signal(Signal::RecordDead { key, reason })
}

impl Machine for DeadLetter {
    type Output = DeadLetterOutcome;

    fn step(mut self, reply: Reply, moment: Moment) -> Step<Self, DeadLetterOutcome> {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Reading => match reply.read() {
                Ok(found) => self.found(&found, moment),
                Err(_) => Step::done(DeadLetterOutcome::Keep),
            },
            State::Claiming { claim } => {
                let step = claim.step(reply.written(), &self.timing, moment);
                self.claiming(step, moment)
            }
            State::Writing { dies } => match reply.written() {
                Written::Applied => {
                    dies.map_or_else(|| Step::done(DeadLetterOutcome::Rearmed), |(key, reason)| dead(key, reason))
                }
                // Another process changed the record after the read. It belongs to that process or to the relay.
                Written::ConditionFailed(_) => Step::done(DeadLetterOutcome::Elsewhere),
                Written::TransactionConflict | Written::Unavailable => Step::done(DeadLetterOutcome::Keep),
                Written::Invalid => Step::done(DeadLetterOutcome::Keep).signal(Signal::WriteInvalid),
            },
        }
    }
}
