//! The webhook function on Lambda: wiring.

use std::sync::Arc;

use hookonce_providers::Catalog;
use hookonce_runtime::ambient::System;
use hookonce_runtime::aws::{
    DynamoStore, HttpsMaterials, SqsQueue, SsmEndpoints, dynamodb_client, message_keys, shared_config, sqs_client,
    ssm_client,
};
use hookonce_runtime::config::{DocumentLocation, WebhookConfig, environment};
use hookonce_runtime::deadline::StartUp;
use hookonce_runtime::endpoint::Endpoints;
use hookonce_runtime::file::DocumentFolder;
use hookonce_runtime::ingest::IngressParts;
use hookonce_runtime::material::Materials;
use hookonce_runtime::message_key::MessageKeys;
use hookonce_runtime::port::EndpointSource;
use hookonce_runtime::telemetry::{Telemetry, log_as_json};
use lambda_http::{Error, lambda_runtime};
use tokio::time::Instant;

use crate::WebhookFunction;

/// Runs the webhook function on Lambda, until Lambda ends the process. Its environment configures it.
///
/// # Errors
/// When the environment lacks something, or values in it contradict each other.
pub async fn run() -> Result<(), Error> {
    let began = Instant::now();
    let config = WebhookConfig::read(&environment())?;
    log_as_json(config.common.log);
    let sdk = shared_config().await;
    let client = ssm_client(&sdk, config.common.timing.claim_timeout);
    let keys = message_keys(client.clone(), config.endpoints.message_key());
    match config.endpoints.clone() {
        DocumentLocation::Ssm(prefix) => {
            Box::pin(serve(config, &sdk, SsmEndpoints::new(client, prefix), keys, began)).await
        }
        DocumentLocation::Folder(folder) => serve(config, &sdk, DocumentFolder::new(folder), keys, began).await,
    }
}

async fn serve(
    config: WebhookConfig,
    sdk: &hookonce_runtime::aws::SdkConfig,
    source: impl EndpointSource,
    keys: MessageKeys,
    began: Instant,
) -> Result<(), Error> {
    let WebhookConfig { common, edge, message_bytes_max, on_demand, .. } = config;
    let timing = common.timing;
    let store = DynamoStore::new(dynamodb_client(sdk, timing.claim_timeout), common.inbox_table, common.domain_table);
    let queue = SqsQueue::new(sqs_client(sdk, timing.send_timeout), common.queue_url).with_keys(keys.clone());
    tokio::join!(store.warm_up(), queue.warm_up());
    let ingress = IngressParts { store, queue, ambient: System, keys, timing, message_bytes_max };
    let endpoints = Endpoints::new(source, Catalog::built_in());
    let materials = Materials::new(HttpsMaterials::new());
    let telemetry = Telemetry::stdout("webhook", common.metrics_namespace);
    let webhook = WebhookFunction::new(ingress, endpoints, materials, edge, telemetry);
    lambda_runtime::run(Arc::new(webhook.after(StartUp::of(began, on_demand))).service()).await
}
