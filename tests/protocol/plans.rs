//! Plans: what is refused before the store sees it, and the JSON form that another language may use one day.

use hookonce_protocol::call::{Call, HandlerPlan, Machine as _, Next, Planned, Reply, Signal};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::item::{ITEM_BYTES_MAX, Item, Value, size_bytes};
use hookonce_protocol::key::{DomainKey, ITEM_KEY_BYTES_MAX, ItemKey, Tenant};
use hookonce_protocol::message::Message;
use hookonce_protocol::plan::{
    DomainWrite, Event, PLAN_BYTES_MAX, PLAN_WRITES_MAX, Plan, PlanError, Snapshot, WhenConditionFails,
};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, set};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::Worker;
use hookonce_protocol::write::{Action, Change, Clause, Condition, Write};
use serde_json::json;

use crate::support::clock::START;

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

/// The key of an item of the tenant `e`.
fn key(name: &str) -> ItemKey {
    ItemKey::new(&tenant("e"), "item", [name])
}

fn put(key: ItemKey, item: Item) -> DomainWrite {
    DomainWrite::create_missing(key, item, &Snapshot::default()).unwrap()
}

fn create(name: &str) -> DomainWrite {
    put(key(name), Item::new())
}

#[test]
fn a_plan_is_checked_before_it_is_committed() {
    let many =
        |count: usize| (0..count).fold(Plan::default(), |plan, index| plan.with(create(&format!("item-{index}"))));
    assert_eq!(Plan::default().check(&tenant("e")), Ok(()), "an event may change nothing");
    assert_eq!(many(PLAN_WRITES_MAX).check(&tenant("e")), Ok(()));
    assert_eq!(many(PLAN_WRITES_MAX + 1).check(&tenant("e")), Err(PlanError::TooManyWrites));
    assert_eq!(many(2).with(create("item-1")).check(&tenant("e")), Err(PlanError::ItemTwice));
    let long = format!("e#{}", "k".repeat(ITEM_KEY_BYTES_MAX - 1));
    for key in ["", "e", "e#", "e2#item#x", "item#x", "#dk#e#payments#x", "#seen#e#x", &long] {
        let plan: Plan = serde_json::from_value(json!({ "writes": [{ "key": key, "action": "delete" }] })).unwrap();
        assert_eq!(plan.check(&tenant("e")), Err(PlanError::Key), "{key}");
    }
    let heavy = |bytes: usize| Item::from([("a".to_owned(), Value::Bytes(vec![0; bytes]))]);
    let plan = |bytes: usize| Plan::default().with(put(key("k"), heavy(bytes)));
    assert_eq!(plan(PLAN_BYTES_MAX - 1 - "e#item#k".len()).check(&tenant("e")), Ok(()));
    assert_eq!(plan(PLAN_BYTES_MAX - "e#item#k".len()).check(&tenant("e")), Err(PlanError::TooLarge));
}

#[test]
fn a_set_has_members_and_none_twice() {
    let plan = |action: serde_json::Value| -> Plan {
        serde_json::from_value(json!({ "writes": [{ "key": "e#item#k", "action": action }] })).unwrap()
    };
    let condition = |clause: serde_json::Value| -> Plan {
        let write = json!({ "key": "e#item#k", "action": "delete", "condition": [clause] });
        serde_json::from_value(json!({ "writes": [write] })).unwrap()
    };
    for sound in
        [json!({ "SS": ["b", "a"] }), json!({ "NS": ["1", "10", "-1", "0.1"] }), json!({ "BS": ["AA==", "AQ=="] })]
    {
        assert_eq!(plan(json!({ "put": { "a": sound } })).check(&tenant("e")), Ok(()), "{sound}");
    }
    for faulty in [
        json!({ "SS": [] }),
        json!({ "SS": ["a", "b", "a"] }),
        json!({ "NS": [] }),
        json!({ "NS": ["1", "1.0"] }),
        json!({ "NS": ["-0.50", "-5e-1"] }),
        json!({ "NS": ["0", "-0.0"] }),
        json!({ "NS": ["1e2", "100"] }),
        json!({ "BS": [] }),
        json!({ "BS": ["AA==", "AA=="] }),
    ] {
        for plan in [
            plan(json!({ "put": { "a": faulty } })),
            plan(json!({ "put": { "a": { "L": [{ "M": { "b": faulty } }] } } })),
            plan(json!({ "update": [{ "add": ["n", 1] }, { "set": ["a", faulty] }] })),
            condition(json!({ "equals": ["a", faulty] })),
            condition(json!({ "differs": ["a", faulty] })),
            condition(json!({ "one_of": ["a", [{ "N": "1" }, faulty]] })),
        ] {
            assert_eq!(plan.check(&tenant("e")), Err(PlanError::Set), "{plan:?}");
        }
    }
    let [one, other] = [json!({ "SS": ["a", "b"] }), json!({ "SS": ["b", "a"] })]
        .map(|set| serde_json::from_value::<Value>(set).unwrap());
    assert_eq!(one, other, "a set has no order");
    assert_ne!(
        one,
        serde_json::from_value::<Value>(json!({ "L": [{ "S": "a" }, { "S": "b" }] })).unwrap(),
        "and is no list"
    );
}

/// The record counts with its body towards the limit of a transaction, although the plan does not show it.
#[test]
fn the_largest_plan_fits_beside_the_largest_record_and_a_larger_one_is_refused() {
    let (timing, moment) = (Timing::standard(), Moment { now: START, entropy: 0 });
    let worker = |bytes: usize| {
        let claim = crate::protocol::a_claim("in#e#x");
        let record = Claim { body: vec![7; ITEM_BYTES_MAX - 2_048], ..claim }.record(&timing, START);
        let Next::Call(worker, _) = Worker::start(Ok(Message::Ref { pk: record.key.clone() }), 1, timing, moment).next
        else {
            panic!("it reads")
        };
        let Next::Call(worker, _) = worker.step(Reply::Read(Ok(Found::Record(Box::new(record.clone())))), moment).next
        else {
            panic!("it plans")
        };
        let item = Item::from([("a".to_owned(), Value::Bytes(vec![0; bytes - 1 - "e#item#k".len()]))]);
        let plan = Plan::default().with(put(key("k"), item));
        let plan = HandlerPlan { consumer: "h".repeat(64), domain_key: DomainKey::of(["d".repeat(512)]), plan };
        (record, worker.step(Reply::Planned(Planned::Plan(Box::new(plan))), moment))
    };
    let (record, step) = worker(PLAN_BYTES_MAX);
    let Next::Call(_, Call::Commit(writes)) = step.next else { panic!("{step:?}") };
    let size = |write: &Write| match &write.action {
        Action::Put(item) => write.key.len() + size_bytes(item),
        Action::Update(_) => size_bytes(&write.apply(Some(&record.encode())).unwrap().unwrap()),
        Action::Delete => 0,
    };
    let total: usize = writes.iter().map(size).sum();
    println!("a plan of {PLAN_BYTES_MAX} bytes is a transaction of {total} bytes");
    assert!(total <= 4 * 1024 * 1024, "{total}");

    let (_, step) = worker(PLAN_BYTES_MAX + 1);
    assert_eq!(step.signals, [Signal::PlanRefused(PlanError::TooLarge)], "the log names the limit");
    let Next::Call(_, Call::Write(write)) = step.next else { panic!("{step:?}") };
    assert_eq!(write.purpose, Purpose::DieOfFailure);
    let Action::Update(changes) = write.action else { panic!("{write:?}") };
    assert!(changes.contains(&set("last_error", "PLAN_REFUSED")), "{changes:?}");
}

#[test]
fn a_write_requires_what_its_snapshot_showed() {
    let item = Item::from([("total".to_owned(), 5.into())]);
    let snapshot = Snapshot { items: [(key("balance").into(), item)].into() };
    let write = |name: &str| DomainWrite::update(key(name), vec![set("total", 6)]).as_seen(&snapshot, "total");
    assert_eq!(write("balance").condition.0, [Clause::Equals("total".into(), 5.into())]);
    assert_eq!(write("another").condition.0, [Clause::Absent("total".into())]);
    assert_eq!((snapshot.number(&key("balance"), "total"), snapshot.number(&key("another"), "total")), (5, 0));
    assert_eq!(DomainWrite::create_missing(key("balance"), Item::new(), &snapshot), None, "it was seen");
    let missing = DomainWrite::create_missing(key("another"), Item::new(), &snapshot).unwrap();
    assert_eq!(missing.condition, Condition::item_absent());
}

/// The text form is stable: it changes only with its version.
#[test]
fn the_json_form_is_stable() {
    let event = json!({
        "version": 1, "endpoint": "stripe", "tenant": "stripe", "provider": "stripe", "record": "in#stripe#evt_1",
        "key": "evt_1", "type": "invoice.paid", "received_at_ms": 1_767_225_600_000_i64, "generation": 0, "headers": {}, "body_base64": "e30="
    });
    let read: Event = serde_json::from_value(event.clone()).unwrap();
    assert_eq!(read.body, b"{}");
    assert_eq!(serde_json::to_value(&read).unwrap(), event);

    let balance = read.item_key("balance", ["acme"]);
    let item = json!({ "pk": { "S": "stripe#balance#acme" }, "minor": { "N": "500" } });
    let snapshot = json!({ "items": { "stripe#balance#acme": item } });
    let read: Snapshot = serde_json::from_value(snapshot.clone()).unwrap();
    assert_eq!(read.number(&balance, "minor"), 500);
    assert_eq!(serde_json::to_value(&read).unwrap(), snapshot);

    let plan = json!({
        "writes": [
            { "key": "stripe#ledger#in_1", "action": { "put": { "minor": { "N": "500" } } }, "condition": [{ "absent": "pk" }] },
            { "key": "stripe#balance#acme", "action": { "update": [
                { "add": ["minor", 500] }, { "set": ["at", { "S": "now" }] }, { "remove": "stale" }
            ] }, "condition": [{ "equals": ["v", { "N": "1" }] }, { "one_of": ["s", [{ "BOOL": true }, { "NULL": true }]] }] },
            { "key": "stripe#old#x", "action": "delete", "condition": [{ "present": "pk" }] }
        ],
        "when_condition_fails": "permanent"
    });
    let read: Plan = serde_json::from_value(plan.clone()).unwrap();
    assert_eq!((read.when_condition_fails, read.check(&tenant("stripe"))), (WhenConditionFails::Permanent, Ok(())));
    assert_eq!(serde_json::to_value(&read).unwrap(), plan);
    let short: Plan =
        serde_json::from_value(json!({ "writes": [{ "key": "e#item#k", "action": { "put": {} } }] })).unwrap();
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
