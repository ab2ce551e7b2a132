//! Documents of endpoints or destinations in a folder, one `<id>.json` each. For a laptop.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::message::MessageKey;

use crate::destination::{DestinationDocument, DestinationFetchError, DestinationSource};
use crate::document::{EndpointDocument, FetchError};
use crate::message_key::{MessageKeyError, MessageKeySource};
use crate::port::{EndpointRead, EndpointSource};

/// Reads a file. `None` if there is none.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A folder of documents.
#[derive(Debug, Clone)]
pub struct DocumentFolder {
    folder: PathBuf,
}

impl DocumentFolder {
    /// Creates the source. The folder need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The path of a document. An id contains no character that could leave the folder.
    pub fn path(&self, id: &impl Display) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl EndpointSource for DocumentFolder {
    /// Looking up a file that is not there costs nothing, so a folder has no index.
    async fn fetch(&self, id: &EndpointId, shards: &[u8]) -> Result<EndpointRead, FetchError> {
        let text = read(&self.path(id)).map_err(|error| FetchError::Unavailable(Box::new(error)))?;
        let document = text.map(|text| EndpointDocument::parse(&text)).transpose().map_err(FetchError::Malformed);
        Ok(EndpointRead { document, index: shards.iter().map(|shard| (*shard, None)).collect() })
    }
}

impl DestinationSource for DocumentFolder {
    async fn fetch(&self, id: &DestinationId) -> Result<Option<DestinationDocument>, DestinationFetchError> {
        let text = read(&self.path(id)).map_err(|error| DestinationFetchError::Unavailable(Box::new(error)))?;
        text.map(|text| DestinationDocument::parse(&text)).transpose().map_err(DestinationFetchError::Invalid)
    }
}

/// A file with the message key.
#[derive(Debug, Clone)]
pub struct MessageKeyFile(PathBuf);

impl MessageKeyFile {
    /// Creates the source. The file need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl MessageKeySource for MessageKeyFile {
    fn message_key(&self) -> BoxFuture<'_, Result<MessageKey, MessageKeyError>> {
        let text = read(&self.0).map_err(|error| MessageKeyError::Unavailable(Box::new(error)));
        ready(text.and_then(|text| MessageKeyError::or_key(text.as_deref()))).boxed()
    }
}
