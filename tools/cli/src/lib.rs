//! `hookonce`: the command line, as a library, so that a project can build it with handlers of its own.
//!
//! ```no_run
//! # fn handlers() -> hookonce_runtime::handlers::Handlers { hookonce_runtime::handlers::Handlers::new() }
//! #[tokio::main]
//! async fn main() -> std::process::ExitCode {
//!     hookonce::run(handlers).await
//! }
//! ```
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 success, 1 rejected or not found, 2
//! usage error, 3 unavailable.

#![allow(clippy::doc_markdown, reason = "the doc comments of arguments are help texts, read in a terminal")]

pub mod bill;
mod command;
mod console;
mod dev;
mod documents;
mod failure;
mod output;
#[cfg(test)]
mod pages;
mod records;
mod stack;
mod storm;

use clap::{FromArgMatches as _, Parser, Subcommand};
use failure::{Exit, Failure};
use hookonce_protocol::trail::Operation;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::environment;
use hookonce_runtime::handlers::Handlers;
use records::dry_run::{KeepMisfits, is_of_dry_run};
use records::operate::Kind;
use tracing::Metadata;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, dynamic_filter_fn, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What a person types.
const NAME: &str = "hookonce";

/// What is logged unless `RUST_LOG` names another filter. Where AWS is not set up, `aws_config` logs whole answers of
/// the services that it asks for a region; the failure says what to do.
const LOG: &str = "warn,aws_config=off,dynoxide=off,rustack=off";

/// A webhook inbox that applies every event exactly once.
#[derive(Debug, Parser)]
#[command(name = NAME, version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the whole inbox, race deliveries at it, count the results.
    Demo(command::demo::Arguments),
    /// Send your own endpoint what its provider really sends.
    Storm(command::storm::Arguments),
    /// Run the whole inbox on this machine until Ctrl-C.
    Dev(command::dev::Arguments),
    /// Show a stack in a browser on this machine.
    Console(command::console::Arguments),
    /// Sign a file as its provider would, and deliver it.
    Send(command::send::Arguments),
    /// Deliver a sample event, signed as its provider would.
    Trigger(command::trigger::Arguments),
    /// Run what a deployed stack received on this machine.
    Pull(command::pull::Arguments),
    /// Hand an operation of your own to an endpoint, under a key.
    Submit(command::submit::Arguments),
    /// Check the signature of a request, and explain failures.
    Verify(command::verify::Arguments),
    /// Print what a code or an alarm means and what to do.
    Explain(command::explain::Arguments),
    /// List the providers in the catalog, or show one.
    Providers(command::providers::Arguments),
    /// Manage endpoints and their secrets.
    #[command(subcommand)]
    Endpoint(command::endpoint::Command),
    /// Manage destinations of effects and their secrets.
    #[command(subcommand)]
    Destination(command::destination::Command),
    /// Manage routes: which event goes to which handler.
    #[command(subcommand)]
    Route(command::route::Command),
    /// List records and their states.
    List(command::list::Arguments),
    /// Show the timeline of one record.
    Show(command::show::Arguments),
    /// Let dead or ignored records run again, or force applied ones.
    Replay(command::replay::Arguments),
    /// Discard DEAD records: they never run again.
    Discard(records::operate::OrderArguments),
    /// After a restore: end what may have been applied or called already.
    ///
    /// What waits, died or was ignored ends as STALE, and effects as `UNKNOWN_OUTCOME`.
    Doubt(records::operate::OrderArguments),
    /// Erase stored bodies for good, and keep the records.
    ///
    /// The record stays, so duplicates are still recognised.
    Redact(command::redact::Arguments),
    /// Pause the worker or the dispatcher: what waits loses nothing.
    Pause(command::pause::Pause),
    /// Resume what was paused.
    Resume(command::pause::Resume),
    /// Show whether anything needs a person.
    Status(command::status::Arguments),
    /// Bring a stack on AWS to a template that deploy.sh has packaged.
    Deploy(command::deploy::Arguments),
    /// Check a stack, and say how to fix each problem.
    Doctor(command::doctor::Arguments),
    /// Count records by state, endpoint, type and error.
    Stats(command::stats::Arguments),
    /// Print the monthly bill of a stack, beside what other designs cost.
    Cost(command::cost::Arguments),
    /// Check the protocol's invariants on all records.
    Audit(command::audit::Arguments),
    /// Run stored deliveries through this build's handlers, and compare.
    Drill(command::drill::Arguments),
    /// Create a project of your own, with a handler and its tests.
    New(command::new::Arguments),
    /// Print the completions of a shell.
    #[command(hide = true)]
    Completions(command::completions::Arguments),
    /// Write the manual pages.
    #[command(hide = true)]
    Man(command::man::Arguments),
}

/// Runs the command line with the arguments of this process. `dev`, `drill` and `route` take these handlers. Without
/// any, they take the samples on a laptop. `demo` always shows the samples.
pub async fn run(handlers: fn() -> Handlers) -> std::process::ExitCode {
    dev::handlers::take(handlers);
    let typed = output::help::command().try_get_matches();
    let parsed = typed.and_then(|typed| {
        output::hints::remember(output::help::command(), &typed);
        Arguments::from_arg_matches(&typed)
    });
    let exit = match parsed {
        Ok(arguments) => match carry_out(arguments).await {
            Ok(exit) => exit,
            Err(failure) => {
                output::failure(&failure);
                Exit::from(&failure)
            }
        },
        // What was typed may have been copied from an event.
        Err(error) if error.use_stderr() => {
            output::note(error.to_string().trim_end());
            Exit::Usage
        }
        Err(help) => {
            output::parser(&help);
            Exit::Done
        }
    };
    output::end(exit).into()
}

async fn carry_out(arguments: Arguments) -> Result<Exit, Failure> {
    let environment = environment();
    let wanted = environment.get("RUST_LOG");
    let prints_outcomes = wanted.is_none() && matches!(arguments.command, Command::Dev(_));
    log_to_stderr(filter(wanted, &arguments.command)?, if prints_outcomes { is_no_outcome } else { |_| true });
    match arguments.command {
        Command::Demo(arguments) => Box::pin(command::demo::run(arguments)).await,
        Command::Storm(arguments) => Box::pin(command::storm::run(arguments)).await,
        Command::Dev(arguments) => Box::pin(command::dev::run(arguments)).await,
        Command::Console(arguments) => Box::pin(command::console::run(arguments)).await,
        Command::Send(arguments) => Box::pin(command::send::run(arguments)).await,
        Command::Trigger(arguments) => Box::pin(command::trigger::run(arguments)).await,
        Command::Pull(arguments) => Box::pin(command::pull::run(arguments)).await,
        Command::Submit(arguments) => Box::pin(command::submit::run(arguments)).await,
        Command::Verify(arguments) => Box::pin(command::verify::run(&arguments)).await,
        Command::Explain(arguments) => command::explain::run(&arguments),
        Command::Providers(arguments) => command::providers::run(&arguments),
        Command::Endpoint(command) => Box::pin(command::endpoint::run(command)).await,
        Command::Destination(command) => Box::pin(command::destination::run(command)).await,
        Command::Route(command) => Box::pin(command::route::run(command)).await,
        Command::List(arguments) => Box::pin(command::list::run(arguments)).await,
        Command::Show(arguments) => Box::pin(command::show::run(arguments)).await,
        Command::Replay(arguments) => Box::pin(command::replay::run(arguments)).await,
        Command::Discard(arguments) => Box::pin(records::operate::run(arguments, Kind::of(Operation::Discard))).await,
        Command::Doubt(arguments) => Box::pin(records::operate::run(arguments, Kind::of(Operation::Doubt))).await,
        Command::Redact(arguments) => Box::pin(command::redact::run(arguments)).await,
        Command::Pause(arguments) => Box::pin(command::pause::pause(arguments)).await,
        Command::Resume(arguments) => Box::pin(command::pause::resume(arguments)).await,
        Command::Status(arguments) => Box::pin(command::status::run(arguments)).await,
        Command::Deploy(arguments) => Box::pin(command::deploy::run(arguments)).await,
        Command::Doctor(arguments) => Box::pin(command::doctor::run(arguments)).await,
        Command::Stats(arguments) => Box::pin(command::stats::run(arguments)).await,
        Command::Cost(arguments) => Box::pin(command::cost::run(arguments)).await,
        Command::Audit(arguments) => Box::pin(command::audit::run(arguments)).await,
        Command::Drill(arguments) => Box::pin(command::drill::run(arguments)).await,
        Command::New(arguments) => command::new::run(&arguments),
        Command::Completions(arguments) => Ok(command::completions::run(&arguments, output::help::command())),
        Command::Man(arguments) => command::man::run(&arguments, output::help::command()),
    }
}

/// The filter that a person wants, or the usual one. The demo's receiver loses answers on purpose, so only a person who
/// wants a log is warned of each.
fn filter(wanted: Option<&String>, command: &Command) -> Result<Targets, Failure> {
    let filter: Targets = wanted.map_or(LOG, String::as_str).parse().map_err(|error| {
        Failure::usage(format!("RUST_LOG is not a log filter: {error}"), "set it to a level such as info, or unset it")
    })?;
    if wanted.is_some() || !matches!(command, Command::Demo(_)) {
        return Ok(filter);
    }
    let calls = ["hookonce_runtime::destinations", "hookonce_runtime::inbox::dispatch"];
    Ok(filter.with_targets(calls.map(|target| (target, LevelFilter::ERROR))))
}

/// Whether a line of the log is not about what a line of `dev` says: that a record died, or how a call ended.
fn is_no_outcome(line: &Metadata<'_>) -> bool {
    let is_death = line.fields().field("record.dead_reason").is_some();
    let is_call = line.target() == "hookonce_runtime::inbox::dispatch" && line.fields().field("how").is_some();
    !is_death && !is_call
}

/// The time of a log line on a terminal.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        line.write_str(&output::short_moment(System.moment().now))
    }
}

fn log_to_stderr(targets: Targets, wanted: fn(&Metadata<'_>) -> bool) {
    // A line for a person names its record itself, where that matters.
    let filter = targets.and(filter_fn(move |line| line.is_event() && wanted(line)));
    let filter = filter.and(dynamic_filter_fn(|line, _| !is_of_dry_run(line)));
    let format = tracing_subscriber::fmt::layer().with_writer(|| output::Log);
    // For a person who reads it now, the time looks as everywhere else, and the module says nothing.
    let format =
        if output::is_watched() { format.with_timer(TimeOfDay).with_target(false).boxed() } else { format.boxed() };
    let format = format.with_filter(filter);
    // This fails only when called twice.
    let _ = tracing_subscriber::registry().with(format).with(KeepMisfits.with_filter(LevelFilter::WARN)).try_init();
}
