//! Documents in a folder, for a laptop: `endpoints/<id>.json`, `destinations/<id>.json`, `routes.json` and
//! `message.key`.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use crate::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};

/// Reads a file. `None` if there is none.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A folder of documents. It need not exist yet.
#[derive(Debug, Clone)]
pub struct DocumentFolder(PathBuf);

impl DocumentFolder {
    /// The documents in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The path of a document. An id contains no character that could leave the folder.
    pub fn path(&self, kind: DocumentKind, id: &str) -> PathBuf {
        match kind {
            DocumentKind::Endpoint | DocumentKind::Destination => self.folder_of(kind).join(format!("{id}.json")),
            DocumentKind::Routes => self.0.join("routes.json"),
            DocumentKind::Key => self.0.join("message.key"),
        }
    }

    /// The folder of the documents of a kind.
    pub fn folder_of(&self, kind: DocumentKind) -> PathBuf {
        match kind {
            DocumentKind::Endpoint => self.0.join("endpoints"),
            DocumentKind::Destination => self.0.join("destinations"),
            DocumentKind::Routes | DocumentKind::Key => self.0.clone(),
        }
    }

    /// Writes the file whole under another name first, so that no reader finds a part of it.
    fn create(&self, kind: DocumentKind, id: &str, text: &str) -> io::Result<()> {
        let path = self.path(kind, id);
        fs::create_dir_all(self.folder_of(kind))?;
        let whole = path.with_extension(format!("{}.new", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&whole)?.write_all(text.as_bytes())?;
        let linked = fs::hard_link(&whole, &path);
        fs::remove_file(&whole)?;
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

impl DocumentSource for DocumentFolder {
    fn read<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>> {
        ready(read(&self.path(kind, id)).map_err(unavailable)).boxed()
    }

    fn create<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>> {
        ready(self.create(kind, id, text).map_err(unavailable)).boxed()
    }

    fn is_local(&self) -> bool {
        true
    }
}

fn unavailable(error: io::Error) -> DocumentsUnavailable {
    DocumentsUnavailable(Box::new(error))
}
