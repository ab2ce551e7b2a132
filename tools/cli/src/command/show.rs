//! `hookonce show`: prints one record's timeline.

use clap::Args;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::{Found, Record};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::body::decompress;
use hookonce_runtime::port::Store as _;

use super::endpoint::parse_id;
use super::list::summary;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::target::{Target, store_unavailable};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint id.
    endpoint: String,
    /// Record key, as `list` and the HTTP answer show it.
    key: String,
    /// Write only the stored body, byte for byte.
    #[arg(long)]
    body: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let endpoint = parse_id(&arguments.endpoint)?;
    let store = arguments.target.store().await?;
    let candidates = [
        RecordKey::parse(&format!("in#{endpoint}#{}", arguments.key)),
        Some(RecordKey::delivery(&endpoint, &arguments.key)),
        Some(RecordKey::event(&endpoint, &arguments.key)),
    ];
    let keys: Vec<_> = candidates.into_iter().flatten().collect();
    for found in store.read_each(&keys).await {
        match found.map_err(|_| store_unavailable())? {
            Found::Record(record) => return show(&record, &arguments),
            Found::Unreadable(unreadable) => {
                return Err(Failure::usage(unreadable.to_string(), "use the hookonce version that wrote this record"));
            }
            Found::Nothing => {}
        }
    }
    output::note(&format!("endpoint {endpoint} has no record {}", arguments.key));
    Ok(Exit::No)
}

fn show(record: &Record, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.body {
        let Some(stored) = &record.body else { return Ok(Exit::No) };
        let raw =
            decompress(stored).map_err(|error| Failure::usage(error.to_string(), "the stored body may be damaged"))?;
        output::bytes(&raw);
    } else if arguments.json {
        output::json(&summary(record));
    } else {
        print(record);
    }
    Ok(Exit::Done)
}

fn print(record: &Record) {
    let (endpoint, key) = record.key.parts();
    output::line(key);
    output::line(&format!("  {} from {} at {endpoint}\n", record.event_type, record.provider));
    let mut table = output::table(&[]);
    for (at, what) in timeline(record) {
        table.add_row([output::moment(at), what]);
    }
    output::print(&table);
}

/// What happened to a record, in order of time.
fn timeline(record: &Record) -> Vec<(EpochMs, String)> {
    let secret = match record.secret_index {
        0 => "the newest secret".to_owned(),
        index => format!("secret {index}"),
    };
    let mut events = vec![(record.received_at, format!("received, verified with {secret}"))];
    if let Some(parent) = &record.parent {
        events.push((record.received_at, format!("part of the batch {}", parent.parts().1)));
    }
    if let (Some(at), true) = (record.last_seen_at, record.duplicate_count > 0) {
        events.push((at, format!("last of {} duplicate(s)", record.duplicate_count)));
    }
    if let (Some(at), Some(outcome)) = (record.processed_at, record.outcome) {
        events.push((at, format!("processed: {outcome}")));
    }
    if let (Some(at), Some(reason)) = (record.dead_at, record.dead_reason) {
        events.push((at, format!("dead: {reason} (docs/errors/{reason}.md)")));
    }
    if let Some(at) = record.discarded_at {
        events.push((at, "discarded by an operator".to_owned()));
    }
    events.sort();
    let last = events.last().map_or(record.received_at, |(at, _)| *at);
    if record.attempts > 0 {
        let code = record.last_error.as_deref().unwrap_or("no code");
        events.push((last, format!("{} failed attempt(s), last error {code}", record.attempts)));
    }
    if record.resends > 0 {
        events.push((last, format!("the relay sent it to the worker again {} time(s)", record.resends)));
    }
    if let (Some(due), true) = (&record.due, record.dead_at.is_none()) {
        events.push((due.at, "the relay sends it again unless it is settled before".to_owned()));
    }
    if let Some(at) = record.expires_at {
        events.push((at.as_millis(), "expires".to_owned()));
    }
    events
}
