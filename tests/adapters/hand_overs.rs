//! What becomes of an effect for a queue or a function, after every answer that AWS documents. `requests.rs` has what
//! is sent.

use hookonce_aws::{AccountCaller, SdkConfig};
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::effect::Method;
use hookonce_runtime::config::MESSAGE_BYTES_MAX;
use hookonce_runtime::destinations::{CalleeAnswer, Caller as _, Destination, HttpCaller};
use hookonce_runtime::inbox::body::compress;
use serde_json::{Value, json};

use super::account::without_credentials;
use super::{Case, error, hold, refusal};
use crate::clients::config_at;
use crate::fixtures::{MOMENT, delivery, destination};
use crate::scripted::{HttpMessage, Reaction, ScriptedServer, nowhere};

const SERVICE: &str = "com.amazonaws.sqs";
const TAKEN: (u16, &str) = (200, r#"{"MessageId": "1"}"#);
const NOT_DONE: Called = Called::NotDone { status: None, retry_after: None };
const UNCLEAR: Called = Called::Unclear { status: None, retry_after: None };
const NEVER_SENT: Called = Called::Refused { status: None };

const fn not_done(status: u16) -> Called {
    Called::NotDone { status: Some(status), retry_after: None }
}

const fn unclear(status: u16) -> Called {
    Called::Unclear { status: Some(status), retry_after: None }
}

fn refused(status: u16) -> Called {
    Called::Refused { status: Some(status) }
}

/// A destination with the time for a slow machine, unless the changes of its document say something else.
fn patient_destination(mut document: Value, changes: &Value) -> Destination {
    document["class"] = "at_least_once".into();
    document["timeout_ms"] = 30_000.into();
    document.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    destination(&document).unwrap()
}

pub(super) fn queue(name: &str, changes: &Value) -> Destination {
    let url = format!("https://sqs.eu-central-1.amazonaws.com/123456789012/{name}");
    patient_destination(json!({"kind": "sqs", "url": url}), changes)
}

pub(super) fn function(name: &str, changes: &Value) -> Destination {
    patient_destination(json!({"kind": "lambda", "function": name}), changes)
}

/// What a hand-over can carry: neither has a path.
pub(super) fn plain() -> OutboundCall {
    OutboundCall { path: String::new(), ..delivery() }
}

pub(super) fn with_payload(payload: &[u8]) -> OutboundCall {
    OutboundCall { body: compress(payload).unwrap(), ..plain() }
}

async fn called(server: &ScriptedServer, destination: &Destination, delivery: &OutboundCall) -> Called {
    AccountCaller::new(&config_at(server.url())).call(destination, delivery, MOMENT).await
}

/// Of an attempt without an answer: how it ended, the cause, and whether it may have left.
async fn unanswered(
    config: &SdkConfig,
    destination: &Destination,
    delivery: &OutboundCall,
) -> (Called, &'static str, bool) {
    let attempt = AccountCaller::new(config).attempt(destination, delivery, MOMENT).await;
    (attempt.called, attempt.answer.unwrap_err().word(), attempt.sent)
}

#[tokio::test]
async fn what_a_hand_over_cannot_carry_is_refused_without_a_call() {
    let large = vec![b'a'; MESSAGE_BYTES_MAX];
    let of_both = || {
        [
            OutboundCall { path: "/x".to_owned(), ..plain() },
            OutboundCall { method: Method::Put, ..plain() },
            OutboundCall { hops: 5, ..plain() },
        ]
    };
    let of_a_queue = [
        OutboundCall { content_type: "a\u{1}".to_owned(), ..plain() },
        with_payload(&[0, 255]),
        with_payload(b"a\x01"),
        with_payload("a\u{FFFE}".as_bytes()),
        with_payload(b""),
        with_payload(&large),
    ];
    let server = ScriptedServer::start(|_, _| TAKEN).await;
    let (config, never_sent) = (config_at(server.url()), (NEVER_SENT, "unsendable", false));
    let (queue, function) = (queue("jobs", &json!({})), function("jobs", &json!({})));
    for delivery in of_both().into_iter().chain(of_a_queue) {
        assert_eq!(unanswered(&config, &queue, &delivery).await, never_sent, "{delivery:?}");
    }
    for delivery in of_both() {
        assert_eq!(unanswered(&config, &function, &delivery).await, never_sent, "{delivery:?}");
    }
    assert_eq!(server.requests().len(), 0);
}

/// A number of the payload keeps its digits.
#[tokio::test]
async fn a_function_gets_json_as_it_was_written() {
    let server = ScriptedServer::start(|_, _| (202, "")).await;
    assert_eq!(called(&server, &function("jobs", &json!({})), &plain()).await, Called::Done { status: Some(202) });
    let sent = String::from_utf8(server.requests()[0].body.clone()).unwrap();
    assert!(sent.contains(r#""payload":{"amount": 10.50}"#), "{sent}");
}

/// The attributes of a message count, too.
#[tokio::test]
async fn a_message_that_just_fits_is_sent() {
    let server = ScriptedServer::start(|_, _| TAKEN).await;
    let attributes: usize = [
        ("hookonce-key", plain().idempotency_key.as_str()),
        ("hookonce-event", plain().event.as_str()),
        ("hookonce-hops", "1"),
        ("content-type", "application/json"),
    ]
    .map(|(name, text)| name.len() + "String".len() + text.len())
    .iter()
    .sum();
    let fits = MESSAGE_BYTES_MAX - attributes;
    for (length, expected) in [(fits, Called::Done { status: Some(200) }), (fits + 1, NEVER_SENT)] {
        let delivery = with_payload(&vec![b'a'; length]);
        assert_eq!(called(&server, &queue("jobs", &json!({})), &delivery).await, expected);
    }
}

/// A missing permission, queue or key is fixed by a person, and then the effect goes out. It must not die of it.
#[tokio::test]
async fn an_effect_for_a_queue_waits_for_what_can_be_mended() {
    let of = |status: u16, code: &str, expected: Called| {
        Case::new(code, error(status, &format!("{SERVICE}#{code}")), expected, 1)
    };
    // As SQS answers: it names the errors of its older protocol in a header, too.
    let as_before = |code: &str, before: &str, expected: Called| {
        let body = json!({ "__type": format!("{SERVICE}#{code}"), "message": "a message" }).to_string();
        let answer =
            HttpMessage::reply(("400 -", &body)).with_header("x-amzn-query-error", &format!("{before};Sender"));
        Case::new(before, Reaction::Answer(answer), expected, 1)
    };
    let cases = vec![
        of(400, "InvalidMessageContents", refused(400)),
        as_before("InvalidMessageContents", "InvalidMessageContents", refused(400)),
        of(400, "InvalidParameterValueException", refused(400)),
        as_before("InvalidParameterValueException", "InvalidParameterValue", refused(400)),
        of(400, "QueueDoesNotExist", not_done(400)),
        as_before("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", not_done(400)),
        of(400, "InvalidAddress", not_done(400)),
        of(400, "InvalidSecurity", not_done(400)),
        of(400, "UnsupportedOperation", not_done(400)),
        as_before("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", not_done(400)),
        of(400, "RequestThrottled", not_done(400)),
        of(400, "ThrottlingException", not_done(400)),
        of(403, "AccessDeniedException", not_done(403)),
        of(400, "KmsAccessDenied", not_done(400)),
        as_before("KmsAccessDenied", "KMS.AccessDeniedException", not_done(400)),
        of(400, "KmsDisabled", not_done(400)),
        of(400, "KmsInvalidKeyUsage", not_done(400)),
        of(400, "KmsInvalidState", not_done(400)),
        of(400, "KmsNotFound", not_done(400)),
        of(400, "KmsOptInRequired", not_done(400)),
        of(400, "KmsThrottled", not_done(400)),
        of(400, "AnErrorOfTomorrow", not_done(400)),
        of(500, "InternalError", unclear(500)),
        of(503, "ServiceUnavailable", unclear(503)),
        Case::new("a connection that closes", Reaction::Close, UNCLEAR, 1),
        Case::new("a page", (200, "<html>"), unclear(200), 1),
    ];
    let queue = queue("jobs", &json!({}));
    hold(async |server: &ScriptedServer| called(server, &queue, &plain()).await, cases).await;
}

/// Every error of Invoke, by its status in the service model.
const OF_INVOKE: &str = include_str!("errors_of_invoke.json");

#[tokio::test]
async fn an_effect_for_a_function_waits_for_what_can_be_mended() {
    let named = |status: u16, code: &str, expected: Called| {
        let answer = HttpMessage::reply((&format!("{status} -"), "{}")).with_header("x-amzn-errortype", code);
        Case::new(code, Reaction::Answer(answer), expected, 1)
    };
    let mut cases = Vec::new();
    for errors in serde_json::from_str::<Vec<Value>>(OF_INVOKE).unwrap() {
        let status = u16::try_from(errors["status"].as_u64().unwrap()).unwrap();
        let expected = if errors["refused"] == true { refused(status) } else { not_done(status) };
        let codes = errors["errors"].as_array().unwrap().iter();
        cases.extend(codes.map(|code| named(status, code.as_str().unwrap(), expected)));
    }
    cases.extend([
        named(400, "InvalidRequestContentException:http://internal.amazon.com/coral/", refused(400)),
        named(500, "ServiceException", unclear(500)),
        Case::new("a 400 without a name", (400, "{}"), not_done(400), 1),
        Case::new("a 408 of a proxy", (408, "<html>"), unclear(408), 1),
        Case::new("a 502 of a gateway", (502, "<html>"), unclear(502), 1),
        Case::new("a 503", (503, "{}"), unclear(503), 1),
        Case::new("a synchronous answer", (200, "{}"), unclear(200), 1),
        Case::new("a connection that closes", Reaction::Close, UNCLEAR, 1),
    ]);
    let function = function("jobs", &json!({}));
    hold(async |server: &ScriptedServer| called(server, &function, &plain()).await, cases).await;
}

/// What `hookonce destination test` prints.
#[tokio::test]
async fn an_attempt_carries_the_message_code_and_request_id_of_the_service() {
    let hurried = function("jobs", &json!({"timeout_ms": 2_000}));
    let (queue, function) = (queue("jobs", &json!({})), function("jobs", &json!({})));
    let text = |text: &str| Some(text.to_owned());
    let named = |status: &str, body: &str| {
        HttpMessage::reply((status, body))
            .with_header("x-amzn-requestid", "r-1")
            .with_header("x-amzn-errortype", "Gone:")
    };
    let gone = |message: Option<String>| CalleeAnswer {
        message,
        code: text("Gone"),
        id: text("r-1"),
        ..CalleeAnswer::of(404)
    };
    for (destination, reaction, called, answer) in [
        (
            &queue,
            TAKEN.into(),
            Called::Done { status: Some(200) },
            CalleeAnswer { id: text("1"), ..CalleeAnswer::of(200) },
        ),
        (
            &queue,
            refusal(SERVICE, "QueueDoesNotExist"),
            not_done(400),
            CalleeAnswer { code: text("QueueDoesNotExist"), message: text("a message"), ..CalleeAnswer::of(400) },
        ),
        (&queue, (200, "<html>").into(), unclear(200), CalleeAnswer::of(200)),
        (
            &function,
            Reaction::Answer(HttpMessage::reply(("202 -", "")).with_header("x-amzn-requestid", "r-1")),
            Called::Done { status: Some(202) },
            CalleeAnswer { id: text("r-1"), ..CalleeAnswer::of(202) },
        ),
        (&function, Reaction::Answer(named("404 -", r#"{"Message": "no"}"#)), not_done(404), gone(text("no"))),
        (&function, Reaction::Answer(named("404 -", "<html>")), not_done(404), gone(None)),
        // Its head has said how it ended.
        (&function, Reaction::Break(named("404 -", r#"{"Message": "no"}"#)), not_done(404), gone(None)),
        (&hurried, Reaction::Stall(named("404 -", r#"{"Message": "no"}"#)), not_done(404), gone(None)),
    ] {
        let reaction: Reaction = reaction;
        let server = ScriptedServer::start(move |_, _| reaction.clone()).await;
        let caller = AccountCaller::new(&config_at(server.url()));
        let attempt = caller.attempt(destination, &plain(), MOMENT).await;
        assert_eq!((attempt.called, attempt.answer.unwrap(), attempt.sent), (called, answer, true));
    }
}

#[tokio::test]
async fn a_hand_over_without_an_answer_has_a_cause_and_ends_in_time() {
    let (patient, hurried) = (json!({}), json!({"timeout_ms": 200}));
    let kinds = [("a queue", queue as fn(&str, &Value) -> Destination), ("a function", function)];
    for (name, destination) in kinds {
        for (reaction, time, cause) in
            [(Reaction::Close, &patient, "no_answer"), (Reaction::Silence, &hurried, "timeout")]
        {
            let server = ScriptedServer::start(move |_, _| reaction.clone()).await;
            let attempt = unanswered(&config_at(server.url()), &destination("jobs", time), &plain()).await;
            assert_eq!(attempt, (UNCLEAR, cause, true), "{name}");
            assert!(server.requests().len() <= 1, "{name}: nothing is repeated");
        }
        let attempt = unanswered(&config_at(&nowhere().await), &destination("jobs", &patient), &plain()).await;
        assert_eq!(attempt, (UNCLEAR, "no_answer", true), "{name}: the outcome is unknown");
    }
}

/// An event that cannot be signed was never sent. Of a message, the SDK does not say so.
#[tokio::test]
async fn a_hand_over_without_credentials_is_not_sent() {
    let server = ScriptedServer::start(|_, _| TAKEN).await;
    let nobody = without_credentials(server.url());
    let mut no_provider = config_at(server.url()).into_builder();
    no_provider.set_credentials_provider(None);
    for config in [&nobody, &no_provider.build()] {
        let attempt = unanswered(config, &function("jobs", &json!({})), &plain()).await;
        assert_eq!(attempt, (NOT_DONE, "unsigned", false));
    }
    let called = AccountCaller::new(&nobody).call(&queue("jobs", &json!({})), &plain(), MOMENT).await;
    assert_eq!((called, server.requests().len()), (UNCLEAR, 0));
}

/// Of three kinds of destinations, one needs no account.
#[tokio::test]
async fn a_url_is_called_as_without_an_account() {
    let server = ScriptedServer::start(|_, _| (200, "")).await;
    let url = destination(
        &json!({"kind": "http", "url": "https://127.0.0.1:9", "allow_private": true, "class": "at_least_once"}),
    )
    .unwrap();
    let expected = HttpCaller::new().call(&url, &delivery(), MOMENT).await;
    assert_eq!(called(&server, &url, &delivery()).await, expected);
    assert_eq!((expected, server.requests().len()), (NOT_DONE, 0), "an address that no destination may have");
}
