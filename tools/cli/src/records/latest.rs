//! The latest records that pass a filter.

use std::collections::{BTreeMap, VecDeque};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use hookonce_aws::{DynamoStore, IndexCursor, IndexQuery};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::SHARDS;

use super::filter::Filter;
use super::stream::{READS_AT_ONCE, Read, Source, records};
use crate::failure::Failure;
use crate::target::store_unavailable;

/// The most keys of one read of a partition, in bytes about a hundred each.
const KEYS_MAX: usize = 100;

/// The records read so far.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    /// By key.
    pub(crate) records: BTreeMap<RecordKey, Record>,
    /// Number of records that another version wrote.
    pub(crate) unreadable: usize,
    /// Whether some records were not read.
    pub(crate) cut: bool,
    /// How many keys were looked at.
    pub(crate) looked_at: usize,
    /// Since when the journal was searched. `None` if it was not.
    pub(crate) searched_from: Option<EpochMs>,
}

/// How far it is looked for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The most keys that are looked at.
    pub(crate) keys: usize,
    /// The most hours of the journal, each a call for every shard.
    pub(crate) hours: usize,
}

impl Reach {
    /// As far as the filter goes.
    pub(crate) const ALL: Self = Self { keys: usize::MAX, hours: usize::MAX };
}

/// Reads records that pass the filter, the latest ones first, until there are `limit` or the reach ends. The keys of all partitions are put in order before any record is read. Each step goes back as many hours as all
/// before it together, because a quiet stack has hours in which nothing came.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn latest(
    store: &DynamoStore,
    filter: &Filter,
    limit: usize,
    reach: Reach,
) -> Result<Latest, Failure> {
    let mut latest = Latest::default();
    let mut groups = filter.queries().into_iter();
    let (mut read_groups, mut next) = (0, 1);
    loop {
        let step: Vec<_> = groups.by_ref().take(next.min(reach.hours.saturating_sub(read_groups))).flatten().collect();
        if step.is_empty() {
            latest.cut = latest.cut || groups.len() > 0;
            return Ok(latest);
        }
        read_groups += next;
        next = read_groups;
        let journaled = |query: &IndexQuery| match query {
            IndexQuery::Journal { from, .. } => Some(*from),
            IndexQuery::Due { .. } => None,
        };
        let begin = step.iter().filter_map(journaled).min();
        latest.searched_from = begin.or(latest.searched_from);
        // The other indexes may list records that are older than some that the journal still has to show.
        let is_certain = |record: &&Record| begin.is_none_or(|begin| record.received_at >= begin);
        let mut merged = Merged::of(step, limit);
        loop {
            let certain = latest.records.values().filter(is_certain).count();
            let (missing, left) = (limit.saturating_sub(certain), reach.keys.saturating_sub(latest.looked_at));
            if missing == 0 || left == 0 {
                latest.cut = latest.cut || !merged.is_over() || groups.len() > 0;
                return Ok(latest);
            }
            // Where most pass, no record is read in vain. Where few do, each read is as large as it may be.
            let wanted = if latest.looked_at == 0 { missing.min(KEYS_MAX) } else { KEYS_MAX };
            let entries = merged.take(store, wanted.min(left)).await?;
            if entries.is_empty() {
                break;
            }
            latest.looked_at += entries.len();
            for source in [Source::Due, Source::Journal] {
                let of_source = entries.iter().filter(|(key, _, of)| *of == source && source.is_wanted(key, filter));
                let keys: Vec<_> = of_source.map(|(key, ..)| key.clone()).collect();
                if keys.is_empty() {
                    continue;
                }
                let page = records(store, source, keys, entries.len(), filter, Read::Heads).await?;
                latest.unreadable += page.unreadable;
                latest.records.extend(page.records.into_iter().map(|record| (record.key.clone(), record)));
            }
        }
    }
}

/// Partitions of the indexes, read side by side as one list, latest first.
#[derive(Debug)]
struct Merged {
    partitions: Vec<Partition>,
}

/// What has been read of a partition and not been taken, and where its next page begins.
#[derive(Debug)]
struct Partition {
    query: IndexQuery,
    entries: VecDeque<(RecordKey, EpochMs)>,
    next: Next,
    /// How many keys its next read is for: more from the second one on, because then few of them pass.
    keys: usize,
}

/// Where the next page of a partition begins.
#[derive(Debug, Clone)]
enum Next {
    Start,
    At(IndexCursor),
    Over,
}

impl Merged {
    /// The list of these partitions, of which about so many entries are taken.
    fn of(queries: Vec<IndexQuery>, wanted: usize) -> Self {
        let keys = (wanted / usize::from(SHARDS) * 2 + 5).min(KEYS_MAX);
        let partition = |query| Partition { query, entries: VecDeque::new(), next: Next::Start, keys };
        Self { partitions: queries.into_iter().map(partition).collect() }
    }

    /// Whether everything has been taken, as far as is known.
    fn is_over(&self) -> bool {
        self.partitions.iter().all(|partition| partition.entries.is_empty() && matches!(partition.next, Next::Over))
    }

    /// Takes the next entries, each with its source. Fewer only at the end.
    async fn take(&mut self, store: &DynamoStore, count: usize) -> Result<Vec<(RecordKey, EpochMs, Source)>, Failure> {
        let mut taken = Vec::new();
        while taken.len() < count {
            // The latest entry is known once each partition shows its next one.
            if self.partitions.iter().any(Partition::is_unread) {
                let unread = self.partitions.iter_mut().filter(|partition| partition.is_unread());
                let reads: Vec<_> = unread.map(|partition| partition.read(store).boxed()).collect();
                let () = futures::stream::iter(reads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
            }
            let moment = |partition: &&mut Partition| partition.entries.front().map(|(_, at)| *at);
            let Some(partition) = self.partitions.iter_mut().max_by_key(moment) else { break };
            let Some((key, at)) = partition.entries.pop_front() else { break };
            taken.push((key, at, Source::of(&partition.query)));
        }
        Ok(taken)
    }
}

impl Partition {
    fn is_unread(&self) -> bool {
        self.entries.is_empty() && !matches!(self.next, Next::Over)
    }

    async fn read(&mut self, store: &DynamoStore) -> Result<(), Failure> {
        let from = match std::mem::replace(&mut self.next, Next::Over) {
            Next::Start => None,
            Next::At(cursor) => Some(cursor),
            Next::Over => return Ok(()),
        };
        let page = store.index_page(&self.query, from, self.keys).await.map_err(|_| store_unavailable())?;
        self.keys = KEYS_MAX;
        self.entries.extend(page.entries);
        self.next = page.next.map_or(Next::Over, Next::At);
        Ok(())
    }
}
