//! The webhook function on Lambda: wiring.

use std::sync::Arc;

use hookonce_aws::{DynamoStore, HttpsMaterials, SqsQueue, documents_at, dynamodb_client, function_config, sqs_client};
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::{MESSAGE_BYTES_MAX, WebhookConfig, environment};
use hookonce_runtime::documents::endpoint::Endpoints;
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::task::run_alone;
use hookonce_runtime::telemetry::{Telemetry, log_as_json};
use lambda_http::{Error, lambda_runtime};

use crate::WebhookFunction;

/// Runs the webhook function on Lambda, until Lambda ends the process. Its environment configures it.
///
/// # Errors
/// When the environment lacks something, or values in it contradict each other.
pub fn run() -> Result<(), Error> {
    run_alone(start())
}

async fn start() -> Result<(), Error> {
    let environment = environment();
    let WebhookConfig { common, edge } = WebhookConfig::read(&environment)?;
    log_as_json(common.log);
    let telemetry = Telemetry::stdout("webhook", common.metrics_namespace);
    telemetry.unknown_variables(&environment, System.moment().now);
    let (sdk, timing) = (function_config(&environment, &telemetry).await, common.timing);
    let dynamodb = dynamodb_client(&sdk, timing.claim_timeout);
    let documents = documents_at(common.documents, &dynamodb);
    let keys = MessageKeys::making(Arc::clone(&documents));
    let store = DynamoStore::new(dynamodb, common.inbox_table, common.domain_table);
    let queue = SqsQueue::new(sqs_client(&sdk, timing.send_timeout), common.queue_url).with_keys(keys.clone());
    tokio::join!(store.warm_up(), queue.warm_up());
    let ingress = IngressParts { store, queue, ambient: System, keys, timing, message_bytes_max: MESSAGE_BYTES_MAX };
    let endpoints = Endpoints::new(documents, Catalog::built_in());
    let materials = Materials::new(HttpsMaterials::new());
    let webhook = WebhookFunction::new(ingress, endpoints, materials, edge, telemetry);
    lambda_runtime::run(Arc::new(webhook).service()).await
}
