//! Queue messages: JSON text with a version, a hint in the usual case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::item::base64_bytes;
use crate::key::{ClaimId, RecordKey};
use crate::record::{Due, Record, Status, StoredBody, journal_shard};
use crate::time::EpochMs;
use crate::timing::Timing;

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
    Full(Box<Payload>),
}

/// What a claim would have written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payload {
    /// The record to be claimed.
    pub pk: RecordKey,
    /// The claim of the request that was acknowledged.
    pub claim_id: ClaimId,
    /// The provider's id in the catalog.
    pub provider: String,
    /// The provider's word for what happened.
    pub event_type: String,
    /// When the delivery was received.
    pub received_at: EpochMs,
    /// Until when it may be claimed. Later, its dedup record may have expired.
    pub accept_before: EpochMs,
    /// The compressed payload.
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
    /// Hash of the raw bytes.
    #[serde(with = "base64_array")]
    pub body_sha256: [u8; 32],
    /// The kept headers.
    pub headers: BTreeMap<String, String>,
    /// Which secret verified the delivery.
    pub secret_index: i64,
    /// The endpoint's policy on another body under a known id.
    pub quarantine_mismatch: bool,
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
            Self::Full(payload) => &payload.pk,
        }
    }
}

impl Payload {
    /// The message that carries what the claim of `record` would have stored. `None` if its body is not inline.
    pub fn of_claim(record: &Record, timing: &Timing) -> Option<Self> {
        let StoredBody::Inline(body) = record.body.as_ref()?;
        Some(Self {
            pk: record.key.clone(),
            claim_id: record.claim_id.clone(),
            provider: record.provider.clone(),
            event_type: record.event_type.clone(),
            received_at: record.received_at,
            accept_before: record.received_at.plus(timing.accept_age_max),
            body: body.clone(),
            body_sha256: record.body_sha256,
            headers: record.headers.clone(),
            secret_index: record.secret_index,
            quarantine_mismatch: record.quarantine_mismatch,
        })
    }

    /// The record as the ingress would have claimed it.
    pub fn record(&self, timing: &Timing, now: EpochMs) -> Record {
        Record {
            key: self.pk.clone(),
            status: Status::Pending,
            claim_id: self.claim_id.clone(),
            generation: 0,
            provider: self.provider.clone(),
            event_type: self.event_type.clone(),
            body: Some(StoredBody::Inline(self.body.clone())),
            body_sha256: self.body_sha256,
            headers: self.headers.clone(),
            secret_index: self.secret_index,
            received_at: self.received_at,
            journal_shard: journal_shard(self.received_at, self.pk.shard(timing.shards)),
            due: Some(Due::pending(&self.pk, timing.shards, now.plus(timing.lease))),
            attempts: 0,
            resends: 0,
            dead_letters: 0,
            parent: None,
            expires_at: Some(timing.expiry(self.pk.kind(), self.received_at)),
            outcome: None,
            last_error: None,
            dead_reason: None,
            duplicate_count: 0,
            last_seen_at: None,
            processed_at: None,
            dead_at: None,
            discarded_at: None,
            accept_duplicate: false,
            quarantine_mismatch: self.quarantine_mismatch,
        }
    }
}

mod base64_array {
    use serde::{Deserializer, Serializer, de};

    use crate::item::base64_bytes;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        base64_bytes::serialize(bytes, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        base64_bytes::deserialize(deserializer)?.try_into().map_err(|_| de::Error::custom("not 32 bytes"))
    }
}
