//! A handler that is broken for a tenth of all events, from the first alarm to the last record, as the person on call
//! works on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json as object};

use crate::aws::answering;
use crate::stacks::{Stack, Tables, lines, summary};
use crate::support::{Ended, Workspace, interrupt, json, sample, text, wait_until};

const EVENTS: usize = 200;
const BROKEN: usize = 20;

/// Events of one delivery.
const BATCH: usize = 100;

/// A handler in another language: answers each question of hookonce. It ends with the test's process.
pub(crate) fn serve(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> String {
    let answer = move |request: &Value| answer(request).to_string();
    format!("http://{}/", answering(move |request| answer(&serde_json::from_slice(&request.body).unwrap())))
}

/// The plan of an event: one item, in which the plan is counted. Until the handler is mended, it knows nothing to do
/// with each tenth.
fn plan(request: &Value, is_mended: bool) -> Value {
    let body = STANDARD.decode(request["event"]["body_base64"].as_str().unwrap()).unwrap();
    let is_broken = String::from_utf8(body).unwrap().contains("broken");
    if is_broken && !is_mended {
        return object!({ "request": request["request"], "error": { "code": "POISONED", "retryable": false } });
    }
    let key = request["event"]["key"].as_str().unwrap();
    let write = object!({ "key": format!("whatsapp#plans#{key}"), "action": { "update": [{ "add": ["times", 1] }] } });
    object!({ "request": request["request"], "fact": key.replace('#', "%23"), "writes": [write] })
}

/// A batch of messages. Every tenth breaks the handler.
fn batch(first: usize) -> Value {
    let mut batch = sample("meta_whatsapp-messages");
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

/// A stack whose handler has worked on all events.
fn poisoned(is_mended: &Arc<AtomicBool>) -> Stack {
    let is_mended = Arc::clone(is_mended);
    let handler = serve(move |request| plan(request, is_mended.load(Ordering::SeqCst)));
    let route = object!({ "name": "all", "consumer": "counter", "handler": { "url": handler } });
    let set = object!({ "version": 1, "otherwise": "dead", "routes": [route] });
    let stack = Stack::of(Workspace::routed(&set.to_string()));
    for first in (0..EVENTS).step_by(BATCH) {
        let file = stack.write("batch.json", batch(first).to_string().as_bytes());
        stack.run(&["send", "--provider", "meta_whatsapp", "--file", &file]).exits(0);
    }
    stack.wait_for("APPLIED", EVENTS - BROKEN);
    stack.wait_for("DEAD", BROKEN);
    stack
}

#[test]
fn a_poison_deploy_is_found_mended_and_run_again() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let stack = poisoned(&is_mended);

    stack.run(&["status"]).exits(1).prints(&format!("{BROKEN} records are DEAD: POISONED at whatsapp, "));
    let stats = json(&stack.run(&["stats", "--state", "DEAD", "--json"]));
    assert_eq!(stats["by"]["error"], object!({ "POISONED": BROKEN }));

    let drill = || {
        let output = stack.run(&["drill", "--state", "DEAD", "--call-handlers", "--json"]);
        (summary(&output), output.status.code().unwrap())
    };
    assert_eq!(drill(), (object!({ "fails": BROKEN }), 1));
    is_mended.store(true, Ordering::SeqCst);
    assert_eq!(drill(), (object!({ "would apply": BROKEN }), 0));
    assert_eq!(stack.list("DEAD").len(), BROKEN, "a drill writes nothing");

    // The second record of such a slow run is due after 100 seconds.
    let replay = ["replay", "--error", "POISONED", "--by", "ada"];
    stack.run(&[&replay[..], &["--rate", "25/s"]].concat()).prints("Pass --yes to do it, at 25/s");
    let slow = stack.start(&[&replay[..], &["--yes", "--json", "--rate", "0.01/s"]].concat());
    wait_until("one is replayed", || stack.list("DEAD").len() < BROKEN);
    let stopped = interrupt(slow);
    stack.wait_for("APPLIED", EVENTS - BROKEN + 1);
    let counts = ["done", "complete"].map(|word| summary(&stopped)[word].clone());
    assert_eq!(counts, [object!(1), object!(false)], "{}", text(&stopped));

    let rest = stack.run(&[&replay[..], &["--yes", "--json", "--rate", "1000/s"]].concat()).exits(0);
    assert_eq!(summary(&rest)["done"], BROKEN - 1, "{}", text(&rest));
    stack.wait_for("APPLIED", EVENTS);
    stack.run(&["status"]).exits(0);

    let tables = Tables::of(&stack);
    let times = tables.items(&tables.domain).into_iter().filter_map(|mut item| item.remove("times"));
    let times: Vec<_> = times.map(|times| times.as_n().unwrap().clone()).collect();
    assert_eq!(times, vec!["1".to_owned(); EVENTS], "each plan is applied once");
}

#[test]
fn a_rate_that_is_none_is_refused() {
    let workspace = Workspace::new();
    for rate in ["0", "0.001", "1001/s", "-1", "NaN", "inf", "ten", "10/m", "/s", ""] {
        let refused = workspace.run(&["replay", "--state", "DEAD", &format!("--rate={rate}")]).exits(2);
        assert!(text(&refused).contains("from 0.01 to 1000"), "{rate}: {}", text(&refused));
        assert!(lines(&refused).is_empty());
    }
}
