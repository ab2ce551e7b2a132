//! Replies that are lost on the wire, so that the SDK itself retries.

use std::sync::{Arc, Mutex};

use hookonce_protocol::record::Outcome;
use hookonce_protocol::time::Millis;
use serde_json::Value;

use crate::contract::dynamodb;
use crate::support::counting::{count, counted_fact, counting};
use crate::support::stack::urls;
use crate::support::wire::{HttpMessage, Injector, ProxiedRequest, Proxy};
use crate::support::{Fault, Harness, Script, Verdict, word};

/// Injects one fault into the next requests for one operation, and records every request.
#[derive(Debug, Default)]
struct Injected {
    next: Mutex<Option<(&'static str, Fault, usize)>>,
    requests: Mutex<Vec<HttpMessage>>,
}

impl Injected {
    /// Injects the fault into the next requests for an operation.
    fn inject(&self, operation: &'static str, fault: Fault, times: usize) {
        *self.next.lock().unwrap() = Some((operation, fault, times));
    }

    /// The requests for an operation so far.
    fn requests(&self, operation: &str) -> Vec<HttpMessage> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.asks_for(operation)).cloned().collect()
    }
}

impl Injector for Injected {
    async fn fault(&self, request: &HttpMessage) -> Option<Fault> {
        self.requests.lock().unwrap().push(request.clone());
        let mut next = self.next.lock().unwrap();
        let (_, fault, times) = next.as_mut().filter(|(operation, ..)| request.asks_for(operation))?;
        *times = times.checked_sub(1)?;
        Some(*fault)
    }

    fn postpone(&self, _: ProxiedRequest) {
        unreachable!("no fault here is late");
    }

    fn kill(&self) {
        unreachable!("no fault here is a crash");
    }
}

/// A stack whose functions reach the store through a proxy.
async fn behind_a_proxy(total: Millis) -> (Harness, Arc<Injected>, Proxy) {
    let (mut harness, injected) = (Harness::with(counting).await, Arc::default());
    let proxy = Proxy::start(urls().0, &injected).await;
    harness.stack.dynamodb = dynamodb(proxy.url(), total);
    (harness, injected, proxy)
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_recognises_itself_in_the_sdks_retry() {
    let (harness, injected, _proxy) = behind_a_proxy(Millis::seconds(20)).await;
    injected.inject("PutItem", Fault::ReplyLost, 1);
    let outbound = harness.deliver(&count("msg_1", "order-1")).await;
    assert_eq!(word(&outbound), (200, "accepted".to_owned()), "a retry is no duplicate of its own claim");
    assert_eq!(injected.requests("PutItem").len(), 2, "one claim and the SDK's retry");
    assert_eq!(harness.stack.messages().await, 1, "its hint is sent");
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_tried_again_under_the_same_token() {
    let (harness, injected, _proxy) = behind_a_proxy(Millis::seconds(20)).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    injected.inject("TransactWriteItems", Fault::ReplyLost, 1);
    harness.work().await;
    let tokens: Vec<_> = injected
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
    let (harness, injected, _proxy) = behind_a_proxy(Millis::seconds(20)).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    injected.inject("TransactWriteItems", Fault::ReplyLost, 3);
    harness.work().await;
    assert_eq!(injected.requests("TransactWriteItems").len(), 3, "every attempt that the SDK has");
    assert_eq!((harness.metric("event_applied"), harness.metric("commit_unknown")), (1, 1));
    assert_eq!(harness.stack.messages().await, 0);
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_store_that_never_answers_costs_no_more_than_the_time_out_of_the_claim() {
    let (mut harness, injected, _proxy) = behind_a_proxy(Millis(300)).await;
    injected.inject("PutItem", Fault::NoReply, usize::MAX);
    let webhook = harness.webhook(&Script::none());
    let event = count("msg_1", "order-1").event(&harness.clock);
    let limit = std::time::Duration::from_mins(1);
    let outbound = tokio::time::timeout(limit, webhook.handle(event)).await.expect("it must not hang");
    assert_eq!(word(&outbound), (503, "store_unavailable".to_owned()));
    harness.stack.dynamodb = dynamodb(urls().0, Millis::seconds(20));
    assert!(harness.tables().await.records.is_empty());
}

#[tokio::test]
async fn a_claim_that_meets_a_transaction_reads_the_record_and_is_made_again() {
    let (harness, injected, _proxy) = behind_a_proxy(Millis::seconds(20)).await;
    injected.inject("PutItem", Fault::Conflict, 1);
    let outbound = harness.deliver(&count("msg_1", "order-1")).await;
    assert_eq!(word(&outbound), (200, "accepted".to_owned()), "a transaction on the item is no outage");
    let requests = ["PutItem", "GetItem"].map(|operation| injected.requests(operation).len());
    assert_eq!(requests, [2, 1], "a claim, a read, and the claim again");
    assert_eq!(harness.metric("claim_conflict"), 1);

    injected.inject("PutItem", Fault::Conflict, 1);
    let outbound = harness.deliver(&count("msg_1", "order-1")).await;
    assert_eq!(word(&outbound), (200, "duplicate".to_owned()), "the record is there");
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}
