//! What a route set costs an event: `scripts/bench routes`.
//!
//! The same events meet a set with one route and sets with as many as a set may have. In the usual set each route is for
//! types of its own, so the index leaves few to look at. In the next one every route asks for a value of its own in one field,
//! which is indexed, too. In the worst one every route asks about the body in a way that no index knows.

use std::collections::BTreeMap;

use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::route::{Decision, Offered, ROUTES_MAX, RouteSet};
use serde_json::{Value, json};

/// How often each set decides.
const DECISIONS: i64 = 20_000;

/// The handler that all routes name.
const HANDLER: &str = "payments";

/// A set with these routes, by their number.
fn set(count: usize, route: impl Fn(usize) -> Value) -> Option<RouteSet> {
    let routes: Vec<_> = (0..count).map(route).collect();
    let text = json!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    RouteSet::parse(&text, Offered { handlers: &[HANDLER], urls: false }).ok()
}

/// A route for one type of its own, which also asks about the body.
fn usual(number: usize) -> Value {
    json!({
        "name": number.to_string(), "consumer": "billing", "endpoints": ["stripe-*"], "types": [format!("type.{number}")],
        "when": {"data": {"object": {"amount": [{"numeric": [">", 0]}]}}}, "handler": {"builtin": HANDLER}
    })
}

/// A route for every event whose account is the one of this number.
fn exact(number: usize) -> Value {
    asks(number, &json!(format!("acct_{number}")))
}

/// The same, asked so that each route must be compared.
fn worst(number: usize) -> Value {
    asks(number, &json!({ "suffix": format!("acct_{number}") }))
}

fn asks(number: usize, account: &Value) -> Value {
    json!({ "name": number.to_string(), "consumer": "billing", "when": {"data": {"account": [account]}}, "handler": {"builtin": HANDLER} })
}

/// An event of two kilobytes that only the last route of a set of this length takes.
fn event(routes: usize) -> Option<Event> {
    let endpoint = EndpointId::parse("stripe-eu").ok()?;
    let last = routes - 1;
    let body = json!({
        "type": format!("type.{last}"), "padding": "x".repeat(1_800),
        "data": {"account": format!("acct_{last}"), "object": {"id": "in_1", "amount": 4_900}}
    });
    Some(Event {
        version: EVENT_VERSION,
        record: RecordKey::delivery(&endpoint, "evt_1"),
        tenant: endpoint.clone().into(),
        endpoint,
        provider: "stripe".to_owned(),
        key: "evt_1".to_owned(),
        event_type: format!("type.{last}"),
        received_at: EpochMs(0),
        generation: 0,
        headers: BTreeMap::new(),
        body: body.to_string().into_bytes(),
    })
}

/// Microseconds for one decision. `None` if the event did not get where it belongs.
fn microseconds(set: &RouteSet, event: &Event) -> Option<f64> {
    let begun = System.moment().now;
    let mut taken = 0;
    for _ in 0..DECISIONS {
        taken += i64::from(matches!(set.decide(std::hint::black_box(event)), Decision::Handle(_)));
    }
    let millis = System.moment().now.0 - begun.0;
    let millis = f64::from(i32::try_from(millis).unwrap_or(i32::MAX));
    (taken == DECISIONS).then_some(millis * 1_000.0 / f64::from(i32::try_from(DECISIONS).unwrap_or(i32::MAX)))
}

/// The figures.
pub fn measure() -> Option<Value> {
    let (one, many) = (event(1)?, event(ROUTES_MAX)?);
    Some(json!({
        "bench": "routes", "routes": ROUTES_MAX, "body_bytes": many.body.len(), "decisions": DECISIONS,
        "optimized": !cfg!(debug_assertions),
        "one_route_us": microseconds(&set(1, usual)?, &one)?,
        "usual_us": microseconds(&set(ROUTES_MAX, usual)?, &many)?,
        "exact_us": microseconds(&set(ROUTES_MAX, exact)?, &many)?,
        "worst_us": microseconds(&set(ROUTES_MAX, worst)?, &many)?,
    }))
}
