//! A worker whose transaction is under way while something else happens.

use aws_sdk_sqs::types::Message;
use hookonce_runtime::inbox::batch::BatchResponse;
use tokio::task::JoinHandle;

use super::faults::{Gate, Operation, Script};
use super::harness::Harness;

/// A worker that has planned, and whose commit waits until the test lets it land.
#[derive(Debug)]
pub(crate) struct CommitInFlight {
    gate: Gate,
    messages: Vec<Message>,
    worker: JoinHandle<BatchResponse>,
}

impl CommitInFlight {
    /// Takes the next batch and returns once its commit is about to be sent.
    pub(crate) async fn start(harness: &Harness) -> Self {
        let gate = Gate::default();
        let worker = harness.worker(&Script::held(Operation::Commit, &gate));
        let (messages, batch) = harness.batch().await.unwrap();
        let deadline = harness.deadline();
        let worker = tokio::spawn(async move { Box::pin(worker.handle(batch, deadline)).await });
        gate.reached().await;
        Self { gate, messages, worker }
    }

    /// Lets the commit land. Says whether the worker acknowledged its whole batch.
    pub(crate) async fn land(self, harness: &Harness) -> bool {
        self.gate.open();
        let response = self.worker.await.unwrap();
        let acknowledged = response.failures.is_empty();
        harness.conclude(self.messages, Some(response)).await;
        acknowledged
    }
}
