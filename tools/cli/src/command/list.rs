//! `hookonce list`: lists records, newest first.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _};
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{DeadReason, FAILURES_KEPT, FailedAttempt, Outcome, Record, Status};
use hookonce_runtime::aws::{DynamoStore, IndexQuery};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::select::{Filter, READS_AT_ONCE, Read, error_of, page, tell_default};
use crate::target::Target;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of records.
    #[arg(long, default_value = "50")]
    limit: NonZeroUsize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.filter.check()?;
    let limit = arguments.limit.get();
    let stack = arguments.target.connect()?;
    let listing = listing(&stack.store().await?, &arguments.filter, limit).await?;
    let mut records: Vec<_> = listing.records.into_values().collect();
    records.sort_by(|a, b| (b.received_at, &a.key).cmp(&(a.received_at, &b.key)));
    let cut = listing.cut || records.len() > limit;
    records.truncate(limit);
    if arguments.json {
        output::json(&records.iter().map(summary).collect::<Vec<_>>());
    } else {
        print(&records);
    }
    tell_default(arguments.filter.default_since());
    if records.is_empty() {
        tell_missing_endpoint(&stack, &arguments.filter).await;
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

/// Says that there is no such endpoint. A removed one may still have records, so this asks only if there are none.
/// Prints nothing without permission to read the documents.
async fn tell_missing_endpoint(stack: &Connection, filter: &Filter) {
    let Some(Ok(id)) = filter.endpoint.as_deref().map(EndpointId::parse) else { return };
    if stack.is_copy() {
        return;
    }
    let Ok(endpoints) = stack.documents::<EndpointId>().await else { return };
    if let Ok(None) = endpoints.get(&id).await {
        output::note(&format!("there is no endpoint {id}; list them with `hookonce endpoint list`"));
    }
}

/// Reads at least `limit` records that pass the filter, if there are as many: the latest ones, and some more. Each step
/// goes back as many hours as all before it together, because a quiet stack has hours in which nothing came.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn listing(store: &DynamoStore, filter: &Filter, limit: usize) -> Result<ListedRecords, Failure> {
    let mut listing = ListedRecords::default();
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
            listing.add(part);
        }
        // The other indexes may list records that are older than some that the journal still has to show.
        let certain = |record: &&Record| oldest.is_none_or(|oldest| record.received_at >= oldest);
        if listing.records.values().filter(certain).count() >= limit {
            break;
        }
    }
    Ok(listing)
}

/// The records read so far.
#[derive(Debug, Default)]
pub(crate) struct ListedRecords {
    /// By key.
    pub(crate) records: BTreeMap<RecordKey, Record>,
    /// Number of records that another version wrote.
    unreadable: usize,
    /// Whether some records were not read.
    cut: bool,
}

impl ListedRecords {
    fn add(&mut self, part: Self) {
        self.records.extend(part.records);
        self.unreadable += part.unreadable;
        self.cut |= part.cut;
    }
}

/// Reads one partition, page by page, until it ends or the limit is reached.
async fn read(store: &DynamoStore, query: IndexQuery, filter: &Filter, limit: usize) -> Result<ListedRecords, Failure> {
    let (mut part, mut from) = (ListedRecords::default(), None);
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
        "tries": tries(record),
        "resends": record.resends,
        "duplicates": record.duplicate_count,
        "generation": record.generation,
        "last_error": record.last_error,
        "failures": record.failures.iter().map(failure).collect::<Vec<_>>(),
        "effect": record.effect.as_ref().map(|effect| effect.name.as_str()),
        "destination": record.effect.as_ref().map(|effect| effect.destination.as_str()),
        "parent": record.parent.as_ref().map(|parent| parent.parts().1.to_owned()),
    })
}

fn failure(failed: &FailedAttempt) -> Value {
    json!({ "at_ms": failed.at.0, "code": failed.code })
}

/// How often the record was tried, replays included: once for each failure, and once for each generation that was
/// settled. Of the failures before a replay, a record keeps only the latest; of a run that ended as IGNORED, it keeps
/// nothing.
pub(crate) fn tries(record: &Record) -> i64 {
    let kept = i64::try_from(record.failures.len()).unwrap_or(0);
    let tries = record.attempts.max(kept) + record.generation + i64::from(record.status == Status::Processed);
    // A call that ends an effect is counted nowhere else.
    let called = record.effect.as_ref().is_some_and(|effect| effect.first_call_at.is_some());
    tries.max(i64::from(called && record.status == Status::Dead))
}

/// The same for people, with a `+` where there may have been more.
pub(crate) fn format_tries(record: &Record) -> String {
    let kept = record.failures.len();
    let lost = record.retries + record.generation > 0 && kept >= FAILURES_KEPT;
    format!("{}{}", tries(record), if lost { "+" } else { "" })
}

fn print(records: &[Record]) {
    let mut table = output::table(&["received", "state", "endpoint", "type", "tries", "dups", "error", "key"]);
    for record in records {
        let (endpoint, key) = record.key.parts();
        let effect = record.effect.as_ref().map(|effect| format!("{} to {}", effect.name, effect.destination));
        table.add_row([
            output::local_time(record.received_at).as_str(),
            record.state_word(),
            endpoint,
            effect.as_deref().unwrap_or(&record.event_type),
            &format_tries(record),
            &record.duplicate_count.to_string(),
            error_of(record).unwrap_or("-"),
            key,
        ]);
    }
    output::print(&table);
    output::note(&format!("{} record(s)", records.len()));
}
