//! Every conformance vector in `events/vectors` is judged as the vector says.

use hookonce_providers::{Catalog, Provider, Received};
use sha2::{Digest as _, Sha256};

use crate::support::{Origin, Verdict, all, provider, received, valid, vectors};

/// A label in a header that decides something would make another event of a capture.
#[test]
fn what_a_capture_withholds_changes_no_event() {
    for provider in Catalog::built_in().iter() {
        let captured = valid(provider.id());
        let mut kept = captured.clone();
        let withheld = kept.withhold();
        assert_eq!(kept.restore(&withheld), [], "{}", provider.id());
        let events = |captured| match received(captured) {
            Ok(Received::Delivery(delivery)) => delivery.contents().events().to_vec(),
            other => panic!("{}: {other:?}", provider.id()),
        };
        assert_eq!(events(&kept), events(captured), "{}: {withheld:?}", provider.id());
    }
}

#[test]
fn every_vector_gets_its_expected_verdict() {
    let vectors = all().values().flatten();
    let wrong: Vec<_> = vectors.filter_map(|vector| vector.difference(provider(&vector.captured.provider))).collect();
    assert!(wrong.is_empty(), "{} vectors differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_hash_of_a_body_is_that_of_every_byte_of_it() {
    let vectors = all().values().flatten().filter(|vector| vector.expected.verdict == Verdict::Accepted);
    let deliveries = vectors.filter_map(|vector| match received(&vector.captured) {
        Ok(Received::Delivery(delivery)) => Some((&vector.id, delivery)),
        _ => None,
    });
    for (id, delivery) in deliveries {
        assert_eq!(delivery.body_sha256(), <[u8; 32]>::from(Sha256::digest(delivery.body())), "{id}");
    }
}

#[test]
fn ids_are_unique_and_a_difference_to_an_sdk_is_explained() {
    let mut ids = std::collections::BTreeSet::new();
    for vector in all().values().flatten() {
        assert!(ids.insert(vector.id.clone()), "{} comes twice", vector.id);
        assert!(!vector.reason.is_empty() && !vector.case.is_empty(), "{} gives no reason", vector.id);
        let Some(sdk) = &vector.sdk else {
            assert_ne!(vector.signature_origin, Origin::Sdk, "{} names no SDK", vector.id);
            continue;
        };
        let named = [&sdk.ecosystem, &sdk.package, &sdk.version, &sdk.function];
        assert!(named.iter().all(|text| !text.is_empty()), "{} does not name its SDK", vector.id);
        let same = match sdk.verdict.as_str() {
            "valid" => vector.expected.verdict != Verdict::Rejected,
            "invalid" => vector.expected.verdict == Verdict::Rejected,
            "respond" => vector.expected.verdict == Verdict::Handshake,
            other => panic!("{}: unknown verdict {other}", vector.id),
        };
        assert_eq!(same, sdk.differs.is_none(), "{}: explain in `sdk.differs` why the verdict is another", vector.id);
    }
}

/// Providers whose signature is in the body.
const SIGNED_INSIDE: [&str; 4] = ["adyen", "aws_sns", "braintree", "mailgun"];

/// The cases that a provider's file must have, by what its scheme can get wrong. `*` stands for any ending.
fn required(provider: &Provider) -> Vec<&'static str> {
    let scheme = serde_json::to_value(provider).unwrap()["scheme"][0].take();
    let kind = scheme["kind"].as_str().unwrap().to_owned();
    let mut cases = vec!["valid", "rotated-secret", "wrong-secret", "missing-signature", "empty-signature"];
    cases.extend(["truncated-signature", "non-utf8-*"]);
    cases.push(if SIGNED_INSIDE.contains(&provider.id()) {
        "duplicated-signature"
    } else {
        "duplicated-signature-header"
    });
    if !["token", "basic"].contains(&kind.as_str()) {
        cases.push("tampered-body");
    }
    let has = |name: &str| !scheme[name].is_null();
    let timed = ["timestamp", "issued_tolerance_seconds", "expiry_leeway_seconds", "tolerance_seconds"];
    if timed.into_iter().any(has) || kind == "paypal" {
        cases.extend(["stale-timestamp", "future-timestamp"]);
    }
    if timed.into_iter().any(has) {
        cases.push("missing-timestamp");
    }
    if !scheme["format"]["pairs"].is_null() || scheme["signature"].as_str().is_some_and(|place| place.ends_with('*')) {
        cases.push("two-signatures");
    }
    cases
}

/// The cases that a provider's file lacks.
fn lacking(provider: &Provider, cases: &[&str]) -> Vec<&'static str> {
    let there = |wanted: &str| match wanted.strip_suffix('*') {
        Some(start) => cases.iter().any(|case| case.starts_with(start)),
        None => cases.contains(&wanted),
    };
    required(provider).into_iter().filter(|wanted| !there(wanted)).collect()
}

#[test]
fn every_provider_has_the_cases_that_its_scheme_can_get_wrong() {
    let mut wrong = Vec::new();
    for provider in Catalog::built_in().iter() {
        let cases: Vec<&str> = vectors(provider.id()).iter().map(|vector| vector.case.as_str()).collect();
        wrong.extend(lacking(provider, &cases).into_iter().map(|case| format!("{}: {case}", provider.id())));
        // Checks the check: it notices a file without one of its cases.
        for case in required(provider) {
            let start = case.trim_end_matches('*');
            let others: Vec<&str> = cases.iter().copied().filter(|known| !known.starts_with(start)).collect();
            assert!(lacking(provider, &others).contains(&case), "{}: {case}", provider.id());
        }
    }
    assert!(wrong.is_empty(), "these vectors are missing:\n{}", wrong.join("\n"));
    assert_eq!(all().len(), Catalog::built_in().len(), "a vector file of no provider");
}
