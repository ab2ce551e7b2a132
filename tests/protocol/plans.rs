//! Plans: what is refused before the store sees it, and the JSON form that another language uses.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::call::{Call, HandlerPlan, Next, Planned, Signal};
use hookonce_protocol::check::{CHANGES_MAX, CLAUSES_MAX, PlanError, PlanFault, Scope};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::effect::{EFFECT_PATH_BYTES_MAX, Effect, Method};
use hookonce_protocol::item::{ITEM_BYTES_MAX, Item, Number, RESERVED_PREFIX, Value, size_bytes};
use hookonce_protocol::key::{DomainKey, ITEM_KEY_BYTES_MAX, ItemKey, Tenant};
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{
    Check, DomainWrite, Event, PLAN_BYTES_MAX, PLAN_WRITES_MAX, Plan, Snapshot, Tie, WhenConditionFails,
};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{attribute, set};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::{Action, Change, Clause, Condition, Write};
use serde_json::json;

use super::{a_claim, planned};
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

/// The table `orders`, whose key is a text and a number, and `blobs`, whose key is bytes.
fn tables() -> BTreeMap<TableAlias, KeySchema> {
    let part = |name: &str, kind| KeyAttribute { name: name.to_owned(), kind };
    let orders = KeySchema { partition: part("shop", KeyKind::Text), sort: Some(part("order", KeyKind::Number)) };
    let blobs = KeySchema { partition: part("hash", KeyKind::Bytes), sort: None };
    [("orders", orders), ("blobs", blobs)].map(|(name, schema)| (TableAlias::parse(name).unwrap(), schema)).into()
}

/// Checks a plan of the tenant `e` that has seen the item `e#item#seen` and the order 7 of the shop `a`.
fn check(plan: &Plan) -> Result<(), PlanError> {
    let order = json!({ "table": "orders", "key": { "shop": { "S": "a" }, "order": { "N": "7" } } });
    let shown = [key("seen").into(), serde_json::from_value(order).unwrap()].into();
    plan.check(&tenant("e"), &Scope { shown, tables: tables(), ..Scope::default() })
}

/// Values, keys, plans and snapshots, and what is said of those that are refused.
fn cases() -> serde_json::Value {
    serde_json::from_str(include_str!("plan_cases.json")).unwrap()
}

fn plan_of(plan: serde_json::Value) -> Plan {
    serde_json::from_value(plan).unwrap()
}

/// The error of a plan with this one write.
fn error_of(write: &serde_json::Value) -> String {
    check(&plan_of(json!({ "writes": [write] }))).err().map(|error| error.to_string()).unwrap_or_default()
}

fn error_of_put(attribute: &str, value: serde_json::Value) -> String {
    let mut write = json!({ "key": "e#item#k", "action": { "put": {} } });
    write["action"]["put"][attribute] = value;
    error_of(&write)
}

fn error_of_update(changes: serde_json::Value) -> String {
    let mut write = json!({ "key": "e#item#k", "action": {} });
    write["action"]["update"] = changes;
    error_of(&write)
}

fn error_of_condition(condition: serde_json::Value) -> String {
    let mut write = json!({ "key": "e#item#k", "action": "delete" });
    write["condition"] = condition;
    error_of(&write)
}

#[test]
fn a_plan_is_checked_before_it_is_committed() {
    let many =
        |count: usize| (0..count).fold(Plan::default(), |plan, index| plan.with(create(&format!("item-{index}"))));
    let checked = |plan: Plan, name: &str| plan.with_check(Check::as_seen(key(name), &Snapshot::default(), ["n"]));
    assert_eq!(check(&Plan::default()), Ok(()), "an event may change nothing");
    assert_eq!(check(&many(PLAN_WRITES_MAX)), Ok(()));
    assert_eq!(check(&many(PLAN_WRITES_MAX + 1)), Err(PlanError::TooManyWrites));
    assert_eq!(check(&checked(many(PLAN_WRITES_MAX - 1), "x")), Ok(()));
    assert_eq!(check(&checked(many(PLAN_WRITES_MAX), "x")), Err(PlanError::TooManyWrites), "a check is one of them");
    let twice = PlanError::Write { index: 2, table: None, fault: PlanFault::ItemTwice };
    assert_eq!(check(&many(2).with(create("item-1"))), Err(twice));
    let twice = PlanError::Check { index: 0, table: None, fault: PlanFault::ItemTwice };
    assert_eq!(check(&checked(many(2), "item-1")), Err(twice), "what is written cannot be checked too");
    let heavy = |bytes: usize| Item::from([("a".to_owned(), Value::Bytes(vec![0; bytes]))]);
    // The key, the attribute's name, and the condition's.
    let overhead = "pk".len() + "e#item#k0".len() + "a".len() + "pk".len();
    let plan = |last: usize| {
        let full = (0..7).map(|index| put(key(&format!("k{index}")), heavy(PLAN_BYTES_MAX / 8 - overhead)));
        full.fold(Plan::default(), Plan::with).with(put(key("k7"), heavy(last)))
    };
    assert_eq!(check(&plan(PLAN_BYTES_MAX / 8 - overhead)), Ok(()));
    assert_eq!(check(&plan(PLAN_BYTES_MAX / 8 - overhead + 1)), Err(PlanError::TooLarge));
}

/// A map of one entry takes a block for eleven, so a megabyte of them takes tens.
#[test]
fn a_plan_of_very_many_small_maps_is_refused() {
    let small = || Value::Map([("a".to_owned(), Value::Flag(true))].into());
    let plan = |maps: usize| {
        let item = |count| Item::from([("a".to_owned(), Value::List((0..count).map(|_| small()).collect()))]);
        let writes = (0..4).map(|index| put(key(&format!("k{index}")), item(maps / 4)));
        writes.fold(Plan::default(), Plan::with)
    };
    assert_eq!(check(&plan(44_000)), Ok(()));
    assert_eq!(check(&plan(56_000)), Err(PlanError::TooManyValues));
}

#[test]
fn a_key_is_the_tenants_or_that_of_a_user_table() {
    let long = format!("e#{}", "k".repeat(ITEM_KEY_BYTES_MAX - 1));
    for key in ["", "e", "e#", "e2#item#x", "item#x", "#dk#e#payments#x", "#seen#e#x", "#trail#x", &long] {
        let error = error_of(&json!({ "key": key, "action": "delete" }));
        let refused = "writes[0]: a key of the domain table must be text that begins with the tenant";
        assert!(error.starts_with(refused), "{key}: {error}");
    }
    let order = |key: serde_json::Value| error_of(&json!({ "table": "orders", "key": key, "action": "delete" }));
    assert_eq!(order(json!({ "shop": { "S": "a" }, "order": { "N": "8" } })), "");
    for key in cases()["keys_of_another_form"].as_array().unwrap() {
        let error = order(key.clone());
        assert_eq!(
            error, "writes[0] in table orders: the key must have the attributes of the table's key, each of its type",
            "{key}"
        );
    }
    let long = json!({ "shop": { "S": "a".repeat(2_049) }, "order": { "N": "8" } });
    for key in cases()["keys_without_a_value"].as_array().unwrap().iter().chain([&long]) {
        assert!(order(key.clone()).contains("a part of the key is empty"), "{key}");
    }
    let blob = |bytes: usize| {
        DomainWrite::delete(ItemRef::own(TableAlias::parse("blobs").unwrap(), [("hash", Value::Bytes(vec![7; bytes]))]))
    };
    assert_eq!(check(&Plan::default().with(blob(2_048))), Ok(()));
    for bytes in [0, 2_049] {
        assert!(check(&Plan::default().with(blob(bytes))).is_err(), "{bytes}");
    }
    // Neither does a key of attributes reach the domain table, where the domain keys are, nor an alias another table.
    let reach = json!({ "key": { "pk": { "S": "#dk#e#payments#x" } }, "action": "delete" });
    assert!(error_of(&reach).contains("must be text that begins with the tenant"), "{}", error_of(&reach));
    let unknown = json!({ "table": "inbox", "key": { "pk": { "S": "in#e#x" } }, "action": "delete" });
    assert_eq!(
        error_of(&unknown),
        "writes[0] in table inbox: the route does not list this table, or the worker has none of this alias"
    );
    for alias in ["", "Orders", "or ders", "e#x", &"o".repeat(33)] {
        let write = json!({ "table": alias, "key": "e#item#x", "action": "delete" });
        assert!(serde_json::from_value::<DomainWrite>(write).is_err(), "{alias}");
    }
    let one = json!({ "table": "orders", "key": { "shop": { "S": "a" }, "order": { "N": "8" } }, "action": "delete" });
    let same =
        json!({ "table": "orders", "key": { "order": { "N": "8.0e0" }, "shop": { "S": "a" } }, "action": "delete" });
    let error = check(&plan_of(json!({ "writes": [one, same] }))).unwrap_err().to_string();
    let twice = "writes[1] in table orders: the plan writes or checks this item twice";
    assert_eq!(error, twice, "8 and 8.0 are one number");
}

#[test]
fn what_was_seen_is_not_overwritten_unawares() {
    let refused = "writes[0]: the handler has seen this item: the write needs a condition, or \"blind\": true";
    for (write, expected) in [
        (json!({ "key": "e#item#seen", "action": "delete" }), refused),
        (json!({ "key": "e#item#seen", "action": "delete", "blind": false }), refused),
        (json!({ "key": "e#item#seen", "action": "delete", "blind": true }), ""),
        (json!({ "key": "e#item#seen", "action": "delete", "condition": [{ "present": "pk" }] }), ""),
        (json!({ "key": "e#item#unseen", "action": "delete" }), ""),
    ] {
        assert_eq!(error_of(&write), expected, "{write}");
    }
    let order =
        json!({ "table": "orders", "key": { "shop": { "S": "a" }, "order": { "N": "7.0" } }, "action": "delete" });
    assert!(error_of(&order).contains("has seen this item"));
    let check_of = |condition: serde_json::Value| {
        check(&plan_of(json!({ "writes": [], "checks": [{ "key": "e#item#seen", "condition": condition }] })))
    };
    assert_eq!(check_of(json!([{ "present": "pk" }])), Ok(()));
    let nothing = PlanError::Check { index: 0, table: None, fault: PlanFault::NoCondition };
    assert_eq!(check_of(json!([])), Err(nothing));
}

/// DynamoDB would refuse each of these for good, without a word about which attribute it is.
#[test]
fn what_dynamodb_refuses_is_refused_before_it() {
    let (put, update, when) = (error_of_put, error_of_update, error_of_condition);
    for sound in cases()["sound"].as_array().unwrap() {
        assert_eq!(put("a", sound.clone()), "", "{sound}");
    }
    let set = "holds a set that is empty or has a member twice";
    for (faulty, expected) in
        serde_json::from_value::<Vec<(serde_json::Value, String)>>(cases()["faulty"].take()).unwrap()
    {
        let expected = format!("writes[0]: attribute `a` {expected}");
        assert_eq!(put("a", faulty.clone()), expected);
        assert_eq!(put("a", json!({ "L": [{ "M": { "b": faulty } }] })), expected);
        assert_eq!(update(json!([{ "add": ["n", 1] }, { "set": ["a", faulty] }])), expected);
        assert_eq!(when(json!([{ "equals": ["a", faulty] }])), expected);
        assert_eq!(when(json!([{ "differs": ["a", faulty] }])), expected);
        assert_eq!(when(json!([{ "one_of": ["a", [{ "N": "1" }, faulty]] }])), expected);
    }
    let nested = |levels: usize| (0..levels).fold(json!({ "S": "x" }), |inner, _| json!({ "L": [inner] }));
    assert_eq!(put("a", nested(31)), "");
    assert_eq!(put("a", nested(32)), "writes[0]: attribute `a` holds more than 32 levels of lists, maps and values");
    for (name, shown) in [
        ("a name\nof a provider", "(not shown, 20 bytes)"),
        ("ada@example.com", "(not shown, 15 bytes)"),
        ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "`sk_...` (32 bytes)"),
        ("paid", "`pai...` (4 bytes)"),
        ("sum", "`sum`"),
    ] {
        assert_eq!(put(name, json!({ "SS": [] })), format!("writes[0]: attribute {shown} {set}"));
    }
}

#[test]
fn an_expression_that_dynamodb_refuses_is_refused_before_it() {
    let (put, update, when) = (error_of_put, error_of_update, error_of_condition);
    assert_eq!(put("", json!({ "S": "x" })), "writes[0]: the name of an attribute is empty or too long");
    assert_eq!(update(json!([])), "writes[0]: an update needs a change");
    assert_eq!(update(json!([{ "remove": "pk" }])), "writes[0]: attribute `pk` is part of the key, and cannot change");
    let other = put("pk", json!({ "S": "e#item#other" }));
    assert_eq!(other, "writes[0]: attribute `pk` is part of the key, and cannot change");
    assert_eq!(put("pk", json!({ "S": "e#item#k" })), "", "an item that was read comes back as it is");
    assert_eq!(update(json!([{ "add": ["n", 1] }, { "remove": "n" }])), "writes[0]: attribute `n` changes twice");
    assert_eq!(when(json!([{ "one_of": ["a", []] }])), "writes[0]: attribute `a` is compared with no value");
    let long = |count: usize| json!(vec![json!({ "present": "a" }); count]);
    assert_eq!(when(long(CLAUSES_MAX)), "");
    assert!(when(long(CLAUSES_MAX + 1)).contains("the condition has more than"));
    let changes = |count: usize| json!((0..count).map(|at| json!({ "remove": format!("a{at}") })).collect::<Vec<_>>());
    assert_eq!(update(changes(CHANGES_MAX)), "");
    assert!(update(changes(CHANGES_MAX + 1)).contains("the update has more than"));
    let fits = ITEM_BYTES_MAX - "pk".len() - "e#item#k".len() - "a".len();
    assert_eq!(put("a", json!({ "S": "x".repeat(fits) })), "");
    assert!(put("a", json!({ "S": "x".repeat(fits + 1) })).contains("the item has more than 409600 bytes"));
    // A set is as large as its members.
    let set = |members: usize| json!({ "SS": (0..members).map(|member| format!("{member:08}")).collect::<Vec<_>>() });
    assert_eq!(put("a", set(fits / 8)), "");
    assert!(put("a", set(fits / 8 + 1)).contains("the item has more than 409600 bytes"));
    let blobs = |members: u32| json!({ "BS": (0..members).map(|member| STANDARD.encode(member.to_be_bytes())).collect::<Vec<_>>() });
    assert_eq!(put("a", blobs(u32::try_from(fits / 4).unwrap())), "");
    assert!(put("a", blobs(u32::try_from(fits / 4).unwrap() + 1)).contains("the item has more than 409600 bytes"));
    let order = json!({ "shop": { "S": "a" }, "order": { "N": "8" } });
    let key = json!({ "table": "orders", "key": order, "action": { "update": [{ "set": ["order", { "N": "9" }] }] } });
    let changed = "writes[0] in table orders: attribute `ord...` (5 bytes) is part of the key, and cannot change";
    assert_eq!(error_of(&key), changed);
}

/// One of them is the TTL attribute of both tables: with it, a handler could have an item deleted by a time of its own.
#[test]
fn a_name_that_only_hookonce_may_use_is_refused_wherever_a_plan_names_an_attribute() {
    let refused = "the name of an attribute begins with `hookonce_`: only hookonce may use such a name, choose another";
    let (put, update, when) = (error_of_put, error_of_update, error_of_condition);
    for name in [attribute::EXPIRES_AT, RESERVED_PREFIX, "hookonce_order"] {
        let compared = json!([name, { "N": "1" }]);
        let own = json!({ "table": "blobs", "key": { "hash": { "B": "AA==" } }, "action": { "put": { name: { "N": "1" } } } });
        let seen: Snapshot = [(key("seen").into(), None)].into_iter().collect();
        let newer = DomainWrite::update(key("seen"), Vec::new()).newer_than(&seen, name, 7, Tie::Skip);
        let check_of = Check::as_seen(key("a"), &Snapshot::default(), [name]);
        for error in [
            put(name, json!({ "N": "1" })),
            update(json!([{ "set": compared }])),
            update(json!([{ "add": [name, 1] }])),
            update(json!([{ "remove": name }])),
            when(json!([{ "absent": name }])),
            when(json!([{ "present": name }])),
            when(json!([{ "equals": compared }])),
            when(json!([{ "differs": compared }])),
            when(json!([{ "one_of": [name, [{ "N": "1" }]] }])),
            error_of(&own),
            check(&Plan::default().with(newer)).unwrap_err().to_string(),
            check(&Plan::default().with_check(check_of)).unwrap_err().to_string(),
        ] {
            assert!(error.ends_with(refused), "{name}: {error}");
        }
    }
    for name in ["expires_at", "hookonce", "Hookonce_order", "order_hookonce_", "due_shard", "received_at", "record"] {
        assert_eq!(put(name, json!({ "N": "1" })), "", "{name}");
    }
    assert_eq!(put("a", json!({ "M": { attribute::EXPIRES_AT: { "N": "1" } } })), "", "TTL knows no name in a map");
}

#[test]
fn a_set_is_a_set() {
    let forms =
        [json!({ "SS": ["a", "b"] }), json!({ "SS": ["b", "a"] }), json!({ "L": [{ "S": "a" }, { "S": "b" }] })];
    let [one, other, list] = forms.map(|set| serde_json::from_value::<Value>(set).unwrap());
    assert_eq!(one, other, "a set has no order");
    assert_ne!(one, list, "and is no list");
}

/// The record counts with its body towards the limit of a transaction, although the plan does not show it.
#[test]
fn the_largest_plan_fits_beside_the_largest_record_and_a_larger_one_is_refused() {
    let worker = |bytes: usize| {
        let claim = Claim { body: vec![7; ITEM_BYTES_MAX - 2_048], ..a_claim("in#e#x") };
        let record = claim.record(&Timing::standard(), START);
        let item = |bytes: usize| Item::from([("a".to_owned(), Value::Bytes(vec![0; bytes - "pke#item#k0apk".len()]))]);
        let part = |index: usize| if index == 0 { bytes - PLAN_BYTES_MAX / 8 * 7 } else { PLAN_BYTES_MAX / 8 };
        let puts = (0..8).map(|index| put(key(&format!("k{index}")), item(part(index))));
        let plan = puts.fold(Plan::default(), Plan::with);
        let (consumer, domain_key) = ("h".repeat(64), DomainKey::of(["d".repeat(512)]));
        let plan = HandlerPlan { consumer, domain_key, plan, effects: Vec::new(), scope: Scope::default() };
        (record.clone(), planned(record, Planned::Plan(Box::new(plan)), 0))
    };
    let (record, step) = worker(PLAN_BYTES_MAX);
    let Next::Call(_, Call::Commit(writes)) = step.next else { panic!("{step:?}") };
    let size = |write: &Write| match &write.action {
        Action::Put(item) => write.key.size_bytes() + size_bytes(item),
        Action::Update(_) => size_bytes(&write.apply(Some(&record.encode())).unwrap().unwrap()),
        Action::Delete | Action::Check => 0,
    };
    let total: usize = writes.iter().map(size).sum();
    println!("a plan of {PLAN_BYTES_MAX} bytes is a transaction of {total} bytes");
    assert!(total <= 4 * 1024 * 1024, "{total}");

    let (record, step) = worker(PLAN_BYTES_MAX + 1);
    let refused = Signal::PlanRefused { key: record.key, error: PlanError::TooLarge };
    assert_eq!(step.signals, [refused], "the log names the limit");
    let Next::Call(_, Call::Write(write)) = step.next else { panic!("{step:?}") };
    assert_eq!(write.purpose, Purpose::DeadAfterFailures);
    let Action::Update(changes) = write.action else { panic!("{write:?}") };
    assert!(changes.contains(&set("last_error", "PLAN_REFUSED")), "{changes:?}");
}

#[test]
fn a_write_requires_what_its_snapshot_showed() {
    let item = Item::from([("total".to_owned(), 5.into())]);
    let snapshot: Snapshot = [(key("balance").into(), Some(item))].into_iter().collect();
    let write = |name: &str| DomainWrite::update(key(name), vec![set("total", 6)]).as_seen(&snapshot, "total");
    assert_eq!(write("balance").condition.0, [Clause::Equals("total".into(), 5.into())]);
    assert_eq!(write("another").condition.0, [Clause::Absent("total".into())]);
    assert_eq!((snapshot.number(key("balance"), "total"), snapshot.number(key("another"), "total")), (5, 0));
    assert_eq!(DomainWrite::create_missing(key("balance"), Item::new(), &snapshot), None, "it was seen");
    let missing = DomainWrite::create_missing(key("another"), Item::new(), &snapshot).unwrap();
    assert_eq!(missing.condition, Condition::item_absent());
    let versioned = missing.newer_than(&snapshot, "version", 5, Tie::Skip).unwrap();
    assert_eq!(versioned.action, Action::Put(Item::from([("version".to_owned(), 5.into())])));
}

/// The text form is stable: it changes only with its version.
#[test]
fn the_json_form_is_stable() {
    let [event, snapshot, plan] = ["event", "snapshot", "plan"].map(|form| cases()["forms"][form].take());
    let read: Event = serde_json::from_value(event.clone()).unwrap();
    assert_eq!(read.body, b"{}");
    assert_eq!(serde_json::to_value(&read).unwrap(), event);

    let balance = read.item_key("balance", ["acme"]);
    let read: Snapshot = serde_json::from_value(snapshot.clone()).unwrap();
    assert_eq!(read.number(&balance, "minor"), 500);
    let own = ItemRef::own(TableAlias::parse("orders").unwrap(), [("order", 17.into()), ("shop", "acme".into())]);
    assert_eq!((read.item(&own), read.items().map(|(name, _)| name.clone()).nth(1)), (None, Some(own)));
    assert_eq!(serde_json::to_value(&read).unwrap(), snapshot);

    let read: Plan = serde_json::from_value(plan.clone()).unwrap();
    let scope = Scope { tables: tables(), ..Scope::default() };
    assert_eq!(read.when_condition_fails, WhenConditionFails::Permanent);
    assert_eq!(read.check(&tenant("stripe"), &scope), Ok(()));
    assert_eq!(serde_json::to_value(&read).unwrap(), plan);
    let short: Plan =
        serde_json::from_value(json!({ "writes": [{ "key": "e#item#k", "action": { "put": {} } }] })).unwrap();
    assert_eq!(short, Plan::default().with(DomainWrite { condition: Condition::default(), ..create("k") }));
}

/// A misspelt word never becomes a plan that does less, or more.
#[test]
fn what_is_not_in_the_form_is_refused() {
    for faulty in cases()["no_plans"].as_array().unwrap() {
        assert!(serde_json::from_value::<Plan>(faulty.clone()).is_err(), "{faulty}");
    }
    for faulty in cases()["no_snapshots"].as_array().unwrap() {
        assert!(serde_json::from_value::<Snapshot>(faulty.clone()).is_err(), "{faulty}");
    }
}

#[test]
fn a_number_is_itself_in_every_spelling() {
    let number = |text: &str| Value::Number(Number::from_text(text));
    for (one, two) in [("12.50", "12.5"), ("17", "17.0"), ("1e1", "10"), ("0", "-0.00"), ("007", "7"), ("+5", "5")] {
        assert_eq!(number(one), number(two));
        let holds = Condition(vec![Clause::Equals("n".into(), number(one))]);
        assert!(holds.holds(Some(&Item::from([("n".to_owned(), number(two))]))), "{one} and {two}");
    }
    for (one, two) in [("12.5", "12.51"), ("5", "-5"), ("1e1", "1"), ("x", "0")] {
        assert_ne!(number(one), number(two));
    }
    let order = json!({ "shop": { "S": "a" }, "order": { "N": "17.0" } });
    let back = json!({ "put": { "order": { "N": "17" } } });
    let back = error_of(&json!({ "table": "orders", "key": order, "action": back }));
    assert_eq!(back, "", "an item comes back as it was read");
    let zero = |text: &str| Number::from_text(text).is_sound();
    assert_eq!(["0e125", "0e126", "0e-130", "0.0e-130", "0e-500"].map(zero), [true, false, true, false, false]);
}

#[test]
fn numbers_and_bytes_keep_every_digit() {
    let value: Value = serde_json::from_value(json!({ "N": "12345678901234567890.5" })).unwrap();
    assert_eq!(value.as_i64(), None);
    assert_eq!(json!(value), json!({ "N": "12345678901234567890.5" }));
    let bytes: Value = serde_json::from_value(json!({ "B": "AP8=" })).unwrap();
    assert_eq!(bytes.as_bytes(), Some(&[0, 255][..]));
    assert!(serde_json::from_value::<Value>(json!({ "B": "not base64!" })).is_err());
    let unknown = serde_json::from_value::<Change>(json!({ "rename": ["a", "b"] }));
    assert!(unknown.is_err(), "an unknown change is no change");
}

/// The fields of an object in the schema.
fn properties(schema: &serde_json::Value) -> BTreeSet<String> {
    assert_eq!(schema["additionalProperties"], json!(false), "the types refuse unknown fields, and so does the schema");
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

/// What the schema tells another language is what the types read.
#[test]
fn the_schema_describes_the_types() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/plan.json");
    let schema: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let fields = |value: serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let check = Check::as_seen(key("k"), &Snapshot::default(), ["n"]);
    let effect = Effect::json("receipt", "receipts", &1).unwrap();
    let plan = Plan::default().with(create("k")).with_check(check).with_effect(effect);
    let of = |name: &str| properties(&schema["$defs"][name]);
    assert_eq!(properties(&schema), fields(json!(plan)));
    let methods = [Method::Post, Method::Put, Method::Patch, Method::Delete];
    assert_eq!(schema["$defs"]["effect"]["properties"]["method"]["enum"], json!(methods));
    let order = json!({ "table": "orders", "key": { "shop": { "S": "a" } }, "item": null });
    let snapshot: Snapshot = serde_json::from_value(json!({ "items": [order] })).unwrap();
    assert_eq!(of("snapshot"), fields(json!(snapshot)));
    assert_eq!(of("shown"), fields(json!(snapshot)["items"][0].clone()));
    let word = |value: serde_json::Value| fields(value).into_iter().next().unwrap();
    let (name, value) = (|| "a".into(), || Value::from(1));
    let changes = [Change::Set(name(), value()), Change::Remove(name()), Change::Add(name(), 1)];
    assert_eq!(of("change"), changes.map(|change| word(json!(change))).into());
    let clauses = [
        Clause::Absent(name()),
        Clause::Present(name()),
        Clause::Equals(name(), value()),
        Clause::OneOf(name(), vec![value()]),
        Clause::Differs(name(), value()),
    ];
    assert_eq!(of("clause"), clauses.map(|clause| word(json!(clause))).into());
    let values: [serde_json::Value; 10] =
        ["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"].map(|kind| match kind {
            "BOOL" | "NULL" => json!({ kind: true }),
            "SS" | "NS" | "BS" | "L" => json!({ kind: [] }),
            "M" => json!({ kind: {} }),
            _ => json!({ kind: "" }),
        });
    assert_eq!(of("value"), values.iter().cloned().map(word).collect());
    assert!(values.into_iter().all(|value| serde_json::from_value::<Value>(value).is_ok()));
    let limit = |place: &str| usize::try_from(schema.pointer(place).unwrap().as_u64().unwrap()).unwrap();
    let parts = ["writes", "checks", "effects"].map(|part| limit(&format!("/properties/{part}/maxItems")));
    assert_eq!(parts, [PLAN_WRITES_MAX; 3]);
    assert_eq!(limit("/$defs/effect/properties/path/maxLength"), EFFECT_PATH_BYTES_MAX);
    assert_eq!(limit("/$defs/condition/maxItems"), CLAUSES_MAX);
    assert_eq!(schema["$defs"]["name"]["not"]["pattern"], format!("^{RESERVED_PREFIX}"));
    assert_eq!(schema.pointer("/$defs/action/oneOf/2/properties/update/maxItems").unwrap(), CHANGES_MAX);
    let words = [WhenConditionFails::Retry, WhenConditionFails::Permanent];
    assert_eq!(schema["properties"]["when_condition_fails"]["enum"], json!(words));
}
