//! What a route set decides about an event, without a store.

use hookonce_examples::handlers;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::plan::Event;
use hookonce_providers::Catalog;
use hookonce_runtime::routes::{Assigned, Decision, Fit, RouteSet, assign};
use serde_json::{Value, json};

use crate::routes::{offered, set};
use crate::support::samples::invoice_paid;

fn parsed(routes: &[Value]) -> RouteSet {
    RouteSet::parse(&set("dead", &json!(routes)).to_string(), offered(&[])).unwrap()
}

fn event(provider: &str, key: &str, body: &Value) -> Event {
    let paid = crate::handlers::event(&invoice_paid("evt_1", "in_1", 1));
    Event {
        record: RecordKey::delivery(&paid.endpoint, key),
        provider: provider.to_owned(),
        key: key.to_owned(),
        body: body.to_string().into_bytes(),
        ..paid
    }
}

/// The key of the fact of an event that is forwarded and whose route names no fact. None if there is none.
fn own_fact(provider: &str, key: &str, body: &Value) -> Option<String> {
    let route = json!({ "name": "all", "consumer": "crm", "forward": ["crm"] });
    let event = event(provider, key, body);
    match assign(&handlers(), &parsed(&[route]), Catalog::built_in(), &event) {
        Ok(Assigned::Forward(assignment)) => Some(assignment.domain_key.item(&event.tenant, "crm", &event.record, 0)),
        Err(error) if error.code == "FACT_MISSING" => None,
        other => panic!("{other:?}"),
    }
}

/// Another attempt of the provider and what somebody else makes of one delivery are the same fact, another event is
/// another one.
#[test]
fn an_event_that_is_forwarded_is_one_fact_however_it_comes_again() {
    let mail =
        |id: &str, token: &str| json!({ "signature": {"token": token}, "event-data": {"id": id, "timestamp": 1.5} });
    for (provider, one, again, other) in [
        // The key is signed, and the body may be serialized again.
        ("notion", ("e1", json!({"n": 1})), ("e1", json!({"n": 2})), ("e2", json!({"n": 1}))),
        // The body is signed, and the key is free.
        ("github", ("1", json!({"n": 1})), ("2", json!({"n": 1})), ("1", json!({"n": 2}))),
        // A token is signed: the key is that token, and the body holds it.
        ("mailgun", ("t1", mail("e1", "t1")), ("t2", mail("e1", "t2")), ("t3", mail("e2", "t3"))),
        // The text of a form is signed: a retry has the same, and two steps of a call may have one body.
        ("twilio", ("sha256:1", json!("a=1")), ("sha256:1", json!("a=1&")), ("sha256:2", json!("a=1"))),
        ("paypal", ("t1", json!({"id": "W1"})), ("t2", json!({"id": "W1", "n": 2})), ("t3", json!({"id": "W2"}))),
    ] {
        let fact = |(key, body): (&str, Value)| own_fact(provider, key, &body).unwrap();
        let (one, again, other) = (fact(one), fact(again), fact(other));
        assert_eq!(one, again, "{provider}");
        assert_ne!(one, other, "{provider}");
    }
    assert_eq!(own_fact("mailgun", "t1", &mail("e1", "t1")).unwrap(), "#dk#stripe#crm#%fact#id#stripe#e1:1.5");
    for provider in ["mailgun", "paypal"] {
        assert_eq!(own_fact(provider, "t1", &json!({ "signature": {"token": "t1"} })), None, "{provider}");
    }
}

/// What explains a set looks at each route by itself.
#[test]
fn the_first_route_that_fits_takes_an_event() {
    let route = |name: &str, types: &str, when: &Value| json!({ "name": name, "consumer": name, "types": [types], "when": when, "forward": ["crm"] });
    let routes = [
        route("other", "other", &json!({"a": [1]})),
        route("one", "invoice.*", &json!({"a": [1]})),
        route("two", "invoice.paid", &json!({"a": [{"exists": true}]})),
        json!({ "name": "rest", "consumer": "rest", "types": ["invoice.paid"], "forward": ["crm"] }),
    ];
    let all = parsed(&routes);
    for (body, taker, fits) in [
        (json!({"a": 1}), "one", vec!["one", "two", "rest"]),
        (json!({"a": 2}), "two", vec!["two", "rest"]),
        (json!([]), "rest", vec!["rest"]),
    ] {
        let event = event("stripe", "evt_1", &body);
        let Decision::Handle(handling) = all.decide(&event) else { panic!("no route takes {body}") };
        assert_eq!(handling.consumer, taker, "{body}");
        let explained = all.explain(&event).into_iter().filter(|(_, fit)| *fit == Fit::Fits);
        assert_eq!(explained.map(|(name, _)| name).collect::<Vec<_>>(), fits, "{body}");
    }
    // Only a route that has to be asked makes the event die.
    let broken = |routes: &[Value]| {
        let event = Event { body: b"no JSON".to_vec(), ..event("stripe", "evt_1", &json!({})) };
        matches!(parsed(routes).decide(&event), Decision::Unreadable)
    };
    assert!(broken(&routes) && !broken(&routes[3..]));
    assert!(!broken(&[routes[0].clone(), routes[3].clone(), routes[1].clone()]), "one without `when` comes first");
}
