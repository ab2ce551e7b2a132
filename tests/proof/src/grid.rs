//! The fault grid: every remote call of ingress, worker, dispatcher, relay and dead-letter consumer, times every fault.
//!
//! The calls are not listed anywhere: a scenario first runs without a fault, and each of its calls is a point for each
//! fault that it can meet. A pair is a point and a second fault, at a later call of the run in which the first one
//! struck. After each run, the checker must find nothing wrong.

use std::collections::BTreeSet;

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};

use crate::mutant::Mutation;
use crate::sim::Day;
use crate::sim::config::Config;
use crate::sim::fault::{CallEdge, FaultPlan, GRID, Outage, Side, SimFault};
use crate::sim::invariants::Violation;
use crate::sim::provider::{Delivery, SentEvent};
use crate::sim::run;

/// Indexes into [`crate::sim::provider::PROVIDERS`].
const STRIPE: usize = 0;
const GITHUB: usize = 2;
const WHATSAPP: usize = 3;

/// When the first delivery arrives, in milliseconds.
const FIRST: i64 = 1_000;

/// A small scenario that faults are injected into.
#[derive(Debug, Clone)]
pub struct GridScenario {
    /// Its name.
    pub name: &'static str,
    config: Config,
    deliveries: Vec<Delivery>,
}

/// One run with its faults.
#[derive(Debug)]
pub struct FailedRun {
    /// Which calls met which fault.
    pub faults: Vec<(CallEdge, SimFault)>,
    /// What was wrong at the end.
    pub violations: BTreeSet<Violation>,
}

/// The results of a scenario's runs.
#[derive(Debug, Default)]
pub struct Explored {
    /// Single faults.
    pub points: usize,
    /// Ordered pairs of faults.
    pub pairs: usize,
    /// The distinct calls that met a fault.
    pub edges: BTreeSet<CallEdge>,
    /// What went wrong.
    pub broken: Vec<FailedRun>,
}

impl Explored {
    /// Adds another scenario's results.
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.pairs += other.pairs;
        self.edges.extend(other.edges);
        self.broken.extend(other.broken);
    }
}

impl GridScenario {
    fn new(name: &'static str, deliveries: Vec<Delivery>) -> Self {
        Self { name, config: Config::calm(), deliveries }
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    fn down(self, side: Side, until: i64) -> Self {
        self.with(|config| config.outages.push(Outage { side, from: 0, until }))
    }

    fn enqueues(self) -> Self {
        self.with(|config| config.endpoints.iter_mut().for_each(|one| one.on_store_outage = OnStoreOutage::Enqueue))
    }

    /// The events of Stripe and WhatsApp go to a handler in another language.
    fn remote(self) -> Self {
        self.with_effects().with(|config| config.remote_busy = Some(0))
    }

    fn with_effects(self) -> Self {
        self.with(|config| config.effects = true)
    }

    fn quarantines(self) -> Self {
        let keep = OnBodyMismatch::Quarantine;
        self.with(|config| config.endpoints.iter_mut().for_each(|one| one.on_body_mismatch = keep))
    }

    fn run(&self, points: &[(usize, SimFault)]) -> Day {
        let faults = FaultPlan::Script(points.to_vec());
        run(self.config.clone(), self.deliveries.clone(), 0, faults, Mutation::default())
    }

    /// Runs every point, and every pair.
    pub fn explore(&self) -> Explored {
        let plain = self.run(&[]);
        let mut explored = Explored::default();
        note(&mut explored, &[], &plain);
        for first in points(&plain.edges, 0) {
            let day = self.run(&[first]);
            explored.points += 1;
            explored.edges.insert(plain.edges[first.0]);
            note(&mut explored, &[first], &day);
            for second in points(&day.edges, first.0 + 1) {
                explored.pairs += 1;
                note(&mut explored, &[first, second], &self.run(&[first, second]));
            }
        }
        explored
    }
}

/// Every call from `from` on, with every fault that it can meet.
fn points(edges: &[CallEdge], from: usize) -> Vec<(usize, SimFault)> {
    let calls = edges.iter().enumerate().skip(from);
    let faults = |edge: &CallEdge| {
        let edge = *edge;
        GRID.into_iter().filter(move |fault| edge.can_meet(*fault))
    };
    calls.flat_map(|(number, edge)| faults(edge).map(move |fault| (number, fault))).collect()
}

fn note(explored: &mut Explored, points: &[(usize, SimFault)], day: &Day) {
    if !day.violations.is_empty() {
        let fault = |(number, fault): &(usize, SimFault)| (day.edges[*number], *fault);
        explored
            .broken
            .push(FailedRun { faults: points.iter().map(fault).collect(), violations: day.violations.clone() });
    }
}

fn event(id: &str, fact: &str) -> SentEvent {
    SentEvent { id: id.to_owned(), fact: fact.to_owned() }
}

fn delivery(provider: usize, events: &[(&str, &str)]) -> Delivery {
    let events = events.iter().map(|(id, fact)| event(id, fact)).collect();
    Delivery { provider, events, at: FIRST, copies: 1, rendering: 0, genuine: true }
}

fn later(delivery: Delivery) -> Delivery {
    Delivery { at: FIRST + 20, ..delivery }
}

/// Every scenario.
pub fn scenarios() -> Vec<GridScenario> {
    let one = || delivery(STRIPE, &[("e1", "plain-1")]);
    let two = || delivery(WHATSAPP, &[("e1", "plain-1"), ("e2", "plain-2")]);
    let other_body = || Delivery { rendering: 1, ..later(one()) };
    let again = || later(delivery(STRIPE, &[("e2", "plain-1")]));
    let mut scenarios = vec![
        GridScenario::new("one event", vec![one()]),
        GridScenario::new("one event, never retried", vec![delivery(GITHUB, &[("e1", "plain-1")])]),
        GridScenario::new("one event, store down", vec![one()]).enqueues().down(Side::Store, FIRST + 100),
        GridScenario::new("one event, queue down", vec![one()]).down(Side::Queue, FIRST + 30_000),
        GridScenario::new("one event, queue down for long", vec![one()]).down(Side::Queue, FIRST + 300_000),
        GridScenario::new("two copies at once", vec![Delivery { copies: 2, ..one() }]),
        GridScenario::new("another body", vec![one(), other_body()]).quarantines(),
        GridScenario::new("one fact under two ids", vec![one(), again()]),
        GridScenario::new("a batch of two messages", vec![one(), delivery(GITHUB, &[("e2", "plain-2")])]),
        GridScenario::new(
            "two plans of one item",
            vec![delivery(STRIPE, &[("e1", "shared-1")]), delivery(STRIPE, &[("e2", "shared-4")])],
        )
        .with(|config| config.batch_max = 1),
        GridScenario::new("a handler that fails once", vec![delivery(STRIPE, &[("e1", "once-1")])]),
        GridScenario::new("a handler that fails for good", vec![delivery(STRIPE, &[("e1", "poison-1")])]),
        GridScenario::new("an envelope", vec![two()]),
        GridScenario::new("an envelope, store down", vec![two()]).enqueues().down(Side::Store, FIRST + 100),
        GridScenario::new(
            "an envelope and one of its events",
            vec![two(), later(delivery(WHATSAPP, &[("e2", "plain-2")]))],
        ),
    ];
    let buried = |config: &mut Config| config.receives_max = Some(0);
    scenarios.extend([
        GridScenario::new("a dead letter", vec![one()]).with(buried),
        GridScenario::new("a dead letter that is the only copy", vec![one()])
            .enqueues()
            .down(Side::Store, FIRST + 100)
            .with(buried),
        GridScenario::new("a handler fails once, then a dead letter", vec![delivery(STRIPE, &[("e1", "once-1")])])
            .with(|config| config.receives_max = Some(1)),
    ]);
    scenarios.extend([
        GridScenario::new("an effect with a key", vec![delivery(STRIPE, &[("e1", "pays-1")])]).with_effects(),
        GridScenario::new("an effect at most once", vec![delivery(STRIPE, &[("e1", "mails-1")])]).with_effects(),
        GridScenario::new("an effect at least once", vec![delivery(STRIPE, &[("e1", "tells-1")])]).with_effects(),
        GridScenario::new("an effect, third party away", vec![delivery(STRIPE, &[("e1", "pays-1")])])
            .with_effects()
            .down(Side::Callee, FIRST + 30_000),
        GridScenario::new("a dead letter of an effect", vec![delivery(STRIPE, &[("e1", "mails-1")])])
            .with_effects()
            .with(|config| config.receives_max = Some(1))
            .down(Side::Documents, FIRST + 30_000),
    ]);
    let remote = |name, fact| GridScenario::new(name, vec![delivery(STRIPE, &[("e1", fact)])]).remote();
    scenarios.extend([
        GridScenario::new("a table of one's own", vec![delivery(STRIPE, &[("e1", "own-1")])]),
        remote("a remote handler, two rounds", "shared-1"),
        remote("a remote handler and a table of one's own", "own-1"),
        remote("a remote handler that crashes once", "panics-1"),
        remote("a remote handler that is away", "plain-1").down(Side::Handler, FIRST + 30_000),
        remote("a remote handler that is slow", "pays-1").with(|config| config.remote_slow = 10_000),
    ]);
    scenarios
}
