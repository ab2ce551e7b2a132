//! Alarms and graphs name metrics that exist: one that does not never raises an alarm.

use std::collections::BTreeSet;
use std::path::Path;

use hookonce_runtime::telemetry::{METRICS, NAMESPACE};
use serde_json::Value;

use super::document::Template;
use super::{changed, none, only, template};

/// Metrics of this project that the template names.
fn named(template: &Template) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for alarm in template.resources("AWS::CloudWatch::Alarm") {
        if template.property(alarm, &["Namespace"]) == NAMESPACE {
            named.insert(template.property(alarm, &["MetricName"]).as_str().unwrap().to_owned());
        }
    }
    for dashboard in template.resources("AWS::CloudWatch::Dashboard") {
        let body = template.raw_text(dashboard, "DashboardBody");
        let body: Value = serde_json::from_str(&body).expect("the dashboard is JSON");
        let widgets = body["widgets"].as_array().unwrap().iter();
        let metrics = widgets.flat_map(|widget| widget["properties"]["metrics"].as_array().unwrap());
        named.extend(
            metrics.filter(|metric| metric[0] == NAMESPACE).map(|metric| metric[1].as_str().unwrap().to_owned()),
        );
    }
    named
}

/// Metrics that are counted: the listed ones, and those of signals as the sources name them.
pub(super) fn counted() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/protocol/src/call.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let arms = source.split("fn metric(self)").nth(1).and_then(|rest| rest.split("\n    }\n").next()).unwrap();
    let signals = arms.split('"').skip(1).step_by(2).map(str::to_owned);
    METRICS.iter().map(|metric| (*metric).to_owned()).chain(signals).collect()
}

fn findings(template: &Template) -> Vec<String> {
    let counted = counted();
    named(template)
        .into_iter()
        .filter(|metric| !counted.contains(metric))
        .map(|metric| format!("{metric} is not counted"))
        .collect()
}

#[test]
fn every_metric_that_is_watched_is_counted() {
    none(&findings(&template()));
    assert!(named(&template()).len() >= 10, "the template was not understood: {:?}", named(&template()));
    only(
        &findings(&changed("MetricName: relay_oldest_due_age_ms", "MetricName: relay_oldest_age_ms")),
        "relay_oldest_age_ms",
    );
    only(&findings(&changed("\"delivery_accepted\"", "\"deliveries\"")), "deliveries");
}
