//! Everything that a person can set or watch is documented.

use std::collections::BTreeSet;

use super::{Rule, file, none, only};
use crate::support::metrics::golden;
use crate::support::template::Template;

/// Names that a text does not contain as code.
fn unnamed<'a>(names: impl IntoIterator<Item = &'a str>, text: &str) -> Vec<String> {
    names.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).map(str::to_owned).collect()
}

#[test]
fn every_parameter_is_explained() {
    let rule = Rule(|template: &Template| unnamed(template.parameters(), &file("docs/run/deploy.md")));
    rule.finds([("  RequestBurstMax:\n    Type", "  RequestBurstMost:\n    Type", "RequestBurstMost")]);
}

/// What the table of the runbook lacks, and what it names that does not exist.
fn wrong(page: &str) -> Vec<String> {
    let table = page.split("\n## What to watch\n").nth(1).and_then(|rest| rest.split("\n\nAll ").next()).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `")).map(|line| line.split('|').nth(1).unwrap());
    let named: BTreeSet<_> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    named.symmetric_difference(&golden().names()).cloned().collect()
}

#[test]
fn every_metric_is_explained_and_no_other() {
    let page = file("docs/run/runbook.md");
    none(&wrong(&page));
    only(&wrong(&page.replacen("| `event_moved` |", "| `message_acknowledged` |", 1)), "event_moved");
    only(&wrong(&page.replacen("| `event_moved` |", "| `event_moved`, `event_lost` |", 1)), "event_lost");
}
