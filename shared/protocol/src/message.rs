//! Queue messages: versioned JSON text. Usually a hint.

use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::key::{RecordKey, RecordKind};

/// The version that this code writes. It acts on no other.
pub const MESSAGE_VERSION: i64 = 1;

/// A message of this version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum Message {
    /// A hint to process this record.
    Ref {
        /// The record.
        pk: RecordKey,
    },
    /// The same for an event whose handler is slow. It has a queue of its own, so that it delays no other event.
    Slow {
        /// The record.
        pk: RecordKey,
        /// The handler.
        handler: String,
    },
    /// The only copy of a delivery that was acknowledged while the store was down.
    Full(Box<Claim>),
}

/// A queue of hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Deliveries, envelopes and events, for the worker.
    Events,
    /// Those of slow handlers, for the worker.
    SlowEvents,
    /// Effects, for the dispatcher.
    Effects,
}

/// Why a message must not be acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MessageError {
    /// Another version wrote it. It must wait for a deployment that understands it.
    #[error("this version does not know the message's version or kind")]
    UnknownVersion,
    /// It is not a hookonce message.
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
    /// Encodes the message as text that SQS accepts.
    pub fn encode(&self) -> String {
        // Serialising plain data into memory cannot fail. Empty text would be refused as malformed.
        let text = serde_json::to_string(&Outgoing { v: MESSAGE_VERSION, message: self }).unwrap_or_default();
        // SQS refuses these two characters and control characters, and JSON escapes only the latter. They occur only in
        // strings, where the escape means the same.
        if text.contains(['\u{fffe}', '\u{ffff}']) {
            text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
        } else {
            text
        }
    }

    /// Decodes the text of a queue message.
    ///
    /// # Errors
    /// [`MessageError`] when the text is not a message, or is one of another version.
    pub fn decode(text: &str) -> Result<Self, MessageError> {
        let version: VersionOnly = serde_json::from_str(text).map_err(|_| MessageError::Malformed)?;
        if version.v != MESSAGE_VERSION {
            return Err(MessageError::UnknownVersion);
        }
        serde_json::from_str(text).map_err(|_| MessageError::UnknownVersion)
    }

    /// Whether the message only names a record, which is durable without it.
    pub fn is_hint(&self) -> bool {
        match self {
            Self::Ref { .. } | Self::Slow { .. } => true,
            Self::Full(_) => false,
        }
    }

    /// The record that the message is about.
    pub fn record_key(&self) -> &RecordKey {
        match self {
            Self::Ref { pk } | Self::Slow { pk, .. } => pk,
            Self::Full(claim) => &claim.pk,
        }
    }

    /// The queue that the message belongs in.
    pub fn lane(&self) -> Lane {
        match self.record_key().kind() {
            RecordKind::Effect => Lane::Effects,
            RecordKind::Delivery | RecordKind::Event | RecordKind::Envelope => match self {
                Self::Slow { .. } => Lane::SlowEvents,
                Self::Ref { .. } | Self::Full(_) => Lane::Events,
            },
        }
    }
}
