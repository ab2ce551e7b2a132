//! The release binaries of the functions under `cargo lambda watch`, with DynamoDB Local and ElasticMQ behind them.
//! `hookonce dev --functions` plays the event source and the schedule, which the emulator does not.

use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value};

use super::demo::{Deliveries, Report};
use super::kill::Language;
use super::tables;
use crate::backends::{self, End, Running};
use crate::process::{
    Background, Outcome, binaries, build_functions, build_hookonce, fresh_folder, json, output, read, run, unlinked,
    wait_for, write,
};

const PORT: u16 = 9_000;
const DATA: &str = "target/emulator";
const DELIVERIES: Deliveries = Deliveries { port: PORT, data: DATA, events: 120, seed: 1 };
/// A request with a body that nobody has signed, by curl's options.
const JSON: [&str; 4] = ["--header", "content-type: application/json", "--data", "{}"];
/// Sends what the demo does not send to a handler of one's own. The samples remember facts under other names.
const ROUTES: &str = r#"{"version":1,"otherwise":"builtin","routes":[{"name":"refunds","consumer":"own","endpoints":["stripe"],
    "types":["charge.refunded"],"handler":{"lambda":"payments"}}]}"#;

/// What `scripts/check emulator` does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build the functions for release, run them under an emulator against real backends, drive them over HTTP as
    /// providers would, and check the tables; the last line is `N passed, N failed`
    Test,
}

/// Installs `cargo lambda`, and returns its folder.
pub(crate) fn cargo_lambda() -> Outcome<PathBuf> {
    run(Program::new("bash").args(["-euo", "pipefail", "-c", ". scripts/tools/install.bash && need_cargo_lambda"]))?;
    let folder = Path::new("target/tools/cargo-lambda/bin");
    folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))
}

pub(crate) fn test() -> Outcome<bool> {
    let mut emulator = Emulator::start()?;
    let forged = ["x-hub-signature-256: sha256=00", "x-github-delivery: 1", "x-github-event: push"];
    let forged: Vec<_> = JSON.into_iter().chain(forged.into_iter().flat_map(|header| ["--header", header])).collect();
    let checks = [
        check("an unknown endpoint is refused", answers(&emulator.servers, "nobody", &JSON, "404")),
        check("an unsigned delivery is refused", answers(&emulator.servers, "stripe", &JSON, "401")),
        check("a forged delivery is refused", answers(&emulator.servers, "github", &forged, "401")),
        check("the demo's figures hold", emulator.demo()),
        check("they hold a second time, with records from before", emulator.demo()),
        check(
            "nothing is lost while the store hangs",
            emulator.outage(|store| store.pause(), Duration::from_secs(5), |store| store.resume()),
        ),
        check(
            "nothing is lost while the store is unavailable",
            emulator.outage(|store| store.stop(), Duration::from_secs(1), Running::start),
        ),
        check("a missing and contradicting configuration is refused, every fault at once", emulator.misconfigured()),
        check("a handler of one's own plans for the worker", emulator.refunds()),
        check("a delivery of bytes that are no text is kept as it came", emulator.binary()),
        check("the relay runs on its clock", Emulator::relay_runs()),
    ];
    let passed = checks.iter().filter(|holds| **holds).count();
    println!("{passed} passed, {} failed", checks.len() - passed);
    Ok(passed == checks.len())
}

/// Says whether this holds.
fn check(name: &str, holds: Outcome) -> bool {
    holds.inspect(|()| eprintln!("ok: {name}")).inspect_err(|reason| eprintln!("FAILED: {name}\n{reason}")).is_ok()
}

fn figures_hold(report: &Report) -> Outcome {
    if report.held { Ok(()) } else { Err(format!("{report:?}")) }
}

/// What runs during the checks. It ends when this is dropped.
struct Emulator {
    hookonce: PathBuf,
    _functions: Background,
    _event_source: Background,
    servers: Running,
    _end: End,
}

impl Emulator {
    fn start() -> Outcome<Self> {
        let lambda = cargo_lambda()?;
        fresh_folder(Path::new(DATA))?;
        let hookonce = build_hookonce()?;
        // Built here, where errors can be read; otherwise `watch` would build it at the first request.
        build_functions()?;
        let (servers, end) = backends::start(true)?;
        let mut dev = servers.command(&hookonce);
        write(&data("routes.json"), ROUTES)?;
        dev.args(["dev", "--stack", DATA, "--functions", &address()]).args(Running::options());
        dev.arg(format!("--handler=payments={}", Language::Python.command("payments")));
        let event_source = Background::start(&dev, &data("dev.log"))?;
        wait_for("the event source", &data("dev.log"), || data("stack.json").exists())?;
        contains(&read(&data("endpoints/stripe.json"))?, &["\"on_store_outage\": \"reject\""])?;
        // Written before the functions read it. GitHub does not retry, so its endpoint uses the other policy.
        let mut github: Map<String, Value> = json(&read(&data("endpoints/github.json"))?)?;
        github.insert("on_store_outage".to_owned(), "enqueue".into());
        write(&data("endpoints/github.json"), Value::from(github).to_string())?;
        let mut watch = servers.command(lambda.join("cargo-lambda"));
        unlinked(&mut watch).args(["lambda", "watch", "--release", "--invoke-address", "127.0.0.1"]);
        watch.args(["--invoke-port", &PORT.to_string(), "--ignore-changes", "--concurrency", "4", "--env-file"]);
        let functions = Background::start(watch.arg(data("functions.env")), &data("watch.log"))?;
        let emulator = Self { hookonce, _functions: functions, _event_source: event_source, servers, _end: end };
        // Each starts with its first invocation, and the emulator answers 500 until it has.
        wait_for("the relay", &data("watch.log"), || emulator.invoke("hookonce-relay").is_ok())?;
        wait_for("the webhook", &data("watch.log"), || webhook_answers(&emulator.servers))?;
        Ok(emulator)
    }

    /// Invokes a function as Lambda's API would.
    fn invoke(&self, function: &str) -> Outcome {
        let mut curl = self.servers.command("curl");
        curl.args(["--silent", "--fail", "--max-time", "300", "--data", "{\"source\":\"aws.events\"}"]);
        output(curl.arg(format!("{}/2015-03-31/functions/{function}/invocations", address()))).map(drop)
    }

    /// What the command line prints.
    fn hookonce(&self, arguments: &[&str]) -> Outcome<String> {
        output(self.servers.command(&self.hookonce).args(arguments).args(["--stack", DATA]))
    }

    fn demo(&self) -> Outcome {
        figures_hold(&DELIVERIES.make(self.servers.command(&self.hookonce))?)
    }

    /// The store hangs or is down in the middle of a run. Meanwhile, Stripe's endpoint asks for a retry, and GitHub's
    /// accepts.
    fn outage(
        &mut self,
        begin: impl FnOnce(&mut Running) -> Outcome,
        lasts: Duration,
        end: impl FnOnce(&mut Running) -> Outcome,
    ) -> Outcome {
        let hookonce = self.servers.command(&self.hookonce);
        let demo = std::thread::spawn(move || DELIVERIES.make(hookonce));
        std::thread::sleep(Duration::from_secs(1));
        begin(&mut self.servers)?;
        std::thread::sleep(lasts);
        end(&mut self.servers)?;
        figures_hold(&demo.join().map_err(|_| "the thread of the demo panicked".to_owned())??)
    }

    /// A function under the emulator invokes a handler that `hookonce dev` runs, in both rounds. The event is applied
    /// under the name that the handler gave its fact.
    fn refunds(&self) -> Outcome {
        self.hookonce(&["trigger", "stripe.charge.refunded", "--id", "own", "--copies", "3"])?;
        let shown = || self.hookonce(&["show", "stripe", "evt_own", "--json"]).unwrap_or_default();
        wait_for("the refund", &data("watch.log"), || shown().contains("\"APPLIED\""))?;
        let domain = tables::domain(|| self.servers.command("curl"), Path::new(DATA))?;
        let facts =
            domain.iter().filter(|item| tables::text(item, "pk").starts_with("#dk#stripe#own#charge.refunded#"));
        match facts.count() {
            1 => Ok(()),
            count => Err(format!("the handler's fact was applied {count} times instead of once")),
        }
    }

    /// Bytes that are no text, with a content type that says so: the gateway passes them on as base64.
    fn binary(&self) -> Outcome {
        let (file, body) = (data("binary"), [0xff, 0xfe, 0x00, 0x80]);
        write(&file, body)?;
        let file = file.display().to_string();
        let mut send = vec!["send", "--provider", "github", "--file", &file, "--copies", "2", "--json"];
        send.extend(["--header", "x-github-event:ping", "--header", "content-type:application/octet-stream"]);
        let sent: Value = json(&self.hookonce(&send)?)?;
        let id = sent.pointer("/0/id").and_then(Value::as_str).ok_or_else(|| format!("no delivery id: {sent}"))?;
        let mut show = self.servers.command(&self.hookonce);
        show.args(["show", "github", id, "--body", "--stack", DATA]);
        // While the claim is not certain, a message keeps the body.
        wait_for("the very bytes", &data("watch.log"), || show.output().is_ok_and(|shown| shown.stdout == body))
    }

    /// A function with a wrong configuration does not start, and reports every fault at once.
    fn misconfigured(&self) -> Outcome {
        let mut worker = self.servers.command("env");
        worker.args(["HOOKONCE_TEST_TIMING=first_resend=1000", "AWS_LAMBDA_RUNTIME_API=127.0.0.1:1"]);
        worker.args(["timeout", "20"]).arg(binaries("release")?.join("hookonce-example-worker")).stdin(Stdio::null());
        let output = worker.output().map_err(|error| format!("cannot start the worker: {error}"))?;
        let output = [output.stdout, output.stderr].concat();
        contains(
            &String::from_utf8_lossy(&output),
            &["HOOKONCE_INBOX_TABLE is not set", "HOOKONCE_QUEUE_URL is not set", "first re-send"],
        )
    }

    /// Waits for a run that nobody here asked for. Each run counts itself.
    fn relay_runs() -> Outcome {
        let log = data("watch.log");
        let runs = || read(&log).map(|log| log.lines().filter(|line| line.contains("\"relay_ran\"")).count());
        let before = runs()?;
        wait_for("a run of the relay", &log, || runs().is_ok_and(|now| now > before))
    }
}

/// Whether the webhook answers a request to an endpoint with this status.
fn answers(servers: &Running, endpoint: &str, request: &[&str], expected: &str) -> Outcome {
    let actual = servers.status(&format!("{}/webhooks/{endpoint}", address()), request)?;
    if actual == expected { Ok(()) } else { Err(format!("expected {expected}, got {actual}")) }
}

/// Whether the webhook reports an unknown endpoint, which shows that it runs.
pub(crate) fn webhook_answers(servers: &Running) -> bool {
    answers(servers, "nobody", &JSON, "404").is_ok()
}

fn contains(text: &str, wanted: &[&str]) -> Outcome {
    match wanted.iter().find(|word| !text.contains(**word)) {
        None => Ok(()),
        Some(word) => Err(format!("{word} is not in: {text}")),
    }
}

fn address() -> String {
    format!("http://127.0.0.1:{PORT}")
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
