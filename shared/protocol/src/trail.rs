//! The audit trail of a record: what operators did to it, when and why.
//!
//! One item of the domain table for each record that an operator changed. It is written in one transaction with the
//! record's change, so neither exists without the other. It is kept as long as effects are.

use crate::item::{Item, PARTITION_KEY, Value};
use crate::key::{ClaimId, RECORD, RecordKey, RecordKind};
use crate::purpose::Purpose;
use crate::record::{Record, attribute, equals};
use crate::time::EpochMs;
use crate::timing::{Moment, Timing};
use crate::words::words;
use crate::write::{Action, Condition, Table, Write};

/// The prefix of audit trails in the domain table. It differs from the prefix of every endpoint's items.
pub const TRAIL_PREFIX: &str = "#op#";

/// The most entries that a trail keeps. The oldest go first, and forces last: a repeated command looks for them.
pub const ENTRIES_MAX: usize = 100;

const COUNT: &str = "count";
const ENTRIES: &str = "entries";

words! {
    /// What an operator does to a record.
    Operation {
        /// Lets a PENDING, DEAD or IGNORED record run again.
        Retry = "retry",
        /// Lets a PROCESSED record be applied once more.
        Force = "force",
        /// Gives a DEAD record up.
        Discard = "discard",
        /// Erases the stored body of a record that needs it no more.
        Redact = "redact",
        /// Ends a PENDING effect with an unknown outcome.
        Doubt = "doubt",
    }
}

/// One thing that an operator did to a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Identifies this act. Unique for each.
    pub id: String,
    /// The record's claim. A key may be claimed again once its record has expired, before its trail does.
    pub claim_id: ClaimId,
    /// When.
    pub at: EpochMs,
    /// Who.
    pub by: String,
    /// Why. Empty if the operation needs no reason and none was given.
    pub reason: String,
    /// What.
    pub operation: String,
    /// The state before: an outcome, a death reason or a status.
    pub from: String,
    /// The state after, in the same words.
    pub to: String,
    /// Whether the operator accepted that the effect may be applied twice.
    pub accept_duplicate: bool,
    /// Whether the operator accepted a body that came second under its key, and that a forger may have written.
    pub accept_other_body: bool,
}

/// All that operators did to one record, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trail {
    /// How many acts there were, including those that are no longer kept.
    pub count: i64,
    /// Up to [`ENTRIES_MAX`] of them.
    pub entries: Vec<Entry>,
    /// How much of it a later release wrote, so that this one does not understand it. An entry that is added rewrites
    /// them all, so none is added to such a trail.
    pub unread: usize,
}

/// The partition key of a record's trail in the domain table.
pub fn trail_item(record: &RecordKey) -> String {
    format!("{TRAIL_PREFIX}{record}")
}

impl Trail {
    /// Decodes a stored trail. Without an item, nobody did anything.
    pub fn decode(item: Option<&Item>) -> Self {
        let Some(item) = item else { return Self::default() };
        let count = item.get(COUNT).and_then(Value::as_i64);
        let list = if let Some(Value::List(entries)) = item.get(ENTRIES) { Some(entries) } else { None };
        let known = [PARTITION_KEY, RECORD, COUNT, ENTRIES, attribute::EXPIRES_AT];
        let others = item.keys().filter(|name| !known.contains(&name.as_str())).count();
        let entries: Vec<_> = list.into_iter().flatten().filter_map(Entry::decode).collect();
        let lost = list.map_or(1, |list| list.len() - entries.len());
        Self { count: count.unwrap_or(0), entries, unread: lost + others + usize::from(count.is_none()) }
    }

    /// Whether it has an entry with this id.
    pub fn has(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }

    /// The write that adds an entry. It fails if another operator added one since this trail was read.
    pub(crate) fn add(&self, record: &Record, entry: Entry, timing: &Timing, moment: Moment) -> Write {
        let mut entries = self.entries.clone();
        while entries.len() >= ENTRIES_MAX {
            let is_force = |entry: &Entry| entry.operation == Operation::Force.as_str();
            entries.remove(entries.iter().position(|entry| !is_force(entry)).unwrap_or(0));
        }
        entries.push(entry);
        let entries = entries.iter().map(Entry::encode).collect();
        let item = Item::from([
            (RECORD.to_owned(), Value::from(record.key.as_str())),
            (COUNT.to_owned(), Value::from(self.count.saturating_add(1))),
            (ENTRIES.to_owned(), Value::List(entries)),
            (attribute::EXPIRES_AT.to_owned(), Value::from(timing.expiry(RecordKind::Event, moment.now).0)),
        ]);
        let condition = match self.count {
            0 => Condition::item_absent(),
            count => Condition(vec![equals(COUNT, count)]),
        };
        Write {
            purpose: Purpose::NoteOperation,
            table: Table::Domain,
            key: trail_item(&record.key).into(),
            action: Action::Put(item),
            condition,
        }
    }
}

impl Entry {
    fn encode(&self) -> Value {
        let text = |name: &str, text: &str| (name.to_owned(), Value::from(text));
        Value::Map(Item::from([
            text("id", &self.id),
            text("claim_id", &self.claim_id.0),
            ("at".to_owned(), Value::from(self.at.0)),
            text("by", &self.by),
            text("reason", &self.reason),
            text("operation", &self.operation),
            text("from", &self.from),
            text("to", &self.to),
            ("accept_duplicate".to_owned(), Value::Flag(self.accept_duplicate)),
            ("accept_other_body".to_owned(), Value::Flag(self.accept_other_body)),
        ]))
    }

    /// An entry of a later release is not read in part: it may say what nobody here understands.
    fn decode(value: &Value) -> Option<Self> {
        let Value::Map(map) = value else { return None };
        let text = |name: &str| Some(map.get(name)?.as_text()?.to_owned());
        let flag = |name: &str| if let Value::Flag(flag) = map.get(name)? { Some(*flag) } else { None };
        let entry = Self {
            id: text("id")?,
            claim_id: ClaimId(text("claim_id")?),
            at: EpochMs(map.get("at")?.as_i64()?),
            by: text("by")?,
            reason: text("reason")?,
            operation: Operation::parse(&text("operation")?)?.as_str().to_owned(),
            from: text("from")?,
            to: text("to")?,
            accept_duplicate: flag("accept_duplicate")?,
            accept_other_body: flag("accept_other_body")?,
        };
        (entry.encode() == *value).then_some(entry)
    }
}
