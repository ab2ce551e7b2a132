//! The common part of schemes that sign a message: the place of the signature, the signed text and the time.

use std::borrow::Cow;

use hookonce_protocol::time::Millis;

use crate::json::{JsonError, Node};
use crate::path::Path;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::encoding::Encoding;
use crate::scheme::format::{Candidates, Format};
use crate::scheme::proof::Context;
use crate::scheme::timestamp::{Timestamp, TimestampSource, check_skew};
use crate::template::{SignedPart, punctuation_decoded};

/// Where the signature is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignatureSource {
    /// One header.
    Header(String),
    /// Numbered headers with the same prefix: `x-docusign-signature-*`.
    Headers(String),
    /// In the JSON body.
    Json(Path),
}

impl SignatureSource {
    pub(crate) fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        match self {
            Self::Header(name) => request.has_header(name),
            Self::Headers(prefix) => request.headers.iter().any(|(name, _)| starts_with(name, prefix)),
            Self::Json(_) => true,
        }
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// How a provider wraps a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) signature: SignatureSource,
    pub(crate) format: Format,
    pub(crate) encoding: Encoding,
    pub(crate) signs: Vec<SignedPart>,
    pub(crate) timestamp: Option<Timestamp>,
}

/// A piece of the signed message.
pub(crate) enum Chunk<'a> {
    Bytes(Cow<'a, [u8]>),
    /// The secret itself.
    Key,
}

/// The parts of an envelope. Nothing in it is verified yet.
pub(crate) struct Opened<'a> {
    /// The signatures to try, decoded; never empty.
    pub(crate) signatures: Vec<Vec<u8>>,
    pub(crate) message: Vec<Chunk<'a>>,
    /// The claimed time of signing, in milliseconds since the Unix epoch, and the tolerance that applies.
    skew: Option<(i64, Millis)>,
}

impl Opened<'_> {
    /// The claimed time of signing, if the age is checked.
    #[cfg(feature = "tools")]
    pub(crate) fn claimed_time(&self) -> Option<i64> {
        self.skew.map(|(at, _)| at)
    }

    /// Checks the age. Called after the signature matched, so out of range means late or replayed, not forged.
    pub(crate) fn check_skew(&self, context: &Context<'_>) -> Result<(), Refusal> {
        self.skew.map_or(Ok(()), |(at, tolerance)| check_skew(at, context.now, tolerance))
    }
}

impl Envelope {
    /// Reads the parts of a request that this scheme needs.
    pub(crate) fn open<'a>(&self, context: &Context<'a>) -> Result<Opened<'a>, Refusal> {
        let request = context.request;
        let json = LazyJson::new(request.body);
        let texts = self.signature_texts(request, &json)?;
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let candidates = self.format.read(&texts)?;
        let signatures: Vec<Vec<u8>> =
            candidates.signatures.iter().filter_map(|text| self.encoding.decode(text)).collect();
        if signatures.is_empty() {
            return Err(Refusal::SignatureMalformed);
        }
        let stamp = self.timestamp_text(request, &candidates, &json)?;
        let skew = self.skew(context, stamp.as_deref())?;
        let mut message = Vec::with_capacity(self.signs.len());
        for (index, part) in self.signs.iter().enumerate() {
            message.push(match part {
                SignedPart::Literal(text) => Chunk::Bytes(Cow::Owned(text.as_bytes().to_vec())),
                SignedPart::Body => Chunk::Bytes(Cow::Borrowed(request.body)),
                SignedPart::Timestamp => owned(stamp.clone().ok_or(Refusal::TimestampMissing)?),
                SignedPart::Url => owned(context.url.clone().into_owned()),
                SignedPart::DecodedUrl => owned(punctuation_decoded(&context.url)),
                SignedPart::Method => Chunk::Bytes(Cow::Borrowed(request.method.as_bytes())),
                SignedPart::Header(name) => {
                    let value = request.plain_header(name)?.filter(|value| !value.is_empty());
                    let value = value.ok_or(Refusal::SignatureMissing)?;
                    if let Some([SignedPart::Literal(end), SignedPart::Timestamp]) =
                        self.signs.get(index + 1..index + 3)
                        && holds_a_time(value, end)
                    {
                        return Err(Refusal::SignatureMalformed);
                    }
                    Chunk::Bytes(Cow::Borrowed(value.as_bytes()))
                }
                SignedPart::Json(path) => owned(json.scalar(path)?.ok_or(Refusal::SignatureMissing)?),
                SignedPart::Key => Chunk::Key,
            });
        }
        Ok(Opened { signatures, message, skew })
    }

    fn signature_texts<'a>(&self, request: &Request<'a>, json: &LazyJson<'a>) -> Result<Vec<Cow<'a, str>>, Refusal> {
        match &self.signature {
            SignatureSource::Header(name) => {
                let text = request.single_header(name)?.ok_or(Refusal::SignatureMissing)?;
                Ok(vec![Cow::Borrowed(text)])
            }
            SignatureSource::Headers(prefix) => {
                let mut names: Vec<&str> = request
                    .headers
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .filter(|name| starts_with(name, prefix))
                    .collect();
                names.sort_unstable();
                let texts =
                    names.iter().map(|name| Ok(Cow::Borrowed(request.single_header(name)?.unwrap_or_default())));
                texts.collect()
            }
            SignatureSource::Json(path) => Ok(vec![Cow::Owned(json.scalar(path)?.ok_or(Refusal::SignatureMissing)?)]),
        }
    }

    fn timestamp_text(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        json: &LazyJson<'_>,
    ) -> Result<Option<String>, Refusal> {
        let text = match self.timestamp.as_ref().map(|timestamp| &timestamp.source) {
            None => None,
            Some(TimestampSource::Header(name)) => request.plain_header(name)?.map(str::to_owned),
            Some(TimestampSource::Pair(name)) => candidates.single(name)?.map(str::to_owned),
            Some(TimestampSource::Json(path)) => json.scalar(path)?,
        };
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// The time and tolerance to check the age by; `None` for a scheme without a timestamp.
    fn skew(&self, context: &Context<'_>, text: Option<&str>) -> Result<Option<(i64, Millis)>, Refusal> {
        let Some(timestamp) = &self.timestamp else { return Ok(None) };
        let at = timestamp.read(text.ok_or(Refusal::TimestampMissing)?)?;
        Ok(Some((at, context.tolerance.unwrap_or(timestamp.tolerance))))
    }
}

fn owned<'a>(text: String) -> Chunk<'a> {
    Chunk::Bytes(Cow::Owned(text.into_bytes()))
}

/// True if a signed value may have ended before its own end: what follows this separator in it looks like a time, and the
/// rest of it like the beginning of a body. A time in seconds has ten digits until 2286.
fn holds_a_time(value: &str, separator: &str) -> bool {
    let mut inner = value.split(separator).skip(1).peekable();
    while let Some(part) = inner.next() {
        if inner.peek().is_some() && part.len() >= 10 && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
    }
    false
}

/// The body as JSON, for the few schemes that put a signature or a timestamp inside it. It is parsed on first use, and
/// read only along the scheme's path, whose length is limited.
pub(crate) struct LazyJson<'a> {
    body: &'a [u8],
    root: std::cell::OnceCell<Result<Node<'a>, JsonError>>,
}

impl<'a> LazyJson<'a> {
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self { body, root: std::cell::OnceCell::new() }
    }

    pub(crate) fn node(&self, path: &Path) -> Result<Option<Node<'a>>, Refusal> {
        let root =
            (*self.root.get_or_init(|| Node::parse_unproven(self.body))).map_err(|_| Refusal::SignatureMalformed)?;
        path.find(root).map_err(|_| Refusal::SignatureMalformed)
    }

    pub(crate) fn scalar(&self, path: &Path) -> Result<Option<String>, Refusal> {
        Ok(self.node(path)?.and_then(|node| node.scalar()).filter(|text| !text.is_empty()))
    }
}
