//! Contentful: an HMAC over method, path, the listed headers and the body.

use std::fmt::Write as _;

#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use hookonce_protocol::time::Millis;
use subtle::ConstantTimeEq;

use crate::refusal::Refusal;
use crate::request::Request;
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::Encoding;
use crate::scheme::hash::Hash;
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
use crate::scheme::timestamp::{TimestampUnit, check_skew};
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::source::Source;

const SIGNATURE: &str = "x-contentful-signature";
const SIGNED_HEADERS: &str = "x-contentful-signed-headers";
const TIMESTAMP: &str = "x-contentful-timestamp";

/// Most headers that a signature may list.
const SIGNED_HEADERS_MAX: usize = 64;

/// The scheme's one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentfulScheme {
    pub(crate) tolerance: Millis,
}

/// Percent-encodes everything but letters, digits, `-_.!~*'()` and the characters of `kept`.
fn escaped(text: &str, kept: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let symbol = char::from(byte);
        if symbol.is_ascii_alphanumeric()
            || "-_.!~*'()".contains(symbol)
            || (symbol.is_ascii() && kept.contains(symbol))
        {
            escaped.push(symbol);
        } else {
            // Writing into a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// The path as Contentful signs it: the query escaped once, then the whole path escaped once more.
fn signed_path(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = after_scheme.find('/').and_then(|at| after_scheme.get(at..)).unwrap_or("/");
    let path = path.split('#').next().unwrap_or(path);
    let mut parts = path.split('?');
    let pathname = parts.next().unwrap_or_default();
    let joined = match parts.next().filter(|query| !query.is_empty()) {
        Some(query) => format!("{pathname}?{}", escaped(query, "")),
        None => pathname.to_owned(),
    };
    escaped(&joined, ";,/?:@&=+$#")
}

fn mac(secret: &str, method: &str, url: &str, headers: &[(String, String)], body: &[u8]) -> Option<Vec<u8>> {
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    let head = format!("{method}\n{}\n{}\n", signed_path(url), headers.join(";"));
    Hash::Sha256.hmac(secret.as_bytes(), &[head.as_bytes(), body])
}

/// The headers that the request says are signed, sorted; the list itself and the timestamp must be among them.
fn signed_headers(request: &Request<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let list = request.single_header(SIGNED_HEADERS)?.ok_or(Refusal::SignatureMissing)?;
    let mut names: Vec<&str> = list.split(',').collect();
    if names.len() > SIGNED_HEADERS_MAX || !names.contains(&SIGNED_HEADERS) || !names.contains(&TIMESTAMP) {
        return Err(Refusal::SignatureMalformed);
    }
    names.sort_unstable();
    let unique = names.len();
    names.dedup();
    if names.len() != unique {
        return Err(Refusal::DuplicateHeader);
    }
    let header = |name: &str| {
        let value = request.single_header(name)?.ok_or(Refusal::SignatureMismatch)?;
        Ok((name.to_owned(), value.trim().to_owned()))
    };
    names.into_iter().map(header).collect()
}

impl SchemeKind for ContentfulScheme {
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        request.has_header(SIGNATURE)
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let request = context.request;
        let signature = request.plain_header(SIGNATURE)?.ok_or(Refusal::SignatureMissing)?;
        let signature = Encoding::Hex.decode(signature).ok_or(Refusal::SignatureMalformed)?;
        let at = request.plain_header(TIMESTAMP)?.ok_or(Refusal::TimestampMissing)?;
        let at = TimestampUnit::Milliseconds.parse(at)?;
        let headers = signed_headers(request)?;
        let proof = context.first_fitting(|secret| {
            let mac = mac(secret, request.method, &context.url, &headers, request.body);
            mac.is_some_and(|code| code.ct_eq(&signature).into())
        })?;
        check_skew(at, context.now, context.tolerance.unwrap_or(self.tolerance))?;
        Ok(Verification::Authentic(proof))
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        SecretReading::shared(secret.as_bytes())
    }

    fn covers(&self, source: &Source) -> bool {
        // The sender chooses which headers are signed, so none is relied on.
        source.is_of_body()
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for ContentfulScheme {
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, now: EpochSec) -> Result<(), SignError> {
        let at = TimestampUnit::Milliseconds.print(now).ok_or(SignError::Time)?;
        let made_here = [SIGNATURE, SIGNED_HEADERS, TIMESTAMP];
        let is_own = |name: &str| name.starts_with("x-contentful-") && !made_here.contains(&name);
        let mut headers: Vec<(String, String)> = draft
            .headers()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .filter(|(name, _)| is_own(name))
            .collect();
        headers.push((TIMESTAMP.to_owned(), at.clone()));
        headers.push((SIGNED_HEADERS.to_owned(), String::new()));
        headers.sort();
        let list = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",");
        for (_, value) in headers.iter_mut().filter(|(name, _)| name == SIGNED_HEADERS) {
            value.clone_from(&list);
        }
        let mac =
            mac(secret, draft.request.method, draft.request.url, &headers, &draft.body).ok_or(SignError::Secret)?;
        draft.add(TIMESTAMP, at);
        draft.add(SIGNED_HEADERS, list);
        draft.add(SIGNATURE, Encoding::Hex.encode(&mac));
        Ok(())
    }

    fn covers_time(&self) -> bool {
        true
    }

    fn covers_url(&self) -> bool {
        true
    }

    fn lookups(&self) -> Vec<Lookup> {
        vec![
            Lookup::header("signature", SIGNATURE),
            Lookup::header("list of signed headers", SIGNED_HEADERS),
            Lookup::header("timestamp", TIMESTAMP),
        ]
    }

    fn summary(&self) -> String {
        format!("HMAC-SHA256 over method, path, listed headers and body, hex in `{SIGNATURE}`")
    }

    fn claimed_time(&self, context: &Context<'_>) -> Option<i64> {
        TimestampUnit::Milliseconds.parse(context.request.single_header(TIMESTAMP).ok()??).ok()
    }

    fn tolerance(&self) -> Option<Millis> {
        Some(self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_signed_headers_is_limited() {
        let read = |others: usize| {
            let others: Vec<String> = (0..others).map(|number| format!("x-{number}")).collect();
            let names = [&[SIGNED_HEADERS.to_owned(), TIMESTAMP.to_owned()], &others[..]].concat();
            let value = |name: &String| if name == SIGNED_HEADERS { names.join(",") } else { "1".to_owned() };
            let headers: Vec<_> = names.iter().map(|name| (name.clone(), value(name).into_bytes())).collect();
            let request = Request { method: "POST", url: "", headers: &headers, body: b"" };
            signed_headers(&request).map(|signed| signed.len())
        };
        assert_eq!(read(SIGNED_HEADERS_MAX - 2), Ok(SIGNED_HEADERS_MAX));
        assert_eq!(read(SIGNED_HEADERS_MAX - 1), Err(Refusal::SignatureMalformed));
    }

    #[test]
    fn a_path_is_escaped_as_the_sdk_does() {
        for (url, path) in [
            ("https://example.com/hook", "/hook"),
            ("https://example.com", "/"),
            ("https://example.com/a b?x=1&y=%20", "/a%20b?x%253D1%2526y%253D%252520"),
            ("https://example.com/a%20b?", "/a%2520b"),
        ] {
            assert_eq!(signed_path(url), path, "{url}");
        }
    }
}
