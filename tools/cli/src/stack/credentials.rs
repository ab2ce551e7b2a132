//! What AWS says of credentials that it does not take, and what to do then.

/// What to do when AWS does not take the credentials.
pub(crate) const SIGN_IN: &str =
    "sign in again (`aws sso login`, `aws login`), or set AWS_PROFILE to a profile that works";

/// Error codes of the services, in all of their protocols.
const REJECTIONS: [&str; 6] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// Whether an error code of a service is about the credentials and not about what they permit.
pub(crate) fn are_rejected(code: &str) -> bool {
    REJECTIONS.contains(&code)
}
