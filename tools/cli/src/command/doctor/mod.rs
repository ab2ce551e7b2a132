//! `hookonce doctor`: the first hour. Checks what hookonce needs, and says what to do about each problem.

mod filters;
mod policies;
mod queues;
mod stack;
mod tables;
mod topics;

use std::collections::{BTreeSet, HashMap};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::routes::{Offered, RouteSet};
use serde_json::json;

use crate::dev::handlers;
use crate::documents::DocumentId;
use crate::documents::endpoints::{by_warning, some};
use crate::documents::route_set;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::hints;
use crate::records::looks::Look;
use crate::stack::connection::Connection;
use crate::stack::status::silence;
use crate::stack::target::{DataFolder, Place};

/// The port that `dev` listens on by default.
const PORT: u16 = 8_787;

/// The start of the year 2026. A clock before that is wrong.
const EARLIEST: EpochMs = EpochMs(1_767_225_600_000);

/// How long a local server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// The tools that only a deployment needs, and where they come from.
const DEPLOYMENT_TOOLS: [(&str, &[&str]); 2] = [("sam", &["--version"]), ("cargo-lambda", &["lambda", "--version"])];

/// The oldest Rust that builds hookonce.
const RUST_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// How a queue or an event source becomes what the template made it.
const REPAIR: &str =
    "docs/run/upgrade.md#a-queue-an-event-source-or-a-function-is-not-as-it-should-be has the commands";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// One line.
#[derive(Debug)]
struct Check {
    /// What was looked at.
    what: &'static str,
    /// What was seen, or why the check failed.
    seen: Result<String, Failure>,
    /// What to know although all is well.
    warnings: Vec<String>,
    /// Whether it is a tool that is not there, which is no problem here.
    is_absent: bool,
}

impl Check {
    /// A line that says what is well.
    fn new(what: &'static str, seen: Result<String, Failure>) -> Self {
        // The same as every failure does with its own text.
        Self { what, seen: seen.map(hints::pasteable), warnings: Vec::new(), is_absent: false }
    }

    /// A tool, by the first line of its version. `needed_for` says who needs it if it is not there.
    fn tool(what: &'static str, version: Option<String>, needed_for: &str) -> Self {
        let is_absent = version.is_none();
        let seen = version.map_or_else(
            || format!("not found; {needed_for}"),
            |version| version.lines().next().unwrap_or_default().to_owned(),
        );
        Self { is_absent, ..Self::new(what, Ok(seen)) }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let stack = arguments.place.connect();
    let checks = match stack.deployed() {
        Some(deployed) => Box::pin(stack::checks(deployed, &stack)).await,
        None => local(&stack).await,
    };
    if arguments.json {
        output::json(&checks.iter().map(row).collect::<Vec<_>>());
    } else {
        print(&checks);
    }
    let failures = || checks.iter().filter_map(|check| check.seen.as_ref().err());
    Ok(if failures().any(|failure| Exit::from(failure) == Exit::Unavailable) {
        Exit::Unavailable
    } else if failures().next().is_some() {
        Exit::No
    } else {
        Exit::Done
    })
}

fn row(check: &Check) -> serde_json::Value {
    match &check.seen {
        Ok(seen) => json!({ "check": check.what, "ok": true, "seen": seen, "warnings": check.warnings }),
        Err(failure) => {
            json!({ "check": check.what, "ok": false, "problem": failure.to_string(), "try": failure.hint(), "warnings": check.warnings })
        }
    }
}

fn print(checks: &[Check]) {
    let mut table = output::table(&[]);
    for check in checks {
        match &check.seen {
            Ok(seen) => {
                let look = if check.is_absent { Look::ABSENT.cell("absent") } else { Look::SOUND.cell("ok") };
                table.add_row([look, check.what.into(), seen.into()]);
            }
            Err(failure) => {
                table.add_row([Look::PROBLEM.cell("problem"), check.what.into(), failure.to_string().into()]);
            }
        }
    }
    output::print(&table);
    for check in checks {
        for warning in &check.warnings {
            output::note(&format!("{}: {warning}", check.what));
        }
        if let Err(failure) = &check.seen {
            output::note(&format!("{}: try: {}", check.what, failure.hint()));
        }
    }
}

async fn local(stack: &Connection) -> Vec<Check> {
    let folder = &stack.folder;
    let mut checks = vec![
        Check::new("clock", clock(System.moment().now)),
        Check::new("data folder", writable(folder)),
        Check::new("local stack", running(folder)),
        endpoints(stack).await,
        Check::new("destinations", documents::<DestinationId>(stack, "; their effects wait").await),
        Check::new("routes", routes(stack).await),
    ];
    checks.push(rustc(output_of("rustc", &["--version"])));
    // The build of SQLite and zstd calls it, unless the variable CC names another one.
    let c_compiler = output_of("cc", &["--version"]);
    checks.push(Check::tool("C compiler", c_compiler, "only a build needs one, named cc, for SQLite and zstd"));
    checks.extend(DEPLOYMENT_TOOLS.map(|(tool, arguments)| {
        let program = if tool == "cargo-lambda" { "cargo" } else { tool };
        let needed_for = "only a deployment of your own build needs it (docs/run/deploy.md)";
        Check::tool(tool, output_of(program, arguments), needed_for)
    }));
    checks
}

/// The compiler is new enough to build hookonce, or a project of your own.
fn rustc(version: Option<String>) -> Check {
    let too_old = version.as_deref().and_then(too_old);
    let check = Check::tool("rustc", version, "only a build needs it: https://rustup.rs");
    too_old.map_or(check, |failure| Check::new("rustc", Err(failure)))
}

fn too_old(version: &str) -> Option<Failure> {
    let numbers = |text: &str| -> Vec<u32> { text.split(['.', '-']).map_while(|part| part.parse().ok()).collect() };
    let is = version.split_whitespace().nth(1).map(numbers).unwrap_or_default();
    (is < numbers(RUST_VERSION)).then(|| {
        Failure::usage(
            format!("{version}, and hookonce needs {RUST_VERSION}"),
            "`rustup update`; in the folder of hookonce, rust-toolchain.toml lets rustup choose the right one",
        )
    })
}

fn clock(now: EpochMs) -> Result<String, Failure> {
    if now >= EARLIEST {
        return Ok(output::whole_moment(now));
    }
    Err(Failure::usage(
        format!("the clock says {}", output::whole_moment(now)),
        "set this machine's clock: otherwise every signature with a time is refused",
    ))
}

fn writable(folder: &DataFolder) -> Result<String, Failure> {
    let path = folder.data.display();
    // It does not leave a folder behind that was not there.
    let existing = folder.data.ancestors().find(|parent| parent.is_dir()).unwrap_or(std::path::Path::new("."));
    tempfile::NamedTempFile::new_in(existing).map(|_| format!("{path} can be written")).map_err(|error| {
        Failure::usage(format!("{path} cannot be written: {error}"), "choose another folder with --stack")
    })
}

/// The running stack answers, or its port is free.
fn running(folder: &DataFolder) -> Result<String, Failure> {
    let Ok(running) = folder.running() else {
        return TcpListener::bind(("127.0.0.1", PORT)).map(|_| format!("not running; port {PORT} is free")).map_err(
            |error| {
                Failure::usage(
                    format!("not running, and port {PORT} cannot be used: {error}"),
                    "start it on another port: `hookonce dev --port 0` takes a free one",
                )
            },
        );
    };
    for url in [&running.url, &running.dynamodb_url, &running.sqs_url] {
        // The URL of a server that stands in for AWS also holds this run's key.
        let address = url.trim_end_matches('/').rsplit(['/', '@']).next().unwrap_or_default();
        let connected = address.parse().ok().and_then(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).ok());
        if connected.is_none() {
            return Err(Failure::unavailable(
                format!("nothing answers at {address}, the address in stack.json"),
                "start the stack again with `hookonce dev`",
            ));
        }
    }
    Ok(format!("running at {} (process {})", running.url, running.pid))
}

/// What a person should know of endpoints that hold the same secret.
const SHARED: &str = "they share a secret, so whoever has a delivery for one can send it to another";

/// Every endpoint is valid. A secret that does more than sign for one endpoint is named with those that hold it.
async fn endpoints(stack: &Connection) -> Check {
    let mut warned = Vec::new();
    let mut of_secret: HashMap<(String, String), Vec<String>> = HashMap::new();
    if let Ok(all) = stack.all_documents::<EndpointId>().await {
        let documents = all.iter().filter_map(|(id, stored)| Some((id, stored.document(id).ok()?)));
        for (id, document) in documents {
            warned.extend(EndpointId::warnings(&document).into_iter().map(|warning| (warning, id.to_string())));
            for secret in document.secrets.into_iter().collect::<BTreeSet<_>>() {
                of_secret.entry((document.provider.clone(), secret)).or_default().push(id.to_string());
            }
        }
    }
    let shared: BTreeSet<_> = of_secret.into_values().filter(|ids| ids.len() > 1).collect();
    let shared = shared.into_iter().map(|ids| format!("{}: {SHARED}", some(&ids)));
    let silent = match silence(stack, System.moment().now).await {
        Ok(silent) => silent.unwrap_or_default().iter().map(|it| it.sentence(System.moment().now)).collect(),
        Err(failure) => vec![format!("whether one is silent is not known: {failure}; {}", failure.hint())],
    };
    let warnings = by_warning(warned).into_iter().chain(shared).chain(silent).collect();
    Check { warnings, ..Check::new("endpoints", documents::<EndpointId>(stack, "").await) }
}

/// Every stored document is one that the functions take. `waits` says what the others do.
async fn documents<I: DocumentId>(stack: &Connection, waits: &str) -> Result<String, Failure> {
    let all = stack.all_documents::<I>().await?;
    let bad: Vec<_> =
        all.iter().filter(|(id, stored)| stored.checked(*id).is_err()).map(|(id, _)| id.to_string()).collect();
    if bad.is_empty() {
        return Ok(format!("{} valid", all.len()));
    }
    let noun = I::NOUN;
    let hint = format!("`hookonce {noun} check` shows what is wrong with each");
    Err(Failure::usage(format!("not valid: {}{waits}", bad.join(", ")), hint))
}

/// The route set is one that a worker of this release can run. A running stack knows its tables. Without one, they are
/// not looked at.
async fn routes(stack: &Connection) -> Result<String, Failure> {
    let tables = route_set::tables_of(stack).await?;
    let Some(text) = route_set::stored(stack).await? else {
        return match stack.local() {
            Some(_) => Ok("none; the handlers of this build take the events".to_owned()),
            None => Err(Failure::usage(
                "there is no route set: all events wait",
                "`hookonce route deploy FILE` writes one; docs/use/routes.md describes it",
            )),
        };
    };
    let offered =
        Offered { handlers: &handlers::of(stack).names(), urls: stack.local().is_some(), tables: tables.as_ref() };
    RouteSet::check(&text, offered).map(|set| format!("{} valid", set.len())).map_err(|error| {
        let first = error.faults.first().map(ToString::to_string).unwrap_or_default();
        let hint = match stack.local() {
            Some(_) => "`hookonce route check` names each",
            None => "`hookonce route show > set.json`, then `hookonce route check set.json` names each",
        };
        Failure::usage(
            format!(
                "a worker of this release cannot run the route set, which has {}. The first is {first}",
                output::number_of(&error.faults.len(), "fault")
            ),
            hint,
        )
    })
}

/// What a program prints, if it is there and content.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = ran.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_is_too_old_is_a_problem_and_none_is_not() {
        let checked = |version: &str| rustc(Some(format!("rustc {version} (f8297e351 2026-10-28)"))).seen;
        for good in [RUST_VERSION, "1.95.0-nightly", "2.0.0"] {
            assert!(checked(good).is_ok(), "{good}");
        }
        for old in ["1.94.0", "1.9.9", "0.99.0"] {
            let error = checked(old).unwrap_err().to_string();
            assert!(error.contains(&format!("hookonce needs {RUST_VERSION}")), "{error}");
        }
        let absent = rustc(None);
        assert!(absent.is_absent && absent.seen.unwrap().contains("only a build needs it"));
        let found = Check::tool("C compiler", Some("cc 15.2\nCopyright".to_owned()), "");
        assert_eq!((found.seen.unwrap().as_str(), found.is_absent), ("cc 15.2", false));
    }
}
