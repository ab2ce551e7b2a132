//! Templates of a catalog file: literal text with sources in braces.
//!
//! The signed text: `{ts}.{body}`. An event type: `status.{json:@.status}`. The answer to a handshake:
//! `sha256={hmac:query:crc_token}`. `{?json:@.message}` adds nothing and only requires that the value is present;
//! `{?json:$.field=standby}` requires this value.

use crate::path::{Path, Root};
use crate::source::{Facets, Source};

/// A piece of a template's text: literal, or the inside of a pair of braces.
enum Piece<'a> {
    Literal(&'a str),
    Hole(&'a str),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        let (hole, after) = after.split_once('}').ok_or_else(|| format!("the template `{text}` has an open brace"))?;
        pieces.push(Piece::Hole(hole));
        rest = after;
    }
    if rest.contains('}') {
        return Err(format!("the template `{text}` has a closing brace without an open one"));
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

/// One part of the text that a provider signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignedPart {
    Literal(String),
    /// `{body}`: the raw bytes.
    Body,
    /// `{ts}`: the timestamp exactly as it was sent.
    Timestamp,
    /// `{url}`: the endpoint's public URL.
    Url,
    /// `{decoded_url}`: the same with the punctuation of [`punctuation_decoded`] decoded.
    DecodedUrl,
    /// `{method}`.
    Method,
    /// `{header:NAME}`.
    Header(String),
    /// `{json:PATH}`: a value of the body, read before the body is verified.
    Json(Path),
    /// `{key}`: the secret itself, for the plain digests that predate HMAC.
    Key,
}

impl SignedPart {
    /// True for a value that tells deliveries apart.
    pub(crate) const fn names_delivery(&self) -> bool {
        match self {
            Self::Header(_) | Self::Json(_) => true,
            Self::Literal(_)
            | Self::Body
            | Self::Timestamp
            | Self::Url
            | Self::DecodedUrl
            | Self::Method
            | Self::Key => false,
        }
    }
}

impl std::fmt::Display for SignedPart {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(text) => formatter.write_str(text),
            Self::Body => formatter.write_str("{body}"),
            Self::Timestamp => formatter.write_str("{ts}"),
            Self::Url => formatter.write_str("{url}"),
            Self::DecodedUrl => formatter.write_str("{decoded_url}"),
            Self::Method => formatter.write_str("{method}"),
            Self::Header(name) => write!(formatter, "{{header:{name}}}"),
            Self::Json(path) => write!(formatter, "{{json:{path}}}"),
            Self::Key => formatter.write_str("{key}"),
        }
    }
}

/// The percent-encodings that `HubSpot` decodes in a URL before it signs it, and no others.
const PUNCTUATION: &str = ":/?@!$'()*,;";

/// A URL in which only the encodings of [`PUNCTUATION`] are decoded, each once: `%3A` is `:`, and `%253A` stays.
pub(crate) fn punctuation_decoded(url: &str) -> String {
    let mut decoded = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('%') {
        decoded.push_str(before);
        let code = after.get(..2).filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()));
        let symbol = code.and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        let found = symbol.filter(|it| PUNCTUATION.contains(*it)).zip(after.get(2..));
        let (symbol, after) = found.unwrap_or(('%', after));
        decoded.push(symbol);
        rest = after;
    }
    decoded.push_str(rest);
    decoded
}

/// Reads the template of the signed text.
pub(crate) fn signed_parts(text: &str) -> Result<Vec<SignedPart>, String> {
    let parts: Result<Vec<SignedPart>, String> = pieces(text)?
        .into_iter()
        .map(|piece| match piece {
            Piece::Literal(literal) => Ok(SignedPart::Literal(literal.to_owned())),
            Piece::Hole("body") => Ok(SignedPart::Body),
            Piece::Hole("ts") => Ok(SignedPart::Timestamp),
            Piece::Hole("url") => Ok(SignedPart::Url),
            Piece::Hole("decoded_url") => Ok(SignedPart::DecodedUrl),
            Piece::Hole("method") => Ok(SignedPart::Method),
            Piece::Hole("key") => Ok(SignedPart::Key),
            Piece::Hole(hole) => match Source::parse(hole)? {
                Source::Header(name) => Ok(SignedPart::Header(name)),
                Source::Json(path) if path.root == Root::Body => Ok(SignedPart::Json(path)),
                _ => Err(format!("`{{{hole}}}` cannot be signed")),
            },
        })
        .collect();
    let parts = parts?;
    if parts.is_empty() {
        return Err("the template of the signed text is empty".to_owned());
    }
    Ok(parts)
}

/// One part of a text that is made from values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextPart {
    Literal(String),
    /// `{SOURCE}`.
    Value(Source),
    /// `{?SOURCE}`: must be present, adds nothing.
    Present(Source),
    /// `{?SOURCE=VALUE}`: must have this value, adds nothing.
    Is(Source, String),
    /// `{hmac:SOURCE}`: the value under the endpoint's secret, as the scheme encodes it; only in handshakes.
    Hmac(Source),
}

/// A text made from values. It does not apply when one of them is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextTemplate(pub(crate) Vec<TextPart>);

impl TextTemplate {
    /// Reads a template; the error is a sentence for the author of a catalog file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<TextPart>, String> = pieces(text)?
            .into_iter()
            .map(|piece| match piece {
                Piece::Literal(literal) => Ok(TextPart::Literal(literal.to_owned())),
                Piece::Hole(hole) => {
                    if let Some(required) = hole.strip_prefix('?') {
                        match required.split_once('=') {
                            Some((source, value)) => {
                                Source::parse(source).map(|source| TextPart::Is(source, value.to_owned()))
                            }
                            None => Source::parse(required).map(TextPart::Present),
                        }
                    } else if let Some(source) = hole.strip_prefix("hmac:") {
                        Source::parse(source).map(TextPart::Hmac)
                    } else {
                        Source::parse(hole).map(TextPart::Value)
                    }
                }
            })
            .collect();
        parts.map(Self)
    }

    /// The sources that the template reads.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Literal(_) => None,
            TextPart::Value(source) | TextPart::Present(source) | TextPart::Is(source, _) | TextPart::Hmac(source) => {
                Some(source)
            }
        })
    }

    /// True when the template signs a value.
    pub(crate) fn signs(&self) -> bool {
        self.0.iter().any(|part| matches!(part, TextPart::Hmac(_)))
    }

    /// The text for one delivery or event; `None` when a value is missing.
    pub(crate) fn render(&self, facets: &Facets<'_>) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Value(source) => text.push_str(&facets.text(source)?),
                TextPart::Present(source) if facets.is_present(source) => {}
                TextPart::Is(source, value) if facets.text(source).as_ref() == Some(value) => {}
                TextPart::Present(_) | TextPart::Is(..) | TextPart::Hmac(_) => return None,
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(feature = "tools")]
impl std::fmt::Display for TextTemplate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in &self.0 {
            match part {
                TextPart::Literal(literal) => formatter.write_str(literal)?,
                TextPart::Value(source) => write!(formatter, "{{{source}}}")?,
                TextPart::Present(source) => write!(formatter, "{{?{source}}}")?,
                TextPart::Is(source, value) => write!(formatter, "{{?{source}={value}}}")?,
                TextPart::Hmac(source) => write!(formatter, "{{hmac:{source}}}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_template_of_what_is_signed_is_read_in_order() {
        let parts = signed_parts("v0:{ts}:{header:x-id}{body}").unwrap();
        assert_eq!(parts.len(), 5);
        assert_eq!(parts[3], SignedPart::Header("x-id".to_owned()));
    }

    #[test]
    fn a_url_is_decoded_once_and_only_in_its_punctuation() {
        for (url, decoded) in [
            ("https://h/a?b=c", "https://h/a?b=c"),
            ("https://h/?u=https%3A%2F%2Fx%3Fy&at=%40", "https://h/?u=https://x?y&at=@"),
            ("%21%24%27%28%29%2A%2C%3B%3a%2f", "!$'()*,;:/"),
            ("%20%26%3D%2B%23%C3%A4%253A%%3A%3", "%20%26%3D%2B%23%C3%A4%253A%:%3"),
            ("%+3\u{e4}%\u{e4}", "%+3\u{e4}%\u{e4}"),
        ] {
            assert_eq!(punctuation_decoded(url), decoded);
        }
    }

    #[test]
    fn a_malformed_template_is_explained() {
        for text in ["", "{body", "body}", "{nothing}", "{query:a}", "{json:@.id}", "{header:X-Upper}"] {
            assert!(signed_parts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_applies_only_when_every_value_is_there() {
        let headers = BTreeMap::new();
        let facets = Facets::new(br#"{"type":"a","object":{},"none":null,"empty":""}"#, &headers);
        let render = |text: &str| TextTemplate::parse(text).unwrap().render(&facets);
        assert_eq!(render("x.{json:$.type}").as_deref(), Some("x.a"));
        assert_eq!(render("x{?json:$.object}").as_deref(), Some("x"));
        assert_eq!(render("x{?json:$.none}"), None);
        assert_eq!(render("x{?json:$.type=a}").as_deref(), Some("x"));
        assert_eq!(render("x{?json:$.type=b}"), None);
        assert_eq!(render("x{?json:$.object=a}"), None);
        assert_eq!(render("{json:$.empty}"), None);
        assert_eq!(render("{json:$.object}"), None);
        assert_eq!(render("{header:x-id}"), None);
    }
}
