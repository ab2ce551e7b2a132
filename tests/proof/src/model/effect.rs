//! Effects in the world: who has a pass, what a call does, and what the promises say about every state.

use hookonce_protocol::destination::Called;
use hookonce_protocol::dispatcher::idempotency_key;
use hookonce_protocol::item::Value;
use hookonce_protocol::record::{DeadReason, Record, Status, attribute};
use hookonce_protocol::write::{Action, Change, Clause, Write};

use super::Model;
use super::callee::{Calls, OneCall};
use super::faults::Fault;
use super::pool::CallId;
use super::rule::Rule;
use super::state::{Budget, SLOTS, State};
use super::world::{Answer, ProcView, World};
use crate::call::writes;

/// What a pass begins with, before its number.
const PASS: &str = "p";

/// The passes of a value, as bits by number.
pub(super) fn pass_bit(pass: &str) -> u16 {
    let number = pass.strip_prefix(PASS).and_then(|number| number.parse::<u32>().ok());
    number.map_or(0, |number| 1 << number)
}

/// The passes that a write names.
pub(super) fn passes_of(write: &Write) -> u16 {
    let bit = |value: &Value| value.as_text().map_or(0, pass_bit);
    let named = write.condition.0.iter().filter(|clause| clause.attribute() == attribute::PASS);
    let named = named.map(|clause| match clause {
        Clause::Equals(_, value) => bit(value),
        Clause::Absent(_) | Clause::Present(_) | Clause::OneOf(..) | Clause::Differs(..) => 0,
    });
    let changes = if let Action::Update(changes) = &write.action { changes.as_slice() } else { &[] };
    let set = changes.iter().filter(|change| change.attribute() == attribute::PASS).map(|change| match change {
        Change::Set(_, value) => bit(value),
        Change::Remove(_) | Change::Add(..) => 0,
    });
    named.chain(set).fold(0, |all, bit| all | bit)
}

impl World {
    /// A pass that nothing names: it stands for one that is drawn again.
    pub(super) fn draw_pass(&self, state: &State) -> (u16, String) {
        let items = state.items.iter().chain(&state.before).filter_map(|item| self.item(*item));
        let procs = state.procs.iter().filter(|proc| proc.is_some()).map(|proc| self.procs.view(*proc).passes);
        let late = state.late.iter().filter(|late| late.call.is_some());
        let late = late.map(|late| writes(self.call(late.call)).iter().map(passes_of).fold(0, |all, bits| all | bits));
        let taken = items.map(|view| view.pass).chain(procs).chain(late).fold(0, |all, bits| all | bits);
        let number = taken.trailing_ones();
        (1 << number, format!("{PASS}{number}"))
    }

    /// The calls of an effect.
    pub(super) fn calls<'a>(&'a self, state: &State, slot: usize) -> &'a Calls {
        &self.callees.value(state.callees)[slot]
    }

    /// Changes the calls of an effect.
    pub(super) fn change_calls(&mut self, state: &mut State, slot: usize, change: impl FnOnce(&mut Calls)) {
        let mut all = self.callees.value(state.callees).as_ref().clone();
        change(&mut all[slot]);
        state.callees = self.callees.find(&all).unwrap_or_else(|| self.callees.insert(all, ()));
    }

    /// The record says that the callee refused its key.
    pub(super) fn spend_key(&mut self, state: &mut State, slot: usize) {
        let Some(record) = self.item(state.items[slot]).and_then(|view| view.record.clone()) else { return };
        let epoch = record.effect.as_ref().map_or(0, |effect| effect.key_epoch);
        let key = self.key_number(idempotency_key(&record.key, &record.claim_id, record.generation, epoch));
        self.change_calls(state, slot, |calls| calls.spend(key));
    }
}

impl Model {
    /// A call reaches its callee, or does not. Returns what the dispatcher is told; `None` if it does not fit into the
    /// bounds of the model.
    pub(super) fn reach(
        &self,
        world: &mut World,
        state: &mut State,
        view: ProcView,
        (slot, key): (usize, u8),
        fault: Option<Fault>,
    ) -> Option<Answer> {
        if fault == Some(Fault::CrashBefore) {
            return Some(reported(fault, false));
        }
        let documents = world.documents.clone();
        let call = OneCall { now: state.now, key, document: view.document, documents: &documents };
        let done_before = matches!(fault, None | Some(Fault::AmbiguousNotDone))
            && world.calls(state, slot).answers_done_before(call, fault.is_some());
        let broken = world.calls(state, slot).refuses(call).or_else(|| self.uncommitted(world, state, slot));
        if let Some(rule) = broken {
            state.broken = rule as u8;
        }
        let (doubtful, works) = match fault {
            Some(Fault::NoTime | Fault::CalleeBusy | Fault::CalleeRefuses) => (false, false),
            None | Some(Fault::ReplyLost | Fault::AmbiguousDone | Fault::CrashAfter) => (true, true),
            Some(_) => (true, false),
        };
        if doubtful {
            let guarded = world.item(state.items[slot]).is_some_and(|item| item.pass & view.passes != 0);
            world.change_calls(state, slot, |calls| calls.doubtful(call, guarded));
        }
        if works {
            work(world, state, slot, call);
        }
        if world.mutation.repeats_calls && fault == Some(Fault::ReplyLost) {
            world.note(true);
            work(world, state, slot, call);
        }
        let is_late = matches!(fault, Some(Fault::Late | Fault::CrashDuring));
        let fits = !is_late || state.postpone(view.call, view.document, view.shown);
        fits.then(|| reported(fault, done_before))
    }

    /// A call that was given up reaches its callee after all.
    pub(super) fn land_call(world: &mut World, state: &mut State, call: CallId, document: u8) {
        let Some((slot, key)) = world.delivery(call) else { return };
        let documents = world.documents.clone();
        work(world, state, slot, OneCall { now: state.now, key, document, documents: &documents });
    }

    /// The event that has this effect is not committed.
    fn uncommitted(&self, world: &World, state: &State, slot: usize) -> Option<Rule> {
        let (parent, generation) = self.origins[slot]?;
        let parent = world.item(state.items[parent]);
        let committed = parent.and_then(|view| view.record.as_ref().map(|record| (view, record)));
        let stands =
            committed.is_some_and(|(view, record)| record.generation > generation || view.effects & (1 << slot) != 0);
        (!stands && !state.expired).then_some(Rule::Uncommitted)
    }

    /// The rule about effects that a state breaks, if any.
    pub(super) fn broken_by_effects(&self, world: &World, state: &State) -> Option<Rule> {
        let by_slot = (0..SLOTS).find_map(|slot| {
            let view = world.item(state.items[slot])?;
            let gone = |effect: &usize| view.effects & (1 << effect) != 0 && !state.items[*effect].is_some();
            if !state.expired && (0..SLOTS).any(|effect| gone(&effect)) {
                return Some(Rule::EffectGone);
            }
            let record = view.record.as_ref().filter(|record| record.effect.is_some())?;
            self.ended_badly(state, record, world.calls(state, slot))
        });
        by_slot.or_else(|| self.vanished(world, state))
    }

    /// What the record of an effect says is not so.
    fn ended_badly(&self, state: &State, record: &Record, calls: &Calls) -> Option<Rule> {
        let done = calls.done > 0;
        match (record.status, record.dead_reason) {
            (Status::Processed, _) => (!done).then_some(Rule::Unapplied),
            (Status::Dead, Some(DeadReason::UnknownOutcome)) => {
                let open = [
                    Budget::Crash,
                    Budget::Refuse,
                    Budget::Late,
                    Budget::Tick,
                    Budget::Redrive,
                    Budget::Doubt,
                    Budget::Rewind,
                ];
                let quiet = !open.into_iter().any(|budget| self.used(state, budget) > 0);
                (quiet && calls.doubt.is_none() && calls.accepted == 0).then_some(Rule::Misjudged)
            }
            // It is promised at least once. Whoever brings it back has it called again.
            (Status::Dead, None | Some(DeadReason::AttemptsExhausted)) | (Status::Pending | Status::Discarded, _) => {
                None
            }
            (Status::Dead, Some(_)) => (done && !record.outcome_unknown()).then_some(Rule::DeadYetApplied),
        }
    }
}

fn work(world: &mut World, state: &mut State, slot: usize, call: OneCall<'_>) {
    let mut broken = None;
    world.change_calls(state, slot, |calls| broken = calls.work(call));
    if let Some(rule) = broken {
        state.broken = rule as u8;
    }
}

/// What the dispatcher is told of a call that met this fault.
fn reported(fault: Option<Fault>, done_before: bool) -> Answer {
    let status = None;
    Answer::Called(match fault {
        None | Some(Fault::AmbiguousNotDone) if done_before => Called::AlreadyDone { status: 409 },
        None => Called::Done { status },
        Some(Fault::NoTime) => Called::NoTime,
        Some(Fault::CalleeBusy) => Called::NotDone { status: None, retry_after: None },
        Some(Fault::CalleeRefuses) => Called::Refused { status },
        Some(Fault::AmbiguousDone | Fault::AmbiguousNotDone) => Called::Unknown { status: 302 },
        Some(_) => Called::Unclear { status: None, retry_after: None },
    })
}
