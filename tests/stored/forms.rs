//! Every stored form, with every attribute that it can have, and what reads it.

use hookonce_protocol::claim::Claim;
use hookonce_protocol::effect::{DestinationId, EffectName};
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::{APPLIED_AT, ClaimId, EndpointId, RECORD, RecordKey, Tenant, first_seen_item};
use hookonce_protocol::message::{Message, MessageKey};
use hookonce_protocol::operator::{Order, carry_out};
use hookonce_protocol::place::{ItemRef, Key};
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_protocol::record::{
    DeadReason, Due, EffectPart, EndedCall, FailedAttempt, Found, Outcome, Pass, Record, Status, attribute,
};
use hookonce_protocol::time::{EpochMs, EpochSec, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::trail::{Operation, Trail, trail_item};
use hookonce_protocol::write::Action;
use hookonce_providers::Catalog;
use hookonce_runtime::destinations::{Destination, DestinationDocument};
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::Endpoint;
use hookonce_runtime::documents::{DocumentKind, MESSAGE_KEY_ID, ROUTE_SET_ID};
use hookonce_runtime::handlers::remote::{HandlerRequest, SnapshotItem};
use hookonce_runtime::routes::{Offered, RouteSet};
use serde_json::json;

use crate::protocol::{a_claim, a_record, an_effect};
use crate::support::clock::START;
use crate::support::document;

/// One form.
pub(crate) struct Form {
    /// Its name in the list of exceptions and in the corpus.
    pub(crate) name: &'static str,
    /// One item or text of it, as a tree.
    pub(crate) whole: Value,
    /// Whether it is understood. What is not must be left alone.
    pub(crate) is_read: fn(&Value) -> bool,
}

/// The key of an envelope.
pub(crate) const ENVELOPE: &str = "in#shop#en#0707070707070707070707070707070707070707070707070707070707070707";

/// A record of this key on which everything is set that the protocol can set.
pub(crate) fn full_record(key: &str) -> Record {
    let names = |name: &str| vec![EffectName::parse(name).unwrap()];
    let bare = a_record(key);
    Record {
        status: Status::Dead,
        generation: 2,
        tenant: Tenant::parse("acme").ok(),
        provider: "stripe".to_owned(),
        event_type: "invoice.paid".to_owned(),
        body: Some(b"compressed".to_vec()),
        body_sha256: [7; 32],
        headers: [("content-type".to_owned(), "application/json".to_owned())].into(),
        secret_index: 1,
        due: Some(Due::dead(&bare.key, Timing::standard().shards, START)),
        retries: 1,
        attempts: 3,
        resends: 4,
        dead_letters: 1,
        dead_letter_at: Some(START),
        waits_since: Some(START),
        not_before: Some(START),
        parent: RecordKey::parse(ENVELOPE),
        expires_at: Some(EpochSec(START.0 / 1_000)),
        outcome: Some(Outcome::Ignored),
        last_error: Some("HANDLER_TIMED_OUT".to_owned()),
        failures: vec![FailedAttempt { at: START, code: "HANDLER_TIMED_OUT".to_owned() }],
        dead_reason: Some(DeadReason::Stale),
        duplicate_count: 2,
        last_seen_at: Some(START),
        last_seen_by: Some(ClaimId("claim-2".to_owned())),
        processed_at: Some(START),
        dead_at: Some(START),
        discarded_at: Some(START),
        accept_duplicate: true,
        quarantine_mismatch: true,
        effects: names("receipt"),
        earlier_effects: names("note"),
        ..bare
    }
}

/// The same of an effect.
pub(crate) fn full_effect() -> Record {
    let effect = an_effect();
    let part = EffectPart {
        pass: Some(Pass { id: "pass-1".to_owned(), at: START }),
        first_call_at: Some(START),
        callee: Some("https://receipts.example/send".to_owned()),
        not_done: 1,
        key_epoch: 1,
        retried_at: Some(START),
        calls: vec![EndedCall { at: START, status: Some(200), unsent: true }],
        duration: Some(Millis(12)),
        ..*effect.effect.clone().unwrap()
    };
    let full = full_record(effect.key.as_str());
    Record { effect: Some(Box::new(part)), journal_shard: None, parent: effect.parent, ..full }
}

/// The item of the domain table that says that a fact was applied.
pub(crate) fn applied_fact() -> Item {
    Item::from([
        (PARTITION_KEY.to_owned(), Value::from("#dk#shop#payments#invoice.paid#in_1")),
        (RECORD.to_owned(), Value::from("in#shop#evt_1")),
        (APPLIED_AT.to_owned(), Value::from(START.0)),
        (attribute::EXPIRES_AT.to_owned(), Value::from(START.0 / 1_000)),
    ])
}

/// The item of the domain table that notes where a body first came from.
pub(crate) fn first_seen() -> Item {
    Item::from([
        (PARTITION_KEY.to_owned(), Value::from(first_seen_item("shop", &[7; 32]).as_str())),
        (RECORD.to_owned(), Value::from("in#shop#evt_1")),
        (attribute::EXPIRES_AT.to_owned(), Value::from(START.0 / 1_000)),
    ])
}

/// The audit trail of a record, with an entry for each operation.
pub(crate) fn trail() -> Item {
    let mut item = None;
    for operation in Operation::ALL {
        let record = match operation {
            Operation::Force => {
                let outcome = Some(Outcome::Applied);
                Record { status: Status::Processed, outcome, effects: Vec::new(), ..full_record("in#shop#evt_1") }
            }
            Operation::Redact => Record { status: Status::Discarded, ..full_record("in#shop#evt_1") },
            Operation::Doubt => Record { status: Status::Pending, ..full_record("in#shop#evt_1") },
            Operation::Retry | Operation::Discard => full_record("in#shop#evt_1"),
        };
        let order = Order {
            operation: *operation,
            accept_duplicate: true,
            accept_other_body: true,
            by: "ada".to_owned(),
            reason: "a test".to_owned(),
        };
        let moment = Moment { now: START, entropy: 0 };
        let read = Trail::decode(item.as_ref());
        let writes = carry_out(&record, &read, &order, operation.as_str(), &Timing::standard(), moment).unwrap();
        let Action::Put(put) = writes.into_iter().next_back().unwrap().action else { panic!("an entry is put") };
        item = Some(put);
    }
    let mut item = item.unwrap();
    let key = trail_item(&RecordKey::parse("in#shop#evt_1").unwrap());
    item.insert(PARTITION_KEY.to_owned(), Value::from(key.as_str()));
    item
}

/// A claim as a message with its payload carries it.
pub(crate) fn full_claim() -> Claim {
    Claim { tenant: Tenant::parse("acme").ok(), received_at: EpochMs(START.0), ..a_claim("in#shop#evt_1") }
}

/// An endpoint's document.
pub(crate) fn endpoint_document() -> serde_json::Value {
    json!({
        "provider": "stripe", "tenant": "acme", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "settings": {}, "on_store_outage": "enqueue",
        "on_body_mismatch": "quarantine", "tolerance_seconds": 300, "body_bytes_max": 1_000_000,
        "source_ranges": ["192.0.2.0/24"], "expect_every": "26h",
    })
}

/// A destination's document.
pub(crate) fn destination_document() -> serde_json::Value {
    json!({
        "kind": "http", "url": "https://receipts.example/send", "account": "acct_1", "class": "keyed",
        "key_window_hours": 24, "key_source_url": "https://receipts.example/docs", "key_header": "idempotency-key",
        "headers": { "authorization": "Bearer sk" }, "content_type": "application/json", "timeout_ms": 5_000,
        "in_flight_max": 2, "give_up_after_hours": 12, "done_statuses": [409], "retry_statuses": [425],
        "not_done_statuses": [429], "success_json": { "pointer": "/ok", "equals": true }, "allow_private": false,
    })
}

/// A set of routes.
pub(crate) fn route_set() -> serde_json::Value {
    json!({
        "version": 1, "otherwise": "dead", "routes": [{
            "name": "invoices", "consumer": "billing", "endpoints": ["shop*"], "types": ["invoice.*"],
            "when": { "data": { "object": { "paid": [true] } } }, "fact": ["$.data.object.id"], "across_types": true,
            "handler": { "builtin": "payments" }, "destinations": ["receipts"], "forward": ["crm"],
        }],
    })
}

/// Documents of every kind: id and text. Together they have every field, and every word of a list.
pub(crate) fn documents() -> Vec<(DocumentKind, &'static str, String)> {
    let destination = |id, document: serde_json::Value| (DocumentKind::Destination, id, document.to_string());
    let builds = json!({
        "provider": "github", "secrets": ["a secret of sixteen"], "schemes": ["sha256"], "on_store_outage": "reject",
        "on_body_mismatch": "duplicate",
    });
    let noise = json!({ "name": "noise", "ignore": true });
    let otherwise = |word| json!({ "version": 1, "otherwise": word, "routes": [noise] }).to_string();
    let mut set = route_set();
    set["$schema"] = "schemas/routes.json".into();
    set["routes"].as_array_mut().unwrap().extend([
        json!({ "name": "audit", "consumer": "audit", "handler": { "lambda": "audit" }, "tables": ["orders"] }),
        noise.clone(),
    ]);
    vec![
        (DocumentKind::Endpoint, "shop", endpoint_document().to_string()),
        (DocumentKind::Endpoint, "builds", builds.to_string()),
        destination("receipts", destination_document()),
        destination(
            "form",
            json!({
                "$schema": "schemas/destination.json", "kind": "http", "url": "https://form.example", "class": "keyed",
                "key_window_hours": 24, "key_source_url": "https://form.example/docs", "key_json_pointer": "/key",
                "standard_webhooks_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            }),
        ),
        destination(
            "orders",
            json!({
                "kind": "sqs", "url": "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo",
                "message_group": "all", "class": "at_least_once",
            }),
        ),
        destination("mail", json!({ "kind": "http", "url": "https://mail.example", "class": "at_most_once" })),
        destination("archive", json!({ "kind": "lambda", "function": "archive", "class": "at_least_once" })),
        (DocumentKind::Routes, ROUTE_SET_ID, set.to_string()),
        // A stack has one set. These have the other words.
        (DocumentKind::Routes, "ignore", otherwise("ignore")),
        (DocumentKind::Routes, "builtin", otherwise("builtin")),
        (DocumentKind::Key, MESSAGE_KEY_ID, MESSAGE_KEY.to_owned()),
    ]
}

/// What people did to the worker, in the domain table.
pub(crate) fn pause() -> Item {
    let act = |operation: &str| {
        let texts = [("operation", operation), ("by", "ada"), ("reason", "a test")];
        let mut act: Item = texts.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect();
        act.insert("at".to_owned(), Value::from(START.0));
        Value::Map(act)
    };
    Item::from([
        (PARTITION_KEY.to_owned(), Value::from("#op#pause#worker")),
        ("count".to_owned(), Value::from(2)),
        ("acts".to_owned(), Value::List(vec![act("pause"), act("resume")])),
    ])
}

/// Both requests to a handler in another language.
pub(crate) fn requests() -> Vec<serde_json::Value> {
    let event = Event {
        version: EVENT_VERSION,
        endpoint: EndpointId::parse("shop").unwrap(),
        tenant: Tenant::parse("acme").unwrap(),
        provider: "stripe".to_owned(),
        record: RecordKey::parse("in#shop#evt_1").unwrap(),
        key: "evt_1".to_owned(),
        event_type: "invoice.paid".to_owned(),
        received_at: START,
        generation: 1,
        headers: [("content-type".to_owned(), "application/json".to_owned())].into(),
        body: b"{}".to_vec(),
    };
    let name = ItemRef { table: None, key: Key::from("acme#count#all") };
    let item = Item::from([("events".to_owned(), Value::from(1))]);
    let shown: [&[_]; 2] = [&[], &[SnapshotItem { name: &name, item: Some(&item) }]];
    let request = |items| HandlerRequest::new("r-1", &event, items).encode().unwrap();
    shown.into_iter().map(|items| serde_json::from_slice(&request(items)).unwrap()).collect()
}

/// Answers of handlers in another language, of each shape.
pub(crate) fn answers() -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(&document("schemas/handler-answer.json")).unwrap()["examples"].take()
}

/// The key that seals messages with a payload, as a tree of one text.
pub(crate) const MESSAGE_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// All forms.
pub(crate) fn all() -> Vec<Form> {
    let form = |name, whole, is_read| Form { name, whole, is_read };
    let record = |record: &Record| Value::Map(record.encode());
    let message = |message: &Message| tree(&serde_json::from_str(&message.encode(None).unwrap()).unwrap());
    let pk = RecordKey::parse("in#shop#evt_1").unwrap();
    vec![
        form("delivery", record(&full_record("in#shop#evt_1")), is_record),
        form("event", record(&full_record("in#shop#ev#item_1")), is_record),
        form("envelope", record(&full_record(ENVELOPE)), is_record),
        form("effect", record(&full_effect()), is_record),
        form("fact", Value::Map(applied_fact()), always),
        form("first seen", Value::Map(first_seen()), always),
        form("trail", Value::Map(trail()), |item| Trail::decode(Some(&as_item(item))).unread == 0),
        form("hint", message(&Message::Ref { pk: pk.clone() }), is_message),
        form("slow hint", message(&Message::Slow { pk, handler: "payments".to_owned() }), is_message),
        form("claim", tree(&serde_json::to_value(full_claim()).unwrap()), |claim| {
            serde_json::from_value::<Claim>(json(claim)).is_ok()
        }),
        form("message key", Value::from(MESSAGE_KEY), |key| key.as_text().and_then(MessageKey::parse).is_some()),
        form("endpoint", tree(&endpoint_document()), |text| {
            let id = EndpointId::parse("shop").unwrap();
            let document = EndpointDocument::parse(&json(text).to_string());
            document.is_ok_and(|document| Endpoint::new(id, document, Catalog::built_in()).is_ok())
        }),
        form("destination", tree(&destination_document()), |text| {
            let id = DestinationId::parse("receipts").unwrap();
            let document = DestinationDocument::parse(&json(text).to_string());
            document.is_ok_and(|document| Destination::new(id, &document).is_ok())
        }),
        form("routes", tree(&route_set()), |text| {
            let names = ["payments".to_owned()];
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let offered = Offered { handlers: &names, urls: false, tables: None };
            RouteSet::parse(&json(text).to_string(), offered).is_ok()
        }),
    ]
}

fn is_record(item: &Value) -> bool {
    matches!(Found::from_item(Some(&as_item(item))), Found::Record(_))
}

fn is_message(text: &Value) -> bool {
    Message::decode(&json(text).to_string(), None).is_ok()
}

/// No attribute of these items is acted on: what stands under their keys is enough.
fn always(_: &Value) -> bool {
    true
}

/// The item at the root of a tree.
pub(crate) fn as_item(tree: &Value) -> Item {
    let Value::Map(item) = tree else { return Item::new() };
    item.clone()
}

/// JSON as a tree.
pub(crate) fn tree(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null(true),
        serde_json::Value::Bool(flag) => Value::Flag(*flag),
        serde_json::Value::Number(number) => Value::from(number.as_i64().unwrap()),
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(list) => Value::List(list.iter().map(tree).collect()),
        serde_json::Value::Object(map) => {
            Value::Map(map.iter().map(|(name, value)| (name.clone(), tree(value))).collect())
        }
    }
}

/// A tree as JSON.
pub(crate) fn json(tree: &Value) -> serde_json::Value {
    match tree {
        Value::Text(text) => json!(text),
        Value::Number(number) => json!(number.as_i64()),
        Value::Flag(flag) => json!(flag),
        Value::List(list) => list.iter().map(json).collect(),
        Value::Map(map) => map.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
        Value::Bytes(_) | Value::TextSet(_) | Value::NumberSet(_) | Value::BytesSet(_) | Value::Null(_) => json!(null),
    }
}
