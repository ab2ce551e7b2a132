//! Runs random operations on the simulator's store and queue and on servers, and compares every answer.
//!
//! The servers are those of the whole suite: embedded, or named by `TEST_DYNAMODB_URL` and `TEST_SQS_URL`.
//! `TEST_SEQUENCES` sets the number of sequences.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::ScalarAttributeType;
use hookonce_proof::sim::sqs::{FakeQueue, QueueShape};
use hookonce_proof::sim::tables::{NotWritten, Tables};
use hookonce_protocol::call::{Committed, DueEntry, DueQuery, DueState, Written};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::{Item, Number, PARTITION_KEY, Value};
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Due, Found, Status, attribute, equals, journal_shard, remove, set};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::{Action, Change, Clause, Condition, Table, Write};
use hookonce_runtime::port::{Queue, Store};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::json;

use crate::protocol::a_record;
use crate::support::stack::{TestStack, urls};

/// Sequences for each pair of servers, unless the environment says otherwise.
const SEQUENCES: u32 = 12;

/// Index shards in this test.
const SHARDS: u16 = 2;

/// A user table, and the attributes of its key.
const ORDERS: &str = "orders";
const KEY: [&str; 2] = ["shop", "order"];

/// A moment at the end of an hour, so that the journal has two partitions.
const NOW: i64 = 1_767_225_599_990;

/// Receives after which the queues here give a message up.
const RECEIVES_MAX: u32 = 2;

#[derive(Debug, Clone)]
enum Operation {
    Write(Write),
    Commit(Vec<Write>),
    Read(usize),
    ReadEach(Vec<usize>),
    ReadItems(Vec<usize>),
    QueryDue { shard: u16, until: i64 },
    CountReceived { shard: u16, from: i64, until: i64 },
}

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Written(Written),
    Committed(Committed),
    Found(Vec<Found>),
    Snapshot(Snapshot),
    Due(Vec<DueEntry>),
    Count(u64),
}

fn record_key(number: usize) -> RecordKey {
    RecordKey::parse(&format!("in#fakes#k{number}")).unwrap()
}

fn due(shard: u16, until: i64) -> DueQuery {
    DueQuery { state: DueState::Pending, shard, until: EpochMs(until), after: None, limit: 100 }
}

/// The first three are items of the domain table, the others of a user table. Numbers of keys are written in
/// several ways.
fn item(number: usize) -> ItemRef {
    let own = |order: &str| {
        let order = Value::Number(Number::from_text(order));
        ItemRef::own(TableAlias::parse(ORDERS).unwrap(), [("shop", "a".into()), ("order", order)])
    };
    match number {
        0..3 => format!("item#{number}").into(),
        3 => own("1"),
        4 => own("1.0"),
        _ => own("-25e-1"),
    }
}

fn table_of(item: &ItemRef) -> Table {
    item.table.map_or(Table::Domain, Table::Own)
}

fn status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL)
}

fn moment() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![NOW, NOW + 5, NOW + 20])
}

fn claim() -> impl Strategy<Value = Write> {
    (0..4_usize, 0..2_i64, status(), moment(), moment(), any::<bool>()).prop_map(
        |(number, generation, status, due_at, received_at, waits)| {
            let key = record_key(number);
            let mut record = a_record(key.as_str());
            record.generation = generation;
            record.status = status;
            record.claim_id = ClaimId(format!("c{generation}"));
            record.received_at = EpochMs(received_at);
            record.journal_shard = Some(journal_shard(record.received_at, key.shard(SHARDS)));
            record.due = waits.then(|| Due::pending(&key, SHARDS, EpochMs(due_at)));
            claim_write(&record)
        },
    )
}

fn clause() -> impl Strategy<Value = Clause> {
    prop_oneof![
        Just(Clause::Absent(PARTITION_KEY.into())),
        Just(Clause::Present(PARTITION_KEY.into())),
        Just(Clause::Present(attribute::BODY.into())),
        Just(Clause::Absent(attribute::DEAD_LETTERS.into())),
        status().prop_map(|status| equals(attribute::STATUS, status.as_str())),
        (0..2_i64).prop_map(|number| equals(attribute::CLAIM_ID, format!("c{number}"))),
        (0..2_i64).prop_map(|number| equals(attribute::GENERATION, number)),
        (0..2_i64).prop_map(|number| equals(attribute::ATTEMPTS, number)),
        moment().prop_map(|at| equals(attribute::DUE_AT, at)),
        (0..2_i64).prop_map(|number| Clause::Differs(attribute::ATTEMPTS.into(), number.into())),
        moment().prop_map(|at| Clause::Differs(attribute::DUE_AT.into(), at.into())),
        prop::collection::vec(status(), 1..3).prop_map(|any| {
            let words = any.into_iter().map(|status| status.as_str().into()).collect();
            Clause::OneOf(attribute::STATUS.into(), words)
        }),
    ]
}

/// Changes of a record. Now and then they name an attribute twice, which is refused.
fn changes() -> impl Strategy<Value = Vec<Change>> {
    let each = prop_oneof![
        status().prop_map(|status| set(attribute::STATUS, status.as_str())),
        (0..2_i64).prop_map(|number| set(attribute::GENERATION, number)),
        (0..2_i64).prop_map(|number| set(attribute::ATTEMPTS, number)),
        moment().prop_map(|at| set(attribute::DUE_AT, at)),
        Just(remove(attribute::DUE_AT)),
        Just(remove(attribute::DUE_SHARD)),
        Just(remove(attribute::BODY)),
        Just(set(attribute::LAST_ERROR, "CODE")),
        (1..3_i64).prop_map(|amount| Change::Add(attribute::DUPLICATE_COUNT.into(), amount)),
    ];
    let changes = prop::collection::vec(each, 1..5);
    (changes, prop::bool::weighted(0.1)).prop_map(|(changes, as_drawn)| {
        let named = |change: Change| (change.attribute().to_owned(), change);
        if as_drawn {
            return changes;
        }
        changes.into_iter().map(named).collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop::collection::vec(clause(), 0..3).prop_map(Condition)
}

fn inbox_write() -> impl Strategy<Value = Write> {
    let update = (0..4_usize, changes(), condition()).prop_map(|(number, changes, condition)| Write {
        purpose: Purpose::CountDuplicate,
        table: Table::Inbox,
        key: record_key(number).as_str().into(),
        action: Action::Update(changes),
        condition,
    });
    let put = (claim(), condition()).prop_map(|(write, condition)| Write { condition, ..write });
    prop_oneof![2 => claim(), 1 => put, 4 => update]
}

fn domain_write() -> impl Strategy<Value = Write> {
    let action = prop_oneof![
        (0..3_i64).prop_map(|count| Action::Put(Item::from([("count".to_owned(), count.into())]))),
        Just(Action::Update(vec![Change::Add("count".into(), 1)])),
        Just(Action::Delete),
        Just(Action::Check),
    ];
    let clause = prop_oneof![
        Just(Clause::Absent(PARTITION_KEY.into())),
        Just(Clause::Present(PARTITION_KEY.into())),
        (0..3_i64).prop_map(|count| equals("count", count)),
    ];
    (0..6_usize, action, prop::collection::vec(clause, 0..2)).prop_map(|(number, action, mut clauses)| {
        let item = item(number);
        for clause in &mut clauses {
            // The item exists if an attribute of its key does.
            match clause {
                Clause::Absent(name) | Clause::Present(name) => *name = item.key.attribute().to_owned().into(),
                Clause::Equals(..) | Clause::OneOf(..) | Clause::Differs(..) => {}
            }
        }
        if action == Action::Check && clauses.is_empty() {
            clauses.push(Clause::Present(item.key.attribute().to_owned().into())); // A check of nothing is refused.
        }
        let (table, condition) = (table_of(&item), Condition(clauses));
        Write { purpose: Purpose::DomainWrite, table, key: item.key, action, condition }
    })
}

/// Each item once. DynamoDB refuses a repeated item before anything else, but DynamoDB Local checks the conditions
/// first; `tests/contract` covers the refusal.
fn apart(writes: Vec<Write>) -> Vec<Write> {
    let mut seen = BTreeSet::new();
    writes.into_iter().filter(|write| seen.insert((write.table, write.key.clone()))).collect()
}

fn operation() -> impl Strategy<Value = Operation> {
    let write = prop_oneof![3 => inbox_write(), 2 => domain_write()];
    let spans = (0..SHARDS, moment(), moment());
    prop_oneof![
        6 => inbox_write().prop_map(Operation::Write),
        4 => prop::collection::vec(write, 1..5).prop_map(|writes| Operation::Commit(apart(writes))),
        1 => (0..4_usize).prop_map(Operation::Read),
        1 => prop::collection::vec(0..4_usize, 1..4).prop_map(Operation::ReadEach),
        1 => prop::collection::vec(0..6_usize, 1..6).prop_map(Operation::ReadItems),
        2 => (0..SHARDS, moment()).prop_map(|(shard, until)| Operation::QueryDue { shard, until }),
        1 => spans.prop_map(|(shard, a, b)| Operation::CountReceived { shard, from: a.min(b), until: a.max(b) }),
    ]
}

/// Entries due at the same moment have no order.
fn sorted(mut due: Vec<DueEntry>) -> Vec<DueEntry> {
    due.sort_by(|a, b| (a.due_at, &a.key).cmp(&(b.due_at, &b.key)));
    due
}

fn fake_answer(tables: &mut Tables, operation: &Operation) -> Answer {
    let found =
        |tables: &Tables, number: usize| Found::from_item(tables.get(Table::Inbox, record_key(number).as_str()));
    match operation {
        Operation::Write(write) => Answer::Written(match tables.write(write, NOW) {
            Ok(_) => Written::Applied,
            Err(NotWritten::ConditionFailed(item)) => Written::refused(write, item.as_ref()),
            Err(NotWritten::Invalid) => Written::Invalid,
        }),
        Operation::Commit(writes) => Answer::Committed(tables.commit(writes, NOW).0),
        Operation::Read(number) => Answer::Found(vec![found(tables, *number)]),
        Operation::ReadEach(numbers) => Answer::Found(numbers.iter().map(|number| found(tables, *number)).collect()),
        Operation::ReadItems(numbers) => {
            let read = |number: &usize| {
                let item = item(*number);
                let found = tables.get(table_of(&item), item.key.as_str()).map(stored);
                (item, found)
            };
            Answer::Snapshot(numbers.iter().map(read).collect())
        }
        Operation::QueryDue { shard, until } => {
            Answer::Due(sorted(tables.query_due(&due(*shard, *until), NOW).entries))
        }
        Operation::CountReceived { shard, from, until } => {
            Answer::Count(tables.count_received(*shard, EpochMs(*from), EpochMs(*until)))
        }
    }
}

async fn real_answer(store: &impl Store, operation: &Operation) -> Answer {
    match operation {
        Operation::Write(write) => Answer::Written(store.write(write).await),
        Operation::Commit(writes) => Answer::Committed(store.commit(writes).await),
        Operation::Read(number) => Answer::Found(vec![store.read(&record_key(*number)).await.unwrap()]),
        Operation::ReadEach(numbers) => {
            let keys: Vec<_> = numbers.iter().map(|number| record_key(*number)).collect();
            Answer::Found(store.read_each(&keys).await.into_iter().map(Result::unwrap).collect())
        }
        Operation::ReadItems(numbers) => {
            let items: Vec<_> = numbers.iter().map(|number| item(*number)).collect();
            Answer::Snapshot(store.read_items(&items).await.unwrap())
        }
        Operation::QueryDue { shard, until } => {
            Answer::Due(sorted(store.query_due(&due(*shard, *until)).await.unwrap().entries))
        }
        Operation::CountReceived { shard, from, until } => {
            Answer::Count(store.count_received(*shard, EpochMs(*from), EpochMs(*until)).await.unwrap())
        }
    }
}

/// An item as DynamoDB gives it back: a number of a key in its plain form.
fn stored(item: &Item) -> Item {
    let mut item = item.clone();
    if let Some(Value::Number(order)) = item.get_mut("order") {
        let plain = match order.as_text() {
            "1.0" => "1",
            "-25e-1" => "-2.5",
            other => other,
        };
        *order = Number::from_text(plain.to_owned());
    }
    item
}

/// Runs one sequence on both stores.
async fn stores_agree(stack: &TestStack, operations: &[Operation]) -> Result<(), TestCaseError> {
    let (mut tables, store) = (Tables::default(), stack.store());
    let own = Table::Own(TableAlias::parse(ORDERS).unwrap());
    for table in [Table::Inbox, Table::Domain, own] {
        stack.clear(table).await;
    }
    for (number, operation) in operations.iter().enumerate() {
        let (fake, real) = (fake_answer(&mut tables, operation), real_answer(&store, operation).await);
        prop_assert_eq!(fake, real, "operation {}: {:?}", number, operation);
    }
    for table in [Table::Inbox, Table::Domain, own] {
        let key = |item: &Item| match table {
            Table::Inbox | Table::Domain => item[PARTITION_KEY].as_text().unwrap().to_owned(),
            Table::Own(_) => {
                let part = |(name, _): &(String, Value)| KEY.contains(&name.as_str());
                Key::of(item.clone().into_iter().filter(part).collect()).as_str().to_owned()
            }
        };
        let found: BTreeMap<_, _> = stack.scan(table).await.into_iter().map(|item| (key(&item), item)).collect();
        let kept: BTreeMap<_, _> = tables.items(table).iter().map(|(key, item)| (key.clone(), stored(item))).collect();
        prop_assert!(found == kept, "{:?} holds {:?}, the fake {:?}", table, found, kept);
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum QueueOperation {
    Send,
    SendEach(usize),
    Receive,
    /// Hides the message of a receipt for long, or makes it visible again.
    Hide {
        receipt: usize,
        long: bool,
    },
    Delete {
        receipt: usize,
    },
}

fn queue_operation() -> impl Strategy<Value = QueueOperation> {
    prop_oneof![
        2 => Just(QueueOperation::Send),
        1 => (1..4_usize).prop_map(QueueOperation::SendEach),
        4 => Just(QueueOperation::Receive),
        4 => (0..8_usize, any::<bool>()).prop_map(|(receipt, long)| QueueOperation::Hide { receipt, long }),
        2 => (0..8_usize).prop_map(|receipt| QueueOperation::Delete { receipt }),
    ]
}

/// The latest receipt of each message in flight, from both queues.
type Receipts = BTreeMap<String, (u64, aws_sdk_sqs::types::Message)>;

/// Runs one sequence on both queues.
async fn queues_agree(stack: &TestStack, operations: &[QueueOperation]) -> Result<(), TestCaseError> {
    let shape = QueueShape {
        visibility_timeout: Millis::seconds(360),
        retention: Millis::days(7),
        receives_max: Some(RECEIVES_MAX),
    };
    let (mut fake, queue) = (FakeQueue::new(shape), stack.queue());
    let (mut sent, mut receipts, mut buried) = (0, Receipts::new(), Vec::new());
    for operation in operations {
        match *operation {
            QueueOperation::Send | QueueOperation::SendEach(_) if sent >= 8 => {} // One receive hands out ten.
            QueueOperation::Send | QueueOperation::SendEach(_) => {
                let count = if let QueueOperation::SendEach(count) = operation { *count } else { 1 };
                let messages: Vec<_> = (0..count).map(|at| Message::Ref { pk: record_key(sent + at) }).collect();
                match messages.as_slice() {
                    [one] => prop_assert!(queue.send(one).await.is_ok()),
                    several => prop_assert!(queue.send_each(several).await.iter().all(Result::is_ok)),
                }
                for message in &messages {
                    fake.send(message.encode(None).unwrap(), NOW, NOW);
                }
                sent += count;
            }
            QueueOperation::Receive => {
                received(stack, &mut fake, &mut receipts).await?;
                buried.extend(fake.take_dead().into_iter().map(|(body, _)| body));
            }
            QueueOperation::Hide { receipt, long } => {
                let Some(body) = receipts.keys().nth(receipt).cloned() else { continue };
                let (handle, message) = &receipts[&body];
                let length = Millis::seconds(if long { 900 } else { 0 });
                prop_assert!(queue.hide(HintQueue::Main, message.receipt_handle().unwrap(), length).await.is_ok());
                fake.hide(*handle, length, NOW);
                if !long {
                    receipts.remove(&body); // Visible again: a message that is not in flight cannot be hidden.
                }
            }
            QueueOperation::Delete { receipt } => {
                let Some(body) = receipts.keys().nth(receipt).cloned() else { continue };
                let (handle, message) = receipts.remove(&body).unwrap();
                stack.delete(&[&message]).await;
                fake.delete(handle);
            }
        }
    }
    prop_assert_eq!(stack.messages().await, fake.len() as u64, "remaining messages");
    let dead = stack.receive(&stack.resources.dead_letter_queue).await;
    let mut dead: Vec<_> = dead.iter().map(|message| message.body().unwrap().to_owned()).collect();
    dead.sort();
    buried.sort();
    prop_assert_eq!(dead, buried, "dead letters");
    Ok(())
}

async fn received(stack: &TestStack, fake: &mut FakeQueue, receipts: &mut Receipts) -> Result<(), TestCaseError> {
    let mut real: BTreeMap<_, _> = BTreeMap::new();
    for message in stack.receive(&stack.resources.queue).await {
        let count =
            &message.attributes().unwrap()[&aws_sdk_sqs::types::MessageSystemAttributeName::ApproximateReceiveCount];
        real.insert(message.body().unwrap().to_owned(), (count.parse::<u32>().unwrap(), message));
    }
    let handed: BTreeMap<_, _> =
        fake.receive(NOW, 10, |_| 0).into_iter().map(|receipt| (receipt.body.clone(), receipt)).collect();
    let counts = |body: &String, receives: u32| (body.clone(), receives);
    let seen: Vec<_> = real.iter().map(|(body, (receives, _))| counts(body, *receives)).collect();
    let expected: Vec<_> = handed.iter().map(|(body, receipt)| counts(body, receipt.receives)).collect();
    prop_assert_eq!(seen, expected, "received");
    for (body, (_, message)) in real {
        let handle = handed[&body].handle;
        receipts.insert(body, (handle, message));
    }
    Ok(())
}

/// An environment variable that a person sets for this run.
fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the addresses of other servers belong to the run, not to a stack")]
    std::env::var(name).ok()
}

fn runner(sequences: u32) -> TestRunner {
    let config = Config { cases: sequences, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

fn check<T: std::fmt::Debug>(outcome: Result<(), TestError<T>>, what: &str) {
    if let Err(error) = outcome {
        panic!("{what}: {error}");
    }
}

#[test]
fn fakes_answer_as_servers_do() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sequences = variable("TEST_SEQUENCES").and_then(|text| text.parse().ok()).unwrap_or(SEQUENCES);
    let operations = std::cell::Cell::new(0_usize);
    let (dynamodb, sqs) = urls();
    let key = [(KEY[0], ScalarAttributeType::S), (KEY[1], ScalarAttributeType::N)];
    let stack = runtime.block_on(async { TestStack::new().await.with_table(ORDERS, &key).await });
    let outcome = runner(sequences).run(&prop::collection::vec(operation(), 1..40), |sequence| {
        operations.set(operations.get() + sequence.len());
        runtime.block_on(stores_agree(&stack, &sequence))
    });
    check(outcome, "the store");
    let outcome = runner(sequences / 2).run(&prop::collection::vec(queue_operation(), 1..30), |sequence| {
        operations.set(operations.get() + sequence.len());
        runtime.block_on(async {
            let few = |shape: &mut hookonce_local::tables::StackShape| shape.receive_count_max = RECEIVES_MAX;
            queues_agree(&TestStack::shaped(dynamodb, sqs, few).await, &sequence).await
        })
    });
    check(outcome, "the queue");
    let figures = json!({
        "part": "fakes", "servers": [dynamodb, sqs], "sequences": sequences + sequences / 2,
        "operations": operations.get(), "violations": 0,
    });
    println!("{figures}");
}
