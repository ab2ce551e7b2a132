//! The tables in memory: as much of DynamoDB as the protocol depends on.
//!
//! [`Write::apply`] defines what a write means; this module only holds the items and the two indexes. The `fakes` part
//! of the proof checks against real servers that the answers are DynamoDB's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hookonce_protocol::call::{CancellationReason, Committed, DueCursor, DueEntry, DuePage, DueQuery};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::record::{EFFECT_LIST, PENDING_LIST, WAITING_LIST, attribute, journal_shard};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::{NotApplied, Table, Write};

/// An item before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The table.
    pub table: Table,
    /// The text of its key.
    pub key: String,
    /// As it was.
    pub before: Option<Item>,
    /// As it is.
    pub after: Option<Item>,
}

/// An entry of the index: partition, time, record.
type Entry = (String, i64, String);

/// The tables and their indexes.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    inbox: BTreeMap<String, Item>,
    domain: BTreeMap<String, Item>,
    own: BTreeMap<TableAlias, BTreeMap<String, Item>>,
    due: BTreeSet<Entry>,
    journal: BTreeSet<Entry>,
    /// Changes of the index that cannot be seen yet: from when on, the entry that goes and the one that comes.
    lagging: Vec<(i64, Option<Entry>, Option<Entry>)>,
    /// Entries that the index still shows, and until when.
    lingering: Vec<(i64, Entry)>,
    lingers_until: Option<i64>,
    /// No item expires before this time, in seconds; 0 if it is not known.
    first_expiry: i64,
}

/// Why a write has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotWritten {
    /// The condition does not hold of the item, which is this.
    ConditionFailed(Option<Item>),
    /// No store takes such a write.
    Invalid,
}

/// A table without items.
static EMPTY: BTreeMap<String, Item> = BTreeMap::new();

impl Tables {
    /// The items of a table, by the texts of their keys.
    pub fn items(&self, table: Table) -> &BTreeMap<String, Item> {
        match table {
            Table::Inbox => &self.inbox,
            Table::Domain => &self.domain,
            Table::Own(alias) => self.own.get(&alias).unwrap_or(&EMPTY),
        }
    }

    /// An item as it is.
    pub fn get(&self, table: Table, key: &str) -> Option<&Item> {
        self.items(table).get(key)
    }

    /// One conditional write. The index shows it from `seen_at` on.
    ///
    /// # Errors
    /// [`NotWritten`] says why nothing has changed.
    pub fn write(&mut self, write: &Write, seen_at: i64) -> Result<Changed, NotWritten> {
        let before = self.get(write.table, write.key.as_str()).cloned();
        match write.apply(before.as_ref()) {
            Ok(after) => Ok(self.change(write.table, write.key.as_str(), before, after, seen_at)),
            Err(NotApplied::ConditionFailed) => Err(NotWritten::ConditionFailed(before)),
            Err(NotApplied::Invalid) => Err(NotWritten::Invalid),
        }
    }

    /// All writes, or none and the reasons, one for each.
    pub fn commit(&mut self, writes: &[Write], seen_at: i64) -> (Committed, Vec<Changed>) {
        let items: BTreeSet<_> = writes.iter().map(|write| (write.table, &write.key)).collect();
        if items.len() < writes.len() {
            return (Committed::Invalid, Vec::new()); // One item twice.
        }
        let each = writes.iter().map(|write| write.apply(self.get(write.table, write.key.as_str())));
        let outcomes: Vec<_> = each.collect();
        if outcomes.contains(&Err(NotApplied::Invalid)) {
            return (Committed::Invalid, Vec::new());
        }
        if outcomes.iter().all(Result::is_ok) {
            let changes = writes.iter().zip(outcomes).map(|(write, outcome)| {
                let before = self.get(write.table, write.key.as_str()).cloned();
                self.change(write.table, write.key.as_str(), before, outcome.ok().flatten(), seen_at)
            });
            return (Committed::Applied, changes.collect());
        }
        let reason = |(write, outcome): (&Write, &Result<_, _>)| {
            let refused = || CancellationReason::refused(write, self.get(write.table, write.key.as_str()));
            if outcome.is_err() { refused() } else { CancellationReason::None }
        };
        (Committed::Cancelled(writes.iter().zip(&outcomes).map(reason).collect()), Vec::new())
    }

    /// Gives a table the items that it has in a backup.
    pub fn restore(&mut self, table: Table, backup: &Self, now: i64) {
        let (items, kept) = (self.items(table).clone(), backup.items(table));
        let keys: BTreeSet<_> = items.keys().chain(kept.keys()).collect();
        for key in keys {
            self.change(table, key, items.get(key).cloned(), kept.get(key).cloned(), now);
        }
    }

    /// Removes an item as the TTL does.
    pub fn remove(&mut self, table: Table, key: &str, now: i64) -> Changed {
        let before = self.get(table, key).cloned();
        self.change(table, key, before, None, now)
    }

    fn change(&mut self, table: Table, key: &str, before: Option<Item>, after: Option<Item>, seen_at: i64) -> Changed {
        if table == Table::Inbox {
            let entry = |item: &Option<Item>, shard: &str, at: &str| -> Option<Entry> {
                let item = item.as_ref()?;
                Some((item.get(shard)?.as_text()?.to_owned(), item.get(at).and_then(Value::as_i64)?, key.to_owned()))
            };
            let due = |item: &Option<Item>| entry(item, attribute::DUE_SHARD, attribute::DUE_AT);
            let (gone, come) = (due(&before), due(&after));
            // An index is behind, never out of order.
            let seen_at = self.lagging.last().map_or(seen_at, |(last, ..)| seen_at.max(*last));
            if gone != come
                && let Some(until) = self.lingers_until.take()
                && let Some(gone) = gone.clone()
            {
                self.lingering.push((until, gone));
                self.lagging.push((seen_at, None, come));
            } else if gone != come {
                self.lagging.push((seen_at, gone, come));
            }
            let journal = |item: &Option<Item>| entry(item, attribute::JOURNAL_SHARD, attribute::RECEIVED_AT);
            if let Some(gone) = journal(&before) {
                self.journal.remove(&gone);
            }
            self.journal.extend(journal(&after));
        }
        let items = match table {
            Table::Inbox => &mut self.inbox,
            Table::Domain => &mut self.domain,
            Table::Own(alias) => self.own.entry(alias).or_default(),
        };
        if let Some(expiry) = after.as_ref().and_then(expiry) {
            self.first_expiry = self.first_expiry.min(expiry);
        }
        match &after {
            Some(item) => items.insert(key.to_owned(), item.clone()),
            None => items.remove(key),
        };
        Changed { table, key: key.to_owned(), before, after }
    }

    /// The index as it can be seen now.
    fn index(&mut self, now: i64) -> &BTreeSet<Entry> {
        let visible = self.lagging.partition_point(|(seen_at, ..)| *seen_at <= now);
        for (_, gone, come) in self.lagging.drain(..visible) {
            if let Some(gone) = gone {
                self.due.remove(&gone);
            }
            // An entry that comes back is no longer an earlier one.
            self.lingering.retain(|(_, entry)| Some(entry) != come.as_ref());
            self.due.extend(come);
        }
        for (_, entry) in self.lingering.extract_if(.., |(until, _)| *until <= now) {
            self.due.remove(&entry);
        }
        &self.due
    }

    /// The next change of the index leaves the earlier entry in place for this long.
    pub const fn linger(&mut self, until: i64) {
        self.lingers_until = Some(until);
    }

    /// One page of a shard of the index, as it shows now.
    pub fn query_due(&mut self, query: &DueQuery, now: i64) -> DuePage {
        let partition = query.partition();
        let from = match &query.after {
            Some(place) => Bound::Excluded((partition.clone(), place.due_at.0, place.key.clone())),
            None => Bound::Included((partition.clone(), i64::MIN, String::new())),
        };
        let entries = self.index(now).range((from, Bound::Unbounded));
        let in_range = entries.take_while(|(shard, at, _)| *shard == partition && *at <= query.until.0);
        let page: Vec<_> = in_range.take(query.limit).collect();
        let last = page.last().filter(|_| page.len() == query.limit);
        let next = last.map(|(_, at, key)| DueCursor { key: key.clone(), due_at: EpochMs(*at) });
        let entry = |(_, at, key): &&Entry| Some(DueEntry { key: RecordKey::parse(key)?, due_at: EpochMs(*at) });
        DuePage { entries: page.iter().filter_map(entry).collect(), next }
    }

    /// Records of one journal shard that were received in a span.
    pub fn count_received(&self, shard: u16, from: EpochMs, until: EpochMs) -> u64 {
        let mut partitions = vec![journal_shard(from, shard), journal_shard(until, shard)];
        partitions.dedup();
        let count = |partition: String| {
            let range = (partition.clone(), from.0, String::new())..=(partition, until.0, "\u{10FFFF}".to_owned());
            self.journal.range(range).count() as u64
        };
        partitions.into_iter().map(count).sum()
    }

    /// When the next PENDING record falls due, as the index will show it; or the index catches up.
    pub fn next_due(&mut self, now: i64) -> Option<i64> {
        let listed = |shard: &str| [PENDING_LIST, WAITING_LIST, EFFECT_LIST].iter().any(|list| shard.starts_with(list));
        let pending = |(shard, at, _): &Entry| listed(shard).then_some(*at);
        let shown = self.index(now).iter().filter_map(pending).min();
        shown.into_iter().chain(self.lagging.first().map(|(seen_at, ..)| *seen_at)).min()
    }

    /// Items whose TTL has passed.
    pub fn expired(&mut self, now: i64) -> Vec<(Table, String)> {
        if self.first_expiry.saturating_mul(1_000) > now {
            return Vec::new();
        }
        let (mut gone, mut first) = (Vec::new(), i64::MAX);
        for table in [Table::Inbox, Table::Domain] {
            for (key, item) in self.items(table) {
                match expiry(item) {
                    Some(at) if at.saturating_mul(1_000) <= now => gone.push((table, key.clone())),
                    Some(at) => first = first.min(at),
                    None => {}
                }
            }
        }
        self.first_expiry = first;
        gone
    }
}

fn expiry(item: &Item) -> Option<i64> {
    item.get(attribute::EXPIRES_AT).and_then(Value::as_i64)
}
