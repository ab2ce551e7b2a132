//! Replies that are lost on the wire, so that the SDK itself retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hookonce_protocol::time::Millis;

use crate::contract::dynamodb;
use crate::support::counting::{count, counted_fact, counting};
use crate::support::stack::urls;
use crate::support::wire::{HttpMessage, Injector, Proxy, WireFault};
use crate::support::{Harness, Verdict};

/// Loses the reply to every transaction, and counts them.
#[derive(Debug, Default)]
struct LostCommits(AtomicUsize);

impl Injector for LostCommits {
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        request.is_for("TransactWriteItems").then(|| {
            self.0.fetch_add(1, Ordering::Relaxed);
            WireFault::ReplyLost
        })
    }
}

#[tokio::test]
async fn a_commit_that_never_gets_a_reply_is_found_by_reading_the_record() {
    let mut harness = Harness::with(counting).await;
    let lost = Arc::new(LostCommits::default());
    let proxy = Proxy::start(urls().0, &lost).await;
    harness.stack.dynamodb = dynamodb(proxy.url(), Millis::seconds(20));
    harness.deliver(&count("msg_1", "order-1")).await;
    harness.work().await;
    assert_eq!(lost.0.load(Ordering::Relaxed), 3, "every attempt that the SDK has");
    assert_eq!((harness.metric("event_applied"), harness.metric("commit_unknown")), (1, 1));
    assert_eq!(harness.stack.messages().await, 0);
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}
