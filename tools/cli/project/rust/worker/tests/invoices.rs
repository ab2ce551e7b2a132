//! What the handler plans, without a table or a network.

use hookonce_worker::handler::HandlerError;
use hookonce_worker::plan::{Event, Plan, Snapshot};
use serde_json::{Value, json};

fn event(event_type: &str, body: &Value) -> Event {
    let fields = json!({
        "version": 1, "endpoint": "stripe", "tenant": "stripe", "provider": "stripe", "record": "in#stripe#evt_1",
        "key": "evt_1", "type": event_type, "received_at_ms": 1_767_225_600_000_i64, "generation": 0, "headers": {},
        "body_base64": "",
    });
    Event { body: body.to_string().into_bytes(), ..serde_json::from_value(fields).unwrap() }
}

/// What the handlers plan for an event. None if nobody wants it.
fn plan(event: &Event) -> Result<Option<Plan>, HandlerError> {
    let handlers = worker::handlers();
    handlers.recognise(event)?.map(|wanted| wanted.plan(&Snapshot::default())).transpose()
}

#[test]
fn a_paid_invoice_is_stored_and_counted() {
    let body = json!({"data": {"object": {"id": "in_1", "customer": "cus_1", "amount_paid": 4900}}});
    let planned = json!(plan(&event("invoice.paid", &body)).unwrap().unwrap());
    let keys: Vec<_> = planned["writes"].as_array().unwrap().iter().map(|write| write["key"].clone()).collect();
    assert_eq!(keys, ["stripe#invoice#in_1", "stripe#customer#cus_1"]);
}

#[test]
fn other_events_are_ignored() {
    assert_eq!(plan(&event("customer.created", &json!({}))), Ok(None));
}

#[test]
fn an_invoice_that_cannot_be_read_is_an_error_for_good() {
    let unreadable = HandlerError::permanent("INVOICE_UNREADABLE");
    assert_eq!(plan(&event("invoice.paid", &json!({}))), Err(unreadable));
}
