//! What a route set costs an event: `scripts/bench routes`.
//!
//! The same event meets a set with one route and sets with as many as a set may have. In the usual set each route is
//! for types of its own. In the others every route is for every type, and only the last one takes the event: they ask
//! for exact values, for the beginnings and ends of texts, for all texts but some, for bounds of a number, for fields
//! of their own, for several fields, or for elements of an array. In the sets called split, each route asks for two
//! fields that the event has in two elements. In the sets of arrays, the event has arrays of a thousand values, or one
//! of a thousand objects.

use std::collections::BTreeMap;
use std::time::Instant;

use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::route::{Decision, Offered, ROUTES_MAX, RouteSet};
use serde_json::{Value, json};

/// What a decision may cost.
const MICROSECONDS_MAX: f64 = 50.0;

/// What it may cost for an event with arrays of a thousand elements.
const ARRAYS_MICROSECONDS_MAX: f64 = 300.0;

/// The same for an array of a thousand objects.
const OBJECTS_MICROSECONDS_MAX: f64 = 1_000.0;

/// How often each set decides in one round: a few milliseconds, for which even a busy machine lets a process run.
const DECISIONS: u32 = 100;

/// The rounds. The quickest one counts, because what else runs makes a round slower, and nothing makes one quicker.
const ROUNDS: usize = 200;

/// The handler that all routes name.
const HANDLER: &str = "payments";

/// The name of a set's figure, and the route of each number.
type Set = (&'static str, fn(usize) -> Value);

/// The sets that meet an event without large arrays.
const PLAIN: &[Set] = &[
    ("usual_us", usual),
    ("exact_us", exact),
    // For the same accounts, by the end of their text.
    ("ends_us", |number| asks(number, &json!({"data": {"account": [{"suffix": format!("acct_{number}")}]}}))),
    // For amounts from a bound of its own on.
    ("bounds_us", |number| {
        asks(number, &json!({"data": {"object": {"amount": [{"numeric": [">=", 4_900 + ROUTES_MAX - 1 - number]}]}}}))
    }),
    // For a field that no other route asks about.
    ("own_fields_us", |number| asks(number, &json!({"data": {format!("field_{number}"): [{"exists": true}]}}))),
    ("several_fields_us", several_fields),
    // For a kind of line, of which the event has ten.
    ("elements_us", |number| {
        asks(number, &json!({"data": {"lines": {"kind": [{"suffix": format!("kind_{number}")}]}}}))
    }),
    // For texts with a beginning of its own.
    ("beginnings_us", |number| asks(number, &json!({"data": {"code": [{"prefix": format!("{number:04}")}]}}))),
    ("beginnings_of_names_us", beginnings_of_names),
    // For all texts but two, one of them its own.
    ("anything_but_us", |number| {
        let but = [format!("acct_{}", ROUTES_MAX - 1), format!("but_{number}")];
        last_or(number, &json!({"data": {"account": [{"anything-but": but}]}}))
    }),
    ("split_bounds_us", split_bounds),
    ("split_exact_us", split_exact),
];

/// The sets that meet an event with arrays of a thousand values.
const OF_VALUES: &[Set] = &[
    // For numbers above a bound of its own.
    ("bounds_of_array_us", |number| {
        last_or(number, &json!({"data": {"numbers": [{"numeric": [">", ROUTES_MAX + number]}]}}))
    }),
    ("ranges_of_array_us", range_of_array),
    // For all texts but three, of which the event has two.
    ("anything_but_of_array_us", |number| {
        last_or(number, &json!({"data": {"texts": [{"anything-but": ["red", "blue", format!("but_{number}")]}]}}))
    }),
];

/// The sets that meet an event with an array of a thousand objects.
const OF_OBJECTS: &[Set] = &[
    ("split_bounds_of_array_us", split_bounds),
    ("split_exact_of_array_us", split_exact),
    // For an element that is one thing and must not have another. The event has elements of either.
    ("split_absent_of_array_us", |number| {
        last_or(number, &json!({"data": {"split": {"k": ["b"], "other": [{"exists": false}], "q": [0, 10 + number]}}}))
    }),
];

/// A set with these routes, by their number.
fn set(count: usize, route: impl Fn(usize) -> Value) -> Option<RouteSet> {
    let routes: Vec<_> = (0..count).map(route).collect();
    let text = json!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    RouteSet::parse(&text, Offered { handlers: &[HANDLER], urls: false, tables: None }).ok()
}

/// A route for one type of its own, which also asks about the body.
fn usual(number: usize) -> Value {
    json!({
        "name": number.to_string(), "consumer": "billing", "endpoints": ["stripe-*"], "types": [format!("type.{number}")],
        "when": {"data": {"object": {"amount": [{"numeric": [">", 0]}]}}}, "handler": {"builtin": HANDLER}
    })
}

fn asks(number: usize, when: &Value) -> Value {
    json!({ "name": number.to_string(), "consumer": "billing", "when": when, "handler": {"builtin": HANDLER} })
}

/// A route for the account of this number.
fn exact(number: usize) -> Value {
    asks(number, &json!({"data": {"account": [format!("acct_{number}")]}}))
}

/// A route that asks for four fields, of which one tells it from the others.
fn several_fields(number: usize) -> Value {
    let object = json!({"amount": [{"numeric": [">", 0]}], "refund": [{"exists": false}]});
    let account = json!([{"suffix": format!("acct_{number}")}]);
    asks(number, &json!({"live": [true], "data": {"account": account, "object": object}}))
}

/// A route of which each field fits in the event, but in different elements.
fn split_bounds(number: usize) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "there are 1,000 routes")]
    let bound = number as f64 / 1_000.0;
    last_or(number, &json!({"data": {"split": {"k": ["b"], "q": [{"numeric": [">", bound]}]}}}))
}

/// The same with exact values.
fn split_exact(number: usize) -> Value {
    last_or(number, &json!({"data": {"split": {"k": ["b"], "q": [5, 10 + number]}}}))
}

/// A route for numbers between two of the array's own.
fn range_of_array(number: usize) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "there are 1,000 routes")]
    let below = number as f64;
    last_or(number, &json!({"data": {"numbers": [{"numeric": [">", below, "<", below + 0.5]}]}}))
}

/// A route for beginnings of endpoints and types, fifty of either. Only of the last one do the types fit, too.
fn beginnings_of_names(number: usize) -> Value {
    let mut route = exact(number);
    let types = if number + 1 == ROUTES_MAX { "type.*" } else { "other.*" };
    for (field, last) in [("endpoints", "stripe-*"), ("types", types)] {
        let others = (0..49).map(|other| format!("{other}*"));
        route[field] = others.chain([last.to_owned()]).collect();
    }
    route
}

/// A route that does not take the event, unless it is the last one.
fn last_or(number: usize, when: &Value) -> Value {
    if number + 1 == ROUTES_MAX { exact(number) } else { asks(number, when) }
}

/// What an event has much of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Much {
    Nothing,
    /// An array of a thousand numbers, and one of as many texts.
    Values,
    /// An array of a thousand objects.
    Objects,
}

/// An event of two kilobytes and what it has much of. Only the last route takes it.
fn event(much: Much) -> Option<Event> {
    let endpoint = EndpointId::parse("stripe-eu").ok()?;
    let last = ROUTES_MAX - 1;
    let split = if much == Much::Objects { ROUTES_MAX / 2 } else { 1 };
    let split: Vec<_> = (0..split).flat_map(|_| [json!({"k": "a", "q": 5}), json!({"k": "b", "q": 0})]).collect();
    let mut body = json!({
        "type": format!("type.{last}"), "padding": "x".repeat(1_500), "live": true,
        "data": {
            "account": format!("acct_{last}"), format!("field_{last}"): 1, "object": {"id": "in_1", "amount": 4_900},
            "code": format!("{last:04}-a"), "split": split,
            "lines": (0..10).map(|line| json!({"kind": format!("kind_{}", last + line)})).collect::<Vec<_>>(),
        }
    });
    match much {
        Much::Nothing => {}
        Much::Values => {
            body["data"]["numbers"] = (0..ROUTES_MAX).rev().collect();
            body["data"]["texts"] = ["red", "blue"].iter().cycle().take(ROUTES_MAX).copied().collect();
        }
        Much::Objects => body["data"]["split"].as_array_mut()?.push(json!({"other": 1})),
    }
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
#[expect(clippy::disallowed_methods, reason = "a round is shorter than a step of the system's own clock")]
fn microseconds(set: &RouteSet, event: &Event) -> Option<f64> {
    let round = |_| {
        let begun = Instant::now();
        let taken = |_| matches!(set.decide(std::hint::black_box(event)), Decision::Handle(_));
        let all_taken = (0..DECISIONS).all(taken);
        all_taken.then(|| begun.elapsed().as_secs_f64() * 1_000_000.0 / f64::from(DECISIONS))
    };
    let rounds = (0..ROUNDS).map(round).collect::<Option<Vec<_>>>()?;
    rounds.into_iter().min_by(f64::total_cmp).map(|least| (least * 10.0).round() / 10.0)
}

/// The figures, and what costs more than it may.
pub fn measure() -> Option<(Value, Vec<String>)> {
    let [plain, values, objects] = [event(Much::Nothing)?, event(Much::Values)?, event(Much::Objects)?];
    let alone = set(1, |_| usual(ROUTES_MAX - 1))?;
    let mut figures = json!({
        "bench": "routes", "routes": ROUTES_MAX, "body_bytes": plain.body.len(), "decisions": DECISIONS, "rounds": ROUNDS,
        "optimized": !cfg!(debug_assertions), "one_route_us": microseconds(&alone, &plain)?,
        "values_body_bytes": values.body.len(), "one_route_of_values_us": microseconds(&alone, &values)?,
        "objects_body_bytes": objects.body.len(), "one_route_of_objects_us": microseconds(&alone, &objects)?,
    });
    let mut over = Vec::new();
    for (event, most, sets) in [
        (&plain, MICROSECONDS_MAX, PLAIN),
        (&values, ARRAYS_MICROSECONDS_MAX, OF_VALUES),
        (&objects, OBJECTS_MICROSECONDS_MAX, OF_OBJECTS),
    ] {
        for (name, route) in sets {
            let cost = microseconds(&set(ROUTES_MAX, route)?, event)?;
            figures.as_object_mut()?.insert((*name).to_owned(), json!(cost));
            if cost > most {
                over.push(format!("{name} is {cost}, more than {most}"));
            }
        }
    }
    Some((figures, over))
}
