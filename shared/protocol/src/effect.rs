//! Effects that leave the account, as a plan asks for them.
//!
//! A plan cannot call anything. It names what is to be sent and where, and the commit stores one record for each effect
//! beside the event's own record. Bytes, method and path never change after that, so every repeat of the call is the
//! same.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::key::{EndpointId, EndpointIdError, is_plain};
use crate::place::present;

/// The longest name that a plan gives to an effect, in bytes.
pub const EFFECT_NAME_BYTES_MAX: usize = 64;

/// The largest stored payload of an effect, in bytes.
pub const EFFECT_BYTES_MAX: usize = 64 * 1024;

/// The longest path of an effect, in bytes.
pub const EFFECT_PATH_BYTES_MAX: usize = 1_024;

/// The id of a destination: one address outside, its promise, its secrets and its timeouts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DestinationId(EndpointId);

/// The text is not a valid id of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a destination id has 1 to 64 of the characters a-z, 0-9, '-' and '_'")]
pub struct DestinationIdError;

impl DestinationId {
    /// Parses the id of a destination.
    ///
    /// # Errors
    /// [`DestinationIdError`] when it does not have the form of an endpoint id.
    pub fn parse(text: &str) -> Result<Self, DestinationIdError> {
        EndpointId::parse(text).map(Self).map_err(|EndpointIdError| DestinationIdError)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for DestinationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What the names of forwarded events begin with. No plan can give such a name.
const FORWARD: &str = "forward:";

/// The name of an effect: unique within its event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EffectName(String);

/// The text is not a valid name of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of an effect has 1 to 64 of the characters a-z, 0-9, '-' and '_'")]
pub struct EffectNameError;

impl EffectName {
    /// Parses the name that a plan gives.
    ///
    /// # Errors
    /// [`EffectNameError`] when it is empty, too long or has a character other than `a-z`, `0-9`, `-`, `_`.
    pub fn parse(text: &str) -> Result<Self, EffectNameError> {
        if is_plain(text, EFFECT_NAME_BYTES_MAX) { Ok(Self(text.to_owned())) } else { Err(EffectNameError) }
    }

    /// The name of an event that a route forwards to this destination.
    pub fn forward(destination: &DestinationId) -> Self {
        Self(format!("{FORWARD}{destination}"))
    }

    /// Parses a stored name, of a plan's effect or of a forwarded event.
    pub fn stored(text: &str) -> Option<Self> {
        let plain = text.strip_prefix(FORWARD).unwrap_or(text);
        Self::parse(plain).is_ok().then(|| Self(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EffectName {
    type Error = EffectNameError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<EffectName> for String {
    fn from(name: EffectName) -> Self {
        name.0
    }
}

impl fmt::Display for EffectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The method of a call over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `POST`.
    #[default]
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

impl Method {
    /// The method as HTTP has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Reads a stored method.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Post, Self::Put, Self::Patch, Self::Delete].into_iter().find(|method| method.as_str() == text)
    }
}

/// A path that could leave the address of its destination, or that no HTTP client sends as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[error(
    "must be empty, or begin with one `/` and hold neither `//`, `..`, `\\` nor `.` as a step, not even percent-encoded, and \
     no `#`, be UTF-8, and have at most {EFFECT_PATH_BYTES_MAX} bytes of a URL's characters"
)]
pub struct EffectPathError;

/// Checks what follows the address of a destination. Only the path itself is decoded: a query cannot leave the address.
///
/// # Errors
/// [`EffectPathError`] when it is neither empty nor a path below the address.
pub fn check_path(path: &str) -> Result<(), EffectPathError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%".contains(&byte);
    let begins = path.is_empty() || path.starts_with('/');
    if !begins || path.len() > EFFECT_PATH_BYTES_MAX || !path.bytes().all(plain) {
        return Err(EffectPathError);
    }
    let mut decoded = path.split('?').next().unwrap_or_default().as_bytes().to_vec();
    // A server in front of another may decode once more, so it is looked at in every form.
    loop {
        let has = |part: &[u8]| decoded.windows(part.len()).any(|window| window == part);
        // What follows a `;` is a parameter to some servers.
        let dot = |step: &[u8]| step == b"." || step.starts_with(b".;");
        if decoded.split(|byte| *byte == b'/').any(dot)
            || has(b"//")
            || has(b"..")
            || has(b"\\")
            || decoded.iter().any(u8::is_ascii_control)
            // Some servers decode an overlong form, such as `%c0%ae`, to a dot, although it is not valid UTF-8.
            || std::str::from_utf8(&decoded).is_err()
        {
            return Err(EffectPathError);
        }
        let next = percent_decoded(&decoded).ok_or(EffectPathError)?;
        if next == decoded {
            return Ok(());
        }
        decoded = next;
    }
}

/// `None` where two hexadecimal digits do not follow a `%`.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        decoded.push(match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                digit(*high)? * 16 + digit(*low)?
            }
            (b'%', _) => return None,
            (other, _) => *other,
        });
    }
    Some(decoded)
}

/// What an effect sends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Payload {
    /// JSON, sent as it was written: no number loses a digit.
    Json(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Payload {
    /// The bytes that are sent.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The type of the content.
    pub const fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Bytes(_) => "application/octet-stream",
        }
    }
}

/// One effect, as a plan asks for it.
///
/// ```json
/// {"effect": "receipt", "destination": "receipts", "payload": {"to": "cus_1", "total": 1.10}}
/// {"effect": "charge", "destination": "psp", "payload_base64": "YW1vdW50PTE=", "method": "PUT", "path": "/v1/charges"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Effect {
    /// Its name, unique within the event.
    pub name: EffectName,
    /// Where it goes.
    pub destination: DestinationId,
    /// What is sent.
    pub payload: Payload,
    /// The method.
    pub method: Method,
    /// What follows the address of the destination. Begins with `/`, or is empty.
    pub path: String,
}

/// What is no effect.
#[derive(Debug, thiserror::Error)]
pub enum EffectError {
    /// The name.
    #[error("the effect has no valid name")]
    Name(#[from] EffectNameError),
    /// The destination.
    #[error("the effect has no valid destination")]
    Destination(#[from] DestinationIdError),
    /// The payload.
    #[error("the payload cannot be written as JSON")]
    Payload(#[from] serde_json::Error),
}

impl Effect {
    /// An effect that sends a value as JSON.
    ///
    /// # Errors
    /// [`EffectError`] when the name or the destination does not have the form of one, or the value cannot be written
    /// as JSON.
    pub fn json<T: Serialize + ?Sized>(name: &str, destination: &str, value: &T) -> Result<Self, EffectError> {
        Self::new(name, destination, Payload::Json(serde_json::to_string(value)?))
    }

    /// An effect that sends these bytes.
    ///
    /// # Errors
    /// [`EffectError`] when the name or the destination does not have the form of one.
    pub fn bytes(name: &str, destination: &str, bytes: impl Into<Vec<u8>>) -> Result<Self, EffectError> {
        Self::new(name, destination, Payload::Bytes(bytes.into()))
    }

    fn new(name: &str, destination: &str, payload: Payload) -> Result<Self, EffectError> {
        let (name, destination) = (EffectName::parse(name)?, DestinationId::parse(destination)?);
        Ok(Self { name, destination, payload, method: Method::Post, path: String::new() })
    }

    /// The same with another method than `POST`.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// The same with what follows the address of the destination, such as `/v1/charges`.
    #[must_use]
    pub fn path(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }
}

/// The JSON form of an [`Effect`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectForm {
    effect: EffectName,
    destination: DestinationId,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    payload_base64: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    method: Method,
    #[serde(default, skip_serializing_if = "is_default")]
    path: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error as _;
        let (payload, payload_base64) = match &self.payload {
            Payload::Json(text) => (Some(RawValue::from_string(text.clone()).map_err(S::Error::custom)?), None),
            Payload::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        let Self { name, destination, payload: _, method, path } = self.clone();
        EffectForm { effect: name, destination, payload, payload_base64, method, path }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Effect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use de::Error as _;
        let EffectForm { effect, destination, payload, payload_base64, method, path } =
            EffectForm::deserialize(deserializer)?;
        let payload = match (payload, payload_base64) {
            (Some(json), None) => Payload::Json(json.get().to_owned()),
            (None, Some(text)) => {
                Payload::Bytes(STANDARD.decode(text).map_err(|_| D::Error::custom("not standard base64"))?)
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(D::Error::custom("needs exactly one of `payload` and `payload_base64`"));
            }
        };
        Ok(Self { name: effect, destination, payload, method, path })
    }
}

/// One effect that the commit stores: a plan's own, or a forwarded event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EffectDraft {
    /// Its name.
    pub name: EffectName,
    /// Where it goes.
    pub destination: DestinationId,
    /// The method.
    pub method: Method,
    /// What follows the address of the destination. Begins with `/`, or is empty.
    pub path: String,
    /// The type of its content.
    pub content_type: String,
    /// The zstd-compressed payload.
    pub body: Vec<u8>,
    /// The hash of the payload.
    pub sha256: [u8; 32],
}
