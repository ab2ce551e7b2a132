//! One event and its handler: at most two calls, the second with the items that the first asked for.

use std::time::Duration;

use error_reporter::Report;
use hookonce_protocol::call::{Failure, Planned};
use hookonce_protocol::check::Scope;
use hookonce_protocol::code::Code;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use hookonce_protocol::time::Millis;
use tokio::time::{Instant, timeout};

use super::calls::{Calls, call_max};
use super::handlers::{CallError, RemoteHandlers};
use super::target::RemoteHandling;
use super::wire::{HandlerAnswer, HandlerRequest, MalformedAnswer, SnapshotItem};
use crate::documents::document::EVENT_BYTES_MAX;
use crate::handlers::Assignment;
use crate::handlers::snapshot::{self, reads_refused};
use crate::inbox::memory::SHORT_BYTES_MAX;
use crate::port::Store;

/// A call that fails sooner has not held the worker up, so it says nothing about the handler.
const HELD_MIN: Duration = Duration::from_secs(1);

/// Lets a handler in another language plan.
pub(crate) async fn plan<S: Store>(
    store: &S,
    handlers: &RemoteHandlers,
    handling: &RemoteHandling,
    event: &Event,
    calls: Calls<'_>,
) -> Planned {
    let conversation = Conversation { handlers, handling, event, calls };
    conversation.hold(store).await.unwrap_or_else(|ended| ended)
}

struct Conversation<'a> {
    handlers: &'a RemoteHandlers,
    handling: &'a RemoteHandling,
    event: &'a Event,
    calls: Calls<'a>,
}

impl Conversation<'_> {
    async fn hold<S: Store>(&self, store: &S) -> Result<Planned, Planned> {
        if self.calls.slow_move && self.handlers.is_slow(&self.handling.target, (self.calls.moment)().now) {
            return Ok(Planned::HandlerSlow { handler: self.handling.target.name().to_owned() });
        }
        let (fact, reads) = match self.call(Snapshot::default()).await? {
            HandlerAnswer::Reads { fact, reads } => (fact, reads),
            HandlerAnswer::Plan { fact, plan } => {
                return self.planned(store, Scope::default(), fact, plan).await;
            }
            HandlerAnswer::Ignore => return Ok(Planned::NoHandler),
            HandlerAnswer::Error { failure, at } => return Ok(self.refused(failure, &at)),
            HandlerAnswer::VersionUnknown => return Ok(self.too_old()),
        };
        let tables = self.handling.grants.tables.as_deref();
        let (scope, snapshot) = snapshot::read(store, self.event, &reads, tables, self.calls.memory).await?;
        match self.call(snapshot).await? {
            HandlerAnswer::Reads { .. } => {
                Err(self.malformed(&MalformedAnswer::new("reads", "was sent before; the second answer must be a plan")))
            }
            HandlerAnswer::Plan { fact: again, .. } if self.handling.fact.is_none() && again != fact => {
                tracing::warn!(record.key = %self.event.record, handler = %self.handling.target,
                    "the handler named another fact in its second answer");
                Err(Planned::Failed(Failure::retryable(Code::HandlerFactChanged)))
            }
            HandlerAnswer::Plan { fact, plan } => self.planned(store, scope, fact, plan).await,
            HandlerAnswer::Ignore => Ok(Planned::NoHandler),
            HandlerAnswer::Error { failure, at } => Ok(self.refused(failure, &at)),
            HandlerAnswer::VersionUnknown => Ok(self.too_old()),
        }
    }

    /// The record has the code alone: which field it was is for the log.
    fn refused(&self, failure: Failure, at: &str) -> Planned {
        if !at.is_empty() {
            tracing::warn!(record.key = %self.event.record, handler = %self.handling.target, code = failure.code,
                field = at, "the body does not fit what the handler reads");
        }
        Planned::Failed(failure)
    }

    /// A worker may meet an older handler while both are deployed. The event is not to blame.
    fn too_old(&self) -> Planned {
        tracing::warn!(record.key = %self.event.record, handler = %self.handling.target,
            "the handler does not know this version of requests: deploy it with the package of this release");
        Planned::HandlerAway
    }

    /// The route's name of the fact counts before the handler's.
    async fn planned<S: Store>(
        &self,
        store: &S,
        scope: Scope,
        fact: Option<DomainKey>,
        plan: Plan,
    ) -> Result<Planned, Planned> {
        let Some(domain_key) = self.handling.fact.clone().or(fact) else {
            return Err(self.malformed(&MalformedAnswer::new("fact", "is missing, and the route names no fact")));
        };
        if !domain_key.is_named() {
            return Err(Planned::Failed(Failure::permanent(Code::FactMissing)));
        }
        let RemoteHandling { consumer, grants, .. } = self.handling.clone();
        let assignment = Assignment { consumer, domain_key, grants };
        Ok(snapshot::complete(store, self.event, scope, assignment, plan).await)
    }

    /// Calls the handler. The items and the answer are not in memory while it works.
    async fn call(&self, snapshot: Snapshot) -> Result<HandlerAnswer, Planned> {
        let Some(caller) = self.handlers.caller(&self.handling.target) else {
            // A rehearsal without `--call-handlers`: the command says itself that it did not ask.
            tracing::debug!(handler = %self.handling.target, "this process does not call handlers of this kind");
            return Err(Planned::HandlerAway);
        };
        let request = (self.calls.request_id)();
        let (target, record) = (&self.handling.target, &self.event.record);
        let items: Vec<_> = snapshot.items().map(|(name, item)| SnapshotItem { name, item }).collect();
        let Some(bytes) = HandlerRequest::new(&request, self.event, &items).encode() else {
            tracing::warn!(record.key = %record, handler = %target,
                "the event and the items that the handler asked for make a request of more than {EVENT_BYTES_MAX} bytes");
            return Err(reads_refused());
        };
        drop(items);
        drop(snapshot);
        self.calls.memory.release();
        let Some(turn) = self.handlers.turn(target, (self.calls.moment)().now) else {
            tracing::info!(record.key = %record, handler = %target, "the handler is not called: its circuit is open after calls without an answer");
            return Err(Planned::HandlerAway);
        };
        if !self.calls.budget.take() {
            return Err(Planned::CallsUsedUp);
        }
        let began = Instant::now();
        let called = timeout(call_max(), caller.call(target.name(), bytes)).await;
        let (length, moment) = (began.elapsed(), (self.calls.moment)());
        match &called {
            // Throttled at once, perhaps because other calls hang or take long: it says nothing about the handler.
            Ok(Err(CallError::Away(_))) if length < HELD_MIN => {}
            ended => {
                let failed = matches!(ended, Err(_) | Ok(Err(CallError::Crashed(_) | CallError::Away(_))));
                let hangs = length >= HELD_MIN && failed;
                turn.learn(!hangs, moment);
                let length = Millis(i64::try_from(length.as_millis()).unwrap_or(i64::MAX));
                self.handlers.took(target, length, moment.now);
            }
        }
        match called {
            Ok(Ok(answer)) => {
                if answer.len() > SHORT_BYTES_MAX {
                    self.calls.memory.take().await;
                }
                HandlerAnswer::parse(&answer, &request).map_err(|why| self.malformed(&why))
            }
            Ok(Err(CallError::TooLong)) => Err(self.malformed(&MalformedAnswer::new("", "is too long"))),
            Ok(Err(error @ CallError::Away(_))) => {
                tracing::warn!(record.key = %record, handler = %target, error = %Report::new(&error), "no answer");
                Err(Planned::HandlerAway)
            }
            Ok(Err(error @ CallError::Crashed(_))) => {
                let error = Report::new(&error);
                tracing::warn!(record.key = %record, handler = %target, %error, "the handler crashed or refused the call");
                Err(Planned::Failed(Failure::retryable(Code::HandlerCrashed)))
            }
            Err(_) => {
                tracing::warn!(record.key = %record, handler = %target, "the handler did not answer in time");
                Err(Planned::Failed(Failure::retryable(Code::HandlerTimedOut)))
            }
        }
    }

    fn malformed(&self, why: &MalformedAnswer) -> Planned {
        let MalformedAnswer { field, why } = why;
        tracing::warn!(record.key = %self.event.record, handler = %self.handling.target, field, why,
            "the handler's answer is refused");
        Planned::Failed(Failure::retryable(Code::HandlerAnswerMalformed))
    }
}
