//! A forwarded event on a running stack: what `dev` prints, and the story that `show` tells of it.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use crate::destinations::receiver;
use crate::stacks::summary;
use crate::support::{Ended, Workspace, interrupt, json as json_of};

const ROUTES: &str = r#"{"version": 1, "otherwise": "ignore", "routes": [
    {"name": "out", "consumer": "crm", "forward": ["crm"]}]}"#;

#[test]
fn show_tells_of_an_event_which_effects_it_has_and_of_an_effect_where_it_went() {
    let workspace = Workspace::routed(ROUTES);
    let url = format!("http://127.0.0.1:{}/in", receiver(200));
    let destination = json!({ "kind": "http", "url": url, "class": "at_least_once", "allow_private": true });
    workspace.write(".hookonce/destinations/crm.json", destination.to_string().as_bytes());
    let (child, out) = workspace.dev_with_output(&["dev", "--port", "0", "--json"]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let mut lines = BufReader::new(out).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let outcomes: Vec<_> =
        lines.by_ref().filter(|line| line["outcome"] == "applied" || line["outcome"] == "delivered").take(2).collect();
    let outcome = |word: &str| outcomes.iter().find(|line| line["outcome"] == word).unwrap()["key"].clone();
    let (event, effect) = (outcome("applied"), outcome("delivered"));
    let show = |key: &Value, more: &[&str]| {
        let shown = workspace.run(&[&["show", "stripe", key.as_str().unwrap()], more].concat()).exits(0);
        String::from_utf8(shown.stdout).unwrap()
    };

    let of_event: Value = serde_json::from_str(&show(&event, &["--json"])).unwrap();
    assert_eq!(of_event["effects"], json!([{ "key": effect, "state": "DELIVERED" }]));

    // No index lists it any more. It is found through its event.
    let listed = |more: &[&str]| -> Vec<Value> {
        let listed = workspace.run(&[&["list", "--json", "--kind", "effect"], more].concat());
        serde_json::from_slice::<Vec<Value>>(&listed.stdout).unwrap().iter().map(|it| it["key"].clone()).collect()
    };
    for found in
        [&[][..], &["--state", "delivered"], &["--state", "PROCESSED", "--destination", "crm", "--since", "1h"]]
    {
        assert_eq!(listed(found), std::slice::from_ref(&effect), "{found:?}");
    }
    let plain = json_of(&workspace.run(&["list", "--json", "--state", "DELIVERED"]));
    assert_eq!(plain[0]["key"], effect, "only effects are DELIVERED: {plain}");
    for none in [["--state", "DELIVERED"], ["--destination", "crm"]] {
        workspace.run(&[&["list", "--kind", "event"][..], &none].concat()).exits(2).says("leave --kind event out");
    }
    for empty in [["--state", "DEAD"], ["--state", "PENDING"], ["--destination", "other"], ["--until", "1h"]] {
        assert_eq!(listed(&empty), [Value::Null; 0], "{empty:?}");
    }
    let stats = workspace.run(&["stats", "--kind", "effect", "--json"]);
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["by"]["state"], json!({"DELIVERED": 1}), "{stats}");

    // The payload of an effect is no event: it is neither split nor planned.
    let of_effect: Value = serde_json::from_str(&show(&effect, &["--json"])).unwrap();
    let none = json!([]);
    let kinds = ["children", "effects", "writes"].map(|kind| &of_effect[kind]);
    assert_eq!((kinds, &of_effect["domain_key"]), ([&none; 3], &Value::Null));
    let story = show(&effect, &[]);
    assert!(
        story.contains("forward:crm to the destination crm") && story.contains("committed with the event"),
        "{story}"
    );
    assert!(!story.contains("plan today") && !story.contains("verified with"), "{story}");
    interrupt(child);
}

#[test]
fn a_call_that_ends_an_effect_is_a_try() {
    let workspace = Workspace::routed(ROUTES);
    let url = format!("http://127.0.0.1:{}/in", receiver(400));
    let destination = json!({ "kind": "http", "url": url, "class": "keyed", "allow_private": true, "key_window_hours": 24,
        "key_source_url": "https://docs.example.com/keys", "key_header": "Idempotency-Key" });
    workspace.write(".hookonce/destinations/crm.json", destination.to_string().as_bytes());
    let (child, out) = workspace.dev_with_output(&["dev", "--port", "0", "--json"]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let mut lines = BufReader::new(out).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    lines.find(|line| line["outcome"] == "dead").unwrap();
    let dead = json_of(&workspace.run(&["list", "--json", "--state", "DEAD"]));
    assert_eq!((&dead[0]["tries"], &dead[0]["attempts"]), (&json!(1), &json!(0)), "{dead}");
    interrupt(child);
}

/// As in a table that was restored to a moment before its effects were called.
#[test]
fn effects_in_doubt_are_called_again_only_for_one_who_accepts_a_duplicate() {
    let workspace = Workspace::routed(ROUTES);
    // Without its destination, the effect waits.
    let (child, out) = workspace.dev_with_output(&["dev", "--port", "0", "--json"]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let mut lines = BufReader::new(out).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let waiting = lines.find(|line| line["effect"] == "forward:crm").unwrap();
    let effect = waiting["key"].as_str().unwrap();
    let why = ["--reason", "restored", "--by", "ada", "--yes", "--json"];
    let counts = |arguments: &[&str], counted: [&str; 3]| {
        let told = summary(&workspace.run(arguments));
        counted.map(|count| told[count].as_u64().unwrap())
    };

    for (refused, said) in [
        (&["doubt"][..], "no record is named"),
        (&["doubt", "--until", "0s", "--by", "ada", "--yes"], "this needs a reason"),
        (&["doubt", "--until", "0s", "--since", "1h", "--kind", "neither"], "invalid value"),
    ] {
        workspace.run(refused).exits(2).says(said);
    }
    let doubt = ["doubt", "--until", "0s"];
    assert_eq!(counts(&[&doubt[..], &["--json"]].concat(), ["would", "done", "refused"]), [1, 0, 0], "a dry run");
    assert_eq!(counts(&[&doubt[..], &why].concat(), ["would", "done", "refused"]), [0, 1, 0]);
    assert_eq!(counts(&[&doubt[..], &why].concat(), ["examined", "done", "refused"]), [0, 0, 0], "nothing is left");
    let shown = workspace.run(&["show", "stripe", effect, "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["state"], &shown["operations"][0]["operation"]), (&json!("DEAD"), &json!("doubt")), "{shown}");

    let replay = ["replay", "--key", "stripe", effect];
    assert_eq!(counts(&[&replay[..], &why].concat(), ["would", "done", "refused"]), [0, 0, 1]);
    let accepting = [&replay[..], &["--accept-duplicate"], &why].concat();
    assert_eq!(counts(&accepting, ["would", "done", "refused"]), [0, 1, 0]);
    interrupt(child);
}
