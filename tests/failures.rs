//! Handlers that fail, records that grow old, versions that do not exist yet.

use hookonce_protocol::call::Written;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::Value;
use hookonce_protocol::message::Message;
use hookonce_protocol::operator;
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status, attribute};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;
use hookonce_protocol::write::Action;
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::batch::BatchResponse;
use hookonce_runtime::port::{Queue as _, Store as _};
use serde_json::json;

use crate::protocol::a_record;
use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::harness::CALL_MAX;
use crate::support::samples::{messaged, whatsapp_message, whatsapp_of};
use crate::support::{Harness, Script, Verdict, word};

#[tokio::test]
async fn a_handler_that_panics_or_fails_harms_no_message_beside_it() {
    let harness = Harness::with(counting).await;
    harness.deliver(&counted("msg_panic", "count.panic", "a")).await;
    harness.deliver(&counted("msg_later", "count.later", "b")).await;
    harness.deliver(&counted("msg_never", "count.never", "c")).await;
    harness.deliver(&counted("msg_panics", "count.panics", "r")).await;
    harness.deliver(&counted("msg_unnamed", "count.once", "")).await;
    harness.deliver(&count("msg_fine", "d")).await;
    assert!(harness.work_under(&Script::none()).await);

    let tables = harness.tables().await;
    let state = |id: &str| {
        let record = tables.record(id);
        (record.status, record.attempts, record.last_error.as_deref())
    };
    assert_eq!(state("#msg_panic"), (Status::Pending, 1, Some("HANDLER_PANICKED")));
    assert_eq!(state("#msg_later"), (Status::Pending, 1, Some("LATER")));
    assert_eq!(state("#msg_panics"), (Status::Pending, 1, Some("HANDLER_PANICKED")));
    assert_eq!(state("#msg_unnamed"), (Status::Dead, 1, Some("FACT_MISSING")));
    assert_eq!(state("#msg_never"), (Status::Dead, 1, Some("NEVER")));
    assert_eq!(state("#msg_fine"), (Status::Processed, 0, None));
    assert_eq!((harness.metric("handler_failed"), harness.metric("event_retried")), (5, 3));
    assert_eq!(harness.stack.messages().await, 3, "only what may succeed stays in the queue");
}

#[tokio::test]
async fn a_handler_that_fails_for_ever_is_given_up_with_its_payload_and_can_be_retried() {
    let harness = Harness::with(counting).await;
    harness.deliver(&counted("msg_1", "count.later", "a")).await;
    harness.settle().await;
    let tables = harness.tables().await;
    let dead = tables.record("#msg_1");
    assert_eq!((dead.status, dead.attempts), (Status::Dead, harness.timing.attempts_max));
    assert_eq!((dead.dead_reason, dead.expires_at), (Some(DeadReason::AttemptsExhausted), None));
    assert!(dead.body.is_some());
    assert_eq!(tables.verdict::<&str>(&[]), Verdict::default().dead(1));

    // A retry is still a duplicate: a provider cannot restart a delivery that was acknowledged.
    let again = harness.deliver(&counted("msg_1", "count.later", "a")).await;
    assert_eq!(word(&again), (200, "duplicate".to_owned()));
    let write = operator::retry(dead, false, &harness.timing, harness.clock.moment()).unwrap();
    assert_eq!(harness.operate(&write).await, Written::Applied);
    assert_eq!(harness.operate(&write).await, Written::Applied, "a second click changes nothing further");
    assert_eq!(harness.relay().await["sent"], 1, "the relay sends, within its budget");
    assert_eq!(harness.tables().await.record("#msg_1").attempts, 0);
}

/// All messages of a burst change the same conversation, so their snapshots go stale.
#[tokio::test]
async fn a_burst_of_messages_in_one_conversation_is_applied_whole() {
    let harness = Harness::new().await;
    let ids: Vec<_> = (0..30).map(|index| format!("m{index}")).collect();
    let message = |(index, id): (usize, &String)| {
        let mut message = whatsapp_message(id);
        message["timestamp"] = json!((1_767_225_029 - index).to_string());
        message
    };
    harness.deliver(&whatsapp_of(ids.iter().enumerate().map(message).collect())).await;
    harness.work().await;
    let most = harness.records().await.values().map(|record| record.attempts).max();
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&ids.iter().map(|id| messaged(id)).collect::<Vec<_>>()), Verdict::applied(30));
    let conversation = "meta_whatsapp#conversation#106540352242922#16505551234";
    assert_eq!(tables.number(conversation, "messages"), 30);
    assert_eq!(tables.number(conversation, "last_message_at"), 1_767_225_029);
    println!("30 messages of one conversation at once: at most {most:?} counted failures");
}

#[tokio::test]
async fn a_delivery_that_waited_too_long_is_dead_until_an_operator_takes_the_risk() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    harness.clock.advance(Millis(harness.timing.commit_age_max.0 + 1));
    harness.work().await;
    let tables = harness.tables().await;
    let dead = tables.record("#msg_1");
    assert_eq!((dead.status, dead.dead_reason), (Status::Dead, Some(DeadReason::Stale)));
    assert!(dead.body.is_some());
    assert_eq!(tables.verdict::<&str>(&[]), Verdict::default().dead(1));

    let moment = harness.clock.moment();
    assert_eq!(operator::retry(dead, false, &harness.timing, moment), Err(operator::Refusal::EffectUnknown));
    let write = operator::retry(dead, true, &harness.timing, moment).unwrap();
    assert_eq!(harness.operate(&write).await, Written::Applied);
    harness.relay().await;
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_payload_that_waited_too_long_in_the_queue_is_kept_dead() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    harness.deliver_under(&Script::store_outage(), &count("msg_1", "a")).await.unwrap();
    harness.clock.advance(Millis(harness.timing.accept_age_max.0 + 1));
    harness.work().await;
    let tables = harness.tables().await;
    let dead = tables.record("#msg_1");
    assert_eq!((dead.status, dead.dead_reason), (Status::Dead, Some(DeadReason::Stale)));
    assert!(dead.body.is_some(), "the message was its only copy");
    assert_eq!(tables.verdict::<&str>(&[]), Verdict::default().dead(1));
}

#[tokio::test]
async fn a_payload_in_the_dead_letter_queue_becomes_a_record_and_a_late_copy_changes_nothing() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    harness.deliver_under(&Script::store_outage(), &count("msg_1", "a")).await.unwrap();
    let (messages, batch) = harness.batch().await.unwrap();
    harness.conclude(messages, Some(BatchResponse::default())).await;
    let payload = &batch.records[0].body;
    let response = harness.bury_under(&Script::none(), payload).await.unwrap();
    assert_eq!(response["batchItemFailures"], json!([]));
    let tables = harness.tables().await;
    let claimed = tables.record("#msg_1");
    assert_eq!((claimed.status, claimed.due.clone().unwrap().at), (Status::Pending, harness.clock.now()));
    assert_eq!(harness.metric("record_dead"), 0, "it was not tried");
    harness.settle().await;
    harness.bury_under(&Script::none(), payload).await.unwrap();
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

#[tokio::test]
async fn waiting_records_never_expire_while_the_relay_runs() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    let first = harness.tables().await.record("#msg_1").expires_at.unwrap();
    for _ in 0..3 {
        harness.lose_hints().await;
        harness.clock.advance(Millis::days(7));
        harness.relay().await;
        let expires_at = harness.tables().await.record("#msg_1").expires_at.unwrap();
        assert_eq!(expires_at, harness.clock.now().plus(harness.timing.delivery_retention).as_seconds());
        assert!(expires_at > first);
    }
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
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
    let buried = json!({ "Records": [{ "messageId": "m", "receiptHandle": "r", "body": hint.encode() }] });
    let buried = harness.relay_on(buried, harness.deadline()).await;
    assert_eq!(buried["batchItemFailures"][0]["itemIdentifier"], "m", "kept in the dead-letter queue, too");
    assert_eq!(harness.stack.scan(write.table).await, untouched);
    assert_eq!(harness.metric("unknown_version"), 4);
}

#[tokio::test]
async fn a_forced_replay_is_one_more_effect_and_a_retry_of_a_processed_record_is_none() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    harness.settle().await;
    let tables = harness.tables().await;
    let record = tables.record("#msg_1");
    let moment = harness.clock.moment();
    assert!(operator::retry(record, true, &harness.timing, moment).is_err());
    let write = operator::force(record, &harness.timing, moment).unwrap();
    assert_eq!(harness.operate(&write).await, Written::Applied);
    assert_eq!(harness.operate(&write).await, Written::Applied, "a repetition finds itself");
    let later = Moment { now: EpochMs(moment.now.0 + 1), ..moment };
    let second = operator::force(record, &harness.timing, later).unwrap();
    assert!(matches!(harness.operate(&second).await, Written::ConditionFailed(_)), "a double click forces once");
    harness.relay().await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[counted_fact("a"), counted_fact("a")]), Verdict::applied(2));
    assert_eq!(tables.number("standard_webhooks#count#a", "applied"), 2);
    assert_eq!(tables.record("#msg_1").outcome, Some(Outcome::Applied));
}

/// During an outage the queue accepted a body, although the store already had another one under that id.
#[tokio::test]
async fn another_body_that_was_taken_during_an_outage_is_told_and_kept_if_the_endpoint_says_so() {
    for (policy, kept) in [("duplicate", 0), ("quarantine", 1)] {
        let harness = Harness::with(counting).await;
        harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
        harness.endpoints.change("standard_webhooks", "on_body_mismatch", policy.into());
        harness.deliver(&count("msg_1", "a")).await;
        harness.settle().await;
        let outbound = harness.deliver_under(&Script::store_outage(), &count("msg_1", "b")).await.unwrap();
        assert_eq!(word(&outbound), (200, "accepted".to_owned()));
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
    let letter =
        |id: &str| json!({ "messageId": id, "receiptHandle": id, "body": Message::Ref { pk: key.clone() }.encode() });
    let batch = json!({ "Records": [letter("dead-1"), letter("dead-2")] });
    let kept = |response: &serde_json::Value| response["batchItemFailures"].as_array().unwrap().len();
    let last = harness.clock.now().plus(Millis(3 * CALL_MAX.0));
    let late = harness.relay_on(batch.clone(), EpochMs(last.0 - 1)).await;
    assert_eq!((kept(&late), harness.tables().await.record("#msg_1").dead_letters), (2, 0));
    let in_time = harness.relay_on(batch, last).await;
    assert_eq!((kept(&in_time), harness.tables().await.record("#msg_1").dead_letters), (0, 2));
}
