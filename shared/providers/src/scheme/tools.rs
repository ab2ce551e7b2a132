//! What tools need from a scheme: to sign as the provider does, and to show what it reads.

use hookonce_protocol::time::{EpochSec, Millis};

use crate::scheme::draft::{Draft, SignError};
use crate::scheme::proof::Context;

/// What a scheme reads where the request holds the secret itself.
pub(crate) const CREDENTIAL: &str = "credential";

/// A place that a scheme reads, shown to people who look for a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) what: &'static str,
    pub(crate) place: SignatureLocation,
}

/// Where a scheme reads something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignatureLocation {
    Header(String),
    /// Headers with the same prefix.
    Headers(String),
    /// The header that this setting of the endpoint names.
    Setting(&'static str),
    /// Inside the body, at a path or field.
    Body(String),
}

impl Lookup {
    pub(crate) fn header(what: &'static str, name: &str) -> Self {
        Self { what, place: SignatureLocation::Header(name.to_owned()) }
    }

    pub(crate) fn body(what: &'static str, path: &impl ToString) -> Self {
        Self { what, place: SignatureLocation::Body(path.to_string()) }
    }
}

/// What every scheme offers to a sender and to people.
pub(crate) trait SchemeTools {
    /// Adds what the provider would add to a request.
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, now: EpochSec) -> Result<(), SignError>;

    /// What the scheme reads.
    fn lookups(&self) -> Vec<Lookup>;

    /// The scheme in one line.
    fn summary(&self) -> String;

    /// True when the time of sending is signed.
    fn covers_time(&self) -> bool {
        false
    }

    /// True when the sender itself signs until when a request is valid, and that is checked.
    fn sender_limits_age(&self) -> bool {
        false
    }

    /// True when the URL is signed.
    fn covers_url(&self) -> bool {
        false
    }

    /// True when a holder of the endpoint's secret can sign.
    fn is_shared_secret(&self) -> bool {
        true
    }

    /// The claimed time of signing, in milliseconds since the Unix epoch, to explain a refusal.
    fn claimed_time(&self, _context: &Context<'_>) -> Option<i64> {
        None
    }

    /// The tolerance for the age of a signature, if the scheme has one.
    fn tolerance(&self) -> Option<Millis> {
        None
    }
}
