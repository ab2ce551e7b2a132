//! The rules of receiving that hold for every provider.

use hookonce_protocol::time::{EpochSec, Millis};
use hookonce_providers::{CapturedRequest, Catalog, Fallback, KeyringError, Received, Refusal};

use crate::support::{
    NOW, SMALL, delivery, event, hash_key, headers, is_accepted, owned, provider, receive, received, request, sent,
    settings, sign, valid,
};

/// The request with one more header.
fn with(mut captured: CapturedRequest, name: &str, value: &str) -> CapturedRequest {
    captured.headers.extend(headers([(name, value)]));
    captured
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
        let signature = format!("t={at},v1={}", "00".repeat(32));
        let captured = with(request("acme", "secret", "{}"), "acme-signature", &signature);
        assert_eq!(receive(&acme(signs, unit), &captured).unwrap_err().code(), code, "{signs} {at}");
    }
}

#[test]
fn there_is_no_empty_key_ring() {
    for provider in Catalog::built_in().iter() {
        let empty = provider.keyring(&[]);
        assert_eq!(empty.is_ok(), provider.fetches_keys(), "{}", provider.id());
    }
    for (id, secrets, error) in [
        ("stripe", &[""][..], KeyringError::Unusable { index: 0 }),
        ("stripe", &["s"; 11], KeyringError::TooMany),
        ("standard_webhooks", &["whsec_c2VjcmV0", "whsec_!"], KeyringError::Unusable { index: 1 }),
    ] {
        assert_eq!(provider(id).keyring(&owned(secrets)).unwrap_err(), error, "{id}: {} secrets", secrets.len());
    }
}

#[test]
fn nothing_that_holds_a_secret_prints_it() {
    let keyring = provider("stripe").keyring(&owned(&["hunter2"])).unwrap();
    let settings = settings(&[("verify_token", "hunter2")]);
    let delivery = delivery(&sent("stripe", "hunter2", &[], STRIPE));
    let printed = format!("{keyring:?} {settings:?} {delivery:?}");
    assert!(!printed.contains("hunter2") && !printed.contains("invoice.paid"), "{printed}");
}

/// A question that was signed with the old secret is answered with it, because its sender does not know the new one.
#[test]
fn the_secret_that_fitted_answers_the_question() {
    let question = r#"{"event":"endpoint.url_validation","payload":{"plainToken":"token-1"}}"#;
    let current = sent("zoom", "old", &[], question);
    let rotated = CapturedRequest { secrets: owned(&["new", "old"]), ..current.clone() };
    assert!(matches!(received(&current), Ok(Received::Handshake(_))));
    assert_eq!(received(&rotated), received(&current));
}

/// Only where anyone can have words signed does a signed word prove nothing, and no header that comes twice makes an
/// authentic delivery a question.
#[test]
fn what_is_signed_and_is_no_question_is_a_delivery() {
    for body in ["42", r#"{"event_id":"Ev1","event":{"type":"url_verification","challenge":"x"}}"#] {
        assert!(is_accepted(&sent("slack", "s", &[], body)), "{body}");
    }
    let kind = ("twitch-eventsub-message-type", "webhook_callback_verification");
    let once = sent("twitch_eventsub", "s", &[("twitch-eventsub-message-id", "1"), kind], "{}");
    assert!(is_accepted(&with(once, kind.0, kind.1)));
}

#[test]
fn a_key_ring_of_another_provider_opens_nothing() {
    let sent = sent("stripe", "s", &[], STRIPE);
    let keyring = provider("calendly").keyring(&sent.secrets).unwrap();
    let received = provider("stripe").receive(&sent.request(), &keyring, &sent.settings, None, NOW);
    assert_eq!(received, Err(Refusal::NotConfigured));
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
        let now = EpochSec(NOW.0 + age);
        let judged = CapturedRequest { now, tolerance: own, ..sent("stripe", "s", &[], STRIPE) };
        assert_eq!(received(&judged).err(), (!accepted).then_some(Refusal::TimestampOutOfRange), "{age}");
    }
}

#[test]
fn a_stale_forgery_is_a_forgery() {
    let (secrets, now) = (owned(&["s"]), EpochSec(NOW.0 + 86_400));
    let forged = CapturedRequest { secrets, now, ..sent("stripe", "other", &[], STRIPE) };
    assert_eq!(received(&forged), Err(Refusal::SignatureMismatch));
}

#[test]
fn a_delivery_without_a_timestamp_is_never_late() {
    let (tolerance, now) = (Some(Millis::seconds(1)), EpochSec(NOW.0 + 86_400));
    assert!(is_accepted(&CapturedRequest { tolerance, now, ..sent("github", "s", &[], "{}") }));
}

#[test]
fn a_strong_signature_that_is_wrong_is_not_excused_by_a_weak_one() {
    let weak = CapturedRequest { schemes: owned(&["sha1"]), ..request("github", "s", "{}") };
    let signed = CapturedRequest { schemes: Vec::new(), ..sign(&weak).unwrap() };
    let wrong = with(signed, "x-hub-signature-256", "sha256=00");
    assert_eq!(received(&wrong), Err(Refusal::SignatureMismatch));
}

/// Slack signs its question and Notion does not. So the one is not answered without a signature, and what Notion has
/// signed is kept, whatever it looks like.
#[test]
fn a_signature_decides_between_a_question_and_a_delivery() {
    for (id, body, question_is_signed) in [
        ("slack", r#"{"type":"url_verification","challenge":"abc"}"#, true),
        ("notion", r#"{"verification_token":"secret_abc"}"#, false),
    ] {
        let (signed, unsigned) = (sent(id, "s", &[], body), request(id, "s", body));
        let (accepted, other) = if question_is_signed { (signed, unsigned) } else { (unsigned, signed) };
        assert!(matches!(received(&accepted), Ok(Received::Handshake(_))), "{id}");
        match received(&other) {
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
    let sent =
        |id: &str, event: &str| sent("github", "s", &[("x-github-delivery", id), ("x-github-event", event)], "{}");
    let (whole, hash) = (sent("1", "push"), hash_key("{}"));
    for (request, key, event_type, fallback) in [
        (whole.clone(), "1", "push", None),
        (with(with(whole.clone(), "X-GitHub-Delivery", "1"), "X-GITHUB-EVENT", "push"), "1", "push", None),
        (sent("1, 1", "push,push"), "1", "push", None),
        (with(whole.clone(), "x-github-delivery", "2"), &hash, "push", Some(Fallback::IdMissing)),
        (sent("1, 2", "push"), &hash, "push", Some(Fallback::IdMissing)),
        (with(whole.clone(), "x-github-event", "ping"), "1", "unknown", None),
    ] {
        let event = event(&request);
        assert_eq!((event.key.as_str(), event.event_type.as_str(), event.fallback), (key, event_type, fallback));
    }
    let signature = "x-hub-signature-256";
    let value = whole.headers.iter().find(|(name, _)| name == signature).unwrap().1.clone();
    let value = String::from_utf8(value).unwrap();
    let twice = with(whole.clone(), "X-Hub-Signature-256", &value);
    let mut joined = whole;
    joined.headers.retain(|(name, _)| name != signature);
    for request in [twice, with(joined, signature, &format!("{value}, {value}"))] {
        assert_eq!(received(&request), Err(Refusal::DuplicateHeader));
    }
}

/// Its headers name an event, and no handler could read the body.
#[test]
fn a_body_that_is_no_document_is_unreadable_under_the_id_of_its_header() {
    for (id, header, type_header, body, is_document) in [
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
        let event = event(&sent(id, "s", &[(header, "1"), (type_header, "push")], body));
        let expected = if is_document { ("push", None) } else { ("unreadable", Some(Fallback::BodyUnreadable)) };
        assert_eq!(event.key.as_str(), "1", "{id}: {body}");
        assert_eq!((event.event_type.as_str(), event.fallback), expected, "{id}: {body}");
    }
}

#[test]
fn kept_headers_hold_no_signature_and_nothing_unlisted() {
    let kept = [("X-GitHub-Delivery", "1"), ("Content-Type", "application/json")];
    let unwanted = [("authorization", "hunter2"), ("cookie", "hunter2"), ("x-hookonce-signed-at", "1")];
    let delivery = delivery(&sent("github", "s", &[&kept[..], &unwanted].concat(), "{}"));
    let names: Vec<&str> = delivery.headers().keys().map(String::as_str).collect();
    assert_eq!(names, ["content-type", "x-github-delivery"]);
    assert_eq!(delivery.contents().events()[0].event_type, "unknown");
}

/// Monday sends a short-lived token of its API along with every event, and GitHub sent the secret itself for some months.
#[test]
fn a_token_that_a_sender_adds_is_never_stored() {
    const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzaG9ydExpdmVkVG9rZW4iOiJhIn0.c2ln";
    for provider in Catalog::built_in().iter() {
        let mut captured = valid(provider.id()).clone();
        let has = |name: &str| captured.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let added = ["authorization", "x-short-lived-token", "x-github-encoded-secret", "cookie"]
            .into_iter()
            .filter(|name| !has(name));
        let added: Vec<_> = added.map(|name| (name, JWT)).collect();
        captured.headers.extend(headers(added));
        let delivery = delivery(&captured);
        for (name, value) in delivery.headers() {
            let own = captured.secrets.iter().any(|secret| value.contains(secret.as_str()));
            assert!(!own && !value.contains(JWT), "{}: {name}", provider.id());
        }
    }
}

#[test]
fn an_id_that_the_signature_does_not_cover_never_replaces_one_that_it_does() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let sent = sent("standard_webhooks", secret, &[("webhook-id", "msg_1")], "{}");
    let replay = CapturedRequest { provider: "svix".to_owned(), ..with(sent, "svix-id", "msg_fresh") };
    let delivery = delivery(&replay);
    assert_eq!(delivery.contents().events()[0].key.as_str(), "msg_1");
    assert!(!delivery.headers().contains_key("svix-id"));
}

#[test]
fn equal_pings_are_deliveries_of_their_own() {
    let sent = sent("dropbox", "s", &[], r#"{"list_folder":{"accounts":["a"]}}"#);
    assert_eq!(event(&sent).key, event(&sent).key);
    assert_ne!(event(&sent).key, event(&with(sent.clone(), "x-amzn-trace-id", "Root=1-2")).key);
}

#[test]
fn the_signed_url_is_the_public_one() {
    let public = "https://hooks.example.com/square?a=1";
    let unsigned = CapturedRequest { url: public.to_owned(), ..request("square", "s", r#"{"event_id":"1"}"#) };
    let signed = sign(&unsigned).unwrap();
    for (url, public_url, accepted) in [
        (public, "", true),
        ("https://abc.execute-api.example/square?a=1", "", false),
        ("https://abc.execute-api.example/square?a=1", "https://hooks.example.com/square", true),
        ("https://abc.execute-api.example/square?a=2", public, true),
        (public, "https://elsewhere.example/square", false),
    ] {
        let (url, settings) = (url.to_owned(), settings(&[("public_url", public_url)]));
        let called = CapturedRequest { url, settings, ..signed.clone() };
        assert_eq!(is_accepted(&called), accepted, "{} with `{public_url}`", called.url);
    }
}

/// A form parser may remove the line break that Braintree signs. Both readings verify, as one delivery.
#[test]
fn a_line_break_at_the_end_makes_no_second_key_of_a_payload() {
    let settings = settings(&[("public_key", "public_key")]);
    let sent = sent("braintree", "private", &[], "<notification><kind>check</kind></notification>");
    let sent = CapturedRequest { settings, ..sent };
    let bare = CapturedRequest { body: sent.body.strip_suffix(b"%0A").unwrap().to_vec(), ..sent.clone() };
    assert_eq!(event(&sent).key, event(&bare).key);
}
