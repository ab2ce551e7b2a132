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
//! {"items": [{"key": "stripe#balance#acme", "item": {"pk": {"S": "stripe#balance#acme"}, "minor": {"N": "500"}}},
//!            {"table": "orders", "key": {"shop": {"S": "acme"}, "order": {"N": "17"}}, "item": null}]}
//! ```
//! ```json
//! {"writes": [{"key": "stripe#ledger#in_1", "action": {"put": {"minor": {"N": "500"}}}, "condition": [{"absent": "pk"}]},
//!             {"table": "orders", "key": {"shop": {"S": "acme"}, "order": {"N": "17"}},
//!              "action": {"update": [{"set": ["paid", {"BOOL": true}]}]}, "blind": true}],
//!  "checks": [{"key": "stripe#customer#acme", "condition": [{"present": "pk"}]}], "when_condition_fails": "retry",
//!  "effects": [{"effect": "receipt", "destination": "receipts", "payload": {"invoice": "in_1"}}]}
//! ```
//!
//! A key that is text names an item of the domain table; a key of attributes names one of a user table. Unknown
//! fields are refused. `schemas/plan.json` describes both forms to other languages.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::item::{ITEM_BYTES_MAX, Item, Value, base64_bytes};
use crate::key::{EndpointId, ItemKey, OnceKey, RecordKey, Tenant};
use crate::place::{ItemRef, Key, TableAlias, present};
use crate::purpose::Purpose;
use crate::time::EpochMs;
use crate::write::{Action, AttributeName, Change, Clause, Condition, Table, Write};

/// The version of the JSON form.
pub const EVENT_VERSION: u32 = 1;

/// The most writes and checks in one plan. A transaction holds 100 actions; two are the protocol's own.
pub const PLAN_WRITES_MAX: usize = 98;

/// The most data in one plan, in bytes. Its transaction also holds the record, with the body, and the domain key.
/// Neither depends on the plan, so every plan of this size that only puts items can be committed with every record. An
/// update counts as the item that it leaves, which the plan does not know: DynamoDB may still refuse it.
pub const PLAN_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The most memory that the values of a plan may take, in bytes. Three megabytes of small maps would take several
/// hundred megabytes, once each in the plan, in its writes and in the request.
pub const PLAN_MEMORY_MAX: usize = 32 * 1024 * 1024;

// DynamoDB takes 4 MB in one transaction.
const _: () = assert!(PLAN_BYTES_MAX + 2 * ITEM_BYTES_MAX <= 4 * 1024 * 1024);

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
    /// Its id: the provider's, or a hash if it has none.
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

/// The items that a handler asked for, each as it was when it was read. What a plan relies on and does not write needs
/// a [`Check`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "SnapshotForm", into = "SnapshotForm")]
pub struct Snapshot {
    /// What was asked for, with what was there.
    items: BTreeMap<ItemRef, Option<Item>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotForm {
    items: Vec<SnapshotEntry>,
}

/// One item of a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotEntry {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    table: Option<TableAlias>,
    key: Key,
    // Null says that there is none; a form without the field says nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    item: Option<Item>,
}

impl From<SnapshotForm> for Snapshot {
    fn from(form: SnapshotForm) -> Self {
        form.items.into_iter().map(|SnapshotEntry { table, key, item }| (ItemRef { table, key }, item)).collect()
    }
}

impl From<Snapshot> for SnapshotForm {
    fn from(snapshot: Snapshot) -> Self {
        let shown = |(ItemRef { table, key }, item)| SnapshotEntry { table, key, item };
        Self { items: snapshot.items.into_iter().map(shown).collect() }
    }
}

impl FromIterator<(ItemRef, Option<Item>)> for Snapshot {
    fn from_iter<I: IntoIterator<Item = (ItemRef, Option<Item>)>>(items: I) -> Self {
        Self { items: items.into_iter().collect() }
    }
}

impl Snapshot {
    /// The item of this name, if it exists: `snapshot.item(&key)`.
    pub fn item(&self, item: impl Into<ItemRef>) -> Option<&Item> {
        self.items.get(&item.into())?.as_ref()
    }

    /// A whole number of an item. Zero if the item or the attribute does not exist, and also if it is no whole number
    /// of 64 bits: of an item that others write, too, look at [`Self::item`].
    pub fn number(&self, item: impl Into<ItemRef>, attribute: &str) -> i64 {
        self.item(item).and_then(|item| item.get(attribute)).and_then(Value::as_i64).unwrap_or(0)
    }

    /// Adds the items of another snapshot.
    pub fn extend(&mut self, other: Self) {
        self.items.extend(other.items);
    }

    /// Every item that was asked for, with what was there.
    pub fn items(&self) -> impl Iterator<Item = (&ItemRef, Option<&Item>)> {
        self.items.iter().map(|(name, item)| (name, item.as_ref()))
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
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The writes, each on a different item.
    pub writes: Vec<DomainWrite>,
    /// What must hold of items that the plan does not write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// What is sent out of the account once the changes are committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// What to do if a condition fails.
    #[serde(default)]
    pub when_condition_fails: WhenConditionFails,
}

/// One write of a handler, in the domain table or in a user table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainWrite {
    /// The user table. None is the domain table.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub table: Option<TableAlias>,
    /// The key.
    pub key: Key,
    /// The action.
    pub action: Action,
    /// The condition that must hold before the write.
    #[serde(default)]
    pub condition: Condition,
    /// Allows an unconditional write to an item that was read. Otherwise refused: it could lose an update.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blind: bool,
    /// What is wrong with its version. The plan is refused.
    #[serde(skip)]
    pub version_fault: Option<VersionFault>,
}

/// What is wrong with the version of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VersionFault {
    /// The write gives this attribute another value.
    Contradicted(AttributeName),
    /// The write is a delete, which forgets the version.
    Forgotten,
}

/// A condition on an item that the plan does not write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The user table. None is the domain table.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub table: Option<TableAlias>,
    /// The key.
    pub key: Key,
    /// The condition that must hold at commit.
    pub condition: Condition,
}

/// What a write does if its version is the one that the item already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tie {
    /// It is left out.
    Skip,
    /// It is carried out.
    Write,
}

impl Plan {
    /// Adds a write. An `Option` works as well, for a write that may not be needed.
    #[must_use]
    pub fn with(mut self, write: impl Into<Option<DomainWrite>>) -> Self {
        self.writes.extend(write.into());
        self
    }

    /// Adds a check.
    #[must_use]
    pub fn with_check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Adds an effect. An `Option` works as well, for one that may not be needed.
    #[must_use]
    pub fn with_effect(mut self, effect: impl Into<Option<Effect>>) -> Self {
        self.effects.extend(effect.into());
        self
    }

    /// The writes and checks of the transaction, in the order of the plan.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        let table = |table: Option<TableAlias>| table.map_or(Table::Domain, Table::Own);
        let writes = self.writes.into_iter().map(move |write| Write {
            purpose: Purpose::DomainWrite,
            table: table(write.table),
            key: write.key,
            action: write.action,
            condition: write.condition,
        });
        writes.chain(self.checks.into_iter().map(move |check| Write {
            purpose: Purpose::DomainCheck,
            table: table(check.table),
            key: check.key,
            action: Action::Check,
            condition: check.condition,
        }))
    }
}

impl Check {
    /// The item that it is about.
    pub fn item(&self) -> ItemRef {
        ItemRef { table: self.table, key: self.key.clone() }
    }

    /// Requires that the attributes of an item that was only read still are as in the snapshot.
    pub fn as_seen<'a>(
        item: impl Into<ItemRef>,
        snapshot: &Snapshot,
        attributes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let item = item.into();
        let seen = snapshot.item(&item);
        let clauses = attributes.into_iter().map(|attribute| clause_as_seen(seen, attribute.to_owned().into()));
        let condition = Condition(clauses.collect());
        Self { table: item.table, key: item.key, condition }
    }
}

impl DomainWrite {
    fn new(item: ItemRef, action: Action, condition: Condition) -> Self {
        Self { table: item.table, key: item.key, action, condition, blind: false, version_fault: None }
    }

    /// Creates the item of one effect. The commit fails if the item exists.
    pub fn create(key: OnceKey, item: Item) -> Self {
        let name = ItemRef::from(key);
        let condition = Condition::absent(&name.key);
        Self::new(name, Action::Put(item), condition)
    }

    /// Creates an item that outlives the event, unless the snapshot has it. The handler must have asked for it.
    pub fn create_missing(name: impl Into<ItemRef>, item: Item, snapshot: &Snapshot) -> Option<Self> {
        let name = name.into();
        let condition = Condition::absent(&name.key);
        snapshot.item(&name).is_none().then(|| Self::new(name, Action::Put(item), condition))
    }

    /// Changes attributes. Creates the item if it does not exist.
    pub fn update(item: impl Into<ItemRef>, changes: Vec<Change>) -> Self {
        Self::new(item.into(), Action::Update(changes), Condition::none())
    }

    /// Deletes the item, if it exists.
    pub fn delete(item: impl Into<ItemRef>) -> Self {
        Self::new(item.into(), Action::Delete, Condition::none())
    }

    /// Requires that one attribute still is as in the snapshot.
    #[must_use]
    pub fn as_seen(mut self, snapshot: &Snapshot, attribute: impl Into<AttributeName>) -> Self {
        self.condition.0.push(clause_as_seen(snapshot.item(self.item()), attribute.into()));
        self
    }

    /// Allows an unconditional write to an item that was read: for changes that are right whatever the item holds, such
    /// as a sum.
    #[must_use]
    pub fn blind(mut self) -> Self {
        self.blind = true;
        self
    }

    /// Lets a newer event never be overwritten by an older one: keeps the version in this attribute, and leaves the
    /// write out if the snapshot has a newer version, or the same and `tie` says so. The commit then requires that the
    /// attribute still is as in the snapshot, so of two events that race, one plans again. Numbers are compared as
    /// numbers, texts byte by byte. A stored version of another type counts as older. A write that itself gives the
    /// attribute another value is refused with its plan, and so is a delete: it forgets the version, so an older event
    /// would bring the item back. Mark the item as deleted with an update.
    ///
    /// The handler must have asked for the item.
    #[must_use]
    pub fn newer_than(
        mut self,
        snapshot: &Snapshot,
        attribute: impl Into<AttributeName>,
        version: impl Into<Value>,
        tie: Tie,
    ) -> Option<Self> {
        let (attribute, version) = (attribute.into(), version.into());
        if matches!(self.action, Action::Delete | Action::Check) {
            self.version_fault = Some(VersionFault::Forgotten);
            return Some(self.as_seen(snapshot, attribute));
        }
        let seen = snapshot.item(self.item()).and_then(|item| item.get(attribute.as_ref()));
        match seen.and_then(|seen| seen.order(&version)) {
            Some(Ordering::Greater) => return None,
            Some(Ordering::Equal) if tie == Tie::Skip => return None,
            Some(Ordering::Equal | Ordering::Less) | None => {}
        }
        match &mut self.action {
            Action::Put(item) => {
                let known = item.entry(attribute.to_string()).or_insert_with(|| version.clone());
                if *known != version {
                    self.version_fault = Some(VersionFault::Contradicted(attribute.clone()));
                }
            }
            Action::Update(changes) if changes.contains(&Change::Set(attribute.clone(), version.clone())) => {}
            // If the update sets it to another value, it changes twice, which is refused, too.
            Action::Update(changes) => changes.push(Change::Set(attribute.clone(), version)),
            Action::Delete | Action::Check => {}
        }
        Some(self.as_seen(snapshot, attribute))
    }

    /// The item that it writes.
    pub fn item(&self) -> ItemRef {
        ItemRef { table: self.table, key: self.key.clone() }
    }
}

/// Requires that an attribute is as it was seen.
fn clause_as_seen(item: Option<&Item>, attribute: AttributeName) -> Clause {
    match item.and_then(|item| item.get(attribute.as_ref())).cloned() {
        Some(value) => Clause::Equals(attribute, value),
        None => Clause::Absent(attribute),
    }
}
