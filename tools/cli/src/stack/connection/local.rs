//! The stack that runs on this machine, as it describes itself in a file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use hookonce_runtime::documents::strict::{self, ShowNames};
use hookonce_runtime::handlers::tables::OwnTables;
use serde::{Deserialize, Serialize};

use super::parts::StackParts;
use crate::failure::Failure;
use crate::output;
use crate::stack::target::{DATA_FOLDER, DataFolder, write};

/// How long a stack on this machine may take to answer that it is there.
const PROBE_MAX: Duration = Duration::from_millis(500);

/// How other commands reach a running local stack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunningStack {
    /// Its tables and queues.
    #[serde(flatten)]
    pub(crate) parts: StackParts,
    /// The gateway's URL.
    pub(crate) url: String,
    /// The origin under which providers reach it, such as that of a tunnel.
    pub(crate) public_url: Option<String>,
    /// The first address of the console, which lets a browser in.
    pub(crate) console_url: String,
    /// The folder that keeps its latest requests. `None` if other functions take them.
    pub(crate) requests: Option<PathBuf>,
    /// The URL of DynamoDB.
    pub(crate) dynamodb_url: String,
    /// The URL of SQS.
    pub(crate) sqs_url: String,
    /// The user tables.
    pub(crate) tables: OwnTables,
    /// The handlers in other languages that it runs, by name. `None` if it does not know which ones its functions find.
    pub(crate) handlers: Option<Vec<String>>,
    /// The URL of Lambda's invoke API for these handlers. `None` if it runs none.
    pub(crate) lambda_url: Option<String>,
    /// The process id.
    pub(crate) pid: u32,
}

/// The file that describes a running stack. Dropping this removes the file.
#[derive(Debug)]
pub(crate) struct Announcement(PathBuf);

impl RunningStack {
    /// Whether its process is there. One that was killed leaves its file behind.
    pub(crate) fn is_alive(&self) -> bool {
        std::net::TcpStream::connect_timeout(&self.gateway(), PROBE_MAX).is_ok()
    }

    /// Where its gateway listens, or nowhere.
    fn gateway(&self) -> SocketAddr {
        let address = self.url.strip_prefix("http://").and_then(|address| address.parse().ok());
        address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

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

impl DataFolder {
    fn state(&self) -> PathBuf {
        self.data.join("stack.json")
    }

    /// The running stack.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when none runs.
    pub(crate) fn running(&self) -> Result<RunningStack, Failure> {
        self.described().ok_or_else(|| {
            let elsewhere = self.running_near();
            let hint = if elsewhere.is_empty() {
                "start one with `hookonce dev`, or name a deployed one with --stack".to_owned()
            } else {
                let folders = elsewhere.iter().map(|data| data.to_string_lossy());
                let options = folders.map(|folder| format!("--stack {}", output::quoted(&folder)));
                format!("one runs in a folder near: pass {}", options.collect::<Vec<_>>().join(", or "))
            };
            Failure::unavailable(format!("no stack is running in {}", self.data.display()), hint)
        })
    }

    /// The folders of running stacks that have the same name, in the folders above and in those of this one.
    fn running_near(&self) -> Vec<PathBuf> {
        let Ok(here) = std::env::current_dir() else { return Vec::new() };
        let name = if self.data.is_relative() { self.data.as_path() } else { Path::new(DATA_FOLDER) };
        let below = fs::read_dir(&here).into_iter().flatten().flatten().map(|entry| entry.path());
        let near = here.ancestors().skip(1).map(Path::to_owned).chain(below);
        let folders = near.map(|folder| Self { data: folder.join(name) });
        folders.filter(|folder| folder.described().is_some_and(|it| it.is_alive())).map(|folder| folder.data).collect()
    }

    /// The stack that the folder says is running.
    pub(crate) fn described(&self) -> Option<RunningStack> {
        strict::read(fs::read_to_string(self.state()).ok()?.as_bytes(), ShowNames::Whole).ok()
    }
}

/// The stack of a folder. Its file is read when it is first needed.
#[derive(Debug)]
pub(crate) struct Local {
    folder: DataFolder,
    running: OnceLock<Result<RunningStack, Failure>>,
}

impl Local {
    pub(super) fn of(folder: &DataFolder) -> Self {
        Self { folder: folder.clone(), running: OnceLock::new() }
    }

    /// The running stack.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when none runs.
    pub(crate) fn running(&self) -> Result<&RunningStack, Failure> {
        self.running.get_or_init(|| self.folder.running()).as_ref().map_err(Clone::clone)
    }
}
