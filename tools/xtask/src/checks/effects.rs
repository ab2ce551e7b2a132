//! Effects under load, with faults on every wire. `tests/effects/load.rs` makes the load, beside the servers, and kills
//! the functions. The callee is in Python, because a library of the Standard Webhooks project verifies what it is sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use serde::Deserialize;
use serde_json::json;

use super::callee::{Count, Noted};
use super::tables;
use crate::backends::{self, DYNAMODB_PORT, PRIVATE_ADDRESS};
use crate::process::{
    Background, Outcome, binaries, build_functions, build_hookonce, fresh_folder, json, output, run, run_tests, write,
};

const DATA: &str = "target/effects-test";
const CALLEE_PORT: u16 = 9_102;
const CALLEE_SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
/// Starts the callee again whenever it was killed.
const KEEP_STARTING: &str = "while sleep $((RANDOM % 3)).5; do \"$@\"; done";

/// What the load says of itself.
#[derive(Deserialize)]
struct Load {
    killed: BTreeMap<String, usize>,
    /// The records of `keyed` effects that have outlived their callee's window, and since when.
    outlived: BTreeMap<String, i64>,
    rejected: usize,
}

/// Loads a stack with events that have effects, and kills at least so many processes of the dispatcher meanwhile. In
/// the end, a fault of each kind is planted into what was recorded, and its figure must see it.
pub(crate) fn test(short: bool) -> Outcome<bool> {
    let (events, kills): (usize, usize) = if short { (200, 25) } else { (1_000, 125) };
    run(Program::new("bash").args(["-euo", "pipefail", "-c", ". scripts/tools/install.bash && python_tool effects"]))?;
    fresh_folder(Path::new(DATA))?;
    write_documents()?;
    let hookonce = build_hookonce()?;
    build_functions()?;
    run(Program::new("cargo").args(["test", "--workspace", "--test", "all", "--no-run", "--quiet"]))?;
    let (servers, _end) = backends::start(false)?;
    let mut callee = servers.command("bash");
    callee.args([
        "-c",
        KEEP_STARTING,
        "callee",
        "target/tools/effects/bin/python",
        "scripts/checks/effects/receiver.py",
    ]);
    callee.args([PRIVATE_ADDRESS, &CALLEE_PORT.to_string(), CALLEE_SECRET, DATA]);
    let _callee = Background::start(&callee, &data("callee.log"))?;
    let mut cargo = servers.command("env");
    cargo.arg(format!("TEST_BINARIES={}", binaries("release")?.display()));
    cargo.arg(format!("TEST_HOOKONCE={}", hookonce.display()));
    cargo.arg(format!("TEST_DATA={}", std::path::absolute(DATA).map_err(|error| error.to_string())?.display()));
    cargo.arg(format!("TEST_EVENTS={events}")).arg(format!("TEST_KILLS={kills}"));
    let (ended, load) = run_tests(cargo.arg("cargo"), "effects::load", "{\"killed\"")?;
    let load: Load = json(&load.ok_or("the load did not come to its end")?)?;
    let mut curl = servers.command("curl");
    curl.args(["--silent", "--fail", "--max-time", "60", &format!("http://{PRIVATE_ADDRESS}:{CALLEE_PORT}/")]);
    let noted: Noted = json(&output(&mut curl)?)?;
    let inbox = format!("http://127.0.0.1:{DYNAMODB_PORT}");
    let inbox = tables::scan(|| servers.command("curl"), &inbox, "local", "hookonce-inbox")?;
    let dispatchers = load.killed.get("hookonce-dispatcher").copied().unwrap_or_default();
    let other = [
        ("deliveries that were never accepted (see dev.log)", load.rejected),
        ("kills of dispatchers too few", kills.saturating_sub(dispatchers)),
    ];
    let killed = [("kills", load.killed.values().sum()), ("dispatchers_killed", dispatchers)];
    Ok(report(&Count::new(events, noted, inbox, &load.outlived), other, killed)? && ended)
}

type Figure = (&'static str, usize);

/// Prints the figures, and says whether nothing is wrong.
fn report(count: &Count, other: [Figure; 2], killed: [Figure; 2]) -> Outcome<bool> {
    let others = [count.others(), other.to_vec()].concat();
    for (what, number) in others.iter().filter(|(_, number)| *number > 0) {
        eprintln!("effects: {number} {what}");
    }
    for ((class, answer), number) in count.answers() {
        eprintln!("effects: calls, {class}: {number} {answer}");
    }
    let others = others.iter().map(|(_, number)| number).sum();
    let unseen = count.unseen()?;
    for figure in &unseen {
        eprintln!("effects: {figure} does not see a fault that is planted into these records");
    }
    let own = [
        ("other_violations", others),
        ("effects", count.effects.len()),
        ("calls", count.noted.calls.len()),
        ("unknown_outcome", count.unknown()),
        ("outlived_window", count.outlived.len()),
    ];
    let deaths = ("callee_killed", count.noted.starts.len().saturating_sub(1));
    let figures = count.violations().into_iter().chain(own).chain(killed).chain([deaths]);
    let figures: Vec<_> = figures.map(|(name, number)| format!("\"{name}\":{number}")).collect();
    println!("{{\"part\":\"effects\",\"events\":{},{}}}", count.events, figures.join(","));
    Ok(others == 0 && unseen.is_empty() && count.violations().iter().all(|(_, number)| *number == 0))
}

/// Writes the documents of a stack: an endpoint, a route and a destination of each class.
fn write_documents() -> Outcome {
    fresh_folder(&data("endpoints"))?;
    fresh_folder(&data("destinations"))?;
    for (id, class) in [("receipts", "keyed"), ("once", "at_most_once"), ("copies", "at_least_once")] {
        let keyed = class == "keyed";
        let document = json!({
            "kind": "http", "url": format!("http://{PRIVATE_ADDRESS}:{CALLEE_PORT}/{class}"), "class": class,
            "allow_private": true, "standard_webhooks_secret": CALLEE_SECRET, "timeout_ms": 1_500,
            "key_window_hours": keyed.then_some(24), "key_source_url": keyed.then_some("https://example.com/keys"),
        });
        write(&data(&format!("destinations/{id}.json")), document.to_string())?;
    }
    let endpoint = json!({ "provider": "stripe", "secrets": ["whsec_LEAKMENOT_stripe"] });
    write(&data("endpoints/stripe.json"), endpoint.to_string())?;
    let route = json!({
        "name": "paid", "consumer": "billing", "endpoints": ["stripe"], "types": ["invoice.paid"],
        "handler": {"builtin": "receipts"}, "destinations": ["receipts"], "forward": ["once", "copies"],
    });
    write(&data("routes.json"), json!({ "version": 1, "otherwise": "dead", "routes": [route] }).to_string())
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}
