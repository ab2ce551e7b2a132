//! What providers really send, as packages publish it: each event has a type, and a key that no other event has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hookonce_providers::{CapturedRequest, EventPart, Received};
use serde::Deserialize;
use serde_json::Value;

use crate::key_pairs::signed;
use crate::support::{headers, received, valid};

/// Payloads whose events have no type or no id, and why.
const LACKS: &[(&str, &str)] = &[];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    id: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

fn payloads() -> Vec<Payload> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/public");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let texts = files.map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The events of a payload, signed as its provider signs.
fn events(payload: &Payload) -> Vec<EventPart> {
    let (id, _) = payload.id.split_once('/').unwrap();
    let body = payload.body.to_string().into_bytes();
    let unsigned =
        CapturedRequest { headers: headers(payload.headers.clone()), body: body.clone(), ..valid(id).clone() };
    match received(&signed(&unsigned).unwrap()) {
        Ok(Received::Delivery(delivery)) => delivery.contents().events().to_vec(),
        other => panic!("{}: {other:?}", payload.id),
    }
}

#[test]
fn what_others_published_has_a_type_and_a_key() {
    let payloads = payloads();
    assert!(payloads.len() > 140, "{}", payloads.len());
    let mut lacking = BTreeSet::new();
    for payload in &payloads {
        for event in events(payload) {
            let is_typed = !["unknown", "unreadable"].contains(&event.event_type.as_str());
            if !is_typed || event.fallback.is_some() {
                println!("{}: {} {:?}", payload.id, event.event_type, event.fallback);
                lacking.insert(payload.id.as_str());
            }
        }
    }
    let listed: BTreeSet<_> = LACKS.iter().map(|(id, _)| *id).collect();
    assert_eq!(lacking, listed);
}

#[test]
fn events_that_differ_have_keys_that_differ() {
    let mut of_key = BTreeMap::<_, BTreeSet<_>>::new();
    for payload in payloads() {
        let (provider, _) = payload.id.split_once('/').unwrap();
        for event in events(&payload) {
            of_key.entry(format!("{provider} {}", event.key.as_str())).or_default().insert(event.sha256);
        }
    }
    let shared: BTreeSet<_> =
        of_key.iter().filter(|(_, hashes)| hashes.len() > 1).map(|(key, _)| key.as_str()).collect();
    assert_eq!(shared, BTreeSet::new());
}
