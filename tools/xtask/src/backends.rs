//! DynamoDB Local and ElasticMQ, from Maven Central, on a private loopback.
//!
//! DynamoDB Local listens on every interface and has no option to change that. Both servers therefore run in a network
//! namespace that has only a loopback, and so does every command that uses them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command as Program};

use clap::Subcommand;
use rustix::process::{Signal, geteuid};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::process::{Background, Outcome, output, read, run, signal, succeeds, wait_for, write};

const DYNAMODB_LOCAL: (&str, &str, &str) = ("software.amazon.dynamodb", "DynamoDBLocal", "3.1.0");
const ELASTICMQ: (&str, &str, &str) = ("org.elasticmq", "elasticmq-server_2.13", "1.7.1");
/// Where DynamoDB Local and ElasticMQ listen.
pub(crate) const DYNAMODB_PORT: u16 = 8_000;
const SQS_PORT: u16 = 9_324;
/// An address in the servers' network that is not loopback's. A function calls no destination on loopback.
pub(crate) const PRIVATE_ADDRESS: &str = "10.0.0.1";

/// What is downloaded, what is written, and what one call remembers for the next.
const HOME: &str = "target/backends";

/// The stories of the person on call, among the tests of the command line. The others stay with the embedded servers:
/// they need none, play AWS themselves, are about what `dev` keeps on disk, or would take minutes and show nothing new.
const STORIES: [&str; 6] = ["audits::a_redaction", "effects::", "forwards::", "operators::", "poison::", "of_a_server"];

/// What `scripts/real-backends` does.
///
/// Needs Java 17, Maven, curl, iproute2 and util-linux, and a kernel that lets the caller make a network namespace.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install what they need, and say whether this machine lets them run
    Check,
    /// Fetch and start both servers
    Up,
    /// Stop them, and whatever runs beside them
    Down,
    /// Run a command beside them; it finds their addresses in TEST_DYNAMODB_URL and TEST_SQS_URL
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run the contract suite, the end-to-end tests and the stories of the command line against them; the last line is
    /// `N passed, N failed`
    Test {
        /// What the harness of tests/ takes: a part of a test's name, or its options. Then no story runs
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        filter: Vec<String>,
    },
}

impl Command {
    pub(crate) fn run(self) -> Outcome<bool> {
        match self {
            Self::Check => need()?,
            Self::Up => up(false).map(drop)?,
            Self::Down => down()?,
            Self::Run { command } => {
                let [program, arguments @ ..] = command.as_slice() else { return Err("run what?".to_owned()) };
                let error = up(false)?.command(program).args(arguments).exec();
                return Err(format!("cannot start {program}: {error}"));
            }
            Self::Test { filter } => return test(&filter),
        }
        Ok(true)
    }
}

/// The running servers, as one call leaves them for the next.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The process that keeps the network namespace alive.
    holder: u32,
    /// The network namespace. A process id may belong to another process by now; this cannot.
    network: String,
    /// The process of DynamoDB Local; 0 where another call started it, since only who starts it pauses or stops it.
    #[serde(skip)]
    store: u32,
}

/// Ends the servers when it is dropped, or when the program is interrupted.
pub(crate) struct End;

impl End {
    /// Ends servers of an earlier call at once, and all others in the end. `clean_up` is for an interruption, because
    /// values are not dropped then.
    pub(crate) fn with_this(clean_up: fn()) -> Outcome<Self> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("cannot wait for Ctrl-C: {error}"))?;
        std::thread::spawn(move || {
            if let Some(number) = signals.forever().next() {
                drop(down());
                clean_up();
                process::exit(128 + number);
            }
        });
        down()?;
        Ok(Self)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Err(reason) = down() {
            eprintln!("real-backends: {reason}");
        }
    }
}

/// Servers with nothing in them, for one run. On disk, the tables outlast a stop of DynamoDB Local.
pub(crate) fn start(on_disk: bool) -> Outcome<(Running, End)> {
    let end = End::with_this(|| {})?;
    Ok((up(on_disk)?, end))
}

impl Running {
    /// A command beside the servers.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Program {
        let mut command = if network_of("self").as_ref() == Some(&self.network) {
            Program::new("env")
        } else {
            let mut enter = Program::new("nsenter");
            if geteuid().is_root() {
                enter.arg(format!("--net=/proc/{}/ns/net", self.holder));
            } else {
                enter.args(["--user", "--net", "--preserve-credentials", "--target", &self.holder.to_string()]);
            }
            enter.args(["--", "env"]);
            enter
        };
        command.arg(format!("TEST_DYNAMODB_URL=http://127.0.0.1:{DYNAMODB_PORT}"));
        command.arg(format!("TEST_SQS_URL=http://127.0.0.1:{SQS_PORT}"));
        command.arg(program);
        command
    }

    /// The options by which `hookonce dev` uses the servers.
    pub(crate) fn options() -> [String; 4] {
        let address = |port: u16| format!("http://127.0.0.1:{port}");
        ["--dynamodb-url".to_owned(), address(DYNAMODB_PORT), "--sqs-url".to_owned(), address(SQS_PORT)]
    }

    pub(crate) fn pause(&self) -> Outcome {
        self.signal_store(Signal::STOP)
    }

    pub(crate) fn resume(&self) -> Outcome {
        self.signal_store(Signal::CONT)
    }

    /// Ends DynamoDB Local. A paused one gets the signal only when it goes on.
    pub(crate) fn stop(&self) -> Outcome {
        self.signal_store(Signal::TERM)?;
        signal(self.store, Signal::CONT);
        wait_for("the end of DynamoDB Local", Path::new(HOME), || network_of(self.store).is_none())
    }

    /// Starts DynamoDB Local.
    pub(crate) fn start(&mut self) -> Outcome {
        let library = home(&format!("{}-{}/lib", DYNAMODB_LOCAL.1, DYNAMODB_LOCAL.2));
        let mut java = self.java();
        java.arg(format!("-Djava.library.path={}", library.display())).arg("-cp").arg(library.join("*"));
        java.arg("software.amazon.dynamodb.services.local.main.ServerRunner");
        if home("tables").exists() {
            java.arg("-dbPath").arg(home("tables"));
        } else {
            java.arg("-inMemory");
        }
        java.args(["-sharedDb", "-disableTelemetry", "-port", &DYNAMODB_PORT.to_string()]);
        let started = Background::start(&java, &home("dynamodb.log"))?;
        wait_for("DynamoDB Local", &home("dynamodb.log"), || self.answers(DYNAMODB_PORT))?;
        self.store = started.process().ok_or("DynamoDB Local answers and does not run: does another one listen?")?;
        started.keep();
        Ok(())
    }

    /// A server lives for minutes. The second compiler and more than one collector would take more of that than they give.
    fn java(&self) -> Program {
        let mut java = self.command("java");
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        java
    }

    fn start_queue(&self) -> Outcome {
        let library = home(&format!("{}-{}/lib", ELASTICMQ.1, ELASTICMQ.2));
        let settings = home("elasticmq.conf");
        write(
            &settings,
            format!(
                "include classpath(\"application.conf\")\n\
                 node-address {{ protocol = http, host = \"127.0.0.1\", port = {SQS_PORT}, context-path = \"\" }}\n\
                 rest-sqs {{ enabled = true, bind-hostname = \"127.0.0.1\", bind-port = {SQS_PORT}, sqs-limits = strict }}\n\
                 rest-stats.enabled = false\n"
            ),
        )?;
        let mut java = self.java();
        java.arg(format!("-Dconfig.file={}", settings.display())).arg("-cp").arg(library.join("*"));
        java.arg("org.elasticmq.server.Main");
        let started = Background::start(&java, &home("elasticmq.log"))?;
        wait_for("ElasticMQ", &home("elasticmq.log"), || self.answers(SQS_PORT))?;
        started.keep();
        Ok(())
    }

    /// Whether a server answers.
    fn answers(&self, port: u16) -> bool {
        let mut curl = self.command("curl");
        succeeds(curl.args(["--silent", "--max-time", "30", &format!("http://127.0.0.1:{port}/")]))
    }

    fn signal_store(&self, number: Signal) -> Outcome {
        if network_of(self.store).as_ref() == Some(&self.network) && signal(self.store, number) {
            return Ok(());
        }
        Err("DynamoDB Local does not run, or another call started it".to_owned())
    }

    /// The status of the answer to a request with these options of curl.
    pub(crate) fn status(&self, url: &str, request: &[&str]) -> Outcome<String> {
        let mut curl = self.command("curl");
        curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", "60"]);
        output(curl.args(request).arg(url))
    }
}

/// The servers that an earlier call started, if they still run.
fn found() -> Option<Running> {
    let running: Running = serde_json::from_str(&fs::read_to_string(home("running.json")).ok()?).ok()?;
    (network_of(running.holder).as_ref() == Some(&running.network)).then_some(running)
}

pub(crate) fn running() -> Outcome<Running> {
    found().ok_or_else(|| "the servers do not run; `scripts/real-backends up` starts them".to_owned())
}

/// Starts both servers unless they run.
fn up(on_disk: bool) -> Outcome<Running> {
    if let Some(running) = found() {
        // ElasticMQ starts last.
        if running.answers(SQS_PORT) {
            return Ok(running);
        }
        eprintln!("real-backends: an earlier start was interrupted; starting again");
        down()?;
    }
    need()?;
    fetch(DYNAMODB_LOCAL)?;
    fetch(ELASTICMQ)?;
    let (holder, network) = make_network()?;
    let mut running = Running { holder, network, store: 0 };
    write(&home("running.json"), serde_json::to_string(&running).map_err(|error| error.to_string())?)?;
    let started = fresh_tables(on_disk).and_then(|()| running.start()).and_then(|()| running.start_queue());
    if let Err(reason) = started {
        down()?;
        return Err(reason);
    }
    eprintln!("real-backends: DynamoDB Local and ElasticMQ are up; scripts/real-backends run COMMAND reaches them");
    Ok(running)
}

/// Ends the processes of the namespace: the servers, and everything still running beside them.
fn down() -> Outcome {
    let Some(running) = found() else { return Ok(()) };
    let send = |number| {
        let inside = inside(&running.network);
        for process in &inside {
            signal(*process, number);
            signal(*process, Signal::CONT);
        }
        inside.is_empty()
    };
    send(Signal::TERM);
    let mut looks = 0;
    wait_for("the end of the servers", Path::new(HOME), || {
        looks += 1;
        // A process that does not end within ten seconds is killed.
        if looks < 100 { inside(&running.network).is_empty() } else { send(Signal::KILL) }
    })?;
    fs::remove_file(home("running.json")).map_err(|error| format!("target/backends/running.json: {error}"))
}

/// The processes of a network namespace, except this one.
fn inside(network: &String) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|number| *number != process::id() && network_of(number).as_ref() == Some(network)).collect()
}

/// The network namespace of a process.
fn network_of(process: impl std::fmt::Display) -> Option<String> {
    let link = fs::read_link(format!("/proc/{process}/ns/net")).ok()?;
    Some(link.to_str()?.to_owned())
}

/// A network namespace that has only a loopback, and the process that keeps it alive.
fn make_network() -> Outcome<(u32, String)> {
    let log = home("network.log");
    let mut unshare = unshare();
    let up =
        format!("ip link set lo up && ip address add {PRIVATE_ADDRESS}/32 dev lo && echo up && exec sleep infinity");
    unshare.args(["bash", "-c", &up]);
    let holder = Background::start(&unshare, &log)?;
    wait_for("a network namespace", &log, || !fs::read_to_string(&log).unwrap_or_default().is_empty())?;
    let log_text = read(&log)?;
    let process = holder.process().filter(|_| log_text.starts_with("up"));
    let Some((process, network)) = process.and_then(|process| Some((process, network_of(process)?))) else {
        return Err(format!("the kernel gives no network namespace: {}", log_text.trim()));
    };
    if network_of("self").as_ref() == Some(&network) {
        return Err("`unshare` made no separate network; is it the one from util-linux?".to_owned());
    }
    holder.keep();
    Ok((process, network))
}

fn fresh_tables(on_disk: bool) -> Outcome {
    let tables = home("tables");
    if tables.exists() {
        fs::remove_dir_all(&tables).map_err(|error| format!("{}: {error}", tables.display()))?;
    }
    if on_disk {
        fs::create_dir(&tables).map_err(|error| format!("{}: {error}", tables.display()))?;
    }
    Ok(())
}

/// Installs what is missing if that is allowed; otherwise says what is missing. Then says whether the kernel allows a
/// network namespace.
fn need() -> Outcome {
    need_programs()?;
    output(unshare().args(["ip", "link", "set", "lo", "up"])).map(drop).map_err(|error| {
        format!(
            "{}\nUbuntu 24.04 gives ordinary users no network namespace. Allow it with\n  \
             sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0\nor run this as root.",
            error.trim()
        )
    })
}

/// Runs a command in a network namespace of its own.
fn unshare() -> Program {
    let mut unshare = Program::new("unshare");
    if !geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.arg("--net");
    unshare
}

fn need_programs() -> Outcome {
    let programs = [
        ("java", "openjdk-17-jre-headless"),
        ("mvn", "maven"),
        ("ip", "iproute2"),
        ("curl", "curl"),
        ("unshare", "util-linux"),
    ];
    let missing = programs
        .into_iter()
        .filter(|(program, _)| !succeeds(Program::new("bash").args(["-c", "command -v \"$0\"", program])));
    let missing: Vec<_> = missing.map(|(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(format!("something is missing; install it with\n  sudo apt-get install {}", missing.join(" ")));
    }
    output(Program::new("apt-get").args(["update", "-qq"]))?;
    output(Program::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(missing))?;
    Ok(())
}

/// Fetches the jars of one artefact and of everything it depends on, unless they are there.
fn fetch((group, artifact, version): (&str, &str, &str)) -> Outcome {
    let folder = home(&format!("{artifact}-{version}"));
    if folder.join("complete").exists() {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wanted = format!("<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>");
    let project = "<groupId>local</groupId><artifactId>backends</artifactId><version>1</version>";
    write(
        &folder.join("pom.xml"),
        format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>{project}\
             <dependencies><dependency>{wanted}</dependency></dependencies></project>\n"
        ),
    )?;
    let mut maven = Program::new("mvn");
    maven.current_dir(&folder).args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]);
    output(&mut maven)
        .map_err(|reason| format!("{reason}\nThe servers come from Maven Central; can it be reached?"))?;
    write(&folder.join("complete"), "")
}

/// What `scripts/prove` runs on the same servers and more fully, as `wire` and `grid-real`, and what calls no server.
const ELSEWHERE: [&str; 4] =
    ["a_call_whose_first_reply_is_lost", "every_call_on_the_wire_survives_every_fault", "tidy::", "pages::"];

/// Runs the suites of the embedded servers again; only the addresses differ.
fn test(filter: &[String]) -> Outcome<bool> {
    run(Program::new("cargo").args(["test", "--workspace", "--test", "all", "--test", "cli", "--no-run", "--quiet"]))?;
    let (servers, _end) = start(false)?;
    let stories = STORIES.map(str::to_owned);
    let suites = [("all", filter), ("cli", &stories)];
    let (mut log, mut sum, mut is_sound) = (Vec::new(), (0, 0), true);
    // Who names a test means one of the first suite.
    for (suite, filter) in suites.into_iter().take(if filter.is_empty() { 2 } else { 1 }) {
        let mut cargo = servers.command("cargo");
        cargo.args(["test", "--workspace", "--test", suite, "--offline", "--"]).args(filter);
        if filter.is_empty() {
            cargo.args(ELSEWHERE.iter().flat_map(|test| ["--skip", test]));
        }
        let tested = cargo.output().map_err(|error| format!("cannot start cargo: {error}"))?;
        log.extend([tested.stdout.as_slice(), tested.stderr.as_slice()].concat());
        write(&home("test.log"), &log)?;
        let text = String::from_utf8_lossy(&tested.stdout);
        eprint!("{text}{}", String::from_utf8_lossy(&tested.stderr));
        let (passed, failed) = totals(&text);
        sum = (sum.0 + passed, sum.1 + failed);
        // A suite that executed no test has shown nothing.
        is_sound &= tested.status.success() && passed > 0;
    }
    println!("{} passed, {} failed", sum.0, sum.1);
    Ok(is_sound)
}

/// Reads the last lines of test harnesses: `test result: ok. 12 passed; 0 failed; ...`.
fn totals(text: &str) -> (u64, u64) {
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: ")).map(|result| {
        let words: Vec<_> = result.split_whitespace().collect();
        let before = |wanted: &str| {
            let place = words.iter().position(|word| word.trim_end_matches(';') == wanted)?;
            words.get(place.checked_sub(1)?)?.parse::<u64>().ok()
        };
        (before("passed").unwrap_or(0), before("failed").unwrap_or(0))
    });
    results.fold((0, 0), |(passed, failed), (more, worse)| (passed + more, failed + worse))
}

fn home(name: &str) -> PathBuf {
    std::path::absolute(Path::new(HOME).join(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::totals;

    #[test]
    fn the_results_of_every_harness_are_summed() {
        let results = "running 3 tests\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 1.00s\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n";
        assert_eq!(totals(results), (15, 2));
        assert_eq!(totals("error: nothing was built\n"), (0, 0));
    }
}
