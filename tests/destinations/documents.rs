//! What a document says, and what is refused of it.

use std::collections::BTreeSet;

use hookonce_protocol::destination::Class;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{DESTINATION_CALL_MAX, Timing};
use hookonce_runtime::destinations::{
    ClassName, DestinationDocument, DestinationError, DestinationKind, HEADERS_MAX, IN_FLIGHT_MAX, SuccessDocument,
};
use serde_json::{Value, json};

use super::destination;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

fn http() -> Value {
    json!({"kind": "http", "url": "https://api.example.com/v1", "class": "at_least_once"})
}

/// A document with some fields set. `null` takes a field away.
fn with(document: &Value, changes: &Value) -> Value {
    let mut document = document.clone();
    for (field, value) in changes.as_object().unwrap() {
        document[field] = value.clone();
        if value.is_null() {
            document.as_object_mut().unwrap().remove(field);
        }
    }
    document
}

/// The fields that are refused.
fn refused(document: &Value) -> Vec<String> {
    match destination(document) {
        Err(DestinationError { faults }) => faults.into_iter().map(|fault| fault.place).collect(),
        other => panic!("{document}: {other:?}"),
    }
}

#[test]
fn the_terms_come_from_the_document() {
    let keyed = json!({
        "class": "keyed", "key_window_hours": 24, "key_source_url": "https://docs.example.com/keys",
        "key_header": "Idempotency-Key", "timeout_ms": 7_000, "give_up_after_hours": 5
    });
    let terms = destination(&with(&http(), &keyed)).unwrap().terms();
    assert_eq!(terms.class, Class::Keyed { window: Millis::hours(24) });
    assert_eq!((terms.timeout, terms.give_up_after), (Millis::seconds(7), Millis::hours(5)));
    let plain = destination(&http()).unwrap();
    assert_eq!((plain.terms().timeout, plain.terms().give_up_after), (Millis::seconds(5), Millis::hours(72)));
    assert_eq!((plain.terms().class, plain.in_flight_max), (Class::AtLeastOnce, 10));
}

/// Nothing would call a destination of another kind.
#[test]
fn a_destination_is_of_a_known_kind() {
    for kind in [json!("SQS"), json!("eventbridge"), json!("HTTP"), json!(1), json!(null)] {
        let mut document = http();
        document["kind"] = kind;
        assert_eq!(refused(&document), ["kind"], "{document}");
    }
}

fn keyed(changes: &Value) -> Value {
    let keyed = json!({
        "class": "keyed", "key_window_hours": 24, "key_source_url": "https://docs.example.com/keys", "key_header": "a"
    });
    with(&with(&http(), &keyed), changes)
}

/// A callee that honours keys answers so to a repeat that meets its first call.
#[test]
fn a_key_that_is_in_use_leaves_the_outcome_open() {
    let retried = |document: &Value| destination(document).unwrap().http().unwrap().retry_statuses.clone();
    assert_eq!(retried(&keyed(&json!({}))), [409]);
    assert_eq!(retried(&keyed(&json!({"retry_statuses": []}))), [0_u16; 0]);
    assert_eq!(retried(&keyed(&json!({"not_done_statuses": [409]}))), [0_u16; 0]);
    assert_eq!(retried(&http()), [0_u16; 0]);
}

/// Only who honours keys knows what it has done, and an error on its side says nothing.
#[test]
fn done_statuses_are_accepted_only_where_keys_are_honoured() {
    let done = json!({"done_statuses": [409]});
    let done_before = destination(&keyed(&done)).unwrap();
    let target = done_before.http().unwrap();
    assert_eq!((&target.done_statuses[..], &target.retry_statuses[..]), (&[409][..], &[][..]));
    for class in ["at_most_once", "at_least_once"] {
        assert_eq!(refused(&with(&http(), &with(&done, &json!({"class": class})))), ["done_statuses"], "{class}");
    }
    for changes in [
        json!({"done_statuses": [399]}),
        json!({"done_statuses": [200]}),
        json!({"done_statuses": [500]}),
        json!({"done_statuses": [409], "retry_statuses": [409]}),
        json!({"done_statuses": [409], "not_done_statuses": [409]}),
        json!({"done_statuses": [429]}),
        json!({"done_statuses": vec![409; 21]}),
    ] {
        assert_eq!(refused(&keyed(&changes)), ["done_statuses"], "{changes}");
    }
    assert!(destination(&keyed(&json!({"done_statuses": vec![409; 20]}))).is_ok());
}

/// A key means nothing to another callee. It means the same to this one after its secret was rotated.
#[test]
fn the_callee_is_its_address_account_class_and_place_of_the_key() {
    let once = with(&http(), &json!({"class": "at_most_once"}));
    let callee = |changes: &Value| destination(&with(&once, changes)).unwrap().terms().callee;
    let plain = callee(&json!({}));
    let mut callees = BTreeSet::from([plain.clone()]);
    for same in [
        json!({"headers": {"authorization": "Bearer other"}}),
        json!({"standard_webhooks_secret": SECRET}),
        json!({"url": "https://API.example.com:443/v1"}),
        json!({"timeout_ms": 100}),
    ] {
        assert_eq!(callee(&same), plain, "{same}");
    }
    for other in [
        json!({"url": "https://api.example.com:444/v1"}),
        json!({"url": "https://api2.example.com/v1"}),
        json!({"url": "http://api.example.com:443/v1", "allow_private": true}),
        json!({"url": "https://api.example.com/v2"}),
        json!({"url": "https://api.example.com/v1?a=b"}),
        json!({"key_header": "a"}),
        json!({"key_header": "b"}),
        json!({"key_json_pointer": "/a"}),
        json!({"key_json_pointer": "/a/b"}),
        json!({"key_json_pointer": "/a~1b"}),
        json!({"account": "acct_1"}),
        json!({"class": "at_least_once"}),
    ] {
        assert!(callees.insert(callee(&other)), "{other}");
    }
}

/// It relies on nobody's memory. What another class has in doubt stays in doubt.
#[test]
fn at_least_once_may_be_repeated_at_another_address() {
    let callee = |changes: &Value| destination(&with(&http(), changes)).unwrap().terms().callee;
    for changes in [json!({"url": "https://api2.example.com/v2"}), json!({"account": "a"}), json!({"key_header": "b"})]
    {
        assert_eq!(callee(&changes), callee(&json!({})), "{changes}");
    }
}

#[test]
fn every_fault_is_named_by_its_field() {
    for (changes, fields) in [
        (json!({"class": null}), &["class"][..]),
        (json!({"class": "keyed"}), &["key_window_hours", "key_source_url", "key_header"]),
        (json!({"class": "keyed", "key_window_hours": 24, "key_header": "a"}), &["key_source_url"]),
        (
            json!({"class": "keyed", "key_window_hours": 24, "key_header": "a", "key_source_url": "http://a.example"}),
            &["key_source_url"],
        ),
        (
            json!({"class": "keyed", "key_window_hours": 0, "key_header": "a", "key_source_url": "https://a.example"}),
            &["key_window_hours"],
        ),
        (json!({"key_window_hours": 24, "class": "at_most_once"}), &["key_window_hours"]),
        (
            json!({"timeout_ms": 99, "in_flight_max": 0, "give_up_after_hours": 169}),
            &["timeout_ms", "in_flight_max", "give_up_after_hours"],
        ),
        (json!({"account": ""}), &["account"]),
        (json!({"content_type": "form"}), &["content_type"]),
        (json!({"content_type": "text/plain\r\na: b"}), &["content_type"]),
        (json!({"function": "a"}), &["function"]),
        (json!({"standard_webhooks_secret": "whsec_short"}), &["standard_webhooks_secret"]),
        (json!({"retry_statuses": [200]}), &["retry_statuses"]),
        (json!({"not_done_statuses": [302]}), &["not_done_statuses"]),
        (json!({"retry_statuses": [429]}), &["retry_statuses"]),
        (json!({"success_json": {"pointer": "ok", "equals": true}}), &["success_json.pointer"]),
        (json!({"key_header": "a", "key_json_pointer": "/a"}), &["key_json_pointer"]),
        (json!({"key_json_pointer": "a"}), &["key_json_pointer"]),
        (json!({"key_json_pointer": "/a/"}), &["key_json_pointer"]),
        (json!({"key_json_pointer": "/a~2"}), &["key_json_pointer"]),
        (json!({"key_header": "host"}), &["key_header"]),
        (json!({"key_header": "a b"}), &["key_header"]),
        (json!({"secret": "x"}), &["`sec...` (6 bytes)"]),
    ] {
        assert_eq!(refused(&with(&http(), &changes)), fields, "{changes}");
    }
}

#[test]
fn only_a_plain_https_url_is_an_address() {
    let refused_ones = "api.example.com /v1 ftp://api.example.com http://api.example.com https://user@api.example.com \
                        https://user:word@api.example.com/ https://api.example.com:0 https://api.example.com:99999 \
                        https://api.example.com/a#b https://api.example.com//a https://api.example.com/a/../b \
                        https://api.example.com/%2e%2e/b https://api.exämple.com/ https://a,b/ https://[::1 https://[v1.a]/ \
                        https://api.example.com/%c0%ae%c0%ae/b https://127.0.0.1/ https://10.1.2.3/ https://169.254.169.254/ \
                        https://[::ffff:127.0.0.1]/ https://[fd00:ec2::254]/ https://[fe80::1]/";
    for url in refused_ones.split(' ').chain([""]) {
        assert_eq!(refused(&with(&http(), &json!({"url": url}))), ["url"], "{url}");
    }
    for url in ["https://api.example.com", "https://1.2.3.4:8443/a/", "https://[2606:4700::1]:8443/a?b=c"] {
        assert!(destination(&with(&http(), &json!({"url": url}))).is_ok(), "{url}");
    }
    let plain = json!({"url": "http://10.0.0.1:8080", "allow_private": true});
    assert!(destination(&with(&http(), &plain)).is_ok());
    let metadata = json!({"url": "http://169.254.169.254/latest", "allow_private": true});
    assert_eq!(refused(&with(&http(), &metadata)), ["url"]);
}

#[test]
fn a_document_cannot_set_what_the_client_sets() {
    let names = "Host Content-Length transfer-encoding Connection content-type TE Upgrade webhook-id Webhook-Signature \
                 hookonce-key hookonce-hops proxy-authorization X-Key X-HTTP-Method X-Method-Override";
    for name in names.split(' ') {
        let document = with(&http(), &json!({"headers": {name: "a"}, "key_header": "x-key"}));
        assert_eq!(refused(&document), [format!("headers.{name}")]);
    }
    for value in ["a\r\nb: c", "a\nb", "ä", "\u{0}"] {
        assert_eq!(refused(&with(&http(), &json!({"headers": {"a": value}}))), ["headers.a"]);
    }
    assert_eq!(refused(&with(&http(), &json!({"headers": {"a b": "c"}}))), ["headers.(not shown, 3 bytes)"]);
    assert_eq!(refused(&with(&http(), &json!({"headers": {"Authorization": "a", "authorization": "b"}}))).len(), 1);
}

/// A derived type would read a list of the fields' values, and the last of two headers with one name.
#[test]
fn a_document_is_an_object_and_names_nothing_twice() {
    for text in [
        json!([null, "http", "https://a.example/", null]).to_string(),
        with(&http(), &json!({"success_json": ["/ok", true]})).to_string(),
        r#"{"kind": "http", "url": "https://a.example/", "class": "at_least_once", "headers": {"a": "1", "a": "2"}}"#
            .to_owned(),
    ] {
        assert!(DestinationDocument::parse(&text).is_err(), "{text}");
    }
}

#[test]
fn nothing_shows_a_secret() {
    let document = with(
        &http(),
        &json!({"headers": {"authorization": "Bearer hush"}, "standard_webhooks_secret": SECRET, "url": "https://a.example/hush"}),
    );
    let parsed = DestinationDocument::parse(&document.to_string()).unwrap();
    let shown = format!("{parsed:?} {:?}", destination(&document).unwrap());
    assert!(!shown.contains("hush") && !shown.contains("whsec_"), "{shown}");
    for broken in [
        json!({"kind": "hush"}),
        with(&http(), &json!({"url": "hush://"})),
        with(&http(), &json!({"headers": {"a": "hush\n"}, "key_header": "hush hush", "key_json_pointer": "hush"})),
        with(&http(), &json!({"timeout_ms": "hush"})),
        with(&http(), &json!({"Bearer hush": "x"})),
        with(&http(), &json!({"headers": {"authorization: Bearer hush": ""}})),
    ] {
        let error = destination(&broken).unwrap_err();
        assert!(!error.to_string().contains("hush") && !format!("{error:?}").contains("hush"), "{error}");
    }
}

/// A queue and a function keep no key for long.
#[test]
fn a_hand_over_is_at_least_once_and_has_nothing_of_a_url() {
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs";
    let queue = json!({"kind": "sqs", "url": url, "class": "at_least_once"});
    let fifo = with(&queue, &json!({"url": format!("{url}.fifo"), "message_group": "all"}));
    let function = json!({"kind": "lambda", "function": "jobs:live", "class": "at_least_once"});
    for document in [&queue, &fifo, &with(&fifo, &json!({"message_group": null})), &function] {
        assert!(destination(document).is_ok(), "{document}");
    }
    for document in [&queue, &function] {
        let refused = |changes: &Value| refused(&with(document, changes));
        assert_eq!(refused(&json!({"class": null})), ["class"]);
        assert_eq!(refused(&json!({"class": "at_most_once"})), ["class"]);
        let keyed = json!({"class": "keyed", "key_window_hours": 24, "key_source_url": "https://a.example"});
        assert_eq!(refused(&keyed), ["class"]);
        for (field, value) in [
            ("account", json!("a")),
            ("key_header", json!("a")),
            ("key_json_pointer", json!("/a")),
            ("headers", json!({"a": "b"})),
            ("content_type", json!("text/plain")),
            ("standard_webhooks_secret", json!(SECRET)),
            ("done_statuses", json!([409])),
            ("retry_statuses", json!([409])),
            ("not_done_statuses", json!([429])),
            ("success_json", json!({"pointer": "/ok", "equals": true})),
            ("allow_private", json!(true)),
        ] {
            assert_eq!(refused(&json!({field: value})), [field]);
        }
    }
    for other in
        ["http://a/1/b", "https://a/1", "https://a/1/b/c", "https://a/1/b?c", "https://u@a/1/b", "https://a/1/b.c"]
    {
        assert_eq!(refused(&with(&queue, &json!({"url": other}))), ["url"], "{other}");
    }
    assert_eq!(refused(&with(&queue, &json!({"message_group": "a"}))), ["message_group"], "it has no groups");
    assert_eq!(refused(&with(&fifo, &json!({"message_group": "a b"}))), ["message_group"]);
    assert_eq!(refused(&with(&queue, &json!({"function": "a"}))), ["function"]);
    assert_eq!(refused(&with(&function, &json!({"function": "a b"}))), ["function"]);
    assert_eq!(refused(&with(&function, &json!({"url": url}))), ["url"]);
    for field in ["function", "message_group"] {
        assert_eq!(refused(&with(&http(), &json!({field: "a"}))), [field]);
    }
}

/// What the schema is for an editor is what the types read.
#[test]
fn the_schema_describes_the_type() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/destination.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let text = || Some("a".to_owned());
    let document = DestinationDocument {
        schema: text(),
        kind: DestinationKind::Http,
        url: text(),
        function: text(),
        message_group: text(),
        account: text(),
        class: Some(ClassName::Keyed),
        key_window_hours: Some(1),
        key_source_url: text(),
        key_header: text(),
        key_json_pointer: text(),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        content_type: text(),
        standard_webhooks_secret: text(),
        timeout_ms: Some(1),
        in_flight_max: Some(1),
        give_up_after_hours: Some(1),
        done_statuses: Some(vec![409]),
        retry_statuses: Some(vec![409]),
        not_done_statuses: Some(vec![429]),
        success_json: Some(SuccessDocument { pointer: String::new(), equals: json!(1) }),
        allow_private: true,
    };
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let described = &schema["properties"];
    let written = serde_json::to_value(&document).unwrap();
    assert_eq!(names(described), names(&written));
    assert_eq!(names(&described["success_json"]["properties"]), names(&written["success_json"]));
    // Each field is known by its name, too.
    let other = refused(&with(&written, &json!({"other": 1})));
    assert_eq!(other, ["`oth...` (5 bytes)"], "a field of the type is missing in what is known of a document");
    let kinds: Vec<_> = DestinationKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!((&described["kind"]["enum"], json!(DestinationKind::ALL)), (&json!(kinds), json!(kinds)));
    assert_eq!(described["class"]["enum"], json!([ClassName::Keyed, ClassName::AtMostOnce, ClassName::AtLeastOnce]));
    assert_eq!(described["timeout_ms"]["maximum"], json!(DESTINATION_CALL_MAX));
    assert_eq!(described["in_flight_max"]["maximum"], json!(IN_FLIGHT_MAX));
    assert_eq!(described["headers"]["maxProperties"], json!(HEADERS_MAX));
    for (field, limit, beyond) in [
        ("timeout_ms", "minimum", -1),
        ("timeout_ms", "maximum", 1),
        ("in_flight_max", "minimum", -1),
        ("in_flight_max", "maximum", 1),
        ("give_up_after_hours", "minimum", -1),
        ("give_up_after_hours", "maximum", 1),
    ] {
        let limit = described[field][limit].as_i64().unwrap();
        assert!(destination(&with(&http(), &json!({field: limit}))).is_ok(), "{field} {limit}");
        assert_eq!(refused(&with(&http(), &json!({field: limit + beyond}))), [field]);
    }
    let hours = described["key_window_hours"]["minimum"].as_i64().unwrap();
    let margin = Timing::standard().key_margin.0 / Millis::hours(1).0;
    assert_eq!(hours, margin + 1, "in the last part of the window no repeat is made: a shorter one would allow none");
    assert!(destination(&keyed(&json!({"key_window_hours": hours}))).is_ok());
    assert_eq!(refused(&keyed(&json!({"key_window_hours": hours - 1}))), ["key_window_hours"]);
    // The defaults are those of the checked destination.
    let default = destination(&http()).unwrap();
    assert_eq!(described["timeout_ms"]["default"], json!(default.terms().timeout.0));
    assert_eq!(described["in_flight_max"]["default"], json!(default.in_flight_max));
    let hours = described["give_up_after_hours"]["default"].as_i64().unwrap();
    assert_eq!(Millis::hours(hours), default.terms().give_up_after);
}
