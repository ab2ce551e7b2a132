//! `submit`: one operation under one key, however often it is submitted, and what its record says of it.

use std::process::Output;

use serde_json::json as object;

use crate::aws::Aws;
use crate::destinations::receiver;
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, json, text};

const ROUTES: &str = r#"{"version": 1, "otherwise": "ignore", "routes": [
    {"name": "jobs", "consumer": "jobs", "endpoints": ["jobs"], "types": ["job.requested"], "forward": ["runner"]},
    {"name": "lost", "consumer": "jobs", "endpoints": ["jobs"], "types": ["job.lost"], "forward": ["nowhere"]}]}"#;

/// A stack with the endpoint `jobs`, whose events of the type `job.requested` are forwarded.
fn stack() -> Stack {
    let workspace = Workspace::routed(ROUTES);
    workspace.destination("runner", receiver(200));
    workspace.write("job.json", br#"{"total": 1.10}"#);
    workspace.run(&["endpoint", "add", "jobs", "--provider", "standard_webhooks"]).exits(0);
    Stack::of(workspace)
}

const JOB: [&str; 9] =
    ["submit", "--endpoint", "jobs", "--key", "job-1", "--type", "job.requested", "--file", "job.json"];

fn submit(workspace: &Workspace, more: &[&str]) -> Output {
    workspace.run(&[&JOB, more].concat())
}

#[test]
fn the_same_operation_takes_effect_once_and_its_repeat_prints_the_outcome() {
    let stack = stack();
    let report = json(&submit(&stack, &["--wait", "--json"]).exits(0));
    assert_eq!((&report["answer"], &report["same_body"]), (&object!("accepted"), &object!(true)));

    let report = json(&submit(&stack, &["--json"]).exits(0));
    assert_eq!((&report["answer"], &report["same_body"]), (&object!("duplicate"), &object!(true)));
    let record = ["state", "outcome", "tries", "duplicates", "type"].map(|name| report["record"][name].clone());
    assert_eq!(object!(record), object!(["PROCESSED", "APPLIED", 1, 1, "job.requested"]), "{report}");
    assert_eq!(report["effects"][0]["state"], "DELIVERED", "{report}");
    assert_eq!(report["effects"].as_array().unwrap().len(), 1);

    let output = submit(&stack, &[]);
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = output.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["duplicate", "job-1"]);
    assert_eq!(lines[1], ["event", "APPLIED", "1", "attempt"]);
    assert_eq!(lines[2], ["effect", "DELIVERED", "forward:runner", "to", "runner,", "1", "attempt"]);
    assert_eq!(lines.len(), 3, "{output}");
}

#[test]
fn the_same_key_with_another_body_is_no_success() {
    let stack = stack();
    submit(&stack, &["--wait"]).exits(0);
    stack.write("job.json", br#"{"total": 1.1}"#);
    let other = submit(&stack, &["--json", "--wait"]).exits(1);
    assert_eq!((&json(&other)["answer"], &json(&other)["same_body"]), (&object!("duplicate"), &object!(false)));
    other.prints("the key was used before with a different body; this body was not stored");
    let body = stack.run(&["show", "jobs", "job-1", "--body"]);
    assert_eq!(body.stdout, br#"{"type":"job.requested","data":{"total": 1.10}}"#, "{}", text(&body));
}

#[test]
fn what_nobody_does_and_what_is_not_done_yet_have_exit_codes_of_their_own() {
    let stack = stack();
    let submit = |key: &str, event_type: &str, more: &str| {
        let order = ["submit", "--endpoint", "jobs", "--key", key, "--type", event_type, "--file", "job.json", more];
        stack.run(&order)
    };
    submit("job-2", "job.unheard", "--wait").exits(1).prints("no handler and no route wants it");
    // Its destination is not there, so its effect waits.
    let parts = ["it is stored, and not settled after 100ms", "hookonce show jobs job-3"];
    submit("job-3", "job.lost", "--wait=100ms").exits(3).prints_all(&parts);
}

#[test]
fn an_endpoint_of_a_deployed_stack_is_signed_for_with_its_own_secret() {
    let stack = stack();
    let url = format!("{}/webhooks/", stack.announced()["url"].as_str().unwrap());
    let (aws, variables) = Aws::of_running(&stack, &[("WebhookUrl", &url)]);
    aws.account().put("endpoint", "jobs", &stack.read(".hookonce/endpoints/jobs.json"));
    // A folder without a stack.
    let elsewhere = Workspace::new();
    elsewhere.write("job.json", b"[1]");
    let submit = |more: &[&str]| {
        elsewhere.run_with_environment(&[&JOB[..], &["--stack", "inbox", "--json"], more].concat(), &variables)
    };
    submit(&["--wait"]).exits(0);
    let again = json(&submit(&[]));
    assert_eq!((&again["answer"], &again["record"]["outcome"]), (&object!("duplicate"), &object!("APPLIED")));
    let given = submit(&["--url", &format!("{url}jobs")]);
    assert_eq!(json(&given)["answer"], "duplicate", "{}", text(&given));
}

#[test]
fn a_refused_submit_prints_the_next_step() {
    let stack = stack();
    stack.write("text", b"not JSON");
    stack.run(&["endpoint", "add", "shop", "--provider", "stripe"]);
    let refused = |changes: &[(&str, &str)], exit: i32, expected: &str| {
        let mut order = JOB;
        for (from, to) in changes {
            order.iter_mut().filter(|word| *word == from).for_each(|word| *word = *to);
        }
        stack.run(&order).exits(exit).prints(expected);
    };
    refused(&[("jobs", "other")], 2, "hookonce endpoint add other --provider standard_webhooks");
    refused(&[("jobs", "shop")], 2, "`hookonce endpoint add jobs --provider standard_webhooks`, then --endpoint jobs");
    refused(&[("job-1", "a.b")], 2, "no full stop");
    refused(&[("job.json", "text")], 2, "is not JSON");
    refused(&[("job.json", "none")], 2, "reading none failed");
    let stopped = Workspace::new();
    stopped.write("job.json", b"1");
    submit(&stopped, &[]).exits(3).prints("hookonce dev");

    let away = submit(&stack, &["--url", "http://127.0.0.1:9/webhooks/jobs"]).exits(3);
    away.prints("run the same command again: the same key is applied once");
    // Whoever answers 200 there is no endpoint.
    let stranger = submit(&stack, &["--url", &format!("http://127.0.0.1:{}/", receiver(200))]).exits(2);
    stranger.prints("not like a hookonce endpoint");
    // Another secret than the one that the running stack reads.
    let elsewhere = Workspace::new();
    elsewhere.write("job.json", b"1");
    elsewhere.run(&["endpoint", "add", "jobs", "--provider", "standard_webhooks"]);
    let url = format!("{}/webhooks/jobs", stack.announced()["url"].as_str().unwrap());
    submit(&elsewhere, &["--url", &url]).exits(1).prints("signature_mismatch");
}
