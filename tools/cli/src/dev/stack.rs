//! The whole inbox on this machine: the same four functions that you deploy, between local stand-ins for AWS.
//!
//! Usually everything runs in this process. Other servers can take over the tables and queues (DynamoDB Local,
//! ElasticMQ), and another process can run the functions (`cargo lambda watch`). The event source and the schedule
//! always run here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hookonce_aws::{DynamoStore, HttpsMaterials, LoopbackHandlers, SqsQueue, retries, timeouts};
use hookonce_dispatcher::DispatcherFunction;
use hookonce_local::ambient::Ambient;
use hookonce_local::backends::{BackendError, Backends, DataLocation};
use hookonce_local::calls::CallCounts;
use hookonce_local::clients;
use hookonce_local::event_source::{EventSource, EventSourceConfig, EventSourceConfigError};
use hookonce_local::gateway::{Gateway, GatewayConfig, GatewayError};
use hookonce_local::invoke::{HttpInvoke, Invoke, InvokeError, invoke_fn};
use hookonce_local::process::{ProcessConfig, ProcessInvoke};
use hookonce_local::schedule::{Schedule, ScheduleConfig};
use hookonce_local::tables::{
    CreateError, OwnTableShape, QueueRef, StackLocation, StackResources, StackShape, create_stack,
};
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_relay::RelayFunction;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::EdgeConfig;
use hookonce_runtime::destinations::{Destinations, HttpCaller, RateLimited};
use hookonce_runtime::documents::DocumentSource;
use hookonce_runtime::documents::endpoint::Endpoints;
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::handlers::Handlers;
use hookonce_runtime::handlers::remote::RemoteHandlers;
use hookonce_runtime::handlers::tables::{OwnTables, aliases};
use hookonce_runtime::inbox::batch::Batch;
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::inbox::drive::duration;
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::WorkerParts;
use hookonce_runtime::routes::Routes;
use hookonce_runtime::telemetry::Telemetry;
use hookonce_webhook::WebhookFunction;
use hookonce_worker::WorkerFunction;
use serde_json::json;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::dev::capture::Capturer;
use crate::dev::handlers::local_worker;
use crate::dev::life::{Feed, RestingRelay, WatchedWebhook, WatchedWorker};
use crate::dev::own_handlers::{HandlerCommands, OwnHandlers};
use crate::stack::connection::RunningStack;
use crate::stack::pauses::{PausedFunction, Switches};
use crate::stack::target::DataFolder;

/// The longest message body that the embedded queue accepts, in bytes. SQS accepts four times as much.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// How often expired items are deleted. Each sweep reads every item that will expire.
const TTL_SWEEP_PERIOD: Duration = Duration::from_mins(1);

/// How often the relay runs. It runs once a minute on AWS; nobody wants to wait that long on a laptop.
const RELAY_PERIOD: Duration = Duration::from_secs(2);

/// How long one call of the relay may take. Its run must fit several of them, one after the other.
const RELAY_CALL_MAX: Millis = Millis::seconds(4);

/// How the names of tables and queues begin, unless another one is asked for.
pub(crate) const PREFIX: &str = "hookonce";

/// The names of the functions' binaries. That of the worker depends on its handlers.
const WEBHOOK: &str = "hookonce-webhook";
const RELAY: &str = "hookonce-relay";
const DISPATCHER: &str = "hookonce-dispatcher";

/// The most processes of one function in parallel.
const PROCESSES_MAX: usize = 4;

/// How long the webhook function may take. Here no provider waits for the answer.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one call of a function to the store or the queue may take.
const CALL_MAX: Millis = Millis::seconds(8);

/// Which servers a stack uses.
#[derive(Debug, Clone)]
pub(crate) enum Servers {
    /// Embedded ones, with their tables in this place.
    Embedded(DataLocation),
    /// Servers at these URLs.
    At {
        /// The endpoint URL of DynamoDB.
        dynamodb_url: String,
        /// The endpoint URL of SQS.
        sqs_url: String,
        /// How the names of the tables and queues begin.
        prefix: String,
    },
}

impl Servers {
    fn prefix(&self) -> &str {
        match self {
            Self::Embedded(_) => PREFIX,
            Self::At { prefix, .. } => prefix,
        }
    }
}

/// Who runs the functions.
#[derive(Debug, Clone)]
pub(crate) enum Functions {
    /// This process, behind its own gateway.
    InProcess {
        /// The gateway's port; 0 takes a free one.
        port: u16,
    },
    /// Separate processes, from the binaries in this folder, behind this process's gateway.
    Binaries {
        /// The folder.
        folder: PathBuf,
        /// The gateway's port; 0 takes a free one.
        port: u16,
    },
    /// Lambda's invoke API at this URL, which is also the gateway.
    At(String),
}

/// The configuration of a stack.
#[derive(Clone)]
pub(crate) struct StackConfig {
    /// Which servers it uses.
    pub(crate) servers: Servers,
    /// Who runs the functions.
    pub(crate) functions: Functions,
    /// The handlers of the worker in this process.
    pub(crate) built_in: fn() -> Handlers,
    /// The folder of endpoint documents and of the route set.
    pub(crate) folder: DataFolder,
    /// User tables, which handlers may use.
    pub(crate) tables: Vec<OwnTableShape>,
    /// The protocol's durations.
    pub(crate) timing: Timing,
    /// The origin under which providers call, if not that of the gateway.
    pub(crate) public_url: Option<String>,
    /// Learns of deliveries and outcomes.
    pub(crate) feed: Feed,
    /// Keeps requests.
    pub(crate) capturer: Option<Arc<Capturer>>,
    /// Handlers in other languages.
    pub(crate) handlers: HandlerCommands,
    /// Ends the invocations of the dispatcher in this process that run, as the death of its process would.
    pub(crate) dispatcher_deaths: Arc<Notify>,
}

/// A function was killed.
#[derive(Debug, thiserror::Error)]
#[error("killed")]
struct Killed;

impl std::fmt::Debug for StackConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackConfig")
            .field("servers", &self.servers)
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

/// Why a stack could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StackError {
    /// Another stack of the same folder.
    #[error("a stack runs in this folder already: {url}, process {pid}; stop it, or use its address")]
    Runs { url: String, pid: u32 },
    /// The embedded servers.
    #[error("starting the embedded servers failed")]
    Backend(#[source] BackendError),
    /// The tables and queues.
    #[error("creating the tables and queues failed")]
    Create(#[source] CreateError),
    /// The gateway.
    #[error("starting the gateway failed")]
    Gateway(#[source] GatewayError),
    /// The event source.
    #[error("starting the event source failed")]
    EventSource(#[source] EventSourceConfigError),
    /// The functions' service.
    #[error("the URL of the functions cannot be used")]
    Functions(#[source] InvokeError),
    /// The service that runs handlers in other languages.
    #[error("no port for the handlers is free")]
    Handlers(#[source] std::io::Error),
}

impl StackError {
    /// Why the servers do not start. Whoever holds the folder has said in it where it is.
    fn starting(error: BackendError, folder: &DataFolder) -> Self {
        match (error, folder.described()) {
            (BackendError::DirectoryInUse { .. }, Some(RunningStack { url, pid, .. })) => Self::Runs { url, pid },
            (error, _) => Self::Backend(error),
        }
    }
}

/// The calls to AWS that each function has made so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionCalls {
    /// The webhook function.
    pub(crate) webhook: CallCounts,
    /// The worker function.
    pub(crate) worker: CallCounts,
    /// The relay function.
    pub(crate) relay: CallCounts,
    /// The dispatcher function.
    pub(crate) dispatcher: CallCounts,
}

impl FunctionCalls {
    /// The sum of all four, by operation.
    pub(crate) fn total(&self) -> BTreeMap<String, u64> {
        let mut total = BTreeMap::new();
        for counts in [&self.webhook, &self.worker, &self.relay, &self.dispatcher] {
            for (name, count) in counts.by_name() {
                *total.entry(name).or_default() += count;
            }
        }
        total
    }
}

/// A running stack.
#[derive(Debug)]
pub(crate) struct Stack {
    pollers: Pollers,
    gateway: Option<Gateway>,
    backends: Option<Backends>,
    place: StackLocation,
    url: String,
    calls: FunctionCalls,
    own: OwnHandlers,
}

/// The parts that invoke the worker, the relay and the dispatcher.
#[derive(Debug)]
struct Pollers {
    hints: EventSource,
    slow_hints: EventSource,
    effects: EventSource,
    dead_letters: EventSource,
    schedule: Schedule,
    switches: Switches,
}

impl Stack {
    /// Starts everything. The gateway answers as soon as this returns.
    ///
    /// # Errors
    /// [`StackError`]; nothing is left running.
    pub(crate) async fn start(config: StackConfig) -> Result<Self, StackError> {
        let (backends, dynamodb_url, sqs_url) = match &config.servers {
            Servers::Embedded(data) => {
                let backends = Backends::start(data.clone(), TTL_SWEEP_PERIOD)
                    .map_err(|error| StackError::starting(error, &config.folder))?;
                let (dynamodb_url, sqs_url) = (backends.dynamodb_url().to_owned(), backends.sqs_url().to_owned());
                (Some(backends), dynamodb_url, sqs_url)
            }
            Servers::At { dynamodb_url, sqs_url, .. } => (None, dynamodb_url.clone(), sqs_url.clone()),
        };
        let shape = StackShape { own_tables: config.tables.clone(), ..StackShape::deployed(config.servers.prefix()) };
        let resources = create_stack(&clients::dynamodb(&dynamodb_url), &clients::sqs(&sqs_url), &shape)
            .await
            .map_err(StackError::Create)?;
        let place = StackLocation { dynamodb_url, sqs_url, resources };
        let access_key_id = clients::access_key_id(&place.dynamodb_url);
        let own = config.handlers.start(access_key_id, ambient()).await.map_err(StackError::Handlers)?;
        let calls = FunctionCalls::default();
        let (pollers, gateway, url) = match &config.functions {
            Functions::InProcess { port } => {
                let parts = Parts { place: &place, config: &config, own: &own };
                let gateway = start_gateway(parts.webhook(&calls.webhook), *port, &config).await?;
                let (worker, relay) = (parts.worker(&calls.worker), parts.relay(&calls.relay));
                let pollers = Pollers::start(worker, relay, parts.dispatcher(&calls.dispatcher), &place, &config)?;
                let url = gateway.url();
                (pollers, Some(gateway), url)
            }
            Functions::Binaries { folder, port } => {
                let environment = environment(&place, &config.folder, config.public_url.as_deref(), &own);
                let function = |name| {
                    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
                    let process = ProcessConfig {
                        binary: folder.join(name),
                        arguments: Vec::new(),
                        api_scheme: "http://",
                        environment: environment.collect(),
                        lines: None,
                        concurrency_max: PROCESSES_MAX,
                        slot_wait_max: None,
                    };
                    ProcessInvoke::new(process, ambient())
                };
                let gateway = start_gateway(function(WEBHOOK), *port, &config).await?;
                let pollers =
                    Pollers::start(function(local_worker()), function(RELAY), function(DISPATCHER), &place, &config)?;
                let url = gateway.url();
                (pollers, Some(gateway), url)
            }
            Functions::At(url) => {
                let function = |name| HttpInvoke::new(url, name).map_err(StackError::Functions);
                let (worker, relay, dispatcher) = (function(local_worker())?, function(RELAY)?, function(DISPATCHER)?);
                let pollers = Pollers::start(worker, relay, dispatcher, &place, &config)?;
                (pollers, None, url.trim_end_matches('/').to_owned())
            }
        };
        Ok(Self { pollers, gateway, backends, place, url, calls, own })
    }

    /// The URL of the gateway, without a slash at the end. Deliveries go to `/webhooks/{endpoint}` below it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URLs of the servers, and the tables and queues created there.
    pub(crate) fn place(&self) -> &StackLocation {
        &self.place
    }

    /// The handlers in other languages.
    pub(crate) fn own_handlers(&self) -> &OwnHandlers {
        &self.own
    }

    /// The calls that the functions in this process have made so far.
    pub(crate) fn calls(&self) -> &FunctionCalls {
        &self.calls
    }

    /// Stops everything that this process runs, in an order that lets running work end.
    pub(crate) async fn shutdown(self) {
        if let Some(gateway) = self.gateway {
            gateway.shutdown().await;
        }
        self.pollers.stop().await;
        if let Some(backends) = self.backends {
            backends.shutdown().await;
        }
    }
}

/// The user tables of a stack, by their aliases.
pub(crate) fn own_tables(resources: &StackResources) -> OwnTables {
    let named = |(alias, name): &(String, String)| Some((TableAlias::parse(alias).ok()?, name.clone()));
    resources.own_tables.iter().filter_map(named).collect()
}

/// The environment variables of functions that another process runs.
pub(crate) fn environment(
    place: &StackLocation,
    folder: &DataFolder,
    public_url: Option<&str>,
    own: &OwnHandlers,
) -> Vec<(&'static str, String)> {
    let public_url = public_url.map(|url| ("HOOKONCE_PUBLIC_URL", url.to_owned()));
    let lambda_url = own.url().map(|url| ("AWS_ENDPOINT_URL_LAMBDA", clients::without_key(url)));
    let environment = place.environment(Some(&folder.data));
    environment.into_iter().chain(public_url).chain(lambda_url).collect()
}

async fn start_gateway(webhook: impl Invoke, port: u16, stack: &StackConfig) -> Result<Gateway, StackError> {
    let webhook = WatchedWebhook(webhook, stack.feed.clone(), stack.capturer.clone());
    let config = GatewayConfig {
        port,
        integration_timeout: WEBHOOK_TIMEOUT,
        function_timeout: WEBHOOK_TIMEOUT,
        public_host: stack.public_url.as_deref().map(|url| url.trim_start_matches("https://").to_owned()),
    };
    Gateway::start(webhook, config, ambient()).await.map_err(StackError::Gateway)
}

impl Pollers {
    fn start(
        worker: impl Invoke,
        relay: impl Invoke,
        dispatcher: impl Invoke,
        place: &StackLocation,
        config: &StackConfig,
    ) -> Result<Self, StackError> {
        let sqs = clients::sqs(&place.sqs_url);
        let relay = Arc::new(relay);
        let worker = Arc::new(WatchedWorker(worker, config.feed.clone()));
        let dispatcher = WatchedWorker(dispatcher, config.feed.clone());
        let timeout = duration(config.timing.worker_timeout);
        let begins = |function| Switches::begins_on(&config.folder, function);
        let (worker_on, dispatcher_on) = (begins(PausedFunction::Worker), begins(PausedFunction::Dispatcher));
        // A pause waits for the poll that is running.
        let source = |queue: &QueueRef, enabled| EventSourceConfig {
            queue_url: queue.url.clone(),
            queue_arn: queue.arn.clone(),
            region: clients::REGION.to_owned(),
            batch_size: 10,
            batching_window: Duration::ZERO,
            concurrency_max: 8,
            long_poll: Duration::from_secs(5),
            function_timeout: timeout,
            enabled,
        };
        let StackResources { queue, slow_queue, effects_queue, dead_letter_queue, .. } = &place.resources;
        let hints = EventSource::start(sqs.clone(), Arc::clone(&worker), source(queue, worker_on))
            .map_err(StackError::EventSource)?;
        let slow_hints =
            EventSource::start(sqs.clone(), worker, source(slow_queue, worker_on)).map_err(StackError::EventSource)?;
        let effects = EventSource::start(sqs.clone(), dispatcher, source(effects_queue, dispatcher_on))
            .map_err(StackError::EventSource)?;
        let burying = WatchedWorker(Arc::clone(&relay), config.feed.clone());
        // Nobody pauses this one.
        let patient = EventSourceConfig { long_poll: Duration::from_secs(20), ..source(dead_letter_queue, true) };
        let dead_letters = EventSource::start(sqs, burying, patient).map_err(StackError::EventSource)?;
        let clock = ScheduleConfig { rule: "relay".to_owned(), period: RELAY_PERIOD, function_timeout: timeout };
        let schedule = Schedule::start(RestingRelay::new(relay, config.feed.clone()), clock, ambient());
        let sources = [
            (PausedFunction::Worker, vec![hints.switch(), slow_hints.switch()]),
            (PausedFunction::Dispatcher, vec![effects.switch()]),
        ];
        let switches = Switches::obey(config.folder.clone(), sources);
        Ok(Self { hints, slow_hints, effects, dead_letters, schedule, switches })
    }

    async fn stop(self) {
        drop(self.switches);
        let hints = async { tokio::join!(self.hints.stop(), self.slow_hints.stop()) };
        tokio::join!(hints, self.effects.stop(), self.dead_letters.stop(), self.schedule.stop());
    }
}

/// Builds the functions that run in this process.
struct Parts<'a> {
    place: &'a StackLocation,
    config: &'a StackConfig,
    own: &'a OwnHandlers,
}

impl Parts<'_> {
    fn store(&self, calls: &CallCounts, total: Millis) -> DynamoStore {
        let client = clients::dynamodb(&self.place.dynamodb_url);
        let config = client.config().to_builder().timeout_config(timeouts(total)).retry_config(retries());
        let client = aws_sdk_dynamodb::Client::from_conf(config.interceptor(calls.clone()).build());
        DynamoStore::new(client, &self.place.resources.inbox_table, &self.place.resources.domain_table)
    }

    fn sqs(&self, calls: &CallCounts, total: Millis) -> aws_sdk_sqs::Client {
        let client = clients::sqs(&self.place.sqs_url);
        let config = client.config().to_builder().timeout_config(timeouts(total)).retry_config(retries());
        aws_sdk_sqs::Client::from_conf(config.interceptor(calls.clone()).build())
    }

    fn queue(&self, calls: &CallCounts, total: Millis) -> SqsQueue {
        let StackResources { queue, slow_queue, effects_queue, .. } = &self.place.resources;
        let queue = SqsQueue::new(self.sqs(calls, total), &queue.url);
        queue.with_slow(&slow_queue.url).with_effects(&effects_queue.url)
    }

    fn documents(&self) -> Arc<dyn DocumentSource> {
        Arc::new(self.config.folder.documents())
    }

    fn keys(&self) -> MessageKeys {
        MessageKeys::new(self.documents())
    }

    /// Nobody reads metrics here.
    fn telemetry(function: &'static str) -> Telemetry {
        Telemetry::new(function, "hookonce", Arc::new(|_| ()))
    }

    fn webhook(&self, calls: &CallCounts) -> impl Invoke + use<> {
        // A busy laptop is slower than AWS and no provider waits, so a call may take almost as long as the function.
        let store = self.store(calls, CALL_MAX);
        let queue = self.queue(calls, CALL_MAX);
        let keys = MessageKeys::making(self.documents());
        let ingress = IngressParts {
            store,
            queue: queue.with_keys(keys.clone()),
            keys,
            ambient: System,
            timing: Timing {
                webhook_timeout: Millis(CALL_MAX.0 + 1_000),
                best_effort_timeout: CALL_MAX,
                ..self.config.timing
            },
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let endpoints = Endpoints::new(self.documents(), Catalog::built_in());
        let materials = Materials::new(HttpsMaterials::new());
        let webhook = Arc::new(WebhookFunction::new(
            ingress,
            endpoints,
            materials,
            EdgeConfig { public_url: self.config.public_url.clone(), ..EdgeConfig::direct() },
            Self::telemetry("webhook"),
        ));
        invoke_fn(move |event| {
            let webhook = Arc::clone(&webhook);
            async move { Ok(webhook.invoke(event).await) }
        })
    }

    fn worker(&self, calls: &CallCounts) -> impl Invoke + use<> {
        let handlers = (self.config.built_in)();
        let tables = own_tables(&self.place.resources);
        let routes = Routes::new(self.documents(), handlers.names());
        let routes = routes.with_tables(aliases(&tables));
        let parts = WorkerParts {
            store: self.store(calls, CALL_MAX).with_tables(tables),
            queue: self.queue(calls, CALL_MAX),
            keys: self.keys(),
            ambient: System,
            handlers,
            remote: RemoteHandlers::new(Some(self.own.calls()), Some(Box::new(LoopbackHandlers::new()))),
            catalog: Catalog::built_in(),
            timing: self.config.timing,
        };
        let worker = Arc::new(WorkerFunction::new(parts, routes, Self::telemetry("worker")));
        let time = self.config.timing.worker_timeout;
        invoke_fn(move |event| {
            let worker = Arc::clone(&worker);
            let deadline = System.moment().now.plus(time);
            async move {
                let batch: Batch =
                    serde_json::from_value(event).map_err(|error| InvokeError::failed("NotABatch", &error))?;
                Ok(json!(worker.handle(batch, deadline).await))
            }
        })
    }

    fn relay(&self, calls: &CallCounts) -> impl Invoke + use<> {
        let parts = RelayParts {
            store: self.store(calls, RELAY_CALL_MAX),
            queue: self.queue(calls, RELAY_CALL_MAX),
            keys: self.keys(),
            ambient: System,
            timing: self.config.timing,
            budget: Budget { period: Millis::seconds(2), ..Budget::standard() },
            call_max: RELAY_CALL_MAX,
        };
        let relay = Arc::new(RelayFunction::new(parts, Self::telemetry("relay")));
        let time = self.config.timing.worker_timeout;
        invoke_fn(move |event| {
            let relay = Arc::clone(&relay);
            let deadline = System.moment().now.plus(time);
            async move { Ok(relay.handle(event, deadline).await) }
        })
    }

    fn dispatcher(&self, calls: &CallCounts) -> impl Invoke + use<> {
        let parts = DispatcherParts {
            store: self.store(calls, CALL_MAX),
            queue: SqsQueue::new(self.sqs(calls, CALL_MAX), &self.place.resources.effects_queue.url),
            ambient: System,
            destinations: Destinations::new(self.documents()),
            caller: RateLimited::new(Arc::new(HttpCaller::on_loopback())),
            timing: self.config.timing,
        };
        let dispatcher = Arc::new(DispatcherFunction::new(parts, Self::telemetry("dispatcher")));
        let time = self.config.timing.dispatcher_timeout;
        let deaths = Arc::clone(&self.config.dispatcher_deaths);
        invoke_fn(move |event| {
            let (dispatcher, deaths) = (Arc::clone(&dispatcher), Arc::clone(&deaths));
            let deadline = System.moment().now.plus(time);
            async move {
                let batch: Batch =
                    serde_json::from_value(event).map_err(|error| InvokeError::failed("NotABatch", &error))?;
                tokio::select! {
                    response = dispatcher.handle(batch, deadline) => Ok(json!(response)),
                    () = deaths.notified() => Err(InvokeError::failed("Killed", &Killed)),
                }
            }
        })
    }
}

fn ambient() -> Ambient {
    #[expect(clippy::disallowed_methods, reason = "the stack stands in for AWS, which has a clock of its own")]
    let now = SystemTime::now;
    Ambient::new(now, Uuid::new_v4)
}
