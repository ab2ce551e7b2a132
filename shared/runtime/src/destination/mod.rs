//! Destinations: where effects go, what is promised of them there, and how they are called.
//!
//! A [document](DestinationDocument) is data that a person writes. [`Destination::new`] checks it as a whole;
//! [`Destinations`] keeps the checked ones for a while. A [`Caller`] makes one call and says how it ended; nothing here
//! repeats a call.

mod address;
#[cfg(feature = "aws")]
mod answer;
#[cfg(feature = "aws")]
mod attempt;
mod cache;
mod checked;
#[cfg(feature = "aws")]
mod client;
mod document;
mod guard;
mod hand_over;
#[cfg(feature = "account")]
mod message;
#[cfg(feature = "aws")]
mod request;
mod source;

use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, Delivery};
use hookonce_protocol::timing::Moment;

pub use address::{Zone, zone};
#[cfg(feature = "aws")]
pub use attempt::{Attempt, CalleeAnswer, Trouble};
pub use cache::{CACHE_AGE_MAX, DestinationLookupError, Destinations, FETCH_MAX, REFUSED_AGE_MAX, STALE_AGE_MAX};
pub use checked::{
    Destination, HEADERS_MAX, HttpTarget, IN_FLIGHT_MAX, KeyPlace, SuccessCheck, TIMEOUT_MS_MAX, Target,
};
#[cfg(feature = "aws")]
pub use client::{ANSWER_BYTES_MAX, HttpCaller};
pub use document::{ClassName, DestinationDocument, DestinationError, DestinationKind, SuccessDocument};
pub use guard::{Guarded, TURN_MAX};
pub use hand_over::QueueTarget;
#[cfg(feature = "account")]
pub use message::MESSAGE_BYTES_MAX;
#[cfg(feature = "account")]
pub(crate) use message::{function_event, queue_message};
pub use source::{DestinationFetchError, DestinationSource};

/// The most hops after which effects are still sent. More hops mean a loop: events that cause each other.
pub const HOPS_MAX: u8 = 5;

/// Calls destinations.
///
/// ```
/// use futures::future::BoxFuture;
/// use hookonce_protocol::destination::{Called, Delivery};
/// use hookonce_protocol::timing::Moment;
/// use hookonce_runtime::destination::{Caller, Destination};
///
/// #[derive(Debug)]
/// struct Obliging;
///
/// impl Caller for Obliging {
///     fn call<'a>(&'a self, _: &'a Destination, _: &'a Delivery, _: Moment) -> BoxFuture<'a, Called> {
///         Box::pin(async { Called::Done { status: Some(200) } })
///     }
/// }
/// ```
pub trait Caller: Send + Sync + std::fmt::Debug + 'static {
    /// Makes one call, within the destination's timeout, and says how it ended. Nothing repeats it.
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a Delivery,
        moment: Moment,
    ) -> BoxFuture<'a, Called>;
}
