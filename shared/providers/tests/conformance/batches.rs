//! Deliveries that hold several events: each is found, named and cut out without changing a byte of it.

use std::collections::BTreeMap;

use hookonce_providers::{Catalog, EventKey, EventPart, SplitError};
use sha2::{Digest, Sha256};

fn split(provider: &str, body: &str) -> Result<Vec<EventPart>, SplitError> {
    Catalog::built_in().provider(provider).unwrap().split(body.as_bytes(), &BTreeMap::new())
}

fn bodies(parts: &[EventPart]) -> Vec<&str> {
    parts.iter().map(|part| std::str::from_utf8(&part.body).unwrap()).collect()
}

fn keys(parts: &[EventPart]) -> Vec<&str> {
    parts.iter().map(|part| part.key.as_str()).collect()
}

/// Splitting a part again must give that part.
fn assert_stable(provider: &str, parts: &[EventPart]) {
    for part in parts {
        let again = split(provider, std::str::from_utf8(&part.body).unwrap()).unwrap();
        assert_eq!(again.len(), 1);
        assert_eq!((&again[0].key, &again[0].event_type, again[0].sha256), (&part.key, &part.event_type, part.sha256));
        assert_eq!(again[0].body, part.body);
    }
}

const MIXED: &str = r#"{"object":"whatsapp_business_account", "entry":[
  {"id":"1","time":9007199254740993,"changes":[
    {"field":"messages","value":{"contacts":[{"wa_id":"49"}],"messages":[{"id":"wamid.A","n":1.50},{"id":"wamid.B","t":"\u00e4"}],"statuses":[{"id":"wamid.C","status":"read","timestamp":"2","recipient_id":"49"}],"x":1}},
    {"field":"account_update","value":{"event":"VERIFIED"}}]},
  {"id":"2","changes":[{"value":{"statuses":[{"id":"wamid.C","status":"sent","timestamp":"1","recipient_id":"49"}]},"field":"messages"}]}]}"#;

#[test]
fn every_event_of_a_delivery_is_found_and_cut_out_whole() {
    let parts = split("meta_whatsapp", MIXED).unwrap();
    assert_eq!(keys(&parts)[..3], ["wamid.A", "wamid.B", "wamid.C:read:2:49"]);
    assert_eq!(keys(&parts)[4], "wamid.C:sent:1:49");
    let types: Vec<&str> = parts.iter().map(|part| part.event_type.as_str()).collect();
    assert_eq!(types, ["message", "message", "status.read", "account_update", "status.sent"]);
    assert_eq!(
        bodies(&parts)[1],
        r#"{"object":"whatsapp_business_account", "entry":[{"id":"1","time":9007199254740993,"changes":[{"field":"messages","value":{"contacts":[{"wa_id":"49"}],"messages":[{"id":"wamid.B","t":"\u00e4"}],"x":1}}]}]}"#
    );
    assert_eq!(parts[0].sha256, <[u8; 32]>::from(Sha256::digest(r#"{"id":"wamid.A","n":1.50}"#)));
    assert_stable("meta_whatsapp", &parts);
}

#[test]
fn what_holds_no_event_is_not_lost_beside_events() {
    let parts = split("meta_whatsapp", MIXED).unwrap();
    assert!(matches!(&parts[3].key, EventKey::Event(key) if key.starts_with("sha256:")));
    assert!(bodies(&parts)[3].contains("VERIFIED") && !bodies(&parts)[3].contains("wamid"));
}

#[test]
fn a_delivery_without_events_is_one_delivery() {
    let body = r#"{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[{"field":"account_update","value":{}}]}]}"#;
    let parts = split("meta_whatsapp", body).unwrap();
    let sha256 = hex::encode(Sha256::digest(body));
    assert_eq!(parts[0].key, EventKey::Event(format!("sha256:{sha256}")));
    assert_eq!((parts[0].event_type.as_str(), bodies(&parts)), ("account_update", vec![body]));
    assert_stable("meta_whatsapp", &parts);
}

/// An account update, as it appears in an entry.
const UPDATE: &str = r#"{"field":"account_update","value":{"event":"VERIFIED"}}"#;

#[test]
fn what_has_no_id_has_the_same_key_alone_and_in_any_company() {
    let of = |changes: &str| format!(r#"{{"object":"w","entry":[{{"id":"1","time":2,"changes":[{changes}]}}]}}"#);
    let alone = split("meta_whatsapp", &of(UPDATE)).unwrap();
    let message = r#"{"value":{"messages":[{"id":"wamid.A"}]},"field":"messages"}"#;
    let other = r#"{"field":"account_update","value":{"event":"DISABLED"}}"#;
    let indented = of(UPDATE).replace('[', "[\n  ").replace(',', ",\n ").replace(':', ": ");
    for company in [of(&[message, UPDATE].join(",")), of(&[other, UPDATE].join(", ")), indented] {
        let parts = split("meta_whatsapp", &company).unwrap();
        let same = parts.last().unwrap();
        assert_eq!((&same.key, same.sha256), (&alone[0].key, alone[0].sha256), "{company}");
        assert!(parts.iter().rev().skip(1).all(|part| part.key != same.key), "{company}");
        assert_stable("meta_whatsapp", &parts);
    }
}

#[test]
fn a_single_event_keeps_the_whole_delivery() {
    let body = "{ \"entry\" : [ {\"changes\":[ {\"value\":{\"messages\":[ {\"id\":\"wamid.A\"} ]}} ]} ] } ";
    let parts = split("meta_whatsapp", body).unwrap();
    assert_eq!((keys(&parts), bodies(&parts)), (vec!["wamid.A"], vec![body.trim_end()]));
    assert_stable("meta_whatsapp", &parts);
}

#[test]
fn an_event_keeps_its_key_and_hash_in_any_company() {
    let alone =
        split("meta_whatsapp", r#"{"entry":[{"changes":[{"value":{"messages":[{"id":"wamid.B","t":"\u00e4"}]}}]}]}"#)
            .unwrap();
    let among = split("meta_whatsapp", MIXED).unwrap();
    assert_eq!((&alone[0].key, alone[0].sha256), (&among[1].key, among[1].sha256));
}

#[test]
fn the_same_event_twice_is_one_event() {
    let body = r#"{"entry":[{"changes":[{"value":{"messages":[{"id":"A"},{"id":"A"}]}},{"value":{"messages":[{"id":"A"}]}}]}]}"#;
    assert_eq!(keys(&split("meta_whatsapp", body).unwrap()), ["A"]);
}

#[test]
fn two_texts_under_one_key_are_both_kept() {
    let body = r#"{"entry":[{"changes":[{"value":{"messages":[{"id":"A"},{"id":"A","x":1}]}}]}]}"#;
    assert_eq!(keys(&split("meta_whatsapp", body).unwrap()), ["A", "A"]);
}

#[test]
fn an_event_without_a_key_is_refused() {
    for item in [r#"{"id":""}"#, r#"{"id":null}"#, r#"{"id":{}}"#, "{}", "1"] {
        let body = format!(r#"{{"entry":[{{"changes":[{{"value":{{"messages":[{item}]}}}}]}}]}}"#);
        assert_eq!(split("meta_whatsapp", &body), Err(SplitError::KeyMissing), "{item}");
    }
}

#[test]
fn what_is_no_document_is_refused() {
    for body in ["", "x", "1", "\"a\"", "{\"entry\":", r#"{"entry":[],"entry":[]}"#] {
        assert_eq!(split("meta_whatsapp", body), Err(SplitError::Body), "{body}");
    }
}

#[test]
fn messenger_events_are_named_by_what_they_hold() {
    let body = r#"{"object":"page","entry":[{"id":"p","time":1,"messaging":[
        {"sender":{"id":"1"},"message":{"mid":"m1"}},{"sender":{"id":"1"},"timestamp":2,"read":{"watermark":3}}]},
        {"id":"p","time":2,"changes":[{"field":"feed","value":{"a":1}},{"field":"feed","value":{"a":1}}]},
        {"id":"p","time":3,"changes":[{"field":"feed","value":{"a":1}}]}]}"#;
    let parts = split("meta_messenger_instagram", body).unwrap();
    let types: Vec<&str> = parts.iter().map(|part| part.event_type.as_str()).collect();
    assert_eq!(types, ["message", "read", "feed", "feed"], "equal changes of different times are different");
    assert_eq!(parts[0].key.as_str(), "m1");
    assert_stable("meta_messenger_instagram", &parts);
}

#[test]
fn a_part_of_a_large_batch_holds_its_own_event_alone() {
    let messages: Vec<String> =
        (0..1_000).map(|n| format!(r#"{{"id":"wamid.{n}","text":"{}"}}"#, "x".repeat(2_000))).collect();
    let body = format!(r#"{{"entry":[{{"changes":[{{"value":{{"messages":[{}]}}}}]}}]}}"#, messages.join(","));
    let parts = split("meta_whatsapp", &body).unwrap();
    assert_eq!(parts.len(), 1_000);
    let bytes: usize = parts.iter().map(|part| part.body.len()).sum();
    assert!(bytes < body.len() * 2, "each part holds its own event alone");
}
