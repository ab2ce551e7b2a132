//! Alarms and graphs name metrics that exist: an alarm on any other metric never fires.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Rule, changed, file, only};
use crate::support::metrics::golden;
use crate::support::template::{Template, template, text as template_text};

/// Metrics of AWS that alarms watch. A misspelt one never has a value.
const OF_AWS: [(&str, &str); 5] = [
    ("AWS/ApiGateway", "4xx"),
    ("AWS/ApiGateway", "5xx"),
    ("AWS/ApiGateway", "Latency"),
    ("AWS/Lambda", "Errors"),
    ("AWS/SQS", "ApproximateNumberOfMessagesNotVisible"),
];

/// A metric that somebody watches: its namespace, its name, and the function whose it is.
type Watched = (String, String, Option<String>);

/// Each metric that an alarm watches.
pub(crate) fn watched_by(template: &Template, alarm: &str) -> Vec<Watched> {
    let parts = template.property(alarm, &["Metrics"]);
    let parts = parts.as_array().into_iter().flatten().map(|part| part["MetricStat"]["Metric"].clone());
    let metrics = parts.filter(|metric| !metric.is_null());
    let own = template.property(alarm, &[]);
    let metrics: Vec<_> = if own["MetricName"].is_null() { metrics.collect() } else { vec![own] };
    let function = |metric: &Value| {
        let dimensions = metric["Dimensions"].as_array().into_iter().flatten();
        dimensions.filter(|one| one["Name"] == "function").map(|one| text(&one["Value"])).next()
    };
    metrics.iter().map(|metric| (text(&metric["Namespace"]), text(&metric["MetricName"]), function(metric))).collect()
}

/// Each metric that a graph shows.
fn shown(dashboard: &Template) -> Vec<Watched> {
    let graphs = widgets(dashboard, "metric");
    let metrics = graphs.iter().flat_map(|graph| graph["metrics"].as_array().unwrap());
    let function = |metric: &Value| (metric[2] == "function").then(|| text(&metric[3]));
    metrics.map(|metric| (text(&metric[0]), text(&metric[1]), function(metric))).collect()
}

/// The text of the dashboard's template.
fn dashboard_text() -> String {
    file("deploy/dashboard.yaml")
}

/// The properties of the dashboard's widgets of one type.
fn widgets(dashboard: &Template, kind: &str) -> Vec<Value> {
    let body = dashboard.raw(&["Resources", "Dashboard", "Properties", "DashboardBody", "Fn::Sub", "0"]);
    let body = body.as_str().unwrap().replace("${Stack}", "AWS::StackName");
    let body: Value = serde_json::from_str(&body).expect("the dashboard is JSON");
    let widgets = body["widgets"].as_array().unwrap().iter();
    widgets.filter(|widget| widget["type"] == kind).map(|widget| widget["properties"].clone()).collect()
}

/// The query of each table of the dashboard that is counted from log lines.
pub(crate) fn log_queries() -> Vec<String> {
    widgets(&Template::parse(&dashboard_text()), "log").iter().map(|table| text(&table["query"])).collect()
}

/// Namespace and name of each metric whose alarm calls a person. One that is counted from log lines stands for what
/// the functions write into these lines.
pub(crate) fn paging() -> BTreeSet<(String, String)> {
    let template = template();
    let alarms = template.resources("AWS::CloudWatch::Alarm").into_iter();
    let pages = alarms.filter(|alarm| template.raw_text(alarm, "AlarmName").contains("/page/"));
    let filters: Vec<_> = filters(&template);
    let meant = |(namespace, metric, _): Watched| {
        let of = |filter: &&Filter| filter.metric == metric;
        let fields = filters.iter().filter(of).flat_map(Filter::fields).collect::<Vec<_>>();
        let names = if fields.is_empty() { vec![metric.clone()] } else { fields };
        names.into_iter().map(|name| (namespace.clone(), name)).collect::<Vec<_>>()
    };
    pages.flat_map(|alarm| watched_by(&template, alarm)).flat_map(meant).collect()
}

/// The namespace that the functions get.
fn own(template: &Template) -> String {
    let variables = ["Globals", "Function", "Environment", "Variables", "HOOKONCE_METRICS_NAMESPACE"];
    template.at(&variables).as_str().unwrap().to_owned()
}

/// Each signal counts a metric that is listed.
#[test]
fn every_signal_is_listed() {
    let source = file("shared/protocol/src/call.rs");
    let arms = source.split("fn metric(&self)").nth(1).and_then(|rest| rest.split("\n    }\n").next()).unwrap();
    let signals: Vec<_> = arms.split('"').skip(1).step_by(2).collect();
    let listed = golden().names();
    let missing: Vec<_> = signals.iter().filter(|signal| !listed.contains(**signal)).collect();
    assert!(signals.len() > 20 && missing.is_empty(), "{missing:?}");
}

/// What CloudWatch counts from the lines of a log group.
struct Filter {
    logs: String,
    pattern: String,
    metric: String,
}

impl Filter {
    /// The fields of a line that it reads.
    fn fields(&self) -> Vec<String> {
        let fields = self.pattern.split("$.").skip(1);
        fields.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()).collect()
    }
}

fn filters(template: &Template) -> Vec<Filter> {
    let filter = |filter: &str| {
        let property = |name| template.property(filter, &[name]);
        let metric = text(&property("MetricTransformations")[0]["MetricName"]);
        Filter { logs: text(&property("LogGroupName")), pattern: text(&property("FilterPattern")), metric }
    };
    template.resources("AWS::Logs::MetricFilter").into_iter().map(filter).collect()
}

/// Fields that a metric filter reads and no line of its log group has: such a filter counts nothing.
fn unlogged(template: &Template) -> Vec<String> {
    let format = template.property("Gateway", &["AccessLogSettings", "Format"]);
    let format: Value = serde_json::from_str(format.as_str().unwrap()).expect("the log's lines are JSON");
    let is_missing = |filter: &Filter, field: &String| match filter.logs.as_str() {
        "GatewayLogs" => format[field].is_null(),
        logs => !golden().has(&logs.trim_end_matches("Logs").to_lowercase(), field, false),
    };
    let missing = |filter: Filter| {
        let missing: Vec<_> = filter.fields().into_iter().filter(|field| is_missing(&filter, field)).collect();
        missing.into_iter().map(move |field| format!("{}: {field}", filter.logs))
    };
    filters(template).into_iter().flat_map(missing).collect()
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

/// What is watched and not counted. A metric of the stack is one of a function, or of a filter without a dimension.
fn uncounted(template: &Template, watched: Vec<Watched>) -> Vec<String> {
    let own = own(template);
    let filtered: BTreeSet<_> = filters(template).into_iter().map(|filter| filter.metric).collect();
    let finding = |(namespace, metric, function): Watched| match namespace {
        namespace if namespace == own => {
            let by = function.as_deref().unwrap_or("log");
            let is_counted = golden().has(by, &metric, false) && (by != "log" || filtered.contains(&metric));
            (!is_counted).then(|| format!("{metric} is not counted by {by}"))
        }
        namespace if namespace.starts_with("AWS/") => None,
        namespace => Some(format!("{metric} is counted in {own}, not in {namespace}")),
    };
    watched.into_iter().filter_map(finding).collect()
}

fn findings(template: &Template) -> Vec<String> {
    let alarms = template.resources("AWS::CloudWatch::Alarm").into_iter();
    let watched: Vec<_> = alarms.flat_map(|alarm| watched_by(template, alarm)).collect();
    let is_unknown = |(namespace, metric, _): &&Watched| {
        namespace.starts_with("AWS/") && !OF_AWS.contains(&(namespace.as_str(), metric.as_str()))
    };
    let unknown =
        watched.iter().filter(is_unknown).map(|(namespace, metric, _)| format!("{namespace} has no {metric}"));
    unknown.collect::<Vec<_>>().into_iter().chain(uncounted(template, watched)).collect()
}

#[test]
fn a_metric_filter_reads_what_is_in_the_lines() {
    Rule(unlogged).finds([("{ $.status = ", "{ $.code = ", "GatewayLogs: code")]);
    for filter in filters(&template()) {
        for field in filter.fields() {
            let misspelt = filter.pattern.replacen(&format!("$.{field} "), &format!("$.{field}s "), 1);
            let found = unlogged(&changed(&format!("'{}'", filter.pattern), &format!("'{misspelt}'")));
            only(&found, &format!(": {field}s"));
        }
    }
}

/// Who is told that something needs a look finds it with the pattern that counted it.
#[test]
fn the_runbook_finds_the_lines_that_need_a_look() {
    let runbook = file("docs/run/runbook.md");
    let unfindable = |template: &Template| {
        let filters = filters(template).into_iter().filter(|filter| filter.metric == "needs_a_look");
        let finds = |filter: &Filter| {
            let logs = filter.logs.replace("Logs", "_LOGS").to_uppercase();
            runbook.contains(&format!("aws logs tail {logs} --since 1h --filter-pattern '{}'\n", filter.pattern))
        };
        filters.filter(|filter| !finds(filter)).map(|filter| filter.logs).collect()
    };
    Rule(unfindable).finds([("|| $.destination_unknown > 0 ", "", "DispatcherLogs")]);
}

/// A merged alarm is quiet for ever if one of its metrics is misspelt.
#[test]
fn no_metric_of_an_alarm_can_be_misspelt() {
    let mut misspelt = 0;
    for alarm in template().resources("AWS::CloudWatch::Alarm") {
        for (_, metric, _) in watched_by(&template(), alarm) {
            let text = template_text();
            let (before, rest) = text.split_once(&format!("\n  {alarm}:\n")).unwrap();
            let broken = rest.replacen(&format!("MetricName: {metric}\n"), &format!("MetricName: {metric}s\n"), 1);
            let found = findings(&Template::parse(&format!("{before}\n  {alarm}:\n{broken}")));
            only(&found, &format!("{metric}s"));
            misspelt += 1;
        }
    }
    let alarms = template().resources("AWS::CloudWatch::Alarm").len();
    assert!(misspelt >= alarms, "{misspelt} metrics of {alarms} alarms");
}

#[test]
fn every_metric_that_is_watched_is_counted() {
    let filter = |metric: &str| format!("MetricName: {metric}, MetricValue");
    Rule(findings).finds([
        (&filter("records_overdue"), &filter("records_late"), "records_overdue is not counted"),
        ("MetricName: relay_untried_resends", "MetricName: relay_resends", "relay_resends"),
        (
            "Name: function, Value: webhook }",
            "Name: function, Value: worker }",
            "delivery_retry_please is not counted by worker",
        ),
        (
            "      MetricName: relay_ran\n      Dimensions: [{ Name: function, Value: relay }]\n",
            "      MetricName: relay_ran\n",
            "relay_ran is not counted by log",
        ),
    ]);
}

#[test]
fn every_metric_that_the_dashboard_shows_is_counted() {
    let found = |from: &str, to: &str| {
        let text = dashboard_text();
        assert!(text.contains(from), "{from}");
        uncounted(&template(), shown(&Template::parse(&text.replacen(from, to, 1))))
    };
    let metrics = shown(&Template::parse(&dashboard_text()));
    assert!(metrics.len() >= 20, "the dashboard was not understood: {metrics:?}");
    assert_eq!(uncounted(&template(), metrics), [""; 0]);
    only(&found("\"delivery_accepted\"", "\"deliveries\""), "deliveries is not counted by webhook");
    only(
        &found("\"event_applied\", \"function\", \"worker\"", "\"event_applied\", \"function\", \"relay\""),
        "by relay",
    );
    let namespace = "[[\"hookonce/${Stack}\", \"relay_due\"";
    only(
        &found(namespace, &namespace.replace("/${Stack}", "")),
        "relay_due is counted in hookonce/AWS::StackName, not in hookonce",
    );
}

/// A parameter that nobody fills in stops the command of the page.
#[test]
fn the_dashboard_takes_the_outputs_of_the_stack() {
    let dashboard = Template::parse(&dashboard_text());
    let outputs = template().at(&["Outputs"]);
    let strange: Vec<_> =
        dashboard.parameters().into_iter().filter(|name| *name != "Stack" && outputs[name].is_null()).collect();
    assert_eq!(strange, [""; 0]);
    assert!(dashboard.parameters().contains(&"Stack"));
}
