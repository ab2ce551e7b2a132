//! What a plan asks for, and what the tables say of effects.

use hookonce_protocol::effect::{Effect, EffectError, Method, Payload};
use hookonce_protocol::invariant::{Counted, surplus_changes};
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use serde_json::json;

fn item(key: &str, fields: &[(&str, i64)]) -> Item {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
    fields.chain([(PARTITION_KEY.to_owned(), Value::from(key))]).collect()
}

#[test]
fn an_effect_that_was_applied_twice_shows_in_its_counter() {
    let counted = [
        Counted { counter: "#balance#", attribute: "entries", trace: "#ledger#", by_domain_key: false },
        Counted { counter: "#status#", attribute: "changes", trace: "#read#", by_domain_key: true },
    ];
    let surplus = |entries: i64, changes: i64| {
        let items = [
            item("s#ledger#a", &[]),
            item("s#balance#x", &[("entries", entries)]),
            item("#dk#s#ledger#a", &[]),
            item("s#status#x", &[("changes", changes)]),
            item("#dk#s#read#a", &[]),
            item("#dk#s#read#b", &[]),
        ];
        surplus_changes(&items.iter().collect::<Vec<_>>(), &counted)
    };
    assert_eq!((surplus(1, 2), surplus(2, 2), surplus(3, 4), surplus(0, 1)), (0, 1, 4, 0));
}

/// Money must not lose a digit on its way.
#[test]
fn an_effect_is_read_as_it_was_built() {
    let digits = r#"{"total": 1.10, "number":12345678901234567890123, "b":1,  "a":"\u00e9"}"#;
    let json = Effect::json("receipt", "receipts", &json!({ "to": "cus_1" })).unwrap();
    let bytes = Effect::bytes("blob", "files", [0, 255]).unwrap().method(Method::Put).path("/a?b=c");
    assert_eq!(json.payload.content_type(), "application/json");
    assert_eq!(bytes.payload.content_type(), "application/octet-stream");
    let written = Effect { payload: Payload::Json(digits.to_owned()), ..json.clone() };
    assert_eq!(written.payload.bytes(), digits.as_bytes());
    for effect in [json, bytes, written] {
        assert_eq!(serde_json::from_str::<Effect>(&serde_json::to_string(&effect).unwrap()).unwrap(), effect);
    }
    assert!(matches!(Effect::json("A", "d", &1), Err(EffectError::Name(_))));
    assert!(matches!(Effect::bytes("e", "", []), Err(EffectError::Destination(_))));
}

#[test]
fn an_effect_has_one_payload_and_known_fields() {
    let read = |effect: &serde_json::Value| serde_json::from_str::<Effect>(&effect.to_string());
    let effect = json!({ "effect": "e", "destination": "d", "payload": null });
    assert_eq!(read(&effect).unwrap().payload, Payload::Json("null".to_owned()), "null is JSON, too");
    for (field, value) in [
        ("effect", json!("forward:d")),
        ("effect", json!("")),
        ("destination", json!("D")),
        ("payload_base64", json!("")),
        ("method", json!("GET")),
        ("method", json!("post")),
        ("path", json!(null)),
        ("headers", json!({})),
    ] {
        let mut other = effect.clone();
        other[field] = value;
        assert!(read(&other).is_err(), "{other}");
    }
    for other in [
        json!({ "effect": "e", "destination": "d" }),
        json!({ "effect": "e", "destination": "d", "payload_base64": "*" }),
        json!({ "effect": "e", "destination": "d", "payload_base64": null }),
    ] {
        assert!(read(&other).is_err(), "{other}");
    }
}
