//! The exhaustive model: the protocol's own machines, with every failure that can happen around them.
//!
//! Only the environment is modelled: providers, the store, the queues, the clock, operators, crashes. The deployed
//! machine decides what a process does, and [`Write::apply`] what a write does.
//!
//! | in the model | as |
//! |---|---|
//! | store | linearizable conditional writes and transactions; a call is refused, or loses its reply, or is repeated by the store's client, or lands after its caller gave up |
//! | index | shows the state before the last change of a record |
//! | TTL | removes an expired item at any moment, or not yet |
//! | restore | gives one table the items of an earlier moment; the other one keeps its own |
//! | queue | delivers at least once, in any order; loses hints; moves messages to the dead-letter queue |
//! | time | jumps to the next moment at which something can differ; a process may be overtaken by it |
//! | destination | knows keys for its window; does a call, and its answer is lost or leaves that open; or it does not |
//! | crash | before a call, after it, or with the call still under way |
//!
//! [`Write::apply`]: hookonce_protocol::write::Write::apply

mod action;
pub mod callee;
mod carry;
mod clock;
mod describe;
pub(crate) mod edge;
mod effect;
mod faults;
mod plan;
pub mod pool;
mod process;
mod reply;
mod restore;
pub mod rule;
pub mod scenario;
pub mod state;
pub(crate) mod view;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

use hookonce_protocol::claim::Claim;
use hookonce_protocol::key::{ClaimId, EndpointId, RecordKey};
use hookonce_protocol::time::EpochMs;
use rustc_hash::FxHashSet;

use action::next_without_fault;
pub use action::{Action, OperatorAction};
use callee::Calls;
use plan::EFFECT;
use pool::CalleesId;
use rule::Rule;
use scenario::{DeliverySpec, Kind, Scenario};
use state::{Budget, SLOTS, State};
use view::{Domain, FACT_NAMES};
use world::World;

use crate::mutant::Mutation;

/// When every exploration begins, in milliseconds since the epoch.
pub const START: i64 = 1_767_225_600_000;

/// The model of one scenario.
#[derive(Debug)]
pub struct Model {
    /// What it starts from.
    pub scenario: Scenario,
    endpoint: EndpointId,
    /// The record of each delivery, by place.
    slots: Vec<usize>,
    /// Where another body of a delivery is kept.
    alternates: Vec<Option<usize>>,
    /// The events of each envelope, by place.
    children: [Vec<usize>; SLOTS],
    /// The fact of each event, by place.
    facts: [Option<usize>; SLOTS],
    /// The record that the store can never take.
    unstorable: Option<usize>,
    /// The commit that each effect comes from, by place: its event's place and generation.
    origins: [Option<(usize, i64)>; SLOTS],
    looked_up: Mutex<LookedUp>,
}

/// What one exploration has computed so far.
#[derive(Debug)]
struct LookedUp {
    world: World,
    /// Fingerprints of idle states from which everything ends well.
    sound: FxHashSet<u64>,
}

fn body_hash(body: &str) -> [u8; 32] {
    std::array::from_fn(|place| body.as_bytes().get(place).copied().unwrap_or(0))
}

impl Model {
    /// The model of a scenario, with or without a mutation of the protocol.
    pub fn new(scenario: Scenario, mutation: Mutation) -> Self {
        let endpoint = EndpointId::parse("e").expect("a valid endpoint id");
        let mut keys: Vec<RecordKey> = Vec::new();
        let mut place = |key: RecordKey| {
            keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            })
        };
        let (mut slots, mut alternates) = (Vec::new(), Vec::new());
        let mut children: [Vec<usize>; SLOTS] = Default::default();
        let mut facts = [None; SLOTS];
        let fact = |body: &str| FACT_NAMES.iter().position(|name| *name == body);
        for delivery in &scenario.deliveries {
            let slot = place(key_of(&endpoint, delivery));
            slots.push(slot);
            if delivery.kind == Kind::Envelope {
                for event in delivery.body.chars().map(String::from) {
                    let child = place(RecordKey::event(&endpoint, &event));
                    facts[child] = fact(&event);
                    children[slot].push(child);
                }
            } else {
                facts[slot] = fact(delivery.body);
            }
        }
        for delivery in &scenario.deliveries {
            let twin = |other: &&DeliverySpec| other.id == delivery.id && other.body != delivery.body;
            let several = scenario.deliveries.iter().any(|other| twin(&other));
            let key = key_of(&endpoint, delivery).alternate();
            alternates.push(several.then(|| place(key)));
        }
        let unstorable = scenario.unstorable.map(|event| place(RecordKey::event(&endpoint, event)));
        let mut origins = [None; SLOTS];
        for (delivery, made) in scenario.deliveries.iter().enumerate().filter(|_| !scenario.documents.is_empty()) {
            let event = key_of(&endpoint, made);
            for claim in (0..made.attempts).map(|attempt| claim_id(delivery, attempt)) {
                for generation in 0..=i64::from(scenario.budgets[Budget::Force as usize]) {
                    let effect = place(RecordKey::effect(&event, &claim, generation, EFFECT));
                    origins[effect] = Some((slots[delivery], generation));
                }
            }
        }
        let world = World::new(&scenario, mutation, keys);
        let looked_up = LookedUp { world, sound: FxHashSet::default() };
        let looked_up = Mutex::new(looked_up);
        Self { scenario, endpoint, slots, alternates, children, facts, unstorable, origins, looked_up }
    }

    fn locked(&self) -> MutexGuard<'_, LookedUp> {
        self.looked_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, looked_up: &mut LookedUp) -> State {
        let scenario = &self.scenario;
        let callees = if scenario.documents.is_empty() {
            CalleesId::NONE
        } else {
            looked_up.world.callees.insert(vec![Calls::default(); SLOTS], ())
        };
        let state = State {
            domain: looked_up.world.intern_domain(Domain::new()),
            callees,
            now: START,
            left: scenario.budgets,
            attempts: std::array::from_fn(|place| scenario.deliveries.get(place).map_or(0, |made| made.attempts)),
            routed: !scenario.unrouted,
            ..State::default()
        };
        if self.scenario.committed { self.once_committed(&mut looked_up.world, state) } else { state }
    }

    /// The state in which the event is committed and the hint of its effect is sent, after steps without a fault.
    fn once_committed(&self, world: &mut World, mut state: State) -> State {
        let effect = self.origins.iter().position(Option::is_some).expect("a scenario with effects");
        while !state.idle() || !state.items[effect].is_some() {
            let begins = state.attempts[0] > 0 && state.idle();
            let action = if begins { Action::Attempt(0) } else { next_without_fault(world, &state).expect("it ends") };
            state = self.after(world, &state, action).expect("a few steps fit");
        }
        state
    }

    /// What an attempt of a delivery claims.
    fn claim(&self, world: &World, state: &State, delivery: usize) -> Claim {
        let made = self.scenario.deliveries[delivery];
        let now = EpochMs(state.now);
        let attempt = made.attempts - state.attempts[delivery];
        Claim {
            pk: key_of(&self.endpoint, &made),
            claim_id: claim_id(delivery, attempt),
            tenant: None,
            provider: "p".to_owned(),
            event_type: "t".to_owned(),
            received_at: now,
            accept_before: now.plus(world.timing.accept_age_max),
            body: made.body.as_bytes().to_vec(),
            body_sha256: body_hash(made.body),
            headers: std::collections::BTreeMap::default(),
            secret_index: 0,
            quarantine_mismatch: self.scenario.on_mismatch == hookonce_protocol::ingress::OnBodyMismatch::Quarantine,
        }
    }

    /// The labels of every step that was taken.
    pub fn labels(&self) -> std::collections::BTreeSet<String> {
        self.locked().world.labels.clone()
    }

    /// Whether the mutation changed anything in the steps that were taken.
    pub fn mutated(&self) -> bool {
        self.locked().world.mutated.get()
    }

    /// The rule that a state breaks, if any.
    pub fn violation(&self, state: &State) -> Option<Rule> {
        let mut looked_up = self.locked();
        if let Some(rule) = self.broken(&looked_up.world, state) {
            return Some(rule);
        }
        if state.idle() { self.bad_end(&mut looked_up, state) } else { None }
    }
}

/// Who an attempt of a delivery is.
fn claim_id(delivery: usize, attempt: u8) -> ClaimId {
    ClaimId(format!("c{delivery}{attempt}"))
}

fn key_of(endpoint: &EndpointId, delivery: &DeliverySpec) -> RecordKey {
    match delivery.kind {
        Kind::Delivery => RecordKey::delivery(endpoint, delivery.id),
        Kind::Event => RecordKey::event(endpoint, delivery.id),
        Kind::Envelope => RecordKey::envelope(endpoint, &body_hash(delivery.body)),
    }
}

impl stateright::Model for Model {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start(&mut self.locked())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken == 0 {
            self.enabled(&self.locked().world, state, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.after(&mut self.locked().world, state, action)
    }

    fn format_action(&self, action: &Action) -> String {
        format!("{action:?}")
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        vec![stateright::Property::always("the protocol holds", |model: &Self, state| model.violation(state).is_none())]
    }
}
