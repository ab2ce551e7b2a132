//! The actions that can happen next, and the states they lead to.

use hookonce_protocol::call::{DueState, Step};
use hookonce_protocol::dead_letter::DeadLetter;
use hookonce_protocol::dispatcher::Dispatcher;
use hookonce_protocol::ingress::Ingress;
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::operator::{Operated, Operator, Order};
use hookonce_protocol::relay::{Budget as RelayBudget, Limits, Run};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{DESTINATION_CALL_MAX, Moment, Timing};
use hookonce_protocol::trail::{Operation, Trail};
use hookonce_protocol::worker::Worker;

use super::clock::{due, waiting};
use super::faults::{Fault, faults};
use super::pool::{Id, ItemId, ProcId};
use super::process::{Actor, Advanced, DispatcherContext, End};
use super::rule::Rule;
use super::state::{Budget, SLOTS, State};
use super::world::{Answer, NOT_DUE, Outcome, World};
use super::{LookedUp, Model, START};
use crate::label::Role;

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperatorAction {
    /// Retry.
    Retry,
    /// Retry and accept a second effect.
    AcceptDuplicate,
    /// Force.
    Force,
    /// Discard.
    Discard,
    /// Redact.
    Redact,
    /// Doubt.
    Doubt,
}

impl OperatorAction {
    const ALL: [Self; 6] = [Self::Retry, Self::AcceptDuplicate, Self::Force, Self::Discard, Self::Redact, Self::Doubt];

    fn budget(self) -> Budget {
        match self {
            Self::Retry => Budget::Retry,
            Self::AcceptDuplicate => Budget::Accept,
            Self::Force => Budget::Force,
            Self::Discard => Budget::Discard,
            Self::Redact => Budget::Redact,
            Self::Doubt => Budget::Doubt,
        }
    }
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The provider makes an attempt of a delivery.
    Attempt(u8),
    /// The call of a process continues, or meets a fault.
    Step(u8, Option<Fault>),
    /// A worker receives a message.
    Receive(u8),
    /// A worker receives a message that also stays in the queue.
    ReceiveCopy(u8),
    /// The queue loses a hint.
    Lose(u8),
    /// A message goes to the dead-letter queue.
    Redrive(u8),
    /// The dead-letter consumer receives a message.
    Bury(u8),
    /// The same, and the message was sent before the record's last dead letter was counted.
    BuryCopy(u8),
    /// A write lands although its caller gave up.
    Land(u8),
    /// A relay run over everything but effects and what waits starts.
    Relay,
    /// A relay run over events that wait starts.
    RelayWaiting,
    /// A relay run over effects starts.
    RelayEffects,
    /// The clock moves to the next moment at which something can differ.
    Advance,
    /// The TTL removes a record.
    Expire(u8),
    /// The TTL removes the domain keys that have expired.
    Forget,
    /// An operator is shown a record as it is now, and acts on it.
    Operate(OperatorAction, u8),
    /// Another route set comes into use: routes want the events, or no longer do.
    Route,
    /// The document of the destination is edited.
    Edit,
    /// The tables are as somebody may restore them to later.
    Backup,
    /// The inbox table is restored, and its effects are doubted.
    RewindInbox,
    /// The domain table is restored.
    RewindDomain,
}

pub(super) fn byte(index: usize) -> u8 {
    u8::try_from(index).expect("few of everything")
}

impl Model {
    /// Everything that can happen next, in a fixed order.
    pub(super) fn enabled(&self, world: &World, state: &State, actions: &mut Vec<Action>) {
        let room = state.procs.contains(&ProcId::NONE);
        let window = START + world.timing.provider_window.0.max(self.scenario.window.0);
        for (delivery, attempts) in state.attempts.iter().enumerate() {
            if *attempts > 0 && room && state.now <= window {
                actions.push(Action::Attempt(byte(delivery)));
            }
        }
        for index in distinct(&state.procs) {
            faults(world, state, index, actions);
        }
        for index in distinct(&state.queue) {
            let workers = Self::running(world, state, reader(world, state, index));
            Self::message_acts(world, state, index, room && workers < self.scenario.workers, actions);
        }
        if room && Self::running(world, state, Role::DeadLetter) == 0 {
            for index in distinct(&state.dead) {
                actions.push(Action::Bury(byte(index)));
                let slot = world.messages.view(state.dead[index]).slot;
                let record = world.item(state.items[slot]).and_then(|view| view.record.as_ref());
                if record.is_some_and(|record| record.dead_letters > 0) {
                    actions.push(Action::BuryCopy(byte(index)));
                }
            }
        }
        for (index, late) in state.late.iter().enumerate() {
            if late.call.is_some() {
                actions.push(Action::Land(byte(index)));
            }
        }
        let free = state.quiescent();
        let relays = Self::running(world, state, Role::Relay);
        if room && relays < self.scenario.relays && (free || state.may(Budget::Relay)) {
            actions.extend(RUNS.into_iter().filter(|(_, list)| due(world, state, *list)).map(|(run, _)| run));
        }
        if self.next_moment(world, state).is_some() && (state.may(Budget::Tick) || free && waiting(world, state)) {
            actions.push(Action::Advance);
        }
        if self.scenario.clock.is_far() {
            expiries(world, state, actions);
        }
        if room {
            Self::operator_actions(world, state, actions);
        }
        if state.may(Budget::Route) {
            actions.push(Action::Route);
        }
        if state.may(Budget::Backup) {
            actions.push(Action::Backup);
        }
        if state.may(Budget::Rewind) && state.backup.is_some() && state.idle() {
            actions.extend([Action::RewindInbox, Action::RewindDomain]);
        }
        if state.may(Budget::Edit) && usize::from(state.document) + 1 < self.scenario.documents.len() {
            actions.push(Action::Edit);
        }
    }

    fn message_acts(world: &World, state: &State, index: usize, free: bool, actions: &mut Vec<Action>) {
        let hint = world.messages.view(state.queue[index]).hint;
        let index = byte(index);
        if free {
            actions.push(Action::Receive(index));
            if state.may(Budget::Duplicate) {
                actions.push(Action::ReceiveCopy(index));
            }
        }
        if hint && state.may(Budget::Lose) {
            actions.push(Action::Lose(index));
        }
        if state.may(Budget::Redrive) {
            actions.push(Action::Redrive(index));
        }
    }

    fn running(world: &World, state: &State, role: Role) -> usize {
        let is = |proc: &&ProcId| proc.is_some() && world.procs.view(**proc).role == role;
        state.procs.iter().filter(is).count()
    }

    fn operator_actions(world: &World, state: &State, actions: &mut Vec<Action>) {
        for operator_action in OperatorAction::ALL.into_iter().filter(|one| state.may(one.budget())) {
            let possible =
                (0..SLOTS).filter(|slot| Self::operator_action(world, state, operator_action, *slot).is_some());
            actions.extend(possible.map(|slot| Action::Operate(operator_action, byte(slot))));
        }
    }

    /// The machine's first step; `None` if the protocol refuses the order for the record as it is shown.
    fn operator_action(
        world: &World,
        state: &State,
        operator_action: OperatorAction,
        slot: usize,
    ) -> Option<Step<Operator, Operated>> {
        let record = world.item(state.items[slot])?.record.as_ref()?;
        let operation = match operator_action {
            OperatorAction::Retry | OperatorAction::AcceptDuplicate => Operation::Retry,
            OperatorAction::Force => Operation::Force,
            OperatorAction::Discard => Operation::Discard,
            OperatorAction::Redact => Operation::Redact,
            OperatorAction::Doubt => Operation::Doubt,
        };
        let accept_duplicate = operator_action == OperatorAction::AcceptDuplicate;
        let (by, reason) = (String::new(), String::new());
        let order = Order { operation, accept_duplicate, accept_other_body: true, by, reason };
        let granted = order.write(record, &Trail::default(), &world.timing, world.moment(state.now, 0)).is_ok();
        granted.then(|| Operator::start(record.clone(), order, "act".to_owned(), world.timing))
    }

    /// The state afterwards; `None` if it would not fit into the bounds of the model.
    pub(super) fn after(&self, world: &mut World, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let fits = match action {
            Action::Attempt(delivery) => self.attempt(world, &mut next, usize::from(delivery)),
            Action::Step(index, fault) => self.step(world, &mut next, usize::from(index), fault),
            Action::Receive(index) => receive(world, &mut next, usize::from(index), false),
            Action::ReceiveCopy(index) => receive(world, &mut next, usize::from(index), true),
            Action::Lose(index) => {
                next.spend(Budget::Lose);
                next.dequeue(usize::from(index));
                true
            }
            Action::Redrive(index) => {
                next.spend(Budget::Redrive);
                let message = next.queue[usize::from(index)];
                next.dequeue(usize::from(index));
                next.bury(message)
            }
            Action::Bury(index) => bury(world, &mut next, usize::from(index), false),
            Action::BuryCopy(index) => bury(world, &mut next, usize::from(index), true),
            Action::Land(index) => self.land(world, &mut next, usize::from(index)),
            Action::Relay => start_relay(world, &mut next, Run::new),
            Action::RelayWaiting => start_relay(world, &mut next, Run::waiting),
            Action::RelayEffects => start_relay(world, &mut next, Run::effects),
            Action::Advance => self.advance(world, &mut next),
            Action::Expire(slot) => self.expire(world, &mut next, usize::from(slot)),
            Action::Forget => {
                next.domain = world.forget(next.domain, next.now);
                next.expired = true;
                true
            }
            Action::Route => {
                next.spend(Budget::Route);
                next.routed = !next.routed;
                true
            }
            Action::Edit => {
                next.spend(Budget::Edit);
                next.document += 1;
                true
            }
            Action::Backup => {
                next.spend(Budget::Backup);
                next.backup = Some((next.items, next.domain));
                true
            }
            Action::RewindInbox => self.rewind_inbox(world, &mut next),
            Action::RewindDomain => Self::rewind_domain(world, &mut next),
            Action::Operate(operator_action, slot) => {
                Self::operate(world, &mut next, operator_action, usize::from(slot))
            }
        };
        fits.then_some(next)
    }

    fn attempt(&self, world: &mut World, state: &mut State, delivery: usize) -> bool {
        let claim = self.claim(world, state, delivery);
        state.attempts[delivery] -= 1;
        let first = Ingress::start(claim, self.scenario.on_outage, 1 << 20, world.timing);
        enter(world, state, Actor::ingress(first, byte(delivery)))
    }

    fn operate(world: &mut World, state: &mut State, operator_action: OperatorAction, slot: usize) -> bool {
        let Some(first) = Self::operator_action(world, state, operator_action, slot) else { return false };
        state.spend(operator_action.budget());
        let first = Actor::operator(first, state.items[slot]);
        enter(world, state, first)
    }

    fn advance(&self, world: &World, state: &mut State) -> bool {
        let Some(next) = self.next_moment(world, state) else { return false };
        let free = state.quiescent() && waiting(world, state);
        if !free {
            if !state.may(Budget::Tick) {
                return false;
            }
            state.spend(Budget::Tick);
        }
        state.now = next;
        state.rearms = 0;
        // A callee works on a call for as long as the call may take; the store may carry out a write much later.
        let call_age = Millis(self.scenario.timing.dispatcher_timeout.0 + DESTINATION_CALL_MAX.0);
        for late in &mut state.late {
            let calls = late.call.is_some() && world.delivery(late.call).is_some();
            let age_max = if calls { call_age } else { world.timing.zombie_age_max };
            if late.call.is_some() && late.since.saturating_add(age_max.0) < next {
                *late = super::state::LateWrite::default();
            }
        }
        state.late.sort_unstable();
        true
    }

    /// The rule that breaks from an idle state on, without further faults. [`Rule::Stuck`] if no end is reached.
    pub(super) fn bad_end(&self, looked_up: &mut LookedUp, start: &State) -> Option<Rule> {
        const STEPS_MAX: usize = 2_000;
        let mut state = start.clone();
        // The effects of a late write or a further attempt are explored separately.
        state.late = Default::default();
        state.left = [0; super::state::BUDGETS];
        let mut passed = Vec::new();
        let mut hidden = None;
        for _ in 0..STEPS_MAX {
            if state.idle() {
                let print = fingerprint(&state);
                if looked_up.sound.contains(&print) {
                    break;
                }
                passed.push(print);
            }
            let Some(action) = next_without_fault(&looked_up.world, &state) else {
                let pending = |item: &ItemId| looked_up.world.item(*item).is_some_and(super::view::ItemView::pending);
                if state.items.iter().any(pending) {
                    return Some(Rule::Stuck);
                }
                looked_up.sound.extend(passed);
                return None;
            };
            if let Action::Receive(index) = action {
                let message = state.queue[usize::from(index)];
                let seen = (message, state.items[looked_up.world.messages.view(message).slot], state.now);
                // It came back and nothing has changed: it is hidden for a while, and the relay's hint may come first.
                if hidden.replace(seen) == Some(seen) {
                    state.dequeue(usize::from(index));
                    continue;
                }
            }
            let Some(next) = self.after(&mut looked_up.world, &state, action) else { return Some(Rule::Stuck) };
            state = next;
            // `excused` counts spent budgets, of which this run has none left: its sends are judged where they happen.
            if let Some(rule) = Rule::parse(state.broken) {
                return Some(rule);
            }
        }
        let known = looked_up.sound.contains(&fingerprint(&state));
        if known {
            looked_up.sound.extend(passed);
        }
        (!known).then_some(Rule::Stuck)
    }
}

fn fingerprint(state: &State) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = rustc_hash::FxHasher::default();
    state.hash(&mut hasher);
    hasher.finish()
}

/// The first used slot.
fn first<K: Copy>(places: &[Id<K>]) -> Option<u8> {
    places.iter().position(|place| place.is_some()).map(byte)
}

/// What happens next if nothing goes wrong.
pub(super) fn next_without_fault(world: &World, state: &State) -> Option<Action> {
    let step = first(&state.procs).map(|index| Action::Step(index, None));
    let receive = || first(&state.queue).map(Action::Receive);
    let bury = || first(&state.dead).map(Action::Bury);
    let relay = || RUNS.into_iter().find(|(_, list)| due(world, state, *list)).map(|(run, _)| run);
    let advance = || waiting(world, state).then_some(Action::Advance);
    step.or_else(receive).or_else(bury).or_else(relay).or_else(advance)
}

fn distinct<K: Copy + PartialEq>(places: &[Id<K>]) -> impl Iterator<Item = usize> {
    (0..places.len()).filter(|index| places[*index].is_some() && (*index == 0 || places[*index] != places[*index - 1]))
}

fn expiries(world: &World, state: &State, actions: &mut Vec<Action>) {
    for (slot, item) in state.items.iter().enumerate() {
        if world.item(*item).and_then(|view| view.expires).is_some_and(|at| at <= state.now) {
            actions.push(Action::Expire(byte(slot)));
        }
    }
    if world.domains.view(state.domain).expires.is_some_and(|at| at <= state.now) {
        actions.push(Action::Forget);
    }
}

/// Adds a process that begins with this step to the state, or its result if it ends at once.
fn enter(world: &mut World, state: &mut State, first: Advanced) -> bool {
    match world.begin(first, state.now) {
        Outcome::Goes(proc) => state.start(proc),
        Outcome::Ended(end) => finish(state, end, true),
    }
}

/// Adds what the end of a process leaves behind. `hint` says that its message may be dropped.
pub(super) fn finish(state: &mut State, end: End, hint: bool) -> bool {
    match end {
        End::Answered { delivery, accepted } => {
            state.acked |= u8::from(accepted) << delivery;
            true
        }
        End::Deleted | End::Gone => true,
        End::Returned(message) => state.enqueue(message, hint),
        End::Kept(message) => state.bury(message),
    }
}

/// Who receives a message.
fn reader(world: &World, state: &State, index: usize) -> Role {
    let slot = world.messages.view(state.queue[index]).slot;
    if world.keys[slot].kind() == RecordKind::Effect { Role::Dispatcher } else { Role::Worker }
}

fn receive(world: &mut World, state: &mut State, index: usize, copy: bool) -> bool {
    let role = reader(world, state, index);
    let number = state.queue[index];
    if copy {
        state.spend(Budget::Duplicate);
    } else {
        state.dequeue(index);
    }
    let message = world.message(role, number);
    let moment = world.moment(state.now, 0);
    let first = if role == Role::Dispatcher {
        let (bit, pass) = world.draw_pass(state);
        let first = Dispatcher::start(Ok(message), 1, pass, world.timing, moment);
        Actor::dispatcher(first, DispatcherContext { message: number, passes: bit, document: 0 })
    } else {
        Actor::worker(Worker::start(Ok(message), 1, world.timing, moment), number)
    };
    enter(world, state, first)
}

fn bury(world: &mut World, state: &mut State, index: usize, copy: bool) -> bool {
    let number = state.dead[index];
    state.exhume(index);
    let message = world.message(Role::DeadLetter, number);
    let moment = world.moment(state.now, 0);
    let sent_at = copy.then_some(EpochMs(i64::MIN));
    let first = DeadLetter::start(Ok(message), sent_at, world.timing, moment);
    enter(world, state, Actor::dead_letter(first, number, copy))
}

/// The runs of the relay, each with the list that it reads.
pub(super) const RUNS: [(Action, DueState); 3] = [
    (Action::Relay, DueState::Pending),
    (Action::RelayWaiting, DueState::Waiting),
    (Action::RelayEffects, DueState::Effect),
];

/// Starts a relay run for one list.
fn start_relay(world: &mut World, state: &mut State, new: fn(Timing, RelayBudget, Limits, Moment) -> Run) -> bool {
    if !state.quiescent() {
        state.spend(Budget::Relay);
    }
    let moment = world.moment(state.now, 0);
    let limits = Limits { deadline: EpochMs(i64::MAX), scan_max: Millis(0), chunk_max: Millis(0) };
    let run = new(world.timing, RelayBudget::standard(), limits, moment);
    enter(world, state, Actor::relay_run(Box::new(run), moment))
}

/// What the index shows: each record as it is, or as it was before its last change.
pub(super) fn index(world: &World, items: &[ItemId; SLOTS], now: i64, list: DueState) -> Answer {
    Answer::Due(items.map(|item| {
        let due = world.item(item).filter(|view| view.list == Some(list)).and_then(|view| view.due);
        due.filter(|due| *due <= now).unwrap_or(NOT_DUE)
    }))
}
