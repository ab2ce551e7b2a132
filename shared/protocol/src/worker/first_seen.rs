//! Notes which record a body first came with.
//!
//! If a provider does not sign its ids, anyone with one signed body can send it again under a new id. If the handler's
//! domain key comes from the body, the copy has no effect. It is counted in any case. The worker counts after the
//! record is settled, because a provider must not wait for that. Nothing depends on the count.

use crate::item::{Item, Value};
use crate::key::{RECORD, first_seen_item};
use crate::plan::Snapshot;
use crate::purpose::Purpose;
use crate::record::{Record, attribute};
use crate::timing::{Moment, Timing};
use crate::write::{Action, Condition, Table, Write};

/// Notes that the body came with this record, unless it came with another one before.
pub fn note(record: &Record, timing: &Timing, moment: Moment) -> Write {
    let (endpoint, _) = record.key.parts();
    let item = Item::from([
        (RECORD.to_owned(), Value::from(record.key.as_str())),
        (attribute::EXPIRES_AT.to_owned(), Value::from(timing.expiry(record.key.kind(), moment.now).0)),
    ]);
    Write {
        purpose: Purpose::NoteBody,
        table: Table::Domain,
        key: first_seen_item(endpoint, &record.body_sha256).into(),
        action: Action::Put(item),
        condition: Condition::item_absent(),
    }
}

/// Whether an existing note is for another record.
pub fn is_of_another(note: &Write, known: &Snapshot) -> bool {
    let Action::Put(mine) = &note.action else { return false };
    known.item(note.key.clone()).is_some_and(|known| known.get(RECORD) != mine.get(RECORD))
}
