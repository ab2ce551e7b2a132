//! What the protocol needs from a store.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::ScalarAttributeType;
use hookonce_protocol::call::{CancellationReason, Committed, DuePage, DueQuery, DueState, Written};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::{Item, Number, Value};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{Check, DomainWrite, Plan, Snapshot};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Due, Found, Record, Status, attribute, equals, remove, set};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::{Action, Change, Clause, Condition, Table, Write};
use hookonce_runtime::aws::{DynamoStore, IndexQuery};
use hookonce_runtime::port::{NotRead, Store};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::protocol::a_record;
use crate::support::clock::START;
use crate::support::stack::{TestStack, urls};

/// The whole suite on the deployed adapter, against the servers at these addresses.
async fn dynamo_store_keeps_the_contract(dynamodb_url: &str, sqs_url: &str) {
    let stack = TestStack::at(dynamodb_url, sqs_url).await;
    let stack =
        stack.with_table("orders", &[("shop", ScalarAttributeType::S), ("order", ScalarAttributeType::N)]).await;
    let stack = stack.with_table("blobs", &[("hash", ScalarAttributeType::B)]).await;
    let store = stack.store();
    a_failed_condition_shows_the_item(&store).await;
    a_repeated_write_finds_itself(&store).await;
    of_many_claims_one_wins(&store).await;
    reads_come_back_in_order(&store).await;
    a_partition_is_read_page_by_page(&store).await;
    items_are_read_unless_the_answer_is_too_long(&store).await;
    the_due_index_is_sparse_and_oldest_first(&store).await;
    the_journal_counts_across_the_hour(&store).await;
    a_commit_is_all_or_nothing_and_names_its_reasons_in_order(&store).await;
    what_can_never_be_carried_out_is_invalid(&store).await;
    domain_items_are_read_in_any_number(&store).await;
    a_commit_spans_user_tables(&store).await;
    a_check_changes_nothing_and_cancels_everything(&store).await;
}

#[tokio::test]
async fn the_store_on_the_embedded_server_keeps_the_contract() {
    let (dynamodb_url, sqs_url) = urls();
    dynamo_store_keeps_the_contract(dynamodb_url, sqs_url).await;
}

fn claim(id: &str) -> Record {
    a_record(&format!("in#contract#{id}"))
}

/// An update under a condition. What it changes does not matter.
fn touch(key: &RecordKey, clauses: Vec<Clause>) -> Write {
    Write {
        purpose: Purpose::CountDuplicate,
        table: Table::Inbox,
        key: key.as_str().into(),
        action: Action::Update(vec![set(attribute::LAST_SEEN_AT, 1)]),
        condition: Condition(clauses),
    }
}

fn item_of(put: &mut Write) -> &mut Item {
    let Action::Put(item) = &mut put.action else { panic!("a claim is a put") };
    item
}

async fn a_repeated_write_finds_itself(store: &impl Store) {
    let record = claim("repeated");
    let me = |clauses| Write {
        action: Action::Update(vec![
            Change::Add(attribute::DUPLICATE_COUNT.into(), 1),
            set(attribute::LAST_SEEN_BY, "me"),
            remove(attribute::DUE_AT),
        ]),
        ..touch(&record.key, clauses)
    };
    let mine = || vec![equals(attribute::STATUS, "PENDING"), Clause::Differs("last_seen_by".into(), "me".into())];
    for write in [claim_write(&record), me(mine())] {
        assert_eq!(store.write(&write).await, Written::Applied);
        assert_eq!(store.write(&write).await, Written::Applied, "it finds itself");
    }
    let Ok(Found::Record(after)) = store.read(&record.key).await else { panic!("the record exists") };
    assert_eq!(after.duplicate_count, 1, "and is not carried out again");
    let mut settled = mine();
    settled[0] = equals(attribute::STATUS, "PROCESSED");
    let refused = store.write(&me(settled)).await;
    assert!(matches!(refused, Written::ConditionFailed(Found::Record(_))), "a clause about what stays must hold");
}

async fn a_failed_condition_shows_the_item(store: &impl Store) {
    let record = claim("shown");
    assert_eq!(store.write(&claim_write(&record)).await, Written::Applied);
    let found = Found::Record(Box::new(record.clone()));
    let later = Record { received_at: EpochMs(record.received_at.0 + 1), ..record.clone() };
    assert_eq!(store.write(&claim_write(&later)).await, Written::ConditionFailed(found.clone()), "by a put");
    let other = equals(attribute::CLAIM_ID, "another");
    assert_eq!(store.write(&touch(&record.key, vec![other])).await, Written::ConditionFailed(found), "by an update");

    let absent = touch(&claim("absent").key, vec![Clause::Present("pk".into())]);
    assert_eq!(store.write(&absent).await, Written::ConditionFailed(Found::Nothing));
    let mut strange = claim_write(&claim("strange"));
    item_of(&mut strange).insert(attribute::SCHEMA_VERSION.to_owned(), 2.into());
    assert_eq!(store.write(&strange).await, Written::Applied);
    item_of(&mut strange).insert(attribute::ATTEMPTS.to_owned(), 7.into());
    let Written::ConditionFailed(Found::Unreadable(unreadable)) = store.write(&strange).await else {
        panic!("this version must not read a record of another version");
    };
    assert_eq!(unreadable.schema_version, Some(2));
    let read = store.read(&claim("strange").key).await.unwrap();
    assert_eq!(read, Found::Unreadable(unreadable), "a read returns the same");
}

async fn of_many_claims_one_wins(store: &impl Store) {
    let claims: Vec<_> = (0..64)
        .map(|index| {
            let mut record = claim("raced");
            record.claim_id.0 = format!("claim-{index}");
            record
        })
        .collect();
    let writes: Vec<_> = claims.iter().map(claim_write).collect();
    let written = futures::future::join_all(writes.iter().map(|write| store.write(write))).await;
    let winners: Vec<_> = written.iter().zip(&claims).filter(|(it, _)| **it == Written::Applied).collect();
    assert_eq!(winners.len(), 1);
    let winner = Found::Record(Box::new(winners[0].1.clone()));
    let losers = written.iter().filter(|written| **written == Written::ConditionFailed(winner.clone())).count();
    assert_eq!(losers, 63, "every loser is shown the winner");
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
        read.extend(page.keys);
        pages += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((read, pages), (keys.into_iter().rev().collect(), 3));
}

/// An answer of the server says how long it is.
async fn items_are_read_unless_the_answer_is_too_long(store: &DynamoStore) {
    assert_eq!(store.write(&put("short", Condition::none())).await, Written::Applied);
    let items = ["short".into(), "nothing".into()];
    assert_eq!(store.read_few_bytes(&items, 1_000).await.ok(), store.read_items(&items).await.ok());
    let Err(NotRead::TooLong(bytes)) = store.read_few_bytes(&items, 10).await else { panic!("it is longer") };
    assert!(store.read_few_bytes(&items, bytes).await.is_ok());
}

async fn reads_come_back_in_order(store: &impl Store) {
    let keys: Vec<_> = (0..130).map(|index| claim(&format!("read-{index:03}")).key).collect();
    for key in keys.iter().step_by(2) {
        assert_eq!(store.write(&claim_write(&a_record(key.as_str()))).await, Written::Applied);
    }
    let found = store.read_each(&keys).await;
    assert_eq!(found.len(), keys.len());
    for (index, (key, found)) in keys.iter().zip(found).enumerate() {
        match found.unwrap() {
            Found::Record(record) => assert_eq!((&record.key, index % 2), (key, 0)),
            Found::Nothing => assert_eq!(index % 2, 1, "{key}"),
            Found::Unreadable(unreadable) => panic!("{key}: {unreadable}"),
        }
    }
    for (key, found) in keys.iter().zip(store.read_heads(&keys).await).step_by(2) {
        let head = Record { body: None, ..a_record(key.as_str()) };
        assert_eq!(found, Ok(Found::Record(Box::new(head))), "everything except the body");
    }
    assert_eq!(store.read(&keys[1]).await, Ok(Found::Nothing));
    assert_eq!(store.read_each(&[]).await, []);
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
    let mut settled = touch(&claim("due-a").key, Vec::new());
    let gone = [attribute::DUE_SHARD, attribute::DUE_AT].map(|name| Change::Remove(name.into()));
    settled.action = Action::Update(gone.to_vec());
    assert_eq!(store.write(&settled).await, Written::Applied);
    assert_eq!(listed(base + 40, 100).await, expected[1..]);
}

async fn the_journal_counts_across_the_hour(store: &impl Store) {
    let hour = 3_600_000 * 400_000;
    let shard = 9;
    for (index, at) in [-40_000, -20_000, -1, 0, 15_000].into_iter().enumerate() {
        let mut record = claim(&format!("journal-{index}"));
        record.received_at = EpochMs(hour + at);
        record.journal_shard = Some(hookonce_protocol::record::journal_shard(record.received_at, shard));
        assert_eq!(store.write(&claim_write(&record)).await, Written::Applied);
    }
    let count =
        async |from: i64, until: i64| store.count_received(shard, EpochMs(hour + from), EpochMs(hour + until)).await;
    assert_eq!(count(-30_000, 20_000).await, Ok(4), "across the hour boundary");
    assert_eq!(count(-20_000, -1).await, Ok(2), "both ends are included");
    assert_eq!(count(0, 15_000).await, Ok(2));
    assert_eq!(count(16_000, 20_000).await, Ok(0));
}

fn put(key: &str, condition: Condition) -> Write {
    let item = Item::from([("n".to_owned(), 1.into())]);
    Write { purpose: Purpose::DomainWrite, table: Table::Domain, key: key.into(), action: Action::Put(item), condition }
}

async fn a_commit_is_all_or_nothing_and_names_its_reasons_in_order(store: &impl Store) {
    assert_eq!(store.write(&put("commit-known", Condition::none())).await, Written::Applied);
    // Each condition of the four writes holds or fails: every combination except the one where all hold.
    for failing in 1_u32..16 {
        let write = |index: u32| match failing & (1 << index) {
            0 => put(&format!("commit-{failing}-{index}"), Condition::item_absent()),
            _ if index == 0 => put("commit-known", Condition::item_absent()),
            _ => put(&format!("commit-{failing}-{index}"), Condition(vec![Clause::Present("pk".into())])),
        };
        let writes: Vec<_> = (0..4).map(write).collect();
        let reason = |index: u32| match failing & (1 << index) {
            0 => CancellationReason::None,
            _ => CancellationReason::ConditionFailed,
        };
        assert_eq!(store.commit(&writes).await, Committed::Cancelled((0..4).map(reason).collect()), "{failing:04b}");
        let items: Vec<_> = (0..4).map(|index| format!("commit-{failing}-{index}").into()).collect();
        let stored = store.read_items(&items).await.unwrap();
        assert!(stored.items().all(|(_, item)| item.is_none()), "{failing:04b}: something was written");
    }
    let record = claim("committed");
    assert_eq!(store.write(&claim_write(&record)).await, Written::Applied);
    let both = [touch(&record.key, record.guard().condition([]).0), put("commit-both", Condition::item_absent())];
    assert_eq!(store.commit(&both).await, Committed::Applied, "across both tables");
    let Ok(Found::Record(after)) = store.read(&record.key).await else { panic!("the record is missing") };
    assert_eq!(after.last_seen_at, Some(EpochMs(1)));
    let both = store.read_items(&["commit-both".into()]).await.unwrap();
    assert_eq!(both.number("commit-both", "n"), 1);
}

async fn what_can_never_be_carried_out_is_invalid(store: &impl Store) {
    let mut large = claim("large");
    large.body = Some(vec![0; 400 * 1024]);
    assert_eq!(store.write(&claim_write(&large)).await, Written::Invalid, "an item over 400 KB");
    large.body = Some(vec![0; 398 * 1024]);
    assert_eq!(store.write(&claim_write(&large)).await, Written::Applied);
    let grow = Write {
        action: Action::Update(vec![set(attribute::LAST_ERROR, "x".repeat(4 * 1024))]),
        ..touch(&large.key, Vec::new())
    };
    assert_eq!(store.write(&grow).await, Written::Invalid, "an update beyond 400 KB");
    let twice = [put("invalid", Condition::none()), put("invalid", Condition::none())];
    assert_eq!(store.commit(&twice).await, Committed::Invalid, "one item twice");
    let many: Vec<_> = (0..101).map(|index| put(&format!("invalid-{index}"), Condition::none())).collect();
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

async fn a_check_changes_nothing_and_cancels_everything(store: &impl Store) {
    let write = || DomainWrite::update(order("10"), vec![Change::Add("n".into(), 1)]);
    let before = store.read_items(&[order("11"), "checked".into()]).await.unwrap();
    let plan = Plan::default()
        .with(write())
        .with_check(Check::as_seen(order("11"), &before, ["n"]))
        .with_check(Check::as_seen("checked", &before, ["n"]));
    assert_eq!(committed(store, plan.clone()).await, Committed::Applied);
    let checked = [order("11"), "checked".into()];
    let after = store.read_items(&checked).await.unwrap();
    assert!(after.items().all(|(_, item)| item.is_none()), "a check creates nothing: {after:?}");
    let change = Plan::default().with(DomainWrite::update(order("11"), vec![set("n", 1)]));
    assert_eq!(committed(store, change).await, Committed::Applied);
    let reasons = [CancellationReason::None, CancellationReason::ConditionFailed, CancellationReason::None];
    assert_eq!(committed(store, plan).await, Committed::Cancelled(reasons.to_vec()));
    assert_eq!(store.read_items(&[order("10")]).await.unwrap().number(order("10"), "n"), 1, "nothing was written");
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
