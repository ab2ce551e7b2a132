//! Handlers in other languages that `hookonce dev` runs as Lambda would: each invocation in a process of the handler's
//! command, which talks to a Runtime API. When a file changes, new processes run the new code.
//!
//! A worker in this process invokes them directly, any other process through Lambda's invoke API.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use error_reporter::Report;
use futures::future::BoxFuture;
use hookonce_local::ambient::Ambient;
use hookonce_local::invoke::{HttpInvoke, InvokeBytes, InvokeError, Isolated};
use hookonce_local::invoke_api::{InvokeApi, plain_name};
use hookonce_local::process::{Lines, ProcessConfig, ProcessInvoke};
use hookonce_runtime::handlers::remote::{CallError, CallHandler};
use tokio::task::AbortHandle;

use crate::output;

/// The longest name of a function, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The most processes of one handler in parallel.
const PROCESSES_MAX: usize = 4;

/// How long a call waits for one of them. Then it is throttled, as by Lambda. The worker would blame a handler for a
/// call that fails after a second.
const SLOT_WAIT_MAX: Duration = Duration::from_millis(900);

/// How long an invocation may take. The worker gives up earlier.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often the files are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The most files that are looked at.
const FILES_MAX: usize = 20_000;

/// Folders that no handler's source is in. Names that begin with a dot are left out, too.
const LEFT_OUT: [&str; 3] = ["__pycache__", "node_modules", "target"];

/// How the files end that an entry point such as `app.lambda_handler` names.
const EXTENSIONS: [&str; 4] = ["py", "js", "mjs", "cjs"];

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

    /// Where the code of the handler is, as far as the command tells: the folders of the files that it names, and those
    /// of `PYTHONPATH`. What is installed is left out.
    fn sources(&self, here: &Path) -> BTreeSet<PathBuf> {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.flat_map(|word| sources(word, here)).collect()
    }

    fn watched(&self, here: &Path) -> BTreeSet<PathBuf> {
        let sources = self.sources(here);
        if sources.is_empty() { [here.to_owned()].into() } else { sources }
    }

    fn function(self, ambient: Ambient) -> (String, OwnHandler) {
        let name = self.name.clone();
        let lines = Lines::to(move |line| output::note_as_is(&format!("[{name}] {line}")));
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let config = ProcessConfig {
            binary: self.program.into(),
            arguments: self.arguments,
            // Python holds back what it prints into a pipe.
            api_scheme: "",
            environment: environment.chain([("PYTHONUNBUFFERED".to_owned(), "1".to_owned())]).collect(),
            lines: Some(lines),
            concurrency_max: PROCESSES_MAX,
            slot_wait_max: Some(SLOT_WAIT_MAX),
        };
        let reported = Arc::default();
        (self.name.clone(), OwnHandler { name: self.name, process: ProcessInvoke::new(config, ambient), reported })
    }
}

/// The handlers to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandlerCommands {
    /// One for each handler.
    pub(crate) commands: Vec<HandlerCommand>,
    /// The folder of their sources. None for what the commands name.
    pub(crate) watched: Option<PathBuf>,
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
        let watched = self.watched();
        let names: Vec<_> = watched.iter().map(|path| path.display().to_string()).collect();
        output::note(&format!("handlers restart when a file in {} changes", names.join(", ")));
        let watch = tokio::spawn(watch(watched, self.data.clone(), functions.clone())).abort_handle();
        let api = InvokeApi::start(functions.clone(), TIMEOUT, access_key_id).await?;
        let isolated = functions.into_iter().map(|(name, function)| (name, Isolated::new(function, TIMEOUT)));
        Ok(OwnHandlers { functions: isolated.collect(), running: Some(Running { api, watch }) })
    }

    /// The files and folders to look at: this whole folder if a command names no file.
    fn watched(&self) -> BTreeSet<PathBuf> {
        let here = Path::new(".");
        match &self.watched {
            Some(folder) => [folder.clone()].into(),
            None => self.commands.iter().flat_map(|command| command.watched(here)).collect(),
        }
    }
}

/// A handler that reports once that its command cannot start.
#[derive(Debug, Clone)]
struct OwnHandler {
    name: String,
    process: ProcessInvoke,
    /// Whether it has reported that since it last started.
    reported: Arc<AtomicBool>,
}

impl InvokeBytes for OwnHandler {
    type Slot = <ProcessInvoke as InvokeBytes>::Slot;

    async fn slot(&self) -> Result<Self::Slot, InvokeError> {
        self.process.slot().await
    }

    async fn invoke_bytes(&self, slot: Self::Slot, event: Bytes) -> Result<Bytes, InvokeError> {
        let result = self.process.invoke_bytes(slot, event).await;
        if let Err(error @ InvokeError::NotStarted { .. }) = &result {
            if !self.reported.swap(true, Ordering::Relaxed) {
                let (name, error) = (&self.name, Report::new(error));
                output::note(&format!("the handler {name} cannot start, and its events wait: {error}"));
            }
        } else {
            self.reported.store(false, Ordering::Relaxed);
        }
        result
    }
}

/// Running handlers in other languages.
#[derive(Debug, Default)]
pub(crate) struct OwnHandlers {
    functions: BTreeMap<String, Isolated<OwnHandler>>,
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
    /// The endpoint URL of Lambda with the access key id, if there is a handler.
    pub(crate) fn url(&self) -> Option<&str> {
        self.running.as_ref().map(|running| running.api.url())
    }

    /// The names of the handlers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// What a worker in this process calls.
    pub(crate) fn calls(&self) -> Box<dyn CallHandler> {
        Box::new(NamedCalls(self.functions.clone()))
    }
}

/// What another process calls: the handlers of these names behind the invoke API of a running stack.
///
/// # Errors
/// [`InvokeError`] if the HTTP client cannot be built.
pub(crate) fn calls_at(url: &str, names: &[String]) -> Result<Box<dyn CallHandler>, InvokeError> {
    let function = |name: &String| Ok((name.clone(), Isolated::new(HttpInvoke::new(url, name)?, TIMEOUT)));
    Ok(Box::new(NamedCalls(names.iter().map(function).collect::<Result<_, InvokeError>>()?)))
}

/// Invokes handlers by their names.
#[derive(Debug)]
struct NamedCalls<I>(BTreeMap<String, Isolated<I>>);

impl<I: InvokeBytes + fmt::Debug> CallHandler for NamedCalls<I> {
    fn call<'a>(&'a self, handler: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            let Some(function) = self.0.get(plain_name(handler)) else {
                return Err(CallError::Away("`hookonce dev` was started without a --handler of this name".into()));
            };
            match function.invoke_bytes(request.into()).await {
                Ok(answer) => Ok(answer.into()),
                // The event is not to blame.
                Err(
                    error @ (InvokeError::NotStarted { .. } | InvokeError::Throttled | InvokeError::Unreachable { .. }),
                ) => Err(CallError::Away(error.into())),
                Err(error) => Err(CallError::Crashed(error.into())),
            }
        })
    }
}

/// What a word of a command says about where code is: `app.py` and `app.lambda_handler` name a file, and
/// `PYTHONPATH=src` names a folder. Of a file among build products and packages only that file counts, else its folder.
/// An absolute path counts if it ends as a source does.
fn sources(word: &str, here: &Path) -> Vec<PathBuf> {
    if let Some((_, folders)) = word.split_once('=') {
        return folders
            .split(':')
            .map(PathBuf::from)
            .filter(|folder| is_own(folder) && here.join(folder).is_dir())
            .collect();
    }
    let module = word.rsplit_once('.').map(|(module, _)| module).unwrap_or_default();
    let modules = EXTENSIONS.iter().flat_map(|extension| {
        [module.to_owned(), module.replace('.', "/")].map(|module| format!("{module}.{extension}"))
    });
    let mut files = std::iter::once(word.to_owned()).chain(modules).map(PathBuf::from);
    let file = files.find(|file| (file.is_relative() || is_source(file)) && here.join(file).is_file());
    let folder = |file: PathBuf| match file.parent() {
        Some(folder) if folder == Path::new("/") || (folder.is_relative() && !is_own(folder)) => file,
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    file.map(folder).into_iter().collect()
}

/// Whether a file has an extension that begins with a letter. A program has none, such as `/usr/bin/python3`, or ends
/// in a version, such as `python3.13`.
fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.as_encoded_bytes().first().is_some_and(u8::is_ascii_alphabetic))
}

/// Whether a path leads to code of the user: not to build products or packages, and not out of this folder.
fn is_own(path: &Path) -> bool {
    path.components().all(|part| match part {
        Component::Normal(name) => !is_left_out(name),
        Component::CurDir | Component::ParentDir => true,
        Component::Prefix(_) | Component::RootDir => false,
    })
}

fn is_left_out(name: &OsStr) -> bool {
    name.to_str().is_none_or(|name| name.starts_with('.') || LEFT_OUT.contains(&name))
}

/// Renews the processes whenever a file has changed.
async fn watch(watched: BTreeSet<PathBuf>, data: PathBuf, functions: BTreeMap<String, OwnHandler>) {
    let mut known = None;
    loop {
        let (watched, data) = (watched.clone(), data.clone());
        let Ok(files) = tokio::task::spawn_blocking(move || files_below(watched, &data)).await else { return };
        if known.as_ref().is_some_and(|known| *known != files) {
            for handler in functions.values() {
                handler.process.renew();
            }
            output::note("a file has changed: the next event runs the new code of the handlers");
        }
        known = Some(files);
        tokio::time::sleep(LOOK_PERIOD).await;
    }
}

/// These files and those below these folders, each with its length and time, except for those in `data`.
fn files_below(watched: BTreeSet<PathBuf>, data: &Path) -> BTreeMap<PathBuf, (u64, Option<SystemTime>)> {
    let data = data.canonicalize().ok();
    let (mut files, mut paths): (BTreeMap<_, _>, Vec<_>) = (BTreeMap::new(), watched.into_iter().collect());
    while let Some(path) = paths.pop() {
        // Files come and go while this looks.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_dir() {
            files.insert(path, (metadata.len(), metadata.modified().ok()));
        } else if data.is_none() || path.canonicalize().ok() != data {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            paths.extend(entries.filter(|entry| !is_left_out(&entry.file_name())).map(|entry| entry.path()));
        }
        if files.len() >= FILES_MAX {
            break;
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
        let long = format!("{}=x", "a".repeat(65));
        for (wrong, expected) in [
            ("python app.py", "NAME=COMMAND"),
            ("=python", "1 to 64"),
            ("a b=python", "1 to 64"),
            (long.as_str(), "1 to 64"),
            ("a=", "no command"),
            ("a='", "not closed"),
        ] {
            let error = HandlerCommand::parse(wrong).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }

    /// Four of its processes are busy. The worker gives a call 5 seconds, so that one second leaves a handler most of
    /// them.
    #[tokio::test]
    async fn a_handler_whose_processes_are_all_busy_is_away() {
        #[expect(clippy::disallowed_methods, reason = "no process starts, so nobody is told the time")]
        let ambient = Ambient::new(SystemTime::now, uuid::Uuid::new_v4);
        let (name, handler) = HandlerCommand::parse("plan=true").unwrap().function(ambient);
        let mut held = Vec::new();
        for _ in 0..PROCESSES_MAX {
            held.push(handler.slot().await.unwrap());
        }
        let calls = NamedCalls([(name, Isolated::new(handler, TIMEOUT))].into());
        let called = tokio::time::timeout(Duration::from_secs(4), calls.call("plan", Vec::new())).await;
        assert!(matches!(called, Ok(Err(CallError::Away(_)))), "{called:?}");
    }

    #[test]
    fn only_changes_of_sources_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let look = || files_below([folder.path().to_owned()].into(), &folder.path().join("data"));
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

    #[test]
    fn without_files_of_its_own_a_handler_has_the_whole_folder_watched() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "app.py",
            "bin/python3.13",
            "src/plans/orders.py",
            "dist/app.js",
            "node_modules/hookonce/runtime.js",
            "target/debug/bootstrap",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let here = folder.path().to_str().unwrap();
        for (command, expected) in [
            ("python3 -m hookonce.runtime app.lambda_handler", vec!["."]),
            ("python3 ./app.py", vec!["."]),
            ("python3 -m hookonce.runtime src.plans.orders.handle", vec!["src/plans"]),
            ("env PYTHONPATH=src:/usr/lib/python3:missing python3 -m plans", vec!["src"]),
            (
                "node node_modules/hookonce/runtime.js dist/app.handler",
                vec!["dist", "node_modules/hookonce/runtime.js"],
            ),
            ("target/debug/bootstrap", vec!["target/debug/bootstrap"]),
            ("/bin/sh -c 'make run'", vec!["HERE"]),
            ("python3 HERE/src/plans/orders.py", vec!["HERE/src/plans"]),
            ("env A=HERE/app.py HERE/bin/python3.13 HERE/dist/app.handler", vec!["HERE/dist"]),
            ("HERE/bin/python3.13 -m plans", vec!["HERE"]),
        ] {
            let command = HandlerCommand::parse(&format!("plan={command}").replace("HERE", here)).unwrap();
            let expected: BTreeSet<_> =
                expected.into_iter().map(|source| PathBuf::from(source.replace("HERE", here))).collect();
            assert_eq!(command.watched(folder.path()), expected, "{command:?}");
        }
    }
}
