//! `hookonce pull`: delivers what a deployed stack received to the stack on this machine, with today's handlers.

use std::path::PathBuf;

use clap::Args;
use hookonce_aws::DynamoStore;
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::record::Record;
use hookonce_providers::Catalog;
use hookonce_runtime::inbox::body::decompress;
use serde_json::json;

use super::providers;
use super::send::Destination;
use crate::documents::endpoints;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::hints::is_folder;
use crate::records::{Named, find, find_words};
use crate::stack::connection::Connection;
use crate::stack::target::{DATA_FOLDER, DataFolder, Place};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint id and record key, as `list --stack NAME` shows it. The endpoint may be left out, and a beginning of the
    /// key is enough for a record of the last 24 hours.
    #[arg(required = true, num_args = 1..=2, value_names = ["ENDPOINT", "KEY"])]
    record: Vec<String>,
    /// Name of the deployed stack that has the record. It is read and not changed.
    #[arg(long, value_name = "NAME")]
    stack: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Folder of the local stack that gets it.
    #[arg(long = "data", value_name = "DIR", default_value = DATA_FOLDER)]
    folder: PathBuf,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { record, stack, json, folder } = arguments;
    let folder = DataFolder { data: folder };
    // Without a stack here there is nobody to deliver to.
    folder.running()?;
    let stack = Place::named(stack).connect();
    let record = event(&stack, &stack.store().await?, &record).await?;
    let body = received(&record)?;
    let (endpoint, own_key) = record.key.parts();
    let provider = providers::find(Catalog::built_in(), &record.provider)?;
    // An endpoint of another name here, if it is the only one of its provider.
    let same = endpoints::read_all(&folder)
        .into_iter()
        .any(|(id, it)| id.as_str() == endpoint && it.provider == record.provider);
    let same = same.then(|| endpoint.to_owned());
    let here = folder_to_type(&folder);
    let mut destination = Destination::local(folder, json);
    destination.endpoint = same;
    let headers = record.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let deliveries = destination.deliver(provider, headers, body).await?;
    if json {
        output::json(&json!({ "endpoint": endpoint, "key": own_key, "deliveries": deliveries.rows() }));
    } else {
        deliveries.print();
        // The stack that was typed is another one.
        output::note(&format!(
            "\nwhat became of it here: `hookonce list --since 1h --stack {here}`, then `hookonce show ENDPOINT KEY --stack {here}`"
        ));
    }
    deliveries.exit("")
}

/// The folder as a command takes it, which would read a bare name as that of a deployed stack.
fn folder_to_type(folder: &DataFolder) -> String {
    let text = folder.data.display().to_string();
    let text = if is_folder(&text) { text } else { format!("./{text}") };
    output::quoted(&text).into_owned()
}

/// The record of an event: an effect came with it.
async fn event(stack: &Connection, store: &DynamoStore, words: &[String]) -> Result<Record, Failure> {
    let missing = |what: String| Failure::missing(what, "it may have expired: `hookonce list` shows what is there");
    let named = match find_words(stack, store, words).await? {
        Named::Whole(record) | Named::Beginning(record) => *record,
        Named::Missing => return Err(missing(format!("there is no record {}", words.join(" ")))),
    };
    let Some(parent) = named.parent.as_ref().filter(|_| named.effect.is_some()) else { return Ok(named) };
    let (endpoint, key) = parent.parts();
    let found = find(store, endpoint, key).await?;
    found.ok_or_else(|| missing(format!("the effect came with {key}, which is gone")))
}

/// The body as it was received. That of an event of a batch is the batch without the other events.
fn received(record: &Record) -> Result<Vec<u8>, Failure> {
    let (endpoint, key) = record.key.parts();
    let stored = record.body.as_deref().ok_or_else(|| {
        let hint = match record.key.kind() {
            RecordKind::Envelope => "a batch keeps none: choose one of its events, which `hookonce show` lists",
            RecordKind::Delivery | RecordKind::Event | RecordKind::Effect => "choose another record",
        };
        Failure::usage(format!("no body is kept of {endpoint} {key}"), hint)
    })?;
    decompress(stored).map_err(|_| Failure::usage("the stored body is damaged", "choose another record"))
}
