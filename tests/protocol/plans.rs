//! Plans: what is refused before the store sees it, and the JSON form that another language may one day speak.

use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::plan::{
    DOMAIN_ITEM_KEY_BYTES_MAX, DomainWrite, Event, PLAN_BYTES_MAX, PLAN_WRITES_MAX, Plan, PlanError, Snapshot,
    WhenConditionFails,
};
use hookonce_protocol::record::set;
use hookonce_protocol::write::{Change, Clause, Condition};
use serde_json::json;

fn create(key: &str) -> DomainWrite {
    DomainWrite::create(key, Item::new())
}

#[test]
fn a_plan_is_checked_before_it_is_committed() {
    let many =
        |count: usize| (0..count).fold(Plan::default(), |plan, index| plan.with(create(&format!("item-{index}"))));
    assert_eq!(Plan::default().check(), Ok(()), "an event may change nothing");
    assert_eq!(many(PLAN_WRITES_MAX).check(), Ok(()));
    assert_eq!(many(PLAN_WRITES_MAX + 1).check(), Err(PlanError::TooManyWrites));
    assert_eq!(many(2).with(create("item-1")).check(), Err(PlanError::ItemTwice));
    for key in ["", "dk#payments#x", "seen#github#x", &"k".repeat(DOMAIN_ITEM_KEY_BYTES_MAX + 1)] {
        assert_eq!(Plan::default().with(create(key)).check(), Err(PlanError::Key), "{key}");
    }
    let heavy = |bytes: usize| Item::from([("a".to_owned(), Value::Bytes(vec![0; bytes]))]);
    let plan = |bytes: usize| Plan::default().with(DomainWrite::create("k", heavy(bytes)));
    assert_eq!(plan(PLAN_BYTES_MAX - 2).check(), Ok(()));
    assert_eq!(plan(PLAN_BYTES_MAX - 1).check(), Err(PlanError::TooLarge));
}

#[test]
fn a_write_requires_what_its_snapshot_showed() {
    let item = Item::from([("total".to_owned(), 5.into())]);
    let snapshot = Snapshot { items: [("balance".to_owned(), item)].into() };
    let write = |key: &str| DomainWrite::update(key, vec![set("total", 6)]).as_seen(&snapshot, "total");
    assert_eq!(write("balance").condition.0, [Clause::Equals("total".into(), 5.into())]);
    assert_eq!(write("another").condition.0, [Clause::Absent("total".into())]);
    assert_eq!((snapshot.number("balance", "total"), snapshot.number("another", "total")), (5, 0));
}

/// The text is a promise: it changes only with its version.
#[test]
fn the_json_form_is_stable() {
    let event = json!({
        "version": 1, "endpoint": "stripe-main", "provider": "stripe", "key": "evt_1", "type": "invoice.paid",
        "received_at_ms": 1_767_225_600_000_i64, "generation": 0, "headers": {}, "body_base64": "e30="
    });
    let read: Event = serde_json::from_value(event.clone()).unwrap();
    assert_eq!(read.body, b"{}");
    assert_eq!(serde_json::to_value(&read).unwrap(), event);

    let snapshot = json!({ "items": { "balance#acme": { "pk": { "S": "balance#acme" }, "minor": { "N": "500" } } } });
    let read: Snapshot = serde_json::from_value(snapshot.clone()).unwrap();
    assert_eq!(read.number("balance#acme", "minor"), 500);
    assert_eq!(serde_json::to_value(&read).unwrap(), snapshot);

    let plan = json!({
        "writes": [
            { "key": "ledger#in_1", "action": { "put": { "minor": { "N": "500" } } }, "condition": [{ "absent": "pk" }] },
            { "key": "balance#acme", "action": { "update": [
                { "add": ["minor", 500] }, { "set": ["at", { "S": "now" }] }, { "remove": "stale" }
            ] }, "condition": [{ "equals": ["v", { "N": "1" }] }, { "one_of": ["s", [{ "BOOL": true }, { "NULL": true }]] }] },
            { "key": "old", "action": "delete", "condition": [{ "present": "pk" }] }
        ],
        "when_condition_fails": "permanent"
    });
    let read: Plan = serde_json::from_value(plan.clone()).unwrap();
    assert_eq!(read.when_condition_fails, WhenConditionFails::Permanent);
    assert_eq!(serde_json::to_value(&read).unwrap(), plan);
    let short: Plan = serde_json::from_value(json!({ "writes": [{ "key": "k", "action": { "put": {} } }] })).unwrap();
    assert_eq!(short, Plan::default().with(DomainWrite { condition: Condition::default(), ..create("k") }));
}

#[test]
fn numbers_and_bytes_keep_every_digit() {
    let value: Value = serde_json::from_value(json!({ "N": "12345678901234567890.5" })).unwrap();
    assert_eq!(
        (value.as_i64(), serde_json::to_value(&value).unwrap()),
        (None, json!({ "N": "12345678901234567890.5" }))
    );
    let bytes: Value = serde_json::from_value(json!({ "B": "AP8=" })).unwrap();
    assert_eq!(bytes.as_bytes(), Some(&[0, 255][..]));
    assert!(serde_json::from_value::<Value>(json!({ "B": "not base64!" })).is_err());
    assert!(
        serde_json::from_value::<Change>(json!({ "rename": ["a", "b"] })).is_err(),
        "an unknown change is no change"
    );
}
