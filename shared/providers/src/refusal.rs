//! Why a request was refused, in words that do not help a forger.

/// A refusal. Each variant has one fixed code and one fixed sentence, without any byte of the request or of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The request has none of the provider's signatures.
    #[error("the request has no signature")]
    SignatureMissing,
    /// The signature cannot be read.
    #[error("the signature cannot be read")]
    SignatureMalformed,
    /// No signature matches any current secret.
    #[error("the signature does not match")]
    SignatureMismatch,
    /// The request has a signature of the provider, but none of a scheme that the endpoint takes.
    #[error("the endpoint does not take this scheme")]
    SchemeNotTaken,
    /// The scheme needs a timestamp and the request has none.
    #[error("the request has no timestamp")]
    TimestampMissing,
    /// The timestamp cannot be read.
    #[error("the timestamp cannot be read")]
    TimestampMalformed,
    /// The signature matches, but it was made too long ago or in the future.
    #[error("the timestamp is outside the tolerance")]
    TimestampOutOfRange,
    /// A header that the check needs came twice, or a gateway joined two into one.
    #[error("a header that is allowed once came twice")]
    DuplicateHeader,
    /// A header that the check needs is too long or not text.
    #[error("a header cannot be read")]
    HeaderMalformed,
    /// A handshake is incomplete.
    #[error("the request cannot be read")]
    Malformed,
    /// The provider does not send this method.
    #[error("the method is not allowed")]
    MethodNotAllowed,
    /// The endpoint lacks a setting that the provider's scheme needs. The delivery may be genuine, so the answer asks
    /// the provider to retry.
    #[error("the endpoint is not fully configured")]
    NotConfigured,
}

impl Refusal {
    /// Every refusal, for tables and tests.
    pub const ALL: [Self; 12] = [
        Self::SignatureMissing,
        Self::SignatureMalformed,
        Self::SignatureMismatch,
        Self::SchemeNotTaken,
        Self::TimestampMissing,
        Self::TimestampMalformed,
        Self::TimestampOutOfRange,
        Self::DuplicateHeader,
        Self::HeaderMalformed,
        Self::Malformed,
        Self::MethodNotAllowed,
        Self::NotConfigured,
    ];

    /// The code of the HTTP answer, stable for clients and alarms.
    pub const fn code(self) -> &'static str {
        match self {
            Self::SignatureMissing => "signature_missing",
            Self::SignatureMalformed => "signature_malformed",
            Self::SignatureMismatch => "signature_mismatch",
            Self::SchemeNotTaken => "scheme_not_taken",
            Self::TimestampMissing => "timestamp_missing",
            Self::TimestampMalformed => "timestamp_malformed",
            Self::TimestampOutOfRange => "timestamp_out_of_range",
            Self::DuplicateHeader => "duplicate_header",
            Self::HeaderMalformed => "header_malformed",
            Self::Malformed => "malformed",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::NotConfigured => "not_configured",
        }
    }

    /// The HTTP status: 401 for every failed check of authenticity, never a 2xx and never 410.
    pub const fn status(self) -> u16 {
        match self {
            Self::SignatureMissing
            | Self::SignatureMalformed
            | Self::SignatureMismatch
            | Self::SchemeNotTaken
            | Self::TimestampMissing
            | Self::TimestampMalformed
            | Self::TimestampOutOfRange
            | Self::DuplicateHeader
            | Self::HeaderMalformed => 401,
            Self::Malformed => 400,
            Self::MethodNotAllowed => 405,
            Self::NotConfigured => 503,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_never_success_or_gone() {
        let codes: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(|refusal| refusal.code()).collect();
        assert_eq!(codes.len(), Refusal::ALL.len());
        assert!(Refusal::ALL.iter().all(|refusal| refusal.status() >= 400 && refusal.status() != 410));
    }
}
