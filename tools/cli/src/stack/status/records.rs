//! How many records wait or died, and since when.

use std::collections::BTreeMap;

use futures::{FutureExt as _, StreamExt as _};
use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::call::{DueEntry, DueQuery, DueState};
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::SHARDS;
use hookonce_runtime::port::Store as _;

use crate::failure::Failure;
use crate::records::{READS_AT_ONCE, error_of, states};
use crate::stack::target::store_unavailable;
use crate::stack::watch::Looking;

/// How many entries of a shard one read returns at most.
const ENTRIES_MAX: usize = 1_000;

/// How many of the latest dead records are looked at, to say what most of them died of, and of the latest effects: as
/// many as one call reads. Of a shard with more than [`ENTRIES_MAX`], the latest that were read are not the latest.
const LOOKED_AT: usize = 100;

/// The states that are counted. All together make at most [`READS_AT_ONCE`] calls at once.
const STATES: usize = 4;

/// The records of a state that are due or dead.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) count: u64,
    /// Whether there are more than were counted.
    pub(crate) at_least: bool,
    /// How many of those that were looked at are effects.
    pub(crate) effects: u64,
    /// Whether not all were looked at.
    pub(crate) effects_at_least: bool,
    /// Since when the oldest of them is.
    pub(crate) oldest: Option<EpochMs>,
    /// The latest of those that were read, which are looked at.
    latest: Vec<DueEntry>,
}

impl Due {
    /// The count, unless there are more.
    pub(crate) fn known(&self) -> Option<u64> {
        (!self.at_least).then_some(self.count)
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.at_least |= other.at_least;
        self.effects += other.effects;
        self.effects_at_least |= other.effects_at_least;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        self.latest.extend(other.latest.iter().cloned());
        self.latest.sort_by(|one, other| (other.due_at, &other.key).cmp(&(one.due_at, &one.key)));
        self.latest.truncate(LOOKED_AT);
    }
}

/// What most of the dead records died of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopError {
    /// How many of those that were looked at.
    pub(crate) count: usize,
    /// How many were looked at.
    pub(crate) of: usize,
    /// Their error, endpoint and type.
    pub(crate) error: String,
    pub(crate) endpoint: String,
    pub(crate) event_type: String,
}

/// Effects that were tried and wait for one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreached {
    /// The destination.
    pub(crate) destination: String,
    /// How many of those that were looked at.
    pub(crate) count: u64,
    /// Whether not all were looked at.
    pub(crate) at_least: bool,
    /// When the oldest was committed.
    pub(crate) since: EpochMs,
    /// The last error of the oldest.
    pub(crate) error: String,
}

/// What the index says.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) pending: Result<Due, Failure>,
    pub(crate) waiting: Result<Due, Failure>,
    /// Effects that wait for a call.
    pub(crate) effects: Result<Due, Failure>,
    pub(crate) dead: Result<Due, Failure>,
    /// `None` if none died.
    pub(crate) top_error: Result<Option<TopError>, Failure>,
    /// What the latest of those effects wait for, the destination that waits longest first.
    pub(crate) unreached: Result<Vec<Unreached>, Failure>,
}

impl Records {
    /// Reads them.
    pub(crate) async fn read(store: Result<DynamoStore, Failure>, looking: Looking) -> Self {
        let store = match store {
            Ok(store) => store,
            Err(failure) => {
                let due = || Err(failure.clone());
                let (top_error, unreached) = (Err(failure.clone()), Err(failure.clone()));
                return Self { pending: due(), waiting: due(), effects: due(), dead: due(), top_error, unreached };
            }
        };
        let due = |state| due(&store, state, looking);
        let (pending, waiting, effects, dead) =
            futures::join!(due(DueState::Pending), due(DueState::Waiting), due(DueState::Effect), due(DueState::Dead));
        let top_error = top_error(&heads(&store, dead.as_ref().ok()).await);
        let is_part =
            effects.as_ref().is_ok_and(|effects| usize::try_from(effects.count).unwrap_or(usize::MAX) > LOOKED_AT);
        let unreached = unreached(&heads(&store, effects.as_ref().ok()).await, is_part);
        Self { pending, waiting, effects, dead, top_error, unreached }
    }
}

/// The latest of these records, as far as they still are in their state.
async fn heads(store: &DynamoStore, due: Option<&Due>) -> Result<Vec<Record>, Failure> {
    let keys: Vec<_> = due.into_iter().flat_map(|due| &due.latest).map(|entry| entry.key.clone()).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Ok(states(store, keys).await?.into_iter().filter_map(|(_, record)| record).collect())
}

/// What most of some dead records died of.
fn top_error(found: &Result<Vec<Record>, Failure>) -> Result<Option<TopError>, Failure> {
    let dead: Vec<_> = found.as_ref().map_err(Clone::clone)?.iter().filter(|it| it.status == Status::Dead).collect();
    let mut counts = BTreeMap::new();
    for record in &dead {
        let cause = (error_of(record).unwrap_or_default(), record.key.parts().0, record.event_type.as_str());
        *counts.entry(cause).or_insert(0) += 1;
    }
    let top = counts.into_iter().max_by_key(|(_, count)| *count);
    Ok(top.map(|((error, endpoint, event_type), count)| TopError {
        count,
        of: dead.len(),
        error: error.to_owned(),
        endpoint: endpoint.to_owned(),
        event_type: event_type.to_owned(),
    }))
}

/// Which destinations some pending effects wait for that were tried.
fn unreached(found: &Result<Vec<Record>, Failure>, at_least: bool) -> Result<Vec<Unreached>, Failure> {
    let mut by_destination: BTreeMap<String, Unreached> = BTreeMap::new();
    let pending = found.as_ref().map_err(Clone::clone)?.iter().filter(|record| record.status == Status::Pending);
    for record in pending {
        let (Some(part), Some(error)) = (&record.effect, &record.last_error) else { continue };
        let destination = part.destination.to_string();
        let (since, error) = (record.received_at, error.clone());
        let entry = by_destination.entry(destination.clone());
        let known = entry.or_insert_with(|| Unreached { destination, count: 0, at_least, since, error: error.clone() });
        known.count += 1;
        if since < known.since {
            (known.since, known.error) = (since, error);
        }
    }
    let mut unreached: Vec<_> = by_destination.into_values().collect();
    unreached.sort_by_key(|it| it.since);
    Ok(unreached)
}

/// How many records are dead, in one look.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn dead(store: &DynamoStore) -> Result<Due, Failure> {
    due(store, DueState::Dead, Looking::Once).await
}

/// How many records of a state there are, and since when the oldest of them is due or dead.
async fn due(store: &DynamoStore, state: DueState, looking: Looking) -> Result<Due, Failure> {
    let of_shard = |shard| {
        async move {
            let query = DueQuery { state, shard, until: EpochMs(i64::MAX), after: None, limit: ENTRIES_MAX };
            let page = store.query_due(&query).await.map_err(|_| store_unavailable())?;
            let effects = page.entries.iter().filter(|entry| entry.key.kind() == RecordKind::Effect).count();
            let mut due = Due {
                count: u64::try_from(page.entries.len()).unwrap_or(0),
                at_least: page.next.is_some(),
                effects: u64::try_from(effects).unwrap_or(0),
                effects_at_least: page.next.is_some(),
                oldest: page.entries.first().map(|entry| entry.due_at),
                latest: page.entries.into_iter().rev().take(LOOKED_AT).collect(),
            };
            if due.at_least && looking == Looking::Whole {
                let all = IndexQuery::due(query.partition());
                due.count = store.index_count(&all).await.map_err(|_| store_unavailable())?;
                due.at_least = false;
            }
            Ok::<_, Failure>(due)
        }
        .boxed()
    };
    let mut sum = Due::default();
    let reads: Vec<_> = (0..SHARDS).map(of_shard).collect();
    let mut reads = futures::stream::iter(reads).buffer_unordered(READS_AT_ONCE / STATES);
    while let Some(read) = reads.next().await {
        sum.add(&read?);
    }
    Ok(sum)
}
