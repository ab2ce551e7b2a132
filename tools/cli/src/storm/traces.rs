//! Counts what was applied: lines of a command's output, or requests at the sink, that hold an event's token.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::dev::fixtures::EventName;
use crate::failure::Failure;

/// The pause between two counts.
const PAUSE: Duration = Duration::from_secs(5);

/// How long counts may go on differing.
const COUNTING_MAX: Duration = Duration::from_mins(1);

/// How long traces that are missing are waited for.
const MISSING_WAIT: Duration = Duration::from_secs(15);

/// The most that is read of a request at the sink, in bytes.
const SINK_BODY_BYTES_MAX: usize = 1024 * 1024;

/// How often each event was applied, by its number.
pub(crate) type Counts = BTreeMap<usize, usize>;

/// The tokens of all events that were sent. Most are or hold the event's name, which is found at once.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    by_name: BTreeMap<String, usize>,
    others: Vec<(usize, String)>,
}

impl Tokens {
    /// Adds an event.
    pub(crate) fn add(&mut self, event: usize, name: &EventName, tokens: Vec<String>) {
        self.by_name.insert(name.as_str().to_owned(), event);
        let others = tokens.into_iter().filter(|token| !token.contains(name.as_str()));
        self.others.extend(others.map(|token| (event, token)));
    }

    /// Counts each event whose token is in this text.
    fn count(&self, text: &str, counts: &mut Counts) {
        let named =
            text.match_indices(EventName::MARK).filter_map(|(at, _)| text.get(at..at + EventName::NUMBERED_BYTES));
        let named = named.filter_map(|name| self.by_name.get(name).copied());
        let others = self.others.iter().filter(|(_, token)| text.contains(token.as_str())).map(|(event, _)| *event);
        for event in named.chain(others).collect::<BTreeSet<_>>() {
            *counts.entry(event).or_default() += 1;
        }
    }
}

/// What the sink got: for each request its address, headers and body.
type Got = Arc<Mutex<Vec<String>>>;

/// A server on this machine that answers 200 to everything. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Sink {
    got: Got,
    server: AbortHandle,
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Sink {
    /// Starts it.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when the port is taken.
    pub(crate) async fn start(port: u16) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
            Failure::unavailable(
                format!("the sink cannot have port {port}: {error}"),
                "choose another port with --sink",
            )
        })?;
        let got = Got::default();
        let server = tokio::spawn(serve(listener, Arc::clone(&got))).abort_handle();
        Ok(Self { got, server })
    }
}

async fn serve(listener: TcpListener, got: Got) {
    while let Ok((stream, _)) = listener.accept().await {
        let got = Arc::clone(&got);
        tokio::spawn(async move {
            let service = service_fn(move |request| keep(request, Arc::clone(&got)));
            // It fails when the app goes away.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn keep(request: Request<Incoming>, got: Got) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, SINK_BODY_BYTES_MAX).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = format!("{} {:?} {}", head.uri, head.headers, String::from_utf8_lossy(&body));
    got.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    Ok(Response::new(Full::from("{}")))
}

/// Where traces show.
#[derive(Debug)]
pub(crate) enum Traces {
    /// In the lines that this command prints.
    Command(Vec<String>),
    /// In the requests at the sink.
    Sink(Sink),
    /// Nowhere that the storm knows.
    Uncounted,
}

impl Traces {
    /// Whether they can be counted.
    pub(crate) const fn are_counted(&self) -> bool {
        !matches!(self, Self::Uncounted)
    }

    /// The word for JSON.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Sink(_) => "sink",
            Self::Uncounted => "not counted",
        }
    }

    /// Counts once.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when the command fails.
    async fn count(&self, tokens: &Tokens) -> Result<Counts, Failure> {
        let mut counts = Counts::new();
        match self {
            Self::Command(words) => {
                let printed = run(words).await?;
                printed.lines().for_each(|line| tokens.count(line, &mut counts));
            }
            Self::Sink(sink) => {
                let got = sink.got.lock().unwrap_or_else(PoisonError::into_inner);
                got.iter().for_each(|request| tokens.count(request, &mut counts));
            }
            Self::Uncounted => {}
        }
        Ok(counts)
    }

    /// Counts until two counts agree. While the count is short, traces are waited for a little longer.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when the command fails, or the counts go on differing.
    pub(crate) async fn settled(&self, tokens: &Tokens, is_short: impl Fn(&Counts) -> bool) -> Result<Counts, Failure> {
        if !self.are_counted() {
            return Ok(Counts::new());
        }
        let started = Instant::now();
        let mut last = self.count(tokens).await?;
        loop {
            tokio::time::sleep(PAUSE).await;
            let counts = self.count(tokens).await?;
            let is_short = is_short(&counts) && started.elapsed() < MISSING_WAIT;
            if counts == last && !is_short {
                return Ok(counts);
            }
            if started.elapsed() > COUNTING_MAX {
                return Err(Failure::unavailable(
                    "the traces were still changing a minute after the last request",
                    "run it again when nothing else works on them",
                ));
            }
            last = counts;
        }
    }
}

/// What a command prints.
async fn run(words: &[String]) -> Result<String, Failure> {
    let program = words.first().map_or("", String::as_str);
    let failed = |why: &str| {
        Failure::unavailable(
            format!("the command that shows the traces failed: {program}: {why}"),
            "run it by itself; it must print one line for each trace of an event, and end with 0",
        )
    };
    let mut command = tokio::process::Command::new(program);
    command.args(words.iter().skip(1)).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(&output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        let mut tokens = Tokens::default();
        for (number, others) in [(1, vec!["0f0f".to_owned()]), (2, Vec::new())] {
            let name = EventName::numbered(0xab, number);
            tokens.add(number, &name, [others, vec![format!("evt_{}", name.as_str())]].concat());
        }
        tokens
    }

    fn shell(script: &str) -> Traces {
        Traces::Command(["sh", "-c", script].map(str::to_owned).into())
    }

    #[tokio::test]
    async fn a_line_is_one_trace_of_each_event_that_it_names() {
        let traces = shell(
            "echo 'evt_storm000000ab00001|0f0f|4900 storm000000ab00001'; echo in_storm000000ab00002; echo 'mail to 0f0f'; echo storm; echo storm000000ab00003",
        );
        assert_eq!(traces.count(&tokens()).await.unwrap(), Counts::from([(1, 2), (2, 1)]));
    }

    #[tokio::test]
    async fn a_command_that_fails_judges_nothing() {
        for traces in [shell("echo storm000000ab00001; exit 4"), Traces::Command(vec!["/nonexistent".to_owned()])] {
            let failure = traces.count(&tokens()).await.unwrap_err();
            assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
        }
    }

    #[tokio::test]
    async fn a_request_at_the_sink_is_one_trace_wherever_the_token_stands() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let sink = Sink::start(port).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let base = format!("http://127.0.0.1:{port}/charges");
        let sent = [
            client.get(format!("{base}?invoice=in_storm000000ab00001")),
            client.post(&base).header("idempotency-key", "storm000000ab00001"),
            client.post(&base).body("{\"mail\":\"storm000000ab00002@example.com\"}"),
            client.post(&base).body("nothing"),
        ];
        for request in sent {
            assert_eq!(request.send().await.unwrap().status(), 200);
        }
        assert!(matches!(Sink::start(port).await, Err(Failure::Unavailable { .. })), "the port is taken");
        assert_eq!(Traces::Sink(sink).count(&tokens()).await.unwrap(), Counts::from([(1, 2), (2, 1)]));
    }

    #[tokio::test]
    async fn what_is_not_counted_needs_no_time() {
        assert_eq!(Traces::Uncounted.settled(&tokens(), |_| true).await.unwrap(), Counts::new());
    }
}
