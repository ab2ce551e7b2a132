//! The pages of the person on call name commands that exist: every command that a sentence quotes can be parsed.

use clap::Parser as _;
use clap::error::ErrorKind;

use super::Arguments;

/// Takes the place of the word HASH, because only a SHA-256 can be parsed there.
const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The `hookonce` commands in the sentences of a page, each on one line.
fn commands(page: &str) -> Vec<String> {
    let mut inside = false;
    let mut prose = String::new();
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        if !inside && !is_fence {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let spans = prose.split('`').skip(1).step_by(2);
    let words = |span: &str| span.split_whitespace().collect::<Vec<_>>().join(" ");
    spans.map(words).filter(|span| span.starts_with("hookonce ")).collect()
}

/// Why a command cannot be what a person types. One that only names a subcommand may leave out what it requires.
fn fault(command: &str) -> Option<String> {
    let typed = command.split(" > ").next().unwrap_or_default().replace("HASH", HASH);
    match Arguments::try_parse_from(typed.split(' ')) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => None,
        Err(error) => Some(format!("{command}: {error}")),
    }
}

#[test]
fn every_command_in_a_sentence_of_the_runbook_can_be_typed() {
    for (page, at_least) in
        [(include_str!("../../../docs/runbook.md"), 20), (include_str!("../../../docs/audit.md"), 3)]
    {
        let commands = commands(page);
        assert!(commands.len() >= at_least, "{commands:?}");
        let faults: Vec<_> = commands.iter().filter_map(|command| fault(command)).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let planted = "Type `hookonce lost` or `hookonce list\n--stat DEAD`.\n```sh\nhookonce gone\n```\nNot `aws s3`, `hookonce show`.";
    let found = commands(planted);
    assert_eq!(found, ["hookonce lost", "hookonce list --stat DEAD", "hookonce show"]);
    let noticed: Vec<_> = found.iter().map(|command| fault(command).is_some()).collect();
    assert_eq!(noticed, [true, true, false]);
}
