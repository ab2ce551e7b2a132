//! `hookonce dev`: runs the whole inbox on this machine until Ctrl-C, or until a command ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use aws_sdk_dynamodb::types::ScalarAttributeType;
use clap::Args;
use error_reporter::Report;
use hookonce_aws::DynamoStore;
use hookonce_local::backends::DataLocation;
use hookonce_local::clients;
use hookonce_local::tables::OwnTableShape;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::handlers::tables::aliases;
#[cfg(unix)]
use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};

use super::endpoint;
use super::providers::find;
use crate::console::{Console, PortChoice, Site};
use crate::dev::capture::{Capturer, Limits};
use crate::dev::forward;
use crate::dev::handlers;
use crate::dev::life;
use crate::dev::life::Watchers;
use crate::dev::own_handlers::{HandlerCommand, HandlerCommands, OwnHandlers};
use crate::dev::stack::{Functions, PREFIX, Servers, Stack, StackConfig, StackError, environment, own_tables};
use crate::documents::route_set;
use crate::documents::{self, Folder, parse_id};
use crate::failure::{Exit, Failure};
use crate::output::interrupt::Stop;
use crate::output::{self, hints};
use crate::stack::connection::{RunningStack, StackParts};
use crate::stack::pauses::{PausedFunction, Switches};
use crate::stack::status::Records;
use crate::stack::target::{DataFolder, write};
use crate::stack::traffic::Traffic;
use crate::stack::watch::Looking;

/// The endpoints of a new folder, with their providers: one for each sample handler.
const FIRST_ENDPOINTS: [(&str, &str); 3] = [("stripe", "stripe"), ("whatsapp", "meta_whatsapp"), ("github", "github")];

/// The longest beginning of names, in bytes. The name of a queue has at most 80.
const PREFIX_BYTES_MAX: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port; the console takes the next.
    #[arg(long, default_value_t = 8787)]
    port: u16,
    /// Print what happens as lines of JSON.
    #[arg(long)]
    json: bool,
    /// Public URL of a tunnel to this machine.
    ///
    /// Such as `https://abc.ngrok.app`. It is the URL that providers sign.
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public: Option<String>,
    /// Forward each event to this service, with a key.
    ///
    /// At least once. It writes a destination and a route set, and only into a folder that has no route set.
    #[arg(long, value_name = "URL")]
    forward: Option<String>,
    /// Keep 1,000 requests here for `hookonce verify`.
    ///
    /// Without this, the last 50 are kept, in the stack's folder.
    /// Credentials in headers and addresses are not kept.
    #[arg(long, value_name = "DIR", conflicts_with = "functions")]
    capture: Option<PathBuf>,
    /// URL of another process that runs the functions.
    ///
    /// Such as `cargo lambda watch`, which listens at http://127.0.0.1:9000.
    #[arg(long, value_name = "URL", conflicts_with = "port")]
    functions: Option<String>,
    /// Run each function as a process from this folder.
    ///
    /// It has the binaries, as target/release has.
    #[arg(long, value_name = "DIR", conflicts_with = "functions")]
    binaries: Option<PathBuf>,
    /// Create a table, such as orders=shop:S,order:N.
    ///
    /// It is for your handlers; may be repeated. Its form is ALIAS=PARTITION:TYPE[,SORT:TYPE] with the types S, N and B. A table that exists stays as it is.
    #[arg(long = "table", value_name = "ALIAS=KEY", value_parser = own_table)]
    tables: Vec<OwnTableShape>,
    /// Run COMMAND as the function NAME of routes.
    ///
    /// May be repeated.
    #[arg(long = "handler", value_name = "NAME=COMMAND", value_parser = HandlerCommand::parse)]
    handlers: Vec<HandlerCommand>,
    /// Restart handlers when a file below it changes.
    ///
    /// By default, what their commands name is watched.
    #[arg(long, value_name = "DIR", requires = "handlers")]
    handler_watch: Option<PathBuf>,
    /// Use this DynamoDB, not the embedded one.
    #[arg(long, value_name = "URL", requires = "sqs_url", hide_short_help = true)]
    dynamodb_url: Option<String>,
    /// Use this SQS, not the embedded one.
    #[arg(long, value_name = "URL", requires = "dynamodb_url", hide_short_help = true)]
    sqs_url: Option<String>,
    /// Begin the names on those servers with NAME.
    ///
    /// So several stacks can use them.
    #[arg(long, value_name = "NAME", requires = "dynamodb_url", default_value = PREFIX, value_parser = prefix, hide_short_help = true)]
    prefix: String,
    #[command(flatten)]
    folder: DataFolder,
    /// Run this when the inbox is ready, and end with it.
    ///
    /// It is for tests.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Reads a table of your own: `orders=shop:S` or `orders=shop:S,order:N`.
fn own_table(text: &str) -> Result<OwnTableShape, String> {
    let form = || "it must be ALIAS=NAME:TYPE or ALIAS=NAME:TYPE,NAME:TYPE with the types S, N or B".to_owned();
    let (alias, key) = text.split_once('=').ok_or_else(form)?;
    let alias = TableAlias::parse(alias).map_err(|error| error.to_string())?;
    let part = |text: &str| {
        let (name, kind) = text.split_once(':').filter(|(name, _)| !name.is_empty())?;
        let kind = match kind {
            "S" => ScalarAttributeType::S,
            "N" => ScalarAttributeType::N,
            "B" => ScalarAttributeType::B,
            _ => return None,
        };
        Some((name.to_owned(), kind))
    };
    let mut parts = key.split(',').map(part);
    let partition = parts.next().flatten().ok_or_else(form)?;
    let sort = parts.next().map(|sort| sort.ok_or_else(form)).transpose()?;
    let alone = parts.next().is_none();
    alone.then(|| OwnTableShape { alias: alias.to_string(), partition, sort }).ok_or_else(form)
}

/// Reads the origin of a tunnel.
fn public_url(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.port().is_none());
    let host = url.filter(|url| url.path() == "/" && url.query().is_none() && url.username().is_empty());
    let host = host.and_then(|url| Some(format!("https://{}", url.host_str()?)));
    host.ok_or_else(|| "it must be https:// and a name, without a port and a path".to_owned())
}

/// Reads the beginning of names that both DynamoDB and SQS take.
fn prefix(text: &str) -> Result<String, String> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_prefix = (1..=PREFIX_BYTES_MAX).contains(&text.len()) && text.chars().all(is_taken);
    is_prefix
        .then(|| text.to_owned())
        .ok_or_else(|| format!("it must be 1 to {PREFIX_BYTES_MAX} letters, digits, hyphens or underscores of ASCII"))
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let folder = arguments.folder;
    prepare(&folder, arguments.forward.as_deref())?;
    let (feed, printer) = life::feed(arguments.json);
    // Functions that run elsewhere may find others.
    let finds_own_handlers = arguments.functions.is_none() || !arguments.handlers.is_empty();
    let public_url = arguments.public;
    let is_named = arguments.capture.is_some();
    let capturer = match arguments.functions {
        Some(_) => None,
        None => Some(Arc::new(capturer(&folder, arguments.capture, public_url.clone())?)),
    };
    let config = StackConfig {
        dispatcher_deaths: Arc::default(),
        servers: match (arguments.dynamodb_url, arguments.sqs_url) {
            (Some(dynamodb_url), Some(sqs_url)) => Servers::At { dynamodb_url, sqs_url, prefix: arguments.prefix },
            _ => Servers::Embedded(DataLocation::Directory(folder.tables())),
        },
        functions: functions(arguments.functions, arguments.binaries, arguments.port),
        built_in: handlers::local,
        folder: folder.clone(),
        tables: arguments.tables,
        timing: Timing::standard(),
        public_url: public_url.clone(),
        feed,
        capturer: capturer.clone(),
        handlers: HandlerCommands {
            commands: arguments.handlers,
            watched: arguments.handler_watch,
            data: folder.data.clone(),
        },
    };
    let stack = Box::pin(Stack::start(config)).await.map_err(|error| {
        let hint = match error {
            StackError::Runs { .. } => "run another one beside it with --stack ./FOLDER --port PORT",
            _ => "another stack may use this port or folder: pass --port or --stack",
        };
        Failure::unavailable(Report::new(&error).to_string(), hint)
    })?;
    let console_port = if arguments.port == 0 { 0 } else { arguments.port.saturating_add(1) };
    let (console, watchers) = open_console(&folder, console_port).await?;
    let traffic = Arc::clone(&watchers.traffic);
    let running = described(&stack, public_url, finds_own_handlers, console.entrance(), capturer.as_deref());
    tokio::spawn(documents::watch(folder.clone(), arguments.json));
    tokio::spawn(route_set::watch(folder.clone(), aliases(&running.tables), arguments.json));
    let variables = environment(stack.place(), &folder, running.public_url.as_deref(), stack.own_handlers());
    write_environment(&folder, &variables)?;
    // Before anybody can see the stack or the command: whoever does may stop this process, which must then end both.
    let mut stop = Stop::watch()?;
    let records = store(&running);
    let waiting = if arguments.command.is_empty() { waiting(&folder, records.clone()).await } else { Vec::new() };
    let announcement = running.announce(&folder)?;
    if arguments.command.is_empty() {
        greet(&folder, &running, stack.own_handlers(), arguments.json);
        for sentence in waiting {
            output::note(&sentence);
        }
    }
    if let Some(capturer) = capturer.filter(|_| is_named) {
        output::note(&capturer.notice());
    }
    let printing = tokio::spawn(printer.run(records, watchers));
    let ended = over(&arguments.command, &mut stop).await;
    drop(announcement);
    // Whoever looks at the folder finds what was counted until the end.
    let saved = traffic.save();
    close(console, stack, &mut stop).await;
    printing.abort();
    ended.and_then(|exit| saved.map(|()| exit))
}

/// Ends what runs. Another Ctrl-C waits for nothing.
async fn close(console: Console, stack: Stack, stop: &mut Stop) {
    let closing = async {
        console.end().await;
        stack.shutdown().await;
    };
    tokio::select! {
        () = closing => {}
        () = stop.came() => output::note("stopped without waiting"),
    }
}

/// Writes what the folder of a stack needs before it starts.
fn prepare(folder: &DataFolder, forward: Option<&str>) -> Result<(), Failure> {
    if Folder::<EndpointId>::of(folder).ids().is_empty() {
        add_first_endpoints(folder)?;
    }
    forward.map_or(Ok(()), |url| forward::set_up(folder, url))
}

/// Keeps the latest requests, or more of them in the folder that a person names.
fn capturer(folder: &DataFolder, named: Option<PathBuf>, public_url: Option<String>) -> Result<Capturer, Failure> {
    let limits = if named.is_some() { Limits::NAMED } else { Limits::LATEST };
    Capturer::new(named.unwrap_or_else(|| folder.requests()), limits, folder.clone(), public_url)
}

/// Who runs the functions.
fn functions(url: Option<String>, binaries: Option<PathBuf>, port: u16) -> Functions {
    match (url, binaries) {
        (Some(url), _) => Functions::At(url),
        (None, Some(folder)) => Functions::Binaries { folder, port },
        (None, None) => Functions::InProcess { port },
    }
}

/// Serves the console of this stack, and says who has to learn what it shows.
async fn open_console(folder: &DataFolder, port: u16) -> Result<(Console, Watchers), Failure> {
    let watchers = Watchers { arrivals: Arc::default(), traffic: Arc::new(Traffic::of(folder)) };
    let stack = folder.connect();
    let site = Site::local(stack, Arc::clone(&watchers.arrivals), Arc::clone(&watchers.traffic));
    Ok((Console::start(site, port, PortChoice::Preferred).await?, watchers))
}

/// Waits for the end of the command. Without one, waits for Ctrl-C.
async fn over(command: &[String], stop: &mut Stop) -> Result<Exit, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        stop.came().await;
        output::note("stopping: running work ends first; press Ctrl-C again to stop at once");
        return Ok(Exit::Done);
    };
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    // With these variables of `cargo run`, a cargo within the command would build crates again.
    let is_cargos = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_cargos)) {
        command.env_remove(name);
    }
    let failed = |what: &str, error| {
        Failure::usage(format!("{program} {what}: {error}"), "check the command after --; no shell runs it")
    };
    let mut child = command.spawn().map_err(|error| failed("cannot start", error))?;
    let ended = tokio::select! {
        ended = child.wait() => ended,
        () = stop.came() => {
            output::note("stopping: the command ends first; press Ctrl-C again to stop at once");
            terminate(&child);
            tokio::select! {
                ended = child.wait() => ended,
                () = stop.came() => return Ok(Exit::No),
            }
        }
    };
    let status = ended.map_err(|error| failed("cannot be waited for", error))?;
    if !status.success() {
        output::note(&format!("{program} ended with {status}"));
    }
    Ok(if status.success() { Exit::Done } else { Exit::No })
}

/// Asks a process to end. After Ctrl-C, the terminal has asked it, too.
fn terminate(child: &Child) {
    #[cfg(unix)]
    if let Some(process) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process(process, Signal::TERM);
    }
}

/// How other commands reach the stack.
fn described(
    stack: &Stack,
    public_url: Option<String>,
    finds_own: bool,
    console_url: String,
    capturer: Option<&Capturer>,
) -> RunningStack {
    let place = stack.place();
    RunningStack {
        parts: StackParts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            inbox_table: place.resources.inbox_table.clone(),
            domain_table: place.resources.domain_table.clone(),
            queue_url: place.resources.queue.url.clone(),
            slow_queue_url: place.resources.slow_queue.url.clone(),
            effects_queue_url: place.resources.effects_queue.url.clone(),
        },
        url: stack.url().to_owned(),
        public_url,
        console_url,
        requests: capturer.map(Capturer::folder),
        dynamodb_url: place.dynamodb_url.clone(),
        sqs_url: place.sqs_url.clone(),
        tables: own_tables(&place.resources),
        handlers: finds_own.then(|| stack.own_handlers().names().map(str::to_owned).collect()),
        lambda_url: stack.own_handlers().url().map(str::to_owned),
        pid: std::process::id(),
    }
}

/// The records of the stack.
fn store(RunningStack { dynamodb_url, parts, .. }: &RunningStack) -> DynamoStore {
    DynamoStore::new(clients::dynamodb(dynamodb_url), &parts.inbox_table, &parts.domain_table)
}

/// What waits since the stack ran before, and what is paused.
async fn waiting(folder: &DataFolder, store: DynamoStore) -> Vec<String> {
    let paused = PausedFunction::ALL.into_iter().filter(|function| !Switches::begins_on(folder, *function));
    let paused = paused.map(|function| {
        let name = function.as_str();
        format!("the {name} is paused: `hookonce resume {name}`\n")
    });
    records_that_wait(store).await.into_iter().chain(paused).collect()
}

/// The embedded queues begin empty, so the relay takes each record when it is due.
async fn records_that_wait(store: DynamoStore) -> Option<String> {
    let Records { pending, waiting, effects, .. } = Records::read(Ok(store), Looking::Once).await;
    let due: Vec<_> = [pending, waiting, effects].into_iter().flatten().collect();
    let next = due.iter().filter_map(|due| due.oldest).min()?;
    let or_more = if due.iter().any(|due| due.at_least) { " or more" } else { "" };
    let count = due.iter().map(|due| due.count).sum::<u64>();
    let (noun, verb) = if count == 1 { ("record", "waits") } else { ("records", "wait") };
    let until = life::about(System.moment().now, next);
    Some(format!(
        "{count}{or_more} {noun} {verb} from before, the next is due in {until}: `hookonce list --state PENDING`\n"
    ))
}

fn add_first_endpoints(folder: &DataFolder) -> Result<(), Failure> {
    for (id, provider) in FIRST_ENDPOINTS {
        let document = endpoint::fresh(find(Catalog::built_in(), provider)?, BTreeMap::new());
        endpoint::store(folder, &parse_id(id)?, &document)?;
    }
    Ok(())
}

fn greet(folder: &DataFolder, running: &RunningStack, handlers: &OwnHandlers, as_json: bool) {
    // A program reads lines of JSON only.
    let print = if as_json { output::note } else { output::line };
    print(&format!("hookonce is running at {}", running.url));
    let origin = running.public_url.as_ref().unwrap_or(&running.url);
    for (id, document) in endpoint::read_all(folder) {
        print(&format!("  {origin}/webhooks/{id}  ({})", document.provider));
    }
    print(&format!("  console: {}", running.console_url));
    output::note("\nIn another terminal, in this folder, with `cargo hookonce` for `hookonce` unless it is installed:");
    let commands = [
        ("hookonce trigger stripe.invoice.paid --copies 3", ""),
        ("hookonce list", ""),
        ("hookonce verify --last", "  (why the latest was refused)"),
        ("hookonce endpoint rotate stripe --secret -", "  (asks for Stripe's secret)"),
        ("hookonce endpoint show github --reveal", "  (the secret for GitHub)"),
    ];
    let commands = commands.map(|(it, what)| (hints::command(&it.split(' ').collect::<Vec<_>>(), ""), what));
    let width = commands.iter().filter(|(_, what)| !what.is_empty()).map(|(it, _)| it.len()).max().unwrap_or(0);
    // Longer commands, which name a folder, explain themselves: with more beside them they would not fit a terminal.
    let has_room = commands.iter().all(|(_, what)| 2 + width + what.len() <= 80);
    for (command, what) in &commands {
        output::note(format!("  {command:width$}{}", if has_room { what } else { "" }).trim_end());
    }
    let data = std::path::absolute(&folder.data).unwrap_or_else(|_| folder.data.clone());
    output::note(&format!("Ctrl-C stops the inbox and keeps its tables, in {}\n", data.display()));
    for name in handlers.names() {
        output::note(&format!("handler {name}: a route names it {{\"lambda\": \"{name}\"}}"));
    }
    if handlers.names().next().is_some() && !folder.routes().exists() {
        output::note(
            "no route is deployed, so hookonce's sample handlers take all events, not yours:\n  hookonce route deploy routes.json",
        );
    }
}

/// Writes the environment of functions that another process runs, in the form of `cargo lambda watch --env-file`.
fn write_environment(folder: &DataFolder, variables: &[(&str, String)]) -> Result<(), Failure> {
    let lines: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    write(&folder.environment(), &lines.concat())
}
