//! What counts as the same delivery, and what happens to another body under a known id.

use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_providers::UnsignedRequest;
use hookonce_runtime::inbox::body::decompress;
use serde_json::{Value, json};

use crate::support::counting::{count, counting};
use crate::support::delivery::secret;
use crate::support::logs::Logs;
use crate::support::samples::{built, invoice_paid, push};
use crate::support::{Delivery, Harness, Operation, Script, Verdict, word};

#[tokio::test]
async fn another_body_under_a_known_id_is_a_duplicate_unless_the_endpoint_keeps_it() {
    let harness = Harness::new().await;
    for policy in ["duplicate", "quarantine"] {
        harness.endpoints.change("github", "on_body_mismatch", json!(policy));
        let script = Script::none();
        harness.deliver(&push(policy, "aaaa")).await;
        let outbound = harness.deliver_under(&script, &push(policy, "bbbb")).await.unwrap();
        assert_eq!(word(&outbound), (200, "duplicate".to_owned()), "{policy}");
        assert_eq!(script.count(Operation::Send), 0, "{policy}: a loser never sends");
    }
    assert_eq!(harness.metric("body_mismatch"), 2);
    // The same other body is kept only once.
    harness.deliver(&push("quarantine", "bbbb")).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[built("aaaa")]), Verdict::applied(1).dead(1));
    let dead = tables.records.values().find(|record| record.status == Status::Dead).unwrap();
    assert_eq!(dead.dead_reason, Some(DeadReason::IdCollision));
    let Some(stored) = &dead.body else { panic!("its payload is gone") };
    assert_eq!(decompress(stored).unwrap(), push("quarantine", "bbbb").body);
}

/// If a provider does not sign its ids, anyone with one signed body can send it under new ids. The fact prevents a
/// second change. The worker counts the replay, so ingress makes no extra call while the provider waits.
#[tokio::test]
async fn the_same_bytes_under_a_fresh_id_are_counted_as_a_suspected_replay() {
    let harness = Harness::new().await;
    let under = |id: &str| {
        let mut delivery = push("unused", "c1");
        delivery.headers.retain(|(name, _)| name != "x-github-delivery");
        delivery.header("x-github-delivery", id)
    };
    harness.deliver(&under("genuine")).await;
    harness.settle().await;
    assert_eq!(harness.metric("suspected_replay"), 0);

    let ingress = Script::recording();
    let outbound = harness.deliver_under(&ingress, &under("fresh")).await.unwrap();
    assert_eq!(word(&outbound), (200, "accepted".to_owned()));
    assert_eq!(ingress.calls(), [Operation::Put, Operation::Send], "no more calls than for any delivery");
    let worker = Script::recording();
    assert!(harness.work_under(&worker).await);
    let calls = [Operation::ReadEach, Operation::Commit, Operation::Update, Operation::Put, Operation::ReadDomain];
    assert_eq!(worker.calls(), calls);
    assert_eq!((harness.metric("suspected_replay"), harness.metric("event_duplicate")), (1, 1));

    // The same fact in other bytes is a second report, not a replay.
    let mut other = under("retold");
    other.body.push(b'\n');
    harness.deliver(&other).await;
    harness.settle().await;
    assert_eq!((harness.metric("suspected_replay"), harness.metric("event_duplicate")), (1, 2));
    assert_eq!(harness.tables().await.verdict(&[built("c1")]), Verdict::applied(1));
}

/// Mailgun signs a token and leaves the event free. Whoever holds one delivery can write any other event around its
/// token, and the signature fits.
#[tokio::test]
async fn where_the_body_is_free_a_second_body_is_quarantined_whatever_id_it_names() {
    let harness = Harness::new().await;
    let secret = secret("mailgun");
    harness.endpoints.put("mailgun", json!({ "provider": "mailgun", "secrets": [secret] }).to_string());
    let mut delivery = Delivery::new("mailgun", "");
    let unsigned = json!({
        "signature": { "timestamp": "", "signature": "", "token": "a8ce0edb2dd8301dee6c2405235584e4" },
        "event-data": { "id": "genuine", "timestamp": 1_767_225_590.5, "event": "delivered" },
    });
    let unsigned = unsigned.to_string();
    let request = UnsignedRequest {
        method: "POST",
        url: "https://hooks.example.com/webhooks/mailgun",
        headers: &delivery.headers,
        body: unsigned.as_bytes(),
    };
    delivery.body = delivery.provider.sign_request(&request, secret, harness.clock.seconds()).unwrap().body;
    let forged = |number: u32| {
        let mut forged: Value = serde_json::from_slice(&delivery.body).unwrap();
        forged["event-data"] = json!({ "id": number, "timestamp": 1_767_225_591, "event": "unsubscribed" });
        forged.to_string()
    };

    let event = |body: &[u8]| delivery.event_with(&delivery.headers, body, &harness.clock);
    let script = Script::recording();
    let genuine = script.run(Box::pin(harness.webhook(&script).handle(event(&delivery.body)))).await.unwrap();
    assert_eq!(word(&genuine), (200, "accepted".to_owned()));
    assert_eq!(script.calls(), [Operation::Put, Operation::Send], "no more calls than for any delivery");
    // One other body is kept, however many there are: no record of them would ever expire.
    let logs = Logs::catch("info");
    for number in 0..100 {
        let answer = harness.webhook(&Script::none()).handle(event(forged(number).as_bytes())).await;
        assert_eq!(word(&answer), (200, "duplicate".to_owned()));
    }
    assert_eq!((harness.metric("body_mismatch"), harness.metric("record_dead")), (100, 1));
    let lines: Vec<Value> = logs.take().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let died: Vec<_> = lines.iter().filter(|line| line["record.dead_reason"] == "ID_COLLISION").collect();
    assert!(died.len() == 1 && died[0]["record.key"].as_str().unwrap().ends_with("#alt#1"), "{died:?}");
    let differed = lines.iter().filter(|line| line["message"] == "delivery acknowledged" && line["other_body"] == true);
    assert_eq!(differed.count(), 100, "the line of the delivery says so, too");
    let paths = |line: &&Value| line["differ"] == "$.event-data.event, $.event-data.id, $.event-data.timestamp";
    assert_eq!(lines.iter().filter(paths).count(), 100, "{:?}", lines.first());
    harness.settle().await;
    let tables = harness.tables().await;
    let (dead, others): (Vec<_>, Vec<_>) = tables.records.values().partition(|record| record.status == Status::Dead);
    assert_eq!((dead.len(), others.len()), (1, 1));
    assert_eq!(dead[0].dead_reason, Some(DeadReason::IdCollision));
    assert_eq!(decompress(dead[0].body.as_ref().unwrap()).unwrap(), forged(0).as_bytes());
    assert_eq!(others[0].outcome, Some(Outcome::Ignored), "no handler of this project takes it");
}

/// A replay is counted even if no handler wants the event and it therefore has no domain key.
#[tokio::test]
async fn a_suspected_replay_is_counted_where_no_handler_takes_the_event() {
    let harness = Harness::new().await;
    let under = |id: &str| {
        let body = json!({"action": "created", "repository": {"id": 1}}).to_string();
        Delivery::new("github", body).header("x-github-delivery", id).header("x-github-event", "star")
    };
    for (id, replays) in [("genuine", 0), ("fresh", 1), ("genuine", 1), ("fresher", 2)] {
        harness.deliver(&under(id)).await;
        harness.settle().await;
        assert_eq!(harness.metric("suspected_replay"), replays, "{id}");
    }
    assert_eq!(harness.metric("event_ignored"), 3);
}

/// If the id is signed, nobody can send a body under another one, and no call is spent on the check.
#[tokio::test]
async fn where_the_id_is_signed_nothing_is_noted() {
    let harness = Harness::new().await;
    harness.deliver(&invoice_paid("evt_1", "in_1", 100)).await;
    let worker = Script::recording();
    assert!(harness.work_under(&worker).await);
    assert!(!worker.calls().contains(&Operation::Put), "{:?}", worker.calls());
}

/// Once the record has expired, the same id is a new delivery; the fact is still known.
#[tokio::test]
async fn the_fact_outlives_the_record() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    harness.settle().await;
    let key = harness.tables().await.record("#msg_1").key.clone();
    harness.clock.advance(hookonce_protocol::time::Millis::days(36));
    harness.expire(&key).await;
    assert_eq!(word(&harness.deliver(&count("msg_1", "order-1")).await), (200, "accepted".to_owned()));
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.record("#msg_1").outcome, Some(Outcome::Duplicate));
    assert_eq!(tables.number("standard_webhooks#count#order-1", "applied"), 1);
    assert_eq!(harness.metric("suspected_replay"), 0, "it is the same id");
}
