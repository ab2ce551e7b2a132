//! The ports on AWS. A laptop differs from AWS only in the endpoint URL, which the SDK takes from the environment or
//! the caller.

#[cfg(feature = "account")]
mod account;
mod answer_limit;
mod batch_get;
mod dynamodb;
#[cfg(feature = "account")]
mod hand_over;
mod https;
mod inspect;
#[cfg(feature = "account")]
mod lambda;
mod loopback;
mod own_table;
mod render;
#[cfg(feature = "account")]
mod signed;
mod sqs;
#[cfg(feature = "account")]
mod ssm;
#[cfg(feature = "account")]
mod ssm_routes;

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use hookonce_protocol::time::Millis;

#[cfg(feature = "account")]
pub use account::{
    CredentialsFailure, SdkConfig, check_credentials, dynamodb_client, shared_config, sqs_client, ssm_client,
};
pub use dynamodb::{DUE_INDEX, DynamoStore, FIRST_PAUSE, JOURNAL_INDEX};
#[cfg(feature = "account")]
pub use hand_over::AccountCaller;
pub use https::{HttpsMaterials, MATERIAL_BYTES_MAX};
pub use inspect::{IndexCursor, IndexPage, IndexQuery, ScanPage};
#[cfg(feature = "account")]
pub use lambda::LambdaHandlers;
pub use loopback::LoopbackHandlers;
pub use render::{from_attributes, to_attributes};
#[cfg(feature = "account")]
pub use signed::SignedService;
pub use sqs::SqsQueue;
#[cfg(feature = "account")]
pub use ssm::{SsmDestinations, SsmEndpoints};
#[cfg(feature = "account")]
pub use ssm_routes::{DeployRoutesError, DeployedRoutes, SsmRoutes};

use crate::drive::duration;

/// Attempts of one call, including the first.
pub const ATTEMPTS_MAX: u32 = 3;

/// The largest pause before the first retry.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Timeouts for a client whose calls may take `total`, including retries. The SDK sets none by default, except for
/// connecting, which counts as part of an attempt.
pub fn timeouts(total: Millis) -> TimeoutConfig {
    let total = duration(total);
    TimeoutConfig::builder().operation_attempt_timeout(total / 2).operation_timeout(total).build()
}

/// Retries with a short first pause, because a webhook sender is waiting.
pub fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(FIRST_BACKOFF)
}
