//! What the protocol needs from a store.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::ScalarAttributeType;
use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::call::{CancellationReason, Committed, DuePage, DueQuery, DueState, Written};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::{Item, Number, Value};
use hookonce_protocol::key::{APPLIED_AT, RECORD, RecordKey};
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{DomainWrite, Plan, Snapshot};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Due, Record, Status, attribute, remove, set};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::{Action, Change, Clause, Condition, Table, Write};
use hookonce_runtime::port::{NotRead, Store};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::protocol::a_record;
use crate::support::clock::START;
use crate::support::stack::TestStack;

/// The suite. `fakes` compares conditions, transactions and single reads with those of the simulator.
#[tokio::test]
async fn the_store_keeps_the_contract() {
    let order = [("shop", ScalarAttributeType::S), ("order", ScalarAttributeType::N)];
    let stack = TestStack::new().await.with_table("orders", &order).await;
    let store = stack.with_table("blobs", &[("hash", ScalarAttributeType::B)]).await.store();
    a_partition_is_read_page_by_page(&store).await;
    the_due_index_is_sparse_and_oldest_first(&store).await;
    what_can_never_be_carried_out_is_invalid(&store).await;
    domain_items_are_read_in_any_number(&store).await;
    items_are_read_unless_the_answer_is_too_long(&store).await;
    a_commit_spans_user_tables(&store).await;
    a_domain_key_names_its_record(&store).await;
}

fn claim(id: &str) -> Record {
    a_record(&format!("in#contract#{id}"))
}

/// An update of a record without a condition.
fn update(key: &RecordKey, changes: Vec<Change>) -> Write {
    Write {
        purpose: Purpose::CountDuplicate,
        table: Table::Inbox,
        key: key.as_str().into(),
        action: Action::Update(changes),
        condition: Condition::none(),
    }
}

/// What an operator's tool reads: every key of a partition, latest first, page by page.
async fn a_partition_is_read_page_by_page(store: &DynamoStore) {
    let received = |index: i64| EpochMs(START.0 + index);
    let keys: Vec<_> = (0..25).map(|index| claim(&format!("paged-{index:02}")).key).collect();
    for (index, key) in (0..).zip(&keys) {
        let mut record = a_record(key.as_str());
        (record.received_at, record.journal_shard) = (received(index), Some("paged".to_owned()));
        assert_eq!(store.write(&claim_write(&record)).await, Written::Applied);
    }
    let query = IndexQuery::Journal { partition: "paged".to_owned(), from: received(0), until: received(25) };
    let (mut read, mut from, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = store.index_page(&query, from, 10).await.unwrap();
        read.extend(page.keys());
        pages += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((read, pages), (keys.into_iter().rev().collect(), 3));
}

fn page_of(shard: u16, until: i64, limit: usize) -> DueQuery {
    DueQuery { state: DueState::Pending, shard, until: EpochMs(until), after: None, limit }
}

async fn the_due_index_is_sparse_and_oldest_first(store: &impl Store) {
    let shards = 1;
    let due = |id: &str, status: Status, at: Option<i64>| {
        let mut record = claim(id);
        record.status = status;
        record.due = at.map(|at| match status {
            Status::Dead => Due::dead(&record.key, shards, EpochMs(at)),
            Status::Pending | Status::Processed | Status::Discarded => Due::pending(&record.key, shards, EpochMs(at)),
        });
        record
    };
    let base = 5_000_000;
    for (id, status, at) in [
        ("due-c", Status::Pending, Some(base + 30)),
        ("due-a", Status::Pending, Some(base + 10)),
        ("due-b", Status::Pending, Some(base + 20)),
        ("due-later", Status::Pending, Some(base + 41)),
        ("due-dead", Status::Dead, Some(base + 5)),
        ("due-done", Status::Processed, None),
    ] {
        assert_eq!(store.write(&claim_write(&due(id, status, at))).await, Written::Applied);
    }
    let listed = async |until: i64, limit: usize| -> Vec<(String, i64)> {
        let page = store.query_due(&page_of(0, until, limit)).await.unwrap();
        let own = page.entries.iter().filter(|entry| entry.key.as_str().contains("#due-"));
        own.map(|entry| (entry.key.parts().1.to_owned(), entry.due_at.0 - base)).collect()
    };
    let expected = [("due-a", 10), ("due-b", 20), ("due-c", 30)].map(|(id, at)| (id.to_owned(), at));
    assert_eq!(listed(base + 40, 100).await, expected);
    assert_eq!(listed(base + 30, 100).await, expected, "due at exactly this moment");
    assert_eq!(listed(base + 40, 2).await, expected[..2], "the oldest come first");
    let first = store.query_due(&page_of(0, base + 40, 2)).await.unwrap();
    let second = DueQuery { after: first.next, ..page_of(0, base + 40, 2) };
    let second = store.query_due(&second).await.unwrap();
    let after: Vec<_> = second.entries.iter().map(|entry| entry.due_at.0 - base).collect();
    assert_eq!(after, [30], "after the first two");
    assert_eq!(second.next, None, "it is the last page");
    assert_eq!(store.query_due(&page_of(1, base + 40, 100)).await, Ok(DuePage::default()), "another shard");
    let mut died = page_of(0, base + 40, 100);
    died.state = DueState::Dead;
    let died: Vec<_> = store.query_due(&died).await.unwrap().entries.into_iter().map(|entry| entry.due_at.0).collect();
    assert_eq!(died, [base + 5], "those that died are a list of their own");

    // A record that leaves PENDING leaves the index.
    let settled = update(&claim("due-a").key, vec![remove(attribute::DUE_SHARD), remove(attribute::DUE_AT)]);
    assert_eq!(store.write(&settled).await, Written::Applied);
    assert_eq!(listed(base + 40, 100).await, expected[1..]);
}

fn put(key: &str) -> Write {
    let action = Action::Put(Item::from([("n".to_owned(), 1.into())]));
    let condition = Condition::none();
    Write { purpose: Purpose::DomainWrite, table: Table::Domain, key: key.into(), action, condition }
}

/// An answer of the server says how long it is.
async fn items_are_read_unless_the_answer_is_too_long(store: &DynamoStore) {
    assert_eq!(store.write(&put("short")).await, Written::Applied);
    let items = ["short".into(), "nothing".into()];
    assert_eq!(store.read_few_bytes(&items, 1_000).await.ok(), store.read_items(&items).await.ok());
    let Err(NotRead::TooLong(bytes)) = store.read_few_bytes(&items, 10).await else { panic!("it is longer") };
    assert!(store.read_few_bytes(&items, bytes).await.is_ok());
}

async fn what_can_never_be_carried_out_is_invalid(store: &impl Store) {
    let mut large = claim("large");
    large.body = Some(vec![0; 400 * 1024]);
    assert_eq!(store.write(&claim_write(&large)).await, Written::Invalid, "an item over 400 KB");
    large.body = Some(vec![0; 398 * 1024]);
    assert_eq!(store.write(&claim_write(&large)).await, Written::Applied);
    let grow = update(&large.key, vec![set(attribute::LAST_ERROR, "x".repeat(4 * 1024))]);
    assert_eq!(store.write(&grow).await, Written::Invalid, "an update beyond 400 KB");
    assert_eq!(store.commit(&[put("invalid"), put("invalid")]).await, Committed::Invalid, "one item twice");
    let many: Vec<_> = (0..101).map(|index| put(&format!("invalid-{index}"))).collect();
    assert_eq!(store.commit(&many).await, Committed::Invalid, "more than a transaction holds");
    assert_eq!(store.commit(&many[..100]).await, Committed::Applied, "as many as it holds");
}

async fn domain_items_are_read_in_any_number(store: &impl Store) {
    let items: Vec<ItemRef> = (0..150).map(|index| format!("invalid-{index}").into()).collect();
    let twice: Vec<_> = items.iter().chain(&items).cloned().collect();
    let snapshot = store.read_items(&twice).await.unwrap();
    assert_eq!(snapshot.items().count(), 150, "every item is listed once");
    let existing = snapshot.items().filter(|(_, item)| item.is_some());
    assert_eq!(existing.count(), 100, "those that exist with what they hold");
    assert_eq!(store.read_items(&[]).await, Ok(Snapshot::default()));
}

fn order(number: &str) -> ItemRef {
    let number = Value::Number(Number::from_text(number));
    ItemRef::own(TableAlias::parse("orders").unwrap(), [("shop", "a".into()), ("order", number)])
}

fn blob(bytes: &[u8]) -> ItemRef {
    ItemRef::own(TableAlias::parse("blobs").unwrap(), [("hash", Value::Bytes(bytes.to_vec()))])
}

async fn committed(store: &impl Store, plan: Plan) -> Committed {
    store.commit(&plan.into_writes().collect::<Vec<_>>()).await
}

/// A record that meets its own domain key must not take it for another's.
async fn a_domain_key_names_its_record(store: &DynamoStore) {
    let commit = async |record: &str, applied_at: i64| {
        let item = Item::from([(RECORD.to_owned(), record.into()), (APPLIED_AT.to_owned(), applied_at.into())]);
        let (key, action) = ("#dk#contract#h#whose".into(), Action::Put(item));
        let condition = Condition::item_absent();
        store.commit(&[Write { purpose: Purpose::DomainKey, table: Table::Domain, key, action, condition }]).await
    };
    assert_eq!(commit("in#contract#own", 5).await, Committed::Applied);
    let applied_at = EpochMs(5);
    let own = CancellationReason::OwnFact { applied_at };
    assert_eq!(commit("in#contract#own", 9).await, Committed::Cancelled(vec![own]));
    let another = CancellationReason::ConditionFailed;
    assert_eq!(commit("in#contract#another", 9).await, Committed::Cancelled(vec![another]));
}

/// Every kind of key, every kind of action, in one transaction with the domain table.
async fn a_commit_spans_user_tables(store: &impl Store) {
    let kind = |name: &str, kind| KeyAttribute { name: name.to_owned(), kind };
    let orders = KeySchema { partition: kind("shop", KeyKind::Text), sort: Some(kind("order", KeyKind::Number)) };
    let blobs = KeySchema { partition: kind("hash", KeyKind::Bytes), sort: None };
    for (alias, schema) in [("orders", Some(orders)), ("blobs", Some(blobs)), ("unknown", None)] {
        assert_eq!(store.key_schema(TableAlias::parse(alias).unwrap(), &[]).await, Ok(schema), "{alias}");
    }
    let missing = |item: ItemRef| {
        DomainWrite::create_missing(item, Item::from([("n".to_owned(), 1.into())]), &Snapshot::default()).unwrap()
    };
    let first = Plan::default()
        .with(missing(order("1")))
        .with(missing(blob(&[0, 255])))
        .with(DomainWrite::update(order("2.50"), vec![Change::Add("n".into(), 2)]))
        .with(missing("own-tables".into()));
    assert_eq!(committed(store, first.clone()).await, Committed::Applied);
    let failed = CancellationReason::ConditionFailed;
    let none = CancellationReason::None;
    assert_eq!(committed(store, first).await, Committed::Cancelled(vec![failed, failed, none, failed]));
    let items = [order("1.0"), order("2.5"), order("3"), blob(&[0, 255]), blob(&[0]), "own-tables".into()];
    let stored = store.read_items(&items).await.unwrap();
    let numbers: Vec<_> =
        items.iter().map(|item| stored.item(item).map(|found| found["n"].as_i64().unwrap())).collect();
    assert_eq!(numbers, [Some(1), Some(2), None, Some(1), None, Some(1)]);
    let found = stored.item(order("2.5")).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["n", "order", "shop"], "an item holds its key");
    let second = Plan::default()
        .with(DomainWrite::delete(order("1")).as_seen(&stored, "n"))
        .with(DomainWrite::update(blob(&[0, 255]), vec![set("n", 7)]).as_seen(&stored, "n"));
    assert_eq!(committed(store, second).await, Committed::Applied);
    let stored = store.read_items(&items).await.unwrap();
    assert_eq!((stored.item(order("1")), stored.number(blob(&[0, 255]), "n")), (None, 7));
}

/// The store must do what the protocol says a write does, because the model checker explores just that.
#[tokio::test]
async fn the_store_does_what_a_write_means() {
    let stack = TestStack::new().await;
    let store = stack.store();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut model: BTreeMap<String, Item> = BTreeMap::new();
    let (mut applied, mut failed, mut itself) = (0, 0, 0);
    for index in 0..240 {
        let write = any_write().new_tree(&mut runner).unwrap().current();
        let key = write.key.as_str();
        let current = model.get(key);
        let expected = write.apply(current);
        let case = format!("write {index}, {write:?} on {current:?}");
        match (store.write(&write).await, expected) {
            (Written::Applied, Ok(after)) => {
                applied += 1;
                drop(match after {
                    Some(item) => model.insert(key.to_owned(), item),
                    None => model.remove(key),
                });
            }
            (Written::Applied, Err(_)) if write.stands_in(current) => itself += 1,
            (Written::ConditionFailed(_), Err(_)) if !write.stands_in(current) => failed += 1,
            (written, expected) => panic!("{case}: {written:?}, not {expected:?}"),
        }
        let stored = store.read_items(&[key.into()]).await.unwrap();
        assert_eq!(stored.item(key), model.get(key), "{case}");
    }
    println!(
        "240 writes as the protocol means them: {applied} applied, {failed} conditions failed, {itself} found themselves"
    );
    assert!(applied > 40 && failed > 40);
}

const NAMES: [&str; 4] = ["a", "b", "status", "size"];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        "[a-zäλ#]{0,3}".prop_map(Value::Text),
        (-3_i64..3).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..4).prop_map(Value::Bytes),
        any::<bool>().prop_map(Value::Flag),
        Just(Value::Null(true)),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            any_set(),
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            proptest::collection::btree_map("[a-c]", inner, 0..3).prop_map(Value::Map),
        ]
    })
}

/// Sets have members. A number has one text here, as DynamoDB gives it back.
fn any_set() -> impl Strategy<Value = Value> {
    use proptest::collection::btree_set;
    let numbers = |numbers: BTreeSet<i64>| numbers.into_iter().map(Number::from).collect::<Vec<_>>().into();
    prop_oneof![
        btree_set("[a-zλ]{1,3}", 1..4).prop_map(|texts| Value::TextSet(texts.into_iter().collect::<Vec<_>>().into())),
        btree_set(any::<i64>(), 1..4).prop_map(move |set| Value::NumberSet(numbers(set))),
        btree_set(proptest::collection::vec(any::<u8>(), 1..4), 1..4)
            .prop_map(|blobs| Value::BytesSet(blobs.into_iter().collect::<Vec<_>>().into())),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    proptest::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

fn any_clause() -> impl Strategy<Value = Clause> {
    let name = || prop_oneof![3 => any_name(), 1 => Just("pk".to_owned())];
    prop_oneof![
        name().prop_map(|name| Clause::Absent(name.into())),
        name().prop_map(|name| Clause::Present(name.into())),
        (any_name(), small_value()).prop_map(|(name, value)| Clause::Equals(name.into(), value)),
        (any_name(), proptest::collection::vec(small_value(), 1..4))
            .prop_map(|(name, values)| Clause::OneOf(name.into(), values)),
        (any_name(), small_value()).prop_map(|(name, value)| Clause::Differs(name.into(), value)),
    ]
}

/// Mostly a few numbers, so that values often coincide.
fn small_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-1_i64..2).prop_map(Value::from),
        1 => any_value(),
    ]
}

fn any_write() -> impl Strategy<Value = Write> {
    let value = || prop_oneof![2 => small_value(), 1 => any_value()];
    let item = proptest::collection::btree_map(any_name(), value(), 0..4);
    let set = (any_name(), value()).prop_map(|(name, value)| Change::Set(name.into(), value));
    let remove = any_name().prop_map(|name| Change::Remove(name.into()));
    // Only a number can be added to.
    let add = (-5_i64..5).prop_map(|amount| Change::Add("counter".into(), amount));
    let changes =
        (set, proptest::collection::vec(prop_oneof![2 => remove, 1 => add], 0..3)).prop_map(|(set, further)| {
            let mut changes = vec![set];
            for change in further {
                if changes.iter().all(|known: &Change| known.attribute() != change.attribute()) {
                    changes.push(change);
                }
            }
            changes
        });
    let action = prop_oneof![
        3 => item.prop_map(Action::Put),
        5 => changes.prop_map(Action::Update),
        1 => Just(Action::Delete),
    ];
    let condition = proptest::collection::vec(any_clause(), 0..3).prop_map(Condition);
    ("key-[xyz]", action, condition).prop_map(|(key, action, condition)| Write {
        purpose: Purpose::DomainWrite,
        table: Table::Domain,
        key: key.into(),
        action,
        condition,
    })
}
