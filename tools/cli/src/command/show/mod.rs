//! `hookonce show`: tells the timeline of one record.

use std::path::PathBuf;

use clap::Args;
use hookonce_aws::DynamoStore;
use hookonce_protocol::record::{Outcome, Record};
use hookonce_runtime::inbox::body::decompress;

use super::list::note_missing_endpoint;
use crate::console::record_file;
use crate::failure::{Exit, Failure};
use crate::output::{self, interrupt};
use crate::records::progress::{Progress, Wait};
use crate::records::timeline::{Planning, Timeline};
use crate::records::{Named, applied_by, candidates_of_words, find_words, latest_applied};
use crate::stack::connection::Connection;
use crate::stack::target::{Target, write};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// The record, as `list` and the HTTP answer show it.
    ///
    /// The endpoint may be left out, and a beginning of the key is enough for a record of the last 24 hours.
    #[arg(required_unless_present = "fact", num_args = 1..=2, value_names = ["ENDPOINT", "KEY"])]
    record: Vec<String>,
    /// In place of a key: the fact, such as an invoice's id.
    ///
    /// The record applied it, and `show` prints it in the domain key.
    #[arg(long, value_name = "TEXT", conflicts_with = "record")]
    fact: Option<String>,
    /// Write only the stored body, byte for byte.
    #[arg(long, conflicts_with = "at_most")]
    body: bool,
    /// Also call a handler in another language.
    ///
    /// So one learns what it would do today. It gets the event, as in a delivery.
    #[arg(long)]
    call_handlers: bool,
    /// Also show what is stored under the plan's keys.
    ///
    /// They are the domain key, and the items that it writes and checks.
    #[arg(long, conflicts_with = "body")]
    items: bool,
    #[command(flatten)]
    wait: Wait,
    /// Write the timeline as a page, without the body.
    ///
    /// It is for a person without access to the stack.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "json"])]
    html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(mut arguments: Arguments) -> Result<Exit, Failure> {
    let stack = arguments.target.connect();
    let store = &stack.store().await?;
    if let Some(fact) = &arguments.fact {
        let whole = &stack.whole_store().await?;
        match applied_by(&stack, whole, fact, Box::pin(latest_applied(whole))).await?.as_slice() {
            [record] => arguments.record = record.to_vec(),
            [] => {
                output::note(&format!("no record that is kept has applied the fact {fact}"));
                output::note("dead and waiting records are not found by a fact: see `hookonce list --state DEAD`");
                output::note(
                    "it was looked for alone and behind the types of the routes and of the latest records. `hookonce show` of a \
                     record that was applied prints its domain key: the fact is what stands behind the consumer there",
                );
                return Ok(Exit::No);
            }
            several => return Err(several_apply(fact, several)),
        }
    }
    let exit = settled(&stack, store, &arguments).await?;
    let record = match find_words(&stack, store, &arguments.record).await? {
        Named::Whole(record) | Named::Beginning(record) => *record,
        Named::Missing => {
            note_missing(&stack, &arguments.record).await;
            return Ok(if exit == Exit::Done { Exit::No } else { exit });
        }
    };
    if arguments.body {
        return body(&record);
    }
    let planning = if arguments.call_handlers { Planning::CallHandlers } else { Planning::BuiltIn };
    let mut timeline = Timeline::of(&stack, store, record, planning, usize::MAX).await?;
    if arguments.items {
        timeline.items = Some(timeline.read_items(store).await?);
    }
    if let Some(path) = &arguments.html {
        write(path, &record_file(&timeline, &timeline.calls(&stack).await))?;
        output::note(&format!("wrote {}", path.display()));
    } else if arguments.json {
        output::json(&timeline.json());
    } else {
        timeline.print();
    }
    Ok(exit)
}

/// The failure for a fact that several records applied: of other tenants, or for other consumers.
fn several_apply(fact: &str, records: &[[String; 2]]) -> Failure {
    let records: Vec<_> = records.iter().map(|[endpoint, key]| format!("{endpoint} {}", output::quoted(key))).collect();
    let hint = format!("show one of them by its endpoint and key:\n    {}", records.join("\n    "));
    Failure::usage(format!("several records applied the fact {fact}"), hint)
}

/// Notes that there is no such record, or no such endpoint.
async fn note_missing(stack: &Connection, words: &[String]) {
    if let [endpoint, key] = words {
        output::note(&format!("endpoint {endpoint} has no record {key}"));
        note_missing_endpoint(stack, endpoint).await;
    } else {
        output::note(&format!("no endpoint has a record {}", words.concat()));
    }
    output::note("`hookonce list` shows what there is; records expire after weeks");
}

/// Waits for the record if asked to. It is shown in any case.
async fn settled(stack: &Connection, store: &DynamoStore, arguments: &Arguments) -> Result<Exit, Failure> {
    let Some(at_most) = arguments.wait.at_most else { return Ok(Exit::Done) };
    let keys = candidates_of_words(stack, &arguments.record).await?;
    let progress = tokio::select! {
        biased;
        () = interrupt::ctrl_c() => None,
        progress = Progress::read_until(store, &keys, at_most, Progress::is_settled) => Some(progress?),
    };
    let Some(progress) = progress else {
        output::note("stopped waiting before it was settled; the same command goes on");
        return Ok(Exit::No);
    };
    let Some(progress) = progress else {
        output::note(&format!("it is not settled after {}", humantime::format_duration(at_most)));
        return Ok(Exit::Unavailable);
    };
    let Some(trouble) = progress.trouble() else { return Ok(Exit::Done) };
    output::note(trouble);
    Ok(Exit::No)
}

/// Writes the stored body.
fn body(record: &Record) -> Result<Exit, Failure> {
    let Some(stored) = &record.body else {
        let is_closed = record.outcome == Some(Outcome::FannedOut);
        let moved = "a batch keeps no body once its events have records; show one of those";
        output::note(if is_closed { moved } else { "its body was erased" });
        return Ok(Exit::No);
    };
    let raw =
        decompress(stored).map_err(|error| Failure::usage(error.to_string(), "the stored body may be damaged"))?;
    output::bytes(&raw);
    Ok(Exit::Done)
}
