//! The endpoint documents of a local stack: one file each.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::time::UNIX_EPOCH;

use error_reporter::Report;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::document::EndpointDocument;
use hookonce_runtime::index::{Drift, Rebuilt};

use super::{EndpointStore, Listing, Stored, check, missing, overtaken, text_of};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::target::{DataFolder, write, write_new};

/// The folder, as a store.
pub(super) struct Folder(pub(super) DataFolder);

impl Folder {
    fn stored(&self, id: &EndpointId) -> Result<Option<Stored>, Failure> {
        let path = self.0.endpoints().path(id);
        let read = fs::read_to_string(&path).and_then(|text| Ok((text, fs::metadata(&path)?.modified()?)));
        match read {
            Ok((text, changed)) => {
                let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                let changed_at = EpochMs(i64::try_from(changed).unwrap_or(i64::MAX));
                Ok(Some(Stored { text, version: 0, changed_at }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path.display().to_string(), &error)),
        }
    }

    /// Whether the file still is what was read.
    fn unchanged(&self, id: &EndpointId, read: &Stored) -> Result<(), Failure> {
        let now = self.stored(id)?.ok_or_else(|| missing(id))?;
        if now.text == read.text { Ok(()) } else { Err(overtaken(id)) }
    }
}

impl EndpointStore for Folder {
    fn get<'a>(&'a self, id: &'a EndpointId) -> BoxFuture<'a, Result<Option<Stored>, Failure>> {
        ready(self.stored(id)).boxed()
    }

    fn look(&self, _endpoints_max: usize) -> BoxFuture<'_, Result<Listing, Failure>> {
        let stored = |id: EndpointId| Ok(self.stored(&id)?.map(|stored| (id, stored)));
        let documents: Result<_, _> = ids(&self.0).into_iter().filter_map(|id| stored(id).transpose()).collect();
        ready(documents.map(|documents| Listing { documents, drift: Drift::default(), is_complete: true })).boxed()
    }

    /// Looking up a file that is not there costs nothing, so a folder has no index.
    fn list<'a>(&'a self, _ids: &'a [EndpointId]) -> BoxFuture<'a, Result<(), Failure>> {
        ready(Ok(())).boxed()
    }

    fn rebuild_index<'a>(&'a self, _interrupt: &'a Interrupt) -> BoxFuture<'a, Result<Rebuilt, Failure>> {
        ready(Ok(Rebuilt { kept: 0, is_complete: true })).boxed()
    }

    fn fits(&self, _text: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn create<'a>(&'a self, id: &'a EndpointId, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        ready(write_new(&self.0.endpoints().path(id), text)).boxed()
    }

    fn replace<'a>(
        &'a self,
        id: &'a EndpointId,
        read: &'a Stored,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        ready(self.unchanged(id, read).and_then(|()| write(&self.0.endpoints().path(id), text))).boxed()
    }

    fn remove<'a>(&'a self, id: &'a EndpointId, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>> {
        let path = self.0.endpoints().path(id);
        let removed = self.unchanged(id, read);
        let remove = || fs::remove_file(&path).map_err(|error| unreadable(&path.display().to_string(), &error));
        ready(removed.and_then(|()| remove())).boxed()
    }
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("{path}: {error}"), "check the file's permissions")
}

/// Reads the document of a local endpoint.
///
/// # Errors
/// [`Failure::Usage`] when there is none, or it is not valid.
pub(crate) fn read(folder: &DataFolder, id: &EndpointId) -> Result<EndpointDocument, Failure> {
    let path = folder.endpoints().path(id);
    let text = fs::read_to_string(&path).map_err(|_| missing(id))?;
    EndpointDocument::parse(&text).map_err(|error| {
        let what = format!("{}: {}", path.display(), Report::new(&error));
        Failure::usage(what, "fix the file, or remove the endpoint")
    })
}

/// The ids of all local endpoints, valid or not.
pub(crate) fn ids(folder: &DataFolder) -> Vec<EndpointId> {
    let files = fs::read_dir(folder.endpoints().folder()).into_iter().flatten().flatten();
    files.filter_map(|file| EndpointId::parse(file.file_name().to_str()?.strip_suffix(".json")?).ok()).collect()
}

/// All local endpoints, by id. Leaves out each one that is not valid, and prints why.
pub(crate) fn read_all(folder: &DataFolder) -> BTreeMap<EndpointId, EndpointDocument> {
    let read = |id: EndpointId| match read(folder, &id) {
        Ok(document) => Some((id, document)),
        Err(failure) => {
            output::failure(&failure);
            None
        }
    };
    ids(folder).into_iter().filter_map(read).collect()
}

/// Checks and stores a local document, over any other.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid, or cannot be written.
pub(crate) fn store(folder: &DataFolder, id: &EndpointId, document: &EndpointDocument) -> Result<(), Failure> {
    check(id, document)?;
    write(&folder.endpoints().path(id), &text_of(document))
}
