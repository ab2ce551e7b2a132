//! Two facts never share a dedup key, and one fact never has two: alone, among others, retried or grouped differently.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hookonce_providers::{Catalog, Provider};

use crate::support::{Vector, all, judge_as};

/// The keys of the events that a provider finds in a vector.
fn keys(provider: &Provider, vector: &Vector) -> Vec<String> {
    let outcome = judge_as(provider, vector, &vector.captured.headers, &vector.captured.body);
    outcome.events.into_iter().map(|event| event.key).collect()
}

/// What is wrong with the dedup keys of a provider, or with the facts that should show them.
fn faults(provider: &Provider, vectors: &[Vector]) -> Vec<String> {
    let (mut key_of, mut fact_with, mut faults) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    // With how many others each fact comes, itself included.
    let mut companies: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut sample = 0;
    for vector in vectors {
        let Some(facts) = &vector.expected.facts else { continue };
        let keys = keys(provider, vector);
        if keys.len() != facts.len() {
            faults.push(format!("{} names {} facts and has {} events", vector.id, facts.len(), keys.len()));
        }
        for (fact, key) in facts.iter().zip(keys) {
            if key_of.insert(fact, key.clone()).is_some_and(|known| known != key) {
                faults.push(format!("{}: `{fact}` has a second key, {key}", vector.id));
            }
            if fact_with.insert(key.clone(), fact).is_some_and(|known| known != fact) {
                faults.push(format!("{}: `{fact}` shares the key {key} with another fact", vector.id));
            }
            companies.entry(fact).or_default().push(facts.len());
        }
        if vector.case == "valid" {
            sample = facts.len();
        }
    }
    if sample == 0 || companies.len() <= sample {
        faults.push(format!("{} has no fact beside those of its sample", provider.id()));
    }
    if companies.values().all(|companies| companies.len() < 2) {
        faults.push(format!("{} has no fact that comes again", provider.id()));
    }
    let regrouped = |companies: &Vec<usize>| companies.iter().collect::<BTreeSet<_>>().len() > 1;
    if provider.batches() && !companies.values().any(regrouped) {
        faults.push(format!("{} has no fact that comes in another company", provider.id()));
    }
    faults
}

fn vectors(provider: &str) -> &'static [Vector] {
    all().iter().find(|file| file.provider == provider).map_or(&[], |file| &file.vectors)
}

#[test]
fn no_two_facts_share_a_key_and_no_fact_has_two() {
    let faults: Vec<String> =
        Catalog::built_in().iter().flat_map(|provider| faults(provider, vectors(provider.id()))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A provider of the catalog with another key.
fn with_key(id: &str, key: &str, other: &str) -> Catalog {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalog");
    let text = std::fs::read_to_string(folder.join(format!("{id}.toml"))).unwrap();
    assert!(text.contains(key), "{id}: {key}");
    Catalog::parse([(format!("{id}.toml").as_str(), text.replacen(key, other, 1).as_str())]).unwrap()
}

#[test]
fn a_key_that_is_too_coarse_or_too_fine_is_noticed() {
    for (id, key, other, fault) in [
        (
            "meta_whatsapp",
            "json:@.id + json:@.status + json:@.timestamp + json:@.recipient_participant_user_id",
            "json:@.id + json:@.status",
            "meta_whatsapp/group-statuses: `G1 delivered to Eve` shares",
        ),
        (
            "meta_messenger_instagram",
            "json:@.message.mid + json:@.message.is_deleted",
            "json:@.message.mid",
            "meta_messenger_instagram/unsent: `A unsent` shares",
        ),
        ("notion", "json:$.id", "json:$.attempt_number", "notion/retried: `the event` has a second key"),
        ("line", "json:@.webhookEventId", "delivery_sha256", "line/retried: `XKC3ZR` has a second key"),
    ] {
        let faults = faults(with_key(id, key, other).provider(id).unwrap(), vectors(id));
        assert!(faults.iter().any(|found| found.contains(fault)), "{id}: {faults:#?}");
    }
}

#[test]
fn a_provider_without_both_pairs_is_noticed() {
    for provider in Catalog::built_in().iter() {
        let sample = vectors(provider.id()).iter().position(|vector| vector.case == "valid").unwrap();
        let alone = &vectors(provider.id())[sample..=sample];
        let wanted = 2 + usize::from(provider.batches());
        assert_eq!(faults(provider, alone).len(), wanted, "{}", provider.id());
    }
}
