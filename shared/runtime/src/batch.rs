//! Batches of queue messages, as an event source delivers them and wants them answered.
//!
//! A message's body is left as text: one that is not ours must not fail the batch that it came in.

use serde::{Deserialize, Serialize};

/// A batch as the event source delivers it: what the worker needs of it.
#[derive(Debug, Clone, Deserialize)]
pub struct Batch {
    /// The messages.
    #[serde(rename = "Records", default)]
    pub records: Vec<QueueMessage>,
}

/// One message of a batch.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueMessage {
    /// Identifies the message within the batch.
    pub message_id: String,
    /// Identifies this receipt of the message.
    pub receipt_handle: String,
    /// Its text.
    pub body: String,
    /// What the queue knows about it.
    #[serde(default)]
    pub attributes: QueueAttributes,
}

/// What the queue knows about a message.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct QueueAttributes {
    /// How often it has been handed out, as decimal text.
    pub approximate_receive_count: String,
}

impl QueueMessage {
    /// How often it has been handed out, this time included; 1 where the queue does not say.
    pub fn receives(&self) -> i64 {
        self.attributes.approximate_receive_count.parse().unwrap_or(1)
    }
}

/// The messages that stay in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResponse {
    /// One entry for each.
    #[serde(rename = "batchItemFailures")]
    pub failures: Vec<BatchItemFailure>,
}

/// A message that stays in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchItemFailure {
    /// Its id.
    #[serde(rename = "itemIdentifier")]
    pub message_id: String,
}

impl BatchResponse {
    /// Keeps one more message in the queue.
    pub fn keep(&mut self, message_id: String) {
        self.failures.push(BatchItemFailure { message_id });
    }
}
