//! Which records a command is about: by key, or by the same filters everywhere.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{
    DeadReason, Found, Outcome, Record, Status, dead_shard, effect_shard, journal_shard, pending_shard, waiting_shard,
};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::SHARDS;
use hookonce_protocol::write::Table;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::aws::{DynamoStore, IndexCursor, IndexQuery};
use hookonce_runtime::port::Store as _;
use jiff::Timestamp;

use crate::failure::Failure;
use crate::output;
use crate::sender::now_unix;
use crate::target::store_unavailable;

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

/// How often the line of a count moves.
const SPINNER_PERIOD: Duration = Duration::from_millis(100);

/// How far back the journal is read by default.
const SINCE: Millis = Millis::hours(24);

/// How far back the journal may be read at once. Nearly all older records have expired.
const DAYS_MAX: i64 = 95;

/// The most hours of the journal that are read, with a part of one at each end.
const HOURS_MAX: i64 = 24 * DAYS_MAX + 2;

/// A state as `list` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A status. PROCESSED stands for every outcome.
    Status(Status),
    /// How a processed record ended.
    Outcome(Outcome),
}

impl State {
    fn parse(text: &str) -> Result<Self, String> {
        let word = text.to_ascii_uppercase();
        let status = Status::parse(&word).map(Self::Status);
        status.or_else(|| Outcome::parse(&word).map(Self::Outcome)).ok_or_else(|| {
            let statuses = Status::ALL.iter().map(|status| status.as_str());
            let all: Vec<_> = statuses.chain(Outcome::ALL.iter().map(|outcome| outcome.as_str())).collect();
            format!("it must be one of {}", all.join(", "))
        })
    }

    fn fits(self, record: &Record) -> bool {
        match self {
            Self::Status(status) => record.status == status,
            Self::Outcome(outcome) => record.status == Status::Processed && record.outcome == Some(outcome),
        }
    }
}

/// What a record stands for, to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A delivery, or one of its events.
    Event,
    /// A call of a destination.
    Effect,
}

/// The filters of every command that is about many records.
#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Filter by kind. For delivered and discarded effects, time filters use the arrival of their event.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Filter by destination: effects only.
    #[arg(long, value_name = "ID")]
    destination: Option<String>,
    /// Filter by state: PENDING, DEAD, DISCARDED, PROCESSED, or an outcome: APPLIED, DUPLICATE, IGNORED, FANNED_OUT,
    /// DELIVERED.
    #[arg(long, value_name = "STATE", value_parser = State::parse)]
    pub(crate) state: Option<State>,
    /// Filter by endpoint.
    #[arg(long, value_name = "ID")]
    pub(crate) endpoint: Option<String>,
    /// Filter by event type.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Filter by last error or death reason.
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// Received after this time, in UTC unless it has an offset, or within this duration [default: 24h; no limit with
    /// --state PENDING or DEAD].
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    pub(crate) since: Option<EpochMs>,
    /// Received before this: a time, in UTC unless it has an offset, or a duration before now.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    pub(crate) until: Option<EpochMs>,
    /// Died before this, or was processed or discarded: a time, in UTC unless it has an offset, or a duration before
    /// now.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    pub(crate) ended_until: Option<EpochMs>,
}

/// Parses a time, or a duration before now.
fn parse_moment(text: &str) -> Result<EpochMs, String> {
    if let Ok(length) = humantime::parse_duration(text) {
        let before = Duration::from_secs(u64::try_from(now_unix()).unwrap_or(0) + 1).saturating_sub(length);
        return Ok(EpochMs(i64::try_from(before.as_millis()).unwrap_or(0)));
    }
    // A time as `list` prints it, with its offset.
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(EpochMs(at.as_millisecond()));
    }
    let at: SystemTime = humantime::parse_rfc3339_weak(text).map_err(|_| {
        "it must be a duration such as 90m, 24h or 7d, or a time such as 2026-11-20T08:00:00Z or as `hookonce list` prints it".to_owned()
    })?;
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| "it must be a time after 1970".to_owned())?;
    i64::try_from(since.as_millis()).map(EpochMs).map_err(|_| "the time is too far in the future".to_owned())
}

impl Filter {
    /// The records that an endpoint received since a moment.
    pub(crate) fn received(endpoint: &EndpointId, since: EpochMs) -> Self {
        let endpoint = Some(endpoint.to_string());
        let (kind, since) = (Some(Kind::Event), Some(since));
        let (state, destination, event_type, error, until, ended_until) = (None, None, None, None, None, None);
        Self { kind, destination, state, endpoint, event_type, error, since, until, ended_until }
    }

    /// Whether it names anything.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { kind, destination, state, endpoint, event_type, error, since, until, ended_until } = self;
        kind.is_none()
            && state.is_none()
            && [since, until, ended_until].iter().all(|time| time.is_none())
            && [destination, endpoint, event_type, error].iter().all(|text| text.is_none())
    }

    /// Whether a record passes.
    pub(crate) fn wants(&self, record: &Record) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let effect = record.effect.as_ref();
        let kind = if effect.is_some() { Kind::Effect } else { Kind::Event };
        self.state.is_none_or(|state| state.fits(record))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && same(&self.destination, effect.map_or("", |effect| effect.destination.as_str()))
            && same(&self.endpoint, record.key.parts().0)
            && same(&self.event_type, &record.event_type)
            && self.error.as_deref().is_none_or(|code| {
                record.last_error.as_deref() == Some(code) || record.dead_reason.is_some_and(|it| it.as_str() == code)
            })
            && self.since.is_none_or(|since| since <= record.received_at)
            && self.until.is_none_or(|until| record.received_at <= until)
            && self.ended_until.is_none_or(|until| ended_at(record).is_some_and(|at| at <= until))
    }

    /// The parts of the indexes to read. PENDING and DEAD records have an index of their own; all others are found by
    /// their time of receipt, or by that of the event that an effect is of. A group must be read completely before an
    /// order by time can be told, because its partitions are in no order.
    pub(crate) fn queries(&self) -> Vec<Vec<IndexQuery>> {
        let [since, until] = self.span();
        let due = |partitions: &[fn(u16) -> String]| {
            let query = |shard| partitions.iter().map(move |partition| IndexQuery::Due { partition: partition(shard) });
            vec![(0..SHARDS).flat_map(query).collect()]
        };
        match (self.state, self.kind) {
            (Some(State::Status(Status::Dead)), _) => due(&[dead_shard]),
            (Some(State::Status(Status::Pending)), Some(Kind::Event)) => due(&[pending_shard, waiting_shard]),
            (Some(State::Status(Status::Pending)), _) if self.is_about_effects() => due(&[effect_shard]),
            (Some(State::Status(Status::Pending)), _) => due(&[pending_shard, waiting_shard, effect_shard]),
            (Some(State::Status(Status::Processed | Status::Discarded) | State::Outcome(_)) | None, _) => {
                let mut groups = journal(since, until);
                if self.state.is_none() && self.is_about_effects() {
                    let pending_and_dead = due(&[effect_shard, dead_shard]).into_iter().flatten();
                    groups.iter_mut().take(1).for_each(|latest| latest.extend(pending_and_dead.clone()));
                }
                groups
            }
        }
    }

    /// The times between which the journal is read.
    fn span(&self) -> [EpochMs; 2] {
        let until = self.until.unwrap_or_else(now);
        [self.since.unwrap_or(EpochMs(until.0.saturating_sub(SINCE.0))), until]
    }

    /// Whether it reads the journal. The other indexes list records of every age.
    fn reads_journal(&self) -> bool {
        !matches!(self.state, Some(State::Status(Status::Dead | Status::Pending)))
    }

    /// Since when the journal is read although nobody named a time.
    pub(crate) fn default_since(&self) -> Option<EpochMs> {
        (self.since.is_none() && self.reads_journal()).then(|| self.span()[0])
    }

    /// The same filter with its times fixed. If the journal is read, it leaves out what is received from now on. If it
    /// asks for records that have ended, it leaves out what ends from now on: each record is listed in the state that
    /// it has now.
    pub(crate) fn fixed(mut self) -> Self {
        let now = System.moment().now;
        match self.state {
            Some(State::Status(Status::Pending)) => self.until = self.until.or(Some(now)),
            Some(State::Status(Status::Dead | Status::Processed | Status::Discarded) | State::Outcome(_)) => {
                self.ended_until = self.ended_until.or(Some(now));
            }
            None => {}
        }
        if self.reads_journal() {
            self.until = self.until.or(Some(now));
            [self.since, self.until] = self.span().map(Some);
        }
        self
    }

    /// Whether it wants effects only.
    fn is_about_effects(&self) -> bool {
        self.kind == Some(Kind::Effect)
            || self.destination.is_some()
            || self.state == Some(State::Outcome(Outcome::Delivered))
    }

    /// Refuses a selection that no record can meet.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the span of time begins after its end or is longer than is searched, when it wants
    /// events with what only effects have, or when it names an end for PENDING records.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.since.is_some_and(|since| since > self.until.unwrap_or_else(now)) {
            return Err(Failure::usage("--since is later than --until", "swap them"));
        }
        let [since, until] = self.span();
        // A duration is a little longer by the time that it is compared.
        let longest = Millis(Millis::days(DAYS_MAX).0 + Millis::minutes(1).0);
        if self.reads_journal() && until.0.saturating_sub(since.0) > longest.0 {
            return Err(Failure::usage(
                format!("the index is searched for {DAYS_MAX} days at once, and --since is earlier than that"),
                format!(
                    "pass --since {DAYS_MAX}d, or an earlier --until with it; --state DEAD and --state PENDING list records \
                     of every age"
                ),
            ));
        }
        if self.ended_until.is_some() && self.state == Some(State::Status(Status::Pending)) {
            return Err(Failure::usage("PENDING records have not ended", "leave --ended-until out"));
        }
        if self.kind == Some(Kind::Event) && self.is_about_effects() {
            return Err(Failure::usage(
                "events have no destination and are never DELIVERED, only their effects",
                "leave --kind event out",
            ));
        }
        Ok(())
    }
}

/// Says that older records were left out, although nobody asked for that.
pub(crate) fn tell_default(since: Option<EpochMs>) {
    if let Some(since) = since {
        let since = output::local_time(since);
        output::note(&format!("only what was received since {since} was read; --since 35d reaches further"));
    }
}

/// A moment that no record was received after.
fn now() -> EpochMs {
    EpochMs((now_unix() + 1).saturating_mul(1_000))
}

/// One group for each hour, latest first.
fn journal(from: EpochMs, until: EpochMs) -> Vec<Vec<IndexQuery>> {
    let hour = Millis::hours(1);
    let hours = (0..HOURS_MAX).map(|back| EpochMs(until.0.saturating_sub(back.saturating_mul(hour.0))));
    // The last step may be earlier than `from` and still lie in its hour.
    let hours = hours.take_while(|at| at.0 > from.0.saturating_sub(hour.0));
    let group = |at: EpochMs| {
        let from = from.max(EpochMs(at.0.div_euclid(hour.0).saturating_mul(hour.0)));
        let query = |shard| IndexQuery::Journal { partition: journal_shard(at, shard), from, until };
        (0..SHARDS).map(query).collect()
    };
    hours.map(group).collect()
}

/// Some records that pass a filter.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The records.
    pub(crate) records: Vec<Record>,
    /// How many entries of the index were read for them.
    pub(crate) examined: usize,
    /// How many records of another version were left out.
    pub(crate) unreadable: usize,
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
pub(crate) async fn page(
    store: &DynamoStore,
    query: &IndexQuery,
    from: Option<IndexCursor>,
    filter: &Filter,
    read: Read,
) -> Result<(Page, Option<IndexCursor>), Failure> {
    let index = store.index_page(query, from, read.page()).await.map_err(|_| store_unavailable())?;
    let examined = index.keys.len();
    // The key names the endpoint, so the records of others need not be read.
    let own = |key: &RecordKey| filter.endpoint.as_deref().is_none_or(|endpoint| endpoint == key.parts().0);
    let keys: Vec<_> = index.keys.into_iter().filter(own).collect();
    let through_events = filter.is_about_effects() && matches!(query, IndexQuery::Journal { .. });
    let keys = if through_events { effects_of(store, &keys).await? } else { keys };
    let found = match read {
        Read::Heads => store.read_heads(&keys).await,
        Read::Whole => store.read_each(&keys).await,
    };
    let mut page = wanted(found, examined, filter)?;
    // Those that have not ended are found in an index of their own.
    page.records.retain(|record| !through_events || matches!(record.status, Status::Processed | Status::Discarded));
    Ok((page, index.next))
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

/// The records that a batch created for its events: all have its moment of receipt. An event that had a record before
/// is not among them, because a closed batch has no body that would name it.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn created_by(store: &DynamoStore, batch: &Record) -> Result<Vec<Record>, Failure> {
    let mut created = Vec::new();
    let at = batch.received_at;
    let Ok(endpoint) = EndpointId::parse(batch.key.parts().0) else { return Ok(created) };
    let filter = Filter { until: Some(at), ..Filter::received(&endpoint, at) };
    let mut pages = pin!(select(store, &filter, READS_AT_ONCE, Read::Heads));
    while let Some(page) = pages.next().await.transpose()? {
        created.extend(page.records.into_iter().filter(|record| record.parent.as_ref() == Some(&batch.key)));
    }
    created.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(created)
}

/// Counts the index entries that [`select`] reads, and shows a spinner meanwhile.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn count(store: &DynamoStore, filter: &Filter) -> Result<u64, Failure> {
    let counting = output::spinner("counting");
    counting.enable_steady_tick(SPINNER_PERIOD);
    let queries = filter.queries().into_iter().flatten();
    let of = |query| async move { store.index_count(&query).await.map_err(|_| store_unavailable()) };
    let counts = futures::stream::iter(queries).map(of).buffer_unordered(READS_AT_ONCE);
    let total = counts.try_fold(0, async |sum, count| Ok(sum + count)).await;
    counting.finish_and_clear();
    total
}

/// Number of items in one page of a scan.
const SCAN_PAGE: usize = 50;

/// Reads all records of the table that pass a filter, page by page. This costs as much as the table is large.
pub(crate) fn scan<'a>(store: &'a DynamoStore, filter: &'a Filter) -> impl Stream<Item = Result<Page, Failure>> + 'a {
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
        let (count, size) = store.table_size(*table).await.map_err(|_| store_unavailable())?;
        items += u64::try_from(count).unwrap_or(0);
        bytes += u64::try_from(size).unwrap_or(0);
    }
    output::note(&format!(
        "this reads {} as a whole: about {items} item(s), {} KB, {} read units",
        if tables.len() > 1 { "both tables" } else { "the inbox table" },
        bytes.div_ceil(1_024),
        bytes.div_ceil(4_096),
    ));
    if !agreed {
        output::confirm("Continue?", hint)?;
    }
    Ok(items)
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

/// The keys that a record may have, by its endpoint and the key that `list` and the HTTP answer show.
///
/// # Errors
/// [`Failure`] when it is no endpoint's id.
pub(crate) fn candidates(endpoint: &str, key: &str) -> Result<Vec<RecordKey>, Failure> {
    let endpoint = &EndpointId::parse(endpoint).map_err(|error| {
        Failure::usage(error.to_string(), "take the endpoint and the key as `hookonce list` prints them")
    })?;
    let candidates = [
        RecordKey::parse(&format!("in#{endpoint}#{key}")),
        Some(RecordKey::delivery(endpoint, key)),
        Some(RecordKey::event(endpoint, key)),
    ];
    Ok(candidates.into_iter().flatten().collect())
}

/// Finds a record by its endpoint and the key that `list` and the HTTP answer show.
///
/// # Errors
/// [`Failure`] when it is no endpoint's id, the store does not answer, or another version wrote the record.
pub(crate) async fn find(store: &DynamoStore, endpoint: &str, key: &str) -> Result<Option<Record>, Failure> {
    let keys = candidates(endpoint, key)?;
    for found in store.read_each(&keys).await {
        if let Some(record) = readable(found)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The record that was found.
///
/// # Errors
/// [`Failure`] when the store did not answer, or another version wrote the record.
pub(crate) fn readable(found: Result<Found, Unavailable>) -> Result<Option<Record>, Failure> {
    match found.map_err(|_| store_unavailable())? {
        Found::Record(record) => Ok(Some(*record)),
        Found::Nothing => Ok(None),
        Found::Unreadable(unreadable) => {
            Err(Failure::usage(unreadable.to_string(), "use the hookonce version that wrote this record"))
        }
    }
}

/// The records of these keys, without their bodies.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn states(
    store: &DynamoStore,
    keys: Vec<RecordKey>,
) -> Result<Vec<(RecordKey, Option<Record>)>, Failure> {
    let found = store.read_heads(&keys).await;
    let record = |found: Result<Found, Unavailable>| match found.map_err(|_| store_unavailable())? {
        Found::Record(record) => Ok(Some(*record)),
        Found::Nothing | Found::Unreadable(_) => Ok(None),
    };
    keys.into_iter().zip(found).map(|(key, found)| Ok((key, record(found)?))).collect()
}

/// When a record got the state that it has. `None` while it is PENDING.
fn ended_at(record: &Record) -> Option<EpochMs> {
    match record.status {
        Status::Pending => None,
        Status::Processed => record.processed_at,
        Status::Dead => record.dead_at,
        Status::Discarded => record.discarded_at,
    }
}

/// What the error column prints: the last error, or else the death reason.
pub(crate) fn error_of(record: &Record) -> Option<&str> {
    record.last_error.as_deref().or(record.dead_reason.map(DeadReason::as_str))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Filters {
        #[command(flatten)]
        filter: Filter,
    }

    fn filter(words: &str) -> Filter {
        Filters::try_parse_from(std::iter::once("x").chain(words.split_whitespace())).unwrap().filter
    }

    #[test]
    fn all_of_a_span_is_searched_or_it_is_refused() {
        let end = "--until 2026-11-20T08:30:00Z";
        let longest = filter(&format!("--since 2026-08-17T08:30:00Z {end}"));
        assert!(longest.check().is_ok());
        let hours = longest.queries();
        let IndexQuery::Journal { partition, .. } = &hours.last().unwrap()[0] else { panic!("it reads the journal") };
        assert_eq!(partition, &journal_shard(longest.since.unwrap(), 0), "the hour in which it begins");
        let longer = format!("--since 2026-08-17T08:28:00Z {end}");
        assert!(filter(&longer).check().unwrap_err().to_string().contains("95 days at once"));
        assert!(filter(&format!("{longer} --state DEAD")).check().is_ok(), "its index lists records of every age");
        assert!(filter("--since 95d").check().is_ok());
    }

    #[test]
    fn the_times_of_a_filter_stand_still() {
        let applied = filter("--state APPLIED").fixed();
        assert_eq!(applied.until.unwrap().0 - applied.since.unwrap().0, SINCE.0);
        let named = filter("--state APPLIED --since 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z");
        assert_eq!((named.since, named.until), (named.clone().fixed().since, named.fixed().until));
        assert!(filter("--since 2026-01-01T00:00:00Z").fixed().until.is_some());
        let evening = filter("--until 2026-01-02T18:45:00Z");
        assert_eq!(evening.default_since(), filter("--since 2026-01-01T18:45:00Z").since, "not this hour alone");
        let dead = filter("--state DEAD").fixed();
        assert_eq!((dead.since, dead.until), (None, None), "records of every age");
        assert!(dead.ended_until.is_some() && applied.ended_until.is_some());
        assert_eq!(dead.ended_until, dead.clone().fixed().ended_until, "it goes on with the first time");
        let pending = filter("--state PENDING").fixed();
        assert!(pending.since.is_none() && pending.until.is_some() && pending.ended_until.is_none());
        assert!(filter("--since 1h").fixed().ended_until.is_none(), "it asks for what has not ended, too");
    }
}
