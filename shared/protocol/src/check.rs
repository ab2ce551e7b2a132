//! What is refused of a plan before the store sees it: what its handler may not write, and what DynamoDB refuses for
//! good.
//!
//! DynamoDB names neither the write nor the attribute that it refuses, and it refuses only after the transaction has
//! been paid for. So each of its rules that a plan alone can break is checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::effect::{DestinationId, EFFECT_BYTES_MAX, EFFECT_PATH_BYTES_MAX, EffectDraft, EffectPathError, check_path};
use crate::item::{ITEM_BYTES_MAX, RESERVED_PREFIX, Value, ValueFault, is_attribute_name, memory_bytes};
use crate::key::Tenant;
use crate::place::{ItemRef, Key, KeySchema, PlaceFault, TableAlias};
use crate::plan::{DomainWrite, PLAN_BYTES_MAX, PLAN_MEMORY_MAX, PLAN_WRITES_MAX, Plan, Snapshot, VersionFault};
use crate::write::{Action, Change, Clause, Condition};

/// The most clauses in one condition. Its expression then stays below DynamoDB's 4 KB, whatever the clauses are.
pub const CLAUSES_MAX: usize = 50;

/// The most values in the lists of one condition.
pub const ALTERNATIVES_MAX: usize = 100;

/// The most changes in one update. Its expression then stays below DynamoDB's 4 KB and 300 operators.
pub const CHANGES_MAX: usize = 200;

/// The longest content type of an effect, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// What the record of an effect holds besides its payload, its path and its content type, at most, in bytes.
const EFFECT_HEAD_BYTES_MAX: usize = 4_096;

const _: () =
    assert!(EFFECT_BYTES_MAX + EFFECT_PATH_BYTES_MAX + CONTENT_TYPE_BYTES_MAX + EFFECT_HEAD_BYTES_MAX < ITEM_BYTES_MAX);

/// How much of the name of an attribute an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 3;

/// What a handler may write, and what it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Scope {
    /// The items that it asked for.
    pub shown: BTreeSet<ItemRef>,
    /// The user tables that it may use, with their keys.
    pub tables: BTreeMap<TableAlias, KeySchema>,
    /// The destinations that it may send effects to.
    pub destinations: BTreeSet<DestinationId>,
}

/// Why a plan cannot be committed. It names the write and the attribute, and never holds a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum PlanError {
    /// More than [`PLAN_WRITES_MAX`] writes, checks and effects.
    #[error("the plan has more than {PLAN_WRITES_MAX} writes, checks and effects")]
    TooManyWrites,
    /// More than [`PLAN_BYTES_MAX`] bytes.
    #[error("the plan holds more than {PLAN_BYTES_MAX} bytes")]
    TooLarge,
    /// Values that take more than [`PLAN_MEMORY_MAX`] bytes of memory.
    #[error("the plan has too many values: they take more than {} MiB of memory", PLAN_MEMORY_MAX / 1_048_576)]
    TooManyValues,
    /// A write.
    #[error("writes[{index}]{}: {fault}", of(*.table))]
    Write {
        /// Its place in the plan.
        index: usize,
        /// Its user table.
        table: Option<TableAlias>,
        /// What is wrong with it.
        fault: PlanFault,
    },
    /// A check.
    #[error("checks[{index}]{}: {fault}", of(*.table))]
    Check {
        /// Its place in the plan.
        index: usize,
        /// Its user table.
        table: Option<TableAlias>,
        /// What is wrong with it.
        fault: PlanFault,
    },
    /// An effect.
    #[error("effects[{index}]: {fault}")]
    Effect {
        /// Its place in the plan.
        index: usize,
        /// What is wrong with it.
        fault: EffectFault,
    },
}

/// What is wrong with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum EffectFault {
    /// Two effects of one name.
    #[error("another effect of the plan has this name")]
    NameTwice,
    /// A destination that the route does not list.
    #[error("the route does not list this destination")]
    Destination,
    /// Too large a payload.
    #[error("the compressed payload has more than {EFFECT_BYTES_MAX} bytes")]
    TooLarge,
    /// A path that could lead elsewhere.
    #[error("the path {0}")]
    Path(#[from] EffectPathError),
    /// Too long a content type.
    #[error("the content type has more than {CONTENT_TYPE_BYTES_MAX} bytes")]
    ContentTypeTooLong,
}

fn of(table: Option<TableAlias>) -> String {
    table.map_or_else(String::new, |table| format!(" in table {table}"))
}

/// What is wrong with a write or a check.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum PlanFault {
    /// The item itself.
    #[error(transparent)]
    Place(#[from] PlaceFault),
    /// Another write or check of the same item. A transaction allows one.
    #[error("the plan writes or checks this item twice")]
    ItemTwice,
    /// A write that would overwrite what another event has changed since.
    #[error("the handler has seen this item: the write needs a condition, or \"blind\": true")]
    Unguarded,
    /// A check of nothing.
    #[error("a check needs a condition")]
    NoCondition,
    /// An update of nothing.
    #[error("an update needs a change")]
    NoChange,
    /// Too large an item.
    #[error("the item has more than {ITEM_BYTES_MAX} bytes")]
    ItemTooLarge,
    /// Too long a condition.
    #[error("the condition has more than {CLAUSES_MAX} clauses, or more than {ALTERNATIVES_MAX} alternatives")]
    ConditionTooLong,
    /// Too many changes.
    #[error("the update has more than {CHANGES_MAX} changes")]
    UpdateTooLong,
    /// A list of alternatives without any.
    #[error("attribute {0} is compared with no value")]
    NoAlternative(Shown),
    /// A change of the key, or another key in the item than that of the write.
    #[error("attribute {0} is part of the key, and cannot change")]
    KeyChanged(Shown),
    /// Two changes of one attribute, or an item with another value than its version.
    #[error("attribute {0} changes twice")]
    AttributeTwice(Shown),
    /// A delete of an item with a version.
    #[error("a delete forgets the version: mark the item as deleted with an update")]
    VersionForgotten,
    /// A name that DynamoDB refuses.
    #[error("the name of an attribute is empty or too long")]
    Name,
    /// A name that only hookonce may use.
    #[error(
        "the name of an attribute begins with `{RESERVED_PREFIX}`: only hookonce may use such a name, choose another"
    )]
    Reserved,
    /// A value that DynamoDB refuses.
    #[error("attribute {0} {1}")]
    Value(Shown, ValueFault),
    /// A condition that did not hold. No check of a plan finds it, only the commit.
    #[error("its condition does not hold")]
    ConditionFailed,
}

/// The name of an attribute, as an error shows it: how it begins, and its length. A handler may have made it of what a
/// provider sent, such as an address or a token, and errors reach logs. The write's place in the plan says the rest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown(String);

impl From<&str> for Shown {
    fn from(name: &str) -> Self {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        Self(match name.get(..SHOWN_BYTES_MAX) {
            _ if !plain => format!("(not shown, {} bytes)", name.len()),
            Some(beginning) if name.len() > SHOWN_BYTES_MAX => format!("`{beginning}...` ({} bytes)", name.len()),
            Some(_) | None => format!("`{name}`"),
        })
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Plan {
    /// Checks the writes and checks: what the handler may change, and the store's limits. Whether its effects are
    /// allowed also depends on the route and the destinations: `hookonce drill` checks them, too.
    ///
    /// # Errors
    /// [`PlanError`] names the first thing that is wrong.
    pub fn check(&self, tenant: &Tenant, scope: &Scope) -> Result<(), PlanError> {
        self.check_with(&[], tenant, scope)
    }

    /// Checks the plan and its effects together.
    ///
    /// # Errors
    /// [`PlanError`] names the first thing that is wrong.
    pub(crate) fn check_with(&self, effects: &[EffectDraft], tenant: &Tenant, scope: &Scope) -> Result<(), PlanError> {
        if self.writes.len() + self.checks.len() + effects.len() > PLAN_WRITES_MAX {
            return Err(PlanError::TooManyWrites);
        }
        if self.memory_bytes() > PLAN_MEMORY_MAX {
            return Err(PlanError::TooManyValues);
        }
        let (mut seen, mut bytes) = (BTreeSet::new(), check_effects(effects, scope)?);
        for (index, write) in self.writes.iter().enumerate() {
            let item = write.item();
            let unguarded = write.condition.0.is_empty() && !write.blind && scope.shown.contains(&item);
            let checked = check_item(&item, tenant, scope, &mut seen)
                .and(if unguarded { Err(PlanFault::Unguarded) } else { Ok(()) })
                .and(check_version(write))
                .and_then(|()| check_condition(&write.condition))
                .and_then(|()| check_action(&write.key, &write.action));
            checked.map_err(|fault| PlanError::Write { index, table: write.table, fault })?;
            bytes = bytes.saturating_add(action_bytes(&write.key, &write.action) + condition_bytes(&write.condition));
        }
        for (index, check) in self.checks.iter().enumerate() {
            let checked = check_item(&check.item(), tenant, scope, &mut seen)
                .and(if check.condition.0.is_empty() { Err(PlanFault::NoCondition) } else { Ok(()) })
                .and_then(|()| check_condition(&check.condition));
            checked.map_err(|fault| PlanError::Check { index, table: check.table, fault })?;
            bytes = bytes.saturating_add(check.key.size_bytes() + condition_bytes(&check.condition));
        }
        if bytes > PLAN_BYTES_MAX { Err(PlanError::TooLarge) } else { Ok(()) }
    }

    /// The first write or check whose condition does not hold for what is stored now, as the commit would find it.
    pub fn unmet(&self, stored: &Snapshot) -> Option<PlanError> {
        let fails = |condition: &Condition, item: &ItemRef| !condition.holds(stored.item(item));
        let fault = PlanFault::ConditionFailed;
        let mut writes = self.writes.iter().enumerate();
        if let Some((index, write)) = writes.find(|(_, write)| fails(&write.condition, &write.item())) {
            return Some(PlanError::Write { index, table: write.table, fault });
        }
        let mut checks = self.checks.iter().enumerate();
        let (index, check) = checks.find(|(_, check)| fails(&check.condition, &check.item()))?;
        Some(PlanError::Check { index, table: check.table, fault })
    }

    /// The memory that the values of the writes and checks take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let conditions = self.writes.iter().map(|write| &write.condition);
        let clauses = conditions.chain(self.checks.iter().map(|check| &check.condition)).flat_map(|all| &all.0);
        let compared = clauses.flat_map(Clause::values).map(Value::memory_bytes);
        let written = self.writes.iter().map(|write| match &write.action {
            Action::Put(item) => memory_bytes(item),
            Action::Update(changes) => changes.iter().filter_map(Change::value).map(Value::memory_bytes).sum(),
            Action::Delete | Action::Check => 0,
        });
        written.chain(compared).sum()
    }
}

/// Returns the size of their records.
fn check_effects(effects: &[EffectDraft], scope: &Scope) -> Result<usize, PlanError> {
    let (mut names, mut bytes) = (BTreeSet::new(), 0_usize);
    for (index, effect) in effects.iter().enumerate() {
        check_path(&effect.path).map_err(|fault| PlanError::Effect { index, fault: fault.into() })?;
        let rules = [
            (EffectFault::NameTwice, names.insert(&effect.name)),
            (EffectFault::Destination, scope.destinations.contains(&effect.destination)),
            (EffectFault::TooLarge, effect.body.len() <= EFFECT_BYTES_MAX),
            (EffectFault::ContentTypeTooLong, effect.content_type.len() <= CONTENT_TYPE_BYTES_MAX),
        ];
        if let Some((fault, _)) = rules.into_iter().find(|(_, holds)| !holds) {
            return Err(PlanError::Effect { index, fault });
        }
        bytes += effect.body.len() + effect.path.len() + effect.content_type.len() + EFFECT_HEAD_BYTES_MAX;
    }
    Ok(bytes)
}

fn check_item(item: &ItemRef, tenant: &Tenant, scope: &Scope, seen: &mut BTreeSet<ItemRef>) -> Result<(), PlanFault> {
    item.check(tenant, &scope.tables)?;
    if seen.insert(item.clone()) { Ok(()) } else { Err(PlanFault::ItemTwice) }
}

fn check_version(write: &DomainWrite) -> Result<(), PlanFault> {
    match &write.version_fault {
        None => Ok(()),
        Some(VersionFault::Contradicted(name)) => Err(PlanFault::AttributeTwice(name.as_ref().into())),
        Some(VersionFault::Forgotten) => Err(PlanFault::VersionForgotten),
    }
}

fn check_condition(condition: &Condition) -> Result<(), PlanFault> {
    let alternatives = condition.0.iter().map(|clause| clause.values().len()).sum::<usize>();
    if condition.0.len() > CLAUSES_MAX || alternatives > ALTERNATIVES_MAX {
        return Err(PlanFault::ConditionTooLong);
    }
    for clause in &condition.0 {
        check_name(clause.attribute())?;
        if matches!(clause, Clause::OneOf(_, values) if values.is_empty()) {
            return Err(PlanFault::NoAlternative(clause.attribute().into()));
        }
        for value in clause.values() {
            check_value(clause.attribute(), value)?;
        }
    }
    Ok(())
}

fn check_action(key: &Key, action: &Action) -> Result<(), PlanFault> {
    match action {
        Action::Put(item) => {
            let stored = key.stored();
            for (name, value) in item {
                check_name(name)?;
                check_value(name, value)?;
                if stored.get(name).is_some_and(|part| part != value) {
                    return Err(PlanFault::KeyChanged(name.as_str().into()));
                }
            }
        }
        Action::Update(changes) => check_changes(key, changes)?,
        Action::Delete | Action::Check => {}
    }
    if action_bytes(key, action) > ITEM_BYTES_MAX { Err(PlanFault::ItemTooLarge) } else { Ok(()) }
}

fn check_changes(key: &Key, changes: &[Change]) -> Result<(), PlanFault> {
    if changes.is_empty() {
        return Err(PlanFault::NoChange);
    }
    if changes.len() > CHANGES_MAX {
        return Err(PlanFault::UpdateTooLong);
    }
    let mut changed = BTreeSet::new();
    for change in changes {
        let name = change.attribute();
        check_name(name)?;
        if key.has(name) {
            return Err(PlanFault::KeyChanged(name.into()));
        }
        if !changed.insert(name) {
            return Err(PlanFault::AttributeTwice(name.into()));
        }
        if let Some(value) = change.value() {
            check_value(name, value)?;
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), PlanFault> {
    if name.starts_with(RESERVED_PREFIX) {
        return Err(PlanFault::Reserved);
    }
    if is_attribute_name(name) { Ok(()) } else { Err(PlanFault::Name) }
}

fn check_value(name: &str, value: &Value) -> Result<(), PlanFault> {
    value.fault().map_or(Ok(()), |fault| Err(PlanFault::Value(name.into(), fault)))
}

/// The size of the item that a put leaves, and the least size of the one that an update leaves, in bytes.
fn action_bytes(key: &Key, action: &Action) -> usize {
    let content: usize = match action {
        Action::Put(item) => {
            let others = item.iter().filter(|(name, _)| !key.has(name));
            others.map(|(name, value)| name.len() + value.size_bytes()).sum()
        }
        Action::Update(changes) => changes
            .iter()
            .map(|change| match change {
                Change::Set(name, value) => name.len() + value.size_bytes(),
                Change::Remove(_) => 0,
                Change::Add(name, _) => name.len() + 20,
            })
            .sum(),
        Action::Delete | Action::Check => 0,
    };
    key.size_bytes() + content
}

fn condition_bytes(condition: &Condition) -> usize {
    let clause =
        |clause: &Clause| clause.attribute().len() + clause.values().iter().map(Value::size_bytes).sum::<usize>();
    condition.0.iter().map(clause).sum()
}
