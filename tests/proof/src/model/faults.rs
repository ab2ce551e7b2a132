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
    /// Nobody calls, because the calls of others take all the time.
    NoTurn,
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

/// The ways in which the call of a process can go on.
pub(super) fn faults(world: &World, state: &State, index: usize, actions: &mut Vec<Action>) {
    let view = world.procs.view(state.procs[index]);
    actions.push(Action::Step(byte(index), None));
    let mut fault = |fault| actions.push(Action::Step(byte(index), Some(fault)));
    let (refuse, late, crash) = (state.may(Budget::Refuse), state.may(Budget::Late), state.may(Budget::Crash));
    match view.class {
        Class::Write { best_effort, .. } => write_faults(state, best_effort, view.repeats, &mut fault),
        Class::Commit { .. } => {
            if refuse {
                fault(Fault::Refused);
                fault(Fault::ReplyLost);
            }
            if late {
                fault(Fault::Late);
            }
            if state.may(Budget::Conflict) {
                fault(Fault::Conflict);
            }
        }
        Class::Read | Class::Query => {
            if refuse {
                fault(Fault::Refused);
            }
            if state.may(Budget::Stale) {
                fault(Fault::Stale);
            }
        }
        Class::Trail { .. } => {
            if refuse {
                fault(Fault::Refused);
            }
        }
        Class::Send => {
            if refuse {
                fault(Fault::Refused);
                fault(Fault::ReplyLost);
                if matches!(world.call(view.call).as_ref(), Call::SendEach(messages) if messages.len() > 1) {
                    fault(Fault::Partial);
                }
            }
        }
        Class::Plan { .. } => plan_faults(state, &mut fault),
        Class::Terms => {
            if refuse {
                fault(Fault::Refused);
            }
            if state.may(Budget::Away) {
                fault(Fault::DestinationAway);
            }
        }
        Class::Deliver { .. } => call_faults(state, &mut fault),
    }
    if crash && view.role != Role::Operator {
        crashes(&view.class, late, fault);
    }
}

fn plan_faults(state: &State, mut fault: impl FnMut(Fault)) {
    let faults = [
        (Fault::Refused, Budget::Refuse),
        (Fault::HandlerFails, Budget::Fail),
        (Fault::HandlerFailsForGood, Budget::Poison),
        (Fault::HandlerAway, Budget::Away),
        (Fault::HandlerSlow, Budget::Slow),
    ];
    faults.into_iter().filter(|(_, budget)| state.may(*budget)).for_each(|(one, _)| fault(one));
}

fn call_faults(state: &State, mut fault: impl FnMut(Fault)) {
    let faults = [
        (Fault::Refused, Budget::Refuse),
        (Fault::ReplyLost, Budget::Refuse),
        (Fault::Late, Budget::Late),
        (Fault::NoTurn, Budget::Busy),
        (Fault::CalleeBusy, Budget::Busy),
        (Fault::CalleeRefuses, Budget::Reject),
        (Fault::AmbiguousDone, Budget::Ambiguous),
        (Fault::AmbiguousNotDone, Budget::Ambiguous),
    ];
    faults.into_iter().filter(|(_, budget)| state.may(*budget)).for_each(|(one, _)| fault(one));
}

fn write_faults(state: &State, best_effort: bool, repeats: bool, mut fault: impl FnMut(Fault)) {
    let faults = [
        (Fault::Refused, state.may(Budget::Refuse)),
        (Fault::ReplyLost, state.may(Budget::Refuse) && !best_effort),
        (Fault::Repeated, state.may(Budget::Repeat) && !repeats),
        (Fault::Invalid, state.may(Budget::Invalid) && !best_effort),
        (Fault::Late, state.may(Budget::Late)),
        (Fault::Conflict, state.may(Budget::Conflict) && !best_effort),
    ];
    faults.into_iter().filter(|(_, may)| *may).for_each(|(one, _)| fault(one));
}

/// Where a process can die around its current call.
fn crashes(class: &Class, late: bool, mut fault: impl FnMut(Fault)) {
    fault(Fault::CrashBefore);
    if matches!(class, Class::Write { .. } | Class::Commit { .. } | Class::Send | Class::Deliver { .. }) {
        fault(Fault::CrashAfter);
    }
    if late && matches!(class, Class::Write { .. } | Class::Commit { .. } | Class::Deliver { .. }) {
        fault(Fault::CrashDuring);
    }
}
