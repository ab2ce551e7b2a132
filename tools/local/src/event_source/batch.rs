//! The pure half of the event source: turns messages into an event, and a response into the messages to delete.

use std::collections::BTreeSet;

use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use error_reporter::Report;
use serde_json::{Map, Value, json};

use crate::invoke::InvokeError;

/// The event of a batch, as Lambda builds it.
pub fn sqs_event(messages: &[Message], queue_arn: &str, region: &str) -> Value {
    let records: Vec<_> = messages.iter().map(|message| record(message, queue_arn, region)).collect();
    json!({ "Records": records })
}

fn record(message: &Message, queue_arn: &str, region: &str) -> Value {
    let attributes: Map<String, Value> = message
        .attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), Value::String(value.clone())))
        .collect();
    let message_attributes: Map<String, Value> = message
        .message_attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), message_attribute(value)))
        .collect();
    let mut record = json!({
        "messageId": message.message_id(),
        "receiptHandle": message.receipt_handle(),
        "body": message.body().unwrap_or_default(),
        "attributes": attributes,
        "messageAttributes": message_attributes,
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    });
    if let (Some(fields), Some(md5)) = (record.as_object_mut(), message.md5_of_message_attributes()) {
        fields.insert("md5OfMessageAttributes".to_owned(), Value::String(md5.to_owned()));
    }
    record
}

fn message_attribute(value: &MessageAttributeValue) -> Value {
    let mut attribute = json!({
        "dataType": value.data_type(),
        "stringListValues": [],
        "binaryListValues": [],
    });
    let mut optional = |key: &str, value: Option<String>| {
        if let (Some(fields), Some(value)) = (attribute.as_object_mut(), value) {
            fields.insert(key.to_owned(), Value::String(value));
        }
    };
    optional("stringValue", value.string_value().map(str::to_owned));
    optional("binaryValue", value.binary_value().map(|bytes| STANDARD.encode(bytes.as_ref())));
    attribute
}

/// What a response means for the messages of its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchResult {
    /// Every message succeeded.
    Succeeded,
    /// The messages with these ids stay in the queue, the others succeeded.
    Partly {
        /// The ids that the function listed.
        failed: BTreeSet<String>,
    },
    /// Every message stays in the queue.
    Failed(BatchFailure),
}

/// Why a whole batch counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchFailure {
    /// The function failed, panicked, timed out, could not be reached, or did not return JSON.
    #[error("{chain}")]
    Invocation {
        /// The error with its causes.
        chain: String,
    },
    /// The response is neither null nor an object.
    #[error("the response is not an object")]
    NotAnObject,
    /// `batchItemFailures` is neither null nor a list.
    #[error("batchItemFailures is not a list")]
    NotAList,
    /// An entry has no `itemIdentifier`, or one that is null or not text.
    #[error("an entry of batchItemFailures has no itemIdentifier")]
    NoIdentifier,
    /// An `itemIdentifier` is the empty string.
    #[error("an itemIdentifier is empty")]
    EmptyIdentifier,
    /// An `itemIdentifier` names no message of the batch.
    #[error("an itemIdentifier names no message of the batch")]
    UnknownIdentifier,
}

impl BatchResult {
    /// Judges the response to a batch by the rules of `ReportBatchItemFailures`.
    ///
    /// A null or empty response and a null or empty list acknowledge everything. A malformed response acknowledges
    /// nothing. AWS does not document a response that is neither null nor an object; here it counts as malformed.
    ///
    /// ```
    /// use hookonce_local::event_source::{BatchFailure, BatchResult};
    /// use serde_json::json;
    ///
    /// assert_eq!(BatchResult::of(&["a", "b"], &Ok(json!({}))), BatchResult::Succeeded);
    /// let typo = Ok(json!({ "batchItemFailures": [{ "itemIdentifer": "a" }] }));
    /// assert_eq!(BatchResult::of(&["a", "b"], &typo), BatchResult::Failed(BatchFailure::NoIdentifier));
    /// ```
    pub fn of(batch: &[&str], response: &Result<Value, InvokeError>) -> Self {
        let failures = match response {
            Err(error) => return Self::Failed(BatchFailure::Invocation { chain: Report::new(error).to_string() }),
            Ok(Value::Null) => return Self::Succeeded,
            Ok(Value::Object(fields)) => fields.get("batchItemFailures").unwrap_or(&Value::Null),
            Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Self::Failed(BatchFailure::NotAnObject);
            }
        };
        match failures {
            Value::Null => Self::Succeeded,
            Value::Array(entries) => Self::of_entries(batch, entries),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                Self::Failed(BatchFailure::NotAList)
            }
        }
    }

    fn of_entries(batch: &[&str], entries: &[Value]) -> Self {
        let failed: Result<BTreeSet<_>, _> = entries.iter().map(|entry| identifier(batch, entry)).collect();
        match failed {
            Ok(failed) if failed.is_empty() => Self::Succeeded,
            Ok(failed) => Self::Partly { failed },
            Err(failure) => Self::Failed(failure),
        }
    }

    /// Whether the message may be deleted.
    pub fn deletes(&self, message_id: &str) -> bool {
        match self {
            Self::Succeeded => true,
            Self::Partly { failed } => !failed.contains(message_id),
            Self::Failed(_) => false,
        }
    }
}

fn identifier(batch: &[&str], entry: &Value) -> Result<String, BatchFailure> {
    match entry.get("itemIdentifier").and_then(Value::as_str) {
        None => Err(BatchFailure::NoIdentifier),
        Some("") => Err(BatchFailure::EmptyIdentifier),
        Some(id) if batch.contains(&id) => Ok(id.to_owned()),
        Some(_) => Err(BatchFailure::UnknownIdentifier),
    }
}

#[cfg(test)]
mod tests {

    use aws_sdk_sqs::primitives::Blob;
    use aws_sdk_sqs::types::MessageSystemAttributeName;

    use super::*;

    const BATCH: [&str; 3] = ["a", "b", "c"];

    fn message() -> Message {
        let text = MessageAttributeValue::builder().data_type("String").string_value("v1").build().unwrap();
        let bytes =
            MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0, 255])).build().unwrap();
        Message::builder()
            .message_id("a")
            .receipt_handle("handle")
            .body("{\"v\":1}")
            .md5_of_body("d41d")
            .md5_of_message_attributes("e9f3")
            .attributes(MessageSystemAttributeName::ApproximateReceiveCount, "1")
            .attributes(MessageSystemAttributeName::SentTimestamp, "1545082649183")
            .attributes(MessageSystemAttributeName::SenderId, "AIDAIENQZJOLO23YVJ4VO")
            .attributes(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp, "1545082649185")
            .message_attributes("kind", text)
            .message_attributes("raw", bytes)
            .build()
    }

    #[test]
    fn the_event_is_the_one_that_lambda_builds() {
        let expected: Value = serde_json::from_str(include_str!("event.json")).unwrap();
        assert_eq!(sqs_event(&[message()], "arn:aws:sqs:us-east-1:000000000000:hints", "us-east-1"), expected);
    }

    #[test]
    fn an_empty_response_or_list_acknowledges_everything() {
        let responses = [
            json!(null),
            json!({}),
            json!({ "batchItemFailures": null }),
            json!({ "batchItemFailures": [] }),
            json!({ "somethingElse": 1 }),
        ];
        for response in responses {
            assert_eq!(BatchResult::of(&BATCH, &Ok(response.clone())), BatchResult::Succeeded, "{response}");
        }
    }

    #[test]
    fn anything_malformed_acknowledges_nothing() {
        let entries = |entries: Value| json!({ "batchItemFailures": entries });
        let responses = [
            (json!("done"), BatchFailure::NotAnObject),
            (json!(""), BatchFailure::NotAnObject),
            (json!(true), BatchFailure::NotAnObject),
            (json!([]), BatchFailure::NotAnObject),
            (entries(json!("a")), BatchFailure::NotAList),
            (entries(json!({ "itemIdentifier": "a" })), BatchFailure::NotAList),
            (entries(json!(["a"])), BatchFailure::NoIdentifier),
            (entries(json!([{}])), BatchFailure::NoIdentifier),
            (entries(json!([{ "itemIdentifier": null }])), BatchFailure::NoIdentifier),
            (entries(json!([{ "itemIdentifier": 1 }])), BatchFailure::NoIdentifier),
            (entries(json!([{ "ItemIdentifier": "a" }])), BatchFailure::NoIdentifier),
            (entries(json!([{ "itemIdentifier": "" }])), BatchFailure::EmptyIdentifier),
            (entries(json!([{ "itemIdentifier": "z" }])), BatchFailure::UnknownIdentifier),
            (entries(json!([{ "itemIdentifier": "a" }, { "itemIdentifier": "z" }])), BatchFailure::UnknownIdentifier),
        ];
        for (response, failure) in responses {
            let verdict = BatchResult::of(&BATCH, &Ok(response.clone()));
            assert_eq!(BATCH.map(|id| verdict.deletes(id)), [false; 3], "{response}");
            assert_eq!(verdict, BatchResult::Failed(failure), "{response}");
        }
    }
}
