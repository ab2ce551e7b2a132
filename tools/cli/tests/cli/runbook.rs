//! The runbook is true: this runs its `hookonce` commands in its order, on the running stack and on a named one, and
//! looks for what it says that they print.

use std::collections::BTreeSet;
use std::fs;

use crate::aws::Aws;
use crate::stacks::{Stack, Tables};
use crate::support::{Ended, root, text};
use crate::terminal::captured;

/// A block of commands.
#[derive(Debug, Default, PartialEq)]
struct Block {
    commands: Vec<String>,
    /// What the sentences of the paragraph below it say that they print.
    prints: Vec<String>,
}

/// The blocks of a page that have `hookonce` commands.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().map(str::trim);
    while lines.by_ref().any(|line| line == "```sh") {
        let block = lines.by_ref().take_while(|line| *line != "```");
        let commands = block.filter_map(|line| line.strip_prefix("hookonce ").map(str::to_owned)).collect();
        let below = lines.clone().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
        let below = below.collect::<Vec<_>>().join(" ");
        let sentences = below.split(". ").filter(|sentence| sentence.contains(" print"));
        let spans = sentences.flat_map(|sentence| sentence.split('`').skip(1).step_by(2));
        let prints = spans.filter(|span| !span.starts_with("hookonce ") && !span.starts_with("--"));
        blocks.push(Block { commands, prints: prints.map(str::to_owned).collect() });
    }
    blocks.retain(|block| !block.commands.is_empty());
    blocks
}

/// The same command about the last hour, in which all records of the test came: to read days takes a test most of its
/// time.
fn narrowed(command: &str) -> String {
    let command = ["95d", "7d", "24h", "6h"]
        .iter()
        .fold(command.to_owned(), |command, long| command.replace(&format!("--since {long}"), "--since 1h"));
    if command.starts_with("drill --state APPLIED") { command + " --since 1h" } else { command }
}

/// Runs a command of the page, and returns what it printed. The options name the stack.
fn run(stack: &Stack, variables: &[(String, String)], command: &str, options: &str) -> String {
    let key = if command.contains("redact") || command.starts_with("show") { "stripe evt_0" } else { "stripe evt_1" };
    let here = narrowed(command).replace("--stack NAME", options).replace("CODE", "INVOICE_UNREADABLE");
    let here = here.replace("FILE", "request.json").replace("HASH", &"0".repeat(64));
    let removed = command.starts_with("endpoint remove");
    let asks = removed || command.contains("--retire") || command.starts_with("pause");
    let endpoint = if removed { "github" } else { "stripe" };
    let here = here.replace("ENDPOINT OTHER_KEY", "stripe evt_1").replace("ENDPOINT KEY", key);
    let mut words = shlex::split(&here.replace("ENDPOINT", endpoint)).unwrap();
    let is_noted = here.contains("--yes") || here.starts_with("pause") || here.starts_with("resume");
    words.extend(["--by".to_owned(), "ada".to_owned()].into_iter().filter(|_| is_noted));
    // It asks, and nobody is there to answer.
    words.extend(["--yes".to_owned()].into_iter().filter(|_| asks));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let secret = if command.contains("--retire") { "whsec_of_the_day_after" } else { "whsec_of_the_next_day" };
    let ran = stack.run_with_environment_and_input(&words, variables, secret);
    // A drill may find something, a status is "no" while records are dead, a dry run may refuse one of several records,
    // no record here is IGNORED or PENDING, no event has an effect, there are no routes, no secret is a day old, and no
    // body has this hash.
    let no = [
        "drill",
        "status",
        "redact --endpoint",
        "replay --state IGNORED",
        "doubt",
        "stats --state PENDING",
        "stats --kind effect",
        "route show",
        "endpoint rotate ENDPOINT --finish",
        "verify",
    ];
    let expected = if no.iter().any(|no| command.starts_with(no)) { [Some(0), Some(1)] } else { [Some(0); 2] };
    assert!(expected.contains(&ran.status.code()), "{command}: {}", text(&ran));
    if command.contains("--yes") {
        stack.wait_for("PENDING", 0);
    }
    text(&ran)
}

/// Runs all commands of the page on a stack of their own.
fn follow(is_named: bool) {
    let runbook = fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let blocks = blocks(&runbook);
    let told: usize = blocks.iter().map(|block| block.prints.len()).sum();
    assert!(blocks.len() >= 16 && told >= 14, "{blocks:?}");
    // The first record is applied, the others are dead.
    let stack = Stack::with(1, 2);
    let tables = Tables::of(&stack);
    let (_aws, variables) = Aws::of_running(&stack, &[]);
    tables.copy_table(&tables.inbox, "inbox-copy");
    tables.copy_table(&tables.domain, "domain-copy");
    let request = captured("whsec_a_signing_secret", "whsec_another_secret", "{}");
    stack.write("request.json", request.as_bytes());
    let (variables, options) = if is_named { (variables.as_slice(), "--stack inbox") } else { (&[][..], "") };
    if is_named {
        for id in ["stripe", "github"] {
            let add = ["endpoint", "add", id, "--provider", id, "--secret", "-", "--stack", "inbox"];
            stack.run_with_environment_and_input(&add, variables, "whsec_of_the_first_day").exits(0);
        }
    }
    for block in &blocks {
        let mut printed = String::new();
        for command in &block.commands {
            // A copy is named beside the stack that it is of, and a table in its place.
            let command = if is_named {
                let copied = command.replace("DOMAIN_COPY", "domain-copy").replace("COPY", "inbox-copy");
                copied.replace("--table TABLE", &format!("--table {}", tables.inbox))
            } else {
                let own = command.replace(" --table COPY --domain-table DOMAIN_COPY", "");
                own.replace(" --table TABLE --index-shards 1024", "")
            };
            printed += &run(&stack, variables, &command, options);
        }
        for print in &block.prints {
            assert!(printed.contains(print), "{print} is not printed by {:?}: {printed}", block.commands);
        }
    }
}

#[test]
fn every_hookonce_command_of_the_runbook_runs_here_and_prints_what_the_page_says() {
    follow(false);
}

#[test]
fn every_hookonce_command_of_the_runbook_runs_on_a_named_stack_and_prints_what_the_page_says() {
    follow(true);
}

/// Whether a section has what a person on call needs of it, in this order: how urgent it is, what keeps it from growing
/// worse, commands, and what they print. Otherwise what it lacks.
fn lacks(section: &str) -> Option<&'static str> {
    let severity = ["**Severity:** ", "` (page)", "` (notice)"].iter().filter_map(|word| section.find(word)).min();
    let Some(severity) = severity else { return Some("a severity") };
    let Some(containment) = section.find("**Containment:** ").filter(|at| *at > severity) else {
        return Some("containment after its severity");
    };
    if section.find("```sh\n").is_none_or(|at| at < containment) {
        return Some("a block of commands after its containment");
    }
    let mut prose = section.split("```").step_by(2);
    let prints = |text: &str| text.split_whitespace().any(|word| word.starts_with("print"));
    (!prose.any(prints)).then_some("what its commands print")
}

/// The heading of a section as its links name it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

/// The sections that the table of symptoms begins with.
fn symptoms(page: &str) -> Vec<String> {
    let (_, table) = page.split_once("\n## By symptom\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.contains("]("));
    let links = rows.flat_map(|row| row.split("](#").skip(1).filter_map(|rest| rest.split_once(')')));
    links.map(|(link, _)| link.to_owned()).collect()
}

/// The sections that the alarms of the template link to.
fn alarmed() -> BTreeSet<String> {
    let template = fs::read_to_string(root().join("template.yaml")).unwrap();
    let links = template.lines().filter_map(|line| line.trim().strip_prefix("AlarmDescription: "));
    links.map(|line| line.rsplit_once("${RunbookUrl}#").unwrap().1.to_owned()).collect()
}

/// What each of these sections lacks.
fn all_lack(page: &str, links: impl IntoIterator<Item = String>) -> Vec<(String, Option<&'static str>)> {
    let section = |link: &str| {
        let mut lines = page.lines().skip_while(|line| {
            let heading = line.strip_prefix("### ").or_else(|| line.strip_prefix("## "));
            heading.is_none_or(|heading| anchor(heading) != link)
        });
        lines.next().unwrap_or_else(|| panic!("no section {link}"));
        lines.take_while(|line| !line.starts_with("## ") && !line.starts_with("### ")).collect::<Vec<_>>().join("\n")
    };
    let all = links.into_iter().map(|link| (lacks(&section(&link)), link));
    all.map(|(lack, link)| (link, lack)).collect()
}

#[test]
fn every_symptom_and_every_alarm_has_severity_containment_commands_and_what_they_print() {
    let page = fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let (symptoms, alarmed) = (symptoms(&page), alarmed());
    assert!(symptoms.len() >= 15 && alarmed.len() >= 20, "{symptoms:?} {alarmed:?}");
    let links = || symptoms.iter().chain(&alarmed).cloned().collect::<BTreeSet<_>>();
    let lacking = all_lack(&page, links()).into_iter().filter(|(_, lacks)| lacks.is_some()).collect::<Vec<_>>();
    assert!(lacking.is_empty(), "{lacking:?}");
    for (from, to, expected) in [
        ("**Severity:** page while it goes on", "It is urgent while it goes on", "a severity"),
        ("**Containment:** Do not purge the queue", "Do not purge the queue", "containment after its severity"),
        (
            "```sh\nhookonce stats --state DEAD --stack NAME\nhookonce list",
            "```\nhookonce stats --state DEAD --stack NAME\nhookonce list",
            "a block",
        ),
    ] {
        assert!(page.contains(from), "{from}");
        let changed = page.replace(from, to);
        let found: Vec<_> = all_lack(&changed, links()).into_iter().filter_map(|(_, lacks)| lacks).collect();
        assert!(matches!(found.as_slice(), [one] if one.starts_with(expected)), "{from}: {found:?}");
    }
    let silent = "**Severity:** page. **Containment:** None.\n```sh\nhookonce status\n```\nLook.";
    assert_eq!(lacks(silent), Some("what its commands print"));
    assert_eq!(lacks(&silent.replace("Look.", "It prints `PENDING`.")), None);
}

#[test]
fn what_a_page_says_below_a_block_is_found() {
    let page = "```sh\naws s3\n```\nIt prints `a`.\n\n```sh\nhookonce list\n```\n\nIt prints `b` with\n`--yes`. See `c`.\n\nprints `d`";
    let (commands, prints) = (vec!["list".to_owned()], vec!["b".to_owned()]);
    assert_eq!(blocks(page), [Block { commands, prints }]);
}
