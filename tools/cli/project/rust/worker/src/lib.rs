//! Your business rules.

mod invoices;

use hookonce_worker::handler::Handlers;

pub use invoices::Invoices;

/// All handlers. The first one that wants an event gets it, unless a route says who does.
pub fn handlers() -> Handlers {
    Handlers::new().with(Invoices)
}
