//! A handler's input and output, as plain data.
//!
//! The JSON form of [`Event`], [`Snapshot`] and [`Plan`] is stable, and the event's `version` field is its version. A
//! handler in another language can receive the first two and return the third over the wire.
//!
//! ```json
//! {"version": 1, "endpoint": "stripe", "tenant": "stripe", "provider": "stripe", "record": "in#stripe#evt_1", "key": "evt_1",
//!  "type": "invoice.paid", "received_at_ms": 1767225600000, "generation": 0, "headers": {}, "body_base64": "e30="}
//! ```
//! ```json
//! {"items": {"stripe#balance#acme": {"pk": {"S": "stripe#balance#acme"}, "minor": {"N": "500"}}}}
//! ```
//! ```json
//! {"writes": [{"key": "stripe#ledger#in_1", "action": {"put": {"minor": {"N": "500"}}}, "condition": [{"absent": "pk"}]}],
//!  "when_condition_fails": "retry"}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::item::{ITEM_BYTES_MAX, Item, Value, base64_bytes, size_bytes};
use crate::key::{EndpointId, ITEM_KEY_BYTES_MAX, ItemKey, OnceKey, RecordKey, Tenant};
use crate::purpose::Purpose;
use crate::time::EpochMs;
use crate::write::{Action, AttributeName, Change, Clause, Condition, Table, Write};

/// The version of the JSON form.
pub const EVENT_VERSION: u32 = 1;

/// The most writes in one plan. A transaction holds 100 actions; two are the protocol's own.
pub const PLAN_WRITES_MAX: usize = 98;

/// The most data in one transaction, in bytes.
const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most data in one plan, in bytes. Its transaction also holds the record, with the body, and the domain key. Neither
/// depends on the plan, so every plan of this size that only puts items can be committed with every record. An update
/// counts as the item that it leaves, which the plan does not know: DynamoDB may still refuse it.
pub const PLAN_BYTES_MAX: usize = 3 * 1024 * 1024;

const _: () = assert!(PLAN_BYTES_MAX + 2 * ITEM_BYTES_MAX <= TRANSACTION_BYTES_MAX);

/// One business fact, as the provider reported it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// [`EVENT_VERSION`].
    pub version: u32,
    /// The endpoint that received it.
    pub endpoint: EndpointId,
    /// Whose event it is: the tenant that the endpoint's document names, else the endpoint.
    pub tenant: Tenant,
    /// The provider's id in the catalog.
    pub provider: String,
    /// The key of its record.
    pub record: RecordKey,
    /// The id that it is deduplicated by.
    pub key: String,
    /// The provider's name for the type of event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When the delivery was received.
    #[serde(rename = "received_at_ms")]
    pub received_at: EpochMs,
    /// The generation: 0, plus one for each forced replay.
    pub generation: i64,
    /// The request headers that are kept, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The provider's delivery, with only this event.
    #[serde(rename = "body_base64", with = "base64_bytes")]
    pub body: Vec<u8>,
}

impl Event {
    /// Names a domain item of this event's tenant: `event.item_key("balance", [customer, currency])` is
    /// `stripe#balance#cus_1#eur`. Parts may be any text from a provider: different parts never make the same key.
    pub fn item_key<P: fmt::Display>(&self, kind: &str, parts: impl IntoIterator<Item = P>) -> ItemKey {
        ItemKey::new(&self.tenant, kind, parts)
    }

    /// Names a domain item that stands for one effect of this event, such as a ledger entry. A forced replay must have
    /// a further effect, so it gets another key.
    pub fn once<P: fmt::Display>(&self, kind: &str, parts: impl IntoIterator<Item = P>) -> OnceKey {
        OnceKey::new(self.item_key(kind, parts), &self.record, self.generation)
    }
}

/// The domain items that a handler asked for, as of one moment. Items that do not exist are missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// By partition key.
    pub items: BTreeMap<String, Item>,
}

impl Snapshot {
    /// The item with this key, if it exists.
    pub fn item(&self, key: &ItemKey) -> Option<&Item> {
        self.items.get(key.as_str())
    }

    /// A whole number of an item. Zero if the item or the attribute does not exist.
    pub fn number(&self, key: &ItemKey, attribute: &str) -> i64 {
        self.item(key).and_then(|item| item.get(attribute)).and_then(Value::as_i64).unwrap_or(0)
    }
}

/// What to do if a condition of the plan's own writes fails at commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenConditionFails {
    /// Read and plan again, because the snapshot was outdated.
    #[default]
    Retry,
    /// Fail for good: the event can never be applied.
    Permanent,
}

/// The changes of one event. One transaction commits all of them with the record and the domain key, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The writes, each on a different item.
    pub writes: Vec<DomainWrite>,
    /// What to do if a condition fails.
    #[serde(default)]
    pub when_condition_fails: WhenConditionFails,
}

/// One write of a handler. It always goes to the domain table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DomainWrite {
    /// The partition key.
    pub key: ItemKey,
    /// The action.
    pub action: Action,
    /// The condition that must hold before the write.
    #[serde(default)]
    pub condition: Condition,
}

/// Why a plan cannot be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum PlanError {
    /// More than [`PLAN_WRITES_MAX`] writes.
    #[error("the plan has more than {PLAN_WRITES_MAX} writes")]
    TooManyWrites,
    /// More than [`PLAN_BYTES_MAX`] bytes.
    #[error("the plan holds more than {PLAN_BYTES_MAX} bytes")]
    TooLarge,
    /// Two writes of one item. A transaction allows one.
    #[error("the plan writes one item twice")]
    ItemTwice,
    /// A key does not begin with the event's tenant, or is too long.
    #[error("a plan key does not begin with the tenant, or is longer than {ITEM_KEY_BYTES_MAX} bytes")]
    Key,
    /// A set that the store refuses.
    #[error("a set of the plan is empty or has a member twice")]
    Set,
}

impl Plan {
    /// Adds a write. An `Option` works as well, for a write that may not be needed.
    #[must_use]
    pub fn with(mut self, write: impl Into<Option<DomainWrite>>) -> Self {
        self.writes.extend(write.into());
        self
    }

    /// Checks the store's limits, and that the plan writes only items of this tenant.
    ///
    /// # Errors
    /// [`PlanError`] names the first limit that the plan breaks.
    pub fn check(&self, tenant: &Tenant) -> Result<(), PlanError> {
        if self.writes.len() > PLAN_WRITES_MAX {
            return Err(PlanError::TooManyWrites);
        }
        let mut keys = BTreeSet::new();
        for write in &self.writes {
            if !write.key.is_of(tenant) {
                return Err(PlanError::Key);
            }
            if !keys.insert(&write.key) {
                return Err(PlanError::ItemTwice);
            }
        }
        if !self.writes.iter().flat_map(DomainWrite::values).all(Value::holds_only_sets) {
            return Err(PlanError::Set);
        }
        if self.writes.iter().map(DomainWrite::size_bytes).sum::<usize>() > PLAN_BYTES_MAX {
            return Err(PlanError::TooLarge);
        }
        Ok(())
    }
}

impl DomainWrite {
    /// Creates the item of one effect. The commit fails if the item exists.
    pub fn create(key: OnceKey, item: Item) -> Self {
        Self { key: key.into(), action: Action::Put(item), condition: Condition::item_absent() }
    }

    /// Creates an item that outlives the event, unless the snapshot has it. The handler must have asked for it.
    pub fn create_missing(key: ItemKey, item: Item, snapshot: &Snapshot) -> Option<Self> {
        let missing = snapshot.item(&key).is_none();
        missing.then(|| Self { key, action: Action::Put(item), condition: Condition::item_absent() })
    }

    /// Changes attributes. Creates the item if it does not exist.
    pub fn update(key: ItemKey, changes: Vec<Change>) -> Self {
        Self { key, action: Action::Update(changes), condition: Condition::none() }
    }

    /// Requires that one attribute still is as in the snapshot.
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

    /// The write on the domain table.
    pub fn into_write(self) -> Write {
        Write {
            purpose: Purpose::DomainWrite,
            table: Table::Domain,
            key: self.key.into(),
            action: self.action,
            condition: self.condition,
        }
    }

    /// Every value that it writes or compares with.
    fn values(&self) -> impl Iterator<Item = &Value> {
        let (item, changes) = match &self.action {
            Action::Put(item) => (Some(item), [].as_slice()),
            Action::Update(changes) => (None, changes.as_slice()),
            Action::Delete => (None, [].as_slice()),
        };
        let compared = self.condition.0.iter().flat_map(|clause| match clause {
            Clause::Equals(_, value) | Clause::Differs(_, value) => std::slice::from_ref(value),
            Clause::OneOf(_, values) => values.as_slice(),
            Clause::Absent(_) | Clause::Present(_) => &[],
        });
        item.into_iter().flat_map(Item::values).chain(changes.iter().filter_map(Change::value)).chain(compared)
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
        self.key.as_str().len() + content
    }
}
