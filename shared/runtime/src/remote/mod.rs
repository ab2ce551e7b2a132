//! Handlers in another language: functions that get an event as JSON and answer with a plan as JSON.
//!
//! Such a handler writes nothing itself, so calling it twice is harmless: whatever it answers in different attempts,
//! one plan commits.
//!
//! ```text
//! event ─▶ call ─┬─ a plan ─────────────────────────────────▶ commit
//!                └─ reads ─▶ the items, read consistently ─▶ call ─▶ a plan ─▶ commit
//! ```

mod conversation;
mod pace;
mod wire;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{HANDLER_CALL_MAX, HANDLER_CALLS_MAX, Moment};
use tokio::time::Instant;

pub(crate) use conversation::plan;
pub use pace::REMEMBERED;
pub use wire::{HandlerAnswer, HandlerRequest, MalformedAnswer, ShownItem};

use self::pace::Pace;
use crate::circuit_breaker::CircuitBreaker;
use crate::document::EVENT_BYTES_MAX;
use crate::drive::duration;
use crate::handler::Reach;
use crate::room::Share;

/// The longest request, in bytes. Lambda takes no longer one. As a delivery comes in such a request, its event leaves
/// in one, as long as no items are shown with it.
pub const REQUEST_BYTES_MAX: usize = EVENT_BYTES_MAX;

/// The longest answer, in bytes. Lambda returns no longer one.
pub const ANSWER_BYTES_MAX: usize = 6 * 1024 * 1024;

/// The longest name of a Lambda function, in characters: an ARN with a qualifier.
const FUNCTION_CHARS_MAX: usize = 170;

/// The longest URL of a handler, in bytes.
const URL_BYTES_MAX: usize = 1_024;

/// Where a handler in another language is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteTarget {
    /// A Lambda function, by its name or ARN; a qualifier may follow.
    Lambda(String),
    /// A URL on loopback, for development.
    Url(String),
}

impl RemoteTarget {
    /// The Lambda function of this name or ARN. `None` if it is neither.
    pub fn lambda(name: &str) -> Option<Self> {
        let plain = |part: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'$' | b'.');
            !part.is_empty() && part.bytes().all(known)
        };
        let parts: Vec<_> = name.split(':').collect();
        let fits = matches!(
            parts.as_slice(),
            [_] | [_, _] | ["arn", _, "lambda", _, _, "function", _] | ["arn", _, "lambda", _, _, "function", _, _]
        );
        let known = fits && name.len() <= FUNCTION_CHARS_MAX && parts.into_iter().all(plain);
        known.then(|| Self::Lambda(name.to_owned()))
    }

    /// The handler at this URL: `http://`, an address of loopback, a port, perhaps a path. `None` for any other URL.
    pub fn url(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let authority = rest.split('/').next()?;
        let loopback = authority.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        let path = rest.get(authority.len()..)?;
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>'));
        (loopback && plain && url.len() <= URL_BYTES_MAX).then(|| Self::Url(url.to_owned()))
    }

    /// The function's name or ARN, or the URL.
    pub fn name(&self) -> &str {
        match self {
            Self::Lambda(name) | Self::Url(name) => name,
        }
    }
}

impl fmt::Display for RemoteTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lambda(name) => write!(formatter, "lambda {name}"),
            Self::Url(url) => formatter.write_str(url),
        }
    }
}

/// An event's handler in another language, and who remembers its fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHandling {
    /// The handler.
    pub target: RemoteTarget,
    /// The identity that remembers.
    pub consumer: String,
    /// What the handler's plan may reach.
    pub reach: Reach,
    /// The fact, if the route names it. Otherwise the handler does.
    pub fact: Option<DomainKey>,
}

/// The cause of an error of a call. It never holds a byte of a request or an answer.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The handler cannot be reached, or takes no calls for now. The event is not to blame.
    #[error("the handler is unavailable")]
    Away(#[source] Cause),
    /// The handler crashed, ran out of its own time, or refused the call.
    #[error("the handler crashed, or refused the call")]
    Crashed(#[source] Cause),
    /// The answer is longer than [`ANSWER_BYTES_MAX`].
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
}

/// Calls handlers of one kind. A call is made once: nothing repeats it, and no redirect is followed.
///
/// ```
/// use futures::future::BoxFuture;
/// use hookonce_runtime::remote::{CallError, CallHandler};
///
/// #[derive(Debug)]
/// struct Echo;
///
/// impl CallHandler for Echo {
///     fn call<'a>(&'a self, _: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
///         Box::pin(async move { Ok(request) })
///     }
/// }
/// ```
pub trait CallHandler: Send + Sync + fmt::Debug + 'static {
    /// Sends a request to the handler of this name or URL, and returns its answer of at most [`ANSWER_BYTES_MAX`].
    fn call<'a>(&'a self, handler: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>>;
}

/// The handlers in other languages that a worker can call. Each has a circuit breaker: a handler that times out several
/// times in a row is not called for a while, and its events wait, without an attempt. One that is slow is called for
/// messages from the queue of slow handlers only. Otherwise each batch with one of its events would hold a worker for
/// seconds, and so the events of every other handler.
#[derive(Debug, Default)]
pub struct RemoteHandlers {
    lambda: Option<Box<dyn CallHandler>>,
    url: Option<Box<dyn CallHandler>>,
    known: Mutex<HashMap<String, Known>>,
}

/// What this process knows of a handler.
#[derive(Debug, Default)]
struct Known {
    breaker: CircuitBreaker,
    pace: Pace,
    /// Whether a call is under way that finds out whether it is back.
    is_probed: bool,
}

/// A call of a handler that may be made.
#[derive(Debug)]
struct Turn<'a> {
    handlers: &'a RemoteHandlers,
    target: &'a RemoteTarget,
    probes: bool,
}

impl Turn<'_> {
    /// Remembers whether the handler answered in time. If not, the call took as long as a call may.
    fn learn(&self, in_time: bool, moment: Moment) {
        self.handlers.of(self.target, |known| {
            if in_time { known.breaker.succeeded() } else { known.breaker.failed(moment, HANDLER_CALL_MAX) }
        });
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.probes {
            self.handlers.of(self.target, |known| known.is_probed = false);
        }
    }
}

impl RemoteHandlers {
    /// Calls Lambda functions with the first, and URLs on loopback with the second.
    pub fn new(lambda: Option<Box<dyn CallHandler>>, url: Option<Box<dyn CallHandler>>) -> Self {
        Self { lambda, url, known: Mutex::default() }
    }

    /// None: each counts as unavailable.
    pub fn none() -> Self {
        Self::default()
    }

    /// Remembers how long a call of a handler took.
    pub fn took(&self, target: &RemoteTarget, length: Millis, now: EpochMs) {
        self.of(target, |known| known.pace.took(length, now));
    }

    /// Whether a call of the handler takes long.
    fn is_slow(&self, target: &RemoteTarget, now: EpochMs) -> bool {
        self.of(target, |known| known.pace.is_slow(now))
    }

    /// Whether the circuit of a handler is open: it did not answer several calls in a row.
    pub fn is_open(&self, target: &RemoteTarget, now: EpochMs) -> bool {
        self.of(target, |known| known.breaker.open_for(now).is_some())
    }

    /// Lets a call of a handler be made, unless its circuit is open. After that, one call at a time finds out whether
    /// the handler is back: otherwise all events of a batch would wait for it again, and each would count an attempt.
    fn turn<'a>(&'a self, target: &'a RemoteTarget, now: EpochMs) -> Option<Turn<'a>> {
        self.of(target, |known| {
            let (is_open, probes) = (known.breaker.open_for(now).is_some(), known.breaker.is_tripped());
            let may = !(is_open || (probes && known.is_probed));
            known.is_probed |= may && probes;
            may.then(|| Turn { handlers: self, target, probes })
        })
    }

    fn of<T>(&self, target: &RemoteTarget, with: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        with(known.entry(target.to_string()).or_default())
    }

    /// Who calls a handler. `None` if this process calls none of its kind.
    fn caller(&self, target: &RemoteTarget) -> Option<&dyn CallHandler> {
        match target {
            RemoteTarget::Lambda(_) => self.lambda.as_deref(),
            RemoteTarget::Url(_) => self.url.as_deref(),
        }
    }
}

/// The calls that one message may make.
#[derive(Debug)]
pub struct CallBudget {
    until: Instant,
    made: AtomicU16,
}

impl CallBudget {
    /// At most [`HANDLER_CALLS_MAX`] calls, each of which can end before this moment.
    pub fn until(end: Instant) -> Self {
        Self { until: end, made: AtomicU16::new(0) }
    }

    /// How many calls were made.
    pub fn made(&self) -> u16 {
        self.made.load(Ordering::Relaxed)
    }

    /// Takes one call, if there is one left and time for all of it. A handler that gets less time than it was promised
    /// would be blamed for the lack.
    fn take(&self) -> bool {
        let may = self.made() < HANDLER_CALLS_MAX && Instant::now() + call_max() <= self.until;
        if may {
            self.made.fetch_add(1, Ordering::Relaxed);
        }
        may
    }
}

/// How long one call may take.
fn call_max() -> Duration {
    duration(HANDLER_CALL_MAX)
}

/// What the calls of one message share.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    /// Whether the event of a slow handler moves to the queue of slow handlers, instead of a call.
    pub slow_move: bool,
    /// How many there may be.
    pub budget: &'a CallBudget,
    /// What the message holds of the memory that a batch shares.
    pub share: &'a Share,
    /// Makes an id for a request.
    pub request_id: &'a (dyn Fn() -> String + Sync),
    /// Tells the time.
    pub moment: &'a (dyn Fn() -> Moment + Sync),
}

impl fmt::Debug for Calls<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut calls = formatter.debug_struct("Calls");
        calls.field("slow_move", &self.slow_move).field("budget", self.budget).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_and_loopback_are_targets() {
        for name in ["plan", "plan:live", "plan:$LATEST", "arn:aws:lambda:eu-west-1:123456789012:function:plan:3"] {
            assert_eq!(RemoteTarget::lambda(name), Some(RemoteTarget::Lambda(name.to_owned())));
        }
        for name in ["", "a b", "a/b", "a:", "a:b:c", "arn:aws:sqs:eu-west-1:1:plan", "arn:aws:lambda:a:b:layer:c"] {
            assert_eq!(RemoteTarget::lambda(name), None, "{name}");
        }
        for url in ["http://127.0.0.1:9000", "http://127.0.0.2:1/plan?x=1", "http://[::1]:9000/"] {
            assert_eq!(RemoteTarget::url(url), Some(RemoteTarget::Url(url.to_owned())));
        }
        let others = [
            "https://127.0.0.1:9000",
            "http://127.0.0.1",
            "http://localhost:9000",
            "http://10.0.0.1:80/",
            "http://user@127.0.0.1:80",
            "http://127.0.0.1:80@evil.example/",
            "http://127.0.0.1:80/a b",
            "http://[::ffff:10.0.0.1]:80/",
        ];
        for url in others {
            assert_eq!(RemoteTarget::url(url), None, "{url}");
        }
        let name = |chars: usize| "a".repeat(chars);
        assert!(RemoteTarget::lambda(&name(FUNCTION_CHARS_MAX)).is_some());
        assert_eq!(RemoteTarget::lambda(&name(FUNCTION_CHARS_MAX + 1)), None);
        let url = |bytes: usize| format!("{:/<bytes$}", "http://127.0.0.1:9000");
        assert!(RemoteTarget::url(&url(URL_BYTES_MAX)).is_some());
        assert_eq!(RemoteTarget::url(&url(URL_BYTES_MAX + 1)), None);
    }
}
