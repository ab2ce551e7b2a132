//! The functions, each behind its own proxies: processes of the deployed binaries, or in this process where
//! there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use hookonce_dispatcher::DispatcherFunction;
use hookonce_local::ambient::Ambient;
use hookonce_local::clients;
use hookonce_local::invoke::{Invoke, InvokeError, invoke_fn};
use hookonce_local::process::{ProcessConfig, ProcessInvoke};
use hookonce_local::tables::Place;
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_relay::RelayFunction;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::aws::{DynamoStore, SqsQueue, retries, timeouts};
use hookonce_runtime::config::{EdgeConfig, MESSAGE_BYTES_MAX};
use hookonce_runtime::destination::{Destinations, Guarded, HttpCaller};
use hookonce_runtime::dispatch::DispatcherParts;
use hookonce_runtime::endpoint::Endpoints;
use hookonce_runtime::file::DocumentFolder;
use hookonce_runtime::ingest::IngressParts;
use hookonce_runtime::maintain::RelayParts;
use hookonce_runtime::material::Materials;
use hookonce_runtime::process::WorkerParts;
use hookonce_runtime::route::{RouteFile, Routes};
use hookonce_runtime::telemetry::{NAMESPACE, Telemetry};
use hookonce_webhook::WebhookFunction;
use hookonce_worker::{WorkerFunction, handlers};
use serde_json::{Value, from_value, json};

use super::fault_plan::{FaultPlan, Role, RoleInjector};
use super::handler::{self, Handler};
use crate::support::endpoints::MemoryMaterials;
use crate::support::remote::{FakeHandlers, Reaction};
use crate::support::stack::queues;
use crate::support::wire::Proxy;

/// The webhook's timeouts. The deployed ones are short because a provider waits. A busy machine may be slower than
/// AWS, and a call that fails by itself is not the fault of the point under test.
const TIMEOUTS: [(&str, &str); 4] = [
    ("HOOKONCE_CLAIM_TIMEOUT_MS", "10000"),
    ("HOOKONCE_SEND_TIMEOUT_MS", "8000"),
    ("HOOKONCE_WEBHOOK_TIMEOUT_MS", "20000"),
    ("HOOKONCE_PROVIDER_TIMEOUT_MS", "30000"),
];

/// The folder of destinations and the file of the route set, in the folder of endpoints.
pub(crate) const DESTINATIONS: &str = "destinations";
pub(crate) const ROUTES: &str = "routes.json";

/// How long one call may take where functions run in this process.
const CALL_MAX: Millis = Millis::seconds(8);

type Invocation = Pin<Box<dyn Future<Output = Result<Value, InvokeError>> + Send>>;
type Function = Box<dyn Fn(Value) -> Invocation>;

/// The functions of one run.
pub(crate) struct Functions {
    functions: BTreeMap<Role, Function>,
    _proxies: Vec<Proxy>,
}

impl Functions {
    /// Functions that reach the servers of `place` through proxies that consult `plan`. Functions from `binaries` are
    /// processes, which start with their first invocation.
    pub(crate) async fn new(
        place: &Place,
        endpoints: &Path,
        binaries: Option<&Path>,
        handler: &Handler,
        plan: &Arc<FaultPlan>,
    ) -> Self {
        let (mut functions, mut proxies) = (BTreeMap::new(), Vec::new());
        for role in Role::ALL {
            let injector = Arc::new(RoleInjector { role, plan: Arc::clone(plan) });
            let dynamodb = Proxy::start(&place.dynamodb_url, &injector).await;
            let sqs = Proxy::start(&place.sqs_url, &injector).await;
            let place =
                Place { dynamodb_url: dynamodb.url().to_owned(), sqs_url: sqs.url().to_owned(), ..place.clone() };
            let function = match binaries {
                Some(folder) => process(role, &place, endpoints, folder, handler),
                None => in_this_process(role, &place, endpoints),
            };
            functions.insert(role, function);
            proxies.extend([dynamodb, sqs]);
        }
        Self { functions, _proxies: proxies }
    }

    /// Invokes a function. If this is given up, its process is killed.
    pub(crate) fn invoke(&self, role: Role, event: Value) -> Invocation {
        self.functions[&role](event)
    }
}

fn boxed(function: impl Invoke) -> Function {
    let function = Arc::new(function);
    Box::new(move |event| {
        let function = Arc::clone(&function);
        Box::pin(async move { function.invoke(event).await })
    })
}

fn process(role: Role, place: &Place, endpoints: &Path, folder: &Path, handler: &Handler) -> Function {
    let binary = folder.join(match role {
        Role::Webhook | Role::Copy => "hookonce-webhook",
        Role::Worker => "hookonce-worker",
        Role::Relay => "hookonce-relay",
        Role::Dispatcher => "hookonce-dispatcher",
    });
    let quiet = ("HOOKONCE_LOG", "off".to_owned());
    let timeouts = TIMEOUTS.map(|(name, value)| (name, value.to_owned()));
    let environment = place
        .environment(endpoints, &endpoints.join(DESTINATIONS), &endpoints.join(ROUTES))
        .into_iter()
        .chain(timeouts)
        .chain([quiet, ("AWS_ENDPOINT_URL_LAMBDA", handler.url())]);
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).collect();
    #[expect(clippy::disallowed_methods, reason = "it stands in for Lambda, which has its own clock")]
    let now = std::time::SystemTime::now;
    let (arguments, lines, place_wait_max) = (Vec::new(), None, None);
    let config = ProcessConfig { binary, arguments, environment, lines, concurrency_max: 1, place_wait_max };
    boxed(ProcessInvoke::new(config, Ambient::new(now, uuid::Uuid::new_v4)))
}

fn in_this_process(role: Role, place: &Place, endpoints: &Path) -> Function {
    let (store, queue) = adapters(role, place);
    // A slow machine adds no fault of its own.
    let timing = Timing { webhook_timeout: Millis::seconds(60), ..Timing::standard() };
    let ambient = System;
    let silent = Telemetry::new("grid", NAMESPACE, Arc::new(|_: &str| {}));
    match role {
        Role::Webhook | Role::Copy => {
            let ingress = IngressParts { store, queue, ambient, timing, message_bytes_max: MESSAGE_BYTES_MAX };
            let endpoints = Endpoints::new(DocumentFolder::new(endpoints), Catalog::built_in());
            let materials = Materials::new(MemoryMaterials::default());
            let webhook = Arc::new(WebhookFunction::new(ingress, endpoints, materials, EdgeConfig::direct(), silent));
            boxed(invoke_fn(move |event| {
                let webhook = Arc::clone(&webhook);
                async move { Ok(webhook.invoke(event).await) }
            }))
        }
        Role::Worker => {
            let (handlers, catalog) = (handlers::all(), Catalog::built_in());
            let routes = Routes::new(RouteFile::new(endpoints.join(ROUTES)), handlers.names());
            let routes = routes.with_tables(BTreeSet::from([handler::alias()]));
            let remote = FakeHandlers::new(|request| Reaction::Answers(handler::answer(request))).remote();
            let parts = WorkerParts { store, queue, ambient, handlers, remote, catalog, timing };
            let worker = Arc::new(WorkerFunction::new(parts, routes, silent));
            boxed(invoke_fn(move |event| {
                let worker = Arc::clone(&worker);
                async move { Ok(json!(worker.handle(from_value(event).unwrap(), EpochMs(i64::MAX)).await)) }
            }))
        }
        Role::Relay => {
            let parts = RelayParts { store, queue, ambient, timing, budget: Budget::standard(), call_max: CALL_MAX };
            let relay = Arc::new(RelayFunction::new(parts, silent));
            boxed(invoke_fn(move |event| {
                let relay = Arc::clone(&relay);
                let deadline = System.moment().now.plus(Millis::minutes(10));
                async move { Ok(relay.handle(event, deadline).await) }
            }))
        }
        Role::Dispatcher => {
            let destinations = Destinations::new(DocumentFolder::new(endpoints.join(DESTINATIONS)));
            let caller = Arc::new(Guarded::new(HttpCaller::on_loopback()));
            let parts = DispatcherParts { store, queue, ambient, destinations, caller, timing };
            let dispatcher = Arc::new(DispatcherFunction::new(parts, silent));
            boxed(invoke_fn(move |event| {
                let dispatcher = Arc::clone(&dispatcher);
                async move { Ok(json!(dispatcher.handle(from_value(event).unwrap(), EpochMs(i64::MAX)).await)) }
            }))
        }
    }
}

fn adapters(role: Role, place: &Place) -> (DynamoStore, SqsQueue) {
    let config = clients::dynamodb(&place.dynamodb_url).config().to_builder();
    let config = config.timeout_config(timeouts(CALL_MAX)).retry_config(retries()).build();
    let dynamodb = aws_sdk_dynamodb::Client::from_conf(config);
    let config = clients::sqs(&place.sqs_url).config().to_builder();
    let config = config.timeout_config(timeouts(CALL_MAX)).retry_config(retries()).build();
    let sqs = aws_sdk_sqs::Client::from_conf(config);
    let resources = &place.resources;
    let tables = resources.own_tables.iter().map(|(alias, name)| (TableAlias::parse(alias).unwrap(), name.clone()));
    let store = DynamoStore::new(dynamodb, &resources.inbox_table, &resources.domain_table).with_tables(tables);
    let queue = match role {
        Role::Dispatcher => SqsQueue::new(sqs, &resources.effects_queue.url),
        Role::Webhook | Role::Copy | Role::Worker | Role::Relay => queues(sqs, resources),
    };
    (store, queue)
}
