//! The form of a route set: what is refused, where, and what the schema and the page say of it.

use std::collections::BTreeSet;

use hookonce_protocol::place::TableAlias;
use hookonce_runtime::routes::{
    HandlerDocument, Missing, Offered, Otherwise, RouteDocument, RouteSet, RouteSetDocument,
};
use serde_json::{Value, json};

use crate::routes::{offered, set, sets_of};
use crate::support;

/// A set with one route that has these fields, too, and not those that are `-`.
fn route(mut more: Value) -> String {
    let mut route = json!({ "name": "a", "consumer": "c", "handler": {"builtin": "h"} });
    route.as_object_mut().unwrap().append(more.as_object_mut().unwrap());
    route.as_object_mut().unwrap().retain(|_, value| *value != json!("-"));
    set("ignore", &json!([route])).to_string()
}

/// A list is no object, and the place is told in words, not by line and column.
#[test]
fn a_malformed_set_is_refused_with_its_place() {
    let taker = "routes[0].handler: must be exactly one of builtin, lambda, url";
    for (text, expected) in [
        ("{".to_owned(), "line 1 column 1: EOF"),
        (json!({ "version": 1, "routes": [] }).to_string(), "otherwise: is missing"),
        (set("maybe", &json!([])).to_string(), "otherwise: must be exactly one of ignore, dead, builtin"),
        (route(json!({ "colour": 1 })), "routes[0].colour: unknown field"),
        (route(json!({ "handler": {"queue": "x"} })), taker),
        (route(json!({ "handler": {"lambda": "p", "builtin": "h"} })), taker),
        (route(json!({ "handler": {} })), taker),
        (route(json!({ "handler": ["builtin", "h"] })), taker),
        (route(json!({ "handler": "h" })), taker),
        (route(json!({ "handler": {"lambda": 1} })), "routes[0].handler.lambda: must be text"),
        (route(json!({ "types": "a" })), "routes[0].types: must be a list"),
        (route(json!({ "types": ["a", 1] })), "routes[0].types[1]: must be text"),
        (route(json!({ "when": [] })), "routes[0].when: must be an object"),
        (
            json!({ "version": -1, "otherwise": "dead", "routes": [] }).to_string(),
            "version: must be a whole number from 0",
        ),
        (json!(["s", 1, "dead", []]).to_string(), "the set: must be an object"),
        (set("dead", &json!([["a", "c", null]])).to_string(), "routes[0]: must be an object"),
        (set("dead", &json!({})).to_string(), "routes: must be a list"),
        (route(json!({ "types": null })), "routes[0].types: must be a list"),
        (route(json!({ "when": null })), "routes[0].when: must be an object"),
    ] {
        let error = RouteSet::parse(&text, offered(&["h"])).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected} is not in: {error}");
    }
}

#[test]
fn a_set_is_refused_as_a_whole_and_every_fault_has_its_place() {
    for (text, expected) in [
        (json!({ "version": 2, "otherwise": "dead", "routes": [] }).to_string(), "version: must be 1"),
        (route(json!({ "forward": [] })), "routes[0].forward: must list 1 to 8"),
        (route(json!({ "forward": vec!["a"; 9] })), "routes[0].forward: must list 1 to 8"),
        (route(json!({ "forward": ["crm", "crm"] })), "routes[0].forward[1]: appears twice"),
        (route(json!({ "forward": ["CRM"] })), "routes[0].forward[0]: a destination id has"),
        (route(json!({ "forward": ["crm"], "consumer": "-" })), "routes[0].consumer: must be there"),
        (route(json!({ "destinations": ["a/b"] })), "routes[0].destinations[0]: a destination id has"),
        (route(json!({ "destinations": vec!["a"; 21] })), "routes[0].destinations: must list 1 to 20"),
        (route(json!({ "forward": ["crm"], "handler": "-", "destinations": ["a"] })), "is for the plan of a `handler`"),
        (route(json!({ "forward": ["crm"], "handler": "-", "tables": ["a"] })), "is for the plan of a `handler`"),
        (route(json!({ "forward": ["crm"], "handler": "-", "ignore": true })), "must have either `handler` or"),
        (
            route(json!({ "ignore": true, "handler": "-", "consumer": "-", "destinations": ["a"] })),
            "routes[0].destinations: nothing is remembered of an ignored event",
        ),
        (route(json!({ "handler": {"lambda": "a b"} })), "routes[0].handler.lambda: must be the name or ARN"),
        (route(json!({ "handler": {"url": "http://10.0.0.1:80/"} })), "routes[0].handler.url: must be http:// with"),
        (route(json!({ "name": "" })), "routes[0].name: must have"),
        (route(json!({ "consumer": "-" })), "routes[0].consumer: must be there"),
        (route(json!({ "consumer": "A b" })), "routes[0].consumer: must be there"),
        (route(json!({ "handler": "-" })), "must have either `handler` or"),
        (route(json!({ "ignore": true })), "must have either `handler` or"),
        (
            route(json!({ "ignore": true, "handler": "-" })),
            "routes[0].consumer: nothing is remembered of an ignored event",
        ),
        (route(json!({ "ignore": false, "handler": "-" })), "must have either"),
        (route(json!({ "endpoints": [] })), "routes[0].endpoints: must list"),
        (route(json!({ "types": ["a*b"] })), "routes[0].types: `a*b`"),
        (route(json!({ "types": [""] })), "routes[0].types: `` is empty"),
        (route(json!({ "fact": [] })), "routes[0].fact: must list"),
        (route(json!({ "fact": ["$.a[*]"] })), "routes[0].fact[0]: the path `$.a[*]`"),
        (route(json!({ "fact": ["id"] })), "routes[0].fact[0]: the path `id`"),
        (route(json!({ "tables": ["Orders"] })), "routes[0].tables[0]: an alias of a table has"),
        (route(json!({ "tables": vec!["a"; 21] })), "routes[0].tables: must list at most 20"),
        (
            route(json!({ "ignore": true, "handler": "-", "consumer": "-", "tables": [] })),
            "routes[0].tables: nothing is remembered of an ignored event",
        ),
        (route(json!({ "across_types": true })), "routes[0].across_types: needs `fact`"),
        (route(json!({ "when": {"a": [{"wildcard": "*"}]} })), "routes[0].when.a: the operator `wildcard`"),
        (
            set("dead", &json!([{ "name": "a", "ignore": true }, { "name": "a", "ignore": true }])).to_string(),
            "routes[1].name: routes[0] has the same name",
        ),
        (" ".repeat(1024 * 1024 + 1), "has more than 1048576 bytes"),
    ] {
        let error = RouteSet::parse(&text, offered(&["h"])).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected} is not in: {error}");
    }
    let two = set("dead", &json!([{ "name": "a", "consumer": "B", "types": [""] }])).to_string();
    assert_eq!(RouteSet::parse(&two, offered(&["h"])).unwrap_err().faults.len(), 2, "all faults are told at once");
}

/// A route for these endpoints and types that lists so many values in its `when`.
fn listing(endpoints: &[&str], types: &[&str], values: usize) -> Value {
    let fields = (0..values).step_by(100).map(|first| {
        let values: Vec<_> = (first..values.min(first + 100)).collect();
        (first.to_string(), json!(values))
    });
    let when: serde_json::Map<_, _> = fields.collect();
    json!({ "endpoints": endpoints, "types": types, "when": when, "ignore": true })
}

/// The place of the only fault of a set with these routes.
fn fault(routes: impl IntoIterator<Item = Value>) -> Option<String> {
    let mut routes: Vec<_> = routes.into_iter().collect();
    for (number, route) in routes.iter_mut().enumerate() {
        route["name"] = json!(number.to_string());
    }
    let error = RouteSet::parse(&set("dead", &json!(routes)).to_string(), offered(&[])).err()?;
    let [fault] = error.faults.as_slice() else { panic!("{error}") };
    assert!(fault.reason.starts_with("lists too much"), "{fault}");
    let listed = fault.reason.split_once("these list ").and_then(|(_, rest)| rest.split(';').next());
    assert!(listed.unwrap().parse::<usize>().unwrap() > 1_000, "{fault}");
    Some(fault.place.clone())
}

/// What one event may cost is bounded, however long the set.
#[test]
fn routes_that_one_event_may_meet_list_at_most_a_thousand_values() {
    let any = ["*"].as_slice();
    let all = |values| listing(any, any, values);
    assert_eq!(fault([all(500), all(500)]), None);
    assert_eq!(fault([all(500), all(500), all(1)]).as_deref(), Some("routes[2].when"));
    assert_eq!(fault([all(1_000)]), None);
    assert_eq!(fault([all(1_001)]).as_deref(), Some("routes[0].when"));
    // As many routes as a set may have, one for each customer.
    assert_eq!(fault(vec![all(1); 1_000]), None);
    let unlimited = json!({ "when": {"0": [0]}, "ignore": true });
    assert_eq!(fault([all(1_000), unlimited.clone()]).as_deref(), Some("routes[1].when"));
    assert_eq!(fault([all(1_000), json!({ "ignore": true })]), None, "it asks nothing");
    for (entry, values) in [
        (json!({"anything-but": [1, 2]}), 2),
        (json!({"anything-but": 1}), 1),
        (json!({"numeric": [">", 0, "<", 5]}), 1),
        (json!({"exists": false}), 1),
    ] {
        let route = json!({ "when": {"a": {"b": [entry]}}, "ignore": true });
        let routes = |more| [all(1_000 - values - more), route.clone(), all(more)];
        assert_eq!(fault(routes(1)), None, "{route}");
        assert_eq!(fault([all(1_001 - values), route.clone()]).as_deref(), Some("routes[1].when"), "{route}");
    }

    for (first, second, meet) in [
        ("a", "a", true),
        ("a", "b", false),
        ("a", "aa", false),
        ("a*", "a", true),
        ("a", "a*", true),
        ("aa*", "a*", true),
        ("aa*", "ab*", false),
        ("*", "a", true),
    ] {
        let second_fault = Some("routes[1].when").filter(|_| meet);
        let of_types = [listing(any, &[first], 600), listing(any, &["x", second], 600)];
        assert_eq!(fault(of_types).as_deref(), second_fault, "types {first} and {second}");
        let of_endpoints = [listing(&[first], any, 600), listing(&["x", second], any, 600)];
        assert_eq!(fault(of_endpoints).as_deref(), second_fault, "endpoints {first} and {second}");
    }
    // The endpoint `a` and the type `b` are in no list together.
    let crossed = [listing(&["a"], &["b*"], 600), listing(&["a*"], &["b"], 600)];
    assert_eq!(fault(crossed).as_deref(), Some("routes[1].when"));
    // Each meets each other one, and all three never meet.
    assert_eq!(fault([["a", "b"], ["b", "c"], ["a", "c"]].map(|types| listing(any, &types, 400))), None);
    let twice = [listing(any, &["a*", "ab*", "ab"], 600), listing(any, &["b"], 600)];
    assert_eq!(fault(twice), None, "an event meets a route once");
    let pairs = ["b", "b", "a", "a"].map(|name| listing(any, &[name], 600));
    assert_eq!(fault(pairs).as_deref(), Some("routes[1].when"), "the first one is named");
    let shops: Vec<_> = (0..100).map(|shop| listing(&[&format!("shop-{shop}")], any, 900)).collect();
    assert_eq!(fault(shops.iter().cloned().chain([all(100)])), None, "no event meets two shops");
    let last = fault(shops.into_iter().chain([listing(&["shop-*"], any, 101)]));
    assert_eq!(last.as_deref(), Some("routes[100].when"));
}

/// Whoever deploys a set is told. A worker that meets it runs the rest.
#[test]
fn what_a_worker_lacks_is_a_fault_for_whoever_deploys_and_lets_only_its_route_wait() {
    let tables = BTreeSet::from([TableAlias::parse("orders").unwrap()]);
    let deployed = Offered { handlers: &["h"], urls: false, tables: Some(&tables) };
    let routes = json!([
        { "name": "sound", "consumer": "c", "handler": {"builtin": "h"}, "tables": ["orders"] },
        { "name": "gone", "consumer": "c", "handler": {"builtin": "x"} },
        { "name": "local", "consumer": "c", "handler": {"url": "http://127.0.0.1:9000/"} },
        { "name": "stock", "consumer": "c", "handler": {"lambda": "f"}, "tables": ["orders", "stock"] },
        { "name": "out", "consumer": "c", "forward": ["crm"] },
    ]);
    let text = set("dead", &routes).to_string();
    let expected = [
        ("gone", "routes[1].handler.builtin", "this build has no handler `x`"),
        ("local", "routes[2].handler.url", "a deployed worker calls no URL"),
        ("stock", "routes[3].tables", "the worker has no table `stock`"),
    ];
    let faults = RouteSet::check(&text, deployed).unwrap_err().faults;
    let parsed = RouteSet::parse(&text, deployed).unwrap();
    let missing: Vec<_> = parsed.missing().collect();
    assert_eq!([faults.len(), missing.len()], [3, 3], "{faults:?} {missing:?}");
    for (((name, place, why), fault), Missing { route, what }) in expected.into_iter().zip(&faults).zip(missing) {
        assert_eq!((fault.place.as_str(), route.as_str()), (place, name));
        assert!(fault.reason.starts_with(why) && what.to_string().starts_with(why), "{fault} {what}");
    }
    let laptop = Offered { handlers: &["h", "x"], urls: true, tables: None };
    assert_eq!(RouteSet::check(&text, laptop).unwrap().missing().count(), 0);
    let faulty = text.replace(r#""out""#, r#""""#);
    assert_eq!(RouteSet::check(&faulty, deployed).unwrap_err().faults.len(), 4, "all is told at once");
}

/// The stock worker has no handlers at all.
#[test]
fn a_build_without_handlers_is_a_fault_for_whoever_names_one() {
    let stock = Offered { handlers: &[], urls: false, tables: None };
    let route = json!([{ "name": "paid", "consumer": "c", "handler": {"builtin": "payments"} }]);
    let faults = RouteSet::check(&set("builtin", &route).to_string(), stock).unwrap_err().faults;
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "otherwise: `builtin` asks the handlers of this build, and it has none: the samples run on a laptop only",
            "routes[0].handler.builtin: this build has no handler `payments`, nor any other: the samples run on a laptop \
             only",
        ]
    );
    for sound in [set("dead", &json!([])), set("ignore", &json!([]))] {
        RouteSet::check(&sound.to_string(), stock).unwrap();
    }
}

/// The fields of an object in the schema.
fn properties(schema: &Value) -> Vec<&str> {
    assert_eq!(schema["additionalProperties"], json!(false), "the types refuse unknown fields, and so does the schema");
    schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

fn fields(value: &impl serde::Serialize) -> Vec<String> {
    json!(value).as_object().unwrap().keys().cloned().collect()
}

#[test]
fn a_set_may_name_its_schema_and_no_field_twice() {
    let parse = |text: &str| RouteSet::parse(text, offered(&["payments"]));
    let named = r#"{"$schema": "https://example.com/routes.json", "version": 1, "otherwise": "dead", "routes": []}"#;
    assert!(parse(named).is_ok());
    let when = |when: &str| {
        let route = format!(r#"{{"name": "a", "ignore": true, "when": {when}}}"#);
        parse(&format!(r#"{{"version": 1, "otherwise": "dead", "routes": [{route}]}}"#))
    };
    assert!(when(r#"{"a": {"b": [1, null, "x", {"prefix": "p"}]}, "c": [true]}"#).is_ok());
    for twice in
        [r#"{"a": [1], "a": [2]}"#, r#"{"a": {"b": [1], "b": [2]}}"#, r#"{"a": [{"prefix": "x", "prefix": "y"}]}"#]
    {
        let error = when(twice).unwrap_err();
        assert!(error.to_string().contains("appears twice"), "{twice}: {error}");
    }
    assert!(when("[1]").is_err() && when("null").is_err());
}

/// What the schema is for an editor is what the types read.
#[test]
fn the_schema_describes_the_types() {
    let schema: Value = serde_json::from_str(&support::document("schemas/routes.json")).unwrap();
    let words = [Otherwise::Ignore, Otherwise::Dead, Otherwise::Builtin];
    let route = RouteDocument {
        name: "n".to_owned(),
        consumer: Some("c".to_owned()),
        endpoints: Some(vec!["e".to_owned()]),
        types: Some(vec!["t".to_owned()]),
        when: json!({"a": ["b"]}).as_object().cloned(),
        fact: Some(vec!["$.id".to_owned()]),
        across_types: Some(true),
        handler: Some(HandlerDocument::Builtin("h".to_owned())),
        tables: Some(vec!["orders".to_owned()]),
        destinations: Some(vec!["receipts".to_owned()]),
        forward: Some(vec!["crm".to_owned()]),
        ignore: Some(true),
    };
    let schema_of = Some("schemas/routes.json".to_owned());
    let document =
        RouteSetDocument { schema: schema_of, version: 1, otherwise: Otherwise::Dead, routes: vec![route.clone()] };
    assert_eq!(properties(&schema), fields(&document));
    assert_eq!(schema["properties"]["version"]["const"], json!(1));
    assert_eq!(schema["properties"]["otherwise"]["enum"], json!(words));
    let described = &schema["$defs"]["route"];
    assert_eq!(properties(described), fields(&route));
    let handlers: Vec<_> = [HandlerDocument::Builtin, HandlerDocument::Lambda, HandlerDocument::Url]
        .into_iter()
        .flat_map(|handler| fields(&handler("h".to_owned())))
        .collect();
    assert_eq!(properties(&described["properties"]["handler"]), handlers);
    // Whatever the schema says of a name or a count is what the checker says, too.
    let limit = |field: &str, key: &str| described["properties"][field][key].as_u64().unwrap();
    assert_eq!([limit("endpoints", "maxItems"), limit("types", "maxItems"), limit("fact", "maxItems")], [100, 100, 8]);
    assert_eq!([limit("destinations", "maxItems"), limit("forward", "maxItems")], [20, 8]);
    assert_eq!(limit("tables", "maxItems"), hookonce_runtime::handlers::tables::OWN_TABLES_MAX as u64);
    assert_eq!(described["properties"]["consumer"]["pattern"], json!("^[a-z0-9_-]{1,64}$"));
    assert_eq!(schema["properties"]["routes"]["maxItems"], json!(1_000));

    assert!(!sets_of("docs/use/routes.md").is_empty(), "the page has an example");
}
