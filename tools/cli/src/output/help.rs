//! The help texts: each ends with examples, and is as short as its options let it be.

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory as _};

use crate::records::Filter;
use crate::{Arguments, NAME};

/// The help of a command: no blank line before its usage.
const TEMPLATE: &str = "{about}\n{usage-heading} {usage}\n\n{all-args}{after-help}";

/// How to see more, in the help of the program.
const LOGS: &str = "Also: `COMMAND --help`, `completions SHELL`, `man DIR`. RUST_LOG=info logs more.";

/// What the help of the program describes. It names the others, so that it fits on a screen.
const EVERY_DAY: [&str; 12] = [
    "dev",
    "new",
    "trigger",
    "verify",
    "endpoint",
    "destination",
    "route",
    "list",
    "show",
    "replay",
    "status",
    "doctor",
];

/// The command line, with examples.
pub(crate) fn command() -> Command {
    let command = with_examples(Arguments::command(), "");
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let template = format!("{{about}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{}{{after-help}}", commands(&command));
    command.help_template(template).after_help(format!("{after}\n{LOGS}"))
}

/// The commands of every day with what each does, and the names of all others.
fn commands(command: &Command) -> String {
    let literal = command.get_styles().get_literal();
    let line = |name: &str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        format!("  {literal}{name:11}{literal:#}  {}\n", about.unwrap_or_default())
    };
    let others = command.get_subcommands().filter(|other| !other.is_hide_set()).map(Command::get_name);
    let others: Vec<_> = others.filter(|name| !EVERY_DAY.contains(name)).collect();
    let others = format!("Others: {}.", others.join(", "));
    EVERY_DAY.map(line).concat() + &textwrap::fill(&others, 80)
}

/// A command and those below it. `path` is what is typed before its own subcommands.
fn with_examples(command: Command, path: &str) -> Command {
    let examples = EXAMPLES.iter().filter(|(of, _)| *of == path).flat_map(|(_, examples)| examples.iter());
    let mut lines: Vec<_> = examples.map(|example| format!("  {NAME} {example}")).collect();
    lines.insert(0, "Examples:".to_owned());
    let command = if matches!(path, "replay" | "discard" | "doubt" | "redact") {
        lines.insert(0, format!("It takes records by --key, or by the filters of `{NAME} list --help`.\n"));
        without_filters(command)
    } else {
        command
    };
    // Both forms print what fits on a screen. The manual pages have the rest.
    let help = Arg::new("help").short('h').long("help").help("Print help").action(ArgAction::HelpShort);
    let command = command.disable_help_flag(true).arg(help).after_help(lines.join("\n")).help_template(TEMPLATE);
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    command.mut_subcommands(|inner| {
        let path = below(inner.get_name());
        with_examples(inner, &path)
    })
}

/// A command whose short help leaves out the filters of records. They are many, and `list` has the same.
fn without_filters(command: Command) -> Command {
    let filters = Filter::augment_args(Command::new(NAME));
    filters
        .get_arguments()
        .fold(command, |command, filter| command.mut_arg(filter.get_id(), |it| it.hide_short_help(true)))
}

/// Two examples or more for each command, by its name.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["dev", "trigger stripe.invoice.paid --copies 3"]),
    ("demo", &["demo", "demo --kill 3 --json"]),
    (
        "storm",
        &[
            "storm http://127.0.0.1:3000/hook --provider stripe --sink 9099",
            "storm http://127.0.0.1:3000/hook --provider stripe -- cat mails.log",
        ],
    ),
    (
        "dev",
        &[
            "dev --forward http://127.0.0.1:3000/webhooks",
            r#"dev --handler "plan=python -m hookonce.runtime app.lambda_handler""#,
        ],
    ),
    ("console", &["console", "console --stack inbox --allow-changes"]),
    (
        "send",
        &[
            "send --provider stripe --file event.json",
            "send --provider github --file push.json --header x-github-event:push",
        ],
    ),
    (
        "trigger",
        &[
            "trigger stripe.invoice.paid --copies 3 --concurrency 3",
            "trigger github.push --url https://HOST/webhooks/git --secret -",
        ],
    ),
    ("pull", &["pull stripe evt_1 --stack inbox", "pull github 72d3162e --stack inbox --json"]),
    (
        "submit",
        &[
            "submit --endpoint jobs --key order-1 --type job.made --file job.json",
            "submit --endpoint jobs --key a --type job.made --file - --wait",
        ],
    ),
    ("verify", &["verify --last", "verify --endpoint stripe --curl curl.txt --body body.json"]),
    ("explain", &["explain UNROUTED", "explain RecordsDied"]),
    ("providers", &["providers", "providers stripe"]),
    (
        "deploy",
        &[
            "deploy --template URL --plan",
            "deploy --template URL --stack inbox AlarmTopicArn=arn:aws:sns:eu-central-1:1:a",
        ],
    ),
    ("endpoint", &["endpoint add shop --provider shopify --secret -", "endpoint list"]),
    (
        "endpoint add",
        &["endpoint add shop --provider shopify --secret -", "endpoint add git --provider github --stack inbox"],
    ),
    ("endpoint list", &["endpoint list", "endpoint list --stack inbox --json"]),
    ("endpoint show", &["endpoint show stripe", "endpoint show github --reveal"]),
    ("endpoint rotate", &["endpoint rotate stripe --secret -", "endpoint rotate stripe --retire --stack inbox"]),
    ("endpoint check", &["endpoint check", "endpoint check shop.json"]),
    ("endpoint remove", &["endpoint remove shop", "endpoint remove shop --stack inbox"]),
    ("endpoint import", &["endpoint import tenants.jsonl --stack inbox", "endpoint import - --json"]),
    ("destination", &["destination list --ready", "destination test crm"]),
    (
        "destination add",
        &["destination add stripe --secret -", "destination add jobs --queue https://sqs.eu-west-1.amazonaws.com/1/j"],
    ),
    ("destination list", &["destination list", "destination list --ready"]),
    ("destination show", &["destination show crm", "destination show crm --reveal --stack inbox"]),
    ("destination rotate", &["destination rotate crm", "destination rotate stripe --secret - --stack inbox"]),
    ("destination check", &["destination check", "destination check crm.json"]),
    ("destination remove", &["destination remove crm", "destination remove crm --stack inbox"]),
    ("destination test", &["destination test crm --yes", "destination test stripe --path /customers --file form.txt"]),
    ("route", &["route check", "route deploy routes.json"]),
    ("route check", &["route check", "route check routes.json --stack inbox"]),
    (
        "route explain",
        &[
            "route explain --endpoint stripe --file event.json",
            "route explain --endpoint stripe --file event.json --json",
        ],
    ),
    ("route deploy", &["route deploy routes.json", "route deploy routes.json --stack inbox"]),
    ("route show", &["route show", "route show --stack inbox"]),
    ("list", &["list --state DEAD", "list --endpoint stripe --type invoice.paid --since 7d"]),
    ("show", &["show stripe evt_first --items", "show stripe evt_first --wait=30s"]),
    (
        "replay",
        &[
            "replay --state DEAD --error INVOICE_UNREADABLE",
            r#"replay --key stripe evt_1 --reason "handler fixed" --yes"#,
        ],
    ),
    (
        "discard",
        &[r#"discard --key stripe evt_1 --reason "a test event" --yes"#, "discard --state DEAD --endpoint stripe"],
    ),
    (
        "doubt",
        &[
            "doubt --stack inbox --table copy --domain-table copy-domain",
            r#"doubt --since 2026-11-20T08:00:00Z --reason "restored" --yes 12"#,
        ],
    ),
    (
        "redact",
        &[r#"redact --key stripe evt_1 --reason "asked for" --yes"#, "redact --endpoint stripe --until 30d --scan"],
    ),
    (
        "pause",
        &[
            r#"pause worker --reason "a wrong deploy" --stack inbox"#,
            r#"pause dispatcher --reason "the callee books twice" --yes"#,
        ],
    ),
    ("resume", &["resume worker --stack inbox", r#"resume dispatcher --reason "fixed""#]),
    ("cost", &["cost --events 1M --body-bytes 8k --effects 1", "cost --stack inbox"]),
    ("status", &["status", "status --stack inbox"]),
    ("doctor", &["doctor", "doctor --stack inbox"]),
    ("stats", &["stats --state DEAD", "stats --endpoint stripe --since 7d"]),
    ("audit", &["audit --scan", "audit --stack inbox --rate 100"]),
    ("drill", &["drill --state APPLIED --limit 100", "drill --key stripe evt_1"]),
    ("new", &["new --handler python billing", "new --handler rust billing"]),
    ("completions", &["completions bash", "completions zsh"]),
    ("man", &["man ~/.local/share/man/man1", "man pages"]),
];

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The columns of a small terminal, and its lines above a prompt.
    const LINES_MAX: usize = 23;
    const COLUMNS: usize = 80;

    /// The help of each command, by its name.
    fn helps(command: &Command, path: &str, found: &mut Vec<(String, String)>) {
        let help = command.clone().term_width(COLUMNS).try_get_matches_from(["hookonce", "--help"]).unwrap_err();
        found.push((path.to_owned(), help.to_string()));
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            helps(inner, format!("{path} {}", inner.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_help_fits_on_a_screen_and_ends_with_examples_that_can_be_typed() {
        let mut found = Vec::new();
        helps(&command(), "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        let mut faults = Vec::new();
        for (path, help) in found {
            let lines = help.trim_end().lines().count();
            if lines > LINES_MAX {
                faults.push(format!("{path}: {lines} lines"));
            }
            if help.lines().any(|line| line.chars().count() > COLUMNS) {
                faults.push(format!("{path}: a line is too long"));
            }
            let examples: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("  hookonce ")).collect();
            if examples.len() < 2 {
                faults.push(format!("{path}: {} examples", examples.len()));
            }
            for example in examples {
                let words = shlex::split(example).unwrap();
                if let Err(error) = Arguments::try_parse_from(["hookonce".to_owned()].into_iter().chain(words)) {
                    faults.push(format!("{path}: {example}: {error}"));
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
