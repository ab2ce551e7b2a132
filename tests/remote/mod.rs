//! Handlers in another language, end to end.

mod answers;
mod calls;
mod effects;
mod trouble;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::Harness;
use crate::support::remote::{FakeHandlers, Reaction};

/// A harness whose counted events go to these handlers.
async fn harness(rule: impl FnMut(&Value) -> Reaction + Send + 'static) -> (Harness, FakeHandlers) {
    let handlers = FakeHandlers::new(rule);
    let route =
        json!({ "name": "count", "consumer": "counting", "types": ["count.*"], "handler": {"lambda": "count:live"} });
    let local = json!({ "name": "local", "consumer": "counting", "types": ["local.*"], "handler": {"url": "http://127.0.0.1:9000/count"} });
    let set = json!({ "version": 1, "otherwise": "dead", "routes": [route, local] });
    let mut harness = Harness::new().await.routed(&set);
    harness.remote = Some(handlers.clone());
    (harness, handlers)
}

/// The fact in the body of a request's event.
fn fact(request: &Value) -> String {
    let body = STANDARD.decode(request["event"]["body_base64"].as_str().unwrap()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["fact"].as_str().unwrap().to_owned()
}

fn key(fact: &str) -> String {
    format!("standard_webhooks#count#{fact}")
}

/// Counts in one round.
pub(crate) fn count_at_once(request: &Value) -> Value {
    let fact = fact(request);
    let write = json!({ "key": key(&fact), "action": {"update": [{"add": ["applied", 1]}]} });
    json!({ "fact": fact, "writes": [write] })
}

/// Asks for the counter, then counts.
fn count_in_two_rounds(request: &Value) -> Value {
    let fact = fact(request);
    let Some(shown) = request["items"].get(0) else {
        return json!({ "fact": fact, "reads": [{"key": key(&fact)}] });
    };
    let before = &shown["item"]["applied"]["N"];
    let (next, condition) = match before.as_str() {
        Some(count) => {
            ((count.parse::<i64>().unwrap() + 1).to_string(), json!({ "equals": ["applied", {"N": count}] }))
        }
        None => ("1".to_owned(), json!({ "absent": "applied" })),
    };
    let write = json!({
        "key": shown["key"], "action": {"update": [{"set": ["applied", {"N": next}]}]}, "condition": [condition]
    });
    json!({ "fact": fact, "writes": [write] })
}
