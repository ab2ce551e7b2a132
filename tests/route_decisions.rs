//! What a route set decides about an event, without a store.

use std::ops::Range;

use hookonce_protocol::key::RecordKey;
use hookonce_protocol::plan::Event;
use hookonce_providers::Catalog;
use hookonce_runtime::route::{Assigned, Decision, Fit, RouteSet, assign};
use hookonce_worker::handlers;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
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
    match assign(&handlers::all(), &parsed(&[route]), Catalog::built_in(), &event) {
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

fn entries() -> impl Strategy<Value = Value> {
    let entry = select(vec![
        json!(1),
        json!(1.5),
        json!("x"),
        json!(null),
        json!({"prefix": "x"}),
        json!({"suffix": "x"}),
        json!({"anything-but": [1, 2]}),
        json!({"exists": true}),
        json!({"exists": false}),
        json!({"numeric": [">", 1]}),
    ]);
    vec(entry, 1..3).prop_map(Value::from)
}

fn object(values: impl Strategy<Value = Value>, fields: Range<usize>) -> impl Strategy<Value = Value> {
    let fields = btree_map(select(vec!["a", "b", "c"]), values, fields);
    fields.prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn pattern() -> impl Strategy<Value = Value> {
    let deeper = prop_oneof![2 => entries(), 1 => object(entries(), 1..3)];
    object(prop_oneof![2 => entries(), 1 => object(deeper, 1..3)], 1..3)
}

fn body() -> impl Strategy<Value = Value> {
    let leaf = select(vec![json!(1), json!(1.0), json!(1.5), json!("x"), json!("yx"), json!(null), json!(true)]);
    let value = leaf.prop_recursive(
        4,
        24,
        4,
        |inner| prop_oneof![1 => vec(inner.clone(), 0..4).prop_map(Value::from), 2 => object(inner, 0..4)],
    );
    prop_oneof![4 => object(value.clone(), 0..4), 1 => value]
}

fn routes() -> impl Strategy<Value = Vec<Value>> {
    let types = select(vec![json!(["invoice.*"]), json!(["invoice.paid", "other"]), json!(["other"])]);
    vec((types, proptest::option::weighted(0.95, pattern())), 1..40).prop_map(|routes| {
        let mut number = 0;
        let route = |(types, when): (Value, Option<Value>)| {
            number += 1;
            let name = number.to_string();
            let mut route = json!({ "name": name, "consumer": name, "types": types, "forward": ["crm"] });
            route.as_object_mut().unwrap().extend(when.map(|when| ("when".to_owned(), when)));
            route
        };
        routes.into_iter().map(route).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What explains a set looks at each route by itself.
    #[test]
    fn the_first_route_that_is_said_to_fit_takes_an_event(routes in routes(), body in body()) {
        let (set, event) = (parsed(&routes), event("stripe", "evt_1", &body));
        let explained = set.explain(&event);
        let first = explained.iter().find(|(_, fit)| *fit == Fit::Fits).map(|(name, _)| *name);
        let taker = match set.decide(&event) {
            Decision::Handle(handling) => Some(handling.consumer.as_str()),
            Decision::Otherwise(_) => None,
            other @ (Decision::Ignore | Decision::Unreadable) => panic!("{other:?}"),
        };
        prop_assert_eq!(taker, first);
    }
}
