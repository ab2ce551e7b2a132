//! The README is true: this runs its commands in its order.

use std::fs;

use crate::stacks::Stack;
use crate::support::{Ended, Running, Workspace, json, root, shell_lines, text};

/// An alias of `.cargo/config.toml`.
const RUN: &str = "cargo hookonce ";
const TEST: &str = "cargo test --workspace";

#[test]
fn every_command_of_the_readme_works() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let workspace = Workspace::new();
    let mut running: Option<Running> = None;
    let mut ran = Vec::new();
    for command in shell_lines(&readme) {
        if command == TEST {
            continue;
        }
        let arguments = command.strip_prefix(RUN).unwrap_or_else(|| panic!("no test knows how to run {command:?}"));
        let mut arguments: Vec<_> = arguments.split_whitespace().collect();
        if arguments == ["dev"] {
            // Another program may use the default port.
            arguments.extend(["--port", "0"]);
            running = Some(workspace.dev(&arguments));
        } else {
            if arguments.first() == Some(&"list") {
                workspace.wait_for("APPLIED", 1);
            }
            let output = workspace.run(&arguments);
            assert_eq!(output.status.code(), Some(0), "{command}\n{}", text(&output));
        }
        ran.push(arguments.first().map(ToString::to_string).unwrap_or_default());
    }
    assert_eq!(ran, ["demo", "dev", "trigger", "list", "show"]);
    drop(running);
}

#[test]
fn one_sample_sent_three_times_is_accepted_once() {
    let stack = Stack::new();
    let file = "events/deliveries/stripe-invoice-paid.json";
    let send = format!("send --provider stripe --file {file} --copies 3 --concurrency 3 --json");
    let sent = json(&stack.run(&send.split(' ').collect::<Vec<_>>()));
    let count = |answer: &str| sent.as_array().unwrap().iter().filter(|one| one["answer"] == answer).count();
    assert_eq!((count("accepted"), count("duplicate")), (1, 2), "{sent}");
    stack.wait_for("APPLIED", 1);
    let shown = stack.show("evt_1SampleInvoicePaid");
    assert_eq!(shown["duplicates"], 2, "{shown}");
    let body = stack.run(&["show", "stripe", "evt_1SampleInvoicePaid", "--body"]);
    assert_eq!(body.stdout, fs::read(root().join(file)).unwrap(), "the stored body is the one that was sent");
    stack.run(&["show", "stripe", "evt_unknown"]).exits(1);
}

#[test]
fn a_rotated_secret_is_used_and_the_old_one_still_verifies() {
    let stack = Stack::new();
    let revealed = json(&stack.run(&["endpoint", "show", "github", "--reveal", "--json"]));
    let old = revealed["secrets"][0].as_str().unwrap();
    // A secret is not shown unasked.
    stack.run(&["endpoint", "show", "github"]).prints("quarantine (default)").omits(old);
    stack.run(&["endpoint", "rotate", "github"]).exits(0);
    let send = "send --provider github --file events/deliveries/github-push.json --header x-github-event:push --json";
    let send: Vec<_> = send.split(' ').collect();
    let given = [&send[..], &["--secret", "-"]].concat();
    assert_eq!(json(&stack.run_with_input(&given, old))[0]["answer"], "accepted");
    stack.run(&send).exits(0);
    let forged = stack.run_with_input(&given, "not-the-secret").exits(1);
    assert_eq!(json(&forged)[0]["answer"], "signature_mismatch");
}
