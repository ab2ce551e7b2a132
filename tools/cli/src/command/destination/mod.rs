//! `hookonce destination`: manages where effects go, of the local stack or of a deployed one. Each is one JSON document.

mod add;
mod advice;
mod check;
mod list;
mod rotate;
mod test;

use clap::{Args, Subcommand};
use hookonce_protocol::effect::DestinationId;

use crate::destinations::{Waiting, hide, parse_id, read, waiting};
use crate::documents::{Place, missing};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::target::Target;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a destination: a ready-made one by its name, or one of your own.
    Add(Box<add::Arguments>),
    /// List the destinations, or the ready-made documents.
    List(list::Arguments),
    /// Show one destination; its secrets are hidden without --reveal.
    Show(Show),
    /// Validate a destination document before you store it, or all that are stored.
    Check(check::Arguments),
    /// Call a destination once, from this machine, and explain its answer. It is a real call.
    Test(test::Arguments),
    /// Replace the secret. Calls in doubt keep their keys.
    Rotate(rotate::Arguments),
    /// Remove a destination. Its waiting effects keep waiting until they are given up.
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Destination id.
    id: String,
    /// Print the secrets and the whole address.
    #[arg(long)]
    reveal: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Destination id.
    id: String,
    /// Do not ask for confirmation. Without it, the command asks on a deployed stack and while effects wait.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(arguments) => add::run(*arguments).await,
        Command::List(arguments) => list::run(&arguments).await,
        Command::Show(arguments) => show(&arguments).await,
        Command::Check(arguments) => check::run(arguments).await,
        Command::Test(arguments) => test::run(arguments).await,
        Command::Rotate(arguments) => rotate::run(arguments).await,
        Command::Remove(arguments) => remove(&arguments).await,
    }
}

async fn show(arguments: &Show) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let stored = arguments.place.destinations().await?.get(&id).await?.ok_or_else(|| missing(&id))?;
    let mut document = read(&id, &stored)?;
    if !arguments.reveal {
        hide(&mut document);
    }
    if arguments.json {
        output::json(&document);
        return Ok(Exit::Done);
    }
    let mut table = output::table(&[]);
    let fields = serde_json::to_value(&document).unwrap_or_default();
    for (name, value) in fields.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(inner) => {
                for (inner, value) in inner {
                    table.add_row([format!("{name} {inner}"), word(value)]);
                }
            }
            None => table.add_row([name.clone(), word(value)]),
        }
    }
    table.add_row(["last written".to_owned(), output::local_moment(stored.changed_at)]);
    output::print(&table);
    Ok(Exit::Done)
}

/// A JSON value as one word of a table.
fn word(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn remove(arguments: &Remove) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let store = arguments.place.destinations().await?;
    let stored = store.get(&id).await?.ok_or_else(|| missing(&id))?;
    let counted = count(&arguments.place, &id).await;
    let waits = !matches!(&counted, Ok(Waiting { pending: 0, at_least: false, .. }));
    let needs_answer = arguments.place.stack.is_some() || (waits && counted.is_ok());
    match &counted {
        Ok(counted) if waits => output::note(&told(counted)),
        Ok(Waiting { dead: 0, .. }) => {}
        Ok(counted) => {
            output::note(&format!("{} of its effects are DEAD; once it is removed, none can run again", counted.dead));
        }
        Err(_) if arguments.place.stack.is_none() => {}
        Err(failure) => output::note(&format!("the effects that wait for it cannot be counted: {failure}")),
    }
    if needs_answer && !arguments.yes && !output::confirm("Remove it? Its secrets are gone for good.") {
        return Err(Failure::usage("not confirmed", "pass --yes to remove it"));
    }
    store.remove(&id, &stored).await?;
    output::note(&format!("destination {id} is removed; functions stop calling it within a minute"));
    Ok(Exit::Done)
}

/// Counts the effects of a destination on its stack. Fails if no local stack runs.
async fn count(place: &Place, id: &DestinationId) -> Result<Waiting, Failure> {
    let stack = Target::named(place.folder.clone(), place.stack.clone()).open().await?;
    waiting(&stack, id).await
}

/// Tells of effects that wait.
fn told(counted: &Waiting) -> String {
    let least = if counted.at_least { "at least " } else { "" };
    format!(
        "{least}{} effect(s) wait for it, {} of which may have been called; without it they wait until they are given up, and \
         an alarm rings",
        counted.pending, counted.in_doubt
    )
}
