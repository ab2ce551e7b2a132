//! `hookonce list`: lists records, newest first.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::{DeadReason, Found, Outcome, Record, Status, dead_shard, journal_shard, pending_shard};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_runtime::aws::{DynamoStore, IndexQuery};
use hookonce_runtime::port::Store as _;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::sender::now_unix;
use crate::target::{Target, store_unavailable};

/// Number of keys in one page of an index partition.
const PAGE: usize = 100;

/// Number of partitions read in parallel.
const READS_AT_ONCE: usize = 16;

/// How far back the journal is read by default.
const SINCE: &str = "24h";

/// How far back a list may go. Older records have expired.
const HOURS_MAX: i64 = 24 * 95;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Filter by state: PENDING, PROCESSED, DEAD or DISCARDED. A PROCESSED record is listed by its outcome: APPLIED,
    /// DUPLICATE, IGNORED or FANNED_OUT.
    #[arg(long, value_name = "STATE", value_parser = parse_status)]
    state: Option<Status>,
    /// Filter by endpoint.
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Filter by event type.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Filter by last error or death reason.
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// Received after this: a time in UTC, or a duration before now. Default: 24h; none with --state DEAD or PENDING.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    since: Option<EpochMs>,
    /// Received before this: a time in UTC, or a duration before now.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment, default_value = "0s")]
    until: EpochMs,
    /// Maximum number of records.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

fn parse_status(text: &str) -> Result<Status, String> {
    Status::parse(&text.to_ascii_uppercase()).ok_or_else(|| {
        let all: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("it must be one of {}; PROCESSED finds every outcome, such as APPLIED", all.join(", "))
    })
}

fn parse_moment(text: &str) -> Result<EpochMs, String> {
    if let Ok(length) = humantime::parse_duration(text) {
        let before = Duration::from_secs(u64::try_from(now_unix()).unwrap_or(0) + 1).saturating_sub(length);
        return Ok(EpochMs(i64::try_from(before.as_millis()).unwrap_or(0)));
    }
    let at: SystemTime = humantime::parse_rfc3339_weak(text).map_err(|_| {
        "it must be a duration such as 90m, 24h or 7d, or a time such as 2026-11-20T08:00:00Z".to_owned()
    })?;
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| "it must be a time after 1970".to_owned())?;
    i64::try_from(since.as_millis()).map(EpochMs).map_err(|_| "the time is too far in the future".to_owned())
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.since.is_some_and(|since| since > arguments.until) {
        return Err(Failure::usage("--since is later than --until", "swap them"));
    }
    let store = arguments.target.store().await?;
    let mut listing = Listing::default();
    for group in queries(&arguments, Timing::standard().shards)? {
        let parts = futures::stream::iter(group).map(|query| read(&store, query, &arguments));
        let parts: Vec<_> = parts.buffer_unordered(READS_AT_ONCE).try_collect().await?;
        for part in parts {
            listing.add(part);
        }
        if listing.records.len() >= arguments.limit {
            break;
        }
    }
    let mut records: Vec<_> = listing.records.into_values().collect();
    records.sort_by(|a, b| (b.received_at, &a.key).cmp(&(a.received_at, &b.key)));
    let cut = listing.cut || records.len() > arguments.limit;
    records.truncate(arguments.limit);
    if arguments.json {
        output::json(&records.iter().map(summary).collect::<Vec<_>>());
    } else {
        print(&records);
    }
    if cut {
        output::note("there may be more records: raise --limit, or narrow --since and --until");
    }
    if listing.unreadable > 0 {
        output::note(&format!(
            "left out {} record(s) of another hookonce version: list them with that version",
            listing.unreadable
        ));
    }
    Ok(Exit::Done)
}

/// The records read so far.
#[derive(Default)]
struct Listing {
    records: BTreeMap<RecordKey, Record>,
    /// Number of records that another version wrote.
    unreadable: usize,
    /// Whether some records were not read.
    cut: bool,
}

impl Listing {
    fn add(&mut self, part: Self) {
        self.records.extend(part.records);
        self.unreadable += part.unreadable;
        self.cut |= part.cut;
    }
}

/// Reads one partition, page by page, until it ends or the limit is reached.
async fn read(store: &DynamoStore, query: IndexQuery, arguments: &Arguments) -> Result<Listing, Failure> {
    let (mut part, mut from) = (Listing::default(), None);
    loop {
        let page = store.index_page(&query, from, PAGE).await.map_err(|_| store_unavailable())?;
        for found in store.read_heads(&page.keys).await {
            match found.map_err(|_| store_unavailable())? {
                Found::Record(record) if arguments.wants(&record) => {
                    part.records.insert(record.key.clone(), *record);
                }
                Found::Unreadable(_) => part.unreadable += 1,
                Found::Record(_) | Found::Nothing => {}
            }
        }
        from = page.next;
        part.cut = from.is_some();
        if from.is_none() || part.records.len() >= arguments.limit {
            return Ok(part);
        }
    }
}

/// What the error column prints: the last error, or else the death reason.
fn error_of(record: &Record) -> Option<&str> {
    record.last_error.as_deref().or(record.dead_reason.map(DeadReason::as_str))
}

impl Arguments {
    fn wants(&self, record: &Record) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        self.state.is_none_or(|state| state == record.status)
            && same(&self.endpoint, record.key.parts().0)
            && same(&self.event_type, &record.event_type)
            && self.error.as_deref().is_none_or(|code| {
                record.last_error.as_deref() == Some(code) || record.dead_reason.is_some_and(|it| it.as_str() == code)
            })
            && self.since.is_none_or(|since| since <= record.received_at)
            && record.received_at <= self.until
    }
}

/// PENDING and DEAD records have an index of their own; all others are found by their time of receipt. A group is
/// read completely before the limit counts, because its partitions are in no order.
fn queries(arguments: &Arguments, shards: u16) -> Result<Vec<Vec<IndexQuery>>, Failure> {
    let due = |partition: fn(u16) -> String| {
        vec![(0..shards).map(|shard| IndexQuery::Due { partition: partition(shard) }).collect()]
    };
    match arguments.state {
        Some(Status::Dead) => Ok(due(dead_shard)),
        Some(Status::Pending) => Ok(due(pending_shard)),
        Some(Status::Processed | Status::Discarded) | None => {
            let since = match arguments.since {
                Some(since) => since,
                None => parse_moment(SINCE).map_err(|error| Failure::usage(error, "pass --since"))?,
            };
            Ok(journal(since, arguments.until, shards))
        }
    }
}

/// One group for each hour, latest first.
fn journal(from: EpochMs, until: EpochMs, shards: u16) -> Vec<Vec<IndexQuery>> {
    let hour = Millis::hours(1);
    let hours = (0..HOURS_MAX).map(|back| EpochMs(until.0.saturating_sub(back.saturating_mul(hour.0))));
    // The last step may be earlier than `from` and still lie in its hour.
    let hours = hours.take_while(|at| at.0 > from.0.saturating_sub(hour.0));
    let group = |at: EpochMs| {
        let query = |shard| IndexQuery::Journal { partition: journal_shard(at, shard), from, until };
        (0..shards).map(query).collect()
    };
    hours.map(group).collect()
}

/// One record as JSON.
pub(crate) fn summary(record: &Record) -> Value {
    let (endpoint, key) = record.key.parts();
    json!({
        "endpoint": endpoint,
        "key": key,
        "state": record.status.as_str(),
        "outcome": record.outcome.map(Outcome::as_str),
        "provider": record.provider,
        "type": record.event_type,
        "received_at_ms": record.received_at.0,
        "processed_at_ms": record.processed_at.map(|at| at.0),
        "dead_at_ms": record.dead_at.map(|at| at.0),
        "dead_reason": record.dead_reason.map(DeadReason::as_str),
        "due_at_ms": record.due.as_ref().map(|due| due.at.0),
        "attempts": record.attempts,
        "resends": record.resends,
        "duplicates": record.duplicate_count,
        "generation": record.generation,
        "last_error": record.last_error,
        "parent": record.parent.as_ref().map(|parent| parent.parts().1.to_owned()),
    })
}

fn print(records: &[Record]) {
    let mut table = output::table(&["received", "state", "endpoint", "type", "tries", "dups", "error", "key"]);
    for record in records {
        let (endpoint, key) = record.key.parts();
        let state = match record.outcome {
            Some(outcome) => outcome.as_str(),
            None => record.status.as_str(),
        };
        table.add_row([
            output::moment(record.received_at).as_str(),
            state,
            endpoint,
            &record.event_type,
            &record.attempts.to_string(),
            &record.duplicate_count.to_string(),
            error_of(record).unwrap_or("-"),
            key,
        ]);
    }
    output::print(&table);
    output::note(&format!("{} record(s)", records.len()));
}
