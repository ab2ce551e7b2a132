//! The functions, each behind its own proxies: processes of the deployed binaries, or in this process where
//! there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use hookonce_aws::SqsQueue;
use hookonce_dispatcher::DispatcherFunction;
use hookonce_examples::handlers;
use hookonce_local::ambient::Ambient;
use hookonce_local::invoke::{Invoke as _, InvokeError};
use hookonce_local::process::{ProcessConfig, ProcessInvoke};
use hookonce_local::tables::StackLocation;
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_relay::RelayFunction;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::{EdgeConfig, MESSAGE_BYTES_MAX};
use hookonce_runtime::destinations::{Destinations, HttpCaller, RateLimited};
use hookonce_runtime::documents::DocumentSource;
use hookonce_runtime::documents::endpoint::Endpoints;
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::WorkerParts;
use hookonce_runtime::routes::Routes;
use hookonce_runtime::telemetry::Telemetry;
use hookonce_webhook::WebhookFunction;
use hookonce_worker::WorkerFunction;
use serde_json::{Value, from_value, json};

use super::fault_plan::{FaultPlan, Role, RoleInjector};
use super::handler::{self, Handler};
use crate::support::clients::{dynamodb, sqs};
use crate::support::materials::MemoryMaterials;
use crate::support::remote::{FakeHandlers, Reaction};
use crate::support::stack::{MESSAGE_KEY, TestStack, queues, urls};
use crate::support::wire::Proxy;

/// The webhook's timeouts. The deployed ones are short because a provider waits. A busy machine may be slower than
/// AWS, and a call that fails by itself is not the fault of the point under test.
const TIMEOUTS: &str = "claim_timeout=10000,send_timeout=8000,webhook_timeout=20000,provider_timeout=30000";

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
    /// Functions that reach the servers of a stack through proxies that consult `plan`. Functions from `binaries` are
    /// processes, which start with their first invocation. That of the worker may have so much memory, if any is named.
    pub(crate) async fn new(
        stack: &TestStack,
        binaries: Option<&Path>,
        worker_kib: Option<u32>,
        handler: &Handler,
        plan: &Arc<FaultPlan>,
    ) -> Self {
        let (mut functions, mut proxies) = (BTreeMap::new(), Vec::new());
        for role in Role::ALL {
            let injector = Arc::new(RoleInjector { role, plan: Arc::clone(plan) });
            let dynamodb = Proxy::start(urls().0, &injector).await;
            let sqs = Proxy::start(urls().1, &injector).await;
            let (dynamodb_url, sqs_url) = (dynamodb.url().to_owned(), sqs.url().to_owned());
            let place = StackLocation { dynamodb_url, sqs_url, resources: stack.resources.clone() };
            let function = match binaries {
                Some(folder) => {
                    let kib = worker_kib.filter(|_| role == Role::Worker);
                    process(role, &place, folder, kib, handler)
                }
                None => in_this_process(role, stack, &place),
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

/// A function that is invoked like this.
fn boxed<T: 'static, F>(function: T, invoke: impl Fn(Arc<T>, Value) -> F + 'static) -> Function
where
    F: Future<Output = Result<Value, InvokeError>> + Send + 'static,
{
    let function = Arc::new(function);
    Box::new(move |event| Box::pin(invoke(Arc::clone(&function), event)))
}

fn process(role: Role, place: &StackLocation, folder: &Path, kib: Option<u32>, handler: &Handler) -> Function {
    let binary = folder.join(match role {
        Role::Webhook | Role::Copy => "hookonce-webhook",
        Role::Worker => "hookonce-example-worker",
        Role::Relay => "hookonce-relay",
        Role::Dispatcher => "hookonce-dispatcher",
    });
    let quiet = ("HOOKONCE_LOG", "off".to_owned());
    let timeouts = ("HOOKONCE_TEST_TIMING", TIMEOUTS.to_owned());
    let own = [timeouts, quiet, ("AWS_ENDPOINT_URL_LAMBDA", handler.url())];
    let environment = place.environment(None).into_iter().chain(own);
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).collect();
    #[expect(clippy::disallowed_methods, reason = "it stands in for Lambda, which has its own clock")]
    let now = std::time::SystemTime::now;
    let (lines, slot_wait_max) = (None, None);
    let limited =
        |kib: u32| vec!["-c".to_owned(), format!("ulimit -d {kib} && exec \"$0\""), binary.display().to_string()];
    let (binary, arguments) = match kib {
        Some(kib) => ("/bin/sh".into(), limited(kib)),
        None => (binary, Vec::new()),
    };
    let config = ProcessConfig {
        binary,
        arguments,
        api_scheme: "http://",
        environment,
        lines,
        concurrency_max: 1,
        slot_wait_max,
    };
    let process = ProcessInvoke::new(config, Ambient::new(now, uuid::Uuid::new_v4));
    boxed(process, |process, event| async move { process.invoke(event).await })
}

fn in_this_process(role: Role, stack: &TestStack, place: &StackLocation) -> Function {
    let dynamodb = dynamodb(&place.dynamodb_url, CALL_MAX);
    let documents: Arc<dyn DocumentSource> = Arc::new(stack.documents_of(dynamodb.clone()));
    let store = stack.store_of(dynamodb);
    let sqs = sqs(&place.sqs_url, CALL_MAX);
    let queue = match role {
        Role::Dispatcher => SqsQueue::new(sqs, &stack.resources.effects_queue.url),
        Role::Webhook | Role::Copy | Role::Worker | Role::Relay => queues(sqs, &stack.resources),
    };
    // A slow machine adds no fault of its own.
    let timing = Timing { webhook_timeout: Millis::seconds(60), ..Timing::standard() };
    let (ambient, keys) = (System, MessageKeys::fixed(MESSAGE_KEY));
    let silent = Telemetry::new("grid", "hookonce", Arc::new(|_: &str| {}));
    match role {
        Role::Webhook | Role::Copy => {
            let ingress = IngressParts { store, queue, keys, ambient, timing, message_bytes_max: MESSAGE_BYTES_MAX };
            let endpoints = Endpoints::new(documents, Catalog::built_in());
            let materials = Materials::new(MemoryMaterials::default());
            let webhook = WebhookFunction::new(ingress, endpoints, materials, EdgeConfig::direct(), silent);
            boxed(webhook, |webhook, event| async move { Ok(webhook.invoke(event).await) })
        }
        Role::Worker => {
            let (handlers, catalog) = (handlers(), Catalog::built_in());
            let routes = Routes::new(documents, handlers.names());
            let routes = routes.with_tables(BTreeSet::from([handler::alias()]));
            let remote = FakeHandlers::new(|request| Reaction::Answers(handler::answer(request))).remote();
            let parts = WorkerParts { store, queue, keys, ambient, handlers, remote, catalog, timing };
            boxed(WorkerFunction::new(parts, routes, silent), |worker, event| async move {
                Ok(json!(worker.handle(from_value(event).unwrap(), EpochMs(i64::MAX)).await))
            })
        }
        Role::Relay => {
            let budget = Budget::standard();
            let parts = RelayParts { store, queue, keys, ambient, timing, budget, call_max: CALL_MAX };
            boxed(RelayFunction::new(parts, silent), |relay, event| async move {
                Ok(relay.handle(event, System.moment().now.plus(Millis::minutes(10))).await)
            })
        }
        Role::Dispatcher => {
            let destinations = Destinations::new(documents);
            let caller = RateLimited::new(Arc::new(HttpCaller::on_loopback()));
            let parts = DispatcherParts { store, queue, ambient, destinations, caller, timing };
            boxed(DispatcherFunction::new(parts, silent), |dispatcher, event| async move {
                Ok(json!(dispatcher.handle(from_value(event).unwrap(), EpochMs(i64::MAX)).await))
            })
        }
    }
}
