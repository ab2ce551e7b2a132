//! Clients for an AWS account: region, credentials and endpoint URLs come from the environment.

pub use aws_config::SdkConfig;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::ProvideCredentials as _;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::config::StalledStreamProtectionConfig;
use error_reporter::Report;
use hookonce_protocol::time::Millis;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::Environment;
use hookonce_runtime::telemetry::{Counts, Telemetry};

use super::roots::{are_amazons, trusting_amazon, trusting_system, with_fall_back};
use super::{retries, timeouts};

/// Region, credentials and endpoint URLs from the environment, or from where the command line of AWS has them.
pub async fn shared_config() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).http_client(trusting_system()).load().await
}

/// The same for a function, whose start is waited for: it looks nowhere else for what Lambda puts into the environment,
/// and reads no more certificate authorities than it needs.
pub async fn function_config(environment: &Environment, telemetry: &Telemetry) -> SdkConfig {
    let telemetry = telemetry.clone();
    let on_outdated = move || {
        tracing::error!("AWS has a certificate of an authority that this release does not know; the system's are used");
        let mut counts = Counts::default();
        counts.add("aws_roots_outdated", 1);
        telemetry.emit(&counts, System.moment().now);
    };
    let https = if are_amazons(environment) {
        with_fall_back(trusting_amazon(), trusting_system(), on_outdated)
    } else {
        trusting_system()
    };
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(https);
    let value = |name: &str| environment.get(name).filter(|value| !value.trim().is_empty());
    if let Some(region) = value("AWS_REGION") {
        loader = loader.region(Region::new(region.clone()));
    }
    // A managed instance has none in its environment, and an empty one is none.
    if ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].iter().all(|name| value(name).is_some()) {
        loader = loader.credentials_provider(EnvironmentVariableCredentialsProvider::new());
    }
    loader.load().await
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsFailure {
    /// The environment names none.
    #[error("no credentials were found")]
    Absent,
    /// Fetching those that it names fails.
    #[error("{0}")]
    Other(String),
}

/// Checks that the environment has credentials, before a call fails for want of them.
///
/// # Errors
/// [`CredentialsFailure`] when it has none, or fetching them fails.
pub async fn check_credentials(config: &SdkConfig) -> Result<(), CredentialsFailure> {
    let provider = config.credentials_provider().ok_or(CredentialsFailure::Absent)?;
    match provider.provide_credentials().await {
        Ok(_) => Ok(()),
        Err(CredentialsError::CredentialsNotLoaded(_)) => Err(CredentialsFailure::Absent),
        Err(error) => Err(CredentialsFailure::Other(Report::new(&error).to_string())),
    }
}

/// A DynamoDB client whose calls may take `total`.
pub fn dynamodb_client(config: &SdkConfig, total: Millis) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::config::Builder::from(config)
        .timeout_config(timeouts(total))
        .retry_config(retries())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

/// An SQS client whose calls may take `total`.
pub fn sqs_client(config: &SdkConfig, total: Millis) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::config::Builder::from(config)
        .timeout_config(timeouts(total))
        .retry_config(retries())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}
