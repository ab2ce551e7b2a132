//! Deliveries that hold several events: the event, not the delivery, is the unit of deduplication.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_examples::handlers;
use hookonce_protocol::call::Written;
use hookonce_protocol::claim::Claim;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::key::{ClaimId, DomainKey, EndpointId, RecordKey};
use hookonce_protocol::message::Message;
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_providers::Catalog;
use hookonce_runtime::handlers::{Handler, HandlerError};
use hookonce_runtime::inbox::body::{compress, decompress};
use hookonce_runtime::port::{Queue as _, Store as _};
use serde_json::{Value, json};

use crate::support::samples::{messaged, whatsapp, whatsapp_message, whatsapp_of};
use crate::support::{Harness, Script, Verdict, word};

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

/// The catalog of another release, in which a delivery with messages is one event.
fn without_items() -> &'static Catalog {
    let files: Vec<_> =
        Catalog::built_in_files().iter().map(|(name, text)| (*name, without_items_in(name, text))).collect();
    let catalog = Catalog::parse(files.iter().map(|(name, text)| (*name, text.as_str()))).unwrap();
    assert!(!catalog.provider("meta_whatsapp").unwrap().batches());
    Box::leak(Box::new(catalog))
}

fn without_items_in(name: &str, text: &str) -> String {
    if name != "meta_whatsapp.toml" {
        return text.to_owned();
    }
    let (head, rest) = text.split_once("[[items]]").unwrap();
    // A prefix is for the events of items.
    let head: String = head.split_inclusive('\n').filter(|line| !line.starts_with("prefix")).collect();
    let (_, rest) = rest.split_once("[[setting]]").unwrap();
    format!("key = [\"sha256\"]\n{head}[[setting]]{rest}")
}

/// Works on one batch with the catalog of another release, which reads each delivery as one event.
async fn work_without_items(harness: &Harness) {
    let worker = harness.worker_with(without_items());
    assert!(harness.work_on(&worker, &harness.stack.resources.queue, &Script::none()).await);
}

/// Claims a delivery as a catalog without items would: as one event.
async fn claim_as_one(harness: &Harness, key: &str, event_type: &str, body: &[u8]) -> RecordKey {
    let endpoint = EndpointId::parse("meta_whatsapp").unwrap();
    let claim = Claim {
        pk: RecordKey::event(&endpoint, key),
        claim_id: ClaimId(format!("claim-of-{key}")),
        tenant: None,
        provider: "meta_whatsapp".to_owned(),
        event_type: event_type.to_owned(),
        received_at: harness.clock.now(),
        accept_before: harness.clock.now().plus(harness.timing.accept_age_max),
        body: compress(body).unwrap(),
        body_sha256: [7; 32],
        headers: BTreeMap::new(),
        secret_index: 0,
        quarantine_mismatch: false,
    };
    let write = claim_write(&claim.record(&harness.timing, harness.clock.now()));
    assert_eq!(harness.stack.store().write(&write).await, Written::Applied);
    harness.stack.queue().send(&Message::Ref { pk: claim.pk.clone() }).await.unwrap();
    claim.pk
}

/// An older catalog did not know that its messages are events. It stays what it was claimed as, whole, and another
/// delivery of one of its messages is another event.
#[tokio::test]
async fn a_delivery_that_was_claimed_as_one_event_stays_one() {
    let mut harness = Harness::new().await;
    harness.handlers = || handlers().with(TakesAsOne);
    let body = whatsapp(&["a", "b"]).body;
    let key = claim_as_one(&harness, "sha256:of-the-body", "messages", &body).await;
    harness.deliver(&whatsapp(&["b"])).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[WHOLE.to_owned(), messaged("b")]), Verdict::applied(2));
    let whole = &tables.records[key.as_str()];
    assert_eq!((tables.records.len(), whole.outcome), (2, Some(Outcome::Applied)), "nothing came out of the first one");
}

/// The handler of an older release, which took the whole for one event.
#[derive(Debug)]
struct TakesAsOne;

impl Handler for TakesAsOne {
    type Fact = ();

    fn name(&self) -> &'static str {
        "as_one"
    }

    fn recognise(&self, _: &Event) -> Result<Option<()>, HandlerError> {
        Ok(Some(()))
    }

    fn domain_key(&self, (): &()) -> DomainKey {
        DomainKey::of(["whole"])
    }

    fn plan(&self, _: &Event, (): &(), _: &Snapshot) -> Result<Plan, HandlerError> {
        Ok(Plan::default())
    }
}

/// The fact of the whole.
const WHOLE: &str = "meta_whatsapp#as_one#whole";

/// The reverse: an envelope of today that the worker's catalog reads as one event, as after a roll-back.
#[tokio::test]
async fn an_envelope_that_another_catalog_reads_as_one_event_becomes_that_event() {
    let harness = Harness::new().await;
    harness.deliver(&whatsapp(&["a", "b"])).await;
    for _ in 0..2 {
        work_without_items(&harness).await;
    }
    let tables = harness.tables().await;
    let outcomes: BTreeSet<_> = tables.records.values().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::FannedOut, Outcome::Ignored].map(Some).into(), "no handler reads it as one");
    assert_eq!(tables.records.values().filter(|record| record.status == Status::Dead).count(), 0);
}

/// An endpoint that quarantines other bodies, after an event; a batch with another text under its id is on its way.
pub(crate) async fn another_text() -> Harness {
    let harness = Harness::new().await;
    harness.endpoints.change("meta_whatsapp", "on_body_mismatch", "quarantine".into());
    harness.deliver(&whatsapp(&["a"])).await;
    harness.settle().await;
    let mut other = whatsapp_message("a");
    other["text"]["body"] = json!("quite another text");
    harness.deliver(&whatsapp_of(vec![other, whatsapp_message("b")])).await;
    harness
}

/// Two texts under one event id: the first one counts, and the second is kept if the endpoint says so.
#[tokio::test]
async fn another_text_under_an_event_id_is_quarantined_out_of_an_envelope_too() {
    let harness = another_text().await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&["a", "b"].map(messaged)), Verdict::applied(2).dead(1));
    let dead = tables.records.values().find(|record| record.status == Status::Dead).unwrap();
    assert_eq!(dead.dead_reason, Some(DeadReason::IdCollision));
    assert!(dead.key.as_str().ends_with("wamid.a#alt#1"));
    assert_eq!((harness.metric("body_mismatch"), harness.metric("record_dead")), (1, 1), "both are told");
}
