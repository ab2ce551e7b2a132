//! What every scheme can do to judge a request.

use crate::guessable::is_guessable;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::proof::{Context, Verification};
use crate::scheme::public_key::{Algorithm, PublicKey};
#[cfg(feature = "tools")]
use crate::scheme::tools::SchemeTools;
use crate::source::Source;

/// A function neither signs nor explains.
#[cfg(not(feature = "tools"))]
pub(crate) trait SchemeTools {}

#[cfg(not(feature = "tools"))]
impl<T> SchemeTools for T {}

/// What a scheme reads in the text of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretReading {
    /// Both sides hold these bytes, so a forger may guess them.
    Shared {
        /// How many bytes there are to guess.
        bytes: usize,
        /// Whether they are easily guessed, however many they are.
        is_guessable: bool,
    },
    /// A public key or certificate of the provider.
    Public,
    /// A public key with which one signature fits every message. Nothing is verified with it.
    SmallOrder,
}

impl SecretReading {
    /// The reading of a shared secret; `None` for an empty one.
    pub(crate) fn shared(secret: &[u8]) -> Option<Self> {
        (!secret.is_empty()).then(|| Self::Shared { bytes: secret.len(), is_guessable: is_guessable(secret) })
    }

    /// The reading of a public key or certificate that makes signatures of this kind; `None` for any other text.
    pub(crate) fn public(secret: &str, algorithm: Algorithm) -> Option<Self> {
        let key = PublicKey::parse(secret).filter(|key| key.makes(algorithm))?;
        Some(if key.is_of_small_order() { Self::SmallOrder } else { Self::Public })
    }
}

/// What every scheme can do.
pub(crate) trait SchemeKind: SchemeTools {
    /// True when the request has this scheme's signature or token, right or wrong.
    ///
    /// The first addressed scheme that the endpoint takes decides alone: a weaker signature never makes up for a wrong
    /// stronger one.
    fn is_addressed_by(&self, request: &Request<'_>) -> bool;

    /// Checks the request against every secret, newest first.
    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal>;

    /// What this scheme reads in the text of a secret; `None` if it cannot use the text.
    fn read_secret(&self, secret: &str) -> Option<SecretReading>;

    /// True when this scheme can use the secret.
    fn accepts_secret(&self, secret: &str) -> bool {
        self.read_secret(secret).is_some()
    }

    /// True when the scheme's signature covers what a source reads.
    fn covers(&self, source: &Source) -> bool;

    /// True when the scheme does not cover the body and signs a value that stands for the delivery. Its proof names
    /// that value, and the delivery is claimed under it, so that the first body that comes with it is the only one.
    fn binds_bodies(&self) -> bool {
        false
    }

    /// True when a retry has the same such value, so that it is the id of the event, too.
    fn signs_retries_alike(&self) -> bool {
        false
    }

    /// A challenge signed with the secret, in the scheme's encoding.
    fn sign_challenge(&self, _challenge: &str, _secret: &str) -> Option<String> {
        None
    }

    /// True when keys are fetched from the provider.
    fn fetches_keys(&self) -> bool {
        false
    }
}
