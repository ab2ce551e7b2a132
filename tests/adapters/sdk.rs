//! What the adapters rely on in the SDK itself: its clock, its connections, its retries.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{AsyncSleep, Sleep};
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use futures::future::join_all;
use hookonce_aws::{DynamoStore, SqsQueue};
use hookonce_protocol::call::Written;
use hookonce_protocol::message::HintQueue;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::port::{Queue as _, Store as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{AMPLE, ATTEMPTS, SHORT, STORE, answering, claim, error, refusal, store_at};
use crate::clients::{dynamodb, sqs};
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// The largest difference of two clocks at which the SDK does not suspect the clock.
const TRUSTED_SKEW: Millis = Millis::minutes(4);

/// The longest pause before a second retry. Before the first, it is half of this.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// No timeout in this suite is shorter where calls may take long, and no pause is longer.
const TIMEOUT_MIN: Duration = Duration::from_secs(3);

/// The SDK sets a timer of this length for every request, whether or not it is repeated.
const TICK: Duration = Duration::from_millis(100);

/// Many times the limit of a call: one that takes as long ignores its limit.
const HANGS: Duration = Duration::from_mins(5);

/// How long a connection may take on loopback, if anybody takes it.
const UNTAKEN: Duration = Duration::from_millis(500);

/// How many retries a client makes for calls that all fail.
const RETRY_BUDGET: usize = 50;

fn applied() -> Reaction {
    (200, "{}").into()
}

/// Writes once for each of these results, through one client.
async fn write_each<const N: usize>(server: &ScriptedServer, expected: [Written; N]) {
    let store = store_at(server, AMPLE);
    for expected in expected {
        assert_eq!(store.write(&claim()).await, expected);
    }
}

/// A refusal by a server whose clock is ahead of ours by this much.
fn refused_at(code: &str, ahead: Millis) -> Reaction {
    let Reaction::Answer(answer) = refusal(STORE, code) else { panic!("an error is an answer") };
    Reaction::Answer(answer.with_header("date", &http_date(System.moment().now.plus(ahead))))
}

fn http_date(moment: EpochMs) -> String {
    DateTime::from_secs(moment.0.div_euclid(1_000)).fmt(DateTimeFormat::HttpDate).unwrap()
}

/// When a request with this `x-amz-date` was signed, in seconds of the epoch.
pub(super) fn signed_at(text: &str) -> i64 {
    let digits = |from: usize, to: usize| text[from..to].to_owned();
    let [year, month, day] = [digits(0, 4), digits(4, 6), digits(6, 8)];
    let [hour, minute, second] = [digits(9, 11), digits(11, 13), digits(13, 15)];
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    DateTime::from_str(&text, DateTimeFormat::DateTime).unwrap().secs()
}

/// A machine whose clock is off would otherwise be refused for ever.
#[tokio::test]
async fn a_clock_that_is_off_costs_one_retry() {
    let ahead = Millis::minutes(10);
    for code in ["InvalidSignatureException", "RequestTimeTooSkewed", "AccessDeniedException"] {
        let server =
            ScriptedServer::start(move |index, _| if index == 0 { refused_at(code, ahead) } else { applied() });
        let server = server.await;
        write_each(&server, [Written::Applied, Written::Applied]).await;
        let signed: Vec<_> =
            server.requests().iter().map(|request| signed_at(request.header("x-amz-date").unwrap())).collect();
        let shift = ahead.as_seconds();
        for later in [signed[1], signed[2]] {
            assert!(later - signed[0] >= shift - 1, "{code}: signed with the server's clock: {signed:?}");
        }
    }
}

/// A refusal that has nothing to do with the clock stays one.
#[tokio::test]
async fn a_refusal_by_a_server_with_our_clock_is_not_repeated() {
    for ahead in [Millis(0), Millis(TRUSTED_SKEW.0 - 30_000)] {
        let server = answering([refused_at("AccessDeniedException", ahead)]).await;
        write_each(&server, [Written::Unavailable]).await;
    }
}

#[tokio::test]
async fn a_connection_is_used_again_unless_the_server_failed_on_it() {
    let server = answering([applied(), applied()]).await;
    write_each(&server, [Written::Applied, Written::Applied]).await;
    assert_eq!(server.connections(), 1);

    let server = answering([refusal(STORE, "ThrottlingException"), applied()]).await;
    write_each(&server, [Written::Applied]).await;
    assert_eq!(server.connections(), 1, "a server that is busy is the right one");

    let server = answering([error(500, "InternalServerError"), applied()]).await;
    write_each(&server, [Written::Applied]).await;
    assert_eq!(server.connections(), 2, "the retry goes to another server");
}

/// Lambda stops a function between two invocations for minutes, and the server closes what is idle.
#[tokio::test]
async fn a_connection_that_was_closed_while_the_function_stood_still_costs_nothing() {
    let server = answering([Reaction::AnswerAndClose(HttpMessage::reply(("200 OK", "{}"))), applied()]).await;
    write_each(&server, [Written::Applied, Written::Applied]).await;
    assert_eq!((server.requests().len(), server.connections()), (2, 2));
}

/// A connection whose other end is gone without a word: only the timeout of the attempt notices, and leaves time for
/// another attempt.
#[tokio::test]
async fn a_dead_connection_costs_one_attempt() {
    let stalled = Reaction::Stall(HttpMessage::reply(("200 OK", r#"{"Attributes":{}}"#)));
    let all = [Reaction::Silence, stalled].map(async |dead| {
        let server = answering([applied(), dead, applied(), applied()]).await;
        let store = store_at(&server, Millis::seconds(8));
        for _ in 0..3 {
            assert_eq!(store.write(&claim()).await, Written::Applied);
        }
        assert_eq!((server.requests().len(), server.connections()), (4, 2), "and it is not used again");
    });
    join_all(all).await;
}

/// The SDK's clock, which keeps every length that it waits for.
#[derive(Debug, Clone, Default)]
struct Pauses(Arc<Mutex<Vec<Duration>>>);

impl AsyncSleep for Pauses {
    fn sleep(&self, length: Duration) -> Sleep {
        self.0.lock().unwrap().push(length);
        Sleep::new(tokio::time::sleep(length))
    }
}

/// A sender waits for the webhook, so the pauses before both retries are short, in every client. By default, the SDK
/// pauses up to a second before the first.
#[tokio::test]
async fn the_pauses_before_retries_are_short() {
    const CALLS: usize = 8;
    let server = ScriptedServer::start(|_, _| error(500, "InternalServerError")).await;
    let (ours, pauses) = (server.url(), [(); 2].map(|()| Pauses::default()));
    let store = dynamodb(ours, AMPLE).config().to_builder().sleep_impl(pauses[0].clone()).build();
    let queue = sqs(ours, AMPLE).config().to_builder().sleep_impl(pauses[1].clone()).build();
    let store = DynamoStore::new(aws_sdk_dynamodb::Client::from_conf(store), "inbox", "domain");
    let queue = SqsQueue::new(aws_sdk_sqs::Client::from_conf(queue), ours);
    for _ in 0..CALLS {
        assert_eq!(store.write(&claim()).await, Written::Unavailable);
        queue.hide(HintQueue::Main, "receipt", Millis(0)).await.unwrap_err();
    }
    for Pauses(lengths) in pauses {
        let mut lengths = lengths.lock().unwrap().clone();
        lengths.retain(|length| *length < TIMEOUT_MIN && *length != TICK);
        assert_eq!(lengths.len(), CALLS * (ATTEMPTS - 1), "{lengths:?}");
        assert!(lengths.iter().all(|length| *length <= PAUSE_MAX), "{lengths:?}");
    }
}

/// A server may ask for a pause before the next attempt. A sender that waits for us gets its answer all the same.
#[tokio::test]
async fn the_retry_after_of_a_server_never_outlasts_the_call() {
    let Reaction::Answer(busy) = error(503, "ServiceUnavailable") else { panic!("an error is an answer") };
    let server = answering([Reaction::Answer(busy.with_header("x-amz-retry-after", "3600000"))]).await;
    // Shorter than the longest pause that the SDK makes for a server, and long enough for a slow machine.
    let store = store_at(&server, Millis::seconds(4));
    let written = tokio::time::timeout(HANGS, store.write(&claim())).await.expect("it must not hang");
    assert_eq!((written, server.requests().len()), (Written::Unavailable, 1));
}

/// A server that does not even take the connection. It does so as long as what comes with its address is kept.
pub(super) async fn untaken() -> (String, (TcpListener, Vec<TcpStream>)) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts, so the queue of connections fills up. From then on the system drops every further attempt.
    let mut queued = Vec::new();
    while let Ok(connected) = tokio::time::timeout(UNTAKEN, TcpStream::connect(address)).await {
        queued.push(connected.unwrap());
    }
    (format!("http://{address}"), (listener, queued))
}

#[tokio::test]
async fn a_connection_that_is_not_taken_costs_no_more_than_the_call() {
    let (url, _kept) = untaken().await;
    let store = DynamoStore::new(dynamodb(&url, SHORT), "inbox", "domain");
    let written = tokio::time::timeout(HANGS, store.write(&claim())).await.expect("it must not hang");
    assert_eq!(written, Written::Unavailable);
}

/// In an outage, retries would multiply the load. The SDK stops them; the calls themselves go on.
#[tokio::test]
async fn a_client_whose_calls_all_fail_stops_to_repeat_them() {
    let calls = 2 * RETRY_BUDGET;
    let server = ScriptedServer::start(|_, _| error(500, "InternalServerError")).await;
    let store = store_at(&server, AMPLE);
    let write = claim();
    let written = join_all((0..calls).map(|_| store.write(&write))).await;
    assert_eq!(written, vec![Written::Unavailable; calls]);
    assert_eq!(server.requests().len(), calls + RETRY_BUDGET, "not {} requests", calls * ATTEMPTS);
    assert_eq!(store.write(&write).await, Written::Unavailable);
    assert_eq!(server.requests().len(), calls + RETRY_BUDGET + 1, "one attempt");
}

/// The SDK does not compare DynamoDB's checksum. TLS protects the answer.
#[tokio::test]
async fn the_checksum_of_an_answer_is_not_compared() {
    let answer = HttpMessage::reply(("200 OK", "{}")).with_header("x-amz-crc32", "1");
    let server = answering([Reaction::Answer(answer)]).await;
    write_each(&server, [Written::Applied]).await;
}
