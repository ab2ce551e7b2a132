//! A simulated day: the deployed drivers over ports in memory, with virtual time and every fault at random.
//!
//! One seed is one day. All randomness comes from it, one thread does everything, and time passes only when nothing
//! else can happen, so a seed always gives the same history.
//!
//! | module | holds |
//! |---|---|
//! | [`config`], [`rng`], [`provider`] | the configuration of the day, its randomness, and who delivers what |
//! | [`tables`], [`sqs`] | the store and the queue in memory |
//! | [`world`], [`mod@ports`], [`fault`] | what all processes share, the ports of one, how its calls go |
//! | [`destination`], [`callee`] | where effects go, and what the third parties there do |
//! | [`actors`], [`handler`], `remote` | providers, functions, the operator, the TTL; the business rule, here and there |
//! | [`interference`] | other processes that act in between |
//! | [`restore`] | a table that is restored to an earlier moment |
//! | [`invariants`], [`checker`] | what is checked during the day, and at its end |

pub mod actors;
pub mod callee;
pub mod checker;
pub mod config;
pub mod destination;
pub mod fault;
pub mod handler;
pub mod interference;
pub mod invariants;
pub mod ports;
pub mod provider;
mod remote;
pub mod restore;
pub mod rng;
pub mod sqs;
pub mod tables;
pub mod world;

use hookonce_protocol::message::HintQueue;
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::runtime::Builder;

use self::checker::{Verdict, check};
use self::config::Config;
use self::fault::{CallEdge, FaultPlan};
use self::invariants::Violation;
use self::provider::{Delivery, Receiver};
use self::restore::Rewind;
use self::rng::Rng;
use self::sqs::QueuePair;
use self::world::World;
use crate::mutant::Mutation;

/// How long everything may take to come to rest once nothing goes wrong any more, in milliseconds.
const REST_MAX: i64 = 14 * config::DAY;

/// How often to check whether everything is at rest, in milliseconds.
const LOOK_EVERY: i64 = 30_000;

/// The result of a day.
#[derive(Debug, PartialEq, Eq)]
pub struct Day {
    /// What the checker counted.
    pub verdict: Verdict,
    /// What was broken.
    pub violations: BTreeSet<Violation>,
    /// The transitions that were seen.
    pub labels: BTreeSet<String>,
    /// The remote calls of functions and operators, in order.
    pub edges: Vec<CallEdge>,
    /// Deliveries that were made.
    pub deliveries: usize,
    /// Calls that third parties received.
    pub effect_calls: usize,
    /// Deliveries for an endpoint on `enqueue` for which an instance of the webhook function started.
    pub cold_enqueue: usize,
    /// Those of them that this instance refused.
    pub cold_enqueue_refused: usize,
    /// Whether a table was restored.
    pub restored: bool,
    /// Whether the mutation changed anything.
    pub mutated: bool,
}

/// The day of a seed.
pub fn simulate(seed: u64, mutation: Mutation) -> Day {
    let mut rng = Rng::new(seed);
    let mut config = Config::draw(&mut rng);
    // Of other draws, so that a day without a restore is as it would be without this line.
    config.rewind = Rewind::draw(&config, &mut Rng::new(!seed));
    config.cold_starts = Rng::new(seed.rotate_left(32)).pick(&[0, 0, 0, 2_000]);
    let deliveries = provider::deliveries(&config, &mut rng);
    let faults = FaultPlan::Random(config.rates);
    run(config, deliveries, rng.bits(), faults, mutation)
}

/// The day of a configuration.
pub fn run(config: Config, deliveries: Vec<Delivery>, seed: u64, faults: FaultPlan, mutation: Mutation) -> Day {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads and without input can be made");
    runtime.block_on(live(config, deliveries, seed, faults, mutation))
}

async fn live(config: Config, deliveries: Vec<Delivery>, seed: u64, faults: FaultPlan, mutation: Mutation) -> Day {
    let count = deliveries.len();
    let world = World::new(config, seed, faults, mutation);
    let receivers = Arc::new(Receiver::all(&world.lock().config));
    let genuine = deliveries.iter().filter(|delivery| delivery.genuine);
    world.lock().facts = genuine.flat_map(Delivery::facts).collect();
    for delivery in deliveries {
        tokio::spawn(actors::provide(world.clone(), Arc::clone(&receivers), delivery));
    }
    tokio::spawn(actors::event_source(world.clone(), HintQueue::Main));
    tokio::spawn(actors::event_source(world.clone(), HintQueue::Slow));
    tokio::spawn(actors::schedule(world.clone()));
    tokio::spawn(actors::event_source(world.clone(), HintQueue::Effects));
    for lane in [HintQueue::Main, HintQueue::Main, HintQueue::Slow, HintQueue::Effects] {
        tokio::spawn(actors::dead_letter_source(world.clone(), lane));
    }
    tokio::spawn(actors::operate(world.clone()));
    tokio::spawn(actors::sweep(world.clone()));
    tokio::spawn(restore::restore(world.clone()));
    let length = world.lock().config.length;
    ports::sleep(length).await;
    world.lock().calm = true;
    while world.elapsed() < length + REST_MAX && !at_rest(&world) {
        ports::sleep(LOOK_EVERY).await;
    }
    let inner = world.lock();
    let (verdict, violations) = check(&inner);
    Day {
        verdict,
        violations,
        labels: inner.labels.clone(),
        edges: inner.edges.clone(),
        deliveries: count,
        effect_calls: inner.callees.calls,
        cold_enqueue: inner.cold_enqueue,
        cold_enqueue_refused: inner.cold_enqueue_refused,
        restored: inner.restored.inbox || inner.restored.domain,
        mutated: inner.mutated,
    }
}

/// No process, no message that anyone would act on, no write under way, nothing PENDING.
fn at_rest(world: &World) -> bool {
    let now = world.now();
    let quiet = |pair: &QueuePair| pair.queue.is_empty() && pair.dead_letters.is_empty();
    let mut inner = world.lock();
    inner.running == 0 && inner.late == 0 && inner.lanes.iter().all(quiet) && inner.tables.next_due(now).is_none()
}
