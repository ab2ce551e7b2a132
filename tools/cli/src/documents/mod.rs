//! Documents that people write for a stack, one for each endpoint and each destination, and where they are kept: in a folder
//! of this machine, or in Parameter Store. They may hold secrets.

mod folder;
#[cfg(feature = "aws")]
mod parameters;

use std::collections::BTreeMap;
use std::fmt::Display;

use clap::Args;
use futures::future::BoxFuture;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use serde_json::{Value, json};

pub(crate) use self::folder::Folder;
#[cfg(feature = "aws")]
pub(crate) use self::parameters::{Below, Parameters};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::target::DataFolder;

/// The id of a document of one family.
pub(crate) trait DocumentId: Display + Ord + Clone + Send + Sync + Sized + 'static {
    /// What a document of the family is, in messages and in the names of commands.
    const NOUN: &'static str;
    /// Where the family is kept, below the data folder or the path of a stack.
    const FOLDER: &'static str;

    /// The id, if the text is one.
    fn of(text: &str) -> Option<Self>;
}

impl DocumentId for EndpointId {
    const NOUN: &'static str = "endpoint";
    const FOLDER: &'static str = "endpoints";

    fn of(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }
}

impl DocumentId for DestinationId {
    const NOUN: &'static str = "destination";
    const FOLDER: &'static str = "destinations";

    fn of(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }
}

/// A document as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its JSON.
    pub(crate) text: String,
    /// Its number in the store, one more with each write. A folder has no numbers.
    pub(crate) version: i64,
    /// When it was last written.
    pub(crate) changed_at: EpochMs,
}

/// Where the documents of a family are kept. The commands know nothing else of it.
///
/// Each write names what it starts from, and finds out whether another process was first, as far as the service allows.
pub(crate) trait DocumentStore<I>: Send + Sync {
    /// The document of an id, if there is one.
    fn get<'a>(&'a self, id: &'a I) -> BoxFuture<'a, Result<Option<Stored>, Failure>>;

    /// All documents, valid or not.
    fn all(&self) -> BoxFuture<'_, Result<BTreeMap<I, Stored>, Failure>>;

    /// Refuses a document that is too large to be stored here.
    fn fits(&self, text: &str) -> Result<(), Failure>;

    /// Writes a new document. False if there is one already, with another text.
    fn create<'a>(&'a self, id: &'a I, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>>;

    /// Writes another document in the place of the one that was read.
    fn replace<'a>(&'a self, id: &'a I, read: &'a Stored, text: &'a str) -> BoxFuture<'a, Result<(), Failure>>;

    /// Removes the document that was read.
    fn remove<'a>(&'a self, id: &'a I, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>>;
}

/// Whose documents a command acts on.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) folder: DataFolder,
    /// Name of a deployed stack.
    #[arg(long, value_name = "NAME")]
    pub(crate) stack: Option<String>,
}

impl Place {
    /// How to name the place again on the command line.
    pub(crate) fn option(&self) -> String {
        self.stack.as_ref().map_or_else(String::new, |stack| format!(" --stack {stack}"))
    }
}

/// Whether a document is valid, as one line for programs, with more about one that is.
pub(crate) fn told_as_json<T>(name: &str, checked: &Result<T, Failure>, more: &[(&str, Value)]) -> Exit {
    let failure = checked.as_ref().err();
    let mut told = json!({
        "document": name,
        "valid": failure.is_none(),
        "problem": failure.map(ToString::to_string),
        "try": failure.map(Failure::hint).filter(|hint| !hint.is_empty()),
    });
    if let Some(told) = told.as_object_mut() {
        told.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
    output::json_line(&told);
    if failure.is_none() { Exit::Done } else { Exit::No }
}

/// The failure for a document that is not there.
pub(crate) fn missing<I: DocumentId>(id: &I) -> Failure {
    let noun = I::NOUN;
    Failure::usage(
        format!("there is no {noun} {id}"),
        format!("list them with `hookonce {noun} list`, or add it with `hookonce {noun} add`"),
    )
}

/// The failure when another process changed a document first.
fn overtaken<I: DocumentId>(id: &I) -> Failure {
    let noun = I::NOUN;
    Failure::usage(
        format!("{noun} {id} was changed by someone else after it was read; nothing was written"),
        format!("look at it with `hookonce {noun} show`, then run the command again"),
    )
}
