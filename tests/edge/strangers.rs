//! No unauthenticated request raises an alarm that pages, and none makes calls to other services without a limit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_runtime::documents::material::FETCHES_PER_MINUTE_MAX;
use serde_json::{Value, json};

use crate::support::delivery::{gateway_event, secret};
use crate::support::samples::{invoice_paid, vectors};
use crate::support::{Harness, Script};
use crate::template::metrics::paging;

/// Requests of each kind that an unauthenticated caller sends.
const REQUESTS: usize = 100;

/// The paging metric of AWS, which strangers do not move: no request makes a function fail, as `gateways` and the fuzz
/// target `webhook` show.
const OF_AWS: (&str, &str) = ("AWS/Lambda", "Errors");

/// Endpoints whose scheme fetches a certificate or key that the request names, and one whose handshake has a token.
async fn harness() -> Harness {
    let harness = Harness::new().await;
    let put = |id: &str, document: Value| harness.endpoints.put(id, document.to_string());
    put("paypal", json!({ "provider": "paypal", "secrets": [], "settings": { "webhook_id": "4JH86294D6297924G" } }));
    let topic = "arn:aws:sns:us-west-2:123456789012:MyTopic";
    put("aws_sns", json!({ "provider": "aws_sns", "secrets": [], "settings": { "topic_arns": topic } }));
    let token = json!({ "verify_token": "the-token-of-this-endpoint" });
    put("whatsapp", json!({ "provider": "meta_whatsapp", "secrets": [secret("meta_whatsapp")], "settings": token }));
    harness
}

/// The valid delivery of a provider, with one text in its headers and body replaced.
fn altered(provider: &str, from: &str, to: &str) -> (Vec<(String, String)>, Vec<u8>) {
    let vector = vectors(provider).into_iter().find(|vector| vector["id"] == format!("{provider}/valid")).unwrap();
    let headers = vector["headers"].as_object().unwrap().iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().replace(from, to))).collect();
    let body = STANDARD.decode(vector["body_base64"].as_str().unwrap()).unwrap();
    (headers, String::from_utf8(body).unwrap().replace(from, to).into_bytes())
}

#[tokio::test]
async fn nothing_that_strangers_send_pages_or_costs_calls_without_a_limit() {
    let harness = harness().await;
    let webhook = harness.webhook(&Script::none());
    let mut events = Vec::new();
    let event = |method: &str, path: &str, headers: &[(String, String)], body: &[u8]| {
        gateway_event(method, path, headers, body, &harness.clock)
    };
    for number in 0..REQUESTS {
        events.push(event("POST", &format!("/webhooks/invented-{number}"), &[], b"{}"));
        for endpoint in ["whatsapp", "meta_whatsapp"] {
            let path = format!("/webhooks/{endpoint}?hub.mode=subscribe&hub.verify_token=guessed&hub.challenge=1");
            events.push(event("GET", &path, &[], b""));
        }
        for method in ["GET", "PUT", "HEAD"] {
            events.push(event(method, "/webhooks/stripe", &[], b""));
        }
        let (headers, body) = altered("paypal", "CERT-TEST", &format!("CERT-{number}"));
        events.push(event("POST", "/webhooks/paypal", &headers, &body));
        let (headers, body) = altered("aws_sns", ".pem", &format!("{number}.pem"));
        events.push(event("POST", "/webhooks/aws_sns", &headers, &body));
        let forged = invoice_paid(&format!("evt_{number}"), "in_1", 1).signed_with("whsec_a_secret_of_somebody_else");
        events.push(forged.event(&harness.clock));
    }
    events.extend([json!(null), json!({}), json!({ "version": "2.0", "rawPath": 7 })]);
    for event in events {
        let answer = webhook.handle(event).await;
        assert!(answer.status_code >= 400, "{answer:?}");
    }
    let fetched = harness.materials.urls();
    assert!(fetched.iter().all(|url| url.starts_with("https://api.paypal.com/") || url.starts_with("https://sns.")));
    assert!(fetched.len() <= 2 * FETCHES_PER_MINUTE_MAX, "{} fetches", fetched.len());
    assert!(harness.metric("unproven_retry_please") > 0 && harness.metric("delivery_refused") > 0, "they are counted");
    let paging = paging();
    assert!(paging.len() > 5, "{paging:?}");
    for (namespace, metric) in paging {
        let is_own = namespace.starts_with("hookonce/");
        assert!(is_own || OF_AWS == (namespace.as_str(), metric.as_str()), "{namespace} {metric} pages");
        assert!(metric != "status", "the gateway counts requests before anybody has checked them");
        assert_eq!(harness.metric(&metric), 0, "strangers move {metric}, which pages");
    }
}
