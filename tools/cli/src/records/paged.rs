//! Records page by page, in the order of their index: as they were received, as they died, or as they are due. A page
//! ends at a place in that order, so the next one neither repeats nor skips any.

use std::fmt;

use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;

use super::filter::Filter;
use super::latest::journaled;
use super::merged::{Entry, KEYS_MAX, Merged};
use super::stream::{Read, Source, records};
use crate::failure::Failure;

/// A place in the order of an index: behind this moment, or behind this entry of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageCursor {
    at: EpochMs,
    /// Empty where all of the moment is still to come.
    key: String,
}

impl PageCursor {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (at, key) = text.split_once('~')?;
        Some(Self { at: EpochMs(at.parse().ok()?), key: key.to_owned() })
    }

    fn is_behind(&self, entry: &Entry) -> bool {
        entry.at < self.at || entry.at == self.at && (self.key.is_empty() || entry.key.as_str() < self.key.as_str())
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}~{}", self.at.0, self.key)
    }
}

/// How far one page looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The most keys that are looked at.
    pub(crate) keys: usize,
    /// The most hours of the journal, each a call for every shard.
    pub(crate) hours: usize,
}

/// One page.
#[derive(Debug, Default)]
pub(crate) struct PageOfRecords {
    /// The records, each with its moment in the index.
    pub(crate) rows: Vec<(EpochMs, Record)>,
    /// Number of records that another version wrote.
    pub(crate) unreadable: usize,
    /// How many keys were looked at.
    pub(crate) looked_at: usize,
    /// Where the next page begins. `None` on the last one.
    pub(crate) next: Option<PageCursor>,
}

/// Reads the page behind a place: `limit` records that pass the filter, or fewer where the reach ends. All effects of one
/// event are on one page.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn page_of(
    store: &DynamoStore,
    filter: &Filter,
    limit: usize,
    reach: Reach,
    behind: Option<&PageCursor>,
) -> Result<PageOfRecords, Failure> {
    let mut page = PageOfRecords::default();
    let mut groups = bounded(filter, behind).into_iter();
    let mut merged = Merged::default();
    let (mut read_groups, mut next) = (0, 1);
    // Everything up to here was looked at.
    let mut seen = behind.cloned();
    loop {
        let step: Vec<_> = groups.by_ref().take(next.min(reach.hours.saturating_sub(read_groups))).flatten().collect();
        let begin = step.iter().filter_map(journaled).min();
        let is_last = groups.len() == 0;
        if step.is_empty() && (!is_last || merged.is_over()) {
            page.next = seen.filter(|_| !is_last);
            return Ok(page);
        }
        read_groups += next;
        next = read_groups;
        merged.add(step, limit);
        // What is older waits for the hours of the journal before it.
        let not_before = begin.filter(|_| !is_last).unwrap_or(EpochMs(i64::MIN));
        loop {
            let (missing, left) = (limit.saturating_sub(page.rows.len()), reach.keys.saturating_sub(page.looked_at));
            if missing == 0 || left == 0 {
                page.next = seen.filter(|_| !merged.is_over() || !is_last);
                return Ok(page);
            }
            // Where most pass, no record is read in vain. Where few do, each read is as large as it may be.
            let is_first = page.looked_at == 0 || filter.is_about_effects();
            let count = if is_first { missing.min(KEYS_MAX) } else { KEYS_MAX };
            let entries = merged.take(store, count.min(left), not_before).await?;
            if entries.is_empty() {
                break;
            }
            page.looked_at += entries.len();
            let is_new = |entry: &Entry| behind.is_none_or(|behind| behind.is_behind(entry));
            let entries = entries.into_iter().filter(is_new).collect();
            match add(store, filter, &mut page, entries, limit).await? {
                Added::All(last) => seen = last.or(seen),
                Added::UpTo(last) => {
                    page.next = last.or(seen);
                    return Ok(page);
                }
            }
        }
        if let (Some(begin), false) = (begin, is_last) {
            seen = Some(PageCursor { at: EpochMs(begin.0 - 1), key: String::new() });
        }
        if is_last {
            return Ok(page);
        }
    }
}

/// The queries of a filter, for what is behind a place.
fn bounded(filter: &Filter, behind: Option<&PageCursor>) -> Vec<Vec<IndexQuery>> {
    let Some(PageCursor { at, .. }) = behind else { return filter.queries() };
    let mut groups = filter.clone().received_until(*at).queries();
    // An effect may be due or dead later than its event was received, so these are bounded by their own moments alone.
    for group in &mut groups {
        // A place before the first moment of the span leaves nothing of it.
        group.retain_mut(|query| match query {
            IndexQuery::Due { until, .. } => {
                *until = *at;
                true
            }
            IndexQuery::Journal { from, until, .. } => from <= until,
        });
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// How many of some entries were added to a page, up to the place behind the last of them.
enum Added {
    All(Option<PageCursor>),
    /// The page is full.
    UpTo(Option<PageCursor>),
}

/// Adds the records of these entries that pass, as far as the page has room.
async fn add(
    store: &DynamoStore,
    filter: &Filter,
    page: &mut PageOfRecords,
    entries: Vec<Entry>,
    limit: usize,
) -> Result<Added, Failure> {
    let mut seen = None;
    let mut found = Vec::new();
    for source in [Source::Due, Source::Journal] {
        let of_source = entries.iter().filter(|entry| entry.source == source && source.is_wanted(&entry.key, filter));
        let keys: Vec<_> = of_source.map(|entry| entry.key.clone()).collect();
        if !keys.is_empty() {
            let read = records(store, source, keys, 0, filter, Read::Heads).await?;
            page.unreadable += read.unreadable;
            found.extend(read.records);
        }
    }
    // The journal names the event of an effect.
    let names = |entry: &Entry, record: &Record| {
        record.key == entry.key || entry.source == Source::Journal && record.parent.as_ref() == Some(&entry.key)
    };
    for entry in &entries {
        if page.rows.len() >= limit {
            return Ok(Added::UpTo(seen));
        }
        let is_known = |key: &RecordKey| page.rows.iter().any(|(_, row)| row.key == *key);
        let of_entry = found.iter().filter(|record| names(entry, record) && !is_known(&record.key));
        let of_entry: Vec<_> = of_entry.map(|record| (entry.at, record.clone())).collect();
        page.rows.extend(of_entry);
        seen = Some(PageCursor { at: entry.at, key: entry.key.as_str().to_owned() });
    }
    Ok(Added::All(seen))
}
