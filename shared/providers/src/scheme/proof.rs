//! The proof that a request is authentic, and the only ways to get one.
//!
//! Architecture Invariant: only this file makes an [`Authentic`], after a signature or token matched a secret or a
//! fetched key. There is no verifier that returns a boolean and none that accepts everything.

use std::borrow::Cow;

use hookonce_protocol::time::{EpochSec, Millis};

use crate::keyring::Keyring;
use crate::material::MaterialNeeded;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::settings::Settings;

/// The proof that a request comes from someone who holds one of the endpoint's secrets.
#[derive(Debug)]
pub(crate) struct Authentic {
    secret_index: usize,
    scheme_index: usize,
    signed_at: Option<i64>,
    bound_to: Option<String>,
}

impl Authentic {
    /// With the signed value that stands for the delivery, for a scheme that does not cover the body.
    pub(crate) fn bound_to(self, value: String) -> Self {
        Self { bound_to: Some(value), ..self }
    }

    /// The signed value that stands for the delivery, if the body is free.
    pub(crate) fn bond(&self) -> Option<&str> {
        self.bound_to.as_deref()
    }

    /// With the time of the token's issue, for providers whose deliveries differ in nothing else.
    pub(crate) fn issued(self, at: Option<i64>) -> Self {
        Self { signed_at: at, ..self }
    }

    /// The index of the secret that matched; 0 is the newest.
    pub(crate) const fn secret_index(&self) -> usize {
        self.secret_index
    }

    /// The index of the provider's scheme that was used.
    pub(crate) const fn scheme_index(&self) -> usize {
        self.scheme_index
    }

    /// When the token was issued, in seconds since the Unix epoch, if the scheme knows.
    pub(crate) const fn signed_at(&self) -> Option<i64> {
        self.signed_at
    }
}

/// The result of a scheme that did not refuse.
pub(crate) enum Verification {
    Authentic(Authentic),
    /// A certificate or key has to be fetched first.
    NeedsMaterial(MaterialNeeded),
}

/// Everything that a scheme may read.
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request<'a>,
    /// The URL that was signed.
    pub(crate) url: Cow<'a, str>,
    pub(crate) keyring: &'a Keyring,
    pub(crate) settings: &'a Settings,
    pub(crate) tolerance: Option<Millis>,
    pub(crate) now: EpochSec,
    pub(crate) scheme_index: usize,
}

impl Context<'_> {
    /// Tries every secret, newest first. The first that matches makes the proof.
    pub(crate) fn first_fitting(&self, mut fits: impl FnMut(&str) -> bool) -> Result<Authentic, Refusal> {
        let fitting = self.keyring.secrets().iter().position(|secret| fits(secret));
        fitting.map(|index| self.proven(index)).ok_or(Refusal::SignatureMismatch)
    }

    /// Tries the material that was fetched under this name, if any. If it matches, it makes the proof.
    pub(crate) fn fetched_fitting(
        &self,
        cache_key: &str,
        fits: impl FnOnce(&[u8]) -> bool,
    ) -> Option<Result<Authentic, Refusal>> {
        let material = self.keyring.material_for(cache_key)?;
        Some(if fits(material) { Ok(self.proven(0)) } else { Err(Refusal::SignatureMismatch) })
    }

    /// Tries the given certificates or keys. Without any, tries the one fetched from `url`, or asks for it.
    pub(crate) fn with_fetched_key(&self, url: &str, fits: impl Fn(&str) -> bool) -> Result<Verification, Refusal> {
        if !self.keyring.is_empty() {
            return self.first_fitting(fits).map(Verification::Authentic);
        }
        match self.fetched_fitting(url, |material| std::str::from_utf8(material).is_ok_and(fits)) {
            Some(fitted) => fitted.map(Verification::Authentic),
            None => Ok(Verification::NeedsMaterial(MaterialNeeded::get(url.to_owned()))),
        }
    }

    const fn proven(&self, secret_index: usize) -> Authentic {
        Authentic { secret_index, scheme_index: self.scheme_index, signed_at: None, bound_to: None }
    }
}
