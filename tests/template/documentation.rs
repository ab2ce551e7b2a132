//! Everything that a person can set or watch is documented.

use std::path::Path;

use super::metrics::counted;
use super::{changed, none, only, template};

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

/// Names that a text does not contain as code.
fn unnamed<'a>(names: impl IntoIterator<Item = &'a str>, text: &str) -> Vec<String> {
    names.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).map(str::to_owned).collect()
}

#[test]
fn every_parameter_is_explained() {
    none(&unnamed(template().parameters(), &document("deploy.md")));
    let planted = changed("  RequestBurstMax:\n    Type", "  RequestBurstMost:\n    Type");
    only(&unnamed(planted.parameters(), &document("deploy.md")), "RequestBurstMost");
}

#[test]
fn every_metric_is_explained() {
    let counted = counted();
    none(&unnamed(counted.iter().map(String::as_str), &document("runbook.md")));
}

#[test]
fn the_number_of_alarms_that_are_paid_for_is_right() {
    let alarms = template().resources("AWS::CloudWatch::Alarm").len();
    assert!(document("deploy.md").contains(&format!("creates {alarms} alarms")), "{alarms} alarms");
}
