//! What is authentic is kept: no delivery whose signature holds is refused for its content.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_providers::{CapturedRequest, Catalog, Fallback, Provider, Received, Refusal, VerifiedDelivery};
use proptest::prelude::*;
use serde_json::Value;

use crate::key_pairs::{KEPT, signed};
use crate::support::{
    SIGNATURES, Verdict, all, event, hash_key, is_accepted, provider, received, sent, sign, valid, without_headers,
};

/// Whoever has one digest of HubSpot's old schemes can make that of a longer body. It ends with a hash's padding, which
/// is no text; here the holder of the secret makes it.
#[test]
fn a_plain_digest_vouches_for_text_alone() {
    for scheme in ["v1", "v2"] {
        let mut unsigned = without_headers(valid("hubspot"), &SIGNATURES);
        unsigned.schemes = vec![scheme.to_owned()];
        let signed = |unsigned: &_| CapturedRequest { schemes: Vec::new(), ..sign(unsigned).unwrap() };
        assert!(is_accepted(&signed(&unsigned)), "{scheme}");
        unsigned.body.extend_from_slice(b"\x80\0\0\0\0\0\x02\x58,{}]");
        assert_eq!(received(&signed(&unsigned)).map(|_| ()), Err(Refusal::SignatureMismatch), "{scheme}");
    }
    let mut strong = without_headers(valid("hubspot"), &SIGNATURES);
    strong.body.push(0x80);
    assert!(is_accepted(&sign(&strong).unwrap()), "an HMAC vouches for any bytes");
}

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

/// The delivery of a request with another body and without some headers, signed again. `None` if nothing here signs it:
/// the scheme keeps what it signs inside the body.
fn delivered(captured: &CapturedRequest, body: &[u8], dropped: &BTreeSet<String>) -> Option<VerifiedDelivery> {
    // Braintree signs words for anyone, so it never takes a payload that is not XML for a delivery.
    if captured.provider == "braintree" && !body.trim_ascii_start().starts_with(b"<") {
        return None;
    }
    let mut unsigned = CapturedRequest { body: body.to_vec(), ..without_headers(captured, &SIGNATURES) };
    unsigned.headers.retain(|(name, _)| !dropped.contains(name));
    let mut signed = signed(&unsigned).ok()?;
    // A signer derives an id that is not given; a provider that forgets it does not.
    signed.headers.retain(|(name, _)| !dropped.contains(name));
    match received(&signed) {
        Ok(Received::Delivery(delivery)) => {
            assert_eq!(delivery.body(), signed.body, "{signed:?}");
            Some(delivery)
        }
        // Some bodies are a question of the provider.
        Ok(Received::Handshake(_)) => None,
        // Where anyone can have words signed, a word is no delivery.
        Err(Refusal::SignatureMismatch) if signed.body.iter().all(u8::is_ascii_alphanumeric) => None,
        // A delivery of SNS names its certificate itself, and a cut may take out just that.
        Err(Refusal::SignatureMissing)
            if captured.provider == "aws_sns" && !String::from_utf8_lossy(&signed.body).contains("SigningCertURL") =>
        {
            None
        }
        // An id that is part of the signed text cannot be left out.
        Err(Refusal::SignatureMismatch | Refusal::SignatureMissing) if !dropped.is_empty() => None,
        other => panic!("{other:?} for {signed:?}: {}", String::from_utf8_lossy(&signed.body)),
    }
}

fn check(delivery: &VerifiedDelivery) {
    let (provider, events) = (provider(delivery.provider_id()), delivery.contents().events());
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
    for vector in all().values().flatten().filter(|vector| vector.expected.verdict == Verdict::Accepted) {
        let captured = &vector.captured;
        let names = id_names(provider(&captured.provider));
        let mut bodies =
            vec![captured.body.clone(), b"}{ \xff\xfe\x00".to_vec(), b"{}".to_vec(), b"[1]".to_vec(), Vec::new()];
        if let Ok(mut document) = serde_json::from_slice::<Value>(&captured.body) {
            without(&names, &mut document);
            bodies.push(document.to_string().into_bytes());
        }
        for (body, dropped) in bodies.iter().flat_map(|body| [(body, BTreeSet::new()), (body, names.clone())]) {
            let Some(delivery) = delivered(captured, body, &dropped) else { continue };
            check(&delivery);
            fallbacks += delivery.contents().events().iter().filter(|event| event.fallback.is_some()).count();
            checked.insert(&captured.provider);
        }
    }
    println!("{} providers, {fallbacks} events kept by their content", checked.len());
    assert!(checked.len() >= 73 && fallbacks > 2_000, "{} providers, {fallbacks} events", checked.len());
}

/// What a provider may put into any text of its events: separators of signed texts, escapes, and other letters.
const AWKWARD: [&str; 9] =
    ["", ":", "a:b|c", "back\\slash", "a&b=c%3Ad+e", "two\nlines", "1767225600", "\"'<é>🙂", "."];

/// Queries of an endpoint's address, which some providers sign: escapes, a plus sign, other letters, marks.
const QUERIES: [&str; 4] = ["a=%20b+c&d=%2f%2F", "x=%C3%A9~*'(1)", "a=b?c:d@e/f", "empty=&flag&a=1&a=2"];

/// Texts that are part of a signature and not of an event, what they may not be, and why the provider never signs it.
const REFUSED: [(&str, &str, &[&str], &str); 7] = [
    ("aws_sns", "MessageId", &["two\nlines"], "SNS makes it: a UUID"),
    ("aws_sns", "SigningCertURL", &AWKWARD, "an address of SNS"),
    ("aws_sns", "Subject", &["two\nlines"], "SNS takes no line break in it"),
    ("aws_sns", "Timestamp", &AWKWARD, "a time"),
    ("aws_sns", "TopicArn", &AWKWARD, "a topic of the endpoint"),
    ("braintree", "bt_payload", &AWKWARD, "base64"),
    ("mailgun", "token", &[""], "50 characters"),
];

/// The texts of a document, each with the name of its member.
fn texts<'a>(name: &'a str, value: &'a mut Value) -> Vec<(&'a str, &'a mut String)> {
    match value {
        Value::Object(members) => members.iter_mut().flat_map(|(name, member)| texts(name, member)).collect(),
        Value::Array(elements) => elements.iter_mut().flat_map(|element| texts(name, element)).collect(),
        Value::String(text) => vec![(name, text)],
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// The body once for each of its texts, with another text in its place, and the name of that text.
fn with_other_texts(body: &[u8], other: &str) -> Vec<(String, Vec<u8>)> {
    if let Ok(document) = serde_json::from_slice::<Value>(body) {
        let count = texts("", &mut document.clone()).len();
        let changed = |at: usize| {
            let mut document = document.clone();
            let (name, text) = texts("", &mut document).swap_remove(at);
            other.clone_into(text);
            (name.to_owned(), document.to_string().into_bytes())
        };
        return (0..count).map(changed).collect();
    }
    let pairs: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().collect();
    let changed = |at: usize| {
        let mut pairs = pairs.clone();
        other.clone_into(&mut pairs[at].1);
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
        (pairs.swap_remove(at).0, body.into_bytes())
    };
    if pairs.len() > 1 { (0..pairs.len()).map(changed).collect() } else { Vec::new() }
}

/// No guard of a scheme takes a text or an address of its provider for an attack.
#[test]
fn whatever_a_text_of_an_event_holds_its_delivery_is_taken() {
    let (mut taken, mut refused) = (BTreeMap::<_, usize>::new(), BTreeSet::new());
    for provider in Catalog::built_in().iter() {
        let captured = valid(provider.id());
        let texts = AWKWARD.iter().flat_map(|other| {
            with_other_texts(&captured.body, other).into_iter().map(move |(name, body)| ((name, *other), body))
        });
        let texts = texts.map(|(changed, body)| (changed, CapturedRequest { body, ..captured.clone() }));
        let address = captured.url.split('?').next().unwrap_or_default();
        let urls = QUERIES.map(|query| format!("{address}?{query}"));
        let urls = urls.map(|url| (("url".to_owned(), ""), CapturedRequest { url, ..captured.clone() }));
        for (changed, captured) in texts.chain(urls) {
            let Ok(signed) = signed(&without_headers(&captured, &SIGNATURES)) else { continue };
            match received(&signed) {
                Ok(Received::Delivery(delivery)) => {
                    check(&delivery);
                    *taken.entry(provider.id()).or_default() += 1;
                }
                Ok(Received::Handshake(_) | Received::NeedsMaterial(_)) => {}
                Err(refusal) => {
                    println!("{}: {changed:?}: {refusal:?}", provider.id());
                    refused.insert((provider.id(), changed.0, changed.1));
                }
            }
        }
    }
    println!("{} providers, {} deliveries", taken.len(), taken.values().sum::<usize>());
    let listed = REFUSED
        .iter()
        .flat_map(|(provider, name, texts, _)| texts.iter().map(move |text| (*provider, (*name).to_owned(), *text)));
    assert_eq!(refused, listed.collect());
    let unsigned: Vec<_> = Catalog::built_in().iter().filter(|it| !taken.contains_key(it.id())).collect();
    assert!(unsigned.is_empty(), "nothing is signed here as these do: {unsigned:?}");
    assert!(KEPT.iter().all(|id| taken[id] > 5), "{taken:?}");
}

#[test]
fn a_delivery_without_an_id_is_kept_under_the_hash_of_its_body() {
    let stripe = |body: &str| event(&sent("stripe", "s", &[], body));
    for (body, event_type, fallback) in [
        (r#"{"type":"invoice.paid"}"#, "invoice.paid", Fallback::IdMissing),
        (r#"{"id":null,"type":"x"}"#, "x", Fallback::IdMissing),
        (r#"{"id":"evt_1","id":"evt_2","type":"x"}"#, "unreadable", Fallback::BodyUnreadable),
        ("not json", "unreadable", Fallback::BodyUnreadable),
        ("", "unreadable", Fallback::BodyUnreadable),
    ] {
        let event = stripe(body);
        assert_eq!((event.key.as_str(), event.event_type.as_str()), (hash_key(body).as_str(), event_type), "{body}");
        assert_eq!((event.fallback, event.body.as_slice()), (Some(fallback), body.as_bytes()));
    }
    let id = "x".repeat(5_000);
    let event = stripe(&format!(r#"{{"id":"{id}","type":"x"}}"#));
    assert_eq!(event.key.as_str(), hash_key(id));
    assert_eq!(event.fallback, Some(Fallback::IdTooLong), "the same id in another body is the same event");
}

/// A type becomes an attribute of the record, and a word in logs and routes.
#[test]
fn a_type_that_is_too_long_is_unknown() {
    for (bytes, event_type) in [(4_096, "x".repeat(4_096)), (4_097, "unknown".to_owned())] {
        let body = format!(r#"{{"id":"evt_1","type":"{}"}}"#, "x".repeat(bytes));
        assert_eq!(event(&sent("stripe", "s", &[], &body)).event_type, event_type, "{bytes} bytes");
    }
}

/// Anyone may have a word signed with the secret of an endpoint of X, so a signed word is not a delivery.
#[test]
fn a_word_that_strangers_may_have_signed_is_no_delivery() {
    for (body, is_delivery) in [("challenge-1", false), ("42", false), ("challenge 1", true), ("{}", true)] {
        assert_eq!(is_accepted(&sent("x_twitter", "s", &[], body)), is_delivery, "{body}");
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
        let captured = valid(provider.id());
        let mut body = captured.body.clone();
        let (start, end) = (cut.0.index(body.len() + 1), cut.1.index(body.len() + 1));
        body.splice(start.min(end)..start.max(end), bytes.iter().copied());
        for body in [body, bytes] {
            if let Some(delivery) = delivered(captured, &body, &BTreeSet::new()) {
                check(&delivery);
            }
        }
    }
}
