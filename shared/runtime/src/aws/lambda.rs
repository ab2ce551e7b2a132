//! Handlers that are Lambda functions: one operation, signed here. The service's SDK also streams, so it changes features
//! of the crates that all SDKs share, and each of them would be built once more.

use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_types::service_config::ServiceConfigKey;
use futures::future::BoxFuture;

use super::https::TLS;
use super::loopback::{answer, refusal, unanswered};
use crate::ambient::{Ambient as _, System};
use crate::remote::{CallError, CallHandler, Cause};

/// The name of the service in signatures and addresses.
const SERVICE: &str = "lambda";

/// How long connecting may take. A service that cannot be reached must not look like a slow function.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Statuses by which Lambda says that the request itself is wrong, which no later call mends. All others are about the
/// function or the service: it is missing, not ready, throttled, not permitted, or out of order.
const REFUSED: [u16; 3] = [400, 413, 415];

/// Calls Lambda functions and waits for their answers.
#[derive(Debug)]
pub struct LambdaHandlers {
    config: SdkConfig,
    /// Made for the first call: reading the system's certificate authorities takes time, and most workers call nothing.
    connector: OnceLock<Connector>,
}

impl LambdaHandlers {
    /// Creates a client with the region, the credentials and the endpoint URL of this configuration.
    pub fn new(config: &SdkConfig) -> Self {
        Self { config: config.clone(), connector: OnceLock::new() }
    }

    fn connector(&self) -> &Connector {
        self.connector.get_or_init(|| {
            let settings = HttpConnectorSettings::builder().connect_timeout(CONNECT_MAX).build();
            Connector::builder().connector_settings(settings).tls_provider(TLS).build()
        })
    }

    async fn signed(&self, function: &str, body: Vec<u8>) -> Result<HttpRequest, Cause> {
        let region = self.config.region().ok_or("no region is set")?.to_string();
        let base = self.address(&region);
        // The only characters of a name that a path must not hold as they are.
        let function = function.replace(':', "%3A").replace('$', "%24");
        let url = format!("{base}/2015-03-31/functions/{function}/invocations");
        let host = base.split("://").nth(1).unwrap_or_default().to_owned();
        let headers = [
            ("content-type", "application/json"),
            ("host", host.as_str()),
            ("x-amz-invocation-type", "RequestResponse"),
        ];
        let provider = self.config.credentials_provider().ok_or("there are no credentials")?;
        let identity = provider.provide_credentials().await?.into();
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(System.moment().now.0).unwrap_or(0));
        let parameters = SigningParams::builder().identity(&identity).region(&region).name(SERVICE).time(now);
        let parameters = parameters.settings(SigningSettings::default()).build()?.into();
        let signable = SignableRequest::new("POST", &url, headers.into_iter(), SignableBody::Bytes(&body))?;
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
    fn address(&self, region: &str) -> String {
        let key = ServiceConfigKey::builder().service_id("Lambda").env("AWS_ENDPOINT_URL").profile("endpoint_url");
        let named = key.build().ok().and_then(|key| self.config.service_config()?.load_config(key));
        let named = named.or_else(|| self.config.endpoint_url().map(str::to_owned));
        let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let url = named.unwrap_or_else(|| format!("https://{SERVICE}.{region}.{suffix}"));
        url.trim_end_matches('/').to_owned()
    }
}

impl CallHandler for LambdaHandlers {
    fn call<'a>(&'a self, function: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            let request = self.signed(function, request).await.map_err(CallError::Away)?;
            let response = self.connector().call(request).await.map_err(unanswered)?;
            let status = response.status().as_u16();
            if REFUSED.contains(&status) {
                return Err(CallError::Crashed(refusal(status)));
            }
            if !response.status().is_success() {
                return Err(CallError::Away(refusal(status)));
            }
            if response.headers().get("x-amz-function-error").is_some() {
                return Err(CallError::Crashed("the function ended with an error; its own log says more".into()));
            }
            answer(response.into_body()).await
        })
    }
}
