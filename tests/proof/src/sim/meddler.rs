//! A person whose deed lands in the middle of a function's call: after what it has read, before what it writes.
//!
//! By chance alone that is too rare to be seen in a few thousand days, and every function must take it.

use hookonce_protocol::operator;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Moment;
use hookonce_protocol::write::{Table, Write};

use super::world::Inner;
use crate::label::Role;

/// Does something, now and then, to the record that a write is about to change.
pub fn meddle(inner: &mut Inner, about_to: &Write, now: i64) {
    let chance = if inner.calm { 0 } else { inner.config.meddling };
    if about_to.table != Table::Inbox || chance == 0 || !inner.dice.chance(chance) {
        return;
    }
    let Found::Record(record) = Found::from_item(inner.tables.get(Table::Inbox, &about_to.key)) else { return };
    let (timing, moment) = (inner.config.timing, Moment { now: EpochMs(now), entropy: inner.dice.bits() });
    let deed = match inner.dice.below(4) {
        0 => operator::retry(&record, false, &timing, moment),
        1 => operator::retry(&record, true, &timing, moment),
        2 => operator::force(&record, &timing, moment),
        _ => operator::discard(&record, &timing, moment),
    };
    let Ok(deed) = deed else { return };
    if let Ok(change) = inner.tables.write(&deed, now) {
        inner.judge.intent(Role::Operator, &deed);
        inner.changed(&[change], now);
    }
}
