//! The ports on AWS. What differs between AWS and a laptop is the endpoint URL, which the SDK takes from the
//! environment or from the caller.

mod dynamodb;
mod https;
mod inspect;
mod render;
mod sqs;
mod ssm;

use std::time::Duration;

use aws_config::BehaviorVersion;
pub use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use hookonce_protocol::time::Millis;

pub use dynamodb::{DUE_INDEX, DynamoStore, JOURNAL_INDEX};
pub use https::{HttpsMaterials, MATERIAL_BYTES_MAX};
pub use inspect::{IndexCursor, IndexPage, IndexQuery};
pub use render::{from_attributes, to_attributes};
pub use sqs::SqsQueue;
pub use ssm::SsmEndpoints;

use crate::drive::duration;

/// Attempts of one call, the first included.
pub const ATTEMPTS_MAX: u32 = 3;

/// The largest pause before the first retry.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Region, credentials and endpoint URLs from the environment.
pub async fn shared_config() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).http_client(https::client()).load().await
}

/// Time-outs for a client whose calls may take `total`, own retries included. The SDK has none by default.
pub fn timeouts(total: Millis) -> TimeoutConfig {
    let total = duration(total);
    TimeoutConfig::builder()
        .connect_timeout(total / 2)
        .operation_attempt_timeout(total / 2)
        .operation_timeout(total)
        .build()
}

/// Retries with a short first pause: a webhook sender is waiting.
pub fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(FIRST_BACKOFF)
}

/// A DynamoDB client whose calls may take `total`.
pub fn dynamodb_client(config: &SdkConfig, total: Millis) -> aws_sdk_dynamodb::Client {
    let config =
        aws_sdk_dynamodb::config::Builder::from(config).timeout_config(timeouts(total)).retry_config(retries()).build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

/// An SQS client whose calls may take `total`.
pub fn sqs_client(config: &SdkConfig, total: Millis) -> aws_sdk_sqs::Client {
    let config =
        aws_sdk_sqs::config::Builder::from(config).timeout_config(timeouts(total)).retry_config(retries()).build();
    aws_sdk_sqs::Client::from_conf(config)
}

/// A Parameter Store client whose calls may take `total`.
pub fn ssm_client(config: &SdkConfig, total: Millis) -> aws_sdk_ssm::Client {
    let config =
        aws_sdk_ssm::config::Builder::from(config).timeout_config(timeouts(total)).retry_config(retries()).build();
    aws_sdk_ssm::Client::from_conf(config)
}
