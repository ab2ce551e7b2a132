//! Payments: paid Stripe invoices and refunded charges.
//!
//! Amounts are integers in the currency's minor unit, as Stripe sends them. A refund event carries the total refunded
//! so far, so the ledger books the difference from the last total it saw. The balance is right even if events arrive
//! out of order or some never arrive.

use hookonce_protocol::item::fields;
use hookonce_protocol::key::{DomainKey, ItemKey};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::record::set;
use hookonce_protocol::write::Change;
use hookonce_runtime::handlers::{Handler, HandlerError, read};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const REFUNDED: &str = "refunded_minor";

/// Turns Stripe events into ledger entries and balances.
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

/// What happened.
#[derive(Debug)]
pub enum Payment {
    /// An invoice was paid.
    Paid(Invoice),
    /// A charge was refunded, in whole or in part.
    Refunded(Charge),
}

/// The fields of an invoice that matter here.
#[derive(Debug, Deserialize)]
pub struct Invoice {
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) account: Account,
    pub(super) amount_paid: i64,
}

/// The fields of a charge that matter here.
#[derive(Debug, Deserialize)]
pub struct Charge {
    id: String,
    #[serde(flatten)]
    account: Account,
    amount_refunded: i64,
}

/// The account whose balance changes.
#[derive(Debug, Deserialize)]
pub(super) struct Account {
    customer: Option<String>,
    pub(super) currency: String,
}

impl Account {
    pub(super) fn name(&self) -> &str {
        // All payments without a customer share one account.
        self.customer.as_deref().unwrap_or("guest")
    }
}

impl Payment {
    /// The parts that name the fact. The refunded total is one of them, so that each further refund of a charge is a
    /// new fact.
    fn parts(&self) -> Vec<String> {
        match self {
            Self::Paid(invoice) => vec!["invoice.paid".to_owned(), invoice.id.clone()],
            Self::Refunded(charge) => {
                vec!["charge.refunded".to_owned(), charge.id.clone(), charge.amount_refunded.to_string()]
            }
        }
    }

    /// Books this amount: a ledger entry and a balance change.
    fn booked(&self, event: &Event, account: &Account, amount: i64) -> Plan {
        let entry = fields([
            ("kind", event.event_type.as_str().into()),
            ("account", account.name().into()),
            ("currency", account.currency.as_str().into()),
            ("minor", amount.into()),
            ("event", event.key.as_str().into()),
            ("received_at", event.received_at.0.into()),
        ]);
        let balance = event.item_key("balance", [account.name(), &account.currency]);
        let added = vec![Change::Add("minor".into(), amount), Change::Add("entries".into(), 1)];
        Plan::default()
            .with(DomainWrite::create(event.once("ledger", self.parts()), entry))
            .with(DomainWrite::update(balance, added))
    }
}

fn object<T: DeserializeOwned>(event: &Event, code: &'static str) -> Result<T, HandlerError> {
    Ok(read::<Envelope<T>>(event, code)?.data.object)
}

fn refund_key(event: &Event, charge: &Charge) -> ItemKey {
    event.item_key("refund", [&charge.id])
}

impl Handler for Payments {
    type Fact = Payment;

    fn name(&self) -> &'static str {
        "payments"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Payment>, HandlerError> {
        let payment = match (event.provider.as_str(), event.event_type.as_str()) {
            ("stripe", "invoice.paid") => Payment::Paid(object(event, "INVOICE_UNREADABLE")?),
            ("stripe", "charge.refunded") => Payment::Refunded(object(event, "CHARGE_UNREADABLE")?),
            _ => return Ok(None),
        };
        let (Payment::Paid(Invoice { amount_paid: amount, .. })
        | Payment::Refunded(Charge { amount_refunded: amount, .. })) = &payment;
        if *amount < 0 { Err(HandlerError::permanent("AMOUNT_NEGATIVE")) } else { Ok(Some(payment)) }
    }

    fn domain_key(&self, payment: &Payment) -> DomainKey {
        DomainKey::of(payment.parts())
    }

    fn reads(&self, event: &Event, payment: &Payment) -> Vec<ItemRef> {
        match payment {
            Payment::Paid(_) => Vec::new(),
            Payment::Refunded(charge) => vec![refund_key(event, charge).into()],
        }
    }

    fn plan(&self, event: &Event, payment: &Payment, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        Ok(match payment {
            Payment::Paid(invoice) => payment.booked(event, &invoice.account, invoice.amount_paid),
            Payment::Refunded(charge) => {
                let key = refund_key(event, charge);
                let step = charge.amount_refunded - snapshot.number(&key, REFUNDED);
                if step <= 0 {
                    return Ok(Plan::default());
                }
                let total = DomainWrite::update(key, vec![set(REFUNDED, charge.amount_refunded)]);
                payment.booked(event, &charge.account, -step).with(total.as_seen(snapshot, REFUNDED))
            }
        })
    }
}
