//! One table is restored to an earlier moment, and the other is not.
//!
//! DynamoDB restores under another name, and what the functions had under way goes to the table before, so nothing runs
//! and no write lands. As the runbook says, somebody doubts the effects that the restored table holds: they may have
//! been called since. Events are left as they are, because their domain keys tell what was applied.

use hookonce_protocol::operator::doubt;
use hookonce_protocol::record::{Outcome, Record, Status};

use super::Model;
use super::pool::ItemId;
use super::rule::Rule;
use super::state::{Budget, LateWrite, SLOTS, State};
use super::world::World;

impl Model {
    /// The inbox table is restored.
    pub(super) fn rewind_inbox(&self, world: &mut World, state: &mut State) -> bool {
        let Some((items, _)) = begin(world, state) else { return false };
        state.inbox_rewound = true;
        for (slot, restored) in items.iter().enumerate() {
            let is_gone = state.items[slot].is_some() && !restored.is_some();
            let is_effect = self.origins[slot].is_some();
            state.forgotten |= u8::from(is_gone && is_effect) << slot;
            state.given_up |= u8::from(is_gone && !is_effect) << slot;
        }
        state.items = items;
        state.before = [ItemId::NONE; SLOTS];
        state.granted = [0; SLOTS];
        for slot in 0..SLOTS {
            let moment = world.moment(state.now, 0);
            let effect = record(world, state.items[slot]).filter(|record| record.effect.is_some()).cloned();
            let Some(write) = effect.and_then(|effect| doubt(&effect, &world.timing, moment).ok()) else { continue };
            let item = world.item_value(state.items[slot]).cloned();
            let doubted = write.apply(item.as_ref()).expect("it is as it was shown");
            let doubted = world.intern_item(doubted);
            self.change(world, state, slot, doubted, false);
        }
        true
    }

    /// The domain table is restored. What it tells no more is lost, unless its event comes again under another id.
    pub(super) fn rewind_domain(world: &World, state: &mut State) -> bool {
        let Some((_, domain)) = begin(world, state) else { return false };
        state.domain_rewound = true;
        state.domain = domain;
        for slot in 0..SLOTS {
            let applied = world.item(state.items[slot]).is_some_and(super::view::ItemView::applied);
            state.given_up |= u8::from(applied) << slot;
        }
        true
    }

    /// An effect was committed and forgotten, and its event says that all is well.
    pub(super) fn vanished(&self, world: &World, state: &State) -> Option<Rule> {
        let vanished = |slot: usize| {
            let Some((event, generation)) = self.origins[slot] else { return false };
            let settled = |event: &Record| {
                event.status == Status::Processed
                    && event.generation == generation
                    && matches!(event.outcome, Some(Outcome::Applied | Outcome::Duplicate))
            };
            state.forgotten & (1 << slot) != 0
                && !state.items[slot].is_some()
                && record(world, state.items[event]).is_some_and(settled)
        };
        (0..SLOTS).any(vanished).then_some(Rule::EffectGone)
    }
}

/// What was under way is over, but for calls that have left.
fn begin(world: &World, state: &mut State) -> Option<([ItemId; SLOTS], super::pool::DomainId)> {
    let backup = state.backup?;
    state.spend(Budget::Rewind);
    if !state.may(Budget::Rewind) {
        state.backup = None;
    }
    for late in &mut state.late {
        if late.call.is_some() && world.delivery(late.call).is_none() {
            *late = LateWrite::default();
        }
    }
    state.late.sort_unstable();
    Some(backup)
}

fn record(world: &World, item: ItemId) -> Option<&Record> {
    world.item(item)?.record.as_ref()
}
