//! What is sent to a destination, and what its answer means.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hookonce_protocol::destination::{Called, NoTurn, OutboundCall};
use hookonce_protocol::effect::Method;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;
use hookonce_providers::StandardSecret;
use hookonce_runtime::circuit_breaker::{FAILURES_MAX, OPEN_MIN, OPEN_PER_FAILURE, OPEN_SPREAD};
use hookonce_runtime::destinations::{CalleeAnswer, Caller, Destination, HttpCaller, RateLimited};
use hookonce_runtime::inbox::body;
use serde_json::{Value, json};

use super::{KEY, MOMENT, delivery, destination};
use crate::support::clock::START;
use crate::support::hang_until;
use crate::support::receiver::{Receiver, Reply};
use crate::support::wire::HttpMessage;

pub(super) fn at(url: &str, changes: &Value) -> Destination {
    let mut document =
        json!({"kind": "http", "url": url, "class": "at_least_once", "allow_private": true, "timeout_ms": 20_000});
    for (field, value) in changes.as_object().unwrap() {
        document[field] = value.clone();
    }
    destination(&document).unwrap()
}

/// Calls a receiver that answers like this.
async fn call(reply: Reply, changes: &Value) -> Called {
    let receiver = Receiver::start(reply).await;
    let called = HttpCaller::on_loopback().call(&at(&receiver.url(""), changes), &delivery(), MOMENT).await;
    assert_eq!((receiver.connections(), receiver.requests().len()), (1, 1), "nothing is repeated");
    called
}

/// What a receiver that answers 200 gets of this delivery, and where it listens.
async fn arrives(path: &str, changes: &Value, sent: &OutboundCall) -> (HttpMessage, SocketAddr) {
    let receiver = Receiver::start(Reply::status(200, "", "")).await;
    let called = HttpCaller::on_loopback().call(&at(&receiver.url(path), changes), sent, MOMENT).await;
    let [request] = &receiver.requests()[..] else { panic!("one request") };
    assert_eq!(called, done(200));
    (request.clone(), receiver.address)
}

const UNCLEAR: Called = Called::Unclear { status: None, retry_after: None };
const NOT_DONE: Called = Called::NotDone { status: None, retry_after: None };

const fn unclear(status: u16) -> Called {
    Called::Unclear { status: Some(status), retry_after: None }
}

const fn not_done(status: u16) -> Called {
    Called::NotDone { status: Some(status), retry_after: None }
}

fn refused(status: u16) -> Called {
    Called::Refused { status: Some(status) }
}

fn done(status: u16) -> Called {
    Called::Done { status: Some(status) }
}

#[tokio::test]
async fn a_call_carries_the_key_and_the_documents_headers() {
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
    let changes = json!({
        "key_header": "Idempotency-Key", "headers": {"authorization": "Bearer hush"}, "standard_webhooks_secret": secret
    });
    let sent = OutboundCall { method: Method::Put, path: "/receipts?a=b".to_owned(), ..delivery() };
    let (request, address) = arrives("/v1/", &changes, &sent).await;
    assert!(request.head.starts_with("PUT /v1/receipts?a=b HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.body, br#"{"amount": 10.50}"#);
    let seconds = START.as_seconds();
    let signature = StandardSecret::parse(secret).unwrap().sign(KEY, seconds, &request.body);
    for (name, value) in [
        ("host", address.to_string().as_str()),
        ("content-type", "application/json"),
        ("authorization", "Bearer hush"),
        ("idempotency-key", KEY),
        ("hookonce-key", KEY),
        ("hookonce-event", delivery().event.as_str()),
        ("hookonce-hops", "1"),
        ("webhook-id", KEY),
        ("webhook-timestamp", seconds.0.to_string().as_str()),
        ("webhook-signature", signature.as_str()),
        ("user-agent", "hookonce"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
}

/// The libraries of the specification made the signatures, and `clients` asks them to verify the same cases.
#[tokio::test]
async fn a_call_is_signed_as_the_libraries_of_standard_webhooks_sign_it() {
    let cases: Value = serde_json::from_str(include_str!("../cases/signatures.json")).unwrap();
    let receiver = Receiver::start(Reply::status(200, "", "")).await;
    let moment = Moment { now: EpochMs(cases["timestamp"].as_i64().unwrap() * 1_000), entropy: 0 };
    for case in cases["calls"].as_array().unwrap() {
        let (key, payload) = (cases["key"].as_str().unwrap(), case["body"].as_str().unwrap());
        let destination = at(&receiver.url(""), &json!({"standard_webhooks_secret": case["secret"]}));
        let body = body::compress(payload.as_bytes()).unwrap();
        let sent = OutboundCall { idempotency_key: key.to_owned(), body, ..delivery() };
        assert_eq!(HttpCaller::on_loopback().call(&destination, &sent, moment).await, done(200));
        let request = receiver.requests().pop().unwrap();
        assert_eq!(request.body, payload.as_bytes(), "{case}");
        assert_eq!(request.header("webhook-id"), Some(key));
        assert_eq!(request.header("webhook-timestamp"), Some(cases["timestamp"].to_string().as_str()));
        assert_eq!(request.header("webhook-signature"), case["signature"].as_str(), "{case}");
    }
}

/// The libraries of the specification for Python and JavaScript verify text only; a callee of such bytes verifies them
/// itself.
#[tokio::test]
async fn bytes_that_are_no_text_are_signed_and_sent_as_they_are() {
    let secret = json!({"standard_webhooks_secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"});
    let bytes = [0, 0xff, 0xfe, b'"'];
    let sent = OutboundCall { body: body::compress(&bytes).unwrap(), ..delivery() };
    let (request, _) = arrives("", &secret, &sent).await;
    assert_eq!(request.body, bytes);
    // HMAC-SHA256 over "KEY.1767225600." and these bytes, by Python.
    let signature = "v1,AtrRosH95JoyONtpYtePDh1p2E+aM2rtJFp80BoopRI=";
    assert_eq!(request.header("webhook-signature"), Some(signature));
}

#[tokio::test]
async fn the_key_can_be_a_field_of_the_payload() {
    let (request, _) = arrives("/?a=b", &json!({"key_json_pointer": "/meta/key"}), &delivery()).await;
    assert!(request.head.starts_with("POST /receipts?a=b HTTP/1.1\r\n"), "{}", request.head);
    let expected = format!(r#"{{"amount":10.50,"meta":{{"key":"{KEY}"}}}}"#);
    assert_eq!(String::from_utf8(request.body).unwrap(), expected);
}

/// A callee that takes forms gets them as what they are: an effect knows JSON and bytes only.
#[tokio::test]
async fn a_document_can_name_the_type_of_the_content() {
    let form = "application/x-www-form-urlencoded";
    let (request, _) = arrives("", &json!({"content_type": form}), &delivery()).await;
    assert_eq!(request.header("content-type"), Some(form));
}

#[tokio::test]
async fn each_status_has_its_meaning() {
    let changes = json!({"retry_statuses": [409], "not_done_statuses": [429, 503]});
    for (status, expected) in [
        (200, done(200)),
        (202, done(202)),
        (299, done(299)),
        (301, Called::Unknown { status: 301 }),
        (302, Called::Unknown { status: 302 }),
        (303, Called::Unknown { status: 303 }),
        (307, refused(307)),
        (308, refused(308)),
        (400, refused(400)),
        (404, refused(404)),
        (408, unclear(408)),
        (409, unclear(409)),
        (425, not_done(425)),
        (429, not_done(429)),
        (499, refused(499)),
        (500, unclear(500)),
        (503, not_done(503)),
        (599, unclear(599)),
        (600, unclear(600)),
    ] {
        assert_eq!(call(Reply::status(status, "", ""), &changes).await, expected, "{status}");
    }
    let keyed = json!({
        "class": "keyed", "key_window_hours": 24, "key_source_url": "https://docs.example.com/keys", "key_header": "a",
        "done_statuses": [409]
    });
    assert_eq!(call(Reply::status(409, "", ""), &keyed).await, Called::AlreadyDone { status: 409 });
    assert_eq!(call(Reply::status(410, "", ""), &keyed).await, refused(410));
    let waits = Some(Millis::seconds(7));
    let busy = |status| Reply::status(status, "retry-after: 7\r\n", "");
    assert_eq!(call(busy(429), &json!({})).await, Called::NotDone { status: Some(429), retry_after: waits });
    assert_eq!(call(busy(503), &json!({})).await, Called::Unclear { status: Some(503), retry_after: waits });
}

/// Many servers answer with a redirect to the same address with a slash.
#[tokio::test]
async fn the_slash_at_the_end_of_an_address_stays_where_no_path_follows() {
    for (url, path, line) in [
        ("/hook/", "", "/hook/"),
        ("/hook", "", "/hook"),
        ("/hook/?a=b", "", "/hook/?a=b"),
        ("/hook/", "/x", "/hook/x"),
        ("/hook", "/x", "/hook/x"),
        ("", "", "/"),
        ("/", "/x", "/x"),
    ] {
        let sent = OutboundCall { path: path.to_owned(), ..delivery() };
        let (request, _) = arrives(url, &json!({}), &sent).await;
        assert_eq!(request.head.lines().next(), Some(format!("POST {line} HTTP/1.1").as_str()));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Receiver::start(Reply::status(200, "", "")).await;
    let head = format!("location: {}\r\n", other.url("/"));
    assert_eq!(call(Reply::status(307, &head, ""), &json!({})).await, refused(307));
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn an_answer_must_pass_the_success_check_of_its_document() {
    let check = json!({"success_json": {"pointer": "/ok", "equals": true}});
    for (body, expected) in [
        (r#"{"ok": true}"#, done(200)),
        (r#"{"ok": false}"#, unclear(200)),
        (r#"{"ok": "true"}"#, unclear(200)),
        ("{}", unclear(200)),
        ("ok", unclear(200)),
        ("", unclear(200)),
    ] {
        assert_eq!(call(Reply::status(200, "", body), &check).await, expected, "{body}");
    }
    assert_eq!(call(Reply::status(400, "", r#"{"ok": true}"#), &check).await, refused(400));
}

/// What cannot be known after the first byte of the request was sent is unclear.
#[tokio::test]
async fn an_answer_that_does_not_come_leaves_the_outcome_open() {
    let bytes = |text: &str| Reply::Bytes(Duration::ZERO, text.to_owned());
    for text in ["", "HTTP", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-le", "garbage\r\n\r\n"] {
        assert_eq!(call(bytes(text), &json!({})).await, UNCLEAR, "{text}");
    }
    let short = json!({"timeout_ms": 1_000});
    assert_eq!(call(Reply::Silence, &short).await, UNCLEAR);
    let late = Reply::Bytes(Duration::from_secs(2), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    assert_eq!(call(late.clone(), &short).await, UNCLEAR);
    assert_eq!(call(late, &json!({})).await, done(200));
}

#[tokio::test]
async fn an_answer_is_read_to_its_limit_and_counts_by_its_head() {
    let half =
        || Reply::Bytes(Duration::ZERO, "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"ok\": true}".to_owned());
    let endless = || Reply::Endless("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_owned());
    assert_eq!(call(half(), &json!({})).await, done(200));
    assert_eq!(call(endless(), &json!({})).await, done(200));
    let check = json!({"success_json": {"pointer": "/ok", "equals": true}});
    assert_eq!(call(half(), &check).await, unclear(200));
    assert_eq!(call(endless(), &check).await, unclear(200));
    // It is not read until the time is over.
    let patient = json!({"timeout_ms": 30_000});
    let called = tokio::time::timeout(Duration::from_secs(10), call(endless(), &patient)).await;
    assert_eq!(called, Ok(done(200)));
}

#[tokio::test]
async fn an_address_that_no_destination_may_have_is_not_connected() {
    let receiver = Receiver::start(Reply::status(200, "", "")).await;
    let port = receiver.address.port();
    // A document may name no such address itself, but a name may lead there.
    let (named, names) = (["127.0.0.1", "[::ffff:127.0.0.1]"], ["localhost", "127.1", "2130706433", "0x7f.1"]);
    for host in named.into_iter().chain(names) {
        let private = at(&format!("http://{host}:{port}"), &json!({}));
        // In a function, the interface of its runtime is on loopback.
        assert_eq!(HttpCaller::new().call(&private, &delivery(), MOMENT).await, NOT_DONE, "{host}");
    }
    for host in names {
        let public = at(&format!("https://{host}:{port}"), &json!({"allow_private": false}));
        assert_eq!(HttpCaller::on_loopback().call(&public, &delivery(), MOMENT).await, NOT_DONE, "{host}");
    }
    assert_eq!(receiver.connections(), 0);
    let private = at(&receiver.url(""), &json!({}));
    assert_eq!(HttpCaller::on_loopback().call(&private, &delivery(), MOMENT).await, done(200));
}

/// A person is told the cause by its name, and whether anything may have left.
#[tokio::test]
async fn a_call_without_an_answer_has_a_cause() {
    let silent = Receiver::start(Reply::Silence).await;
    let breaks = Receiver::start(Reply::Bytes(Duration::ZERO, String::new())).await;
    let plain = Receiver::start(Reply::status(200, "", "")).await;
    let public = json!({"url": "https://localhost", "allow_private": false});
    // Nobody listens there any more.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let caller = HttpCaller::on_loopback();
    for (url, changes, called, cause, sent) in [
        (silent.url(""), json!({"timeout_ms": 1_000}), UNCLEAR, "timeout", true),
        (breaks.url(""), json!({}), UNCLEAR, "connection_broke", true),
        (plain.url(""), public, NOT_DONE, "address_refused", false),
        (format!("http://{nobody}"), json!({}), NOT_DONE, "connect", false),
        ("http://nobody.invalid".to_owned(), json!({}), NOT_DONE, "dns", false),
    ] {
        let attempt = caller.attempt(&at(&url, &changes), &delivery(), MOMENT).await;
        assert_eq!((attempt.called, attempt.answer.unwrap_err().word(), attempt.sent), (called, cause, sent), "{url}");
    }
    let attempt = caller.attempt(&at(&plain.url(""), &json!({})), &delivery(), MOMENT).await;
    assert_eq!((attempt.called, attempt.answer.unwrap(), attempt.sent), (done(200), CalleeAnswer::of(200), true));
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_without_a_call() {
    let receiver = Receiver::start(Reply::status(200, "", "")).await;
    let plain = at(&receiver.url("/v1"), &json!({}));
    let query = at(&receiver.url("/v1?a=b"), &json!({}));
    let keyed = at(&receiver.url("/v1"), &json!({"key_json_pointer": "/meta/key"}));
    let caller = HttpCaller::on_loopback();
    for (destination, sent) in [
        (&plain, OutboundCall { path: "/../admin".to_owned(), ..delivery() }),
        (&plain, OutboundCall { path: "@evil.example/".to_owned(), ..delivery() }),
        (&query, OutboundCall { path: "/x?c=d".to_owned(), ..delivery() }),
        (&plain, OutboundCall { hops: 5, ..delivery() }),
        (&plain, OutboundCall { content_type: "a\r\nb: c".to_owned(), ..delivery() }),
        (&plain, OutboundCall { body: b"not zstd".to_vec(), ..delivery() }),
        (&keyed, OutboundCall { body: body::compress(b"amount=10").unwrap(), ..delivery() }),
    ] {
        let attempt = caller.attempt(destination, &sent, MOMENT).await;
        assert_eq!(attempt.called, Called::Refused { status: None }, "{sent:?}");
        assert_eq!((attempt.answer.unwrap_err().word(), attempt.sent), ("unsendable", false), "{sent:?}");
    }
    assert_eq!(receiver.connections(), 0);
    let last = OutboundCall { hops: 4, ..delivery() };
    assert_eq!(caller.call(&plain, &last, MOMENT).await, done(200));
}

#[tokio::test]
async fn a_destination_that_fails_again_and_again_opens_its_circuit() {
    let receiver = Receiver::start(Reply::status(500, "", "")).await;
    let (destination, sent) = (at(&receiver.url(""), &json!({})), delivery());
    let guarded = RateLimited::new(Arc::new(HttpCaller::on_loopback()));
    let at = |after: i64| Moment { now: EpochMs(START.0 + after), entropy: 0 };
    for _ in 0..FAILURES_MAX {
        assert_eq!(guarded_call(&guarded, &destination, &sent, at(0)).await, Ok(unclear(500)));
    }
    let Err(NoTurn::Away { retry_after: Some(left) }) = guarded_call(&guarded, &destination, &sent, at(0)).await else {
        panic!("the circuit is open")
    };
    assert!(left >= OPEN_MIN && left.0 <= OPEN_MIN.0 + OPEN_SPREAD.0, "{left:?}");
    assert!(matches!(guarded_call(&guarded, &destination, &sent, at(left.0 - 1)).await, Err(NoTurn::Away { .. })));
    assert_eq!(receiver.connections(), FAILURES_MAX as usize);
    assert_eq!(guarded_call(&guarded, &destination, &sent, at(left.0)).await, Ok(unclear(500)));
}

/// Waits for a turn, and calls.
async fn guarded_call(
    guarded: &RateLimited,
    destination: &Destination,
    sent: &OutboundCall,
    moment: Moment,
) -> Result<Called, NoTurn> {
    let permit = guarded.turn(destination, moment).await?;
    Ok(guarded.call(&permit, destination, sent, moment).await)
}

/// A destination that fails after this time, until it is back.
#[derive(Debug, Clone, Default)]
struct Slow {
    takes: Duration,
    is_back: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Caller for Slow {
    fn call<'a>(&'a self, _: &'a Destination, _: &'a OutboundCall, _: Moment) -> BoxFuture<'a, Called> {
        Box::pin(async {
            self.calls.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.takes).await;
            if self.is_back.load(Ordering::SeqCst) { done(200) } else { UNCLEAR }
        })
    }
}

/// Of ten effects in a batch all would otherwise wait for it again whenever its circuit closes, and hold up those of
/// other destinations.
#[tokio::test(start_paused = true)]
async fn while_a_circuit_is_half_open_one_call_finds_out_whether_a_destination_is_back() {
    let minute = Duration::from_mins(1);
    for (takes, is_back, calls) in [(minute, false, 1), (Duration::from_millis(100), true, 10)] {
        let (slow, sent) = (Slow { takes, ..Slow::default() }, delivery());
        let (destination, guarded) =
            (at("https://api.example.com/v1", &json!({})), RateLimited::new(Arc::new(slow.clone())));
        for _ in 0..FAILURES_MAX {
            assert_eq!(guarded_call(&guarded, &destination, &sent, MOMENT).await, Ok(UNCLEAR));
        }
        slow.calls.store(0, Ordering::SeqCst);
        slow.is_back.store(is_back, Ordering::SeqCst);
        let half_open = Moment { now: MOMENT.now.plus(Millis::hours(1)), ..MOMENT };
        let batch =
            (0..10).map(|_| guarded_call(&guarded, &destination, &sent, half_open)).collect::<FuturesUnordered<_>>();
        let called: Vec<_> = batch.collect().await;
        assert_eq!(slow.calls.load(Ordering::SeqCst), calls, "{called:?}");
        assert_eq!(called.iter().all(|called| *called == Ok(done(200))), is_back, "{called:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_longer_a_destination_takes_to_fail_the_longer_its_circuit_is_open() {
    let guarded = RateLimited::new(Arc::new(Slow { takes: Duration::from_mins(1), ..Slow::default() }));
    let (destination, sent) = (at("https://api.example.com/v1", &json!({})), delivery());
    for _ in 0..FAILURES_MAX {
        assert_eq!(guarded_call(&guarded, &destination, &sent, MOMENT).await, Ok(UNCLEAR));
    }
    let ended = Moment { now: MOMENT.now.plus(Millis::minutes(1)), ..MOMENT };
    let Err(NoTurn::Away { retry_after: Some(left) }) = guarded_call(&guarded, &destination, &sent, ended).await else {
        panic!("the circuit is open")
    };
    assert!(left >= Millis(OPEN_PER_FAILURE * 60_000), "{left:?}");
}

#[tokio::test]
async fn an_answer_between_failures_begins_the_count_anew() {
    let (fails, refuses) =
        (Receiver::start(Reply::status(500, "", "")).await, Receiver::start(Reply::status(400, "", "")).await);
    let guarded = RateLimited::new(Arc::new(HttpCaller::on_loopback()));
    // The same destination, whose address was changed.
    let (down, up) = (at(&fails.url(""), &json!({})), at(&refuses.url(""), &json!({})));
    for _ in 0..3 {
        for _ in 1..FAILURES_MAX {
            assert_eq!(guarded_call(&guarded, &down, &delivery(), MOMENT).await, Ok(unclear(500)));
        }
        assert_eq!(guarded_call(&guarded, &up, &delivery(), MOMENT).await, Ok(refused(400)));
    }
}

#[tokio::test]
async fn no_more_calls_are_in_flight_than_the_document_allows() {
    let receiver = Receiver::start(Reply::Silence).await;
    let destination = at(&receiver.url(""), &json!({"in_flight_max": 2, "timeout_ms": 30_000}));
    let (guarded, sent) = (RateLimited::new(Arc::new(HttpCaller::on_loopback())), delivery());
    let mut calls: FuturesUnordered<_> = (0..4).map(|_| guarded_call(&guarded, &destination, &sent, MOMENT)).collect();
    assert_eq!(calls.by_ref().take(2).collect::<Vec<_>>().await, [Err(NoTurn::Busy); 2], "while two are under way");
    hang_until(calls.next(), async || receiver.connections() == 2).await;
    drop(calls);
    assert_eq!(receiver.connections(), 2);
}

/// The call that finds out whether it is back holds the only turn.
#[tokio::test(start_paused = true)]
async fn who_has_no_turn_at_a_destination_in_doubt_waits_as_for_one_that_is_away() {
    let guarded = RateLimited::new(Arc::new(Slow { takes: Duration::from_mins(1), ..Slow::default() }));
    let (destination, sent) = (at("https://api.example.com/v1", &json!({"in_flight_max": 1})), delivery());
    let both = async |moment: Moment| {
        let calls = (0..2).map(|_| guarded_call(&guarded, &destination, &sent, moment));
        futures::future::join_all(calls).await
    };
    assert_eq!(both(MOMENT).await, [Ok(UNCLEAR), Err(NoTurn::Busy)]);
    for _ in 1..FAILURES_MAX {
        assert_eq!(guarded_call(&guarded, &destination, &sent, MOMENT).await, Ok(UNCLEAR));
    }
    let half_open = Moment { now: MOMENT.now.plus(Millis::hours(1)), ..MOMENT };
    assert_eq!(both(half_open).await, [Ok(UNCLEAR), Err(NoTurn::Away { retry_after: None })]);
    let [Err(NoTurn::Away { retry_after: Some(_) }), _] = both(half_open).await[..] else {
        panic!("the circuit is open")
    };
}

/// A laptop has neither queues nor functions. Their effects wait, and go out on AWS.
#[tokio::test]
async fn a_process_that_calls_urls_only_leaves_queues_and_functions_alone() {
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs";
    for document in [
        json!({"kind": "sqs", "url": url, "class": "at_least_once"}),
        json!({"kind": "lambda", "function": "jobs", "class": "at_least_once"}),
    ] {
        let destination = destination(&document).unwrap();
        let attempt = HttpCaller::on_loopback().attempt(&destination, &delivery(), MOMENT).await;
        assert_eq!((attempt.called, attempt.sent), (NOT_DONE, false));
        assert_eq!(attempt.answer.unwrap_err().word(), "no_url");
    }
}
