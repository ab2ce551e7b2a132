//! What a worker holds in memory: `scripts/bench memory`. It splits a batch of the largest envelopes, decides about the
//! longest bodies of small objects, commits the largest plans of small maps, and reads the longest items of such maps.
//!
//! The worker is the deployed one. Its store takes every write, after it has made the text of the request, and reads an
//! item as the SDK does: the text becomes values of a library, and these become the item.

use std::collections::BTreeMap;
use std::pin::Pin;
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
use hookonce_runtime::port::{NotRead, Queue, Store};
use hookonce_runtime::process::{Processed, Received, WorkerParts};
use hookonce_runtime::remote::{CallError, CallHandler, RemoteHandlers};
use hookonce_runtime::route::{Offered, RouteSet, Routing};
use serde_json::{Value, json};

/// Messages of one batch.
const MESSAGES: usize = 10;

/// Events of each envelope.
const EVENTS: usize = 150;

/// Bytes around each event that do not compress.
const AROUND: usize = 280_000;

/// Small objects in each body that a route asks about: as many as the longest body holds.
const OBJECTS: usize = 580_000;

/// Small maps in each plan, in three items: nearly as many as a plan may have.
const MAPS: usize = 135_000;

/// Small maps in each item that is read: nearly as many as an item may have.
const MAPS_READ: usize = 50_000;

/// Items that each handler asks for: as many of them as it may see.
const READS: usize = 2;

/// How long a call to the store takes.
const STORE_TIME: Duration = Duration::from_millis(5);

/// The most KiB that a batch may take. The function has 512 MiB.
pub const MOST_KIB: u64 = 440 * 1024;

/// Works on four batches, and returns the figures: the most memory that the process held during each, in KiB.
pub async fn measure() -> Option<(Value, Vec<String>)> {
    let now = System.moment().now;
    let routes = |rule: Value| {
        let set = json!({ "version": 1, "otherwise": "dead", "routes": [rule] }).to_string();
        let set = RouteSet::parse(&set, Offered { handlers: &[], urls: false, tables: None }).ok()?;
        Some(Routing::Set(set.into()))
    };
    let lambda = json!({ "lambda": "count" });
    let asks = json!({ "name": "a", "consumer": "c", "when": {"a": {"x": [1]}}, "handler": lambda });
    let plans = json!({ "name": "p", "consumer": "c", "handler": lambda });
    let singles = |event_type, body: &[u8]| {
        (0..MESSAGES).map(|number| single(number, event_type, body, now)).collect::<Option<Vec<_>>>()
    };
    let object = format!(r#"{{"a": [{}]}}"#, vec![r#"{"x":0}"#; OBJECTS].join(","));
    // What one batch has freed, the next one may still hold: the largest comes last.
    let batches = [
        ("routed", routes(asks)?, singles("any", object.as_bytes())),
        ("read", routes(plans.clone())?, singles("reads", b"{}")),
        ("envelopes", Routing::Handlers, (0..MESSAGES).map(|number| envelope(number, now)).collect()),
        ("planned", routes(plans)?, singles("plans", b"{}")),
    ];
    let mut figures = json!({ "bench": "memory", "messages": MESSAGES, "most_kib_allowed": MOST_KIB });
    let mut over = Vec::new();
    for (name, routing, claims) in batches {
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
        let before = most_held_kib()?;
        let acknowledged = work(claims?, &routing, now).await;
        let most = most_held_kib()?;
        figures[name] = json!({ "acknowledged": acknowledged, "before_kib": before, "most_kib": most });
        if most > MOST_KIB || acknowledged != MESSAGES {
            over.push(format!("{name}: {acknowledged} of {MESSAGES} messages with {most} KiB"));
        }
    }
    Some((figures, over))
}

/// Works on a batch with the records of these claims. Returns how many messages are done.
async fn work(claims: Vec<Write>, routing: &Routing, now: EpochMs) -> usize {
    let body = |write: &Write| format!(r#"{{"v":1,"k":"ref","pk":"{}"}}"#, write.key);
    let received = |write| Received { body: body(write), receipt_handle: String::new(), receives: 1 };
    let messages: Vec<_> = claims.iter().map(received).collect();
    let (catalog, ambient, timing) = (Catalog::built_in(), System, Timing::standard());
    let remote = RemoteHandlers::new(Some(Box::new(Mapper)), None);
    let (store, handlers) = (Nowhere(claims), Handlers::new());
    let worker = WorkerParts { store, queue: Nobody, ambient, handlers, remote, catalog, timing };
    let deadline = now.plus(Millis::minutes(30));
    let processed = worker.process(&messages, routing, deadline, &|_| ()).await;
    processed.iter().filter(|it| Processed::is_acknowledged(it)).count()
}

/// A handler whose plan puts items of small maps, or that asks for such items.
#[derive(Debug)]
struct Mapper;

impl CallHandler for Mapper {
    fn call<'a>(
        &'a self,
        _: &'a str,
        request: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, CallError>> + Send + 'a>> {
        Box::pin(async move {
            let asked: Value = serde_json::from_slice(&request).unwrap_or_default();
            let rest = if asked["event"]["type"] == "plans" {
                let put = |name| format!(r#"{{"key":"bench#{name}","action":{{"put":{}}}}}"#, item(MAPS / 3));
                format!(r#""writes":[{}]"#, ["a", "b", "c"].map(put).join(","))
            } else if asked["items"].as_array().is_none_or(Vec::is_empty) {
                let reads: Vec<_> = (0..READS).map(|number| json!({ "key": format!("bench#{number}") })).collect();
                format!(r#""reads":{}"#, Value::from(reads))
            } else {
                r#""writes":[]"#.to_owned()
            };
            Ok(format!(r#"{{"request":{},"fact":"a",{rest}}}"#, asked["request"]).into_bytes())
        })
    }
}

/// An item of so many small maps, as JSON.
fn item(maps: usize) -> String {
    format!(r#"{{"l":{{"L":[{}]}}}}"#, vec![r#"{"M":{"a":{"BOOL":true}}}"#; maps].join(","))
}

/// The most memory that this process has held so far, as Linux counts it.
fn most_held_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// The claim of an envelope.
fn envelope(number: usize, now: EpochMs) -> Option<Write> {
    let messages: Vec<_> = (0..EVENTS).map(|event| json!({ "id": format!("wamid.{number}.{event}") })).collect();
    let entry = json!([{ "changes": [{ "value": { "messages": messages } }] }]);
    let raw = json!({ "around": noise(number), "entry": entry }).to_string();
    claiming(&format!("in#bench#en#{number:064x}"), "meta_whatsapp", "any", raw.as_bytes(), now)
}

/// The claim of one event.
fn single(number: usize, event_type: &str, body: &[u8], now: EpochMs) -> Option<Write> {
    claiming(&format!("in#bench#{number}"), "standard_webhooks", event_type, body, now)
}

fn claiming(key: &str, provider: &str, event_type: &str, raw: &[u8], now: EpochMs) -> Option<Write> {
    let claim = claim(key, provider, event_type, body::compress(raw).ok()?, now)?;
    Some(claim_write(&claim.record(&Timing::standard(), now)))
}

/// A claim of what a bench works on.
pub fn claim(key: &str, provider: &str, event_type: &str, body: Vec<u8>, now: EpochMs) -> Option<Claim> {
    Some(Claim {
        pk: RecordKey::parse(key)?,
        claim_id: ClaimId(key.to_owned()),
        tenant: None,
        provider: provider.to_owned(),
        event_type: event_type.to_owned(),
        received_at: now,
        accept_before: now.plus(Timing::standard().accept_age_max),
        body,
        body_sha256: [7; 32],
        headers: BTreeMap::new(),
        secret_index: 0,
        quarantine_mismatch: true,
    })
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

    async fn commit(&self, writes: &[Write]) -> Committed {
        for write in writes {
            self.write(write).await;
        }
        Committed::Applied
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

    async fn read_items(&self, items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        let text = item(MAPS_READ);
        tokio::time::sleep(STORE_TIME).await;
        let read = items.iter().map(|item| {
            let values: Value = serde_json::from_str(&text).map_err(|_| Unavailable)?;
            Ok((item.clone(), Some(serde_json::from_value(values).map_err(|_| Unavailable)?)))
        });
        read.collect()
    }

    async fn read_few_bytes(&self, _: &[ItemRef], _: u64) -> Result<Snapshot, NotRead> {
        Err(NotRead::TooLong(u64::MAX))
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
