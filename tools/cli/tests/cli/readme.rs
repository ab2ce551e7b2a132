//! The README is true: this runs its commands in its order.

use std::fs;

use crate::support::{Ended, Running, Workspace, json, root, shell_lines, text, wait_until};

/// An alias of `.cargo/config.toml`.
const RUN: &str = "cargo hookonce ";
const TEST: &str = "cargo test --workspace";

#[test]
fn every_command_of_the_readme_does_what_it_says() {
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
                wait_until("the sample is applied", || applied(&workspace));
            }
            let output = workspace.run(&arguments);
            assert_eq!(output.status.code(), Some(0), "{command}\n{}", text(&output));
        }
        ran.push(arguments.first().map(ToString::to_string).unwrap_or_default());
    }
    assert_eq!(ran, ["demo", "dev", "trigger", "list", "show"]);
    drop(running);
}

fn applied(workspace: &Workspace) -> bool {
    let list = workspace.run(&["list", "--json"]);
    list.status.success() && json(&list)[0]["outcome"] == "APPLIED"
}

#[test]
fn one_sample_sent_three_times_is_accepted_once() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0"]);
    let file = "events/deliveries/stripe-invoice-paid.json";
    let send = format!("send --provider stripe --file {file} --copies 3 --concurrency 3 --json");
    let sent = workspace.run(&send.split(' ').collect::<Vec<_>>());
    let answers = json(&sent);
    let count = |answer: &str| answers.as_array().unwrap().iter().filter(|one| one["answer"] == answer).count();
    assert_eq!((count("accepted"), count("duplicate")), (1, 2), "{}", text(&sent));
    wait_until("it is applied", || applied(&workspace));
    let shown = workspace.run(&["show", "stripe", "evt_1SampleInvoicePaid", "--json"]);
    assert_eq!(json(&shown)["duplicates"], 2, "{}", text(&shown));
    let body = workspace.run(&["show", "stripe", "evt_1SampleInvoicePaid", "--body"]);
    assert_eq!(body.stdout, fs::read(root().join(file)).unwrap(), "the stored body is the one that was sent");
    workspace.run(&["show", "stripe", "evt_unknown"]).exits(1);
}

#[test]
fn a_rotated_secret_is_used_and_the_old_one_still_verifies() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0"]);
    let revealed = json(&workspace.run(&["endpoint", "show", "github", "--reveal", "--json"]));
    let old = revealed["secrets"][0].as_str().unwrap().to_owned();
    let shown = text(&workspace.run(&["endpoint", "show", "github"]));
    assert!(!shown.contains(&old), "a secret is not shown unasked");
    assert!(shown.contains("duplicate (default)"), "{shown}");
    assert!(workspace.run(&["endpoint", "rotate", "github"]).status.success());
    let send = "send --provider github --file events/deliveries/github-push.json --header x-github-event:push";
    let send: Vec<_> = send.split(' ').collect();
    let with_old = workspace.run_with_input(&[&send[..], &["--secret", "-", "--json"]].concat(), &old);
    assert_eq!(json(&with_old)[0]["answer"], "accepted", "{}", text(&with_old));
    workspace.run(&[&send[..], &["--json"]].concat()).exits(0);
    let forged = workspace.run_with_input(&[&send[..], &["--secret", "-", "--json"]].concat(), "not-the-secret");
    assert_eq!(forged.status.code(), Some(1));
    assert_eq!(json(&forged)[0]["answer"], "signature_mismatch");
}

#[test]
fn the_first_check_of_ci_is_the_readmes_test_command() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(shell_lines(&readme).contains(&TEST.to_owned()));
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    let first = ci.lines().find(|line| line.starts_with("cargo ") || line.starts_with("scripts/")).unwrap();
    assert_eq!(first, TEST);
}
