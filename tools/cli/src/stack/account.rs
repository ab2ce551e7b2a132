//! The AWS account that the environment signs in to.

use std::time::Duration;

use aws_sdk_sts::error::ProvideErrorMetadata as _;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_types::os_shim_internal::{Env, Fs};
use error_reporter::Report;
use hookonce_aws::{CredentialsFailure, SdkConfig, check_credentials, retries, shared_config, timeouts};
use hookonce_protocol::time::Millis;
use hookonce_runtime::handlers::remote::Cause;

use crate::failure::Failure;
use crate::stack::credentials::{SIGN_IN, are_rejected};
use crate::stack::meter::{self, Metering};

/// How long one call may take, with its retries.
pub(crate) const CALL_MAX: Millis = Millis::seconds(20);

/// The account's configuration, with a region and credentials. Without them every call would fail, each with a page of
/// causes.
///
/// # Errors
/// [`Failure`] when a region or credentials are missing.
pub(crate) async fn signed_in() -> Result<SdkConfig, Failure> {
    match sign_in().await {
        Ok(config) => Ok(config),
        Err(failure) => Err(absent_profile().await.map_or(failure, |profile| {
            Failure::usage(
                format!("the AWS profile {profile} does not exist"),
                "`aws configure list-profiles` lists those that do: set AWS_PROFILE to one of them, or unset it",
            )
        })),
    }
}

async fn sign_in() -> Result<SdkConfig, Failure> {
    let config = shared_config().await;
    if config.region().is_none() {
        return Err(Failure::usage(
            "no AWS region is set",
            "set AWS_DEFAULT_REGION to the stack's region, or AWS_PROFILE to a profile that has one",
        ));
    }
    match check_credentials(&config).await {
        Ok(()) => Ok(config),
        Err(CredentialsFailure::Absent) => Err(Failure::unavailable(
            "no AWS credentials were found",
            "sign in (`aws sso login`, `aws login`), or set AWS_PROFILE to a profile that works",
        )),
        Err(CredentialsFailure::Other(cause)) => {
            Err(Failure::unavailable(format!("the AWS credentials cannot be used: {cause}"), SIGN_IN))
        }
    }
}

/// The profile that the environment names although no file has it. The SDK then goes on as if none was named, so this
/// says why there is no region or there are no credentials.
#[expect(clippy::default_trait_access, reason = "the type has a stable name only in another crate of the SDK")]
async fn absent_profile() -> Option<String> {
    let profiles = aws_config::profile::load(&Fs::real(), &Env::real(), &Default::default(), None).await.ok()?;
    let named = profiles.selected_profile();
    (named != "default" && profiles.get_profile(named).is_none()).then(|| named.to_owned())
}

/// The region, for messages.
pub(crate) fn region(config: &SdkConfig) -> String {
    config.region().map_or_else(String::new, ToString::to_string)
}

/// The caller's AWS identity: the ARN of a user or of a role's session. Everybody may ask this.
///
/// # Errors
/// [`Failure::Unavailable`] when AWS rejects the credentials or does not answer.
pub(crate) async fn caller(config: &SdkConfig) -> Result<String, Failure> {
    let own = aws_sdk_sts::config::Builder::from(config).timeout_config(timeouts(CALL_MAX)).retry_config(retries());
    let own = own.interceptor(Metering);
    let answer = aws_sdk_sts::Client::from_conf(own.build()).get_caller_identity().send().await;
    let answer = answer.map_err(|error| refused("sts:GetCallerIdentity", error.code(), &Report::new(&error)))?;
    Ok(answer.arn.unwrap_or_default())
}

/// Carries out a request of a service that is called without its SDK. The answer is read whole.
///
/// # Errors
/// Why there is no answer.
pub(crate) async fn exchange(request: HttpRequest) -> Result<HttpResponse, Cause> {
    let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
    meter::count_call();
    let exchange = async {
        let mut response = connector.call(request).await?;
        let body = std::mem::replace(response.body_mut(), SdkBody::taken());
        *response.body_mut() = SdkBody::from(ByteStream::new(body).collect().await?.into_bytes());
        Ok(response)
    };
    tokio::time::timeout(Duration::from_millis(CALL_MAX.0.unsigned_abs()), exchange).await?
}

/// What a refused or failed call of this action means, by the error code of the service.
pub(crate) fn refused(action: &str, code: Option<&str>, cause: &dyn std::fmt::Display) -> Failure {
    let is_denied = matches!(code, Some("AccessDenied" | "AccessDeniedException" | "AuthorizationError"));
    let hint = match code {
        // DynamoDB also answers with this code if the KMS key refuses.
        Some(_) if is_denied && cause.to_string().contains("kms:") => {
            "ask for the permissions kms:Decrypt and kms:DescribeKey on the key of the documents (parameter \
             DocumentKeyArn), or use other credentials (AWS_PROFILE)"
                .to_owned()
        }
        Some(_) if is_denied => {
            format!("ask for the permission {action}, or use other credentials (AWS_PROFILE)")
        }
        Some(code) if are_rejected(code) => format!("AWS rejected the credentials: {SIGN_IN}"),
        Some("ValidationException") => "AWS rejects the name or the value: see its message above".to_owned(),
        Some("ThrottlingException" | "Throttling" | "TooManyUpdates") => {
            "wait a moment, then run the command again".to_owned()
        }
        Some(_) | None => "check the region, the credentials (AWS_PROFILE) and the network".to_owned(),
    };
    let what = format!("{action} failed: {cause}");
    if is_denied { Failure::denied(what, hint) } else { Failure::unavailable(what, hint) }
}
