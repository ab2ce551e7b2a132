//! Effects, from the commit to the call of their destination.

mod load;

use std::collections::BTreeSet;

use hookonce_protocol::call::{Call, HandlerPlan, Planned, Reply};
use hookonce_protocol::check::Scope;
use hookonce_protocol::destination::Called;
use hookonce_protocol::effect::{DestinationId, EffectDraft, EffectName, Method};
use hookonce_protocol::key::{DomainKey, RecordKind};
use hookonce_protocol::message::Message;
use hookonce_protocol::plan::Plan;
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::worker::{Settled, Worker};
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::inbox::batch::BatchResponse;
use hookonce_runtime::inbox::body::compress;
use hookonce_runtime::inbox::drive::{Carry, StoreAndQueue, drive};
use hookonce_runtime::port::Queue as _;
use serde_json::{Value, json};

use crate::routes::set;
use crate::support::counting::count;
use crate::support::faults::{TestQueue, TestStore};
use crate::support::logs::Logs;
use crate::support::samples::invoice_paid;
use crate::support::{Harness, Operation, Script, hang_until};

/// A worker whose handler plans one effect at each of these destinations.
struct EffectWorker<'a> {
    store: &'a TestStore,
    queue: &'a TestQueue,
    destinations: &'a [&'a str],
}

impl EffectWorker<'_> {
    fn plan(&self, record: &Record) -> HandlerPlan {
        let destinations = self.destinations.iter().map(|id| DestinationId::parse(id).unwrap());
        let payload = br#"{"amount": 1.10}"#;
        let effect = |destination: DestinationId| EffectDraft {
            name: EffectName::parse(&format!("receipt-{destination}")).unwrap(),
            destination,
            method: Method::Post,
            path: "/receipts".to_owned(),
            content_type: "application/json".to_owned(),
            body: compress(payload).unwrap(),
            sha256: [1; 32],
        };
        HandlerPlan {
            consumer: "receipts".to_owned(),
            domain_key: DomainKey::of([record.key.parts().1]),
            plan: Plan::default(),
            effects: destinations.clone().map(effect).collect(),
            scope: Scope { destinations: destinations.collect::<BTreeSet<_>>(), ..Scope::default() },
        }
    }
}

impl Carry for EffectWorker<'_> {
    async fn carry(&self, call: Call) -> Reply {
        match call {
            Call::Plan(record) => Reply::Planned(Planned::Plan(Box::new(self.plan(&record)))),
            call => StoreAndQueue { store: self.store, queue: self.queue }.carry(call).await,
        }
    }
}

/// Delivers an event and applies it, with one effect at each of these destinations.
pub(crate) async fn applied(harness: &Harness, id: &str, destinations: &[&str]) {
    assert_eq!(harness.deliver(&count(id, id)).await.status_code, 200);
    apply(harness, destinations).await;
}

/// Works on what was delivered, with one effect at each of these destinations.
pub(crate) async fn apply(harness: &Harness, destinations: &[&str]) {
    let (messages, batch) = harness.batch().await.unwrap();
    let script = Script::none();
    let (store, queue) = (harness.store("WorkerFunction", &script), harness.queue("WorkerFunction", &script));
    for message in &batch.records {
        let decoded = Message::decode(&message.body, None);
        let first = Worker::start(decoded, message.receives(), harness.timing, harness.clock.moment());
        let effect_worker = EffectWorker { store: &store, queue: &queue, destinations };
        let driven = drive(first, &effect_worker, &harness.clock).await;
        assert!(matches!(driven.output, Settled::Ack(_)), "{driven:?}");
    }
    harness.conclude(messages, Some(BatchResponse::default())).await;
}

/// A destination that honours keys for this long.
pub(crate) fn keyed(window_hours: u32) -> serde_json::Value {
    json!({
        "kind": "http", "url": "https://api.example.com/v1", "class": "keyed", "key_window_hours": window_hours,
        "key_source_url": "https://docs.example.com/idempotency", "key_header": "Idempotency-Key",
    })
}

pub(crate) async fn effects(harness: &Harness) -> Vec<Record> {
    harness.observe().await.into_values().filter(|record| record.key.kind() == RecordKind::Effect).collect()
}

/// What is paid for each event and each effect.
#[tokio::test]
async fn an_event_takes_four_calls_and_its_effect_three() {
    let harness = Harness::new().await;
    let (ingress, work, dispatch) = (Script::recording(), Script::recording(), Script::recording());
    harness.deliver_under(&ingress, &invoice_paid("evt_1", "in_1", 4_900)).await;
    assert_eq!(ingress.calls(), [Operation::Put, Operation::Send], "one claim and one hint");
    assert!(harness.work_under(&work).await);
    assert_eq!(work.calls(), [Operation::ReadEach, Operation::Commit], "one read and one transaction");
    harness.destinations.put("receipts", keyed(24));
    applied(&harness, "msg_1", &["receipts"]).await;
    assert!(harness.dispatch_under(&dispatch, harness.deadline()).await);
    assert_eq!(dispatch.calls(), [Operation::Read, Operation::Update, Operation::Update], "one note and one end");
}

#[tokio::test]
async fn an_event_makes_one_call_and_a_repeated_hint_makes_none() {
    let harness = Harness::new().await;
    harness.destinations.put("receipts", keyed(24));
    applied(&harness, "msg_1", &["receipts"]).await;
    assert_eq!(harness.callee.calls().len(), 0, "the worker calls nobody");
    harness.dispatch().await;
    let [call] = harness.callee.calls().try_into().unwrap();
    assert_eq!((call.path.as_str(), call.content_type.as_str()), ("/receipts", "application/json"));
    let [record] = effects(&harness).await.try_into().unwrap();
    assert_eq!((record.status, record.outcome), (Status::Processed, Some(Outcome::Delivered)));
    assert_eq!(call.effect, record.key);
    let again = Message::Ref { pk: record.key };
    harness.stack.queue().send_each(&[again.clone(), again]).await;
    harness.dispatch().await;
    assert_eq!(harness.callee.calls().len(), 1);
    assert_eq!((harness.metric("effect_delivered"), harness.metric("message_acknowledged")), (1, 2));
}

#[tokio::test]
async fn a_destination_that_is_down_for_a_day_delays_nobody_and_loses_nothing() {
    let all = json!([{ "name": "all", "consumer": "crm", "forward": ["down", "up"] }]);
    let harness = Harness::new().await.routed(&set("dead", &all));
    for id in ["down", "up"] {
        harness.destinations.put(id, keyed(24));
    }
    for hour in 0..24 {
        // What it says in the end leaves open whether it did anything.
        let not_done = Called::NotDone { status: None, retry_after: None };
        harness
            .callee
            .answers_at("down", if hour < 22 { not_done } else { Called::Unclear { status: None, retry_after: None } });
        harness.deliver(&count(&format!("msg_{hour}"), "a")).await;
        harness.redeliver().await;
        harness.work().await;
        harness.dispatch().await;
        assert_eq!((harness.callee.done_at("up"), harness.callee.done_at("down")), (hour + 1, 0));
        harness.clock.advance(Millis::hours(1));
        harness.relay().await;
    }
    assert_eq!(harness.metric("record_dead"), 0);
    harness.callee.answers_at("down", Called::Done { status: Some(200) });
    harness.settle().await;
    assert!(effects(&harness).await.iter().all(|effect| effect.outcome == Some(Outcome::Delivered)));
    assert_eq!((harness.callee.done_at("up"), harness.callee.done_at("down")), (24, 24));
    assert_eq!(harness.callee.keys().len(), 48, "one for each event and destination, however often it was called");
}

#[tokio::test]
async fn an_effect_waits_for_a_destination_that_is_unknown() {
    let harness = Harness::new().await;
    applied(&harness, "msg_1", &["receipts"]).await;
    harness.dispatch().await;
    assert_eq!((harness.callee.calls().len(), harness.metric("destination_unknown")), (0, 1));
    harness.destinations.put("receipts", json!({"kind": "http"}));
    harness.redeliver().await;
    harness.dispatch().await;
    assert_eq!((harness.callee.calls().len(), harness.metric("destination_unknown")), (0, 2));
    harness.destinations.put("receipts", keyed(24));
    harness.redeliver().await;
    harness.dispatch().await;
    assert_eq!(harness.callee.calls().len(), 1);
}

#[tokio::test]
async fn a_call_without_time_to_end_is_not_begun() {
    let harness = Harness::new().await;
    harness.destinations.put("receipts", keyed(24));
    applied(&harness, "msg_1", &["receipts"]).await;
    let deadline = harness.clock.now().plus(Millis::seconds(12));
    assert!(harness.dispatch_under(&Script::none(), deadline).await);
    assert_eq!(harness.callee.calls().len(), 0);
    let [record] = effects(&harness).await.try_into().unwrap();
    assert_eq!((record.status, record.attempts), (Status::Pending, 0), "it waits uncounted");
    assert!(record.effect.is_some_and(|effect| effect.pass.is_none() && effect.first_call_at.is_none()));
    harness.clock.advance(Millis::minutes(10));
    harness.redeliver().await;
    harness.dispatch().await;
    assert_eq!(harness.callee.calls().len(), 1);
}

#[tokio::test]
async fn the_death_of_an_effect_is_logged_while_a_sibling_hangs() {
    let harness = Harness::new().await;
    for (id, destination) in [("msg_dies", "refuses"), ("msg_hangs", "hangs")] {
        harness.destinations.put(destination, keyed(24));
        applied(&harness, id, &[destination]).await;
    }
    harness.callee.answers_at("refuses", Called::Refused { status: Some(422) });
    harness.callee.hangs_at("hangs");
    let logs = Logs::catch("warn");
    let script = Script::none();
    let hangs = harness.dispatch_under(&script, harness.deadline());
    hang_until(hangs, async || harness.metric("record_dead") == 1).await;
    let log = logs.take();
    assert!(log.contains("a record died") && log.contains("#receipt-refuses"), "{log}");
    assert!(log.contains("REFUSED") && !log.contains("#receipt-hangs"), "{log}");
    for message in ["a record died", "an effect was tried"] {
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut told = lines.iter().filter(|line| line["message"].as_str().unwrap().starts_with(message)).peekable();
        assert!(told.peek().is_some(), "{log}");
        assert!(told.all(|line| line["span"]["event.key"] == "in#standard_webhooks#msg_dies"), "{log}");
    }
}
