//! `hookonce dev`: runs the whole inbox on this machine until Ctrl-C.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use error_reporter::Report;
use hookonce_local::backends::DataLocation;
use hookonce_local::clients;
use hookonce_local::tables::Place;
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_runtime::aws::DynamoStore;

use super::endpoint;
use super::providers::find;
use crate::failure::{Exit, Failure};
use crate::life;
use crate::output;
use crate::stack::{Functions, Servers, Stack, StackConfig};
use crate::target::{DataFolder, RunningStack, write};

/// The endpoints of a new folder, with their providers: one for each built-in handler.
const FIRST_ENDPOINTS: [(&str, &str); 3] = [("stripe", "stripe"), ("whatsapp", "meta_whatsapp"), ("github", "github")];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port that receives webhooks.
    #[arg(long, default_value_t = 8787)]
    port: u16,
    /// Print deliveries and outcomes as lines of JSON.
    #[arg(long)]
    json: bool,
    /// Print the metrics of each invocation, as CloudWatch EMF JSON.
    #[arg(long)]
    metrics: bool,
    /// Let another process run the functions, such as `cargo lambda watch` at http://127.0.0.1:9000.
    #[arg(long, value_name = "URL", conflicts_with = "port")]
    functions: Option<String>,
    /// Run each function as a separate process, from the binaries in this folder, such as target/release.
    #[arg(long, value_name = "DIR", conflicts_with = "functions")]
    binaries: Option<PathBuf>,
    /// Use this DynamoDB instead of the embedded one.
    #[arg(long, value_name = "URL", requires = "sqs_url")]
    dynamodb_url: Option<String>,
    /// Use this SQS instead of the embedded one.
    #[arg(long, value_name = "URL", requires = "dynamodb_url")]
    sqs_url: Option<String>,
    #[command(flatten)]
    folder: DataFolder,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let folder = arguments.folder;
    if endpoint::ids(&folder).is_empty() {
        for (id, provider) in FIRST_ENDPOINTS {
            let document = endpoint::fresh(find(Catalog::built_in(), provider)?, BTreeMap::new());
            endpoint::store(&folder, &endpoint::parse_id(id)?, &document)?;
        }
    }
    let show_metrics = arguments.metrics;
    let timing = Timing::standard();
    let (feed, printer) = life::feed(arguments.json);
    let config = StackConfig {
        servers: match (arguments.dynamodb_url, arguments.sqs_url) {
            (Some(dynamodb_url), Some(sqs_url)) => Servers::At { dynamodb_url, sqs_url },
            _ => Servers::Embedded(DataLocation::Directory(folder.tables())),
        },
        functions: match (arguments.functions, arguments.binaries) {
            (Some(url), _) => Functions::At(url),
            (None, Some(folder)) => Functions::Binaries { folder, port: arguments.port },
            (None, None) => Functions::InProcess { port: arguments.port },
        },
        endpoints: folder.endpoints().folder().to_owned(),
        timing,
        feed,
        metrics: Arc::new(move |line| {
            if show_metrics {
                output::note(line);
            }
        }),
    };
    let stack = Box::pin(Stack::start(config)).await.map_err(|error| {
        Failure::unavailable(
            Report::new(&error).to_string(),
            "another stack may use this port or folder: pass --port or --data",
        )
    })?;
    let place = stack.place();
    write_environment(&folder, place)?;
    let running = RunningStack {
        url: stack.url().to_owned(),
        dynamodb_url: place.dynamodb_url.clone(),
        sqs_url: place.sqs_url.clone(),
        queue_url: place.resources.queue.url.clone(),
        inbox_table: place.resources.inbox_table.clone(),
        domain_table: place.resources.domain_table.clone(),
        index_shards_read: timing.shards_read,
        pid: std::process::id(),
    };
    let announcement = running.announce(&folder)?;
    greet(&folder, &running, arguments.json);
    let store = DynamoStore::new(clients::dynamodb(&running.dynamodb_url), running.inbox_table, running.domain_table);
    let printing = tokio::spawn(printer.run(store));
    stopped().await;
    output::note("stopping: running work ends first; press Ctrl-C again to stop at once");
    drop(announcement);
    tokio::select! {
        () = stack.shutdown() => {}
        () = stopped() => output::note("stopped without waiting"),
    }
    printing.abort();
    Ok(Exit::Done)
}

fn greet(folder: &DataFolder, running: &RunningStack, as_json: bool) {
    // A program reads lines of JSON only.
    let say = if as_json { output::note } else { output::line };
    say(&format!("hookonce is running at {}", running.url));
    for (id, document) in endpoint::read_all(folder) {
        say(&format!("  {}/webhooks/{id}  ({})", running.url, document.provider));
    }
    output::note("\nIn another terminal:");
    output::note("  hookonce trigger stripe.invoice.paid --copies 3");
    output::note("  hookonce list");
    output::note("  hookonce endpoint show stripe --reveal");
    output::note("Ctrl-C stops the inbox and keeps its tables.\n");
}

/// Writes the environment of functions that another process runs, in the form of `cargo lambda watch --env-file`.
fn write_environment(folder: &DataFolder, place: &Place) -> Result<(), Failure> {
    let variables = place.environment(folder.endpoints().folder());
    let lines: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    write(&folder.environment(), &lines.concat())
}

/// Waits for Ctrl-C or SIGTERM.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
