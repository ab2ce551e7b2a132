//! Gateway events as AWS delivers them: what the function reads from each, and the answer that each expects.

use std::future::ready;
use std::panic::catch_unwind;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use hookonce_local::gateway::answer::http_answer;
use hookonce_webhook::answer::Denial;
use hookonce_webhook::gateway::{Inbound, Malformed, Outbound, call, service};
use lambda_http::request::LambdaRequest;
use lambda_http::{Context, LambdaEvent, Service as _};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::samples::{bytes, json as recorded};
use crate::support::{Delivery, Harness, Script, word};

fn event(name: &str) -> Value {
    recorded(&format!("gateway/{name}.json"))
}

fn read(event: Value) -> Result<Inbound, Malformed> {
    Inbound::read(serde_json::from_value(event).unwrap())
}

fn read_recorded(name: &str) -> Inbound {
    read(event(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every value of a header.
fn values<'a>(inbound: &'a Inbound, name: &str) -> Vec<&'a str> {
    let headers = inbound.headers.iter().filter(|(known, _)| known == name);
    headers.map(|(_, value)| std::str::from_utf8(value).unwrap()).collect()
}

/// The same Stripe delivery from each gateway and with each content type. An HTTP API passes `text/*`, JSON, XML and
/// `JavaScript` as text, and everything else as base64, including `+json`.
const INVOICE: &str = "http-api-json http-api-stage http-api-text http-api-xml http-api-javascript http-api-json-suffix \
                       http-api-octet-stream http-api-multipart http-api-payload-1 function-url-json rest-api-json \
                       rest-api-base64 alb-json alb-base64";

/// One event of each kind that has its own form of answer.
const KINDS: [&str; 5] = ["http-api-json", "function-url-json", "http-api-payload-1", "rest-api-json", "alb-json"];

#[test]
fn every_form_of_event_gives_the_same_bytes() {
    let invoice = bytes("deliveries/stripe-invoice-paid.json");
    for name in INVOICE.split(' ') {
        let inbound = read_recorded(name);
        assert!(inbound.body == invoice, "{name}: another body");
        assert_eq!(inbound.method, "POST", "{name}");
        assert!(inbound.path.ends_with("/webhooks/stripe"), "{name}: {}", inbound.path);
        assert_eq!(inbound.source, Some("203.0.113.9".parse().unwrap()), "{name}");
        assert_eq!(values(&inbound, "stripe-signature").len(), 1, "{name}");
        // A load balancer's event has neither a domain nor a request id.
        let named = !name.starts_with("alb");
        assert_eq!((inbound.called.is_some(), !inbound.request_id.is_empty()), (named, named), "{name}");
    }
}

/// Some providers sign the URL that they call. A REST API's has the stage, which its event leaves out of the path.
#[test]
fn the_url_is_the_one_that_the_provider_called() {
    let http_api = "https://abcdef1234.execute-api.eu-central-1.amazonaws.com";
    let urls = [
        ("http-api-json", format!("{http_api}/webhooks/stripe")),
        ("http-api-stage", format!("{http_api}/live/webhooks/stripe")),
        ("http-api-payload-1", format!("{http_api}/webhooks/stripe")),
        ("function-url-json", "https://mnopqr9012.lambda-url.eu-central-1.on.aws/webhooks/stripe".to_owned()),
        ("rest-api-json", "https://ghijkl5678.execute-api.eu-central-1.amazonaws.com/prod/webhooks/stripe".to_owned()),
        ("alb-json", "/webhooks/stripe".to_owned()),
    ];
    for (name, url) in urls {
        assert_eq!(read_recorded(name).url(None), url, "{name}");
    }
    // A domain in front of the gateway adds the stage itself.
    let behind = read_recorded("rest-api-json").url(Some("https://hooks.example.com/"));
    assert_eq!(behind, "https://hooks.example.com/webhooks/stripe");
}

/// An emulator writes null where AWS leaves a field out.
#[test]
fn null_is_as_good_as_absent() {
    let mut event = event("http-api-json");
    for name in ["rawQueryString", "cookies", "stageVariables"] {
        event[name] = Value::Null;
    }
    event["requestContext"]["requestId"] = Value::Null;
    event["requestContext"]["accountId"] = Value::Null;
    let inbound = read(event).unwrap();
    assert_eq!(inbound.body, bytes("deliveries/stripe-invoice-paid.json"));
    assert_eq!((inbound.query.as_str(), inbound.request_id.as_str()), ("", ""));
}

#[test]
fn cookies_and_queries_are_put_together_again() {
    let inbound = read_recorded("http-api-cookies");
    assert_eq!(values(&inbound, "cookie"), ["session=abc123; theme=dark"]);
    assert_eq!(inbound.query, "tenant=one&tenant=two");
    let decoded = read_recorded("rest-api-base64");
    assert_eq!(decoded.query, "note=a%26b&tenant=one&tenant=t+w+o", "a decoded query is encoded again");
    let raw = read_recorded("alb-base64");
    assert_eq!(raw.query, "note=a%26b&tenant=one&tenant=t%20w%20o", "a raw query stays as it is");
}

#[test]
fn duplicate_headers_stay_visible_and_in_order() {
    let joined = read_recorded("http-api-duplicate-header");
    assert!(values(&joined, "stripe-signature")[0].matches("t=1767225600").count() == 2);
    for name in ["rest-api-duplicate-header", "alb-duplicate-header"] {
        let mut event = event(name);
        event["multiValueHeaders"]["x-order"] = json!(["2", "1", "3"]);
        let inbound = read(event).unwrap();
        assert_eq!(values(&inbound, "stripe-signature").len(), 2, "{name}");
        assert_eq!(values(&inbound, "x-order"), ["2", "1", "3"], "{name}");
    }
}

/// An address that the caller itself claims is not trusted.
#[test]
fn a_load_balancer_is_believed_about_the_last_address_only() {
    let from = |value: &str| {
        let mut event = event("alb-json");
        event["headers"]["x-forwarded-for"] = json!(value);
        read(event).unwrap().source.map(|address| address.to_string())
    };
    assert_eq!(from("10.0.0.1,2001:db8::7").as_deref(), Some("2001:db8::7"));
    assert_eq!(from("10.0.0.1").as_deref(), Some("10.0.0.1"));
    assert_eq!(from("10.0.0.1, 203.0.113.9:5555").as_deref(), Some("203.0.113.9"));
    assert_eq!([from("10.0.0.1, unknown"), from("")], [None, None]);
    // AWS does not document to which of two headers the balancer appends.
    let mut twice = event("alb-duplicate-header");
    twice["multiValueHeaders"]["x-forwarded-for"] = json!(["203.0.113.9", "10.0.0.1"]);
    assert_eq!(read(twice).unwrap().source, None);
}

/// No gateway is known to send such an event, but the library's map panics on it.
#[tokio::test]
async fn a_query_name_without_values_is_left_out() {
    let harness = Harness::new().await;
    for name in ["rest-api-json", "alb-json"] {
        for place in ["multiValueQueryStringParameters", "queryStringParameters"] {
            let mut event = event(name);
            event[place] = json!({ "a": [] });
            assert_eq!(read(event.clone()).unwrap().query, "", "{name} {place}");
            let answer = harness.webhook(&Script::none()).handle(event.clone()).await;
            assert_ne!(answer.status_code, 500, "{event}");
        }
    }
}

#[test]
fn what_an_event_holds_is_not_printed() {
    let printed = format!("{:?}", read_recorded("http-api-json"));
    assert!(!printed.contains("in_1SampleInvoice") && !printed.contains("v1="), "{printed}");
}

/// The recorded requests carry signatures of their providers, made when the test clock starts.
#[tokio::test]
async fn recorded_events_go_through_the_whole_function() {
    let harness = Harness::new().await;
    harness.endpoints.change("meta_whatsapp", "settings", json!({ "verify_token": "meatyhamhock" }));
    let words = std::iter::once("accepted").chain(std::iter::repeat("duplicate"));
    let invoices = INVOICE.split(' ').zip(words).map(|(name, word)| (name, 200, word));
    let others = [
        ("http-api-no-content-type", 200, "accepted"),
        ("http-api-cookies", 200, "accepted"),
        ("http-api-duplicate-header", 401, "duplicate_header"),
        ("rest-api-duplicate-header", 401, "duplicate_header"),
        ("alb-duplicate-header", 401, "duplicate_header"),
        ("http-api-malformed-base64", 400, "malformed"),
    ];
    for (name, status, expected) in invoices.chain(others) {
        let answer = harness.webhook(&Script::none()).handle(event(name)).await;
        assert_eq!(word(&answer), (status, expected.to_owned()), "{name}");
        assert_eq!(answer.headers["content-type"], "application/json", "{name}");
    }
    let answer = harness.webhook(&Script::none()).handle(event("http-api-form")).await;
    assert_eq!((answer.status_code, answer.body.as_str()), (200, ""), "a command of Slack");
    let answer = harness.webhook(&Script::none()).handle(event("http-api-handshake")).await;
    assert_eq!((answer.status_code, answer.body.as_str()), (200, "1158201444"));
    let header = |name: &str| answer.headers[name].as_str();
    assert_eq!([header("content-type"), header("x-content-type-options")], ["text/plain; charset=utf-8", "nosniff"]);
    assert_eq!(harness.tables().await.records.len(), 4);
}

/// A REST API refuses unknown fields; an emulator of an HTTP API requires the cookies.
#[tokio::test]
async fn each_gateway_gets_an_answer_in_its_own_form() {
    let harness = Harness::new().await;
    for name in KINDS {
        let mut forged = event(name);
        forged["body"] = json!("{}");
        let answer = harness.webhook(&Script::none()).invoke(forged).await;
        let (single, multiple) =
            (json!({ "content-type": "application/json" }), json!({ "content-type": ["application/json"] }));
        let (status, body) = (401, "{\"error\":\"signature_mismatch\"}");
        let expected = match name {
            "http-api-json" | "function-url-json" => json!({
                "statusCode": status, "headers": single, "multiValueHeaders": {}, "cookies": [],
                "body": body, "isBase64Encoded": false,
            }),
            "alb-json" => json!({
                "statusCode": status, "statusDescription": "401 Unauthorized", "headers": single,
                "multiValueHeaders": multiple, "body": body, "isBase64Encoded": false,
            }),
            _ => json!({
                "statusCode": status, "headers": {}, "multiValueHeaders": multiple,
                "body": body, "isBase64Encoded": false,
            }),
        };
        assert_eq!(answer, expected, "{name}");
    }
}

/// Echoes the body of each request, and answers anything else as the function does.
fn echo(event: Value) -> Value {
    let function = |request: Result<Inbound, Malformed>| {
        ready(match request {
            Ok(inbound) => Outbound::new(200, "text/plain", inbound.body),
            Err(Malformed) => Denial::Malformed.outbound(),
        })
    };
    call(service(function), event).now_or_never().unwrap()
}

/// AWS writes the version first and no white space. Such an event is read by another way.
#[test]
fn payload_2_0_is_read_alike_in_every_form_of_its_text() {
    let seen = |text: &str| {
        let show = |request: Result<Inbound, Malformed>| {
            let Inbound { method, path, query, called, headers, body, source, request_id } = request.unwrap();
            let all = format!("{method} {path} {query} {called:?} {headers:?} {body:?} {source:?} {request_id}");
            ready(Outbound::new(200, "text/plain", all.into_bytes()))
        };
        let event = RawValue::from_string(text.to_owned()).unwrap();
        let answer = service(show).call(LambdaEvent::new(event, Context::default())).now_or_never().unwrap().unwrap();
        serde_json::to_value(answer).unwrap()
    };
    let events = ["http-api-json", "http-api-cookies", "http-api-octet-stream", "function-url-json"];
    for name in events {
        let mut fields = event(name);
        let version = fields.as_object_mut().unwrap().remove("version").unwrap();
        let rest = fields.to_string();
        let first = format!(r#"{{"version":{version},{}"#, rest.strip_prefix('{').unwrap());
        let last = format!(r#"{},"version":{version}}}"#, rest.strip_suffix('}').unwrap());
        assert_eq!(seen(&first), seen(&last), "{name}");
    }
}

/// The status and the bytes that the gateway sends.
fn sent(answer: &Value) -> (u16, Vec<u8>) {
    let answer = http_answer(answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
    (answer.status().as_u16(), answer.into_body().into())
}

#[test]
fn an_answer_keeps_every_byte_and_goes_without_a_body_if_it_has_none() {
    for name in KINDS {
        let mut event = event(name);
        (event["body"], event["isBase64Encoded"]) = (json!("77u//gA="), json!(true));
        let answer = echo(event.clone());
        assert_eq!(answer["isBase64Encoded"], true, "{name}");
        assert_eq!(sent(&answer), (200, b"\xef\xbb\xbf\xfe\x00".to_vec()), "{name}");
        event["body"] = Value::Null;
        assert_eq!(sent(&echo(event)), (200, Vec::new()), "{name}");
    }
}

#[test]
fn an_answer_that_cannot_be_sent_is_a_server_error() {
    for broken in
        [Outbound::empty(200).header("x-id", "a\nb"), Outbound::empty(200).header("", "a"), Outbound::empty(7)]
    {
        let answer = call(service(|_| ready(broken.clone())), event("rest-api-json")).now_or_never().unwrap();
        assert_eq!(sent(&answer), (500, Vec::new()), "{broken:?}");
    }
}

/// An event with the value at this place changed.
fn changed(name: &str, pointer: &str, value: impl Into<Value>) -> Value {
    let mut event = event(name);
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    event.pointer_mut(parent).unwrap()[last] = value.into();
    event
}

/// `lambda_http` panics when it converts any of these. This function still checks the signature, and refuses only a
/// body that cannot be decoded. A case that no longer panics has no reason to be here.
#[tokio::test]
async fn what_the_conversion_of_lambda_http_panics_on_has_an_answer() {
    let harness = Harness::new().await;
    let mut cases = vec![(event("http-api-malformed-base64"), (400, "malformed"))];
    let mut add = |event, answer| cases.push((event, answer));
    for (name, path) in [("http-api-json", "/rawPath"), ("http-api-payload-1", "/path"), ("alb-json", "/path")] {
        add(changed(name, path, ":x/webhooks/stripe"), (200, "duplicate"));
        add(changed(name, path, ":x"), (404, "unknown_endpoint"));
        add(changed(name, "/headers/host", "not a host"), (200, "duplicate"));
        add(changed(name, "/headers/x-forwarded-proto", "no scheme"), (200, "duplicate"));
        add(changed(name, "/isBase64Encoded", true), (400, "malformed"));
    }
    add(changed("http-api-json", "/rawQueryString", "a b"), (200, "duplicate"));
    let accepted = harness.webhook(&Script::none()).handle(event("http-api-json")).await;
    assert_eq!(word(&accepted), (200, "accepted".to_owned()));
    for (event, (status, expected)) in cases {
        let typed: LambdaRequest = serde_json::from_value(event.clone()).unwrap();
        assert!(catch_unwind(|| http::Request::from(typed)).is_err(), "lambda_http converts {event}");
        let answer = harness.webhook(&Script::none()).handle(event.clone()).await;
        assert_eq!(word(&answer), (status, expected.to_owned()), "{event}");
    }
}

/// No type of `lambda_http` fits these. If they did not pass through, the function would fail before it runs.
#[tokio::test]
async fn what_is_no_request_has_an_answer() {
    let harness = Harness::new().await;
    let mut cases = vec![json!({ "key1": "value1" }), json!(null), json!([]), json!("POST"), json!(7)];
    for name in KINDS {
        let headers = ["a b", "", "ü"].map(|header| changed(name, &format!("/headers/{header}"), "1"));
        let values = ["\n", "\r\nx: 1", "\0", "\u{7f}"].map(|value| changed(name, "/headers/x", value));
        let types = [json!(7), json!(["a"]), json!({})].map(|body| changed(name, "/body", body));
        let method = if event(name)["httpMethod"].is_null() { "/requestContext/http/method" } else { "/httpMethod" };
        let methods = ["PO ST", "PÖST"].map(|value| changed(name, method, value));
        cases.extend(headers.into_iter().chain(values).chain(types).chain(methods));
    }
    for event in cases {
        let answer = harness.webhook(&Script::none()).handle(event.clone()).await;
        assert_eq!((answer.status_code, answer.body.as_str()), (400, r#"{"error":"malformed"}"#), "{event}");
    }
}

proptest! {
    /// Whatever anyone sends through any gateway gets an HTTP answer, and the function reads the bytes that were
    /// sent.
    #[test]
    fn no_request_makes_the_function_fail(
        name in proptest::sample::select(&KINDS),
        path in any::<String>(),
        query in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..3),
        raw_query in any::<String>(),
        headers in proptest::collection::btree_map("[!-~]{0,9}|host|x-forwarded-(for|proto)|cookie", any::<String>(), 0..4),
        cookies in proptest::collection::vec(any::<String>(), 0..3),
        body in "[a-d]{0,8}={0,2}|\\PC*",
        encoded in any::<bool>(),
    ) {
        let mut event = event(name);
        let place = if event["rawPath"].is_null() { "path" } else { "rawPath" };
        event[place] = json!(path);
        event["headers"] = json!(headers);
        event["queryStringParameters"] = json!(query);
        event["rawQueryString"] = json!(raw_query);
        event["cookies"] = json!(cookies);
        event["body"] = json!(body);
        event["isBase64Encoded"] = json!(encoded);
        if !event["multiValueHeaders"].is_null() {
            event["multiValueHeaders"] = json!({ "x-first": headers.values().collect::<Vec<_>>() });
        }
        let expected = if encoded { STANDARD.decode(&body).ok() } else { Some(body.into_bytes()) };
        match sent(&echo(event)) {
            (200, echoed) => prop_assert_eq!(Some(echoed), expected),
            (status, _) => prop_assert_eq!(status, 400),
        }
    }
}

/// `docs/use/submit.md` shows how little of a gateway's event is enough to invoke the function directly.
#[tokio::test]
async fn the_event_of_the_page_on_submissions_is_taken() {
    let harness = Harness::new().await;
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use/submit.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, event) = page.split_once("```json\n").unwrap();
    let (event, _) = event.split_once("```").unwrap();
    let event = event.replace("/webhooks/jobs", "/webhooks/standard_webhooks");
    let mut event: Value = serde_json::from_str(&event).unwrap();
    let body = r#"{"type":"job.requested","data":{"n":1.10}}"#;
    let delivery = Delivery::new("standard_webhooks", body).header("webhook-id", "order-1042");
    let signed = delivery.signed_headers(harness.clock.seconds());
    for (name, value) in event["headers"].as_object_mut().unwrap() {
        *value = json!(signed.iter().find(|(signed, _)| signed == name).unwrap().1);
    }
    event["body"] = json!(body);
    for expected in ["accepted", "duplicate"] {
        let answer = harness.webhook(&Script::none()).handle(event.clone()).await;
        assert_eq!(word(&answer), (200, expected.to_owned()));
    }
    event["body"] = json!(body.replace("1.10", "1.1"));
    let forged = harness.webhook(&Script::none()).handle(event).await;
    assert_eq!(word(&forged), (401, "signature_mismatch".to_owned()), "whoever may invoke it must still sign");
    assert_eq!(harness.tables().await.records.len(), 1);
}
