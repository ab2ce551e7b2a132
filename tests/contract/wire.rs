//! Replies that are lost on the wire, so that the SDK itself tries again.

use hookonce_protocol::record::Outcome;
use hookonce_protocol::time::Millis;
use serde_json::Value;

use super::dynamodb;
use crate::support::counting::{count, counted_fact, counting};
use crate::support::stack::urls;
use crate::support::wire::{Fault, Proxy};
use crate::support::{Harness, Script, Verdict, word};

/// A stack whose functions reach the store through a proxy.
async fn behind_a_proxy(total: Millis) -> (Harness, Proxy) {
    let mut harness = Harness::with(counting).await;
    let proxy = Proxy::start(urls().0).await;
    harness.stack.dynamodb = dynamodb(proxy.url(), total);
    (harness, proxy)
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_recognises_itself_in_the_sdks_retry() {
    let (harness, proxy) = behind_a_proxy(Millis::seconds(20)).await;
    proxy.trouble("PutItem", Fault::ReplyLost, 1);
    let outbound = harness.deliver(&count("msg_1", "order-1")).await;
    assert_eq!(word(&outbound), (200, "accepted".to_owned()), "it is no duplicate of itself");
    assert_eq!(proxy.requests("PutItem").len(), 2, "one claim and the SDK's retry");
    assert_eq!(harness.metric("own_retry"), 1);
    assert_eq!(harness.stack.messages().await, 1, "its hint is sent");
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_tried_again_under_the_same_token() {
    let (harness, proxy) = behind_a_proxy(Millis::seconds(20)).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    proxy.trouble("TransactWriteItems", Fault::ReplyLost, 1);
    harness.work().await;
    let tokens: Vec<_> = proxy
        .requests("TransactWriteItems")
        .iter()
        .map(|request| serde_json::from_slice::<Value>(&request.body).unwrap()["ClientRequestToken"].clone())
        .collect();
    assert!(matches!(&tokens[..], [first, second] if first.is_string() && first == second), "{tokens:?}");
    assert_eq!((harness.metric("event_applied"), harness.metric("commit_unknown")), (1, 0));
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
    assert_eq!(tables.record("#msg_1").outcome, Some(Outcome::Applied));
}

#[tokio::test]
async fn a_commit_that_never_gets_a_reply_is_found_by_reading_the_record() {
    let (harness, proxy) = behind_a_proxy(Millis::seconds(20)).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    proxy.trouble("TransactWriteItems", Fault::ReplyLost, 3);
    harness.work().await;
    assert_eq!(proxy.requests("TransactWriteItems").len(), 3, "as often as the SDK may");
    assert_eq!((harness.metric("event_applied"), harness.metric("commit_unknown")), (1, 1));
    assert_eq!(harness.stack.messages().await, 0);
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_store_that_never_answers_costs_no_more_than_the_time_out_of_the_claim() {
    let (mut harness, proxy) = behind_a_proxy(Millis(300)).await;
    proxy.trouble("PutItem", Fault::Swallowed, usize::MAX);
    let webhook = harness.webhook(&Script::none());
    let event = count("msg_1", "order-1").event(&harness.clock);
    let limit = std::time::Duration::from_secs(10);
    let outbound = tokio::time::timeout(limit, webhook.handle(event)).await.expect("it waited for ever");
    assert_eq!(word(&outbound), (503, "store_unavailable".to_owned()));
    harness.stack.dynamodb = dynamodb(urls().0, Millis::seconds(20));
    assert!(harness.tables().await.records.is_empty());
}
