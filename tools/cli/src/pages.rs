//! The pages name commands that exist: each command of a shell block and of a sentence can be parsed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::ErrorKind;

use super::Arguments;

/// What stands for a value in the pages, and a value that can be parsed.
const VALUES: [(&str, &str); 2] = [
    ("HASH", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("$(output WebhookUrl)", "https://a/"),
];

/// The Markdown files of a folder and of those in it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "md"));
    files.chain(folders.iter().flat_map(|folder| pages(folder))).collect()
}

/// What follows `hookonce` in the shell blocks and in the sentences of a page, and whether it stands in a block.
fn commands(page: &str) -> Vec<(String, bool)> {
    let (mut code, mut prose, mut language) = (String::new(), String::new(), None);
    for line in page.lines().map(str::trim) {
        match (line.strip_prefix("```"), language) {
            (Some(name), None) => language = Some(name),
            (Some(_), Some(_)) => language = None,
            (None, None) => prose.extend([line, " "]),
            (None, Some("sh")) => code.extend([line, "\n"]),
            (None, Some(_)) => {}
        }
    }
    let code = code.replace("\\\n", " ").replace("--bin hookonce -- ", "hookonce ");
    let code = code.lines().filter_map(|line| line.rsplit_once("hookonce ").filter(|(before, _)| is_typed(before)));
    let prose = prose.split('`').skip(1).step_by(2).filter_map(|span| span.trim().strip_prefix("hookonce "));
    let code = code.map(|(_, rest)| (rest.trim().to_owned(), true));
    code.chain(prose.map(|rest| (rest.to_owned(), false))).collect()
}

/// Whether a shell takes the word behind this for a command.
fn is_typed(before: &str) -> bool {
    before.is_empty() || ["cargo ", "cargo run ", "$("].iter().any(|end| before.ends_with(end))
}

/// Why a command cannot be what a person types. A sentence that only names a subcommand may leave out what it requires.
fn fault((command, in_block): &(String, bool)) -> Option<String> {
    let typed = VALUES.iter().fold(command.clone(), |text, (name, value)| text.replace(name, value));
    let Some(words) = shlex::split(&typed) else { return Some(format!("{command}: a quote is open")) };
    let words =
        words.into_iter().take_while(|word| !word.starts_with(['<', '>', '|'])).map(|word| word.replace(')', ""));
    let error = Arguments::try_parse_from(["hookonce".to_owned()].into_iter().chain(words)).err()?;
    let names_only = [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    let is_fault = error.kind() != ErrorKind::DisplayVersion && (*in_block || !names_only.contains(&error.kind()));
    is_fault.then(|| format!("{command}: {error}"))
}

#[test]
fn every_command_of_the_pages_can_be_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = pages(&root.join("docs"));
    pages.push(root.join("README.md"));
    let commands: Vec<_> = pages.iter().flat_map(|page| commands(&fs::read_to_string(page).unwrap())).collect();
    assert!(commands.len() > 150, "{commands:?}");
    let faults: Vec<_> = commands.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let planted = "Type `hookonce lost` or `hookonce list\n--stat DEAD`.\n```sh\nhookonce show\nid=$(hookonce \\\n  show a b)\n\
        ```\n```text\nhookonce out\n```\nNot `aws s3`, `hookonce show`.";
    let found = commands(planted);
    let noticed: Vec<_> = found.iter().map(|command| (command.0.as_str(), fault(command).is_some())).collect();
    let expected = [("show", true), ("show a b)", false), ("lost", true), ("list --stat DEAD", true), ("show", false)];
    assert_eq!(noticed, expected);
}
