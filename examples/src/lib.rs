//! The sample handlers. They run on a laptop, in the demo and in the tests; the worker that the template deploys has none.
//!
//! A handler is pure: it names a business fact, asks for the domain items that it needs, and plans the changes. Read
//! these before you write your own, in a project that `hookonce new` starts:
//!
//! | handler | events | effect |
//! |---|---|---|
//! | [`Payments`] | Stripe `invoice.paid`, `charge.refunded` | ledger entry and balance |
//! | [`Messages`] | WhatsApp messages and statuses | conversation, one lead per new contact, statuses that only move forward |
//! | [`Builds`] | GitHub `push` | one build request per repository and commit |
//! | [`Receipts`] | those of [`Payments`] | the same, and one receipt per paid invoice leaves the account |
//! | [`Answers`] | those of [`Messages`] | the same, and one answer per message leaves the account |
//!
//! Without a route set, the first handler that wants an event gets it, so the last two wait for a route that names
//! them.

mod answers;
mod builds;
mod messages;
mod payments;
mod receipts;

use hookonce_protocol::invariant::Counted;
use hookonce_runtime::handlers::Handlers;

pub use answers::Answers;
pub use builds::Builds;
pub use messages::Messages;
pub use payments::Payments;
pub use receipts::Receipts;

/// All sample handlers.
pub fn handlers() -> Handlers {
    Handlers::new().with(Payments).with(Messages).with(Builds).with(Receipts).with(Answers)
}

/// What the effects of these handlers leave behind, so that tests and the demo find one that was applied twice.
pub const COUNTED: [Counted; 4] = [
    Counted { counter: "#balance#", attribute: "entries", trace: "#ledger#", by_domain_key: false },
    Counted { counter: "#conversation#", attribute: "messages", trace: "#message#", by_domain_key: false },
    Counted { counter: "#repository#", attribute: "builds", trace: "#build#", by_domain_key: false },
    Counted { counter: "#status#", attribute: "changes", trace: "#messages#status#", by_domain_key: true },
];
