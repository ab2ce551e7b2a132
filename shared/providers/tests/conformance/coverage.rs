//! The page says of every provider what is signed. Here each part of its valid delivery is changed, to see whether it
//! is.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::time::EpochSec;
use hookonce_providers::{CapturedRequest, Catalog, Extent, Provider, Refusal};
use serde_json::Value;

use crate::support::{Expected, Verdict, explain, is_accepted, received, valid, vectors};

/// Its valid delivery signs more than its page relies on: Contentful's sender chooses which headers it signs.
const SIGNS_MORE: [&str; 1] = ["contentful"];

fn exact() -> impl Iterator<Item = &'static Provider> {
    Catalog::built_in().iter().filter(|provider| !SIGNS_MORE.contains(&provider.id()))
}

/// A word that no vector has in these places.
const OTHER: &str = "7c9e6679-other";

/// Whether the valid delivery is accepted with another value in one of its headers; `None` without that header.
fn is_accepted_with_other(provider: &Provider, header: &str) -> Option<bool> {
    let mut other = valid(provider.id()).clone();
    let (_, value) = other.headers.iter_mut().find(|(name, _)| name == header)?;
    *value = OTHER.as_bytes().to_vec();
    Some(is_accepted(&other))
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
fn an_id_or_a_type_in_a_header_is_signed_as_documented() {
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
fn the_url_is_signed_as_documented() {
    let mut signed = Vec::new();
    for provider in Catalog::built_in().iter() {
        let captured = valid(provider.id());
        let url = captured.url.replacen("example.com/", "example.com/other/", 1);
        assert_ne!(url, captured.url);
        let accepted = is_accepted(&CapturedRequest { url, ..captured.clone() });
        assert_eq!(accepted, provider.coverage().url == Extent::No, "{}", provider.id());
        signed.extend((!accepted).then(|| provider.id()));
    }
    assert_eq!(signed, ["contentful", "hubspot", "square", "twilio"]);
}

#[test]
fn the_time_in_a_header_is_signed_as_documented() {
    let mut seen = 0;
    for provider in exact() {
        let captured = valid(provider.id());
        for place in explain(captured).looked_for.iter().filter(|found| found.what == "timestamp") {
            let mut other = captured.clone();
            let Some((_, value)) = other.headers.iter_mut().find(|(name, _)| *name == place.place) else { continue };
            let end = match value.pop() {
                Some(b'Z') => ".5Z",
                Some(b'1') => "2",
                _ => "1",
            };
            value.extend(end.bytes());
            assert!(provider.coverage().time == Extent::Yes && !is_accepted(&other), "{}", provider.id());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn a_body_that_is_not_signed_can_be_changed_as_documented() {
    for provider in exact().filter(|provider| provider.coverage().body < Extent::Yes) {
        let (id, captured) = (provider.id(), valid(provider.id()));
        let changed = |at: usize| {
            let mut other = captured.clone();
            other.body[at] = if other.body[at] == b'1' { b'2' } else { b'1' };
            is_accepted(&other)
        };
        // A CRC-32 notices one changed byte, and so does the text of a form; neither notices the other bodies of the
        // vectors of PayPal and Twilio.
        let notices = ["braintree", "paypal", "twilio"].contains(&id);
        assert_eq!((0..captured.body.len()).any(changed), !notices, "{id}");
    }
}

/// Where the body is free, every delivery is claimed under a signed value, and a vector shows a second body under it.
#[test]
fn two_bodies_that_one_signature_fits_have_one_claim() {
    let bound = Catalog::built_in().iter().filter(|provider| provider.binds_bodies());
    let mut seen = Vec::new();
    for provider in bound {
        let id = provider.id();
        assert!(provider.coverage().body < Extent::Yes && provider.leaves_body_free() && !provider.batches(), "{id}");
        let mut bodies = BTreeMap::<_, BTreeSet<&[u8]>>::new();
        for vector in vectors(id) {
            let outcome = Expected::of(received(&vector.captured), provider);
            // Of a JSON body, Twilio signs the hash.
            let is_bound = outcome.verdict == Verdict::Accepted && !vector.captured.url.contains("bodySHA256");
            assert_eq!(outcome.bound_to.is_some(), is_bound, "{}", vector.id);
            if vector.expected.bound_to.is_some() {
                bodies.entry(outcome.bound_to).or_default().insert(&vector.captured.body);
            }
        }
        assert!(bodies.values().any(|bodies| bodies.len() > 1), "{id}");
        seen.push(id);
    }
    assert_eq!(seen, ["mailgun", "paypal", "twilio"]);
}

/// A second body under a known key is somebody else's only where the signature leaves some of it free.
#[test]
fn the_providers_whose_second_bodies_are_quarantined_are_known() {
    let free = Catalog::built_in().iter().filter(|provider| provider.leaves_body_free());
    let free: Vec<_> = free.map(|provider| (provider.id(), provider.coverage().body)).collect();
    let (part, no) = (Extent::Part, Extent::No);
    assert_eq!(
        free,
        [("adyen", part), ("aws_sns", part), ("braintree", part), ("mailgun", no), ("paypal", no), ("twilio", part)]
    );
}

/// Where somebody else can write a body, a captured delivery ages.
#[test]
fn where_the_body_is_free_and_the_time_is_signed_the_age_is_limited_by_default() {
    let free = Catalog::built_in().iter().filter(|provider| provider.leaves_body_free());
    let timed: Vec<_> = free.filter(|provider| provider.coverage().time == Extent::Yes).collect();
    for provider in &timed {
        let captured = valid(provider.id());
        let late = CapturedRequest { now: EpochSec(captured.now.0 + 80 * 3_600), ..captured.clone() };
        assert_eq!(received(&late), Err(Refusal::TimestampOutOfRange), "{}", provider.id());
    }
    assert_eq!(timed.iter().map(|provider| provider.id()).collect::<Vec<_>>(), ["aws_sns", "mailgun", "paypal"]);
}
