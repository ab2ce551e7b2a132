//! Providers that sign with a key of their own: its certificate is fetched when a delivery asks for it, and kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::time::Millis;
use hookonce_webhook::gateway::Outbound;
use serde_json::{Value, json};

use crate::support::delivery::gateway_event;
use crate::support::samples::json as recorded;
use crate::support::{Harness, Script, word};

const TOPIC: &str = "arn:aws:sns:us-west-2:123456789012:MyTopic";

/// A signed request of SNS, and the certificate that verifies it.
struct Sns {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    certificate: String,
}

impl Sns {
    fn vector(id: &str) -> Self {
        let file = recorded("vectors/aws_sns.json");
        let vector = file["vectors"].as_array().unwrap().iter().find(|vector| vector["id"] == id).unwrap();
        let headers = vector["headers"].as_object().unwrap().iter();
        Self {
            headers: headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect(),
            body: STANDARD.decode(vector["body_base64"].as_str().unwrap()).unwrap(),
            certificate: vector["secrets"][0].as_str().unwrap().to_owned(),
        }
    }

    fn field(&self, name: &str) -> String {
        serde_json::from_slice::<Value>(&self.body).unwrap()[name].as_str().unwrap().to_owned()
    }

    fn event(&self, harness: &Harness) -> Value {
        gateway_event("POST", "/webhooks/topic", &self.headers, &self.body, &harness.clock)
    }
}

async fn harness() -> Harness {
    let harness = Harness::new().await;
    let document = json!({ "provider": "aws_sns", "secrets": [], "settings": { "topic_arns": TOPIC } });
    harness.endpoints.put("topic", document.to_string());
    harness
}

fn refused(outbound: &Outbound) -> (u16, String, bool) {
    let (status, code) = word(outbound);
    (status, code, outbound.headers.contains_key("retry-after"))
}

#[tokio::test]
async fn a_certificate_is_fetched_once_and_kept() {
    let harness = harness().await;
    let sns = Sns::vector("sns-v1-valid");
    harness.materials.put(&sns.field("SigningCertURL"), sns.certificate.as_str());
    let webhook = harness.webhook(&Script::none());
    for expected in ["accepted", "duplicate", "duplicate"] {
        assert_eq!(word(&webhook.handle(sns.event(&harness)).await), (200, expected.to_owned()));
    }
    assert_eq!(harness.materials.urls(), [sns.field("SigningCertURL")]);

    let mut forged = sns.event(&harness);
    forged["body"] = json!(forged["body"].as_str().unwrap().replace("Hello world!", "Hello there!"));
    assert_eq!(refused(&webhook.handle(forged).await), (401, "signature_mismatch".to_owned(), false));
    assert_eq!(harness.materials.urls().len(), 1);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_had_asks_for_a_retry_and_is_asked_for_again_after_a_pause() {
    let harness = harness().await;
    let sns = Sns::vector("sns-v1-valid");
    let webhook = harness.webhook(&Script::none());
    let unavailable = (503, "material_unavailable".to_owned(), true);
    for _ in 0..5 {
        assert_eq!(refused(&webhook.handle(sns.event(&harness)).await), unavailable);
    }
    assert_eq!(harness.materials.urls().len(), 1, "not once for each delivery");
    assert!(harness.books().await.records.is_empty());
    assert_eq!(harness.metric("delivery_retry_please"), 5);

    harness.materials.put(&sns.field("SigningCertURL"), sns.certificate.as_str());
    harness.clock.advance(Millis::seconds(10));
    assert_eq!(word(&webhook.handle(sns.event(&harness)).await), (200, "accepted".to_owned()));
}

#[tokio::test]
async fn a_certificate_of_a_strangers_host_is_never_fetched() {
    let harness = harness().await;
    let sns = Sns::vector("sns-foreign-cert-host");
    let webhook = harness.webhook(&Script::none());
    let outbound = webhook.handle(sns.event(&harness)).await;
    assert_eq!(outbound.status_code, 401, "{}", outbound.body);
    assert!(harness.materials.urls().is_empty());
}

#[tokio::test]
async fn a_subscription_is_confirmed_by_one_visit_and_never_stored() {
    let harness = harness().await;
    let sns = Sns::vector("sns-subscription-confirmation");
    harness.materials.put(&sns.field("SigningCertURL"), sns.certificate.as_str());
    let webhook = harness.webhook(&Script::none());
    let outbound = webhook.handle(sns.event(&harness)).await;
    assert_eq!(refused(&outbound), (503, "material_unavailable".to_owned(), true), "the visit failed");

    harness.materials.put(&sns.field("SubscribeURL"), "<ConfirmSubscriptionResponse/>");
    let outbound = webhook.handle(sns.event(&harness)).await;
    assert_eq!(outbound.status_code, 200, "{}", outbound.body);
    let visits = harness.materials.urls().into_iter().filter(|url| *url == sns.field("SubscribeURL")).count();
    assert_eq!(visits, 2);
    assert!(harness.books().await.records.is_empty());
    assert_eq!(harness.metric("handshake_answered"), 1);
}
