//! Where your business rules go.
//!
//! A handler is pure: it names a business fact, says which domain items it needs to see, and plans what changes. The
//! three that ship are worth keeping, and worth reading before you write your own:
//!
//! | handler | events | effect |
//! |---|---|---|
//! | [`Payments`] | Stripe `invoice.paid`, `charge.refunded` | ledger entry and balance |
//! | [`Messages`] | WhatsApp messages and statuses | conversation, one lead per new contact, statuses that never go back |
//! | [`Builds`] | GitHub `push` | one build request per repository and commit |
//!
//! To add one: write it beside these, then name it in [`all`]. Domain items of different endpoints never meet, because
//! every key begins with the endpoint: an endpoint is a tenant.

mod builds;
mod messages;
mod payments;

use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::plan::Event;
use hookonce_runtime::handler::{HandlerError, Handlers};
use serde::de::DeserializeOwned;

pub use builds::Builds;
pub use messages::Messages;
pub use payments::Payments;

/// Every handler of this worker.
pub fn all() -> Handlers {
    Handlers::new().with(Payments).with(Messages).with(Builds)
}

/// The event's body in the handler's own words. A body that does not fit never will, so the failure is permanent.
fn read<T: DeserializeOwned>(event: &Event, code: &'static str) -> Result<T, HandlerError> {
    serde_json::from_slice(&event.body).map_err(|_| HandlerError::permanent(code))
}

/// An item out of named values.
fn item<const N: usize>(fields: [(&str, Value); N]) -> Item {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The key of an item that stands for one effect. A forced replay is meant to have one more, so its item is another.
fn once(event: &Event, key: String) -> String {
    if event.generation == 0 { key } else { format!("{key}#g{}", event.generation) }
}
