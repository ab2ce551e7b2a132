//! Braintree: a form with a base64 payload and an HMAC-SHA1 over it, keyed with the SHA-1 of the private key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;

use crate::limits::SIGNATURES_MAX;
use crate::refusal::Refusal;
use crate::request::{Request, form_fields};
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::Encoding;
use crate::scheme::hash::{Hash, is_among};
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::settings::PUBLIC_KEY;
use crate::source::Source;

const SIGNATURE: &str = "bt_signature";
const PAYLOAD: &str = "bt_payload";

/// The scheme has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BraintreeScheme;

fn mac(private_key: &str, message: &str) -> Option<Vec<u8>> {
    Hash::Sha1.hmac(&Hash::Sha1.of(&[private_key.as_bytes()]), &[message.as_bytes()])
}

/// The value of a form field that occurs once.
fn field<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Result<&'a str, Refusal> {
    let mut values = fields.iter().filter(|(key, _)| key == name.as_bytes()).map(|(_, value)| value);
    let value = values.next().ok_or(Refusal::SignatureMissing)?;
    if values.next().is_some() {
        return Err(Refusal::SignatureMalformed);
    }
    std::str::from_utf8(value).map_err(|_| Refusal::SignatureMalformed)
}

/// The signatures in a text like `public_key|hex&public_key|hex`; only those of the configured public key, if any.
fn signatures(text: &str, public_key: Option<&str>) -> Result<Vec<Vec<u8>>, Refusal> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('|'));
    let own = pairs.filter(|(key, _)| public_key.is_none_or(|public_key| *key == public_key));
    let signatures: Vec<Vec<u8>> =
        own.take(SIGNATURES_MAX).filter_map(|(_, signature)| Encoding::Hex.decode(signature)).collect();
    if signatures.is_empty() { Err(Refusal::SignatureMalformed) } else { Ok(signatures) }
}

/// True for a challenge of Braintree: 20 to 32 lower-case hexadecimal digits.
///
/// Anyone may ask, and the answer uses the key that signs deliveries. Base64 of XML never looks like this.
fn is_challenge(text: &str) -> bool {
    (20..=32).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// True for base64 of XML. A challenge is not, so its signed answer can never be sent back as a delivery.
fn is_xml(payload: &str) -> bool {
    let compact: String = payload.split_ascii_whitespace().collect();
    STANDARD.decode(compact).is_ok_and(|xml| xml.trim_ascii_start().starts_with(b"<"))
}

impl SchemeKind for BraintreeScheme {
    fn is_addressed_by(&self, _request: &Request<'_>) -> bool {
        true
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let fields = form_fields(context.request.body)?;
        let payload = field(&fields, PAYLOAD)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'=' | b'/' | b'\n');
        if payload.is_empty() || !payload.bytes().all(plain) {
            return Err(Refusal::SignatureMalformed);
        }
        let signatures = signatures(field(&fields, SIGNATURE)?, context.settings.get(PUBLIC_KEY))?;
        // Braintree signs the payload with its last line break, which a form parser may have removed.
        let fits = |secret: &str| {
            let key = Hash::Sha1.of(&[secret.as_bytes()]);
            let codes = Hash::Sha1.hmac_endings(&key, &[payload.as_bytes()], &[b"", b"\n"]);
            codes.iter().any(|code| is_among(code, &signatures))
        };
        let proof = context.first_fitting(fits)?;
        if is_xml(payload) { Ok(Verification::Authentic(proof)) } else { Err(Refusal::SignatureMalformed) }
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        SecretReading::shared(secret.as_bytes())
    }

    fn covers(&self, source: &Source) -> bool {
        match source {
            Source::HashOf(inner) => self.covers(inner),
            Source::Form(name) => name == PAYLOAD,
            Source::FormXml { field, .. } => field == PAYLOAD,
            _ => false,
        }
    }

    fn sign_challenge(&self, challenge: &str, secret: &str) -> Option<String> {
        mac(secret, challenge).filter(|_| is_challenge(challenge)).map(|code| Encoding::Hex.encode(&code))
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for BraintreeScheme {
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, _now: EpochSec) -> Result<(), SignError> {
        let public_key = draft.settings.get(PUBLIC_KEY).unwrap_or("public_key");
        let fields = form_fields(&draft.body).unwrap_or_default();
        let made = || format!("{}\n", STANDARD.encode(&draft.body));
        let payload = field(&fields, PAYLOAD).map_or_else(|_| made(), str::to_owned);
        let signature = mac(secret, &payload).ok_or(SignError::Secret)?;
        let escape = |text: &str| {
            text.replace('%', "%25")
                .replace('+', "%2B")
                .replace('/', "%2F")
                .replace('=', "%3D")
                .replace('\n', "%0A")
                .replace('&', "%26")
                .replace('|', "%7C")
        };
        let signature = format!("{public_key}|{}", Encoding::Hex.encode(&signature));
        draft.body = format!("{SIGNATURE}={}&{PAYLOAD}={}", escape(&signature), escape(&payload)).into_bytes();
        if draft.header("content-type").is_none() {
            draft.add("content-type", "application/x-www-form-urlencoded".to_owned());
        }
        Ok(())
    }

    fn lookups(&self) -> Vec<Lookup> {
        vec![Lookup::body("signature", &SIGNATURE), Lookup::body("payload", &PAYLOAD)]
    }

    fn summary(&self) -> String {
        format!(
            "HMAC-SHA1 over the form field `{PAYLOAD}`, keyed with the SHA-1 of the private key, hex in `{SIGNATURE}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_signatures_is_limited() {
        let text = vec!["key|00"; SIGNATURES_MAX + 1].join("&");
        assert_eq!(signatures(&text, None).unwrap().len(), SIGNATURES_MAX);
        assert_eq!(signatures(&text, Some("another")), Err(Refusal::SignatureMalformed));
    }

    #[test]
    fn a_challenge_is_never_a_payload() {
        for challenge in
            ["20f9f8ed05f77439fe955c977e4c8a53", "00000000000000000000", "ffffffffffffffffffffffffffffffff"]
        {
            assert!(is_challenge(challenge) && !is_xml(challenge), "{challenge}");
        }
        for text in ["PG5vdGlmaWNhdGlvbj48a2luZD4", "20f9f8ed05f77439fe9", "20F9F8ED05F77439FE955C977E4C8A53", ""] {
            assert!(!is_challenge(text), "{text}");
        }
        assert!(is_xml("PG5vdGlmaWNhdGlvbj4=\n"));
    }
}
