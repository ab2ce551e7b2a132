//! The faults of the model, and which of them a call can meet.

use hookonce_protocol::call::Call;

use super::action::{Action, byte};
use super::state::{Budget, State};
use super::world::{Class, World};
use crate::label::Role;

/// A fault of one call. DynamoDB recognises a repeated transaction by its token, so that only single writes can meet
/// [`Fault::Repeated`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// It is not carried out, and the other side is unavailable. A store that throttles answers the same.
    Refused,
    /// It is carried out, and its reply is lost.
    ReplyLost,
    /// It is a write: it is carried out, its reply is lost, and the store's client repeats it.
    Repeated,
    /// It is a write, and the store says that it can never carry it out.
    Invalid,
    /// Its caller gives up, and it is carried out later: a zombie.
    Late,
    /// The item is part of a transaction under way: nothing is written.
    Conflict,
    /// It shows the state before the last change.
    Stale,
    /// Only the first of several messages is sent, or of several records is read. To the reader of another record this
    /// is the same as [`Fault::Refused`], which is what the model gives it.
    Partial,
    /// The handler fails, and another attempt may succeed.
    HandlerFails,
    /// The handler fails permanently.
    HandlerFailsForGood,
    /// The handler cannot be reached, or takes no calls for now.
    HandlerAway,
    /// The handler is slow, and the event moves.
    HandlerSlow,
    /// The document of the destination is unavailable, or has a fault.
    DestinationAway,
    /// There is no turn, because the calls of others take all the time.
    NoTurn,
    /// There is no turn, because the destination has failed again and again.
    CircuitOpen,
    /// There is no call: once the pass was taken, the time did not suffice any more.
    NoTime,
    /// A callee says that it did nothing, and takes the call later.
    CalleeBusy,
    /// A callee refuses, and did nothing.
    CalleeRefuses,
    /// A callee did it, and its answer does not say so.
    AmbiguousDone,
    /// A callee did nothing, and its answer does not say so.
    AmbiguousNotDone,
    /// The process dies before the call.
    CrashBefore,
    /// The process dies after the call.
    CrashAfter,
    /// The process dies, and the call is carried out later.
    CrashDuring,
}

impl Fault {
    /// The budget that it uses. [`Fault::CrashDuring`] uses [`Budget::Late`], too.
    pub(super) fn price(self) -> Budget {
        match self {
            Self::Refused | Self::ReplyLost | Self::Partial => Budget::Refuse,
            Self::Repeated => Budget::Repeat,
            Self::Invalid => Budget::Invalid,
            Self::Late => Budget::Late,
            Self::Conflict => Budget::Conflict,
            Self::Stale => Budget::Stale,
            Self::HandlerFails => Budget::Fail,
            Self::HandlerFailsForGood => Budget::Poison,
            Self::HandlerAway | Self::DestinationAway => Budget::Away,
            Self::HandlerSlow => Budget::Slow,
            Self::NoTurn | Self::CircuitOpen | Self::NoTime | Self::CalleeBusy => Budget::Busy,
            Self::CalleeRefuses => Budget::Reject,
            Self::AmbiguousDone | Self::AmbiguousNotDone => Budget::Ambiguous,
            Self::CrashBefore | Self::CrashAfter | Self::CrashDuring => Budget::Crash,
        }
    }
}

/// The ways in which the call of a process can go on.
pub(super) fn faults(world: &World, state: &State, index: usize, actions: &mut Vec<Action>) {
    let view = world.procs.view(state.procs[index]);
    let several = matches!(world.call(view.call).as_ref(), Call::SendEach(messages) if messages.len() > 1);
    let excluded =
        [(Fault::Repeated, view.repeats), (Fault::Partial, !several), (Fault::CrashDuring, !state.may(Budget::Late))];
    let deaths: &[Fault] = if view.role == Role::Operator { &[] } else { deaths(view.class) };
    let faults = of_call(view.class).iter().chain(deaths).copied();
    let faults = faults.filter(|fault| state.may(fault.price()) && !excluded.contains(&(*fault, true)));
    actions.push(Action::Step(byte(index), None));
    actions.extend(faults.map(|fault| Action::Step(byte(index), Some(fault))));
}

/// The faults that a call of this class can meet.
fn of_call(class: Class) -> &'static [Fault] {
    match class {
        Class::Write { best_effort: true, .. } => &[Fault::Refused, Fault::Repeated, Fault::Late],
        Class::Write { best_effort: false, .. } => {
            &[Fault::Refused, Fault::ReplyLost, Fault::Repeated, Fault::Invalid, Fault::Late, Fault::Conflict]
        }
        Class::Commit { .. } => &[Fault::Refused, Fault::ReplyLost, Fault::Late, Fault::Conflict],
        Class::Read | Class::Query => &[Fault::Refused, Fault::Stale],
        Class::Trail(_) => &[Fault::Refused],
        Class::Send => &[Fault::Refused, Fault::ReplyLost, Fault::Partial],
        Class::Plan(_) => {
            &[Fault::Refused, Fault::HandlerFails, Fault::HandlerFailsForGood, Fault::HandlerAway, Fault::HandlerSlow]
        }
        Class::Terms => &[Fault::Refused, Fault::DestinationAway, Fault::NoTurn, Fault::CircuitOpen],
        Class::Deliver { .. } => &[
            Fault::Refused,
            Fault::ReplyLost,
            Fault::Late,
            Fault::NoTime,
            Fault::CalleeBusy,
            Fault::CalleeRefuses,
            Fault::AmbiguousDone,
            Fault::AmbiguousNotDone,
        ],
    }
}

/// Where a process can die around a call of this class.
fn deaths(class: Class) -> &'static [Fault] {
    match class {
        Class::Read | Class::Query | Class::Trail(_) | Class::Plan(_) | Class::Terms => &[Fault::CrashBefore],
        Class::Send => &[Fault::CrashBefore, Fault::CrashAfter],
        Class::Write { .. } | Class::Commit { .. } | Class::Deliver { .. } => {
            &[Fault::CrashBefore, Fault::CrashAfter, Fault::CrashDuring]
        }
    }
}
