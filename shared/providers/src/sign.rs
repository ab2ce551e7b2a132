//! Signs as the provider would, for `hookonce send`, the demo and tests.

use hookonce_protocol::time::EpochSec;

use crate::provider::Provider;
use crate::scheme::draft::{Draft, SignError, UnsignedRequest};
use crate::settings::Settings;
use crate::source::Source;

/// A request as the provider would send it.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// The headers to add to the given ones: signature, timestamp, delivery id.
    pub headers: Vec<(String, String)>,
    /// The body. It is changed only if the provider keeps its signature or timestamp there.
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
    /// A delivery id that is not given is derived from the body, so the same body is the same delivery.
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
        self.sign_request_with(request, secret, &Settings::none(), &[], now)
    }

    /// As [`Self::sign_request`], to an endpoint with settings that the scheme uses (Braintree's `public_key`,
    /// `LiveKit`'s `api_key`), and by the first of the schemes that it lists which can use the secret. If it lists
    /// none, by the first of the provider's.
    ///
    /// # Errors
    /// As [`Self::sign_request`], and when the endpoint lists no scheme of the provider.
    pub fn sign_request_with(
        &self,
        request: &UnsignedRequest<'_>,
        secret: &str,
        settings: &Settings,
        schemes: &[String],
        now: EpochSec,
    ) -> Result<SignedRequest, SignError> {
        let mut taken = self.schemes.iter().filter(|entry| schemes.is_empty() || schemes.contains(&entry.name));
        let accepting = taken.clone().find(|entry| entry.scheme.kind().accepts_secret(secret));
        let entry = accepting.or(taken.next()).ok_or(SignError::NoScheme)?;
        let mut draft = Draft::new(request, settings);
        for source in self.keys_of(entry).iter().take(1).flat_map(|rule| &rule.0) {
            if let Source::Header(name) = source {
                draft.header_or_derived(name);
            }
        }
        entry.scheme.kind().sign(&mut draft, secret, now)?;
        let (headers, body) = draft.finish();
        Ok(SignedRequest { headers, body })
    }

    /// True when [`Self::sign_request`] can sign for this provider with a secret of the right form.
    pub fn can_sign(&self) -> bool {
        self.schemes.first().is_some_and(|entry| entry.scheme.kind().is_shared_secret())
    }
}
