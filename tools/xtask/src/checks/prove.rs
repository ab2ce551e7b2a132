//! The proof, one part at a time. What a part needs is built here; what it proves is in `tests/proof` and `tests`, and
//! for `kill`, `effects`, `away` and `stop` in modules beside this one.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command as Program;

use clap::{Args, Subcommand};

use super::{away, effects, kill, stop};
use crate::backends::{self, PRIVATE_ADDRESS};
use crate::process::{Outcome, binaries, build_functions, build_release, run, run_tests};

/// Parts that another program runs, from its own list.
const OTHERS: &str = concat!(
    "Parts that need no servers:\n",
    include_str!("../../../../tests/proof/parts.txt"),
    "\n\
    Each part prints progress while it works and, as its last line, one JSON object with its figures.\n\
    It exits 1 on any violation. What each figure means: docs/trust/reliability.md"
);

/// What `scripts/prove` runs.
#[derive(Debug, Subcommand)]
#[command(after_help = OTHERS, arg_required_else_help = true)]
pub(crate) enum Part {
    /// The release binaries on real backends, their processes killed at random moments
    Kill {
        #[command(flatten)]
        length: Length,
        /// Let handlers in this language plan; their processes are killed, too
        #[arg(long, value_name = "LANGUAGE")]
        handler: Option<kill::Language>,
        /// On the embedded stack, which is not killed, instead of DynamoDB Local and ElasticMQ
        #[arg(long)]
        embedded: bool,
        /// A folder with the functions' binaries of another release: each process is of either release, by chance
        #[arg(long, value_name = "DIR")]
        beside: Option<PathBuf>,
    },
    /// Effects, from the release binaries to a callee that misbehaves: faults on every wire, processes killed at random
    Effects {
        /// A fifth of the events and of the kills
        #[arg(long)]
        short: bool,
    },
    /// The functions' binaries on real backends, while one handler is unavailable for a day and another one answers
    /// nonsense
    Away {
        /// The language of the handlers
        #[arg(long, value_name = "LANGUAGE")]
        handler: kill::Language,
        /// On the embedded stack instead of DynamoDB Local and ElasticMQ
        #[arg(long)]
        embedded: bool,
    },
    /// The functions' binaries while the worker is paused for nine hours, and a handler fails after that
    Stop,
    /// Every remote call times every fault, on the wire between the release binaries and real backends
    GridReal,
    /// Every kind of call loses its first reply on the way from real backends, so that the SDK repeats it and every
    /// kind of write finds that it was carried out
    Wire,
    /// The simulator's store and queue against servers, answer by answer; also against those that TEST_DYNAMODB_URL and
    /// TEST_SQS_URL name (scripts/real-backends run scripts/prove fakes)
    Fakes(Length),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

#[derive(Debug, Args)]
pub(crate) struct Length {
    /// Several times as much as runs per change
    #[arg(long)]
    long: bool,
}

impl Part {
    pub(crate) fn run(self) -> Outcome<bool> {
        match self {
            Self::Kill { length, handler, embedded, beside } => {
                kill::test(length.long, handler, embedded, beside.as_deref())
            }
            Self::Effects { short } => effects::test(short),
            Self::Away { handler, embedded } => away::test(handler, embedded),
            Self::Stop => stop::test(),
            Self::Wire => wire(),
            Self::Fakes(length) => fakes(length.long),
            Self::GridReal => grid_on_servers(),
            Self::Other(arguments) => prove(arguments),
        }
    }
}

/// A part that needs neither servers nor the functions' binaries.
fn prove(arguments: Vec<String>) -> Outcome<bool> {
    build_release(&["hookonce-prove"])?;
    let error = Program::new(binaries("release")?.join("hookonce-prove")).args(arguments).exec();
    Err(format!("cannot start hookonce-prove: {error}"))
}

/// A test that compares the answers of servers. It needs the adapters and the embedded servers; the proofs need
/// neither.
fn fakes(long: bool) -> Outcome<bool> {
    let mut cargo = Program::new("cargo");
    cargo.env("TEST_SEQUENCES", if long { "2000" } else { "100" });
    figures(cargo, "fakes", "fakes", "{\"operations\"")
}

/// Every call of every scenario times every fault. Proxies between the binaries and the servers inject the faults.
fn grid_on_servers() -> Outcome<bool> {
    build_functions()?;
    run(Program::new("cargo").args(["test", "--workspace", "--test", "all", "--no-run", "--quiet"]))?;
    let (servers, _end) = backends::start(false)?;
    let mut cargo = servers.command("env");
    cargo.arg(format!("TEST_BINARIES={}", binaries("release")?.display()));
    cargo.arg(format!("TEST_CALLEE_ADDRESS={PRIVATE_ADDRESS}")).arg("cargo");
    figures(cargo, "real_grid", "grid-real", "{\"calls\"")
}

/// Every kind of call of every scenario, with its first reply lost by a proxy between the SDK and the servers.
fn wire() -> Outcome<bool> {
    run(Program::new("cargo").args(["test", "--workspace", "--test", "all", "--no-run", "--quiet"]))?;
    let (servers, _end) = backends::start(false)?;
    let mut cargo = servers.command("env");
    cargo.args(["TEST_EACH_KIND=1", "cargo"]);
    figures(cargo, "a_call_whose_first_reply_is_lost", "wire", "{\"part\":\"wire\"")
}

/// Runs tests and repeats the line with their figures, because otherwise the test harness prints the last line.
fn figures(mut cargo: Program, tests: &str, part: &str, beginning: &str) -> Outcome<bool> {
    let (passed, figures) = run_tests(&mut cargo, tests, beginning)?;
    println!("{}", figures.as_deref().unwrap_or(&format!("{{\"part\":\"{part}\",\"violations\":1}}")));
    Ok(passed && figures.is_some())
}
