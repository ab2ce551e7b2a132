//! The runbook is true: this runs its `hookonce` commands in its order.

use std::fs;

use crate::operators::Stack;
use crate::support::{root, shell_lines, text};

/// The words of a command, as a shell would see them.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn every_hookonce_command_of_the_runbook_runs() {
    let runbook = fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let lines = shell_lines(&runbook);
    let commands: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("hookonce ").map(str::to_owned)).collect();
    assert!(commands.len() >= 6, "{commands:?}");
    // The first record is applied, the others are dead.
    let stack = Stack::with(1, 2);
    for command in commands {
        stack.wait_for("PENDING", 0);
        let key = if command.contains("redact") { "stripe evt_0" } else { "stripe evt_1" };
        let here = command.replace(" --table COPY --domain-table DOMAIN_COPY", "");
        let here = here.replace("--stack NAME", "").replace("CODE", "INVOICE_UNREADABLE");
        let mut words = words(&here.replace("ENDPOINT KEY", key).replace("ENDPOINT", "stripe"));
        words.extend(["--by".to_owned(), "ada".to_owned()].into_iter().filter(|_| here.contains("--yes")));
        let ran = stack.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        // A drill may find something, a status is "no" while records are dead, a dry run may refuse one of several records,
        // no record here is IGNORED, and no event has an effect.
        let no = ["drill", "status", "redact --endpoint", "replay --state IGNORED", "doubt"]
            .into_iter()
            .any(|expected| command.starts_with(expected));
        let expected = if no { [Some(0), Some(1)] } else { [Some(0); 2] };
        assert!(expected.contains(&ran.status.code()), "{command}: {}", text(&ran));
    }
}
