//! `pause` and `resume`: the containment. What is paused is told, loses nothing, and spends no attempt.

use serde_json::json as object;

use crate::aws::{Deployed, Interception, now};
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, json};

const DELIVERIES: usize = 20;

/// Delivers events that a handler reads, each with a fact of its own.
fn deliver(stack: &Stack, from: usize) {
    (from..from + DELIVERIES).for_each(|index| drop(stack.deliver(index, true).exits(0)));
}

fn needs(output: &std::process::Output) -> Vec<String> {
    let needs = json(output)["needs"].clone();
    needs.as_array().unwrap().iter().map(|need| need.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_comes_while_the_worker_is_paused_waits_and_is_applied_at_the_first_attempt() {
    let stack = Stack::new();
    let pause = ["pause", "worker", "--reason", "a wrong deploy", "--by", "ada"];
    stack.run(&pause).exits(0).prints_all(&["the worker is paused", "  hookonce resume worker"]);
    deliver(&stack, 0);
    let output = stack.run(&["status", "--json"]).exits(1);
    assert_eq!(needs(&output), ["worker_paused"]);
    let paused = json(&output)["paused"]["worker"].clone();
    assert_eq!((&paused["by"], &paused["reason"]), (&object!("ada"), &object!("a wrong deploy")));
    assert!(paused["since_ms"].as_u64().unwrap() / 1_000 <= now(), "{paused}");
    stack.run(&["status"]).prints_all(&["by ada: \"a wrong deploy\"", "its events wait\n  hookonce resume worker\n"]);
    assert_eq!((stack.list("PENDING").len(), stack.list("APPLIED").len()), (DELIVERIES, 0));

    // A second person pauses it, too: the first reason stands.
    let again = ["pause", "worker", "--reason", "me too", "--by", "grace"];
    stack.run(&again).exits(0).prints_all(&["is paused already", "by ada: \"a wrong deploy\"", "the worker is paused"]);
    assert_eq!(json(&stack.run(&["status", "--json"]))["paused"]["worker"]["by"], "ada");

    stack.run(&["resume", "worker", "--by", "grace"]).exits(0).prints_all(&["was paused since", "the worker runs"]);
    stack.wait_for("APPLIED", DELIVERIES);
    for record in stack.list("APPLIED") {
        assert_eq!((&record["tries"], &record["attempts"]), (&object!(1), &object!(0)), "{record}");
    }
    assert_eq!(json(&stack.run(&["status", "--json"]).exits(0))["paused"], object!({}));
    stack.run(&["resume", "worker", "--by", "grace"]).exits(0).prints("is not paused");
}

#[test]
fn dev_begins_with_what_waits_from_before() {
    let workspace = Workspace::new();
    let dev = || workspace.dev_with_all_output(&["dev", "--port", "0"], &[]);
    let first = dev();
    workspace.run(&["pause", "worker", "--reason", "a wrong deploy", "--by", "ada"]).exits(0);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    first.stop().omits("from before");
    let waits = ["1 record waits from before, the next is due in ", "the worker is paused: `hookonce resume worker`"];
    dev().stop().prints_all(&waits);
}

/// The dispatcher alone: events are applied, and their effects wait.
#[test]
fn a_paused_dispatcher_stays_so_when_dev_starts_again() {
    let stack = Stack::new();
    stack.run(&["pause", "dispatcher", "--reason", "books twice", "--by", "ada"]).exits(0);
    let stack = stack.restarted();
    assert_eq!(needs(&stack.run(&["status", "--json"]).exits(1)), ["dispatcher_paused"]);
    stack.deliver(0, true).exits(0);
    stack.wait_for("APPLIED", 1);
    stack.run(&["resume", "dispatcher", "--by", "ada"]).exits(0);
    assert_eq!(needs(&stack.run(&["status", "--json"]).exits(0)), [] as [&str; 0]);
}

#[test]
fn a_pause_needs_a_reason_and_a_running_stack() {
    let stack = Stack::new();
    for (arguments, expected) in [
        (&["pause", "worker"][..], "--reason"),
        (&["pause", "worker", "--reason", " ", "--by", "ada"], "pass --reason with a short text"),
        (&["pause", "worker", "--reason", "x", "--by", ""], "pass --by NAME"),
        (&["pause", "relay", "--reason", "x"], "worker, dispatcher"),
    ] {
        stack.run(arguments).exits(2).prints(expected);
    }
    assert_eq!(needs(&stack.run(&["status", "--json"]).exits(0)), [] as [&str; 0]);
    let nowhere = ["pause", "worker", "--reason", "x", "--by", "ada", "--stack", "./elsewhere"];
    stack.run(&nowhere).exits(3).prints("no stack is running in ./elsewhere");
    stack.run(&["pause", "--help"]).exits(0).prints("hookonce pause dispatcher --reason");
}

fn switched(deployed: &Deployed) -> Vec<(String, &'static str)> {
    deployed.aws.account().switched.iter().map(|(uuid, state)| (uuid.clone(), *state)).collect()
}

/// Both event sources of the worker, the reason first, and again after each way to die.
#[test]
fn a_deployed_worker_is_paused_with_its_reason_written_first_and_a_command_that_died_is_run_again() {
    let stack = Stack::new();
    let deployed = Deployed::of(&stack, &[]);
    deployed.aws.account().relay_ran_at = Some(now() - 20);
    let refuse =
        |operation| deployed.aws.account().snags.push_back((operation, Interception::Answered("AccessDenied")));
    let status = || needs(&deployed.run(&["status", "--json"]));
    let pause = ["pause", "worker", "--reason", "a wrong deploy"];
    let output = deployed.run(&pause).exits(2);
    output.prints_all(&["inbox goes on accepting deliveries", "`hookonce resume worker --stack inbox`", "pass --yes"]);
    assert_eq!((switched(&deployed), status()), (vec![], vec![]));

    // It dies before the first event source changes: the reason is there, and says that it did not get further.
    let pause = [&pause[..], &["--yes"]].concat();
    refuse("UpdateEventSourceMapping");
    deployed.run(&pause).exits(3).prints("ask for the permission lambda:UpdateEventSourceMapping");
    assert_eq!((switched(&deployed), status()), (vec![], vec!["worker_on".to_owned(), "worker_paused".to_owned()]));
    deployed.run(&pause).exits(0).prints_all(&["is paused already", "hookonce resume worker --stack inbox"]);
    let off = ["inbox-worker-0", "inbox-worker-1"].map(|uuid| (uuid.to_owned(), "Disabled"));
    assert_eq!(switched(&deployed), off);
    assert_eq!(status(), ["worker_paused"]);
    let output = deployed.run(&["status"]).exits(1);
    output.prints_all(&[
        "\"a wrong deploy\"",
        "  hookonce resume worker --stack inbox\n",
        "code hash-of-inbox-worker, off",
    ]);

    // The same for the way back: it dies after the trail says that it goes on.
    refuse("UpdateEventSourceMapping");
    deployed.run(&["resume", "worker"]).exits(3);
    assert_eq!(status(), ["worker_off"]);
    deployed.run(&["resume", "worker"]).exits(0).prints_all(&["is not paused", "the worker runs"]);
    assert_eq!(switched(&deployed), off.map(|(uuid, _)| (uuid, "Enabled")));
    assert_eq!(status(), [] as [&str; 0]);
}

/// The trail cannot be written, so nothing changes.
#[test]
fn without_its_reason_nothing_is_paused() {
    let stack = Stack::new();
    let deployed = Deployed::of(&stack, &[]);
    let mut variables = deployed.variables.clone();
    variables.push(("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), "http://127.0.0.1:9".to_owned()));
    let pause = ["pause", "worker", "--reason", "x", "--yes", "--stack", "inbox"];
    deployed.workspace.run_with_environment(&pause, &variables).exits(3);
    assert_eq!(switched(&deployed), []);
}
