//! What a handler sees and what it returns, as plain data.
//!
//! The JSON form of [`Event`], [`Snapshot`] and [`Plan`] is versioned by the event's `version` field and stable: a
//! handler in another language may receive the first two and return the third over the wire.
//!
//! ```json
//! {"version": 1, "endpoint": "stripe-main", "provider": "stripe", "key": "evt_1", "type": "invoice.paid",
//!  "received_at_ms": 1767225600000, "generation": 0, "headers": {}, "body_base64": "e30="}
//! ```
//! ```json
//! {"items": {"balance#acme": {"pk": {"S": "balance#acme"}, "minor": {"N": "500"}}}}
//! ```
//! ```json
//! {"writes": [{"key": "ledger#in_1", "action": {"put": {"minor": {"N": "500"}}}, "condition": [{"absent": "pk"}]}],
//!  "when_condition_fails": "retry"}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::item::{Item, Value, base64_bytes, size_bytes};
use crate::key::{DOMAIN_KEY_PREFIX, EndpointId, FIRST_SEEN_PREFIX};
use crate::time::EpochMs;
use crate::write::{Action, AttributeName, Change, Clause, Condition, Table, Write};

/// The version of the JSON form.
pub const EVENT_VERSION: u32 = 1;

/// The most writes in one plan: a transaction holds 100 actions, of which two are the protocol's own.
pub const PLAN_WRITES_MAX: usize = 98;

/// The most data in one plan, in bytes: a transaction holds 4 MiB, of which some is left to the protocol's own writes.
pub const PLAN_BYTES_MAX: usize = 4 * 1024 * 1024 - 64 * 1024;

/// The longest key of a domain item, in bytes.
pub const DOMAIN_ITEM_KEY_BYTES_MAX: usize = 1_024;

/// One business fact as the provider told it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// [`EVENT_VERSION`].
    pub version: u32,
    /// The endpoint that received it.
    pub endpoint: EndpointId,
    /// The provider's id in the catalog.
    pub provider: String,
    /// The id under which it is deduplicated.
    pub key: String,
    /// The provider's word for what happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When the delivery was received.
    #[serde(rename = "received_at_ms")]
    pub received_at: EpochMs,
    /// 0, and one more for each forced replay.
    pub generation: i64,
    /// The kept request headers, lower-cased names.
    pub headers: BTreeMap<String, String>,
    /// The provider's delivery, holding just this event.
    #[serde(rename = "body_base64", with = "base64_bytes")]
    pub body: Vec<u8>,
}

/// The domain items that a handler asked for, as they were at one moment. An item that does not exist is not listed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// By partition key.
    pub items: BTreeMap<String, Item>,
}

impl Snapshot {
    /// The item under this key, if it exists.
    pub fn item(&self, key: &str) -> Option<&Item> {
        self.items.get(key)
    }

    /// A whole number of an item, zero where the item or the attribute does not exist.
    pub fn number(&self, key: &str, attribute: &str) -> i64 {
        self.item(key).and_then(|item| item.get(attribute)).and_then(Value::as_i64).unwrap_or(0)
    }
}

/// What to do when a condition of the plan's own writes does not hold at commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenConditionFails {
    /// Read and plan again: the snapshot was overtaken.
    #[default]
    Retry,
    /// The event can never be applied.
    Permanent,
}

/// What one event changes. All of it is committed in one transaction with the record and the domain key, or none of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The writes, each on another item.
    pub writes: Vec<DomainWrite>,
    /// What a failed condition means.
    #[serde(default)]
    pub when_condition_fails: WhenConditionFails,
}

/// One write of a handler. It always goes to the domain table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DomainWrite {
    /// The partition key.
    pub key: String,
    /// What happens.
    pub action: Action,
    /// What must hold before.
    #[serde(default)]
    pub condition: Condition,
}

/// A plan that cannot be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More than [`PLAN_WRITES_MAX`] writes.
    #[error("the plan has more than {PLAN_WRITES_MAX} writes")]
    TooManyWrites,
    /// More than [`PLAN_BYTES_MAX`] bytes.
    #[error("the plan holds more than {PLAN_BYTES_MAX} bytes")]
    TooLarge,
    /// Two writes of one item: a transaction allows one.
    #[error("the plan writes one item twice")]
    ItemTwice,
    /// A key that is empty, too long or reserved for domain keys.
    #[error(
        "a key of the plan is empty, longer than {DOMAIN_ITEM_KEY_BYTES_MAX} bytes or begins with {DOMAIN_KEY_PREFIX} or {FIRST_SEEN_PREFIX}"
    )]
    Key,
}

impl Plan {
    /// Adds a write: the plan's builder.
    #[must_use]
    pub fn with(mut self, write: DomainWrite) -> Self {
        self.writes.push(write);
        self
    }

    /// Checks what the store would refuse, and what belongs to the protocol alone.
    ///
    /// # Errors
    /// [`PlanError`] names the first limit that is broken.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.writes.len() > PLAN_WRITES_MAX {
            return Err(PlanError::TooManyWrites);
        }
        let mut keys = BTreeSet::new();
        for write in &self.writes {
            if !is_domain_item_key(&write.key) {
                return Err(PlanError::Key);
            }
            if !keys.insert(&write.key) {
                return Err(PlanError::ItemTwice);
            }
        }
        if self.writes.iter().map(DomainWrite::size_bytes).sum::<usize>() > PLAN_BYTES_MAX {
            return Err(PlanError::TooLarge);
        }
        Ok(())
    }
}

/// Whether a handler may read or write an item under this key.
pub fn is_domain_item_key(key: &str) -> bool {
    let ours = [DOMAIN_KEY_PREFIX, FIRST_SEEN_PREFIX];
    (1..=DOMAIN_ITEM_KEY_BYTES_MAX).contains(&key.len()) && !ours.iter().any(|prefix| key.starts_with(prefix))
}

impl DomainWrite {
    /// Creates the item; fails at commit if it exists.
    pub fn create(key: impl Into<String>, item: Item) -> Self {
        Self { key: key.into(), action: Action::Put(item), condition: Condition::item_absent() }
    }

    /// Changes attributes, creating the item where it does not exist.
    pub fn update(key: impl Into<String>, changes: Vec<Change>) -> Self {
        Self { key: key.into(), action: Action::Update(changes), condition: Condition::none() }
    }

    /// Requires one attribute to be as the snapshot showed it.
    #[must_use]
    pub fn as_seen(mut self, snapshot: &Snapshot, attribute: impl Into<AttributeName>) -> Self {
        let attribute = attribute.into();
        let seen = snapshot.item(&self.key).and_then(|item| item.get(attribute.as_ref())).cloned();
        self.condition.0.push(match seen {
            Some(value) => Clause::Equals(attribute, value),
            None => Clause::Absent(attribute),
        });
        self
    }

    /// As a write of the domain table.
    pub fn into_write(self) -> Write {
        Write { table: Table::Domain, key: self.key, action: self.action, condition: self.condition }
    }

    fn size_bytes(&self) -> usize {
        let content = match &self.action {
            Action::Put(item) => size_bytes(item),
            Action::Update(changes) => changes
                .iter()
                .map(|change| match change {
                    Change::Set(name, value) => name.len() + value.size_bytes(),
                    Change::Remove(name) => name.len(),
                    Change::Add(name, _) => name.len() + 20,
                })
                .sum(),
            Action::Delete => 0,
        };
        self.key.len() + content
    }
}
