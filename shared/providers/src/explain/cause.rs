//! Likely causes of a refusal, each with a code and a sentence that says what to do.

use serde::{Serialize, Serializer};

use crate::keyring::KeyringError;

/// A likely cause of a refusal. Never holds a secret or a signature.
/// It prints as a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The endpoint has no secret.
    #[error("The endpoint has no secret; add the one that the provider shows.")]
    NoSecret,
    /// The endpoint has more secrets than are tried.
    #[error("The endpoint holds more secrets than are tried; remove old ones.")]
    TooManySecrets,
    /// A secret does not have the form that the provider hands out.
    #[error("Secret {index} does not have the form that the provider hands out; copy it again, whole and unchanged.")]
    SecretUnusable {
        /// Which secret; 0 is the newest.
        index: usize,
    },
    /// The signature fits without the space or line break around a secret.
    #[error("Secret {index} has a space or line break around it; without it the signature fits. Store it without.")]
    SecretHasSpace {
        /// Which secret; 0 is the newest.
        index: usize,
    },
    /// The signature fits without the quotation marks around a secret.
    #[error("Secret {index} has quotation marks around it; without them the signature fits.")]
    SecretHasQuotes {
        /// Which secret; 0 is the newest.
        index: usize,
    },
    /// The signature fits when the secret is read in another form.
    #[error(
        "The signature fits when secret {index} is read as {read_as}, but this provider's secrets are {expected}. The \
         sender uses the secret in another way, or it is another provider's endpoint."
    )]
    SecretForm {
        /// Which secret; 0 is the newest.
        index: usize,
        /// The form under which it fits.
        read_as: &'static str,
        /// The form that the provider is known to use.
        expected: &'static str,
    },
    /// The signature fits another writing of the body.
    #[error("The signature fits another writing of this body: {how}. Pass on the bytes as they were received.")]
    BodyChanged {
        /// What happened to it on the way.
        how: &'static str,
    },
    /// The signature fits another URL.
    #[error("The signature fits the URL {url}. Set the endpoint's `public_url` to the URL that the provider calls.")]
    OtherUrl {
        /// That URL, without its query.
        url: String,
    },
    /// Nothing small explains the mismatch.
    #[error(
        "No secret fits. Most likely the provider uses another secret (test and live mode, another endpoint, or it was \
         changed), else the body is not what was sent."
    )]
    OtherSecretOrBody,
    /// No signature is there.
    #[error(
        "None of the provider's signatures is there. Either the provider is set up without a secret, or something on \
         the way drops its headers, or somebody else sent this."
    )]
    SignatureMissing,
    /// The request looks like another provider's.
    #[error("The request carries the signature header of `{provider}`; is the endpoint's provider right?")]
    OtherProvider {
        /// That provider's id.
        provider: String,
    },
    /// The signature is not written as the provider writes it.
    #[error("The signature is not written as this provider writes it: cut off, or of another kind.")]
    SignatureMalformed,
    /// No timestamp is there.
    #[error("The timestamp that belongs to the signature is missing.")]
    TimestampMissing,
    /// The timestamp is not written as the provider writes it.
    #[error("The timestamp is not written as this provider writes it.")]
    TimestampMalformed,
    /// The signature is right and too old, or of the future.
    #[error("The signature fits but {}", skew(*age_seconds, *tolerance_seconds))]
    Skew {
        /// How old the signature is; negative when it is of the future.
        age_seconds: i64,
        /// How far from now it may be.
        tolerance_seconds: i64,
    },
    /// A header that may come once came twice.
    #[error("A header that may come once came twice, or joined by a comma. A proxy may have added its own.")]
    DuplicateHeader,
    /// A header is too long or not text.
    #[error("A header that is read is too long or not printable text.")]
    HeaderMalformed,
    /// The request is authentic and has no dedup key where one is expected.
    #[error("The request is authentic, but no dedup key is where one is expected: {}.", looked_for.join(", or "))]
    KeyUnreadable {
        /// Where it was looked for.
        looked_for: Vec<String>,
    },
    /// A question lacks a part.
    #[error("This is no question that the provider asks, or a part is missing.")]
    IncompleteHandshake,
    /// The provider does not send this method.
    #[error("The provider does not send this HTTP method.")]
    Method,
    /// The endpoint lacks a setting.
    #[error("The endpoint needs the setting `{name}`.")]
    SettingMissing {
        /// The setting's name.
        name: String,
    },
    /// The provider's key has to be fetched before anything can be said.
    #[error("The provider's key or certificate has to be fetched from {url}; give it as the secret.")]
    KeyToFetch {
        /// Where from.
        url: String,
    },
}

impl From<KeyringError> for Cause {
    fn from(error: KeyringError) -> Self {
        match error {
            KeyringError::Empty => Self::NoSecret,
            KeyringError::TooMany => Self::TooManySecrets,
            KeyringError::Unusable { index } => Self::SecretUnusable { index },
        }
    }
}

impl Cause {
    /// A stable code for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSecret => "no_secret",
            Self::TooManySecrets => "too_many_secrets",
            Self::SecretUnusable { .. } => "secret_unusable",
            Self::SecretHasSpace { .. } => "secret_has_space",
            Self::SecretHasQuotes { .. } => "secret_has_quotes",
            Self::SecretForm { .. } => "secret_form",
            Self::BodyChanged { .. } => "body_changed",
            Self::OtherUrl { .. } => "other_url",
            Self::OtherSecretOrBody => "other_secret_or_body",
            Self::SignatureMissing => "signature_missing",
            Self::OtherProvider { .. } => "other_provider",
            Self::SignatureMalformed => "signature_malformed",
            Self::TimestampMissing => "timestamp_missing",
            Self::TimestampMalformed => "timestamp_malformed",
            Self::Skew { .. } => "skew",
            Self::DuplicateHeader => "duplicate_header",
            Self::HeaderMalformed => "header_malformed",
            Self::KeyUnreadable { .. } => "key_unreadable",
            Self::IncompleteHandshake => "incomplete_handshake",
            Self::Method => "method",
            Self::SettingMissing { .. } => "setting_missing",
            Self::KeyToFetch { .. } => "key_to_fetch",
        }
    }
}

/// Which way a signature's age is off, and what that means.
fn skew(age_seconds: i64, tolerance_seconds: i64) -> String {
    let seconds = age_seconds.unsigned_abs();
    if age_seconds < 0 {
        format!(
            "was made {seconds} s in the future, and {tolerance_seconds} s are allowed. Check this machine's clock."
        )
    } else {
        format!(
            "is {seconds} s old, and {tolerance_seconds} s are allowed. It is a replay, a captured request, or this \
             machine's clock is wrong."
        )
    }
}

/// A cause prints as its code and its sentence.
impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Printed<'a> {
            code: &'a str,
            sentence: String,
        }
        Printed { code: self.code(), sentence: self.to_string() }.serialize(serializer)
    }
}
