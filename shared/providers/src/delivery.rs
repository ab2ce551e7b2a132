//! What a request turned out to be.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::material::MaterialNeeded;
use crate::scheme::Authentic;

/// A request that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The provider asks whether this is the right address. Answered at once; it never touches the store.
    Handshake(HandshakeAnswer),
    /// An authentic delivery.
    Delivery(VerifiedDelivery),
    /// A certificate or key of the provider has to be fetched before the request can be judged.
    NeedsMaterial(MaterialNeeded),
}

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
    /// An address that has to be visited once to confirm a subscription, already checked to be the provider's.
    pub visit: Option<String>,
    /// A secret that the provider handed out in this request, for a person to take over.
    pub handed_out: Option<HandedOut>,
}

/// A secret that came with a handshake: Notion's verification token, the secret of a header exchange.
///
/// Anyone can send one, so it is never used by itself: a person compares it with what the provider shows, and configures
/// it. It does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct HandedOut(String);

impl HandedOut {
    pub(crate) const fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The secret itself. Show it to the operator who asked for it and to nobody else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for HandedOut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HandedOut")
    }
}

/// A delivery that was made by a holder of one of the endpoint's secrets.
///
/// Its fields are private and only [`Provider::receive`](crate::Provider::receive) makes one, out of a scheme's proof:
/// whoever holds a `VerifiedDelivery` may claim it.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedDelivery {
    provider_id: String,
    body: Vec<u8>,
    body_sha256: [u8; 32],
    headers: BTreeMap<String, String>,
    secret_index: usize,
    contents: Contents,
}

impl VerifiedDelivery {
    pub(crate) fn new(
        proof: &Authentic,
        provider_id: &str,
        body: &[u8],
        headers: BTreeMap<String, String>,
        contents: Contents,
    ) -> Self {
        Self {
            provider_id: provider_id.to_owned(),
            body: body.to_vec(),
            body_sha256: Sha256::digest(body).into(),
            headers,
            secret_index: proof.secret_index(),
            contents,
        }
    }

    /// Which provider's scheme it passed.
    pub fn provider_id(&self) -> &str {
        &self.provider_id
    }

    /// The body, byte for byte as it was signed.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The SHA-256 of the body.
    pub const fn body_sha256(&self) -> [u8; 32] {
        self.body_sha256
    }

    /// The headers worth keeping, names in lower case: content type, event type, delivery id. Never a signature.
    pub const fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }

    /// Which of the endpoint's secrets fitted; 0 is the newest. An old secret that never shows up can be retired.
    pub const fn secret_index(&self) -> usize {
        self.secret_index
    }

    /// The events in it.
    pub const fn contents(&self) -> &Contents {
        &self.contents
    }
}

impl std::fmt::Debug for VerifiedDelivery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("VerifiedDelivery")
            .field("provider_id", &self.provider_id)
            .field("body_bytes", &self.body.len())
            .field("secret_index", &self.secret_index)
            .finish_non_exhaustive()
    }
}

/// The events of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// One event; the delivery itself for a provider that does not batch.
    Single(EventPart),
    /// Two or more events of a provider that batches, each to be claimed on its own.
    Several(Vec<EventPart>),
}

impl Contents {
    pub(crate) fn of(mut parts: Vec<EventPart>) -> Option<Self> {
        match parts.len() {
            0 => None,
            1 => parts.pop().map(Self::Single),
            _ => Some(Self::Several(parts)),
        }
    }

    /// The events, one or more, in the order of the delivery.
    pub fn events(&self) -> &[EventPart] {
        match self {
            Self::Single(part) => std::slice::from_ref(part),
            Self::Several(parts) => parts,
        }
    }
}

/// One business fact of a delivery.
#[derive(Clone, PartialEq, Eq)]
pub struct EventPart {
    /// What it is claimed by.
    pub key: EventKey,
    /// The provider's name for what happened; `unknown` where it gives none.
    pub event_type: String,
    /// A delivery of the provider that holds this event alone, with every byte of the event as it was sent.
    pub body: Vec<u8>,
    /// The SHA-256 of the event's own text, which stays the same when a retry groups it with others; of the whole body
    /// where a delivery is one event.
    pub sha256: [u8; 32],
}

impl std::fmt::Debug for EventPart {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EventPart")
            .field("key", &self.key)
            .field("event_type", &self.event_type)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What makes an event the same as one seen before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKey {
    /// The provider's id of the delivery, or a hash of it.
    Delivery(String),
    /// The id of one event of a provider that batches.
    Event(String),
}

impl EventKey {
    /// The text of the key; never empty.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Delivery(key) | Self::Event(key) => key,
        }
    }
}

/// The event type of an event to which its provider gives none.
pub const UNKNOWN_EVENT_TYPE: &str = "unknown";
