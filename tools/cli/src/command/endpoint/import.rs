//! `hookonce endpoint import`: adds many endpoints from a file.
//!
//! All of them are checked before the first one is written. The index of ids is written first, then each document. An
//! endpoint that is there already, with the same document, is left alone: so a run that was stopped goes on when the command
//! is run again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::time::Duration;

use clap::Args;
use hookonce_protocol::key::EndpointId;
use hookonce_runtime::document::EndpointDocument;
use serde_json::{Map, Value, json};
use tokio::time::MissedTickBehavior;

use crate::endpoints::{EndpointStore, Place, Stored, check, parse_id, text_of};
use crate::failure::{Exit, Failure};
use crate::output;

/// The most endpoints in a file. An account has 10,000 standard parameters in a region.
const ENDPOINTS_MAX: usize = 10_000;

/// The most problems that are printed.
const PROBLEMS_MAX: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint documents, each with its `id`: one JSON object in each line, or an array. `-` reads standard input.
    file: PathBuf,
    /// Maximum number of endpoints written per second. An account's default limit for a deployed stack is 3.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

type Documents = BTreeMap<EndpointId, EndpointDocument>;

/// What became of the endpoints of a file.
#[derive(Debug, Default)]
struct Tally {
    imported: usize,
    there: usize,
    differ: Vec<EndpointId>,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let documents = parse(&text(&arguments.file)?)?;
    // Ctrl-C ends the run between two writes, never within one.
    let mut stop = pin!(tokio::signal::ctrl_c());
    let store = arguments.place.open().await?;
    let mut tally = Tally::default();
    let existing = tokio::select! {
        biased;
        _ = &mut stop => return Ok(told(&tally, true, arguments.json)),
        looked = store.look(usize::MAX) => looked?.documents,
    };
    let mut fresh = Vec::new();
    for (id, document) in &documents {
        match existing.get(id) {
            None => fresh.push((id, text_of(document))),
            Some(stored) if is_same(id, stored, document) => tally.there += 1,
            Some(_) => tally.differ.push(id.clone()),
        }
    }
    check_sizes(&*store, &fresh)?;
    // Those of a run before this one, too: it may have died before it listed them for the second time.
    let ids: Vec<_> = documents.keys().cloned().collect();
    store.list(&ids).await?;
    let stopped = write(&*store, &fresh, &arguments, &mut tally, stop).await?;
    store.list(&ids).await?;
    Ok(told(&tally, stopped, arguments.json))
}

/// Refuses documents that are too large to be stored. Nothing is written yet.
fn check_sizes(store: &dyn EndpointStore, fresh: &[(&EndpointId, String)]) -> Result<(), Failure> {
    let too_large = |(id, text): &(&EndpointId, String)| Some((id.to_string(), store.fits(text).err()?));
    let too_large: Vec<_> = fresh.iter().filter_map(too_large).collect();
    let Some((_, first)) = too_large.first() else { return Ok(()) };
    let hint = first.hint().to_owned();
    Err(refused(too_large.iter().map(|(id, failure)| format!("{id}: {failure}")).collect(), hint))
}

/// Writes the new documents at the rate. True if the person stopped it.
async fn write(
    store: &dyn EndpointStore,
    fresh: &[(&EndpointId, String)],
    arguments: &Arguments,
    tally: &mut Tally,
    mut stop: Pin<&mut impl Future<Output = std::io::Result<()>>>,
) -> Result<bool, Failure> {
    let watched = !arguments.json && output::is_watched();
    let length = u64::try_from(fresh.len()).unwrap_or(0);
    let bar = if watched { output::bar("import", length) } else { indicatif::ProgressBar::hidden() };
    let mut clock = tokio::time::interval(Duration::from_secs(1) / arguments.rate);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for (id, text) in fresh {
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(true),
            _ = clock.tick() => {}
        }
        let created = store.create(id, text).await.map_err(|failure| {
            let hint = format!("{}. Then run the same command again: it does the rest", failure.hint());
            Failure::unavailable(format!("{failure}, after {} endpoint(s)", tally.imported), hint)
        })?;
        if created {
            tally.imported += 1;
        } else {
            tally.differ.push((*id).clone());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(false)
}

fn is_same(id: &EndpointId, stored: &Stored, document: &EndpointDocument) -> bool {
    stored.document(id).is_ok_and(|stored| stored == *document)
}

fn told(tally: &Tally, stopped: bool, as_json: bool) -> Exit {
    if as_json {
        output::json(&json!({
            "imported": tally.imported,
            "there_before": tally.there,
            "different": tally.differ,
            "complete": !stopped,
        }));
    } else {
        output::note(&format!("{} endpoint(s) imported, {} there before", tally.imported, tally.there));
        for id in tally.differ.iter().take(PROBLEMS_MAX) {
            output::note(&format!("endpoint {id} exists with another document and was left as it is"));
        }
        if tally.differ.len() > PROBLEMS_MAX {
            output::note(&format!("... and {} more", tally.differ.len() - PROBLEMS_MAX));
        }
        if stopped {
            output::note("stopped. Run the same command again: it does the rest");
        }
    }
    if stopped || !tally.differ.is_empty() { Exit::No } else { Exit::Done }
}

fn text(file: &Path) -> Result<String, Failure> {
    let read =
        if file == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    read.map_err(|error| Failure::usage(format!("reading {} failed: {error}", file.display()), "check the path"))
}

/// Reads and checks all documents of a file. Tells of every problem at once, but never prints a document.
fn parse(text: &str) -> Result<Documents, Failure> {
    let mut entries = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value {
            Ok(Value::Array(values)) => entries.extend(values),
            Ok(value) => entries.push(value),
            Err(error) => {
                let place = format!("line {}, column {}", error.line(), error.column());
                return Err(Failure::usage(format!("the file is not JSON at {place}"), FORM));
            }
        }
    }
    if entries.is_empty() || entries.len() > ENDPOINTS_MAX {
        let count = entries.len();
        return Err(Failure::usage(format!("the file has {count} endpoints, not 1 to {ENDPOINTS_MAX}"), FORM));
    }
    let (mut documents, mut problems) = (Documents::new(), Vec::new());
    for (index, entry) in entries.into_iter().enumerate() {
        match one(entry) {
            Ok((id, document)) => {
                if documents.insert(id.clone(), document).is_some() {
                    problems.push(format!("entry {}: {id} is there twice", index + 1));
                }
            }
            Err(failure) => problems.push(format!("entry {}: {failure}", index + 1)),
        }
    }
    if problems.is_empty() { Ok(documents) } else { Err(refused(problems, FORM)) }
}

/// The failure of a file that is refused as a whole.
fn refused(mut problems: Vec<String>, hint: impl Into<String>) -> Failure {
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    problems.truncate(PROBLEMS_MAX);
    if more > 0 {
        problems.push(format!("... and {more} more"));
    }
    Failure::usage(format!("nothing was imported:\n{}", problems.join("\n")), hint)
}

/// What an entry looks like.
const FORM: &str =
    r#"each entry is a document with its id: {"id": "shop", "provider": "stripe", "secrets": ["whsec_..."]}"#;

fn one(entry: Value) -> Result<(EndpointId, EndpointDocument), Failure> {
    let not_an_entry = |what: &str| Failure::usage(what, FORM);
    let Value::Object(mut fields) = entry else { return Err(not_an_entry("not a JSON object")) };
    let Some(Value::String(id)) = fields.remove("id") else { return Err(not_an_entry("it has no `id`")) };
    let id = parse_id(&id)?;
    let named = |what: String| Failure::usage(format!("{id}: {what}"), FORM);
    let document =
        document(fields).ok_or_else(|| named("a field is missing, unknown, or of another type".to_owned()))?;
    check(&id, &document).map_err(|failure| named(failure.to_string()))?;
    Ok((id, document))
}

/// The document. An error of the parser could repeat a secret, so it is not told.
fn document(fields: Map<String, Value>) -> Option<EndpointDocument> {
    serde_json::from_value(Value::Object(fields)).ok()
}
