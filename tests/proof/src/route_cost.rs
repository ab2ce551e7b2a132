//! What a route set costs an event: `scripts/bench routes`.
//!
//! An event of two kilobytes meets a set with one route and sets with as many as a set may have, of which only the last
//! one takes it. In the worst cases an event has as many values as a worker looks at, and meets routes that list as
//! many values and operators as the routes for one event may: none of them fits.

use std::collections::BTreeMap;
use std::time::Instant;

use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::routes::{Decision, Offered, Otherwise, ROUTES_MAX, RouteSet};
use serde_json::{Value, json};

/// What a decision may cost, in microseconds.
const MICROSECONDS_MAX: f64 = 500.0;

/// What it may cost in the worst cases.
const WORST_MICROSECONDS_MAX: f64 = 200_000.0;

/// The handler that all routes name.
const HANDLER: &str = "payments";

/// The last of as many routes as a set may have.
const LAST: usize = ROUTES_MAX - 1;

/// How many values of a body are left for its arrays, beside the objects and arrays around them.
const VALUES: usize = 9_990;

/// The name of a set's figure, how many routes it has, and the route of each number.
type Set = (&'static str, usize, fn(usize) -> Value);

/// The sets that meet the event of two kilobytes.
const USUAL: &[Set] = &[
    ("one_route_us", 1, |_| of_type(LAST)),
    ("types_us", ROUTES_MAX, of_type),
    ("names_us", ROUTES_MAX, of_names),
    ("customers_us", ROUTES_MAX, |number| route(number, &json!({"data": {"account": [format!("acct_{number}")]}}))),
];

/// A set, and the array of the body that it meets.
type Worst = (Set, fn() -> Vec<Value>);

/// The worst cases.
const WORST: &[Worst] = &[
    // Texts of which only the last characters differ.
    (
        ("texts_us", 100, |number| {
            let texts: Vec<_> = (0..10).map(|text| format!("customer_{:04}", number * 10 + text)).collect();
            route(number, &json!({ "array": texts }))
        }),
        || (0..VALUES).map(|text| json!(format!("customer_{text:04}?"))).collect(),
    ),
    (
        ("suffixes_us", ROUTES_MAX, |number| route(number, &json!({"array": [{"suffix": format!("_{number:04}")}]}))),
        || (0..VALUES).map(|text| json!(format!("customer_{text:04}_x"))).collect(),
    ),
    (
        ("anything_but_us", 10, |number| {
            let but: Vec<_> = (0..99).map(|but| number * 1_000 + but).chain([100_000]).collect();
            route(number, &json!({"array": [{"anything-but": but}]}))
        }),
        || vec![json!(100_000); VALUES],
    ),
    (
        ("bounds_us", ROUTES_MAX, |number| {
            route(number, &json!({"array": [{"numeric": [">", 10_000 + number, "<", 100_000.5]}]}))
        }),
        || (0..VALUES).map(|number| json!(number)).collect(),
    ),
    // Two fields that each element has, but not with these values together.
    (("objects_us", 500, |number| route(number, &json!({"array": {"kind": ["b"], "number": [10 + number]}}))), || {
        (0..VALUES / 3).map(|number| json!({"kind": "b", "number": 100_000 + number})).collect()
    }),
    // The same with what one element has and none must have.
    (
        ("absences_us", 333, |number| {
            let kind = format!("kind_{number}");
            route(number, &json!({"array": {"kind": [kind], "number": [1], "other": [{"exists": false}]}}))
        }),
        || (0..VALUES / 3).map(|_| json!({"kind": "b", "number": 1})).collect(),
    ),
    // Fields that no element has.
    (
        ("missing_fields_us", ROUTES_MAX, |number| route(number, &json!({"array": {format!("field_{number}"): [1]}}))),
        || (0..VALUES / 2).map(|number| json!({format!("field_{}", number % ROUTES_MAX): 0})).collect(),
    ),
];

/// A set with so many routes.
fn set(count: usize, route: fn(usize) -> Value) -> Option<RouteSet> {
    let routes: Vec<_> = (0..count).map(route).collect();
    let text = json!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    RouteSet::parse(&text, Offered { handlers: &[HANDLER], urls: false, tables: None }).ok()
}

fn route(number: usize, when: &Value) -> Value {
    json!({ "name": number.to_string(), "consumer": "billing", "when": when, "handler": {"builtin": HANDLER} })
}

/// A route for one type of its own, which also asks about the body.
fn of_type(number: usize) -> Value {
    let mut route = route(number, &json!({"data": {"object": {"amount": [{"numeric": [">", 0]}]}}}));
    route["endpoints"] = json!(["stripe-*"]);
    route["types"] = json!([format!("type.{number}")]);
    route
}

/// A route for beginnings of endpoints and types, ten of either. Only of the last one do the types fit, too.
fn of_names(number: usize) -> Value {
    let mut route = of_type(number);
    let types = if number == LAST { "type.*" } else { "other.*" };
    for (field, last) in [("endpoints", "stripe-*"), ("types", types)] {
        route[field] = (0..9).map(|other| format!("{other}*")).chain([last.to_owned()]).collect();
    }
    route
}

/// An event with this body.
fn event(body: &Value) -> Option<Event> {
    let endpoint = EndpointId::parse("stripe-eu").ok()?;
    Some(Event {
        version: EVENT_VERSION,
        record: RecordKey::delivery(&endpoint, "evt_1"),
        tenant: endpoint.clone().into(),
        endpoint,
        provider: "stripe".to_owned(),
        key: "evt_1".to_owned(),
        event_type: format!("type.{LAST}"),
        received_at: EpochMs(0),
        generation: 0,
        headers: BTreeMap::new(),
        body: body.to_string().into_bytes(),
    })
}

/// Microseconds for one decision. `None` if one was not as expected. The quickest round counts, because what else runs
/// makes a round slower, and nothing makes one quicker.
#[expect(clippy::disallowed_methods, reason = "a round is shorter than a step of the system's own clock")]
fn microseconds(
    (set, event): (&RouteSet, &Event),
    (rounds, decisions): (usize, u32),
    is_expected: fn(&Decision<'_>) -> bool,
) -> Option<f64> {
    let round = |_| {
        let begun = Instant::now();
        let all_expected = (0..decisions).all(|_| is_expected(&set.decide(std::hint::black_box(event))));
        all_expected.then(|| begun.elapsed().as_secs_f64() * 1_000_000.0 / f64::from(decisions))
    };
    let rounds = (0..rounds).map(round).collect::<Option<Vec<_>>>()?;
    rounds.into_iter().min_by(f64::total_cmp).map(|least| (least * 10.0).round() / 10.0)
}

/// The figures, and what costs more than it may.
pub fn measure() -> Option<(Value, Vec<String>)> {
    let usual = event(&json!({
        "type": format!("type.{LAST}"), "padding": "x".repeat(1_800),
        "data": {"account": format!("acct_{LAST}"), "object": {"id": "in_1", "amount": 4_900}},
    }))?;
    let mut figures = json!({
        "bench": "routes", "routes": ROUTES_MAX, "body_bytes": usual.body.len(), "optimized": !cfg!(debug_assertions),
    });
    let mut over = Vec::new();
    let mut note = |name: &str, cost: f64, most: f64| {
        if cost > most {
            over.push(format!("{name} is {cost}, more than {most}"));
        }
        figures[name] = json!(cost);
    };
    for (name, count, route) in USUAL {
        let is_taken = |decision: &Decision<'_>| matches!(decision, Decision::Handle(_));
        let cost = microseconds((&set(*count, *route)?, &usual), (200, 100), is_taken)?;
        note(name, cost, MICROSECONDS_MAX);
    }
    for ((name, count, route), array) in WORST {
        let event = event(&json!({ "array": array() }))?;
        let is_untaken = |decision: &Decision<'_>| matches!(decision, Decision::Otherwise(Otherwise::Dead));
        let cost = microseconds((&set(*count, *route)?, &event), (5, 1), is_untaken)?;
        note(name, cost, WORST_MICROSECONDS_MAX);
    }
    Some((figures, over))
}
