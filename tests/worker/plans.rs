//! Plans, end to end: user tables, checks, and events that come out of order.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use futures::future::join_all;
use hookonce_local::backends::{Backends, DataLocation};
use hookonce_protocol::item::fields;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::{ItemRef, TableAlias};
use hookonce_protocol::plan::{Check, DomainWrite, Event, Plan, Snapshot, Tie, WhenConditionFails};
use hookonce_protocol::record::{DeadReason, Status, attribute, set};
use hookonce_protocol::write::{Change, Table};
use hookonce_runtime::handlers::{Handler, HandlerError, Handlers, read};
use serde_json::{Value, json};

use crate::routes::set as route_set;
use crate::support::clock::START;
use crate::support::stack::TestStack;
use crate::support::{CommitInFlight, Delivery, Fault, Gate, Harness, Operation, Script};

/// Books payments of orders, and keeps the latest version of documents, in user tables.
#[derive(Debug, Clone, Copy)]
struct Shop;

fn shop() -> Handlers {
    Handlers::new().with(Shop)
}

fn alias(name: &str) -> TableAlias {
    TableAlias::parse(name).unwrap()
}

fn order(number: i64) -> ItemRef {
    ItemRef::own(alias("orders"), [("shop", "acme".into()), ("order", number.into())])
}

fn document(name: &str) -> ItemRef {
    ItemRef::own(alias("documents"), [("name", name.into())])
}

impl Handler for Shop {
    type Fact = Value;

    fn name(&self) -> &'static str {
        "shop"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Value>, HandlerError> {
        read(event, "NOT_JSON").map(Some)
    }

    fn domain_key(&self, fact: &Value) -> DomainKey {
        DomainKey::of([fact["id"].as_str().unwrap()])
    }

    fn reads(&self, event: &Event, fact: &Value) -> Vec<ItemRef> {
        match event.event_type.as_str() {
            "order.paid" => vec![order(fact["order"].as_i64().unwrap()), document("terms")],
            "document.changed" => vec![document(fact["name"].as_str().unwrap())],
            "inbox.reached" => vec![ItemRef::own(alias("inbox"), [("pk", "in#a#b".into())])],
            _ => Vec::new(),
        }
    }

    fn plan(&self, event: &Event, fact: &Value, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let ledger = event.item_key("ledger", ["all"]);
        Ok(match event.event_type.as_str() {
            "order.paid" => {
                let order = order(fact["order"].as_i64().unwrap());
                let payments = snapshot.number(&order, "payments") + 1;
                let paid = DomainWrite::update(order, vec![set("payments", payments)]).as_seen(snapshot, "payments");
                let total = DomainWrite::update(ledger, vec![Change::Add("payments".into(), 1)]);
                let terms = Check::as_seen(document("terms"), snapshot, ["version"]);
                Plan::default().with(paid).with(total).with_check(terms)
            }
            "document.changed" => {
                let (name, version) = (fact["name"].as_str().unwrap(), fact["version"].as_i64().unwrap());
                let write = DomainWrite::update(document(name), vec![set("text", format!("version {version}"))]);
                Plan::default().with(write.newer_than(snapshot, "version", version, Tie::Skip))
            }
            "document.required" => {
                let exists = Check::as_seen(document("terms"), &Snapshot::default(), ["version"]);
                Plan { when_condition_fails: WhenConditionFails::Permanent, ..Plan::default() }.with_check(exists)
            }
            "checkout.opened" => {
                let item = fields([("expires_at", fact["expires_at"].as_i64().unwrap().into())]);
                Plan::default().with(DomainWrite::create(event.once("checkout", ["one"]), item))
            }
            "document.deleted" => Plan::default().with(DomainWrite::delete(document("terms"))),
            _ => Plan::default().with(DomainWrite::delete(ItemRef::own(alias("stock"), [("pk", "x".into())]))),
        })
    }
}

fn event(id: &str, event_type: &str, more: Value) -> Delivery {
    let mut body = json!({ "type": event_type, "id": id });
    let Value::Object(more) = more else { panic!("not an object: {more}") };
    body.as_object_mut().unwrap().extend(more);
    Delivery::new("standard_webhooks", body.to_string()).header("webhook-id", id)
}

fn changed(name: &str, version: i64) -> Delivery {
    event(&format!("{name}-{version}"), "document.changed", json!({ "name": name, "version": version }))
}

/// A stack with both tables.
async fn stack() -> Harness {
    let mut harness = Harness::with(shop).await;
    let stack = harness.stack.clone();
    let key = [("shop", ScalarAttributeType::S), ("order", ScalarAttributeType::N)];
    harness.stack =
        stack.with_table("orders", &key).await.with_table("documents", &[("name", ScalarAttributeType::S)]).await;
    harness
}

async fn stored(harness: &Harness, item: &ItemRef, attribute: &str) -> i64 {
    let items = harness.stack.scan(Table::Own(item.table.unwrap())).await;
    let key = item.key.attributes().unwrap();
    let found = items.iter().find(|stored| key.iter().all(|(name, value)| stored.get(name) == Some(value)));
    found.and_then(|item| item.get(attribute)).and_then(hookonce_protocol::item::Value::as_i64).unwrap_or(0)
}

/// Copies of each event race at the function's edge, their hints reach two workers at once, and workers die or lose
/// replies around the commit.
#[tokio::test]
async fn an_event_takes_effect_once_in_a_user_table_under_racing_duplicates() {
    let harness = stack().await;
    harness.deliver(&changed("terms", 1)).await;
    harness.settle().await;
    let payments = |order: i64, id: i64| event(&format!("evt_{order}_{id}"), "order.paid", json!({ "order": order }));
    let mut expected = 0;
    for round in 0..3_i64 {
        for id in 0..3 {
            let delivery = payments(id % 2, round * 3 + id);
            let functions: Vec<_> = (0..8).map(|_| harness.webhook(&Script::none())).collect();
            let request = delivery.event(&harness.clock);
            join_all(functions.iter().map(|function| function.handle(request.clone()))).await;
            expected += 1;
        }
        // Two workers hold the same batch at the commit, and both go on.
        let (messages, batch) = harness.batch().await.unwrap();
        let gates = [Gate::default(), Gate::default()];
        let workers = gates.clone().map(|gate| {
            let (worker, batch) = (harness.worker(&Script::held(Operation::Commit, &gate)), batch.clone());
            let deadline = harness.deadline();
            tokio::spawn(async move { Box::pin(worker.handle(batch, deadline)).await })
        });
        for gate in &gates {
            gate.reached().await;
        }
        gates.iter().for_each(Gate::open);
        let mut responses = join_all(workers).await;
        harness.conclude(messages, Some(responses.remove(0).unwrap())).await;
        // A retried delivery, and a reply that is lost.
        harness.deliver(&payments(0, round * 3)).await;
        harness.work_under(&Script::on(Operation::Commit, 0, Fault::ReplyLost)).await;
        harness.settle().await;
    }
    let orders = stored(&harness, &order(0), "payments").await + stored(&harness, &order(1), "payments").await;
    let ledger = harness.tables().await.number("standard_webhooks#ledger#all", "payments");
    println!("{expected} events, 8 copies each: {orders} payments in the orders, {ledger} in the ledger");
    assert_eq!((orders, ledger), (expected, expected));
    assert!(harness.records().await.values().all(|record| record.status == Status::Processed));
}

/// Each order of three versions, one after the other and racing in one batch.
#[tokio::test]
async fn an_older_event_never_overwrites_a_newer_one() {
    let harness = stack().await;
    let orders = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
    for (index, order) in orders.iter().enumerate() {
        for version in order {
            harness.deliver(&changed(&format!("apart-{index}"), *version)).await;
            harness.settle().await;
        }
        for version in order {
            harness.deliver(&changed(&format!("racing-{index}"), *version)).await;
        }
        harness.settle().await;
    }
    for name in (0..orders.len()).flat_map(|index| [format!("apart-{index}"), format!("racing-{index}")]) {
        assert_eq!(stored(&harness, &document(&name), "version").await, 3, "{name}");
    }
    let items = harness.stack.scan(Table::Own(alias("documents"))).await;
    assert!(items.iter().all(|item| item["text"].as_text() == Some("version 3")), "{items:?}");
    assert!(harness.records().await.values().all(|record| record.status == Status::Processed));
}

/// The older event has read before the newer one commits.
#[tokio::test]
async fn an_older_event_that_read_first_plans_again() {
    let harness = stack().await;
    harness.deliver(&changed("doc", 1)).await;
    let late = CommitInFlight::start(&harness).await;
    harness.deliver(&changed("doc", 2)).await;
    harness.work().await;
    assert_eq!(stored(&harness, &document("doc"), "version").await, 2);
    late.land(&harness).await;
    harness.settle().await;
    assert_eq!(stored(&harness, &document("doc"), "version").await, 2, "the older one leaves its write out");
    assert!(harness.records().await.values().all(|record| record.status == Status::Processed));
}

#[tokio::test]
async fn a_check_that_fails_for_good_kills_the_event_and_writes_nothing() {
    let harness = stack().await;
    harness.deliver(&event("evt_1", "document.required", json!({}))).await;
    harness.settle().await;
    harness.deliver(&changed("terms", 1)).await;
    harness.settle().await;
    harness.deliver(&event("evt_2", "document.required", json!({}))).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.record("#evt_1").status, Status::Processed, "it does not exist, as the check says");
    let dead = tables.record("#evt_2");
    assert_eq!((dead.last_error.as_deref(), dead.dead_reason), (Some("CONDITION_FAILED"), Some(DeadReason::Permanent)));
}

/// An alias of the inbox cannot be configured; one that is not configured reaches nothing.
#[tokio::test]
async fn a_handler_uses_only_the_tables_that_its_route_lists() {
    let harness = stack().await;
    harness.deliver(&event("evt_1", "stock.counted", json!({}))).await;
    harness.deliver(&event("evt_2", "inbox.reached", json!({}))).await;
    harness.settle().await;
    let route = |tables: Value| {
        let route = json!({ "name": "all", "consumer": "c", "handler": {"builtin": "shop"}, "tables": tables });
        route_set("dead", &json!([route]))
    };
    let harness = harness.routed(&route(json!(["orders"])));
    let routes = harness.routes.clone().unwrap();
    harness.deliver(&event("evt_3", "document.deleted", json!({}))).await;
    harness.deliver(&changed("doc", 1)).await;
    harness.settle().await;
    routes.put_set(&route(json!(["orders", "documents"])));
    harness.deliver(&changed("doc", 2)).await;
    harness.settle().await;
    let tables = harness.tables().await;
    let code = |record: &str| tables.record(record).last_error.clone().unwrap();
    assert_eq!(["#evt_1", "#evt_3"].map(code), ["PLAN_REFUSED", "PLAN_REFUSED"]);
    assert_eq!(["#evt_2", "#doc-1"].map(code), ["HANDLER_ASKED_TOO_MUCH", "HANDLER_ASKED_TOO_MUCH"]);
    assert_eq!(tables.record("#doc-2").status, Status::Processed);
}

/// A parameter `Tables` that lost an alias, or does not have it yet, stops nobody else.
#[tokio::test]
async fn events_of_a_route_whose_table_is_not_configured_wait_and_all_others_go_on() {
    let with_table = |name: &str, kind: &str, table: &str| json!({ "name": name, "consumer": "c", "types": [kind], "handler": {"builtin": "shop"}, "tables": [table] });
    let routes = [with_table("changes", "document.changed", "documents"), with_table("rest", "*", "orders")];
    let mut harness = Harness::with(shop).await.routed(&route_set("dead", &json!(routes)));
    let key = [("shop", ScalarAttributeType::S), ("order", ScalarAttributeType::N)];
    harness.stack = harness.stack.clone().with_table("orders", &key).await;
    harness.deliver(&changed("doc", 1)).await;
    harness.deliver(&event("evt_1", "stock.counted", json!({}))).await;
    harness.work().await;
    let tables = harness.tables().await;
    let waiting = tables.record("#doc-1");
    assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 0));
    assert_eq!(waiting.last_error.as_deref(), Some("TABLE_UNAVAILABLE"), "a person can see why it waits");
    assert_eq!(tables.record("#evt_1").status, Status::Dead, "its own route takes it");
    assert_eq!(harness.metric("routes_refused"), 0, "the set is in use");
    assert!(harness.metric("table_unavailable") > 0);
    harness.stack = harness.stack.clone().with_table("documents", &[("name", ScalarAttributeType::S)]).await;
    harness.settle().await;
    assert_eq!(stored(&harness, &document("doc"), "version").await, 1);
}

/// Whoever forgot to create a table loses nothing: no attempt is counted until DynamoDB says what its key is.
#[tokio::test]
async fn events_wait_for_a_table_that_does_not_exist() {
    let mut harness = Harness::with(shop).await;
    harness.stack = harness.stack.clone().without_table("documents");
    harness.deliver(&changed("doc", 1)).await;
    harness.work().await;
    let waiting = harness.tables().await.record("#doc-1").clone();
    assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 0));
    assert_eq!(waiting.last_error.as_deref(), Some("TABLE_UNAVAILABLE"), "a person can see why it waits");
    let key = [("name", ScalarAttributeType::S)];
    harness.stack = harness.stack.clone().with_table("documents", &key).await;
    harness.settle().await;
    assert_eq!(stored(&harness, &document("doc"), "version").await, 1);
}

/// Workers that have written to the table before know its former key.
#[tokio::test]
async fn a_table_that_is_created_anew_with_another_key_kills_no_event() {
    let mut harness = stack().await;
    let (worker, queue) = (harness.worker(&Script::none()), harness.stack.resources.queue.clone());
    harness.deliver(&changed("doc", 1)).await;
    assert!(harness.work_on(&worker, &queue, &Script::none()).await);
    let title = [("title", ScalarAttributeType::S)];
    harness.stack = harness.stack.clone().with_table("documents", &title).await;
    harness.deliver(&changed("doc", 2)).await;
    assert!(harness.work_on(&worker, &queue, &Script::none()).await);
    harness.stack = harness.stack.clone().with_table("documents", &[("name", ScalarAttributeType::S)]).await;
    harness.deliver(&event("deleted", "document.deleted", json!({}))).await;
    assert!(harness.work_on(&worker, &queue, &Script::none()).await, "its plan names the new key");
    harness.stack = harness.stack.clone().with_table("documents", &title).await;
    harness.deliver(&event("late", "document.deleted", json!({}))).await;
    assert!(harness.work_on(&worker, &queue, &Script::none()).await, "its plan names the former key");
    let tables = harness.tables().await;
    assert_eq!(tables.record("#deleted").status, Status::Processed);
    for waiting in ["#doc-2", "#late"].map(|record| tables.record(record)) {
        assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 0));
        assert_eq!(waiting.last_error.as_deref(), Some("TABLE_UNAVAILABLE"));
    }
}

/// Stripe's checkout sessions have such a time, and a handler copies it.
#[tokio::test]
async fn an_item_of_a_handler_outlives_a_time_of_its_own() {
    let backends = Backends::start(DataLocation::Memory, Duration::from_hours(1)).unwrap();
    let mut harness = Harness::with(shop).await;
    harness.stack = TestStack::at(backends.dynamodb_url(), backends.sqs_url()).await;
    let past = START.as_seconds().0;
    harness.deliver(&event("evt_1", "checkout.opened", json!({ "expires_at": past }))).await;
    harness.settle().await;
    let put = harness.stack.dynamodb.put_item().table_name(&harness.stack.resources.domain_table);
    let expired = AttributeValue::N(past.to_string());
    put.item("pk", AttributeValue::S("#seen#x".to_owned())).item(attribute::EXPIRES_AT, expired).send().await.unwrap();
    harness.stack.delete_expired(true).await;
    assert!(backends.sweep_ttl().await.unwrap() > 0);
    let left = harness.tables().await;
    assert!(!left.domain.contains_key("#seen#x"), "an item of hookonce itself expires");
    assert_eq!(left.number("standard_webhooks#checkout#one", "expires_at"), past, "{:?}", left.domain);
    backends.shutdown().await;
}
