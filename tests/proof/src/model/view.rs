//! What the model needs to know of an interned value, read from it once.

use std::collections::BTreeMap;

use hookonce_protocol::call::DueState;
use hookonce_protocol::invariant;
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::{AppliedFact, RecordKey};
use hookonce_protocol::record::{EFFECT_LIST, Outcome, PENDING_LIST, Record, Status, WAITING_LIST, attribute};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::trail::{TRAIL_PREFIX, Trail, trail_item};
use hookonce_protocol::write::{Action, Change, Write};

use super::effect::pass_bit;
use super::state::{FACTS, SLOTS};

/// The lists that the relay sends from.
const LISTS: [(&str, DueState); 3] =
    [(PENDING_LIST, DueState::Pending), (WAITING_LIST, DueState::Waiting), (EFFECT_LIST, DueState::Effect)];

/// An item of the inbox table.
#[derive(Debug, Clone)]
pub(crate) struct ItemView {
    /// As a record; `None` for what is no record.
    pub(crate) record: Option<Record>,
    /// The protocol's own invariant does not hold.
    pub(crate) invalid: bool,
    /// The list of the index of due records that it is in, unless it is DEAD, and since when it is due there.
    pub(crate) list: Option<DueState>,
    pub(crate) due: Option<i64>,
    /// When the TTL may remove it, in milliseconds.
    pub(crate) expires: Option<i64>,
    /// Who has the pass, as a bit.
    pub(crate) pass: u16,
    /// The effects of its last commit, as bits by place.
    pub(crate) effects: u8,
}

impl ItemView {
    /// Reads an item of one of these records.
    pub(crate) fn of(item: &Item, timing: &Timing, keys: &[RecordKey]) -> Self {
        let record = Record::decode(item).ok();
        let part = record.as_ref().and_then(|record| record.effect.as_ref());
        let names_effects = record.as_ref().filter(|record| !record.effects.is_empty());
        let committed = names_effects.map(Record::effect_keys).unwrap_or_default();
        let place = |key: &RecordKey| keys.iter().position(|known| known == key);
        let shard = item.get(attribute::DUE_SHARD).and_then(Value::as_text);
        let list = LISTS.into_iter().find(|(list, _)| shard.is_some_and(|shard| shard.starts_with(list)));
        let list = list.map(|(_, state)| state);
        let at = item.get(attribute::DUE_AT).and_then(Value::as_i64);
        let seconds = item.get(attribute::EXPIRES_AT).and_then(Value::as_i64);
        Self {
            invalid: shard.is_some() != at.is_some()
                || record.as_ref().is_some_and(|record| !invariant::violations(record, timing).is_empty()),
            list,
            pass: part.and_then(|part| part.pass.as_ref()).map_or(0, |pass| pass_bit(&pass.id)),
            effects: committed.iter().filter_map(place).fold(0, |all, slot| all | 1 << slot),
            due: at.filter(|_| list.is_some()),
            expires: seconds.map(|seconds| seconds.saturating_mul(1_000)),
            record,
        }
    }

    /// Its status.
    pub(crate) fn status(&self) -> Option<Status> {
        self.record.as_ref().map(|record| record.status)
    }

    /// PENDING.
    pub(crate) fn pending(&self) -> bool {
        self.status() == Some(Status::Pending)
    }

    /// Its effect is still owed, or was given up with its payload kept, or by an operator; or no handler wanted it.
    pub(crate) fn accounts(&self) -> bool {
        self.record.as_ref().is_some_and(|record| match record.status {
            Status::Pending | Status::Dead => record.body.is_some(),
            Status::Processed | Status::Discarded => self.given_up(),
        })
    }

    /// An operator discarded it, or no handler wanted it.
    pub(crate) fn given_up(&self) -> bool {
        self.record.as_ref().is_some_and(|record| {
            record.status == Status::Discarded
                || record.status == Status::Processed && record.outcome == Some(Outcome::Ignored)
        })
    }

    /// It claims that its effect stands.
    pub(crate) fn applied(&self) -> bool {
        self.record.as_ref().is_some_and(|record| {
            record.status == Status::Processed
                && matches!(record.outcome, Some(Outcome::Applied | Outcome::Duplicate) | None)
        })
    }
}

/// Attributes that no machine reads, nor any condition except that of the duplicate count. Also the time at which a
/// dead letter was counted: it is always earlier than the send of any message that is not a copy. They are left out of
/// every state, so that states that differ only in them are equal. So are the calls of
/// an effect, which the dispatcher only reads to write them back.
const UNREAD: [&str; 9] = [
    attribute::DEAD_LETTER_AT,
    attribute::LAST_SEEN_AT,
    attribute::LAST_SEEN_BY,
    attribute::PROCESSED_AT,
    attribute::DISCARDED_AT,
    attribute::DUPLICATE_COUNT,
    attribute::DURATION_MS,
    attribute::LAST_ERROR,
    attribute::FAILURES,
];

/// The item without the attributes that nothing reads.
pub(super) fn plain(mut item: Item) -> Item {
    item.remove(attribute::CALLS);
    for (name, value) in &mut item {
        forget(name, value);
    }
    item
}

fn forget(name: &str, value: &mut Value) {
    if UNREAD.contains(&name) {
        *value = match name {
            attribute::LAST_ERROR | attribute::LAST_SEEN_BY => "E".into(),
            attribute::FAILURES => Value::List(Vec::new()),
            _ => 0.into(),
        };
    }
}

/// The write of a plain item, so that it recognises itself in one.
pub(super) fn plain_write(write: &mut Write) {
    match &mut write.action {
        Action::Put(item) => *item = plain(std::mem::take(item)),
        Action::Update(changes) => {
            changes.retain(|change| change.attribute() != attribute::CALLS);
            for change in changes {
                if let Change::Set(name, value) = change {
                    forget(name, value);
                }
            }
        }
        Action::Delete | Action::Check => {}
    }
}

/// The domain table.
pub(super) type Domain = BTreeMap<String, Item>;

/// What the rules need to know of the domain table.
#[derive(Debug, Clone, Default)]
pub(super) struct DomainView {
    /// Effects per fact.
    pub(super) effects: [u8; FACTS],
    /// The earliest expiry of a domain key, in milliseconds.
    pub(super) expires: Option<i64>,
    /// Which generations of which record had their effect, as bits.
    pub(super) owned: [u8; SLOTS],
    /// The acts in each record's trail.
    pub(super) trails: [u8; SLOTS],
}

/// The one item that every plan of the model writes: a count for each fact.
pub(super) const LEDGER: &str = "e#ledger#all";

/// The names of the facts.
pub(super) const FACT_NAMES: [&str; FACTS] = ["a", "b"];

impl DomainView {
    /// Reads the table.
    pub(super) fn of(domain: &Domain, keys: &[RecordKey]) -> Self {
        let count = |fact: &str| {
            let count = domain.get(LEDGER).and_then(|item| item.get(fact)).and_then(Value::as_i64).unwrap_or(0);
            u8::try_from(count).unwrap_or(u8::MAX)
        };
        let expiry = |item: &Item| item.get(attribute::EXPIRES_AT).and_then(Value::as_i64);
        Self {
            effects: FACT_NAMES.map(count),
            expires: domain.values().filter_map(expiry).min().map(|seconds| seconds.saturating_mul(1_000)),
            owned: owned(domain, keys),
            trails: trails(domain, keys),
        }
    }
}

fn trails(domain: &Domain, keys: &[RecordKey]) -> [u8; SLOTS] {
    let count = |key| u8::try_from(Trail::decode(domain.get(&trail_item(key))).count).unwrap_or(u8::MAX);
    std::array::from_fn(|slot| keys.get(slot).map_or(0, count))
}

fn owned(domain: &Domain, keys: &[RecordKey]) -> [u8; SLOTS] {
    let mut owned = [0; SLOTS];
    for applied in domain.values().filter_map(AppliedFact::of) {
        if let Some(slot) = keys.iter().position(|known| known.as_str() == applied.record) {
            owned[slot] |= 1 << applied.generation.min(7);
        }
    }
    owned
}

/// The business fact that a record's body names; none for an envelope.
pub(super) fn fact_of(record: &Record) -> Option<usize> {
    let body = record.body.as_ref()?;
    FACT_NAMES.iter().position(|name| name.as_bytes() == body)
}

/// The domain table without the attributes that nothing reads. Of a trail, only the count is left, and no expiry: so a
/// force is never refused for its reason.
pub(super) fn plain_domain(mut domain: Domain) -> Domain {
    for (key, item) in &mut domain {
        if key.starts_with(TRAIL_PREFIX) {
            item.retain(|name, _| name == "count" || name == PARTITION_KEY);
        }
        item.remove(attribute::BODY_SHA256);
    }
    domain
}
