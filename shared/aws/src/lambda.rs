//! Handlers that are Lambda functions.

use std::sync::OnceLock;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use futures::future::BoxFuture;

use super::https::TLS;
use super::loopback::{answer, refusal};
use super::signed::SignedService;
use hookonce_runtime::handlers::remote::{CallError, CallHandler, Cause};

/// The errors with status 400 that are about the request. Others are about the function, such as `SnapStartException`.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html#API_Invoke_Errors>
const REQUEST_ERRORS: [&str; 2] = ["InvalidRequestContentException", "InvalidParameterValueException"];

/// The header in which Lambda names an error. A colon and an address may follow.
pub(super) const ERROR_TYPE: &str = "x-amzn-errortype";

/// How a function is invoked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Invocation {
    /// With its answer.
    RequestResponse,
    /// Later: Lambda takes the event, and repeats it by itself.
    Event,
}

/// Why an invocation has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotInvoked {
    /// It was never sent.
    #[error("the request cannot be signed")]
    Unsigned(#[source] Cause),
    /// It may have been sent.
    #[error("there is no answer")]
    Unanswered(#[source] ConnectorError),
}

/// Invokes functions. It repeats nothing.
#[derive(Debug)]
pub(super) struct LambdaClient {
    config: SdkConfig,
    /// Made for the first call: reading the system's certificate authorities takes time, and most processes call
    /// nothing.
    connector: OnceLock<Connector>,
}

impl LambdaClient {
    pub(super) fn new(config: &SdkConfig) -> Self {
        Self { config: config.clone(), connector: OnceLock::new() }
    }

    fn connector(&self) -> &Connector {
        self.connector.get_or_init(|| {
            // A service that cannot be reached must not look like a slow function.
            let settings = HttpConnectorSettings::builder().connect_timeout(Duration::from_secs(2)).build();
            Connector::builder().connector_settings(settings).tls_provider(TLS).build()
        })
    }

    pub(super) async fn invoke(
        &self,
        function: &str,
        invocation: Invocation,
        body: Vec<u8>,
    ) -> Result<HttpResponse, NotInvoked> {
        // The only characters of a name that a path must not hold as they are.
        let function = function.replace(':', "%3A").replace('$', "%24");
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let kind = match invocation {
            Invocation::RequestResponse => "RequestResponse",
            Invocation::Event => "Event",
        };
        let headers = [("content-type", "application/json"), ("x-amz-invocation-type", kind)];
        let lambda = SignedService { name: "lambda", id: "Lambda" };
        let request =
            lambda.request(&self.config, "POST", &path, &headers, body).await.map_err(NotInvoked::Unsigned)?;
        self.connector().call(request).await.map_err(NotInvoked::Unanswered)
    }
}

/// Calls Lambda functions and waits for their answers.
#[derive(Debug)]
pub struct LambdaHandlers(LambdaClient);

impl LambdaHandlers {
    /// Creates a client with the region, the credentials and the endpoint URL of this configuration.
    pub fn new(config: &SdkConfig) -> Self {
        Self(LambdaClient::new(config))
    }
}

impl CallHandler for LambdaHandlers {
    fn call<'a>(&'a self, function: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            let invoked = self.0.invoke(function, Invocation::RequestResponse, request).await;
            // A connection to the service that breaks says nothing about the event.
            let response = invoked.map_err(|error| match error {
                NotInvoked::Unsigned(cause) => CallError::Away(cause),
                NotInvoked::Unanswered(error) => CallError::Away(error.into()),
            })?;
            let status = response.status().as_u16();
            let error = response.headers().get(ERROR_TYPE).and_then(|error| error.split(':').next());
            let about_request = error.is_none_or(|error| status != 400 || REQUEST_ERRORS.contains(&error));
            // The request itself is wrong, which no later call changes. All other statuses are about the function or
            // the service: it is missing, not ready, throttled, not permitted, or out of order.
            if [400, 413, 415].contains(&status) && about_request {
                return Err(CallError::Crashed(refusal(status)));
            }
            if !response.status().is_success() {
                return Err(CallError::Away(refusal(status)));
            }
            if response.headers().get("x-amz-function-error").is_some() {
                return Err(CallError::Crashed("the function ended with an error; its own log says more".into()));
            }
            answer(response.into_body(), CallError::Away).await
        })
    }
}
