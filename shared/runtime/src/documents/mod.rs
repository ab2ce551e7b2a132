//! Documents that people write for a stack: endpoints, destinations and the route set; and the message key.
//!
//! A document is a text. Its key is its kind and its id. On AWS the documents are items of one table, and a role may
//! read its own kinds only; on a laptop they are files that a person edits.

pub mod document;
pub mod endpoint;
pub mod fault;
pub mod file;
pub(crate) mod location;
pub mod material;
pub(crate) mod per_minute;
pub mod strict;

use std::error::Error;
use std::fmt;

use futures::future::BoxFuture;

/// The id of the only route set.
pub const ROUTE_SET_ID: &str = "set";

/// The id of the message key.
pub const MESSAGE_KEY_ID: &str = "messages";

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// An endpoint, which the webhook function reads.
    Endpoint,
    /// A destination, which the dispatcher reads.
    Destination,
    /// The route set, which the worker reads.
    Routes,
    /// A key that only functions read.
    Key,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Endpoint, Self::Destination, Self::Routes, Self::Key];

    /// The word in the table's partition key, which policies name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Destination => "destination",
            Self::Routes => "routes",
            Self::Key => "key",
        }
    }
}

/// A source of documents did not answer, refused the read, or holds something that is no text.
#[derive(Debug, thiserror::Error)]
#[error("the documents of the stack are unavailable")]
pub struct DocumentsUnavailable(#[source] pub Box<dyn Error + Send + Sync>);

/// Where functions find documents.
pub trait DocumentSource: fmt::Debug + Send + Sync + 'static {
    /// Reads a document, strongly consistent. `None` if there is none.
    ///
    /// # Errors
    /// [`DocumentsUnavailable`] when the source did not answer, or not with a text. It never holds a part of one.
    fn read<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>>;

    /// Writes a document unless there is one already.
    ///
    /// # Errors
    /// [`DocumentsUnavailable`] when the source did not confirm it; the document may have been written.
    fn create<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>>;

    /// Whether the documents are files of a laptop. Then a route set may name handlers at URLs on loopback, and a
    /// change is noticed within a second.
    fn is_local(&self) -> bool;
}

/// A source for tests: a function answers each read, and nothing can be written.
#[cfg(test)]
pub(crate) struct Answering<F> {
    pub(crate) answer: F,
    pub(crate) is_local: bool,
}

#[cfg(test)]
impl<F> fmt::Debug for Answering<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

#[cfg(test)]
impl<F> DocumentSource for Answering<F>
where
    F: Fn(DocumentKind, &str) -> Result<Option<String>, DocumentsUnavailable> + Send + Sync + 'static,
{
    fn read<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>> {
        Box::pin(async move {
            // As a source on a network: others go on meanwhile.
            tokio::task::yield_now().await;
            (self.answer)(kind, id)
        })
    }

    fn create<'a>(
        &'a self,
        _: DocumentKind,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>> {
        Box::pin(std::future::ready(Err(DocumentsUnavailable("nobody writes".into()))))
    }

    fn is_local(&self) -> bool {
        self.is_local
    }
}
