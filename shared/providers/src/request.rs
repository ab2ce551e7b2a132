//! An HTTP request, and strict ways to read it.

use sha2::{Digest, Sha256};

use crate::limits::{FORM_FIELDS_MAX, HEADER_BYTES_MAX};
use crate::refusal::Refusal;

/// A request as it was received. Nothing in it is trusted yet.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The public URL that the provider called, with its query. Some schemes sign it.
    pub url: &'a str,
    /// Names in any case, duplicates kept, values as bytes.
    pub headers: &'a [(String, Vec<u8>)],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Request")
            .field("method", &self.method)
            .field("header_names", &names)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What tells a request from another without any of its bytes: to compare with what the provider says it sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// The length of the body.
    pub body_bytes: usize,
    /// The SHA-256 of the body, in hexadecimal.
    pub body_sha256: String,
}

impl<'a> Request<'a> {
    /// What tells this request from another.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint { body_bytes: self.body.len(), body_sha256: hex::encode(Sha256::digest(self.body)) }
    }

    /// Every value of a header, in order.
    pub(crate) fn header_values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    /// True when the header is present.
    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.header_values(name).next().is_some()
    }

    /// The value of a header that may come only once.
    ///
    /// Two values are refused, because this side and the provider could read different ones.
    pub(crate) fn single_header(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let mut values = self.header_values(name);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Refusal::DuplicateHeader);
        }
        header_text(value).map(Some)
    }

    /// As [`Self::single_header`], for a value that never holds a comma: a comma means that a gateway joined two
    /// headers.
    pub(crate) fn plain_header(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let value = self.single_header(name)?;
        match value {
            Some(text) if text.contains(',') => Err(Refusal::DuplicateHeader),
            _ => Ok(value),
        }
    }

    /// The value that a header has each time that it comes, or that a gateway has joined with commas. `None` if its
    /// values differ or cannot be read.
    pub(crate) fn agreed_header(&self, name: &str) -> Option<&'a str> {
        let mut values = Vec::new();
        for value in self.header_values(name) {
            values.extend(header_text(value).ok()?.split(',').map(str::trim));
        }
        let (first, others) = values.split_first()?;
        others.iter().all(|other| other == first).then_some(*first)
    }

    /// The value of a query parameter, percent-decoded. A parameter that comes twice is refused.
    pub(crate) fn query(&self, name: &str) -> Result<Option<String>, Refusal> {
        let query = self.url.split_once('?').map_or("", |(_, query)| query);
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let mut values = form_pairs(query).filter(|(key, _)| key == name.as_bytes()).map(|(_, value)| value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Refusal::Malformed);
        }
        String::from_utf8(value).map(Some).map_err(|_| Refusal::Malformed)
    }
}

/// The text of one header value that is short enough and printable.
fn header_text(value: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(value).map_err(|_| Refusal::HeaderMalformed)?;
    if text.len() > HEADER_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(Refusal::HeaderMalformed);
    }
    Ok(text)
}

/// Whether a content type is that of a form.
pub(crate) fn is_form(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// The pairs of an `application/x-www-form-urlencoded` text, decoded.
pub(crate) fn form_pairs(text: &str) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (percent_decoded(key), percent_decoded(value))
    })
}

/// A name and a value of a form, decoded.
type FormField = (Vec<u8>, Vec<u8>);

/// The fields of a form-encoded body, for schemes that read them before they know the sender.
pub(crate) fn form_fields(body: &[u8]) -> Result<Vec<FormField>, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::SignatureMalformed)?;
    if text.split('&').nth(FORM_FIELDS_MAX).is_some() {
        return Err(Refusal::SignatureMalformed);
    }
    Ok(form_pairs(text).collect())
}

/// Decodes `+` and `%XX`; an incomplete escape stays as it is.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode(text.replace('+', " ").as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(url: &'a str, headers: &'a [(String, Vec<u8>)]) -> Request<'a> {
        Request { method: "GET", url, headers, body: b"" }
    }

    #[test]
    fn a_query_parameter_is_decoded_and_may_come_once() {
        let request = request("https://example.com/h?a=1&b=x%20y+z%2&c#d=1", &[]);
        assert_eq!(request.query("b").unwrap().as_deref(), Some("x y z%2"));
        assert_eq!(request.query("c").unwrap().as_deref(), Some(""));
        assert_eq!(request.query("d").unwrap(), None);
        for url in ["/?a=%ff", "https://example.com/?a=1&a=2"] {
            assert_eq!(Request { url, ..request }.query("a"), Err(Refusal::Malformed), "{url}");
        }
    }

    #[test]
    fn a_header_that_comes_twice_or_joined_is_refused() {
        let twice = [("X-Id".to_owned(), b"1".to_vec()), ("x-id".to_owned(), b"1".to_vec())];
        assert_eq!(request("", &twice).single_header("x-id"), Err(Refusal::DuplicateHeader));
        let joined = [("X-Id".to_owned(), b"1,1".to_vec())];
        assert_eq!(request("", &joined).plain_header("x-id"), Err(Refusal::DuplicateHeader));
    }

    #[test]
    fn values_agree_only_if_all_can_be_read() {
        for (second, agreed) in
            [(b"1".as_slice(), Some("1")), (b"1,1", Some("1")), (b"2", None), (b"1,2", None), (b"1\0", None)]
        {
            let headers = [("X-Id".to_owned(), b"1".to_vec()), ("x-id".to_owned(), second.to_vec())];
            assert_eq!(request("", &headers).agreed_header("x-id"), agreed, "{second:?}");
        }
        let control = [("x-id".to_owned(), b"1\0".to_vec())];
        assert_eq!(request("", &control).agreed_header("x-id"), None);
    }

    #[test]
    fn a_header_that_is_not_text_or_too_long_is_refused() {
        for value in [vec![0xff], vec![b'a', 0], vec![b'a'; HEADER_BYTES_MAX + 1]] {
            let headers = [("x-id".to_owned(), value)];
            assert_eq!(request("", &headers).plain_header("x-id"), Err(Refusal::HeaderMalformed));
        }
    }

    #[test]
    fn the_number_of_form_fields_is_limited() {
        assert_eq!(form_fields("a=1&".repeat(FORM_FIELDS_MAX - 1).as_bytes()).unwrap().len(), FORM_FIELDS_MAX - 1);
        assert_eq!(form_fields("&".repeat(FORM_FIELDS_MAX).as_bytes()), Err(Refusal::SignatureMalformed));
        assert_eq!(form_fields(b"\xff"), Err(Refusal::SignatureMalformed));
    }

    #[test]
    fn a_fingerprint_holds_no_byte_of_the_request() {
        let headers = [("x-hunter2".to_owned(), b"hunter2".to_vec())];
        let fingerprint = Request { method: "POST", url: "", headers: &headers, body: b"hunter2" }.fingerprint();
        let sha256 = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
        assert_eq!((fingerprint.body_bytes, fingerprint.body_sha256.as_str()), (7, sha256));
        assert!(!format!("{fingerprint:?}").contains("hunter2"));
    }

    #[test]
    fn debug_prints_no_value() {
        let headers = [("authorization".to_owned(), b"hunter2".to_vec())];
        let printed = format!(
            "{:?}",
            Request { method: "POST", url: "https://u?token=hunter2", headers: &headers, body: b"hunter2" }
        );
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
