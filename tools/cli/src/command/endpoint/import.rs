//! `hookonce endpoint import`: adds many endpoints from a file.
//!
//! All of them are checked before the first one is written. An endpoint that is there already is left alone, or replaced
//! with `--replace`, on condition of the document that was read: so a run that was stopped goes on when the command is
//! run again, and no document of somebody else is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::future::join_all;
use hookonce_protocol::key::EndpointId;
use hookonce_providers::Catalog;
use hookonce_runtime::documents::document::EndpointDocument;
use serde_json::{Map, Value, json};

use crate::command::providers::find;
use crate::documents::endpoints::{by_warning, check_secret};
use crate::documents::{DocumentId as _, DocumentStore, Stored, parse_id, text_of};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt::Interrupt;
use crate::stack::target::Place;

/// The most endpoints in a file.
const ENDPOINTS_MAX: usize = 10_000;

/// How many are written at a time.
const WRITES_MAX: usize = 16;

/// How to go on after a failure.
const AGAIN: &str = ". Then run the same command again: it does the rest";

/// The most problems that are printed.
const PROBLEMS_MAX: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint documents, each with its `id`: one JSON object in each line, or an array. `-` reads standard input.
    file: PathBuf,
    /// Replace the documents of endpoints that exist, with their secrets.
    #[arg(long)]
    replace: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// A document to write, and the one that it replaces.
type Fresh<'a> = (&'a EndpointId, String, Option<&'a Stored>);

type Documents = BTreeMap<EndpointId, EndpointDocument>;

/// The results for the endpoints of a file.
#[derive(Debug, Default)]
struct Tally {
    imported: usize,
    replaced: usize,
    there: usize,
    differ: Vec<EndpointId>,
    /// What a person should know of those that are there now.
    warnings: Vec<String>,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let documents = parse(&text(&arguments.file)?)?;
    let stack = arguments.place.connect();
    let store = stack.documents::<EndpointId>().await?;
    let mut interrupt = Interrupt::watch()?;
    let mut tally = Tally::default();
    let existing = tokio::select! {
        biased;
        () = interrupt.wait() => {
            print_summary(&tally, false, arguments.json);
            return Ok(stopped());
        }
        found = store.all() => found?,
    };
    let mut fresh = Vec::new();
    for (id, document) in &documents {
        match existing.get(id) {
            None => fresh.push((id, text_of(document), None)),
            Some(stored) if is_same(id, stored, document) => tally.there += 1,
            Some(stored) if arguments.replace => fresh.push((id, text_of(document), Some(stored))),
            Some(_) => tally.differ.push(id.clone()),
        }
    }
    check_sizes(&*store, &fresh)?;
    let warned = documents.iter().flat_map(|(id, document)| {
        EndpointId::warnings(document).into_iter().map(move |warning| (warning, id.to_string()))
    });
    tally.warnings = by_warning(warned);
    let written = write(&*store, &fresh, &arguments, &mut tally, interrupt).await;
    let is_complete = matches!(written, Ok(true));
    print_summary(&tally, is_complete, arguments.json);
    written?;
    Ok(match (is_complete, tally.differ.is_empty()) {
        (false, _) => stopped(),
        (true, false) => Exit::No,
        (true, true) => Exit::Done,
    })
}

/// Refuses documents that are too large to be stored. Nothing is written yet.
fn check_sizes(store: &dyn DocumentStore<EndpointId>, fresh: &[Fresh<'_>]) -> Result<(), Failure> {
    let too_large = |(id, text, _): &Fresh<'_>| Some((id.to_string(), store.fits(text).err()?));
    let too_large: Vec<_> = fresh.iter().filter_map(too_large).collect();
    let Some((_, first)) = too_large.first() else { return Ok(()) };
    let hint = first.hint().to_owned();
    Err(refused(too_large.iter().map(|(id, failure)| format!("{id}: {failure}")).collect(), hint))
}

/// Writes the new documents. False if the person stopped it.
async fn write(
    store: &dyn DocumentStore<EndpointId>,
    fresh: &[Fresh<'_>],
    arguments: &Arguments,
    tally: &mut Tally,
    interrupt: Interrupt,
) -> Result<bool, Failure> {
    let length = u64::try_from(fresh.len()).unwrap_or(0);
    let bar = if arguments.json { indicatif::ProgressBar::hidden() } else { output::bar("import", length) };
    for part in fresh.chunks(WRITES_MAX) {
        if interrupt.came() {
            return Ok(false);
        }
        let written = join_all(part.iter().map(|(id, text, read)| async move {
            match read {
                None => store.create(id, text).await,
                Some(read) => store.replace(id, read, text).await.map(|()| true),
            }
        }))
        .await;
        let mut failed = None;
        for ((id, _, read), written) in part.iter().zip(written) {
            match written {
                Ok(true) if read.is_some() => tally.replaced += 1,
                Ok(true) => tally.imported += 1,
                Ok(false) => tally.differ.push((*id).clone()),
                Err(failure) => failed = Some(failure),
            }
            bar.inc(1);
        }
        if let Some(failure) = failed {
            return Err(failure.with("", AGAIN));
        }
    }
    bar.finish_and_clear();
    Ok(true)
}

fn is_same(id: &EndpointId, stored: &Stored, document: &EndpointDocument) -> bool {
    stored.document(id).is_ok_and(|stored| stored == *document)
}

/// Prints what was done, whether or not it is all.
fn print_summary(tally: &Tally, is_complete: bool, as_json: bool) {
    if as_json {
        output::json(&json!({
            "imported": tally.imported,
            "replaced": tally.replaced,
            "there_before": tally.there,
            "different": tally.differ,
            "complete": is_complete,
            "warnings": tally.warnings,
        }));
        return;
    }
    let replaced = if tally.replaced > 0 { format!(", {} replaced", tally.replaced) } else { String::new() };
    output::note(&format!(
        "{} imported{replaced}, {} existed already",
        output::number_of(&tally.imported, "endpoint"),
        tally.there
    ));
    for id in tally.differ.iter().take(PROBLEMS_MAX) {
        output::note(&format!(
            "endpoint {id} exists with another document and was left as it is: --replace replaces it"
        ));
    }
    if tally.differ.len() > PROBLEMS_MAX {
        output::note(&format!("... and {} more", tally.differ.len() - PROBLEMS_MAX));
    }
    for warning in &tally.warnings {
        output::note(&format!("note: {warning}"));
    }
}

fn stopped() -> Exit {
    output::note("stopped. Run the same command again: it does the rest");
    Exit::No
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
    let id: EndpointId = parse_id(&id)?;
    let named = |what: String| Failure::usage(format!("{id}: {what}"), FORM);
    let document =
        document(fields).ok_or_else(|| named("a field is missing, unknown, or of another type".to_owned()))?;
    id.check(&document).map_err(|failure| named(failure.to_string()))?;
    let provider = find(Catalog::built_in(), &document.provider)?;
    let checked = document.secrets.iter().try_for_each(|secret| check_secret(provider, secret));
    checked.map_err(|failure| named(failure.to_string()))?;
    Ok((id, document))
}

/// The document. An error of the parser could repeat a secret, so it is not told.
fn document(fields: Map<String, Value>) -> Option<EndpointDocument> {
    serde_json::from_value(Value::Object(fields)).ok()
}
