//! What the functions that take messages hold in memory: `scripts/bench memory`. A worker splits a batch of the largest
//! envelopes and of the most events, decides about the longest bodies of small objects, commits the largest plans of
//! small maps, also beside the longest that need no permit, refuses the longest answers, and reads the longest items of
//! such maps, and as many items as a handler may ask for, beside the longest bodies. A relay and a dispatcher lose every
//! write to others.
//!
//! The functions are the deployed ones. Their store takes a write after it has made the text of the request, refuses
//! one of a record that is there as DynamoDB does, and reads an item as the SDK does: the text becomes values of a
//! library, and these become the item.

mod others;
mod store;

use std::collections::BTreeMap;
use std::pin::Pin;

use hookonce_protocol::claim::Claim;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Write;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::handlers::remote::{CallError, CallHandler, RemoteHandlers};
use hookonce_runtime::handlers::{Handlers, READS_MAX};
use hookonce_runtime::inbox::body;
use hookonce_runtime::inbox::memory::LONG_AT_ONCE;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::{Processed, Received, WorkerParts};
use hookonce_runtime::routes::{BUILTIN_SET, Offered, RouteSet, Routing};
use serde_json::{Value, json};

use store::{LONGEST, Nobody, Nowhere, item};

/// Messages of one batch.
const MESSAGES: usize = 10;

/// Events of each envelope.
const EVENTS: usize = 150;

/// Bytes around each event that do not compress.
const AROUND: usize = 280_000;

/// Small objects in each body that a route asks about: as many as the longest body holds.
const OBJECTS: usize = 580_000;

/// Small maps in each plan, in three items: nearly as many as a plan may have.
const MAPS: usize = 45_000;

/// Small maps in each plan that needs no permit, in one item: as many as such an answer holds.
const MAPS_SHORT: usize = 5_000;

/// Small maps in each answer that is refused, in one item: as many as the longest answer holds.
const MAPS_REFUSED: usize = 240_000;

/// Events of each envelope of the most events.
const EVENTS_MAX: usize = 10_000;

/// Events of each envelope whose events are there already, under other bodies.
const EVENTS_THERE: usize = 1_500;

/// The most KiB that a batch of the worker may take. The function has 512 MiB.
const MOST_KIB: u64 = 440 * 1024;

/// The most KiB that a run of the relay may take, or a batch of the dispatcher. Each has 256 MiB.
const MOST_KIB_OF_OTHERS: u64 = 225 * 1024;

/// What is measured of one function: how much of its work ended as expected, of how much, and what it may hold.
struct Work {
    done: usize,
    of: usize,
    most_kib_allowed: u64,
}

/// Lets the functions work, and returns the figures: the most memory that the process held during each, in KiB.
pub async fn measure() -> Option<(Value, Vec<String>)> {
    let now = System.moment().now;
    let set = |text: &str| {
        let set = RouteSet::parse(text, Offered { handlers: &[], urls: false, tables: None }).ok()?;
        Some(Routing::Set(set.into()))
    };
    let routes = |rule: Value| set(&json!({ "version": 1, "otherwise": "dead", "routes": [rule] }).to_string());
    let lambda = json!({ "lambda": "count" });
    let routed = json!({ "name": "a", "consumer": "c", "when": {"a": {"x": [1]}}, "handler": lambda });
    let plans = json!({ "name": "p", "consumer": "c", "handler": lambda });
    let singles = |event_type, body: &[u8]| {
        (0..MESSAGES).map(|number| single(number, event_type, body, now)).collect::<Option<Vec<_>>>()
    };
    // As many long ones as may be planned at once come first.
    let mixed = (0..MESSAGES)
        .map(|number| single(number, if number < LONG_AT_ONCE { "plans" } else { "plans little" }, b"{}", now));
    let object = format!(r#"{{"a": [{}]}}"#, vec![r#"{"x":0}"#; OBJECTS].join(","));
    let longest = json!({ "around": noise(0, LONGEST) }).to_string();
    let mut figures = Figures { printed: json!({ "bench": "memory", "messages": MESSAGES }), over: Vec::new() };
    figures.measure("relay", others::relay(now)).await?;
    figures.measure("dispatcher", others::dispatcher(now)).await?;
    let envelopes = |of: fn(usize, EpochMs) -> Option<Write>| (0..MESSAGES).map(|number| of(number, now)).collect();
    // What one batch has freed, the next one may still hold: the largest comes last.
    let batches = [
        ("known", set(BUILTIN_SET)?, envelopes(envelope_of_known)),
        ("many", set(BUILTIN_SET)?, envelopes(envelope_of_many)),
        ("routed", routes(routed)?, singles("any", object.as_bytes())),
        ("read", routes(plans.clone())?, singles("reads", b"{}")),
        ("snapshots", routes(plans.clone())?, singles("reads many", longest.as_bytes())),
        ("refused", routes(plans.clone())?, singles("plans too much", b"{}")),
        ("envelopes", set(BUILTIN_SET)?, envelopes(envelope)),
        ("planned", routes(plans.clone())?, singles("plans", b"{}")),
        ("mixed", routes(plans)?, mixed.collect()),
    ];
    for (name, routing, claims) in batches {
        let of = if name == "refused" { 0 } else { MESSAGES };
        figures.measure(name, work(claims?, &routing, of, now)).await?;
    }
    Some((figures.printed, figures.over))
}

/// The figures, and what is over its limit.
struct Figures {
    printed: Value,
    over: Vec<String>,
}

impl Figures {
    async fn measure(&mut self, name: &str, work: impl Future<Output = Option<Work>>) -> Option<()> {
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
        let before = most_held_kib()?;
        let Work { done, of, most_kib_allowed } = work.await?;
        let most = most_held_kib()?;
        self.printed[name] =
            json!({ "done": done, "before_kib": before, "most_kib": most, "most_kib_allowed": most_kib_allowed });
        if most > most_kib_allowed || done != of {
            self.over.push(format!("{name}: {done} of {of} with {most} KiB"));
        }
        Some(())
    }
}

/// Works on a batch with the records of these claims, of which so many are to be acknowledged.
async fn work(claims: Vec<Write>, routing: &Routing, of: usize, now: EpochMs) -> Option<Work> {
    let body = |write: &Write| format!(r#"{{"v":1,"k":"ref","pk":"{}"}}"#, write.key);
    let received = |write| Received { body: body(write), receipt_handle: String::new(), receives: 1 };
    let messages: Vec<_> = claims.iter().map(received).collect();
    let (catalog, ambient, timing) = (Catalog::built_in(), System, Timing::standard());
    let remote = RemoteHandlers::new(Some(Box::new(Mapper)), None);
    let (store, handlers) = (Nowhere::new(claims, now)?, Handlers::new());
    let keys = MessageKeys::none();
    let worker = WorkerParts { store, queue: Nobody, keys, ambient, handlers, remote, catalog, timing };
    let deadline = now.plus(Millis::minutes(30));
    let processed = worker.process(&messages, routing, deadline, &|_| ()).await;
    let done = processed.iter().filter(|it| Processed::is_acknowledged(it)).count();
    Some(Work { done, of, most_kib_allowed: MOST_KIB })
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
            let parsed: Value = serde_json::from_slice(&request).unwrap_or_default();
            let writes = |names: &[&str], maps| {
                let put = |name| format!(r#"{{"key":"bench#{name}","action":{{"put":{}}}}}"#, item(maps));
                format!(r#""writes":[{}]"#, names.iter().map(put).collect::<Vec<_>>().join(","))
            };
            let rest = match parsed["event"]["type"].as_str().unwrap_or_default() {
                "plans" => writes(&["a", "b", "c"], MAPS / 3),
                "plans little" => writes(&["a"], MAPS_SHORT),
                "plans too much" => writes(&["a"], MAPS_REFUSED),
                asks if parsed["items"].as_array().is_none_or(Vec::is_empty) => {
                    let count = if asks == "reads many" { READS_MAX } else { 1 };
                    let keys = (0..count).map(|number| json!({ "key": format!("bench#{number}") }));
                    format!(r#""reads":{}"#, keys.collect::<Value>())
                }
                _ => r#""writes":[]"#.to_owned(),
            };
            Ok(format!(r#"{{"request":{},"fact":"a",{rest}}}"#, parsed["request"]).into_bytes())
        })
    }
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
    let raw = json!({ "around": noise(number, AROUND), "entry": entry }).to_string();
    claiming(&format!("in#bench#en#{number:064x}"), "meta_whatsapp", "any", raw.as_bytes(), now)
}

/// The claim of an envelope of the most events.
fn envelope_of_many(number: usize, now: EpochMs) -> Option<Write> {
    envelope_of_small(number, EVENTS_MAX, "new", now)
}

/// The claim of an envelope whose events are there already, each with the longest body.
fn envelope_of_known(number: usize, now: EpochMs) -> Option<Write> {
    envelope_of_small(number, EVENTS_THERE, store::KNOWN, now)
}

/// The claim of an envelope of so many small events, whose ids begin with this.
fn envelope_of_small(number: usize, events: usize, begins: &str, now: EpochMs) -> Option<Write> {
    let messages: Vec<_> = (0..events).map(|event| json!({ "id": format!("{begins}.{number}.{event}") })).collect();
    let raw = json!({ "entry": [{ "changes": [{ "value": { "messages": messages } }] }] }).to_string();
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

/// Text that compresses to about so many bytes: six random bits in each character.
fn noise(seed: usize, bytes: usize) -> String {
    let mut state = u64::try_from(seed).unwrap_or(0);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let character = b'0' + u8::try_from(state >> 58).unwrap_or(0);
        char::from(if character == b'\\' { b'p' } else { character })
    };
    (0..bytes * 4 / 3).map(|_| random()).collect()
}
