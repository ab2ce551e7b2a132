//! The worker is paused for nine hours while the relay goes on, as somebody may have to do it, with the functions'
//! release binaries on the embedded stack. When it starts again, each event has several hints in the queue, and what
//! its handler needs is not there yet. No event may use up its attempts on that: without the stop, they last an hour.
//!
//! The hours pass in steps of a clock of its own, by which the stack, the functions and the command line go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::clock::Clock;
use super::demo::{Deliveries, Report};
use super::kill::{HANDLERS, Language, routes};
use crate::process::{
    Background, Outcome, build_functions, build_hookonce, fresh_folder, json, output, wait_for, write,
};

const DATA: &str = "target/stop-test";
const PORT: u16 = 9_102;
const DELIVERIES: Deliveries = Deliveries { port: PORT, data: DATA, events: 60, seed: 1 };
/// Nine hours, in minutes: after each step the next hint of every record is due.
const STEPS: [u64; 8] = [3, 5, 10, 20, 40, 80, 160, 222];
/// How long all is at work after a step, in true time.
const STEP: Duration = Duration::from_secs(3);
/// For how long the handler fails once the worker runs again. With eight hints that each count at their
/// own pace, an event was DEAD after 18 seconds in the middle.
const FAILS: Duration = Duration::from_secs(30);
/// The hints that each record must have in the queue, of which the deliveries sent the first.
const HINTS_MIN: u64 = 7;
/// The steps to the end: after one, the relay has sent every record that waits.
const RESEND_INTERVAL_MAX: Duration = Duration::from_hours(6);

/// The output of `hookonce stats --json`.
#[derive(Deserialize, Default)]
struct Stats {
    by: By,
}

#[derive(Deserialize, Default)]
struct By {
    #[serde(default)]
    state: BTreeMap<String, u64>,
    #[serde(default)]
    error: BTreeMap<String, u64>,
}

/// The output of `hookonce status --json`.
#[derive(Deserialize)]
struct Status {
    queue: Depth,
}

#[derive(Deserialize)]
struct Depth {
    visible: u64,
}

/// Whether every event was applied once, and none died of the stop.
pub(crate) fn test() -> Outcome<bool> {
    fresh_folder(Path::new(DATA))?;
    let hookonce = build_hookonce()?;
    build_functions()?;
    let mut clock = Clock::start(Path::new(DATA))?;
    let stack = Stack { variables: clock.variables(), hookonce: &hookonce };
    let _stack = stack.start(&clock)?;
    output(stack.command("pause").args(["worker", "--reason", "a wrong deploy", "--by", "prove"]))?;

    std::thread::scope(|scope| {
        let demo = scope.spawn(|| DELIVERIES.make(Command::new(&hookonce)));
        let records = stack.wait_for_the_last_delivery()?;
        for minutes in STEPS {
            clock.forward(Duration::from_mins(minutes))?;
            std::thread::sleep(STEP);
        }
        // It exits with 1, because a paused worker needs a person.
        let status = stack.command("status").arg("--json").output();
        let status = status.map_err(|error| format!("cannot start hookonce: {error}"))?;
        let status: Status = json(&String::from_utf8_lossy(&status.stdout))?;
        let hints = status.queue.visible;
        eprintln!("stop: after nine hours, {records} records have {hints} hints in the queue");
        output(stack.command("resume").args(["worker", "--by", "prove"]))?;
        std::thread::sleep(FAILS);
        let failing = stack.stats()?;
        let (died, failed) = (count(&failing.state, "DEAD"), count(&failing.error, "NOT_READY"));
        eprintln!("stop: after half a minute, {failed} events have failed and {died} are DEAD");
        write(&data("ready"), "")?;
        while !demo.is_finished() {
            clock.forward(RESEND_INTERVAL_MAX)?;
            std::thread::sleep(STEP);
        }
        let report = demo.join().map_err(|_| "the deliveries ended early".to_owned())??;
        let Report { applied, applied_twice, lost, dead, pending, violations, held, .. } = report;
        println!(
            "{{\"part\":\"stop\",\"records\":{records},\"hints\":{hints},\"failed\":{failed},\"died\":{died},\
             \"applied\":{applied},\"doubled\":{applied_twice},\"lost\":{lost},\"dead\":{dead},\"pending\":{pending},\
             \"violations\":{violations}}}"
        );
        let was_in_trouble = hints >= HINTS_MIN * records && failed > 0;
        let whole = applied == report.events && applied_twice + lost + dead + pending + violations == 0;
        Ok(was_in_trouble && held && whole && died == 0)
    })
}

/// The stack under test, for commands by its clock.
struct Stack<'a> {
    variables: [String; 3],
    hookonce: &'a Path,
}

impl Stack<'_> {
    fn start(&self, clock: &Clock) -> Outcome<Background> {
        write(&data("routes.json"), routes(|handler| handler))?;
        let ready = data("ready");
        let handler = |(handler, _): (&str, &str)| {
            let command = Language::Python.later();
            format!("--handler={handler}=env HANDLER={handler} READY={} {command}", ready.display())
        };
        let mut dev = self.command("dev");
        dev.args(["--port", &PORT.to_string(), "--binaries"]).arg(clock.functions()?).args(HANDLERS.map(handler));
        let started = Background::start(&dev, &data("dev.log"))?;
        wait_for("the stack", &data("dev.log"), || data("stack.json").exists())?;
        Ok(started)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("env");
        command.args(&self.variables).arg(self.hookonce).args([name, "--stack", DATA]);
        command
    }

    fn stats(&self) -> Outcome<By> {
        let stats: Stats = json(&output(self.command("stats").args(["--since", "1d", "--json"]))?)?;
        Ok(stats.by)
    }

    /// Deliveries are signed at the true time, so that the hours begin after them. Returns how many records there are.
    fn wait_for_the_last_delivery(&self) -> Outcome<u64> {
        let mut seen = 0;
        wait_for("the last delivery", &data("dev.log"), || {
            std::thread::sleep(Duration::from_secs(5));
            let all = self.stats().map_or(0, |by| by.state.values().sum());
            std::mem::replace(&mut seen, all) == all && all > 0
        })?;
        Ok(seen)
    }
}

fn count(by: &BTreeMap<String, u64>, name: &str) -> u64 {
    by.get(name).copied().unwrap_or_default()
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
