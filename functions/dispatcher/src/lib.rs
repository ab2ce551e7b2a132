//! The dispatcher function: takes a batch of hints of effects, calls their destinations, and returns the failed
//! messages.
//!
//! It alone reads destination documents, which hold the secrets of the callees. It parses each message on its own, so
//! one foreign message fails alone. It always returns the failures that it computed: an empty list would acknowledge
//! everything.

mod start;

use hookonce_protocol::call::Signal;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::inbox::batch::{Batch, BatchResponse};
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::inbox::process::{Received, respond};
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::telemetry::Telemetry;

pub use {lambda_runtime::Error, start::run};

/// The dispatcher function.
#[derive(Debug)]
pub struct DispatcherFunction<S, Q, A> {
    parts: DispatcherParts<S, Q, A>,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, A: Ambient> DispatcherFunction<S, Q, A> {
    /// Creates the function from its parts.
    pub fn new(parts: DispatcherParts<S, Q, A>, telemetry: Telemetry) -> Self {
        Self { parts, telemetry }
    }

    /// Dispatches a batch, and ends before the deadline, when Lambda would end the process.
    pub async fn handle(&self, batch: Batch, deadline: EpochMs) -> BatchResponse {
        let now = || self.parts.ambient.moment().now;
        let on_signal = |signal: &Signal| self.telemetry.record(signal, now());
        let processed = self.parts.dispatch(&Received::each(&batch), deadline, &on_signal).await;
        let (response, by_endpoint) = respond(batch, processed, None, metric);
        for counts in &by_endpoint {
            self.telemetry.emit(counts, now());
        }
        response
    }
}

fn metric(settled: &Settled) -> Option<&'static str> {
    match settled {
        // Its signal counts it.
        Settled::Ack(Done::Settled(_)) => None,
        Settled::Ack(Done::Elsewhere | Done::Absent | Done::Dead | Done::Deferred | Done::Moved) => {
            Some("message_acknowledged")
        }
        Settled::Retry(_) => Some("effect_retried"),
    }
}
