//! One deadline per request: what happens when stores, queues and lookups hang. In virtual time.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{Lane, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Write;
use hookonce_providers::Catalog;
use hookonce_runtime::config::{EdgeConfig, MESSAGE_BYTES_MAX};
use hookonce_runtime::deadline::{FIRST_REQUEST_MIN, LOOKUP_RESERVE, StartUp};
use hookonce_runtime::endpoint::{Endpoints, REFRESH_PAUSE, STALE_AFTER};
use hookonce_runtime::ingest::IngressParts;
use hookonce_runtime::material::Materials;
use hookonce_runtime::message_key::MessageKeys;
use hookonce_runtime::port::{NotRead, Queue, Store};
use hookonce_runtime::telemetry::Telemetry;
use hookonce_webhook::WebhookFunction;
use lambda_http::{Context, LambdaEvent, Service as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::clock::Clock;
use crate::support::delivery::secret;
use crate::support::endpoints::{MemoryEndpoints, MemoryMaterials};
use crate::support::samples::invoice_paid;
use crate::support::stack::MESSAGE_KEY;

/// Longer than anybody waits.
const HANGS: Duration = Duration::from_hours(1);

/// A store or queue that takes this long for each call, and notes the calls. Clones share both.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slow(Arc<Mutex<(Duration, Vec<String>)>>);

impl Slow {
    pub(crate) fn takes(&self, latency: Duration) {
        self.0.lock().unwrap().0 = latency;
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }

    async fn called(&self, what: &str) {
        let latency = {
            let mut state = self.0.lock().unwrap();
            state.1.push(what.to_owned());
            state.0
        };
        tokio::time::sleep(latency).await;
    }
}

impl Store for Slow {
    async fn write(&self, write: &Write) -> Written {
        self.called(write.purpose.as_str()).await;
        Written::Applied
    }

    async fn commit(&self, _writes: &[Write]) -> Committed {
        pending().await
    }

    async fn read(&self, _key: &RecordKey) -> Result<Found, Unavailable> {
        pending().await
    }

    async fn read_each(&self, _keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        pending().await
    }

    async fn read_heads(&self, _keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        pending().await
    }

    async fn read_items(&self, items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        self.called("items").await;
        Ok(items.iter().map(|item| (item.clone(), None)).collect())
    }

    async fn read_few_bytes(&self, items: &[ItemRef], bytes_max: u64) -> Result<Snapshot, NotRead> {
        let long = items[0].key.to_string().ends_with("#long");
        let length = if long { 1024 * 1024 } else { u64::MAX };
        if length > bytes_max {
            return Err(NotRead::TooLong(length));
        }
        self.read_items(items).await.map_err(|Unavailable| NotRead::Unavailable)
    }

    async fn key_schema(&self, _table: TableAlias, _named: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        pending().await
    }

    async fn query_due(&self, _query: &DueQuery) -> Result<DuePage, Unavailable> {
        pending().await
    }

    async fn count_received(&self, _shard: u16, _from: EpochMs, _until: EpochMs) -> Result<u64, Unavailable> {
        pending().await
    }
}

impl Queue for Slow {
    async fn send(&self, message: &Message) -> Result<(), Unavailable> {
        self.called(if message.is_hint() { "hint" } else { "payload" }).await;
        Ok(())
    }

    async fn send_each(&self, _messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        pending().await
    }

    async fn hide(&self, _lane: Lane, _receipt_handle: &str, _length: Millis) -> Result<(), Unavailable> {
        pending().await
    }
}

type Function = WebhookFunction<Slow, Slow, MemoryEndpoints, MemoryMaterials, Clock>;

/// A webhook function between things that may hang.
struct Edge {
    function: Arc<Function>,
    clock: Clock,
    store: Slow,
    queue: Slow,
    endpoints: MemoryEndpoints,
}

impl Edge {
    /// An edge with one endpoint, `stripe`, with this policy.
    fn new(on_store_outage: &str) -> Self {
        Self::after(StartUp::default(), on_store_outage)
    }

    /// The same, in a process that has just started.
    fn after(start_up: StartUp, on_store_outage: &str) -> Self {
        let (clock, store, queue, endpoints) =
            (Clock::new(1), Slow::default(), Slow::default(), MemoryEndpoints::default());
        let document =
            json!({ "provider": "stripe", "secrets": [secret("stripe")], "on_store_outage": on_store_outage });
        endpoints.put("stripe", document.to_string());
        let ingress = IngressParts {
            store: store.clone(),
            queue: queue.clone(),
            keys: MessageKeys::fixed(MESSAGE_KEY),
            ambient: clock.clone(),
            timing: Timing::standard(),
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let lookups = Endpoints::new(endpoints.clone(), Catalog::built_in());
        let materials = Materials::new(MemoryMaterials::default());
        let telemetry = Telemetry::new("webhook", "test", Arc::new(|_: &str| {}));
        let function =
            WebhookFunction::new(ingress, lookups, materials, EdgeConfig::direct(), telemetry).after(start_up);
        let function = Arc::new(function);
        Self { function, clock, store, queue, endpoints }
    }

    /// The status of the answer to a delivery with this secret, and the time that it took in milliseconds.
    async fn deliver(&self, event: &str, secret: &str) -> (u64, u128) {
        let delivery = invoice_paid(event, "in_1", 1).signed_with(secret);
        let started = Instant::now();
        let answer: Value = self.function.invoke(delivery.event(&self.clock)).await;
        (answer["statusCode"].as_u64().unwrap(), started.elapsed().as_millis())
    }

    /// The same for a delivery in an invocation of this length.
    async fn deliver_in(&self, invocation: Duration, event: &str) -> (u64, u128) {
        let event = invoice_paid(event, "in_1", 1).signed_with(secret("stripe")).event(&self.clock);
        let ends_at = u64::try_from(self.clock.now().0 + i64::try_from(invocation.as_millis()).unwrap()).unwrap();
        let mut context = Context::default();
        context.deadline = if invocation.is_zero() { 0 } else { ends_at };
        let started = Instant::now();
        let event = LambdaEvent::new(serde_json::from_value(event).unwrap(), context);
        let answer = Arc::clone(&self.function).service().call(event).await.unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        (answer["statusCode"].as_u64().unwrap(), started.elapsed().as_millis())
    }

    /// Answers one delivery, so that the document is cached, and lets it become stale.
    async fn warmed_up(self) -> Self {
        assert_eq!(self.deliver("evt_0", secret("stripe")).await, (200, 0));
        assert_eq!((self.store.calls(), self.queue.calls()), (vec!["claim".to_owned()], vec!["hint".to_owned()]));
        self.clock.advance(Millis::seconds(300));
        self
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_enqueues_survives_store_and_parameters_hanging_together() {
    let edge = Edge::new("enqueue").warmed_up().await;
    edge.store.takes(HANGS);
    edge.endpoints.set_latency(HANGS);
    for number in 1..=3 {
        let (status, took) = edge.deliver(&format!("evt_{number}"), secret("stripe")).await;
        println!("delivery {number}: {status} after {took} ms");
        assert_eq!((status, edge.queue.calls()), (200, vec!["payload".to_owned()]));
        assert!(took <= 1_900, "{took}");
    }
    edge.queue.takes(Duration::from_millis(390));
    let (status, took) = edge.deliver("evt_4", secret("stripe")).await;
    assert!(status == 200 && took <= 2_300, "a slow queue still has its time: {status} after {took} ms");
    edge.queue.takes(HANGS);
    assert_eq!(edge.deliver("evt_5", secret("stripe")).await, (503, 2_300), "everything hangs");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_rejects_says_so_in_time() {
    let edge = Edge::new("reject").warmed_up().await;
    edge.store.takes(HANGS);
    edge.endpoints.set_latency(HANGS);
    assert_eq!(edge.deliver("evt_1", secret("stripe")).await, (503, 1_900));
    assert_eq!(edge.queue.calls(), [""; 0]);
}

/// Where Parameter Store throttles, one's turn comes. A late answer keeps the event, and a refusal may lose it.
#[tokio::test(start_paused = true)]
async fn a_cold_start_waits_for_its_turn_within_the_invocation() {
    let invocation = Duration::from_secs(29);
    let edge = Edge::new("enqueue");
    edge.endpoints.throttle_for(Duration::from_secs(10));
    let (status, took) = edge.deliver_in(invocation, "evt_1").await;
    assert!(status == 200 && (10_000..14_000).contains(&took), "{status} after {took} ms");
    assert_eq!((edge.store.calls(), edge.queue.calls()), (vec!["claim".to_owned()], vec!["hint".to_owned()]));

    let edge = Edge::new("enqueue");
    edge.endpoints.throttle_for(Duration::from_secs(10));
    edge.store.takes(HANGS);
    edge.queue.takes(HANGS);
    let (status, took) = edge.deliver_in(invocation, "evt_1").await;
    let own_time = "the steps after the wait have time of their own";
    assert!(status == 503 && took < 15_500, "{own_time}: {status} after {took} ms");
    assert_eq!((edge.store.calls(), edge.queue.calls()), (vec!["claim".to_owned()], vec!["payload".to_owned()]));

    for (seconds, answered) in [(29, 25_800), (5, 3_100), (0, 1_100)] {
        let edge = Edge::new("enqueue");
        edge.endpoints.throttle_for(HANGS);
        let answer = edge.deliver_in(Duration::from_secs(seconds), "evt_1").await;
        assert!(answer.0 == 503 && (answered..answered + 50).contains(&answer.1), "{seconds} s: {answer:?}");
        assert_eq!(edge.deliver("evt_2", secret("stripe")).await, (503, 0), "the next one does not wait as well");
    }
    let edge = Edge::new("enqueue");
    edge.endpoints.set_latency(HANGS);
    assert_eq!(edge.deliver_in(invocation, "evt_1").await, (503, 1_300), "silence is no throttle");
    assert_eq!(edge.deliver("evt_2", secret("stripe")).await, (503, 0), "one delivery waits, not every one");
}

/// A process that starts on demand starts because a request waits for it. Lambda also starts processes before a request
/// comes, and does not mark them: a request that comes long after the start has not waited for it.
#[tokio::test(start_paused = true)]
async fn the_start_of_a_process_counts_against_its_first_request() {
    for (took, on_demand, after, answered) in [
        (700, true, 0, 1_600),
        (700, true, 500, 1_600),
        (700, true, 501, 2_300),
        (700, true, 600_000, 2_300),
        (700, false, 0, 2_300),
        (0, true, 0, 2_300),
        (9_000, true, 0, 1_500),
    ] {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(took)).await;
        let edge = Edge::after(StartUp::of(began, on_demand), "enqueue");
        tokio::time::sleep(Duration::from_millis(after)).await;
        edge.endpoints.set_latency(Duration::from_millis(100));
        edge.store.takes(HANGS);
        edge.queue.takes(HANGS);
        let answer = edge.deliver("evt_1", secret("stripe")).await;
        assert_eq!(answer, (503, answered), "{took} ms, {on_demand}, after {after} ms");
        assert_eq!(edge.store.calls(), ["claim"], "it is tried all the same");
        assert_eq!(edge.deliver("evt_2", secret("stripe")).await, (503, 2_300), "the next one did not wait");
    }
    assert!(FIRST_REQUEST_MIN > LOOKUP_RESERVE, "time to read the document, and to claim");
}

#[tokio::test(start_paused = true)]
async fn a_stale_document_is_used_while_the_fetch_goes_on() {
    let edge = Edge::new("reject").warmed_up().await;
    edge.endpoints.change("stripe", "secrets", json!(["whsec_a_secret_of_later_times"]));
    edge.endpoints.set_latency(Duration::from_secs(1));
    assert_eq!(edge.deliver("evt_1", secret("stripe")).await, (200, STALE_AFTER.as_millis()));
    assert_eq!(edge.deliver("evt_2", secret("stripe")).await, (200, 0), "no second fetch beside the first");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(edge.deliver("evt_3", "whsec_a_secret_of_later_times").await, (200, 0), "the fetch has ended");
    assert_eq!(edge.endpoints.fetches(), 2);
}

/// The look-ups after the first one leave the claim its time, too.
#[tokio::test(start_paused = true)]
async fn a_mismatch_waits_for_the_document_only_so_long() {
    let edge = Edge::new("reject");
    assert_eq!(edge.deliver("evt_0", secret("stripe")).await, (200, 0));
    edge.clock.advance(REFRESH_PAUSE);
    edge.endpoints.set_latency(HANGS);
    assert_eq!(edge.deliver("evt_1", "a guess").await, (401, 1_300));
}

/// A won claim is durable, so the answer does not wait for a hint that cannot be sent.
#[tokio::test(start_paused = true)]
async fn a_hint_is_left_to_the_relay_when_no_time_is_left() {
    let edge = Edge::new("reject").warmed_up().await;
    edge.queue.takes(HANGS);
    let (status, took) = edge.deliver("evt_1", secret("stripe")).await;
    assert_eq!((status, took), (200, 2_300));
    assert_eq!(edge.store.calls(), ["claim", "mark due"]);
    assert_eq!(edge.queue.calls(), ["hint"]);
    edge.clock.advance(Millis::seconds(300));
    edge.endpoints.set_latency(HANGS);
    edge.store.takes(Duration::from_millis(1_599));
    assert_eq!(edge.deliver("evt_2", secret("stripe")).await, (200, 2_300));
}
