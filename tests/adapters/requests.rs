//! Every request of every adapter, as a snapshot: conditions, consistency, what is returned, projections, indexes,
//! limits and order.
//!
//! After an intended change, `INSTA_UPDATE=always cargo test --workspace --test adapters requests` writes the
//! snapshots again.

use std::collections::BTreeMap;
use std::future::Future;

use hookonce_aws::{AccountCaller, DynamoStore, IndexQuery, SqsQueue};
use hookonce_protocol::call::{DueCursor, DueQuery, DueState};
use hookonce_protocol::destination::Called;
use hookonce_protocol::item::{Item, Number, Value as ItemValue};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, TableAlias};
use hookonce_protocol::plan::{Check, DomainWrite, Plan, Snapshot};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::{Action, Change, Clause, Condition, Table, Write};
use hookonce_runtime::destinations::Caller as _;
use hookonce_runtime::documents::{DocumentKind, DocumentSource as _, MESSAGE_KEY_ID, ROUTE_SET_ID};
use hookonce_runtime::port::{Queue as _, Store as _};
use serde_json::{Value, json};

use super::documents::{change, documents_at};
use super::hand_overs::{function, plain, queue, with_payload};
use super::{AMPLE, store_at};
use crate::clients::{config_at, sqs};
use crate::fixtures::MOMENT;
use crate::scripted::{HttpMessage, ScriptedServer};

/// The requests that calls make, by the name of the call.
#[derive(Default)]
struct Recorded {
    calls: BTreeMap<&'static str, Vec<Value>>,
    seen: usize,
}

impl Recorded {
    /// Makes a call and keeps what it sent.
    async fn call<T>(&mut self, name: &'static str, server: &ScriptedServer, call: impl Future<Output = T>) -> T {
        let result = call.await;
        let requests = server.requests();
        let mut shown: Vec<_> = requests[self.seen..].iter().map(shown).collect();
        // Several batches may be under way at once. Everything else has its order.
        if shown.iter().all(|request| request["target"] == json!("AmazonSQS.SendMessageBatch")) {
            shown.sort_by_key(Value::to_string);
        }
        self.calls.insert(name, shown);
        self.seen = requests.len();
        result
    }

    /// Compares everything with the snapshot of this name.
    fn compare(&self, name: &str) {
        assert!(SNAPSHOTS.contains(&name));
        insta::assert_json_snapshot!(name, self.calls);
    }
}

const SNAPSHOTS: [&str; 5] = ["documents", "hand_overs", "messages", "reads", "writes"];

#[test]
fn every_snapshot_is_compared() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    assert_eq!(files, SNAPSHOTS.map(|name| format!("adapters__requests__{name}.snap")));
}

/// A request as a reader wants it. The token is random, so only its presence is shown.
fn shown(request: &HttpMessage) -> Value {
    let mut body = request.json();
    if let Some(token) = body.get_mut("ClientRequestToken") {
        assert!(token.as_str().is_some_and(|token| token.len() >= 32), "a token that nobody can guess: {token}");
        *token = "<token>".into();
    }
    let invocation = request.header("x-amz-invocation-type");
    // Lambda has a path for each operation, and no target.
    request.header("x-amz-target").map_or_else(
        || json!({ "request": request.head.lines().next(), "invocation": invocation, "body": body }),
        |target| json!({ "target": target, "body": body }),
    )
}

/// Every kind of value.
pub(super) fn every_value() -> Item {
    let values = [
        ("blobs", ItemValue::BytesSet(vec![vec![255], vec![0, 1]].into())),
        ("bytes", ItemValue::Bytes(vec![0, 1, 255])),
        ("flag", ItemValue::Flag(true)),
        ("list", ItemValue::List(vec![1.into(), "two".into()])),
        ("map", ItemValue::Map(Item::from([("inner".to_owned(), 3.into())]))),
        ("null", ItemValue::Null(true)),
        ("number", ItemValue::Number(Number::from_text("1234567890.12345"))),
        ("numbers", ItemValue::NumberSet(["7.5", "-1"].map(Number::from_text).to_vec().into())),
        ("text", "text".into()),
        ("texts", ItemValue::TextSet(vec!["two".to_owned(), "one".to_owned()].into())),
    ];
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Every kind of clause. Two of them name one attribute.
fn every_clause() -> Condition {
    Condition(vec![
        Clause::Absent("outcome".into()),
        Clause::Present("body".into()),
        Clause::Equals("status".into(), "PENDING".into()),
        Clause::OneOf("status".into(), vec!["PENDING".into(), "DEAD".into()]),
        Clause::Differs("last_seen_by".into(), "me".into()),
    ])
}

fn write(table: Table, action: Action, condition: Condition) -> Write {
    Write { purpose: Purpose::DomainWrite, table, key: "key".into(), action, condition }
}

/// The same store with two user tables, one of them by its ARN.
fn own_store(store: &DynamoStore) -> DynamoStore {
    let arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/blobs";
    let names = [("orders", "prod-orders"), ("blobs", arn)];
    store.clone().with_tables(names.map(|(alias, name)| (TableAlias::parse(alias).unwrap(), name.to_owned())))
}

/// An item of a table whose key is a text and a number, or bytes.
fn own_item(alias: &str, name: &str) -> ItemRef {
    let table = TableAlias::parse(alias).unwrap();
    match alias {
        "orders" => ItemRef::own(table, [("shop", name.into()), ("order", 17.into())]),
        _ => ItemRef::own(table, [("hash", ItemValue::Bytes(name.as_bytes().to_vec()))]),
    }
}

/// Every kind of action and a check, in two user tables.
fn own_writes() -> Vec<Write> {
    let put = DomainWrite::create_missing(own_item("orders", "a"), every_value(), &Snapshot::default()).unwrap();
    let update = DomainWrite { action: every_change(), ..DomainWrite::update(own_item("orders", "b"), Vec::new()) };
    let plan = Plan::default().with(put).with(update).with(DomainWrite::delete(own_item("blobs", "a")));
    let check = Check::as_seen(own_item("blobs", "b"), &Snapshot::default(), ["n"]);
    plan.with_check(check).into_writes().collect()
}

fn every_change() -> Action {
    Action::Update(vec![
        Change::Set("status".into(), "PROCESSED".into()),
        Change::Set("attempts".into(), 2.into()),
        Change::Remove("due_at".into()),
        Change::Remove("due_shard".into()),
        Change::Add("duplicate_count".into(), 1),
        Change::Add("balance".into(), -5),
    ])
}

/// The least that each operation of DynamoDB answers. A scan has two pages.
fn answer_of_store(request: &HttpMessage) -> Value {
    match request.operation().unwrap() {
        "BatchGetItem" => json!({ "Responses": {}, "UnprocessedKeys": {} }),
        "Query" | "Scan" if request.json().get("ExclusiveStartKey").is_none() => {
            json!({ "Items": [], "LastEvaluatedKey": { "pk": { "S": "last" } } })
        }
        _ => json!({}),
    }
}

#[tokio::test]
async fn writes_on_the_wire() {
    let server = ScriptedServer::start(|_, request| answer_of_store(request)).await;
    let (store, mut recorded) = (store_at(&server, AMPLE), Recorded::default());
    let unconditional = Condition::none;
    let put = |condition| write(Table::Inbox, Action::Put(every_value()), condition);
    let update = |condition| write(Table::Domain, every_change(), condition);
    let delete = write(Table::Domain, Action::Delete, every_clause());
    recorded.call("put", &server, store.write(&put(every_clause()))).await;
    recorded.call("put, unconditional", &server, store.write(&put(unconditional()))).await;
    recorded.call("update", &server, store.write(&update(every_clause()))).await;
    recorded.call("update, unconditional", &server, store.write(&update(unconditional()))).await;
    let only = |change| write(Table::Domain, Action::Update(vec![change]), unconditional());
    recorded.call("update that only removes", &server, store.write(&only(Change::Remove("due_at".into())))).await;
    recorded.call("delete", &server, store.write(&delete)).await;
    let all = [put(every_clause()), update(every_clause()), delete, put(unconditional())];
    recorded.call("commit", &server, store.commit(&all)).await;
    let own = own_writes();
    recorded.call("commit in user tables", &server, own_store(&store).commit(&own)).await;
    recorded.compare("writes");
}

#[tokio::test]
async fn reads_on_the_wire() {
    let server = ScriptedServer::start(|_, request| answer_of_store(request)).await;
    let (store, mut recorded) = (store_at(&server, AMPLE), Recorded::default());
    let keys = ["in#shop#evt_2", "in#shop#evt_1", "in#shop#evt_2"].map(|key| RecordKey::parse(key).unwrap());
    recorded.call("read", &server, store.read(&keys[0])).await.unwrap();
    recorded.call("read each", &server, store.read_each(&keys)).await;
    recorded.call("read heads", &server, store.read_heads(&keys)).await;
    let domain = ["b", "a"].map(ItemRef::from);
    recorded.call("read domain items", &server, store.read_items(&domain)).await.unwrap();
    let own = ["orders", "blobs"].map(|alias| own_item(alias, "a"));
    let items = [own[0].clone(), own_item("orders", "b"), own[1].clone(), "a".into(), own[0].clone()];
    let several = own_store(&store);
    recorded.call("read items of several tables", &server, several.read_items(&items)).await.unwrap();
    let orders = TableAlias::parse("orders").unwrap();
    let described = recorded.call("read the key of a table", &server, several.key_schema(orders, &[])).await;
    assert!(described.is_err(), "an answer without a key");
    recorded.call("read no domain items", &server, store.read_items(&[])).await.unwrap();
    let first = DueQuery { state: DueState::Pending, shard: 3, until: EpochMs(1_000), after: None, limit: 100 };
    recorded.call("query due", &server, store.query_due(&first)).await.unwrap();
    let after = DueCursor { key: "in#shop#evt_1".to_owned(), due_at: EpochMs(999) };
    let next = DueQuery { state: DueState::Dead, after: Some(after), ..first };
    recorded.call("query due, next page of the dead", &server, store.query_due(&next)).await.unwrap();
    let hour = EpochMs(3_600_000 * 400_000);
    let count = store.count_received(3, EpochMs(hour.0 - 1), hour);
    recorded.call("count received across the hour", &server, count).await.unwrap();
    let due = IndexQuery::due("dead#3".to_owned());
    let page = recorded.call("index page of the dead", &server, store.index_page(&due, None, 10)).await.unwrap();
    recorded.call("count an index partition", &server, store.index_count(&due)).await.unwrap();
    let journal = IndexQuery::Journal { partition: "400000#3".to_owned(), from: EpochMs(1), until: EpochMs(2) };
    let next = store.index_page(&journal, page.next, 10);
    recorded.call("next index page of the journal", &server, next).await.unwrap();
    recorded.call("scan", &server, store.scan(Table::Domain)).await.unwrap();
    let page = store.scan_page(Table::Domain, "in#shop#", &["status", "body"], Some("in#shop#evt_1"), 10);
    recorded.call("scan a page", &server, page).await.unwrap();
    let page = store.scan_page(Table::Inbox, "", &[], None, usize::MAX);
    recorded.call("scan a page of all", &server, page).await.unwrap();
    recorded.call("read the size of a table", &server, store.table_size(Table::Inbox)).await.unwrap();
    recorded.call("warm up", &server, store.warm_up()).await;
    recorded.compare("reads");
}

#[tokio::test]
async fn messages_on_the_wire() {
    let server = ScriptedServer::start(|_, _| (200, r#"{"Successful":[],"Failed":[]}"#)).await;
    let queue = SqsQueue::new(sqs(server.url(), AMPLE), "https://sqs.eu-central-1.amazonaws.com/123456789012/hints");
    let mut recorded = Recorded::default();
    let hints: Vec<_> =
        (0..11).map(|index| Message::Ref { pk: RecordKey::parse(&format!("in#shop#evt_{index}")).unwrap() }).collect();
    recorded.call("send", &server, queue.send(&hints[0])).await.unwrap();
    recorded.call("send each", &server, queue.send_each(&hints)).await;
    recorded.call("send none", &server, queue.send_each(&[])).await;
    let effect = |id: &str| Message::Ref { pk: RecordKey::parse(&format!("in#shop#fx#{id}#receipt")).unwrap() };
    let both = queue.clone().with_effects("https://sqs.eu-central-1.amazonaws.com/123456789012/effects");
    recorded.call("send an effect", &server, both.send(&effect("1"))).await.unwrap();
    let mixed = [effect("1"), hints[0].clone(), effect("2")];
    recorded.call("send each to two queues", &server, both.send_each(&mixed)).await;
    recorded.call("send an effect without a queue of its own", &server, queue.send(&effect("1"))).await.unwrap();
    recorded.call("hide", &server, queue.hide(HintQueue::Main, "receipt", Millis::seconds(900))).await.unwrap();
    let slow = queue.clone().with_slow("https://sqs.eu-central-1.amazonaws.com/123456789012/slow");
    let moved_from =
        |handler: &str| Message::Slow { pk: RecordKey::parse("in#shop#evt_1").unwrap(), handler: handler.to_owned() };
    let moved = moved_from("plan:live");
    recorded.call("send to the slow queue", &server, slow.send(&moved)).await.unwrap();
    let (name, alias) = ("a".repeat(64), "b".repeat(128));
    let arn = format!("arn:aws:lambda:eu-central-1:123456789012:function:{name}:{alias}");
    recorded.call("send one of a handler with a long name", &server, slow.send(&moved_from(&arn))).await.unwrap();
    recorded.call("send one of a handler without a name", &server, slow.send(&moved_from(""))).await.unwrap();
    recorded.call("hide in it", &server, slow.hide(HintQueue::Slow, "receipt", Millis::seconds(900))).await.unwrap();
    recorded.call("send to the slow queue without one", &server, queue.send(&moved)).await.unwrap();
    let letters = "https://sqs.eu-central-1.amazonaws.com/123456789012/dead";
    recorded.call("receive", &server, queue.receive(letters)).await.unwrap();
    recorded.call("delete", &server, queue.delete(letters, &["receipt-1".to_owned(), "receipt-2".to_owned()])).await;
    recorded.call("delete none", &server, queue.delete(letters, &[])).await;
    recorded.call("warm up", &server, queue.warm_up()).await;
    assert_eq!(queue.url(), "https://sqs.eu-central-1.amazonaws.com/123456789012/hints");
    recorded.compare("messages");
}

/// The text of the route set is compressed, so only its presence is shown.
#[tokio::test]
async fn documents_on_the_wire() {
    let server = ScriptedServer::start(|_, _| (200, "{}")).await;
    let (table, mut recorded) = (documents_at(server.url(), AMPLE), Recorded::default());
    for (get, put, replace, delete, kind, id) in [
        ("get", "put", "put in place", "delete", DocumentKind::Endpoint, "shop"),
        ("get a set", "put a set", "put a set in place", "delete a set", DocumentKind::Routes, ROUTE_SET_ID),
    ] {
        assert!(recorded.call(get, &server, table.get(kind, id)).await.unwrap().is_none());
        recorded.call(put, &server, table.put(kind, id, None, "new", &change())).await.unwrap();
        recorded.call(replace, &server, table.put(kind, id, Some("old"), "new", &change())).await.unwrap();
        recorded.call(delete, &server, table.delete(kind, id, "old")).await.unwrap();
    }
    let read = table.read(DocumentKind::Destination, "crm");
    assert!(recorded.call("read", &server, read).await.unwrap().is_none());
    recorded.call("create", &server, table.create(DocumentKind::Key, MESSAGE_KEY_ID, "key")).await.unwrap();
    recorded.call("page", &server, table.page(DocumentKind::Endpoint, None)).await.unwrap();
    recorded.call("next page", &server, table.page(DocumentKind::Endpoint, Some("shop"))).await.unwrap();
    for request in recorded.calls.values_mut().flatten() {
        let Some(item) = request["body"].get_mut("Item") else { continue };
        if let Some(bytes) = item["document"].get_mut("B") {
            assert!(bytes.as_str().is_some_and(|text| !text.is_empty()));
            *bytes = "<compressed>".into();
        }
        // A key is made at the time of now, by the release of now.
        if item["kind"]["S"] == json!("key") {
            assert!(item["changed_at"]["N"].as_str().is_some_and(|at| at.len() == 13), "{item}");
            assert_eq!(item["changed_with"]["S"], json!(env!("CARGO_PKG_VERSION")));
            (item["changed_at"], item["changed_with"]) = (json!("<now>"), json!("<release>"));
        }
    }
    recorded.compare("documents");
}

#[tokio::test]
async fn hand_overs() {
    let answer = |_: usize, request: &HttpMessage| -> (u16, &'static str) {
        if request.header("x-amz-target").is_some() { (200, r#"{"MessageId": "1"}"#) } else { (202, "") }
    };
    let server = ScriptedServer::start(answer).await;
    let caller = AccountCaller::new(&config_at(server.url()));
    let mut recorded = Recorded::default();
    for (name, destination, delivery) in [
        ("a queue", queue("jobs", &json!({})), plain()),
        ("a FIFO queue", queue("jobs.fifo", &json!({})), plain()),
        ("a FIFO queue of one group", queue("jobs.fifo", &json!({"message_group": "all"})), plain()),
        ("a function", function("jobs:live", &json!({})), plain()),
        ("a function gets bytes", function("jobs", &json!({})), with_payload(&[0, 255])),
    ] {
        let called = recorded.call(name, &server, caller.call(&destination, &delivery, MOMENT)).await;
        assert!(matches!(called, Called::Done { .. }), "{name}: {called:?}");
    }
    recorded.compare("hand_overs");
}
