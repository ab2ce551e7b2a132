//! The functions of one stack, driven by hand: nothing happens unless a test makes it happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use aws_sdk_sqs::types::Message;
use hookonce_aws::SqsQueue;
use hookonce_dispatcher::DispatcherFunction;
use hookonce_examples::handlers;
use hookonce_local::event_source::sqs_event;
use hookonce_local::tables::QueueRef;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::operator::{Operated, Order};
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::{Table, Write};
use hookonce_providers::Catalog;
use hookonce_relay::RelayFunction;
use hookonce_runtime::config::EdgeConfig;
use hookonce_runtime::destinations::{Caller, Destinations, RateLimited};
use hookonce_runtime::documents::endpoint::Endpoints;
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::documents::{DocumentKind, DocumentSource};
use hookonce_runtime::handlers::Handlers;
use hookonce_runtime::handlers::remote::RemoteHandlers;
use hookonce_runtime::inbox::batch::{Batch, BatchResponse};
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::operate::operate;
use hookonce_runtime::inbox::process::WorkerParts;
use hookonce_runtime::port::Store as _;
use hookonce_runtime::routes::Routes;
use hookonce_runtime::telemetry::{Sink, Telemetry};
use hookonce_webhook::WebhookFunction;
use hookonce_worker::WorkerFunction;
use serde_json::{Value, json};

use super::call_names::CallNames;
use super::clock::Clock;
use super::delivery::{Delivery, secret};
use super::destinations::Callee;
use super::documents::MemoryDocuments;
use super::faults::{Faulty, Script, TestQueue, TestStore};
use super::history::RecordHistory;
use super::iam::{Iam, Used};
use super::materials::MemoryMaterials;
use super::metrics::golden;
use super::remote::FakeHandlers;
use super::stack::{MESSAGE_KEY, TestStack, queues};
use super::tables::Tables;
use super::webhook::{Answer, Webhook};

pub(crate) type Worker = WorkerFunction<TestStore, TestQueue, Clock>;
pub(crate) type Dispatcher = DispatcherFunction<TestStore, TestQueue, Clock>;
pub(crate) type Relay = RelayFunction<TestStore, TestQueue, Clock>;

/// The longest message that the embedded queue takes, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// How long one call of the relay takes at most, as it counts on.
pub(crate) const CALL_MAX: Millis = Millis::seconds(2);

/// The relay's timeout.
pub(crate) const RELAY_TIMEOUT: Millis = Millis::seconds(60);

/// Providers whose endpoint has the provider's name.
const PROVIDERS: [&str; 6] = ["stripe", "github", "meta_whatsapp", "slack", "standard_webhooks", "shopify"];

/// Batches that one call of [`Harness::work`] takes from the queue, at most.
const BATCHES_MAX: usize = 16;

/// Rounds of work and relay until a stack must be at rest.
const ROUNDS_MAX: usize = 16;

/// A stack and everything that is not AWS.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) stack: TestStack,
    pub(crate) clock: Clock,
    pub(crate) timing: Timing,
    pub(crate) budget: Budget,
    pub(crate) endpoints: MemoryDocuments,
    pub(crate) materials: MemoryMaterials,
    pub(crate) edge: EdgeConfig,
    /// The message key of the functions.
    pub(crate) keys: MessageKeys,
    metrics: Arc<Mutex<Vec<String>>>,
    pub(crate) handlers: fn() -> Handlers,
    /// The handlers in other languages. Without it, each of them is unavailable.
    pub(crate) remote: Option<FakeHandlers>,
    /// Where workers find their routes. Without it, the handlers are asked in their order.
    pub(crate) routes: Option<MemoryDocuments>,
    /// Where effects may go.
    pub(crate) destinations: MemoryDocuments,
    /// Whether functions read documents from the table. A test writes them before.
    reads_table: bool,
    /// Stands for every destination, unless there is a `caller`.
    pub(crate) callee: Callee,
    /// Makes the calls over the network.
    pub(crate) caller: Option<Arc<dyn Caller>>,
    used: Mutex<BTreeMap<&'static str, Used>>,
    history: Mutex<RecordHistory>,
}

impl Harness {
    /// A fresh stack with the handlers that ship.
    pub(crate) async fn new() -> Self {
        Self::with(handlers).await
    }

    /// A fresh stack with these handlers.
    pub(crate) async fn with(handlers: fn() -> Handlers) -> Self {
        let endpoints = MemoryDocuments::of(DocumentKind::Endpoint);
        let destinations = endpoints.and_of(DocumentKind::Destination);
        for provider in PROVIDERS {
            endpoints.put(provider, json!({ "provider": provider, "secrets": [secret(provider)] }).to_string());
        }
        Self {
            stack: TestStack::new().await,
            clock: Clock::new(1),
            // A slow machine adds no fault of its own: `deadlines` tests the deployed timeout, in virtual time.
            timing: Timing {
                shards: 2,
                webhook_timeout: Millis::seconds(60),
                best_effort_timeout: Millis::seconds(60),
                ..Timing::standard()
            },
            budget: Budget::standard(),
            endpoints,
            materials: MemoryMaterials::default(),
            edge: EdgeConfig::direct(),
            keys: MessageKeys::fixed(MESSAGE_KEY),
            metrics: Arc::default(),
            handlers,
            remote: None,
            routes: None,
            destinations,
            reads_table: false,
            callee: Callee::default(),
            caller: None,
            used: Mutex::default(),
            history: Mutex::default(),
        }
    }

    /// The same with workers that read this route set.
    pub(crate) fn routed(mut self, set: &Value) -> Self {
        let routes = self.endpoints.and_of(DocumentKind::Routes);
        routes.put_set(set);
        self.routes = Some(routes);
        self
    }

    /// The same with functions that read the documents of now from the table of the stack.
    pub(crate) async fn reading_table(mut self) -> Self {
        self.write_documents().await;
        self.reads_table = true;
        // So that nothing works with those in memory.
        for kind in [DocumentKind::Endpoint, DocumentKind::Destination, DocumentKind::Routes] {
            self.endpoints.and_of(kind).set_down(true);
        }
        self
    }

    /// Writes the documents of now into the table of the stack.
    pub(crate) async fn write_documents(&self) {
        for (kind, id, text) in self.endpoints.all() {
            self.stack.write_document(kind, &id, &text).await;
        }
    }

    fn documents(&self, function: &'static str) -> Arc<dyn DocumentSource> {
        if !self.reads_table {
            return self.endpoints.source();
        }
        Arc::new(self.stack.documents_of(self.dynamodb(function)))
    }

    fn dynamodb(&self, function: &'static str) -> aws_sdk_dynamodb::Client {
        let config = self.stack.dynamodb.config().to_builder().interceptor(self.iam(function)).interceptor(CallNames);
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    pub(crate) fn store(&self, function: &'static str, script: &Script) -> TestStore {
        Faulty::new(self.stack.store_of(self.dynamodb(function)), script)
    }

    fn sqs(&self, function: &'static str) -> aws_sdk_sqs::Client {
        let config = self.stack.sqs.config().to_builder().interceptor(self.iam(function)).interceptor(CallNames);
        aws_sdk_sqs::Client::from_conf(config.build())
    }

    pub(crate) fn queue(&self, function: &'static str, script: &Script) -> TestQueue {
        Faulty::new(queues(self.sqs(function), &self.stack.resources).with_keys(self.keys.clone()), script)
    }

    fn iam(&self, function: &'static str) -> Iam {
        let used = Arc::clone(self.used.lock().unwrap().entry(function).or_default());
        Iam::new(function, &self.stack.resources, &used)
    }

    /// What a function has called so far: pairs of resource and action, as the template names them.
    pub(crate) fn used(&self, function: &str) -> BTreeSet<(String, String)> {
        self.used.lock().unwrap().get(function).map(|used| used.lock().unwrap().clone()).unwrap_or_default()
    }

    fn telemetry(&self, function: &'static str) -> Telemetry {
        let lines = Arc::clone(&self.metrics);
        let sink: Sink = Arc::new(move |line: &str| {
            let strange = golden().strange(line);
            assert!(strange.is_empty(), "tests/metrics.txt does not list {strange:?}");
            lines.lock().unwrap().push(line.to_owned());
        });
        Telemetry::new(function, "hookonce", sink)
    }

    /// A webhook function that has just started.
    pub(crate) fn webhook(&self, script: &Script) -> Webhook {
        let ingress = IngressParts {
            store: self.store("WebhookFunction", script),
            queue: self.queue("WebhookFunction", script),
            keys: self.keys.clone(),
            ambient: self.clock.clone(),
            timing: self.timing,
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let endpoints = Endpoints::new(self.documents("WebhookFunction"), Catalog::built_in());
        let materials = Materials::new(self.materials.clone());
        Webhook::new(WebhookFunction::new(ingress, endpoints, materials, self.edge.clone(), self.telemetry("webhook")))
    }

    /// A worker function that has just started.
    pub(crate) fn worker(&self, script: &Script) -> Worker {
        self.worker_of(script, Catalog::built_in())
    }

    /// A worker function with the catalog of another release.
    pub(crate) fn worker_with(&self, catalog: &'static Catalog) -> Worker {
        self.worker_of(&Script::none(), catalog)
    }

    fn worker_of(&self, script: &Script, catalog: &'static Catalog) -> Worker {
        let routes = match &self.routes {
            Some(_) => Routes::new(self.documents("WorkerFunction"), (self.handlers)().names()),
            None => Routes::builtin(),
        };
        let parts = WorkerParts {
            store: self.store("WorkerFunction", script),
            queue: self.queue("WorkerFunction", script),
            keys: self.keys.clone(),
            ambient: self.clock.clone(),
            handlers: (self.handlers)(),
            remote: self.remote.as_ref().map_or_else(RemoteHandlers::none, FakeHandlers::remote),
            catalog,
            timing: self.timing,
        };
        WorkerFunction::new(parts, routes.with_tables(self.stack.aliases()), self.telemetry("worker"))
    }

    /// A relay function that has just started.
    fn relay_function(&self, script: &Script) -> Relay {
        let parts = RelayParts {
            store: self.store("RelayFunction", script),
            queue: self.queue("RelayFunction", script),
            keys: self.keys.clone(),
            ambient: self.clock.clone(),
            timing: self.timing,
            budget: self.budget,
            call_max: CALL_MAX,
        };
        RelayFunction::new(parts, self.telemetry("relay"))
    }

    /// A dispatcher function that has just started.
    pub(crate) fn dispatcher(&self, script: &Script) -> Dispatcher {
        let queue = SqsQueue::new(self.sqs("DispatcherFunction"), &self.stack.resources.effects_queue.url);
        let parts = DispatcherParts {
            store: self.store("DispatcherFunction", script),
            queue: Faulty::new(queue, script),
            ambient: self.clock.clone(),
            destinations: Destinations::new(self.documents("DispatcherFunction")),
            caller: RateLimited::new(self.caller.clone().unwrap_or_else(|| Arc::new(self.callee.clone()))),
            timing: self.timing,
        };
        DispatcherFunction::new(parts, self.telemetry("dispatcher"))
    }

    /// The store of an operator's tool that meets faults.
    pub(crate) fn operator_store(&self, script: &Script) -> TestStore {
        let config = self.stack.dynamodb.config().to_builder().interceptor(CallNames);
        let client = aws_sdk_dynamodb::Client::from_conf(config.build());
        Faulty::new(self.stack.store_of(client), script)
    }

    /// Delivers, signed now.
    pub(crate) async fn deliver(&self, delivery: &Delivery) -> Answer {
        self.deliver_under(&Script::none(), delivery).await.unwrap()
    }

    /// Delivers to a function that meets faults; `None` if it was killed.
    pub(crate) async fn deliver_under(&self, script: &Script, delivery: &Delivery) -> Option<Answer> {
        let webhook = self.webhook(script);
        script.run(Box::pin(webhook.handle(delivery.event(&self.clock)))).await
    }

    /// One batch from the queue, as the event source would deliver it; `None` if the queue shows no message.
    pub(crate) async fn batch(&self) -> Option<(Vec<Message>, Batch)> {
        self.batch_of(&self.stack.resources.queue).await
    }

    /// One batch of a queue.
    pub(crate) async fn batch_of(&self, queue: &QueueRef) -> Option<(Vec<Message>, Batch)> {
        let messages = self.stack.receive(queue).await;
        if messages.is_empty() {
            return None;
        }
        let batch = serde_json::from_value(sqs_event(&messages, &queue.arn, "us-east-1")).unwrap();
        Some((messages, batch))
    }

    /// Deletes what was acknowledged and holds the rest until [`redeliver`](Self::redeliver).
    pub(crate) async fn conclude(&self, messages: Vec<Message>, response: Option<BatchResponse>) {
        self.conclude_of(&self.stack.resources.queue, messages, response).await;
    }

    async fn conclude_of(&self, queue: &QueueRef, messages: Vec<Message>, response: Option<BatchResponse>) {
        let response = response.map(|response| json!(response));
        self.stack.conclude(queue, &messages, response).await;
        self.observe().await;
    }

    /// Works on one batch with a function that meets faults. Says whether there was one.
    pub(crate) async fn work_under(&self, script: &Script) -> bool {
        self.work_on(&self.worker(script), &self.stack.resources.queue, script).await
    }

    /// Works on one batch of a queue with this function. Says whether there was one.
    pub(crate) async fn work_on(&self, worker: &Worker, queue: &QueueRef, script: &Script) -> bool {
        let Some((messages, batch)) = self.batch_of(queue).await else { return false };
        let response = script.run(Box::pin(worker.handle(batch, self.deadline()))).await;
        self.conclude_of(queue, messages, response).await;
        true
    }

    /// Works until the queue shows no message.
    pub(crate) async fn work(&self) {
        for _ in 0..BATCHES_MAX {
            if !self.work_under(&Script::none()).await {
                return;
            }
        }
    }

    /// Dispatches one batch of effects with a function that meets faults. Says whether there was one.
    pub(crate) async fn dispatch_under(&self, script: &Script, deadline: EpochMs) -> bool {
        let queue = &self.stack.resources.effects_queue;
        let Some((messages, batch)) = self.batch_of(queue).await else { return false };
        let dispatcher = self.dispatcher(script);
        let response = script.run(Box::pin(dispatcher.handle(batch, deadline))).await;
        self.conclude_of(queue, messages, response).await;
        true
    }

    /// Dispatches until the effects queue shows no message.
    pub(crate) async fn dispatch(&self) {
        for _ in 0..BATCHES_MAX {
            if !self.dispatch_under(&Script::none(), self.deadline()).await {
                return;
            }
        }
    }

    /// Makes every message visible again that was received and not deleted.
    pub(crate) async fn redeliver(&self) {
        self.stack.redeliver().await;
    }

    /// Takes every visible message out of the queue permanently, and returns how many there were.
    pub(crate) async fn lose_hints(&self) -> usize {
        self.stack.lose(&self.stack.resources.queue).await
    }

    /// Takes every visible message out of the effects queue permanently, and returns how many there were.
    pub(crate) async fn lose_effects(&self) -> usize {
        self.stack.lose(&self.stack.resources.effects_queue).await
    }

    /// When Lambda ends a relay that starts now.
    pub(crate) fn deadline(&self) -> EpochMs {
        self.clock.now().plus(RELAY_TIMEOUT)
    }

    /// The relay's answer to an event, if Lambda ends it at this time.
    pub(crate) async fn relay_on(&self, event: Value, deadline: EpochMs) -> Value {
        self.relay_function(&Script::none()).handle(event, deadline).await
    }

    /// One run of the relay.
    pub(crate) async fn relay(&self) -> Value {
        self.relay_under(&Script::none()).await.unwrap()
    }

    /// One run of a relay that meets faults; `None` if it was killed.
    pub(crate) async fn relay_under(&self, script: &Script) -> Option<Value> {
        let relay = self.relay_function(script);
        let report = script.run(Box::pin(relay.handle(json!({ "source": "aws.events" }), self.deadline()))).await;
        self.observe().await;
        report
    }

    /// One scheduled run of the relay that takes the dead letters at this address.
    pub(crate) async fn relay_with_letters(&self, url: &str) -> Value {
        let queue = SqsQueue::new(self.sqs("RelayFunction"), &self.stack.resources.queue.url);
        let receive = async || queue.receive(url).await;
        let delete = async |receipts: &[String]| queue.delete(url, receipts).await;
        let relay = self.relay_function(&Script::none());
        let report = relay.handle_with_letters(receive, delete, self.deadline()).await;
        self.observe().await;
        report
    }

    /// Hands the text of a message to the relay as a dead letter. Nobody says when it was sent.
    pub(crate) async fn bury_under(&self, script: &Script, text: &str) -> Option<Value> {
        let relay = self.relay_function(script);
        let letter = json!({ "messageId": "dead-1", "receiptHandle": "receipt-1", "body": text });
        let response = script.run(Box::pin(relay.handle(json!({ "Records": [letter] }), self.deadline()))).await;
        self.observe().await;
        response
    }

    /// Carries out an operator's write.
    pub(crate) async fn operate(&self, write: &Write) -> hookonce_protocol::call::Written {
        let written = self.operator_store(&Script::none()).write(write).await;
        self.observe().await;
        written
    }

    /// Carries out an order on a record as it was read.
    pub(crate) async fn ordered(&self, record: &Record, order: &Order) -> Operated {
        let operated = operate(&self.stack.store(), record, order, &self.timing, &self.clock).await;
        self.observe().await;
        operated
    }

    /// Declares that what is written next to a record is no step of it.
    pub(crate) fn forget(&self, key: &RecordKey) {
        self.history.lock().unwrap().forget(key.as_str());
    }

    /// Deletes a record as its expiry would.
    pub(crate) async fn expire(&self, key: &RecordKey) {
        self.stack.expire(Table::Inbox, key.as_str()).await;
        self.forget(key);
    }

    /// Works, lets time pass and runs the relay until nothing is owed and nothing is queued.
    pub(crate) async fn settle(&self) {
        let mut pause = Millis::minutes(10);
        for _ in 0..ROUNDS_MAX {
            self.redeliver().await;
            self.work().await;
            self.dispatch().await;
            if self.is_at_rest().await {
                return;
            }
            self.clock.advance(pause);
            pause = Millis(pause.0 * 2).min(Millis::hours(7));
            self.relay().await;
        }
        panic!("not at rest after {ROUNDS_MAX} rounds: {:#?}", self.tables().await.records);
    }

    async fn is_at_rest(&self) -> bool {
        let records = self.observe().await;
        let waiting = self.stack.messages().await + self.stack.messages_of(&self.stack.resources.effects_queue).await;
        !records.values().any(|record| record.status == Status::Pending) && waiting == 0
    }

    /// Notes the current state of every record.
    pub(crate) async fn observe(&self) -> BTreeMap<String, Record> {
        let records = self.records().await;
        self.history.lock().unwrap().observe(&records, &self.timing);
        records
    }

    /// Every record as it is now.
    pub(crate) async fn records(&self) -> BTreeMap<String, Record> {
        Tables::open(&self.stack.scan(Table::Inbox).await, Vec::new(), Vec::new()).records
    }

    /// Reads both tables.
    pub(crate) async fn tables(&self) -> Tables {
        let (inbox, domain) = (self.stack.scan(Table::Inbox).await, self.stack.scan(Table::Domain).await);
        let broken = self.history.lock().unwrap().broken();
        Tables::open(&inbox, domain, broken)
    }

    /// The metric lines so far.
    pub(crate) fn metric_lines(&self) -> Vec<String> {
        self.metrics.lock().unwrap().clone()
    }

    /// The sum of a metric over all lines so far.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let lines = self.metric_lines();
        let value = |line: &String| serde_json::from_str::<Value>(line).unwrap()[name].as_i64();
        lines.iter().filter_map(value).sum()
    }

    /// Whether any line so far has this metric.
    pub(crate) fn counted(&self, name: &str) -> bool {
        self.metric_lines().iter().any(|line| line.contains(&format!("\"{name}\":")))
    }
}

/// The body of an answer, as JSON.
pub(crate) fn body(outbound: &Answer) -> Value {
    serde_json::from_str(&outbound.body).unwrap_or_else(|_| panic!("not JSON: {:?}", outbound.body))
}

/// Status and `status` or `error` of an answer.
pub(crate) fn word(outbound: &Answer) -> (u16, String) {
    let body = body(outbound);
    let word = body["status"].as_str().or(body["error"].as_str()).unwrap();
    (outbound.status_code, word.to_owned())
}
