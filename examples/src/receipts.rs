//! Receipts: what [`Payments`] does, and one receipt for each paid invoice.
//!
//! Only a route can name this handler, because the route must list the destination `receipts`: whoever writes and sends
//! them.

use hookonce_protocol::effect::Effect;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use hookonce_runtime::handlers::{Handler, HandlerError};
use serde_json::json;

use super::payments::{Payment, Payments};

/// Books payments, and asks for one receipt for each paid invoice.
#[derive(Debug, Clone, Copy)]
pub struct Receipts;

impl Handler for Receipts {
    type Fact = Payment;

    fn name(&self) -> &'static str {
        "receipts"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Payment>, HandlerError> {
        Payments.recognise(event)
    }

    fn domain_key(&self, payment: &Payment) -> DomainKey {
        Payments.domain_key(payment)
    }

    fn reads(&self, event: &Event, payment: &Payment) -> Vec<ItemRef> {
        Payments.reads(event, payment)
    }

    fn plan(&self, event: &Event, payment: &Payment, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let plan = Payments.plan(event, payment, snapshot)?;
        let Payment::Paid(invoice) = payment else { return Ok(plan) };
        let receipt = json!({
            "invoice": invoice.id, "account": invoice.account.name(), "currency": invoice.account.currency,
            "minor": invoice.amount_paid.to_string(), // As text: some languages round large numbers in JSON.
        });
        Ok(plan.with_effect(Effect::json("receipt", "receipts", &receipt)?))
    }
}
