//! Handshakes: requests with which a provider tests an endpoint. They are answered at once and never stored.

use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use crate::keyring::Keyring;
use crate::limits::CHALLENGE_BYTES_MAX;
use crate::refusal::Refusal;
use crate::request::{Request, form_fields, is_form};
use crate::scheme::envelope::LazyJson;
use crate::scheme::{Scheme, sns};
use crate::settings::{Settings, VERIFY_TOKEN};
use crate::source::Source;
use crate::template::{TextPart, TextTemplate};

/// The answer to a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The value of `content-type`; empty when there is no body.
    pub content_type: String,
    /// Further headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// A URL to visit once to confirm a subscription. It was checked to be the provider's.
    pub visit: Option<String>,
    /// A secret that the provider sent in this request, for a person to configure.
    pub handed_out: Option<HandedOut>,
}

/// A secret that came with a handshake: Notion's verification token, the secret of a header exchange.
///
/// Anyone can send one, so it is never used by itself: a person compares it with what the provider shows, and
/// configures it. It does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct HandedOut(String);

impl HandedOut {
    /// The secret itself. Show it only to the operator who asked for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for HandedOut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HandedOut")
    }
}

/// The method of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    /// Answered only after the request passed a scheme, unless the handshake is never signed.
    Post,
}

impl Method {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
        }
    }
}

/// The value that a handshake requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `*`: any value.
    Any,
    /// `[]`: an array without elements.
    EmptyArray,
    Is(String),
}

impl Condition {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            "[]" => Self::EmptyArray,
            other => Self::Is(other.to_owned()),
        }
    }
}

/// A field of a JSON answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonField {
    Text(TextTemplate),
    Number(i64),
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandshakeBody {
    Empty,
    Text(TextTemplate),
    Json(Vec<(String, JsonField)>),
}

/// One kind of handshake and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) method: Method,
    /// A `POST` without any signature.
    pub(crate) unsigned: bool,
    pub(crate) when: Vec<(Source, Condition)>,
    pub(crate) absent: Vec<Source>,
    pub(crate) token: Option<Source>,
    pub(crate) status: u16,
    pub(crate) body: HandshakeBody,
    pub(crate) headers: Vec<(String, TextTemplate)>,
    /// A secret that the provider hands out in the request.
    pub(crate) hands_out: Option<Source>,
    /// A subscription of AWS SNS.
    pub(crate) sns_subscription: bool,
}

/// What a handshake may read.
pub(crate) struct Question<'a> {
    request: &'a Request<'a>,
    json: LazyJson<'a>,
    keyring: &'a Keyring,
    settings: &'a Settings,
    /// The scheme and secret that sign the answer.
    scheme: Option<&'a Scheme>,
    secret_index: usize,
}

impl<'a> Question<'a> {
    pub(crate) const fn new(
        request: &'a Request<'a>,
        keyring: &'a Keyring,
        settings: &'a Settings,
        scheme: Option<&'a Scheme>,
        secret_index: usize,
    ) -> Self {
        Self { request, json: LazyJson::new(request.body), keyring, settings, scheme, secret_index }
    }

    fn value(&self, source: &Source) -> Result<Option<String>, Refusal> {
        let value = match source {
            Source::Header(name) => self.request.plain_header(name)?.map(str::to_owned),
            Source::Query(name) => self.request.query(name)?,
            Source::Setting(name) => self.settings.get(name).map(str::to_owned),
            // A body that is not JSON is no handshake.
            Source::Json(path) => self.json.scalar(path).unwrap_or_default(),
            // A body that is no form is no handshake, either.
            Source::Form(name) => self.form_field(name),
            Source::FormXml { .. }
            | Source::Word(_)
            | Source::AdyenText
            | Source::HashOf(_)
            | Source::SignedAt
            | Source::RequestSha256
            | Source::Sha256
            | Source::DeliverySha256 => None,
        };
        Ok(value.filter(|value| !value.is_empty()))
    }

    fn form_field(&self, name: &str) -> Option<String> {
        self.request.agreed_header("content-type").filter(|kind| is_form(kind))?;
        let fields = form_fields(self.request.body).ok()?;
        let (_, value) = fields.into_iter().find(|(key, _)| key == name.as_bytes())?;
        String::from_utf8(value).ok()
    }

    fn meets(&self, source: &Source, condition: &Condition) -> Result<bool, Refusal> {
        match (condition, source) {
            (Condition::Any, _) => Ok(self.value(source)?.is_some()),
            (Condition::Is(expected), _) => Ok(self.value(source)?.as_ref() == Some(expected)),
            (Condition::EmptyArray, Source::Json(path)) => {
                let node = self.json.node(path).unwrap_or_default();
                Ok(node
                    .is_some_and(|node| node.is_array() && node.elements().is_ok_and(|elements| elements.is_empty())))
            }
            (Condition::EmptyArray, _) => Ok(false),
        }
    }

    fn present(&self, source: &Source) -> Result<bool, Refusal> {
        match source {
            Source::Json(path) => {
                Ok(self.json.node(path).unwrap_or_default().is_some_and(|node| node.text() != "null"))
            }
            other => Ok(self.value(other)?.is_some()),
        }
    }

    /// Compares the configured verify token in constant time. A secret never takes its place: the token travels in a
    /// URL, which proxies log.
    fn token_fits(&self, given: &str) -> Result<bool, Refusal> {
        let expected = self.settings.get(VERIFY_TOKEN).ok_or(Refusal::NotConfigured)?;
        Ok(expected.as_bytes().ct_eq(given.as_bytes()).into())
    }

    fn text(&self, template: &TextTemplate) -> Result<String, Refusal> {
        let mut text = String::new();
        for part in &template.0 {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Present(_) | TextPart::Is(..) => {}
                TextPart::Value(source) => text.push_str(&self.echoed(source)?),
                TextPart::Hmac(source) => text.push_str(&self.signed(&self.echoed(source)?)?),
            }
        }
        Ok(text)
    }

    fn echoed(&self, source: &Source) -> Result<String, Refusal> {
        let missing = if matches!(source, Source::Setting(_)) { Refusal::NotConfigured } else { Refusal::Malformed };
        let value = self.value(source)?.ok_or(missing)?;
        if value.len() > CHALLENGE_BYTES_MAX || value.chars().any(char::is_control) {
            return Err(Refusal::Malformed);
        }
        Ok(value)
    }

    /// Signs a challenge with the endpoint's secret.
    ///
    /// At X and Braintree anyone may ask for this, and the key is the one that signs deliveries. So only words are
    /// signed, and no word is taken for a delivery of such a provider. A scheme may narrow this further.
    fn signed(&self, challenge: &str) -> Result<String, Refusal> {
        if !is_word(challenge.as_bytes()) {
            return Err(Refusal::Malformed);
        }
        let secret = self.keyring.secrets().get(self.secret_index).ok_or(Refusal::NotConfigured)?;
        let scheme = self.scheme.ok_or(Refusal::NotConfigured)?;
        scheme.kind().sign_challenge(challenge, secret).ok_or(Refusal::Malformed)
    }
}

/// True for letters, digits, `-` and `_` alone.
pub(crate) fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl Handshake {
    /// True when a request must pass a scheme before it is answered.
    pub(crate) fn needs_proof(&self) -> bool {
        self.method == Method::Post && !self.unsigned
    }

    /// True when anyone can get a text signed with the endpoint's secret.
    pub(crate) fn signs_for_strangers(&self) -> bool {
        let signs = match &self.body {
            HandshakeBody::Empty => false,
            HandshakeBody::Text(template) => template.signs(),
            HandshakeBody::Json(fields) => {
                fields.iter().any(|(_, field)| matches!(field, JsonField::Text(template) if template.signs()))
            }
        };
        !self.needs_proof() && (signs || self.headers.iter().any(|(_, template)| template.signs()))
    }

    /// True when the request is this handshake.
    pub(crate) fn applies(&self, question: &Question<'_>) -> Result<bool, Refusal> {
        for (source, condition) in &self.when {
            if !question.meets(source, condition)? {
                return Ok(false);
            }
        }
        for source in &self.absent {
            if question.present(source)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Answers the handshake.
    pub(crate) fn answer(&self, question: &Question<'_>) -> Result<HandshakeAnswer, Refusal> {
        if let Some(source) = &self.token {
            let given = question.value(source)?.ok_or(Refusal::SignatureMissing)?;
            if !question.token_fits(&given)? {
                return Err(Refusal::SignatureMismatch);
            }
        }
        let (content_type, body) = match &self.body {
            HandshakeBody::Empty => ("", Vec::new()),
            HandshakeBody::Text(template) => ("text/plain; charset=utf-8", question.text(template)?.into_bytes()),
            HandshakeBody::Json(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    object.insert(
                        name.clone(),
                        match field {
                            JsonField::Text(template) => Value::String(question.text(template)?),
                            JsonField::Number(number) => Value::from(*number),
                        },
                    );
                }
                ("application/json", Value::Object(object).to_string().into_bytes())
            }
        };
        // A browser must never read an echoed text as a page.
        let mut headers = vec![("x-content-type-options".to_owned(), "nosniff".to_owned())];
        for (name, template) in &self.headers {
            headers.push((name.clone(), question.text(template)?));
        }
        let handed_out = self.hands_out.as_ref().map(|source| question.echoed(source)).transpose()?.map(HandedOut);
        let confirms = self.sns_subscription.then(|| sns::confirmation_url(question.request.body, question.settings));
        let (status, content_type, visit) = (self.status, content_type.to_owned(), confirms.flatten());
        Ok(HandshakeAnswer { status, content_type, headers, body, visit, handed_out })
    }
}
