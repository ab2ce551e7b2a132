//! Routes, end to end: what a set says is what happens, and a set that is not known or not good changes nothing.

use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::operator::Operated;
use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::Operation as Ordered;
use hookonce_providers::UnsignedRequest;
use hookonce_runtime::body::decompress;
use hookonce_runtime::operate::operate;
use hookonce_runtime::route::{
    Decision, Fit, HandlerDocument, Offered, Otherwise, RouteDocument, RouteSet, RouteSetDocument,
};
use serde_json::{Value, json};

use crate::handlers::event;
use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::delivery::{gateway_event, secret};
use crate::support::harness::Worker;
use crate::support::routes::MemoryRoutes;
use crate::support::samples::{charge_refunded, invoice_paid};
use crate::support::{Delivery, Fault, Harness, Operation, Script, Verdict, order};

/// A set with these routes.
fn set(otherwise: &str, routes: &Value) -> Value {
    json!({ "version": 1, "otherwise": otherwise, "routes": routes })
}

/// What a worker on a laptop with these handlers offers.
fn offered<'a>(handlers: &'a [&'a str]) -> Offered<'a> {
    Offered { handlers, urls: true }
}

/// A harness whose workers read this set.
async fn routed(set: &Value) -> Harness {
    let mut harness = Harness::new().await;
    let routes = MemoryRoutes::default();
    routes.put(set);
    harness.routes = Some(routes);
    harness
}

#[tokio::test]
async fn a_route_says_who_handles_an_event_and_who_remembers_its_fact() {
    let paid = json!({
        "name": "paid", "consumer": "billing", "endpoints": ["stri*"], "types": ["invoice.paid"],
        "when": {"data": {"object": {"amount_paid": [{"numeric": [">", 100]}]}}},
        "fact": ["$.data.object.id"], "handler": {"builtin": "payments"}
    });
    let own =
        json!({ "name": "refunds", "consumer": "refunds", "types": ["charge.*"], "handler": {"builtin": "payments"} });
    let harness = routed(&set("ignore", &json!([paid, own]))).await;
    let events = [
        invoice_paid("evt_1", "in_1", 4_900),
        invoice_paid("evt_2", "in_1", 4_900),
        invoice_paid("evt_3", "in_2", 100),
    ];
    for delivery in events.into_iter().chain([charge_refunded("evt_4", "ch_1", 100)]) {
        harness.deliver(&delivery).await;
        harness.settle().await;
    }
    let tables = harness.tables().await;
    let outcome = |record: &str| tables.record(record).outcome.unwrap();
    assert_eq!(
        ["#evt_1", "#evt_2", "#evt_3", "#evt_4"].map(outcome),
        [Outcome::Applied, Outcome::Duplicate, Outcome::Ignored, Outcome::Applied]
    );
    for key in ["#dk#stripe#billing#%type#invoice.paid#in_1", "#dk#stripe#refunds#charge.refunded#ch_1#100"] {
        assert!(tables.domain.contains_key(key), "{key} is not in {:?}", tables.domain.keys());
    }
}

/// Each consumer remembers for itself, and one that spans types sees one fact.
#[tokio::test]
async fn one_fact_is_remembered_once_by_each_consumer() {
    let route = |name: &str, event_type: &str, across: bool| json!({ "name": name, "consumer": name, "types": [event_type], "fact": ["$.fact"], "across_types": across, "handler": {"builtin": "counting"} });
    let routes = MemoryRoutes::default();
    let mut harness = Harness::with(counting).await;
    routes.put(&set("dead", &json!([route("each", "count.a*", false), route("all", "count.b*", true)])));
    harness.routes = Some(routes);
    for (id, event_type) in
        [("1", "count.a1"), ("2", "count.a2"), ("3", "count.a2"), ("4", "count.b1"), ("5", "count.b2")]
    {
        harness.deliver(&counted(id, event_type, "f")).await;
        harness.settle().await;
    }
    let tables = harness.tables().await;
    let applied =
        ["1", "2", "3", "4", "5"].map(|id| tables.record(&format!("#{id}")).outcome == Some(Outcome::Applied));
    assert_eq!(applied, [true, true, false, true, false]);
    assert_eq!(tables.number("standard_webhooks#count#f", "applied"), 3);
}

/// GitHub signs the body and not the header that names the type. Whoever holds one signed body can send it as another type.
#[tokio::test]
async fn a_type_that_is_not_signed_makes_no_second_fact() {
    let mut harness = Harness::with(counting).await;
    let routes = MemoryRoutes::default();
    routes.put(&set(
        "dead",
        &json!([{ "name": "all", "consumer": "c", "types": ["count.*"], "fact": ["$.fact"], "handler": {"builtin": "counting"} }]),
    ));
    harness.routes = Some(routes);
    for (id, event_type) in [("1", "count.a"), ("2", "count.b")] {
        let body = json!({ "type": "count.once", "fact": "f" }).to_string();
        let delivery = Delivery::new("github", body).header("x-github-delivery", id);
        harness.deliver(&delivery.header("x-github-event", event_type)).await;
        harness.settle().await;
    }
    let tables = harness.tables().await;
    let outcome = |record: &str| tables.record(record).outcome;
    assert_eq!([outcome("#1"), outcome("#2")], [Some(Outcome::Applied), Some(Outcome::Duplicate)]);
    assert!(tables.domain.contains_key("#dk#github#c#%fact#f"), "{:?}", tables.domain.keys());
}

/// Mailgun signs a token and leaves the event free. Another attempt may come with another token, in which only the event's own
/// id is the same.
#[tokio::test]
async fn where_the_body_is_free_the_events_own_id_names_the_fact() {
    let mut harness = Harness::with(counting).await;
    harness.endpoints.put("mailgun", json!({ "provider": "mailgun", "secrets": [secret("mailgun")] }).to_string());
    let routes = MemoryRoutes::default();
    let fact = [r#"$["event-data"].id"#, r#"$["event-data"].timestamp"#];
    let route = json!({ "name": "mail", "consumer": "c", "fact": fact, "handler": { "builtin": "counting" } });
    routes.put(&set("dead", &json!([route])));
    harness.routes = Some(routes);
    for token in ["a8ce0edb2dd8301dee6c2405235584e4", "0a2c1f5e8d7b4f6c9e3a5b7d9f1c3e5a"] {
        let body = json!({
            "fact": "f", "signature": { "timestamp": "", "signature": "", "token": token },
            "event-data": { "id": "event-1", "timestamp": 1_767_225_590.5, "event": "count.once" },
        });
        let Delivery { provider, headers, .. } = Delivery::new("mailgun", "");
        let (url, body) = ("https://hooks.example.com/webhooks/mailgun", body.to_string());
        let unsigned = UnsignedRequest { method: "POST", url, headers: &headers, body: body.as_bytes() };
        let body = provider.sign_request(&unsigned, secret("mailgun"), harness.clock.seconds()).unwrap().body;
        let event = gateway_event("POST", "/webhooks/mailgun", &headers, &body, &harness.clock);
        assert_eq!(harness.webhook(&Script::none()).handle(event).await.status_code, 200);
        harness.settle().await;
    }
    let tables = harness.tables().await;
    assert!(tables.domain.contains_key("#dk#mailgun#c#%fact#event-1#1767225590.5"), "{:?}", tables.domain.keys());
    assert_eq!((tables.records.len(), tables.number("mailgun#count#f", "applied")), (2, 1));
}

/// Nobody dispatches here: what the commit stores is looked at.
#[tokio::test]
async fn a_forwarded_event_is_one_fact_by_its_signed_key_or_its_body() {
    let named = json!({ "name": "named", "consumer": "crm", "types": ["invoice.*"], "fact": ["$.data.object.id"], "forward": ["crm"] });
    let all = json!({ "name": "all", "consumer": "crm", "forward": ["crm", "n8n"] });
    let harness = routed(&set("dead", &json!([named, all]))).await;
    let refund = charge_refunded("evt_1", "ch_1", 100);
    harness.deliver(&refund).await;
    harness.deliver(&invoice_paid("evt_2", "in_1", 100)).await;
    // GitHub does not sign the id of a delivery: one body is one fact, under whatever id it comes.
    for id in ["1", "2"] {
        let push = Delivery::new("github", r#"{"zen": 1}"#).header("x-github-delivery", id);
        harness.deliver(&push.header("x-github-event", "ping")).await;
        harness.work().await;
    }
    let tables = harness.tables().await;
    let outcome = |end: &str| tables.record(end).outcome.unwrap();
    let (applied, duplicate) = (Outcome::Applied, Outcome::Duplicate);
    assert_eq!(["#evt_1", "#evt_2", "#1", "#2"].map(outcome), [applied, applied, applied, duplicate]);
    for key in ["#dk#stripe#crm#%fact#key#stripe#evt_1", "#dk#stripe#crm#%type#invoice.paid#in_1"] {
        assert!(tables.domain.contains_key(key), "{key} is not in {:?}", tables.domain.keys());
    }
    let of_body = |key: &&String| key.starts_with("#dk#github#crm#%fact#sha256#github#");
    assert_eq!(tables.domain.keys().filter(of_body).count(), 1);
    let effects: Vec<_> = tables.records.values().filter(|record| record.effect.is_some()).collect();
    assert_eq!(effects.len(), 5, "two destinations, one, two, and none for the second ping");
    let of_refund = effects.iter().find(|effect| effect.parent.as_ref() == Some(&tables.record("#evt_1").key));
    let sent = of_refund.and_then(|effect| decompress(effect.body.as_deref()?).ok());
    assert_eq!(sent, Some(refund.body), "the event's own bytes");
}

/// Each endpoint has its own keys: one order is charged and paid out, although both operations have its number.
#[tokio::test]
async fn one_key_at_two_endpoints_of_a_tenant_is_forwarded_twice() {
    let harness = routed(&set("dead", &json!([{ "name": "all", "consumer": "bank", "forward": ["bank"] }]))).await;
    let body = json!({ "type": "requested", "data": {"order": 1042} }).to_string();
    let provider = "standard_webhooks";
    for endpoint in ["charges", "payouts"] {
        let document = json!({ "provider": provider, "tenant": "acme", "secrets": [secret(provider)] });
        harness.endpoints.put(endpoint, document.to_string());
        for _ in 0..2 {
            harness
                .deliver(&Delivery::new(provider, body.as_bytes()).header("webhook-id", "order-1042").to(endpoint))
                .await;
        }
        harness.work().await;
    }
    let tables = harness.tables().await;
    let events: Vec<_> = tables.records.values().filter(|record| record.effect.is_none()).collect();
    let outcomes: Vec<_> = events.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Some(Outcome::Applied); 2]);
    assert_eq!(tables.records.len() - events.len(), 2, "each is sent once");
    for endpoint in ["charges", "payouts"] {
        let key = format!("#dk#acme#bank#%fact#key#{endpoint}#order-1042");
        assert!(tables.domain.contains_key(&key), "{key} is not in {:?}", tables.domain.keys());
    }
}

#[tokio::test]
async fn what_cannot_be_routed_dies_with_its_code_and_its_payload() {
    let asks = |name: &str, event_type: &str| json!({ "name": name, "consumer": "c", "types": [event_type], "handler": {"builtin": "counting"} });
    let mut unreadable = asks("reads", "unreadable");
    unreadable["when"] = json!({"a": ["b"]});
    let mut missing = asks("names", "count.*");
    missing["fact"] = json!(["$.fact", "$.part.id"]);
    let routes = MemoryRoutes::default();
    routes.put(&set("dead", &json!([unreadable, missing])));
    let mut harness = Harness::with(counting).await;
    harness.routes = Some(routes);
    harness.deliver(&counted("1", "other", "f")).await;
    harness.deliver(&count("2", "f")).await;
    for (id, part) in [("3", json!(null)), ("4", json!("")), ("5", json!({"x": 1})), ("6", json!([1]))] {
        let body = json!({ "type": "count.once", "fact": "f", "part": {"id": part} }).to_string();
        harness.deliver(&Delivery::new("standard_webhooks", body).header("webhook-id", id)).await;
    }
    harness.deliver(&Delivery::new("standard_webhooks", "no JSON").header("webhook-id", "7")).await;
    harness.settle().await;
    let tables = harness.tables().await;
    let expected = [
        ("1", "UNROUTED"),
        ("2", "FACT_MISSING"),
        ("3", "FACT_MISSING"),
        ("4", "FACT_MISSING"),
        ("5", "FACT_MISSING"),
        ("6", "FACT_MISSING"),
        ("7", "EVENT_UNREADABLE"),
    ];
    for (id, code) in expected {
        let record = tables.record(&format!("#{id}"));
        assert_eq!(
            (record.last_error.as_deref(), record.dead_reason),
            (Some(code), Some(DeadReason::Permanent)),
            "{id}"
        );
        assert!(record.body.is_some());
    }
    assert!(tables.domain.is_empty(), "nothing took effect");
}

#[tokio::test]
async fn otherwise_says_what_happens_to_the_rest() {
    for (otherwise, status, outcome) in [
        ("ignore", Status::Processed, Some(Outcome::Ignored)),
        ("dead", Status::Dead, None),
        ("builtin", Status::Processed, Some(Outcome::Applied)),
    ] {
        let harness = routed(&set(otherwise, &json!([{ "name": "noise", "types": ["ping"], "ignore": true }]))).await;
        harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
        harness.settle().await;
        let tables = harness.tables().await;
        let record = tables.record("#evt_1");
        assert_eq!((record.status, record.outcome), (status, outcome), "{otherwise}");
    }
}

/// A retry lets an event that no route wanted be looked at again, under its own fact: whatever dies on the way, whoever
/// else reports the fact, it takes effect once.
#[tokio::test]
async fn an_ignored_event_is_brought_back_once_a_route_wants_it_and_applied_once() {
    let wanted =
        json!([{ "name": "all", "consumer": "counting", "types": ["count.*"], "handler": {"builtin": "counting"} }]);
    let nothing = set("ignore", &json!([]));
    let calls = [
        None,
        Some((Operation::ReadDomain, Fault::Refused)),
        Some((Operation::Commit, Fault::Refused)),
        Some((Operation::Commit, Fault::ReplyLost)),
        Some((Operation::Commit, Fault::CrashBefore)),
        Some((Operation::Commit, Fault::Conflict)),
    ];
    for fault in calls {
        let mut harness = Harness::with(counting).await;
        let routes = MemoryRoutes::default();
        routes.put(&nothing);
        harness.routes = Some(routes.clone());
        harness.deliver(&count("1", "f")).await;
        harness.settle().await;
        let ignored = harness.tables().await.record("#1").clone();
        assert_eq!(ignored.outcome, Some(Outcome::Ignored));
        routes.put(&set("ignore", &wanted));
        // Another delivery reports the fact meanwhile, and is applied.
        harness.deliver(&count("2", "f")).await;
        harness.settle().await;
        let script = fault.map_or_else(Script::none, |(operation, fault)| Script::on(operation, 0, fault));
        let (store, retry) = (harness.operator_store(&script), order(Ordered::Retry, ""));
        script.run(Box::pin(operate(&store, &ignored, &retry, &harness.timing, &harness.clock))).await;
        // The person repeats the command, with the record as the first list showed it.
        let again = operate(&harness.stack.store(), &ignored, &retry, &harness.timing, &harness.clock).await;
        let done = fault.is_none_or(|(_, fault)| matches!(fault, Fault::ReplyLost | Fault::Conflict));
        assert_eq!(again, if done { Operated::Overtaken } else { Operated::Done }, "{fault:?}");
        harness.observe().await;
        harness.relay().await;
        harness.settle().await;
        let tables = harness.tables().await;
        let record = tables.record("#1");
        assert_eq!((record.outcome, record.generation), (Some(Outcome::Duplicate), 0), "{fault:?}");
        assert_eq!(tables.verdict(&[counted_fact("f")]), Verdict::applied(1), "{fault:?}");
    }
}

#[tokio::test]
async fn an_event_that_still_no_route_wants_ends_as_ignored_again() {
    let harness = routed(&set("ignore", &json!([]))).await;
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    harness.settle().await;
    let ignored = harness.tables().await.record("#evt_1").clone();
    let retry = order(Ordered::Retry, "");
    let operated = operate(&harness.stack.store(), &ignored, &retry, &harness.timing, &harness.clock).await;
    assert_eq!(operated, Operated::Done);
    harness.observe().await;
    harness.relay().await;
    harness.settle().await;
    let record = harness.tables().await.record("#evt_1").clone();
    assert_eq!((record.outcome, record.retries, record.generation), (Some(Outcome::Ignored), 1, 0));
}

/// Works on everything in the queue with one worker that goes on living.
async fn work_with(worker: &Worker, harness: &Harness) {
    harness.redeliver().await;
    while let Some((messages, batch)) = harness.batch().await {
        let response = worker.handle(batch, harness.deadline()).await;
        harness.conclude(messages, Some(response)).await;
    }
}

#[tokio::test]
async fn a_worker_that_has_read_no_set_yet_waits_and_counts_no_attempt() {
    let harness = routed(&set("builtin", &json!([]))).await;
    let routes = harness.routes.clone().unwrap();
    routes.set_down(true);
    let worker = harness.worker(&Script::none());
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    work_with(&worker, &harness).await;
    let waiting = harness.tables().await.record("#evt_1").clone();
    assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 0));
    assert!(harness.metric("routes_unavailable") > 0);
    // Only a good read says that the routes can be read: a 0 while nobody asks would end the alarm.
    let good_reads = || {
        let lines = harness.metric_lines();
        lines.iter().filter(|line| line.contains(r#""routes_unavailable":0"#)).count()
    };
    assert_eq!(good_reads(), 0);
    routes.set_down(false);
    // A set that does not check is no set either, and neither is the one before: this worker has no last good one.
    routes.put(&json!({ "version": 1 }));
    routes.put(&json!({ "version": 2 }));
    harness.clock.advance(Millis::minutes(2));
    work_with(&worker, &harness).await;
    assert_eq!(harness.tables().await.record("#evt_1").status, Status::Pending);
    assert!(harness.metric("routes_refused") > 0);
    assert_eq!(good_reads(), 1, "what was read and refused was read");
    routes.put(&set("builtin", &json!([])));
    harness.clock.advance(Millis::minutes(2));
    work_with(&worker, &harness).await;
    assert_eq!(harness.tables().await.record("#evt_1").outcome, Some(Outcome::Applied));
}

/// A worker that starts now does as those that run for longer.
#[tokio::test]
async fn a_worker_that_starts_with_a_refused_set_goes_on_with_the_one_before() {
    let harness = routed(&set("builtin", &json!([]))).await;
    harness.routes.as_ref().unwrap().put(&json!({ "version": 1 }));
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    work_with(&harness.worker(&Script::none()), &harness).await;
    assert_eq!(harness.tables().await.record("#evt_1").outcome, Some(Outcome::Applied));
    assert!(harness.metric("routes_refused") > 0, "the alarm rings");
}

#[tokio::test]
async fn a_set_is_replaced_while_events_flow_and_a_bad_one_keeps_the_last_good_one() {
    let to_billing = json!([{ "name": "paid", "consumer": "billing", "types": ["invoice.paid"], "handler": {"builtin": "payments"} }]);
    let harness = routed(&set("ignore", &to_billing)).await;
    let routes = harness.routes.clone().unwrap();
    let worker = harness.worker(&Script::none());
    let mut expected = Vec::new();
    let steps: [(&str, &dyn Fn(), Outcome, bool); 5] = [
        ("the first set", &|| (), Outcome::Applied, false),
        (
            "a set with a fault",
            &|| routes.put(&set("ignore", &json!([{ "name": "x", "ignore": true, "colour": 1 }]))),
            Outcome::Applied,
            true,
        ),
        ("no set any more", &|| routes.remove(), Outcome::Applied, true),
        ("no answer", &|| routes.set_down(true), Outcome::Applied, false),
        (
            "another set",
            &|| {
                routes.set_down(false);
                routes.put(&set("ignore", &json!([])));
            },
            Outcome::Ignored,
            false,
        ),
    ];
    for (number, (step, change, outcome, is_refused)) in steps.into_iter().enumerate() {
        change();
        let refused = harness.metric("routes_refused");
        // Within the pause, the set in use is not asked for.
        harness.deliver(&invoice_paid(&format!("evt_a{number}"), &format!("in_a{number}"), 1)).await;
        work_with(&worker, &harness).await;
        assert_eq!(harness.metric("routes_refused"), refused, "{step}");
        harness.clock.advance(Millis::minutes(2));
        harness.deliver(&invoice_paid(&format!("evt_b{number}"), &format!("in_b{number}"), 1)).await;
        work_with(&worker, &harness).await;
        assert_eq!(harness.metric("routes_refused") > refused, is_refused, "{step}");
        expected.push((format!("#evt_b{number}"), outcome, step));
    }
    let tables = harness.tables().await;
    for (record, outcome, step) in expected {
        assert_eq!(tables.record(&record).outcome, Some(outcome), "{step}");
    }
    assert!(harness.metric("routes_unavailable") > 0);
    let remembered = tables.domain.keys().filter(|key| key.starts_with("#dk#stripe#billing#")).count();
    assert_eq!(remembered, 9, "the worker used no other set: {:?}", tables.domain.keys());
}

#[test]
fn a_set_is_refused_as_a_whole_and_every_fault_has_its_place() {
    let route = |more: Value| {
        let mut route = json!({ "name": "a", "consumer": "c", "handler": {"builtin": "h"} });
        route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        route.as_object_mut().unwrap().retain(|_, value| *value != json!("-"));
        set("ignore", &json!([route])).to_string()
    };
    for (text, said) in [
        ("{".to_owned(), "line 1 column 1: EOF"),
        (json!({ "version": 1, "routes": [] }).to_string(), "missing field `otherwise`"),
        (set("maybe", &json!([])).to_string(), "unknown variant `maybe`"),
        (json!({ "version": 2, "otherwise": "dead", "routes": [] }).to_string(), "version: must be 1"),
        (route(json!({ "colour": 1 })), "unknown field `colour`"),
        (route(json!({ "forward": [] })), "routes[0].forward: must list 1 to 8"),
        (route(json!({ "forward": vec!["a"; 9] })), "routes[0].forward: must list 1 to 8"),
        (route(json!({ "forward": ["crm", "crm"] })), "routes[0].forward[1]: stands there twice"),
        (route(json!({ "forward": ["CRM"] })), "routes[0].forward[0]: a destination id has"),
        (route(json!({ "forward": ["crm"], "consumer": "-" })), "routes[0].consumer: must be there"),
        (route(json!({ "destinations": ["a/b"] })), "routes[0].destinations[0]: a destination id has"),
        (route(json!({ "destinations": vec!["a"; 21] })), "routes[0].destinations: must list 1 to 20"),
        (route(json!({ "forward": ["crm"], "handler": "-", "destinations": ["a"] })), "is for the plan of a `handler`"),
        (route(json!({ "forward": ["crm"], "handler": "-", "tables": ["a"] })), "is for the plan of a `handler`"),
        (route(json!({ "forward": ["crm"], "handler": "-", "ignore": true })), "must have either `handler` or"),
        (
            route(json!({ "ignore": true, "handler": "-", "consumer": "-", "destinations": ["a"] })),
            "routes[0].destinations: an ignored event",
        ),
        (route(json!({ "handler": {"queue": "x"} })), "unknown variant `queue`"),
        (route(json!({ "handler": {"lambda": "a b"} })), "routes[0].handler.lambda: must be the name or ARN"),
        (route(json!({ "handler": {"url": "http://10.0.0.1:80/"} })), "routes[0].handler.url: must be http:// with"),
        (route(json!({ "name": "" })), "routes[0].name: must have"),
        (route(json!({ "consumer": "-" })), "routes[0].consumer: must be there"),
        (route(json!({ "consumer": "A b" })), "routes[0].consumer: must be there"),
        (route(json!({ "handler": {"builtin": "x"} })), "this build has no handler `x`"),
        (route(json!({ "handler": "-" })), "must have either `handler` or"),
        (route(json!({ "ignore": true })), "must have either `handler` or"),
        (route(json!({ "ignore": true, "handler": "-" })), "routes[0].consumer: an ignored event"),
        (route(json!({ "ignore": false, "handler": "-" })), "must have either"),
        (route(json!({ "endpoints": [] })), "routes[0].endpoints: must list"),
        (route(json!({ "types": ["a*b"] })), "routes[0].types: `a*b`"),
        (route(json!({ "types": [""] })), "routes[0].types: `` is empty"),
        (route(json!({ "fact": [] })), "routes[0].fact: must list"),
        (route(json!({ "types": null })), "invalid type: null"),
        (route(json!({ "when": null })), "invalid type: null"),
        (route(json!({ "fact": ["$.a[*]"] })), "routes[0].fact[0]: the path `$.a[*]`"),
        (route(json!({ "fact": ["id"] })), "routes[0].fact[0]: the path `id`"),
        (route(json!({ "tables": ["Orders"] })), "routes[0].tables[0]: an alias of a table has"),
        (route(json!({ "tables": vec!["a"; 21] })), "routes[0].tables: must list at most 20"),
        (
            route(json!({ "ignore": true, "handler": "-", "consumer": "-", "tables": [] })),
            "routes[0].tables: an ignored event",
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
        assert!(error.contains(said), "{said} is not in: {error}");
    }
    let two = set("dead", &json!([{ "name": "a", "consumer": "B", "handler": {"builtin": "x"} }])).to_string();
    assert_eq!(RouteSet::parse(&two, offered(&["h"])).unwrap_err().faults.len(), 2, "all faults are told at once");
    let local = route(json!({ "handler": {"url": "http://127.0.0.1:9000/"} }));
    assert!(RouteSet::parse(&local, offered(&["h"])).is_ok());
    let deployed = RouteSet::parse(&local, Offered { urls: false, ..offered(&["h"]) }).unwrap_err().to_string();
    assert!(deployed.contains("a deployed worker calls no URL"), "{deployed}");
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
        assert!(error.to_string().contains("is there twice in `when`"), "{twice}: {error}");
    }
    assert!(when("[1]").is_err() && when("null").is_err());
}

/// What the schema tells an editor is what the types read.
#[test]
fn the_schema_describes_the_types() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let schema: Value = serde_json::from_slice(&std::fs::read(folder.join("schemas/routes.json")).unwrap()).unwrap();
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
    assert_eq!(limit("tables", "maxItems"), hookonce_runtime::tables::OWN_TABLES_MAX as u64);
    assert_eq!(described["properties"]["consumer"]["pattern"], json!("^[a-z0-9_-]{1,64}$"));
    assert_eq!(schema["properties"]["routes"]["maxItems"], json!(1_000));

    assert!(!sets_of("docs/routes.md").is_empty(), "the page has an example");
}

/// The route sets that a page shows, in their order.
fn sets_of(page: &str) -> Vec<RouteSet> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(folder.join(page)).unwrap();
    let blocks = text.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let read = |example: &str| {
        let set = RouteSet::parse(example, offered(&["payments", "messages", "builds", "receipts"]));
        set.unwrap_or_else(|faults| panic!("{page}: {faults:?}: {example}"))
    };
    blocks.filter(|example| example.contains("\"routes\"")).map(read).collect()
}

/// The recipe for webhooks to customers: one route for each, which forwards nothing to another one.
#[test]
fn each_customer_of_the_recipe_gets_its_own_events() {
    let sets = sets_of("docs/effects.md");
    let [_, customers] = sets.as_slice() else { panic!("{} sets", sets.len()) };
    for (customer, index) in [("acme", Some(0)), ("umbrella", Some(1)), ("other", None)] {
        let body = json!({ "type": "order.shipped", "customer": customer }).to_string();
        let event = event(&Delivery::new("standard_webhooks", body).to("orders"));
        let mut fits = [("acme", Fit::When("customer".to_owned())), ("umbrella", Fit::When("customer".to_owned()))];
        if let Some(index) = index {
            fits[index].1 = Fit::Fits;
        }
        assert_eq!(customers.explain(&event), fits, "{customer}");
        let forward = match customers.decide(&event) {
            Decision::Handle(handling) => handling.reach.forward.iter().map(DestinationId::as_str).collect(),
            _ => Vec::new(),
        };
        assert_eq!(forward, index.map(|_| customer).into_iter().collect::<Vec<_>>());
    }
}
