//! Likely causes of a refusal. Each has a code, and a sentence that says what to do.

use serde::{Serialize, Serializer};

use crate::configuration::ConfigurationError;
use crate::event::Fallback;
use crate::keyring::KeyringError;
use crate::limits::{EVENTS_MAX, EXPANDED_BYTES_MAX};

/// A likely cause of a refusal. It never holds a secret or a signature.
/// It prints as a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The endpoint has no secret.
    #[error("The endpoint has no secret. Add the secret that the provider shows.")]
    NoSecret,
    /// The endpoint has too many secrets.
    #[error("The endpoint has too many secrets. Remove old ones.")]
    TooManySecrets,
    /// A secret does not have the provider's form.
    #[error("Secret {index} does not have this provider's form. Copy it again, complete and unchanged.")]
    SecretUnusable {
        /// Which secret; 0 is the newest.
        index: usize,
    },
    /// The endpoint's document is not valid.
    #[error("The endpoint's configuration is not valid: {problem}.")]
    Configuration {
        /// What is wrong with it, and in which field.
        problem: String,
    },
    /// The signature matches without the space or line break around a secret.
    #[error("Secret {index} has a space or line break around it. The signature matches without it; store it without.")]
    SecretHasSpace {
        /// Which secret; 0 is the newest.
        index: usize,
    },
    /// The signature matches without the quotation marks around a secret.
    #[error("Secret {index} has quotation marks around it. The signature matches without them; store it without.")]
    SecretHasQuotes {
        /// Which secret; 0 is the newest.
        index: usize,
    },
    /// The signature matches when the secret is read in another form.
    #[error(
        "The signature matches when secret {index} is read as {read_as}, but this provider's secrets are {expected}. \
         Either the sender uses the secret in another way, or the endpoint has the wrong provider."
    )]
    SecretForm {
        /// Which secret; 0 is the newest.
        index: usize,
        /// The form with which the signature matches.
        read_as: &'static str,
        /// The form that the provider uses.
        expected: &'static str,
    },
    /// The signature matches a reformatted copy of the body.
    #[error(
        "The signature matches a reformatted copy of this body: {how}. Pass on the exact bytes that were received."
    )]
    BodyChanged {
        /// How the body was changed on the way.
        how: &'static str,
    },
    /// The signature matches another URL.
    #[error("The signature matches the URL {url}. Set the endpoint's `public_url` to the URL that the provider calls.")]
    OtherUrl {
        /// That URL, without its query.
        url: String,
    },
    /// No small change explains the mismatch.
    #[error(
        "No secret matches. Most likely the provider uses another secret (of test or live mode, of another endpoint, or \
         a new one). Otherwise the body is not the one that was sent."
    )]
    OtherSecretOrBody,
    /// The request has no signature.
    #[error(
        "The request has no signature of this provider. Either the provider is set up without a secret, or a proxy \
         removes its headers, or another sender made the request."
    )]
    SignatureMissing,
    /// The request has another provider's signature header.
    #[error("The request has the signature header of `{provider}`. Check the endpoint's provider.")]
    OtherProvider {
        /// That provider's id.
        provider: String,
    },
    /// The signature does not have the provider's form.
    #[error("The signature does not have this provider's form. It is cut off, or of another kind.")]
    SignatureMalformed,
    /// The endpoint does not take the scheme.
    #[error(
        "The request has only a signature of a scheme that the endpoint does not take. If the provider sends no other one, \
         list the scheme in `schemes`."
    )]
    SchemeNotTaken,
    /// The request has no timestamp.
    #[error("The timestamp of the signature is missing.")]
    TimestampMissing,
    /// The timestamp does not have the provider's form.
    #[error("The timestamp does not have this provider's form.")]
    TimestampMalformed,
    /// The signature matches, but is too old or in the future.
    #[error("The signature matches, but {}", skew(*age_seconds, *tolerance_seconds))]
    Skew {
        /// The age of the signature; negative when it is in the future.
        age_seconds: i64,
        /// How far from now it may be.
        tolerance_seconds: i64,
    },
    /// The signature does not match, and its time would be refused, too.
    #[error("{}", skew_too(*age_seconds, *tolerance_seconds))]
    SkewToo {
        /// The age of the signature; negative when it is in the future.
        age_seconds: i64,
        /// How far from now it may be.
        tolerance_seconds: i64,
    },
    /// A header that is allowed once came twice.
    #[error("A header that is allowed once came twice, or as two values with a comma. A proxy may have added one.")]
    DuplicateHeader,
    /// A header is too long or not printable text.
    #[error("A header that the check needs is too long or not printable text.")]
    HeaderMalformed,
    /// The delivery is accepted, but lacks something.
    #[error("{}", fallback_sentence(*fallback, looked_for))]
    Fallback {
        /// What it lacks.
        fallback: Fallback,
        /// The places of an event's id.
        looked_for: Vec<String>,
    },
    /// A handshake lacks a part.
    #[error("This is not a handshake of this provider, or a part of it is missing.")]
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
    /// The provider's key has to be fetched before the request can be checked.
    #[error("The check needs the provider's key or certificate. Fetch it from {url} and pass it as the secret.")]
    KeyToFetch {
        /// Where to fetch it.
        url: String,
    },
}

impl From<ConfigurationError> for Cause {
    fn from(error: ConfigurationError) -> Self {
        match error {
            ConfigurationError::Keyring(error) => error.into(),
            ConfigurationError::SettingMissing { name } => Self::SettingMissing { name },
            ConfigurationError::SecretHasSpace { .. }
            | ConfigurationError::SecretTooShort { .. }
            | ConfigurationError::SecretGuessable { .. }
            | ConfigurationError::KeyOfSmallOrder { .. }
            | ConfigurationError::SettingUnknown { .. }
            | ConfigurationError::SchemeUnknown { .. }
            | ConfigurationError::HeaderUnfit
            | ConfigurationError::SettingMalformed { .. } => Self::Configuration { problem: error.to_string() },
        }
    }
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
            Self::Configuration { .. } => "configuration",
            Self::SecretHasSpace { .. } => "secret_has_space",
            Self::SecretHasQuotes { .. } => "secret_has_quotes",
            Self::SecretForm { .. } => "secret_form",
            Self::BodyChanged { .. } => "body_changed",
            Self::OtherUrl { .. } => "other_url",
            Self::OtherSecretOrBody => "other_secret_or_body",
            Self::SignatureMissing => "signature_missing",
            Self::OtherProvider { .. } => "other_provider",
            Self::SignatureMalformed => "signature_malformed",
            Self::SchemeNotTaken => "scheme_not_taken",
            Self::TimestampMissing => "timestamp_missing",
            Self::TimestampMalformed => "timestamp_malformed",
            Self::Skew { .. } => "skew",
            Self::SkewToo { .. } => "skew_too",
            Self::DuplicateHeader => "duplicate_header",
            Self::HeaderMalformed => "header_malformed",
            Self::Fallback { fallback, .. } => fallback.code(),
            Self::IncompleteHandshake => "incomplete_handshake",
            Self::Method => "method",
            Self::SettingMissing { .. } => "setting_missing",
            Self::KeyToFetch { .. } => "key_to_fetch",
        }
    }
}

/// What an accepted delivery lacks, and how it is kept.
fn fallback_sentence(fallback: Fallback, looked_for: &[String]) -> String {
    match fallback {
        Fallback::IdMissing => {
            format!("An event has no id at {}. It is kept under a hash of its content.", looked_for.join(", or "))
        }
        Fallback::IdTooLong => "The id of an event is too long. The event is kept under the id's hash.".to_owned(),
        Fallback::BodyUnreadable => {
            "The body cannot be read. It is kept as an event of type `unreadable`, which no handler takes by default."
                .to_owned()
        }
        Fallback::PartUnreadable => {
            "A part of the delivery cannot be read: an object in it has one name twice, or a name \
                                     that is no text. It is kept as one event."
                .to_owned()
        }
        Fallback::EventsMissing => {
            "A part of the delivery holds no event where the provider puts them. It is kept as one \
                                    event. The provider may have changed its form."
                .to_owned()
        }
        Fallback::TooManyEvents => {
            format!(
                "The delivery holds more than {EVENTS_MAX} events. It is kept whole, as an event of type `unreadable`."
            )
        }
        Fallback::TooLarge => format!(
            "The events of the delivery take more than {EXPANDED_BYTES_MAX} bytes. It is kept whole, as an event of type \
             `unreadable`."
        ),
    }
}

/// Whether a signature is too old or in the future, and what that means.
fn skew(age_seconds: i64, tolerance_seconds: i64) -> String {
    let age = length(age_seconds.unsigned_abs(), tolerance_seconds);
    if age_seconds < 0 {
        format!("it was made {age} in the future, and {tolerance_seconds} s are allowed. Check this machine's clock.")
    } else {
        format!(
            "it is {age} old, and {tolerance_seconds} s are allowed. It is a replay or a captured request, or \
             this machine's clock is wrong."
        )
    }
}

/// The same of a signature that does not match either.
fn skew_too(age_seconds: i64, tolerance_seconds: i64) -> String {
    let age = length(age_seconds.unsigned_abs(), tolerance_seconds);
    let when = if age_seconds < 0 { "in the future" } else { "ago" };
    format!(
        "Its timestamp is {age} {when}, and {tolerance_seconds} s are allowed: with a signature that matches, the \
         request would be refused for that."
    )
}

/// A length of time as people say it. One that is near what is allowed is in seconds, as that is, so that both can be compared.
fn length(seconds: u64, allowed_seconds: i64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let is_far = seconds >= allowed_seconds.unsigned_abs().saturating_mul(20);
    let unit = UNITS.into_iter().find(|(unit, _)| is_far && seconds >= unit.saturating_mul(20));
    unit.map_or_else(|| format!("{seconds} s"), |(unit, name)| format!("{} {name}", seconds / unit))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_can_be_compared_with_what_is_allowed_unless_it_is_far_from_it() {
        for (age, allowed, expected) in [
            (400, 300, "it is 400 s old, and 300 s"),
            (91_000, 90_000, "it is 91000 s old, and 90000 s"),
            (7_200, 300, "it is 120 minutes old, and 300 s"),
            (1_795_990_220, 300, "it is 20786 days old, and 300 s"),
        ] {
            assert!(skew(age, allowed).starts_with(expected), "{}", skew(age, allowed));
        }
    }
}
