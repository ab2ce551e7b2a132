use hookonce_protocol::item::fields;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::write::Change;
use hookonce_runtime::handlers::{Handler, HandlerError, read};
use serde::Deserialize;

/// Stores each signed contract once, and counts the contracts of each customer.
#[derive(Debug)]
pub struct Contracts;

/// The fields of `{"type": "contract.signed", "contract": "c_1", "customer": "cus_1"}` that matter here.
#[derive(Debug, Deserialize)]
pub struct Signed {
    contract: String,
    customer: String,
}

impl Handler for Contracts {
    type Fact = Signed;

    fn name(&self) -> &'static str {
        "contracts"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Signed>, HandlerError> {
        if event.event_type == "contract.signed" { read(event, "CONTRACT_UNREADABLE").map(Some) } else { Ok(None) }
    }

    fn domain_key(&self, signed: &Signed) -> DomainKey {
        DomainKey::of([&signed.contract])
    }

    fn plan(&self, event: &Event, signed: &Signed, _snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let Signed { contract, customer } = signed;
        let kept = fields([("customer", customer.as_str().into()), ("received_at", event.received_at.0.into())]);
        let count = vec![Change::Add("contracts".into(), 1)];
        Ok(Plan::default()
            .with(DomainWrite::create(event.once("contract", [contract]), kept))
            .with(DomainWrite::update(event.item_key("customer", [customer]), count)))
    }
}
