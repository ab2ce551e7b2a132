//! Messages with a payload that the webhook function did not make, in a queue or handed to a function directly.

use hookonce_protocol::message::{Message, MessageError, MessageKey};
use hookonce_protocol::time::Millis;
use hookonce_runtime::documents::{DocumentKind, MESSAGE_KEY_ID};
use hookonce_runtime::inbox::batch::Batch;
use hookonce_runtime::inbox::message_key::MessageKeys;
use serde_json::{Value, json};

use crate::protocol::a_claim;
use crate::support::counting::{count, counted_fact, counting};
use crate::support::stack::MESSAGE_KEY;
use crate::support::{Harness, Script, Verdict, word};

/// A stack whose endpoint puts deliveries into the queue while the tables are down.
async fn enqueuing() -> Harness {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    harness
}

/// What somebody writes who knows every field of a claim, and not the key: sealed with a key of theirs, and not at all.
fn forgeries() -> [String; 3] {
    let message = Message::Full(Box::new(a_claim("in#standard_webhooks#msg_forged")));
    let sealed = message.encode(Some(&MessageKey::new([8; 32]))).unwrap();
    let fields: Value = serde_json::from_str(&sealed).unwrap();
    let claim = fields["claim"].as_str().unwrap();
    let mut inline: Value = serde_json::from_str(claim).unwrap();
    inline["v"] = 1.into();
    inline["k"] = "full".into();
    [sealed.clone(), inline.to_string(), json!({ "v": 1, "k": "full", "claim": claim }).to_string()]
}

/// An event of the queue, as whoever may invoke the function hands it over.
fn invocation(text: &str) -> Batch {
    serde_json::from_value(json!({ "Records": [{ "messageId": "m", "receiptHandle": "r", "body": text }] })).unwrap()
}

#[tokio::test]
async fn a_forged_delivery_makes_no_record_through_the_queue_nor_by_an_invocation() {
    let harness = enqueuing().await;
    for (made, forged) in forgeries().into_iter().enumerate() {
        let queue = &harness.stack.resources.queue.url;
        harness.stack.sqs.send_message().queue_url(queue).message_body(&forged).send().await.unwrap();
        let (messages, batch) = harness.batch().await.unwrap();
        let response = Box::pin(harness.worker(&Script::none()).handle(batch, harness.deadline())).await;
        assert_eq!(response.failures.len(), 1, "it stays in the queue, and ends in the dead-letter queue");
        harness.stack.delete(&messages.iter().collect::<Vec<_>>()).await;
        let invoked = Box::pin(harness.worker(&Script::none()).handle(invocation(&forged), harness.deadline())).await;
        assert_eq!(invoked.failures.len(), 1);
        let dispatcher = harness.dispatcher(&Script::none());
        let dispatched = Box::pin(dispatcher.handle(invocation(&forged), harness.deadline())).await;
        assert_eq!(dispatched.failures.len(), 1);
        assert!(harness.records().await.is_empty(), "{forged}");
        assert_eq!(harness.metric("message_forged"), 2 * (i64::try_from(made).unwrap() + 1));
    }
}

#[tokio::test]
async fn a_forged_delivery_in_the_dead_letter_queue_is_claimed_by_nobody_and_kept_for_a_person() {
    let harness = enqueuing().await;
    for forged in forgeries() {
        let response = harness.bury_under(&Script::none(), &forged).await.unwrap();
        assert_eq!(response["batchItemFailures"], json!([{ "itemIdentifier": "dead-1" }]), "{forged}");
        assert!(harness.records().await.is_empty(), "{forged}");
    }
    assert_eq!(harness.metric("message_forged"), 3);
}

/// Of the worker and of the relay alike.
#[tokio::test]
async fn what_the_webhook_function_sealed_is_claimed() {
    for buried in [false, true] {
        let harness = enqueuing().await;
        let answer = harness.deliver_under(&Script::store_outage(), &count("msg_1", "a")).await.unwrap();
        assert_eq!(word(&answer), (200, "accepted".to_owned()));
        if buried {
            let (messages, _) = harness.batch().await.unwrap();
            harness.bury_under(&Script::none(), messages[0].body().unwrap()).await.unwrap();
            harness.stack.delete(&messages.iter().collect::<Vec<_>>()).await;
        }
        harness.settle().await;
        assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1), "{buried}");
        assert_eq!(harness.metric("message_forged"), 0);
    }
}

#[tokio::test]
async fn without_the_key_nothing_is_acknowledged_and_nothing_is_lost() {
    let mut harness = enqueuing().await;
    harness.keys = MessageKeys::none();
    let answer = harness.deliver_under(&Script::store_outage(), &count("msg_1", "a")).await.unwrap();
    assert_eq!(word(&answer), (503, "store_unavailable".to_owned()));
    assert_eq!(harness.stack.messages().await, 0, "nobody could verify it");
    harness.keys = MessageKeys::fixed(MESSAGE_KEY);
    harness.deliver_under(&Script::store_outage(), &count("msg_1", "a")).await.unwrap();
    harness.keys = MessageKeys::none();
    assert!(harness.work_under(&Script::none()).await);
    let text = Message::Full(Box::new(a_claim("in#standard_webhooks#msg_2"))).encode(Some(&MESSAGE_KEY)).unwrap();
    let response = harness.bury_under(&Script::none(), &text).await.unwrap();
    assert_eq!(response["batchItemFailures"], json!([{ "itemIdentifier": "dead-1" }]));
    assert_eq!((harness.metric("message_unverified"), harness.records().await.len()), (2, 0));
    harness.keys = MessageKeys::fixed(MESSAGE_KEY);
    harness.clock.advance(Millis::minutes(1));
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

/// While the tables are down, what keeps the key may be down, too.
#[tokio::test]
async fn the_key_is_read_ahead_of_an_outage_once_and_only_for_an_endpoint_that_needs_it() {
    let mut harness = Harness::with(counting).await;
    let documents = harness.endpoints.and_of(DocumentKind::Key);
    documents.put(MESSAGE_KEY_ID, MESSAGE_KEY.to_text());
    harness.keys = MessageKeys::new(documents.source());
    harness.deliver(&count("msg_1", "a")).await;
    assert_eq!(documents.reads(), 0);
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    for id in ["msg_2", "msg_3"] {
        harness.deliver(&count(id, id)).await;
        assert_eq!(documents.reads(), 1);
    }
}

/// Hints are believed by nobody, so they need no key.
#[test]
fn a_hint_needs_no_key() {
    let hint = r#"{"v":1,"k":"ref","pk":"in#a#x"}"#;
    assert_eq!(Message::decode(hint, None), Message::decode(hint, Some(&MESSAGE_KEY)));
    assert_ne!(Message::decode(hint, None), Err(MessageError::Unverified));
}
