//! Documents in a table of DynamoDB, by kind and id.
//!
//! The version of a document is its text: a write names the text that it replaces, so it finds out whether somebody
//! else was first. There is no counter that a removed and created document could begin again.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_protocol::key::hex;
use hookonce_protocol::time::EpochMs;
use sha2::{Digest as _, Sha256};

use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::DocumentsLocation;
use hookonce_runtime::documents::file::DocumentFolder;
use hookonce_runtime::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};
use hookonce_runtime::inbox::body::{BodyError, compress, decompress};

/// The partition key: what a policy allows by `dynamodb:LeadingKeys`.
pub const KIND: &str = "kind";

/// The sort key.
pub const ID: &str = "id";

/// The longest text of a document, in bytes: two read units.
pub const DOCUMENT_BYTES_MAX: usize = 8 * 1024;

/// The longest route set, compressed, in bytes. Every worker reads it once a minute: sixteen read units.
pub const ROUTE_SET_STORED_BYTES_MAX: usize = 64 * 1024;

/// The text, or the compressed text of a route set.
const DOCUMENT: &str = "document";

/// The hash of a route set's text, in hex. A condition on it is shorter than one on the text.
const SHA256: &str = "sha256";

const CHANGED_AT: &str = "changed_at";
const CHANGED_BY: &str = "changed_by";
const CHANGED_WITH: &str = "changed_with";

type Attributes = HashMap<String, AttributeValue>;

/// A call failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
pub struct DocumentCallError {
    /// The action in IAM, such as `dynamodb:GetItem`.
    pub operation: &'static str,
    /// The error code of the service.
    pub code: Option<String>,
    /// Why.
    #[source]
    pub cause: Box<dyn Error + Send + Sync>,
}

/// A text is longer than the table keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it takes {bytes} bytes in the table, and {bytes_max} are allowed")]
pub struct DocumentTooLong {
    /// What it takes. A route set is stored compressed.
    pub bytes: usize,
    /// What it may take.
    pub bytes_max: usize,
}

/// A document as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its text.
    pub text: String,
    /// Who changed it last, where that is known.
    pub change: Option<DocumentChange>,
}

/// Who changed a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentChange {
    /// When.
    pub at: EpochMs,
    /// The person or the role.
    pub by: String,
    /// The release of hookonce.
    pub with: String,
}

/// What became of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentWritten {
    /// It was carried out, now or by an earlier try whose reply was lost.
    Done,
    /// There is another text than the one that was read.
    Overtaken,
    /// There is no document.
    Absent,
}

/// One page of a list.
pub struct DocumentPage {
    /// The documents by id.
    pub documents: Vec<(String, StoredDocument)>,
    /// The id to go on after. `None` at the end.
    pub next: Option<String>,
}

/// The table.
#[derive(Debug, Clone)]
pub struct DocumentTable {
    client: Client,
    table: String,
}

/// The documents at a location. The client is the one that a function uses for everything else.
pub fn documents_at(location: DocumentsLocation, client: &Client) -> Arc<dyn DocumentSource> {
    match location {
        DocumentsLocation::Table(table) => Arc::new(DocumentTable::new(client.clone(), table)),
        DocumentsLocation::Folder(folder) => Arc::new(DocumentFolder::new(folder)),
    }
}

/// Checks that the table keeps a text of this length.
///
/// # Errors
/// [`DocumentTooLong`] with what it takes, and what it may.
pub fn fits(kind: DocumentKind, text: &str) -> Result<(), DocumentTooLong> {
    let (bytes, bytes_max) = match kind {
        // A text that cannot be compressed is refused where it is stored.
        DocumentKind::Routes => {
            (compress(text.as_bytes()).map_or(text.len(), |stored| stored.len()), ROUTE_SET_STORED_BYTES_MAX)
        }
        DocumentKind::Endpoint | DocumentKind::Destination | DocumentKind::Key => (text.len(), DOCUMENT_BYTES_MAX),
    };
    if bytes <= bytes_max { Ok(()) } else { Err(DocumentTooLong { bytes, bytes_max }) }
}

impl DocumentTable {
    /// The documents in this table.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// Reads a document, strongly consistent. `None` if there is none.
    ///
    /// # Errors
    /// [`DocumentCallError`] when DynamoDB refuses or does not answer, or the item holds no text.
    pub async fn get(&self, kind: DocumentKind, id: &str) -> Result<Option<StoredDocument>, DocumentCallError> {
        let get = self.client.get_item().table_name(&self.table).set_key(Some(key(kind, id))).consistent_read(true);
        let answer = get.send().await.map_err(|error| failed("dynamodb:GetItem", error))?;
        answer.item.map(|item| stored(kind, &item)).transpose().map_err(|cause| no_text("dynamodb:GetItem", cause))
    }

    /// Reads a page of the documents of a kind, strongly consistent.
    ///
    /// # Errors
    /// [`DocumentCallError`] when DynamoDB refuses or does not answer, or an item holds no text.
    pub async fn page(&self, kind: DocumentKind, after: Option<&str>) -> Result<DocumentPage, DocumentCallError> {
        let operation = "dynamodb:Query";
        let query = self.client.query().table_name(&self.table).consistent_read(true);
        let query = query
            .key_condition_expression("#kind = :kind")
            .expression_attribute_names("#kind", KIND)
            .expression_attribute_values(":kind", text(kind.as_str()))
            .set_exclusive_start_key(after.map(|id| key(kind, id)));
        let answer = query.send().await.map_err(|error| failed(operation, error))?;
        let document = |item: &Attributes| {
            let id = id_of(item)?;
            let stored =
                stored(kind, item).map_err(|cause| format!("the item `{id}` of kind {}: {cause}", kind.as_str()))?;
            Ok((id, stored))
        };
        let documents: Result<_, _> = answer.items().iter().map(document).collect();
        let next = answer.last_evaluated_key.as_ref().map(id_of).transpose();
        Ok(DocumentPage {
            documents: documents.map_err(|cause| no_text(operation, cause))?,
            next: next.map_err(|cause| no_text(operation, cause))?,
        })
    }

    /// Writes a text in the place of the one that was read, or the first one.
    ///
    /// # Errors
    /// [`DocumentCallError`] when DynamoDB refuses or does not confirm it; then it may have been written.
    pub async fn put(
        &self,
        kind: DocumentKind,
        id: &str,
        read: Option<&str>,
        new: &str,
        change: &DocumentChange,
    ) -> Result<DocumentWritten, DocumentCallError> {
        let operation = "dynamodb:PutItem";
        let mut item = key(kind, id);
        item.extend(document(kind, new).map_err(|error| no_text(operation, error.into()))?);
        item.extend([
            (CHANGED_AT.to_owned(), AttributeValue::N(change.at.0.to_string())),
            (CHANGED_BY.to_owned(), text(&change.by)),
            (CHANGED_WITH.to_owned(), text(&change.with)),
        ]);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let put = match read {
            None => put.condition_expression("attribute_not_exists(#kind)").expression_attribute_names("#kind", KIND),
            Some(read) => {
                let (name, value) = version(kind, read);
                put.condition_expression("#version = :read")
                    .expression_attribute_names("#version", name)
                    .expression_attribute_values(":read", value)
            }
        };
        let put = put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Err(error) = put.send().await else { return Ok(DocumentWritten::Done) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refused)) => Ok(match &refused.item {
                None => DocumentWritten::Absent,
                // Our own write, whose reply was lost.
                Some(found) if stored(kind, found).is_ok_and(|found| found.text == new) => DocumentWritten::Done,
                Some(_) => DocumentWritten::Overtaken,
            }),
            _ => Err(failed(operation, error)),
        }
    }

    /// Removes the document that was read.
    ///
    /// # Errors
    /// [`DocumentCallError`] when DynamoDB refuses or does not confirm it; then it may have been removed.
    pub async fn delete(&self, kind: DocumentKind, id: &str, read: &str) -> Result<DocumentWritten, DocumentCallError> {
        let (name, value) = version(kind, read);
        let delete = self.client.delete_item().table_name(&self.table).set_key(Some(key(kind, id)));
        let delete = delete
            // One that is not there is removed, perhaps by our own call, whose reply was lost.
            .condition_expression("attribute_not_exists(#kind) OR #version = :read")
            .expression_attribute_names("#kind", KIND)
            .expression_attribute_names("#version", name)
            .expression_attribute_values(":read", value);
        let Err(error) = delete.send().await else { return Ok(DocumentWritten::Done) };
        match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(DocumentWritten::Overtaken),
            _ => Err(failed("dynamodb:DeleteItem", error)),
        }
    }
}

impl DocumentSource for DocumentTable {
    fn read<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>> {
        let read = async move { self.get(kind, id).await };
        read.map(|found| found.map(|found| found.map(|found| found.text)).map_err(unavailable)).boxed()
    }

    fn create<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>> {
        let at = System.moment().now;
        let change = DocumentChange { at, by: "webhook".to_owned(), with: env!("CARGO_PKG_VERSION").to_owned() };
        async move { self.put(kind, id, None, text, &change).await.map(|_| ()).map_err(unavailable) }.boxed()
    }

    fn is_local(&self) -> bool {
        false
    }
}

fn unavailable(error: DocumentCallError) -> DocumentsUnavailable {
    DocumentsUnavailable(Box::new(error))
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn key(kind: DocumentKind, id: &str) -> Attributes {
    HashMap::from([(KIND.to_owned(), text(kind.as_str())), (ID.to_owned(), text(id))])
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()).into())
}

/// The attributes of a text.
fn document(kind: DocumentKind, new: &str) -> Result<Attributes, BodyError> {
    Ok(match kind {
        DocumentKind::Routes => HashMap::from([
            (DOCUMENT.to_owned(), AttributeValue::B(Blob::new(compress(new.as_bytes())?))),
            (SHA256.to_owned(), AttributeValue::S(hash(new))),
        ]),
        DocumentKind::Endpoint | DocumentKind::Destination | DocumentKind::Key => {
            HashMap::from([(DOCUMENT.to_owned(), text(new))])
        }
    })
}

/// The attribute that names a text, with its value.
fn version(kind: DocumentKind, read: &str) -> (&'static str, AttributeValue) {
    match kind {
        DocumentKind::Routes => (SHA256, AttributeValue::S(hash(read))),
        DocumentKind::Endpoint | DocumentKind::Destination | DocumentKind::Key => (DOCUMENT, text(read)),
    }
}

/// Why an item holds no document. It may hold a secret, so nothing of it is shown.
type NoText = Box<dyn Error + Send + Sync>;

fn id_of(item: &Attributes) -> Result<String, NoText> {
    let id = item.get(ID).and_then(|id| id.as_s().ok());
    id.cloned().ok_or_else(|| "an item has no id that is text".into())
}

fn stored(kind: DocumentKind, item: &Attributes) -> Result<StoredDocument, NoText> {
    let text = match (kind, item.get(DOCUMENT)) {
        (DocumentKind::Routes, Some(AttributeValue::B(stored))) => {
            let text = decompress(stored.as_ref())?;
            String::from_utf8(text).map_err(|_| "the route set is not UTF-8")?
        }
        (DocumentKind::Routes, _) => {
            return Err("the route set is not compressed; write it with `hookonce route deploy FILE`".into());
        }
        (_, Some(AttributeValue::S(text))) => text.clone(),
        (_, Some(_) | None) => return Err("the attribute `document` is not a string".into()),
    };
    let words = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
    let at = item.get(CHANGED_AT).and_then(|value| value.as_n().ok()?.parse().ok());
    let change = at.map(|at| DocumentChange {
        at: EpochMs(at),
        by: words(CHANGED_BY).unwrap_or_default(),
        with: words(CHANGED_WITH).unwrap_or_default(),
    });
    Ok(StoredDocument { text, change })
}

fn no_text(operation: &'static str, cause: NoText) -> DocumentCallError {
    DocumentCallError { operation, code: None, cause }
}

fn failed<E, R>(operation: &'static str, error: SdkError<E, R>) -> DocumentCallError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code).map(ToOwned::to_owned);
    // Only the cause: the error itself prints the whole response, which may hold secrets.
    DocumentCallError { operation, code, cause: error.into_source().unwrap_or_else(Into::into) }
}
