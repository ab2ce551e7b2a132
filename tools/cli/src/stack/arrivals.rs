//! What arrived last, for whoever looks: the latest deliveries, with the states that their records have by now.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};

use crate::output;
use crate::records::looks::Look;
use crate::records::{error_of, type_of};

/// How many arrivals are kept.
pub(crate) const ARRIVALS_MAX: usize = 50;

/// How many of them may have no record, such as refusals: a stranger may send any number, and hides nothing by it.
const WITHOUT_RECORD_MAX: usize = 10;

/// One delivery or effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When it arrived.
    pub(crate) at: EpochMs,
    /// The endpoint's id.
    pub(crate) endpoint: String,
    /// The type of its event or what the effect is, or empty where nobody knows.
    pub(crate) event_type: String,
    /// Its record. `None` if it was refused.
    pub(crate) key: Option<RecordKey>,
    /// How it stands.
    pub(crate) look: Look,
    /// The code of a refusal or of a failure, or how long it took.
    pub(crate) detail: String,
}

impl Arrival {
    /// What a record tells of its arrival.
    pub(crate) fn of(record: &Record) -> Self {
        let ended = record.processed_at.or(record.dead_at);
        let took = ended.map_or_else(String::new, |at| output::between(record.received_at, at));
        Self {
            at: record.received_at,
            endpoint: record.key.parts().0.to_owned(),
            event_type: type_of(record).into_owned(),
            key: Some(record.key.clone()),
            look: Look::of(record),
            detail: error_of(record).map_or(took, str::to_owned),
        }
    }
}

/// The latest arrivals, in the order of their moments, each with the number of its last change.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    rows: VecDeque<(u64, Arrival)>,
    /// How many changes there were.
    changes: u64,
    /// When the last one was.
    changed_at: Option<EpochMs>,
}

impl Arrivals {
    /// Keeps an arrival. What is known of the same record is replaced, where it stands.
    pub(crate) fn keep(&self, arrival: Arrival) {
        self.keep_unless_changed(arrival, u64::MAX);
    }

    /// When the last change was.
    pub(crate) fn changed_at(&self) -> Option<EpochMs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).changed_at
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).changes
    }

    /// Keeps an arrival that was read after so many changes, unless what is known of its record is newer.
    pub(crate) fn keep_unless_changed(&self, arrival: Arrival, changes: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.rows.iter().position(|(_, row)| row.key.is_some() && row.key == arrival.key);
        if let Some((changed, row)) = known.and_then(|place| kept.rows.get(place)) {
            // A copy that arrives later says nothing new of the record.
            if *row == arrival || arrival.look == Look::DUPLICATE || *changed > changes {
                return;
            }
        }
        // It is older than all that are kept.
        if known.is_none()
            && kept.rows.len() >= ARRIVALS_MAX
            && kept.rows.front().is_some_and(|(_, row)| arrival.at < row.at)
        {
            return;
        }
        kept.changes += 1;
        kept.changed_at = Some(System.moment().now);
        let row = (kept.changes, arrival);
        if let Some(known) = known.and_then(|place| kept.rows.get_mut(place)) {
            *known = row;
        } else {
            // What a stack on AWS is asked for last may have arrived before.
            let place = kept.rows.partition_point(|(_, known)| known.at <= row.1.at);
            kept.rows.insert(place, row);
        }
        let without_record = |(_, row): &(u64, Arrival)| row.key.is_none();
        if kept.rows.iter().filter(|row| without_record(row)).count() > WITHOUT_RECORD_MAX {
            let oldest = kept.rows.iter().position(without_record);
            oldest.and_then(|place| kept.rows.remove(place));
        }
        while kept.rows.len() > ARRIVALS_MAX {
            kept.rows.pop_front();
        }
    }

    /// The effects among them.
    pub(crate) fn effects(&self) -> Vec<RecordKey> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = kept.rows.iter().filter_map(|(_, row)| row.key.clone());
        keys.filter(|key| key.kind() == RecordKind::Effect).collect()
    }

    /// All, in the order of arrival, each with the number of its last change, and the number of the last change of any.
    pub(crate) fn all(&self) -> (Vec<(u64, Arrival)>, u64) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.rows.iter().cloned().collect(), kept.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(key: &str, look: Look) -> Arrival {
        let key = RecordKey::parse(&format!("in#stripe#{key}"));
        Arrival { at: EpochMs(1), endpoint: "stripe".into(), event_type: "x".into(), key, look, detail: String::new() }
    }

    fn rows(arrivals: &Arrivals) -> Vec<Arrival> {
        arrivals.all().0.into_iter().map(|(_, row)| row).collect()
    }

    #[test]
    fn a_record_has_one_row_with_the_number_of_its_last_change() {
        let arrivals = Arrivals::default();
        arrivals.keep(arrival("a", Look::ANSWERED));
        arrivals.keep(arrival("b", Look::ANSWERED));
        let both = |look| vec![arrival("a", look), arrival("b", Look::ANSWERED)];
        arrivals.keep(arrival("a", Look::DUPLICATE));
        assert_eq!((rows(&arrivals), arrivals.changes()), (both(Look::ANSWERED), 2), "a copy changes nothing");
        arrivals.keep(arrival("a", Look::REFUSED));
        let (all, changes) = arrivals.all();
        assert_eq!((rows(&arrivals), changes), (both(Look::REFUSED), 3));
        assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn what_strangers_send_pushes_out_no_record() {
        let arrivals = Arrivals::default();
        arrivals.keep(arrival("a", Look::ANSWERED));
        for at in 0..200 {
            arrivals.keep(Arrival { at: EpochMs(at), key: None, ..arrival("x", Look::REFUSED) });
        }
        let (rows, changes) = (rows(&arrivals), arrivals.changes());
        assert_eq!((rows.len(), changes), (1 + WITHOUT_RECORD_MAX, 201));
        assert_eq!(rows[0], arrival("a", Look::ANSWERED));
        assert_eq!(rows.last().unwrap().at, EpochMs(199), "the latest of them stay");
    }

    #[test]
    fn what_is_found_late_stands_where_it_arrived() {
        let arrivals = Arrivals::default();
        for (key, at) in [("late", 9), ("early", 3), ("later", 12)] {
            arrivals.keep(Arrival { at: EpochMs(at), ..arrival(key, Look::ANSWERED) });
        }
        assert_eq!(rows(&arrivals).iter().map(|row| row.at.0).collect::<Vec<_>>(), [3, 9, 12]);
    }

    #[test]
    fn the_latest_stay() {
        let arrivals = Arrivals::default();
        for number in 0..ARRIVALS_MAX + 5 {
            arrivals.keep(arrival(&number.to_string(), Look::ANSWERED));
        }
        let rows = rows(&arrivals);
        assert_eq!((rows.len(), rows[0].key.clone()), (ARRIVALS_MAX, RecordKey::parse("in#stripe#5")));
        let changes = arrivals.changes();
        arrivals.keep(Arrival { at: EpochMs(0), ..arrival("older", Look::ANSWERED) });
        assert_eq!(arrivals.changes(), changes, "what would not stay changes nothing");
    }
}
