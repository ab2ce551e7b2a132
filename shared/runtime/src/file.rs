//! Endpoint documents in a folder, one `<id>.json` each. For a laptop.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hookonce_protocol::key::EndpointId;

use crate::document::{EndpointDocument, FetchError};
use crate::port::{EndpointRead, EndpointSource};

/// A folder of endpoint documents.
#[derive(Debug, Clone)]
pub struct EndpointFolder {
    folder: PathBuf,
}

impl EndpointFolder {
    /// Creates the source. The folder need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The path of an endpoint's document. An endpoint id contains no character that could leave the folder.
    pub fn path(&self, id: &EndpointId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl EndpointSource for EndpointFolder {
    /// Looking up a file that is not there costs nothing, so a folder has no index.
    async fn fetch(&self, id: &EndpointId, shards: &[u8]) -> Result<EndpointRead, FetchError> {
        let document = match std::fs::read_to_string(self.path(id)) {
            Ok(text) => EndpointDocument::parse(&text).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => return Err(FetchError::Unavailable(Box::new(error))),
        };
        Ok(EndpointRead { document, index: shards.iter().map(|shard| (*shard, None)).collect() })
    }
}
