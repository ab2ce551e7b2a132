//! Deliveries that hold several events: the event, not the delivery, is the unit of deduplication.

use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_protocol::time::Millis;
use hookonce_runtime::body::decompress;
use serde_json::{Value, json};

use crate::support::samples::{has_status, messaged, whatsapp, whatsapp_message, whatsapp_of, whatsapp_statuses};
use crate::support::{Harness, Verdict, word};

const CONVERSATION: &str = "meta_whatsapp#conversation#106540352242922#16505551234";

#[tokio::test]
async fn regrouped_deliveries_have_one_effect_for_each_event() {
    let harness = Harness::new().await;
    for group in [&["a", "b"][..], &["b", "a"], &["a"], &["b", "c"]] {
        assert_eq!(harness.deliver(&whatsapp(group)).await.status_code, 200, "{group:?}");
        harness.clock.advance(Millis::seconds(7));
    }
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&["a", "b", "c"].map(messaged)), Verdict::applied(3));
    assert_eq!(tables.number(CONVERSATION, "messages"), 3);
    assert_eq!(tables.items("#lead#").count(), 1, "one contact is one lead");
    let outcomes = |outcome| tables.records.values().filter(|record| record.outcome == Some(outcome)).count();
    assert_eq!((outcomes(Outcome::Applied), outcomes(Outcome::FannedOut)), (3, 3));
}

#[tokio::test]
async fn the_same_groups_delivered_and_worked_on_one_by_one_have_the_same_effects() {
    let harness = Harness::new().await;
    for group in [&["a", "b"][..], &["b", "a"], &["a"], &["b", "c"]] {
        harness.deliver(&whatsapp(group)).await;
        harness.settle().await;
    }
    // An envelope already claimed the event that now comes alone.
    assert_eq!(word(&harness.deliver(&whatsapp(&["a"])).await), (200, "duplicate".to_owned()));
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&["a", "b", "c"].map(messaged)), Verdict::applied(3));
}

#[tokio::test]
async fn one_poison_event_among_ten_dies_alone_and_keeps_its_payload() {
    let harness = Harness::new().await;
    let ids = ["0", "1", "2", "3", "poison", "5", "6", "7", "8", "9"];
    let message = |id: &str| -> Value {
        let mut message = whatsapp_message(id);
        if id == "poison" {
            message["timestamp"] = json!("no time at all");
        }
        message
    };
    let delivery = whatsapp_of(ids.map(message).to_vec());
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()));
    harness.settle().await;

    let tables = harness.tables().await;
    let healthy: Vec<_> = ids.into_iter().filter(|id| *id != "poison").map(messaged).collect();
    assert_eq!(tables.verdict(&healthy), Verdict::applied(9).dead(1));
    let dead = tables.record("wamid.poison");
    assert_eq!((dead.status, dead.dead_reason), (Status::Dead, Some(DeadReason::Permanent)));
    assert_eq!(dead.last_error.as_deref(), Some("TIMESTAMP_UNREADABLE"));
    let Some(stored) = &dead.body else { panic!("its payload is gone") };
    let payload: Value = serde_json::from_slice(&decompress(stored).unwrap()).unwrap();
    let messages = &payload["entry"][0]["changes"][0]["value"]["messages"];
    assert_eq!(*messages, json!([message("poison")]), "the payload is the delivery with just this event");
    let siblings = tables.records.values().filter(|record| record.key.as_str() != dead.key.as_str());
    assert!(siblings.into_iter().all(|record| record.attempts == 0 && record.last_error.is_none()));
    assert_eq!(harness.metric("record_dead"), 1);
}

#[tokio::test]
async fn statuses_never_go_backwards_in_whatever_order_they_come() {
    let harness = Harness::new().await;
    harness.deliver(&whatsapp_statuses(&[("m", "read")])).await;
    harness.settle().await;
    harness.deliver(&whatsapp_statuses(&[("m", "delivered"), ("m", "sent"), ("m", "read")])).await;
    harness.settle().await;
    let tables = harness.tables().await;
    let facts = ["read", "delivered", "sent"].map(|word| has_status("m", word));
    assert_eq!(tables.verdict(&facts), Verdict::applied(3));
    assert_eq!(tables.domain["meta_whatsapp#status#wamid.m"]["status"].as_text(), Some("read"));
    assert_eq!(tables.number("meta_whatsapp#status#wamid.m", "changes"), 1);
}

#[tokio::test]
async fn a_change_that_holds_no_event_is_kept_beside_the_events() {
    let harness = Harness::new().await;
    let mut delivery = whatsapp(&["a"]);
    let mut body: Value = serde_json::from_slice(&delivery.body).unwrap();
    let changes = body["entry"][0]["changes"].as_array_mut().unwrap();
    changes.push(json!({ "value": { "event": "VERIFIED_ACCOUNT" }, "field": "account_update" }));
    delivery.body = body.to_string().into_bytes();
    harness.deliver(&delivery).await;
    harness.settle().await;
    // A retry may deliver it alone. It is the same event.
    body["entry"][0]["changes"].as_array_mut().unwrap().remove(0);
    delivery.body = body.to_string().into_bytes();
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "duplicate".to_owned()));
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[messaged("a")]), Verdict::applied(1));
    let ignored: Vec<_> = tables.records.values().filter(|it| it.outcome == Some(Outcome::Ignored)).collect();
    assert_eq!(ignored.len(), 1);
    assert_eq!(ignored[0].event_type, "account_update");
}

/// Two texts under one event id: the first one counts, and the second is kept if the endpoint says so.
#[tokio::test]
async fn another_text_under_an_event_id_is_quarantined_out_of_an_envelope_too() {
    let harness = Harness::new().await;
    harness.endpoints.change("meta_whatsapp", "on_body_mismatch", "quarantine".into());
    harness.deliver(&whatsapp(&["a"])).await;
    harness.settle().await;
    let mut other = whatsapp_message("a");
    other["text"]["body"] = json!("quite another text");
    harness.deliver(&whatsapp_of(vec![other, whatsapp_message("b")])).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&["a", "b"].map(messaged)), Verdict::applied(2).dead(1));
    let dead = tables.records.values().find(|record| record.status == Status::Dead).unwrap();
    assert_eq!(dead.dead_reason, Some(DeadReason::IdCollision));
    assert!(dead.key.as_str().contains("wamid.a#alt#"));
    assert_eq!((harness.metric("body_mismatch"), harness.metric("record_dead")), (1, 1), "both are told");
}
