//! Two reads of CloudWatch, signed here. Its SDK changes features of the crates that all SDKs share, so that each of them
//! is built once more, and brings second versions of the HTTP crates.

use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_types::service_config::ServiceConfigKey;
use error_reporter::Report;
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use serde_json::Value;

use crate::account::{refused, region};
use crate::failure::Failure;

/// How long one call may take.
const CALL_MAX: Duration = Duration::from_secs(20);

/// The name of the service in signatures and addresses, and of its interface in requests.
const SERVICE: &str = "monitoring";
const INTERFACE: &str = "GraniteServiceVersion20100801";

/// The media type of its JSON protocol.
const JSON: &str = "application/x-amz-json-1.0";

/// An answer, and the service's clock when it was given.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The fields, or why the service refused.
    pub(crate) outcome: Result<Value, Failure>,
    /// To the second.
    pub(crate) date: Option<EpochMs>,
}

/// Calls an operation.
///
/// # Errors
/// [`Failure::Unavailable`] when the service does not answer.
pub(crate) async fn call(config: &SdkConfig, operation: &str, input: &Value) -> Result<Answer, Failure> {
    let action = format!("cloudwatch:{operation}");
    let broken = |cause: &dyn std::error::Error| refused(&action, None, &Report::new(cause));
    let body = input.to_string();
    let request = signed(config, operation, &body).await.map_err(|error| broken(&*error))?;
    let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
    let exchange = async {
        let response = connector.call(request).await?;
        let date = response.headers().get("date").and_then(parse_date);
        let is_success = response.status().is_success();
        let bytes = ByteStream::new(response.into_body()).collect().await?.into_bytes();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((is_success, date, bytes))
    };
    let exchanged = tokio::time::timeout(CALL_MAX, exchange).await.map_err(|late| broken(&late))?;
    let (is_success, date, bytes) = exchanged.map_err(|error| broken(&*error))?;
    let fields: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let outcome = if is_success { Ok(fields) } else { Err(refusal(&action, &fields)) };
    Ok(Answer { outcome, date })
}

/// The failure that a refusal stands for.
fn refusal(action: &str, fields: &Value) -> Failure {
    let code = fields["__type"].as_str().map(|code| code.rsplit('#').next().unwrap_or(code));
    let said = ["message", "Message"].iter().find_map(|name| fields[name].as_str()).unwrap_or("it gave no reason");
    refused(action, code, &said)
}

async fn signed(
    config: &SdkConfig,
    operation: &str,
    body: &str,
) -> Result<HttpRequest, Box<dyn std::error::Error + Send + Sync>> {
    let url = address(config);
    let target = format!("{INTERFACE}.{operation}");
    let host = url.split("://").nth(1).unwrap_or_default().trim_end_matches('/').to_owned();
    let headers = [("content-type", JSON), ("x-amz-target", target.as_str()), ("host", host.as_str())];
    let provider = config.credentials_provider().ok_or("no credentials")?;
    let identity = provider.provide_credentials().await?.into();
    let region = region(config);
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(System.moment().now.0).unwrap_or(0));
    let parameters = SigningParams::builder().identity(&identity).region(&region).name(SERVICE).time(now);
    let parameters = parameters.settings(SigningSettings::default()).build()?.into();
    let signable = SignableRequest::new("POST", &url, headers.into_iter(), SignableBody::Bytes(body.as_bytes()))?;
    let (instructions, _) = sign(signable, &parameters)?.into_parts();
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.set_uri(url)?;
    for (name, value) in headers {
        request.headers_mut().insert(name, value.to_owned());
    }
    for header in instructions.into_parts().0 {
        request.headers_mut().insert(header.name(), header.value().to_owned());
    }
    Ok(request)
}

/// The service's address: the one that the environment or the profile names, or that of the region.
fn address(config: &SdkConfig) -> String {
    let key = ServiceConfigKey::builder().service_id("CloudWatch").env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let named = key.build().ok().and_then(|key| config.service_config()?.load_config(key));
    let region = region(config);
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    named.unwrap_or_else(|| format!("https://{SERVICE}.{region}.{suffix}/"))
}

/// Reads the `Date` header.
fn parse_date(text: &str) -> Option<EpochMs> {
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(EpochMs(at.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_an_answer_is_read() {
        assert_eq!(parse_date("Sun, 22 Nov 2026 14:00:00 GMT"), Some(EpochMs(1_795_356_000_000)));
        assert_eq!(parse_date("yesterday"), None);
    }
}
