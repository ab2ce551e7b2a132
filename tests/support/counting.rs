//! A handler whose change shows every application: it always adds one.
//!
//! The shipped handlers protect their items with their own conditions. That is good for users, but would hide from
//! these tests what the protocol lets through.

use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Check, DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::write::Change;
use hookonce_runtime::handlers::{Handler, HandlerError, Handlers, read};
use serde_json::{Value, json};

use super::delivery::Delivery;

/// Counts how often a fact was applied. Panics in the step that a fact names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counting;

/// The worker's handlers: just this one.
pub(crate) fn counting() -> Handlers {
    Handlers::new().with(Counting)
}

fn may_panic(step: &str, fact: &str) {
    assert_ne!(fact, step, "the handler panics in this step");
}

impl Handler for Counting {
    type Fact = String;

    fn name(&self) -> &'static str {
        "counting"
    }

    fn recognise(&self, event: &Event) -> Result<Option<String>, HandlerError> {
        if !event.event_type.starts_with("count.") {
            return Ok(None);
        }
        let body: Value = read(event, "NOT_JSON")?;
        // An event of HubSpot is a list of one.
        let fact = body.get(0).unwrap_or(&body)["fact"].as_str().ok_or(HandlerError::permanent("NO_FACT"))?;
        may_panic("recognise", fact);
        Ok(Some(fact.to_owned()))
    }

    fn domain_key(&self, fact: &String) -> DomainKey {
        may_panic("domain_key", fact);
        DomainKey::of([fact])
    }

    fn reads(&self, _event: &Event, fact: &String) -> Vec<ItemRef> {
        may_panic("reads", fact);
        Vec::new()
    }

    fn plan(&self, event: &Event, fact: &String, _snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        may_panic("plan", fact);
        match event.event_type.as_str() {
            "count.never" => Err(HandlerError::permanent("NEVER")),
            "count.later" => Err(HandlerError::retryable("LATER")),
            _ => {
                let counter = event.item_key("count", [fact]);
                let plan = Plan::default().with(DomainWrite::update(counter, vec![Change::Add("applied".into(), 1)]));
                let closed = Check::as_seen(event.item_key("closed", [fact]), &Snapshot::default(), ["at"]);
                Ok(if event.event_type == "count.checked" { plan.with_check(closed) } else { plan })
            }
        }
    }
}

/// A Standard Webhooks delivery with this id whose fact is counted.
pub(crate) fn count(id: &str, fact: &str) -> Delivery {
    counted(id, "count.once", fact)
}

/// A Standard Webhooks delivery of this type.
pub(crate) fn counted(id: &str, event_type: &str, fact: &str) -> Delivery {
    let body = json!({ "type": event_type, "fact": fact }).to_string();
    Delivery::new("standard_webhooks", body).header("webhook-id", id)
}

/// The name of a counted fact in the tables.
pub(crate) fn counted_fact(fact: &str) -> String {
    format!("standard_webhooks#counting#{fact}")
}
