//! Destinations: where effects go, what is promised of them there, and how they are called.
//!
//! A [document](DestinationDocument) is data that a person writes. [`Destination::new`] checks it as a whole;
//! [`Destinations`] keeps the checked ones for a while. A [`Caller`] makes one call and says how it ended; nothing here
//! repeats a call.

mod address;
mod answer;
mod attempt;
mod cache;
mod caller;
mod checked;
mod client;
mod document;
mod guard;
mod hand_over;
mod message;
mod request;

pub use address::{Zone, zone};
pub use attempt::{Attempt, AttemptError, CalleeAnswer};
pub use cache::{CACHE_AGE_MAX, DestinationLookupError, Destinations, REFUSED_AGE_MAX, STALE_AGE_MAX};
pub use caller::{Caller, HOPS_MAX};
pub use checked::{Destination, HEADERS_MAX, HttpTarget, IN_FLIGHT_MAX, KeyPlace, SuccessCheck, Target};
pub use client::{ANSWER_BYTES_MAX, HttpCaller};
pub use document::{ClassName, DestinationDocument, DestinationError, DestinationKind, SuccessDocument};
pub use guard::{Permit, RateLimited};
pub use hand_over::QueueTarget;
pub use message::{HandedMessage, function_event, queue_message};
pub use request::Unsendable;
