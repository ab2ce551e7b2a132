//! What is authentic is kept: no delivery whose signature holds is refused for its content.

use std::collections::BTreeSet;

use hookonce_providers::{Catalog, Fallback, Provider, Received, Refusal, Request, UnsignedRequest, VerifiedDelivery};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{Vector, Verdict, all, valid};

/// Parts of the names of headers that a signature makes.
const SIGNATURES: [&str; 8] =
    ["signature", "signed-headers", "timestamp", "authorization", "token", "mac", "verification", "hmac"];

/// The last names of the paths, and the headers, by which a provider names its events.
fn id_names(provider: &Provider) -> BTreeSet<String> {
    let file = serde_json::to_value(provider).unwrap();
    let lists = ["scheme", "items"].into_iter().filter_map(|name| file[name].as_array()).flatten();
    let rules = lists.chain([&file]).filter_map(|part| part["key"].as_array()).flatten();
    let sources = rules.flat_map(|rule| rule.as_str().unwrap().split(" + "));
    sources.filter_map(|source| source.rsplit([':', '.']).next()).map(str::to_owned).collect()
}

/// Takes every member with one of these names out.
fn without(names: &BTreeSet<String>, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !names.contains(name) || member.is_object() || member.is_array());
            members.values_mut().for_each(|member| without(names, member));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| without(names, element)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The delivery of a vector with another body and without some headers, signed again. `None` if nothing here signs it:
/// the scheme needs a private key, or keeps what it signs inside the body.
fn delivered(
    vector: &Vector,
    provider: &Provider,
    body: &[u8],
    dropped: &BTreeSet<String>,
) -> Option<VerifiedDelivery> {
    // Braintree signs words for anyone, so it never takes a payload that is not XML for a delivery.
    if provider.id() == "braintree" && !body.trim_ascii_start().starts_with(b"<") {
        return None;
    }
    let captured = &vector.captured;
    let is_kept = |name: &str| !SIGNATURES.iter().any(|part| name.contains(part)) && !dropped.contains(name);
    let given = captured.headers.iter().filter(|(name, _)| is_kept(name));
    let given: Vec<(String, String)> =
        given.filter_map(|(name, value)| Some((name.clone(), String::from_utf8(value.clone()).ok()?))).collect();
    let unsigned = UnsignedRequest { method: "POST", url: &captured.url, headers: &given, body };
    let signed =
        provider.sign_request_with(&unsigned, &captured.secrets[0], &captured.settings, &[], captured.now).ok()?;
    let made = given.into_iter().chain(signed.headers).map(|(name, value)| (name, value.into_bytes()));
    // A signer derives an id that is not given; a provider that forgets it does not.
    let headers: Vec<_> = made.filter(|(name, _)| !dropped.contains(name)).collect();
    let request = Request { method: "POST", url: &captured.url, headers: &headers, body: &signed.body };
    let keyring = provider.keyring(&captured.secrets).unwrap();
    match provider.receive(&request, &keyring, &captured.settings, None, captured.now) {
        Ok(Received::Delivery(delivery)) => {
            assert_eq!(delivery.body(), signed.body, "{}", vector.id);
            Some(delivery)
        }
        // Some bodies are a question of the provider.
        Ok(Received::Handshake(_)) => None,
        // Where anyone can have words signed, a word is no delivery.
        Err(Refusal::SignatureMismatch) if signed.body.iter().all(u8::is_ascii_alphanumeric) => None,
        // An id that is part of the signed text cannot be left out.
        Err(Refusal::SignatureMismatch | Refusal::SignatureMissing) if !dropped.is_empty() => None,
        other => panic!("{}: {other:?} for {}", vector.id, String::from_utf8_lossy(&signed.body)),
    }
}

fn check(provider: &Provider, delivery: &VerifiedDelivery) {
    let events = delivery.contents().events();
    assert!(!events.is_empty() && events.iter().all(|event| !event.key.as_str().is_empty()), "{}", provider.id());
    assert_eq!(provider.split(delivery.body(), delivery.headers()), events, "{}", provider.id());
    for event in events {
        let again = provider.split(&event.body, delivery.headers());
        assert_eq!(again, std::slice::from_ref(event), "{}", provider.id());
    }
}

#[test]
fn no_vector_is_refused_once_its_id_or_its_whole_body_is_gone() {
    let (mut checked, mut fallbacks) = (BTreeSet::new(), 0);
    for file in all() {
        let provider = Catalog::built_in().provider(&file.provider).unwrap();
        let names = id_names(provider);
        for vector in file.vectors.iter().filter(|vector| vector.expected.verdict == Verdict::Accepted) {
            let body = &vector.captured.body;
            let mut bodies =
                vec![body.clone(), b"}{ \xff\xfe\x00".to_vec(), b"{}".to_vec(), b"[1]".to_vec(), Vec::new()];
            if let Ok(mut document) = serde_json::from_slice::<Value>(body) {
                without(&names, &mut document);
                bodies.push(document.to_string().into_bytes());
            }
            for (body, dropped) in bodies.iter().flat_map(|body| [(body, BTreeSet::new()), (body, names.clone())]) {
                let Some(delivery) = delivered(vector, provider, body, &dropped) else { continue };
                check(provider, &delivery);
                fallbacks += delivery.contents().events().iter().filter(|event| event.fallback.is_some()).count();
                checked.insert(provider.id());
            }
        }
    }
    println!("{} providers, {fallbacks} events kept by their content", checked.len());
    assert!(checked.len() >= 51 && fallbacks > 2_000, "{} providers, {fallbacks} events", checked.len());
}

#[test]
fn a_delivery_without_an_id_is_kept_under_the_hash_of_its_body() {
    use sha2::{Digest as _, Sha256};
    let stripe = Catalog::built_in().provider("stripe").unwrap();
    for (body, event_type, fallback) in [
        (r#"{"type":"invoice.paid"}"#, "invoice.paid", Fallback::IdMissing),
        (r#"{"id":null,"type":"x"}"#, "x", Fallback::IdMissing),
        (r#"{"id":"evt_1","id":"evt_2","type":"x"}"#, "unreadable", Fallback::BodyUnreadable),
        ("not json", "unreadable", Fallback::BodyUnreadable),
        ("", "unreadable", Fallback::BodyUnreadable),
    ] {
        let delivery = delivered(valid("stripe"), stripe, body.as_bytes(), &BTreeSet::new()).unwrap();
        let event = &delivery.contents().events()[0];
        let hash = format!("sha256:{}", hex::encode(Sha256::digest(body)));
        assert_eq!((event.key.as_str(), event.event_type.as_str()), (hash.as_str(), event_type), "{body}");
        assert_eq!((event.fallback, event.body.as_slice()), (Some(fallback), body.as_bytes()));
    }
    let long = format!(r#"{{"id":"{}","type":"x"}}"#, "x".repeat(5_000));
    let delivery = delivered(valid("stripe"), stripe, long.as_bytes(), &BTreeSet::new()).unwrap();
    let event = &delivery.contents().events()[0];
    assert_eq!(event.key.as_str(), format!("sha256:{}", hex::encode(Sha256::digest("x".repeat(5_000)))));
    assert_eq!(event.fallback, Some(Fallback::IdTooLong), "the same id in another body is the same event");
}

/// A type becomes an attribute of the record, and a word in logs and routes.
#[test]
fn a_type_that_is_too_long_is_unknown() {
    let stripe = Catalog::built_in().provider("stripe").unwrap();
    for (bytes, event_type) in [(4_096, "x".repeat(4_096)), (4_097, "unknown".to_owned())] {
        let body = format!(r#"{{"id":"evt_1","type":"{}"}}"#, "x".repeat(bytes));
        let delivery = delivered(valid("stripe"), stripe, body.as_bytes(), &BTreeSet::new()).unwrap();
        assert_eq!(delivery.contents().events()[0].event_type, event_type, "{bytes} bytes");
    }
}

/// Anyone may have a word signed with the secret of an endpoint of X, so a signed word is not a delivery.
#[test]
fn a_word_that_strangers_may_have_signed_is_no_delivery() {
    let vector = valid("x_twitter");
    let provider = Catalog::built_in().provider("x_twitter").unwrap();
    let captured = &vector.captured;
    for (body, is_delivery) in [("challenge-1", false), ("42", false), ("challenge 1", true), ("{}", true)] {
        let unsigned = UnsignedRequest { method: "POST", url: &captured.url, headers: &[], body: body.as_bytes() };
        let signed = provider.sign(&unsigned, &captured.secrets[0], captured.now).unwrap();
        let headers: Vec<_> = signed.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
        let request = Request { method: "POST", url: &captured.url, headers: &headers, body: body.as_bytes() };
        let keyring = provider.keyring(&captured.secrets).unwrap();
        let received = provider.receive(&request, &keyring, &captured.settings, None, captured.now);
        assert_eq!(received.is_ok(), is_delivery, "{body}: {received:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_signed_is_kept_and_read_the_same_again(
        at in any::<prop::sample::Index>(),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        bytes in prop_oneof!["[\\[\\]{}:,\"a-z0-9\n ]{0,60}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..60)],
    ) {
        let provider = Catalog::built_in().iter().nth(at.index(Catalog::built_in().len())).unwrap();
        let vector = valid(provider.id());
        let mut body = vector.captured.body.clone();
        let (start, end) = (cut.0.index(body.len() + 1), cut.1.index(body.len() + 1));
        body.splice(start.min(end)..start.max(end), bytes.iter().copied());
        for body in [body, bytes] {
            if let Some(delivery) = delivered(vector, provider, &body, &BTreeSet::new()) {
                check(provider, &delivery);
            }
        }
    }
}
