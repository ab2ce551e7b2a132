//! `cost`: the bill that the pages show, for any load and for a stack's own.

use std::fs;

use serde_json::{Value, json as object};

use crate::aws::{Aws, Interception};
use crate::support::{Ended, Workspace, json, root, text};

/// The most characters of a line.
const COLUMNS: usize = 80;

fn printed(workspace: &Workspace, command: &str) -> String {
    let output = workspace.run(&command.split(' ').collect::<Vec<_>>()).exits(0);
    assert!(output.stderr.is_empty(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands of a page that are alone in their block, and the text that follows.
fn shown(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```sh\nhookonce ").skip(1);
    blocks
        .filter_map(|rest| rest.split_once("\n```\n\n```text\n"))
        .map(|(command, rest)| (command, rest.split("\n```").next().unwrap()))
        .collect()
}

#[test]
fn the_page_shows_what_the_command_prints() {
    let workspace = Workspace::new();
    let page = fs::read_to_string(root().join("docs/run/deploy.md")).unwrap();
    let shown: Vec<_> = shown(&page).into_iter().filter(|(command, _)| command.starts_with("cost")).collect();
    assert_eq!(shown.iter().map(|(command, _)| *command).collect::<Vec<_>>(), ["cost", "cost --events 0"]);
    for (command, output) in shown {
        assert_eq!(output, printed(&workspace, command).trim_end(), "{command}");
    }
}

#[test]
fn a_bill_fits_a_terminal_and_the_help_a_screen() {
    let workspace = Workspace::new();
    for command in [
        "cost",
        "cost --events 0",
        "cost --events 1M --effects 2",
        "cost --events 100M --body-bytes 200k --effects 3 --duplicates 1",
        "cost --events 1000,20k,300k,4M,50M",
    ] {
        let output = printed(&workspace, command);
        let longest = output.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= COLUMNS, "{command}: {longest}");
    }
    let dash = "A dash: such a body does not fit";
    assert!(printed(&workspace, "cost --events 1M --body-bytes 1500k").contains(dash));
    assert!(!printed(&workspace, "cost --events 1M --body-bytes 400k").contains(dash));
    let help = printed(&workspace, "cost --help");
    assert!(help.lines().count() <= 24 && help.matches("\n  hookonce cost").count() == 2, "{help}");
}

#[test]
fn json_has_the_same_lines_with_units_and_the_sources_of_prices() {
    let workspace = Workspace::new();
    let report = json(&workspace.run(&["cost", "--events", "0,1M", "--json"]));
    let [rest, busy] = &report["bills"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!(
        (&rest["events"], &rest["list"], &rest["after_free"]),
        (&object!(0.0), &object!(3.04), &object!(0.9677))
    );
    let line = |bill: &Value, name: &str| {
        bill["lines"].as_array().unwrap().iter().find(|line| line["line"] == name).cloned().unwrap()
    };
    assert_eq!(line(rest, "queue_requests")["units"], 1_987_200.0);
    assert_eq!(line(busy, "write_units")["units"], 15_040_000.0);
    assert_eq!((&report["body_bytes"], &report["write_units_of_an_event"]), (&object!(2048.0), &object!(15.0)));
    assert_eq!(busy["instead"].as_array().unwrap().len(), 5);
    for line in busy["lines"].as_array().unwrap() {
        let price = &report["prices"][line["line"].as_str().unwrap()];
        assert!(price["sources"][0].as_str().unwrap().starts_with("https://") && price["read"].is_string(), "{line}");
    }
}

#[test]
fn a_load_that_cannot_be_is_refused_with_the_next_step() {
    let workspace = Workspace::new();
    for (arguments, expected) in [
        (&["--events=-1"][..], "a number, such as 1500, 10k or 2.5M"),
        (&["--events", "1,000,000"], "a number, such as 1500, 10k or 2.5M"),
        (&["--events", "many"], "a number, such as 1500, 10k or 2.5M"),
        (&["--effects", "101"], "a number from 0 to 100, such as 0.05"),
        (&["--duplicates", "nan"], "a number from 0 to 100, such as 0.05"),
        (&["--body-bytes", "6M"], "try: --body-bytes for a record of at most"),
        (&["--stack", "inbox", "--events", "1k"], "cannot be used with"),
    ] {
        workspace.run(&[&["cost"], arguments].concat()).exits(2).prints(expected);
    }
    workspace
        .run(&["cost", "--events", "1,234,567"])
        .exits(0)
        .prints("this is 3 months. For one number: --events 1234567");
    workspace.run(&["cost", "--events", "500,2k"]).exits(0).omits("commas");
}

#[test]
fn a_stack_is_billed_by_what_it_counted_in_thirty_days() {
    let (workspace, aws) = (Workspace::new(), Aws::start());
    let cost = |more: &[&str]| {
        workspace.run_with_environment(&[&["cost", "--stack", "inbox"], more].concat(), &aws.signed_in())
    };
    cost(&[]).exits(2).prints_all(&["no metric of a stack inbox", "check the stack's name"]);
    aws.account().sums.extend([
        (("relay", "relay_ran"), vec![1_440.0; 30]),
        (("webhook", "delivery_accepted"), vec![1_500.0, 2_500.0]),
        (("webhook", "delivery_duplicate"), vec![100.0]),
        (("dispatcher", "effect_delivered"), vec![2_000.0]),
        (("webhook", "delivery_refused"), vec![7.0]),
    ]);
    let report = json(&cost(&["--json"]).exits(0));
    let bill = &report["bills"][0];
    let load = ["events", "duplicates_per_event", "effects_per_event", "refused"].map(|name| bill[name].clone());
    assert_eq!(load, [object!(4_000.0), object!(0.025), object!(0.5), object!(7.0)]);
    cost(&["--body-bytes", "8k"]).exits(0).prints_all(&["4,000 EVENTS", "Refused requests of strangers: 7."]);
    cost(&[]).exits(0).prints("No metric has the length of the bodies").omits("of 30 days");
    aws.account().sums.insert(("relay", "relay_ran"), vec![1_440.0; 3]);
    cost(&[]).exits(0).prints("ran for 3 of 30 days");
    aws.account().snags.push_back(("GetMetricStatistics", Interception::Answered("AccessDenied")));
    cost(&[]).exits(3).prints("ask for the permission cloudwatch:GetMetricStatistics");
    let quiet = ["webhook", "dispatcher"];
    aws.account().sums.retain(|(function, _), _| !quiet.contains(function));
    cost(&[]).exits(0).prints("AT REST");
}
