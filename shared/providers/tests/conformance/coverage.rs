//! The page says of every provider what is signed. Here each part of its valid delivery is changed, to see whether it
//! is.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::time::EpochSec;
use hookonce_providers::{Catalog, Extent, Provider, Received, Request};
use serde_json::Value;

use crate::support::{Vector, Verdict, all, judge, provider, valid};

/// Its valid delivery signs more than its page relies on: Contentful's sender chooses which headers it signs.
const SIGNS_MORE: [&str; 1] = ["contentful"];

fn exact() -> impl Iterator<Item = &'static Provider> {
    Catalog::built_in().iter().filter(|provider| !SIGNS_MORE.contains(&provider.id()))
}

/// A word that no vector has in these places.
const OTHER: &str = "7c9e6679-other";

fn is_accepted(provider: &Provider, vector: &Vector, request: &Request<'_>) -> bool {
    let captured = &vector.captured;
    let keyring = provider.keyring(&captured.secrets).unwrap();
    let received = provider.receive(request, &keyring, &captured.settings, None, captured.now);
    matches!(received, Ok(Received::Delivery(_)))
}

/// Whether the valid delivery is accepted with another value in one of its headers; `None` without that header.
fn is_accepted_with_other(provider: &Provider, header: &str) -> Option<bool> {
    let vector = valid(provider.id());
    let mut headers = vector.captured.headers.clone();
    let (_, value) = headers.iter_mut().find(|(name, _)| name == header)?;
    *value = OTHER.as_bytes().to_vec();
    Some(is_accepted(provider, vector, &Request { headers: &headers, ..vector.captured.request() }))
}

/// The headers that the first alternative of a rule reads, if it reads nothing else: `header:x-id`, `{header:x-topic}`.
fn headers_of(rules: &Value) -> Vec<String> {
    let first = rules[0].as_str().unwrap_or_default();
    let parts = first.split(" + ").map(|part| part.trim_matches(['{', '}']).strip_prefix("header:"));
    parts.map(|name| name.map(str::to_owned)).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// The file of a provider, with the rules of its first scheme where they differ.
fn rules(provider: &Provider, name: &str) -> Value {
    let file = serde_json::to_value(provider).unwrap();
    let own = &file["scheme"][0][name];
    if own.is_null() { file[name].clone() } else { own.clone() }
}

#[test]
fn an_id_or_a_type_in_a_header_is_signed_as_the_page_says() {
    let mut seen = Vec::new();
    for provider in exact() {
        let coverage = provider.coverage();
        for (rule, extent) in [("key", coverage.id), ("event", coverage.event_type)] {
            for header in headers_of(&rules(provider, rule)) {
                let Some(accepted) = is_accepted_with_other(provider, &header) else { continue };
                let signed = extent == Extent::Yes;
                assert_eq!(accepted, !signed, "{}: {rule} in {header}", provider.id());
                seen.push(signed);
            }
        }
    }
    let signed = seen.iter().filter(|signed| **signed).count();
    assert!(signed >= 5 && seen.len() - signed >= 8, "{signed} of {} are signed", seen.len());
}

#[test]
fn the_url_is_signed_as_the_page_says() {
    let mut signed = Vec::new();
    for provider in Catalog::built_in().iter() {
        let vector = valid(provider.id());
        let url = vector.captured.url.replacen("example.com/", "example.com/other/", 1);
        assert_ne!(url, vector.captured.url);
        let accepted = is_accepted(provider, vector, &Request { url: &url, ..vector.captured.request() });
        assert_eq!(accepted, provider.coverage().url == Extent::No, "{}", provider.id());
        signed.extend((!accepted).then(|| provider.id()));
    }
    assert_eq!(signed, ["contentful", "hubspot", "square", "twilio"]);
}

#[test]
fn the_time_in_a_header_is_signed_as_the_page_says() {
    let mut seen = 0;
    for provider in exact() {
        let vector = valid(provider.id());
        let captured = &vector.captured;
        let explanation =
            provider.explain(&captured.request(), &captured.secrets, &captured.settings, None, captured.now);
        for place in explanation.looked_for.iter().filter(|found| found.what == "timestamp") {
            let mut headers = captured.headers.clone();
            let Some((_, value)) = headers.iter_mut().find(|(name, _)| *name == place.place) else { continue };
            let (last, rest) = value.split_last().unwrap();
            *value = [
                rest,
                if *last == b'Z' {
                    b".5Z"
                } else if *last == b'1' {
                    b"2"
                } else {
                    b"1"
                },
            ]
            .concat();
            let accepted = is_accepted(provider, vector, &Request { headers: &headers, ..captured.request() });
            assert!(provider.coverage().time == Extent::Yes && !accepted, "{}", provider.id());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn a_body_that_is_not_signed_can_be_changed_as_the_page_says() {
    for provider in exact().filter(|provider| provider.coverage().body < Extent::Yes) {
        let (id, vector) = (provider.id(), valid(provider.id()));
        let body = &vector.captured.body;
        let changed = |at: usize| {
            let mut other = body.clone();
            other[at] = if body[at] == b'1' { b'2' } else { b'1' };
            is_accepted(provider, vector, &Request { body: &other, ..vector.captured.request() })
        };
        // A CRC-32 notices one changed byte, but not the change below.
        assert_eq!((0..body.len()).any(changed), id != "paypal" && id != "braintree", "{id}");
    }
}

/// Bytes of this text with the CRC-32 of another: some of its letters become capitals.
fn with_crc32(text: &str, wanted: u32) -> Vec<u8> {
    let bytes = text.as_bytes().to_vec();
    let crc = crc32fast::hash(&bytes);
    let letters: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'a').collect();
    // What each letter changes in the CRC-32, reduced so that each basis vector has a leading bit of its own.
    let mut basis: Vec<(u32, Vec<usize>)> = Vec::new();
    for at in letters {
        let mut other = bytes.clone();
        other[at] ^= 0x20;
        let (mut change, mut of) = (crc32fast::hash(&other) ^ crc, vec![at]);
        for (known, parts) in &basis {
            if change ^ known < change {
                change ^= known;
                of.extend(parts);
            }
        }
        if change != 0 {
            basis.push((change, of));
            basis.sort_by_key(|(change, _)| std::cmp::Reverse(*change));
        }
    }
    let (mut left, mut forged) = (crc ^ wanted, bytes);
    for (change, parts) in &basis {
        if left ^ change < left {
            left ^= change;
            for at in parts {
                forged[*at] ^= 0x20;
            }
        }
    }
    assert_eq!((left, crc32fast::hash(&forged)), (0, wanted));
    forged
}

/// Anyone who holds one delivery of PayPal can make another body that its signature fits.
#[test]
fn paypals_signature_fits_another_body() {
    let vector = valid("paypal");
    let text = format!(r#"{{"id":"WH-FORGED","event_type":"PAYMENT.SALE.COMPLETED","pad":"{}"}}"#, "a".repeat(64));
    let forged = with_crc32(&text, crc32fast::hash(&vector.captured.body));
    let request = Request { body: &forged, ..vector.captured.request() };
    assert!(is_accepted(provider("paypal"), vector, &request));
    assert_eq!(provider("paypal").coverage().body, Extent::No);
    // Not for ever: a captured transmission ages.
    let late = EpochSec(vector.captured.now.0 + 73 * 3_600 + 1);
    let keyring = provider("paypal").keyring(&vector.captured.secrets).unwrap();
    let refused = provider("paypal").receive(&request, &keyring, &vector.captured.settings, None, late);
    assert_eq!(refused.unwrap_err().code(), "timestamp_out_of_range");
}

/// Where the body is free, every delivery is claimed under a signed value, and a vector shows a second body under it.
#[test]
fn two_bodies_that_one_signature_fits_have_one_claim() {
    let bound = Catalog::built_in().iter().filter(|provider| provider.binds_bodies());
    let mut seen = Vec::new();
    for provider in bound {
        let id = provider.id();
        assert!(provider.coverage().body == Extent::No && provider.leaves_body_free() && !provider.batches(), "{id}");
        let file = all().iter().find(|file| file.provider == id).unwrap();
        let mut bodies = BTreeMap::<_, BTreeSet<&[u8]>>::new();
        for vector in &file.vectors {
            let outcome = judge(id, vector);
            assert_eq!(outcome.bound_to.is_some(), outcome.verdict == Verdict::Accepted, "{}", vector.id);
            if vector.expected.bound_to.is_some() {
                bodies.entry(outcome.bound_to).or_default().insert(&vector.captured.body);
            }
        }
        assert!(bodies.values().any(|bodies| bodies.len() > 1), "{id}");
        seen.push(id);
    }
    assert_eq!(seen, ["mailgun", "paypal"]);
}

/// A second body under a known key is somebody else's only where the signature leaves some of it free.
#[test]
fn the_providers_whose_second_bodies_are_quarantined_are_known() {
    let free = Catalog::built_in().iter().filter(|provider| provider.leaves_body_free());
    let free: Vec<_> = free.map(|provider| (provider.id(), provider.coverage().body)).collect();
    let (part, no) = (Extent::Part, Extent::No);
    assert_eq!(free, [("adyen", part), ("aws_sns", part), ("braintree", part), ("mailgun", no), ("paypal", no)]);
}

/// Where somebody else can write a body, a captured delivery ages.
#[test]
fn where_the_body_is_free_and_the_time_is_signed_the_age_is_limited_by_default() {
    let free = Catalog::built_in().iter().filter(|provider| provider.leaves_body_free());
    let timed: Vec<_> = free.filter(|provider| provider.coverage().time == Extent::Yes).collect();
    for provider in &timed {
        let captured = &valid(provider.id()).captured;
        let keyring = provider.keyring(&captured.secrets).unwrap();
        let late = EpochSec(captured.now.0 + 80 * 3_600);
        let received = provider.receive(&captured.request(), &keyring, &captured.settings, None, late);
        assert_eq!(received.unwrap_err().code(), "timestamp_out_of_range", "{}", provider.id());
    }
    assert_eq!(timed.iter().map(|provider| provider.id()).collect::<Vec<_>>(), ["aws_sns", "mailgun", "paypal"]);
}
