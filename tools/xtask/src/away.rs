//! One handler is away, and another one answers nonsense, while deliveries run through the functions' binaries on
//! DynamoDB Local and ElasticMQ, or on the embedded stack. A third handler goes on. Then the two come back, what died
//! is replayed, and every event must have been applied once.
//!
//! A day cannot be waited for here: a test with a clock of its own does (`tests/remote/trouble.rs`). Here the handler
//! is away until the relay has found its records waiting several times. A record is called again at most as long after
//! the handler's return as it had been away, plus the visibility timeout and a run of the relay; that is what this
//! waits for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::kill::{Backends, HANDLERS, Language, routes};
use crate::process::{
    Background, Outcome, binaries, build_functions, build_hookonce, fresh_folder, json, output, wait_for, write,
};

const DATA: &str = "target/away-test";
const PORT: u16 = 9_101;
const DELIVERIES: &str = "300";
/// How long the two handlers are in trouble: several runs of the relay, and several calls of each record.
const TROUBLE: Duration = Duration::from_secs(150);
/// How long the demo waits for the last event, counted from the deliveries.
const WAIT_MINUTES: &str = "25";
/// Between two replays of what died. A worker may still have the old routes at the first one.
const REPLAY_EVERY: Duration = Duration::from_secs(20);

/// The output of `hookonce demo --json`.
#[derive(Deserialize)]
struct Report {
    events: u64,
    applied: u64,
    applied_twice: u64,
    lost: u64,
    dead: u64,
    pending: u64,
    violations: u64,
}

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
    let troubled = |handler| match handler {
        "payments" => "away",
        "builds" => "nonsense",
        handler => handler,
    };
    write(&data("routes.json"), routes(troubled))?;
    let handlers = HANDLERS.map(|(handler, _)| format!("--handler={handler}={}", language.command(handler)));
    let nonsense =
        "env PYTHONPATH=clients/python/src:tools/xtask/src python3 -m hookonce.runtime nonsense.lambda_handler";
    let mut dev = backends.command(&hookonce);
    dev.args(["dev", "--data", DATA, "--port", &PORT.to_string(), "--binaries"]).arg(binaries("release")?);
    dev.args(handlers).arg(format!("--handler=nonsense={nonsense}")).args(backends.options());
    let _stack = Background::start(&dev, &data("dev.log"))?;
    wait_for("the stack", &data("dev.log"), || data("stack.json").exists())?;

    std::thread::scope(|scope| {
        let demo = scope.spawn(|| deliver(&backends, &hookonce));
        std::thread::sleep(TROUBLE);
        let counted = |endpoint| {
            let answers = std::iter::repeat_with(|| stats(&backends, &hookonce, endpoint));
            answers.take(3).find_map(Result::ok).unwrap_or_default().by
        };
        wait_for("the events of the third handler", &data("dev.log"), || {
            let unharmed = counted("whatsapp");
            count(&unharmed.state, "APPLIED") > 0 && count(&unharmed.state, "PENDING") == 0
        })?;
        let [away, nonsense, unharmed] = ["stripe", "github", "whatsapp"].map(counted);
        let killed = count(&away.state, "DEAD") + count(&unharmed.state, "DEAD");
        let waited = count(&away.error, "HANDLER_UNAVAILABLE");
        let (malformed, died) = (count(&nonsense.error, "HANDLER_ANSWER_MALFORMED"), count(&nonsense.state, "DEAD"));
        eprintln!(
            "away: {waited} record(s) wait for their handler, {malformed} are tried again and {died} are DEAD of nonsense"
        );
        write(&data("routes.json"), routes(|handler| handler))?;
        while !demo.is_finished() {
            std::thread::sleep(REPLAY_EVERY);
            replay(&backends, &hookonce)?;
        }
        let report = demo.join().map_err(|_| "the deliveries ended early".to_owned())??;
        let Report { events, applied, applied_twice, lost, dead, pending, violations } = report;
        println!(
            "{{\"part\":\"away\",\"events\":{events},\"waited\":{waited},\"malformed\":{malformed},\"died\":{died},\
             \"killed\":{killed},\"applied\":{applied},\"doubled\":{applied_twice},\"lost\":{lost},\"dead\":{dead},\
             \"pending\":{pending},\"violations\":{violations}}}"
        );
        let was_in_trouble = waited > 0 && malformed > 0 && died > 0;
        let whole = applied == events && applied_twice + lost + dead + pending + violations == 0;
        Ok(was_in_trouble && whole && killed == 0)
    })
}

fn deliver(backends: &Backends, hookonce: &Path) -> Outcome<Report> {
    let mut demo = backends.command(hookonce);
    demo.args(["demo", "--url", &format!("http://127.0.0.1:{PORT}"), "--deliveries", DELIVERIES, "--copies", "3"]);
    demo.args(["--concurrency", "12", "--wait-minutes", WAIT_MINUTES, "--json", "--data", DATA]);
    let output = demo.output().map_err(|error| format!("cannot start hookonce: {error}"))?;
    json(&String::from_utf8_lossy(&output.stdout))
}

fn stats(backends: &Backends, hookonce: &Path, endpoint: &str) -> Outcome<Stats> {
    let mut command = backends.command(hookonce);
    json(&output(command.args(["stats", "--endpoint", endpoint, "--json", "--data", DATA]))?)
}

/// Lets what died of nonsense run again. The command exits with 1 where nothing did.
fn replay(backends: &Backends, hookonce: &Path) -> Outcome {
    let mut command = backends.command(hookonce);
    command.args(["replay", "--state", "DEAD", "--endpoint", "github", "--yes", "--by", "prove", "--data", DATA]);
    let status = command.status().map_err(|error| format!("cannot start hookonce: {error}"))?;
    if matches!(status.code(), Some(0 | 1)) { Ok(()) } else { Err(format!("the replay ended with {status}")) }
}

fn count(by: &BTreeMap<String, u64>, name: &str) -> u64 {
    by.get(name).copied().unwrap_or_default()
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
