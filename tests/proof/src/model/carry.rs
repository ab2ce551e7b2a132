//! How the store and the queues carry out a call, and what the caller gets back.

use hookonce_protocol::call::Call;
use hookonce_protocol::destination::NoTurn;
use hookonce_protocol::record::{Record, Status};

use super::Model;
use super::action::{finish, index};
use super::callee::Calls;
use super::faults::Fault;
use super::pool::{CallId, DomainId, ItemId, MessageId, ProcId};
use super::process::End;
use super::rule::Rule;
use super::state::{Budget, LateWrite, SLOTS, State};
use super::view::{ItemView, fact_of};
use super::world::{Answer, Class, Outcome, ProcView, World, write_of};
use crate::label::Role;

/// The empty domain table, for plans that depend on nothing.
const EMPTY_DOMAIN: DomainId = DomainId::FIRST;

impl Model {
    /// The call of a process continues, or meets its fault.
    pub(super) fn step(&self, world: &mut World, state: &mut State, place: usize, fault: Option<Fault>) -> bool {
        let proc = state.procs[place];
        let view = *world.procs.view(proc);
        if let Some(budget) = fault.map(Fault::price) {
            state.spend(budget);
        }
        if fault == Some(Fault::CrashDuring) {
            state.spend(Budget::Late);
        }
        let answer = if let Class::Deliver { slot, key } = view.class {
            self.reach(world, state, view, (slot, key), fault)
        } else {
            match fault {
                None => self.carry(world, state, view),
                Some(Fault::Refused | Fault::CrashBefore) => Some(Answer::Unavailable),
                Some(Fault::ReplyLost | Fault::CrashAfter) => {
                    self.carry(world, state, view).map(|_| Answer::Unavailable)
                }
                Some(Fault::Repeated) => {
                    let carried = matches!(self.carry(world, state, view), Some(Answer::Applied));
                    state.replace(place, world.repeated(proc));
                    return carried;
                }
                Some(Fault::Invalid) => Some(Answer::Invalid),
                Some(Fault::Late | Fault::CrashDuring) => {
                    state.postpone(view.call, part(view), view.shown).then_some(Answer::Unavailable)
                }
                Some(Fault::Conflict) => Some(Answer::Conflict),
                Some(Fault::Stale) => Some(shown(world, view, &state.before, state.now)),
                Some(Fault::Partial) => Self::send(world, state, view, 1).then_some(Answer::Sent(1)),
                Some(Fault::HandlerFails) => Some(Answer::HandlerFails { retryable: true }),
                Some(Fault::HandlerFailsForGood) => Some(Answer::HandlerFails { retryable: false }),
                Some(Fault::HandlerAway) => Some(Answer::HandlerAway),
                Some(Fault::HandlerSlow) => Some(Answer::HandlerSlow),
                Some(Fault::DestinationAway) => Some(Answer::NoTerms),
                Some(Fault::NoTurn) => Some(Answer::NoTurn(state.document, NoTurn::Busy)),
                Some(Fault::CircuitOpen) => Some(Answer::NoTurn(state.document, NoTurn::Away { retry_after: None })),
                Some(
                    fault @ (Fault::NoTime
                    | Fault::CalleeBusy
                    | Fault::CalleeRefuses
                    | Fault::AmbiguousDone
                    | Fault::AmbiguousNotDone),
                ) => unreachable!("only a call of a destination meets {fault:?}"),
            }
        };
        let Some(answer) = answer else { return false };
        if fault.is_some_and(|fault| fault.price() == Budget::Crash) {
            return crash(world, state, place, view);
        }
        Self::go_on(world, state, place, answer)
    }

    /// A process goes on with the answer to its call.
    fn go_on(world: &mut World, state: &mut State, place: usize, answer: Answer) -> bool {
        let proc = state.procs[place];
        let view = *world.procs.view(proc);
        // Two re-arms never draw the same interval in the same millisecond: the odds are one in tens of thousands, and
        // the cost is a hint.
        let rearms = view.role == Role::Relay && view.class == Class::Read;
        let draw = if rearms { state.rearms } else { 0 };
        let (outcome, disowned) = world.step(proc, answer, state.now, draw);
        if rearms && matches!(outcome, Outcome::Goes(_)) {
            state.rearms = state.rearms.saturating_add(1);
        }
        if disowned {
            state.broken = Rule::Disowned as u8;
        }
        match outcome {
            Outcome::Goes(next) => {
                state.replace(place, next);
                true
            }
            Outcome::Ended(end) => {
                state.replace(place, ProcId::NONE);
                finish(state, end, is_hint(world, view.message))
            }
        }
    }

    /// Carries a call out. `None` if the result would not fit into the bounds of the model.
    fn carry(&self, world: &mut World, state: &mut State, view: ProcView) -> Option<Answer> {
        match view.class {
            Class::Write { slot, .. } if self.unstorable == Some(slot) => Some(Answer::Invalid),
            Class::Write { slot, .. } => {
                let old = state.items[slot];
                let (applied, new) = world.write(view.call, view.part, old);
                if applied {
                    self.change(world, state, slot, new, view.role == Role::Relay);
                    if view.hasty {
                        state.broken = Rule::Hasty as u8;
                    }
                }
                Some(if applied { Answer::Applied } else { Answer::Failed(old) })
            }
            Class::Commit { .. } => Some(self.commit(world, state, view.call, view.shown)),
            Class::Read | Class::Query => Some(shown(world, view, &state.items, state.now)),
            Class::Send => {
                let count = world.sends(view.call).len();
                let sent = u8::try_from(count).expect("few messages");
                Self::send(world, state, view, count).then_some(Answer::Sent(sent))
            }
            Class::Plan(slot) if !(state.routed && world.wants(view.call)) => {
                state.declined |= 1 << slot;
                Some(Answer::Declined)
            }
            Class::Plan(_) => Some(Answer::Planned(if world.contended { state.domain } else { EMPTY_DOMAIN })),
            Class::Terms if self.scenario.documents[usize::from(state.document)].is_none() => Some(Answer::NoTerms),
            Class::Terms => Some(Answer::Terms(state.document)),
            Class::Deliver { .. } => unreachable!("a call has its own way"),
            Class::Trail(slot) => Some(Answer::Trail(world.domains.view(state.domain).trails[slot])),
        }
    }

    /// Carries out a transaction. `shown` is the record that its operator saw.
    fn commit(&self, world: &mut World, state: &mut State, call: CallId, shown: ItemId) -> Answer {
        let Class::Commit { slot, effect, accepts } = world.class(call, 0) else { unreachable!("not a commit") };
        let created = effect.map_or(ItemId::NONE, |effect| state.items[effect]);
        let (answer, (item, domain, created)) = world.commit(call, (state.items[slot], state.domain, created));
        if answer != Answer::Committed {
            return answer;
        }
        let overreach = overreach(world, state, shown, slot, domain);
        state.domain = domain;
        self.change(world, state, slot, item, false);
        if let Some(effect) = effect {
            self.change(world, state, effect, created, false);
        }
        if accepts {
            world.change_calls(state, slot, Calls::accept);
        }
        if let Some(rule) = overreach {
            state.broken = rule as u8;
        }
        answer
    }

    /// Puts the first messages of a send into the queue.
    fn send(world: &mut World, state: &mut State, view: ProcView, count: usize) -> bool {
        for message in world.sends(view.call).iter().take(count) {
            let sent = *world.messages.view(*message);
            if view.role == Role::Relay {
                state.granted[sent.slot] -= 1;
                if state.granted[sent.slot] < 0 {
                    state.broken = Rule::Storm as u8;
                }
            }
            if !state.enqueue(*message, sent.hint) {
                return false;
            }
        }
        true
    }

    /// A record changes. `sends` says that its writer sends a hint if it re-armed the record. Nobody waits for a late
    /// write.
    pub(super) fn change(&self, world: &mut World, state: &mut State, slot: usize, new: ItemId, sends: bool) {
        let old = state.items[slot];
        if old == new {
            return;
        }
        let edge = world.edge(old, new);
        if let Some(rule) = edge.broken {
            state.broken = rule as u8;
        }
        let fact = world.item(new).and_then(|view| view.record.as_ref()).and_then(fact_of);
        if let Some(fact) = fact {
            state.forced[fact] += u8::from(edge.forced);
            state.duplicates_accepted[fact] += u8::from(edge.duplicates_accepted && !edge.forced);
        }
        if edge.forced && state.callees.is_some() && open_effect(world, state, old) {
            state.broken = Rule::ForcedOpen as u8;
        }
        if edge.ignored && state.declined & (1 << slot) == 0 {
            state.broken = Rule::NotDeclined as u8;
        }
        if edge.revived || !world.item(new).is_some_and(ItemView::pending) {
            state.declined &= !(1 << slot);
        }
        if edge.rearmed && sends {
            state.granted[slot] = (state.granted[slot] + 1).min(2);
        }
        if self.scenario.budgets[Budget::Stale as usize] > 0 && state.may(Budget::Stale) {
            state.before[slot] = old;
        }
        state.items[slot] = new;
        if edge.refused {
            world.spend_key(state, slot);
        }
    }

    /// A write lands although its caller gave up.
    pub(super) fn land(&self, world: &mut World, state: &mut State, place: usize) -> bool {
        let late = state.late[place];
        state.late[place] = LateWrite::default();
        state.late.sort_unstable();
        let call = std::sync::Arc::clone(world.call(late.call));
        if matches!(*call, Call::Commit(_)) {
            self.commit(world, state, late.call, late.shown);
        } else if matches!(*call, Call::Deliver(_)) {
            Self::land_call(world, state, late.call, late.part);
        } else {
            let part = usize::from(late.part);
            let slot = world.slot(write_of(&call, part).key.as_str());
            let (applied, new) = world.write(late.call, part, state.items[slot]);
            if applied {
                self.change(world, state, slot, new, false);
            }
        }
        true
    }

    /// The TTL removes a record.
    pub(super) fn expire(&self, world: &World, state: &mut State, slot: usize) -> bool {
        let item = world.item(state.items[slot]);
        if item.is_some_and(ItemView::pending) && !self.scenario.clock.relay_may_be_down() {
            state.broken = Rule::Expired as u8;
        }
        state.given_up |= u8::from(item.is_some_and(ItemView::given_up)) << slot;
        state.items[slot] = ItemId::NONE;
        state.declined &= !(1 << slot);
        state.before[slot] = ItemId::NONE;
        state.granted[slot] = 0;
        state.expired = true;
        true
    }
}

/// What an operator's transaction does beyond what it may: it must be told in the trail, and the record must be as
/// shown. `shown` is that record; nobody else has one.
fn overreach(world: &World, state: &State, shown: ItemId, slot: usize, domain: DomainId) -> Option<Rule> {
    if !shown.is_some() {
        return None;
    }
    let trail = |domain: DomainId| world.domains.view(domain).trails[slot];
    if trail(domain) != trail(state.domain) + 1 {
        return Some(Rule::Untrailed);
    }
    let seen = |item: ItemId| {
        let record = world.item(item)?.record.as_ref()?;
        let Record { claim_id, generation, retries, status, outcome, dead_at, body, .. } = record;
        Some((claim_id, generation, retries, status, outcome, dead_at, body.is_some()))
    };
    (seen(shown) != seen(state.items[slot])).then_some(Rule::Unseen)
}

/// An effect of this record's last commit is PENDING or DEAD.
fn open_effect(world: &World, state: &State, event: ItemId) -> bool {
    let effects = world.item(event).map_or(0, |view| view.effects);
    let open = |slot: &usize| {
        let status = world.item(state.items[*slot]).and_then(ItemView::status);
        effects & (1 << slot) != 0 && matches!(status, Some(Status::Pending | Status::Dead))
    };
    (0..SLOTS).any(|slot| open(&slot))
}

fn part(view: ProcView) -> u8 {
    u8::try_from(view.part).expect("few parts")
}

fn is_hint(world: &World, message: MessageId) -> bool {
    message.is_some() && world.messages.view(message).hint
}

/// What a read or a query shows of these items.
fn shown(world: &World, view: ProcView, items: &[ItemId; SLOTS], now: i64) -> Answer {
    if let Call::QueryDue(query) = world.call(view.call).as_ref() {
        return index(world, items, now.min(query.until.0), query.state);
    }
    let slots = world.reads(view.call);
    Answer::Seen(std::array::from_fn(|place| slots.get(place).map_or(ItemId::NONE, |slot| items[*slot])))
}

/// A process dies; its message returns.
fn crash(world: &World, state: &mut State, place: usize, view: ProcView) -> bool {
    state.replace(place, ProcId::NONE);
    match view.role {
        Role::Worker | Role::Dispatcher => finish(state, End::Returned(view.message), is_hint(world, view.message)),
        Role::DeadLetter => finish(state, End::Kept(view.message), false),
        Role::Ingress | Role::Relay | Role::Operator => true,
    }
}
