//! Your business rules go here.
//!
//! A handler is pure: it names a business fact, asks for the domain items that it needs, and plans the changes. Read
//! these three before you write your own:
//!
//! | handler | events | effect |
//! |---|---|---|
//! | [`Payments`] | Stripe `invoice.paid`, `charge.refunded` | ledger entry and balance |
//! | [`Messages`] | WhatsApp messages and statuses | conversation, one lead per new contact, statuses that only move forward |
//! | [`Builds`] | GitHub `push` | one build request per repository and commit |
//!
//! To add a handler, write it next to these and list it in [`all`].

mod builds;
mod messages;
mod payments;

use hookonce_runtime::handler::Handlers;

pub use builds::Builds;
pub use messages::Messages;
pub use payments::Payments;

/// All handlers of this worker.
pub fn all() -> Handlers {
    Handlers::new().with(Payments).with(Messages).with(Builds)
}
