//! What a worker holds in memory while it splits a batch of the largest envelopes: `scripts/bench memory`.
//!
//! The worker is the deployed one. Its store takes every write, after it has made the text of the request.

use std::collections::BTreeMap;
use std::time::Duration;

use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::message::{Lane, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::{Action, Write};
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::body;
use hookonce_runtime::handler::Handlers;
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::process::{Processed, Received, WorkerParts};
use hookonce_runtime::remote::RemoteHandlers;
use hookonce_runtime::route::Routing;
use serde_json::{Value, json};

/// Messages of one batch.
const ENVELOPES: usize = 10;

/// Events of each envelope.
const EVENTS: usize = 150;

/// Bytes around each event that do not compress.
const AROUND: usize = 280_000;

/// How long a call to the store takes.
const STORE_TIME: Duration = Duration::from_millis(5);

/// Splits a batch, and returns the figures: the most memory that the process held, before the batch and at its end.
pub async fn measure() -> Option<Value> {
    let (timing, now) = (Timing::standard(), System.moment().now);
    let envelopes: Option<Vec<_>> = (0..ENVELOPES).map(|number| envelope(number, &timing, now)).collect();
    let envelopes = envelopes?;
    let body = |write: &Write| format!(r#"{{"v":1,"k":"ref","pk":"{}"}}"#, write.key);
    let received = |write| Received { body: body(write), receipt_handle: String::new(), receives: 1 };
    let messages: Vec<_> = envelopes.iter().map(received).collect();
    let (catalog, ambient, remote) = (Catalog::built_in(), System, RemoteHandlers::none());
    let (store, handlers) = (Nowhere(envelopes), Handlers::new());
    let worker = WorkerParts { store, queue: Nobody, ambient, handlers, remote, catalog, timing };
    let before = most_held_kib()?;
    let deadline = now.plus(Millis::minutes(30));
    let processed = worker.process(&messages, &Routing::Handlers, deadline, &|_| ()).await;
    let acknowledged = processed.iter().filter(|it| Processed::is_acknowledged(it)).count();
    Some(json!({
        "bench": "memory", "envelopes": ENVELOPES, "events": EVENTS, "around_bytes": AROUND,
        "acknowledged": acknowledged, "before_kib": before, "most_kib": most_held_kib()?,
    }))
}

/// The most memory that this process has held so far, as Linux counts it.
fn most_held_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// The claim of an envelope.
fn envelope(number: usize, timing: &Timing, now: EpochMs) -> Option<Write> {
    let messages: Vec<_> = (0..EVENTS).map(|event| json!({ "id": format!("wamid.{number}.{event}") })).collect();
    let entry = json!([{ "changes": [{ "value": { "messages": messages } }] }]);
    let raw = json!({ "around": noise(number), "entry": entry }).to_string();
    let claim = Claim {
        pk: RecordKey::parse(&format!("in#bench#en#{number:064x}"))?,
        claim_id: ClaimId(number.to_string()),
        tenant: None,
        provider: "meta_whatsapp".to_owned(),
        event_type: "batch".to_owned(),
        received_at: now,
        accept_before: now.plus(timing.accept_age_max),
        body: body::compress(raw.as_bytes()).ok()?,
        body_sha256: [7; 32],
        headers: BTreeMap::new(),
        secret_index: 0,
        quarantine_mismatch: true,
    };
    Some(claim_write(&claim.record(timing, now)))
}

/// Text that hardly compresses: six random bits in each character.
fn noise(seed: usize) -> String {
    let mut state = u64::try_from(seed).unwrap_or(0);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let character = b'0' + u8::try_from(state >> 58).unwrap_or(0);
        char::from(if character == b'\\' { b'p' } else { character })
    };
    (0..AROUND * 4 / 3).map(|_| random()).collect()
}

/// A store that holds these items, and forgets what it takes.
#[derive(Debug)]
struct Nowhere(Vec<Write>);

impl Nowhere {
    fn find(&self, key: &RecordKey) -> Found {
        let write = self.0.iter().find(|write| write.key.to_string() == key.as_str());
        match write.map(|write| &write.action) {
            Some(Action::Put(item)) => Found::from_item(Some(item)),
            Some(Action::Update(_) | Action::Delete | Action::Check) | None => Found::Nothing,
        }
    }
}

impl Store for Nowhere {
    async fn write(&self, write: &Write) -> Written {
        let request = match &write.action {
            Action::Put(item) => json!({ "Item": item }).to_string(),
            Action::Update(_) | Action::Delete | Action::Check => String::new(),
        };
        tokio::time::sleep(STORE_TIME).await;
        drop(request);
        Written::Applied
    }

    async fn commit(&self, _: &[Write]) -> Committed {
        Committed::Unavailable // An envelope commits nothing.
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        Ok(self.find(key))
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        keys.iter().map(|key| Ok(self.find(key))).collect()
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        self.read_each(keys).await
    }

    async fn read_items(&self, _: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        Err(Unavailable)
    }

    async fn key_schema(&self, _: TableAlias, _: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        Err(Unavailable)
    }

    async fn query_due(&self, _: &DueQuery) -> Result<DuePage, Unavailable> {
        Err(Unavailable)
    }

    async fn count_received(&self, _: u16, _: EpochMs, _: EpochMs) -> Result<u64, Unavailable> {
        Err(Unavailable)
    }
}

/// A queue that takes everything.
#[derive(Debug)]
struct Nobody;

impl Queue for Nobody {
    async fn send(&self, _: &Message) -> Result<(), Unavailable> {
        Ok(())
    }

    async fn send_each(&self, messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        vec![Ok(()); messages.len()]
    }

    async fn hide(&self, _: Lane, _: &str, _: Millis) -> Result<(), Unavailable> {
        Ok(())
    }
}
