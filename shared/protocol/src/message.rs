//! Queue messages: JSON text with a version, a hint in the usual case.

use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::key::RecordKey;

/// The version that this code writes, and the only one that it acts on.
pub const MESSAGE_VERSION: i64 = 1;

/// A message that this version understands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Message {
    /// A hint: look at this record.
    Ref {
        /// The record.
        pk: RecordKey,
    },
    /// The only copy of a delivery that was acknowledged while the store was down.
    Full(Box<Claim>),
}

/// A message that this version must not act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MessageError {
    /// Written by another version: it must wait for the deployment that understands it.
    #[error("the message's version or kind is unknown to this version")]
    UnknownVersion,
    /// Not one of ours.
    #[error("the message is not a versioned JSON message")]
    Malformed,
}

#[derive(Serialize)]
struct Outgoing<'a> {
    v: i64,
    #[serde(flatten)]
    message: &'a Message,
}

#[derive(Deserialize)]
struct VersionOnly {
    v: i64,
}

impl Message {
    /// As the text of a queue message: of characters that SQS takes.
    pub fn encode(&self) -> String {
        // Serialising plain data into memory has no failure; the empty text would be refused as malformed.
        let text = serde_json::to_string(&Outgoing { v: MESSAGE_VERSION, message: self }).unwrap_or_default();
        // What SQS refuses beside control characters, which JSON escapes. Only in strings, so the escape means the same.
        if text.contains(['\u{fffe}', '\u{ffff}']) {
            text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
        } else {
            text
        }
    }

    /// From the text of a queue message.
    ///
    /// # Errors
    /// [`MessageError`] when the text is not a message, or one of another version.
    pub fn decode(text: &str) -> Result<Self, MessageError> {
        let version: VersionOnly = serde_json::from_str(text).map_err(|_| MessageError::Malformed)?;
        if version.v != MESSAGE_VERSION {
            return Err(MessageError::UnknownVersion);
        }
        serde_json::from_str(text).map_err(|_| MessageError::UnknownVersion)
    }

    /// The record that the message is about.
    pub fn record_key(&self) -> &RecordKey {
        match self {
            Self::Ref { pk } => pk,
            Self::Full(claim) => &claim.pk,
        }
    }
}
