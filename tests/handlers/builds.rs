//! Build requests.

use hookonce_worker::handlers::Builds;
use serde_json::{Value, json};

use super::{Applied, Domain, event};
use crate::support::Delivery;
use crate::support::samples::push;

/// The same push with some fields changed.
fn changed(mut delivery: Delivery, fields: &Value) -> Delivery {
    let mut body: Value = serde_json::from_slice(&delivery.body).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    delivery.body = body.to_string().into_bytes();
    delivery
}

#[test]
fn a_commit_is_built_once_for_each_repository() {
    let mut domain = Domain::default();
    let pushes = [
        (push("d-1", "aaaa"), Applied::Once),
        (push("d-2", "aaaa"), Applied::Duplicate),
        (changed(push("d-3", "aaaa"), &json!({ "ref": "refs/tags/v1" })), Applied::Duplicate),
        (changed(push("d-4", "aaaa"), &json!({ "repository": { "id": 2, "full_name": "o/fork" } })), Applied::Once),
        (push("d-5", "bbbb"), Applied::Once),
    ];
    for (index, (delivery, expected)) in pushes.iter().enumerate() {
        assert_eq!(domain.apply(&Builds, &event(delivery)), *expected, "push {index}");
    }
    assert_eq!(domain.number("github#repository#17273051", "builds"), 2);
    assert_eq!(domain.number("github#repository#2", "builds"), 1);
    assert_eq!(domain.text("github#build#17273051#aaaa", "state"), Some("REQUESTED"));
}
