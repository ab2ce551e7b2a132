//! What each endpoint answered in the last 24 hours. A stack that runs on this machine counts, and keeps its counts in a
//! file, where `endpoint list` finds them. Of a stack on AWS, `logs` asks.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::Refusal;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::stack::target::{DataFolder, write};

/// How long one count covers.
pub(crate) const CELL: Millis = Millis::minutes(10);

/// How many counts are kept of an endpoint: those of 24 hours.
pub(crate) const CELLS: i64 = 144;

/// The most endpoints that are counted. Only those that exist are.
const ENDPOINTS_MAX: usize = 1_000;

/// From how many refusals in a row on somebody should look: one may be a stranger, or a person who tries something.
const REFUSED_IN_A_ROW_MIN: u64 = 3;

/// What was answered within ten minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// How many tens of minutes since the epoch.
    at: i64,
    pub(crate) accepted: u64,
    pub(crate) duplicates: u64,
    pub(crate) refused: u64,
    /// How many of the accepted ones an older secret verified.
    #[serde(default)]
    older_secret: u64,
}

/// What an endpoint answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndpointTraffic {
    cells: VecDeque<Cell>,
    pub(crate) last_accepted: Option<EpochMs>,
    /// The latest duplicate, if the stack itself counts.
    #[serde(default)]
    last_duplicate: Option<EpochMs>,
    /// When an older secret verified an accepted delivery.
    #[serde(default)]
    pub(crate) last_older_secret: Option<EpochMs>,
    /// The latest refusal, and its code.
    pub(crate) last_refusal: Option<(EpochMs, String)>,
    /// How many were refused since a delivery was taken, if the stack itself counts.
    #[serde(default)]
    refused_in_a_row: u64,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    Accepted {
        /// Whether an older secret than the newest verified it.
        by_older_secret: bool,
    },
    Duplicate,
    /// Refused, with this code.
    Refused(&'a str),
}

/// What an endpoint answered within an hour, as a log tells: all of it in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) accepted: u64,
    /// How many of them an older secret verified.
    pub(crate) older_secret: u64,
    pub(crate) duplicates: u64,
    /// How many were refused, and with which code.
    pub(crate) refused: Option<(u64, String)>,
    pub(crate) last_accepted: Option<EpochMs>,
    pub(crate) last_older_secret: Option<EpochMs>,
    /// The latest answer of all.
    pub(crate) last: EpochMs,
}

impl EndpointTraffic {
    /// Adds what a log tells of the 24 hours before now, in any order. An hour counts as the ten minutes of its end.
    pub(crate) fn add(&mut self, logged: Logged) {
        let at = logged.last.0.div_euclid(CELL.0);
        let place = self.cells.partition_point(|cell| cell.at < at);
        if self.cells.get(place).is_none_or(|cell| cell.at != at) {
            self.cells.insert(place, Cell { at, ..Cell::default() });
        }
        if let Some(cell) = self.cells.get_mut(place) {
            cell.accepted = cell.accepted.saturating_add(logged.accepted);
            cell.older_secret = cell.older_secret.saturating_add(logged.older_secret);
            cell.duplicates = cell.duplicates.saturating_add(logged.duplicates);
            cell.refused = cell.refused.saturating_add(logged.refused.as_ref().map_or(0, |(count, _)| *count));
        }
        self.last_accepted = self.last_accepted.max(logged.last_accepted);
        self.last_older_secret = self.last_older_secret.max(logged.last_older_secret);
        let refusal = logged.refused.map(|(_, code)| (logged.last, code));
        if refusal.as_ref().map(|(at, _)| at) > self.last_refusal.as_ref().map(|(at, _)| at) {
            self.last_refusal = refusal;
        }
    }

    /// When the latest delivery was taken: accepted, or a duplicate.
    pub(crate) fn last_taken(&self) -> Option<EpochMs> {
        self.last_accepted.max(self.last_duplicate)
    }

    fn count(&mut self, answer: Answer<'_>, at: EpochMs) {
        let slot = at.0.div_euclid(CELL.0);
        if self.cells.back().is_none_or(|cell| cell.at < slot) {
            self.cells.push_back(Cell { at: slot, ..Cell::default() });
        }
        while self.cells.front().is_some_and(|cell| cell.at <= slot - CELLS) {
            self.cells.pop_front();
        }
        let Some(cell) = self.cells.back_mut() else { return };
        match answer {
            Answer::Accepted { by_older_secret } => {
                cell.accepted = cell.accepted.saturating_add(1);
                self.last_accepted = Some(at);
                if by_older_secret {
                    cell.older_secret = cell.older_secret.saturating_add(1);
                    self.last_older_secret = Some(at);
                }
                self.refused_in_a_row = 0;
            }
            Answer::Duplicate => {
                cell.duplicates = cell.duplicates.saturating_add(1);
                self.last_duplicate = Some(at);
                self.refused_in_a_row = 0;
            }
            Answer::Refused(code) => {
                cell.refused = cell.refused.saturating_add(1);
                // Who opens the address in a browser delivers nothing.
                let delivers = code != Refusal::MethodNotAllowed.code();
                self.refused_in_a_row = self.refused_in_a_row.saturating_add(u64::from(delivers));
                self.last_refusal = Some((at, code.to_owned()));
            }
        }
    }

    /// The cells of the 24 hours before a moment, oldest first, without gaps.
    pub(crate) fn cells(&self, now: EpochMs) -> Vec<Cell> {
        let last = now.0.div_euclid(CELL.0);
        let known: BTreeMap<_, _> = self.cells.iter().map(|cell| (cell.at, *cell)).collect();
        let cell = |at| known.get(&at).copied().unwrap_or(Cell { at, ..Cell::default() });
        (last - CELLS + 1..=last).map(cell).collect()
    }

    /// The same by hours, for counts that are no finer.
    pub(crate) fn hours(&self, now: EpochMs) -> Vec<Cell> {
        let hour = |cells: &[Cell]| {
            cells.iter().skip(1).fold(cells.first().copied().unwrap_or_default(), |hour, cell| Cell {
                at: hour.at,
                accepted: hour.accepted.saturating_add(cell.accepted),
                duplicates: hour.duplicates.saturating_add(cell.duplicates),
                refused: hour.refused.saturating_add(cell.refused),
                older_secret: hour.older_secret.saturating_add(cell.older_secret),
            })
        };
        self.cells(now).chunks(6).map(hour).collect()
    }

    /// How many were accepted in the 24 hours before a moment, and how many refused. A duplicate is neither.
    pub(crate) fn totals(&self, now: EpochMs) -> (u64, u64) {
        self.cells(now).iter().fold((0, 0), |(accepted, refused), cell| {
            (accepted.saturating_add(cell.accepted), refused.saturating_add(cell.refused))
        })
    }

    /// How many of those that were accepted in the 24 hours before a moment an older secret verified.
    pub(crate) fn by_older_secret(&self, now: EpochMs) -> u64 {
        self.cells(now).iter().map(|cell| cell.older_secret).fold(0, u64::saturating_add)
    }
}

impl DataFolder {
    fn traffic(&self) -> PathBuf {
        self.data.join("traffic.json")
    }
}

/// What all endpoints answered.
#[derive(Debug)]
pub(crate) struct Traffic {
    folder: DataFolder,
    endpoints: Mutex<BTreeMap<String, EndpointTraffic>>,
}

impl Traffic {
    /// What the file of a folder holds, or nothing.
    pub(crate) fn of(folder: &DataFolder) -> Self {
        let text = std::fs::read(folder.traffic()).unwrap_or_default();
        // A file that cannot be read, or that is not its own, counts for nothing.
        let endpoints = serde_json::from_slice(&text).unwrap_or_default();
        Self { folder: folder.clone(), endpoints: Mutex::new(endpoints) }
    }

    /// Counts an answer of an endpoint that exists.
    pub(crate) fn count(&self, endpoint: &str, answer: Answer<'_>, at: EpochMs) {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if !endpoints.contains_key(endpoint) && endpoints.len() >= ENDPOINTS_MAX {
            let last = |(_, known): &(&String, &EndpointTraffic)| known.cells.back().map(|cell| cell.at);
            let oldest = endpoints.iter().min_by_key(last).map(|(id, _)| id.clone());
            oldest.and_then(|id| endpoints.remove(&id));
        }
        endpoints.entry(endpoint.to_owned()).or_default().count(answer, at);
    }

    /// What an endpoint answered.
    pub(crate) fn endpoint(&self, endpoint: &str) -> EndpointTraffic {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.get(endpoint).cloned().unwrap_or_default()
    }

    /// The endpoints that refused their latest deliveries, at least [`REFUSED_IN_A_ROW_MIN`] of them and one within 24 hours: each
    /// with how many, and the latest code.
    pub(crate) fn refusing(&self, now: EpochMs) -> Vec<(String, u64, String)> {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let refusing = endpoints.iter().filter_map(|(id, known)| {
            let (_, code) = known.last_refusal.as_ref().filter(|_| known.totals(now).1 > 0)?;
            let refused = known.refused_in_a_row;
            (refused >= REFUSED_IN_A_ROW_MIN).then(|| (id.clone(), refused, code.clone()))
        });
        refusing.collect()
    }

    /// Writes the counts to the file.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the folder cannot be written.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Plain data always serialises.
        write(&self.folder.traffic(), &serde_json::to_string(&endpoints).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = CELL.0 * CELLS;

    const ACCEPTED: Answer<'static> = Answer::Accepted { by_older_secret: false };

    #[test]
    fn the_last_24_hours_count_and_nothing_older() {
        let mut endpoint = EndpointTraffic::default();
        for (answer, at) in [(ACCEPTED, 0), (Answer::Refused("signature_mismatch"), 1), (Answer::Duplicate, 2)] {
            endpoint.count(answer, EpochMs(at));
        }
        assert_eq!(endpoint.totals(EpochMs(CELL.0)), (1, 1));
        assert_eq!(endpoint.totals(EpochMs(DAY)), (0, 0), "a day later");
        assert_eq!((endpoint.last_accepted, endpoint.last_taken()), (Some(EpochMs(0)), Some(EpochMs(2))));
        endpoint.count(ACCEPTED, EpochMs(DAY));
        assert_eq!((endpoint.cells.len(), endpoint.totals(EpochMs(DAY))), (1, (1, 0)));
        assert_eq!(endpoint.last_refusal, Some((EpochMs(1), "signature_mismatch".to_owned())));
        let cells = endpoint.cells(EpochMs(DAY));
        assert_eq!((cells.len(), cells.last().unwrap().accepted), (144, 1), "without gaps");
    }

    #[test]
    fn an_older_secret_counts_until_a_day_has_passed() {
        let mut endpoint = EndpointTraffic::default();
        endpoint.count(Answer::Accepted { by_older_secret: true }, EpochMs(1));
        endpoint.count(ACCEPTED, EpochMs(2));
        assert_eq!((endpoint.by_older_secret(EpochMs(3)), endpoint.totals(EpochMs(3))), (1, (2, 0)));
        assert_eq!((endpoint.by_older_secret(EpochMs(DAY)), endpoint.last_older_secret), (0, Some(EpochMs(1))));
    }

    /// What was refused before a delivery was taken is over.
    #[test]
    fn three_refusals_in_a_row_count_until_a_delivery_is_taken_or_a_day_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let traffic = Traffic::of(&DataFolder { data: folder.path().to_owned() });
        let refuse = |times| (0..times).for_each(|_| traffic.count("stripe", Answer::Refused("no_secret"), EpochMs(1)));
        let found = |at| traffic.refusing(EpochMs(at)).into_iter().map(|(_, count, _)| count).collect::<Vec<_>>();
        for taken in [ACCEPTED, Answer::Duplicate] {
            refuse(2);
            assert_eq!(found(1), [0; 0]);
            refuse(38);
            assert_eq!((found(1), found(DAY)), (vec![40], vec![]));
            traffic.count("stripe", taken, EpochMs(1));
            refuse(1);
            assert_eq!(found(1), [0; 0], "one since then");
            traffic.count("stripe", taken, EpochMs(1));
        }
    }

    /// A provider delivers by no method that it does not use: a browser does that.
    #[test]
    fn who_opens_an_address_in_a_browser_makes_no_endpoint_refuse_in_a_row() {
        let mut endpoint = EndpointTraffic::default();
        for _ in 0..9 {
            endpoint.count(Answer::Refused("method_not_allowed"), EpochMs(1));
        }
        assert_eq!((endpoint.refused_in_a_row, endpoint.totals(EpochMs(1))), (0, (0, 9)));
    }

    #[test]
    fn counts_outlive_the_stack() {
        let folder = tempfile::tempdir().unwrap();
        let folder = DataFolder { data: folder.path().to_owned() };
        let traffic = Traffic::of(&folder);
        traffic.count("stripe", ACCEPTED, EpochMs(5));
        traffic.save().unwrap();
        assert_eq!(Traffic::of(&folder).endpoint("stripe").totals(EpochMs(5)), (1, 0));
        assert_eq!(Traffic::of(&folder).endpoint("github"), EndpointTraffic::default());
    }
}
