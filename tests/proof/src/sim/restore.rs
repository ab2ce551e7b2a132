//! Days on which one table is restored to an earlier moment, and the other is not.
//!
//! As the runbook says, somebody then doubts the effects that the restored inbox table holds: they may have been called
//! since. Events are left as they are, because their domain keys tell what was applied. Writes that are under way land
//! in the restored table, where each meets its own condition or none.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::operator::doubt;
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Moment;
use hookonce_protocol::write::Table;

use super::config::{Config, DAY, HOUR, MINUTE};
use super::handler::{COUNT, EFFECT, OWN_KEY, OWN_TABLE};
use super::invariants::facts_of;
use super::ports::sleep;
use super::rng::Rng;
use super::tables::Tables;
use super::world::{Inner, World, readable};

/// When a table is restored, and to what.
#[derive(Debug, Clone, Copy)]
pub struct Rewind {
    /// The inbox table. Otherwise the domain table, and with it the table of the handler's own.
    inbox: bool,
    /// The moment that it is restored to, in milliseconds of the day.
    to: i64,
    /// The moment at which it is restored, in milliseconds of the day.
    at: i64,
}

impl Rewind {
    /// What is restored on the day of this configuration; mostly nothing. It never reaches so far back that what is
    /// PENDING has expired.
    pub fn draw(config: &Config, rng: &mut Rng) -> Option<Self> {
        let is_calm = config.relay_down.is_none() && config.lingers == 0;
        let longest = if config.timing.delivery_retention.0 < DAY { 20 * MINUTE } else { HOUR };
        let back = rng.pick(&[1_000, MINUTE, longest]);
        let at = rng.between(config.span / 4, config.span);
        let rewind = Self { inbox: rng.chance(7_000), to: at - rng.between(1, back), at };
        (is_calm && rng.chance(1_500)).then_some(rewind)
    }
}

/// What restores have made untrue on purpose.
#[derive(Debug, Default)]
pub struct Restored {
    /// The inbox table was restored.
    pub inbox: bool,
    /// The domain table was restored.
    pub domain: bool,
    /// Events by key and generation that have committed effects which the restored table does not have.
    pub forgotten: BTreeSet<(String, i64)>,
}

/// Restores a table, if the day has it.
pub async fn restore(world: World) {
    let Some(Rewind { inbox, to, at }) = world.lock().config.rewind else { return };
    sleep(to).await;
    let backup = world.lock().tables.clone();
    sleep(at - to).await;
    let now = world.now();
    if inbox {
        rewind_inbox(&mut world.lock(), &backup, now);
    } else {
        rewind_domain(&mut world.lock(), &backup, now);
    }
    world.wake();
}

fn decoded(item: &Item) -> Option<Record> {
    Record::decode(&readable(item)).ok()
}

fn rewind_inbox(inner: &mut Inner, backup: &Tables, now: i64) {
    inner.restored.inbox = true;
    let gone = |key: &str| backup.get(Table::Inbox, key).is_none();
    for record in inner.tables.items(Table::Inbox).values().filter_map(decoded) {
        if gone(record.key.as_str()) {
            inner.invariants.given_up.extend(facts_of(&record));
        }
        if record.effect_keys().iter().any(|effect| gone(effect.as_str())) {
            inner.restored.forgotten.insert((record.key.as_str().to_owned(), record.generation));
        }
    }
    inner.tables.restore(Table::Inbox, backup, now);
    let moment = Moment { now: EpochMs(now), entropy: 0 };
    let timing = inner.config.timing;
    let effects =
        inner.tables.items(Table::Inbox).values().filter_map(decoded).filter(|record| record.effect.is_some());
    let doubts: Vec<_> = effects.filter_map(|effect| doubt(&effect, &timing, moment).ok()).collect();
    for write in doubts {
        let doubted = inner.tables.write(&write, now).expect("it is as it was read");
        inner.changed(&[doubted], now);
    }
}

fn rewind_domain(inner: &mut Inner, backup: &Tables, now: i64) {
    inner.restored.domain = true;
    let before = applied(&inner.tables);
    for table in [Table::Domain, Table::Own(*OWN_TABLE)] {
        inner.tables.restore(table, backup, now);
    }
    let after = applied(&inner.tables);
    let fell = before.into_iter().filter(|(fact, count)| after.get(fact).is_none_or(|left| left < count));
    inner.invariants.given_up.extend(fell.map(|(fact, _)| fact));
}

/// How often the tables say that each fact was applied.
fn applied(tables: &Tables) -> BTreeMap<String, i64> {
    let count = |item: &Item| item.get(COUNT).and_then(Value::as_i64).unwrap_or(0);
    let named = |(key, item): (&String, &Item)| {
        let parts: Vec<_> = key.split('#').collect();
        let [_, EFFECT, name] = parts[..] else { return None };
        Some((name.to_owned(), count(item)))
    };
    let own = tables.items(Table::Own(*OWN_TABLE)).values();
    let own = own.filter_map(|item| Some((item.get(OWN_KEY)?.as_text()?.to_owned(), count(item))));
    let mut facts = BTreeMap::new();
    for (fact, count) in tables.items(Table::Domain).iter().filter_map(named).chain(own) {
        *facts.entry(fact).or_default() += count;
    }
    facts
}

impl Restored {
    /// Whether this event has forgotten effects of its last commit, and says that all is well.
    pub fn hides(&self, event: &Record) -> bool {
        let settled =
            event.status == Status::Processed && matches!(event.outcome, Some(Outcome::Applied | Outcome::Duplicate));
        settled && self.forgotten.contains(&(event.key.as_str().to_owned(), event.generation))
    }
}
