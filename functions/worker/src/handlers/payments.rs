//! Payments: a Stripe invoice that was paid, a charge that was refunded.
//!
//! Amounts are integers in the currency's minor unit, as Stripe sends them. A refund event carries the total refunded
//! so far, not the step, so the ledger takes the difference to what it has seen: events that arrive out of order, or
//! that are never delivered, still leave the balance right.

use hookonce_protocol::item::Value;
use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::record::set;
use hookonce_protocol::write::Change;
use hookonce_runtime::handler::{Handler, HandlerError};
use serde::Deserialize;

use super::{item, once, read};

const PROVIDER: &str = "stripe";
const INVOICE_PAID: &str = "invoice.paid";
const CHARGE_REFUNDED: &str = "charge.refunded";
const REFUNDED: &str = "refunded_minor";

/// The account of payments that name no customer.
const GUEST: &str = "guest";

/// Ledger entries and balances out of Stripe events.
#[derive(Debug, Clone, Copy)]
pub struct Payments;

#[derive(Deserialize)]
struct Envelope<T> {
    data: Data<T>,
}

#[derive(Deserialize)]
struct Data<T> {
    object: T,
}

#[derive(Deserialize)]
struct Invoice {
    id: String,
    customer: Option<String>,
    currency: String,
    amount_paid: i64,
}

#[derive(Deserialize)]
struct Charge {
    id: String,
    customer: Option<String>,
    currency: String,
    amount_refunded: i64,
}

/// What happened, in this handler's own words.
enum Payment {
    Paid(Invoice),
    Refunded(Charge),
}

impl Payment {
    fn of(event: &Event) -> Result<Self, HandlerError> {
        let payment = if event.event_type == INVOICE_PAID {
            Self::Paid(read::<Envelope<Invoice>>(event, "INVOICE_UNREADABLE")?.data.object)
        } else {
            Self::Refunded(read::<Envelope<Charge>>(event, "CHARGE_UNREADABLE")?.data.object)
        };
        let amount = match &payment {
            Self::Paid(invoice) => invoice.amount_paid,
            Self::Refunded(charge) => charge.amount_refunded,
        };
        if amount < 0 { Err(HandlerError::permanent("AMOUNT_NEGATIVE")) } else { Ok(payment) }
    }
}

fn refund_key(event: &Event, charge: &Charge) -> String {
    format!("{}#refund#{}", event.endpoint, charge.id)
}

/// Adds an amount to a customer's balance and counts the entry that it stands for.
fn balance(event: &Event, customer: Option<&str>, currency: &str, amount: i64) -> DomainWrite {
    let key = format!("{}#balance#{}#{currency}", event.endpoint, customer.unwrap_or(GUEST));
    DomainWrite::update(key, vec![Change::Add("minor".into(), amount), Change::Add("entries".into(), 1)])
}

fn entry(event: &Event, fact: &str, customer: Option<&str>, currency: &str, amount: i64) -> DomainWrite {
    let fields = item([
        ("kind", event.event_type.as_str().into()),
        ("account", customer.unwrap_or(GUEST).into()),
        ("currency", currency.into()),
        ("minor", amount.into()),
        ("event", event.key.as_str().into()),
        ("received_at", event.received_at.0.into()),
    ]);
    DomainWrite::create(once(event, format!("{}#ledger#{fact}", event.endpoint)), fields)
}

impl Handler for Payments {
    fn name(&self) -> &'static str {
        "payments"
    }

    fn handles(&self, event: &Event) -> bool {
        event.provider == PROVIDER && matches!(event.event_type.as_str(), INVOICE_PAID | CHARGE_REFUNDED)
    }

    fn domain_key(&self, event: &Event) -> Result<String, HandlerError> {
        let endpoint = &event.endpoint;
        Ok(match Payment::of(event)? {
            Payment::Paid(invoice) => format!("{endpoint}/invoice.paid/{}", invoice.id),
            // Each further refund of one charge is a fact of its own: the total tells them apart.
            Payment::Refunded(charge) => format!("{endpoint}/charge.refunded/{}/{}", charge.id, charge.amount_refunded),
        })
    }

    fn reads(&self, event: &Event) -> Result<Vec<String>, HandlerError> {
        Ok(match Payment::of(event)? {
            Payment::Paid(_) => Vec::new(),
            Payment::Refunded(charge) => vec![refund_key(event, &charge)],
        })
    }

    fn plan(&self, event: &Event, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let plan = Plan::default();
        match Payment::of(event)? {
            Payment::Paid(invoice) => {
                let (customer, amount) = (invoice.customer.as_deref(), invoice.amount_paid);
                let fact = format!("invoice.paid#{}", invoice.id);
                Ok(plan.with(entry(event, &fact, customer, &invoice.currency, amount)).with(balance(
                    event,
                    customer,
                    &invoice.currency,
                    amount,
                )))
            }
            Payment::Refunded(charge) => {
                let key = refund_key(event, &charge);
                let step = charge.amount_refunded - snapshot.number(&key, REFUNDED);
                if step <= 0 {
                    return Ok(plan);
                }
                let customer = charge.customer.as_deref();
                let fact = format!("charge.refunded#{}#{}", charge.id, charge.amount_refunded);
                let total = vec![set(REFUNDED, Value::from(charge.amount_refunded))];
                Ok(plan
                    .with(DomainWrite::update(key, total).as_seen(snapshot, REFUNDED))
                    .with(entry(event, &fact, customer, &charge.currency, -step))
                    .with(balance(event, customer, &charge.currency, -step)))
            }
        }
    }
}
