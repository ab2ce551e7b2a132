//! Signing as the provider would: for `hookonce send`, the demo and tests.

use hookonce_protocol::time::EpochSec;
use sha2::{Digest, Sha256};

use crate::json::Node;
use crate::path::Path;
use crate::provider::Provider;
use crate::request::UnsignedRequest;
use crate::settings::Settings;
use crate::source::Source;

/// Why a request cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The provider signs with a private key that only the provider has.
    #[error("this provider signs with a key of its own; no shared secret can sign for it")]
    NotSharedSecret,
    /// The secret does not have the form that the provider hands out.
    #[error("the secret does not have the form that the provider hands out")]
    Secret,
    /// The signature or timestamp belongs into the body, at a path that the body does not have.
    #[error("the body has no value at {path} to put the signature or the timestamp in")]
    BodyLacks {
        /// The path of the missing value.
        path: String,
    },
    /// The provider puts its signature or timestamp into the body; use [`Provider::sign_request`].
    #[error("this provider changes the body when it signs")]
    BodyChanges,
    /// The point in time cannot be written as the provider writes it.
    #[error("the time cannot be written as a timestamp")]
    Time,
}

/// A request as the provider would send it.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// What has to be sent besides the headers that were given: signature, timestamp, delivery id.
    pub headers: Vec<(String, String)>,
    /// The body; changed only where the provider keeps its signature or timestamp there.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for SignedRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter.debug_struct("SignedRequest").field("header_names", &names).finish_non_exhaustive()
    }
}

impl Provider {
    /// The headers that the provider would add to this request.
    ///
    /// A delivery id that is not among the given headers is derived from the body, so the same body is the same delivery.
    ///
    /// # Errors
    /// [`SignError`] when the provider's scheme has no shared secret, the secret has the wrong form, or the provider
    /// signs inside the body.
    pub fn sign(
        &self,
        request: &UnsignedRequest<'_>,
        secret: &str,
        now: EpochSec,
    ) -> Result<Vec<(String, String)>, SignError> {
        let signed = self.sign_request(request, secret, now)?;
        if signed.body == request.body { Ok(signed.headers) } else { Err(SignError::BodyChanges) }
    }

    /// The request as the provider would send it, for every scheme with a shared secret.
    ///
    /// # Errors
    /// [`SignError`] when the scheme has no shared secret, the secret has the wrong form, or the body lacks the place
    /// for the signature.
    pub fn sign_request(
        &self,
        request: &UnsignedRequest<'_>,
        secret: &str,
        now: EpochSec,
    ) -> Result<SignedRequest, SignError> {
        self.sign_request_with(request, secret, &Settings::none(), now)
    }

    /// As [`Self::sign_request`], to an endpoint with settings that the scheme uses: Braintree's `public_key`,
    /// `LiveKit`'s `api_key`.
    ///
    /// # Errors
    /// As [`Self::sign_request`].
    pub fn sign_request_with(
        &self,
        request: &UnsignedRequest<'_>,
        secret: &str,
        settings: &Settings,
        now: EpochSec,
    ) -> Result<SignedRequest, SignError> {
        let scheme = self.schemes.iter().find(|entry| entry.scheme.kind().accepts_secret(secret));
        let entry = scheme.or(self.schemes.first()).ok_or(SignError::NotSharedSecret)?;
        let mut draft = Draft { request, settings, added: Vec::new(), body: request.body.to_vec() };
        for source in self.keys_of(entry).iter().take(1).flat_map(|rule| &rule.0) {
            if let Source::Header(name) = source {
                draft.header_or_derived(name);
            }
        }
        entry.scheme.kind().sign(&mut draft, secret, now)?;
        Ok(SignedRequest { headers: draft.added, body: draft.body })
    }

    /// True when [`Self::sign_request`] can sign for this provider with a secret of the right form.
    pub fn can_sign(&self) -> bool {
        self.schemes.first().is_some_and(|entry| entry.scheme.kind().is_shared_secret())
    }
}

/// A request that is being signed.
pub(crate) struct Draft<'a> {
    pub(crate) request: &'a UnsignedRequest<'a>,
    pub(crate) settings: &'a Settings,
    added: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Draft<'_> {
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

    /// The value of a header; where none was given, an id derived from the body.
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
