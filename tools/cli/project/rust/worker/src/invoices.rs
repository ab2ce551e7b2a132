//! Stores each paid invoice once, and counts the invoices of each customer.

use hookonce_worker::handler::{Handler, HandlerError, read};
use hookonce_worker::item::fields;
use hookonce_worker::key::DomainKey;
use hookonce_worker::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_worker::write::Change;
use serde::Deserialize;

/// A handler plans, and writes nothing itself: hookonce commits its plan once.
#[derive(Debug)]
pub struct Invoices;

/// What matters of an event.
#[derive(Debug, Deserialize)]
struct Body {
    data: Data,
}

#[derive(Debug, Deserialize)]
struct Data {
    object: Invoice,
}

/// A paid invoice.
#[derive(Debug, Deserialize)]
pub struct Invoice {
    id: String,
    customer: String,
    amount_paid: i64,
}

impl Handler for Invoices {
    type Fact = Invoice;

    fn name(&self) -> &'static str {
        "invoices"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Invoice>, HandlerError> {
        if event.event_type != "invoice.paid" {
            return Ok(None);
        }
        let body: Body = read(event, "INVOICE_UNREADABLE")?;
        Ok(Some(body.data.object))
    }

    /// Names the business fact, not the delivery: the same invoice is paid once, whoever reports it. The type is part
    /// of the name. Otherwise another event of the same invoice would be taken for a duplicate.
    fn domain_key(&self, invoice: &Invoice) -> DomainKey {
        DomainKey::of(["invoice.paid", &invoice.id])
    }

    fn plan(&self, event: &Event, invoice: &Invoice, _snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let Invoice { id, customer, amount_paid } = invoice;
        let kept = fields([("customer", customer.as_str().into()), ("minor", (*amount_paid).into())]);
        let count = vec![Change::Add("invoices".into(), 1)];
        Ok(Plan::default()
            .with(DomainWrite::create(event.once("invoice", [id]), kept))
            .with(DomainWrite::update(event.item_key("customer", [customer]), count)))
    }
}
