//! Handlers at URLs on loopback: a function that runs on the same laptop.

use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::connection::CaptureSmithyConnection;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use futures::future::BoxFuture;

use super::https::{ReadError, read};
use hookonce_runtime::documents::document::EVENT_BYTES_MAX;
use hookonce_runtime::handlers::remote::{CallError, CallHandler, Cause};

/// Calls handlers over plain HTTP. It follows no redirect, uses no proxy and keeps no connection.
#[derive(Debug)]
pub struct LoopbackHandlers(Connector);

impl LoopbackHandlers {
    /// Creates a client.
    pub fn new() -> Self {
        Self(Connector::builder().pool_max_idle_per_host(0).build_http())
    }
}

impl Default for LoopbackHandlers {
    fn default() -> Self {
        Self::new()
    }
}

impl CallHandler for LoopbackHandlers {
    fn call<'a>(&'a self, url: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            let mut call = HttpRequest::new(SdkBody::from(request));
            call.set_method("POST").map_err(|error| CallError::Crashed(error.into()))?;
            call.set_uri(url).map_err(|error| CallError::Crashed(error.into()))?;
            call.headers_mut().insert("content-type", "application/json");
            let connection = CaptureSmithyConnection::new();
            call.add_extension(connection.clone());
            let response = self.0.call(call).await.map_err(|error| match connection.get() {
                // It took the request, so the event itself may crash the handler.
                Some(_) => CallError::Crashed(error.into()),
                None => CallError::Away(error.into()),
            })?;
            let status = response.status().as_u16();
            // The function, or what stands in front of it, takes no calls for now.
            if matches!(status, 429 | 502..=504) {
                return Err(CallError::Away(refusal(status)));
            }
            if !response.status().is_success() {
                return Err(CallError::Crashed(refusal(status)));
            }
            answer(response.into_body(), CallError::Crashed).await
        })
    }
}

/// A status that is no success.
pub(super) fn refusal(status: u16) -> Cause {
    format!("it answered with status {status}").into()
}

/// The body of an answer. `broken` says what a connection that breaks in its middle means.
pub(super) async fn answer(body: SdkBody, broken: fn(Cause) -> CallError) -> Result<Vec<u8>, CallError> {
    read(body, EVENT_BYTES_MAX).await.map_err(|error| match error {
        ReadError::TooLong => CallError::TooLong,
        ReadError::Broken(error) => broken(error.into()),
    })
}
