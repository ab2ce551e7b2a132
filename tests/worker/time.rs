//! A death is told when it is written, a batch ends before its process is killed, and a panic counts as an attempt.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::record::{Outcome, Status};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::panics_at;
use hookonce_runtime::deadline::end_of_invocation;
use hookonce_runtime::inbox::process::DEADLINE_MARGIN;
use serde_json::{Value, json};

use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::logs::Logs;
use crate::support::samples::{noise, whatsapp};
use crate::support::{Delivery, Fault, Gate, Harness, Operation, Script, Verdict, hang_until};
use crate::worker::batches::another_text;

#[tokio::test]
async fn a_death_is_logged_while_a_sibling_hangs() {
    let harness = Harness::with(counting).await;
    harness.deliver(&counted("msg_dies", "count.never", "a")).await;
    harness.deliver(&count("msg_hangs", "b")).await;
    let log = log_while_held(&harness, Operation::Commit).await;
    assert!(log.contains("in#standard_webhooks#msg_dies") && log.contains("PERMANENT"), "{log}");
}

/// The put of a quarantined body is met but once: whoever receives its message again finds it done, and would log
/// nothing.
#[tokio::test]
async fn a_quarantined_event_of_a_batch_is_logged_under_its_own_key_while_the_hints_of_its_siblings_hang() {
    let harness = another_text().await;
    assert_a_held_worker_logs(&harness, Operation::SendEach, "wamid.a").await;
}

#[tokio::test]
async fn a_quarantined_delivery_is_logged_under_its_own_key_while_the_record_of_its_id_hangs() {
    let harness = Harness::with(counting).await;
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    harness.endpoints.change("standard_webhooks", "on_body_mismatch", "quarantine".into());
    harness.deliver(&count("msg_1", "a")).await;
    let _hint_in_flight = harness.batch().await.unwrap();
    harness.deliver_under(&Script::store_outage(), &count("msg_1", "b")).await.unwrap();
    assert_a_held_worker_logs(&harness, Operation::Commit, "msg_1").await;
}

/// The log of a worker that is killed while a call is held, once it has counted a death.
async fn log_while_held(harness: &Harness, held: Operation) -> String {
    let (_, batch) = harness.batch().await.unwrap();
    let logs = Logs::catch("warn");
    let worker = harness.worker(&Script::held(held, &Gate::default()));
    hang_until(worker.handle(batch, harness.deadline()), async || harness.metric("record_dead") == 1).await;
    logs.take()
}

/// The death and the mismatch are logged while a call is held, each with its record.
async fn assert_a_held_worker_logs(harness: &Harness, held: Operation, id: &str) {
    let log = log_while_held(harness, held).await;
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let keys = |message: &str| -> Vec<_> {
        let lines = entries.iter().filter(|line| line["message"].as_str().unwrap().starts_with(message));
        lines.map(|line| line["record.key"].as_str().unwrap().rsplit_once(id).unwrap().1).collect()
    };
    assert_eq!(keys("a record died"), ["#alt#1"], "{entries:?}");
    assert_eq!(keys("another body came"), [""], "{entries:?}");
}

#[test]
fn a_deadline_that_is_over_counts_as_a_length() {
    let now = EpochMs(1_700_000_000_000);
    for (named, end) in [
        (1_700_000_030_000, EpochMs(1_700_000_030_000)),
        (600_000, now.plus(Millis::minutes(10))),
        (u64::MAX, EpochMs(i64::MAX)),
    ] {
        assert_eq!(end_of_invocation(named, now), end, "{named}");
    }
}

#[tokio::test]
async fn a_batch_without_time_is_handed_back_untouched() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    let (messages, batch) = harness.batch().await.unwrap();
    let script = Script::none();
    let response = Box::pin(harness.worker(&script).handle(batch, harness.clock.now().plus(DEADLINE_MARGIN))).await;
    assert_eq!(response.failures.len(), 1);
    assert_eq!(script.count(Operation::Commit), 0);
    assert_eq!(harness.metric("message_out_of_time"), 1);
    harness.conclude(messages, Some(response)).await;
    assert_eq!(harness.tables().await.record("#msg_1").attempts, 0, "it is no attempt");
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

#[tokio::test]
async fn what_hangs_is_dropped_before_the_deadline_and_its_siblings_are_acknowledged() {
    let harness = Harness::with(counting).await;
    harness.deliver(&counted("msg_dies", "count.never", "a")).await;
    harness.deliver(&count("msg_hangs", "b")).await;
    let (messages, batch) = harness.batch().await.unwrap();
    let gate = Gate::default();
    let worker = harness.worker(&Script::held(Operation::Commit, &gate));
    let deadline = harness.clock.now().plus(Millis(DEADLINE_MARGIN.0 + 1_500));
    let response = tokio::time::timeout(Duration::from_secs(20), Box::pin(worker.handle(batch, deadline))).await;
    let response = response.expect("it ends before its deadline");
    assert_eq!((response.failures.len(), harness.metric("message_out_of_time")), (1, 1));
    harness.conclude(messages, Some(response)).await;
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("b")]), Verdict::applied(1).dead(1));
}

/// DynamoDB may read some of the records of a batch and leave the others for later (`UnprocessedKeys`).
#[tokio::test]
async fn a_record_that_the_read_of_its_batch_left_out_is_read_alone() {
    let harness = Harness::with(counting).await;
    for id in ["msg_1", "msg_2", "msg_3"] {
        harness.deliver(&count(id, id)).await;
    }
    let (_, batch) = harness.batch().await.unwrap();
    let script = Script::on(Operation::ReadEach, 0, Fault::Partial);
    let response = Box::pin(harness.worker(&script).handle(batch, harness.deadline())).await;
    assert_eq!((response.failures.len(), harness.metric("event_applied")), (0, 3));
    assert_eq!(script.count(Operation::Read), 2);
}

/// An envelope with so many events and so many bytes that do not compress around each of them.
fn envelope(id: &str, events: usize, around: usize) -> Delivery {
    let messages: Vec<_> = (0..events).map(|number| json!({ "id": format!("wamid.{id}.{number}") })).collect();
    let entry = json!([{ "changes": [{ "value": { "messages": messages } }] }]);
    Delivery::new("meta_whatsapp", json!({ "around": STANDARD.encode(noise(around)), "entry": entry }).to_string())
}

/// How many of four such envelopes are fanned out at the moment when the first one looks for its events.
async fn fanned_out_at_once(events: usize, around: usize) -> usize {
    let harness = Harness::new().await;
    for id in ["a", "b", "c", "d"] {
        assert_eq!(harness.deliver(&envelope(id, events, around)).await.status_code, 200);
    }
    let (messages, batch) = harness.batch().await.unwrap();
    assert_eq!(messages.len(), 4);
    let gate = Gate::default();
    let script = Script::held(Operation::ReadHeads, &gate);
    let worker = harness.worker(&script);
    let at_once = async {
        gate.reached().await;
        let at_once = script.count(Operation::ReadHeads);
        gate.open();
        at_once
    };
    let (response, at_once) = tokio::join!(Box::pin(worker.handle(batch, harness.deadline())), at_once);
    assert_eq!((response.failures.len(), harness.metric("envelope_fanned_out")), (0, 4));
    assert_eq!(script.count(Operation::Put), 4 * events, "each event got its record");
    at_once
}

/// Ten messages share the memory of one process.
#[tokio::test]
async fn of_envelopes_whose_events_are_large_three_are_fanned_out_at_once() {
    assert_eq!(fanned_out_at_once(20, 280_000).await, 3, "5.6 MB for each");
    assert_eq!(fanned_out_at_once(3, 10_000).await, 4, "small ones side by side");
}

/// A fault in the code that takes a provider's bytes apart.
#[tokio::test]
async fn a_panic_in_a_split_counts_as_an_attempt_and_harms_no_sibling() {
    let harness = Harness::new().await;
    let faulty = whatsapp(&["a", "b"]);
    for delivery in [&faulty, &whatsapp(&["sibling"])] {
        assert_eq!(harness.deliver(delivery).await.status_code, 200);
    }
    panics_at(Some(faulty.body.len()));
    assert!(harness.work_under(&Script::none()).await);
    panics_at(None);
    let tables = harness.tables().await;
    let failed: Vec<_> = tables.records.values().filter(|record| record.status == Status::Pending).collect();
    let [failed] = failed[..] else { panic!("one is tried again: {failed:?}") };
    assert_eq!((failed.attempts, failed.last_error.as_deref()), (1, Some("HANDLER_PANICKED")));
    assert_eq!(tables.record("wamid.sibling").outcome, Some(Outcome::Applied));
    harness.settle().await;
    assert_eq!(harness.tables().await.record("wamid.a").outcome, Some(Outcome::Applied));
}
