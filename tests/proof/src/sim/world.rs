//! What all processes of a day share: tables, queue, time, randomness, and what was seen.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::message::HintQueue;
use hookonce_protocol::record::{Found, Record, SCHEMA_VERSION, Status, attribute};
use hookonce_protocol::time::Millis;
use hookonce_protocol::write::Table;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::callee::Callees;
use super::config::Config;
use super::fault::{CallEdge, FaultPlan, Outage, SimFault};
use super::invariants::InvariantChecker;
use super::restore::Restored;
use super::rng::Rng;
use super::sqs::{FakeQueue, QueuePair, QueueShape};
use super::tables::{Changed, Tables};
use crate::mutant::Mutation;

/// When every day begins, in milliseconds since the epoch.
pub const DAY_BEGINS: i64 = 1_900_000_000_000;

/// The version of a record or message that the next release writes.
pub const NEXT_VERSION: i64 = SCHEMA_VERSION + 1;

/// Which release a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The one under test.
    Current,
    /// The one after it: it reads both versions and writes its own.
    Next,
}

/// What the day consists of at this moment.
#[derive(Debug)]
pub struct Inner {
    /// The configuration.
    pub config: Config,
    /// The tables.
    pub tables: Tables,
    /// The queues, by their lanes.
    pub lanes: [QueuePair; LANES],
    /// The third parties.
    pub callees: Callees,
    /// Randomness.
    pub rng: Rng,
    /// The faults of calls.
    pub faults: FaultPlan,
    /// The clause that is removed from the protocol, if any.
    pub mutation: Mutation,
    /// The calls so far.
    pub edges: Vec<CallEdge>,
    /// What was seen.
    pub labels: BTreeSet<String>,
    /// The facts of deliveries that the providers have signed.
    pub facts: BTreeSet<String>,
    /// The facts of deliveries that were answered with a 2xx, whether or not it arrived.
    pub acknowledged: BTreeSet<String>,
    /// Judges every change of a record when it happens.
    pub invariants: InvariantChecker,
    /// What restores have made untrue on purpose.
    pub restored: Restored,
    /// Writes that are still under way although their caller is gone.
    pub late: usize,
    /// Deliveries for an endpoint on `enqueue` for which an instance of the webhook function started.
    pub cold_enqueue: usize,
    /// Those of them whose instance could not read the endpoint's document, so that their payload was not queued.
    pub cold_enqueue_refused: usize,
    /// Processes that run.
    pub running: usize,
    /// Nothing goes wrong any more.
    pub calm: bool,
    /// The mutation has changed something.
    pub mutated: bool,
    /// How often each fact's handler has run.
    pub attempts: BTreeMap<String, u32>,
    claims: u64,
}

/// How many lanes there are.
const LANES: usize = 3;

/// A handle on the day.
#[derive(Debug, Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    begins: Instant,
    wakeups: Arc<[Wakeups; LANES]>,
}

/// What wakes the event sources of a lane.
#[derive(Debug, Default)]
pub struct Wakeups {
    /// Something was sent.
    pub sent: Notify,
    /// A message came to the dead-letter queue.
    pub died: Notify,
}

impl World {
    /// A day that has not begun.
    pub fn new(config: Config, seed: u64, faults: FaultPlan, mutation: Mutation) -> Self {
        let mut timing = config.timing;
        let pair = |visibility_timeout: Millis| {
            let (retention, receives_max) = (timing.queue_retention, config.receives_max);
            let shape = QueueShape { visibility_timeout, retention, receives_max };
            let dead = QueueShape { retention: timing.dead_letter_retention, receives_max: None, ..shape };
            QueuePair { queue: FakeQueue::new(shape), dead_letters: FakeQueue::new(dead) }
        };
        let (events, effects) = (timing.visibility_timeout, timing.effects_visibility_timeout);
        let lanes = [events, events, effects].map(pair);
        let invariants = InvariantChecker::new(timing);
        if let Some(change) = mutation.timing {
            change(&mut timing);
        }
        let inner = Inner {
            config: Config { timing, ..config },
            tables: Tables::default(),
            lanes,
            callees: Callees::default(),
            rng: Rng::new(seed),
            faults,
            mutation,
            edges: Vec::new(),
            labels: BTreeSet::new(),
            facts: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            invariants,
            restored: Restored::default(),
            late: 0,
            cold_enqueue: 0,
            cold_enqueue_refused: 0,
            running: 0,
            calm: false,
            mutated: timing != config.timing,
            attempts: BTreeMap::new(),
            claims: 0,
        };
        Self { inner: Arc::new(Mutex::new(inner)), begins: Instant::now(), wakeups: Arc::default() }
    }

    /// The wakeups of a lane.
    pub fn wakeups(&self, lane: HintQueue) -> &Wakeups {
        &self.wakeups[lane as usize]
    }

    /// Something may have been sent, on any lane.
    pub fn wake(&self) {
        for wakeups in self.wakeups.iter() {
            wakeups.sent.notify_one();
        }
    }

    /// The day as it is now. Never held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The true time, in milliseconds since the epoch.
    pub fn now(&self) -> i64 {
        let since = Instant::now().duration_since(self.begins).as_millis();
        DAY_BEGINS + i64::try_from(since).unwrap_or(i64::MAX / 2)
    }

    /// The time of the day, in milliseconds.
    pub fn elapsed(&self) -> i64 {
        self.now() - DAY_BEGINS
    }
}

impl Inner {
    /// The queues of a lane.
    pub fn lane(&mut self, lane: HintQueue) -> &mut QueuePair {
        &mut self.lanes[lane as usize]
    }

    /// The fault of the next call.
    pub fn fault(&mut self, edge: CallEdge, elapsed: i64) -> Option<SimFault> {
        let number = self.edges.len();
        self.edges.push(edge);
        if self.calm && matches!(self.faults, FaultPlan::Random(_)) {
            return None;
        }
        let down = |outage: &Outage| outage.side == edge.side && (outage.from..outage.until).contains(&elapsed);
        if self.config.outages.iter().any(down) {
            return Some(SimFault::Refused);
        }
        self.faults.next(edge, number, &mut self.rng).filter(|fault| edge.can_meet(*fault))
    }

    /// The fault that a call meets, and how long its way there and back takes.
    pub fn drawn(&mut self, edge: CallEdge, elapsed: i64) -> (Option<SimFault>, i64, i64) {
        (self.fault(edge, elapsed), self.latency(), self.latency())
    }

    /// Whether what goes wrong at this rate, in ten thousand, goes wrong now. Once the day is calm, nothing does.
    pub fn strikes(&mut self, rate: impl FnOnce(&Config) -> u32) -> bool {
        let rate = if self.calm { 0 } else { rate(&self.config) };
        self.rng.chance(rate)
    }

    /// How long one way of a call takes, in milliseconds: rarely, longer than its caller waits.
    pub fn latency(&mut self) -> i64 {
        if self.config.steady {
            return 5;
        }
        if self.strikes(|config| config.slow) { self.rng.between(200, 3_000) } else { self.rng.between(1, 12) }
    }

    /// When the index shows a change that is made now.
    pub fn index_seen_at(&mut self, now: i64) -> i64 {
        if self.config.lingers > 0 && !self.calm && self.rng.chance(500) {
            self.tables.linger(now + self.rng.between(0, self.config.lingers));
        }
        let lag = self.config.index_lag_max;
        if lag > 0 && self.rng.chance(3_000) { now + self.rng.between(0, lag) } else { now }
    }

    /// Records changes of items.
    pub fn changed(&mut self, changes: &[Changed], now: i64) {
        for change in changes {
            match change.table {
                Table::Inbox => {
                    self.invariants.changed(change, now);
                    self.watch_effects(change);
                }
                Table::Domain | Table::Own(_) => {}
            }
        }
    }

    /// Tells the third parties' books what a change means for them. An event may be forced only if no effect of its
    /// last commit may still be done.
    fn watch_effects(&mut self, change: &Changed) {
        let record = |item: &Option<Item>| Record::decode(&readable(item.as_ref()?)).ok();
        let (before, Some(after)) = (record(&change.before), record(&change.after)) else { return };
        if after.effect.is_some() {
            if before.is_none() {
                self.callees.committed(after.key.as_str());
                self.invariants.committed(&after);
            }
            self.callees.changed(before.as_ref(), &after);
        } else if let Some(before) = before.filter(|before| before.generation < after.generation) {
            for key in before.effect_keys() {
                let effect = self.tables.get(Table::Inbox, key.as_str()).cloned();
                let status = record(&effect).map(|effect| effect.status);
                if matches!(status, Some(Status::Pending | Status::Dead)) {
                    self.invariants.forced_too_early(key.as_str());
                }
            }
        }
    }

    /// The TTL removes an item.
    pub fn expire(&mut self, table: Table, key: &str, now: i64) {
        let gone = self.tables.remove(table, key, now);
        if let (Table::Inbox, Some(item)) = (table, gone.before) {
            self.invariants.expired(key, &item, self.config.relay_down.is_some());
        }
    }

    /// A unique claim id, the same in every run of a seed.
    pub fn claim_id(&mut self) -> String {
        self.claims += 1;
        format!("claim-{}", self.claims)
    }
}

/// What a process of a release sees in an item.
pub fn seen_by(release: Release, item: Option<&Item>) -> Found {
    match (release, item) {
        (Release::Next, Some(item)) => Found::from_item(Some(readable(item).as_ref())),
        (Release::Next, None) | (Release::Current, _) => Found::from_item(item),
    }
}

/// What a process of this release makes of an item, but for its body.
pub fn head_seen_by(release: Release, item: Option<&Item>) -> Found {
    let bodiless = item.map(|item| {
        let mut item = item.clone();
        item.remove(attribute::BODY);
        item
    });
    seen_by(release, bodiless.as_ref())
}

/// The item as the release under test would have written it, where the next one wrote it.
pub fn readable(item: &Item) -> Cow<'_, Item> {
    if item.get(attribute::SCHEMA_VERSION).and_then(Value::as_i64) != Some(NEXT_VERSION) {
        return Cow::Borrowed(item);
    }
    let mut item = item.clone();
    item.insert(attribute::SCHEMA_VERSION.to_owned(), SCHEMA_VERSION.into());
    Cow::Owned(item)
}
