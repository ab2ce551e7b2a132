//! The events of a delivery, and their dedup keys.

use hookonce_protocol::key::{EndpointId, RecordKey};

/// The events of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// One event; the delivery itself for a provider that does not batch.
    Single(EventPart),
    /// Two or more events of a provider that batches. Each is claimed on its own.
    Several(Vec<EventPart>),
}

impl Contents {
    pub(crate) fn of(parts: Vec<EventPart>) -> Self {
        match <[EventPart; 1]>::try_from(parts) {
            Ok([part]) => Self::Single(part),
            Err(parts) => Self::Several(parts),
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
    /// The dedup key that claims it.
    pub key: EventKey,
    /// The provider's name of the event type; `unknown` if it gives none.
    pub event_type: String,
    /// A delivery of the provider that holds only this event, with every byte of the event unchanged.
    pub body: Vec<u8>,
    /// The SHA-256 of the event's own text, which stays the same when a retry groups the event differently. For a
    /// delivery that is one event, the SHA-256 of the whole body. What the provider changes from try to try is left out
    /// of both, so two of them differ only where the fact does. For what is no event, from a provider that batches,
    /// the SHA-256 of `body` without the white space between its tokens, and with all that changes.
    pub sha256: [u8; 32],
    /// What was missing in the event, if anything. The event is kept all the same.
    pub fallback: Option<Fallback>,
}

/// Why an authentic event is kept under a hash, or as an event that nobody can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fallback {
    /// The event has no id where the provider puts one. Its key is a hash.
    IdMissing,
    /// The id is longer than any that a provider sends. The key is its hash.
    IdTooLong,
    /// The body is not a document of the provider's form.
    BodyUnreadable,
    /// A part of a batch cannot be read, so it may hold events. It is kept as one.
    PartUnreadable,
    /// A part of a batch holds no event where the provider puts them, and the provider's file knows no other kind of
    /// it.
    EventsMissing,
    /// The delivery holds more events than any provider sends, so it is not taken apart.
    TooManyEvents,
    /// Each event keeps what surrounds it, and the sum is too large, so the delivery is not taken apart.
    TooLarge,
}

impl Fallback {
    /// The stable code for metrics and programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::IdMissing => "id_missing",
            Self::IdTooLong => "id_too_long",
            Self::BodyUnreadable => "body_unreadable",
            Self::PartUnreadable => "part_unreadable",
            Self::EventsMissing => "events_missing",
            Self::TooManyEvents => "too_many_events",
            Self::TooLarge => "events_too_large",
        }
    }

    /// What was missing and how the event is kept, in words that follow the event.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::IdMissing => "it has no id where the provider puts one, so its key is a hash",
            Self::IdTooLong => "its id is longer than any that a provider sends, so its key is the hash of the id",
            Self::BodyUnreadable => {
                "it is not what the provider sends, so no handler is asked unless it takes `unreadable`"
            }
            Self::PartUnreadable => "it is a part that cannot be read, so it may hold events",
            Self::EventsMissing => "it has no events where the provider puts them, so it may hold some elsewhere",
            Self::TooManyEvents => "it holds too many events, so it is not taken apart",
            Self::TooLarge => "its events together are too large, so it is not taken apart",
        }
    }
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

/// A dedup key: two events with the same key are the same event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKey {
    /// The provider's id of the delivery, or a hash of it.
    Delivery(String),
    /// The id of one event of a provider that batches, or a hash of it: the same alone and among others.
    Event(String),
}

impl EventKey {
    /// The key of the record that claims it at an endpoint.
    pub fn record_key(&self, endpoint: &EndpointId) -> RecordKey {
        match self {
            Self::Delivery(id) => RecordKey::delivery(endpoint, id),
            Self::Event(id) => RecordKey::event(endpoint, id),
        }
    }

    /// The text of the key; never empty.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Delivery(key) | Self::Event(key) => key,
        }
    }
}

impl From<EventKey> for String {
    fn from(key: EventKey) -> Self {
        match key {
            EventKey::Delivery(key) | EventKey::Event(key) => key,
        }
    }
}

/// The event type of a body that cannot be read. No handler of this project asks for it, so its record ends as IGNORED.
pub const UNREADABLE_EVENT_TYPE: &str = "unreadable";

/// The event type when the provider gives none.
pub const UNKNOWN_EVENT_TYPE: &str = "unknown";
