//! Metric lines: CloudWatch's embedded metric format, and nothing in them that is not meant to be there.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hookonce_protocol::call::Signal;
use hookonce_protocol::check::PlanError;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{DeadReason, Outcome};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::drive::Driven;
use hookonce_runtime::process::{Processed, respond};
use hookonce_runtime::telemetry::{Counts, METRICS, Telemetry};
use serde_json::{Value, json};

use crate::support::Harness;
use crate::support::counting::{count, counted, counting};
use crate::support::logs::Logs;
use crate::support::roles::texts;
use crate::template::metrics::{counted as known_metrics, log_queries};

/// What CloudWatch accepts in one line, by the specification of its embedded metric format.
const METRICS_MAX: usize = 100;
const DIMENSIONS_MAX: usize = 30;

/// Members of a line that are neither metric nor dimension: for a search in the log.
const PROPERTIES: [&str; 5] = ["request_id", "endpoint", "tenant", "body_bytes", "body_sha256"];

fn emitted(counts: &Counts) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&lines);
    let sink = Arc::new(move |line: &str| into.lock().unwrap().push(line.to_owned()));
    Telemetry::new("worker", "hookonce/stack", sink).emit(counts, EpochMs(1_767_225_600_123));
    lines.lock().unwrap().clone()
}

/// What is wrong with a line as a metric line.
fn faults(line: &str) -> Vec<String> {
    let parsed: Value = serde_json::from_str(line).unwrap();
    let directive = &parsed["_aws"]["CloudWatchMetrics"][0];
    let dimensions: Vec<_> = directive["Dimensions"].as_array().unwrap().iter().map(texts).collect();
    let metrics = directive["Metrics"].as_array().unwrap();
    let names: Vec<_> = metrics.iter().map(|metric| metric["Name"].as_str().unwrap().to_owned()).collect();
    let named = dimensions.iter().flatten().chain(&names).cloned();
    let known: BTreeSet<String> = named.chain(PROPERTIES.map(str::to_owned)).chain(["_aws".to_owned()]).collect();
    let units = |metric: &Value| {
        let wanted = if metric["Name"].as_str().unwrap().ends_with("_ms") { "Milliseconds" } else { "Count" };
        metric["Unit"] == wanted && metric.as_object().unwrap().len() == 2
    };
    let strange: Vec<_> = parsed.as_object().unwrap().keys().filter(|name| !known.contains(*name)).collect();
    let rules = [
        ("is no single line", !line.contains('\n')),
        ("has no time", parsed["_aws"]["Timestamp"].is_i64()),
        ("has another directive", parsed["_aws"].as_object().unwrap().len() == 2),
        ("has no namespace", directive["Namespace"].as_str().is_some_and(|name| name.starts_with("hookonce"))),
        ("has no metric, or too many", (1..=METRICS_MAX).contains(&names.len())),
        (
            "has a dimension set that is no list",
            directive["Dimensions"].as_array().unwrap().iter().all(Value::is_array),
        ),
        ("has too many dimensions", dimensions.iter().all(|set| set.len() <= DIMENSIONS_MAX)),
        ("has a dimension that is no text", dimensions.iter().flatten().all(|name| parsed[name].is_string())),
        ("has a metric that is no number", names.iter().all(|name| parsed[name].is_i64())),
        ("has a wrong unit", metrics.iter().all(units)),
        ("has more than is allowed", strange.is_empty()),
    ];
    rules.iter().filter(|(_, holds)| !holds).map(|(what, _)| format!("{what}: {line}")).collect()
}

#[test]
fn a_metric_line_has_the_shape_that_cloudwatch_reads() {
    let mut counts = Counts::default();
    counts.add("event_applied", 2);
    counts.add("event_applied", 1);
    counts.set("delivery_duration_ms", 12);
    let key = || RecordKey::delivery(&EndpointId::parse("stripe").unwrap(), "evt_1");
    counts.signals(&[
        Signal::ClaimReplyLost,
        Signal::RecordDead { key: key(), reason: DeadReason::Stale },
        Signal::PlanRefused { key: key(), error: PlanError::TooLarge },
    ]);
    counts.code("signature_mismatch");
    counts.property("endpoint", "stripe");
    counts.property("body_sha256", "a\nb\"c");
    let lines = emitted(&counts);
    assert_eq!(faults(&lines[0]), [""; 0]);
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    let metrics = json!([
        { "Name": "delivery_duration_ms", "Unit": "Milliseconds" }, { "Name": "event_applied", "Unit": "Count" },
        { "Name": "handler_failed", "Unit": "Count" }, { "Name": "own_retry", "Unit": "Count" },
        { "Name": "record_dead", "Unit": "Count" },
    ]);
    let directive = json!({ "Namespace": "hookonce/stack", "Dimensions": [["function"], ["function", "code"]], "Metrics": metrics });
    let whole = json!({
        "_aws": { "Timestamp": 1_767_225_600_123_i64, "CloudWatchMetrics": [directive] },
        "function": "worker", "code": "signature_mismatch", "endpoint": "stripe", "body_sha256": "a\nb\"c",
        "delivery_duration_ms": 12, "event_applied": 3, "handler_failed": 1, "own_retry": 1, "record_dead": 1,
    });
    assert_eq!((lines.len(), line), (1, whole));
    assert!(emitted(&Counts::default()).is_empty(), "nothing was counted");
    for name in METRICS {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
    }
}

#[test]
fn a_line_with_an_unknown_property_is_a_fault() {
    let mut counts = Counts::default();
    counts.add("event_applied", 1);
    counts.property("body", "LEAKMENOT");
    assert_eq!(faults(&emitted(&counts)[0]).len(), 1);
}

/// A busy stack: accepted, duplicate, forged, unknown, failing and dying deliveries.
async fn busy() -> Harness {
    let harness = Harness::with(counting).await;
    for delivery in [
        count("msg_1", "a"),
        count("msg_1", "a"),
        count("msg_2", "b").signed_with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        counted("msg_3", "count.never", "c"),
        counted("msg_4", "no.such.type", "d"),
    ] {
        harness.deliver(&delivery).await;
    }
    harness.settle().await;
    harness
}

/// The words of Logs Insights that the queries use.
const WORDS: &str = "SOURCE filter ispresent and or stats sum count pct as by sort desc limit parse bin";

/// The fields that a query reads: its words, without those of the language, numbers, texts and names that it gives
/// itself.
fn fields(query: &str) -> BTreeSet<String> {
    let without_texts: String = query.split('\'').step_by(2).collect();
    let mut fields = BTreeSet::new();
    let mut given = BTreeSet::new();
    for command in without_texts.split('|') {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
        let mut tokens = command.split(|c| !is_word(c)).filter(|token| !token.is_empty()).peekable();
        let parses = tokens.peek() == Some(&"parse");
        let mut gives = false;
        for token in tokens {
            if gives {
                given.insert(token.to_owned());
                // `parse` gives names to the end of its command.
                gives = parses;
            } else if token == "as" {
                gives = true;
            } else if !WORDS.split(' ').any(|word| word == token) && !token.starts_with(|c: char| c.is_ascii_digit()) {
                fields.insert(token.to_owned());
            }
        }
    }
    fields.retain(|field| !given.contains(field));
    fields
}

/// The fields of a query that no line has together with those that it filters and groups by. A metric that no line has
/// at all did not come up, and is left out.
fn apart(fields: &BTreeSet<String>, lines: &[BTreeSet<String>]) -> Vec<String> {
    let metrics = known_metrics();
    let is_metric = |field: &&String| metrics.contains(*field);
    let groups: BTreeSet<_> = fields.iter().filter(|field| !is_metric(field)).cloned().collect();
    let stands = |field: &&String| {
        let mut having = lines.iter().filter(|line| line.contains(*field)).peekable();
        (is_metric(field) && having.peek().is_none()) || having.any(|line| line.is_superset(&groups))
    };
    fields.iter().filter(|field| !stands(field)).cloned().collect()
}

/// A query for a field that no line has finds nothing, and nobody notices.
#[tokio::test]
async fn every_field_of_the_log_queries_is_in_a_line() {
    let logs = Logs::catch("hookonce=info");
    let lines =
        busy().await.metric_lines().into_iter().chain(logs.take().lines().map(str::to_owned)).collect::<Vec<_>>();
    let of_line = |line: &String| serde_json::from_str::<Value>(line).unwrap().as_object().unwrap().clone();
    let lines: Vec<BTreeSet<String>> =
        lines.iter().map(|line| of_line(line).into_iter().map(|(name, _)| name).collect()).collect();
    let page = include_str!("../docs/tenants.md");
    let on_page = page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    let queries: Vec<_> = log_queries().into_iter().chain(on_page).collect();
    assert!(queries.len() >= 7, "{queries:?}");
    for query in queries {
        assert_eq!(apart(&fields(&query), &lines), [""; 0], "{query}");
    }
    let planted = |query: &str| apart(&fields(query), &lines);
    assert_eq!(planted("filter colour > 0").len(), 1, "no line has it");
    assert_eq!(
        planted("filter record_dead > 0 | stats count(*) by body_sha256, tenant").len(),
        1,
        "the lines of a death do not have these"
    );
    assert_eq!(fields("filter ispresent(a) | stats sum(b) as c by d.e | sort c desc").len(), 3);
}

/// What a batch did is counted apart for each endpoint, and once.
#[test]
fn a_batch_has_a_line_for_each_endpoint() {
    let messages = ["in#shop#1", "in#rival#1", "in#shop#2", "no key"].map(|key| {
        let body = json!({"v": 1, "k": "ref", "pk": key}).to_string();
        json!({"messageId": key, "receiptHandle": "r", "body": body})
    });
    let batch = serde_json::from_value(json!({ "Records": messages })).unwrap();
    let applied = || Driven { output: Settled::Ack(Done::Settled(Outcome::Applied)), signals: Vec::new() };
    let failed = Driven { output: Settled::Retry(Millis(1)), signals: vec![Signal::HandlerFailed] };
    let [first, second] = [applied(), applied()].map(Processed::Settled);
    let processed = vec![first, Processed::Settled(failed), second, Processed::Panicked];
    let of =
        |settled: &Settled| Some(if matches!(settled, Settled::Ack(_)) { "event_applied" } else { "event_retried" });
    let (response, counts) = respond(batch, processed, None, of);
    assert_eq!(response.failures.len(), 2);
    let lines: Vec<Value> = counts.iter().flat_map(emitted).map(|line| serde_json::from_str(&line).unwrap()).collect();
    let seen = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(seen("endpoint"), [json!(null), json!("rival"), json!("shop")]);
    assert_eq!(seen("event_applied"), [json!(null), json!(null), json!(2)]);
    assert_eq!(seen("handler_failed"), [json!(null), json!(1), json!(null)]);
    assert_eq!(seen("message_panicked"), [json!(1), json!(null), json!(null)]);
}

#[tokio::test]
async fn every_line_of_every_function_is_a_metric_line() {
    let harness = busy().await;
    let lines = harness.metric_lines();
    assert!(lines.len() > 5 && harness.metric("record_dead") == 1, "{lines:?}");
    let faults: Vec<_> = lines.iter().flat_map(|line| faults(line)).collect();
    assert_eq!(faults, [""; 0]);
}
