//! A handler that is broken for a tenth of all events, from the first alarm to the last record, as the person on call
//! works on it.

use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json as object};

use crate::aws::Request;
use crate::stacks::{Tables, lines, summary};
use crate::support::{Ended, Running, Workspace, interrupt, json, root, text, wait_until};

const EVENTS: usize = 500;
const BROKEN: usize = 50;

/// Events of one delivery.
const BATCH: usize = 100;

/// A handler in another language: answers each question of hookonce. It ends with the test's process.
pub(crate) fn serve(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for call in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut call = BufReader::new(call);
                while let Some(request) = Request::read(&mut call) {
                    let answer = answer(&serde_json::from_slice(&request.body).unwrap()).to_string();
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                    if call.get_mut().write_all((head + &answer).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Answers with the plan of each event: one item, in which the plan is counted. Until it is fixed, it knows nothing to
/// do with each tenth.
fn handler(is_mended: &Arc<AtomicBool>) -> String {
    let is_mended = Arc::clone(is_mended);
    serve(move |asked| plan(asked, is_mended.load(Ordering::SeqCst)))
}

fn plan(asked: &Value, is_mended: bool) -> Value {
    let body = STANDARD.decode(asked["event"]["body_base64"].as_str().unwrap()).unwrap();
    let is_broken = String::from_utf8(body).unwrap().contains("broken");
    if is_broken && !is_mended {
        return object!({ "request": asked["request"], "error": { "code": "POISONED", "retryable": false } });
    }
    let key = asked["event"]["key"].as_str().unwrap();
    let write = object!({ "key": format!("whatsapp#plans#{key}"), "action": { "update": [{ "add": ["times", 1] }] } });
    object!({ "request": asked["request"], "fact": key.replace('#', "%23"), "writes": [write] })
}

/// A batch of messages. Every tenth breaks the handler.
fn batch(first: usize) -> Value {
    let sample = std::fs::read(root().join("events/deliveries/meta_whatsapp-messages.json")).unwrap();
    let mut batch: Value = serde_json::from_slice(&sample).unwrap();
    let messages = &mut batch["entry"][0]["changes"][0]["value"]["messages"];
    let message = |number: usize| {
        let mut message = messages[0].clone();
        message["id"] = object!(format!("wamid.{number}"));
        message["text"]["body"] = object!(if number.is_multiple_of(EVENTS / BROKEN) { "broken" } else { "sound" });
        message
    };
    let all: Vec<_> = (first..first + BATCH).map(message).collect();
    *messages = object!(all);
    batch
}

/// A stack whose handler has worked on so many events.
fn poisoned(is_mended: &Arc<AtomicBool>, events: usize) -> (Workspace, Running) {
    let route = object!({ "name": "all", "consumer": "counter", "handler": { "url": handler(is_mended) } });
    let workspace = Workspace::routed(&object!({ "version": 1, "otherwise": "dead", "routes": [route] }).to_string());
    let running = workspace.dev(&["dev", "--port", "0"]);
    for first in (0..events).step_by(BATCH) {
        let file = workspace.write("batch.json", batch(first).to_string().as_bytes());
        workspace.run(&["send", "--provider", "meta_whatsapp", "--file", &file]).exits(0);
    }
    let broken = events * BROKEN / EVENTS;
    wait_until("the sound ones are applied", || listed(&workspace, "APPLIED") == events - broken);
    wait_until("the broken ones are dead", || listed(&workspace, "DEAD") == broken);
    (workspace, running)
}

/// How often each plan was applied.
fn times(workspace: &Workspace) -> Vec<String> {
    let tables = Tables::of_workspace(workspace);
    let times = tables.items(&tables.domain).into_iter().filter_map(|mut item| item.remove("times"));
    times.map(|times| times.as_n().unwrap().clone()).collect()
}

fn listed(workspace: &Workspace, state: &str) -> usize {
    // All came within the hour, so the rest of the day is not read.
    let listed = workspace.run(&["list", "--state", state, "--since", "1h", "--limit", "1000", "--json"]);
    json(&listed).as_array().unwrap().len()
}

#[test]
fn a_poison_deploy_is_found_mended_and_run_again() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let (workspace, _running) = poisoned(&is_mended, EVENTS);

    workspace.run(&["status"]).exits(1).says("50 record(s) are DEAD");
    let stats = json(&workspace.run(&["stats", "--state", "DEAD", "--json"]));
    assert_eq!(stats["by"]["error"], object!({ "POISONED": BROKEN }));

    let drill = || {
        let output = workspace.run(&["drill", "--state", "DEAD", "--call-handlers", "--json"]);
        (summary(&output), output.status.code().unwrap())
    };
    assert_eq!(drill(), (object!({ "fails": BROKEN }), 1));
    is_mended.store(true, Ordering::SeqCst);
    assert_eq!(drill(), (object!({ "would apply": BROKEN }), 0));
    assert_eq!(listed(&workspace, "DEAD"), BROKEN, "a drill writes nothing");

    // The second record of such a slow run is due after 100 seconds.
    let replay = ["replay", "--error", "POISONED", "--by", "ada"];
    let dry = workspace.run(&[&replay[..], &["--rate", "25/s"]].concat());
    assert!(text(&dry).contains("Pass --yes to do it, 25 record(s) a second"), "{}", text(&dry));
    let slow = workspace.start_with_output(&[&replay[..], &["--yes", "--json", "--rate", "0.01/s"]].concat());
    wait_until("one is replayed", || listed(&workspace, "DEAD") < BROKEN);
    let stopped = interrupt(slow);
    wait_until("it is applied", || listed(&workspace, "APPLIED") > EVENTS - BROKEN);
    let told = ["done", "complete"].map(|word| summary(&stopped)[word].clone());
    assert_eq!(told, [object!(1), object!(false)], "{}", text(&stopped));

    let rest = workspace.run(&[&replay[..], &["--yes", "--json", "--rate", "1000/s"]].concat());
    assert_eq!((&summary(&rest)["done"], rest.status.code()), (&object!(BROKEN - 1), Some(0)), "{}", text(&rest));
    wait_until("all are applied", || listed(&workspace, "APPLIED") == EVENTS);
    assert_eq!(workspace.run(&["status"]).status.code(), Some(0));

    assert_eq!(times(&workspace), vec!["1".to_owned(); EVENTS], "each once");
}

#[test]
fn of_two_operators_who_replay_the_same_records_each_is_run_again_by_one() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let (workspace, _running) = poisoned(&is_mended, BATCH);
    is_mended.store(true, Ordering::SeqCst);
    let replay = ["replay", "--error", "POISONED", "--yes", "--json", "--rate", "1000/s"];
    let both = ["ada", "grace"].map(|by| workspace.start_with_output(&[&replay[..], &["--by", by]].concat()));
    let both = both.map(|child| summary(&child.wait_with_output().unwrap()));
    let done: u64 = both.iter().map(|told| told["done"].as_u64().unwrap()).sum();
    assert_eq!(usize::try_from(done), Ok(BATCH * BROKEN / EVENTS), "{both:?}");
    wait_until("all are applied", || listed(&workspace, "APPLIED") == BATCH);
    assert_eq!(times(&workspace), vec!["1".to_owned(); BATCH], "each once");
}

#[test]
fn a_rate_that_is_none_is_refused() {
    let workspace = Workspace::new();
    for rate in ["0", "0.001", "1001/s", "-1", "NaN", "inf", "ten", "10/m", "/s", ""] {
        let refused = workspace.run(&["replay", "--state", "DEAD", &format!("--rate={rate}")]);
        assert_eq!(refused.status.code(), Some(2), "{rate}: {}", text(&refused));
        assert!(text(&refused).contains("from 0.01 to 1000"), "{rate}: {}", text(&refused));
        assert!(lines(&refused).is_empty());
    }
}
