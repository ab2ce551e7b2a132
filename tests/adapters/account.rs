//! Whether there are credentials, before a call fails for want of them.

use aws_credential_types::credential_fn::provide_credentials_fn;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use hookonce_runtime::aws::{CredentialsFailure, SdkConfig, check_credentials};

use crate::clients::config_at;

async fn checked(provider: impl ProvideCredentials + 'static) -> Result<(), CredentialsFailure> {
    let config = SdkConfig::builder().credentials_provider(SharedCredentialsProvider::new(provider));
    check_credentials(&config.build()).await
}

/// Where credentials are looked for, and none are.
pub(super) fn no_credentials() -> impl ProvideCredentials {
    provide_credentials_fn(async || Err(CredentialsError::not_loaded("no file")))
}

#[tokio::test]
async fn missing_credentials_are_told_from_those_that_cannot_be_fetched() {
    assert!(check_credentials(&config_at("http://127.0.0.1:9")).await.is_ok());
    let absent = check_credentials(&SdkConfig::builder().build()).await;
    assert!(matches!(absent, Err(CredentialsFailure::Absent)), "{absent:?}");
    let absent = checked(no_credentials()).await;
    assert!(matches!(absent, Err(CredentialsFailure::Absent)), "{absent:?}");
    let expired = checked(provide_credentials_fn(async || Err(CredentialsError::provider_error("the token expired"))));
    let Err(CredentialsFailure::Other(text)) = expired.await else { panic!("fetching them fails") };
    assert!(text.contains("the token expired"), "its causes are told, too: {text}");
}
