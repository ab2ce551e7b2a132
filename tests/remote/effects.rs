//! What a plan sends out of the account. Nobody dispatches here: what the commit stores is looked at.

use hookonce_protocol::effect::Method;
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_runtime::inbox::body::decompress;
use serde_json::{Value, json};

use super::harness;
use crate::support::counting::counted;
use crate::support::remote::Reaction;

/// The route of the counting handler, which may send to `receipts` and forwards to `crm`.
fn routes() -> Value {
    let route = json!({
        "name": "count", "consumer": "counting", "types": ["count.*"], "handler": {"lambda": "count"},
        "destinations": ["receipts"], "forward": ["crm"]
    });
    json!({ "version": 1, "otherwise": "dead", "routes": [route] })
}

fn payload(record: &Record) -> Vec<u8> {
    decompress(record.body.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn effects_and_the_event_itself_are_stored_with_the_plan() {
    let (harness, _) = harness(|_| {
        let json = json!({ "effect": "receipt", "destination": "receipts", "payload": {"total": 5}, "path": "/v1" });
        let bytes = json!({ "effect": "file", "destination": "crm", "payload_base64": "AP8=", "method": "PUT" });
        Reaction::Answers(json!({ "fact": "f", "writes": [], "effects": [json, bytes] }))
    })
    .await;
    harness.routes.as_ref().unwrap().put_set(&routes());
    for id in ["msg_1", "msg_2"] {
        harness.deliver(&counted(id, "count.a", "f")).await;
        harness.work().await;
    }
    let tables = harness.tables().await;
    let outcome = |end: &str| tables.record(end).outcome;
    assert_eq!([outcome("#msg_1"), outcome("#msg_2")], [Some(Outcome::Applied), Some(Outcome::Duplicate)]);
    let effects = tables.records.values().filter(|record| record.effect.is_some()).count();
    assert_eq!(effects, 3, "a fact that is known has no further effect");
    let stored = |name: &str| {
        let record = tables.record(&format!("#{name}"));
        let effect = record.effect.clone().unwrap();
        assert_eq!(record.status, Status::Pending);
        (payload(record), effect.destination.to_string(), effect.method, effect.path, effect.content_type)
    };
    let body = counted("msg_1", "count.a", "f").body;
    let (json, bytes) = ("application/json".to_owned(), "application/octet-stream".to_owned());
    assert_eq!(
        stored("receipt"),
        (br#"{"total":5}"#.to_vec(), "receipts".to_owned(), Method::Post, "/v1".to_owned(), json.clone())
    );
    assert_eq!(stored("file"), (vec![0, 255], "crm".to_owned(), Method::Put, String::new(), bytes));
    assert_eq!(stored("forward:crm"), (body, "crm".to_owned(), Method::Post, String::new(), json));
}

/// Nothing of the plan is committed, and nothing is forwarded.
#[tokio::test]
async fn an_effect_that_the_route_does_not_allow_refuses_the_whole_plan() {
    let effect = |more: Value| {
        let mut effect = json!({ "effect": "receipt", "destination": "receipts", "payload": 1 });
        effect.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        effect
    };
    // Digits that compress badly: 320 KB become more than 64 KiB.
    let digits = |number: u64| format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let large: String = (0..20_000).map(digits).collect();
    for effects in [
        json!([effect(json!({ "destination": "others" }))]),
        json!([effect(json!({ "path": "/../v2" }))]),
        json!([effect(json!({ "path": "//evil.example" }))]),
        json!([effect(json!({})), effect(json!({}))]),
        json!([effect(json!({ "payload": large }))]),
        Value::Array((0..98).map(|n| effect(json!({ "effect": format!("e{n}") }))).collect()),
    ] {
        let (harness, _) =
            harness(move |_| Reaction::Answers(json!({ "fact": "f", "writes": [], "effects": effects }))).await;
        harness.routes.as_ref().unwrap().put_set(&routes());
        harness.deliver(&counted("msg_1", "count.a", "f")).await;
        harness.settle().await;
        let tables = harness.tables().await;
        assert_eq!(tables.record("#msg_1").last_error.as_deref(), Some("PLAN_REFUSED"));
        assert_eq!(tables.records.len(), 1);
    }
}
