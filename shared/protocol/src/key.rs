//! Names of endpoints, records and domain keys.
//!
//! `#` separates the parts of a key, so no part that a provider chooses may contain it: such a part, and one that is
//! longer than [`PART_BYTES_MAX`], is replaced by its hash. Two different ids can therefore never meet in one key.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest part that stands in a key as it is, in bytes.
pub const PART_BYTES_MAX: usize = 512;

/// The longest endpoint id, in bytes.
pub const ENDPOINT_BYTES_MAX: usize = 64;

/// One configured receiver: tenant, provider, secrets and policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EndpointId(String);

/// An endpoint id that cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an endpoint id has 1 to 64 of the characters a-z, 0-9, '-' and '_'")]
pub struct EndpointIdError;

impl EndpointId {
    /// Checks an endpoint id.
    ///
    /// # Errors
    /// [`EndpointIdError`] when it is empty, too long or has another character than `a-z`, `0-9`, `-`, `_`.
    pub fn parse(text: &str) -> Result<Self, EndpointIdError> {
        let fits = (1..=ENDPOINT_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        if fits && plain { Ok(Self(text.to_owned())) } else { Err(EndpointIdError) }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EndpointId {
    type Error = EndpointIdError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<EndpointId> for String {
    fn from(endpoint: EndpointId) -> Self {
        endpoint.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a record stands for, readable from its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// One delivery that is one event.
    Delivery,
    /// One event of a provider that batches; it must outlive every envelope that may still name it.
    Event,
    /// A delivery that carries several events and is fanned out into their records.
    Envelope,
}

/// The partition key of a record in the inbox table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordKey(String);

const PREFIX: &str = "in#";
const EVENT: &str = "ev#";
const ENVELOPE: &str = "en#";
const ALTERNATE: &str = "#alt#";

impl RecordKey {
    /// The record of a delivery that is one event.
    pub fn delivery(endpoint: &EndpointId, delivery_key: &str) -> Self {
        Self(format!("{PREFIX}{endpoint}#{}", part(delivery_key)))
    }

    /// The record of one event of a provider that batches.
    pub fn event(endpoint: &EndpointId, event_id: &str) -> Self {
        Self(format!("{PREFIX}{endpoint}#{EVENT}{}", part(event_id)))
    }

    /// The record of a delivery that carries several events.
    pub fn envelope(endpoint: &EndpointId, body_sha256: &[u8; 32]) -> Self {
        Self(format!("{PREFIX}{endpoint}#{ENVELOPE}{}", hex(body_sha256)))
    }

    /// Where another body is kept that came under this record's id.
    #[must_use]
    pub fn alternate(&self, body_sha256: &[u8; 32]) -> Self {
        Self(format!("{}{ALTERNATE}{}", self.0, hex(body_sha256)))
    }

    /// Takes over a key that was stored or sent before, if it has the shape of one.
    pub fn parse(text: &str) -> Option<Self> {
        let (endpoint, rest) = text.strip_prefix(PREFIX)?.split_once('#')?;
        (EndpointId::parse(endpoint).is_ok() && !rest.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The endpoint's id, and the rest of the key behind it.
    pub fn parts(&self) -> (&str, &str) {
        self.0.strip_prefix(PREFIX).and_then(|rest| rest.split_once('#')).unwrap_or(("", &self.0))
    }

    /// What the record stands for.
    pub fn kind(&self) -> RecordKind {
        let (_, rest) = self.parts();
        if rest.starts_with(EVENT) {
            RecordKind::Event
        } else if rest.starts_with(ENVELOPE) {
            RecordKind::Envelope
        } else {
            RecordKind::Delivery
        }
    }

    /// The shard of this key, in `0..shards`, the same for ever.
    pub fn shard(&self, shards: u16) -> u16 {
        let digest = Sha256::digest(self.0.as_bytes());
        let head = digest.iter().take(8).fold(0_u64, |head, byte| (head << 8) | u64::from(*byte));
        u16::try_from(head % u64::from(shards.max(1))).unwrap_or(0)
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Marks one accepted delivery: made once per request, before the first call to the store, so that one's own retry is
/// told apart from another's delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(pub String);

impl ClaimId {
    /// The claim of one event that an envelope is fanned out into: the same on every run of the fan-out.
    pub fn of_child(envelope: &RecordKey, claim: &Self, event: &RecordKey) -> Self {
        let mut digest = Sha256::new();
        for part in [envelope.as_str(), &claim.0, event.as_str()] {
            digest.update(part.len().to_be_bytes());
            digest.update(part.as_bytes());
        }
        Self(hex(&digest.finalize().into()))
    }
}

/// The partition keys of domain items start with this where they are domain keys; a handler may not write there.
pub const DOMAIN_KEY_PREFIX: &str = "dk#";

/// The partition key of the item that says that a business fact has been applied.
///
/// A forced replay, generation 1 and up, has a key of its own, because the operator asked for one more effect.
pub fn domain_key_item(handler: &str, fact: &str, record: &RecordKey, generation: i64) -> String {
    let base = format!("{DOMAIN_KEY_PREFIX}{handler}#{}", part(fact));
    if generation == 0 { base } else { format!("{base}#{record}#g{generation}") }
}

/// The partition keys of domain items start with this where they say which record a body first came with; a handler may
/// not write there.
pub const FIRST_SEEN_PREFIX: &str = "seen#";

/// The partition key of the item that says which record of an endpoint a body first came with.
pub fn first_seen_item(endpoint: &str, body_sha256: &[u8; 32]) -> String {
    format!("{FIRST_SEEN_PREFIX}{endpoint}#{}", hex(body_sha256))
}

fn part(text: &str) -> String {
    let readable = text.len() <= PART_BYTES_MAX && !text.contains('#');
    if readable { text.to_owned() } else { format!("h#{}", hex(&Sha256::digest(text.as_bytes()).into())) }
}

/// Lower-case hex.
pub fn hex(bytes: &[u8; 32]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
