//! Who calls destinations.

use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::timing::Moment;

use super::checked::Destination;

/// The most hops after which effects are still sent. More hops mean a loop: events that cause each other.
pub const HOPS_MAX: u8 = 5;

/// Calls destinations.
///
/// ```
/// use futures::future::BoxFuture;
/// use hookonce_protocol::destination::{Called, OutboundCall};
/// use hookonce_protocol::timing::Moment;
/// use hookonce_runtime::destinations::{Caller, Destination};
///
/// #[derive(Debug)]
/// struct Obliging;
///
/// impl Caller for Obliging {
///     fn call<'a>(&'a self, _: &'a Destination, _: &'a OutboundCall, _: Moment) -> BoxFuture<'a, Called> {
///         Box::pin(async { Called::Done { status: Some(200) } })
///     }
/// }
/// ```
pub trait Caller: Send + Sync + std::fmt::Debug + 'static {
    /// Makes one call, within the destination's timeout, and says how it ended. Nothing repeats it.
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a OutboundCall,
        moment: Moment,
    ) -> BoxFuture<'a, Called>;
}
