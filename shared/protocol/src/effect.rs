//! Effects that leave the account, as a plan asks for them.
//!
//! A plan cannot call anything. It names what is to be sent and where, and the commit stores one record for each effect
//! beside the event's own record. Bytes, method and path never change after that, so every repeat of the call is the same.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::{EndpointId, EndpointIdError};

/// The longest name that a plan gives to an effect, in bytes.
pub const EFFECT_NAME_BYTES_MAX: usize = 64;

/// The largest stored payload of an effect, in bytes.
pub const EFFECT_BYTES_MAX: usize = 64 * 1024;

/// The id of a destination: one address outside, its promise, its secrets and its time-outs.
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
    /// [`DestinationIdError`] when it has not the form of an endpoint id.
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
        let fits = (1..=EFFECT_NAME_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        if fits && plain { Ok(Self(text.to_owned())) } else { Err(EffectNameError) }
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
