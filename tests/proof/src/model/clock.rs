//! Where the clock goes next.

use hookonce_protocol::call::DueState;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::Millis;

use super::Model;
use super::action::RUNS;
use super::callee::Document;
use super::pool::ProcId;
use super::scenario::Clock;
use super::state::State;
use super::view::ItemView;
use super::world::{Class, World};
use crate::label::Role;

/// How long a record may stay due while the clock goes on: the relay runs at least this often.
const RELAY_GRACE: Millis = Millis::hours(6);

impl Model {
    /// The next moment at which something can differ, unless the clock must wait for the relay or for a process.
    pub(super) fn next_moment(&self, world: &World, state: &State) -> Option<i64> {
        let mut next = i64::MAX;
        let mut limit = i64::MAX;
        let mut consider = |moment: i64| {
            if moment > state.now {
                next = next.min(moment);
            }
        };
        for (slot, item) in state.items.into_iter().enumerate() {
            let Some(view) = world.item(item) else { continue };
            if let Some(due) = view.due {
                consider(due);
                limit = limit.min(due.saturating_add(RELAY_GRACE.0));
            }
            let pending = view.record.as_ref().filter(|_| view.pending());
            if self.scenario.clock.is_far() {
                view.expires.into_iter().for_each(&mut consider);
                if let Some(record) = pending {
                    consider(record.received_at.0.saturating_add(world.timing.commit_age_max.0).saturating_add(1));
                }
            }
            pending.and_then(|record| record.not_before).into_iter().for_each(|pause| consider(pause.0));
            if let Some(record) = pending.filter(|record| record.effect.is_some()) {
                self.moments_of_effect(world, record).for_each(&mut consider);
                world.calls(state, slot).forgets(state.now, &world.documents).into_iter().for_each(&mut consider);
            }
        }
        if self.scenario.clock.is_far() {
            let messages = state.queue.iter().chain(&state.dead).filter(|message| message.is_some());
            messages.for_each(|message| {
                consider(world.messages.view(*message).accept_before.saturating_add(1));
            });
            world.domains.view(state.domain).expires.into_iter().for_each(&mut consider);
        }
        if self.scenario.clock.relay_may_be_down() {
            limit = i64::MAX;
        }
        let brief = next <= state.now.saturating_add(world.timing.zombie_age_max.0);
        let may = (brief || state.idle() || self.overtakes(world, state)) && !calls(world, state);
        (next < i64::MAX && next <= limit && may).then_some(next)
    }

    /// When the pass of an effect is free again, its key's window ends, it is given up, and it is too old.
    fn moments_of_effect<'a>(&'a self, world: &World, record: &'a Record) -> impl Iterator<Item = i64> + 'a {
        let timing = world.timing;
        let part = record.effect.as_deref();
        let since = part.and_then(|part| part.retried_at).unwrap_or(record.received_at).0;
        let held = part.and_then(|part| part.pass.as_ref()).map(|pass| pass.at.0 + timing.effects_visibility_timeout.0);
        let called = part.and_then(|part| part.first_call_at);
        // The last call with a key begins at the first of these, and none ends after the second.
        let ends = [timing.key_margin.0, 1];
        let windows = self.scenario.documents.iter().flatten().filter_map(Document::window);
        let windows = windows.flat_map(move |window| ends.map(|end| window.0 - end));
        let windows = windows.filter_map(move |window| Some(called?.0 + window));
        let ages = [timing.effect_age_max, self.scenario.give_up_after].map(|age| since.saturating_add(age.0));
        held.into_iter().chain(windows).chain(ages).map(|moment| moment.saturating_add(1))
    }

    /// A worker may be overtaken by any length of time, and so may an operator who looks at a record. A provider's
    /// request may not: it would be another delivery. An operator's transaction names the time at which it is sent, so
    /// it may be overtaken by the age of a zombie only.
    fn overtakes(&self, world: &World, state: &State) -> bool {
        let held = |proc: &&ProcId| {
            let view = world.procs.view(**proc);
            view.role == Role::Ingress || view.role == Role::Operator && matches!(view.class, Class::Commit { .. })
        };
        let mut running = state.procs.iter().filter(|proc| proc.is_some());
        self.scenario.clock == Clock::Overtaking && !running.any(|proc| held(&proc))
    }
}

/// A dispatcher has looked at the clock and is about to call. It is not overtaken there: the platform ends its process
/// long before another one may have the pass.
fn calls(world: &World, state: &State) -> bool {
    let calls = |proc: &ProcId| proc.is_some() && matches!(world.procs.view(*proc).class, Class::Deliver { .. });
    state.procs.iter().any(calls)
}

/// Something PENDING is due in a list.
pub(super) fn due(world: &World, state: &State, list: DueState) -> bool {
    let seen = |item| {
        let view: Option<&ItemView> = world.item(item);
        view.filter(|view| view.list == Some(list)).and_then(|view| view.due).is_some_and(|due| due <= state.now)
    };
    let may_be_stale = state.may(super::state::Budget::Stale);
    state.items.into_iter().any(seen) || (may_be_stale && state.before.into_iter().any(seen))
}

/// Something PENDING will fall due.
pub(super) fn waiting(world: &World, state: &State) -> bool {
    let later = |item| world.item(item).and_then(|view| view.due).is_some_and(|due| due > state.now);
    state.items.into_iter().any(later) && !RUNS.iter().any(|(_, list)| due(world, state, *list))
}
