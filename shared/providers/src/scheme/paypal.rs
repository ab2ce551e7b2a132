//! PayPal REST webhooks: RSA over ids, time and a checksum of the body, with a certificate that PayPal hosts.
//!
//! The checksum is CRC-32, so the signature does not cover the body: someone who holds one signed delivery can make
//! another body with the same checksum. So the first body of a transmission is the only one, and a transmission ages.

#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use hookonce_protocol::time::Millis;

use crate::refusal::Refusal;
use crate::request::Request;
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::Encoding;
use crate::scheme::hash::crc32;
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
use crate::scheme::public_key::{Algorithm, PublicKey};
use crate::scheme::timestamp::{TimestampUnit, check_skew};
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::settings::{ENVIRONMENT, PRODUCTION, SANDBOX, Settings, WEBHOOK_ID};
use crate::source::Source;

const SIGNATURE: &str = "paypal-transmission-sig";
const ID: &str = "paypal-transmission-id";
const TIME: &str = "paypal-transmission-time";
const ALGORITHM: &str = "paypal-auth-algo";
const CERTIFICATE: &str = "paypal-cert-url";

/// Where PayPal keeps its certificates. With any other URL, anyone could use their own certificate.
const LIVE_CERTIFICATES: &str = "https://api.paypal.com/v1/notifications/certs/";
/// The same for tests, where anyone may make payments of any amount.
const SANDBOX_CERTIFICATES: &str = "https://api.sandbox.paypal.com/v1/notifications/certs/";

/// How old a transmission may be. `PayPal` retries for three days.
const AGE_MAX: Millis = Millis::seconds(73 * 3_600);

/// The scheme has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaypalScheme;

fn header<'a>(context: &Context<'a>, name: &str) -> Result<&'a str, Refusal> {
    context.request.plain_header(name)?.filter(|value| !value.is_empty()).ok_or(Refusal::SignatureMissing)
}

/// The folder with the certificates of the endpoint's environment.
fn certificate_folder(settings: &Settings) -> Result<&'static str, Refusal> {
    match settings.get(ENVIRONMENT) {
        None | Some(PRODUCTION) => Ok(LIVE_CERTIFICATES),
        Some(SANDBOX) => Ok(SANDBOX_CERTIFICATES),
        Some(_) => Err(Refusal::NotConfigured),
    }
}

/// The certificate's address, if it is in this folder.
fn certificate_url<'a>(folder: &str, text: &'a str) -> Option<&'a str> {
    let name = text.strip_prefix(folder)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(text)
}

impl SchemeKind for PaypalScheme {
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        request.has_header(SIGNATURE)
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let webhook_id = context.settings.get(WEBHOOK_ID).ok_or(Refusal::NotConfigured)?;
        let signature = Encoding::Base64.decode(header(context, SIGNATURE)?).ok_or(Refusal::SignatureMalformed)?;
        let (id, time) = (header(context, ID)?, header(context, TIME)?);
        let algorithm = header(context, ALGORITHM)?;
        let folder = certificate_folder(context.settings)?;
        let url = certificate_url(folder, header(context, CERTIFICATE)?).ok_or(Refusal::SignatureMalformed)?;
        if algorithm != "SHA256withRSA" {
            return Err(Refusal::SignatureMalformed);
        }
        let message = format!("{id}|{time}|{webhook_id}|{}", crc32(context.request.body));
        let fits = |key: &str| {
            let key = PublicKey::parse(key);
            key.is_some_and(|key| key.fits(Algorithm::RsaSha256, message.as_bytes(), &signature))
        };
        match context.with_fetched_key(url, fits)? {
            Verification::Authentic(proof) => {
                check_skew(TimestampUnit::Rfc3339.parse(time)?, context.now, context.tolerance.unwrap_or(AGE_MAX))?;
                Ok(Verification::Authentic(proof.bound_to(id.to_owned())))
            }
            needed @ Verification::NeedsMaterial(_) => Ok(needed),
        }
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        SecretReading::public(secret, Algorithm::RsaSha256)
    }

    fn covers(&self, _source: &Source) -> bool {
        // Whoever may choose four bytes of a body chooses its CRC-32.
        false
    }

    fn binds_bodies(&self) -> bool {
        true
    }

    fn fetches_keys(&self) -> bool {
        true
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for PaypalScheme {
    fn sign(&self, _draft: &mut Draft<'_>, _secret: &str, _now: EpochSec) -> Result<(), SignError> {
        Err(SignError::NotSharedSecret)
    }

    fn covers_time(&self) -> bool {
        true
    }

    fn lookups(&self) -> Vec<Lookup> {
        vec![
            Lookup::header("signature", SIGNATURE),
            Lookup::header("id", ID),
            Lookup::header("timestamp", TIME),
            Lookup::header("algorithm", ALGORITHM),
            Lookup::header("certificate", CERTIFICATE),
        ]
    }

    fn summary(&self) -> String {
        format!("RSA with SHA-256 over id, time, webhook id and the CRC-32 of the body, base64 in `{SIGNATURE}`")
    }

    fn is_shared_secret(&self) -> bool {
        false
    }

    fn claimed_time(&self, context: &Context<'_>) -> Option<i64> {
        TimestampUnit::Rfc3339.parse(header(context, TIME).ok()?).ok()
    }

    fn tolerance(&self) -> Option<Millis> {
        Some(AGE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paypal_hosts_certificates() {
        let is_certificate = |url: &str| certificate_url(LIVE_CERTIFICATES, url).is_some();
        for name in ["CERT-360caa42-fca2a594-7a8abba8", "CERT_1"] {
            assert!(is_certificate(&format!("{LIVE_CERTIFICATES}{name}")), "{name}");
        }
        // Whatever could leave the folder or ask for something else.
        for stranger in
            ["..", ".", "a.b", "a/b", "/", "a\\b", "%2e%2e", "a#b", "a?b", "a;b", "a:b", "a@b", "a b", "a\n", "\u{e4}"]
        {
            assert!(!is_certificate(&format!("{LIVE_CERTIFICATES}{stranger}")), "{stranger:?}");
        }
        for url in [
            "http://api.paypal.com/v1/notifications/certs/CERT-1",
            "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
            "https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1",
            "https://api.paypal.com/v1/notifications/certs/../../evil",
            "https://api.paypal.com/v1/notifications/certs/",
            "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1",
        ] {
            assert!(!is_certificate(url), "{url}");
        }
    }
}
