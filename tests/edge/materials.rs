//! Providers that sign with their own key: its certificate is fetched when a delivery needs it, and cached.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_runtime::deadline::Deadline;
use hookonce_runtime::documents::material::{FETCHES_PER_MINUTE_MAX, MATERIALS_MAX, Materials};
use hookonce_runtime::port::MaterialSource;
use serde_json::{Value, json};

use crate::support::clock::START;
use crate::support::delivery::gateway_event;
use crate::support::samples::vectors;
use crate::support::webhook::Webhook;
use crate::support::{Answer, Harness, Script, word};

const TOPIC: &str = "arn:aws:sns:us-west-2:123456789012:MyTopic";

/// A signed SNS request, and the certificate that verifies it.
struct Sns {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    certificate: String,
    second_certificate: String,
}

impl Sns {
    fn vector(id: &str) -> Self {
        let vector = vectors("aws_sns").into_iter().find(|vector| vector["id"] == id).unwrap();
        let headers = vector["headers"].as_object().unwrap().iter();
        Self {
            headers: headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect(),
            body: STANDARD.decode(vector["body_base64"].as_str().unwrap()).unwrap(),
            certificate: vector["secrets"][0].as_str().unwrap().to_owned(),
            second_certificate: vector["secrets"].get(1).and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    }

    fn field(&self, name: &str) -> String {
        serde_json::from_slice::<Value>(&self.body).unwrap()[name].as_str().unwrap().to_owned()
    }

    fn url(&self) -> String {
        self.field("SigningCertURL")
    }

    fn event(&self, harness: &Harness) -> Value {
        gateway_event("POST", "/webhooks/topic", &self.headers, &self.body, &harness.clock)
    }

    /// The event of an unauthenticated caller who names another certificate of the provider, and its URL.
    fn naming(&self, number: usize, harness: &Harness) -> (String, Value) {
        let url = self.url().replace(".pem", &format!("{number}.pem"));
        (url.clone(), self.changed(&self.url(), &url, harness))
    }

    fn changed(&self, was: &str, is: &str, harness: &Harness) -> Value {
        let mut event = self.event(harness);
        event["body"] = json!(event["body"].as_str().unwrap().replace(was, is));
        event
    }
}

const VALID: &str = "sns-v1-valid";

/// A stack with these endpoints of SNS, a function that has just started, and a signed message for `topic`.
async fn with_message(id: &str, endpoints: &[&str]) -> (Harness, Webhook, Sns) {
    let harness = Harness::new().await;
    let document = json!({ "provider": "aws_sns", "secrets": [], "settings": { "topic_arns": TOPIC } });
    for endpoint in endpoints {
        harness.endpoints.put(endpoint, document.to_string());
    }
    let webhook = harness.webhook(&Script::none());
    (harness, webhook, Sns::vector(id))
}

/// The same, and the certificate stands where the message says.
async fn with_certificate(id: &str) -> (Harness, Webhook, Sns) {
    let (harness, webhook, sns) = with_message(id, &["topic"]).await;
    harness.materials.put(&sns.url(), sns.certificate.as_str());
    (harness, webhook, sns)
}

fn refused(outbound: &Answer) -> (u16, String, bool) {
    let (status, code) = word(outbound);
    (status, code, outbound.headers.contains_key("retry-after"))
}

#[tokio::test]
async fn a_certificate_is_fetched_once_and_kept() {
    let (harness, webhook, sns) = with_certificate(VALID).await;
    for expected in ["accepted", "duplicate", "duplicate"] {
        assert_eq!(word(&webhook.handle(sns.event(&harness)).await), (200, expected.to_owned()));
    }
    assert_eq!(harness.materials.urls(), [sns.url()]);

    let forged = sns.changed("Hello world!", "Hello there!", &harness);
    assert_eq!(refused(&webhook.handle(forged).await), (401, "signature_mismatch".to_owned(), false));
    assert_eq!(harness.materials.urls().len(), 1);
}

#[tokio::test]
async fn an_unavailable_certificate_makes_the_provider_retry_and_is_fetched_again_after_a_pause() {
    let (harness, webhook, sns) = with_message(VALID, &["topic"]).await;
    let unavailable = (503, "material_unavailable".to_owned(), true);
    for _ in 0..5 {
        assert_eq!(refused(&webhook.handle(sns.event(&harness)).await), unavailable);
    }
    assert_eq!(harness.materials.urls().len(), 1, "not once for each delivery");
    assert!(harness.tables().await.records.is_empty());
    assert_eq!((harness.metric("unproven_retry_please"), harness.metric("delivery_retry_please")), (5, 0));

    harness.materials.put(&sns.url(), sns.certificate.as_str());
    harness.clock.advance(Millis::seconds(10));
    assert_eq!(word(&webhook.handle(sns.event(&harness)).await), (200, "accepted".to_owned()));
}

#[tokio::test]
async fn a_certificate_of_a_strangers_host_is_never_fetched() {
    let (harness, webhook, sns) = with_message("sns-foreign-cert-host", &["topic"]).await;
    let outbound = webhook.handle(sns.event(&harness)).await;
    assert_eq!(outbound.status_code, 401, "{}", outbound.body);
    assert!(harness.materials.urls().is_empty());
}

#[tokio::test]
async fn a_subscription_is_confirmed_by_one_visit_and_never_stored() {
    let (harness, webhook, sns) = with_certificate("sns-subscription-confirmation").await;
    let outbound = webhook.handle(sns.event(&harness)).await;
    assert_eq!(refused(&outbound), (503, "material_unavailable".to_owned(), true), "the visit failed");

    harness.materials.put(&sns.field("SubscribeURL"), "<ConfirmSubscriptionResponse/>");
    let outbound = webhook.handle(sns.event(&harness)).await;
    assert_eq!(outbound.status_code, 200, "{}", outbound.body);
    let visits = harness.materials.urls().into_iter().filter(|url| *url == sns.field("SubscribeURL")).count();
    assert_eq!(visits, 2);
    assert!(harness.tables().await.records.is_empty());
    assert_eq!(harness.metric("handshake_answered"), 1);
}

/// A provider that renews its certificate publishes it at a new URL, which the next message names.
#[tokio::test]
async fn a_renewed_certificate_is_fetched_when_a_message_names_it_and_the_old_one_is_kept() {
    let (harness, webhook, old) = with_certificate(VALID).await;
    let new = Sns::vector("aws_sns/rotated-secret");
    let (was, is) = (new.url(), new.url().replace(".pem", "renewed.pem"));
    let renewed = new.changed(&was, &is, &harness);
    harness.materials.put(&is, new.second_certificate.as_str());
    for event in [old.event(&harness), renewed.clone(), renewed, old.event(&harness)] {
        assert_eq!(webhook.handle(event).await.status_code, 200);
    }
    assert_eq!(harness.materials.urls(), [old.url(), is]);
}

/// What worked before has a budget of its own: unauthenticated callers cannot keep it from being fetched again.
#[tokio::test]
async fn a_certificate_that_worked_is_fetched_again_whatever_strangers_name() {
    let (harness, webhook, sns) = with_certificate(VALID).await;
    let (own, other) = (sns.url(), Sns::vector("aws_sns/rotated-secret"));
    assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 200);
    harness.clock.advance(Millis::hours(23));
    for number in 0..2 * MATERIALS_MAX {
        let (url, forged) = sns.naming(number, &harness);
        // Half of the names exist: anyone may know other certificates of the provider.
        if number % 2 == 0 {
            harness.materials.put(&url, other.second_certificate.as_str());
        }
        assert_ne!(webhook.handle(forged).await.status_code, 200);
    }
    let before = harness.materials.urls().len();
    assert!(before <= 1 + FETCHES_PER_MINUTE_MAX, "{before} fetches");
    assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 200);
    assert_eq!(harness.materials.urls()[before..], [own]);
}

/// Anyone can name a certificate that exists. It counts as ours only once it has verified a delivery.
#[tokio::test]
async fn a_certificate_that_verified_nothing_pages_nobody_when_it_is_gone() {
    let (harness, webhook, sns) = with_message(VALID, &["topic"]).await;
    let (url, other) = (sns.url(), Sns::vector("aws_sns/rotated-secret"));
    harness.materials.put(&url, other.second_certificate.as_str());
    assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 401);
    harness.materials.remove(&url);
    harness.clock.advance(Millis::hours(24));
    assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 503);
    assert_eq!((harness.metric("delivery_retry_please"), harness.metric("unproven_retry_please")), (0, 1));
}

#[tokio::test]
async fn a_failing_name_is_fetched_with_growing_pauses() {
    let (harness, webhook, sns) = with_message(VALID, &["topic"]).await;
    let mut fetched_at = Vec::new();
    for second in 0..1_200 {
        let before = harness.materials.urls().len();
        assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 503);
        if harness.materials.urls().len() > before {
            fetched_at.push(second);
        }
        harness.clock.advance(Millis::seconds(1));
    }
    assert_eq!(fetched_at, [0, 10, 30, 70, 150, 310, 610, 910]);
}

/// An endpoint that uses up its fetches takes none from the others.
#[tokio::test]
async fn the_fetches_of_one_endpoint_are_not_those_of_another() {
    let (harness, webhook, sns) = with_message(VALID, &["topic", "other"]).await;
    for number in 0..=FETCHES_PER_MINUTE_MAX {
        webhook.handle(sns.naming(number, &harness).1).await;
    }
    harness.materials.put(&sns.url(), sns.certificate.as_str());
    assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 503, "its fetches are used up");
    let other = gateway_event("POST", "/webhooks/other", &sns.headers, &sns.body, &harness.clock);
    assert_eq!(webhook.handle(other).await.status_code, 200);
}

/// While the provider's host does not answer, a cached certificate is used for longer, but not forever.
#[tokio::test]
async fn a_kept_certificate_is_fetched_anew_after_six_hours_and_used_for_a_day_while_no_other_can_be_had() {
    let (harness, webhook, sns) = with_certificate(VALID).await;
    assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, 200);
    harness.materials.remove(&sns.url());
    for (pause, fetched, status) in [
        (Millis(Millis::hours(6).0 - 1), 1, 200),
        (Millis(1), 2, 200),
        (Millis::seconds(9), 2, 200),
        (Millis::seconds(1), 3, 200),
        (Millis(Millis::hours(18).0 - 10_001), 4, 200),
        (Millis(1), 4, 503),
        (Millis::seconds(10), 5, 503),
    ] {
        harness.clock.advance(pause);
        assert_eq!(webhook.handle(sns.event(&harness)).await.status_code, status, "after {pause:?} more");
        assert_eq!(harness.materials.urls().len(), fetched, "after {pause:?} more");
    }
    let counted = (harness.metric("delivery_retry_please"), harness.metric("unproven_retry_please"));
    assert_eq!(counted, (2, 0), "it has verified deliveries, so somebody has to look");
}

/// A source that never answers.
struct Silent;

impl MaterialSource for Silent {
    async fn fetch(&self, _url: &str, _post_body: Option<&str>) -> Result<Vec<u8>, Unavailable> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_side_that_never_answers_is_waited_for_only_so_long() {
    let id = EndpointId::parse("topic").unwrap();
    let visited = Materials::new(Silent)
        .visit(&id, "https://sns.us-west-2.amazonaws.com/", START, Deadline::of(&Timing::standard()))
        .await;
    assert_eq!(visited, Err(Unavailable));
}
