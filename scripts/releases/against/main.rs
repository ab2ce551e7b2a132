//! Reads what the next release stores with the crates of another one: each item and message is understood as it was meant.
//! What that one leaves alone would wait for a roll-back of the roll-back, so it counts as a violation, too: a word is read
//! for one release before it is written. And it starts its functions with the variables of the next release: between the
//! two calls with which CloudFormation goes back, its code has them. `scripts/releases/stored against` builds it.

use hookonce_protocol::item::Item;
use hookonce_protocol::message::{Message, MessageKey};
use hookonce_protocol::record::{Record, attribute};
use hookonce_protocol::trail::Trail;
use hookonce_runtime::config::{DispatcherConfig, Environment, RelayConfig, WebhookConfig, WorkerConfig};
use serde_json::Value;

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let text = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).expect("a file");
    let stored: Value = serde_json::from_str(&text("stored.json")).expect("JSON");
    let list = |name: &str| stored[name].as_array().cloned().unwrap_or_default();
    let (mut read, mut left, mut wrong) = (0, Vec::new(), Vec::new());
    for item in list("records") {
        let Ok(item) = serde_json::from_value::<Item>(item.clone()) else {
            wrong.push(format!("no item: {item}"));
            continue;
        };
        match Record::decode(&item) {
            Err(_) => left.push(format!("{item:?}")),
            // What it writes of it again is what was there, but for attributes that it does not know.
            Ok(record) if is_kept(&item, &record.encode()) => read += 1,
            Ok(_) => wrong.push(format!("{item:?}")),
        }
    }
    match serde_json::from_value::<Item>(stored["trail"].clone()) {
        Ok(item) if Trail::decode(Some(&item)).unread == 0 => read += 1,
        _ => left.push(format!("the trail {}", stored["trail"])),
    }
    let key = stored["message_key"].as_str().and_then(MessageKey::parse);
    for text in list("messages") {
        let text = text.as_str().unwrap_or_default();
        match Message::decode(text, key.as_ref()) {
            Err(_) => left.push(text.to_owned()),
            Ok(message) if is_within(&message.encode(key.as_ref()).unwrap_or_default(), text) => read += 1,
            Ok(_) => wrong.push(text.to_owned()),
        }
    }
    let environment = |function: &str| -> Environment {
        serde_json::from_str(&text(&format!("environment.{function}.json"))).expect("variables")
    };
    for (function, refused) in [
        ("webhook", WebhookConfig::read(&environment("webhook")).err()),
        ("worker", WorkerConfig::read(&environment("worker")).err()),
        ("relay", RelayConfig::read(&environment("relay")).err()),
        ("dispatcher", DispatcherConfig::read(&environment("dispatcher")).err()),
    ] {
        match refused {
            None => read += 1,
            Some(refused) => left.push(format!("the variables of the {function}: {refused}")),
        }
    }
    for wrong in &wrong {
        println!("read as something else: {wrong}");
    }
    for left in &left {
        println!("left alone: {left}");
    }
    let violations = wrong.len() + left.len();
    println!("{}", serde_json::json!({ "part": "against", "read": read, "violations": violations }));
    std::process::exit(i32::from(violations > 0 || read == 0));
}

/// Whether nothing that it knows was read as something else, or as nothing.
fn is_kept(item: &Item, again: &Item) -> bool {
    let knows = |name: &str| name == "body" || attribute::HEAD.contains(&name);
    item.iter().all(|(name, value)| !knows(name) || again.get(name) == Some(value))
}

/// Whether each field of one text is in the other. A hint may have fields that only the later release knows.
fn is_within(one: &str, other: &str) -> bool {
    let fields = |text: &str| serde_json::from_str::<Value>(text).ok().and_then(|value| value.as_object().cloned());
    let (Some(one), Some(other)) = (fields(one), fields(other)) else { return false };
    one.iter().all(|(name, value)| other.get(name) == Some(value))
}
