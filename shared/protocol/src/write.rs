//! The language of conditional writes.
//!
//! A machine does not know how a store spells a write; it returns a [`Write`]. The adapters render it as expressions.
//! [`Write::apply`] defines what it means; the model checker and the test fakes run it.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::item::{Item, PARTITION_KEY, Value};
use crate::place::{Key, TableAlias};
use crate::purpose::Purpose;

/// An attribute name: static for the protocol's own, owned for a handler's.
pub type AttributeName = Cow<'static, str>;

/// A table: one of the two of a stack, or one of the user's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The records of deliveries and events.
    Inbox,
    /// The business data, and the domain keys.
    Domain,
    /// A user table. Only handlers write there.
    Own(TableAlias),
}

/// One requirement on the item before the write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clause {
    /// The attribute does not exist. On the partition key: the item does not exist.
    Absent(AttributeName),
    /// The attribute exists. On the partition key: the item exists.
    Present(AttributeName),
    /// The attribute exists and equals the value.
    Equals(AttributeName, Value),
    /// The attribute exists and equals one of the values.
    OneOf(AttributeName, Vec<Value>),
    /// The attribute does not exist, or has another value.
    Differs(AttributeName, Value),
}

impl Clause {
    /// The attribute that the clause is about.
    pub fn attribute(&self) -> &str {
        match self {
            Self::Absent(name)
            | Self::Present(name)
            | Self::Equals(name, _)
            | Self::OneOf(name, _)
            | Self::Differs(name, _) => name,
        }
    }

    /// The values that the clause compares with.
    pub(crate) fn values(&self) -> &[Value] {
        match self {
            Self::Equals(_, value) | Self::Differs(_, value) => std::slice::from_ref(value),
            Self::OneOf(_, values) => values,
            Self::Absent(_) | Self::Present(_) => &[],
        }
    }

    fn holds(&self, item: Option<&Item>) -> bool {
        let value = |name: &AttributeName| item.and_then(|item| item.get(name.as_ref()));
        match self {
            Self::Absent(name) => value(name).is_none(),
            Self::Present(name) => value(name).is_some(),
            Self::Equals(name, wanted) => value(name) == Some(wanted),
            Self::OneOf(name, wanted) => value(name).is_some_and(|value| wanted.contains(value)),
            Self::Differs(name, other) => value(name) != Some(other),
        }
    }
}

/// A condition: all clauses must hold. Without clauses, the write is unconditional, which only a handler's own write
/// may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Condition(pub Vec<Clause>);

impl Condition {
    /// No requirement.
    pub fn none() -> Self {
        Self::default()
    }

    /// The item does not exist. An expired item that is not deleted yet counts as existing, which is the safe side.
    pub fn item_absent() -> Self {
        Self(vec![Clause::Absent(PARTITION_KEY.into())])
    }

    /// No item with this key exists.
    pub fn absent(key: &Key) -> Self {
        Self(vec![Clause::Absent(key.attribute().to_owned().into())])
    }

    /// Whether all clauses hold for this item.
    pub fn holds(&self, item: Option<&Item>) -> bool {
        self.0.iter().all(|clause| clause.holds(item))
    }
}

/// One change of an update.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Sets the attribute.
    Set(AttributeName, Value),
    /// Removes the attribute.
    Remove(AttributeName),
    /// Adds to a number. A missing attribute counts as zero.
    Add(AttributeName, #[serde(deserialize_with = "whole")] i64),
}

/// Reads a whole number, also as `{"N": "9007199254740993"}`: some languages would round it as a JSON number.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a whole number of at most 64 bits")]
    enum Whole {
        Plain(i64),
        Typed(Value),
    }
    let whole = match Whole::deserialize(deserializer)? {
        Whole::Plain(number) => Some(number),
        Whole::Typed(value) => value.as_i64(),
    };
    whole.ok_or_else(|| D::Error::custom("must be a whole number of at most 64 bits"))
}

impl Change {
    /// The attribute that changes.
    pub fn attribute(&self) -> &str {
        match self {
            Self::Set(name, _) | Self::Remove(name) | Self::Add(name, _) => name,
        }
    }

    /// The value that it sets, if it sets one.
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Set(_, value) => Some(value),
            Self::Remove(_) | Self::Add(..) => None,
        }
    }

    /// Whether the item shows this change. A sum does not show what was added to it.
    fn shows_in(&self, item: &Item) -> bool {
        match self {
            Self::Set(name, value) => item.get(name.as_ref()) == Some(value),
            Self::Remove(name) => !item.contains_key(name.as_ref()),
            Self::Add(name, _) => item.contains_key(name.as_ref()),
        }
    }
}

/// What happens to the item if the condition holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Replaces the item. The write adds the key.
    Put(Item),
    /// Changes attributes. Creates the item if it is absent and the condition allows that.
    Update(Vec<Change>),
    /// Deletes the item.
    Delete,
    /// Changes nothing: only the condition counts. A plan names it as a check, never as a write.
    #[serde(skip)]
    Check,
}

impl Action {
    fn names_an_attribute_twice(&self) -> bool {
        let Self::Update(changes) = self else { return false };
        let again = |(index, change): (usize, &Change)| {
            changes.iter().take(index).any(|earlier| earlier.attribute() == change.attribute())
        };
        changes.iter().enumerate().any(again)
    }
}

/// One conditional write of one item.
///
/// The same names in code that compiles, so that the example fails for its reason alone:
///
/// ```
/// use hookonce_protocol::place::Key;
/// use hookonce_protocol::purpose::Purpose;
/// use hookonce_protocol::write::{Action, Condition, Table, Write};
/// let condition = || Condition(Vec::new());
/// let write = |key: Key| Write { purpose: Purpose::Claim, table: Table::Inbox, key, action: Action::Delete, condition: condition() };
/// ```
///
/// ```compile_fail,E0063
/// use hookonce_protocol::place::Key;
/// use hookonce_protocol::purpose::Purpose;
/// use hookonce_protocol::write::{Action, Table, Write};
/// // Nothing is written without a condition, not even by mistake.
/// let write = |key: Key| Write { purpose: Purpose::Claim, table: Table::Inbox, key, action: Action::Delete };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write {
    /// What the write is for. It is not stored and not part of the condition.
    pub purpose: Purpose,
    /// The table.
    pub table: Table,
    /// The key.
    pub key: Key,
    /// The action.
    pub action: Action,
    /// The condition that must hold before the write.
    pub condition: Condition,
}

/// Why a write changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotApplied {
    /// The condition does not hold.
    #[error("the condition of the write does not hold")]
    ConditionFailed,
    /// An update that names an attribute twice. DynamoDB refuses it, whatever the condition says.
    #[error("the update names an attribute twice")]
    Invalid,
}

impl Write {
    /// Applies the write to an item and returns the new item, `None` for no item.
    ///
    /// # Errors
    /// [`NotApplied`] when the condition does not hold, or DynamoDB would refuse the write. Nothing changes then.
    pub fn apply(&self, current: Option<&Item>) -> Result<Option<Item>, NotApplied> {
        if self.action.names_an_attribute_twice() {
            return Err(NotApplied::Invalid);
        }
        if !self.condition.holds(current) {
            return Err(NotApplied::ConditionFailed);
        }
        let after = match &self.action {
            Action::Put(item) => Some(item.clone()),
            Action::Update(changes) => {
                let mut item = current.cloned().unwrap_or_default();
                for change in changes {
                    apply_change(&mut item, change);
                }
                Some(item)
            }
            Action::Delete => None,
            Action::Check => current.cloned(),
        };
        Ok(after.map(|item| self.with_key(item)))
    }

    /// Whether the item stands exactly as this write leaves it: a refused repetition of the write has then found
    /// itself. A put item must be equal. An updated one must have every value that the write sets and none that it
    /// removes, and must meet each clause about an attribute that the write does not change.
    ///
    /// The rule is also true of another actor's write with the same values. Such a twin needs the same record, the same
    /// state before, the same purpose, the same millisecond and, where a length is drawn, the same draw. What it costs:
    ///
    /// | writes | the twins differ in | if they do not |
    /// |---|---|---|
    /// | claim, quarantine, due mark of a request | the claim id, made once per request | they always do |
    /// | duplicate count | `last_seen_by`, the loser's claim id | they always do |
    /// | claims out of a message, of a child or a dead letter | the time of the first re-send or of the death | one hint too many, or one death is told twice |
    /// | marks, failures, deaths, dead letters | the time, and the drawn back-off | both report the one change |
    /// | re-arm and its repair | the time, and the drawn interval | one hint too many |
    /// | guard of a call | nothing: it has the pass of one receive | there is none |
    /// | note of a body | nothing: it names the record | both noted the same |
    ///
    /// So a twin never applies a change twice and never loses one. A delete leaves nothing to recognise. What is part
    /// of a transaction, such as a commit or an operator's order, is recognised by the transaction's token.
    pub fn stands_in(&self, item: Option<&Item>) -> bool {
        let Some(item) = item else { return false };
        match &self.action {
            Action::Put(put) => *item == self.with_key(put.clone()),
            Action::Update(changes) => {
                let changes_it =
                    |clause: &&Clause| changes.iter().any(|change| change.attribute() == clause.attribute());
                let mut others = self.condition.0.iter().filter(|clause| !changes_it(clause));
                changes.iter().any(|change| matches!(change, Change::Set(..)))
                    && changes.iter().all(|change| change.shows_in(item))
                    && others.all(|clause| clause.holds(Some(item)))
            }
            Action::Delete | Action::Check => false,
        }
    }

    fn with_key(&self, mut item: Item) -> Item {
        item.extend(self.key.stored());
        item
    }
}

fn apply_change(item: &mut Item, change: &Change) {
    match change {
        Change::Set(name, value) => {
            item.insert(name.to_string(), value.clone());
        }
        Change::Remove(name) => {
            item.remove(name.as_ref());
        }
        Change::Add(name, amount) => {
            let before = item.get(name.as_ref()).and_then(Value::as_i64).unwrap_or(0);
            item.insert(name.to_string(), before.saturating_add(*amount).into());
        }
    }
}
