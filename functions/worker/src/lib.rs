//! The worker function: takes an SQS batch and returns the failed messages.
//!
//! It parses each message on its own, so one foreign message fails alone. It always returns the failures that it
//! computed: an empty list would acknowledge everything.

pub mod handlers;

use hookonce_protocol::call::Signal;
use hookonce_protocol::record::Outcome;
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::batch::{Batch, BatchResponse};
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::process::{Processed, Received, WorkerParts};
use hookonce_runtime::telemetry::{Counts, Telemetry};

/// The worker function.
#[derive(Debug)]
pub struct WorkerFunction<S, Q, A> {
    parts: WorkerParts<S, Q, A>,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, A: Ambient> WorkerFunction<S, Q, A> {
    /// Creates the function from its parts.
    pub fn new(parts: WorkerParts<S, Q, A>, telemetry: Telemetry) -> Self {
        Self { parts, telemetry }
    }

    /// Processes a batch.
    pub async fn handle(&self, batch: Batch) -> BatchResponse {
        let received: Vec<_> = batch
            .records
            .iter()
            .map(|message| Received {
                body: message.body.clone(),
                receipt_handle: message.receipt_handle.clone(),
                receives: message.receives(),
            })
            .collect();
        let processed = self.parts.process(&received).await;
        let mut counts = Counts::default();
        let mut response = BatchResponse::default();
        for (message, processed) in batch.records.into_iter().zip(&processed) {
            count(&mut counts, processed);
            if !acknowledged(processed) {
                response.keep(message.message_id);
            }
        }
        self.telemetry.emit(&counts, self.parts.ambient.moment().now);
        response
    }
}

fn acknowledged(processed: &Processed) -> bool {
    match processed {
        Processed::Settled(driven) => matches!(driven.output, Settled::Ack(_)),
        Processed::Panicked => false,
    }
}

fn count(counts: &mut Counts, processed: &Processed) {
    let Processed::Settled(driven) = processed else {
        counts.add("message_panicked", 1);
        tracing::error!("processing a message panicked; the message stays in the queue");
        return;
    };
    counts.signals(&driven.signals);
    if driven.signals.contains(&Signal::RecordDead) {
        tracing::warn!("a record died; list dead records with `hookonce list --state DEAD`");
    }
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
    }
}
