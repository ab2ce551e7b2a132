//! The dispatcher function on Lambda: wiring.

use std::sync::Arc;

use hookonce_aws::{AccountCaller, DynamoStore, SqsQueue, documents_at, dynamodb_client, function_config, sqs_client};
use hookonce_protocol::timing::DISPATCHER_STORE_MAX;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::{DispatcherConfig, environment};
use hookonce_runtime::deadline::end_of_invocation;
use hookonce_runtime::destinations::{Destinations, RateLimited};
use hookonce_runtime::inbox::batch::Batch;
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::task::run_alone;
use hookonce_runtime::telemetry::{Telemetry, log_as_json};
use lambda_runtime::{Error, LambdaEvent, service_fn};

use crate::DispatcherFunction;

/// Runs the dispatcher function on Lambda, until Lambda ends the process. Its environment configures it.
///
/// # Errors
/// When the environment lacks something, or values in it contradict each other.
pub fn run() -> Result<(), Error> {
    run_alone(start())
}

async fn start() -> Result<(), Error> {
    let environment = environment();
    let DispatcherConfig { common, effects_queue_url } = DispatcherConfig::read(&environment)?;
    log_as_json(common.log);
    let telemetry = Telemetry::stdout("dispatcher", common.metrics_namespace);
    telemetry.unknown_variables(&environment, System.moment().now);
    let sdk = function_config(&environment, &telemetry).await;
    let dynamodb = dynamodb_client(&sdk, DISPATCHER_STORE_MAX);
    let documents = documents_at(common.documents, &dynamodb);
    let store = DynamoStore::new(dynamodb, common.inbox_table, common.domain_table);
    store.warm_up().await;
    let parts = DispatcherParts {
        store,
        queue: SqsQueue::new(sqs_client(&sdk, DISPATCHER_STORE_MAX), effects_queue_url),
        ambient: System,
        destinations: Destinations::new(documents),
        caller: RateLimited::new(Arc::new(AccountCaller::new(&sdk))),
        timing: common.timing,
    };
    let dispatcher = Arc::new(DispatcherFunction::new(parts, telemetry));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Batch>| {
        let dispatcher = Arc::clone(&dispatcher);
        let deadline = end_of_invocation(event.context.deadline, System.moment().now);
        async move { Ok::<_, Error>(dispatcher.handle(event.payload, deadline).await) }
    }))
    .await
}
