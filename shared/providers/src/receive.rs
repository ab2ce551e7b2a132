//! Turns a raw request into a verified delivery, a handshake or a refusal.

use std::collections::BTreeMap;

use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::time::{EpochSec, Millis};
use sha2::{Digest, Sha256};

use crate::answers::ProviderAnswer;
use crate::event::Contents;
use crate::handshake::{Handshake, HandshakeAnswer, Method, Question, is_word};
use crate::keyring::Keyring;
use crate::material::MaterialNeeded;
use crate::provider::{Provider, SchemeEntry};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::proof::{Authentic, Context, Verification};
use crate::settings::Settings;
use crate::source::{Facets, Source};

/// A request that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A handshake: the provider tests the endpoint. It is answered at once and never stored.
    Handshake(HandshakeAnswer),
    /// An authentic delivery.
    Delivery(VerifiedDelivery),
    /// A certificate or key of the provider has to be fetched before the request can be judged.
    NeedsMaterial(MaterialNeeded),
}

/// A delivery from someone who holds one of the endpoint's secrets.
///
/// Its fields are private to this file, where only [`Provider::receive`] makes one, from a scheme's proof. So code that
/// has a `VerifiedDelivery` may claim it.
///
/// The same names in code that compiles, so that the example fails for its reason alone:
///
/// ```
/// fn body(delivery: &hookonce_providers::VerifiedDelivery) -> &[u8] {
///     delivery.body()
/// }
/// ```
///
/// ```compile_fail,E0451
/// // No code makes another body of a delivery that was verified.
/// fn with_body(delivery: hookonce_providers::VerifiedDelivery, body: Vec<u8>) -> hookonce_providers::VerifiedDelivery {
///     hookonce_providers::VerifiedDelivery { body, ..delivery }
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedDelivery {
    provider_id: String,
    body: Vec<u8>,
    body_sha256: [u8; 32],
    headers: BTreeMap<String, String>,
    secret_index: usize,
    bound_to: Option<String>,
    contents: Contents,
}

impl VerifiedDelivery {
    /// The provider whose scheme it passed.
    pub fn provider_id(&self) -> &str {
        &self.provider_id
    }

    /// The body, byte for byte as it was signed.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The SHA-256 of the body.
    pub const fn body_sha256(&self) -> [u8; 32] {
        self.body_sha256
    }

    /// The headers to store, names in lower case: content type, event type, delivery id. Never a signature.
    pub const fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }

    /// The index of the secret that matched; 0 is the newest. An old secret that never matches can be retired.
    pub const fn secret_index(&self) -> usize {
        self.secret_index
    }

    /// The signed value that the body is bound to, for a scheme that does not cover the body. The delivery is claimed
    /// under it: another body that comes with it is another body under a known key, whatever id it has.
    pub fn bound_to(&self) -> Option<&str> {
        self.bound_to.as_deref()
    }

    /// The key of the record that claims it at an endpoint.
    pub fn record_key(&self, endpoint: &EndpointId) -> RecordKey {
        if let Some(value) = &self.bound_to {
            return RecordKey::delivery(endpoint, value);
        }
        match &self.contents {
            Contents::Single(part) => part.key.record_key(endpoint),
            Contents::Several(_) => RecordKey::envelope(endpoint, &self.body_sha256),
        }
    }

    /// The events in it.
    pub const fn contents(&self) -> &Contents {
        &self.contents
    }
}

impl std::fmt::Debug for VerifiedDelivery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("VerifiedDelivery")
            .field("provider_id", &self.provider_id)
            .field("body_bytes", &self.body.len())
            .field("secret_index", &self.secret_index)
            .finish_non_exhaustive()
    }
}

impl Provider {
    /// Checks a request. The result is a handshake, an authentic delivery or a refusal.
    ///
    /// It checks the signature over the raw bytes, against every secret, before it reads anything from the body. Only a
    /// scheme with its signature or timestamp inside the body reads those two values first. `tolerance`, if given,
    /// replaces the provider's own limit for the age of a timestamp, past and future.
    ///
    /// # Errors
    /// The reason for the refusal. It says nothing that helps a forger.
    pub fn receive(
        &self,
        request: &Request<'_>,
        keyring: &Keyring,
        settings: &Settings,
        tolerance: Option<Millis>,
        now: EpochSec,
    ) -> Result<Received, Refusal> {
        let proof = match self.authenticate(request, keyring, settings, tolerance, now)? {
            Some(Verification::Authentic(proof)) => Some(proof),
            Some(Verification::NeedsMaterial(needed)) => return Ok(Received::NeedsMaterial(needed)),
            None => None,
        };
        // A handshake without a proof is answered with the strongest scheme and the newest secret.
        let (scheme_index, secret_index) =
            proof.as_ref().map_or((0, 0), |proof| (proof.scheme_index(), proof.secret_index()));
        let scheme = self.schemes.get(scheme_index).map(|entry| &entry.scheme);
        let question = Question::new(request, keyring, settings, scheme, secret_index);
        for handshake in self.handshakes_by(request.method) {
            let proof_fits = handshake.needs_proof() == proof.is_some();
            // A signed request that cannot be read as a handshake is a delivery.
            let unreadable = |refusal| if proof.is_some() { Ok(false) } else { Err(refusal) };
            if proof_fits && handshake.applies(&question).or_else(unreadable)? {
                return handshake.answer(&question).map(Received::Handshake);
            }
        }
        match proof {
            Some(proof) => Ok(Received::Delivery(self.delivery(request, &proof, now))),
            None => Err(self.refusal_without_proof(request.method)),
        }
    }

    /// The answers to a delivery: that it was stored, and that it had been stored before.
    pub fn answers_to(&self, delivery: &VerifiedDelivery) -> [&ProviderAnswer; 2] {
        let facets = Facets::new(delivery.body(), delivery.headers());
        let holds = |place: &str| Source::parse(place).is_ok_and(|source| facets.is_present(&source));
        match self.answers().instead.iter().find(|instead| holds(&instead.present)) {
            Some(instead) => [&instead.answer; 2],
            None => [&self.answers().accepted, &self.answers().duplicate],
        }
    }

    /// Checks the signature, if the request has one. `None` without any.
    pub(crate) fn authenticate(
        &self,
        request: &Request<'_>,
        keyring: &Keyring,
        settings: &Settings,
        tolerance: Option<Millis>,
        now: EpochSec,
    ) -> Result<Option<Verification>, Refusal> {
        if !keyring.belongs_to(&self.id) {
            return Err(Refusal::NotConfigured);
        }
        // The sender chooses the scheme by the headers that it leaves out, so the endpoint says which it takes.
        let mut taken = self.addressed_schemes(request).filter(|(index, _)| keyring.takes_scheme(*index));
        let Some((scheme_index, entry)) = taken.next() else {
            let is_signed = self.addressed_schemes(request).next().is_some();
            return if is_signed { Err(Refusal::SchemeNotTaken) } else { Ok(None) };
        };
        // Some providers let anyone have a word signed with the endpoint's secret, so a signed word proves nothing.
        if is_word(request.body) && self.handshakes.iter().any(Handshake::signs_for_strangers) {
            return Err(Refusal::SignatureMismatch);
        }
        let url = settings.public_url(request);
        let context = Context { request, url, keyring, settings, tolerance, now, scheme_index };
        entry.scheme.kind().verify(&context).map(Some)
    }

    /// The schemes whose signature the request has, right or wrong, strongest first. Only a `POST` is ever signed.
    pub(crate) fn addressed_schemes(&self, request: &Request<'_>) -> impl Iterator<Item = (usize, &SchemeEntry)> {
        let is_signed = request.method == Method::Post.as_str();
        let schemes = self.schemes.iter().enumerate();
        schemes.filter(move |(_, entry)| is_signed && entry.scheme.kind().is_addressed_by(request))
    }

    fn refusal_without_proof(&self, method: &str) -> Refusal {
        if method == Method::Post.as_str() {
            Refusal::SignatureMissing
        } else if self.handshakes_by(method).next().is_some() {
            Refusal::Malformed
        } else {
            Refusal::MethodNotAllowed
        }
    }

    /// The methods that its requests have, as the header `Allow` lists them.
    pub fn methods(&self) -> &'static str {
        match ["GET", "HEAD"].map(|method| self.handshakes_by(method).next().is_some()) {
            [false, false] => "POST",
            [true, false] => "GET, POST",
            [false, true] => "HEAD, POST",
            [true, true] => "GET, HEAD, POST",
        }
    }

    fn handshakes_by(&self, method: &str) -> impl Iterator<Item = &Handshake> {
        self.handshakes.iter().filter(move |handshake| handshake.method.as_str() == method)
    }

    fn delivery(&self, request: &Request<'_>, proof: &Authentic, now: EpochSec) -> VerifiedDelivery {
        let headers = self.kept_headers(request, proof, now);
        let parts = self.split(request.body, &headers);
        // The hash of an event that is the whole body is that of the body: long bodies are not hashed twice.
        let is_whole = !self.batches() && self.retry_changes.is_empty();
        let whole = parts.first().filter(|_| is_whole).map(|part| part.sha256);
        VerifiedDelivery {
            provider_id: self.id.clone(),
            body: request.body.to_vec(),
            body_sha256: whole.unwrap_or_else(|| Sha256::digest(request.body).into()),
            headers,
            secret_index: proof.secret_index(),
            bound_to: proof.bond().map(str::to_owned),
            contents: Contents::of(parts),
        }
    }
}
