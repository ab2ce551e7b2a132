//! Destination documents in a folder, one `<id>.json` each. For a laptop.

use std::io::ErrorKind;
use std::path::PathBuf;

use hookonce_protocol::effect::DestinationId;

use super::document::DestinationDocument;
use super::source::{DestinationFetchError, DestinationSource};

/// A folder of destination documents.
#[derive(Debug, Clone)]
pub struct DestinationFolder {
    folder: PathBuf,
}

impl DestinationFolder {
    /// Creates the source. The folder need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The path of a destination's document. An id contains no character that could leave the folder.
    pub fn path(&self, id: &DestinationId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}

impl DestinationSource for DestinationFolder {
    async fn fetch(&self, id: &DestinationId) -> Result<Option<DestinationDocument>, DestinationFetchError> {
        match std::fs::read_to_string(self.path(id)) {
            Ok(text) => DestinationDocument::parse(&text).map(Some).map_err(DestinationFetchError::Invalid),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DestinationFetchError::Unavailable(Box::new(error))),
        }
    }
}
