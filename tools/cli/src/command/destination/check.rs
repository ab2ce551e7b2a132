//! `hookonce destination check`: validates documents as the dispatcher does.

use std::path::PathBuf;

use clap::Args;
use hookonce_runtime::destination::Destination;

use crate::destinations::{check, parse, parse_id, read};
use crate::documents::{Place, told_as_json};
use crate::failure::{Exit, Failure};
use crate::{output, route_set};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Destination document, as JSON. Without it, every stored document is checked.
    #[arg(conflicts_with_all = ["stack", "data"])]
    file: Option<PathBuf>,
    /// Print JSON, one line for each document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if let Some(file) = arguments.file {
        let (name, text) = (file.display().to_string(), route_set::text(&file)?);
        let id = parse_id("checked")?;
        let checked = parse(&name, &text).and_then(|document| check(&id, &document));
        return Ok(told(&name, checked, arguments.json));
    }
    let mut exit = Exit::Done;
    for (id, stored) in arguments.place.destinations().await?.all().await? {
        let checked = read(&id, &stored).and_then(|document| check(&id, &document));
        if told(id.as_str(), checked, arguments.json) == Exit::No {
            exit = Exit::No;
        }
    }
    Ok(exit)
}

fn told(name: &str, checked: Result<Destination, Failure>, json: bool) -> Exit {
    if json {
        return told_as_json(name, &checked, &[]);
    }
    match checked {
        Ok(_) => {
            output::line(&format!("{name}: valid"));
            Exit::Done
        }
        Err(failure) => {
            output::line(&format!("{name}: not valid"));
            output::failure(&failure);
            Exit::No
        }
    }
}
