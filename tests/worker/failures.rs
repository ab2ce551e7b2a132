//! Handlers that fail, deliveries that the store or the queue cannot take, versions that do not exist yet.

use hookonce_protocol::call::Written;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::Value;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{DeadReason, Record, Status, attribute};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::Action;
use hookonce_runtime::port::{Queue as _, Store as _};
use serde_json::json;

use crate::protocol::a_record;
use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::harness::CALL_MAX;
use crate::support::samples::{messaged, noise, whatsapp};
use crate::support::{Fault, Harness, Operation, Script, Verdict, word};

#[tokio::test]
async fn a_handler_that_panics_or_fails_harms_no_message_beside_it() {
    let harness = Harness::with(counting).await;
    let steps = ["recognise", "domain_key", "reads", "plan"];
    for step in steps {
        harness.deliver(&count(&format!("msg_{step}"), step)).await;
    }
    harness.deliver(&counted("msg_later", "count.later", "b")).await;
    harness.deliver(&counted("msg_never", "count.never", "c")).await;
    harness.deliver(&counted("msg_unnamed", "count.once", "")).await;
    harness.deliver(&count("msg_fine", "d")).await;
    assert!(harness.work_under(&Script::none()).await);

    let tables = harness.tables().await;
    let state = |id: &str| {
        let record = tables.record(id);
        (record.status, record.attempts, record.last_error.as_deref())
    };
    for step in steps {
        assert_eq!(state(&format!("#msg_{step}")), (Status::Pending, 1, Some("HANDLER_PANICKED")), "{step}");
    }
    assert_eq!(state("#msg_later"), (Status::Pending, 1, Some("LATER")));
    assert_eq!(state("#msg_unnamed"), (Status::Dead, 1, Some("FACT_MISSING")));
    assert_eq!(state("#msg_never"), (Status::Dead, 1, Some("NEVER")));
    assert_eq!(state("#msg_fine"), (Status::Processed, 0, None));
    assert_eq!((harness.metric("handler_failed"), harness.metric("event_retried")), (7, 5));
    assert_eq!(harness.stack.messages().await, 5, "only what may succeed stays in the queue");
}

/// A record of a later version is kept, but this version does not act on it.
#[tokio::test]
async fn a_record_of_another_version_is_left_alone_by_everyone() {
    let harness = Harness::with(counting).await;
    let key = "in#standard_webhooks#msg_1";
    let mut write = claim_write(&Record { journal_shard: Some("x".to_owned()), ..a_record(key) });
    let Action::Put(item) = &mut write.action else { panic!("a claim is a put") };
    item.insert(attribute::SCHEMA_VERSION.to_owned(), 2.into());
    item.insert("of_tomorrow".to_owned(), Value::from("kept"));
    item.insert(attribute::DUE_SHARD.to_owned(), "due#0".into());
    assert_eq!(harness.stack.store().write(&write).await, Written::Applied);
    let untouched = harness.stack.scan(write.table).await;

    assert_eq!(word(&harness.deliver(&count("msg_1", "a")).await), (200, "duplicate".to_owned()));
    assert_eq!(harness.stack.messages().await, 0);
    let hint = Message::Ref { pk: hookonce_protocol::key::RecordKey::parse(key).unwrap() };
    harness.stack.queue().send(&hint).await.unwrap();
    let (messages, batch) = harness.batch().await.unwrap();
    let response = Box::pin(harness.worker(&Script::none()).handle(batch, harness.deadline())).await;
    assert_eq!(response.failures.len(), messages.len(), "the message waits for a version that can read it");
    harness.clock.advance(Millis::days(1));
    assert_eq!(harness.relay_on(json!(null), harness.deadline()).await["sent"], 0);
    let buried = harness.bury_under(&Script::none(), &hint.encode(None).unwrap()).await.unwrap();
    assert_eq!(buried["batchItemFailures"][0]["itemIdentifier"], "dead-1", "kept in the dead-letter queue, too");
    assert_eq!(harness.stack.scan(write.table).await, untouched);
    assert_eq!(harness.metric("unknown_version"), 4);
}

/// During an outage the queue accepted a body, although the store already had another one under that id.
#[tokio::test]
async fn another_body_taken_during_an_outage_is_counted_and_kept_by_policy() {
    for (policy, kept) in [("duplicate", 0), ("quarantine", 1)] {
        let harness = Harness::with(counting).await;
        harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
        harness.endpoints.change("standard_webhooks", "on_body_mismatch", policy.into());
        harness.deliver(&count("msg_1", "a")).await;
        harness.settle().await;
        let outbound = harness.deliver_under(&Script::store_outage(), &count("msg_1", "b")).await.unwrap();
        assert_eq!((word(&outbound), harness.metric("fail_open")), ((200, "accepted".to_owned()), 1));
        harness.settle().await;
        let tables = harness.tables().await;
        assert_eq!(tables.verdict(&[counted_fact("a")]), Verdict::applied(1).dead(kept), "{policy}");
        let dead: Vec<_> = tables.records.values().filter_map(|record| record.dead_reason).collect();
        assert_eq!(dead, vec![DeadReason::IdCollision; kept]);
        assert_eq!(harness.metric("body_mismatch"), 1, "{policy}");
    }
}

#[tokio::test]
async fn a_dead_letter_that_nobody_can_read_is_kept_for_a_person() {
    let harness = Harness::with(counting).await;
    for (text, metric) in [("not JSON", "message_malformed"), (r#"{"v":2}"#, "unknown_version")] {
        let response = harness.bury_under(&Script::none(), text).await.unwrap();
        assert_eq!(response["batchItemFailures"], json!([{ "itemIdentifier": "dead-1" }]), "{text}");
        assert_eq!(harness.metric(metric), 1);
    }
    // A batch that cannot be read is refused whole: an empty list of failures would acknowledge all of it.
    let response = harness.relay_on(json!({ "Records": [{ "body": 7 }] }), harness.deadline()).await;
    assert_eq!(response["batchItemFailures"], json!([{ "itemIdentifier": "" }]));
}

/// What the process could not settle before Lambda ends it stays in the queue, and the response says so.
#[tokio::test]
async fn dead_letters_for_which_the_time_does_not_suffice_are_kept() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    let key = harness.tables().await.record("#msg_1").key.clone();
    let letter = |id: &str| json!({ "messageId": id, "receiptHandle": id, "body": Message::Ref { pk: key.clone() }.encode(None) });
    let batch = json!({ "Records": [letter("dead-1"), letter("dead-2")] });
    let kept = |response: &serde_json::Value| response["batchItemFailures"].as_array().unwrap().len();
    let last = harness.clock.now().plus(Millis(4 * CALL_MAX.0));
    let late = harness.relay_on(batch.clone(), EpochMs(last.0 - 1)).await;
    assert_eq!((kept(&late), harness.tables().await.record("#msg_1").dead_letters), (2, 0));
    let in_time = harness.relay_on(batch, last).await;
    assert_eq!((kept(&in_time), harness.tables().await.record("#msg_1").dead_letters), (0, 2));
}

/// The queue's limit for a message is smaller than the store's limit for an item.
#[tokio::test]
async fn a_delivery_too_long_for_the_queue_is_sent_back_while_the_store_is_down() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    let mut delivery = count("msg_1", "order-1");
    let noise: String = noise(250 * 1024).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    delivery.body = format!(r#"{{"type":"count.once","fact":"order-1","noise":"{noise}"}}"#).into_bytes();
    let outbound = harness.deliver_under(&Script::store_outage(), &delivery).await.unwrap();
    assert_eq!(word(&outbound), (503, "store_unavailable".to_owned()));
    assert_eq!(harness.stack.messages().await, 0);
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()), "the store accepts it");
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn an_event_that_fits_into_no_item_makes_its_envelope_dead_and_not_its_siblings() {
    let harness = Harness::new().await;
    harness.deliver(&whatsapp(&["wamid.1", "wamid.2"])).await;
    harness.work_under(&Script::on(Operation::Put, 1, Fault::Invalid)).await;
    let records = harness.records().await;
    let envelope = records.values().find(|record| record.status == Status::Dead).expect("the envelope");
    assert_eq!(envelope.dead_reason, Some(DeadReason::Permanent));
    assert_eq!(envelope.last_error.as_deref(), Some("WRITE_INVALID"));
    assert!(envelope.body.is_some(), "it keeps the event");
    assert_eq!((harness.metric("write_invalid"), harness.metric("record_dead")), (1, 1));
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[messaged("wamid.1")]), Verdict::applied(1).dead(1));
}

#[tokio::test]
async fn a_claim_that_can_never_be_carried_out_is_not_acknowledged() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    let script = Script::every(Operation::Put, Fault::Invalid);
    let outbound = harness.deliver_under(&script, &count("msg_1", "a")).await.unwrap();
    assert_eq!(word(&outbound), (503, "store_unavailable".to_owned()));
    assert_eq!((harness.metric("write_invalid"), harness.stack.messages().await), (1, 0));
    harness.deliver(&count("msg_1", "a")).await;
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}
