//! Batches of queue messages: what the event source sends and the response it expects.
//!
//! Message bodies stay text, so that one foreign message does not fail the whole batch.

use hookonce_protocol::time::EpochMs;
use serde::{Deserialize, Serialize};

/// The fields of an event source's batch that the worker needs.
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
    /// The queue's own attributes of the message.
    #[serde(default)]
    pub attributes: QueueAttributes,
}

/// The queue's own attributes of a message.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct QueueAttributes {
    /// How often the message was received, as decimal text.
    pub approximate_receive_count: String,
    /// When the message was sent, in milliseconds since the epoch, as decimal text. A dead letter keeps it.
    pub sent_timestamp: String,
}

impl QueueMessage {
    /// How often the message was received, this time included. 1 if the queue does not say.
    pub fn receives(&self) -> i64 {
        self.attributes.approximate_receive_count.parse().unwrap_or(1)
    }

    /// When the message was sent, by the queue's clock. `None` if the queue does not say.
    pub fn sent_at(&self) -> Option<EpochMs> {
        self.attributes.sent_timestamp.parse().ok().map(EpochMs)
    }
}

/// The response: the messages that stay in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResponse {
    /// One entry per message.
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
