//! Documents in SSM Parameter Store, one `SecureString` per endpoint or destination, and the message key.

use std::iter;

use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{BoxError, ProvideErrorMetadata as _, SdkError};
use aws_sdk_ssm::types::{Parameter, ParameterType};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::message::MessageKey;

use crate::config::MessageKeyLocation;
use crate::destination::{DestinationDocument, DestinationFetchError, DestinationSource};
use crate::document::{EndpointDocument, FetchError};
use crate::file::MessageKeyFile;
use crate::index;
use crate::message_key::{MessageKeyError, MessageKeySource, MessageKeys};
use crate::port::{EndpointRead, EndpointSource};

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
    async fn fetch(&self, id: &EndpointId, shards: &[u8]) -> Result<EndpointRead, FetchError> {
        let name = self.name(id);
        let texts: Vec<_> = shards.iter().map(|shard| (*shard, self.text_name(*shard))).collect();
        let names = iter::once(name.clone()).chain(texts.iter().map(|(_, name)| name.clone())).collect();
        let mut read = read(&self.client, names).await?;
        let document = match read.take(&name)? {
            Some((text, kind)) => {
                if kind.is_some_and(|kind| kind != ParameterType::SecureString) {
                    tracing::warn!(endpoint.id = %id, "the parameter is not a SecureString: store the endpoint again");
                }
                EndpointDocument::parse(&text).map(Some).map_err(FetchError::Malformed)
            }
            None => Ok(None),
        };
        let text = |(shard, name): (u8, String)| Ok((shard, read.take(&name)?.map(|(text, _)| text)));
        Ok(EndpointRead { document, index: texts.into_iter().map(text).collect::<Result<_, FetchError>>()? })
    }
}

impl SsmEndpoints {
    fn text_name(&self, shard: u8) -> String {
        format!("{}{}", self.prefix, index::parameter(shard))
    }
}

/// The parameters of destinations under one prefix, such as `/hookonce/<stack>/destinations/`.
#[derive(Debug, Clone)]
pub struct SsmDestinations {
    client: Client,
    prefix: String,
}

impl SsmDestinations {
    /// Creates the source for a stack. `prefix` ends with a slash.
    pub fn new(client: Client, prefix: impl Into<String>) -> Self {
        Self { client, prefix: prefix.into() }
    }

    /// The name of a destination's parameter.
    pub fn name(&self, id: &DestinationId) -> String {
        format!("{}{id}", self.prefix)
    }
}

impl DestinationSource for SsmDestinations {
    async fn fetch(&self, id: &DestinationId) -> Result<Option<DestinationDocument>, DestinationFetchError> {
        let unavailable = |error: FetchError| DestinationFetchError::Unavailable(Box::new(error));
        let name = self.name(id);
        let mut read = read(&self.client, vec![name.clone()]).await.map_err(unavailable)?;
        let Some((text, kind)) = read.take(&name).map_err(unavailable)? else { return Ok(None) };
        if kind.is_some_and(|kind| kind != ParameterType::SecureString) {
            tracing::warn!(destination.id = %id, "the parameter is not a SecureString: store the destination again");
        }
        DestinationDocument::parse(&text).map(Some).map_err(DestinationFetchError::Invalid)
    }
}

/// The parameter of the message key, such as `/hookonce/<stack>/key/messages`.
#[derive(Debug, Clone)]
pub struct SsmMessageKey {
    client: Client,
    name: String,
}

impl SsmMessageKey {
    /// Creates the source from the parameter's name.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self { client, name: name.into() }
    }
}

impl MessageKeySource for SsmMessageKey {
    fn message_key(&self) -> BoxFuture<'_, Result<MessageKey, MessageKeyError>> {
        let key = async {
            let unavailable = |error: FetchError| MessageKeyError::Unavailable(Box::new(error));
            let mut read = read(&self.client, vec![self.name.clone()]).await.map_err(unavailable)?;
            let text = read.take(&self.name).map_err(unavailable)?;
            MessageKeyError::or_key(text.as_ref().map(|(text, _)| text.as_str()))
        };
        key.boxed()
    }
}

/// The message key of a function, from where its configuration says.
pub fn message_keys(client: Client, location: MessageKeyLocation) -> MessageKeys {
    match location {
        MessageKeyLocation::Ssm(name) => MessageKeys::new(SsmMessageKey::new(client, name)),
        MessageKeyLocation::File(path) => MessageKeys::new(MessageKeyFile::new(path)),
    }
}

/// Reads parameters in one request.
async fn read(client: &Client, names: Vec<String>) -> Result<Answered, FetchError> {
    match client.get_parameters().set_names(Some(names)).with_decryption(true).send().await {
        Ok(answer) => Ok(Answered {
            found: answer.parameters.unwrap_or_default(),
            absent: answer.invalid_parameters.unwrap_or_default(),
        }),
        Err(error) if error.code() == Some("ThrottlingException") => Err(FetchError::Throttled),
        Err(error) => Err(FetchError::Unavailable(cause(error))),
    }
}

/// Keeps only the cause of an error. The error itself prints the whole response, which may contain secrets.
pub(super) fn cause<E: std::error::Error + Send + Sync + 'static>(error: SdkError<E>) -> BoxError {
    error.into_source().unwrap_or_else(Into::into)
}

/// What Parameter Store said about each name.
struct Answered {
    found: Vec<Parameter>,
    /// Names that no parameter has.
    absent: Vec<String>,
}

impl Answered {
    /// The value and kind of a parameter. `None` if the answer says that there is none: what it leaves out may exist.
    fn take(&mut self, name: &str) -> Result<Option<(String, Option<ParameterType>)>, FetchError> {
        if self.absent.iter().any(|absent| absent == name) {
            return Ok(None);
        }
        let found = self.found.iter_mut().find(|found| found.name() == Some(name));
        match found.and_then(|found| Some((found.value.take()?, found.r#type.take()))) {
            Some(parameter) => Ok(Some(parameter)),
            None => Err(FetchError::Unavailable("the response leaves out a parameter".into())),
        }
    }
}
