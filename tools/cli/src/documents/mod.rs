//! Documents that people write for a stack, one for each endpoint and each destination, and where they are kept: in a
//! folder of this machine, or in a table of DynamoDB. They may hold secrets.

mod arguments;
pub(crate) mod destinations;
pub(crate) mod endpoints;
mod folder;
pub(crate) mod route_needs;
pub(crate) mod route_set;
pub(crate) mod secret;
mod table;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Display;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::documents::DocumentKind;
use serde::Serialize;

pub(crate) use self::arguments::{Check, Remove, Show};
pub(crate) use self::folder::Folder;
use self::table::Table;
pub(crate) use self::table::{StackDocuments, failed};
pub(crate) use self::watch::{WATCH_PERIOD, print_state, watch};
use crate::failure::Failure;
use crate::output;
use crate::stack::connection::Connection;

/// What stands for a secret.
pub(crate) const HIDDEN: &str = "<hidden>";

/// The id of a document of one family.
pub(crate) trait DocumentId: Display + Ord + Clone + Send + Sync + Sized + 'static {
    /// What a document of the family is, in messages and in the names of commands.
    const NOUN: &'static str;
    /// The kind of its documents.
    const KIND: DocumentKind;
    /// Where a person finds the fields of a document.
    const FIELDS: &'static str;

    /// The document.
    type Document: Serialize;
    /// What a valid document becomes.
    type Checked;

    /// The id, or what it should be.
    fn of(text: &str) -> Result<Self, String>;

    /// Parses the JSON of a document.
    ///
    /// # Errors
    /// The place and the reason of the fault.
    fn parse_document(text: &str) -> Result<Self::Document, String>;

    /// Checks a document as the function does that uses it.
    ///
    /// # Errors
    /// [`Failure::Usage`] with what is wrong.
    fn check(&self, document: &Self::Document) -> Result<Self::Checked, Failure>;

    /// What else is printed of a document that was checked: the name of a value, and the value if the document is
    /// valid.
    fn detail(checked: Option<&Self::Checked>) -> Option<(&'static str, Option<&str>)>;

    /// What a person should know who stores the document, each as a sentence without its end.
    fn warnings(_document: &Self::Document) -> Vec<&'static str> {
        Vec::new()
    }

    /// Hides what may be secret.
    fn hide(document: &mut Self::Document);
}

/// Parses an id.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid.
pub(crate) fn parse_id<I: DocumentId>(id: &str) -> Result<I, Failure> {
    I::of(id).map_err(|error| Failure::usage(error, "choose another id, such as stripe-main"))
}

/// Parses the text of a document. `what` names the document in the failure.
///
/// # Errors
/// [`Failure::Usage`] with the place and the reason of the fault.
pub(crate) fn parse<I: DocumentId>(what: &str, text: &str) -> Result<I::Document, Failure> {
    I::parse_document(text).map_err(|error| Failure::usage(format!("{what}: {error}"), I::FIELDS))
}

/// A document as it is stored.
pub(crate) fn text_of(document: &impl Serialize) -> String {
    // Plain data always serialises.
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// A document as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its JSON.
    pub(crate) text: String,
    /// When it was last written, where that is known: another program may have written it.
    pub(crate) changed_at: Option<EpochMs>,
}

impl Stored {
    /// The document.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it is not valid.
    pub(crate) fn document<I: DocumentId>(&self, id: &I) -> Result<I::Document, Failure> {
        parse::<I>(&format!("{} {id}", I::NOUN), &self.text)
    }

    /// What the function makes of it that uses it.
    ///
    /// # Errors
    /// [`Failure::Usage`] when that function refuses it.
    pub(crate) fn checked<I: DocumentId>(&self, id: &I) -> Result<I::Checked, Failure> {
        id.check(&self.document(id)?)
    }
}

/// Where the documents of a family are kept. The commands know nothing else of it.
///
/// Each write names what it starts from, and finds out whether another process was first.
pub(crate) trait DocumentStore<I: DocumentId>: Send + Sync {
    /// The document of an id, if there is one.
    fn get<'a>(&'a self, id: &'a I) -> BoxFuture<'a, Result<Option<Stored>, Failure>>;

    /// The document of an id. It is a failure if there is none.
    fn find<'a>(&'a self, id: &'a I) -> BoxFuture<'a, Result<Stored, Failure>> {
        async move { self.get(id).await?.ok_or_else(|| missing(id)) }.boxed()
    }

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

impl Connection {
    /// The documents of a family, of the named stack or of this machine.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS does not answer.
    pub(crate) async fn documents<I: DocumentId>(&self) -> Result<Box<dyn DocumentStore<I> + '_>, Failure> {
        if let Some(stack) = self.deployed() {
            return Ok(Box::new(Table::open(stack).await?));
        }
        Ok(Box::new(Folder::of(&self.folder)))
    }

    /// All documents of a family, valid or not.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or the documents cannot be read.
    pub(crate) async fn all_documents<I: DocumentId>(&self) -> Result<BTreeMap<I, Stored>, Failure> {
        self.documents::<I>().await?.all().await
    }
}

/// The documents that are valid, and when each was last written. Prints why another one is not.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn valid<I: DocumentId>(
    store: &dyn DocumentStore<I>,
) -> Result<Vec<(I, I::Document, Option<EpochMs>)>, Failure> {
    let document = |(id, stored): (I, Stored)| match stored.document(&id) {
        Ok(document) => Some((id, document, stored.changed_at)),
        // A broken document must not hide the others.
        Err(failure) => {
            output::failure(&failure);
            None
        }
    };
    Ok(store.all().await?.into_iter().filter_map(document).collect())
}

/// Stores a new document.
///
/// # Errors
/// [`Failure::Usage`] when there is another one with its id.
pub(crate) async fn add<I: DocumentId>(
    store: &dyn DocumentStore<I>,
    id: &I,
    document: &I::Document,
) -> Result<(), Failure> {
    if store.create(id, &text_of(document)).await? {
        return Ok(());
    }
    let what = format!("the {} {id} already exists", I::NOUN);
    Err(Failure::usage(what, "rotate its secret, or remove it first"))
}

/// Prints a secret that was generated for a new document.
pub(crate) fn print_generated_secret<I: DocumentId>(id: &I, secret: &str) {
    let noun = I::NOUN;
    output::note(&format!("generated secret (`hookonce {noun} show {id} --reveal` prints it again):"));
    output::line(secret);
}

/// The failure for a document that is not there.
pub(crate) fn missing<I: DocumentId>(id: &I) -> Failure {
    let noun = I::NOUN;
    Failure::missing(
        format!("there is no {noun} {id}"),
        format!("list them with `hookonce {noun} list`, or see how to add it: `hookonce {noun} add --help`"),
    )
}

/// The failure when another process changed a document first.
fn overtaken<I: DocumentId>(id: &I) -> Failure {
    let noun = I::NOUN;
    Failure::usage(
        format!("{noun} {id} was changed by someone else after it was read; nothing was written"),
        format!("look at it with `hookonce {noun} show {id}`, then run the command again"),
    )
}
