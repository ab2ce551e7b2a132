//! Which faults a call can meet.

use hookonce_protocol::call::Call;

use super::action::{Action, byte};
use super::state::{Budget, State};
use super::world::{Class, World};
use crate::fault::Fault;
use crate::label::Role;

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
