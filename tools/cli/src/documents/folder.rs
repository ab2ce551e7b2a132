//! The documents of a local stack: one file each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::documents::file::{DocumentFolder, read};

use super::{DocumentId, DocumentStore, Stored, missing, overtaken};
use crate::failure::Failure;
use crate::stack::target::{DataFolder, write, write_new};

/// The folder of a family, as a store.
pub(crate) struct Folder<I> {
    folder: DocumentFolder,
    family: PhantomData<fn() -> I>,
}

impl<I: DocumentId> Folder<I> {
    /// The documents of a local stack.
    pub(crate) fn of(data: &DataFolder) -> Self {
        Self { folder: data.documents(), family: PhantomData }
    }

    /// The file of a document.
    pub(crate) fn path(&self, id: &I) -> PathBuf {
        self.folder.path(I::KIND, &id.to_string())
    }

    /// The ids of all documents, valid or not.
    pub(crate) fn ids(&self) -> Vec<I> {
        let files = fs::read_dir(self.folder.folder_of(I::KIND)).into_iter().flatten().flatten();
        files.filter_map(|file| I::of(file.file_name().to_str()?.strip_suffix(".json")?).ok()).collect()
    }

    /// The document of an id, if there is one.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be read.
    pub(crate) fn stored(&self, id: &I) -> Result<Option<Stored>, Failure> {
        let path = self.path(id);
        let Some(text) = read(&path).map_err(|error| unreadable(&path, &error))? else { return Ok(None) };
        let changed = match fs::metadata(&path).and_then(|file| file.modified()) {
            Ok(changed) => changed,
            // It was removed a moment ago.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let changed_at = EpochMs(i64::try_from(changed).unwrap_or(i64::MAX));
        Ok(Some(Stored { text, changed_at: Some(changed_at) }))
    }

    /// Whether the file still is what was read.
    fn unchanged(&self, id: &I, read: &Stored) -> Result<(), Failure> {
        let now = self.stored(id)?.ok_or_else(|| missing(id))?;
        if now.text == read.text { Ok(()) } else { Err(overtaken(id)) }
    }
}

impl<I: DocumentId> DocumentStore<I> for Folder<I> {
    fn get<'a>(&'a self, id: &'a I) -> BoxFuture<'a, Result<Option<Stored>, Failure>> {
        ready(self.stored(id)).boxed()
    }

    fn all(&self) -> BoxFuture<'_, Result<BTreeMap<I, Stored>, Failure>> {
        let stored = |id: I| Ok(self.stored(&id)?.map(|stored| (id, stored)));
        ready(self.ids().into_iter().filter_map(|id| stored(id).transpose()).collect()).boxed()
    }

    fn fits(&self, _text: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn create<'a>(&'a self, id: &'a I, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        ready(write_new(&self.path(id), text)).boxed()
    }

    fn replace<'a>(&'a self, id: &'a I, read: &'a Stored, text: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        ready(self.unchanged(id, read).and_then(|()| write(&self.path(id), text))).boxed()
    }

    fn remove<'a>(&'a self, id: &'a I, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>> {
        let path = self.path(id);
        let removed = self.unchanged(id, read);
        let remove = || fs::remove_file(&path).map_err(|error| unreadable(&path, &error));
        ready(removed.and_then(|()| remove())).boxed()
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()), "check the file's permissions")
}
