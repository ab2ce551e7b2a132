//! Strict decoding of bytes from text: each sequence of bytes has exactly one text.
//!
//! Upper-case hex, missing padding and stray bits are refused, so that no second text of a valid signature is valid.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;

/// The encoding of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    /// Lower-case hexadecimal.
    Hex,
    /// The standard alphabet with padding.
    Base64,
    /// The URL-safe alphabet without padding.
    Base64url,
}

impl Encoding {
    #[cfg(feature = "tools")]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Base64 => "base64",
            Self::Base64url => "base64url",
        }
    }

    pub(crate) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => hex::encode(bytes),
            Self::Base64 => STANDARD.encode(bytes),
            Self::Base64url => URL_SAFE_NO_PAD.encode(bytes),
        }
    }

    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex if text.bytes().any(|byte| byte.is_ascii_uppercase()) => None,
            Self::Hex => hex::decode(text).ok(),
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Base64url => URL_SAFE_NO_PAD.decode(text).ok(),
        }
        .filter(|bytes| !bytes.is_empty())
    }
}

/// The form of a provider's secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SecretForm {
    /// The bytes of the text itself.
    Text,
    /// Base64, decoded before use; padding optional.
    Base64,
    /// Hexadecimal in either case, decoded before use.
    Hex,
}

/// Base64 of secrets, with optional padding, because people lose it when they copy.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl SecretForm {
    #[cfg(feature = "tools")]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "literal text",
            Self::Base64 => "base64",
            Self::Hex => "hexadecimal",
        }
    }

    pub(crate) fn decode(self, secret: &str) -> Option<Vec<u8>> {
        match self {
            Self::Text => Some(secret.as_bytes().to_vec()),
            Self::Base64 => LENIENT.decode(secret).ok(),
            Self::Hex => hex::decode(secret).ok(),
        }
        .filter(|bytes| !bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_text() {
        assert_eq!(Encoding::Hex.decode("0aff"), Some(vec![0x0a, 0xff]));
        for (encoding, text) in [
            (Encoding::Hex, "0AFF"),
            (Encoding::Hex, "0af"),
            (Encoding::Hex, ""),
            (Encoding::Base64, "Cv8"),
            (Encoding::Base64, "Cv9="),
            (Encoding::Base64, "Cv8=\n"),
            (Encoding::Base64, ""),
            (Encoding::Base64url, "Cv8="),
            (Encoding::Base64url, "Cv9"),
        ] {
            assert_eq!(encoding.decode(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_secret_is_decoded_as_its_provider_hands_it_out() {
        assert_eq!(SecretForm::Text.decode("whsec_Cv8="), Some(b"whsec_Cv8=".to_vec()));
        assert_eq!(SecretForm::Base64.decode("Cv8"), SecretForm::Base64.decode("Cv8="));
        assert_eq!(SecretForm::Hex.decode("0AfF"), Some(vec![0x0a, 0xff]));
        assert_eq!(SecretForm::Hex.decode("xyz"), None);
        assert_eq!(SecretForm::Text.decode(""), None);
    }
}
