//! Metric lines: CloudWatch's embedded metric format, and nothing in them that is not meant to be there.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hookonce_protocol::call::Signal;
use hookonce_protocol::check::PlanError;
use hookonce_protocol::destination::Called;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{DeadReason, Outcome};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::config::Environment;
use hookonce_runtime::inbox::drive::Driven;
use hookonce_runtime::inbox::process::{Processed, respond};
use hookonce_runtime::telemetry::{Counts, Telemetry};
use serde_json::{Value, json};

use crate::effects::keyed;
use crate::routes::set;
use crate::support::counting::{count, counted, counting};
use crate::support::logs::Logs;
use crate::support::metrics::{AT_REST, golden};
use crate::support::roles::texts;
use crate::support::{Fault, Harness, Operation, Script, document};
use crate::template::metrics::log_queries;

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
    let directives = parsed["_aws"]["CloudWatchMetrics"].as_array().unwrap();
    let all = |name: &str| directives.iter().flat_map(|one| one[name].as_array().unwrap().clone()).collect::<Vec<_>>();
    let (sets, metrics) = (all("Dimensions"), all("Metrics"));
    let dimensions: Vec<_> = sets.iter().map(texts).collect();
    let names: Vec<_> = metrics.iter().map(|metric| metric["Name"].as_str().unwrap().to_owned()).collect();
    let named = dimensions.iter().flatten().chain(&names).cloned();
    let known: BTreeSet<String> = named.chain(PROPERTIES.map(str::to_owned)).chain(["_aws".to_owned()]).collect();
    let is_own = |directive: &Value| directive["Namespace"].as_str().is_some_and(|name| name.starts_with("hookonce"));
    let units = |metric: &Value| {
        let wanted = if metric["Name"].as_str().unwrap().ends_with("_ms") { "Milliseconds" } else { "Count" };
        metric["Unit"] == wanted && metric.as_object().unwrap().len() == 2
    };
    let strange: Vec<_> = parsed.as_object().unwrap().keys().filter(|name| !known.contains(*name)).collect();
    let rules = [
        ("is no single line", !line.contains('\n')),
        ("has no time", parsed["_aws"]["Timestamp"].is_i64()),
        ("has another directive", parsed["_aws"].as_object().unwrap().len() == 2),
        ("has no namespace", directives.iter().all(is_own)),
        ("has no metric, or too many", (1..=METRICS_MAX).contains(&names.len())),
        ("counts a metric twice", names.iter().collect::<BTreeSet<_>>().len() == names.len()),
        ("has a dimension set that is no list", sets.iter().all(Value::is_array)),
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
    counts.add("event_retried", 0);
    counts.set_unless_zero("relay_untried_resends", 0);
    counts.add_coded("delivery_refused", 1, "signature_mismatch");
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
    let coded = json!([{ "Name": "delivery_refused", "Unit": "Count" }]);
    let directives = json!([
        { "Namespace": "hookonce/stack", "Dimensions": [["function"]], "Metrics": metrics },
        { "Namespace": "hookonce/stack", "Dimensions": [["function"], ["function", "code"]], "Metrics": coded },
    ]);
    let whole = json!({
        "_aws": { "Timestamp": 1_767_225_600_123_i64, "CloudWatchMetrics": directives },
        "function": "worker", "code": "signature_mismatch", "endpoint": "stripe", "body_sha256": "a\nb\"c",
        "delivery_duration_ms": 12, "delivery_refused": 1, "event_applied": 3, "handler_failed": 1, "own_retry": 1,
        "record_dead": 1,
    });
    assert_eq!((lines.len(), line), (1, whole));
    let mut nothing = Counts::default();
    nothing.add("event_applied", 0);
    nothing.add_coded("key_fallback", 0, "no_id");
    assert!(emitted(&nothing).is_empty(), "nothing was counted");
    for name in golden().names() {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
    }
}

/// Code and configuration are of two releases for a moment in each deployment, and a name may be misspelt.
#[test]
fn a_variable_that_no_function_knows_is_logged_and_counted_and_its_value_is_not() {
    let logs = Logs::catch("hookonce=info");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&lines);
    let sink = Arc::new(move |line: &str| into.lock().unwrap().push(line.to_owned()));
    let telemetry = Telemetry::new("webhook", "hookonce/stack", sink);
    let known = [("HOOKONCE_LOG", "info"), ("PATH", "/bin")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut environment = Environment::from(known);
    telemetry.unknown_variables(&environment, EpochMs(0));
    assert!(lines.lock().unwrap().is_empty() && logs.take().is_empty());
    environment.insert("HOOKONCE_ZZ_LATER".to_owned(), "LEAKMENOT".to_owned());
    telemetry.unknown_variables(&environment, EpochMs(0));
    let counted: Value = serde_json::from_str(&lines.lock().unwrap()[0]).unwrap();
    assert_eq!(counted["config_unknown"], 1);
    let logged = logs.take();
    assert!(logged.contains("HOOKONCE_ZZ_LATER") && !logged.contains("LEAKMENOT"), "{logged}");
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
    let metrics = golden().names();
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
    let page = include_str!("../../docs/use/tenants.md");
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

/// One search for a record's key, or for the gateway's id of a request, finds all that was logged of it.
#[tokio::test]
async fn every_line_of_a_request_or_a_message_names_it() {
    let logs = Logs::catch("hookonce=info");
    let harness = busy().await;
    harness.deliver(&counted("msg_5", "count.later", "e")).await;
    harness.work_under(&Script::every(Operation::Hide, Fault::Refused)).await;
    let down = Script::every(Operation::Put, Fault::Conflict);
    harness.deliver_under(&down, &counted("msg_6", "count.later", "f")).await.unwrap();
    let text = logs.take();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (of_requests, of_messages): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["span"]["name"] == "request");
    for (found, name, wanted) in [
        (&of_requests, "request.id", "no secret fits"),
        (&of_requests, "request.id", "delivery acknowledged"),
        (&of_messages, "record.key", "a record died; `hookonce show` tells more"),
        (&of_messages, "record.key", "changing a message's visibility timeout failed"),
    ] {
        assert!(found.iter().all(|line| !line["span"][name].as_str().unwrap().is_empty()), "{text}");
        assert!(found.iter().any(|line| line["message"] == wanted), "{wanted}: {text}");
    }
    let hidden = of_messages.iter().find(|line| line["message"].as_str().unwrap().starts_with("changing")).unwrap();
    assert_eq!(hidden["span"]["record.key"], "in#standard_webhooks#msg_5");
    // What was not stored is found by its key, too.
    let refused = |line: &&&Value| line["message"] == "delivery not accepted" && line["status"] == 503;
    let refused = of_requests.iter().find(refused).unwrap();
    assert_eq!(refused["span"]["record.key"], "in#standard_webhooks#msg_6");
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

/// The lines that were emitted since then.
async fn since(harness: &Harness, lines: usize, run: impl Future) -> Vec<String> {
    run.await;
    harness.metric_lines().split_off(lines)
}

/// The lines of typical runs of each function, in this order.
async fn typical() -> Vec<(&'static str, Vec<String>)> {
    let calls = json!([{ "name": "calls", "consumer": "crm", "types": ["call"], "forward": ["crm"] }]);
    let harness = Harness::with(counting).await.routed(&set("builtin", &calls));
    harness.destinations.put("crm", keyed(24));
    let mut runs = Vec::new();
    macro_rules! run {
        ($name:expr, $run:expr) => {
            let lines = harness.metric_lines().len();
            runs.push(($name, since(&harness, lines, $run).await));
        };
    }
    let forged = || count("msg_2", "b").signed_with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let down = Script::every(Operation::Put, Fault::Refused);
    run!(AT_REST, harness.relay());
    run!("webhook, a delivery is accepted", harness.deliver(&count("msg_1", "a")));
    run!("webhook, it comes again", harness.deliver(&count("msg_1", "a")));
    run!("webhook, no secret fits", harness.deliver(&forged()));
    run!("webhook, the table is down", harness.deliver_under(&down, &count("msg_2", "b")));
    run!("worker, an event is applied", harness.work());
    harness.deliver(&count("msg_3", "a")).await;
    harness.deliver(&counted("msg_4", "call", "c")).await;
    run!("worker, a known fact and an event to forward", harness.work());
    run!("dispatcher, an effect is delivered", harness.dispatch());
    harness.callee.answers_at("crm", Called::NotDone { status: None, retry_after: None });
    harness.deliver(&counted("msg_5", "call", "d")).await;
    harness.work().await;
    run!("dispatcher, the callee is down", harness.dispatch());
    harness.deliver(&counted("msg_6", "count.never", "e")).await;
    run!("worker, a record dies", harness.work());
    harness.deliver(&count("msg_7", "f")).await;
    assert!(harness.lose_hints().await > 0);
    harness.clock.advance(Millis::hours(1));
    run!("relay, a hint was lost, an effect waits and a record is dead", harness.relay());
    let unread = Script::every(Operation::QueryDue, Fault::Refused);
    run!("relay, the index cannot be read", harness.relay_under(&unread));
    let hint = json!({ "v": 1, "k": "ref", "pk": "in#standard_webhooks#msg_7" }).to_string();
    run!("relay, a dead letter", harness.bury_under(&Script::none(), &hint));
    runs
}

/// A metric is billed for each name and each combination of dimensions, and a line by its bytes. So none of them changes
/// unseen.
///
/// After an intended change, `cp target/metrics.txt tests/metrics.txt`.
#[tokio::test]
async fn typical_runs_emit_the_lines_that_are_known_and_no_metric_that_is_not() {
    let known = document("tests/metrics.txt");
    // The list of the metrics is written by hand.
    let mut text = known.split("\n# ").take(2).collect::<Vec<_>>().join("\n# ").trim_end().to_owned();
    for (name, lines) in typical().await {
        write!(text, "\n\n# {name}\n\n{}", lines.join("\n")).unwrap();
    }
    text.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/metrics.txt");
    std::fs::write(path, &text).unwrap();
    let other = text.lines().zip(known.lines()).find(|(is, was)| is != was);
    assert!(text == known, "target/metrics.txt has what the functions emit now. The first other line: {other:?}");
}

/// What a harness asserts of each line that any test makes.
#[test]
fn a_metric_that_is_not_listed_is_found() {
    let strange = |function: &'static str, metric: &'static str, code: Option<&'static str>| {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let sink = Arc::new(move |line: &str| into.lock().unwrap().push(line.to_owned()));
        let mut counts = Counts::default();
        match code {
            Some(code) => counts.add_coded(metric, 1, code),
            None => counts.add(metric, 1),
        }
        Telemetry::new(function, "hookonce", sink).emit(&counts, EpochMs(0));
        golden().strange(&lines.lock().unwrap()[0]).len()
    };
    assert_eq!(strange("webhook", "delivery_refused", Some("too_large")), 0);
    assert_eq!(strange("webhook", "delivery_duration_ms", Some("too_large")), 1, "it has no code");
    assert_eq!(strange("webhook", "relay_due", None), 1, "another function counts it");
    assert_eq!(strange("relay", "relay_overdue", None), 1);
}

/// While nothing is delivered, the relay's two metrics are all that exist: its heartbeat, and the level whose alarm waits
/// for a zero.
#[test]
fn at_rest_two_metrics_exist() {
    let at_rest: Vec<_> = golden().at_rest().into_iter().collect();
    assert_eq!(at_rest, [("dead_records".to_owned(), 0.0), ("relay_ran".to_owned(), 1.0)]);
}
