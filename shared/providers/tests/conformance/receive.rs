//! The rules of receiving that hold for every provider.

use hookonce_protocol::time::{EpochSec, Millis};
use hookonce_providers::{
    Catalog, Fallback, KeyringError, Received, Refusal, Request, Settings, UnsignedRequest, VerifiedDelivery,
};

use sha2::{Digest as _, Sha256};

use crate::support::{SMALL, provider};

const NOW: EpochSec = EpochSec(1_767_225_600);
const URL: &str = "https://example.com/hook";

fn secrets(secrets: &[&str]) -> Vec<String> {
    secrets.iter().map(|secret| (*secret).to_owned()).collect()
}

/// A request as it travels.
#[derive(Clone)]
struct Sent {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Sent {
    fn by(id: &str, secret: &str, at: EpochSec, headers: &[(&str, &str)], body: &str) -> Self {
        let given: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let unsigned = UnsignedRequest { method: "POST", url: URL, headers: &given, body: body.as_bytes() };
        let signed = provider(id).sign_request(&unsigned, secret, at).unwrap();
        let headers = given.into_iter().chain(signed.headers);
        Self { headers: headers.map(|(name, value)| (name, value.into_bytes())).collect(), body: signed.body }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    fn judged(&self, id: &str, held: &[&str], tolerance: Option<Millis>) -> Result<Received, Refusal> {
        let keyring = provider(id).keyring(&secrets(held)).unwrap();
        let request = Request { method: "POST", url: URL, headers: &self.headers, body: &self.body };
        provider(id).receive(&request, &keyring, &Settings::none(), tolerance, NOW)
    }

    fn received(&self, id: &str, held: &[&str], tolerance: Option<Millis>) -> Result<VerifiedDelivery, Refusal> {
        match self.judged(id, held, tolerance)? {
            Received::Delivery(delivery) => Ok(delivery),
            other => panic!("not a delivery: {other:?}"),
        }
    }
}

const STRIPE: &str = r#"{"id":"evt_1","type":"invoice.paid"}"#;

/// A digit of the body must not move into the timestamp: `1767225600` + `1..` and `17672256001` + `..` are one text.
#[test]
fn a_timestamp_that_touches_the_body_has_a_fixed_width() {
    let acme = |signs: &str, unit: &str| {
        let text = SMALL.replace("{ts}.{body}", signs).replace("\"seconds\"", &format!("\"{unit}\""));
        Catalog::parse([("acme.toml", text.as_str())]).unwrap().provider("acme").unwrap().clone()
    };
    for (signs, unit, at, code) in [
        ("{ts}{body}", "seconds", "17672256001", "timestamp_malformed"),
        ("{body}{ts}", "seconds", "176722560", "timestamp_malformed"),
        ("{ts}{body}", "milliseconds", "17672256000001", "timestamp_malformed"),
        ("{ts}{body}", "seconds", "1767225600", "signature_mismatch"),
        ("{ts}.{body}", "seconds", "17672256001", "signature_mismatch"),
    ] {
        let provider = acme(signs, unit);
        let headers = [("acme-signature".to_owned(), format!("t={at},v1={}", "00".repeat(32)).into_bytes())];
        let request = Request { method: "POST", url: "https://example.com/", headers: &headers, body: b"{}" };
        let keyring = provider.keyring(&["secret".to_owned()]).unwrap();
        let refused = provider.receive(&request, &keyring, &Settings::none(), None, EpochSec(1_767_225_600));
        assert_eq!(refused.unwrap_err().code(), code, "{signs} {at}");
    }
}

#[test]
fn there_is_no_empty_key_ring() {
    for provider in Catalog::built_in().iter() {
        let empty = provider.keyring(&[]);
        assert_eq!(empty.is_ok(), provider.fetches_keys(), "{}", provider.id());
    }
    assert_eq!(provider("stripe").keyring(&secrets(&[""])).unwrap_err(), KeyringError::Unusable { index: 0 });
    assert_eq!(provider("stripe").keyring(&vec!["s".to_owned(); 11]).unwrap_err(), KeyringError::TooMany);
    let unusable = provider("standard_webhooks").keyring(&secrets(&["whsec_c2VjcmV0", "whsec_!"])).unwrap_err();
    assert_eq!(unusable, KeyringError::Unusable { index: 1 });
}

#[test]
fn nothing_that_holds_a_secret_prints_it() {
    let keyring = provider("stripe").keyring(&secrets(&["hunter2"])).unwrap();
    let settings: Settings = [("verify_token".to_owned(), "hunter2".to_owned())].into_iter().collect();
    let delivery = Sent::by("stripe", "hunter2", NOW, &[], STRIPE).received("stripe", &["hunter2"], None).unwrap();
    let printed = format!("{keyring:?} {settings:?} {delivery:?}");
    assert!(!printed.contains("hunter2") && !printed.contains("invoice.paid"), "{printed}");
}

/// A question that was signed with the old secret is answered with it, because its sender does not know the new one.
#[test]
fn the_secret_that_fitted_answers_the_question() {
    let question = r#"{"event":"endpoint.url_validation","payload":{"plainToken":"token-1"}}"#;
    let judged = |held: &[&str]| Sent::by("zoom", "old", NOW, &[], question).judged("zoom", held, None).unwrap();
    assert!(matches!(judged(&["old"]), Received::Handshake(_)));
    assert_eq!(judged(&["new", "old"]), judged(&["old"]));
}

/// Only where anyone can have words signed does a signed word prove nothing, and no header that comes twice makes an
/// authentic delivery a question.
#[test]
fn what_is_signed_and_is_no_question_is_a_delivery() {
    assert!(Sent::by("slack", "s", NOW, &[], "42").received("slack", &["s"], None).is_ok());
    let kind = ("twitch-eventsub-message-type", "webhook_callback_verification");
    let sent = Sent::by("twitch_eventsub", "s", NOW, &[("twitch-eventsub-message-id", "1"), kind], "{}");
    assert!(sent.with(kind.0, kind.1).received("twitch_eventsub", &["s"], None).is_ok());
}

#[test]
fn a_key_ring_of_another_provider_opens_nothing() {
    let sent = Sent::by("stripe", "s", NOW, &[], STRIPE);
    let keyring = provider("calendly").keyring(&secrets(&["s"])).unwrap();
    let request = Request { method: "POST", url: URL, headers: &sent.headers, body: &sent.body };
    let received = provider("stripe").receive(&request, &keyring, &Settings::none(), None, NOW);
    assert_eq!(received.unwrap_err(), Refusal::NotConfigured);
}

#[test]
fn the_tolerance_holds_both_ways_and_an_endpoint_may_set_its_own() {
    for (age, own, accepted) in [
        (300, None, true),
        (301, None, false),
        (-300, None, true),
        (-301, None, false),
        (301, Some(Millis::minutes(10)), true),
        (299, Some(Millis::seconds(10)), false),
    ] {
        let sent = Sent::by("stripe", "s", EpochSec(NOW.0 - age), &[], STRIPE);
        let received = sent.received("stripe", &["s"], own);
        assert_eq!(received.is_ok(), accepted, "{age}");
        assert!(accepted || received.unwrap_err() == Refusal::TimestampOutOfRange);
    }
}

#[test]
fn a_stale_forgery_is_a_forgery() {
    let sent = Sent::by("stripe", "other", EpochSec(0), &[], STRIPE);
    assert_eq!(sent.received("stripe", &["s"], None).unwrap_err(), Refusal::SignatureMismatch);
}

#[test]
fn a_tolerance_makes_a_timestamp_necessary() {
    let linear = r#"{"type":"Issue","webhookTimestamp":1767225600000}"#;
    let sent = Sent::by("linear", "s", NOW, &[], linear);
    assert!(sent.received("linear", &["s"], None).is_ok());
    let github = Sent::by("github", "s", NOW, &[], "{}");
    assert!(github.received("github", &["s"], Some(Millis::seconds(1))).is_ok(), "no timestamp, nothing to be late by");
}

#[test]
fn a_strong_signature_that_is_wrong_is_not_excused_by_a_weak_one() {
    let sent = Sent::by("github", "s", NOW, &[("x-github-delivery", "1")], "{}");
    let weak = "sha1=dbdb0ac8dee8b4b0d3b0a0e3bf8ed6c2b6a9c8f5";
    let mut wrong = sent.with("x-hub-signature", weak);
    for (name, value) in &mut wrong.headers {
        if name == "x-hub-signature-256" {
            *value = b"sha256=00".to_vec();
        }
    }
    assert_eq!(wrong.received("github", &["s"], None).unwrap_err(), Refusal::SignatureMismatch);
}

/// Slack signs its question and Notion does not. So the one is not answered without a signature, and what Notion has
/// signed is kept, whatever it looks like.
#[test]
fn a_signature_decides_between_a_question_and_a_delivery() {
    for (id, body, question_is_signed) in [
        ("slack", r#"{"type":"url_verification","challenge":"abc"}"#, true),
        ("notion", r#"{"verification_token":"secret_abc"}"#, false),
    ] {
        let signed = Sent::by(id, "s", NOW, &[], body);
        let unsigned = Sent { headers: Vec::new(), body: body.as_bytes().to_vec() };
        let (asked, other) = if question_is_signed { (signed, unsigned) } else { (unsigned, signed) };
        assert!(matches!(asked.judged(id, &["s"], None), Ok(Received::Handshake(_))), "{id}");
        match other.judged(id, &["s"], None) {
            Err(Refusal::SignatureMissing) => assert!(question_is_signed, "{id}"),
            Ok(Received::Delivery(_)) => assert!(!question_is_signed, "{id}"),
            other => panic!("{id}: {other:?}"),
        }
    }
}

/// A header that the check relies on may come only once. A header that only gives the key or the type of an authentic
/// delivery counts if all its values are equal, and otherwise as missing.
#[test]
fn a_header_that_comes_twice_counts_once_or_not_at_all() {
    let sent = |id: &str, event: &str| {
        Sent::by("github", "s", NOW, &[("x-github-delivery", id), ("x-github-event", event)], "{}")
    };
    let (whole, hash) = (sent("1", "push"), format!("sha256:{}", hex::encode(Sha256::digest("{}"))));
    for (request, key, event_type, fallback) in [
        (whole.clone(), "1", "push", None),
        (whole.clone().with("X-GitHub-Delivery", "1").with("X-GITHUB-EVENT", "push"), "1", "push", None),
        (sent("1, 1", "push,push"), "1", "push", None),
        (whole.clone().with("x-github-delivery", "2"), &hash, "push", Some(Fallback::IdMissing)),
        (sent("1, 2", "push"), &hash, "push", Some(Fallback::IdMissing)),
        (whole.clone().with("x-github-event", "ping"), "1", "unknown", None),
    ] {
        let delivery = request.received("github", &["s"], None).unwrap();
        let event = &delivery.contents().events()[0];
        assert_eq!((event.key.as_str(), event.event_type.as_str(), event.fallback), (key, event_type, fallback));
        let again = provider("github").split(delivery.body(), delivery.headers());
        assert_eq!(again, delivery.contents().events());
    }
    let signature = "x-hub-signature-256";
    let value = whole.headers.iter().find(|(name, _)| name == signature).unwrap().1.clone();
    let value = String::from_utf8(value).unwrap();
    let twice = whole.clone().with("X-Hub-Signature-256", &value);
    let mut joined = whole;
    joined.headers.retain(|(name, _)| name != signature);
    for request in [twice, joined.with(signature, &format!("{value}, {value}"))] {
        assert_eq!(request.received("github", &["s"], None).unwrap_err(), Refusal::DuplicateHeader);
    }
}

/// Its headers name an event, and no handler could read the body.
#[test]
fn a_body_that_is_no_document_is_unreadable_under_the_id_of_its_header() {
    for (id, header, event, body, is_document) in [
        ("github", "x-github-delivery", "x-github-event", "{\"ref\":\"main\"}", true),
        ("github", "x-github-delivery", "x-github-event", "[]", true),
        ("github", "x-github-delivery", "x-github-event", "payload=%7B%22ref%22%3A%22main%22%7D", true),
        ("github", "x-github-delivery", "x-github-event", "payload=%7B%22ref", false),
        ("github", "x-github-delivery", "x-github-event", "ref=main", false),
        ("github", "x-github-delivery", "x-github-event", "", false),
        ("bitbucket", "x-request-uuid", "x-event-key", "{}", true),
        ("bitbucket", "x-request-uuid", "x-event-key", "null", true),
        ("bitbucket", "x-request-uuid", "x-event-key", "{\"push\":", false),
        ("bitbucket", "x-request-uuid", "x-event-key", "payload=%7B%7D", false),
        // It sends XML to whoever asks for it.
        ("shopify", "x-shopify-webhook-id", "x-shopify-topic", "<order/>", true),
    ] {
        let sent = Sent::by(id, "s", NOW, &[(header, "1"), (event, "push")], body);
        let delivery = sent.received(id, &["s"], None).unwrap();
        let part = &delivery.contents().events()[0];
        let expected = if is_document { ("push", None) } else { ("unreadable", Some(Fallback::BodyUnreadable)) };
        assert_eq!(part.key.as_str(), "1", "{id}: {body}");
        assert_eq!((part.event_type.as_str(), part.fallback), expected, "{id}: {body}");
        assert_eq!(provider(id).split(delivery.body(), delivery.headers()), delivery.contents().events());
    }
}

#[test]
fn kept_headers_hold_no_signature_and_nothing_unasked() {
    let sent = Sent::by("github", "s", NOW, &[("X-GitHub-Delivery", "1"), ("Content-Type", "application/json")], "{}")
        .with("authorization", "hunter2")
        .with("cookie", "hunter2")
        .with("x-hookonce-signed-at", "1");
    let delivery = sent.received("github", &["s"], None).unwrap();
    let names: Vec<&str> = delivery.headers().keys().map(String::as_str).collect();
    assert_eq!(names, ["content-type", "x-github-delivery"]);
    assert_eq!(delivery.contents().events()[0].event_type, "unknown");
}

#[test]
fn an_id_that_the_signature_does_not_cover_never_replaces_one_that_it_does() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let sent = Sent::by("standard_webhooks", secret, NOW, &[("webhook-id", "msg_1")], "{}");
    let replay = sent.with("svix-id", "msg_fresh");
    let delivery = replay.received("svix", &[secret], None).unwrap();
    assert_eq!(delivery.contents().events()[0].key.as_str(), "msg_1");
    assert!(!delivery.headers().contains_key("svix-id"));
    let again = provider("svix").split(delivery.body(), delivery.headers());
    assert_eq!(again, delivery.contents().events());
}

#[test]
fn equal_pings_are_deliveries_of_their_own() {
    let sent = Sent::by("dropbox", "s", NOW, &[], r#"{"list_folder":{"accounts":["a"]}}"#);
    let key = |sent: &Sent| {
        let delivery = sent.received("dropbox", &["s"], None).unwrap();
        let again = provider("dropbox").split(delivery.body(), delivery.headers());
        assert_eq!(again, delivery.contents().events());
        delivery.contents().events()[0].key.clone()
    };
    assert_eq!(key(&sent), key(&sent));
    assert_ne!(key(&sent), key(&sent.clone().with("x-amzn-trace-id", "Root=1-2")));
}

#[test]
fn the_signed_url_is_the_public_one() {
    let square = provider("square");
    let body = br#"{"event_id":"1"}"#;
    let public = "https://hooks.example.com/square?a=1";
    let unsigned = UnsignedRequest { method: "POST", url: public, headers: &[], body };
    let headers = square.sign(&unsigned, "s", NOW).unwrap();
    let headers: Vec<(String, Vec<u8>)> = headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
    let keyring = square.keyring(&secrets(&["s"])).unwrap();
    let received = |url: &str, setting: Option<&str>| {
        let settings = setting.map(|url| ("public_url".to_owned(), url.to_owned())).into_iter().collect();
        let request = Request { method: "POST", url, headers: &headers, body };
        square.receive(&request, &keyring, &settings, None, NOW).is_ok()
    };
    assert!(received(public, None));
    assert!(!received("https://abc.execute-api.example/square?a=1", None));
    assert!(received("https://abc.execute-api.example/square?a=1", Some("https://hooks.example.com/square")));
    assert!(received("https://abc.execute-api.example/square?a=2", Some(public)));
    assert!(!received(public, Some("https://elsewhere.example/square")));
}

/// A form parser may remove the line break that Braintree signs. Both readings verify, as one delivery.
#[test]
fn a_line_break_at_the_end_makes_no_second_key_of_a_payload() {
    let sent = Sent::by("braintree", "private", NOW, &[], "<notification><kind>check</kind></notification>");
    let text = String::from_utf8(sent.body.clone()).unwrap();
    let bare = Sent { body: text.strip_suffix("%0A").unwrap().as_bytes().to_vec(), ..sent.clone() };
    let key = |sent: &Sent| {
        let settings = [("public_key".to_owned(), "public_key".to_owned())].into_iter().collect();
        let keyring = provider("braintree").keyring(&secrets(&["private"])).unwrap();
        let request = Request { method: "POST", url: URL, headers: &sent.headers, body: &sent.body };
        match provider("braintree").receive(&request, &keyring, &settings, None, NOW) {
            Ok(Received::Delivery(delivery)) => delivery.contents().events()[0].key.clone(),
            other => panic!("not a delivery: {other:?}"),
        }
    };
    assert_eq!(key(&sent), key(&bare));
}
