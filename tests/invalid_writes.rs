//! Writes that the store can never carry out.

use hookonce_protocol::record::{DeadReason, Status};

use crate::support::counting::{count, counted_fact, counting};
use crate::support::samples::{messaged, whatsapp};
use crate::support::{Fault, Harness, Operation, Script, Verdict, word};

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
