//! Where to read a value, in the form of a catalog file: `json:$.id`, `header:x-github-delivery`, `query:challenge`.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::adyen_item::text_as_key;
use crate::json::{JsonError, Node, compact_sha256};
use crate::path::{Path, Root, Segment, find};
use crate::request::is_form;

/// One place to read a value from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// `header:NAME`, in lower case.
    Header(String),
    /// `json:PATH`.
    Json(Path),
    /// `query:NAME`; only in handshakes.
    Query(String),
    /// `setting:NAME`: a setting of the endpoint; only in handshakes.
    Setting(String),
    /// `form:NAME`: a field of a form-encoded body, without line breaks at its end, because a signature may not show
    /// whether there was one.
    Form(String),
    /// `form_xml:FIELD:ELEMENT`: the text of an XML element in a base64 field of a form-encoded body.
    FormXml { field: String, element: String },
    /// `word:WORD`: the word itself. It keeps apart the keys of two kinds of events whose ids are of one kind.
    Word(String),
    /// `adyen_text`: what is signed of an item of Adyen, if its signed fields are no key: other fields fit the same text, or
    /// one that would name the event is missing.
    AdyenText,
    /// `sha256:SOURCE`: the hash of another value; hex.
    HashOf(Box<Source>),
    /// `signed_at`: when the token of the request was issued, in seconds since the Unix epoch.
    SignedAt,
    /// `request_sha256`: of the whole request and the second of its arrival, for pings, because equal pings are
    /// legitimate; hex.
    RequestSha256,
    /// `sha256`: of the raw body, or of one event's own text; hex.
    Sha256,
    /// `delivery_sha256`: of the delivery reduced to one event, with what surrounds the event, without the white space
    /// between tokens; hex.
    DeliverySha256,
}

impl Source {
    /// Reads a source; the error is a sentence for the author of a catalog file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "sha256" => return Ok(Self::Sha256),
            "delivery_sha256" => return Ok(Self::DeliverySha256),
            "request_sha256" => return Ok(Self::RequestSha256),
            "signed_at" => return Ok(Self::SignedAt),
            "adyen_text" => return Ok(Self::AdyenText),
            _ => {}
        }
        let (kind, rest) = text.split_once(':').ok_or_else(|| expected(text))?;
        match kind {
            "json" => {
                let path = Path::parse(rest)?;
                if path.has_each() {
                    return Err(format!("`{text}` names many values; `[*]` belongs to the path of `items`"));
                }
                Ok(Self::Json(path))
            }
            "header" => header_name(rest).map(Self::Header),
            "query" if !rest.is_empty() => Ok(Self::Query(rest.to_owned())),
            "setting" if !rest.is_empty() => Ok(Self::Setting(rest.to_owned())),
            "word" if !rest.is_empty() => Ok(Self::Word(rest.to_owned())),
            "sha256" => Self::parse(rest).map(|source| Self::HashOf(Box::new(source))),
            "form_xml" => {
                let (field, element) = rest.split_once(':').ok_or_else(|| expected(text))?;
                Ok(Self::FormXml { field: field.to_owned(), element: element.to_owned() })
            }
            "form" if !rest.is_empty() => Ok(Self::Form(rest.to_owned())),
            _ => Err(expected(text)),
        }
    }

    /// True when the value comes from the body alone, or is the same whatever the request is.
    pub(crate) fn is_of_body(&self) -> bool {
        match self {
            Self::Json(_)
            | Self::Form(_)
            | Self::FormXml { .. }
            | Self::Word(_)
            | Self::AdyenText
            | Self::Sha256
            | Self::DeliverySha256 => true,
            Self::HashOf(inner) => inner.is_of_body(),
            Self::Header(_) | Self::Query(_) | Self::Setting(_) | Self::SignedAt | Self::RequestSha256 => false,
        }
    }

    /// True when the value exists only in a structured body, not in a body of a single word.
    pub(crate) fn needs_structure(&self) -> bool {
        match self {
            Self::Json(_) | Self::FormXml { .. } | Self::Form(_) | Self::AdyenText => true,
            Self::HashOf(inner) => inner.needs_structure(),
            Self::Header(_)
            | Self::Query(_)
            | Self::Setting(_)
            | Self::Word(_)
            | Self::SignedAt
            | Self::RequestSha256
            | Self::Sha256
            | Self::DeliverySha256 => false,
        }
    }

    /// True when the value is a field of a form.
    pub(crate) fn is_of_form(&self) -> bool {
        match self {
            Self::Form(_) | Self::FormXml { .. } => true,
            Self::HashOf(inner) => inner.is_of_form(),
            Self::Json(_)
            | Self::AdyenText
            | Self::Header(_)
            | Self::Query(_)
            | Self::Setting(_)
            | Self::Word(_)
            | Self::SignedAt
            | Self::RequestSha256
            | Self::Sha256
            | Self::DeliverySha256 => false,
        }
    }

    /// The kept header that holds the value, whether the request had it or the receiver added it.
    pub(crate) fn header(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            Self::SignedAt => Some(SIGNED_AT),
            Self::RequestSha256 => Some(REQUEST_SHA256),
            Self::HashOf(inner) => inner.header(),
            Self::Json(_)
            | Self::Query(_)
            | Self::Setting(_)
            | Self::Form(_)
            | Self::FormXml { .. }
            | Self::Word(_)
            | Self::AdyenText
            | Self::Sha256
            | Self::DeliverySha256 => None,
        }
    }

    /// True for a value that is a hash and is marked as one in a key.
    pub(crate) const fn is_hash(&self) -> bool {
        matches!(self, Self::Sha256 | Self::DeliverySha256 | Self::RequestSha256 | Self::HashOf(_))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header(name) => write!(formatter, "header:{name}"),
            Self::Json(path) => write!(formatter, "json:{path}"),
            Self::Query(name) => write!(formatter, "query:{name}"),
            Self::Setting(name) => write!(formatter, "setting:{name}"),
            Self::Form(name) => write!(formatter, "form:{name}"),
            Self::FormXml { field, element } => write!(formatter, "form_xml:{field}:{element}"),
            Self::Word(word) => write!(formatter, "word:{word}"),
            Self::HashOf(inner) => write!(formatter, "sha256:{inner}"),
            Self::AdyenText => formatter.write_str("adyen_text"),
            Self::SignedAt => formatter.write_str("signed_at"),
            Self::RequestSha256 => formatter.write_str("request_sha256"),
            Self::Sha256 => formatter.write_str("sha256"),
            Self::DeliverySha256 => formatter.write_str("delivery_sha256"),
        }
    }
}

/// The kept header that holds [`Source::SignedAt`].
pub(crate) const SIGNED_AT: &str = "x-hookonce-signed-at";

/// The kept header that holds [`Source::RequestSha256`].
pub(crate) const REQUEST_SHA256: &str = "x-hookonce-request-sha256";

fn expected(text: &str) -> String {
    format!(
        "`{text}` is not a source; expected `json:PATH`, `header:NAME`, `form:NAME`, `query:NAME`, `setting:NAME`, `word:WORD`, `sha256` or `delivery_sha256`"
    )
}

/// Checks that a header name is in lower case, because names are compared that way.
pub(crate) fn header_name(name: &str) -> Result<String, String> {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(valid) {
        return Err(format!("the header name `{name}` must be lower-case letters, digits and hyphens"));
    }
    Ok(name.to_owned())
}

/// Where the values of a verified delivery come from: kept headers, the body, and one event in it.
pub(crate) struct Facets<'a> {
    headers: &'a BTreeMap<String, String>,
    body: &'a [u8],
    document: Rc<Document<'a>>,
    item: Option<Node<'a>>,
    pruned_sha256: Option<[u8; 32]>,
    /// What a retry changes, see [`Facets::sha256`].
    changes: &'a [Path],
    /// The key of an event and its record ask for the same hash.
    sha256: OnceCell<[u8; 32]>,
}

/// A body as JSON. All events of a delivery share it, so that it is read once for all of them.
#[derive(Default)]
struct Document<'a> {
    root: OnceCell<Result<Node<'a>, JsonError>>,
    members: OnceCell<Result<Vec<(String, Node<'a>)>, JsonError>>,
}

impl<'a> Facets<'a> {
    pub(crate) fn new(body: &'a [u8], headers: &'a BTreeMap<String, String>) -> Self {
        Self {
            headers,
            body,
            document: Rc::default(),
            item: None,
            pruned_sha256: None,
            changes: &[],
            sha256: OnceCell::new(),
        }
    }

    /// The same delivery, of a provider that changes these values when it sends an event again.
    pub(crate) fn retried_with(self, changes: &'a [Path]) -> Self {
        Self { changes, sha256: OnceCell::new(), ..self }
    }

    /// The same delivery, for one of its events; `pruned` is the delivery reduced to this event.
    pub(crate) fn at_item(&self, item: Node<'a>, pruned: &[u8]) -> Self {
        Self {
            headers: self.headers,
            body: self.body,
            document: Rc::clone(&self.document),
            item: Some(item),
            pruned_sha256: Some(compact_sha256(pruned)),
            changes: self.changes,
            sha256: OnceCell::new(),
        }
    }

    pub(crate) const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The body as JSON, parsed once on first use.
    pub(crate) fn root(&self) -> Result<Node<'a>, JsonError> {
        *self.document.root.get_or_init(|| Node::parse(self.body))
    }

    /// The members of the body at the top.
    fn members(&self) -> Result<&[(String, Node<'a>)], JsonError> {
        let members = self.document.members.get_or_init(|| self.root()?.members());
        members.as_deref().map_err(|error| *error)
    }

    /// The non-empty text of a source, if any. A body, or a part of one, that cannot be read has none.
    pub(crate) fn text(&self, source: &Source) -> Option<String> {
        let text = match source {
            Source::Header(_) | Source::SignedAt | Source::RequestSha256 => {
                source.header().and_then(|name| self.headers.get(name)).cloned()
            }
            Source::HashOf(inner) => self.text(inner).map(|text| hex::encode(Sha256::digest(text))),
            Source::FormXml { field, element } => self.form_field(field).and_then(|text| xml_text(&text, element)),
            Source::Json(path) => self.node(path).and_then(|node| node.scalar()),
            Source::Form(name) => self.form_field(name).map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
            Source::Word(word) => Some(word.clone()),
            Source::AdyenText => self.item.and_then(text_as_key),
            Source::Sha256 => Some(hex::encode(self.sha256())),
            Source::DeliverySha256 => self.pruned_sha256.map(hex::encode),
            Source::Query(_) | Source::Setting(_) => None,
        };
        text.filter(|text| !text.is_empty())
    }

    /// True when a source has a value, even an object or an array.
    pub(crate) fn is_present(&self, source: &Source) -> bool {
        match source {
            Source::Json(path) => self.node(path).is_some_and(|node| node.text() != "null"),
            other => self.text(other).is_some(),
        }
    }

    /// True when a source has a value that is JSON: the body itself, or the text of a field.
    pub(crate) fn holds_a_document(&self, source: &Source) -> bool {
        match source {
            Source::Json(path) => self.node(path).is_some(),
            other => self.text(other).is_some_and(|text| Node::parse(text.as_bytes()).is_ok()),
        }
    }

    /// True when the body is not JSON, or one object in it has a key twice at the top.
    pub(crate) fn is_no_document(&self) -> bool {
        self.members().is_err()
    }

    /// True when the body came as a form.
    pub(crate) fn is_sent_as_form(&self) -> bool {
        self.headers.get("content-type").is_some_and(|kind| is_form(kind))
    }

    /// The values that change from try to try.
    pub(crate) fn changed(&self) -> impl Iterator<Item = Node<'a>> {
        self.changes.iter().filter_map(|path| self.node(path))
    }

    /// The SHA-256 of one event's own text, or of the whole body, without the bytes of the values that change from try
    /// to try. Everything else counts to the byte.
    pub(crate) fn sha256(&self) -> [u8; 32] {
        *self.sha256.get_or_init(|| self.hashed())
    }

    fn hashed(&self) -> [u8; 32] {
        let (text, start) = self.item.map_or((self.body, 0), |item| (item.text().as_bytes(), item.start()));
        let mut spans: Vec<_> = self.changed().map(|node| (node.start(), node.end())).collect();
        spans.sort_unstable();
        let mut hash = Sha256::new();
        let mut at = start;
        for (from, to) in spans {
            hash.update(text.get(at.saturating_sub(start)..from.saturating_sub(start)).unwrap_or_default());
            at = at.max(to);
        }
        hash.update(text.get(at.saturating_sub(start)..).unwrap_or_default());
        hash.finalize().into()
    }

    /// The node at a path. A part that cannot be read has none: the next alternative may need no JSON, as Slack's slash
    /// commands are forms.
    fn node(&self, path: &Path) -> Option<Node<'a>> {
        match (path.root, path.segments.split_first()) {
            (Root::Item, _) => path.find(self.item?).ok().flatten(),
            (Root::Body, Some((Segment::Member(name), rest))) => {
                let (_, member) = self.members().ok()?.iter().find(|(key, _)| key == name)?;
                find(rest, *member).ok().flatten()
            }
            (Root::Body, _) => path.find(self.root().ok()?).ok().flatten(),
        }
    }

    /// A field of a form. A body that begins as JSON does is none: in a text of it, a stranger may have written fields. A
    /// form has these characters encoded.
    fn form_field(&self, name: &str) -> Option<String> {
        let text = std::str::from_utf8(self.body).ok()?;
        if text.trim_ascii_start().starts_with(['[', '{', '"']) {
            return None;
        }
        let (_, value) = crate::request::form_pairs(text).find(|(key, _)| key == name.as_bytes())?;
        String::from_utf8(value).ok()
    }
}

/// The text of the first element with this name in a base64 XML document. This is enough for one word of a verified
/// payload; it expands nothing and reads nothing nested.
fn xml_text(base64: &str, element: &str) -> Option<String> {
    let compact: String = base64.split_ascii_whitespace().collect();
    let xml = String::from_utf8(STANDARD.decode(compact).ok()?).ok()?;
    let (_, after) = xml.split_once(&format!("<{element}>"))?;
    let (text, _) = after.split_once(&format!("</{element}>"))?;
    (!text.contains('<')).then(|| text.to_owned())
}
