//! Dispatches a batch of effects: each message independently of the others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hookonce_protocol::call::{Call, Reply, Signal, Unavailable};
use hookonce_protocol::destination::{Called, NoTurn, Offer, OutboundCall};
use hookonce_protocol::dispatcher::Dispatcher;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{DESTINATION_TURN_MAX, DISPATCHER_MARGIN, DISPATCHER_STORE_MAX, Timing};
use tokio::time::{Instant, timeout_at};
use tracing::Span;

use crate::ambient::Ambient;
use crate::destinations::{Destination, DestinationLookupError, Destinations, Permit, RateLimited};
use crate::inbox::drive::{Carry, StoreAndQueue, drive_with, duration};
use crate::inbox::process::{DEADLINE_MARGIN, Processed, Received, batch_end, hide, isolated};
use crate::port::{Queue, Store};

/// The parts that the dispatcher needs.
#[derive(Debug)]
pub struct DispatcherParts<S, Q, A> {
    /// The tables.
    pub store: S,
    /// The effects queue.
    pub queue: Q,
    /// Time and randomness.
    pub ambient: A,
    /// What is known of destinations.
    pub destinations: Destinations,
    /// Calls them.
    pub caller: RateLimited,
    /// The protocol's durations.
    pub timing: Timing,
}

impl<S: Store, Q: Queue, A: Ambient> DispatcherParts<S, Q, A> {
    /// Dispatches every message of a batch until shortly before the deadline. The results are in the order of the
    /// messages. Signals are told at once, because a sibling may take the process down.
    pub async fn dispatch(
        &self,
        messages: &[Received],
        deadline: EpochMs,
        on_signal: &(impl Fn(&Signal) + Sync),
    ) -> Vec<Processed> {
        let until = batch_end(deadline, self.ambient.moment().now);
        // The time to write how the last call ended.
        let margin = duration(Millis(DISPATCHER_MARGIN.0 - DEADLINE_MARGIN.0));
        let calls_until = until.checked_sub(margin).unwrap_or(until);
        let work = messages.iter().map(|received| {
            let message = Message::decode(&received.body, None);
            let key = message.as_ref().ok().map(|message| message.record_key().clone());
            let work = async move {
                // One pass for each receive: every repeat of its own guard has it, and no other receive.
                let pass = self.ambient.claim_id().0;
                let moment = self.ambient.moment();
                let first = Dispatcher::start(message, received.receives, pass, self.timing, moment);
                let carrier = OneEffect { parts: self, calls_until, turn: OnceLock::new() };
                let driven = drive_with(first, &carrier, &self.ambient, on_signal).await;
                hide(&self.queue, HintQueue::Effects, received, &driven.output).await;
                driven
            };
            isolated(key, work, until)
        });
        futures::future::join_all(work).await
    }
}

/// Carries out the calls of one message's machine.
#[derive(Debug)]
struct OneEffect<'a, S, Q, A> {
    parts: &'a DispatcherParts<S, Q, A>,
    calls_until: Instant,
    /// The destination whose terms the machine was told, and the turn there. It calls this one, although the document
    /// may have changed since.
    turn: OnceLock<(Arc<Destination>, Permit)>,
}

impl<S: Store, Q: Queue, A: Ambient> OneEffect<'_, S, Q, A> {
    async fn offer(&self, id: &DestinationId) -> Result<Option<Offer>, Unavailable> {
        let destination = match self.parts.destinations.get(id, self.parts.ambient.moment().now).await {
            Ok(found) => found,
            Err(DestinationLookupError::Absent | DestinationLookupError::Invalid(_)) => return Ok(None),
            Err(DestinationLookupError::Unavailable) => return Err(Unavailable),
        };
        let terms = destination.terms();
        // A call that begins has all its time, the wait for its turn and its pass included, and then there is time to
        // write how it ended.
        let before = duration(DESTINATION_TURN_MAX) + duration(DISPATCHER_STORE_MAX);
        let turn = if self.has_time(before + duration(terms.timeout)) {
            self.parts.caller.turn(&destination, self.parts.ambient.moment()).await
        } else {
            Err(NoTurn::Busy)
        };
        // The machine asks once, so the turn is kept.
        let turn = turn.map(|permit| self.turn.get_or_init(|| (destination, permit))).map(|_| ());
        Ok(Some(Offer { terms, turn }))
    }

    fn has_time(&self, length: Duration) -> bool {
        Instant::now() + length <= self.calls_until
    }

    async fn deliver(&self, delivery: &OutboundCall) -> Called {
        // The machine calls after it was given a turn. Without one nothing is called.
        let Some((destination, permit)) = self.turn.get() else { return Called::NoTime };
        if !self.has_time(duration(destination.terms().timeout)) {
            return Called::NoTime;
        }
        let call = self.parts.caller.call(permit, destination, delivery, self.parts.ambient.moment());
        let called =
            timeout_at(self.calls_until, call).await.unwrap_or(Called::Unclear { status: None, retry_after: None });
        log_call(delivery, called);
        called
    }
}

/// Logs how a call ended.
fn log_call(delivery: &OutboundCall, called: Called) {
    let (status, how) = (called.status(), called.how());
    let OutboundCall { effect, event, destination, .. } = delivery;
    match called {
        Called::Done { .. } => {
            tracing::info!(record.key = %effect, event.key = %event, destination.id = %destination, status, how,
                "an effect was tried");
        }
        Called::AlreadyDone { .. }
        | Called::NotDone { .. }
        | Called::NoTime
        | Called::Refused { .. }
        | Called::Unknown { .. }
        | Called::Unclear { .. } => {
            tracing::warn!(record.key = %effect, event.key = %event, destination.id = %destination, status, how,
                "an effect was tried");
        }
    }
}

impl<S: Store, Q: Queue, A: Ambient> Carry for OneEffect<'_, S, Q, A> {
    async fn carry(&self, call: Call) -> Reply {
        match call {
            Call::Terms(id) => Reply::Terms(self.offer(&id).await),
            Call::Deliver(delivery) => Reply::Called(self.deliver(&delivery).await),
            call => {
                let reply = StoreAndQueue { store: &self.parts.store, queue: &self.parts.queue }.carry(call).await;
                if let Reply::Read(Ok(Found::Record(effect))) = &reply {
                    Span::current().record("event.key", effect.parent.as_ref().map(tracing::field::display));
                }
                reply
            }
        }
    }
}
