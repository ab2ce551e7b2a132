//! One deadline per request: what happens when stores, queues and lookups hang. In virtual time.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Write;
use hookonce_providers::Catalog;
use hookonce_runtime::config::{EdgeConfig, MESSAGE_BYTES_MAX};
use hookonce_runtime::documents::DocumentKind;
use hookonce_runtime::documents::endpoint::{Endpoints, REFRESH_PAUSE, STALE_AFTER};
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::{NotRead, Queue, Store};
use hookonce_runtime::telemetry::Telemetry;
use hookonce_webhook::WebhookFunction;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::clock::Clock;
use crate::support::delivery::secret;
use crate::support::documents::MemoryDocuments;
use crate::support::materials::MemoryMaterials;
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

    async fn hide(&self, _lane: HintQueue, _receipt_handle: &str, _length: Millis) -> Result<(), Unavailable> {
        pending().await
    }
}

type Function = WebhookFunction<Slow, Slow, MemoryMaterials, Clock>;

/// A webhook function between things that may hang.
struct Edge {
    function: Arc<Function>,
    clock: Clock,
    store: Slow,
    queue: Slow,
    endpoints: MemoryDocuments,
}

impl Edge {
    /// An edge with one endpoint, `stripe`, with this policy.
    fn new(on_store_outage: &str) -> Self {
        let (clock, store, queue) = (Clock::new(1), Slow::default(), Slow::default());
        let endpoints = MemoryDocuments::of(DocumentKind::Endpoint);
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
        let lookups = Endpoints::new(endpoints.source(), Catalog::built_in());
        let materials = Materials::new(MemoryMaterials::default());
        let telemetry = Telemetry::new("webhook", "test", Arc::new(|_: &str| {}));
        let function = Arc::new(WebhookFunction::new(ingress, lookups, materials, EdgeConfig::direct(), telemetry));
        Self { function, clock, store, queue, endpoints }
    }

    /// The status of the answer to a delivery with this secret, and the time that it took in milliseconds.
    async fn deliver(&self, event: &str, secret: &str) -> (u64, u128) {
        let delivery = invoice_paid(event, "in_1", 1).signed_with(secret);
        let started = Instant::now();
        let answer: Value = self.function.invoke(delivery.event(&self.clock)).await;
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
async fn an_endpoint_that_enqueues_survives_store_and_documents_hanging_together() {
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
async fn a_rejecting_endpoint_answers_in_time() {
    let edge = Edge::new("reject").warmed_up().await;
    edge.store.takes(HANGS);
    edge.endpoints.set_latency(HANGS);
    assert_eq!(edge.deliver("evt_1", secret("stripe")).await, (503, 1_900));
    assert_eq!(edge.queue.calls(), [""; 0]);
}

/// Nothing is known of the endpoint, so nothing can be judged. The answer asks for another delivery, in time.
#[tokio::test(start_paused = true)]
async fn a_cold_start_whose_document_hangs_answers_in_time_and_the_next_delivery_reads_it_again() {
    for on_store_outage in ["enqueue", "reject"] {
        let edge = Edge::new(on_store_outage);
        edge.endpoints.set_latency(HANGS);
        for number in 1..=2 {
            assert_eq!(edge.deliver(&format!("evt_{number}"), secret("stripe")).await, (503, 1_300));
        }
        assert_eq!((edge.store.calls(), edge.queue.calls()), (Vec::<String>::new(), Vec::<String>::new()));
        edge.endpoints.set_latency(Duration::ZERO);
        assert_eq!(edge.deliver("evt_3", secret("stripe")).await, (200, 0));
        assert_eq!(edge.endpoints.reads(), 3);
    }
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
    assert_eq!(edge.endpoints.reads(), 2);
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
