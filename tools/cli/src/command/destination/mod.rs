//! `hookonce destination`: manages where effects go, of the local stack or of a deployed one. Each is one JSON
//! document.

mod add;
mod advice;
mod list;
mod rotate;
mod test;

use clap::Subcommand;
use hookonce_protocol::effect::DestinationId;
use hookonce_runtime::destinations::DestinationDocument;

use crate::documents::destinations::{Waiting, waiting};
use crate::documents::{Check, Remove, Show, parse_id};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::connection::Connection;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a destination: a ready-made one by its name, or one of your own.
    Add(Box<add::Arguments>),
    /// List the destinations, or the ready-made documents.
    List(list::Arguments),
    /// Show one destination; its secrets are hidden without --reveal.
    Show(Show),
    /// Validate a destination document before you store it, or all that are stored.
    Check(Check),
    /// Call a destination once, from this machine, and explain its answer. It is a real call.
    Test(test::Arguments),
    /// Replace the secret. Calls in doubt keep their keys.
    Rotate(rotate::Arguments),
    /// Remove a destination. Its waiting effects keep waiting until they are given up.
    Remove(Remove),
}

pub(crate) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(arguments) => add::run(*arguments).await,
        Command::List(arguments) => list::run(&arguments).await,
        Command::Show(show) => show.run::<DestinationId>(async |_, _, document| rows(document)).await,
        Command::Check(arguments) => check(&arguments).await,
        Command::Test(arguments) => test::run(arguments).await,
        Command::Rotate(arguments) => rotate::run(arguments).await,
        Command::Remove(arguments) => remove(&arguments).await,
    }
}

/// Validates documents as the dispatcher does.
async fn check(arguments: &Check) -> Result<Exit, Failure> {
    if let Some(exit) = arguments.file::<DestinationId>()? {
        return Ok(exit);
    }
    let stack = arguments.place.connect();
    Ok(arguments.all(&stack.all_documents::<DestinationId>().await?, |_, _| Ok(())))
}

/// What is shown of a document.
fn rows(document: &DestinationDocument) -> Vec<(String, String)> {
    let fields = serde_json::to_value(document).unwrap_or_default();
    let mut rows = Vec::new();
    for (name, value) in fields.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(inner) => rows.extend(inner.iter().map(|(inner, value)| (format!("{name} {inner}"), word(value)))),
            None => rows.push((name.clone(), word(value))),
        }
    }
    rows
}

/// A JSON value as one word of a table.
fn word(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn remove(arguments: &Remove) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let stack = arguments.place.connect();
    let store = stack.documents::<DestinationId>().await?;
    let stored = store.find(&id).await?;
    let counted = count(&stack, &id).await;
    let waits = !matches!(&counted, Ok(Waiting { pending: 0, at_least: false, .. }));
    let needs_answer = arguments.place.deployed().is_some() || (waits && counted.is_ok());
    match &counted {
        Ok(counted) if waits => output::note(&describe(counted)),
        Ok(Waiting { dead: 0, .. }) => {}
        Ok(counted) => {
            output::note(&format!("{} of its effects are DEAD; once it is removed, none can run again", counted.dead));
        }
        Err(_) if arguments.place.deployed().is_none() => {}
        Err(failure) => output::note(&format!("the effects that wait for it cannot be counted: {failure}")),
    }
    if needs_answer && !arguments.yes {
        output::confirm("Remove it? Its secrets are gone for good.", "pass --yes to remove it")?;
    }
    store.remove(&id, &stored).await?;
    output::note(&format!("destination {id} is removed; functions stop calling it within a minute"));
    Ok(Exit::Done)
}

/// Counts the effects of a destination on its stack. Fails if no local stack runs.
async fn count(stack: &Connection, id: &DestinationId) -> Result<Waiting, Failure> {
    waiting(&stack.store().await?, id).await
}

/// Tells of effects that wait.
fn describe(counted: &Waiting) -> String {
    let least = if counted.at_least { "at least " } else { "" };
    format!(
        "waiting for it: {least}{}, {} of which may have been called; without it, effects wait until they are given up, \
         and an alarm rings",
        output::number_of(&counted.pending, "effect"),
        counted.in_doubt
    )
}
