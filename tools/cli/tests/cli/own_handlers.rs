//! `dev --handler` runs a handler in another language: here a script that speaks to the Runtime API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::Message;
use serde_json::json;

use crate::poison::serve;
use crate::stacks::{Stack, Tables, summary};
use crate::support::{Ended, Workspace, interrupt, json as parsed, wait_until};

const RUNTIME: &str = include_str!("../../../local/tests/local/runtime.bash");

const ROUTES: &str = r#"{"version": 1, "otherwise": "dead", "routes": [
    {"name": "all", "consumer": "counter", "handler": {"lambda": "counter"}}]}"#;

/// A handler that answers each request with this. `$key` is the event's.
fn script(answer: &str) -> String {
    format!(
        r#"{RUNTIME}
while take; do
    [[ $event =~ \"request\":\"([^\"]*)\" ]] && request=${{BASH_REMATCH[1]}}
    [[ $event =~ \"key\":\"([^\"]*)\" ]] && key=${{BASH_REMATCH[1]}}
    [ -e died ] || {{ : >died; kill -KILL $$; }}
    answer response "{{\"request\":\"$request\",{answer}}}"
done
"#
    )
}

/// A running stack that hands every event to the handler at a URL.
fn handled_at(url: &str) -> Stack {
    let route = json!({ "name": "all", "consumer": "counter", "handler": { "url": url } });
    Stack::of(Workspace::routed(&json!({ "version": 1, "otherwise": "dead", "routes": [route] }).to_string()))
}

#[test]
fn dev_runs_a_handler_again_when_it_dies_and_anew_when_its_file_changes() {
    let workspace = Workspace::routed(ROUTES);
    let write = r#"{\"key\":\"stripe#count#all\",\"action\":{\"update\":[{\"add\":[\"events\",1]}]}}"#;
    workspace.write("handler.bash", script(&format!(r#"\"fact\":\"$key\",\"writes\":[{write}]"#)).as_bytes());
    let (_running, mut lines) = workspace.dev_with_json(&["--handler", "counter=bash handler.bash"]);
    let trigger = || {
        workspace.run(&["trigger", "stripe.invoice.paid", "--copies", "3"]).exits(0);
    };

    // The first invocation kills its process. A further attempt starts another one.
    trigger();
    let first = lines.outcome(&["retry", "applied", "dead"]);
    assert_eq!((&first["outcome"], &first["error"]), (&json!("retry"), &json!("HANDLER_CRASHED")), "{first}");
    assert!(first["retry_in_ms"].as_i64().unwrap() < first["retry_in_ms_max"].as_i64().unwrap(), "{first}");
    assert_eq!(lines.outcome(&["applied", "dead"])["outcome"], "applied");

    // New code runs soon after it is written.
    workspace.write("handler.bash", script(r#"\"error\":{\"code\":\"NEW_CODE\",\"retryable\":false}"#).as_bytes());
    let refused = loop {
        trigger();
        let outcome = lines.outcome(&["applied", "dead"]);
        if outcome["outcome"] != "applied" {
            break outcome;
        }
    };
    assert_eq!(refused["error"], json!("NEW_CODE"), "{refused}");

    // Other commands call the same handler.
    let drill = ["drill", "--state", "DEAD", "--call-handlers", "--json"];
    workspace.run(&drill).exits(1).prints("NEW_CODE: lambda counter");
}

#[test]
fn a_drill_names_a_handler_that_hangs_and_goes_on() {
    let hangs = serve(|_| {
        loop {
            std::thread::park();
        }
    });
    let sound = serve(|event| json!({ "request": event["request"], "ignore": true }));
    let route = |name: &str, kind: &str, url: &str| json!({ "name": name, "types": [kind], "consumer": name, "handler": { "url": url } });
    let routes = [route("hangs", "invoice.paid", &hangs), route("sound", "charge.refunded", &sound)];
    let set = json!({ "version": 1, "otherwise": "dead", "routes": routes });
    let stack = Stack::of(Workspace::routed(&set.to_string()));
    for id in ["1", "2", "3", "4", "5", "6", "7"] {
        stack.run(&["trigger", "stripe.invoice.paid", "--id", id]).exits(0);
    }
    stack.run(&["trigger", "stripe.charge.refunded"]).exits(0);
    let drilled = stack.run(&["drill", "--since", "1h", "--call-handlers", "--json"]).exits(1);
    let counts = ["fails", "not called", "same"].map(|word| summary(&drilled)[word].clone());
    assert_eq!(json!(counts), json!([5, 2, 1]));
    drilled.prints(&format!("HANDLER_TIMED_OUT: {hangs}")).prints(&format!("its circuit is open: {hangs}"));
}

/// Whoever has seen enough learns what was tried.
#[test]
fn a_drill_that_is_stopped_prints_how_far_it_came() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let handler = serve(move |event| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
        json!({ "request": event["request"], "ignore": true })
    });
    let stack = handled_at(&handler);
    for id in 0..20 {
        stack.run(&["trigger", "stripe.invoice.paid", "--id", &id.to_string()]).exits(0);
    }
    stack.wait_for("IGNORED", 20);
    let before = calls.load(Ordering::Relaxed);
    let drill = stack.start(&["drill", "--since", "1h", "--call-handlers"]);
    wait_until("it calls", || calls.load(Ordering::Relaxed) > before + 1);
    interrupt(drill).exits(1).prints_all(&[" tried: ", "stopped before ", "which were read and not tried"]);
}

/// The worker refuses a plan together with its effects. So do `drill` and `show`, which say what it would do.
#[test]
fn drill_and_show_refuse_what_the_worker_refuses() {
    let handler = serve(|event| {
        let effect = json!({ "effect": "mail", "destination": "mailer", "payload": {} });
        json!({ "request": event["request"], "fact": "1", "writes": [], "effects": [effect] })
    });
    let stack = handled_at(&handler);
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "first"]).exits(0);
    stack.wait_for("DEAD", 1);
    let why = "PLAN_REFUSED: effects[0]";
    stack.run(&["show", "stripe", "evt_first", "--call-handlers"]).exits(0).prints(why);
    stack.run(&["drill", "--state", "DEAD", "--call-handlers"]).exits(1).prints(why);
}

/// The record keeps a code alone. Which condition it was, the stored items still say.
#[test]
fn drill_and_show_name_the_condition_that_does_not_hold() {
    let handler = serve(|event| {
        let put = |key: &str| json!({ "key": key, "action": { "put": {} }, "condition": [{ "absent": "pk" }] });
        let own = put(&format!("stripe#row#{}", event["event"]["key"].as_str().unwrap()));
        let (fact, writes) = (event["event"]["key"].clone(), json!([own, put("stripe#row#all")]));
        json!({ "request": event["request"], "fact": fact, "writes": writes, "when_condition_fails": "permanent" })
    });
    let stack = handled_at(&handler);
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "first"]).exits(0);
    stack.wait_for("APPLIED", 1);
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "second"]).exits(0);
    stack.wait_for("DEAD", 1);
    let why = "CONDITION_FAILED: writes[1]: its condition does not hold";
    stack.run(&["show", "stripe", "evt_second", "--call-handlers"]).exits(0).prints(why);
    stack.run(&["drill", "--state", "DEAD", "--call-handlers", "--json"]).exits(1).prints(why);
    stack.run(&["show", "stripe", "evt_first", "--call-handlers"]).exits(0).omits(why);
}

/// An effect's payload is sent as the handler wrote it, and a field that appears twice is refused, as on AWS.
#[test]
fn dev_reads_the_very_bytes_that_a_handler_answers() {
    let workspace = Workspace::routed(ROUTES);
    workspace.write("died", b"");
    workspace.write("handler.bash", script(r#"\"fact\":\"$key\",\"writes\":[],\"writes\":[]"#).as_bytes());
    let (_running, mut lines) = workspace.dev_with_json(&["--handler", "counter=bash handler.bash"]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let first = lines.outcome(&["retry", "applied", "dead"]);
    assert_eq!((&first["outcome"], &first["error"]), (&json!("retry"), &json!("HANDLER_ANSWER_MALFORMED")), "{first}");
}

/// What a handler says may hold what nobody may read, so no record has it.
#[test]
fn show_names_where_the_message_of_a_handler_that_crashed_is() {
    let workspace = Workspace::routed(ROUTES);
    workspace.write(
        "handler.bash",
        format!(
            "{RUNTIME}
take
kill -KILL $$
"
        )
        .as_bytes(),
    );
    let (_running, mut lines) = workspace.dev_with_json(&["--handler", "counter=bash handler.bash"]);
    workspace.run(&["trigger", "stripe.invoice.paid", "--id", "first"]).exits(0);
    assert_eq!(lines.outcome(&["retry", "applied", "dead"])["error"], "HANDLER_CRASHED");
    let message = "is not stored; look for in#stripe#evt_first in the terminal of `hookonce dev`";
    workspace.run(&["show", "stripe", "evt_first"]).exits(0).prints(message);
}

/// Whoever looks at a record calls nobody, so no handler is reported as unavailable.
#[test]
fn show_calls_no_handler_in_another_language_by_default() {
    let stack = Stack::of(Workspace::routed(ROUTES));
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "first"]).exits(0);
    let why = "unknown: only its handler, in another language, knows; --call-handlers asks it";
    stack.run(&["show", "stripe", "evt_first"]).prints(why).omits("WARN");
}

/// What `show` asks a handler stands in no table, and what the table has is shown under the very keys of the plan.
#[test]
fn show_calls_a_handler_in_another_language_if_it_may() {
    let handler = serve(|event| {
        let key = event["event"]["key"].as_str().unwrap();
        let write = json!({ "key": "stripe#count#all", "action": { "update": [{ "add": ["events", 1] }] } });
        json!({ "request": event["request"], "fact": key, "writes": [write] })
    });
    let stack = handled_at(&handler);
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "first"]).exits(0);
    stack.wait_for("APPLIED", 1);
    let show = |more: &[&str]| stack.run(&[&["show", "stripe", "evt_first"], more].concat());
    assert_eq!(parsed(&show(&["--items", "--json"]))["items"], json!([]), "nobody was asked");
    let shown = parsed(&show(&["--call-handlers", "--items", "--json"]));
    assert_eq!(shown["writes"], json!([{ "action": "update", "key": "stripe#count#all" }]), "{shown}");
    let items = shown["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["key"]), (2, &shown["domain_key_today"]), "{shown}");
    assert_eq!(items[0]["item"]["record"], json!({ "S": "in#stripe#evt_first" }), "{shown}");
    assert_eq!(items[1]["item"]["events"], json!({ "N": "1" }), "{shown}");
    let stored = "stripe#count#all {\"events\":{\"N\":\"1\"}";
    show(&["--call-handlers", "--items"]).prints_all(&["stored", stored]);
}

/// The relay ends a record whose messages came to the dead-letter queue. Whoever watches sees that, too.
#[test]
fn dev_prints_a_death_by_dead_letters() {
    let workspace = Workspace::routed(ROUTES);
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    workspace.run(&["trigger", "stripe.invoice.paid", "--id", "first"]).exits(0);
    let tables = Tables::of(&workspace);
    let hint = Message::Ref { pk: RecordKey::parse("in#stripe#evt_first").unwrap() };
    // Its handler is unavailable, so nothing but dead letters ends it.
    wait_until("the worker has tried", || tables.items(&tables.inbox)[0].contains_key("last_error"));
    let rounds = || tables.items(&tables.inbox)[0].get("dead_letters").map_or("0", |it| it.as_n().unwrap()).to_owned();
    for round in ["1", "2", "3"] {
        tables.bury(&hint.encode(None).unwrap());
        wait_until("it is counted", || rounds() == round);
    }
    let line = lines.outcome(&["dead"]);
    assert_eq!((&line["key"], &line["error"]), (&json!("evt_first"), &json!("HANDLER_UNAVAILABLE")), "{line}");
}

/// The record has the code alone. Which field it was stands in the terminal, and on AWS in the worker's log.
#[test]
fn dev_names_the_field_of_the_body_that_the_handler_could_not_read() {
    let handler = serve(|request| {
        let error = json!({ "code": "BAD_BODY", "retryable": false, "at": "data.object.amount" });
        json!({ "request": request["request"], "error": error })
    });
    let route = json!({ "name": "all", "consumer": "counter", "handler": { "url": handler } });
    let set = json!({ "version": 1, "otherwise": "dead", "routes": [route] }).to_string();
    let workspace = Workspace::routed(&set);
    let running = workspace.dev_with_all_output(&["dev", "--port", "0"], &[]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    workspace.wait_for("DEAD", 1);
    assert_eq!(workspace.list("DEAD")[0]["last_error"], "BAD_BODY");
    running.stop().prints_all(&["BAD_BODY", "data.object.amount"]);
}
