//! Endpoint documents in SSM Parameter Store, one `SecureString` per endpoint.

use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::ProvideErrorMetadata as _;
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use aws_sdk_ssm::types::{Parameter, ParameterType};
use hookonce_protocol::key::EndpointId;

use crate::document::{EndpointDocument, FetchError};
use crate::index;
use crate::port::EndpointSource;

/// The parameters under one prefix, such as `/hookonce/<stack>/endpoints/`.
#[derive(Debug, Clone)]
pub struct SsmEndpoints {
    client: Client,
    prefix: String,
}

impl SsmEndpoints {
    /// Creates the source for a stack. `prefix` ends with a slash.
    pub fn new(client: Client, prefix: impl Into<String>) -> Self {
        Self { client, prefix: prefix.into() }
    }

    /// The name of an endpoint's parameter.
    pub fn name(&self, id: &EndpointId) -> String {
        format!("{}{id}", self.prefix)
    }
}

impl EndpointSource for SsmEndpoints {
    async fn fetch(&self, id: &EndpointId) -> Result<Option<EndpointDocument>, FetchError> {
        let Some(parameter) = self.get(self.name(id)).await? else { return Ok(None) };
        if parameter.r#type().is_some_and(|kind| *kind != ParameterType::SecureString) {
            tracing::warn!(endpoint.id = %id, "the parameter is not a SecureString: store the endpoint again");
        }
        match parameter.value() {
            Some(text) => EndpointDocument::parse(text).map(Some),
            None => Err(FetchError::Unavailable("the response has no value".into())),
        }
    }

    async fn index(&self, shard: u8) -> Result<Option<String>, FetchError> {
        let parameter = self.get(format!("{}{}", self.prefix, index::parameter(shard))).await?;
        Ok(parameter.and_then(|parameter| parameter.value))
    }
}

impl SsmEndpoints {
    /// Reads a parameter, if there is one.
    async fn get(&self, name: String) -> Result<Option<Parameter>, FetchError> {
        match self.client.get_parameter().name(name).with_decryption(true).send().await {
            Ok(answer) => match answer.parameter {
                Some(parameter) => Ok(Some(parameter)),
                None => Err(FetchError::Unavailable("the response has no value".into())),
            },
            Err(error) if error.as_service_error().is_some_and(GetParameterError::is_parameter_not_found) => Ok(None),
            Err(error) if error.code() == Some("ThrottlingException") => Err(FetchError::Throttled),
            // Keep only the cause. The outer error prints the whole response, which contains secrets.
            Err(error) => Err(FetchError::Unavailable(error.into_source().unwrap_or_else(Into::into))),
        }
    }
}
