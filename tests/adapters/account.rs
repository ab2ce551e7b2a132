//! Whether there are credentials, before a call fails for want of them.

use aws_credential_types::credential_fn::provide_credentials_fn;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use hookonce_aws::{CredentialsFailure, SdkConfig, check_credentials};

use crate::clients::config_at;

/// The configuration of a function's clients where the search for credentials finds none.
pub(super) fn without_credentials(url: &str) -> SdkConfig {
    let nobody = provide_credentials_fn(async || Err(CredentialsError::not_loaded("no file")));
    config_at(url).into_builder().credentials_provider(SharedCredentialsProvider::new(nobody)).build()
}

#[tokio::test]
async fn missing_credentials_are_distinguished_from_unfetchable_ones() {
    assert!(check_credentials(&config_at("http://127.0.0.1:9")).await.is_ok());
    for config in [SdkConfig::builder().build(), without_credentials("http://127.0.0.1:9")] {
        let absent = check_credentials(&config).await;
        assert!(matches!(absent, Err(CredentialsFailure::Absent)), "{absent:?}");
    }
    let expired = provide_credentials_fn(async || Err(CredentialsError::provider_error("the token expired")));
    let expired = SdkConfig::builder().credentials_provider(SharedCredentialsProvider::new(expired)).build();
    let Err(CredentialsFailure::Other(text)) = check_credentials(&expired).await else { panic!("fetching them fails") };
    assert!(text.contains("the token expired"), "its causes are told, too: {text}");
}
