//! Endpoint documents in SSM Parameter Store, one `SecureString` each.
//!
//! `GetParameter` is one call of a service that has some hundred and fifty, and the SDK's crate for all of them took up
//! to a fifth of a build (docs/adr/0009). So the call is put together here, from the parts that the SDK's crates are
//! made of: its orchestrator with time-outs and retries, its signer, its classifiers of errors. Ours are the two JSON
//! documents.

use aws_config::{Region, SdkConfig};
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::auth::{SigV4OperationSigningConfig, SigningOptions};
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{ServiceClockSkewClassifier, ServiceClockSkewInterceptor};
use aws_sdk_dynamodb::config::SharedCredentialsProvider;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError, SensitiveOutput};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::{FrozenLayer, Layer};
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use serde::{Deserialize, Serialize};

use super::{retries, timeouts};
use crate::document::{EndpointDocument, FetchError};
use crate::port::EndpointSource;

/// The parameters below one prefix, such as `/hookonce/<stack>/endpoints/`.
#[derive(Debug, Clone)]
pub struct SsmEndpoints {
    get_parameter: Operation<String, Found, Refused>,
    prefix: String,
}

impl SsmEndpoints {
    /// The parameters of a stack. `prefix` ends with a slash; one read may take `total`, own retries included.
    ///
    /// # Errors
    ///
    /// Says what the configuration lacks.
    pub fn new(config: &SdkConfig, total: Millis, prefix: impl Into<String>) -> Result<Self, &'static str> {
        let region = config.region().ok_or("AWS_REGION is not set")?;
        let credentials = config.credentials_provider().ok_or("no credentials are configured")?;
        let url = config.endpoint_url().map_or_else(|| service_url(region.as_ref()), str::to_owned);
        let mut operation = Operation::builder()
            .service_name("ssm")
            .operation_name("GetParameter")
            .http_client(config.http_client().ok_or("no HTTP client is configured")?)
            .endpoint_url(&url)
            .timeout_config(timeouts(total))
            .standard_retry(&retries())
            .retry_classifier(HttpStatusCodeClassifier::default())
            .retry_classifier(TransientErrorClassifier::<Refused>::new())
            .retry_classifier(AwsErrorCodeClassifier::<Refused>::new())
            .retry_classifier(ServiceClockSkewClassifier::<Refused>::new())
            .interceptor(ServiceClockSkewInterceptor::new())
            .with_connection_poisoning()
            .runtime_plugin(
                StaticRuntimePlugin::new().with_config(signed_for(region)).with_runtime_components(signer(credentials)),
            );
        if let Some(clock) = config.time_source() {
            operation = operation.time_source(clock);
        }
        Ok(Self { get_parameter: operation.serializer(request).deserializer(answer).build(), prefix: prefix.into() })
    }

    /// The name of an endpoint's parameter.
    pub fn name(&self, id: &EndpointId) -> String {
        format!("{}{id}", self.prefix)
    }
}

impl EndpointSource for SsmEndpoints {
    async fn fetch(&self, id: &EndpointId) -> Result<Option<EndpointDocument>, FetchError> {
        match self.get_parameter.invoke(self.name(id)).await {
            Ok(Found(text)) => text.as_deref().map(EndpointDocument::parse).transpose(),
            // What lies below: the error around it carries the whole answer.
            Err(error) => Err(FetchError::Unavailable(error.into_source().unwrap_or_else(Into::into))),
        }
    }
}

/// Where the service is. The regions of China have a domain of their own.
fn service_url(region: &str) -> String {
    let end = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://ssm.{region}.amazonaws.com{end}")
}

/// What is signed, and that the answer is secret: it is not logged at any level.
fn signed_for(region: &Region) -> FrozenLayer {
    let mut layer = Layer::new("GetParameter");
    layer.store_put(AuthSchemeOptionResolverParams::new(()));
    layer.store_put(SensitiveOutput);
    layer.store_put(SigV4OperationSigningConfig {
        region: Some(region.clone().into()),
        name: Some("ssm".into()),
        region_set: None,
        signing_options: SigningOptions::default(),
    });
    layer.freeze()
}

/// Who signs.
fn signer(credentials: SharedCredentialsProvider) -> RuntimeComponentsBuilder {
    let schemes = StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]);
    let mut components = RuntimeComponentsBuilder::new("GetParameter");
    components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
    components.set_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(schemes)));
    components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(credentials));
    components
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GetParameter<'a> {
    name: &'a str,
    with_decryption: bool,
}

// The operation hands its input over.
#[allow(clippy::needless_pass_by_value)]
fn request(name: String) -> Result<HttpRequest, BoxError> {
    let body = serde_json::to_string(&GetParameter { name: &name, with_decryption: true })?;
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.headers_mut().insert("content-type", "application/x-amz-json-1.1");
    request.headers_mut().insert("x-amz-target", "AmazonSSM.GetParameter");
    Ok(request)
}

/// The text of a parameter, if there is one.
struct Found(Option<String>);

impl std::fmt::Debug for Found {
    /// Says nothing of the text: it holds secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Found" } else { "NotFound" })
    }
}

/// The service said no.
#[derive(Debug, thiserror::Error)]
#[error("Parameter Store refused the read: {0}")]
struct Refused(ErrorMetadata);

impl ProvideErrorMetadata for Refused {
    fn meta(&self) -> &ErrorMetadata {
        &self.0
    }
}

fn answer(response: &HttpResponse) -> Result<Found, OrchestratorError<Refused>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        parameter: Parameter,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Parameter {
        value: String,
    }
    let body = response.body().bytes().unwrap_or_default();
    if response.status().is_success() {
        // Without the parser's own words, which may repeat what it read.
        let answer: Answer = serde_json::from_slice(body)
            .map_err(|_| OrchestratorError::other("the answer is not of the known form"))?;
        return Ok(Found(Some(answer.parameter.value)));
    }
    match error_code(body) {
        Some(code) if code == "ParameterNotFound" => Ok(Found(None)),
        code => {
            let error = ErrorMetadata::builder().code(code.unwrap_or_default()).build();
            Err(OrchestratorError::operation(Refused(error)))
        }
    }
}

/// The code of an error: `Code`, `namespace#Code` or `Code:http://address`.
fn error_code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        #[serde(rename = "__type")]
        kind: String,
    }
    let Problem { kind } = serde_json::from_slice(body).ok()?;
    let code = kind.split(':').next()?;
    code.rsplit('#').next().map(str::to_owned)
}
