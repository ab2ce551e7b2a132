//! The latest records that pass a filter.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;

use super::filter::Filter;
use super::merged::{KEYS_MAX, Merged};
use super::stream::{READS_AT_ONCE, Read, Source, page, records};
use crate::failure::Failure;

/// The records read so far.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    /// By key.
    pub(crate) records: BTreeMap<RecordKey, Record>,
    /// Number of records that another version wrote.
    pub(crate) unreadable: usize,
    /// Whether some records were not read.
    pub(crate) cut: bool,
}

impl Latest {
    fn add(&mut self, records: Vec<Record>, unreadable: usize) {
        self.records.extend(records.into_iter().map(|record| (record.key.clone(), record)));
        self.unreadable += unreadable;
    }

    /// Reads at least `limit` records that pass the filter, if there are as many: those that were received last, and some
    /// more. Each step goes back as many hours as all before it together, because a quiet stack has hours in which nothing
    /// came. The journal is in the order of receipt, so the keys of all its partitions are merged before any record is read.
    /// What waits or died is in another order: of each partition, so many are read. `on_step` learns before each step how
    /// many hours are behind it, and of how many.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(crate) async fn read(
        &mut self,
        store: &DynamoStore,
        filter: &Filter,
        limit: usize,
        on_step: impl Fn(usize, usize),
    ) -> Result<(), Failure> {
        let mut groups = filter.queries().into_iter();
        let all = groups.len();
        let (mut read_groups, mut next) = (0, 1);
        loop {
            let step: Vec<_> = groups.by_ref().take(next).flatten().collect();
            if step.is_empty() {
                return Ok(());
            }
            on_step(read_groups, all);
            read_groups += next;
            next = read_groups;
            let begin = step.iter().filter_map(journaled).min();
            let (journal, due): (Vec<_>, Vec<_>) = step.into_iter().partition(|query| journaled(query).is_some());
            let parts = futures::stream::iter(due).map(|query| read_partition(store, query, filter, limit));
            let parts: Vec<_> = parts.buffer_unordered(READS_AT_ONCE).try_collect().await?;
            for part in parts {
                self.records.extend(part.records);
                self.unreadable += part.unreadable;
                self.cut |= part.cut;
            }
            // Some of them may be older than what the journal still has to show.
            let is_certain = |record: &&Record| begin.is_none_or(|begin| record.received_at >= begin);
            let mut merged = Merged::default();
            merged.add(journal, limit);
            loop {
                let missing = limit.saturating_sub(self.records.values().filter(is_certain).count());
                if missing == 0 {
                    self.cut = self.cut || !merged.is_over() || groups.len() > 0;
                    return Ok(());
                }
                let entries = merged.take(store, missing.min(KEYS_MAX), EpochMs(i64::MIN)).await?;
                if entries.is_empty() {
                    break;
                }
                let keys =
                    entries.into_iter().map(|entry| entry.key).filter(|key| Source::Journal.is_wanted(key, filter));
                let page = records(store, Source::Journal, keys.collect(), 0, filter, Read::Heads).await?;
                self.add(page.records, page.unreadable);
            }
        }
    }
}

/// The latest records that pass the filter, as [`Latest::read`] reads them.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn latest(store: &DynamoStore, filter: &Filter, limit: usize) -> Result<Latest, Failure> {
    let mut latest = Latest::default();
    latest.read(store, filter, limit, |_, _| {}).await?;
    Ok(latest)
}

/// Since when a query reads the journal, if it does.
pub(super) fn journaled(query: &IndexQuery) -> Option<EpochMs> {
    match query {
        IndexQuery::Journal { from, .. } => Some(*from),
        IndexQuery::Due { .. } => None,
    }
}

/// Reads one partition, page by page, until it ends or the limit is reached.
async fn read_partition(
    store: &DynamoStore,
    query: IndexQuery,
    filter: &Filter,
    limit: usize,
) -> Result<Latest, Failure> {
    let (mut part, mut from) = (Latest::default(), None);
    loop {
        let (page, next) = page(store, &query, from, filter, Read::Heads).await?;
        part.add(page.records, page.unreadable);
        from = next;
        part.cut = from.is_some();
        if from.is_none() || part.records.len() >= limit {
            return Ok(part);
        }
    }
}
