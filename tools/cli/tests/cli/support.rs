//! Runs the built binary in a temporary folder.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json as object};

/// How long a test waits before it fails: longer than until a record is sent again for the first time, and longer than
/// a message stays hidden.
pub(crate) const PATIENCE: Duration = Duration::from_mins(8);

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A provider's conformance vector.
pub(crate) fn vector(provider: &str, case: &str) -> Value {
    let file = std::fs::read(root().join(format!("events/vectors/{provider}.jsonl"))).unwrap();
    let mut vectors = serde_json::Deserializer::from_slice(&file).into_iter().map(Result::<Value, _>::unwrap);
    vectors.find(|vector| vector["id"] == format!("{provider}/{case}")).unwrap()
}

/// The body of a sample delivery, to be changed.
pub(crate) fn sample(name: &str) -> Value {
    let file = std::fs::read(root().join(format!("events/deliveries/{name}.json"))).unwrap();
    serde_json::from_slice(&file).unwrap()
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

    /// What the running stack tells other commands of itself.
    pub(crate) fn announced(&self) -> Value {
        serde_json::from_str(&self.read(".hookonce/stack.json")).unwrap()
    }

    /// Writes a destination at a port of this machine, which may be called at least once.
    pub(crate) fn destination(&self, id: &str, port: u16) {
        let url = format!("http://127.0.0.1:{port}/in");
        let document = object!({ "kind": "http", "url": url, "class": "at_least_once", "allow_private": true });
        self.write(&format!(".hookonce/destinations/{id}.json"), document.to_string().as_bytes());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // Shown of a test that fails.
        eprintln!("$ hookonce {}", arguments.join(" "));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookonce"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts a command without waiting for its end. The caller reads what it prints.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.start_with_environment(arguments, &[])
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

    /// Runs a command at a terminal, where a person types this. All that it prints comes on standard output.
    pub(crate) fn run_at_terminal(&self, arguments: &[&str], variables: &[(String, String)], typed: &str) -> Output {
        let words: Vec<_> = [env!("CARGO_BIN_EXE_hookonce")].iter().chain(arguments).copied().collect();
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"])
            .current_dir(self.0.path())
            .envs(variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The records of a state. They came within the hour, so the rest of the day is not read.
    pub(crate) fn list(&self, state: &str) -> Vec<Value> {
        let listed = json(&self.run(&["list", "--state", state, "--since", "1h", "--limit", "1000", "--json"]));
        listed.as_array().unwrap().clone()
    }

    /// Waits until so many records are in a state.
    pub(crate) fn wait_for(&self, state: &str, count: usize) {
        wait_until(&format!("{count} records are {state}"), || self.list(state).len() == count);
    }

    /// A record of the endpoint `stripe`.
    pub(crate) fn show(&self, key: &str) -> Value {
        json(&self.run(&["show", "stripe", key, "--json"]))
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
    pub(crate) fn dev_with_all_output(&self, arguments: &[&str], variables: &[(String, String)]) -> Running {
        self.dev_that_prints(arguments, variables, Stdio::piped(), Stdio::piped())
    }

    fn dev_that_prints(&self, arguments: &[&str], variables: &[(String, String)], out: Stdio, err: Stdio) -> Running {
        let mut dev = self.command(arguments);
        dev.args(self.servers(arguments)).envs(variables.iter().cloned()).stdout(out).stderr(err);
        let running = Running(Some(dev.spawn().unwrap()));
        let announced = self.0.path().join(".hookonce/stack.json");
        wait_until("the stack runs", || announced.exists());
        running
    }

    /// The options by which `dev` uses the servers that the run names, with tables and queues of this folder's own. Its
    /// arguments may name others.
    fn servers(&self, arguments: &[&str]) -> Vec<String> {
        #[expect(clippy::disallowed_methods, reason = "whoever runs the tests names the servers")]
        let url = |name: &str| std::env::var(name).ok();
        let prefix = format!("test-{}", self.0.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.'));
        match (url("TEST_DYNAMODB_URL"), url("TEST_SQS_URL")) {
            _ if arguments.contains(&"--dynamodb-url") => Vec::new(),
            (Some(dynamodb), Some(sqs)) => {
                ["--dynamodb-url", &dynamodb, "--sqs-url", &sqs, "--prefix", &prefix].map(str::to_owned).into()
            }
            (None, None) => Vec::new(),
            _ => panic!("TEST_DYNAMODB_URL and TEST_SQS_URL belong together; one is missing"),
        }
    }

    /// Starts a stack with variables in its environment, and returns its standard output, too.
    pub(crate) fn dev_with_output(&self, arguments: &[&str], variables: &[(String, String)]) -> (Running, ChildStdout) {
        let mut running = self.dev_that_prints(arguments, variables, Stdio::piped(), Stdio::inherit());
        let out = running.0.as_mut().unwrap().stdout.take().unwrap();
        (running, out)
    }

    /// Starts a stack that prints what happens as JSON.
    pub(crate) fn dev_with_json(&self, more: &[&str]) -> (Running, DevLines) {
        let (running, out) = self.dev_with_output(&[&["dev", "--port", "0", "--json"], more].concat(), &[]);
        (running, DevLines(BufReader::new(out).lines()))
    }
}

/// The lines that `dev --json` prints.
pub(crate) struct DevLines(Lines<BufReader<ChildStdout>>);

impl DevLines {
    /// The next line that is wanted.
    pub(crate) fn next(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut lines = self.0.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).expect("it is JSON"));
        lines.find(is_wanted).expect("dev runs on")
    }

    /// The next line with one of these outcomes.
    pub(crate) fn outcome(&mut self, words: &[&str]) -> Value {
        self.next(|line| words.iter().any(|word| line["outcome"] == *word))
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
    send_interrupt(child.id());
    child.wait_with_output().unwrap()
}

/// Sends Ctrl-C's signal.
pub(crate) fn send_interrupt(process: u32) {
    let sent = Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Takes connections to loopback, each in a thread of its own, until the test's process ends. Returns the address.
pub(crate) fn listen(take: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let take = Arc::new(take);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let take = Arc::clone(&take);
            std::thread::spawn(move || take(stream));
        }
    });
    address
}

/// Waits until a condition holds. A look may start a process, so whoever has waited for long looks less often.
#[expect(clippy::disallowed_methods, reason = "a test must not wait forever")]
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep((started.elapsed() / 4).clamp(Duration::from_millis(20), Duration::from_millis(500)));
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

    /// It printed each of these.
    fn prints_all(self, parts: &[&str]) -> Self;

    /// It printed nothing of this.
    fn omits(self, part: &str) -> Self;

    /// It printed this.
    #[track_caller]
    fn prints(self, part: &str) -> Self {
        self.prints_all(&[part])
    }
}

impl Ended for Output {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}", text(&self));
        self
    }

    #[track_caller]
    fn prints_all(self, parts: &[&str]) -> Self {
        let printed = text(&self);
        for part in parts {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        self
    }

    #[track_caller]
    fn omits(self, part: &str) -> Self {
        assert!(!text(&self).contains(part), "{part}: {}", text(&self));
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
