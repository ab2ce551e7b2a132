//! Puts the functions' release binaries under load against DynamoDB Local and ElasticMQ, or against the embedded stack,
//! and kills their processes with SIGKILL at random moments. The result is read from the tables afterwards.
//!
//! With the binaries of another release beside this tree's, each process is of either by chance, so both write to the
//! same tables, in every order.
//!
//! `hookonce dev --binaries` plays Lambda: it invokes each process, and starts another one when one is killed.
//! `hookonce demo --url` plays the providers, which retry what was not answered.
//!
//! With handlers in another language, some of their calls take longer than the worker waits, some kill their own
//! process in either round, and no two calls answer with the same plan. Of the plans that were answered for a fact, the
//! domain table must hold exactly one.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;

use super::answers::{Answers, committed};
use super::demo::{Deliveries, Report};
use super::tables;
use crate::backends::{self, End, Running};
use crate::process::{
    Background, Outcome, STARTED, build_functions, build_hookonce, children, fresh_folder, functions_with, json, read,
    signal, wait_for, write,
};

const DATA: &str = "target/kill-test";
const PORT: u16 = 9_100;
/// What the handlers note, below the data folder.
const ANSWERS: &str = "answers.jsonl";
/// Runs of deliveries until the kills are done.
const RUNS_MAX: u64 = 10;
/// Between two kills.
const PAUSE_MS: std::ops::Range<u64> = 50..250;

/// What `hookonce dev` writes about itself. It started the processes of the functions.
#[derive(Deserialize)]
struct Stack {
    pid: u32,
}

/// Where the tables and queues of a run are: on servers, or in the process of `hookonce dev`.
pub(crate) struct Backends(Option<(Running, End)>);

impl Backends {
    pub(crate) fn start(embedded: bool) -> Outcome<Self> {
        if embedded { Ok(Self(None)) } else { backends::start(false).map(|servers| Self(Some(servers))) }
    }

    /// A command that reaches them.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Program {
        match &self.0 {
            Some((servers, _)) => servers.command(program),
            None => Program::new(program),
        }
    }

    /// The options of `hookonce dev`.
    pub(crate) fn options(&self) -> Vec<String> {
        self.0.iter().flat_map(|_| Running::options()).collect()
    }
}

/// A language of `clients`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    Python,
    Typescript,
}

/// The sample handlers, each with its endpoint. In every language they name the same facts and items as in Rust, so the
/// same counts hold.
pub(crate) const HANDLERS: [(&str, &str); 3] = [("payments", "stripe"), ("messages", "whatsapp"), ("builds", "github")];

impl Language {
    /// The command that runs a sample handler. Python finds those beside this file, too.
    pub(crate) fn command(self, handler: &str) -> String {
        self.runs("clients/typescript/dist/examples", handler)
    }

    /// The command that runs a sample handler which is slow now and then, and plans differently at each call.
    fn troubled(self, handler: &str) -> String {
        let command = self.runs("tools/xtask/src/checks", "troubled");
        format!("env HANDLER={handler} ANSWERS={DATA}/{ANSWERS} {command}")
    }

    /// The command that runs a sample handler which lacks something at first.
    pub(crate) fn later(self) -> String {
        self.runs("tools/xtask/src/checks", "later")
    }

    fn runs(self, folder: &str, module: &str) -> String {
        match self {
            Self::Python => {
                let path = "PYTHONPATH=clients/python/src:clients/python/examples:tools/xtask/src/checks";
                format!("env {path} python3 -m hookonce.runtime {module}.lambda_handler")
            }
            Self::Typescript => format!("node clients/typescript/dist/src/runtime.js {folder}/{module}.lambdaHandler"),
        }
    }

    /// Fails unless the sample handlers can run.
    pub(crate) fn must_be_built(self) -> Outcome {
        if self == Self::Typescript && !Path::new("clients/typescript/dist").exists() {
            return Err("scripts/check clients builds the handlers; run it first".to_owned());
        }
        Ok(())
    }

    /// Writes the routes to the handlers, and returns the options that run them.
    fn prepare(self) -> Outcome<Vec<String>> {
        self.must_be_built()?;
        write(&data("routes.json"), routes(|handler| handler))?;
        let option = |(handler, _): (&str, &str)| format!("--handler={handler}={}", self.troubled(handler));
        let options = HANDLERS.map(option).into_iter().chain(["--handler-watch=clients/python/src".to_owned()]);
        Ok(options.collect())
    }
}

/// A route set in which a function stands for each sample handler.
pub(crate) fn routes(function: impl Fn(&'static str) -> &'static str) -> String {
    let route = |(handler, endpoint)| {
        let function = function(handler);
        format!(
            r#"{{"name":"{handler}","consumer":"{handler}","endpoints":["{endpoint}"],"handler":{{"lambda":"{function}"}}}}"#
        )
    };
    format!(r#"{{"version":1,"otherwise":"dead","routes":[{}]}}"#, HANDLERS.map(route).join(","))
}

/// Kills at least this many processes while deliveries run.
pub(crate) fn test(long: bool, language: Option<Language>, embedded: bool, beside: Option<&Path>) -> Outcome<bool> {
    let (kills, deliveries) = if long { (1_000, 7_500) } else { (200, 1_500) };
    fresh_folder(Path::new(DATA))?;
    let hookonce = build_hookonce()?;
    build_functions()?;
    let handlers = language.map_or(Ok(Vec::new()), Language::prepare)?;
    let backends = Backends::start(embedded)?;
    let mut dev = backends.command(&hookonce);
    // The functions read their documents from the table, as on AWS.
    let table = "HOOKONCE_DOCUMENTS=\"table:${HOOKONCE_INBOX_TABLE%-inbox}-documents\"";
    let functions = functions_with(table, data("functions"), beside)?;
    dev.args(["dev", "--stack", DATA, "--port", &PORT.to_string(), "--binaries"]).arg(functions);
    let _stack = Background::start(dev.args(handlers).args(backends.options()), &data("dev.log"))?;
    wait_for("the stack", &data("dev.log"), || data("stack.json").exists())?;
    let stack: Stack = json(&read(&data("stack.json"))?)?;
    tables::put_documents(|| backends.command("curl"), Path::new(DATA))?;
    // A function that read the folder all the same would let every event die, and the deliveries would not hold.
    write(&data("routes.json"), r#"{"version":1,"otherwise":"dead","routes":[]}"#)?;

    let (killed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut reports: Vec<Report> = Vec::new();
    let held = std::thread::scope(|scope| {
        scope.spawn(|| kill_at_random(stack.pid, kills, &killed, &over));
        // One run of deliveries usually lasts longer than the kills; on a fast machine there is another.
        let held = (1..=RUNS_MAX).find_map(|seed| {
            let run = Deliveries { port: PORT, data: DATA, events: deliveries, seed };
            let report = run.make(backends.command(&hookonce));
            let held = report.as_ref().map(|report| report.held).map_err(String::clone);
            reports.extend(report);
            (held != Ok(true) || killed.load(Ordering::Relaxed) >= kills).then_some(held)
        });
        over.store(true, Ordering::Relaxed);
        held.unwrap_or_else(|| Err(format!("only {killed:?} of {kills} kills in {RUNS_MAX} runs; see {DATA}/dev.log")))
    })?;
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let (kills, events, lost) = (killed.into_inner(), sum(|report| report.events), sum(|report| report.lost));
    let doubled = sum(|report| report.applied_twice);
    let (planned, more) = language.map_or(Ok((true, String::new())), |_| compare(&backends, events))?;
    let (both_ran, more) = match beside {
        Some(_) => {
            let started = read(&data("functions").join(STARTED))?;
            let other = started.lines().filter(|line| *line == "other").count();
            let this = started.lines().count() - other;
            (this > 0 && other > 0, format!("{more},\"started\":{this},\"started_of_other\":{other}"))
        }
        None => (true, more),
    };
    println!(
        "{{\"part\":\"kill\",\"documents\":\"table\",\"kills\":{kills},\"events\":{events},\"lost\":{lost},\"doubled\":{doubled}{more}}}"
    );
    Ok(held && planned && both_ran)
}

/// Compares what the handlers answered with what was committed, and returns the figures. False if something is wrong,
/// or if no answer was late or differed, or no handler was killed in one of its rounds: then the run has shown nothing.
fn compare(backends: &Backends, events: u64) -> Outcome<(bool, String)> {
    let committed = committed(&tables::domain(|| backends.command("curl"), Path::new(DATA))?);
    let answers = Answers::noted(&data(ANSWERS))?;
    let (late, differing) = (answers.late, answers.differing());
    let violations = answers.violations(&committed) as u64 + events.abs_diff(committed.len() as u64);
    let Answers { killed_in_reads, killed_in_plan, .. } = answers;
    let figures = format!(
        ",\"late\":{late},\"answered_differently\":{differing},\"killed_in_reads\":{killed_in_reads},\
         \"killed_in_plan\":{killed_in_plan},\"violations\":{violations}"
    );
    let has_shown = [late, differing, killed_in_reads, killed_in_plan].iter().all(|count| *count > 0);
    Ok((violations == 0 && has_shown, figures))
}

/// Kills a random process of a function every 0.05 to 0.25 seconds, this many in all.
fn kill_at_random(parent: u32, kills: u64, killed: &AtomicU64, over: &AtomicBool) {
    while killed.load(Ordering::Relaxed) < kills && !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(PAUSE_MS.start + random_below(PAUSE_MS.end - PAUSE_MS.start)));
        let victims = children(parent);
        let chosen = usize::try_from(random_below(victims.len().max(1) as u64)).unwrap_or_default();
        if victims.get(chosen).is_some_and(|victim| signal(*victim, Signal::KILL)) {
            let count = killed.fetch_add(1, Ordering::Relaxed) + 1;
            if count.is_multiple_of(50) {
                eprintln!("kill: {count} processes killed");
            }
        }
    }
}

/// Randomness from the standard library: the keys of its hash tables are random.
fn random_below(bound: u64) -> u64 {
    RandomState::new().hash_one(()) % bound
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
