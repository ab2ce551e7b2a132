//! Routes, end to end: what a set says is what happens, and a set that is not known or not good changes nothing.

mod decisions;
mod sets;
mod tenants;

use hookonce_examples::{Payments, handlers};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::operator::Operated;
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::Operation;
use hookonce_providers::UnsignedRequest;
use hookonce_runtime::documents::ROUTE_SET_ID;
use hookonce_runtime::handlers::{Handler, HandlerError, Handlers};
use hookonce_runtime::inbox::body::decompress;
use hookonce_runtime::routes::{Decision, Fit, Offered, RouteSet};
use serde_json::{Value, json};

use crate::handlers::event;
use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::delivery::{gateway_event, secret};
use crate::support::harness::Worker;
use crate::support::samples::{charge_refunded, invoice_paid};
use crate::support::{Delivery, Harness, Script, Verdict, document, order};

/// A set with these routes.
pub(crate) fn set(otherwise: &str, routes: &Value) -> Value {
    json!({ "version": 1, "otherwise": otherwise, "routes": routes })
}

/// What a worker on a laptop with these handlers offers.
pub(crate) fn offered<'a>(handlers: &'a [&'a str]) -> Offered<'a> {
    Offered { handlers, urls: true, tables: None }
}

#[tokio::test]
async fn a_route_selects_the_handler_and_the_consumer_of_an_event() {
    let paid = json!({
        "name": "paid", "consumer": "billing", "endpoints": ["stri*"], "types": ["invoice.paid"],
        "when": {"data": {"object": {"amount_paid": [{"numeric": [">", 100]}]}}},
        "fact": ["$.data.object.id"], "handler": {"builtin": "payments"}
    });
    let own =
        json!({ "name": "refunds", "consumer": "refunds", "types": ["charge.*"], "handler": {"builtin": "payments"} });
    let harness = Harness::new().await.routed(&set("ignore", &json!([paid, own])));
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
    let routes = json!([route("each", "count.a*", false), route("all", "count.b*", true)]);
    let harness = Harness::with(counting).await.routed(&set("dead", &routes));
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

/// GitHub signs the body and not the header that names the type. Whoever holds one signed body can send it as another
/// type.
#[tokio::test]
async fn a_type_that_is_not_signed_makes_no_second_fact() {
    let all = json!([{ "name": "all", "consumer": "c", "types": ["count.*"], "fact": ["$.fact"], "handler": {"builtin": "counting"} }]);
    let harness = Harness::with(counting).await.routed(&set("dead", &all));
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

/// Delivers one mail twice, each time with a token of its own.
async fn deliver_mail(harness: &Harness) {
    harness.endpoints.put("mailgun", json!({ "provider": "mailgun", "secrets": [secret("mailgun")] }).to_string());
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
}

/// Mailgun signs a token and leaves the event free. Another attempt may come with another token, in which only the
/// event's own id is the same.
#[tokio::test]
async fn where_the_body_is_free_the_events_own_id_names_the_fact() {
    let fact = [r#"$["event-data"].id"#, r#"$["event-data"].timestamp"#];
    let route = json!({ "name": "mail", "consumer": "c", "fact": fact, "handler": { "builtin": "counting" } });
    let harness = Harness::with(counting).await.routed(&set("dead", &json!([route])));
    deliver_mail(&harness).await;
    let tables = harness.tables().await;
    assert!(tables.domain.contains_key("#dk#mailgun#c#%fact#event-1#1767225590.5"), "{:?}", tables.domain.keys());
    assert_eq!((tables.records.len(), tables.number("mailgun#count#f", "applied")), (2, 1));
}

/// A handler that names the fact by the key of the event.
#[derive(Debug)]
struct ByKey;

impl Handler for ByKey {
    type Fact = String;

    fn name(&self) -> &'static str {
        "by_key"
    }

    fn recognise(&self, event: &Event) -> Result<Option<String>, HandlerError> {
        Ok(Some(event.key.clone()))
    }

    fn domain_key(&self, fact: &String) -> DomainKey {
        DomainKey::of([fact])
    }

    fn plan(&self, _: &Event, _: &String, _: &Snapshot) -> Result<Plan, HandlerError> {
        Ok(Plan::default())
    }
}

/// The record is claimed under the signed token, and the handler sees the provider's own id.
#[tokio::test]
async fn where_the_body_is_free_a_handler_sees_the_events_own_id() {
    let harness = Harness::with(|| Handlers::new().with(ByKey)).await;
    deliver_mail(&harness).await;
    let tables = harness.tables().await;
    let outcomes: Vec<_> = tables.records.values().filter_map(|record| record.outcome).collect();
    assert!(outcomes.contains(&Outcome::Applied) && outcomes.contains(&Outcome::Duplicate), "{outcomes:?}");
    assert!(tables.domain.contains_key("#dk#mailgun#by_key#event-1:1767225590.5"), "{:?}", tables.domain.keys());
}

/// Nobody dispatches here: what the commit stores is looked at.
#[tokio::test]
async fn a_forwarded_event_is_one_fact_by_its_signed_key_or_its_body() {
    let named = json!({ "name": "named", "consumer": "crm", "types": ["invoice.*"], "fact": ["$.data.object.id"], "forward": ["crm"] });
    let all = json!({ "name": "all", "consumer": "crm", "forward": ["crm", "n8n"] });
    let harness = Harness::new().await.routed(&set("dead", &json!([named, all])));
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
    let all = json!([{ "name": "all", "consumer": "bank", "forward": ["bank"] }]);
    let harness = Harness::new().await.routed(&set("dead", &all));
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
    let route_for = |name: &str, event_type: &str| json!({ "name": name, "consumer": "c", "types": [event_type], "handler": {"builtin": "counting"} });
    let mut unreadable = route_for("reads", "unreadable");
    unreadable["when"] = json!({"a": ["b"]});
    let mut missing = route_for("names", "count.*");
    missing["fact"] = json!(["$.fact", "$.part.id"]);
    let harness = Harness::with(counting).await.routed(&set("dead", &json!([unreadable, missing])));
    let of_part = |part: Value| json!({ "type": "count.once", "fact": "f", "part": {"id": part} }).to_string();
    let cases = [
        (counted("", "other", "f").body, "UNROUTED"),
        (count("", "f").body, "FACT_MISSING"),
        (of_part(json!(null)).into(), "FACT_MISSING"),
        (of_part(json!("")).into(), "FACT_MISSING"),
        (of_part(json!({"x": 1})).into(), "FACT_MISSING"),
        (of_part(json!([1])).into(), "FACT_MISSING"),
        (b"no JSON".to_vec(), "EVENT_UNREADABLE"),
    ];
    for (number, (body, code)) in cases.into_iter().enumerate() {
        let id = format!("msg_{number}");
        harness.deliver(&Delivery::new("standard_webhooks", body).header("webhook-id", &id)).await;
        harness.settle().await;
        let record = harness.tables().await.record(&id).clone();
        assert_eq!(
            (record.last_error.as_deref(), record.dead_reason),
            (Some(code), Some(DeadReason::Permanent)),
            "{id}"
        );
        assert!(record.body.is_some());
    }
    let tables = harness.tables().await;
    assert!(tables.domain.is_empty(), "nothing was applied");
}

/// A sender can fit half a million objects into one body. `body.rs` shows that they are not read to their end.
#[tokio::test]
async fn a_body_of_too_many_values_dies_and_its_batch_goes_on() {
    let rows = json!({ "name": "rows", "types": ["count.*"], "when": {"rows": {"": [1]}}, "ignore": true });
    let all = json!({ "name": "all", "consumer": "c", "types": ["count.*"], "handler": {"builtin": "counting"} });
    let harness = Harness::with(counting).await.routed(&set("dead", &json!([rows, all])));
    let body = format!(r#"{{"type": "count.once", "fact": "f", "rows": [{}]}}"#, vec![r#"{"":0}"#; 580_000].join(","));
    harness.deliver(&Delivery::new("standard_webhooks", body).header("webhook-id", "many")).await;
    for id in 1..10 {
        harness.deliver(&count(&id.to_string(), &id.to_string())).await;
    }
    assert!(harness.work_under(&Script::none()).await);
    let tables = harness.tables().await;
    let many = tables.record("#many");
    assert_eq!((many.status, many.last_error.as_deref()), (Status::Dead, Some("EVENT_UNREADABLE")));
    let applied = (1..10).filter(|id| tables.record(&format!("#{id}")).outcome == Some(Outcome::Applied));
    assert_eq!(applied.count(), 9);
}

/// One secret of an app signs for all its customers, and a 401 would switch its webhooks off for all of them. So what
/// is another customer's is ignored after the signature, event by event.
#[tokio::test]
async fn an_event_of_another_customer_is_ignored_and_counted_and_never_refused() {
    let acme = json!({
        "name": "acme", "consumer": "counting", "endpoints": ["crm-acme"], "when": {"portalId": [33]},
        "handler": {"builtin": "counting"},
    });
    let others = json!({ "name": "of others", "endpoints": ["crm-acme"], "ignore": true });
    let harness = Harness::with(counting).await.routed(&set("dead", &json!([acme, others])));
    harness.endpoints.put("crm-acme", json!({ "provider": "hubspot", "secrets": [secret("hubspot")] }).to_string());
    let item = |event: u32, portal: &Value| {
        json!({
            "eventId": event, "subscriptionId": 25, "portalId": portal, "occurredAt": 1_767_225_590_000_u64,
            "objectId": event, "subscriptionType": "count.once", "fact": event.to_string(),
        })
    };
    let batch = json!([item(1, &json!(33)), item(2, &json!(44)), item(3, &Value::Null), item(4, &json!("33"))]);
    let alone = json!([item(5, &json!(44))]);
    for body in [batch, alone] {
        let answer = harness.deliver(&Delivery::new("hubspot", body.to_string()).to("crm-acme")).await;
        assert_eq!(crate::support::word(&answer), (200, "accepted".to_owned()));
    }
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&["crm-acme#counting#1".to_owned()]), Verdict::applied(1));
    assert_eq!((harness.metric("event_ignored"), harness.metric("delivery_refused")), (4, 0));
}

/// A retry lets an event that no route wanted be looked at again, under its own fact: whoever else reports the fact, it
/// is applied once.
#[tokio::test]
async fn an_ignored_event_is_brought_back_once_a_route_wants_it_and_applied_once() {
    let wanted =
        json!([{ "name": "all", "consumer": "counting", "types": ["count.*"], "handler": {"builtin": "counting"} }]);
    let harness = Harness::with(counting).await.routed(&set("ignore", &json!([])));
    harness.deliver(&count("1", "f")).await;
    harness.settle().await;
    let ignored = harness.tables().await.record("#1").clone();
    assert_eq!(ignored.outcome, Some(Outcome::Ignored));
    harness.routes.as_ref().unwrap().put_set(&set("ignore", &wanted));
    // Another delivery reports the fact meanwhile, and is applied.
    harness.deliver(&count("2", "f")).await;
    harness.settle().await;
    // The person repeats the command, with the record as the first list showed it.
    for operated in [Operated::Done, Operated::Overtaken] {
        assert_eq!(harness.ordered(&ignored, &order(Operation::Retry, "")).await, operated);
    }
    harness.relay().await;
    harness.settle().await;
    let tables = harness.tables().await;
    let record = tables.record("#1");
    assert_eq!((record.outcome, record.generation), (Some(Outcome::Duplicate), 0));
    assert_eq!(tables.verdict(&[counted_fact("f")]), Verdict::applied(1));
}

/// Works on everything in the queue with one worker that goes on living.
async fn work_with(worker: &Worker, harness: &Harness) {
    harness.redeliver().await;
    while harness.work_on(worker, &harness.stack.resources.queue, &Script::none()).await {}
}

#[tokio::test]
async fn a_worker_that_has_read_no_set_yet_waits_and_counts_no_attempt() {
    let harness = Harness::new().await.routed(&set("builtin", &json!([])));
    let routes = harness.routes.clone().unwrap();
    routes.set_down(true);
    let worker = harness.worker(&Script::none());
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    work_with(&worker, &harness).await;
    let waiting = harness.tables().await.record("#evt_1").clone();
    assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 0));
    assert!(harness.metric("routes_unavailable") > 0);
    routes.set_down(false);
    // A set that is not valid is no set either, and the one before it is no longer in use.
    routes.put_set(&json!({ "version": 1 }));
    harness.clock.advance(Millis::minutes(2));
    work_with(&worker, &harness).await;
    assert_eq!(harness.tables().await.record("#evt_1").status, Status::Pending);
    assert!(harness.metric("routes_refused") > 0);
    routes.put_set(&set("builtin", &json!([])));
    harness.clock.advance(Millis::minutes(2));
    work_with(&worker, &harness).await;
    assert_eq!(harness.tables().await.record("#evt_1").outcome, Some(Outcome::Applied));
}

#[tokio::test]
async fn a_worker_without_handlers_lets_the_events_wait_that_a_set_hands_to_them() {
    let paid =
        json!([{ "name": "paid", "consumer": "c", "types": ["invoice.paid"], "handler": {"builtin": "payments"} }]);
    for set in [set("builtin", &json!([])), set("dead", &paid)] {
        let mut harness = Harness::with(Handlers::new).await.routed(&set);
        harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
        harness.work().await;
        let waiting = harness.tables().await.record("#evt_1").clone();
        let error = waiting.last_error.as_deref();
        assert_eq!((waiting.status, waiting.attempts, error), (Status::Pending, 0, Some("HANDLER_UNAVAILABLE")));
        // Once a worker has the handler, it is applied.
        harness.handlers = handlers;
        harness.clock.advance(Millis::hours(1));
        harness.relay().await;
        harness.settle().await;
        assert_eq!(harness.tables().await.record("#evt_1").outcome, Some(Outcome::Applied));
    }
}

/// What happens to the set, how an event then ends if it does, and whether the set counts as refused.
type Step<'a> = (&'a str, &'a dyn Fn(), Option<Outcome>, bool);

/// What a set that is no longer in use says may be what somebody has just mended: no event goes by it.
#[tokio::test]
async fn a_set_is_replaced_while_events_flow_and_while_it_is_refused_they_wait() {
    let to_billing = json!([{ "name": "paid", "consumer": "billing", "types": ["invoice.paid"], "handler": {"builtin": "payments"} }]);
    let harness = Harness::new().await.routed(&set("ignore", &to_billing));
    let routes = harness.routes.clone().unwrap();
    let worker = harness.worker(&Script::none());
    let mut expected = Vec::new();
    let steps: [Step<'_>; 5] = [
        ("the first set", &|| (), Some(Outcome::Applied), false),
        ("no answer", &|| routes.set_down(true), Some(Outcome::Applied), false),
        (
            "no set any more",
            &|| {
                routes.set_down(false);
                routes.remove(ROUTE_SET_ID);
            },
            Some(Outcome::Applied),
            true,
        ),
        (
            "a set with a fault",
            &|| routes.put_set(&set("ignore", &json!([{ "name": "x", "ignore": true, "colour": 1 }]))),
            None,
            true,
        ),
        ("another set", &|| routes.put_set(&set("ignore", &json!([]))), Some(Outcome::Ignored), false),
    ];
    for (number, (step, change, outcome, is_refused)) in steps.into_iter().enumerate() {
        change();
        let refused = harness.metric("routes_refused");
        // Within the pause, the source is not asked.
        harness.deliver(&invoice_paid(&format!("evt_a{number}"), &format!("in_a{number}"), 1)).await;
        work_with(&worker, &harness).await;
        assert_eq!(harness.metric("routes_refused"), refused, "{step}");
        harness.clock.advance(Millis::minutes(2));
        harness.deliver(&invoice_paid(&format!("evt_b{number}"), &format!("in_b{number}"), 1)).await;
        work_with(&worker, &harness).await;
        assert_eq!(harness.metric("routes_refused") > refused, is_refused, "{step}");
        let record = harness.tables().await.record(&format!("#evt_b{number}")).clone();
        assert_eq!((record.outcome, record.attempts), (outcome, 0), "{step}");
        expected.push((format!("#evt_b{number}"), outcome.unwrap_or(Outcome::Ignored), step));
    }
    let tables = harness.tables().await;
    for (record, outcome, step) in expected {
        assert_eq!(tables.record(&record).outcome, Some(outcome), "{step}");
    }
    assert!(harness.metric("routes_unavailable") > 0);
    let remembered = tables.domain.keys().filter(|key| key.starts_with("#dk#stripe#billing#")).count();
    assert_eq!(remembered, 7, "the worker used no other set: {:?}", tables.domain.keys());
}

/// A release that lacks a handler which the set names: neither the set before nor another route takes its events.
#[tokio::test]
async fn events_of_a_route_whose_handler_is_missing_wait_and_all_others_go_on() {
    let route = |name: &str, kind: &str, handler: &str| json!({ "name": name, "consumer": name, "types": [kind], "handler": {"builtin": handler} });
    let counts = route("counts", "count.*", "counting");
    let rest = json!({ "name": "rest", "ignore": true });
    let mut harness = Harness::with(counting).await.routed(&set("dead", &json!([counts, rest])));
    let routes = harness.routes.clone().unwrap();
    let worker = harness.worker(&Script::none());
    harness.deliver(&invoice_paid("evt_0", "in_0", 1)).await;
    work_with(&worker, &harness).await;

    routes.put_set(&set("dead", &json!([route("paid", "invoice.paid", "payments"), counts, rest])));
    harness.clock.advance(Millis::minutes(2));
    for delivery in [invoice_paid("evt_1", "in_1", 1), count("1", "f"), charge_refunded("evt_2", "ch_1", 100)] {
        harness.deliver(&delivery).await;
    }
    // One that has the set before in memory, and one that has just started.
    work_with(&worker, &harness).await;
    work_with(&harness.worker(&Script::none()), &harness).await;
    let tables = harness.tables().await;
    let outcome = |record: &str| tables.record(record).outcome;
    assert_eq!(
        ["#evt_0", "#evt_1", "#1", "#evt_2"].map(outcome),
        [Some(Outcome::Ignored), None, Some(Outcome::Applied), Some(Outcome::Ignored)]
    );
    let waiting = tables.record("#evt_1");
    assert_eq!((waiting.attempts, waiting.last_error.as_deref()), (0, Some("HANDLER_UNAVAILABLE")));
    assert_eq!(harness.metric("routes_refused"), 0, "the set is in use");
    assert!(harness.metric("handler_unavailable") > 0);

    harness.handlers = || counting().with(Payments);
    harness.settle().await;
    assert_eq!(harness.tables().await.record("#evt_1").outcome, Some(Outcome::Applied));
}

/// The route sets that a page shows, in their order.
pub(crate) fn sets_of(page: &str) -> Vec<RouteSet> {
    let text = document(page);
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
    let sets = sets_of("docs/use/effects.md");
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
            Decision::Handle(handling) => handling.grants.forward.iter().map(DestinationId::as_str).collect(),
            _ => Vec::new(),
        };
        assert_eq!(forward, index.map(|_| customer).into_iter().collect::<Vec<_>>());
    }
}
