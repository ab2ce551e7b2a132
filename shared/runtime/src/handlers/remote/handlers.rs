//! The handlers that a worker can call, and what it knows of each.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{HANDLER_CALL_MAX, Moment};

use super::pace::Pace;
use super::target::RemoteTarget;
use crate::circuit_breaker::CircuitBreaker;
use crate::documents::document::EVENT_BYTES_MAX;

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
    /// The answer is longer than [`EVENT_BYTES_MAX`].
    #[error("the answer has more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
}

/// Calls handlers of one kind. A call is made once: nothing repeats it, and no redirect is followed.
///
/// ```
/// use futures::future::BoxFuture;
/// use hookonce_runtime::handlers::remote::{CallError, CallHandler};
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
    /// Sends a request to the handler of this name or URL, and returns its answer of at most [`EVENT_BYTES_MAX`].
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
pub(super) struct Turn<'a> {
    handlers: &'a RemoteHandlers,
    target: &'a RemoteTarget,
    probes: bool,
}

impl Turn<'_> {
    /// Remembers whether the handler answered in time. If not, the call took as long as a call may.
    pub(super) fn learn(&self, in_time: bool, moment: Moment) {
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
    pub(super) fn is_slow(&self, target: &RemoteTarget, now: EpochMs) -> bool {
        self.of(target, |known| known.pace.is_slow(now))
    }

    /// Whether the circuit of a handler is open: it did not answer several calls in a row.
    pub fn is_open(&self, target: &RemoteTarget, now: EpochMs) -> bool {
        self.of(target, |known| known.breaker.open_for(now).is_some())
    }

    /// Lets a call of a handler be made, unless its circuit is open. After that, one call at a time finds out whether
    /// the handler is back: otherwise all events of a batch would wait for it again, and each would count an attempt.
    pub(super) fn turn<'a>(&'a self, target: &'a RemoteTarget, now: EpochMs) -> Option<Turn<'a>> {
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

    /// Who calls this handler. `None` if this process cannot call handlers of its kind.
    pub(super) fn caller(&self, target: &RemoteTarget) -> Option<&dyn CallHandler> {
        match target {
            RemoteTarget::Lambda(_) => self.lambda.as_deref(),
            RemoteTarget::Url(_) => self.url.as_deref(),
        }
    }
}
