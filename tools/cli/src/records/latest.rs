//! The latest records that pass a filter.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;

use super::filter::Filter;
use super::stream::{READS_AT_ONCE, Read, page};
use crate::failure::Failure;

/// Reads at least `limit` records that pass the filter, if there are as many: the latest ones, and some more. Each step
/// goes back as many hours as all before it together, because a quiet stack has hours in which nothing came.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn latest(store: &DynamoStore, filter: &Filter, limit: usize) -> Result<Latest, Failure> {
    let mut latest = Latest::default();
    let mut groups = filter.queries().into_iter();
    let (mut read_groups, mut next) = (0, 1);
    loop {
        let step: Vec<_> = groups.by_ref().take(next).flatten().collect();
        if step.is_empty() {
            break;
        }
        read_groups += next;
        next = read_groups;
        let journaled = |query: &IndexQuery| match query {
            IndexQuery::Journal { from, .. } => Some(*from),
            IndexQuery::Due { .. } => None,
        };
        let oldest = step.iter().filter_map(journaled).min();
        let parts = futures::stream::iter(step).map(|query| read(store, query, filter, limit));
        let parts: Vec<_> = parts.buffer_unordered(READS_AT_ONCE).try_collect().await?;
        for part in parts {
            latest.add(part);
        }
        // The other indexes may list records that are older than some that the journal still has to show.
        let certain = |record: &&Record| oldest.is_none_or(|oldest| record.received_at >= oldest);
        if latest.records.values().filter(certain).count() >= limit {
            break;
        }
    }
    Ok(latest)
}

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
    fn add(&mut self, part: Self) {
        self.records.extend(part.records);
        self.unreadable += part.unreadable;
        self.cut |= part.cut;
    }
}

/// Reads one partition, page by page, until it ends or the limit is reached.
async fn read(store: &DynamoStore, query: IndexQuery, filter: &Filter, limit: usize) -> Result<Latest, Failure> {
    let (mut part, mut from) = (Latest::default(), None);
    loop {
        let (page, next) = page(store, &query, from, filter, Read::Heads).await?;
        part.records.extend(page.records.into_iter().map(|record| (record.key.clone(), record)));
        part.unreadable += page.unreadable;
        from = next;
        part.cut = from.is_some();
        if from.is_none() || part.records.len() >= limit {
            return Ok(part);
        }
    }
}
