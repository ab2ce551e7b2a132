//! One handler is unavailable for a day, and another one answers nonsense for its first hour, while a third one goes
//! on: with the functions' binaries, on DynamoDB Local and ElasticMQ or on the embedded stack. Then the two come back,
//! what died is replayed, and every event must have been applied once.
//!
//! The day passes in steps of a clock of its own, by which `hookonce dev`, the functions and the command line go, and
//! with `dev` the embedded stack. At each step all timers end, so that the relay runs and sends what is due, and the
//! worker calls its handler again. DynamoDB Local and ElasticMQ stay at the true time: a message that was on its way at
//! a step comes back after minutes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::clock::Clock;
use super::demo::{Deliveries, Report};
use super::kill::{Backends, HANDLERS, Language, routes};
use crate::process::{
    Background, Outcome, build_functions, build_hookonce, fresh_folder, json, output, read, wait_for, write,
};

const DATA: &str = "target/away-test";
const PORT: u16 = 9_101;
/// They are waited for by the true time.
const DELIVERIES: Deliveries = Deliveries { port: PORT, data: DATA, events: 300, seed: 1 };
/// The steps of the hour in which a handler answers nonsense.
const FIRST_STEPS: [Duration; 4] = [Duration::from_mins(15); 4];
/// The steps of the rest of the day. A record waits an hour at most.
const OTHER_STEPS: [Duration; 23] = [Duration::from_hours(1); 23];
/// How long all is at work after a step, in true time.
const STEP: Duration = Duration::from_secs(8);
/// The steps after the day: after one, the relay has sent every record that waits.
const RESEND_INTERVAL_MAX: Duration = Duration::from_hours(6);
/// How long all is at work after one of these, in true time. A step cuts off the polls of the queue, and a message that
/// was in their answers is hidden for six minutes. With shorter pauses, the next step would cut it off again.
const HIDDEN: Duration = Duration::from_mins(7);

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

/// Whether nothing was lost, doubled or killed that should not be.
pub(crate) fn test(language: Language, embedded: bool) -> Outcome<bool> {
    language.must_be_built()?;
    fresh_folder(Path::new(DATA))?;
    let hookonce = build_hookonce()?;
    build_functions()?;
    let backends = Backends::start(embedded)?;
    let mut clock = Clock::start(Path::new(DATA))?;
    let stack = Stack { variables: clock.variables(), backends: &backends, hookonce: &hookonce };
    let _stack = stack.start(language, &clock)?;

    std::thread::scope(|scope| {
        let demo = scope.spawn(|| DELIVERIES.make(backends.command(&hookonce)));
        stack.wait_for_the_last_delivery()?;
        // Returns in how many steps the unavailable handler was called.
        let mut pass = |steps: &[Duration]| -> Outcome<usize> {
            let mut calls = 0;
            for step in steps {
                let before = lines_with("HANDLER_UNAVAILABLE")?;
                clock.forward(*step)?;
                output(stack.command("trigger").arg("meta_whatsapp.message"))?;
                std::thread::sleep(STEP);
                calls += usize::from(lines_with("HANDLER_UNAVAILABLE")? > before);
            }
            Ok(calls)
        };
        let delivered = count(&stack.stats("whatsapp")?.by.state, "APPLIED");
        let mut steps_with_calls = pass(&FIRST_STEPS)?;
        let nonsense = stack.stats("github")?.by;
        let malformed = count(&nonsense.error, "HANDLER_ANSWER_MALFORMED");
        let died = count(&nonsense.state, "DEAD");
        eprintln!("away: after an hour, {malformed} answers were malformed and {died} events are DEAD of nonsense");
        write(&data("routes.json"), routes(|handler| if handler == "payments" { "away" } else { handler }))?;
        steps_with_calls += pass(&OTHER_STEPS)?;
        let (away, unharmed) = (stack.stats("stripe")?.by, stack.stats("whatsapp")?.by);
        let killed = count(&away.state, "DEAD") + count(&unharmed.state, "DEAD");
        let waited = count(&away.error, "HANDLER_UNAVAILABLE");
        let all_wait = waited > 0 && away.state == BTreeMap::from([("PENDING".to_owned(), waited)]);
        let applied_meanwhile = count(&unharmed.state, "APPLIED").saturating_sub(delivered);
        eprintln!(
            "away: after a day, {waited} events wait for their handler, called in {steps_with_calls} steps; \
             {applied_meanwhile} events of the third one were applied meanwhile"
        );
        write(&data("routes.json"), routes(|handler| handler))?;
        let steps_to_end = stack.settle(&mut clock, || demo.is_finished())?;
        let report = demo.join().map_err(|_| "the deliveries ended early".to_owned())??;
        let Report { events, applied, applied_twice, lost, dead, pending, violations, held } = report;
        println!(
            "{{\"part\":\"away\",\"events\":{events},\"waited\":{waited},\"malformed\":{malformed},\"died\":{died},\
             \"steps_with_calls\":{steps_with_calls},\"applied_meanwhile\":{applied_meanwhile},\"steps_to_end\":{steps_to_end},\
             \"killed\":{killed},\"applied\":{applied},\"doubled\":{applied_twice},\"lost\":{lost},\"dead\":{dead},\
             \"pending\":{pending},\"violations\":{violations}}}"
        );
        let steps = FIRST_STEPS.len() + OTHER_STEPS.len();
        // The last one may be on its way.
        let went_on = applied_meanwhile + 1 >= u64::try_from(steps).unwrap_or(u64::MAX);
        let was_in_trouble = all_wait && malformed > 0 && died > 0 && steps_with_calls == steps;
        let whole = applied == events && applied_twice + lost + dead + pending + violations == 0;
        Ok(was_in_trouble && went_on && held && whole && killed == 0)
    })
}

/// How many lines of the stack's log have this text.
fn lines_with(text: &str) -> Outcome<usize> {
    Ok(read(&data("dev.log"))?.lines().filter(|line| line.contains(text)).count())
}

/// The stack under test, for commands by its clock.
struct Stack<'a> {
    variables: [String; 3],
    backends: &'a Backends,
    hookonce: &'a Path,
}

impl Stack<'_> {
    /// Starts it with two handlers in trouble.
    fn start(&self, language: Language, clock: &Clock) -> Outcome<Background> {
        let troubled = |handler| match handler {
            "payments" => "away",
            "builds" => "nonsense",
            handler => handler,
        };
        write(&data("routes.json"), routes(troubled))?;
        let handlers = HANDLERS.map(|(handler, _)| format!("--handler={handler}={}", language.command(handler)));
        let nonsense = Language::Python.command("nonsense");
        let mut dev = self.command("dev");
        dev.args(["--port", &PORT.to_string(), "--binaries"]).arg(clock.functions()?);
        dev.args(handlers).arg(format!("--handler=nonsense={nonsense}")).args(self.backends.options());
        let started = Background::start(&dev, &data("dev.log"))?;
        wait_for("the stack", &data("dev.log"), || data("stack.json").exists())?;
        Ok(started)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = self.backends.command("env");
        command.args(&self.variables).arg(self.hookonce).args([name, "--stack", DATA]);
        command
    }

    fn stats(&self, endpoint: &str) -> Outcome<Stats> {
        json(&output(self.command("stats").args(["--endpoint", endpoint, "--since", "35d", "--json"]))?)
    }

    /// Deliveries are signed at the true time, so that the day begins after them.
    fn wait_for_the_last_delivery(&self) -> Outcome {
        let mut seen = 0;
        wait_for("the last delivery", &data("dev.log"), || {
            std::thread::sleep(Duration::from_secs(10));
            let counts =
                HANDLERS.map(|(_, endpoint)| self.stats(endpoint).map_or(0, |stats| stats.by.state.values().sum()));
            let all = counts.iter().sum::<u64>();
            std::mem::replace(&mut seen, all) == all && all > 0
        })
    }

    /// Lets everything run until the end, and returns in how many steps.
    fn settle(&self, clock: &mut Clock, is_over: impl Fn() -> bool) -> Outcome<usize> {
        let mut steps = 0;
        while !is_over() {
            self.replay()?;
            clock.forward(RESEND_INTERVAL_MAX)?;
            steps += 1;
            let _ = (0..HIDDEN.as_secs()).any(|_| {
                std::thread::sleep(Duration::from_secs(1));
                is_over()
            });
        }
        Ok(steps)
    }

    /// Lets what died of nonsense run again. The command exits with 1 where nothing did.
    fn replay(&self) -> Outcome {
        let mut command = self.command("replay");
        command.args(["--state", "DEAD", "--endpoint", "github", "--yes", "--by", "prove"]);
        let status = command.status().map_err(|error| format!("cannot start hookonce: {error}"))?;
        if matches!(status.code(), Some(0 | 1)) { Ok(()) } else { Err(format!("the replay ended with {status}")) }
    }
}

fn count(by: &BTreeMap<String, u64>, name: &str) -> u64 {
    by.get(name).copied().unwrap_or_default()
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
