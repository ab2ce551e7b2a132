//! Twilio's classic webhooks: an HMAC over the URL and the sorted form parameters, or over a URL that ends in the hash of
//! a JSON body.
//!
//! Nothing stands between the URL, the names and the values of a form. So other parameters, and even another URL, fit the
//! same text. A form is therefore claimed under the hash of that text, whatever it holds, and what may have been signed
//! for another endpoint, or as a form for the URL of a JSON body, is refused.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::key::is_plain;
#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use subtle::ConstantTimeEq;

use crate::refusal::Refusal;
use crate::request::{Request, form_fields};
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::Encoding;
use crate::scheme::hash::Hash;
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::source::Source;

const SIGNATURE: &str = "x-twilio-signature";
/// Names the algorithm of a shared key, such as `key=..,algorithm=HMAC_SHA256`.
const SETTINGS: &str = "x-twilio-webhooks-signature-settings";
/// The last parameter of the URL: the hash of a JSON body.
const BODY_HASH: &str = "bodySHA256";

/// A parameter of each form that Twilio itself fills.
const PARAMETER_OF_FORMS: &str = "AccountSid";

/// The scheme has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TwilioScheme;

/// The part of the message after the URL: for each name in order, its distinct values in order.
fn parameters(fields: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let mut parameters: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (name, value) in fields {
        parameters.entry(name).or_default().insert(value);
    }
    let mut text = Vec::new();
    for (name, values) in parameters {
        for value in values {
            text.extend_from_slice(&name);
            text.extend_from_slice(&value);
        }
    }
    text
}

/// The URL without and with its standard port: Twilio signs one of them.
fn port_variants(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let (authority, path) =
        rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len())).unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    let after_literal = host.rfind(']').map_or(0, |at| at + 1);
    let port_at = host.get(after_literal..).and_then(|tail| tail.find(':')).map(|at| at + after_literal);
    let bare = port_at.and_then(|at| host.get(..at)).unwrap_or(host);
    let standard = if scheme.eq_ignore_ascii_case("https") { "443" } else { "80" };
    let with_port = if port_at.is_some() { host.to_owned() } else { format!("{host}:{standard}") };
    vec![format!("{scheme}://{user}{bare}{path}"), format!("{scheme}://{user}{with_port}{path}")]
}

fn hash(request: &Request<'_>) -> Result<Hash, Refusal> {
    let Some(settings) = request.single_header(SETTINGS)? else { return Ok(Hash::Sha1) };
    let mut algorithms = settings.split(',').filter_map(|item| item.trim().strip_prefix("algorithm="));
    match (algorithms.next(), algorithms.next()) {
        (Some("HMAC_SHA256"), None) => Ok(Hash::Sha256),
        (Some(_), Some(_)) => Err(Refusal::DuplicateHeader),
        _ => Err(Refusal::SignatureMalformed),
    }
}

/// The hash of a JSON body that a URL ends in. Elsewhere in a URL, it may be a text that a stranger has written into a
/// form.
fn body_hash(url: &str) -> Option<&str> {
    let (_, query) = url.split_once('?')?;
    let hash = query.rsplit('&').next()?.strip_prefix(BODY_HASH)?.strip_prefix('=')?;
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// The URL that was signed. Where the configured URL has a query, the hash of a body still comes with the request.
fn signed_url<'a>(context: &'a Context<'_>) -> Cow<'a, str> {
    match body_hash(context.request.url) {
        Some(hash) if context.url.contains('?') && body_hash(&context.url).is_none() => {
            Cow::Owned(format!("{}&{BODY_HASH}={hash}", context.url))
        }
        _ => Cow::Borrowed(&context.url),
    }
}

/// What is signed after the URL: the parameters of a form. `None` if the URL ends in the hash of this body. A body that
/// is not a form reads as one with a strange name, so it is signed or refused, too.
fn signed_form(body: &[u8], url: &str) -> Result<Option<Vec<u8>>, Refusal> {
    if let Some(hash) = body_hash(url) {
        // A form, read as the end of the URL: then its last value would choose the body.
        if url.contains(PARAMETER_OF_FORMS) {
            return Err(Refusal::SignatureMalformed);
        }
        let hash = Encoding::Hex.decode(hash).ok_or(Refusal::SignatureMalformed)?;
        let equal = Hash::Sha256.of(&[body]).ct_eq(&hash);
        return if bool::from(equal) { Ok(None) } else { Err(Refusal::SignatureMismatch) };
    }
    let form = form_fields(body).map(parameters)?;
    // The signed URL of a JSON body, divided: as a form, it would be another event.
    let is_url = body_hash(&format!("{url}{}", String::from_utf8_lossy(&form))).is_some();
    if is_url || is_of_longer_id(url, &form) { Err(Refusal::SignatureMalformed) } else { Ok(Some(form)) }
}

/// True if the form may begin with the end of another endpoint's id: what was signed for `/webhooks/sms-eu` would fit
/// `/webhooks/sms`, too. A query ends the id.
fn is_of_longer_id(url: &str, form: &[u8]) -> bool {
    let is_of_id = |byte: Option<&u8>| byte.is_some_and(|byte| is_plain(&char::from(*byte).to_string(), 1));
    !url.contains('?') && is_of_id(url.as_bytes().last()) && is_of_id(form.first())
}

impl SchemeKind for TwilioScheme {
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        request.has_header(SIGNATURE)
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let text = context.request.plain_header(SIGNATURE)?.ok_or(Refusal::SignatureMissing)?;
        let signature = Encoding::Base64.decode(text).ok_or(Refusal::SignatureMalformed)?;
        let hash = hash(context.request)?;
        if signature.len() != hash.bytes() {
            return Err(Refusal::SignatureMismatch);
        }
        let url = signed_url(context);
        let form = signed_form(context.request.body, &url)?;
        let rest = form.as_deref().unwrap_or_default();
        // This takes up to two passes for each secret, the only scheme that does: either URL may be signed.
        let urls = port_variants(&url);
        let fitting = |secret: &str| {
            let code = |url: &String| hash.hmac(secret.as_bytes(), &[url.as_bytes(), rest]);
            urls.iter().find(|url| code(url).is_some_and(|code| code.ct_eq(&signature).into()))
        };
        let signed = Cell::new(None);
        let proof = context.first_fitting(|secret| {
            signed.set(fitting(secret));
            signed.get().is_some()
        })?;
        Ok(Verification::Authentic(match (form, signed.get()) {
            (Some(form), Some(url)) => {
                let text = Hash::Sha256.of(&[url.as_bytes(), &form]);
                proof.bound_to(format!("sha256:{}", hex::encode(text)))
            }
            _ => proof,
        }))
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        SecretReading::shared(secret.as_bytes())
    }

    /// Of a form, every part: but none is where it was for certain.
    fn covers(&self, source: &Source) -> bool {
        matches!(source, Source::Json(_))
    }

    fn binds_bodies(&self) -> bool {
        true
    }

    fn signs_retries_alike(&self) -> bool {
        true
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for TwilioScheme {
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, _now: EpochSec) -> Result<(), SignError> {
        let url = draft.request.url;
        let body = if body_hash(url).is_some() {
            Vec::new()
        } else {
            parameters(form_fields(&draft.body).map_err(|_| SignError::BodyLacks { path: "form".to_owned() })?)
        };
        if draft.header("content-type").is_none() {
            draft.add("content-type", "application/x-www-form-urlencoded".to_owned());
        }
        let code = Hash::Sha1.hmac(secret.as_bytes(), &[url.as_bytes(), &body]).ok_or(SignError::Secret)?;
        draft.add(SIGNATURE, Encoding::Base64.encode(&code));
        Ok(())
    }

    fn covers_url(&self) -> bool {
        true
    }

    fn lookups(&self) -> Vec<Lookup> {
        vec![Lookup::header("signature", SIGNATURE)]
    }

    fn summary(&self) -> String {
        format!(
            "HMAC-SHA1 (or SHA-256 with a shared key) over the URL and the sorted form parameters, base64 in `{SIGNATURE}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted_and_each_value_counts_once() {
        assert_eq!(parameters(form_fields(b"b=2&a=x&a=w&a=x&c=").unwrap()), b"awaxb2c");
    }

    #[test]
    fn a_url_is_tried_without_and_with_its_port() {
        assert_eq!(port_variants("https://e.com/a?b=1:2"), ["https://e.com/a?b=1:2", "https://e.com:443/a?b=1:2"]);
        assert_eq!(port_variants("http://u:p@e.com:8080"), ["http://u:p@e.com", "http://u:p@e.com:8080"]);
        assert_eq!(port_variants("http://[::1]/x"), ["http://[::1]/x", "http://[::1]:80/x"]);
        assert_eq!(port_variants("nonsense"), ["nonsense"]);
    }

    #[test]
    fn only_the_end_of_a_url_is_the_hash_of_a_body() {
        let hash = "0123456789abcdef".repeat(4);
        let found = |query: &str| body_hash(&format!("https://e.com/a{query}")).map(str::to_owned);
        assert_eq!(found(&format!("?bodySHA256={hash}")), Some(hash.clone()));
        assert_eq!(found(&format!("?a=1&bodySHA256={hash}")), Some(hash.clone()));
        for query in ["?bodySHA256={}&a=1", "?bodySHA256={}0", "?abodySHA256={}", "bodySHA256={}", "?bodySHA256={}#a"] {
            assert_eq!(found(&query.replace("{}", &hash)), None, "{query}");
        }
    }
}
