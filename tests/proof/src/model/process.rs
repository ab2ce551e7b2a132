//! Processes: the protocol's own machines, each with the call that it waits for.

use hookonce_protocol::call::{Machine, Next, Reply, Step, Written};
use hookonce_protocol::dead_letter::{self, DeadLetter};
use hookonce_protocol::dispatcher::Dispatcher;
use hookonce_protocol::ingress::{Ingress, IngressAnswer};
use hookonce_protocol::operator::{Operated, Operator};
use hookonce_protocol::relay::{Chunk, Run, Scan};
use hookonce_protocol::timing::Moment;
use hookonce_protocol::worker::{Settled, Worker};

use super::pool::{CallId, ItemId, MessageId};
use crate::label::Role;

/// A machine and its input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Actor {
    /// An attempt of a delivery.
    Ingress(Ingress, u8),
    /// A message, by its number.
    Worker(Worker, MessageId),
    /// A hint of an effect.
    Dispatcher(Box<Dispatcher>, DispatcherContext),
    /// A relay run that reads the index.
    Scan(Box<Run>, Scan),
    /// A relay run that sends.
    Chunk(Box<Run>, Chunk),
    /// A dead letter, by its number, and whether it was sent before the last one was counted.
    DeadLetter(DeadLetter, MessageId, bool),
    /// An operator, and the record that was shown.
    Operator(Operator, ItemId),
}

/// What a dispatcher holds besides its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DispatcherContext {
    /// Its message, by its number.
    pub(super) message: MessageId,
    /// Its own pass, and those that it has read, as bits.
    pub(super) passes: u16,
    /// The document of the destination that it was told, by its place: it calls under this one.
    pub(super) document: u8,
}

/// A process. It does nothing until its call is answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Proc {
    /// The machine.
    pub(super) actor: Actor,
    /// The call that it waits for, by its number.
    pub(super) call: CallId,
    /// The parts of the call that were answered.
    pub(super) done: Vec<Written>,
    /// The next part was carried out, and its reply was lost: the store's client repeats it.
    pub(super) repeats: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The provider was answered: 2xx or not.
    Answered {
        /// Which delivery.
        delivery: u8,
        /// Whether it was 2xx.
        accepted: bool,
    },
    /// The message is deleted.
    Deleted,
    /// The message stays in the queue.
    Returned(MessageId),
    /// The dead letter stays in its queue.
    Kept(MessageId),
    /// A relay run, or an operator, is done.
    Gone,
}

/// What comes next in a process.
pub(super) type Advanced = Next<Box<Actor>, End>;

impl Actor {
    /// Who makes the call.
    pub(super) fn role(&self) -> Role {
        match self {
            Self::Ingress(..) => Role::Ingress,
            Self::Worker(..) => Role::Worker,
            Self::Dispatcher(..) => Role::Dispatcher,
            Self::Scan(..) | Self::Chunk(..) => Role::Relay,
            Self::DeadLetter(..) => Role::DeadLetter,
            Self::Operator(..) => Role::Operator,
        }
    }

    /// Hands the reply to the machine.
    pub(super) fn step(self, reply: Reply, moment: Moment) -> Advanced {
        match self {
            Self::Ingress(machine, delivery) => Self::ingress(machine.step(reply, moment), delivery),
            Self::Worker(machine, message) => Self::worker(machine.step(reply, moment), message),
            Self::Dispatcher(machine, context) => Self::dispatcher(machine.step(reply, moment), context),
            Self::Scan(mut run, machine) => match machine.step(reply, moment).next {
                Next::Call(machine, call) => Next::Call(Box::new(Self::Scan(run, machine)), call),
                Next::Done(scanned) => {
                    run.scanned(scanned);
                    Self::relay_run(run, moment)
                }
            },
            Self::Chunk(mut run, machine) => match machine.step(reply, moment).next {
                Next::Call(machine, call) => Next::Call(Box::new(Self::Chunk(run, machine)), call),
                Next::Done(report) => {
                    run.ended(report);
                    Self::relay_chunk(run, moment)
                }
            },
            Self::DeadLetter(machine, message, copy) => Self::dead_letter(machine.step(reply, moment), message, copy),
            Self::Operator(machine, shown) => Self::operator(machine.step(reply, moment), shown),
        }
    }

    /// The first step of a relay run. Its machines work one after the other here: chunks that run side by side have
    /// nothing in common, and two runs at once are a scenario.
    pub(super) fn relay_run(mut run: Box<Run>, moment: Moment) -> Advanced {
        if let Some(Step { next: Next::Call(scan, call), .. }) = run.next_scan(moment) {
            return Next::Call(Box::new(Self::Scan(run, scan)), call);
        }
        assert!(run.sample(moment).is_none(), "a few records are within the least budget");
        Self::relay_chunk(run, moment)
    }

    fn relay_chunk(mut run: Box<Run>, moment: Moment) -> Advanced {
        match run.next_chunk(moment) {
            Some(Step { next: Next::Call(chunk, call), .. }) => Next::Call(Box::new(Self::Chunk(run, chunk)), call),
            Some(Step { next: Next::Done(_), .. }) | None => Next::Done(End::Gone),
        }
    }

    /// The first or a later step of an attempt.
    pub(super) fn ingress(step: Step<Ingress, IngressAnswer>, delivery: u8) -> Advanced {
        match step.next {
            Next::Call(machine, call) => Next::Call(Box::new(Self::Ingress(machine, delivery)), call),
            Next::Done(IngressAnswer::Accepted(_) | IngressAnswer::Duplicate(_)) => {
                Next::Done(End::Answered { delivery, accepted: true })
            }
            Next::Done(IngressAnswer::RetryPlease) => Next::Done(End::Answered { delivery, accepted: false }),
        }
    }

    /// The first or a later step of an operator.
    pub(super) fn operator(step: Step<Operator, Operated>, shown: ItemId) -> Advanced {
        match step.next {
            Next::Call(machine, call) => Next::Call(Box::new(Self::Operator(machine, shown)), call),
            Next::Done(_) => Next::Done(End::Gone),
        }
    }

    /// The first or a later step on a message.
    pub(super) fn worker(step: Step<Worker, Settled>, message: MessageId) -> Advanced {
        match step.next {
            Next::Call(machine, call) => Next::Call(Box::new(Self::Worker(machine, message)), call),
            Next::Done(Settled::Ack(_)) => Next::Done(End::Deleted),
            Next::Done(Settled::Retry(_)) => Next::Done(End::Returned(message)),
        }
    }

    /// The first or a later step on a hint of an effect.
    pub(super) fn dispatcher(step: Step<Dispatcher, Settled>, context: DispatcherContext) -> Advanced {
        match step.next {
            Next::Call(machine, call) => Next::Call(Box::new(Self::Dispatcher(Box::new(machine), context)), call),
            Next::Done(Settled::Ack(_)) => Next::Done(End::Deleted),
            Next::Done(Settled::Retry(_)) => Next::Done(End::Returned(context.message)),
        }
    }

    /// The first or a later step on a dead letter.
    pub(super) fn dead_letter(
        step: Step<DeadLetter, dead_letter::DeadLetterOutcome>,
        message: MessageId,
        copy: bool,
    ) -> Advanced {
        use dead_letter::DeadLetterOutcome as Buried;
        match step.next {
            Next::Call(machine, call) => Next::Call(Box::new(Self::DeadLetter(machine, message, copy)), call),
            Next::Done(Buried::Dead | Buried::Rearmed | Buried::Copy | Buried::Elsewhere) => Next::Done(End::Deleted),
            Next::Done(Buried::Keep) => Next::Done(End::Kept(message)),
        }
    }
}
