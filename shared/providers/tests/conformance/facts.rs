//! Two facts never share a dedup key, and one fact never has two: alone, among others, retried or grouped differently.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_providers::{Catalog, Provider, Received};
use serde_json::Value;

use crate::support::{Vector, receive, vectors};

/// The keys of the events that a provider finds in a vector, and the delivery reduced to each.
fn events(provider: &Provider, vector: &Vector) -> Vec<(String, Vec<u8>)> {
    let Ok(Received::Delivery(delivery)) = receive(provider, &vector.captured) else { return Vec::new() };
    let events = delivery.contents().events().iter();
    events.map(|event| (event.key.as_str().to_owned(), event.body.clone())).collect()
}

/// The places where a provider puts the events of a batch.
fn places(provider: &Provider) -> Vec<String> {
    let written = serde_json::to_value(provider).unwrap();
    let rules = written["items"].as_array().into_iter().flatten();
    let others = |rule: &Value| rule["also"].as_object().into_iter().flatten().map(|(_, path)| path.clone()).collect();
    let paths = rules.flat_map(|rule| [vec![rule["path"].clone()], others(rule)].concat());
    paths.map(|path| path.as_str().unwrap().to_owned()).collect()
}

/// Whether a path such as `$.entry[*].messaging[*]` leads anywhere in a body. A body of lines holds one object a line.
fn leads(path: &str, body: &[u8]) -> bool {
    fn walk(steps: &[&str], node: &Value) -> bool {
        match steps.split_first() {
            None => true,
            Some((&"*", rest)) => node.as_array().is_some_and(|elements| elements.iter().any(|node| walk(rest, node))),
            Some((name, rest)) => node.get(name).is_some_and(|member| walk(rest, member)),
        }
    }
    let Ok(body) = serde_json::from_slice(body) else { return false };
    let text = path.replace("[*]", ".*");
    walk(&text.split('.').skip(1).collect::<Vec<_>>(), &body) || path == "$[*]"
}

/// What is wrong with the dedup keys of a provider, or with the facts that should show them.
fn faults(provider: &Provider, vectors: &[Vector]) -> Vec<String> {
    let (mut key_of, mut fact_with, mut faults) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    // How often each fact comes, and at which place it comes alone and in company.
    let (mut times, mut found) = (BTreeMap::new(), BTreeSet::new());
    let places = places(provider);
    let mut sample = 0;
    for vector in vectors {
        let Some(facts) = &vector.expected.facts else { continue };
        let events = events(provider, vector);
        if events.len() != facts.len() {
            faults.push(format!("{} names {} facts and has {} events", vector.id, facts.len(), events.len()));
        }
        for (fact, (key, body)) in facts.iter().zip(events) {
            if key_of.insert(fact, key.clone()).is_some_and(|known| known != key) {
                faults.push(format!("{}: `{fact}` has a second key, {key}", vector.id));
            }
            if fact_with.insert(key.clone(), fact).is_some_and(|known| known != fact) {
                faults.push(format!("{}: `{fact}` shares the key {key} with another fact", vector.id));
            }
            *times.entry(fact).or_insert(0) += 1;
            let here = places.iter().filter(|place| leads(place, &body));
            found.extend(here.map(|place| (place, fact, facts.len() > 1)));
        }
        if vector.case == "valid" {
            sample = facts.len();
        }
    }
    if sample == 0 || times.len() <= sample {
        faults.push(format!("{} has no fact beside those of its sample", provider.id()));
    }
    if times.values().all(|times| *times < 2) {
        faults.push(format!("{} has no fact that comes again", provider.id()));
    }
    let lacks = |place: &&String| {
        !times.keys().any(|fact| [true, false].iter().all(|many| found.contains(&(*place, *fact, *many))))
    };
    let lacking = places.iter().filter(lacks);
    faults.extend(lacking.map(|place| format!("{} has no fact alone and in company at {place}", provider.id())));
    faults
}

#[test]
fn no_two_facts_share_a_key_and_no_fact_has_two() {
    let faults: Vec<String> =
        Catalog::built_in().iter().flat_map(|provider| faults(provider, vectors(provider.id()))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A provider of the catalog with another key.
fn with_key(id: &str, key: &str, other: &str) -> Catalog {
    let mut files = Catalog::built_in_files().iter();
    let (name, text) = files.find(|(name, _)| name.strip_suffix(".toml") == Some(id)).unwrap();
    assert!(text.contains(key), "{id}: {key}");
    Catalog::parse([(*name, text.replacen(key, other, 1).as_str())]).unwrap()
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
        (
            "meta_whatsapp",
            "field=standby}",
            "field=never}",
            "meta_whatsapp/standby-by-field: `A1 in standby` has a second",
        ),
        ("meta_whatsapp", "word:message_echo + ", "", "meta_whatsapp/echoes: `A1 echoed` shares"),
        ("x_twitter", " + json:$.data.filter.direction", "", "x_twitter/activity-received: `A is liked` shares"),
        (
            "x_twitter",
            "$.block_events[*]",
            "$.bar_events[*]",
            "x_twitter has no fact alone and in company at $.bar_events[*]",
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
        let wanted = 2 + places(provider).len();
        assert_eq!(faults(provider, alone).len(), wanted, "{}", provider.id());
    }
}

/// What the provider documents has a type that a route can name. Only a trigger of Zendesk has none: whoever makes it
/// writes its body.
#[test]
fn every_fact_has_a_type() {
    let untyped = |provider: &Provider, vector: &Vector| {
        let Ok(Received::Delivery(delivery)) = receive(provider, &vector.captured) else { return Vec::new() };
        let events = delivery.contents().events().iter().map(|event| event.event_type.clone());
        events.filter(|kind| kind.ends_with("unknown") || kind.ends_with("unreadable")).collect::<Vec<_>>()
    };
    let all =
        Catalog::built_in().iter().flat_map(|provider| vectors(provider.id()).iter().map(move |it| (provider, it)));
    let stated = all.filter(|(_, vector)| vector.expected.facts.is_some());
    let found = stated.filter(|(provider, vector)| !untyped(provider, vector).is_empty()).map(|(_, vector)| &vector.id);
    let found: Vec<_> = found.filter(|id| !id.starts_with("zendesk/trigger-")).collect();
    assert_eq!(found, [""; 0]);
}
