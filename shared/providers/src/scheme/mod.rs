//! How a provider proves that it sent a request.
//!
//! Architecture Invariant: only a scheme makes an [`Authentic`], and only after a signature or token fitted a secret.
//! There is no verifier that returns a boolean and no scheme that accepts everything.

pub(crate) mod adyen;
pub(crate) mod braintree;
pub(crate) mod contentful;
pub(crate) mod encoding;
pub(crate) mod envelope;
pub(crate) mod format;
pub(crate) mod jwt;
pub(crate) mod paypal;
pub(crate) mod public_key;
pub(crate) mod signed;
pub(crate) mod sns;
pub(crate) mod timestamp;
pub(crate) mod token;
pub(crate) mod twilio;

use std::borrow::Cow;

use hookonce_protocol::time::{EpochSec, Millis};

use crate::keyring::Keyring;
use crate::material::MaterialNeeded;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::settings::{PUBLIC_URL, Settings};
use crate::sign::{Draft, SignError};
use crate::source::Source;

/// The proof that a request was made by a holder of one of the endpoint's secrets.
#[derive(Debug)]
pub(crate) struct Authentic {
    secret_index: usize,
    scheme_index: usize,
    signed_at: Option<i64>,
}

impl Authentic {
    /// Private to the schemes: whoever calls this has compared a signature.
    const fn proven(secret_index: usize, scheme_index: usize) -> Self {
        Self { secret_index, scheme_index, signed_at: None }
    }

    /// With the time at which the token was issued, for providers whose deliveries differ in nothing else.
    const fn issued(self, at: Option<i64>) -> Self {
        Self { signed_at: at, ..self }
    }

    /// Which of the endpoint's secrets fitted; 0 is the newest.
    pub(crate) const fn secret_index(&self) -> usize {
        self.secret_index
    }

    /// Which of the provider's schemes was used.
    pub(crate) const fn scheme_index(&self) -> usize {
        self.scheme_index
    }

    /// When the token was issued, in seconds since the Unix epoch, where the scheme knows.
    pub(crate) const fn signed_at(&self) -> Option<i64> {
        self.signed_at
    }
}

/// Everything a scheme may look at.
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) url: Cow<'a, str>,
    pub(crate) keyring: &'a Keyring,
    pub(crate) settings: &'a Settings,
    pub(crate) tolerance: Option<Millis>,
    pub(crate) now: EpochSec,
    pub(crate) scheme_index: usize,
}

impl Context<'_> {
    /// Tries every secret, newest first; the first that fits makes the proof.
    pub(crate) fn first_fitting(&self, mut fits: impl FnMut(&str) -> bool) -> Result<Authentic, Refusal> {
        let secrets = self.keyring.secrets().iter().enumerate();
        let index = secrets.filter(|(_, secret)| fits(secret)).map(|(index, _)| index).next();
        index.map(|index| Authentic::proven(index, self.scheme_index)).ok_or(Refusal::SignatureMismatch)
    }
}

impl Context<'_> {
    /// Tries the given certificates or keys; where there are none, the one that was fetched from `url`, or asks for it.
    pub(crate) fn with_fetched_key(&self, url: &str, fits: impl Fn(&str) -> bool) -> Result<Verdict, Refusal> {
        if !self.keyring.is_empty() {
            return self.first_fitting(fits).map(Verdict::Authentic);
        }
        let Some(material) = self.keyring.material_for(url) else {
            return Ok(Verdict::NeedsMaterial(MaterialNeeded::get(url.to_owned())));
        };
        let fitted = std::str::from_utf8(material).is_ok_and(fits);
        let proof = fitted.then(|| Authentic::proven(0, self.scheme_index));
        proof.map(Verdict::Authentic).ok_or(Refusal::SignatureMismatch)
    }
}

/// What a scheme found out, when it did not refuse.
pub(crate) enum Verdict {
    Authentic(Authentic),
    /// A certificate or key has to be fetched first.
    NeedsMaterial(MaterialNeeded),
}

/// A place that a scheme reads, for people who look for a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) what: &'static str,
    pub(crate) place: Place,
}

/// Where a scheme reads something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Header(String),
    /// Headers that start alike.
    Headers(String),
    /// Inside the body, at a path or field.
    Body(String),
}

impl Lookup {
    pub(crate) fn header(what: &'static str, name: &str) -> Self {
        Self { what, place: Place::Header(name.to_owned()) }
    }

    pub(crate) fn body(what: &'static str, path: &impl ToString) -> Self {
        Self { what, place: Place::Body(path.to_string()) }
    }
}

/// What every scheme can do.
pub(crate) trait SchemeKind {
    /// True when the request carries what this scheme reads, whether or not it is right.
    ///
    /// The first scheme that is addressed decides alone: a wrong strong signature is never excused by a weaker one.
    fn is_addressed_by(&self, request: &Request<'_>) -> bool;

    /// Checks the request against every secret, newest first.
    fn verify(&self, context: &Context<'_>) -> Result<Verdict, Refusal>;

    /// True when this scheme can use the secret.
    fn accepts_secret(&self, secret: &str) -> bool;

    /// Adds what the provider would add to a request.
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, now: EpochSec) -> Result<(), SignError>;

    /// What the scheme reads.
    fn lookups(&self) -> Vec<Lookup>;

    /// True when the scheme vouches for what a source reads.
    fn covers(&self, source: &Source) -> bool;

    /// The scheme in one line.
    fn summary(&self) -> String;

    /// A challenge under the secret, as the scheme encodes signatures.
    fn sign_challenge(&self, _challenge: &str, _secret: &str) -> Option<String> {
        None
    }

    /// True when a holder of the endpoint's secret can sign.
    fn is_shared_secret(&self) -> bool {
        true
    }

    /// True when keys are fetched from the provider.
    fn fetches_keys(&self) -> bool {
        false
    }

    /// When the request claims to have been signed, in milliseconds since the Unix epoch; for people, after the fact.
    fn claimed_time(&self, _context: &Context<'_>) -> Option<i64> {
        None
    }

    /// The tolerance for the age of a signature, where the scheme has one.
    fn tolerance(&self) -> Option<Millis> {
        None
    }
}

/// One way of a provider to prove itself. A provider with several lists the strongest first.
#[derive(Debug, Clone)]
pub(crate) enum Scheme {
    Signed(signed::SignedScheme),
    Token(token::TokenScheme),
    Jwt(jwt::JwtScheme),
    Twilio(twilio::TwilioScheme),
    Paypal(paypal::PaypalScheme),
    Adyen(adyen::AdyenScheme),
    Braintree(braintree::BraintreeScheme),
    Sns(sns::SnsScheme),
    Contentful(contentful::ContentfulScheme),
}

impl Scheme {
    pub(crate) fn kind(&self) -> &dyn SchemeKind {
        match self {
            Self::Signed(scheme) => scheme,
            Self::Token(scheme) => scheme,
            Self::Jwt(scheme) => scheme,
            Self::Twilio(scheme) => scheme,
            Self::Paypal(scheme) => scheme,
            Self::Adyen(scheme) => scheme,
            Self::Braintree(scheme) => scheme,
            Self::Sns(scheme) => scheme,
            Self::Contentful(scheme) => scheme,
        }
    }
}

/// The URL that was signed: the endpoint's public URL where one is configured, with the query of this request unless
/// the configured URL has its own.
pub(crate) fn public_url<'a>(request: &Request<'a>, settings: &Settings) -> Cow<'a, str> {
    match (settings.get(PUBLIC_URL), request.url.split_once('?')) {
        (None, _) => Cow::Borrowed(request.url),
        (Some(public), Some((_, query))) if !public.contains('?') => Cow::Owned(format!("{public}?{query}")),
        (Some(public), _) => Cow::Owned(public.to_owned()),
    }
}
