//! A request that a scheme is signing.

use sha2::{Digest, Sha256};

use crate::json::Node;
use crate::path::Path;
use crate::settings::Settings;

/// A request that a sender is about to sign.
#[derive(Clone, Copy)]
pub struct UnsignedRequest<'a> {
    /// The HTTP method, in upper case.
    pub method: &'a str,
    /// The public URL that will be called, with its query.
    pub url: &'a str,
    /// Headers that are already known, such as the event type or a chosen delivery id.
    pub headers: &'a [(String, String)],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl std::fmt::Debug for UnsignedRequest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UnsignedRequest")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Why a request cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The provider signs with a private key that only it has.
    #[error("this provider signs with its own private key; no shared secret can sign for it")]
    NotSharedSecret,
    /// The endpoint lists schemes, and none of them is one of this provider.
    #[error("this provider has none of the schemes that the endpoint lists")]
    NoScheme,
    /// The secret does not have the provider's form.
    #[error("the secret does not have this provider's form")]
    Secret,
    /// The signature or timestamp belongs in the body, at a path that the body lacks.
    #[error("the body has no value at {path}, where the signature or the timestamp belongs")]
    BodyLacks {
        /// The path of the missing value.
        path: String,
    },
    /// The provider puts its signature or timestamp into the body; use
    /// [`Provider::sign_request`](crate::Provider::sign_request).
    #[error("this provider changes the body when it signs")]
    BodyChanges,
    /// The endpoint lacks a setting that says where the secret belongs.
    #[error("the setting `{name}` is missing, which says where the secret belongs")]
    Setting {
        /// The setting's name.
        name: &'static str,
    },
    /// The time cannot be written in the provider's form.
    #[error("the time cannot be written as a timestamp")]
    Time,
}

/// A request that is being signed.
pub(crate) struct Draft<'a> {
    pub(crate) request: &'a UnsignedRequest<'a>,
    pub(crate) settings: &'a Settings,
    added: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(request: &'a UnsignedRequest<'a>, settings: &'a Settings) -> Self {
        Self { request, settings, added: Vec::new(), body: request.body.to_vec() }
    }

    /// The headers that were added, and the body.
    pub(crate) fn finish(self) -> (Vec<(String, String)>, Vec<u8>) {
        (self.added, self.body)
    }

    /// Every header so far.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &(String, String)> {
        self.request.headers.iter().chain(&self.added)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    }

    pub(crate) fn add(&mut self, name: &str, value: String) {
        self.added.push((name.to_owned(), value));
    }

    /// The value of a header, or else an id derived from the body.
    pub(crate) fn header_or_derived(&mut self, name: &str) -> String {
        if let Some(value) = self.header(name) {
            return value;
        }
        let digest = hex::encode(Sha256::digest(self.request.body));
        let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
        let id = format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32));
        self.add(name, id.clone());
        id
    }

    /// Replaces a value in the body, keeping its JSON type.
    pub(crate) fn set_json(&mut self, path: &Path, value: &str) -> Result<(), SignError> {
        let lacks = || SignError::BodyLacks { path: path.to_string() };
        let (range, quoted) = {
            let root = Node::parse(&self.body).map_err(|_| lacks())?;
            let node = path.find(root).map_err(|_| lacks())?.ok_or_else(lacks)?;
            (node.start()..node.end(), node.text().starts_with('"'))
        };
        let text = if quoted { serde_json::Value::from(value).to_string() } else { value.to_owned() };
        self.body.splice(range, text.into_bytes());
        Ok(())
    }

    pub(crate) fn json(&self, path: &Path) -> Result<String, SignError> {
        let lacks = || SignError::BodyLacks { path: path.to_string() };
        let root = Node::parse(&self.body).map_err(|_| lacks())?;
        let node = path.find(root).map_err(|_| lacks())?;
        node.and_then(|node| node.scalar()).ok_or_else(lacks)
    }
}
