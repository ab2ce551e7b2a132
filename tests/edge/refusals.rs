//! Requests that must be refused: the documented answer, a metric with the same code, nothing written, nothing queued,
//! and no byte of the request or of a secret in the log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::record::Status;
use hookonce_protocol::time::EpochSec;
use hookonce_providers::Request;
use hookonce_runtime::documents::document::{BODY_BYTES_MAX, EVENT_BYTES_MAX, EVENT_BYTES_RESERVED};
use serde_json::{Value, json};

use crate::support::clock::START;
use crate::support::delivery::{gateway_event, secret};
use crate::support::logs::Logs;
use crate::support::samples::{invoice_paid, messaged, noise, push, whatsapp_message, whatsapp_of};
use crate::support::{Answer, Clock, Delivery, Harness, Script, Verdict, body, word};

/// Part of bodies and of secrets, as it is or in base64. It must appear nowhere else.
const MARKERS: [&str; 2] = ["LEAKMENOT", "TEVBS01FTk9U"];

/// A request, and the status and code that it must get.
struct Case {
    name: &'static str,
    event: Value,
    status: u16,
    code: &'static str,
}

fn case(name: &'static str, event: Value, status: u16, code: &'static str) -> Case {
    Case { name, event, status, code }
}

/// Runs cases on one stack, which must stay empty. Returns everything that was logged.
async fn refuse(harness: &Harness, cases: Vec<Case>) -> String {
    let (logs, mut logged) = (Logs::catch("trace"), String::new());
    for Case { name, event, status, code } in cases {
        let lines_before = harness.metric_lines().len();
        let outbound = harness.webhook(&Script::none()).handle(event).await;
        let log = logs.take();
        assert_eq!(word(&outbound), (status, code.to_owned()), "{name}");
        assert_eq!(body(&outbound), json!({ "error": code }), "{name}: the answer says nothing else");
        let retry_after = outbound.headers.get("retry-after").map(String::as_str);
        assert_eq!(retry_after, (status == 503).then_some("5"), "{name}");
        let allowed = outbound.headers.get("allow").map(String::as_str);
        assert_eq!(allowed, (status == 405).then_some("POST"), "{name}");
        check_metric(&harness.metric_lines()[lines_before..], code, status, name);
        check_log(&log, code, name);
        logged += &log;
    }
    let tables = harness.tables().await;
    assert!(tables.records.is_empty() && tables.domain.is_empty(), "something was written");
    assert_eq!(harness.stack.messages().await, 0, "something was queued");
    logged
}

/// Lines of JSON.
fn read(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check_metric(lines: &[String], code: &str, status: u16, name: &str) {
    assert_eq!(lines.len(), 1, "{name}: {lines:?}");
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    let metric = match (status, code) {
        (503, "not_configured" | "material_unavailable") => "unproven_retry_please",
        (503, _) => "delivery_retry_please",
        _ => "delivery_refused",
    };
    assert_eq!((&line["code"], &line[metric]), (&json!(code), &json!(1)), "{name}: {line}");
    let of = |directive: usize| {
        let directive = &line["_aws"]["CloudWatchMetrics"][directive];
        json!([directive["Dimensions"], directive["Metrics"][0]["Name"]])
    };
    assert_eq!(of(0), json!([[["function"]], "delivery_duration_ms"]), "{name}: the code is not a dimension of it");
    assert_eq!(of(1), json!([[["function"], ["function", "code"]], metric]), "{name}");
    assert!(!MARKERS.iter().any(|marker| lines[0].contains(marker)), "{name}: {line}");
}

fn check_log(log: &str, code: &str, name: &str) {
    let lines = read(log).into_iter().filter(|line| line["message"] == "delivery not accepted").collect::<Vec<_>>();
    assert_eq!(lines.len(), 1, "{name}: {log}");
    assert_eq!(lines[0]["code"], json!(code), "{name}");
    // A mismatch says what came, and a look-up that failed says why. Nothing else that an unauthenticated caller can
    // cause is a line more.
    let count = |message: &str| log.lines().filter(|line| line.contains(message)).count();
    assert_eq!(count("no secret fits"), usize::from(code == "signature_mismatch"), "{name}: {log}");
    assert_eq!(count("endpoint lookup failed"), usize::from(code == "endpoint_unavailable"), "{name}: {log}");
    let leak = MARKERS.iter().find(|marker| log.contains(*marker));
    assert_eq!(leak, None, "{name}: {log}");
}

/// A genuine delivery whose body holds the marker.
fn genuine() -> Delivery {
    let mut delivery = invoice_paid("evt_LEAKMENOT", "in_LEAKMENOT", 100);
    delivery.body.extend_from_slice(b" \n");
    delivery
}

/// A genuine delivery with something done to its signature header.
fn with_signature(clock: &Clock, change: impl Fn(String) -> Vec<String>) -> Value {
    let delivery = genuine();
    let mut headers = Vec::new();
    for (name, value) in delivery.signed_headers(clock.seconds()) {
        if name == "stripe-signature" {
            headers.extend(change(value).into_iter().map(|value| (name.clone(), value)));
        } else {
            headers.push((name, value));
        }
    }
    delivery.event_with(&headers, &delivery.body, clock)
}

/// A genuine signature over another body.
fn with_body(clock: &Clock, change: impl Fn(&[u8]) -> Vec<u8>) -> Value {
    let delivery = genuine();
    delivery.event_with(&delivery.signed_headers(clock.seconds()), &change(&delivery.body), clock)
}

#[tokio::test]
async fn forged_and_altered_requests_are_refused() {
    let harness = Harness::new().await;
    let clock = &harness.clock;
    let zeros = "0".repeat(64);
    let forged = |value: String| vec![format!("{},v1={zeros}", value.split(',').next().unwrap())];
    let reserialised = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap().to_string().into_bytes();
    let other = genuine().signed_with("whsec_LEAKMENOT_another").event(clock);
    let mismatch = "signature_mismatch";
    let binary = Delivery::new("standard_webhooks", b"LEAKMENOT \xff\xfe".to_vec()).header("webhook-id", "msg_1");
    let binary = binary.signed_with("whsec_QW5vdGhlciBzZWNyZXQgb2YgMjQgYnl0ZXMu");
    refuse(
        &harness,
        vec![
            case("forged", with_signature(clock, forged), 401, mismatch),
            case("truncated", with_body(clock, |body| body[..body.len() - 3].to_vec()), 401, mismatch),
            case("emptied", with_body(clock, |_| Vec::new()), 401, mismatch),
            case("re-serialised", with_body(clock, reserialised), 401, mismatch),
            case("one bit flipped", with_body(clock, |body| flipped(body, 40)), 401, mismatch),
            case("not UTF-8", with_body(clock, |_| b"LEAKMENOT \xff\xfe".to_vec()), 401, mismatch),
            case("another secret", other, 401, mismatch),
            case("not UTF-8 with an id in a header", binary.event(clock), 401, mismatch),
            case("no signature", with_signature(clock, |_| Vec::new()), 401, "signature_missing"),
            case(
                "an old scheme",
                with_signature(clock, |it| vec![it.replace("v1=", "v0=")]),
                401,
                "signature_malformed",
            ),
            case("not hex", with_signature(clock, |it| vec![it.replace("v1=", "v1=z")]), 401, "signature_malformed"),
        ],
    )
    .await;
}

fn flipped(body: &[u8], at: usize) -> Vec<u8> {
    let mut body = body.to_vec();
    body[at] ^= 1;
    body
}

#[tokio::test]
async fn stale_and_future_requests_are_refused_at_the_second() {
    let harness = Harness::new().await;
    let clock = &harness.clock;
    let signed_at = |seconds: i64| genuine().event_signed_at(EpochSec(START.as_seconds().0 + seconds), clock);
    let range = "timestamp_out_of_range";
    refuse(
        &harness,
        vec![
            case("stale", signed_at(-301), 401, range),
            case("from the future", signed_at(301), 401, range),
            case("far in the past", signed_at(-86_400 * 365), 401, range),
            case(
                "no timestamp",
                with_signature(clock, |it| vec![it[it.find("v1=").unwrap()..].to_owned()]),
                401,
                "timestamp_missing",
            ),
            case("no number", with_signature(clock, |it| vec![it.replace("t=", "t=x")]), 401, "timestamp_malformed"),
        ],
    )
    .await;
    // The tolerance includes its limit.
    for seconds in [-300, 300] {
        assert_eq!(harness.webhook(&Script::none()).handle(signed_at(seconds)).await.status_code, 200);
    }
}

#[tokio::test]
async fn ambiguous_headers_are_refused() {
    let harness = Harness::new().await;
    let clock = &harness.clock;
    let mut control = genuine().event(clock);
    control["headers"]["stripe-signature"] = json!("t=1,v1=\u{1}LEAKMENOT");
    let mut long = genuine().event(clock);
    long["headers"]["stripe-signature"] = json!(format!("t=1,v1={}", "a".repeat(17 * 1024)));
    refuse(
        &harness,
        vec![
            case("signed twice", with_signature(clock, |it| vec![it.clone(), it]), 401, "duplicate_header"),
            case("a control character", control, 400, "malformed"),
            case("too long", long, 401, "header_malformed"),
        ],
    )
    .await;
}

/// A body that is too long is counted and logged by endpoint.
#[tokio::test]
async fn bodies_that_cannot_be_kept_are_refused() {
    let harness = Harness::new().await;
    let clock = &harness.clock;
    harness.endpoints.change("github", "body_bytes_max", json!(500));
    let long = push("push-1", "LEAKMENOT");
    assert!(long.body.len() > 500);
    let incompressible = Delivery::new("standard_webhooks", noise(600 * 1024)).header("webhook-id", "msg_LEAKMENOT");
    let empty = Delivery::new("stripe", "");
    let log = refuse(
        &harness,
        vec![
            case("longer than the endpoint takes", long.event(clock), 413, "body_too_large"),
            case("does not fit one item compressed", incompressible.event(clock), 413, "body_too_large"),
            case("empty and unsigned", empty.event_with(&[], b"", clock), 401, "signature_missing"),
        ],
    )
    .await;
    let mut counted = read(&harness.metric_lines().join("\n"));
    counted.retain(|line| line["code"] == "body_too_large");
    let endpoints: Vec<_> = counted.iter().map(|line| line["endpoint"].as_str().unwrap()).collect();
    assert_eq!(endpoints, ["github", "standard_webhooks"]);
    let mut lines = read(&log);
    lines.retain(|line| line["message"] == "the body is too long to be kept");
    assert_eq!(lines.len(), 2);
    let fields = ["level", "endpoint.id", "body_bytes"].map(|name| &lines[1][name]);
    assert_eq!(fields, [&json!("WARN"), &json!("standard_webhooks"), &json!(614_400)]);
}

#[tokio::test]
async fn requests_that_lead_nowhere_are_refused() {
    let harness = Harness::new().await;
    let clock = &harness.clock;
    harness.endpoints.change("slack", "source_ranges", json!(["198.51.100.0/24"]));
    harness.endpoints.put("broken", r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT"],"#);
    harness.endpoints.put("mistaken", json!({ "provider": "nobody", "secrets": ["LEAKMENOT"] }).to_string());
    harness.endpoints.put("lacking", json!({ "provider": "paypal", "secrets": [], "settings": {} }).to_string());
    let to = |path: &str| gateway_event("POST", path, &[], b"LEAKMENOT", clock);
    let by = |method: &str| gateway_event(method, "/webhooks/stripe?x=LEAKMENOT", &[], b"", clock);
    let encoding = crate::support::samples::json("gateway/http-api-malformed-base64.json");
    let question = "/webhooks/meta_whatsapp?hub.mode=subscribe&hub.verify_token=LEAKMENOT&hub.challenge=1";
    let question = gateway_event("GET", question, &[], b"", clock);
    let mut cases = vec![
        case("unknown endpoint", to("/webhooks/nobody"), 404, "unknown_endpoint"),
        case("an id that is none", to("/webhooks/STRIPE"), 404, "unknown_endpoint"),
        case("another path", to("/LEAKMENOT/stripe"), 404, "unknown_endpoint"),
        case("a path below", to("/webhooks/stripe/LEAKMENOT"), 404, "unknown_endpoint"),
        case("an id after another path", to("/webhooks/LEAKMENOT/webhooks/stripe"), 404, "unknown_endpoint"),
        case("no path", to("/"), 404, "unknown_endpoint"),
        case("from another network", to("/webhooks/slack"), 403, "source_not_allowed"),
        case("a document that is cut off", to("/webhooks/broken"), 503, "endpoint_unavailable"),
        case("a document that is mistaken", to("/webhooks/mistaken"), 503, "endpoint_unavailable"),
        case("a document that lacks a setting", to("/webhooks/lacking"), 503, "endpoint_unavailable"),
        case("malformed base64", encoding, 400, "malformed"),
        case("a question that needs a setting", question, 503, "not_configured"),
    ];
    for method in ["GET", "PUT", "DELETE", "HEAD", "PATCH"] {
        cases.push(case("another method", by(method), 405, "method_not_allowed"));
    }
    let not_requests = [
        json!(null),
        json!("LEAKMENOT"),
        json!({}),
        json!({ "Records": [{ "body": "LEAKMENOT" }] }),
        json!({ "version": "2.0", "rawPath": "/webhooks/stripe", "body": "LEAKMENOT" }),
        json!({ "version": "2.0", "rawPath": 7, "requestContext": { "http": { "method": "POST" } } }),
        json!({ "httpMethod": "POST", "path": "/webhooks/stripe", "headers": ["LEAKMENOT"] }),
    ];
    cases.extend(not_requests.map(|event| case("not a request", event, 400, "malformed")));
    refuse(&harness, cases).await;
    harness.endpoints.set_down(true);
    refuse(&harness, vec![case("endpoints down", genuine().event(clock), 503, "endpoint_unavailable")]).await;
}

/// A signed body need not be text: its bytes are kept as they are.
#[tokio::test]
async fn bytes_that_are_not_text_are_accepted_where_the_id_is_in_a_header() {
    let harness = Harness::new().await;
    let bytes = b"\xff\xfe\x00 not text \xc3\x28".to_vec();
    let delivery = Delivery::new("standard_webhooks", bytes.clone()).header("webhook-id", "msg_1");
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()));
    let tables = harness.tables().await;
    let record = tables.record("#msg_1");
    let Some(stored) = &record.body else { panic!("no body") };
    assert_eq!(hookonce_runtime::inbox::body::decompress(stored).unwrap(), bytes);
    assert_eq!(record.event_type, "unreadable");
}

/// The largest body that fits and does not compress, with one header and short names, in bytes. The documents tell it.
const INCOMPRESSIBLE_BODY_BYTES_MAX: usize = 392_834;

/// The largest body that fits is accepted, and the next one is not: the limit is the item's, not a guess.
#[tokio::test]
async fn the_largest_body_that_fits_one_item_goes_all_the_way() {
    let harness = Harness::with(crate::support::counting::counting).await;
    let of = |length: usize| Delivery::new("standard_webhooks", noise(length)).header("webhook-id", "msg_1");
    let fits = |outbound: &Answer| outbound.status_code == 200;
    let (mut taken, mut refused) = (370 * 1024_usize, 400 * 1024_usize);
    while refused - taken > 1 {
        let middle = taken.midpoint(refused);
        let outbound = harness.deliver(&of(middle)).await;
        if fits(&outbound) {
            taken = middle;
            harness.lose_hints().await;
            let key = harness.tables().await.record("#msg_1").key.clone();
            harness.expire(&key).await;
        } else {
            assert_eq!(word(&outbound), (413, "body_too_large".to_owned()));
            refused = middle;
        }
    }
    assert!(fits(&harness.deliver(&of(taken)).await));
    harness.settle().await;
    assert_eq!(taken, INCOMPRESSIBLE_BODY_BYTES_MAX);
    assert!(!harness.tables().await.verdict::<&str>(&[]).is_alarming());
}

/// A body that compresses well is limited by what the gateway can pass on: 6 MB with all headers.
#[tokio::test]
async fn the_largest_body_of_all_fits_the_event_of_its_gateway_and_every_later_step() {
    let harness = Harness::with(crate::support::counting::counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", json!("enqueue"));
    let of = |id: &str, length: usize| {
        let mut body = br#"{"type":"count.once","fact":"order-1","rows":["#.to_vec();
        body.extend(br#"{"amount":100,"currency":"eur"},"#.iter().cycle().take(length - body.len() - 4));
        body.extend(br#""]} "#);
        // Not JSON any more, but as compressible; the gateway passes it on as base64.
        body[length / 2] = 0xff;
        Delivery::new("standard_webhooks", body)
            .header("webhook-id", id)
            .header("content-type", "application/octet-stream")
    };
    let full_headers = |mut delivery: Delivery| {
        delivery.headers.push(("x-filler".to_owned(), "\"".repeat(9_000)));
        delivery
    };
    let largest = full_headers(of("msg_1", BODY_BYTES_MAX)).event(&harness.clock);
    let event_bytes = largest.to_string().len();
    println!("the largest body has {BODY_BYTES_MAX} bytes, its event {event_bytes}");
    assert!(largest["isBase64Encoded"] == true && event_bytes <= EVENT_BYTES_MAX, "{event_bytes}");
    let fits = full_headers(of("msg_1", BODY_BYTES_MAX + 3 * EVENT_BYTES_RESERVED / 4)).event(&harness.clock);
    assert!(fits.to_string().len() > EVENT_BYTES_MAX, "the reserve is no larger than it has to be");
    let taken = harness.webhook(&Script::none()).handle(largest).await;
    assert_eq!(word(&taken), (200, "accepted".to_owned()));
    let more = of("msg_2", BODY_BYTES_MAX + 1).event(&harness.clock);
    let refused = harness.webhook(&Script::none()).handle(more).await;
    assert_eq!(word(&refused), (413, "body_too_large".to_owned()));
    let while_down = of("msg_3", BODY_BYTES_MAX).event(&harness.clock);
    let queued = harness.webhook(&Script::store_outage()).handle(while_down).await;
    assert_eq!(word(&queued), (200, "accepted".to_owned()), "as a message");
    harness.settle().await;
    assert_eq!(harness.tables().await.records.len(), 2);
}

/// An envelope may fit into an item although one of its events, which also holds its own names, does not. Then only the
/// envelope has that event's payload.
#[tokio::test]
async fn an_event_that_fits_no_record_is_kept_by_its_envelope_and_its_siblings_are_applied() {
    let harness = Harness::new().await;
    let of = |length: usize| {
        let mut large = whatsapp_message(&"x".repeat(480));
        large["text"]["body"] = json!(STANDARD.encode(noise(length)));
        whatsapp_of(vec![large, whatsapp_message("B"), whatsapp_message("C")])
    };
    let mut length = 400 * 1024;
    while word(&harness.deliver(&of(length)).await).0 == 413 {
        length -= 256;
    }
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&["B", "C"].map(messaged)), Verdict::applied(2).dead(1));
    let dead: Vec<_> = tables.records.values().filter(|record| record.status == Status::Dead).collect();
    assert_eq!((tables.records.len(), dead.len()), (3, 1), "the event has no record");
    assert_eq!(dead[0].last_error.as_deref(), Some("EVENT_TOO_LARGE"));
    assert!(dead[0].key.as_str().contains("#en#") && dead[0].body.is_some());
    assert_eq!(harness.metric("record_dead"), 1);
}

/// Length, hash and names of headers are enough to ask the provider what it sent. Nothing else is noted.
#[tokio::test]
async fn a_mismatch_is_logged_without_a_byte_of_the_body_or_the_name_of_a_header() {
    let harness = Harness::new().await;
    let logs = Logs::catch("info");
    let mut forged = invoice_paid("evt_1", "in_1", 100).signed_with("a guess").header("x-leakmenot", "LEAKMENOT");
    forged.body = String::from_utf8(forged.body).unwrap().replace("ada@example.com", "LEAKMENOT").into_bytes();
    assert_eq!(harness.deliver(&forged).await.status_code, 401);
    let log = logs.take();
    let mismatch = read(&log).into_iter().find(|line| line["message"] == "no secret fits").unwrap();
    let request = Request { method: "POST", url: "", headers: &[], body: &forged.body };
    let sha256 = request.fingerprint().body_sha256;
    assert_eq!(
        (mismatch["body.bytes"].as_u64(), &mismatch["body.sha256"]),
        (Some(forged.body.len() as u64), &json!(sha256))
    );
    let lines = harness.metric_lines().join("\n");
    let line: Value = serde_json::from_str(harness.metric_lines().last().unwrap()).unwrap();
    assert_eq!((&line["code"], &line["body_sha256"]), (&json!("signature_mismatch"), &json!(sha256)));
    assert_eq!(line["body_bytes"], json!(forged.body.len().to_string()));
    assert!(!line["_aws"].to_string().contains("body_sha256"), "it is no dimension and no metric");
    for printed in [&log, &lines] {
        let found = MARKERS.iter().chain(&["x-leakmenot", "stripe-signature"]).find(|marker| printed.contains(*marker));
        assert_eq!(found, None, "{printed}");
    }
}

#[tokio::test]
async fn an_accepted_delivery_leaves_no_byte_of_itself_in_the_log() {
    let harness = Harness::new().await;
    let logs = Logs::catch("info,hookonce_webhook=trace,hookonce_worker=trace,hookonce_runtime=trace");
    let mut delivery = invoice_paid("evt_1", "in_1", 100);
    delivery.body = String::from_utf8(delivery.body).unwrap().replace("ada@example.com", "LEAKMENOT").into_bytes();
    harness.deliver(&delivery).await;
    harness.settle().await;
    let log = logs.take();
    assert!(log.contains("delivery acknowledged"), "{log}");
    assert_eq!(MARKERS.iter().find(|marker| log.contains(*marker)), None, "{log}");
    let lines = harness.metric_lines().join("\n");
    assert_eq!(MARKERS.iter().find(|marker| lines.contains(*marker)), None, "{lines}");
    assert!(MARKERS.iter().any(|marker| secret("stripe").contains(marker)), "the marker is in the secret");
}
