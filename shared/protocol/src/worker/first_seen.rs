//! Which record a body first came with.
//!
//! At a provider that does not sign its ids, whoever holds one signed body can send it again under a fresh one. Where a
//! handler's domain key comes from the body, that has no effect; it is counted in any case. Counting is not worth a call
//! while a provider waits, so the worker does it, after the record is settled, and nothing depends on it.

use super::commit::RECORD;
use crate::item::{Item, Value};
use crate::key::first_seen_item;
use crate::plan::Snapshot;
use crate::purpose::Purpose;
use crate::record::{Record, attribute};
use crate::timing::{Moment, Timing};
use crate::write::{Action, Condition, Table, Write};

/// Notes that the record's body came with this record, unless it came with one before.
pub fn note(record: &Record, timing: &Timing, moment: Moment) -> Write {
    let (endpoint, _) = record.key.parts();
    let item = Item::from([
        (RECORD.to_owned(), Value::from(record.key.as_str())),
        (attribute::EXPIRES_AT.to_owned(), Value::from(timing.expiry(record.key.kind(), moment.now).0)),
    ]);
    Write {
        purpose: Purpose::NoteBody,
        table: Table::Domain,
        key: first_seen_item(endpoint, &record.body_sha256),
        action: Action::Put(item),
        condition: Condition::item_absent(),
    }
}

/// Whether what stood in the way of a note was written for another record.
pub fn is_of_another(note: &Write, known: &Snapshot) -> bool {
    let Action::Put(mine) = &note.action else { return false };
    known.items.get(&note.key).is_some_and(|known| known.get(RECORD) != mine.get(RECORD))
}
