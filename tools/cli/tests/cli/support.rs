//! Runs the built binary in a temporary folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a test waits before it fails: longer than until the first re-send of a record and than a message that is held.
pub(crate) const PATIENCE: Duration = Duration::from_mins(8);

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A provider's valid delivery, from its conformance vectors.
pub(crate) fn valid(provider: &str) -> Value {
    vector(provider, "valid")
}

/// A provider's conformance vector.
pub(crate) fn vector(provider: &str, case: &str) -> Value {
    let file = std::fs::read(root().join(format!("events/vectors/{provider}.jsonl"))).unwrap();
    let mut vectors = serde_json::Deserializer::from_slice(&file).into_iter().map(Result::<Value, _>::unwrap);
    vectors.find(|vector| vector["id"] == format!("{provider}/{case}")).unwrap()
}

/// A folder to run commands in, with a link to the repository's `events`.
pub(crate) struct Workspace(tempfile::TempDir);

impl Workspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root().join("events").canonicalize().unwrap(), folder.path().join("events"))
            .unwrap();
        Self(folder)
    }

    /// A folder in which these routes are deployed.
    pub(crate) fn routed(set: &str) -> Self {
        let workspace = Self::new();
        std::fs::create_dir_all(workspace.path(".hookonce/destinations")).unwrap();
        workspace.write(".hookonce/routes.json", set.as_bytes());
        workspace
    }

    /// Writes a file into the folder and returns its name.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
        name.to_owned()
    }

    /// The path of a file of the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Reads a file of the folder.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookonce"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts a command without waiting for its end.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts a command whose standard output the caller reads.
    pub(crate) fn start_with_output(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts a command with variables in its environment. The caller reads what it prints.
    pub(crate) fn start_with_environment(&self, arguments: &[&str], variables: &[(String, String)]) -> Child {
        let mut command = self.command(arguments);
        command.envs(variables.iter().cloned()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command with variables in its environment.
    pub(crate) fn run_with_environment(&self, arguments: &[&str], variables: &[(String, String)]) -> Output {
        self.command(arguments).envs(variables.iter().cloned()).output().unwrap()
    }

    /// The variables that the running stack wrote for functions in another process.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.0.path().join(".hookonce/functions.env")).unwrap();
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().map(|line| pair(line).unwrap()).collect()
    }

    /// Runs a command with this standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Output {
        self.run_with_environment_and_input(arguments, &[], input)
    }

    /// Runs a command with variables in its environment and this standard input.
    pub(crate) fn run_with_environment_and_input(
        &self,
        arguments: &[&str],
        variables: &[(String, String)],
        input: &str,
    ) -> Output {
        let mut child = self
            .command(arguments)
            .envs(variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses its arguments may end before it reads.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Starts a stack of this folder's own and waits until other commands can find it. Its servers are the embedded
    /// ones, unless `TEST_DYNAMODB_URL` and `TEST_SQS_URL` name others, as `scripts/real-backends test` does.
    pub(crate) fn dev(&self, arguments: &[&str]) -> Running {
        self.dev_that_prints(arguments, &[], Stdio::null(), Stdio::inherit())
    }

    /// The same, and [`Running::stop`] returns what it printed.
    pub(crate) fn dev_with_all_output(&self, arguments: &[&str]) -> Running {
        self.dev_that_prints(arguments, &[], Stdio::piped(), Stdio::piped())
    }

    fn dev_that_prints(&self, arguments: &[&str], variables: &[(String, String)], out: Stdio, err: Stdio) -> Running {
        let mut dev = self.command(arguments);
        dev.args(self.servers()).envs(variables.iter().cloned()).stdout(out).stderr(err);
        let running = Running(Some(dev.spawn().unwrap()));
        let announced = self.0.path().join(".hookonce/stack.json");
        wait_until("the stack runs", || announced.exists());
        running
    }

    /// The options by which `dev` uses the servers that the run names, with tables and queues of this folder's own.
    fn servers(&self) -> Vec<String> {
        #[expect(clippy::disallowed_methods, reason = "whoever runs the tests names the servers")]
        let url = |name: &str| std::env::var(name).ok();
        let prefix = format!("test-{}", self.0.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.'));
        match (url("TEST_DYNAMODB_URL"), url("TEST_SQS_URL")) {
            (Some(dynamodb), Some(sqs)) => {
                ["--dynamodb-url", &dynamodb, "--sqs-url", &sqs, "--prefix", &prefix].map(str::to_owned).into()
            }
            (None, None) => Vec::new(),
            _ => panic!("TEST_DYNAMODB_URL and TEST_SQS_URL belong together; one is missing"),
        }
    }

    /// Starts a stack, waits until other commands can find it, and returns its standard output.
    pub(crate) fn dev_with_output(&self, arguments: &[&str]) -> (Child, ChildStdout) {
        self.dev_with_environment(arguments, &[])
    }

    /// The same with variables in its environment.
    pub(crate) fn dev_with_environment(
        &self,
        arguments: &[&str],
        variables: &[(String, String)],
    ) -> (Child, ChildStdout) {
        let mut child = self.dev_that_prints(arguments, variables, Stdio::piped(), Stdio::inherit()).0.take().unwrap();
        let out = child.stdout.take().unwrap();
        (child, out)
    }
}

/// A stack that stops when the test ends.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Stops it as a person would.
    pub(crate) fn stop(mut self) -> Output {
        interrupt(self.0.take().unwrap())
    }
}

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Presses Ctrl-C, and waits for the end of the command.
pub(crate) fn interrupt(child: Child) -> Output {
    send_interrupt(&child);
    child.wait_with_output().unwrap()
}

/// Sends Ctrl-C's signal.
pub(crate) fn send_interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until a condition holds.
#[expect(clippy::disallowed_methods, reason = "a test must not wait forever")]
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The JSON on a command's standard output.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error} in {}", text(output)))
}

/// Everything that a command printed, for a failing test.
pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("exit {:?}\n{out}\n{err}", output.status.code())
}

/// What is asked of a command that has ended.
pub(crate) trait Ended: Sized {
    /// It has this exit code.
    fn exits(self, code: i32) -> Self;

    /// It printed this.
    fn says(self, part: &str) -> Self;
}

impl Ended for Output {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}", text(&self));
        self
    }

    #[track_caller]
    fn says(self, part: &str) -> Self {
        assert!(text(&self).contains(part), "{part}: {}", text(&self));
        self
    }
}

/// The lines of every shell block.
pub(crate) fn shell_lines(markdown: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in markdown.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside && !command.is_empty() => lines.push(command.to_owned()),
            _ => {}
        }
    }
    lines
}
