//! The relay function on Lambda: wiring.

use std::sync::Arc;

use hookonce_aws::{DynamoStore, SqsQueue, documents_at, dynamodb_client, function_config, sqs_client};
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::Millis;
use hookonce_runtime::ambient::{Ambient, System};
use hookonce_runtime::config::{RelayConfig, environment};
use hookonce_runtime::deadline::end_of_invocation;
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::task::run_alone;
use hookonce_runtime::telemetry::{Telemetry, log_as_json};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;

use crate::RelayFunction;

/// How long one call may take, including the SDK's retries. A run begins nothing that could outlast the function's time
/// at this rate.
const CALL_MAX: Millis = Millis::seconds(2);

/// Runs the relay function on Lambda, until Lambda ends the process. Its environment configures it.
///
/// # Errors
/// When the environment lacks something, or values in it contradict each other.
pub fn run() -> Result<(), Error> {
    run_alone(start())
}

async fn start() -> Result<(), Error> {
    let environment = environment();
    let RelayConfig { common, effects_queue_url } = RelayConfig::read(&environment)?;
    log_as_json(common.log);
    let telemetry = Telemetry::stdout("relay", common.metrics_namespace);
    telemetry.unknown_variables(&environment, System.moment().now);
    let sdk = function_config(&environment, &telemetry).await;
    let dynamodb = dynamodb_client(&sdk, CALL_MAX);
    let keys = MessageKeys::new(documents_at(common.documents, &dynamodb));
    let queue = SqsQueue::new(sqs_client(&sdk, CALL_MAX), common.queue_url).with_effects(effects_queue_url);
    let parts = RelayParts {
        store: DynamoStore::new(dynamodb, common.inbox_table, common.domain_table),
        queue: queue.clone(),
        keys,
        ambient: System,
        timing: common.timing,
        budget: Budget::standard(),
        call_max: CALL_MAX,
    };
    let relay = Arc::new(RelayFunction::new(parts, telemetry));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| {
        let (relay, queue) = (Arc::clone(&relay), queue.clone());
        let deadline = end_of_invocation(event.context.deadline, System.moment().now);
        async move {
            // The schedule names the queue of dead letters.
            let Some(letters) = event.payload.get("dead_letters").and_then(Value::as_str) else {
                return Ok::<_, Error>(relay.handle(event.payload, deadline).await);
            };
            let receive = async || queue.receive(letters).await;
            let delete = async |receipts: &[String]| queue.delete(letters, receipts).await;
            Ok(relay.handle_with_letters(receive, delete, deadline).await)
        }
    }))
    .await
}
