//! Alarms and graphs name metrics that exist: an alarm on any other metric never fires.

use std::collections::BTreeSet;

use hookonce_runtime::telemetry::METRICS;
use serde_json::Value;

use super::{Rule, file};
use crate::support::template::{Template, template};

/// Namespace and name of each metric that the template watches.
fn watched(template: &Template) -> BTreeSet<(String, String)> {
    let alarms = template.resources("AWS::CloudWatch::Alarm");
    let alarms = alarms.into_iter().filter(|alarm| !template.property(alarm, &["Namespace"]).is_null());
    let mut watched: BTreeSet<_> = alarms
        .map(|alarm| {
            (text(&template.property(alarm, &["Namespace"])), text(&template.property(alarm, &["MetricName"])))
        })
        .collect();
    for graph in widgets(template, "metric") {
        let metrics = graph["metrics"].as_array().unwrap().iter();
        watched.extend(metrics.map(|metric| (text(&metric[0]), text(&metric[1]))));
    }
    watched
}

/// The properties of the dashboards' widgets of one type.
fn widgets(template: &Template, kind: &str) -> Vec<Value> {
    let widgets = template.resources("AWS::CloudWatch::Dashboard").into_iter().flat_map(|dashboard| {
        let body = template.raw_text(dashboard, "DashboardBody").replace("${AWS::StackName}", "AWS::StackName");
        let body: Value = serde_json::from_str(&body).expect("the dashboard is JSON");
        body["widgets"].as_array().unwrap().clone()
    });
    widgets.filter(|widget| widget["type"] == kind).map(|widget| widget["properties"].clone()).collect()
}

/// The query of each table of the dashboard that is counted from log lines.
pub(crate) fn log_queries() -> Vec<String> {
    widgets(&template(), "log").iter().map(|table| text(&table["query"])).collect()
}

/// Namespace and name of each metric whose alarm calls a person.
pub(crate) fn paging() -> BTreeSet<(String, String)> {
    let template = template();
    let alarms = template.resources("AWS::CloudWatch::Alarm").into_iter();
    let pages = alarms.filter(|alarm| template.raw_text(alarm, "AlarmName").contains("/page/"));
    let property = |alarm, name| text(&template.property(alarm, &[name]));
    pages.map(|alarm| (property(alarm, "Namespace"), property(alarm, "MetricName"))).collect()
}

/// The namespace that the functions get.
fn own(template: &Template) -> String {
    let variables = ["Globals", "Function", "Environment", "Variables", "HOOKONCE_METRICS_NAMESPACE"];
    template.at(&variables).as_str().unwrap().to_owned()
}

/// Metrics that are counted: the listed ones, and those of signals as the sources name them.
pub(crate) fn counted() -> BTreeSet<String> {
    let source = file("shared/protocol/src/call.rs");
    let arms = source.split("fn metric(&self)").nth(1).and_then(|rest| rest.split("\n    }\n").next()).unwrap();
    let signals = arms.split('"').skip(1).step_by(2).map(str::to_owned);
    METRICS.iter().map(|metric| (*metric).to_owned()).chain(signals).collect()
}

/// Metrics that CloudWatch counts from the lines of a log group.
fn filtered(template: &Template) -> BTreeSet<String> {
    let filters = template.resources("AWS::Logs::MetricFilter").into_iter();
    let name = |filter| template.property(filter, &["MetricTransformations"])[0]["MetricName"].clone();
    filters.filter_map(|filter| name(filter).as_str().map(str::to_owned)).collect()
}

/// Fields of the gateway's log that a metric filter reads and the log does not have: such a filter counts nothing.
fn unlogged(template: &Template) -> Vec<String> {
    let format = template.property("Gateway", &["AccessLogSettings", "Format"]);
    let format: Value = serde_json::from_str(format.as_str().unwrap()).expect("the log's lines are JSON");
    let filters = template.resources("AWS::Logs::MetricFilter").into_iter();
    let patterns = filters.map(|filter| text(&template.property(filter, &["FilterPattern"])));
    let fields = patterns.flat_map(|pattern| {
        let fields = pattern.split("$.").skip(1).map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
        fields.collect::<Vec<_>>()
    });
    fields.filter(|field| format[field].is_null()).collect()
}

/// What API Gateway itself says of a request. Everything else may be as a stranger wrote it.
const LOGGED: [&str; 9] = [
    "requestId",
    "requestTimeEpoch",
    "identity.sourceIp",
    "routeKey",
    "status",
    "responseLength",
    "responseLatency",
    "integrationLatency",
    "integrationErrorMessage",
];

/// Fields of the gateway's log that a stranger may write: the line is JSON, and nothing is known to escape them.
fn strange(template: &Template) -> Vec<String> {
    let format = text(&template.property("Gateway", &["AccessLogSettings", "Format"]));
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    let variables =
        format.split('$').skip(1).map(|rest| rest.split(|letter| !is_name(letter)).next().unwrap_or_default());
    let known = |variable: &&str| variable.strip_prefix("context.").is_some_and(|name| LOGGED.contains(&name));
    variables.filter(|variable| !known(variable)).map(|variable| format!("the log has {variable}")).collect()
}

#[test]
fn nothing_that_a_stranger_writes_is_in_the_gateways_log() {
    Rule(strange).finds([
        ("$context.routeKey", "$context.path", "context.path"),
        ("$context.routeKey", "$context.httpMethod", "context.httpMethod"),
        ("$context.routeKey", "$request.header.x", "request.header.x"),
    ]);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn findings(template: &Template) -> Vec<String> {
    let (mut counted, own) = (counted(), own(template));
    counted.extend(filtered(template));
    let finding = |(namespace, metric): (String, String)| match namespace {
        namespace if namespace == own => (!counted.contains(&metric)).then(|| format!("{metric} is not counted")),
        namespace if namespace.starts_with("AWS/") => None,
        namespace => Some(format!("{metric} is counted in {own}, not in {namespace}")),
    };
    watched(template).into_iter().filter_map(finding).collect()
}

#[test]
fn a_metric_filter_reads_what_the_gateway_logs() {
    Rule(unlogged).finds([("{ $.status = ", "{ $.code = ", "code")]);
}

#[test]
fn every_metric_that_is_watched_is_counted() {
    let filter = |metric: &str| format!("MetricName: {metric}\n          MetricValue");
    let graph = |namespace: &str| format!("[[\"{namespace}\", \"relay_due\"");
    Rule(findings).finds([
        (&filter("gateway_throttled"), &filter("throttled"), "gateway_throttled"),
        ("MetricName: relay_oldest_due_age_ms", "MetricName: relay_oldest_age_ms", "relay_oldest_age_ms"),
        ("\"delivery_accepted\"", "\"deliveries\"", "deliveries"),
        (
            &graph("hookonce/${AWS::StackName}"),
            &graph("hookonce"),
            "relay_due is counted in hookonce/AWS::StackName, not in hookonce",
        ),
    ]);
    let watched = watched(&template());
    assert!(watched.len() >= 20, "the template was not understood: {watched:?}");
}
