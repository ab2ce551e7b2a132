//! Which stack a command acts on: the one that runs on this machine, or the one that is named.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use hookonce_local::clients;
#[cfg(feature = "aws")]
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::DynamoStore;
#[cfg(feature = "aws")]
use hookonce_runtime::aws::{dynamodb_client, shared_config};
use hookonce_runtime::file::EndpointFolder;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
#[cfg(feature = "aws")]
use crate::outputs::Outputs;

/// Where a local stack keeps its state unless told otherwise.
pub(crate) const DATA_FOLDER: &str = ".hookonce";

/// How long one call of a command may take.
#[cfg(feature = "aws")]
const CALL_MAX: Millis = Millis::seconds(20);

/// The folder of a local stack.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataFolder {
    /// The folder of the local stack.
    #[arg(long, value_name = "DIR", default_value = DATA_FOLDER)]
    pub(crate) data: PathBuf,
}

impl DataFolder {
    /// The endpoint documents.
    pub(crate) fn endpoints(&self) -> EndpointFolder {
        EndpointFolder::new(self.data.join("endpoints"))
    }

    /// The tables.
    pub(crate) fn tables(&self) -> PathBuf {
        self.data.join("tables")
    }

    /// What the functions read where another process runs them.
    pub(crate) fn environment(&self) -> PathBuf {
        self.data.join("functions.env")
    }

    fn state(&self) -> PathBuf {
        self.data.join("stack.json")
    }

    /// The running stack.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when none runs.
    pub(crate) fn running(&self) -> Result<RunningStack, Failure> {
        let none = |_| {
            Failure::unavailable(
                format!("no stack is running in {}", self.data.display()),
                "start one with `hookonce dev`, or name a deployed one with --stack",
            )
        };
        let text = fs::read_to_string(self.state()).map_err(none)?;
        serde_json::from_str(&text).map_err(|_| none(std::io::Error::other("malformed")))
    }
}

/// What a running local stack tells the other commands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunningStack {
    /// The gateway.
    pub(crate) url: String,
    /// The store.
    pub(crate) dynamodb_url: String,
    /// The inbox table.
    pub(crate) inbox_table: String,
    /// The domain table.
    pub(crate) domain_table: String,
    /// The process.
    pub(crate) pid: u32,
}

/// The state of a running stack, on disk while this lives.
#[derive(Debug)]
pub(crate) struct Announcement(PathBuf);

impl RunningStack {
    /// Tells the other commands about this stack until the announcement is dropped.
    ///
    /// # Errors
    /// [`Failure`] when the folder cannot be written.
    pub(crate) fn announce(&self, folder: &DataFolder) -> Result<Announcement, Failure> {
        let path = folder.state();
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        write(&path, &text)?;
        Ok(Announcement(path))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file and the folders above it, readable by its owner alone: it may hold secrets.
///
/// # Errors
/// [`Failure`] when that is not possible.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let denied = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be written: {error}", path.display()), "choose another folder with --data")
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(denied)?;
    }
    fs::write(path, text).map_err(denied)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(denied)?;
    }
    Ok(())
}

/// The stack that a command acts on. AWS settings of a deployed one come from the environment as usual.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) folder: DataFolder,
    /// A deployed stack, by the name that it was deployed under.
    #[arg(long, value_name = "NAME", conflicts_with = "table")]
    pub(crate) stack: Option<String>,
    /// The inbox table of a deployed stack.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// The domain table of a deployed stack.
    #[arg(long, value_name = "NAME", requires = "table")]
    pub(crate) domain_table: Option<String>,
    /// The queue of hints of a deployed stack. No command that only reads needs it.
    #[arg(long, value_name = "URL", requires = "table")]
    pub(crate) queue_url: Option<String>,
}

impl Target {
    /// The store of the named or running stack.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running.
    pub(crate) async fn store(&self) -> Result<DynamoStore, Failure> {
        if self.stack.is_some() || self.table.is_some() {
            return self.deployed().await;
        }
        let running = self.folder.running()?;
        Ok(DynamoStore::new(clients::dynamodb(&running.dynamodb_url), running.inbox_table, running.domain_table))
    }

    /// The store of the stack that is named.
    #[cfg(feature = "aws")]
    async fn deployed(&self) -> Result<DynamoStore, Failure> {
        let config = shared_config().await;
        let client = dynamodb_client(&config, CALL_MAX);
        let Some(stack) = &self.stack else {
            let (inbox, domain) = (self.table.clone().unwrap_or_default(), self.domain_table.clone());
            return Ok(DynamoStore::new(client, inbox, domain.unwrap_or_default()));
        };
        let outputs = Outputs::of(&config, stack).await?;
        Ok(DynamoStore::new(client, outputs.inbox_table, outputs.domain_table))
    }

    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unused_async, reason = "with the feature, it waits")]
    async fn deployed(&self) -> Result<DynamoStore, Failure> {
        Err(Failure::usage(
            "this build of hookonce reaches no AWS account",
            "build it with the feature `aws`, which is on by default: `cargo run --bin hookonce -- ...`",
        ))
    }
}

/// The failure of a store that does not answer.
pub(crate) fn store_unavailable() -> Failure {
    Failure::unavailable(
        "the store did not answer",
        "check that the stack still runs, or the AWS region, credentials and table name; --log info says more",
    )
}
