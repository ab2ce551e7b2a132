//! SDK clients for servers on loopback.
//!
//! They use dummy credentials and plain HTTP. They work with the embedded backends, DynamoDB Local, `ElasticMQ` or any
//! other server that does not verify signatures, and never with AWS.

use std::time::Duration;

use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_http_client::Builder;

/// The region of all local resources. It appears in ARNs and in the events of the event source.
pub const REGION: &str = "us-east-1";
/// The account of all local resources. It appears next to the region.
pub const ACCOUNT: &str = "000000000000";

/// Longest wait for one operation, with retries. Above the 20 s of the longest long poll.
const OPERATION_SECONDS_MAX: u64 = 30;

/// A `DynamoDB` client for the server at `endpoint_url`, such as `http://127.0.0.1:8000`.
pub fn dynamodb(endpoint_url: &str) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(credentials())
        .endpoint_url(endpoint_url)
        .timeout_config(timeouts())
        .http_client(Builder::new().build_http())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

/// An SQS client for the server at `endpoint_url`.
pub fn sqs(endpoint_url: &str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(credentials())
        .endpoint_url(endpoint_url)
        .timeout_config(timeouts())
        .http_client(Builder::new().build_http())
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}

fn credentials() -> Credentials {
    Credentials::new("local", "local", None, None, "hookonce-local")
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder().operation_timeout(Duration::from_secs(OPERATION_SECONDS_MAX)).build()
}
