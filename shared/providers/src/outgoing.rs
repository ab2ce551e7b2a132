//! Signatures of what is sent out, by the Standard Webhooks specification. Its receivers verify them with its
//! libraries.

use std::fmt;

use hookonce_protocol::time::EpochSec;

use crate::scheme::encoding::Encoding;
use crate::scheme::hash::Hash;

/// How long a secret may be, in bytes: the specification's bounds.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that a receiver shares.
#[derive(Clone, PartialEq, Eq)]
pub struct StandardSecret(Vec<u8>);

impl StandardSecret {
    /// Parses `whsec_` and base64. `None` if it is anything else, or has not 24 to 64 bytes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Encoding::Base64.decode(text.strip_prefix("whsec_")?)?;
        SECRET_BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    /// The value of `webhook-signature` for a message with this `webhook-id` and `webhook-timestamp`.
    pub fn sign(&self, id: &str, timestamp: EpochSec, body: &[u8]) -> String {
        let head = format!("{id}.{}.", timestamp.0);
        // Any key fits an HMAC.
        let code = Hash::Sha256.hmac(&self.0, &[head.as_bytes(), body]).unwrap_or_default();
        format!("v1,{}", Encoding::Base64.encode(&code))
    }
}

impl fmt::Debug for StandardSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StandardSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_the_form_of_the_specification() {
        for text in ["", "whsec_", "whsec_!", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_c2hvcnQ="] {
            assert_eq!(StandardSecret::parse(text), None, "{text}");
        }
        assert_eq!(
            format!("{:?}", StandardSecret::parse("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")),
            "Some(StandardSecret)"
        );
    }
}
