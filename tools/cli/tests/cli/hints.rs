//! What a command prints for a person to paste, on the stack that was named. And what becomes of output that cannot be
//! written.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::aws::Deployed;
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, json, text};

#[test]
fn a_suggested_command_leads_to_the_stack_that_was_named() {
    let stack = Stack::with(0, 1);
    let deployed = Deployed::of(&stack, &[]);
    deployed.run(&["status"]).prints("  hookonce stats --state DEAD --stack inbox\n");
    deployed.run(&["show", "stripe", "evt_404"]).prints("`hookonce list --stack inbox` shows what there is");
    deployed.run(&["replay", "--state", "DEAD"]).prints("hookonce replay --state DEAD --stack inbox --ended-until");
    let place = ["--stack", stack.path(".hookonce").to_str().unwrap()].map(str::to_owned);
    let elsewhere = Workspace::new();
    let output = elsewhere.run(&["show", "stripe", "evt_404", &place[0], &place[1]]);
    output.prints(&format!("`hookonce list {}` shows", place.join(" ")));
    elsewhere.run(&["list", "--stack", "./my folder"]).exits(3).prints("`hookonce dev --stack './my folder'`");
}

/// It names options that it has, and says how long it takes.
#[test]
fn an_audit_that_needs_agreement_names_its_own_options() {
    let stack = Stack::with(0, 1);
    let output = stack.run(&["audit"]).exits(2).prints_all(&["pass --scan to agree; --rate N"]);
    let help = text(&stack.run(&["audit", "--help"]));
    let printed = text(&output);
    let named = printed.split_whitespace().filter(|word| word.starts_with("--"));
    for option in named.map(|word| word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())) {
        assert!(help.contains(option), "{option}: {printed}");
    }
    stack.run(&["audit", "--scan", "--rate", "1"]).exits(0).prints("at 1 item a second, it takes about");
}

/// A script on a full disk must not take half an answer for a whole one.
#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let stack = Stack::with(1, 0);
    let run = |arguments: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookonce"));
        command.args(arguments).current_dir(stack.path(".")).stdin(Stdio::null());
        command.stdout(out).stderr(Stdio::piped()).output().unwrap()
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for arguments in [
        &["list"][..],
        &["list", "--since", "1h", "--json"],
        &["show", "stripe", "evt_0"],
        &["show", "stripe", "evt_0", "--body"],
        &["providers", "stripe"],
        &["status"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
        &["verify", "--help"],
    ] {
        let lost = run(arguments, full()).exits(3).prints("standard output cannot be written");
        assert_eq!(text(&lost).matches("cannot be written").count(), 1, "{}", text(&lost));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        run(arguments, Stdio::from(writer)).exits(0).omits("cannot be written");
    }
    assert_eq!(json(&stack.run(&["list", "--since", "1h", "--json"]))[0]["key"], "evt_0");
}

#[test]
fn a_log_filter_comes_from_the_environment() {
    let workspace = Workspace::new();
    let listed = |filter: &str| {
        workspace.run_with_environment(&["providers", "stripe"], &[("RUST_LOG".to_owned(), filter.to_owned())])
    };
    listed("hookonce_aws=debug").exits(0);
    listed("hookonce_aws=loud").exits(2).prints("RUST_LOG is not a log filter");
}
