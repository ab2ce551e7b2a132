//! What a route set decides about an event, without a store.

use std::collections::BTreeMap;

use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_providers::Catalog;
use hookonce_runtime::route::{Assigned, Decision, Fit, Offered, RouteSet, assign};
use hookonce_worker::handlers;
use serde_json::{Value, json};

use crate::support::clock::START;

fn set(routes: &[Value]) -> RouteSet {
    let text = json!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    RouteSet::parse(&text, Offered { handlers: &[], urls: true }).unwrap()
}

fn event(provider: &str, key: &str, body: &Value) -> Event {
    let endpoint = EndpointId::parse("e").unwrap();
    Event {
        version: EVENT_VERSION,
        record: RecordKey::delivery(&endpoint, key),
        tenant: endpoint.clone().into(),
        endpoint,
        provider: provider.to_owned(),
        key: key.to_owned(),
        event_type: "invoice.paid".to_owned(),
        received_at: START,
        generation: 0,
        headers: BTreeMap::new(),
        body: body.to_string().into_bytes(),
    }
}

/// The key of the fact of an event that is forwarded and whose route names no fact. None if there is none.
fn own_fact(provider: &str, key: &str, body: &Value) -> Option<String> {
    let route = json!({ "name": "all", "consumer": "crm", "forward": ["crm"] });
    let event = event(provider, key, body);
    match assign(&handlers::all(), Some(&set(&[route])), Catalog::built_in(), &event) {
        Ok(Assigned::Forward(mandate)) => Some(mandate.domain_key.item(&event.tenant, "crm", &event.record, 0)),
        Err(error) if error.code == "FACT_MISSING" => None,
        other => panic!("{other:?}"),
    }
}

/// Another attempt of the provider and what a stranger makes of one delivery are the same fact, another event is another one.
#[test]
fn an_event_that_is_forwarded_is_one_fact_however_it_comes_again() {
    let mail =
        |id: &str, token: &str| json!({ "signature": {"token": token}, "event-data": {"id": id, "timestamp": 1.5} });
    for (provider, one, again, other) in [
        // The key is signed, and the body may be written anew.
        ("notion", ("e1", json!({"n": 1})), ("e1", json!({"n": 2})), ("e2", json!({"n": 1}))),
        // The body is signed, and the key is free.
        ("github", ("1", json!({"n": 1})), ("2", json!({"n": 1})), ("1", json!({"n": 2}))),
        // A token is signed: the key is that token, and the body holds it.
        ("mailgun", ("t1", mail("e1", "t1")), ("t2", mail("e1", "t2")), ("t3", mail("e2", "t3"))),
        ("paypal", ("t1", json!({"id": "W1"})), ("t2", json!({"id": "W1", "n": 2})), ("t3", json!({"id": "W2"}))),
    ] {
        let fact = |(key, body): (&str, Value)| own_fact(provider, key, &body).unwrap();
        let (one, again, other) = (fact(one), fact(again), fact(other));
        assert_eq!(one, again, "{provider}");
        assert_ne!(one, other, "{provider}");
    }
    assert_eq!(own_fact("mailgun", "t1", &mail("e1", "t1")).unwrap(), "#dk#e#crm#%fact#id#e1:1.5");
    for provider in ["mailgun", "paypal"] {
        assert_eq!(own_fact(provider, "t1", &json!({ "signature": {"token": "t1"} })), None, "{provider}");
    }
}

/// Routes of every kind, of which each index leaves out others.
#[test]
fn the_first_route_that_fits_takes_an_event_whatever_the_indexes_leave_out() {
    let route = |number: usize| {
        let (a, b) = (number % 7, json!(format!("v{}", number % 5)));
        let when = match number % 6 {
            0 => json!({ "a": [a], "b": {"c": [b]} }),
            1 => json!({ "b": {"c": [b, "x"]} }),
            2 => json!({ "a": [{"numeric": [">", a]}] }),
            3 => json!({ "b": {"c": [b, {"exists": false}]} }),
            4 => json!({ "b": {"c": [b]}, "a": [{"exists": false}] }),
            _ => json!({ "list": {"n": [number % 3]}, "a": [a, null] }),
        };
        let types = if number.is_multiple_of(4) { json!(["invoice.*"]) } else { json!(["invoice.paid", "other"]) };
        json!({ "name": number.to_string(), "types": types, "when": when, "ignore": true })
    };
    let routes: Vec<_> = (0..130).rev().map(route).collect();
    let mut taken = 0;
    for number in 0..400_usize {
        let body = match number % 4 {
            0 => json!({ "a": number % 9, "b": {"c": format!("v{}", number % 6)} }),
            1 => json!({ "b": [{"c": format!("v{}", number % 7)}, {"c": ["y"]}] }),
            2 => json!({ "a": null, "list": [{"n": number % 5}] }),
            _ => json!([{ "a": number % 3 }, { "b": {} }]),
        };
        let skip = number % 125;
        let (set, event) = (set(&routes[skip..skip + 5]), event("stripe", "evt_1", &body));
        let fits = set.explain(&event).iter().any(|(_, fit)| *fit == Fit::Fits);
        taken += usize::from(fits);
        assert_eq!(matches!(set.decide(&event), Decision::Ignore), fits, "{body} from {skip}");
    }
    assert!((20..380).contains(&taken), "{taken}: both must happen");
}
