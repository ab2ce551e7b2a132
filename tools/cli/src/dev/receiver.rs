//! A callee outside of the inbox, on loopback: it does the work of each key once, loses answers, and has its callers
//! killed.
//!
//! It keeps to what `docs/use/effects.md` asks of a callee. Its ledger counts works by the business fact in the body and
//! not by the key, so a repeat under another key shows as a second work.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hookonce_local::is_local;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The header that holds the key.
pub(crate) const KEY_HEADER: &str = "idempotency-key";

/// Of this many new keys, one loses its answer. More losses in a row would make the dispatcher pause its calls.
const ANSWERED_OF: usize = 3;

/// How long the connection of a killed caller stays open without an answer.
const DEATH: Duration = Duration::from_secs(5);

/// A running receiver. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Receiver {
    url: String,
    ledger: Arc<Mutex<Ledger>>,
    server: AbortHandle,
}

/// What was done.
#[derive(Debug, Default)]
struct Ledger {
    calls: usize,
    answers_lost: usize,
    /// Callers that are still to be killed.
    kills_left: usize,
    killed: usize,
    keys: BTreeSet<String>,
    works: BTreeMap<String, usize>,
}

/// What arrived outside, against what should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Outside {
    /// The facts that were to arrive.
    pub(crate) expected: usize,
    /// The calls, repeats included.
    pub(crate) calls: usize,
    /// The calls whose work was done, and whose answer was lost.
    pub(crate) answers_lost: usize,
    /// The calls whose work was done, and whose caller was killed before the answer.
    pub(crate) killed: usize,
    /// The facts whose work was done.
    pub(crate) done: usize,
    /// Works beyond the first of a fact.
    pub(crate) done_twice: usize,
    /// The facts without a work.
    pub(crate) lost: usize,
}

/// The answer is lost: the connection ends without one.
#[derive(Debug, thiserror::Error)]
#[error("the answer is lost")]
struct Lost;

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Answered,
    Lost,
    CallerKilled,
}

impl Receiver {
    /// Starts it on a free port. It kills its caller this many times, through `deaths`.
    ///
    /// # Errors
    /// The error of the operating system, if it gives no port.
    pub(crate) async fn start(kills: usize, deaths: Arc<Notify>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let url = format!("http://{address}");
        let ledger = Arc::new(Mutex::new(Ledger { kills_left: kills, ..Ledger::default() }));
        let server = tokio::spawn(serve(listener, address.port(), Arc::clone(&ledger), deaths)).abort_handle();
        Ok(Self { url, ledger, server })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Compares its ledger with the facts that were to arrive.
    pub(crate) fn outside(&self, expected: &[String]) -> Outside {
        let ledger = locked(&self.ledger);
        let done = expected.iter().filter(|fact| ledger.works.contains_key(*fact)).count();
        Outside {
            expected: expected.len(),
            calls: ledger.calls,
            answers_lost: ledger.answers_lost,
            killed: ledger.killed,
            done,
            done_twice: ledger.works.values().map(|works| works.saturating_sub(1)).sum(),
            lost: expected.len() - done,
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Outside {
    /// Everything was done, and nothing twice.
    pub(crate) fn is_good(&self) -> bool {
        self.done == self.expected && self.done_twice == 0 && self.lost == 0
    }
}

async fn serve(listener: TcpListener, port: u16, ledger: Arc<Mutex<Ledger>>, deaths: Arc<Notify>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, port, Arc::clone(&ledger), Arc::clone(&deaths)));
    }
}

async fn connection(stream: TcpStream, port: u16, ledger: Arc<Mutex<Ledger>>, deaths: Arc<Notify>) {
    let service = service_fn(move |request| answer(request, port, Arc::clone(&ledger), Arc::clone(&deaths)));
    // It fails when an answer is lost.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// A web page that reaches the port counts as no call.
async fn answer(
    request: Request<Incoming>,
    port: u16,
    ledger: Arc<Mutex<Ledger>>,
    deaths: Arc<Notify>,
) -> Result<Response<Empty<Bytes>>, Lost> {
    if !is_local(request.headers(), port) {
        let mut refused = Response::new(Empty::new());
        *refused.status_mut() = StatusCode::FORBIDDEN;
        return Ok(refused);
    }
    let key = request.headers().get(KEY_HEADER).and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.map_err(|_| Lost)?.to_bytes();
    let ended = locked(&ledger).take(key, &fact(&body));
    match ended {
        Ended::Answered => Ok(Response::new(Empty::new())),
        Ended::Lost => Err(Lost),
        Ended::CallerKilled => {
            deaths.notify_waiters();
            // Keep the connection open meanwhile: its end would tell the caller that there is no answer.
            tokio::time::sleep(DEATH).await;
            Err(Lost)
        }
    }
}

/// The business fact: the id of Stripe's object.
fn fact(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body.pointer("/data/object/id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Ledger {
    /// Does the work, unless its key is known.
    fn take(&mut self, key: String, fact: &str) -> Ended {
        self.calls += 1;
        if !self.keys.insert(key) {
            return Ended::Answered;
        }
        *self.works.entry(fact.to_owned()).or_default() += 1;
        if self.keys.len().is_multiple_of(ANSWERED_OF) {
            self.answers_lost += 1;
            Ended::Lost
        } else if self.kills_left > 0 {
            self.kills_left -= 1;
            self.killed += 1;
            Ended::CallerKilled
        } else {
            Ended::Answered
        }
    }
}

fn locked(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_web_page_does_no_work() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let receiver = Receiver::start(0, Arc::default()).await.unwrap();
        let address = receiver.url().strip_prefix("http://").unwrap();
        for (headers, expected) in [
            (format!("host: {address}"), "200"),
            ("host: evil.example".to_owned(), "403"),
            (format!("host: {address}\r\norigin: https://evil.example"), "403"),
            (format!("host: {address}\r\nsec-fetch-site: cross-site"), "403"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("POST / HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer.split(' ').nth(1), Some(expected), "{headers}");
        }
        assert_eq!(receiver.outside(&[]).calls, 1);
    }

    #[test]
    fn a_key_is_worked_once_and_another_key_of_its_fact_shows() {
        let mut ledger = Ledger::default();
        let ended = ["a", "b", "c", "c", "d"].map(|key| ledger.take(key.to_owned(), key));
        assert_eq!(ended, [Ended::Answered, Ended::Answered, Ended::Lost, Ended::Answered, Ended::Answered]);
        assert_eq!((ledger.calls, ledger.answers_lost), (5, 1));
        assert!(ledger.works.values().all(|works| *works == 1));
        ledger.take("e".to_owned(), "a");
        assert_eq!(ledger.works.get("a"), Some(&2));
    }
}
