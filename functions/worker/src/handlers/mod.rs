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
//! To add one: write it beside these, then name it in [`all`].

mod builds;
mod messages;
mod payments;

use hookonce_runtime::handler::Handlers;

pub use builds::Builds;
pub use messages::Messages;
pub use payments::Payments;

/// Every handler of this worker.
pub fn all() -> Handlers {
    Handlers::new().with(Payments).with(Messages).with(Builds)
}
