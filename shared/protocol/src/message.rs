//! Queue messages: versioned JSON text. Usually a hint.
//!
//! A hint only names a record, so whoever writes one decides nothing. A message with a payload is believed, so it is
//! sealed: a code over the exact text of its claim, by a key that only the functions read which make or take such
//! messages.
//!
//! Architecture Invariant: no text becomes a [`Message::Full`] before its seal has been verified.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::claim::Claim;
use crate::key::{RecordKey, RecordKind};

/// The version that this code writes. It acts on no other.
pub const MESSAGE_VERSION: i64 = 1;

/// What a seal is made over besides the claim, so that no other use of the key makes one.
const SEALED_FOR: &[u8] = b"hookonce full message 1\n";

/// A message of this version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
pub enum HintQueue {
    /// Deliveries, envelopes and events, for the worker.
    Main,
    /// Those of slow handlers, for the worker.
    Slow,
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
    /// It carries a payload, and its seal was not made with the key: no webhook function of this stack made it.
    #[error("the message carries a payload that the webhook function did not seal")]
    Forged,
    /// It carries a payload, and the key that verifies it is not known.
    #[error("the message carries a payload, and the message key is not known")]
    Unverified,
}

/// The key that seals messages with a payload. One for each stack, made once.
#[derive(Clone)]
pub struct MessageKey([u8; MESSAGE_KEY_BYTES]);

/// The length of a message key, in bytes.
pub const MESSAGE_KEY_BYTES: usize = 32;

impl MessageKey {
    /// The key of these random bytes.
    pub const fn new(bytes: [u8; MESSAGE_KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads a stored key. `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text.trim_end()).ok()?.try_into().ok().map(Self)
    }

    /// The key as it is stored: base64. It is a secret.
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }

    fn mac(&self, claim: &str) -> Option<Hmac<Sha256>> {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(SEALED_FOR);
        mac.update(claim.as_bytes());
        Some(mac)
    }

    fn seal(&self, claim: &str) -> Option<String> {
        Some(STANDARD.encode(self.mac(claim)?.finalize().into_bytes()))
    }

    /// Whether this key sealed the text. Takes the same time wherever the seals differ.
    fn has_sealed(&self, claim: &str, seal: &str) -> bool {
        let Ok(seal) = STANDARD.decode(seal) else { return false };
        self.mac(claim).is_some_and(|mac| mac.verify_slice(&seal).is_ok())
    }
}

/// It is a secret, so it does not print.
impl fmt::Debug for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageKey(..)")
    }
}

/// The text of a message, behind its version.
#[derive(Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
enum Wire<'a> {
    Ref {
        pk: Cow<'a, RecordKey>,
    },
    Slow {
        pk: Cow<'a, RecordKey>,
        handler: Cow<'a, str>,
    },
    /// A claim as text, because the seal covers text. What lacks either is forged, like what has a wrong one.
    Full {
        #[serde(default)]
        claim: Cow<'a, str>,
        #[serde(default)]
        mac: Cow<'a, str>,
    },
}

#[derive(Serialize)]
struct Outgoing<'a> {
    v: i64,
    #[serde(flatten)]
    message: Wire<'a>,
}

#[derive(Deserialize)]
struct VersionOnly {
    v: i64,
}

impl Message {
    /// Encodes the message as text that SQS accepts. `None` if it carries a payload and there is no key to seal it
    /// with.
    pub fn encode(&self, key: Option<&MessageKey>) -> Option<String> {
        let message = match self {
            Self::Ref { pk } => Wire::Ref { pk: Cow::Borrowed(pk) },
            Self::Slow { pk, handler } => Wire::Slow { pk: Cow::Borrowed(pk), handler: handler.into() },
            Self::Full(claim) => {
                let claim = serde_json::to_string(claim).ok()?;
                let mac = key?.seal(&claim)?.into();
                Wire::Full { claim: claim.into(), mac }
            }
        };
        // Serialising plain data into memory cannot fail.
        let text = serde_json::to_string(&Outgoing { v: MESSAGE_VERSION, message }).ok()?;
        // SQS refuses these two characters and control characters, and JSON escapes only the latter. They occur only in
        // strings, where the escape means the same.
        Some(if text.contains(['\u{fffe}', '\u{ffff}']) {
            text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
        } else {
            text
        })
    }

    /// The length of the encoded message, in bytes. It is the same with every key.
    pub fn encoded_bytes(&self) -> usize {
        self.encode(Some(&MessageKey([0; MESSAGE_KEY_BYTES]))).map_or(usize::MAX, |text| text.len())
    }

    /// Decodes the text of a queue message. Of a payload, verifies the seal before it reads anything.
    ///
    /// # Errors
    /// [`MessageError`] when the text is not a message, is one of another version, or carries a payload that the key
    /// did not seal.
    pub fn decode(text: &str, key: Option<&MessageKey>) -> Result<Self, MessageError> {
        let version: VersionOnly = serde_json::from_str(text).map_err(|_| MessageError::Malformed)?;
        if version.v != MESSAGE_VERSION {
            return Err(MessageError::UnknownVersion);
        }
        match serde_json::from_str(text).map_err(|_| MessageError::UnknownVersion)? {
            Wire::Ref { pk } => Ok(Self::Ref { pk: pk.into_owned() }),
            Wire::Slow { pk, handler } => Ok(Self::Slow { pk: pk.into_owned(), handler: handler.into_owned() }),
            Wire::Full { claim, mac } => {
                let key = key.ok_or(MessageError::Unverified)?;
                if !key.has_sealed(&claim, &mac) {
                    return Err(MessageError::Forged);
                }
                serde_json::from_str(&claim).map(Self::Full).map_err(|_| MessageError::UnknownVersion)
            }
        }
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
    pub fn lane(&self) -> HintQueue {
        match self.record_key().kind() {
            RecordKind::Effect => HintQueue::Effects,
            RecordKind::Delivery | RecordKind::Event | RecordKind::Envelope => match self {
                Self::Slow { .. } => HintQueue::Slow,
                Self::Ref { .. } | Self::Full(_) => HintQueue::Main,
            },
        }
    }
}
