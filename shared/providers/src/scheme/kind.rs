//! What every scheme can do to judge a request.

use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::proof::{Context, Verification};
use crate::source::Source;

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

    /// True when the scheme vouches for what a source reads.
    fn covers(&self, source: &Source) -> bool;

    /// A challenge under the secret, as the scheme encodes signatures.
    fn sign_challenge(&self, _challenge: &str, _secret: &str) -> Option<String> {
        None
    }

    /// True when keys are fetched from the provider.
    fn fetches_keys(&self) -> bool {
        false
    }
}
