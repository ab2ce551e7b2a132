//! The subcommands that endpoints and destinations share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{DocumentId, Stored, parse, parse_id};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::target::{Place, text};

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Document as JSON. Without it, every stored document is checked.
    #[arg(conflicts_with = "stack")]
    file: Option<PathBuf>,
    /// Print JSON, one line for each document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

impl Check {
    /// Checks the file, if one is given.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be read.
    pub(crate) fn file<I: DocumentId>(&self) -> Result<Option<Exit>, Failure> {
        let Some(file) = &self.file else { return Ok(None) };
        let (name, text) = (file.display().to_string(), text(file)?);
        let id: I = parse_id("checked")?;
        let checked = parse::<I>(&name, &text)
            .and_then(|document| id.check(&document).map(|checked| (checked, I::warnings(&document))));
        Ok(Some(self.print::<I>(&name, &checked)))
    }

    /// Checks all documents of a store, also in a further way.
    pub(crate) fn all<I: DocumentId>(
        &self,
        all: &BTreeMap<I, Stored>,
        further: impl Fn(&I, &I::Document) -> Result<(), Failure>,
    ) -> Exit {
        let check = |id: &I, stored: &Stored| {
            let document = stored.document(id)?;
            let checked = id.check(&document)?;
            further(id, &document).map(|()| (checked, I::warnings(&document)))
        };
        let print = |(id, stored)| self.print::<I>(&format!("{id}"), &check(id, stored));
        all.iter().map(print).fold(Exit::Done, |exit, printed| if printed == Exit::No { printed } else { exit })
    }

    /// Prints whether a document is valid, and what to know about it.
    fn print<I: DocumentId>(&self, name: &str, checked: &Result<(I::Checked, Vec<&str>), Failure>) -> Exit {
        let failure = checked.as_ref().err();
        let detail = I::detail(checked.as_ref().ok().map(|(checked, _)| checked));
        let warnings = checked.as_ref().map(|(_, warnings)| warnings.as_slice()).unwrap_or_default();
        if self.json {
            let mut line = json!({
                "document": name,
                "valid": failure.is_none(),
                "problem": failure.map(ToString::to_string),
                "try": failure.map(Failure::hint).filter(|hint| !hint.is_empty()),
                "warnings": warnings,
            });
            if let (Some(line), Some((name, value))) = (line.as_object_mut(), detail) {
                line.insert(name.to_owned(), json!(value));
            }
            output::json_line(&line);
        } else if let Some(failure) = failure {
            output::line(&format!("{name}: not valid"));
            output::failure(failure);
        } else {
            let detail = detail.and_then(|(name, value)| Some(format!(" ({name}: {})", value?)));
            output::line(&format!("{name}: valid{}", detail.unwrap_or_default()));
            for warning in warnings {
                output::note(&format!("{name}: {warning}"));
            }
        }
        if failure.is_none() { Exit::Done } else { Exit::No }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Its id.
    id: String,
    /// Print secrets and other hidden values.
    #[arg(long)]
    reveal: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Show {
    /// Prints a document: as JSON, or these rows of it.
    ///
    /// # Errors
    /// [`Failure`] when there is none, it is not valid, or the store does not answer.
    pub(crate) async fn run<I: DocumentId>(
        &self,
        rows: impl AsyncFn(&Connection, &I, &I::Document) -> Vec<(String, String)>,
    ) -> Result<Exit, Failure> {
        let id: I = parse_id(&self.id)?;
        let stack = self.place.connect();
        let stored = stack.documents::<I>().await?.find(&id).await?;
        let mut document = stored.document(&id)?;
        if !self.reveal {
            I::hide(&mut document);
        }
        if self.json {
            output::json(&document);
            return Ok(Exit::Done);
        }
        let mut table = output::table(&[]);
        for (name, value) in rows(&stack, &id, &document).await {
            table.add_row([name, value]);
        }
        table.add_row(["last written", &output::known_moment(stored.changed_at)]);
        output::print(&table);
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Its id.
    pub(crate) id: String,
    /// Do not ask for confirmation. Without it, the command asks on a deployed stack, and while effects wait.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}
