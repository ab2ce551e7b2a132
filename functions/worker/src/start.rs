//! The worker function on Lambda: wiring.

use std::sync::Arc;

use hookonce_aws::{
    DynamoStore, LambdaHandlers, LoopbackHandlers, SqsQueue, documents_at, dynamodb_client, function_config, sqs_client,
};
use hookonce_protocol::time::Millis;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient, System};
use hookonce_runtime::config::{WorkerConfig, environment};
use hookonce_runtime::deadline::end_of_invocation;
use hookonce_runtime::handlers::Handlers;
use hookonce_runtime::handlers::remote::RemoteHandlers;
use hookonce_runtime::handlers::tables::aliases;
use hookonce_runtime::inbox::batch::Batch;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::WorkerParts;
use hookonce_runtime::routes::Routes;
use hookonce_runtime::task::run_alone;
use hookonce_runtime::telemetry::{Telemetry, log_as_json};
use lambda_runtime::{Error, LambdaEvent, service_fn};

use crate::WorkerFunction;

/// How long one call may take, including the SDK's retries. Far below the function's timeout.
const CALL_MAX: Millis = Millis::seconds(8);

/// Runs the worker function with these handlers on Lambda, until Lambda ends the process. Its environment configures
/// it.
///
/// # Errors
/// When the environment lacks something, or values in it contradict each other.
pub fn run(handlers: Handlers) -> Result<(), Error> {
    run_alone(start(handlers))
}

async fn start(handlers: Handlers) -> Result<(), Error> {
    let environment = environment();
    let WorkerConfig { common, slow_queue_url, effects_queue_url, tables } = WorkerConfig::read(&environment)?;
    log_as_json(common.log);
    let telemetry = Telemetry::stdout("worker", common.metrics_namespace);
    telemetry.unknown_variables(&environment, System.moment().now);
    let sdk = function_config(&environment, &telemetry).await;
    let dynamodb = dynamodb_client(&sdk, CALL_MAX);
    let documents = documents_at(common.documents, &dynamodb);
    let store = DynamoStore::new(dynamodb, common.inbox_table, common.domain_table).with_tables(tables.clone());
    let queue = SqsQueue::new(sqs_client(&sdk, CALL_MAX), common.queue_url);
    let queue = queue.with_slow(slow_queue_url).with_effects(effects_queue_url);
    store.warm_up().await;
    let keys = MessageKeys::new(Arc::clone(&documents));
    let routes = Routes::new(documents, handlers.names()).with_tables(aliases(&tables));
    let parts = WorkerParts {
        store,
        queue,
        keys,
        ambient: System,
        handlers,
        // No set of a deployed worker names a URL.
        remote: RemoteHandlers::new(Some(Box::new(LambdaHandlers::new(&sdk))), Some(Box::new(LoopbackHandlers::new()))),
        catalog: Catalog::built_in(),
        timing: common.timing,
    };
    let worker = Arc::new(WorkerFunction::new(parts, routes, telemetry));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Batch>| {
        let worker = Arc::clone(&worker);
        let deadline = end_of_invocation(event.context.deadline, System.moment().now);
        async move { Ok::<_, Error>(worker.handle(event.payload, deadline).await) }
    }))
    .await
}
