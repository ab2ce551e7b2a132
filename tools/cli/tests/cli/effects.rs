//! A forwarded event on a running stack: what `dev` prints, and the story that `show` tells of it.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::destinations::receiver;
use crate::stacks::summary;
use crate::support::{Ended, Workspace, json as json_of, listen};

const ROUTES: &str = r#"{"version": 1, "otherwise": "ignore", "routes": [
    {"name": "out", "consumer": "crm", "forward": ["crm"]}]}"#;

#[test]
fn show_prints_the_effects_of_an_event_and_where_an_effect_went() {
    let workspace = Workspace::routed(ROUTES);
    workspace.destination("crm", receiver(200));
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let outcomes = [(); 2].map(|()| lines.outcome(&["applied", "delivered"]));
    let outcome = |word: &str| outcomes.iter().find(|line| line["outcome"] == word).unwrap()["key"].clone();
    let (event, effect) = (outcome("applied"), outcome("delivered"));
    let event = workspace.show(event.as_str().unwrap());
    assert_eq!(event["effects"], json!([{ "key": effect, "state": "DELIVERED" }]));

    // No index lists it any more. It is found through its event.
    let listed = |more: &[&str]| -> Vec<Value> {
        let listed =
            json_of(&workspace.run(&[&["list", "--since", "1h", "--json", "--kind", "effect"], more].concat()));
        listed.as_array().unwrap().iter().map(|it| it["key"].clone()).collect()
    };
    for found in [&[][..], &["--state", "delivered"], &["--state", "PROCESSED", "--destination", "crm"]] {
        assert_eq!(listed(found), std::slice::from_ref(&effect), "{found:?}");
    }
    let plain = json_of(&workspace.run(&["list", "--since", "1h", "--json", "--state", "DELIVERED"]));
    assert_eq!(plain[0]["key"], effect, "only effects are DELIVERED: {plain}");
    for none in [["--state", "DELIVERED"], ["--destination", "crm"]] {
        workspace.run(&[&["list", "--kind", "event"][..], &none].concat()).exits(2).prints("leave --kind event out");
    }
    for empty in [["--state", "DEAD"], ["--state", "PENDING"], ["--destination", "other"], ["--until", "1h"]] {
        assert_eq!(listed(&empty), [Value::Null; 0], "{empty:?}");
    }
    let stats = json_of(&workspace.run(&["stats", "--since", "1h", "--kind", "effect", "--json"]));
    assert_eq!(stats["by"]["state"], json!({"DELIVERED": 1}), "{stats}");

    // The payload of an effect is no event: it is neither split nor planned.
    let key = effect.as_str().unwrap();
    let shown = workspace.show(key);
    let none = json!([]);
    let kinds = ["children", "effects", "writes"].map(|kind| &shown[kind]);
    assert_eq!((kinds, &shown["domain_key_today"]), ([&none; 3], &Value::Null));
    let story = workspace.run(&["show", "stripe", key]).exits(0);
    let parts = ["forward:crm to the destination crm", "committed with the event", "status 200, after "];
    story.prints_all(&parts).omits("plan today").omits("verified with");
}

/// Whoever asks the callee's people about a call needs what they can look for.
#[test]
fn show_prints_what_was_called_with_which_key_and_how_it_ended() {
    let workspace = Workspace::routed(ROUTES);
    let (tell, told) = std::sync::mpsc::channel();
    let callee = listen(move |mut call| {
        let mut request = vec![0; 65_536];
        let length = call.read(&mut request).unwrap_or(0);
        let _ = tell.send(String::from_utf8_lossy(&request[..length]).into_owned());
        let _ = call.write_all(b"HTTP/1.1 503 It\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    });
    let url = format!("http://{callee}/in?token=hush");
    let document = json!({ "kind": "http", "url": url, "class": "keyed", "allow_private": true, "key_window_hours": 24,
        "key_source_url": "https://docs.example.com/keys", "key_header": "Idempotency-Key" });
    workspace.write(".hookonce/destinations/crm.json", document.to_string().as_bytes());
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let retry = lines.outcome(&["retry"]);
    let key = retry["key"].as_str().unwrap();
    let request = told.recv().unwrap();
    let header = |name: &str| {
        let line = request.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{request}"));
        line.trim_start_matches(": ").to_owned()
    };
    let shown = workspace.show(key);
    let call = &shown["call"];
    assert_eq!([&call["idempotency_key"]; 2], [&json!(header("idempotency-key")), &json!(header("hookonce-key"))]);
    let address = format!("http://{callee}/in?<hidden>");
    assert_eq!([&call["method"], &call["address"], &call["class"]], ["POST", &address, "keyed"], "{shown}");
    assert_eq!(call["key_places"], json!(["hookonce-key", "Idempotency-Key"]));
    workspace.run(&["show", "stripe", key]).exits(0).prints_all(&[
        &format!("POST {address}\n"),
        "keyed\n",
        &format!("{} in hookonce-key, Idempotency-Key\n", header("hookonce-key")),
        "call failed: CALL_UNCLEAR, answer: status 503\n",
        "status 503\n",
    ]);
    assert!(shown["next_try_at_ms"].as_i64() < shown["due_at_ms"].as_i64(), "{shown}");
    let status = json_of(&workspace.run(&["status", "--json"]));
    let unreached = &status["effects"]["unreached"][0];
    assert_eq!([&unreached["destination"], &unreached["error"]], ["crm", "CALL_UNCLEAR"], "{status}");
    workspace.run(&["status"]).exits(0).prints_all(&["effects PENDING", "for crm", "CALL_UNCLEAR, the oldest for "]);
    // As pages, logs and headers have it.
    workspace.run(&["show", &format!("in#stripe#{key}")]).exits(0).prints("keyed\n");
    // It may be in its next call, so that the traces of its calls stay.
    let accepts =
        ["replay", "--key", "stripe", key, "--accept-duplicate", "--reason", "not in the CRM", "--by", "ada", "--yes"];
    workspace.run(&accepts).exits(0).prints("a call may be under way, so --accept-duplicate is left out");
    let again = workspace.show(key);
    assert_eq!(again["call"]["first_call_at_ms"], shown["call"]["first_call_at_ms"], "{again}");
    let entries = again["operations"].as_array().unwrap();
    assert_eq!(entries[0]["accept_duplicate"], json!(false), "{again}");
    std::fs::remove_file(workspace.path(".hookonce/destinations/crm.json")).unwrap();
    workspace.run(&["show", "stripe", key]).prints("POST; there is no such destination today: its effects wait\n");
}

#[test]
fn an_effect_that_could_not_be_called_shows_why() {
    let workspace = Workspace::routed(ROUTES);
    // Nobody listens there.
    let document =
        json!({ "kind": "http", "url": "http://127.0.0.1:1/in", "class": "at_least_once", "allow_private": true });
    workspace.write(".hookonce/destinations/crm.json", document.to_string().as_bytes());
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let retry = lines.outcome(&["retry"]);
    let why = "1 did nothing, or had no turn to call; last error DESTINATION_UNAVAILABLE\n";
    let shown = workspace.run(&["show", "stripe", retry["key"].as_str().unwrap()]);
    shown.exits(0).prints_all(&["not called: nothing was sent\n", why]);
}

#[test]
fn a_call_that_ends_an_effect_is_a_try() {
    let workspace = Workspace::routed(ROUTES);
    let url = format!("http://127.0.0.1:{}/in", receiver(400));
    let destination = json!({ "kind": "http", "url": url, "class": "keyed", "allow_private": true, "key_window_hours": 24,
        "key_source_url": "https://docs.example.com/keys", "key_header": "Idempotency-Key" });
    workspace.write(".hookonce/destinations/crm.json", destination.to_string().as_bytes());
    let _stack = workspace.dev(&["dev", "--port", "0"]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    workspace.wait_for("DEAD", 1);
    let dead = &workspace.list("DEAD")[0];
    assert_eq!((&dead["tries"], &dead["attempts"]), (&json!(1), &json!(0)), "{dead}");
    let story = workspace.run(&["show", "stripe", dead["key"].as_str().unwrap()]).exits(0);
    story.prints("after 1 attempt; see").omits("since the last replay");
}

/// As in a table that was restored to a moment before its effects were called.
#[test]
fn effects_in_doubt_are_called_again_only_for_one_who_accepts_a_duplicate() {
    let workspace = Workspace::routed(ROUTES);
    // Without its destination, the effect waits.
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let waiting = lines.next(|line| line["effect"] == "forward:crm");
    let effect = waiting["key"].as_str().unwrap();
    let why = ["--reason", "restored", "--by", "ada", "--yes", "--json"];
    let counts = |arguments: &[&str], counted: [&str; 3]| {
        let summed = summary(&workspace.run(arguments));
        counted.map(|count| summed[count].as_u64().unwrap())
    };

    for (refused, expected) in [
        (&["doubt"][..], "no record is named"),
        (&["doubt", "--until", "0s", "--by", "ada", "--yes"], "this needs a reason"),
        (&["doubt", "--until", "0s", "--since", "1h", "--kind", "neither"], "invalid value"),
    ] {
        workspace.run(refused).exits(2).prints(expected);
    }
    let doubt = ["doubt", "--until", "0s"];
    assert_eq!(counts(&[&doubt[..], &["--json"]].concat(), ["would", "done", "refused"]), [1, 0, 0], "a dry run");
    let counted = ["--reason", "restored", "--by", "ada", "--yes", "1", "--json"];
    assert_eq!(counts(&[&doubt[..], &counted].concat(), ["would", "done", "refused"]), [0, 1, 0]);
    workspace.run(&[&doubt[..], &counted].concat()).exits(1).prints("doubt 1 record, and the filter finds 0 now");
    let shown = workspace.show(effect);
    assert_eq!((&shown["state"], &shown["operations"][0]["operation"]), (&json!("DEAD"), &json!("doubt")), "{shown}");

    let replay = ["replay", "--key", "stripe", effect];
    assert_eq!(counts(&[&replay[..], &why].concat(), ["would", "done", "refused"]), [0, 0, 1]);
    let accepting = [&replay[..], &["--accept-duplicate"], &why].concat();
    assert_eq!(counts(&accepting, ["would", "done", "refused"]), [0, 1, 0]);
}
