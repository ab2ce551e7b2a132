//! The clients of the deployed functions, for a server on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::config::retry::RetryPartition;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region, SharedCredentialsProvider};
use hookonce_aws::{SdkConfig, dynamodb_client, sqs_client};
use hookonce_local::clients::{REGION, credentials, without_key};
use hookonce_protocol::time::Millis;

/// What the deployed functions make their clients of, for the server at this address.
pub(crate) fn config_at(url: &str) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials(url)))
        .endpoint_url(without_key(url))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

/// A client of the deployed functions, whose calls may take `total`.
pub(crate) fn dynamodb(url: &str, total: Millis) -> aws_sdk_dynamodb::Client {
    let config = dynamodb_client(&config_at(url), total).config().to_builder();
    aws_sdk_dynamodb::Client::from_conf(config.retry_partition(own_partition()).build())
}

/// A client of the deployed functions, whose calls may take `total`.
pub(crate) fn sqs(url: &str, total: Millis) -> aws_sdk_sqs::Client {
    let config = sqs_client(&config_at(url), total).config().to_builder();
    aws_sdk_sqs::Client::from_conf(config.retry_partition(own_partition()).build())
}

/// Clients of one partition share a budget of retries. One test must not use up the retries of another.
pub(crate) fn own_partition() -> RetryPartition {
    static PARTITIONS: AtomicUsize = AtomicUsize::new(0);
    RetryPartition::new(format!("test-{}", PARTITIONS.fetch_add(1, Ordering::Relaxed)))
}
