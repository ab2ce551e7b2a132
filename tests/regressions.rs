//! Four ways in which other systems lose or double deliveries, as regression tests.

use hookonce_protocol::record::{Outcome, Status};
use hookonce_protocol::time::Millis;

use crate::support::counting::{count, counted_fact, counting};
use crate::support::samples::noise;
use crate::support::{CommitInFlight, Fault, Gate, Harness, Operation, Script, Verdict, word};

#[tokio::test]
async fn two_retries_race_eighteen_seconds_apart_around_a_slow_handler() {
    let harness = Harness::with(counting).await;
    let delivery = count("msg_1", "order-1");
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()));

    // The handler of the first copy is slow: it has not committed when the provider gives up and retries.
    let slow = CommitInFlight::start(&harness).await;
    for _ in 0..2 {
        harness.clock.advance(Millis::seconds(18));
        assert_eq!(word(&harness.deliver(&delivery).await), (200, "duplicate".to_owned()));
    }
    assert_eq!(harness.stack.messages().await, 1, "a retry sends nothing");

    // The relay sends the record again, as if it were forgotten, and a second worker overtakes the first.
    harness.clock.advance(harness.timing.first_resend);
    assert_eq!(harness.relay().await["sent"], 1);
    harness.work().await;
    assert_eq!(harness.tables().await.record("#msg_1").status, Status::Processed);
    assert!(slow.land(&harness).await, "the overtaken copy acknowledges its message");

    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
    assert_eq!(harness.metric("event_applied"), 1);
}

#[tokio::test]
async fn a_race_between_check_and_set_has_one_winner_and_a_failed_handler_clears_no_mark() {
    let harness = Harness::with(counting).await;
    let delivery = count("msg_1", "order-1");

    // Both copies are past the point where a check would have found nothing; the second writes first.
    let gate = Gate::default();
    let late = Script::held(Operation::Put, &gate);
    let (late, early) = tokio::join!(harness.deliver_under(&late, &delivery), async {
        gate.reached().await;
        let early = harness.deliver(&delivery).await;
        gate.open();
        early
    });
    assert_eq!(word(&early), (200, "accepted".to_owned()));
    assert_eq!(word(&late.unwrap()), (200, "duplicate".to_owned()));

    // The commit fails. Another system would now clear its mark, and let a retry in before the next attempt.
    harness.work_under(&Script::on(Operation::Commit, 0, Fault::Refused)).await;
    assert_eq!(harness.tables().await.record("#msg_1").status, Status::Pending);
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "duplicate".to_owned()));
    assert_eq!(harness.stack.messages().await, 1, "a retry sends nothing");

    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
    assert_eq!(tables.record("#msg_1").outcome, Some(Outcome::Applied));
}

#[tokio::test]
async fn a_crash_between_dedup_and_enqueue_is_repaired_by_the_relay_whether_the_provider_retries_or_not() {
    for retries in [false, true] {
        let harness = Harness::with(counting).await;
        let delivery = count("msg_1", "order-1");
        let crash = Script::on(Operation::Send, 0, Fault::CrashBefore);
        assert!(harness.deliver_under(&crash, &delivery).await.is_none(), "the provider hears nothing");
        if retries {
            assert_eq!(word(&harness.deliver(&delivery).await), (200, "duplicate".to_owned()));
            assert_eq!(harness.stack.messages().await, 0, "only the relay sends again");
        }
        harness.clock.advance(Millis(harness.timing.first_resend.0 - 1));
        assert_eq!(harness.relay().await["sent"], 0, "the first re-send is due in a millisecond");
        harness.clock.advance(Millis(1));
        assert_eq!(harness.relay().await["sent"], 1);
        harness.work().await;
        let tables = harness.tables().await;
        assert_eq!(tables.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
        assert_eq!(tables.record("#msg_1").resends, 1);
    }
}

#[tokio::test]
async fn a_delivery_while_the_store_is_down_is_taken_by_the_queue_and_applied_once() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    let delivery = count("msg_1", "order-1");
    let outbound = harness.deliver_under(&Script::store_outage(), &delivery).await.unwrap();
    assert_eq!(word(&outbound), (200, "accepted".to_owned()));
    assert_eq!(harness.metric("fail_open"), 1);
    assert!(harness.tables().await.records.is_empty(), "the message is the only copy");

    // While the outage lasts, the worker must not acknowledge that copy.
    harness.work_under(&Script::store_outage()).await;
    assert_eq!(harness.stack.messages().await, 1);

    // The provider received 200 and retries anyway; by now the store is back.
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()));
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

#[tokio::test]
async fn a_delivery_that_the_store_took_without_a_word_is_applied_once_although_the_queue_took_it_too() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    let silent = Script::on(Operation::Put, 0, Fault::ReplyLost);
    let outbound = harness.deliver_under(&silent, &count("msg_1", "order-1")).await.unwrap();
    assert_eq!(word(&outbound), (200, "accepted".to_owned()));
    assert_eq!(harness.tables().await.records.len(), 1, "record and message both exist");

    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
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
