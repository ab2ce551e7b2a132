//! What every scheme can do.

use hookonce_protocol::time::{EpochSec, Millis};

use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::proof::{Context, Verification};
use crate::source::Source;

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
    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal>;

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
