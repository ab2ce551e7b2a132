//! Which stack a command acts on: the local one, or a named one on AWS.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use hookonce_local::clients;
#[cfg(feature = "aws")]
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::aws::DynamoStore;
#[cfg(feature = "aws")]
use hookonce_runtime::aws::{dynamodb_client, sqs_client};
use hookonce_runtime::documents::{DocumentKind, ROUTE_SET_ID};
use hookonce_runtime::file::DocumentFolder;
use hookonce_runtime::strict::{self, ShowNames};
use hookonce_runtime::tables::OwnTables;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

#[cfg(feature = "aws")]
use crate::account::{CALL_MAX, caller, signed_in};
use crate::failure::Failure;
#[cfg(feature = "aws")]
use crate::lambda::DeployedFunctions;
#[cfg(feature = "aws")]
use crate::outputs::Outputs;
#[cfg(feature = "aws")]
use crate::watch::Watch;

/// The default folder of a local stack.
pub(crate) const DATA_FOLDER: &str = ".hookonce";

/// The folder of a local stack.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataFolder {
    /// Folder of the local stack.
    #[arg(long, value_name = "DIR", default_value = DATA_FOLDER)]
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

    /// What says which functions are to be paused.
    pub(crate) fn pauses(&self) -> PathBuf {
        self.data.join("paused")
    }

    /// The environment variables for functions that another process runs.
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
        strict::read(text.as_bytes(), ShowNames::Whole).map_err(|_| none(std::io::Error::other("malformed")))
    }
}

/// How other commands reach a running local stack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunningStack {
    /// The gateway's URL.
    pub(crate) url: String,
    /// The origin under which providers reach it, such as that of a tunnel.
    pub(crate) public_url: Option<String>,
    /// The URL of DynamoDB.
    pub(crate) dynamodb_url: String,
    /// The URL of SQS.
    pub(crate) sqs_url: String,
    /// The queue of hints.
    pub(crate) queue_url: String,
    /// The queue of hints of events whose handler is slow.
    pub(crate) slow_queue_url: String,
    /// The queue of hints of effects.
    pub(crate) effects_queue_url: String,
    /// The inbox table.
    pub(crate) inbox_table: String,
    /// The domain table.
    pub(crate) domain_table: String,
    /// The user tables.
    pub(crate) tables: OwnTables,
    /// The handlers in other languages that it runs, by name. `None` if it does not know which ones its functions find.
    pub(crate) handlers: Option<Vec<String>>,
    /// The URL of Lambda's invoke API for these handlers. `None` if it runs none.
    pub(crate) lambda_url: Option<String>,
    /// The process id.
    pub(crate) pid: u32,
    /// The release of hookonce that runs it.
    pub(crate) version: String,
}

/// The file that describes a running stack. Dropping this removes the file.
#[derive(Debug)]
pub(crate) struct Announcement(PathBuf);

impl RunningStack {
    /// Writes this description to disk, for other commands, until the announcement is dropped.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the folder cannot be written.
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
    Failure::usage(format!("{} cannot be written: {error}", path.display()), "choose another folder with --data")
}

/// The stack that a command acts on. For a deployed stack, the AWS SDK reads region and credentials as usual.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) folder: DataFolder,
    /// Name of a deployed stack.
    #[arg(long, value_name = "NAME")]
    pub(crate) stack: Option<String>,
    /// Restored copy of the stack's inbox table.
    #[arg(long, value_name = "NAME", requires = "stack")]
    pub(crate) table: Option<String>,
    /// The copy of the domain table that was restored with it.
    #[arg(long, value_name = "NAME", requires = "table")]
    pub(crate) domain_table: Option<String>,
}

/// The queues of a stack.
#[derive(Debug)]
pub(crate) struct QueueUrls {
    /// The queue of hints. It names its dead-letter queue, which all have.
    pub(crate) hints: String,
    /// The queue of hints of events whose handler is slow.
    pub(crate) slow: String,
    /// The queue of hints of effects.
    pub(crate) effects: String,
}

/// What AWS knows of a named stack.
#[cfg(feature = "aws")]
#[derive(Debug)]
pub(crate) struct AwsStatus {
    /// How to ask it more.
    pub(crate) config: aws_config::SdkConfig,
    /// The stack's name.
    pub(crate) stack: String,
    /// Whom AWS takes the caller for.
    pub(crate) caller: Result<String, Failure>,
    /// The release that is deployed.
    pub(crate) version: Result<String, Failure>,
    /// What CloudWatch knows.
    pub(crate) watch: Result<Watch, Failure>,
    /// What Lambda knows.
    pub(crate) functions: Result<DeployedFunctions, Failure>,
}

impl Target {
    /// A named stack, or the one that runs in this folder.
    pub(crate) fn named(folder: DataFolder, stack: Option<String>) -> Self {
        Self { folder, stack, table: None, domain_table: None }
    }

    /// The tables of the named or running stack. A restored copy may have no domain table.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running.
    pub(crate) async fn store(&self) -> Result<DynamoStore, Failure> {
        let Some(stack) = &self.stack else {
            let running = self.folder.running()?;
            let client = clients::dynamodb(&running.dynamodb_url);
            return Ok(DynamoStore::new(client, running.inbox_table, running.domain_table).with_tables(running.tables));
        };
        self.deployed(stack).await
    }

    /// The same for what also needs the domain table.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running, or a copy is named without its domain table.
    pub(crate) async fn whole_store(&self) -> Result<DynamoStore, Failure> {
        if !self.knows_domain() {
            return Err(Failure::usage(
                "this also needs the domain table",
                "pass --domain-table NAME: the copy that was restored with --table",
            ));
        }
        self.store().await
    }

    /// Whether the domain table is known. Without it, a command shows only what the inbox table holds.
    pub(crate) fn knows_domain(&self) -> bool {
        self.table.is_none() || self.domain_table.is_some()
    }

    #[cfg(feature = "aws")]
    async fn deployed(&self, stack: &str) -> Result<DynamoStore, Failure> {
        let config = signed_in().await?;
        let outputs = Outputs::of(&config, stack).await?;
        let tables = outputs.own_tables()?;
        let (inbox, domain) = match self.table.clone() {
            // Never the stack's own domain table beside another inbox table.
            Some(inbox) => (inbox.clone(), self.domain_of_copy(&inbox, &outputs)?),
            None => (outputs.inbox_table, outputs.domain_table),
        };
        Ok(DynamoStore::new(dynamodb_client(&config, CALL_MAX), inbox, domain).with_tables(tables))
    }

    /// The domain table beside a restored inbox table. Nothing if none is named.
    #[cfg(feature = "aws")]
    fn domain_of_copy(&self, inbox: &str, outputs: &Outputs) -> Result<String, Failure> {
        let domain = self.domain_table.clone().unwrap_or_default();
        if inbox == outputs.inbox_table || domain != outputs.domain_table {
            return Ok(domain);
        }
        Err(Failure::usage(
            format!("{inbox} is a copy of the stack's inbox table, but {domain} is its live domain table"),
            "name the copy of the domain table that was restored with it: docs/runbook.md",
        ))
    }

    /// Whether it is the stack that runs on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.stack.is_none()
    }

    /// Whether it is a restored copy of a stack's table, which has no queue, no functions and no alarms.
    pub(crate) fn is_copy(&self) -> bool {
        self.table.is_some()
    }

    /// The queues of the named or running stack, and a client for them.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running.
    pub(crate) async fn queues(&self) -> Result<(aws_sdk_sqs::Client, QueueUrls), Failure> {
        if let Some(stack) = &self.stack {
            return self.deployed_queues(stack).await;
        }
        let running = self.folder.running()?;
        let urls =
            QueueUrls { hints: running.queue_url, slow: running.slow_queue_url, effects: running.effects_queue_url };
        Ok((clients::sqs(&running.sqs_url), urls))
    }

    #[cfg(feature = "aws")]
    async fn deployed_queues(&self, stack: &str) -> Result<(aws_sdk_sqs::Client, QueueUrls), Failure> {
        let config = signed_in().await?;
        let outputs = Outputs::of(&config, stack).await?;
        let urls =
            QueueUrls { hints: outputs.queue_url, slow: outputs.slow_queue_url, effects: outputs.effects_queue_url };
        Ok((sqs_client(&config, CALL_MAX), urls))
    }

    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unused_async, reason = "async only with the feature `aws`")]
    async fn deployed_queues(&self, _: &str) -> Result<(aws_sdk_sqs::Client, QueueUrls), Failure> {
        Err(without_aws())
    }

    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unused_async, reason = "async only with the feature `aws`")]
    async fn deployed(&self, _: &str) -> Result<DynamoStore, Failure> {
        Err(without_aws())
    }

    /// What AWS knows of a named stack beside its tables and queues. `None` for any other, which has no alarms. A
    /// service that does not answer does not hide the others.
    ///
    /// # Errors
    /// [`Failure`] when there are no credentials or no region.
    #[cfg(feature = "aws")]
    pub(crate) async fn aws_status(&self, now: EpochMs) -> Result<Option<AwsStatus>, Failure> {
        let Some(stack) = &self.stack else { return Ok(None) };
        let config = signed_in().await?;
        let outputs = async {
            let outputs = match Outputs::of(&config, stack).await {
                Ok(outputs) => outputs,
                Err(failure) => return (Err(failure.clone()), Err(failure)),
            };
            let functions = DeployedFunctions::of(&config, &outputs.functions).await;
            (Ok(outputs.version), functions)
        };
        let (caller, (version, functions), watch) =
            futures::join!(caller(&config), outputs, Watch::of(&config, stack, now));
        Ok(Some(AwsStatus { config, stack: stack.clone(), caller, version, watch, functions }))
    }

    /// Whom AWS takes the caller for. `None` on a local stack, where nobody signs in.
    ///
    /// # Errors
    /// [`Failure`] when AWS rejects the credentials or does not answer.
    #[cfg(feature = "aws")]
    pub(crate) async fn caller(&self) -> Result<Option<String>, Failure> {
        if self.is_local() {
            return Ok(None);
        }
        caller(&signed_in().await?).await.map(Some)
    }

    /// Nobody signs in.
    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unused_async, reason = "async only with the feature `aws`")]
    pub(crate) async fn caller(&self) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}

/// The failure of a build without the feature `aws`.
#[cfg(not(feature = "aws"))]
pub(crate) fn without_aws() -> Failure {
    Failure::usage(
        "this build of hookonce cannot access AWS",
        "use the default build, which has the feature `aws`: `cargo run --bin hookonce -- ...`",
    )
}

/// The failure when DynamoDB does not answer.
pub(crate) fn store_unavailable() -> Failure {
    Failure::unavailable(
        "DynamoDB did not answer",
        "check that the local stack runs, or check the AWS region, credentials and table name; --log info shows details",
    )
}
