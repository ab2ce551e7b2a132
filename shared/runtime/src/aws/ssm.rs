//! Endpoint documents in SSM Parameter Store, one `SecureString` each.

use aws_sdk_ssm::Client;
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use hookonce_protocol::key::EndpointId;

use crate::endpoint::EndpointDocument;
use crate::port::{EndpointSource, FetchError};

/// The parameters below one prefix, such as `/hookonce/<stack>/endpoints/`.
#[derive(Debug, Clone)]
pub struct SsmEndpoints {
    client: Client,
    prefix: String,
}

impl SsmEndpoints {
    /// The parameters of a stack. `prefix` ends with a slash.
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
        let read = self.client.get_parameter().name(self.name(id)).with_decryption(true);
        match read.send().await {
            Ok(output) => {
                output.parameter().and_then(|parameter| parameter.value()).map(EndpointDocument::parse).transpose()
            }
            Err(error) => match error.as_service_error() {
                Some(GetParameterError::ParameterNotFound(_)) => Ok(None),
                _ => Err(FetchError::Unavailable(Box::new(error))),
            },
        }
    }
}
