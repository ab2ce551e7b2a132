//! `hookonce route`: checks, explains, deploys and shows the route set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hookonce_aws::DocumentWritten;
use hookonce_aws::{DocumentTooLong, fits};
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_protocol::time::EpochMs;
use hookonce_providers::{Catalog, EventPart, Provider};
use hookonce_runtime::documents::DocumentKind;
use hookonce_runtime::documents::ROUTE_SET_ID;
use hookonce_runtime::documents::fault::DocumentFault;
use hookonce_runtime::routes::{Offered, Otherwise, RouteSet, RouteSetError};
use serde_json::json;

use super::providers::find;
use super::send::open_headers;
use crate::dev::handlers;
use crate::documents::parse_id;
use crate::documents::route_needs::Needs;
use crate::documents::route_set::{stored, tables_of};
use crate::documents::{StackDocuments, failed};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::codes;
use crate::records::dry_run::{Explained, Outcome, explained};
use crate::stack::connection::Connection;
use crate::stack::connection::Deployed;
use crate::stack::target::{Place, text, write};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a route set: every fault with its place.
    Check(Check),
    /// Say which route takes an event, and why each other one does not.
    Explain(Explain),
    /// Make a route set the one in use, locally or with --stack.
    Deploy(Deploy),
    /// Print the route set in use, locally or with --stack.
    Show(Show),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Route set, as JSON [default: the local stack's].
    file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Endpoint id.
    #[arg(long, value_name = "ID")]
    endpoint: String,
    /// File with the body of a delivery.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Header of the delivery, such as x-github-event:push; may be repeated.
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// Provider of an endpoint that the stack does not have.
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// Route set to explain; the stack's if absent.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Deploy {
    /// Route set, as JSON.
    file: PathBuf,
    #[command(flatten)]
    target: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    target: Place,
}

pub(crate) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Check(arguments) => check(&arguments).await,
        Command::Explain(arguments) => explain(&arguments).await,
        Command::Deploy(arguments) => deploy(&arguments).await,
        Command::Show(arguments) => show(&arguments.target).await,
    }
}

/// A set for a worker of this place.
fn parse(text: &str, path: &Path, stack: &Connection) -> Result<RouteSet, Failure> {
    let offered = Offered { handlers: &handlers::of(stack).names(), urls: stack.local().is_some(), tables: None };
    RouteSet::parse(text, offered).map_err(|error| refused(path, &error))
}

/// A set that the workers of this place can run. `None` for tables that nobody can be asked about.
fn checked(text: &str, stack: &Connection, tables: Option<&BTreeSet<TableAlias>>) -> Result<RouteSet, RouteSetError> {
    let offered = Offered { handlers: &handlers::of(stack).names(), urls: stack.local().is_some(), tables };
    let set = RouteSet::check(text, offered)?;
    let too_long = |error: DocumentTooLong| DocumentFault { place: "the set".to_owned(), reason: error.to_string() };
    fits(DocumentKind::Routes, text).map_err(|error| RouteSetError { faults: vec![too_long(error)] })?;
    Ok(set)
}

fn refused(path: &Path, error: &RouteSetError) -> Failure {
    let faults = error.faults.iter().map(|fault| format!("\n  {}: {}", fault.place, fault.reason));
    let what = format!("{} is refused as a whole:{}", path.display(), faults.collect::<String>());
    Failure::usage(what, "docs/use/routes.md describes each field; schemas/routes.json is for an editor")
}

async fn check(arguments: &Check) -> Result<Exit, Failure> {
    let path = match (&arguments.file, arguments.target.deployed()) {
        (Some(file), _) => file.clone(),
        (None, None) => arguments.target.folder().routes(),
        (None, Some(_)) => {
            return Err(Failure::usage("no route set is named", "pass the file that is to be deployed to the stack"));
        }
    };
    let text = text(&path)?;
    let stack = arguments.target.connect();
    let tables = tables_of(&stack).await?;
    let checked = checked(&text, &stack, tables.as_ref());
    let needs = match &checked {
        Ok(set) => Needs::of(set, &stack).await,
        Err(_) => Needs::default(),
    };
    if arguments.json {
        let faults = checked.as_ref().err().map_or(&[][..], |error| &error.faults);
        let faults: Vec<_> =
            faults.iter().map(|fault| json!({ "place": fault.place, "reason": fault.reason })).collect();
        let unchecked: Vec<_> = needs.unchecked.iter().map(|(named, _)| named).collect();
        output::json(&json!({
            "valid": faults.is_empty(), "faults": faults, "missing": needs.missing, "unchecked": unchecked,
        }));
    } else {
        match &checked {
            Ok(set) => output::line(&format!("{}: valid, {}", path.display(), output::number_of(&set.len(), "route"))),
            Err(error) => {
                for fault in &error.faults {
                    output::line(&format!("{}: {}: {}", path.display(), fault.place, fault.reason));
                }
                output::note("the set is refused as a whole; docs/use/routes.md describes each field");
            }
        }
    }
    needs.print();
    Ok(if checked.is_ok() && needs.missing.is_empty() { Exit::Done } else { Exit::No })
}

/// The set to explain.
async fn explained_set(arguments: &Explain, connection: &Connection) -> Result<RouteSet, Failure> {
    match (&arguments.routes, arguments.target.deployed()) {
        (Some(path), _) => parse(&text(path)?, path, connection),
        (None, Some(stack)) => match stored(connection).await? {
            Some(text) => parse(&text, Path::new(&format!("the set of {stack}")), connection),
            None => Err(Failure::usage(format!("{stack} has no route set"), "pass one with --routes FILE")),
        },
        (None, None) => {
            let path = arguments.target.folder().routes();
            if !path.exists() {
                let place = format!("this folder has no route set: there is no {}", path.display());
                return Err(Failure::usage(place, "pass one with --routes FILE, or write that file"));
            }
            parse(&text(&path)?, &path, connection)
        }
    }
}

async fn explain(arguments: &Explain) -> Result<Exit, Failure> {
    let endpoint: EndpointId = parse_id(&arguments.endpoint)?;
    let stack = arguments.target.connect();
    let set = explained_set(arguments, &stack).await?;
    let (provider, tenant) = if let Some(provider) = &arguments.provider {
        (find(Catalog::built_in(), provider)?, None)
    } else {
        let stored = stack.documents().await?.find(&endpoint).await?;
        let document = stored.document(&endpoint)?;
        (find(Catalog::built_in(), &document.provider)?, document.tenant)
    };
    let tenant = tenant.unwrap_or_else(|| endpoint.clone().into());
    let body = fs::read(&arguments.file).map_err(|error| {
        Failure::usage(format!("reading {} failed: {error}", arguments.file.display()), "check the path")
    })?;
    let headers: BTreeMap<_, _> = open_headers(&arguments.header, provider)?;
    let event = |part| event(part, &endpoint, &tenant, provider, &headers);
    let events: Vec<_> = provider.split(&body, &headers).into_iter().map(event).collect();
    let handlers = handlers::of(&stack);
    let explained: Vec<_> = events.iter().map(|event| explained(&handlers, &set, event)).collect();
    if arguments.json {
        output::json(&explained);
    } else {
        explained.iter().for_each(print);
        if !provider.type_is_signed() {
            let name = provider.name();
            output::note(&format!(
                "{name} does not sign the type: whoever holds one signed body can send it as another type"
            ));
            output::note("so events of all types share one `fact` here: choose paths whose values differ");
        }
    }
    let fails =
        explained.iter().any(|explained| matches!(explained.outcome, Outcome::FailsWith(_) | Outcome::WaitsBecause(_)));
    Ok(if fails || explained.is_empty() { Exit::No } else { Exit::Done })
}

fn event(
    part: EventPart,
    endpoint: &EndpointId,
    tenant: &Tenant,
    provider: &Provider,
    headers: &BTreeMap<String, String>,
) -> Event {
    Event {
        version: EVENT_VERSION,
        record: part.key.record_key(endpoint),
        endpoint: endpoint.clone(),
        tenant: tenant.clone(),
        provider: provider.id().to_owned(),
        key: part.key.as_str().to_owned(),
        event_type: part.event_type,
        received_at: EpochMs(0),
        generation: 0,
        headers: headers.clone(),
        body: part.body,
    }
}

fn print(explained: &Explained) {
    output::line(&format!("event {} of type {}", output::shown(&explained.key), output::shown(&explained.event_type)));
    let by = explained
        .route
        .as_ref()
        .map_or_else(|| "no route takes it".to_owned(), |name| format!("route \"{name}\" takes it"));
    let outcome = match &explained.outcome {
        Outcome::Ignored => "it ends as IGNORED".to_owned(),
        Outcome::WaitsBecause(missing) => format!("it waits: {}", output::shown(missing)),
        Outcome::HandledFor(consumer) => format!("the consumer {consumer} remembers it"),
        Outcome::FailsWith(code) => format!("it fails with {code}; {}", codes::describe(code)),
    };
    output::line(&format!("  {by}; {outcome}"));
    if let Some(handler) = &explained.handler {
        let fact = if explained.domain_key.is_none() { ", and names the fact" } else { "" };
        output::line(&format!("  {} plans{fact}", output::shown(handler)));
    }
    if !explained.forward.is_empty() {
        output::line(&format!("  goes to {}, if the event is not ignored", explained.forward.join(", ")));
    }
    if let Some(key) = &explained.domain_key {
        output::line(&format!("  domain key {}", output::shown(key)));
    }
    for route in &explained.routes {
        let why = route.why.as_deref().unwrap_or("fits");
        output::line(&format!("  {}: {}", output::shown(&route.name), output::shown(why)));
    }
}

async fn show(target: &Place) -> Result<Exit, Failure> {
    let stack = target.connect();
    if let Some(text) = stored(&stack).await? {
        output::line(text.trim_end());
        let offered =
            Offered { handlers: &handlers::of(&stack).names(), urls: target.deployed().is_none(), tables: None };
        let Err(error) = RouteSet::parse(&text, offered) else { return Ok(Exit::Done) };
        output::note(&format!("this set is refused, so all events wait: {error}"));
        output::note("`hookonce route check` names each fault of a file");
        return Ok(Exit::No);
    }
    output::note(match target.deployed() {
        None => "there is no route set: the handlers of this build are asked in their order",
        Some(_) => "there is no route set: all events wait",
    });
    output::note("`hookonce route deploy FILE` makes a set the one in use; docs/use/routes.md describes it");
    Ok(Exit::No)
}

async fn deploy(arguments: &Deploy) -> Result<Exit, Failure> {
    let text = text(&arguments.file)?;
    let stack = arguments.target.connect();
    let tables = tables_of(&stack).await?;
    let set = checked(&text, &stack, tables.as_ref()).map_err(|error| refused(&arguments.file, &error))?;
    if set.otherwise() == Otherwise::Ignore {
        output::note("events that no route takes will end as IGNORED");
    }
    Needs::of(&set, &stack).await.print();
    if let Some(deployed) = stack.deployed() {
        return deploy_to(deployed, &text).await;
    }
    let path = arguments.target.folder().routes();
    write(&path, &text)?;
    output::note(&format!(
        "{} has {}; a running stack takes them over within a second",
        path.display(),
        output::number_of(&set.len(), "route")
    ));
    Ok(Exit::Done)
}

async fn deploy_to(stack: &Deployed, text: &str) -> Result<Exit, Failure> {
    let documents = StackDocuments::open(stack).await?;
    let (table, kind) = (&documents.table, DocumentKind::Routes);
    let read = table.get(kind, ROUTE_SET_ID).await.map_err(|error| failed(&error))?;
    let change = documents.change().await?;
    let read = read.as_ref().map(|read| read.text.as_str());
    let written = table.put(kind, ROUTE_SET_ID, read, text, &change).await;
    let again = ". `hookonce route show` prints the set in use";
    match written.map_err(|error| failed(&error).with("; if the write was sent, the set may be in use", again))? {
        DocumentWritten::Done => {
            output::note("the set is in use within a minute");
            Ok(Exit::Done)
        }
        DocumentWritten::Overtaken | DocumentWritten::Absent => Err(Failure::unavailable(
            "somebody else deployed a route set at the same moment; nothing was written",
            "look at it with `hookonce route show`, then deploy again",
        )),
    }
}
