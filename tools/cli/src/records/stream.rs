//! The records that a command is about, page by page, and how many there are.

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use hookonce_aws::{DynamoStore, IndexCursor, IndexQuery};
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::record::{Found, Record, Status};
use hookonce_protocol::write::Table;
use hookonce_runtime::port::Store as _;

use super::exact::find;
use super::filter::Filter;
use crate::failure::Failure;
use crate::output;
use crate::stack::target::store_unavailable;

/// How much of each record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Everything but the body.
    Heads,
    /// Everything.
    Whole,
}

impl Read {
    /// Number of records in one page. It is smaller with bodies.
    const fn page(self) -> usize {
        match self {
            Self::Heads => 100,
            Self::Whole => 25,
        }
    }
}

/// Number of index partitions that a command reads side by side.
pub(crate) const READS_AT_ONCE: usize = 32;

/// The records that a command is about.
#[derive(Debug)]
pub(crate) enum Selection {
    /// Those that a person named: an endpoint and a key in turn.
    Keys(Vec<String>),
    /// Those that pass a filter, as an index lists them.
    Index(Filter),
    /// Those that pass a filter, of the whole table. This costs as much as the table is large.
    Table(Filter),
}

impl Selection {
    /// The filter. `None` if the records are named.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        match self {
            Self::Keys(_) => None,
            Self::Index(filter) | Self::Table(filter) => Some(filter),
        }
    }

    /// The records with their bodies, page by page, `at_once` partitions of an index at a time. The stream ends with a
    /// [`Failure`] when the store does not answer.
    pub(crate) fn pages<'a>(&'a self, store: &'a DynamoStore, at_once: usize) -> BoxStream<'a, Result<Page, Failure>> {
        match self {
            Self::Keys(keys) => futures::stream::once(named(store, keys)).boxed(),
            Self::Index(filter) => select(store, filter, at_once, Read::Whole).boxed(),
            Self::Table(filter) => scan(store, filter).boxed(),
        }
    }

    /// How many entries [`Self::pages`] reads.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(crate) async fn total(&self, store: &DynamoStore) -> Result<u64, Failure> {
        match self {
            Self::Keys(keys) => Ok(u64::try_from(keys.len() / 2).unwrap_or(0)),
            Self::Index(filter) => count(store, filter).await,
            Self::Table(_) => table_size(store, Table::Inbox).await.map(|(items, _)| items),
        }
    }
}

/// Some records of a selection.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The records.
    pub(crate) records: Vec<Record>,
    /// How many entries of the index were read for them.
    pub(crate) examined: usize,
    /// How many records of another version were left out.
    pub(crate) unreadable: usize,
    /// Whether it is the last page of its partition.
    pub(crate) ends_partition: bool,
    /// What there is no record of: an endpoint and a key.
    missing: Vec<[String; 2]>,
}

impl Page {
    /// Notes which records there are not.
    pub(crate) fn note_missing(&self) {
        for [endpoint, key] in &self.missing {
            output::note(&format!("endpoint {endpoint} has no record {key}"));
        }
    }
}

/// The records that a person named. They are found before any of them is changed.
async fn named(store: &DynamoStore, keys: &[String]) -> Result<Page, Failure> {
    let mut page = Page::default();
    for pair in keys.chunks(2) {
        let [endpoint, key] = pair else { continue };
        match find(store, endpoint, key).await? {
            Some(record) => page.records.push(record),
            None => page.missing.push([endpoint.clone(), key.clone()]),
        }
        page.examined += 1;
    }
    Ok(page)
}

/// Reads all records that pass a filter, page by page, `at_once` partitions at a time. Holds that many pages at most.
/// The stream ends with a [`Failure`] when the store does not answer.
pub(crate) fn select<'a>(
    store: &'a DynamoStore,
    filter: &'a Filter,
    at_once: usize,
    read: Read,
) -> impl Stream<Item = Result<Page, Failure>> + 'a {
    let queries: Vec<_> = filter.queries().into_iter().flatten().collect();
    let partition = move |query: IndexQuery| {
        let pages = futures::stream::try_unfold(Some((query, None)), move |at| async move {
            let Some((query, from)) = at else { return Ok(None) };
            let (page, next) = page(store, &query, from, filter, read).await?;
            let page = Page { ends_partition: next.is_none(), ..page };
            Ok(Some((page, next.map(|next| (query, Some(next))))))
        });
        Box::pin(pages)
    };
    futures::stream::iter(queries).map(partition).flatten_unordered(at_once)
}

/// Reads one page of an index partition, and says where the next one begins.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(super) async fn page(
    store: &DynamoStore,
    query: &IndexQuery,
    from: Option<IndexCursor>,
    filter: &Filter,
    read: Read,
) -> Result<(Page, Option<IndexCursor>), Failure> {
    let index = store.index_page(query, from, read.page()).await.map_err(|_| store_unavailable())?;
    let examined = index.entries.len();
    let source = Source::of(query);
    let keys: Vec<_> = index.keys().filter(|key| source.is_wanted(key, filter)).collect();
    Ok((records(store, source, keys, examined, filter, read).await?, index.next))
}

/// Which index named a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The one of what waits or died. It names every record itself.
    Due,
    /// The one of what was received. It names the event of an effect.
    Journal,
}

impl Source {
    /// The index that a query reads.
    pub(super) const fn of(query: &IndexQuery) -> Self {
        match query {
            IndexQuery::Due { .. } => Self::Due,
            IndexQuery::Journal { .. } => Self::Journal,
        }
    }

    /// Whether the record of a key may pass. The key names endpoint and kind, so what is of another one need not be
    /// read.
    pub(super) fn is_wanted(self, key: &RecordKey, filter: &Filter) -> bool {
        let needs_effect = self == Self::Due && filter.is_about_effects();
        filter.endpoint.as_deref().is_none_or(|endpoint| endpoint == key.parts().0)
            && (!needs_effect || key.kind() == RecordKind::Effect)
    }
}

/// Reads the records of keys that an index named, and keeps those that pass.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(super) async fn records(
    store: &DynamoStore,
    source: Source,
    keys: Vec<RecordKey>,
    examined: usize,
    filter: &Filter,
    read: Read,
) -> Result<Page, Failure> {
    let through_events = source == Source::Journal && filter.is_about_effects();
    let keys = if through_events { effects_of(store, &keys).await? } else { keys };
    let found = match read {
        Read::Heads => store.read_heads(&keys).await,
        Read::Whole => store.read_each(&keys).await,
    };
    let mut page = wanted(found, examined, filter)?;
    // Those that have not ended are found in an index of their own.
    page.records.retain(|record| !through_events || matches!(record.status, Status::Processed | Status::Discarded));
    Ok(page)
}

/// The effects that the last commits of these events created. The journal has no entries of their own.
async fn effects_of(store: &DynamoStore, events: &[RecordKey]) -> Result<Vec<RecordKey>, Failure> {
    let mut effects = Vec::new();
    for found in store.read_heads(events).await {
        if let Found::Record(event) = found.map_err(|_| store_unavailable())? {
            effects.extend(event.effect_keys());
        }
    }
    Ok(effects)
}

/// Counts the index entries that [`select`] reads, and shows a spinner meanwhile.
async fn count(store: &DynamoStore, filter: &Filter) -> Result<u64, Failure> {
    let counting = output::working("counting");
    let queries = filter.queries().into_iter().flatten();
    let of = |query| async move { store.index_count(&query).await.map_err(|_| store_unavailable()) };
    let counts = futures::stream::iter(queries).map(of).buffer_unordered(READS_AT_ONCE);
    let total = counts.try_fold(0, async |sum, count| Ok(sum + count)).await;
    drop(counting);
    total
}

/// Number of items in one page of a scan.
const SCAN_PAGE: usize = 50;

/// Reads all records of the table that pass a filter, page by page.
fn scan<'a>(store: &'a DynamoStore, filter: &'a Filter) -> impl Stream<Item = Result<Page, Failure>> + 'a {
    let prefix = filter.endpoint.as_ref().map_or("in#".to_owned(), |endpoint| format!("in#{endpoint}#"));
    let start = Some((prefix, None::<String>));
    futures::stream::try_unfold(start, move |at| async move {
        let Some((prefix, after)) = at else { return Ok(None) };
        let scanned = store.scan_page(Table::Inbox, &prefix, &[], after.as_deref(), SCAN_PAGE).await;
        let scanned = scanned.map_err(|_| store_unavailable())?;
        let key = |item: &Item| RecordKey::parse(item.get(PARTITION_KEY).and_then(Value::as_text)?);
        let keys: Vec<_> = scanned.items.iter().filter_map(key).collect();
        let page = wanted(store.read_each(&keys).await, scanned.read, filter)?;
        Ok(Some((page, scanned.next.map(|next| (prefix, Some(next))))))
    })
}

/// Says what reading these tables as a whole costs, and asks unless the person agreed. `hint` is how to agree without
/// being asked, or what else to do. Returns about how many items they have.
///
/// # Errors
/// [`Failure`] when the person does not agree, or cannot be asked.
pub(crate) async fn agree_to_scan(
    store: &DynamoStore,
    tables: &[Table],
    agreed: bool,
    hint: &str,
) -> Result<u64, Failure> {
    let (mut items, mut bytes) = (0, 0);
    for table in tables {
        let (count, size) = table_size(store, *table).await?;
        items += count;
        bytes += size;
    }
    output::note(&format!(
        "this reads {} as a whole: about {}, {} KB, {} read units",
        if tables.len() > 1 { "both tables" } else { "the inbox table" },
        output::number_of(&items, "item"),
        bytes.div_ceil(1_024),
        bytes.div_ceil(4_096),
    ));
    if !agreed {
        output::confirm("Continue?", hint)?;
    }
    Ok(items)
}

/// About how many items a table has, and how many bytes.
async fn table_size(store: &DynamoStore, table: Table) -> Result<(u64, u64), Failure> {
    let (items, bytes) = store.table_size(table).await.map_err(|_| store_unavailable())?;
    Ok((u64::try_from(items).unwrap_or(0), u64::try_from(bytes).unwrap_or(0)))
}

fn wanted(found: Vec<Result<Found, Unavailable>>, examined: usize, filter: &Filter) -> Result<Page, Failure> {
    let mut page = Page { examined, ..Page::default() };
    for found in found {
        match found.map_err(|_| store_unavailable())? {
            Found::Record(record) if filter.wants(&record) => page.records.push(*record),
            Found::Unreadable(_) => page.unreadable += 1,
            Found::Record(_) | Found::Nothing => {}
        }
    }
    Ok(page)
}
