//! The dispatcher function: takes a batch of hints of effects, calls their destinations, and returns the failed messages.
//!
//! It alone reads destination documents, which hold the secrets of the callees. It parses each message on its own, so one
//! foreign message fails alone. It always returns the failures that it computed: an empty list would acknowledge everything.

#[cfg(feature = "account")]
mod start;

use hookonce_protocol::call::Signal;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::DeadReason;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::batch::{Batch, BatchResponse};
use hookonce_runtime::destination::DestinationSource;
use hookonce_runtime::dispatch::DispatcherParts;
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::process::{Processed, Received};
use hookonce_runtime::telemetry::{Counts, Telemetry, log_death};

#[cfg(feature = "account")]
pub use {lambda_runtime::Error, start::run};

/// The dispatcher function.
#[derive(Debug)]
pub struct DispatcherFunction<S, Q, A, D> {
    parts: DispatcherParts<S, Q, A, D>,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, A: Ambient, D: DestinationSource> DispatcherFunction<S, Q, A, D> {
    /// Creates the function from its parts.
    pub fn new(parts: DispatcherParts<S, Q, A, D>, telemetry: Telemetry) -> Self {
        Self { parts, telemetry }
    }

    /// Dispatches a batch, and ends before the deadline, when Lambda would end the process.
    pub async fn handle(&self, batch: Batch, deadline: EpochMs) -> BatchResponse {
        let died = |key: &RecordKey, reason| self.tell(key, reason);
        let mut processed = self.parts.dispatch(&Received::each(&batch), deadline, &died).await.into_iter();
        let mut counts = Counts::default();
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
        // Its signal counts it.
        Settled::Ack(Done::Settled(_)) => {}
        Settled::Ack(Done::Elsewhere | Done::Absent | Done::Dead | Done::Deferred) => {
            counts.add("message_acknowledged", 1);
        }
        Settled::Retry(_) => counts.add("effect_retried", 1),
    }
}
