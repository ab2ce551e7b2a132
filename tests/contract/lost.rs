//! Replies that are lost on the wire, so that the SDK itself retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hookonce_protocol::time::Millis;

use crate::contract::dynamodb;
use crate::support::counting::{count, counted_fact, counting};
use crate::support::stack::urls;
use crate::support::wire::{HttpMessage, Injector, Proxy, WireFault};
use crate::support::{Harness, Script, Verdict, word};

/// Injects one fault into every request for one operation, and counts them.
#[derive(Debug)]
struct Injected {
    operation: &'static str,
    fault: WireFault,
    requests: AtomicUsize,
}

impl Injector for Injected {
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        let fault = request.asks_for(self.operation).then_some(self.fault)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(fault)
    }
}

/// A stack whose functions reach the store through a proxy.
async fn behind_a_proxy(total: Millis, operation: &'static str, fault: WireFault) -> (Harness, Arc<Injected>, Proxy) {
    let mut harness = Harness::with(counting).await;
    let injected = Arc::new(Injected { operation, fault, requests: AtomicUsize::new(0) });
    let proxy = Proxy::start(urls().0, &injected).await;
    harness.stack.dynamodb = dynamodb(proxy.url(), total);
    (harness, injected, proxy)
}

#[tokio::test]
async fn a_commit_that_never_gets_a_reply_is_found_by_reading_the_record() {
    let (harness, injected, _proxy) =
        behind_a_proxy(Millis::seconds(20), "TransactWriteItems", WireFault::ReplyLost).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    harness.work().await;
    assert_eq!(injected.requests.load(Ordering::Relaxed), 3, "every attempt that the SDK has");
    assert_eq!((harness.metric("event_applied"), harness.metric("commit_unknown")), (1, 1));
    assert_eq!(harness.stack.messages().await, 0);
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_store_that_never_answers_costs_no_more_than_the_time_out_of_the_claim() {
    let (mut harness, _injected, _proxy) = behind_a_proxy(Millis(300), "PutItem", WireFault::NoReply).await;
    let webhook = harness.webhook(&Script::none());
    let event = count("msg_1", "order-1").event(&harness.clock);
    let limit = std::time::Duration::from_mins(1);
    let outbound = tokio::time::timeout(limit, webhook.handle(event)).await.expect("it must not hang");
    assert_eq!(word(&outbound), (503, "store_unavailable".to_owned()));
    harness.stack.dynamodb = dynamodb(urls().0, Millis::seconds(20));
    assert!(harness.tables().await.records.is_empty());
}
