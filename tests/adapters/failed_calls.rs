//! What the adapters log. A caller only learns that a call failed; why, is in the log, and nowhere else.

use futures::future::{BoxFuture, FutureExt as _};
use hookonce_aws::{AccountCaller, IndexQuery, SqsQueue};
use hookonce_protocol::call::{DueQuery, DueState};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{attribute, set};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::{Action, Condition, Table, Write};
use hookonce_runtime::destinations::Caller as _;
use hookonce_runtime::port::{Queue as _, Store as _};
use serde_json::{Value, json};

use super::hand_overs::{function, plain, queue};
use super::{AMPLE, STORE, answering, claim, denied, on_the_wire, refusal, store_at};
use crate::clients::{config_at, sqs};
use crate::fixtures::MOMENT;
use crate::logs::{Logs, listen};
use crate::scripted::{Reaction, ScriptedServer};

/// What is logged during a call, line by line.
async fn logged<T>(call: impl Future<Output = T>) -> Vec<Value> {
    listen();
    let logs = Logs::catch("info");
    call.await;
    logs.take().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn update() -> Write {
    let action = Action::Update(vec![set(attribute::LAST_SEEN_AT, 1)]);
    Write { purpose: Purpose::CountDuplicate, action, condition: Condition::none(), ..claim() }
}

#[tokio::test]
async fn a_failed_call_is_logged_once_with_its_operation_and_its_cause() {
    let server = ScriptedServer::start(|_, _| denied()).await;
    let (alias, keys) = (TableAlias::parse("orders").unwrap(), [RecordKey::parse("in#shop#evt_1").unwrap()]);
    let store = store_at(&server, AMPLE).with_tables([(alias, "prod-orders".to_owned())]);
    let queue = SqsQueue::new(sqs(server.url(), AMPLE), format!("{}/1/hints", server.url()));
    let due = DueQuery { state: DueState::Pending, shard: 3, until: EpochMs(9), after: None, limit: 100 };
    let index = IndexQuery::due("dead#3".to_owned());
    let (claim, update, hint) = (claim(), update(), Message::Ref { pk: keys[0].clone() });
    // A transaction names each purpose once.
    let three = [claim.clone(), claim.clone(), update.clone()];
    let calls: Vec<(&str, &str, BoxFuture<'_, ()>)> = vec![
        ("PutItem", "claim", store.write(&claim).map(drop).boxed()),
        ("UpdateItem", "count duplicate", store.write(&update).map(drop).boxed()),
        ("TransactWriteItems", "claim, count duplicate", store.commit(&three).map(drop).boxed()),
        ("GetItem", "", store.read(&keys[0]).map(drop).boxed()),
        ("BatchGetItem", "", store.read_each(&keys).map(drop).boxed()),
        ("Query", "", store.query_due(&due).map(drop).boxed()),
        ("Query", "", store.count_received(3, EpochMs(0), EpochMs(0)).map(drop).boxed()),
        ("Query", "", store.index_page(&index, None, 10).map(drop).boxed()),
        ("Query", "", store.index_count(&index).map(drop).boxed()),
        ("Scan", "", store.scan(Table::Inbox).map(drop).boxed()),
        ("Scan", "", store.scan_page(Table::Inbox, "", &[], None, 10).map(drop).boxed()),
        ("DescribeTable", "", store.table_size(Table::Inbox).map(drop).boxed()),
        ("DescribeTable", "prod-orders", store.key_schema(alias, &[]).map(drop).boxed()),
        ("opening the DynamoDB connection failed", "", store.warm_up().boxed()),
        ("SendMessage", "", queue.send(&hint).map(drop).boxed()),
        ("SendMessageBatch", "", queue.send_each(std::slice::from_ref(&hint)).map(drop).boxed()),
        ("ChangeMessageVisibility", "", queue.hide(HintQueue::Main, "receipt", Millis(0)).map(drop).boxed()),
        ("opening the SQS connection failed", "", queue.warm_up().boxed()),
    ];
    for (name, about, call) in calls {
        let lines = logged(call).await;
        let [line] = &lines[..] else { panic!("{name}: {lines:?}") };
        let logged_name = line["operation"].as_str().or(line["message"].as_str()).unwrap();
        let which = line["write.purpose"].as_str().or(line["table"].as_str()).unwrap_or_default();
        assert_eq!((logged_name, which), (name, about), "{line}");
        assert!(line["error"].as_str().unwrap().contains("AccessDeniedException"), "{line}");
    }
}

#[tokio::test]
async fn a_transaction_that_can_never_succeed_names_the_write_that_is_wrong() {
    let reasons = json!([
        { "Code": "None" },
        { "Code": "ValidationError", "Message": "too large" },
        { "Code": "ConditionalCheckFailed", "Message": "not so" },
    ]);
    let body = json!({ "__type": format!("{STORE}#TransactionCanceledException"), "CancellationReasons": reasons });
    let server = ScriptedServer::start(move |_, _| (400, body.to_string())).await;
    let lines = logged(store_at(&server, AMPLE).commit(&[claim(), update(), claim()])).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&line["write.purpose"], &line["error"]), (&json!("count duplicate"), &json!("too large")));

    let server = answering([refusal(STORE, "ValidationException")]).await;
    let lines = logged(store_at(&server, AMPLE).commit(&[claim()])).await;
    assert_eq!((lines.len(), &lines[0]["operation"]), (1, &json!("TransactWriteItems")));
}

/// Nothing else shows that a reply was lost.
#[tokio::test]
async fn a_write_that_meets_itself_is_logged_and_one_that_meets_another_is_not() {
    let claim = claim();
    let Action::Put(own) = &claim.action else { panic!("a claim is a put") };
    let mut another = own.clone();
    another.insert(attribute::CLAIM_ID.to_owned(), "another".into());
    for (item, lines) in [(own, 1), (&another, 0)] {
        let item = on_the_wire(claim.key.as_str(), item);
        let body = json!({ "__type": format!("{STORE}#ConditionalCheckFailedException"), "Item": item });
        let server = ScriptedServer::start(move |_, _| (400, body.to_string())).await;
        let printed = logged(store_at(&server, AMPLE).write(&claim)).await;
        assert_eq!(printed.len(), lines, "{printed:?}");
        assert!(printed.iter().all(|line| line["write.purpose"] == json!("claim")), "{printed:?}");
    }
}

#[tokio::test]
async fn a_hand_over_that_was_not_taken_names_its_destination_and_the_error() {
    let (jobs, plan) = (queue("jobs", &json!({})), function("plan", &json!({})));
    let refused = Reaction::from((400, r#"{"__type": "com.amazonaws.sqs#KmsDisabled", "message": "LEAKMENOT"}"#));
    let page = Reaction::from((404, "LEAKMENOT"));
    for (destination, reaction, expected) in [
        (&jobs, refused, Some(("code", json!("KmsDisabled")))),
        (&jobs, (200, r#"{"MessageId": "1"}"#).into(), None),
        (&plan, page, Some(("status", json!(404)))),
        (&plan, (202, "").into(), None),
        (&plan, Reaction::Close, Some(("message", json!("a hand-over has no answer")))),
    ] {
        let server = ScriptedServer::start(move |_, _| reaction.clone()).await;
        let caller = AccountCaller::new(&config_at(server.url()));
        let lines = logged(caller.call(destination, &plain(), MOMENT)).await;
        assert_eq!(lines.len(), usize::from(expected.is_some()), "{lines:?}");
        for (line, (field, value)) in lines.iter().zip(expected) {
            assert_eq!((&line[field], &line["destination.id"]), (&value, &json!("receipts")), "{line}");
            assert!(!line.to_string().contains("LEAKMENOT"), "it does not repeat the answer: {line}");
        }
    }
}
