//! Clients for an AWS account: region, credentials and endpoint URLs come from the environment.

use aws_config::BehaviorVersion;
pub use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_http_client::Builder;
use error_reporter::Report;
use hookonce_protocol::time::Millis;

use super::https::TLS;
use super::{retries, timeouts};

/// Region, credentials and endpoint URLs from the environment.
pub async fn shared_config() -> SdkConfig {
    let https = Builder::new().tls_provider(TLS).build_https();
    aws_config::defaults(BehaviorVersion::latest()).http_client(https).load().await
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
