//! The fault grid: every remote call of ingress, worker, relay and dead-letter consumer, times every fault.
//!
//! How many calls there are is not written down. A play is run without a fault first; each of its calls is a point for
//! each fault that it can meet. A pair is a point, and a second fault at a call that comes after it in the very run in
//! which the first one struck. After each run the checker must find everything in its place.

use std::collections::BTreeSet;

use hookonce_runtime::endpoint::{MismatchPolicy, OutagePolicy};

use crate::mutant::Mutation;
use crate::sim::Day;
use crate::sim::config::Config;
use crate::sim::fate::{CallEdge, Fate, Fates, Outage, Side};
use crate::sim::judge::Violation;
use crate::sim::play as run;
use crate::sim::provider::{Delivery, Told};

/// The places of the providers in [`crate::sim::provider::PROVIDERS`].
const STRIPE: usize = 0;
const GITHUB: usize = 2;
const WHATSAPP: usize = 3;

/// When the first delivery comes, in milliseconds.
const FIRST: i64 = 1_000;

/// A small story that faults are put into.
#[derive(Debug, Clone)]
pub struct Play {
    /// Its name.
    pub name: &'static str,
    config: Config,
    deliveries: Vec<Delivery>,
}

/// One run with its faults.
#[derive(Debug)]
pub struct Broken {
    /// Which calls met which fault.
    pub faults: Vec<(CallEdge, Fate)>,
    /// What was wrong in the end.
    pub violations: BTreeSet<Violation>,
}

/// What the runs of a play came to.
#[derive(Debug, Default)]
pub struct Explored {
    /// Single faults.
    pub points: usize,
    /// Ordered pairs of faults.
    pub pairs: usize,
    /// The different calls that met one.
    pub edges: BTreeSet<CallEdge>,
    /// What went wrong.
    pub broken: Vec<Broken>,
}

impl Explored {
    /// Adds another play's.
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.pairs += other.pairs;
        self.edges.extend(other.edges);
        self.broken.extend(other.broken);
    }
}

impl Play {
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
        self.with(|config| config.endpoints.iter_mut().for_each(|one| one.on_store_outage = OutagePolicy::Enqueue))
    }

    fn quarantines(self) -> Self {
        let keep = MismatchPolicy::Quarantine;
        self.with(|config| config.endpoints.iter_mut().for_each(|one| one.on_body_mismatch = keep))
    }

    fn run(&self, points: &[(usize, Fate)]) -> Day {
        let fates = Fates::Script(points.to_vec());
        run(self.config.clone(), self.deliveries.clone(), 0, fates, Mutation::default())
    }

    /// Runs every point, and every pair where that is wanted.
    pub fn explore(&self, pairs: bool) -> Explored {
        let plain = self.run(&[]);
        let mut explored = Explored::default();
        note(&mut explored, &[], &plain);
        for first in points(&plain.edges, 0) {
            let day = self.run(&[first]);
            explored.points += 1;
            explored.edges.insert(plain.edges[first.0]);
            note(&mut explored, &[first], &day);
            if pairs {
                for second in points(&day.edges, first.0 + 1) {
                    explored.pairs += 1;
                    note(&mut explored, &[first, second], &self.run(&[first, second]));
                }
            }
        }
        explored
    }
}

/// Every call from `from` on, with every fault that it can meet.
fn points(edges: &[CallEdge], from: usize) -> Vec<(usize, Fate)> {
    let fates = |edge: &CallEdge| {
        // A read whose reply is lost, or that comes too late, is one that was refused.
        let can = |fate: &Fate, changes: bool| changes || !matches!(fate, Fate::ReplyLost | Fate::Late);
        let changes = edge.changes;
        Fate::GRID.into_iter().filter(move |fate| can(fate, changes))
    };
    let calls = edges.iter().enumerate().skip(from);
    calls.flat_map(|(number, edge)| fates(edge).map(move |fate| (number, fate))).collect()
}

fn note(explored: &mut Explored, points: &[(usize, Fate)], day: &Day) {
    if !day.violations.is_empty() {
        let fault = |(number, fate): &(usize, Fate)| (day.edges[*number], *fate);
        explored.broken.push(Broken { faults: points.iter().map(fault).collect(), violations: day.violations.clone() });
    }
}

fn event(id: &str, fact: &str) -> Told {
    Told { id: id.to_owned(), fact: fact.to_owned() }
}

fn delivery(provider: usize, events: &[(&str, &str)]) -> Delivery {
    let events = events.iter().map(|(id, fact)| event(id, fact)).collect();
    Delivery { provider, events, at: FIRST, copies: 1, rendering: 0, genuine: true }
}

fn later(delivery: Delivery) -> Delivery {
    Delivery { at: FIRST + 20, ..delivery }
}

/// Every play.
pub fn plays() -> Vec<Play> {
    let one = || delivery(STRIPE, &[("e1", "plain-1")]);
    let two = || delivery(WHATSAPP, &[("e1", "plain-1"), ("e2", "plain-2")]);
    let other_body = || Delivery { rendering: 1, ..later(one()) };
    let again = || later(delivery(STRIPE, &[("e2", "plain-1")]));
    let mut plays = vec![
        Play::new("one event", vec![one()]),
        Play::new("one event, never retried", vec![delivery(GITHUB, &[("e1", "plain-1")])]),
        Play::new("one event, store down", vec![one()]).enqueues().down(Side::Store, FIRST + 100),
        Play::new("one event, queue down", vec![one()]).down(Side::Queue, FIRST + 30_000),
        Play::new("one event, queue down for long", vec![one()]).down(Side::Queue, FIRST + 300_000),
        Play::new("two copies at once", vec![Delivery { copies: 2, ..one() }]),
        Play::new("another body", vec![one(), other_body()]).quarantines(),
        Play::new("one fact under two ids", vec![one(), again()]),
        Play::new("a batch of two messages", vec![one(), delivery(GITHUB, &[("e2", "plain-2")])]),
        Play::new(
            "two plans of one item",
            vec![delivery(STRIPE, &[("e1", "shared-1")]), delivery(GITHUB, &[("e2", "shared-4")])],
        )
        .with(|config| config.batch_max = 1),
        Play::new("a handler that fails once", vec![delivery(STRIPE, &[("e1", "once-1")])]),
        Play::new("a handler that fails for good", vec![delivery(STRIPE, &[("e1", "poison-1")])]),
        Play::new("an envelope", vec![two()]),
        Play::new("an envelope, store down", vec![two()]).enqueues().down(Side::Store, FIRST + 100),
        Play::new("an envelope and one of its events", vec![two(), later(delivery(WHATSAPP, &[("e2", "plain-2")]))]),
    ];
    let buried = |config: &mut Config| config.receives_max = Some(0);
    plays.extend([
        Play::new("a dead letter", vec![one()]).with(buried),
        Play::new("a dead letter that is the only copy", vec![one()])
            .enqueues()
            .down(Side::Store, FIRST + 100)
            .with(buried),
        Play::new("a handler fails once, then a dead letter", vec![delivery(STRIPE, &[("e1", "once-1")])])
            .with(|config| config.receives_max = Some(1)),
    ]);
    plays
}
