//! What every scheme can do to judge a request.

use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::proof::{Context, Verification};
use crate::source::Source;

/// What every scheme can do.
pub(crate) trait SchemeKind {
    /// True when the request has this scheme's signature or token, right or wrong.
    ///
    /// The first addressed scheme decides alone: a weaker signature never makes up for a wrong stronger one.
    fn is_addressed_by(&self, request: &Request<'_>) -> bool;

    /// Checks the request against every secret, newest first.
    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal>;

    /// True when this scheme can use the secret.
    fn accepts_secret(&self, secret: &str) -> bool;

    /// True when the scheme's signature covers what a source reads.
    fn covers(&self, source: &Source) -> bool;

    /// A challenge signed with the secret, in the scheme's encoding.
    fn sign_challenge(&self, _challenge: &str, _secret: &str) -> Option<String> {
        None
    }

    /// True when keys are fetched from the provider.
    fn fetches_keys(&self) -> bool {
        false
    }
}
