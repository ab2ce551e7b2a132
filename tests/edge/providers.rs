//! Every provider of the catalog through the whole function: its answers, and that handshakes make no calls.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::record::{Outcome, Status};
use hookonce_protocol::time::Millis;
use hookonce_providers::{Catalog, Provider};
use serde_json::{Value, json};

use crate::support::delivery::{gateway_event, secret};
use crate::support::samples::{messaged, vectors, whatsapp_message, whatsapp_of};
use crate::support::{Answer, Delivery, Harness, Script, Verdict};

fn vector(provider: &str, case: &str) -> Value {
    let id = format!("{provider}/{case}");
    vectors(provider).into_iter().find(|vector| vector["id"] == *id).unwrap_or_else(|| panic!("no vector {id}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Configures the provider's endpoint for the vector, and moves the clock to the vector's time.
fn configure(harness: &Harness, provider: &str, vector: &Value) {
    let mut document = json!({ "provider": provider, "secrets": vector["secrets"], "settings": {} });
    if let Some(settings) = vector["settings"].as_object() {
        document["settings"] = json!(settings);
    }
    if vector["method"] == "POST" && document["settings"].get("public_url").is_none() {
        document["settings"]["public_url"] = vector["url"].clone();
    }
    harness.endpoints.put(provider, document.to_string());
    let now = vector["now_unix"].as_i64().unwrap();
    harness.clock.advance(Millis((now - harness.clock.seconds().0) * 1_000));
}

/// The gateway event of a vector. `None` if two headers share a name, because HTTP APIs join them.
fn event(harness: &Harness, provider: &str, vector: &Value) -> Option<Value> {
    let headers = vector["headers"].as_object().unwrap().iter();
    let headers: Option<Vec<_>> =
        headers.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    let query = text(&vector["url"]).split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let body = STANDARD.decode(text(&vector["body_base64"])).unwrap();
    let path = format!("/webhooks/{provider}{query}");
    Some(gateway_event(text(&vector["method"]), &path, &headers?, &body, &harness.clock))
}

async fn answered(harness: &Harness, script: &Script, provider: &str, vector: &Value) -> Answer {
    configure(harness, provider, vector);
    let event = event(harness, provider, vector).unwrap();
    harness.webhook(script).handle(event).await
}

/// A provider's answers: status and body of success (`None` for the small report), and the status of "please retry".
fn wanted(provider: &str) -> (u16, Option<&'static str>, u16) {
    match provider {
        "adyen" => (202, Some("[accepted]"), 503),
        "airtable" | "bigcommerce" | "slack" | "telegram" | "vonage" => (200, Some(""), 503),
        "discord" => (202, Some(""), 503),
        "twilio" => (200, Some("<Response/>"), 503),
        "zendesk" => (200, None, 409),
        _ => (200, None, 503),
    }
}

fn check_success(outbound: &Answer, provider: &str, word: &str) {
    let (status, body, _) = wanted(provider);
    assert_eq!(outbound.status_code, status, "{provider}: {}", outbound.body);
    match body {
        Some(body) => assert_eq!(outbound.body, body, "{provider}"),
        None => assert_eq!(crate::support::word(outbound), (status, word.to_owned()), "{provider}"),
    }
    let content_type = match body {
        None => "application/json",
        Some(_) if provider == "twilio" => "text/xml",
        Some(_) => "text/plain",
    };
    assert!(outbound.headers["content-type"].starts_with(content_type), "{provider}: {:?}", outbound.headers);
}

/// One endpoint of Discord gets events and interactions, and each kind has an answer.
#[tokio::test]
async fn an_answer_may_depend_on_what_a_delivery_holds() {
    let harness = Harness::new().await;
    for (case, status) in [("valid", 202), ("webhook-event", 204)] {
        for copy in ["accepted", "duplicate"] {
            let answer = answered(&harness, &Script::none(), "discord", &vector("discord", case)).await;
            assert_eq!(answer.status_code, status, "{case}: {copy}");
        }
    }
}

#[tokio::test]
async fn every_provider_hears_what_it_understands() {
    let harness = Harness::new().await;
    for provider in Catalog::built_in().iter().map(Provider::id) {
        let valid = vector(provider, "valid");
        let down = answered(&harness, &Script::store_outage(), provider, &valid).await;
        let error = json!({ "error": "store_unavailable" });
        assert_eq!((down.status_code, crate::support::body(&down)), (wanted(provider).2, error), "{provider}");
        // Zendesk tries three times; half a minute apart, they outlast more.
        let after = if provider == "zendesk" { "30" } else { "5" };
        assert_eq!(down.headers["retry-after"], after, "{provider}");

        check_success(&answered(&harness, &Script::none(), provider, &valid).await, provider, "accepted");
        check_success(&answered(&harness, &Script::none(), provider, &valid).await, provider, "duplicate");

        let forged = answered(&harness, &Script::none(), provider, &vector(provider, "wrong-secret")).await;
        let error = json!({ "error": "signature_mismatch" });
        assert_eq!((forged.status_code, crate::support::body(&forged)), (401, error), "{provider}");
        assert!(!forged.headers.contains_key("retry-after"), "{provider}");
    }
    assert_eq!((harness.metric("delivery_accepted"), harness.metric("delivery_retry_please")), (74, 74));
}

/// False for a vector that was recorded with a secret so short, or settings so incomplete, that no endpoint may have
/// them.
fn can_be_configured(provider: &Provider, vector: &Value) -> bool {
    let secrets: Vec<String> = serde_json::from_value(vector["secrets"].clone()).unwrap();
    let settings: BTreeMap<String, String> = serde_json::from_value(vector["settings"].clone()).unwrap_or_default();
    provider.configure(&secrets, settings.into(), &[]).is_ok()
}

/// What is authentic is kept, even without an id and even if nobody can read it: one record, which the worker settles.
#[tokio::test]
async fn an_authentic_delivery_is_never_refused_for_its_content() {
    let (missing, reasons) = kept_in_full("missing-key").await;
    assert!(missing == 0 && reasons.iter().any(|reason| reason == "id_missing"), "{reasons:?}");
    let (unreadable, reasons) = kept_in_full("non-utf8-body-without-key").await;
    assert!(unreadable > 20, "{reasons:?}");
    assert_eq!(reasons.iter().filter(|reason| *reason == "body_unreadable").count(), unreadable);
}

/// The alarm of other bodies rings for a fact that may be lost, not for each retry. The vectors say what a retry
/// changes.
#[tokio::test]
async fn no_retry_of_any_provider_is_taken_for_another_body() {
    let harness = Harness::new().await;
    let mut changed = Vec::new();
    for provider in Catalog::built_in().iter().map(Provider::id) {
        let is_sent =
            |vector: &Value| ["valid", "retried"].iter().any(|case| vector["id"] == format!("{provider}/{case}"));
        let both: Vec<_> = vectors(provider).into_iter().filter(is_sent).collect();
        for vector in &both {
            let answer = answered(&harness, &Script::none(), provider, vector).await;
            assert_eq!(answer.status_code, wanted(provider).0, "{provider}: {}", answer.body);
            // The events of a batch are compared here.
            harness.work().await;
        }
        assert_eq!(harness.metric("body_mismatch"), 0, "{provider}");
        if both.iter().any(|vector| vector["body_base64"] != both[0]["body_base64"]) {
            changed.push(provider);
        }
    }
    for provider in ["docusign", "hubspot", "intercom", "line", "mux", "notion"] {
        assert!(changed.contains(&provider), "its retry has another body: {changed:?}");
    }
}

/// What a retry changes is left out where bodies are compared, and nothing else is.
#[tokio::test]
async fn a_changed_fact_under_a_known_id_counts_as_a_mismatch_and_a_retry_does_not() {
    let harness = Harness::new().await;
    let cases = [
        (
            "coinbase_commerce",
            r#"{"id":1,"attempt_number":1,"event":{"id":"e","type":"t","data":1}}"#,
            "r_number\":1",
            "data\":1",
        ),
        (
            "docusign",
            r#"{"event":"e","generatedDateTime":"t","retryCount":0,"data":{"envelopeId":"1"},"x":0}"#,
            "Count\":0",
            "x\":0",
        ),
        (
            "hubspot",
            r#"[{"eventId":1,"subscriptionType":"deal","occurredAt":1,"attemptNumber":0,"x":0}]"#,
            "Number\":0",
            "x\":0",
        ),
        ("intercom", r#"{"id":"n","topic":"t","delivery_attempts":1,"data":1}"#, "attempts\":1", "data\":1"),
        (
            "line",
            r#"{"events":[{"webhookEventId":"1","type":"t","deliveryContext":{"isRedelivery":0},"x":0}]}"#,
            "delivery\":0",
            "x\":0",
        ),
        ("linear", r#"{"action":"a","type":"t","data":1,"webhookTimestamp":NOW}"#, "NOW", "data\":1"),
        ("notion", r#"{"id":"1","type":"t","attempt_number":1,"data":1}"#, "number\":1", "data\":1"),
    ];
    for (counted, (provider, body, retried, fact)) in (0..).zip(cases) {
        let other = |text: &str, part: &str| text.replacen(part, &part.replace(['0', '1'], "7"), 1);
        harness.endpoints.put(provider, json!({"provider": provider, "secrets": [secret(provider)]}).to_string());
        let deliver = async |body: &str| {
            let body = body.replace("NOW", &(harness.clock.seconds().0 * 1_000).to_string());
            let delivery = Delivery::new(provider, body).header("linear-delivery", "1").header("linear-event", "t");
            let answer = harness.deliver(&delivery).await;
            assert_eq!(answer.status_code, wanted(provider).0, "{provider}: {}", answer.body);
        };
        deliver(body).await;
        harness.clock.advance(Millis::minutes(1));
        deliver(&other(body, retried)).await;
        assert_eq!(harness.metric("body_mismatch"), counted, "{provider}: a retry");
        deliver(&other(&other(body, retried), fact)).await;
        assert_eq!(harness.metric("body_mismatch"), counted + 1, "{provider}: another fact");
    }
}

/// Delivers this case of every provider twice. Returns how many of them nobody can read, and every reason that is
/// counted. Cases of one provider may share what its signature binds a body to, so each has a stack of its own.
async fn kept_in_full(case: &str) -> (usize, Vec<String>) {
    let harness = Harness::new().await;
    let mut kept = 0;
    for provider in Catalog::built_in().iter().map(hookonce_providers::Provider::id) {
        for vector in vectors(provider).into_iter().filter(|vector| vector["case"] == case) {
            let before = harness.tables().await.records.len();
            check_success(&answered(&harness, &Script::none(), provider, &vector).await, provider, "accepted");
            check_success(&answered(&harness, &Script::none(), provider, &vector).await, provider, "duplicate");
            assert_eq!(harness.tables().await.records.len(), before + 1, "{}", vector["id"]);
            kept += 1;
        }
    }
    harness.settle().await;
    let tables = harness.tables().await;
    assert!(tables.records.iter().all(|(_, record)| record.status == Status::Processed));
    assert!(tables.records.iter().all(|(_, record)| record.outcome == Some(Outcome::Ignored)));
    assert_eq!((harness.metric("event_ignored"), harness.metric("delivery_accepted")), (kept, kept));
    let unreadable = tables.records.iter().filter(|(_, record)| record.event_type == "unreadable").count();
    let reason = |line: &String| text(&serde_json::from_str::<Value>(line).unwrap()["code"]).to_owned();
    let lines = harness.metric_lines();
    let reasons = lines.iter().filter(|line| line.contains("key_fallback")).map(reason).collect();
    println!("{case}: {kept} kept, {unreadable} of them unreadable");
    (unreadable, reasons)
}

#[tokio::test]
async fn an_event_without_an_id_leaves_its_siblings_alone() {
    // The handler of messages wants an id, so it keeps the event that has none as a DEAD record.
    let harness = Harness::new().await;
    let messages =
        vec![whatsapp_message("A"), json!({ "from": "1", "text": { "body": "no id" } }), whatsapp_message("B")];
    let outbound = harness.deliver(&whatsapp_of(messages.clone())).await;
    assert_eq!(crate::support::word(&outbound), (200, "accepted".to_owned()));
    harness.settle().await;
    // Grouped in another way, all three are known.
    for message in messages {
        assert_eq!(crate::support::word(&harness.deliver(&whatsapp_of(vec![message])).await).1, "duplicate");
    }
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[messaged("A"), messaged("B")]), Verdict { dead: 1, ..Verdict::applied(2) });
    assert_eq!(tables.records.len(), 4, "the envelope and three events");
    assert_eq!(harness.metric("key_fallback"), 1);
}

/// Handshakes are answered, and bad requests refused, without one call to the store or the queue.
#[tokio::test]
async fn neither_a_question_nor_a_refused_request_touches_the_store() {
    let harness = Harness::new().await;
    let (mut questions, mut refused) = (0, 0);
    for (provider, of) in Catalog::built_in().iter().map(|provider| (provider.id(), provider)) {
        let vectors = vectors(provider).into_iter().filter(|vector| can_be_configured(of, vector));
        for vector in &vectors.filter(|vector| vector["expected"]["verdict"] != "accepted").collect::<Vec<_>>() {
            configure(&harness, provider, vector);
            let Some(event) = event(&harness, provider, vector) else { continue };
            if let Ok(message) =
                serde_json::from_slice::<Value>(&STANDARD.decode(text(&vector["body_base64"])).unwrap())
                && let Some(url) = message["SubscribeURL"].as_str()
            {
                harness.materials.put(url, "<ConfirmSubscriptionResponse/>");
            }
            let script = Script::recording();
            let outbound = harness.webhook(&script).handle(event).await;
            assert_eq!(script.calls(), [], "{}: {}", vector["id"], outbound.body);
            let question = vector["expected"]["verdict"] == "handshake";
            assert_eq!(outbound.status_code < 400, question, "{}: {}", vector["id"], outbound.body);
            if let Some(status) = vector["expected"]["response"]["status"].as_u64() {
                assert_eq!(u64::from(outbound.status_code), status, "{}", vector["id"]);
            }
            if let Some(code) = vector["expected"]["code"].as_str() {
                assert_eq!(crate::support::body(&outbound), json!({ "error": code }), "{}", vector["id"]);
            }
            *(if question { &mut questions } else { &mut refused }) += 1;
        }
    }
    println!("{questions} questions, {refused} refused requests");
    assert!(questions >= 16 && refused >= 500, "{questions} questions, {refused} refused requests");
    assert!(harness.tables().await.records.is_empty());
    assert_eq!(harness.metric("handshake_answered"), questions);
}
