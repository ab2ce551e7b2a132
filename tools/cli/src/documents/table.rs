//! The documents of a deployed stack: one item each of its table of documents.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_aws::{
    DocumentCallError, DocumentChange, DocumentTable, DocumentWritten, StoredDocument, dynamodb_client, fits,
};
use hookonce_runtime::ambient::{Ambient as _, System};

use super::{DocumentId, DocumentStore, Stored, missing, overtaken};
use crate::failure::Failure;
use crate::stack::account::{CALL_MAX, refused};
use crate::stack::connection::{Deployed, OWN_VERSION};
use crate::stack::meter::counted;

/// A stack's table of documents, and who writes to it.
pub(crate) struct StackDocuments<'a> {
    pub(crate) table: DocumentTable,
    stack: &'a Deployed,
}

impl<'a> StackDocuments<'a> {
    /// The table of a stack.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS does not answer.
    pub(crate) async fn open(stack: &'a Deployed) -> Result<Self, Failure> {
        let (account, name) = (stack.account().await?, &stack.outputs().await?.documents_table);
        Ok(Self { table: DocumentTable::new(counted(&dynamodb_client(account, CALL_MAX)), name), stack })
    }

    /// What a write notes beside the document.
    ///
    /// # Errors
    /// [`Failure`] when the stack is of a later release, or AWS does not name the caller.
    pub(crate) async fn change(&self) -> Result<DocumentChange, Failure> {
        self.takes_changes().await?;
        let by = self.stack.caller().await?;
        Ok(DocumentChange { at: System.moment().now, by, with: OWN_VERSION.to_owned() })
    }
}

impl StackDocuments<'_> {
    async fn takes_changes(&self) -> Result<(), Failure> {
        self.stack.outputs().await?.parts.takes_changes()
    }
}

/// The failure of a call to the table.
pub(crate) fn failed(error: &DocumentCallError) -> Failure {
    refused(error.operation, error.code.as_deref(), &error_reporter::Report::new(&*error.cause))
}

/// The items of one family.
pub(crate) struct Table<'a, I> {
    documents: StackDocuments<'a>,
    family: PhantomData<fn() -> I>,
}

impl<'a, I: DocumentId> Table<'a, I> {
    /// The documents of a stack.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS does not answer.
    pub(crate) async fn open(stack: &'a Deployed) -> Result<Self, Failure> {
        Ok(Self { documents: StackDocuments::open(stack).await?, family: PhantomData })
    }

    /// Puts a text in the place of the one that was read, or the first one.
    async fn put(&self, id: &I, read: Option<&Stored>, text: &str) -> Result<DocumentWritten, Failure> {
        let StackDocuments { table, .. } = &self.documents;
        let change = self.documents.change().await?;
        let written = table.put(I::KIND, &id.to_string(), read.map(|read| read.text.as_str()), text, &change).await;
        written.map_err(|error| failed(&error))
    }
}

impl<I: DocumentId> DocumentStore<I> for Table<'_, I> {
    fn get<'a>(&'a self, id: &'a I) -> BoxFuture<'a, Result<Option<Stored>, Failure>> {
        async move {
            let found = self.documents.table.get(I::KIND, &id.to_string()).await;
            Ok(found.map_err(|error| failed(&error))?.map(Stored::from))
        }
        .boxed()
    }

    fn all(&self) -> BoxFuture<'_, Result<BTreeMap<I, Stored>, Failure>> {
        async move {
            let (mut all, mut after) = (BTreeMap::new(), None);
            loop {
                let page = self.documents.table.page(I::KIND, after.as_deref()).await;
                let page = page.map_err(|error| failed(&error))?;
                // An item under another id is none that a function looks up.
                let named = |(id, stored): (String, StoredDocument)| Some((I::of(&id).ok()?, Stored::from(stored)));
                all.extend(page.documents.into_iter().filter_map(named));
                after = page.next;
                if after.is_none() {
                    return Ok(all);
                }
            }
        }
        .boxed()
    }

    fn fits(&self, text: &str) -> Result<(), Failure> {
        fits(I::KIND, text).map_err(|error| {
            let what = format!("the {} is too long: {error}", I::NOUN);
            Failure::usage(what, "leave out what it does not need, such as older secrets")
        })
    }

    fn create<'a>(&'a self, id: &'a I, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        async move {
            DocumentStore::<I>::fits(self, text)?;
            Ok(self.put(id, None, text).await? == DocumentWritten::Done)
        }
        .boxed()
    }

    fn replace<'a>(&'a self, id: &'a I, read: &'a Stored, text: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            DocumentStore::<I>::fits(self, text)?;
            let noun = I::NOUN;
            let advice = format!(". `hookonce {noun} show {id} --reveal` prints what is in force");
            let unknown =
                |failure: Failure| failure.with("; if the write was sent, the new document may be in force", &advice);
            match self.put(id, Some(read), text).await.map_err(unknown)? {
                DocumentWritten::Done => Ok(()),
                DocumentWritten::Overtaken => Err(overtaken(id)),
                DocumentWritten::Absent => Err(missing(id)),
            }
        }
        .boxed()
    }

    fn remove<'a>(&'a self, id: &'a I, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            self.documents.takes_changes().await?;
            match self.documents.table.delete(I::KIND, &id.to_string(), &read.text).await {
                Ok(DocumentWritten::Done | DocumentWritten::Absent) => Ok(()),
                Ok(DocumentWritten::Overtaken) => Err(overtaken(id)),
                Err(error) => Err(failed(&error)),
            }
        }
        .boxed()
    }
}

impl From<StoredDocument> for Stored {
    fn from(StoredDocument { text, change }: StoredDocument) -> Self {
        Self { text, changed_at: change.map(|change| change.at) }
    }
}
