//! What the store makes of every answer to a read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hookonce_aws::{DynamoStore, FIRST_PAUSE, IndexQuery, ScanPage};
use hookonce_protocol::call::{DueCursor, DueEntry, DuePage, DueQuery, DueState, Unavailable};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::PARTITION_KEY;
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::{Found, Record};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;
use hookonce_protocol::write::{Action, Table};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::port::{NotRead, Store as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::requests::every_value;
use super::{AMPLE, ATTEMPTS, Case, STORE, answering, denied, means, on_the_wire, store_at};
use crate::fixtures::a_record;
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// How often the store asks for keys that DynamoDB left unprocessed, the first time included.
const ROUNDS: usize = 3;

fn record(id: &str) -> Record {
    a_record(&format!("in#shop#{id}"))
}

/// A record as it stands on the wire.
fn stored(record: &Record) -> Value {
    let Action::Put(item) = claim_write(record).action else { panic!("a claim is a put") };
    on_the_wire(record.key.as_str(), &item)
}

fn found(record: &Record) -> Found {
    Found::Record(Box::new(record.clone()))
}

#[tokio::test]
async fn each_answer_to_a_read_has_its_result() {
    let record = record("evt_1");
    let cases = vec![
        Case::new("an item", json!({ "Item": stored(&record) }), Ok(found(&record)), 1),
        Case::new("no item", (200, "{}"), Ok(Found::Nothing), 1),
    ];
    let read = async |server: &ScriptedServer, total| store_at(server, total).read(&record.key).await;
    means(STORE, read, Err(Unavailable), cases).await;
}

/// The keys that a BatchGetItem asks for.
fn keys_of(request: &HttpMessage, table: &str) -> Vec<String> {
    let body = request.json();
    let keys = body["RequestItems"][table]["Keys"].as_array().unwrap();
    keys.iter().map(|key| key["pk"]["S"].as_str().unwrap().to_owned()).collect()
}

/// A table that has these records and leaves keys unprocessed, as `left` says for the number of the request.
async fn table_that_leaves(
    records: Vec<Record>,
    table: &'static str,
    left: impl Fn(usize, &str) -> bool + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::start(move |index, request| {
        let (later, now): (Vec<_>, Vec<_>) = keys_of(request, table).into_iter().partition(|key| left(index, key));
        let items: Vec<_> = records.iter().filter(|record| now.contains(&record.key.as_str().to_owned())).collect();
        let items: Vec<_> = items.into_iter().map(stored).collect();
        let mut body = json!({ "Responses": { table: items }, "UnprocessedKeys": {} });
        if !later.is_empty() {
            let later: Vec<_> = later.iter().map(|key| json!({ "pk": { "S": key } })).collect();
            body["UnprocessedKeys"][table] = json!({ "Keys": later, "ConsistentRead": true });
        }
        body
    })
    .await
}

/// Both reads of many records do the same with their answers.
async fn read_both(store: &DynamoStore, heads: bool, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
    if heads { store.read_heads(keys).await } else { store.read_each(keys).await }
}

#[tokio::test]
async fn unprocessed_keys_are_read_again() {
    let records = ["a", "b"].map(record);
    let keys = ["a", "missing", "b"].map(|id| record(id).key);
    for heads in [false, true] {
        let left = |index: usize, key: &str| index == 0 && !key.ends_with("#a");
        let server = table_that_leaves(records.to_vec(), "inbox", left).await;
        let read = read_both(&store_at(&server, AMPLE), heads, &keys).await;
        assert_eq!(read, [Ok(found(&records[0])), Ok(Found::Nothing), Ok(found(&records[1]))]);
        let requests = server.requests();
        let keys_read: Vec<_> = requests.iter().map(|request| keys_of(request, "inbox")).collect();
        let all = ["in#shop#a", "in#shop#b", "in#shop#missing"].map(str::to_owned);
        assert_eq!(keys_read, [all.to_vec(), all[1..].to_vec()], "only what was left");
        let rest = |request: &HttpMessage| {
            let mut body = request.json();
            body["RequestItems"]["inbox"]["Keys"].take();
            body
        };
        assert_eq!(rest(&requests[0]), rest(&requests[1]), "as consistent, and the same attributes");
    }
}

#[tokio::test]
async fn keys_that_stay_unprocessed_are_unavailable_and_only_they() {
    let records = ["a", "b"].map(record);
    let keys = ["a", "b", "missing"].map(|id| record(id).key);
    for heads in [false, true] {
        let server = table_that_leaves(records.to_vec(), "inbox", |_, key| key.ends_with("#b")).await;
        let read = read_both(&store_at(&server, AMPLE), heads, &keys).await;
        assert_eq!(read, [Ok(found(&records[0])), Err(Unavailable), Ok(Found::Nothing)]);
        assert_eq!(server.requests().len(), ROUNDS, "and then it gives up");

        let server = table_that_leaves(records.to_vec(), "inbox", |_, _| true).await;
        let read = read_both(&store_at(&server, AMPLE), heads, &keys).await;
        assert_eq!(read, vec![Err(Unavailable); 3], "an unprocessed key is not a missing record");
        assert_eq!(server.requests().len(), ROUNDS);
    }
}

/// What was read before a failure stays read.
#[tokio::test]
async fn a_failure_costs_only_the_keys_that_were_not_answered_before() {
    let records = ["a", "b"].map(record);
    let keys = ["a", "b"].map(|id| record(id).key);
    let body = json!({
        "Responses": { "inbox": [stored(&records[0])] },
        "UnprocessedKeys": { "inbox": { "Keys": [{ "pk": { "S": keys[1].as_str() } }] } },
    });
    let server = answering([body.into(), denied()]).await;
    let read = store_at(&server, AMPLE).read_each(&keys).await;
    assert_eq!(read, [Ok(found(&records[0])), Err(Unavailable)]);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn each_answer_to_a_batch_read_has_its_result() {
    let record = record("evt_1");
    for heads in [false, true] {
        let one = json!({ "Responses": { "inbox": [stored(&record)] }, "UnprocessedKeys": {} });
        let keyless = json!({ "Responses": { "inbox": [{ "status": { "S": "PENDING" } }] } });
        let cases = vec![
            Case::new("an item", one, vec![Ok(found(&record))], 1),
            Case::new("no item", json!({ "Responses": { "inbox": [] } }), vec![Ok(Found::Nothing)], 1),
            Case::new("no table", (200, "{}"), vec![Ok(Found::Nothing)], 1),
            Case::new("an item without a key", keyless, vec![Ok(Found::Nothing)], 1),
        ];
        let keys = [record.key.clone()];
        let read = async |server: &ScriptedServer, total| read_both(&store_at(server, total), heads, &keys).await;
        means(STORE, read, vec![Err(Unavailable)], cases).await;
    }
}

#[tokio::test]
async fn records_are_read_a_hundred_at_a_time() {
    let records: Vec<_> = (0..250).map(|index| record(&format!("{index:03}"))).collect();
    let keys: Vec<_> = records.iter().map(|record| record.key.clone()).collect();
    let expected: Vec<_> = records.iter().map(|record| Ok(found(record))).collect();
    let server = table_that_leaves(records, "inbox", |_, _| false).await;
    let store = store_at(&server, AMPLE);
    assert_eq!(store.read_each(&keys).await, expected, "each stands where its key stood");
    assert_eq!(store.read_each(&[]).await, []);
    let sizes: Vec<_> = server.requests().iter().map(|request| keys_of(request, "inbox").len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
}

#[tokio::test]
async fn every_kind_of_value_comes_back_as_it_was_written() {
    let body = json!({ "Responses": { "domain": [on_the_wire("e#item#k", &every_value())] }, "UnprocessedKeys": {} });
    let server = answering([body.into()]).await;
    let snapshot = store_at(&server, AMPLE).read_items(&["e#item#k".into()]).await.unwrap();
    let mut item = snapshot.item("e#item#k").unwrap().clone();
    assert_eq!(item.remove(PARTITION_KEY), Some("e#item#k".into()));
    assert_eq!(item, every_value());
}

/// Values may take a hundred times as much memory as the answer that holds them.
#[tokio::test]
async fn an_answer_that_is_too_long_never_becomes_values() {
    let text = "this is no JSON";
    let server = ScriptedServer::start(move |_, _| (200, text)).await;
    let read = async |bytes_max| store_at(&server, AMPLE).read_few_bytes(&["a".into()], bytes_max).await;
    let length = text.len() as u64;
    assert_eq!(read(length - 1).await, Err(NotRead::TooLong(length)));
    assert_eq!(server.requests().len(), 1, "it is not asked again");
    assert_eq!(read(length).await, Err(NotRead::Unavailable));

    for status in [200, 503] {
        let head = format!("HTTP/1.1 {status} -\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunked = HttpMessage { head, body: b"0\r\n\r\n".to_vec() };
        let server = ScriptedServer::start(move |_, _| Reaction::Answer(chunked.clone())).await;
        let read = store_at(&server, AMPLE).read_few_bytes(&["a".into()], 1_000).await;
        let requests = if status == 200 { 1 } else { ATTEMPTS };
        let expected = (Err(NotRead::Unavailable), requests);
        assert_eq!((read, server.requests().len()), expected, "it does not say how long it is: a later answer may");
    }
}

#[tokio::test]
async fn answers_of_one_read_have_one_limit() {
    let items = ["in#shop#a", "in#shop#b"].map(ItemRef::from);
    let read = async |bytes_max| {
        let left = |index, key: &str| index == 0 && key.ends_with("#b");
        let server = table_that_leaves(["a", "b"].map(record).to_vec(), "domain", left).await;
        (store_at(&server, AMPLE).read_few_bytes(&items, bytes_max).await, server.requests().len())
    };
    let (Err(NotRead::TooLong(first)), 1) = read(0).await else { panic!("it is longer") };
    let (Err(NotRead::TooLong(both)), 2) = read(first).await else { panic!("the first one fits") };
    assert!(both > first && read(both).await.0.is_ok());
    assert_eq!(read(both - 1).await, (Err(NotRead::TooLong(both)), 2));
}

#[tokio::test]
async fn a_call_without_an_answer_is_not_judged_by_the_answer_before() {
    let later = json!({ "Responses": {}, "UnprocessedKeys": { "domain": { "Keys": [{ "pk": { "S": "a" } }] } } });
    let server =
        ScriptedServer::start(move |index, _| if index == 0 { later.clone().into() } else { Reaction::Close }).await;
    let read = store_at(&server, AMPLE).read_few_bytes(&["a".into()], 100).await;
    assert_eq!(read, Err(NotRead::Unavailable));
    assert!(server.requests().len() > 1);
}

/// DynamoDB leaves keys unprocessed because it is short of capacity.
#[tokio::test]
async fn unprocessed_keys_are_read_again_after_growing_pauses() {
    /// Draws the longest pause, and counts the draws.
    #[derive(Debug, Clone, Default)]
    struct Longest(Arc<AtomicUsize>);
    impl Ambient for Longest {
        fn moment(&self) -> Moment {
            self.0.fetch_add(1, Ordering::Relaxed);
            // The remainder by one more than a bound is the bound itself: 50, then 100.
            Moment { now: EpochMs(0), entropy: 51 * 101 - 1 }
        }
        fn claim_id(&self) -> ClaimId {
            ClaimId(String::new())
        }
    }
    let server = table_that_leaves(Vec::new(), "inbox", |_, _| true).await;
    let longest = Longest::default();
    let store = store_at(&server, AMPLE).with_ambient(longest.clone());
    let started = Instant::now();
    assert_eq!(store.read_each(&[record("a").key]).await, [Err(Unavailable)]);
    assert!(started.elapsed() >= Duration::from_millis(150), "{:?}", started.elapsed());
    assert_eq!((server.requests().len(), longest.0.load(Ordering::Relaxed)), (ROUNDS, 2), "none before the first");
    assert_eq!(FIRST_PAUSE, Millis(50));
}

/// A handler must not plan on a part of what it asked for.
#[tokio::test]
async fn domain_items_are_read_all_or_not_at_all() {
    let items = ["in#shop#a", "in#shop#b"].map(ItemRef::from);
    let read = async |server: &ScriptedServer, total| store_at(server, total).read_items(&items).await;
    let nothing: Snapshot = items.iter().map(|item| (item.clone(), None)).collect();
    let cases = vec![Case::new("nothing there", json!({ "Responses": {} }), Ok(nothing), 1)];
    means(STORE, read, Err(Unavailable), cases).await;

    let records = ["a", "b"].map(record);
    let server = table_that_leaves(records.to_vec(), "domain", |_, key| key.ends_with("#b")).await;
    assert_eq!(read(&server, AMPLE).await, Err(Unavailable));
    let server = table_that_leaves(records.to_vec(), "domain", |index, key| index == 0 && key.ends_with("#b")).await;
    let snapshot = read(&server, AMPLE).await.unwrap();
    assert_eq!(
        snapshot.items().filter(|(_, item)| item.is_some()).map(|(name, _)| name).collect::<Vec<_>>(),
        [&items[0], &items[1]]
    );
}

fn entry(key: &str, due_at: &str) -> Value {
    json!({ "pk": { "S": key }, "due_shard": { "S": "due#3" }, "due_at": { "N": due_at } })
}

/// A page may end before the limit: at 1 MB, or because DynamoDB says so.
#[tokio::test]
async fn each_page_of_due_records_has_its_result() {
    let key = record("evt_1").key;
    let due =
        |due_at: i64| Ok(DuePage { entries: vec![DueEntry { key: key.clone(), due_at: EpochMs(due_at) }], next: None });
    let strange = json!([
        { "due_at": { "N": "1" } },
        { "pk": { "S": "in#shop#evt_1" } },
        entry("in#shop#evt_1", "1e99"),
        entry("nothing", "3"),
        entry("in#shop#evt_1", "4"),
    ]);
    let page = |items: Value| json!({ "Items": items, "Count": 1, "LastEvaluatedKey": { "pk": { "S": "x" } } });
    let full = json!({ "Items": [entry("nothing", "3")], "LastEvaluatedKey": entry("nothing", "3") });
    let after = DueCursor { key: "nothing".to_owned(), due_at: EpochMs(3) };
    let cases = vec![
        Case::new("no items", (200, "{}"), Ok(DuePage::default()), 1),
        Case::new("a page that ends at once", page(json!([])), Ok(DuePage::default()), 1),
        Case::new("a page that ends early", page(json!([entry("in#shop#evt_1", "2")])), due(2), 1),
        Case::new("entries that are none", page(strange), due(4), 1),
        // What is no record of ours must not hide what follows.
        Case::new("a page of strangers", full, Ok(DuePage { entries: Vec::new(), next: Some(after) }), 1),
    ];
    let due_query = DueQuery { state: DueState::Pending, shard: 3, until: EpochMs(9), after: None, limit: 100 };
    let query = async |server: &ScriptedServer, total| store_at(server, total).query_due(&due_query).await;
    means(STORE, query, Err(Unavailable), cases).await;
}

#[tokio::test]
async fn a_count_is_the_sum_of_its_pages() {
    let hour = EpochMs(3_600_000 * 400_000);
    let count = async |server: &ScriptedServer, total| store_at(server, total).count_received(3, hour, hour).await;
    let seven = || json!({ "Count": 7, "ScannedCount": 7 });
    let cases = vec![
        Case::new("a count", seven(), Ok(7), 1),
        Case::new("no count", (200, "{}"), Ok(0), 1),
        Case::new("a count below zero", json!({ "Count": -1 }), Ok(0), 1),
    ];
    means(STORE, count, Err(Unavailable), cases).await;

    for (second, expected, name) in
        [(seven().into(), Ok(14), "across the hour"), (denied(), Err(Unavailable), "half a count is none")]
    {
        let server = answering([seven().into(), second]).await;
        let count = store_at(&server, AMPLE).count_received(3, EpochMs(hour.0 - 1), hour).await;
        assert_eq!((count, server.requests().len()), (expected, 2), "{name}");
    }
}

#[tokio::test]
async fn each_answer_to_an_index_page_has_its_result() {
    let query = IndexQuery::due("dead#3".to_owned());
    let keys = async |server: &ScriptedServer, total| {
        store_at(server, total)
            .index_page(&query, None, 10)
            .await
            .map(|page| (page.keys().collect::<Vec<_>>(), page.next.is_some()))
    };
    let key = record("evt_1").key;
    let items = json!([entry("in#shop#evt_1", "1"), { "due_at": { "N": "1" } }]);
    let last = json!({ "pk": { "S": "in#shop#evt_1" } });
    let early = json!({ "Items": items, "LastEvaluatedKey": last });
    let cases = vec![
        Case::new("the last page", json!({ "Items": items }), Ok((vec![key.clone()], false)), 1),
        Case::new("a page that ends early", early, Ok((vec![key], true)), 1),
        Case::new("no items", (200, "{}"), Ok((Vec::new(), false)), 1),
    ];
    means(STORE, keys, Err(Unavailable), cases).await;
}

#[tokio::test]
async fn a_scan_reads_every_page_or_fails() {
    let scan = async |server: &ScriptedServer, total| {
        store_at(server, total).scan(Table::Inbox).await.map(|items| items.len())
    };
    means(STORE, scan, Err(Unavailable), Vec::new()).await;

    let page = |last: &str| {
        Reaction::from(json!({ "Items": [stored(&record("evt_1"))], "LastEvaluatedKey": { "pk": { "S": last } } }))
    };
    let empty = json!({ "LastEvaluatedKey": { "pk": { "S": "b" } } });
    let server = answering([page("a"), empty.into(), json!({ "Items": [stored(&record("evt_1"))] }).into()]).await;
    assert_eq!(scan(&server, AMPLE).await, Ok(2), "an empty page is not the last");
    let starts: Vec<_> = server.requests().iter().map(|request| request.json()["ExclusiveStartKey"].clone()).collect();
    assert_eq!(starts, [Value::Null, json!({ "pk": { "S": "a" } }), json!({ "pk": { "S": "b" } })]);

    let server = answering([page("a"), denied()]).await;
    assert_eq!(scan(&server, AMPLE).await, Err(Unavailable), "a part of a table is not the table");
}

#[tokio::test]
async fn an_index_is_counted_to_its_last_page_or_not_at_all() {
    let query = IndexQuery::due("dead#3".to_owned());
    let count = async |server: &ScriptedServer, total| store_at(server, total).index_count(&query).await;
    let cases = vec![Case::new("a count below zero", json!({ "Count": -1 }), Ok(0), 1)];
    means(STORE, count, Err(Unavailable), cases).await;

    let first = Reaction::from(json!({ "Count": 7, "LastEvaluatedKey": { "pk": { "S": "a" } } }));
    for (second, expected) in [(json!({ "Count": 3 }).into(), Ok(10)), (denied(), Err(Unavailable))] {
        let server = answering([first.clone(), second]).await;
        assert_eq!(count(&server, AMPLE).await, expected);
    }
}

#[tokio::test]
async fn each_answer_to_a_scan_page_has_its_result() {
    let page = async |server: &ScriptedServer, total| {
        store_at(server, total).scan_page(Table::Inbox, "in#shop#", &[], None, 10).await
    };
    let (empty, key) = (ScanPage { read: 0, items: Vec::new(), next: None }, json!({ "pk": { "S": "in#shop#evt_1" } }));
    let found = ScanPage {
        read: 3,
        items: vec![[(PARTITION_KEY.to_owned(), "in#shop#evt_1".into())].into()],
        next: Some("in#shop#evt_1".to_owned()),
    };
    let last = ScanPage { next: None, ..found.clone() };
    let whole = json!({ "Items": [key], "Count": 1, "ScannedCount": 3 });
    let early = json!({ "Items": [key], "Count": 1, "ScannedCount": 3, "LastEvaluatedKey": key });
    let cases = vec![
        Case::new("nothing", (200, "{}"), Ok(empty.clone()), 1),
        Case::new("less than nothing", json!({ "ScannedCount": -1 }), Ok(empty), 1),
        Case::new("the last page", whole, Ok(last), 1),
        Case::new("a page that ends early", early, Ok(found), 1),
    ];
    means(STORE, page, Err(Unavailable), cases).await;
}

#[tokio::test]
async fn the_size_of_a_table_comes_from_its_description() {
    let size = async |server: &ScriptedServer, total| store_at(server, total).table_size(Table::Domain).await;
    let cases = vec![
        Case::new("both", json!({ "Table": { "ItemCount": 7, "TableSizeBytes": 900 } }), Ok((7, 900)), 1),
        Case::new("neither", json!({ "Table": {} }), Ok((0, 0)), 1),
        Case::new("no table", (200, "{}"), Ok((0, 0)), 1),
    ];
    means(STORE, size, Err(Unavailable), cases).await;
}
