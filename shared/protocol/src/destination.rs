//! What the protocol knows of a destination: its promise, and how a call of it ended. How it is called is not its
//! business.

use crate::effect::{DestinationId, Method};
use crate::key::RecordKey;
use crate::time::Millis;

/// What is promised about the effects at a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Once, because the callee honours the key for this long. It is never called after that.
    Keyed {
        /// How long the callee remembers a key.
        window: Millis,
    },
    /// Never twice. An effect may end with an unknown outcome.
    AtMostOnce,
    /// At least once, with the key for the callee.
    AtLeastOnce,
}

/// The terms of a destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The promise.
    pub class: Class,
    /// What a call must have in common with an earlier one that may have been done. It names the class; and where the
    /// class relies on the callee's memory, who that is and where the key is, because a key means nothing to another
    /// callee. At least once relies on nothing, so another address may be called.
    pub callee: String,
    /// How long one call may take.
    pub timeout: Millis,
    /// How long after the commit an effect is given up.
    pub give_up_after: Millis,
}

/// What the dispatcher learns of a destination before it takes the pass for a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Offer {
    /// Its terms.
    pub terms: Terms,
    /// Whether this message has a turn there. It keeps the turn until it ends.
    pub turn: Result<(), NoTurn>,
}

/// Why nobody calls a destination for this message now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoTurn {
    /// The calls of others took all the time that it may wait for its turn.
    Busy,
    /// The destination fails again and again, so it is not called for a while.
    Away {
        /// For how long, if that is known.
        retry_after: Option<Millis>,
    },
}

/// One call to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboundCall {
    /// The effect's record.
    pub effect: RecordKey,
    /// The event's record.
    pub event: RecordKey,
    /// Where it goes.
    pub destination: DestinationId,
    /// The key that every repeat of the call carries: a UUID.
    pub idempotency_key: String,
    /// The method.
    pub method: Method,
    /// What follows the address of the destination. Begins with `/`, or is empty.
    pub path: String,
    /// The type of its content.
    pub content_type: String,
    /// The zstd-compressed payload.
    pub body: Vec<u8>,
    /// The hops that the event had made when it was received.
    pub hops: u8,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Called {
    /// The callee did it.
    Done {
        /// The status of its answer, if it has one.
        status: Option<u16>,
    },
    /// The callee says that it has done it before, under this key.
    AlreadyDone {
        /// The status of its answer.
        status: u16,
    },
    /// The callee certainly did not do it: no byte reached it, or its answer says so.
    NotDone {
        /// The status of its answer, if it has one.
        status: Option<u16>,
        /// How long it asks to wait.
        retry_after: Option<Millis>,
    },
    /// Nobody called it: once the pass was taken, the time did not suffice any more.
    NoTime,
    /// The callee refuses it, and another try cannot help.
    Refused {
        /// The status of its answer, if it has one.
        status: Option<u16>,
    },
    /// The outcome is unknown, and another try cannot help: an answer that some callees give after they have done it.
    Unknown {
        /// The status of its answer.
        status: u16,
    },
    /// The outcome is unknown, and another try may help: a timeout, a broken connection, an error on its side.
    Unclear {
        /// The status of its answer, if it has one.
        status: Option<u16>,
        /// How long it asks to wait.
        retry_after: Option<Millis>,
    },
}

impl Called {
    /// Whether it certainly ended before anything of it was sent.
    pub const fn is_unsent(self) -> bool {
        matches!(self, Self::NotDone { status: None, .. } | Self::Refused { status: None } | Self::NoTime)
    }

    /// The status of the answer, if there is one.
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Done { status }
            | Self::NotDone { status, .. }
            | Self::Refused { status }
            | Self::Unclear { status, .. } => status,
            Self::AlreadyDone { status } | Self::Unknown { status } => Some(status),
            Self::NoTime => None,
        }
    }

    /// How it ended, in words.
    pub const fn how(self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::AlreadyDone { .. } => "already done",
            Self::NotDone { .. } => "not done",
            Self::NoTime => "no time",
            Self::Refused { .. } => "refused",
            Self::Unknown { .. } => "unknown",
            Self::Unclear { .. } => "unclear",
        }
    }
}
