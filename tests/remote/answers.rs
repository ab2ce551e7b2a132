//! What is taken for an answer, what becomes of it, and the schemas.

use std::collections::BTreeSet;

use hookonce_protocol::call::Failure;
use hookonce_protocol::code::Code;
use hookonce_protocol::effect::Payload;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::{ItemRef, Key, TableAlias};
use hookonce_protocol::plan::Event;
use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_runtime::documents::document::{BODY_BYTES_MAX, EVENT_BYTES_MAX};
use hookonce_runtime::handlers::remote::{HandlerAnswer, HandlerRequest, MalformedAnswer, SnapshotItem};
use serde_json::{Value, json};

use super::{count_at_once, count_in_two_rounds, harness};
use crate::support::counting::{count, counted};
use crate::support::remote::{Reaction, to};
use crate::support::{Script, samples};

fn parse(answer: &Value) -> Result<HandlerAnswer, MalformedAnswer> {
    HandlerAnswer::parse(answer.to_string().as_bytes(), "r")
}

fn refusal(answer: Value) -> MalformedAnswer {
    parse(&to(&json!({ "request": "r" }), answer)).unwrap_err()
}

fn schema(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn an_answer_has_exactly_one_shape() {
    let write = json!({ "key": "t#count#a", "action": "delete" });
    let effect = json!({ "effect": "e", "destination": "d", "payload": 1 });
    for (answer, field) in [
        (json!({}), ""),
        (json!([]), ""),
        (json!({ "fact": "a" }), ""),
        (json!({ "ignore": true, "writes": [] }), ""),
        (json!({ "reads": [], "writes": [] }), ""),
        (json!({ "writes": [], "colour": "red" }), "`col...` (6 bytes)"),
        (json!({ "ignore": false }), "ignore"),
        (json!({ "ignore": null }), "ignore"),
        (json!({ "ignore": true, "fact": "a" }), "fact"),
        (json!({ "reads": [], "when_condition_fails": "retry" }), "when_condition_fails"),
        (json!({ "writes": [], "when_condition_fails": "perhaps" }), "when_condition_fails"),
        (json!({ "writes": null }), "writes"),
        (json!({ "writes": [write, {"key": "t#count#b", "action": "erase"}] }), "writes[1].action"),
        (json!({ "writes": [{"key": "t#count#b"}] }), "writes[0].action"),
        (json!({ "reads": ["t#count#a"] }), "reads[0]"),
        (json!({ "reads": [{"key": "t#count#a", "extra": 1}] }), "reads[0].`ext...` (5 bytes)"),
        (json!({ "writes": [], "checks": [{"key": "t#count#a"}] }), "checks[0].condition"),
        (json!({ "reads": [], "checks": [] }), "checks"),
        (json!({ "reads": [], "effects": [] }), "effects"),
        (json!({ "ignore": true, "effects": [] }), "effects"),
        (json!({ "error": {"code": "A", "retryable": true}, "effects": [] }), "effects"),
        (json!({ "writes": [], "effects": null }), "effects"),
        (json!({ "writes": [], "effects": [effect, {"effect": "e", "destination": "d"}] }), "effects[1]"),
        (json!({ "writes": [{"key": "t#count#a", "action": "check"}] }), "writes[0].action"),
        (json!({ "writes": [{"key": "t#count#a", "action": "delete", "extra": 1}] }), "writes[0].`ext...` (5 bytes)"),
        (json!({ "writes": [{"key": "t#count#a", "action": "delete", "blind": 1}] }), "writes[0].blind"),
        (
            json!({ "writes": [], "effects": [{"effect": "e", "destination": "D", "payload": 1}] }),
            "effects[0].destination",
        ),
        (json!({ "fact": null, "writes": [] }), "fact"),
        (json!({ "fact": 1, "writes": [] }), "fact"),
        (json!({ "fact": "a##b", "writes": [] }), "fact"),
        (json!({ "fact": "%type#invoice.paid#in_1", "writes": [] }), "fact"),
        (json!({ "fact": "f".repeat(1_025), "writes": [] }), "fact"),
        (json!({ "error": {"code": "A"} }), "error.retryable"),
        (json!({ "error": {"code": "A", "retryable": true, "extra": 1} }), "error.`ext...` (5 bytes)"),
        (json!({ "error": {"code": "A", "retryable": true, "at": "a value"} }), "error.at"),
        (json!({ "error": {"code": "A", "retryable": true, "at": "a".repeat(257)} }), "error.at"),
        (json!({ "error": {"code": "A", "retryable": true, "at": null} }), "error.at"),
        (json!({ "error": {"code": "lower", "retryable": true} }), "error.code"),
        (json!({ "error": {"code": "", "retryable": true} }), "error.code"),
        (json!({ "error": {"code": "A".repeat(65), "retryable": true} }), "error.code"),
        (json!({ "error": {"code": "PLAN_REFUSED", "retryable": true} }), "error.code"),
        // A list of its values is no object.
        (json!({ "writes": [["t#count#a", "delete"]] }), "writes[0]"),
        (json!({ "writes": [["orders", {"pk": {"S": "a"}}, "delete", [], true]] }), "writes[0]"),
        (json!({ "reads": [["orders", {"pk": {"S": "a"}}]] }), "reads[0]"),
        (json!({ "writes": [], "checks": [["orders", {"pk": {"S": "a"}}, []]] }), "checks[0]"),
        (json!({ "writes": [], "effects": [["e", "d", 1, "MQ==", "POST", ""]] }), "effects[0]"),
        (json!({ "error": ["MY_CODE", false] }), "error"),
        (json!({ "writes": [{"key": "t#count#a", "action": {"delete": null}}] }), "writes[0].action"),
        (json!({ "error": {"code": "HANDLER_UNAVAILABLE", "retryable": true} }), "error.code"),
    ] {
        if answer.is_array() {
            assert_eq!(parse(&answer).unwrap_err().field, field);
            continue;
        }
        assert_eq!(refusal(answer.clone()).field, field, "{answer}");
    }
    assert_eq!(parse(&json!({ "request": "another", "ignore": true })).unwrap_err().field, "request");
    assert_eq!(parse(&json!({ "ignore": true })).unwrap_err().field, "request", "without a request");
    for bytes in [&b""[..], b"{", b"\xff", b"{\"request\":\"r\",\"ignore\":true}x"] {
        assert_eq!(HandlerAnswer::parse(bytes, "r").unwrap_err().field, "");
    }
}

/// Of two fields with one name, a parser takes the last one: a second `condition` would make a write unguarded.
#[test]
fn a_field_that_stands_twice_is_refused_wherever_it_is() {
    let refused = |fields: &str| {
        let refused = HandlerAnswer::parse(format!(r#"{{"request":"r",{fields}}}"#).as_bytes(), "r").unwrap_err();
        assert_eq!(refused.why, "appears twice", "{fields}: {refused}");
        refused.field
    };
    for (doubled, value) in
        [("request", r#""r""#), ("fact", r#""f""#), ("writes", "[]"), ("effects", "[]"), ("ignore", "true")]
    {
        assert_eq!(refused(&format!(r#""{doubled}":{value},"{doubled}":{value}"#)), doubled);
    }
    let guarded = r#""key":"t#count#a","action":"delete","condition":[{"present":"pk"}]"#;
    let written = |action: &str| format!(r#""writes":[{{"key":"t#count#a","action":{action}}}]"#);
    for (fields, place) in [
        (format!(r#""writes":[{{{guarded}}},{{{guarded},"condition":[]}}]"#), "writes[1].condition"),
        (format!(r#""writes":[{{{guarded},"\u0063ondition":[]}}]"#), "writes[0].condition"),
        (r#""writes":[],"checks":[{"key":"a","condition":[],"key":"b"}]"#.to_owned(), "checks[0].key"),
        (r#""reads":[{"key":"a","key":"b"}]"#.to_owned(), "reads[0].key"),
        (r#""reads":[{"table":"o","key":{"pk":{"S":"a"},"pk":{"S":"b"}}}]"#.to_owned(), "reads[0].key.`pk`"),
        (r#""error":{"code":"A","retryable":true,"retryable":false}"#.to_owned(), "error.retryable"),
        (written(r#"{"put":{},"put":{}}"#), "writes[0].action.put"),
        (written(r#"{"put":{"amount":{"N":"1","N":"2"}}}"#), "writes[0].action.put.`amo...` (6 bytes).N"),
        (
            written(r#"{"update":[{"set":["m",{"M":{"a":{"N":"1"},"a":{"N":"2"}}}]}]}"#),
            "writes[0].action.update[0].set[1].M.`a`",
        ),
        (
            r#""writes":[],"effects":[{"effect":"e","destination":"d","payload":1,"payload":2}]"#.to_owned(),
            "effects[0].payload",
        ),
    ] {
        assert_eq!(refused(&fields), place, "{fields}");
    }
    // What ends the search makes the answer malformed by itself.
    let effect = r#"{"effect":"e","destination":"d","payload":1,"method":1e999}"#;
    let both = format!(r#"{{"request":"r","effects":[{effect}],"writes":[{{{guarded},"condition":[]}}]}}"#);
    assert_eq!(HandlerAnswer::parse(both.as_bytes(), "r").unwrap_err().field, "effects[0].method");
}

#[test]
fn an_effect_is_sent_as_the_handler_wrote_it() {
    let payload = r#"{"total": 1.10, "total": 2, "number": 12345678901234567890123, "large": 1e999, "half": "\ud800"}"#;
    let effects = format!(r#"[{{"effect": "e", "destination": "d", "payload": {payload}}}]"#);
    let answer = format!(r#"{{"request": "r", "fact": "f", "writes": [], "effects": {effects}}}"#);
    let Ok(HandlerAnswer::Plan { plan, .. }) = HandlerAnswer::parse(answer.as_bytes(), "r") else { panic!("a plan") };
    assert_eq!(plan.effects[0].payload, Payload::Json(payload.to_owned()));
}

/// Each field that the schema knows is known by its name: one that does not fit is never taken for an unknown one. Each
/// that it requires must be there.
#[test]
fn every_field_of_an_entry_is_named_if_it_does_not_fit() {
    let whole = [
        ("reads", json!({ "key": "t#count#a" }), "read"),
        ("writes", json!({ "key": "t#count#a", "action": "delete" }), "write"),
        ("checks", json!({ "key": "t#count#a", "condition": [] }), "check"),
        ("effects", json!({ "effect": "e", "destination": "d", "payload": 1 }), "effect"),
    ];
    for (list, entry, described) in whole {
        let refused = |entry: Value| {
            let mut answer = json!({ list: [entry] });
            if matches!(list, "checks" | "effects") {
                answer["writes"] = json!([]);
            }
            refusal(answer)
        };
        let schema = &schema("plan.json")["$defs"][described];
        for name in names(&schema["properties"]) {
            if name == "payload" {
                continue; // Anything fits.
            }
            let mut wrong = entry.clone();
            wrong[&name] = json!(5e-7);
            assert_eq!(refused(wrong).field, format!("{list}[0].{name}"));
        }
        for name in schema["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let mut without = entry.clone();
            without.as_object_mut().unwrap().remove(name);
            let MalformedAnswer { field, why } = refused(without);
            assert_eq!((field, why.as_str()), (format!("{list}[0].{name}"), "is missing"));
        }
    }
}

#[test]
fn a_refusal_names_the_place_and_the_reason_however_deep_it_is() {
    let clauses = "must be exactly one of absent, present, equals, one_of, differs";
    let whole = "must be a whole number of at most 64 bits";
    let written = |action: Value| json!({ "writes": [{"key": "t#count#a", "action": action}] });
    for (answer, field, why) in [
        (written(json!({"put": {"a": {"N": 1}}})), "writes[0].action.put.`a`.N", "must be text"),
        (written(json!({"put": {"a": {"SS": ["b", 1]}}})), "writes[0].action.put.`a`.SS[1]", "must be text"),
        (
            written(json!({"put": {"a": {"L": [{"BOOL": 1}]}}})),
            "writes[0].action.put.`a`.L[0].BOOL",
            "must be true or false",
        ),
        (written(json!({"put": {"a": {"B": "?"}}})), "writes[0].action.put.`a`.B", "not standard base64"),
        (written(json!({"put": []})), "writes[0].action.put", "must be an object"),
        (written(json!({"put": null})), "writes[0].action.put", "must be an object"),
        (written(json!("put")), "writes[0].action", "must be an object with `put`"),
        (written(json!("check")), "writes[0].action", "must be exactly one of put, update, delete"),
        (written(json!({})), "writes[0].action", "must be exactly one of put, update, delete"),
        (written(json!({"put": {}, "update": []})), "writes[0].action", "must be exactly one of put, update, delete"),
        (written(json!({"update": [{"set": ["a"]}]})), "writes[0].action.update[0].set", "must be a list of 2"),
        (
            written(json!({"update": [{"set": ["a", {"S": "b"}, "c"]}]})),
            "writes[0].action.update[0].set",
            "must be a list of 2",
        ),
        (written(json!({"update": [{"add": ["a", 0.5]}]})), "writes[0].action.update[0].add[1]", whole),
        (written(json!({"update": [{"add": ["a", {"S": "1"}]}]})), "writes[0].action.update[0].add[1]", whole),
        (
            json!({ "writes": [{"key": "t#count#a", "action": "delete", "condition": [{"absnt": "pk"}]}] }),
            "writes[0].condition[0]",
            clauses,
        ),
        (json!({ "reads": [{"table": "o", "key": {"pk": {"N": 1}}}] }), "reads[0].key.`pk`.N", "must be text"),
        (json!({ "reads": [{"key": {}}] }), "reads[0].key", "must be text, or an object of at least one attribute"),
    ] {
        let refused = refusal(answer.clone());
        assert_eq!((refused.field.as_str(), refused.why.as_str()), (field, why), "{answer}");
    }
}

/// Whatever the bytes are, the reason never shows a value, and of a name that is not known three bytes and its length.
#[test]
fn a_refusal_never_shows_what_was_answered() {
    let secret = "s3cr3t";
    for answer in [
        json!({ "request": secret, "ignore": true }),
        json!({ "request": "r", secret: 1 }),
        json!({ "request": "r", "error": {"code": secret, "retryable": true} }),
        json!({ "request": "r", "error": {"code": "A", "retryable": true, secret: 1} }),
        json!({ "request": "r", "writes": [{secret: secret}] }),
        json!({ "request": "r", "writes": [{"key": "t#count#a", "action": {secret: secret}}] }),
        json!({ "request": "r", "fact": format!("#{secret}"), "writes": [] }),
        json!({ "request": "r", "reads": secret }),
        json!({ "request": "r", "writes": [{"key": "t#count#a", "action": secret}] }),
        json!({ "request": "r", "writes": [{"key": "t#count#a", "action": {"put": {secret: secret}}}] }),
        json!({ "request": "r", "writes": [{"key": "t#count#a", "action": {"put": {secret: {"B": secret}}}}] }),
        json!({ "request": "r", "writes": [{"key": "t#count#a", "action": {"update": [{"add": ["a", secret]}]}}] }),
        json!({ "request": "r", "writes": [{"table": format!("{secret} "), "key": "a", "action": "delete"}] }),
        json!({ "request": "r", "writes": [], "effects": [{"effect": secret, "destination": "D", "payload": secret}] }),
    ] {
        let refused = parse(&answer).unwrap_err();
        assert!(!refused.to_string().contains(secret) && !format!("{refused:?}").contains(secret), "{refused}");
    }
}

#[test]
fn every_code_of_hookonce_is_reserved() {
    let reasons = DeadReason::ALL.iter().map(|reason| reason.as_str());
    for code in Code::ALL.iter().map(|code| code.as_str()).chain(reasons) {
        assert_eq!(refusal(json!({ "error": {"code": code, "retryable": true} })).field, "error.code", "{code}");
    }
}

#[test]
fn a_fact_is_what_a_handler_in_rust_would_name() {
    for parts in [&["in_1"][..], &["invoice.paid", "in_1"], &["a#b", "c%d"]] {
        let escaped: Vec<_> = parts.iter().map(|part| part.replace('%', "%25").replace('#', "%23")).collect();
        assert_eq!(DomainKey::parse(&escaped.join("#")), Some(DomainKey::of(parts)));
    }
    assert!(!DomainKey::parse("").unwrap().is_named());
}

#[test]
fn the_schemas_describe_the_types() {
    let (request, answer) = (schema("handler-request.json"), schema("handler-answer.json"));
    let example = &request["examples"][0];
    let event: Event = serde_json::from_value(example["event"].clone()).unwrap();
    let written = json!(HandlerRequest::new("6f1c2a", &event, &[]));
    assert_eq!(names(&request["properties"]), names(&written));
    assert_eq!(names(&request["$defs"]["event"]["properties"]), names(&written["event"]));
    let shown = SnapshotItem { name: &ItemRef { table: TableAlias::parse("t").ok(), key: Key::from("k") }, item: None };
    assert_eq!(names(&schema("plan.json")["$defs"]["shown"]["properties"]), names(&json!(shown)));
    assert_eq!(written["version"], request["properties"]["version"]["const"]);

    let examples = answer["examples"].as_array().unwrap();
    let parsed: Vec<_> = examples
        .iter()
        .map(|example| {
            HandlerAnswer::parse(example.to_string().as_bytes(), example["request"].as_str().unwrap()).unwrap()
        })
        .collect();
    assert!(matches!(
        parsed.as_slice(),
        [HandlerAnswer::Reads { .. }, HandlerAnswer::Plan { .. }, HandlerAnswer::Ignore, HandlerAnswer::Error { .. }]
    ));
    let (failure, at) = (Failure::permanent("INVOICE_UNREADABLE"), "data.object.amount_paid".to_owned());
    assert_eq!(parsed[3], HandlerAnswer::Error { failure, at });
    let used: BTreeSet<_> = examples.iter().flat_map(names).collect();
    assert_eq!(names(&answer["properties"]), used);
}

#[test]
fn a_request_is_never_longer_than_its_limit() {
    let example = &schema("handler-request.json")["examples"][0];
    let mut event: Event = serde_json::from_value(example["event"].clone()).unwrap();
    // The longest body that an endpoint takes, with the longest headers, of which each character may need a backslash.
    (event.body, event.headers) = (vec![0; BODY_BYTES_MAX], [("a".to_owned(), "\"".repeat(10_240))].into());
    assert!(HandlerRequest::new("r", &event, &[]).encode().is_some());
    event.body = vec![0; EVENT_BYTES_MAX];
    assert_eq!(HandlerRequest::new("r", &event, &[]).encode(), None);
}

/// If reading took longer than in proportion, this test would not end within minutes.
#[test]
fn a_long_answer_is_read_at_once() {
    let (bytes, numbers) =
        ("AAAA".repeat(1_000_000), (0..300_000).map(|number| number.to_string()).collect::<Vec<_>>());
    let reads = json!({ "reads": [{"table": "orders", "key": {"pk": {"B": bytes}}}] });
    assert!(matches!(parse(&to(&json!({ "request": "r" }), reads)), Ok(HandlerAnswer::Reads { .. })));
    let put = json!({ "key": "t#count#a", "action": {"put": {"all": {"NS": numbers}}} });
    assert!(matches!(
        parse(&to(&json!({ "request": "r" }), json!({ "writes": [put] }))),
        Ok(HandlerAnswer::Plan { .. })
    ));
}

/// The last error of each of these events. Their handler stores and reads items with this value: `put-3-5` stores the
/// items 3 and 4, `read-3` reads the items 0, 1 and 2.
async fn errors_of<const N: usize>(
    value: impl Fn() -> Value + Send + 'static,
    events: [&str; N],
) -> [Option<String>; N] {
    let (harness, _) = harness(move |request| {
        let key = |number: u64| json!(format!("standard_webhooks#item#{number}"));
        let put = |number| json!({ "key": key(number), "action": {"put": {"data": value()}} });
        let read = |number| json!({ "key": key(number) });
        let fact = &request["event"]["key"];
        let numbers = request["event"]["type"].as_str().unwrap().split('-').skip(1);
        let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
        Reaction::Answers(match numbers[..] {
            [from, until] => json!({ "fact": fact, "writes": (from..until).map(put).collect::<Vec<_>>() }),
            [count] if request["items"].get(0).is_none() => {
                json!({ "fact": fact, "reads": (0..count).map(read).collect::<Vec<_>>() })
            }
            _ => json!({ "fact": fact, "writes": [] }),
        })
    })
    .await;
    for event in events {
        harness.deliver(&counted(&format!("msg_{event}"), &format!("count.{event}"), event)).await;
        harness.settle().await;
    }
    let tables = harness.tables().await;
    events.map(|event| tables.record(&format!("#msg_{event}")).last_error.clone())
}

#[tokio::test]
async fn a_handler_sees_so_many_bytes_of_items_at_most() {
    let value = || json!({ "S": "x".repeat(390_000) });
    let errors = errors_of(value, ["put-0-3", "read-2", "read-3"]).await;
    assert_eq!(errors, [None, None, Some("HANDLER_ASKED_TOO_MUCH".to_owned())]);
}

/// Maps of one entry take a hundred times their size in memory. Ten events share the worker's.
#[tokio::test]
async fn a_handler_sees_and_plans_so_many_values_at_most() {
    let nested = json!({ "M": {"a": {"M": {"a": {"M": {"a": {"BOOL": true}}}}}} });
    let value = move || json!({ "L": vec![nested.clone(); 10_000] });
    let errors = errors_of(value, ["put-0-1", "put-1-2", "put-2-4", "read-1", "read-2"]).await;
    let [malformed, too_much] =
        ["HANDLER_ANSWER_MALFORMED", "HANDLER_ASKED_TOO_MUCH"].map(|code| Some(code.to_owned()));
    assert_eq!(errors, [None, None, malformed, None, too_much]);
}

/// DynamoDB counts two bytes for such a value, and sends fourteen.
#[tokio::test]
async fn an_item_that_a_plan_may_write_can_be_read() {
    let value = || json!({ "L": vec![json!({ "NULL": true }); 180_000] });
    let too_much = Some("HANDLER_ASKED_TOO_MUCH".to_owned());
    assert_eq!(errors_of(value, ["put-0-1", "read-1", "put-1-2", "read-2"]).await, [None, None, None, too_much]);
}

#[tokio::test]
async fn each_answer_has_its_outcome() {
    let (harness, handlers) = harness(|request| {
        if request["event"]["type"] == "count.long" {
            return Reaction::TooLong;
        }
        Reaction::Answers(match request["event"]["type"].as_str().unwrap() {
            "count.ignored" => json!({ "ignore": true }),
            "count.never" => json!({ "error": {"code": "NEVER", "retryable": false} }),
            "count.later" => json!({ "error": {"code": "LATER", "retryable": true} }),
            "count.unnamed" => json!({ "fact": "", "writes": [] }),
            "count.nameless" => json!({ "writes": [] }),
            "count.foreign" => json!({ "fact": "f", "reads": [{"key": "another#count#f"}] }),
            "count.many" => {
                let reads: Vec<_> =
                    (0..101).map(|index| json!({ "key": format!("standard_webhooks#n#{index}") })).collect();
                json!({ "fact": "f", "reads": reads })
            }
            "count.again" => json!({ "fact": "f", "reads": [{"key": "standard_webhooks#count#f"}] }),
            "count.changes" => {
                let mut answer = count_in_two_rounds(request);
                answer["fact"] = json!(format!("fact of {}", request["request"]));
                answer
            }
            "count.alien" => json!({ "fact": "f", "writes": [{"key": "another#count#f", "action": "delete"}] }),
            _ => count_at_once(request),
        })
    })
    .await;
    let expected = [
        ("once", Status::Processed, None),
        ("ignored", Status::Processed, None),
        ("never", Status::Dead, Some("NEVER")),
        ("later", Status::Pending, Some("LATER")),
        ("unnamed", Status::Dead, Some("FACT_MISSING")),
        ("nameless", Status::Pending, Some("HANDLER_ANSWER_MALFORMED")),
        ("foreign", Status::Dead, Some("HANDLER_ASKED_TOO_MUCH")),
        ("many", Status::Dead, Some("HANDLER_ASKED_TOO_MUCH")),
        ("again", Status::Pending, Some("HANDLER_ANSWER_MALFORMED")),
        ("changes", Status::Pending, Some("HANDLER_FACT_CHANGED")),
        ("long", Status::Pending, Some("HANDLER_ANSWER_MALFORMED")),
        ("alien", Status::Dead, Some("PLAN_REFUSED")),
    ];
    for (kind, ..) in expected {
        harness.deliver(&counted(&format!("msg_{kind}"), &format!("count.{kind}"), kind)).await;
        harness.work_under(&Script::none()).await;
    }
    let tables = harness.tables().await;
    for (kind, status, code) in expected {
        let record = tables.record(&format!("#msg_{kind}"));
        assert_eq!((record.status, record.last_error.as_deref()), (status, code), "{kind}");
    }
    assert_eq!(tables.record("#msg_ignored").outcome, Some(Outcome::Ignored));
    let ids: BTreeSet<_> = handlers.requests().iter().map(|request| request["request"].to_string()).collect();
    assert_eq!(ids.len(), handlers.requests().len(), "each call has a name of its own");
    assert!(tables.domain.contains_key("#dk#standard_webhooks#counting#once"), "the consumer is the route's");
}

/// The route's name of the fact counts before the handler's, and is there before anybody is called.
#[tokio::test]
async fn a_route_may_name_the_fact() {
    let (harness, handlers) = harness(|request| Reaction::Answers(count_at_once(request))).await;
    let route = json!({
        "name": "count", "consumer": "billing", "types": ["count.*"], "fact": ["$.fact"], "handler": {"lambda": "count"}
    });
    harness.routes.as_ref().unwrap().put_set(&json!({ "version": 1, "otherwise": "ignore", "routes": [route] }));
    harness.deliver(&count("msg_1", "a")).await;
    harness.deliver(&samples::invoice_paid("evt_1", "in_1", 1)).await;
    harness.deliver(&counted("msg_2", "count.empty", "")).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert!(
        tables.domain.contains_key("#dk#standard_webhooks#billing#%type#count.once#a"),
        "{:?}",
        tables.domain.keys()
    );
    assert_eq!(tables.record("#msg_2").last_error.as_deref(), Some("FACT_MISSING"));
    assert_eq!(handlers.requests().len(), 1);
}

/// The route's name counts, so a handler may name a fact in one round only.
#[tokio::test]
async fn where_a_route_names_the_fact_the_rounds_of_a_handler_need_not_agree() {
    let (harness, _) = harness(|request| {
        let mut answer = count_in_two_rounds(request);
        answer.as_object_mut().unwrap().retain(|field, _| field != "fact" || request["items"][0].is_null());
        Reaction::Answers(answer)
    })
    .await;
    let route = json!({ "name": "count", "consumer": "billing", "fact": ["$.fact"], "handler": {"lambda": "count"} });
    harness.routes.as_ref().unwrap().put_set(&json!({ "version": 1, "otherwise": "ignore", "routes": [route] }));
    harness.deliver(&count("msg_1", "a")).await;
    harness.settle().await;
    assert_eq!(harness.tables().await.record("#msg_1").outcome, Some(Outcome::Applied));
}
