//! The worker function: takes an SQS batch and returns the failed messages.
//!
//! It parses each message on its own, so one foreign message fails alone. It always returns the failures that it
//! computed: an empty list would acknowledge everything.
//!
//! A project with handlers of its own builds its own worker from this crate: it implements [`handler::Handler`] and
//! passes its handlers to `run`. What a handler is written with is here, too: [`plan`], [`key`], [`item`] and [`mod@write`].

pub mod handlers;
#[cfg(feature = "account")]
mod start;

use hookonce_protocol::call::Signal;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::{DeadReason, Outcome};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::batch::{Batch, BatchResponse};
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::process::{Processed, Received, WorkerParts};
use hookonce_runtime::route::{Asked, Routes};
use hookonce_runtime::telemetry::{Counts, Telemetry, log_death};

pub use hookonce_protocol::{item, key, plan, write};
pub use hookonce_runtime::handler;
#[cfg(feature = "account")]
pub use {lambda_runtime::Error, start::run};

/// The worker function.
#[derive(Debug)]
pub struct WorkerFunction<S, Q, A> {
    parts: WorkerParts<S, Q, A>,
    routes: Routes,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, A: Ambient> WorkerFunction<S, Q, A> {
    /// Creates the function from its parts.
    pub fn new(parts: WorkerParts<S, Q, A>, routes: Routes, telemetry: Telemetry) -> Self {
        Self { parts, routes, telemetry }
    }

    /// Processes a batch, and ends before the deadline, when Lambda would end the process.
    pub async fn handle(&self, batch: Batch, deadline: EpochMs) -> BatchResponse {
        let current = self.routes.current(self.parts.ambient.moment()).await;
        let died = |key: &RecordKey, reason| self.tell(key, reason);
        let mut processed =
            self.parts.process(&Received::each(&batch), &current.routing, deadline, &died).await.into_iter();
        let mut counts = Counts::default();
        if current.refused {
            counts.add("routes_refused", 1);
        }
        match current.asked {
            Asked::Not => {}
            // The alarm ends with a good read, and not while nobody reads.
            Asked::Answered => counts.add("routes_unavailable", 0),
            Asked::InVain => counts.add("routes_unavailable", 1),
        }
        let mut response = BatchResponse::default();
        for message in batch.records {
            let ended = processed.next();
            if let Some(ended) = &ended {
                count(&mut counts, ended);
            }
            // A message without a result was not processed.
            if !ended.is_some_and(|ended| ended.is_acknowledged()) {
                response.keep(message.message_id);
            }
        }
        self.telemetry.emit(&counts, self.parts.ambient.moment().now);
        response
    }

    /// Logs and counts a death at once. The counts of the batch follow at its end, which may never come.
    fn tell(&self, key: &RecordKey, reason: DeadReason) {
        log_death(key, reason);
        let mut counts = Counts::default();
        counts.signals(&[Signal::RecordDead(reason)]);
        self.telemetry.emit(&counts, self.parts.ambient.moment().now);
    }
}

fn count(counts: &mut Counts, processed: &Processed) {
    let Some(driven) = processed.settled(counts) else { return };
    let told = |signal: &Signal| matches!(signal, Signal::RecordDead(_));
    counts.signals(&driven.signals.iter().filter(|signal| !told(signal)).cloned().collect::<Vec<_>>());
    match &driven.output {
        Settled::Ack(Done::Settled(outcome)) => counts.add(metric(*outcome), 1),
        Settled::Ack(Done::Elsewhere | Done::Absent | Done::Dead | Done::Deferred) => {
            counts.add("message_acknowledged", 1);
        }
        Settled::Retry(_) => counts.add("event_retried", 1),
    }
}

fn metric(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "event_applied",
        Outcome::Duplicate => "event_duplicate",
        Outcome::Ignored => "event_ignored",
        Outcome::FannedOut => "envelope_fanned_out",
        Outcome::Delivered => "effect_delivered",
    }
}
