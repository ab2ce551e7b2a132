//! Partitions of the indexes as one list.

use std::collections::VecDeque;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use hookonce_aws::{DynamoStore, IndexCursor, IndexQuery};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::SHARDS;

use super::stream::{READS_AT_ONCE, Source};
use crate::failure::Failure;
use crate::stack::target::store_unavailable;

/// The most keys of one read of a partition, each of about a hundred bytes.
pub(super) const KEYS_MAX: usize = 100;

/// One entry: its moment in its index, the record that it names, and the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) at: EpochMs,
    pub(super) key: RecordKey,
    pub(super) source: Source,
}

/// Partitions of the indexes, read side by side as one list, latest first. Entries of one moment are in the order of
/// their keys, so the list has the same order whenever it is read.
#[derive(Debug, Default)]
pub(super) struct Merged {
    partitions: Vec<Partition>,
    /// The rest of a moment, the first one last.
    ready: Vec<Entry>,
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
    /// Adds partitions, of which all together about so many entries are taken.
    pub(super) fn add(&mut self, queries: Vec<IndexQuery>, wanted: usize) {
        let keys = (wanted / usize::from(SHARDS) * 2 + 5).min(KEYS_MAX);
        let partition = |query| Partition { query, entries: VecDeque::new(), next: Next::Start, keys };
        self.partitions.extend(queries.into_iter().map(partition));
    }

    /// Whether everything has been taken, as far as is known.
    pub(super) fn is_over(&self) -> bool {
        let is_over = |partition: &Partition| partition.entries.is_empty() && matches!(partition.next, Next::Over);
        self.ready.is_empty() && self.partitions.iter().all(is_over)
    }

    /// Takes the next entries that are not before a moment. Fewer only if there are no more.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn take(
        &mut self,
        store: &DynamoStore,
        count: usize,
        not_before: EpochMs,
    ) -> Result<Vec<Entry>, Failure> {
        let mut taken = Vec::new();
        while taken.len() < count {
            match self.ready.pop() {
                Some(entry) => taken.push(entry),
                None if self.next_moment(store, not_before).await? => {}
                None => break,
            }
        }
        Ok(taken)
    }

    /// Makes all entries of the next moment ready. False if there is none.
    async fn next_moment(&mut self, store: &DynamoStore, not_before: EpochMs) -> Result<bool, Failure> {
        self.fill(store).await?;
        let latest = self.partitions.iter().filter_map(|partition| partition.entries.front()).map(|(_, at)| *at).max();
        let Some(at) = latest.filter(|at| *at >= not_before) else { return Ok(false) };
        loop {
            for partition in &mut self.partitions {
                let source = Source::of(&partition.query);
                while let Some((key, _)) = partition.entries.pop_front_if(|(_, of)| *of == at) {
                    self.ready.push(Entry { at, key, source });
                }
            }
            // A page may end within a moment.
            if !self.partitions.iter().any(Partition::is_unread) {
                break;
            }
            self.fill(store).await?;
            if !self.partitions.iter().any(|partition| partition.entries.front().is_some_and(|(_, of)| *of == at)) {
                break;
            }
        }
        self.ready.sort();
        Ok(true)
    }

    /// Reads until each partition shows its next entry, or has none.
    async fn fill(&mut self, store: &DynamoStore) -> Result<(), Failure> {
        while self.partitions.iter().any(Partition::is_unread) {
            let unread = self.partitions.iter_mut().filter(|partition| partition.is_unread());
            let reads: Vec<_> = unread.map(|partition| partition.read(store).boxed()).collect();
            let () = futures::stream::iter(reads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
        }
        Ok(())
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
