//! Handlers in other languages that `hookonce dev` runs as Lambda would: each invocation in a process of the handler's
//! command, which talks to a Runtime API. When a file changes, new processes run the new code.
//!
//! A worker in this process invokes them directly, any other one through Lambda's invoke API.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use hookonce_local::ambient::Ambient;
use hookonce_local::invoke::{Invoke as _, InvokeError, Isolated};
use hookonce_local::invoke_api::{InvokeApi, plain_name};
use hookonce_local::process::{Lines, ProcessConfig, ProcessInvoke};
use hookonce_runtime::remote::{CallError, CallHandler};
use tokio::task::AbortHandle;

use crate::output;

/// The longest name of a function, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The most processes of one handler in parallel.
const PROCESSES_MAX: usize = 4;

/// How long an invocation may take. The worker gives up earlier.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often the files are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The most files that are looked at.
const FILES_MAX: usize = 20_000;

/// Folders that no handler's source is in. Names that begin with a dot are left out, too.
const LEFT_OUT: [&str; 3] = ["__pycache__", "node_modules", "target"];

/// A handler and the command that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandlerCommand {
    name: String,
    program: String,
    arguments: Vec<String>,
}

impl HandlerCommand {
    /// Reads `NAME=COMMAND`. The command is split into words as a shell does it, but no shell runs it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("it must be NAME=COMMAND")?;
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !plain || !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err("the name must have 1 to 64 of the characters a-z, A-Z, 0-9, '-' and '_'".to_owned());
        }
        let mut words = shlex::split(command).ok_or("a quotation mark in the command is not closed")?.into_iter();
        let program = words.next().ok_or("there is no command after the =")?;
        Ok(Self { name: name.to_owned(), program, arguments: words.collect() })
    }

    fn function(self, ambient: Ambient) -> (String, ProcessInvoke) {
        let name = self.name.clone();
        let lines = Lines::to(move |line| output::note(&format!("[{name}] {line}")));
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let config = ProcessConfig {
            binary: self.program.into(),
            arguments: self.arguments,
            // Python holds back what it prints into a pipe.
            environment: environment.chain([("PYTHONUNBUFFERED".to_owned(), "1".to_owned())]).collect(),
            lines: Some(lines),
            concurrency_max: PROCESSES_MAX,
        };
        (self.name, ProcessInvoke::new(config, ambient))
    }
}

/// The handlers to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandlerCommands {
    /// One for each handler.
    pub(crate) commands: Vec<HandlerCommand>,
    /// The folder of their sources.
    pub(crate) watched: PathBuf,
    /// The folder of the stack, which always changes.
    pub(crate) data: PathBuf,
}

impl HandlerCommands {
    /// Starts the service that runs them. A process starts with the first invocation.
    ///
    /// # Errors
    /// The error of the operating system, if it gives no port.
    pub(crate) async fn start(&self, access_key_id: &str, ambient: Ambient) -> io::Result<OwnHandlers> {
        if self.commands.is_empty() {
            return Ok(OwnHandlers::default());
        }
        let functions = self.commands.iter().map(|command| command.clone().function(ambient.clone()));
        let functions: BTreeMap<_, _> = functions.collect();
        let watch = tokio::spawn(watch(self.watched.clone(), self.data.clone(), functions.clone())).abort_handle();
        let api = InvokeApi::start(functions.clone(), TIMEOUT, access_key_id).await?;
        let isolated = functions.into_iter().map(|(name, function)| (name, Isolated::new(function, TIMEOUT)));
        Ok(OwnHandlers { functions: isolated.collect(), running: Some(Running { api, watch }) })
    }
}

/// Running handlers in other languages.
#[derive(Debug, Default)]
pub(crate) struct OwnHandlers {
    functions: BTreeMap<String, Isolated<ProcessInvoke>>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    api: InvokeApi,
    watch: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl OwnHandlers {
    /// The endpoint URL of Lambda, if there is a handler.
    pub(crate) fn url(&self) -> Option<String> {
        self.running.as_ref().map(|running| running.api.url())
    }

    /// The names of the handlers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// What a worker in this process calls.
    pub(crate) fn calls(&self) -> Box<dyn CallHandler> {
        Box::new(DirectCalls(self.functions.clone()))
    }
}

/// Invokes the handlers without the invoke API.
#[derive(Debug)]
struct DirectCalls(BTreeMap<String, Isolated<ProcessInvoke>>);

impl CallHandler for DirectCalls {
    fn call<'a>(&'a self, handler: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            let Some(function) = self.0.get(plain_name(handler)) else {
                return Err(CallError::Away("`hookonce dev` was started without a --handler of this name".into()));
            };
            let event = serde_json::from_slice(&request).map_err(|error| CallError::Crashed(error.into()))?;
            match function.invoke(event).await {
                Ok(answer) => Ok(answer.to_string().into_bytes()),
                // Nobody can have seen the event.
                Err(error @ InvokeError::NotStarted { .. }) => Err(CallError::Away(error.into())),
                Err(error) => Err(CallError::Crashed(error.into())),
            }
        })
    }
}

/// Renews the processes whenever a file has changed.
async fn watch(folder: PathBuf, data: PathBuf, functions: BTreeMap<String, ProcessInvoke>) {
    let mut known = None;
    loop {
        let (folder, data) = (folder.clone(), data.clone());
        let Ok(files) = tokio::task::spawn_blocking(move || files_below(&folder, &data)).await else { return };
        if known.as_ref().is_some_and(|known| *known != files) {
            functions.values().for_each(ProcessInvoke::renew);
            output::note("a file has changed: the next event runs the new code of the handlers");
        }
        known = Some(files);
        tokio::time::sleep(LOOK_PERIOD).await;
    }
}

/// The files below a folder, each with its length and time, except for those in `data`.
fn files_below(folder: &Path, data: &Path) -> BTreeMap<PathBuf, (u64, Option<SystemTime>)> {
    let data = data.canonicalize().ok();
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        // Files come and go while this looks.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let left_out = name.to_str().is_none_or(|name| name.starts_with('.') || LEFT_OUT.contains(&name));
            let Ok(metadata) = entry.metadata() else { continue };
            if left_out || files.len() >= FILES_MAX || (data.is_some() && path.canonicalize().ok() == data) {
                continue;
            }
            if metadata.is_dir() {
                folders.push(path);
            } else {
                files.insert(path, (metadata.len(), metadata.modified().ok()));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_into_words_and_names_its_handler() {
        let command = HandlerCommand::parse("billing-plan=python -m app 'two words' a=b").unwrap();
        assert_eq!(command.name, "billing-plan");
        assert_eq!(command.program, "python");
        assert_eq!(command.arguments, ["-m", "app", "two words", "a=b"]);
        for wrong in ["python app.py", "=python", "a b=python", "a=", "a='", &format!("{}=x", "a".repeat(65))] {
            HandlerCommand::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn only_changes_of_sources_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let look = || files_below(folder.path(), &folder.path().join("data"));
        write("app.py", "1");
        write("deep/er/util.py", "1");
        let first = look();
        assert_eq!(first.len(), 2);
        for other in [".git/index", "__pycache__/app.pyc", "node_modules/a/index.js", "target/x", "data/tables", ".env"]
        {
            write(other, "x");
        }
        assert_eq!(look(), first);
        write("deep/er/util.py", "12");
        assert_ne!(look(), first);
    }
}
