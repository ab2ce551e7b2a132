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

/// How long the worker is stopped in one scenario, in milliseconds. The relay sends eight hints meanwhile.
const STOP: i64 = 9 * 3_600_000;

/// When the first delivery arrives, in milliseconds.
const FIRST: i64 = 1_000;

/// A small scenario that faults are injected into.
#[derive(Debug, Clone)]
pub struct GridScenario {
    /// Its name.
    pub name: &'static str,
    config: Config,
    deliveries: Vec<Delivery>,
    /// Whether two faults meet in one run, too. A run of hours takes so long that its pairs would take longer than those
    /// of all other scenarios.
    in_pairs: bool,
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

impl GridScenario {
    fn new(name: &'static str, deliveries: Vec<Delivery>) -> Self {
        Self { name, config: Config::calm(), deliveries, in_pairs: true }
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    fn without_pairs(self) -> Self {
        Self { in_pairs: false, ..self }
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

    /// Runs every point, and every pair unless the scenario has none.
    pub fn explore(&self) -> Explored {
        let plain = self.run(&[]);
        let mut explored = Explored::default();
        note(&mut explored, &[], &plain);
        for first in points(&plain.edges, 0) {
            let day = self.run(&[first]);
            explored.points += 1;
            explored.edges.insert(plain.edges[first.0]);
            note(&mut explored, &[first], &day);
            for second in points(&day.edges, first.0 + 1).into_iter().filter(|_| self.in_pairs) {
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

fn delivery(provider: usize, events: &[(&str, &str)]) -> Delivery {
    let event = |(id, fact): &(&str, &str)| SentEvent { id: (*id).to_owned(), fact: (*fact).to_owned() };
    let events = events.iter().map(event).collect();
    Delivery { provider, events, at: FIRST, copies: 1, rendering: 0, genuine: true }
}

fn later(delivery: Delivery) -> Delivery {
    Delivery { at: FIRST + 20, ..delivery }
}

/// Every scenario.
pub fn scenarios() -> Vec<GridScenario> {
    let stripe = |id, fact| delivery(STRIPE, &[(id, fact)]);
    let github = |id, fact| delivery(GITHUB, &[(id, fact)]);
    let two = || delivery(WHATSAPP, &[("e1", "plain-1"), ("e2", "plain-2")]);
    let one = || stripe("e1", "plain-1");
    let other_body = || Delivery { rendering: 1, ..later(one()) };
    let of = |name, fact| GridScenario::new(name, vec![stripe("e1", fact)]);
    let plain = |name| of(name, "plain-1");
    let effect = |name, fact| of(name, fact).with_effects();
    let remote = |name, fact| of(name, fact).remote();
    let buried_after = |receives| move |config: &mut Config| config.receives_max = Some(receives);
    vec![
        plain("one event"),
        GridScenario::new("one event, never retried", vec![github("e1", "plain-1")]),
        plain("one event, store down").enqueues().down(Side::Store, FIRST + 100),
        plain("one event, queue down").down(Side::Queue, FIRST + 30_000),
        plain("one event, queue down for long").down(Side::Queue, FIRST + 300_000),
        GridScenario::new("two copies at once", vec![Delivery { copies: 2, ..one() }]),
        GridScenario::new("another body", vec![one(), other_body()]).quarantines(),
        GridScenario::new("one fact under two ids", vec![one(), later(stripe("e2", "plain-1"))]),
        GridScenario::new("a batch of two messages", vec![one(), github("e2", "plain-2")]),
        GridScenario::new("two plans of one item", vec![stripe("e1", "shared-1"), stripe("e2", "shared-4")])
            .with(|config| config.batch_max = 1),
        of("a handler that fails once", "once-1"),
        of("a handler that fails for good", "poison-1"),
        of("a handler that fails for two minutes after a stop of nine hours", "later-1")
            .with(|config| {
                config.worker_paused = Some((0, STOP));
                config.fails_until = STOP + 120_000;
            })
            .without_pairs(),
        GridScenario::new("an envelope", vec![two()]),
        GridScenario::new("an envelope, store down", vec![two()]).enqueues().down(Side::Store, FIRST + 100),
        GridScenario::new(
            "an envelope and one of its events",
            vec![two(), later(delivery(WHATSAPP, &[("e2", "plain-2")]))],
        ),
        plain("a dead letter").with(buried_after(0)),
        plain("a dead letter that is the only copy").enqueues().down(Side::Store, FIRST + 100).with(buried_after(0)),
        of("a handler fails once, then a dead letter", "once-1").with(buried_after(1)),
        effect("an effect with a key", "pays-1"),
        effect("an effect at most once", "mails-1"),
        effect("an effect at least once", "tells-1"),
        effect("an effect, third party away", "pays-1").down(Side::Callee, FIRST + 30_000),
        effect("a dead letter of an effect", "mails-1").with(buried_after(1)).down(Side::Documents, FIRST + 30_000),
        of("a table of one's own", "own-1"),
        remote("a remote handler, two rounds", "shared-1"),
        remote("a remote handler and a table of one's own", "own-1"),
        remote("a remote handler that crashes once", "panics-1"),
        remote("a remote handler that is away", "plain-1").down(Side::Handler, FIRST + 30_000),
        remote("a remote handler that is slow", "pays-1").with(|config| config.remote_slow = 10_000),
    ]
}
