//! Which stack a command acts on, as arguments: the local one, or a named one on AWS.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use hookonce_runtime::documents::file::DocumentFolder;
use hookonce_runtime::documents::{DocumentKind, ROUTE_SET_ID};
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::output::hints::is_folder;

/// The default folder of a local stack.
pub(crate) const DATA_FOLDER: &str = ".hookonce";

/// Reads the folder of a local stack.
fn folder(text: &str) -> Result<PathBuf, String> {
    let form = || {
        format!(
            "a stack on this machine is named by its folder: write ./{text}; so that no sample reaches a stack on AWS by a mere \
             name, `trigger` and `send` take its --url URL and --secret -"
        )
    };
    is_folder(text).then(|| text.into()).ok_or_else(form)
}

/// The folder of a local stack.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataFolder {
    /// Its folder, such as ./shop.
    #[arg(long = "stack", value_name = "DIR", default_value = DATA_FOLDER, value_parser = folder)]
    pub(crate) data: PathBuf,
}

impl DataFolder {
    /// Its documents, where functions in other processes find them, too.
    pub(crate) fn documents(&self) -> DocumentFolder {
        DocumentFolder::new(&self.data)
    }

    /// The route set.
    pub(crate) fn routes(&self) -> PathBuf {
        self.documents().path(DocumentKind::Routes, ROUTE_SET_ID)
    }

    /// The embedded database's files.
    pub(crate) fn tables(&self) -> PathBuf {
        self.data.join("tables")
    }

    /// The latest requests.
    pub(crate) fn requests(&self) -> PathBuf {
        self.data.join("requests")
    }

    /// What says which functions are to be paused.
    pub(crate) fn pauses(&self) -> PathBuf {
        self.data.join("paused")
    }

    /// The environment variables for functions that another process runs.
    pub(crate) fn environment(&self) -> PathBuf {
        self.data.join("functions.env")
    }
}

/// Reads a file.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be read.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("reading {} failed: {error}", path.display()), "check the path"))
}

/// Writes a file and creates its folders. Only the owner may read it, at any moment, because it may hold secrets. It
/// replaces the old file at once, so that nobody reads half of it and a full disk loses nothing.
///
/// # Errors
/// [`Failure::Usage`] when the file or a folder cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    written(path, text)?.persist(path).map(|_| ()).map_err(|error| denied(path, &error.error))
}

/// The same for a file that does not exist yet. False if it does.
///
/// # Errors
/// [`Failure::Usage`] when the file or a folder cannot be written.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<bool, Failure> {
    match written(path, text)?.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(denied(path, &error.error)),
    }
}

/// The text in a file beside the path, with the permissions 0600.
fn written(path: &Path, text: &str) -> Result<NamedTempFile, Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| denied(path, &error))?;
    let mut file = NamedTempFile::new_in(folder).map_err(|error| denied(path, &error))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all());
    written.map(|()| file).map_err(|error| denied(path, &error))
}

fn denied(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}", path.display()), "choose another folder with --stack")
}

/// The stack that a command acts on. For a deployed stack, the AWS SDK reads region and credentials as usual.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Its name, or ./folder.
    ///
    /// A stack on AWS has a name; the folder of one on this machine begins with a dot or a slash, such as ./shop.
    #[arg(long, value_name = "NAME|DIR", default_value = DATA_FOLDER)]
    stack: String,
}

impl Place {
    /// A deployed stack.
    pub(crate) const fn named(stack: String) -> Self {
        Self { stack }
    }

    /// The name of a deployed stack. `None` for a local one.
    pub(crate) fn deployed(&self) -> Option<&str> {
        (!is_folder(&self.stack)).then_some(&self.stack)
    }

    /// The folder of the local stack, or the default one beside a deployed stack.
    pub(crate) fn folder(&self) -> DataFolder {
        DataFolder { data: self.deployed().map_or(&*self.stack, |_| DATA_FOLDER).into() }
    }
}

/// The stack whose records a command acts on, or restored copies of its tables.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Restored copy of the stack's inbox table.
    #[arg(long, value_name = "NAME", requires = "stack", hide_short_help = true, help_heading = "After a restore")]
    pub(crate) table: Option<String>,
    /// The copy of the domain table restored with it.
    #[arg(long, value_name = "NAME", requires = "table", hide_short_help = true, help_heading = "After a restore")]
    pub(crate) domain_table: Option<String>,
}

/// The failure when DynamoDB does not answer.
pub(crate) fn store_unavailable() -> Failure {
    Failure::unavailable(
        "DynamoDB did not answer",
        "check that the local stack runs, or check the AWS region, credentials and table name; RUST_LOG=info shows details",
    )
}
