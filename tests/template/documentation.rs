//! Everything that a person can set or watch is documented.

use super::metrics::counted;
use super::{Rule, file, none};
use crate::support::template::Template;

/// Names that a text does not contain as code.
fn unnamed<'a>(names: impl IntoIterator<Item = &'a str>, text: &str) -> Vec<String> {
    names.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).map(str::to_owned).collect()
}

#[test]
fn every_parameter_is_explained() {
    let rule = Rule(|template: &Template| unnamed(template.parameters(), &file("docs/deploy.md")));
    rule.finds([("  RequestBurstMax:\n    Type", "  RequestBurstMost:\n    Type", "RequestBurstMost")]);
}

#[test]
fn every_metric_is_explained() {
    let counted = counted();
    none(&unnamed(counted.iter().map(String::as_str), &file("docs/runbook.md")));
}
