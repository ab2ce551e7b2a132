//! Runs other programs. An error names the program, and nothing outlives its time.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

/// What went wrong and what to do next, as a person reads it.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A background program ends after this time, whatever happens to the program that started it.
const LIFETIME_SECONDS: &str = "3600";
/// It is killed after this time, if it ignored the signal.
const GRACE: &str = "--kill-after=10";
/// How often a condition is checked, and for how long.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_mins(5);

/// Goes to the repository's root; every path in this program starts there.
pub(crate) fn enter_root() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    std::env::set_current_dir(&root).map_err(|error| format!("{}: {error}", root.display()))
}

/// Where cargo puts the binaries of a profile.
pub(crate) fn binaries(profile: &str) -> Outcome<PathBuf> {
    let this = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let target = this.ancestors().nth(2).ok_or("this program is not in a target folder of cargo")?;
    Ok(target.join(profile))
}

/// Runs a command to its end; what it prints is for the reader.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", shown(command))) }
}

/// The output of a command. If the command fails, the error contains what it printed.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| not_started(command, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} ended with {}:\n{text}{stderr}", shown(command), output.status))
}

/// Whether a command succeeds. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|done| done.success())
}

/// Runs tests by a command that ends in `cargo`, passes on each line that they print, and keeps the last one with this
/// beginning. Says whether they pass.
pub(crate) fn run_tests(cargo: &mut Command, tests: &str, beginning: &str) -> Outcome<(bool, Option<String>)> {
    cargo.args(["test", "--quiet", "--workspace", "--test", "all", "--offline", tests, "--", "--nocapture"]);
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(|error| not_started(cargo, &error))?;
    let mut kept = None;
    for line in child.stdout.take().into_iter().flat_map(|lines| BufReader::new(lines).split(b'\n')) {
        let line = line.map_err(|error| format!("{}: {error}", shown(cargo)))?;
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        if line.starts_with(beginning) {
            kept = Some(line);
        }
    }
    let status = child.wait().map_err(|error| format!("{}: {error}", shown(cargo)))?;
    Ok((status.success(), kept))
}

/// A program in the background. It ends when this is dropped, and after an hour whatever happens.
pub(crate) struct Background(Child);

impl Background {
    /// Starts a command; what it prints goes to the log.
    pub(crate) fn start(command: &Command, log: &Path) -> Outcome<Self> {
        let mut limited = Command::new("timeout");
        limited.args([GRACE, LIFETIME_SECONDS]).arg(command.get_program()).args(command.get_args());
        limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let copy = file.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        let child = limited.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        child.map(Self).map_err(|error| not_started(&limited, &error))
    }

    /// The process id of the program itself, once it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        children(self.0.id()).first().copied()
    }

    /// Lets it run on when this program ends.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // `timeout` passes the signal on to everything that it started.
        signal(self.0.id(), Signal::TERM);
        drop(self.0.wait());
    }
}

/// The processes that a process started, on any of its threads.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Sends a signal, and says whether there was a process to send it to.
pub(crate) fn signal(process: u32, signal: Signal) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| kill_process(process, signal).is_ok())
}

/// Waits until a condition holds. The logs show what happens meanwhile.
pub(crate) fn wait_for(what: &str, logs: &Path, mut holds: impl FnMut() -> bool) -> Outcome {
    for _ in 0..WAIT_MAX.as_millis() / LOOK_EVERY.as_millis() {
        if holds() {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(format!("waited {} s for {what}; see {}", WAIT_MAX.as_secs(), logs.display()))
}

/// Builds binaries for release, all with the same settings, so that nothing is built twice.
pub(crate) fn build_release(binaries: &[&str]) -> Outcome {
    let mut cargo = Command::new("cargo");
    run(unlinked(&mut cargo)
        .args(["build", "--release", "--quiet"])
        .args(binaries.iter().map(|name| format!("--bin={name}"))))
}

/// Link-time optimisation makes binaries smaller and changes nothing that is checked here. Without it, they build in
/// half the time.
pub(crate) fn unlinked(command: &mut Command) -> &mut Command {
    command.env("CARGO_PROFILE_RELEASE_LTO", "off")
}

/// The binaries of the functions. The worker is the one with the sample handlers, which the proofs count on.
pub(crate) const FUNCTIONS: [&str; 4] =
    ["hookonce-webhook", "hookonce-example-worker", "hookonce-relay", "hookonce-dispatcher"];

/// The functions for this machine, as `cargo lambda watch` builds them.
pub(crate) fn build_functions() -> Outcome {
    build_release(&FUNCTIONS)
}

/// Where those note which release was started, if there are two.
pub(crate) const STARTED: &str = "started";

/// A folder from which the functions' release binaries run with these variables, as a shell reads them. Those of another
/// release may run beside them: chance decides at each start.
pub(crate) fn functions_with(variables: &str, folder: PathBuf, beside: Option<&Path>) -> Outcome<PathBuf> {
    let from = binaries("release")?;
    fresh_folder(&folder)?;
    let started =
        std::path::absolute(folder.join(STARTED)).map_err(|error| format!("{}: {error}", folder.display()))?;
    for name in FUNCTIONS {
        let script = folder.join(name);
        if let Some(lacking) = beside.map(|other| other.join(name)).filter(|binary| !binary.is_file()) {
            return Err(format!("{} is missing; build it first, as docs/run/releasing.md says", lacking.display()));
        }
        let run = |from: &Path| format!("exec env {variables} {}\n", from.join(name).display());
        let other = match beside {
            Some(other) => format!(
                "if [ $(($(od -An -N1 -tu1 /dev/urandom) % 2)) -eq 0 ]; then\necho other >>{started}\n{}fi\necho this >>{started}\n",
                run(&std::path::absolute(other).map_err(|error| format!("{}: {error}", other.display()))?),
                started = started.display(),
            ),
            None => String::new(),
        };
        write(&script, format!("#!/bin/sh\n{other}{}", run(&from)))?;
        output(Command::new("chmod").arg("+x").arg(script))?;
    }
    Ok(folder)
}

/// The command line, built; where it is.
pub(crate) fn build_hookonce() -> Outcome<PathBuf> {
    run(Command::new("cargo").args(["build", "--bin", "hookonce", "--quiet"]))?;
    Ok(binaries("debug")?.join("hookonce"))
}

/// An empty folder.
pub(crate) fn fresh_folder(path: &Path) -> Outcome {
    if path.exists() {
        fs::remove_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// JSON of another program.
pub(crate) fn json<T: DeserializeOwned>(text: &str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| format!("this is not what was expected ({error}): {text}"))
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", shown(command))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
