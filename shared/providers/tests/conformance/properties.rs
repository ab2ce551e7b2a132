//! Whatever comes in: nothing panics, nothing forged is accepted, and no event is lost or changed by taking a delivery
//! apart.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_providers::{Catalog, Received};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{delivery, explain, provider, received, valid};

/// A header, a body or a URL that is almost the right one.
fn change() -> impl Strategy<Value = (prop::sample::Index, u8, String, Vec<u8>)> {
    (any::<prop::sample::Index>(), 0_u8..9, "[ -~]{0,20}", prop::collection::vec(any::<u8>(), 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_delivery_never_panics((at, kind, text, bytes) in change(), which in any::<prop::sample::Index>()) {
        let provider = Catalog::built_in().iter().nth(which.index(Catalog::built_in().len())).unwrap();
        let mut captured = valid(provider.id()).clone();
        let (headers, body) = (&mut captured.headers, &mut captured.body);
        match kind {
            0 if !headers.is_empty() => { let index = at.index(headers.len()); headers[index].1 = text.into_bytes(); }
            1 if !headers.is_empty() => { let index = at.index(headers.len()); headers[index].1 = bytes; }
            2 if !headers.is_empty() => { headers.remove(at.index(headers.len())); }
            3 if !headers.is_empty() => { let index = at.index(headers.len()); headers.push(headers[index].clone()); }
            4 => *body = bytes,
            5 => { let index = at.index(body.len() + 1); body.splice(index..index, bytes); }
            6 => body.truncate(at.index(body.len() + 1)),
            7 => captured.url = text,
            _ => headers.push((text, bytes)),
        }
        for method in ["POST", "GET", "HEAD", "PUT"] {
            method.clone_into(&mut captured.method);
            let received = received(&captured);
            prop_assert_eq!(received.is_ok(), explain(&captured).code.is_none());
            if let Ok(Received::Delivery(_)) = received {
                prop_assert!(delivery(&captured).contents().events().iter().all(|event| !event.key.as_str().is_empty()));
            }
        }
    }

    #[test]
    fn a_catalog_file_never_panics(text in "[ -~\n]{0,300}", at in any::<prop::sample::Index>(), cut in 0_usize..60) {
        let files = Catalog::built_in_files();
        let (name, good) = files[at.index(files.len())];
        let start = good.floor_char_boundary(at.index(good.len()));
        let end = good.floor_char_boundary((start + cut).min(good.len()));
        let changed = format!("{}{text}{}", &good[..start], &good[end..]);
        if let Err(error) = Catalog::parse([(name, changed.as_str())]) {
            prop_assert!(!error.field.is_empty() && !error.problem.is_empty());
        }
    }

    #[test]
    fn two_events_without_an_id_share_a_key_only_if_they_are_equal((one, fact) in object(), (other, other_fact) in object()) {
        let key = |event: &str| provider("sendgrid").split(format!("[{event}]").as_bytes(), &BTreeMap::new()).remove(0).key;
        prop_assert!(key(&one) != key(&other) || fact == other_fact, "{} and {}", one, other);
        let readable = !(one.contains(r"\ud") || other.contains(r"\ud"));
        prop_assert!(key(&one) == key(&other) || fact != other_fact || !readable, "{} and {}", one, other);
    }

    #[test]
    fn taking_a_delivery_apart_loses_nothing_and_changes_nothing(delivery in whatsapp()) {
        let (provider, (document, expected)) = (provider("meta_whatsapp"), delivery);
        for text in [document.to_string(), serde_json::to_string_pretty(&document).unwrap()] {
            let parts = provider.split(text.as_bytes(), &BTreeMap::new());
            let keys: BTreeSet<&str> = parts.iter().map(|part| part.key.as_str()).filter(|key| !key.starts_with("sha256:")).collect();
            prop_assert_eq!(&keys, &expected.iter().map(String::as_str).collect());
            for part in &parts {
                let again = provider.split(&part.body, &BTreeMap::new());
                prop_assert_eq!(again.len(), 1);
                prop_assert_eq!(&again[0], part);
                let value: Value = serde_json::from_slice(&part.body).unwrap();
                prop_assert_eq!(&value["object"], &document["object"]);
            }
        }
    }
}

/// Pieces of a member's name as they may be written, each with its meaning.
const PIECES: [(&str, &str); 8] = [
    ("a", "a"),
    (r"\u0061", "a"),
    ("b", "b"),
    (r"\/", "/"),
    (r"\\", r"\"),
    (r#"\""#, "\""),
    (r"\ud800", "<half>"),
    (r"\udfff", "<other half>"),
];

/// An object with plain values: its text, and what it says.
fn object() -> impl Strategy<Value = (String, BTreeMap<String, u8>)> {
    let name = prop::collection::vec(prop::sample::select(&PIECES[..]), 1..3);
    prop::collection::vec((name, 0_u8..2), 0..3).prop_map(|members| {
        let (mut texts, mut facts) = (Vec::new(), BTreeMap::new());
        for (name, value) in members {
            let meaning: String = name.iter().map(|(_, meaning)| *meaning).collect();
            if facts.contains_key(&meaning) {
                continue;
            }
            facts.insert(meaning, value);
            let name: String = name.iter().map(|(text, _)| *text).collect();
            texts.push(format!("\"{name}\":{value}"));
        }
        (format!("{{{}}}", texts.join(",")), facts)
    })
}

/// Messages, each an id and a text; statuses, each an id and a word; and whether contacts come with them.
type Change = (Vec<(u8, String)>, Vec<(u8, &'static str)>, bool);

/// A delivery of WhatsApp with the keys of its events.
fn whatsapp() -> impl Strategy<Value = (Value, BTreeSet<String>)> {
    let message = (0_u8..20, "[a-z\u{e4}\"\\\\{}\\[\\],: ]{0,8}");
    let messages = prop::collection::vec(message, 0..4);
    let statuses = prop::collection::vec((0_u8..20, prop::sample::select(vec!["sent", "read"])), 0..4);
    let change = (messages, statuses, any::<bool>());
    prop::collection::vec(prop::collection::vec(change, 0..3), 0..3).prop_map(|entries| {
        let mut keys = BTreeSet::new();
        let mut change = |(messages, statuses, context): &Change| {
            keys.extend(messages.iter().map(|(id, _)| format!("m{id}")));
            keys.extend(statuses.iter().map(|(id, status)| format!("s{id}:{status}:1:2")));
            json!({"field": "messages", "value": whatsapp_value(messages, statuses, *context)})
        };
        let entry =
            |changes: &Vec<Change>| json!({"id": "1", "changes": changes.iter().map(&mut change).collect::<Vec<_>>()});
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        (json!({"object": "whatsapp_business_account", "entry": entries}), keys)
    })
}

fn whatsapp_value(messages: &[(u8, String)], statuses: &[(u8, &str)], context: bool) -> Value {
    let message = |(id, text): &(u8, String)| json!({"id": format!("m{id}"), "text": text});
    let status = |(id, status): &(u8, &str)| {
        let id = format!("s{id}");
        json!({"id": id, "status": status, "timestamp": "1", "recipient_id": "2"})
    };
    let mut value = json!({});
    if context {
        value["contacts"] = json!([{"wa_id": "1"}, {"wa_id": "2"}]);
    }
    if !messages.is_empty() {
        value["messages"] = messages.iter().map(message).collect();
    }
    if !statuses.is_empty() {
        value["statuses"] = statuses.iter().map(status).collect();
    }
    value
}
