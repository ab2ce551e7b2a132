//! One queue.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use serde_json::{Value, json};

use super::CreateError;

/// A queue by both its names: the SDK takes the URL, the event source mapping and the redrive policy take the ARN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRef {
    /// The queue URL.
    pub url: String,
    /// The queue ARN.
    pub arn: String,
}

impl QueueRef {
    /// Receives up to ten messages, in one short poll.
    ///
    /// # Errors
    /// SQS refused or did not answer.
    pub async fn receive(&self, sqs: &Client) -> Result<Vec<Message>, aws_sdk_sqs::Error> {
        let request = sqs.receive_message().queue_url(&self.url).max_number_of_messages(10).wait_time_seconds(0);
        let answer = request.message_system_attribute_names(MessageSystemAttributeName::All).send().await?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// How many messages it holds, hidden ones included. `None` if SQS does not say it.
    ///
    /// # Errors
    /// SQS refused or did not answer.
    pub async fn messages(&self, sqs: &Client) -> Result<Option<u64>, aws_sdk_sqs::Error> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let request = sqs.get_queue_attributes().queue_url(&self.url);
        let attributes = request.set_attribute_names(Some(names.to_vec())).send().await?.attributes.unwrap_or_default();
        Ok(names.iter().map(|name| attributes.get(name)?.parse::<u64>().ok()).sum())
    }
}

/// The policy of a queue of a deployed stack: of all principals, only those that use it may move its messages, and only with
/// TLS. One of them may only take.
#[must_use]
pub fn queue_policy(arn: &str, users: &[String], never_sends: Option<&str>) -> Value {
    let moves = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"];
    let deny = |action: Value, condition: Value| json!({ "Effect": "Deny", "Principal": "*", "Action": action, "Resource": arn, "Condition": condition });
    let others = json!({ "Null": { "aws:PrincipalArn": "false" }, "ArnNotEquals": { "aws:PrincipalArn": users } });
    let mut statements = vec![
        deny(json!(moves), json!({ "Bool": { "aws:SecureTransport": "false" } })),
        deny(json!([&moves[..], &["sqs:PurgeQueue"]].concat()), others),
    ];
    statements.extend(
        never_sends.map(|user| deny(json!("sqs:SendMessage"), json!({ "ArnEquals": { "aws:PrincipalArn": user } }))),
    );
    json!({ "Version": "2012-10-17", "Statement": statements })
}

/// The wanted state of a queue.
pub(super) struct QueueShape<'a> {
    pub(super) name: &'a str,
    pub(super) visibility_seconds: u32,
    pub(super) retention_seconds: u32,
    pub(super) redrive: Option<Redrive<'a>>,
}

/// The queue for messages that were received too often.
pub(super) struct Redrive<'a> {
    pub(super) target_arn: &'a str,
    pub(super) receive_count_max: u32,
}

/// The error codes for a missing queue. AWS sends the first, for which the SDK has an error type; `ElasticMQ` sends the
/// second.
const MISSING_QUEUE_CODES: [&str; 2] = ["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"];

/// Creates the queue if it is missing, then sets its attributes.
///
/// `CreateQueue` alone is not enough: it fails on a queue that exists with other attributes.
pub(super) async fn create(sqs: &Client, shape: &QueueShape<'_>) -> Result<QueueRef, CreateError> {
    let failed =
        |source: aws_sdk_sqs::Error| CreateError::Queue { queue: shape.name.to_owned(), source: Box::new(source) };
    let unknown = || CreateError::QueueAddress { queue: shape.name.to_owned() };
    let url = match existing_url(sqs, shape.name).await.map_err(failed)? {
        Some(url) => url,
        None => created_url(sqs, shape.name).await.map_err(failed)?.ok_or_else(unknown)?,
    };
    sqs.set_queue_attributes()
        .queue_url(&url)
        .set_attributes(Some(attributes(shape)))
        .send()
        .await
        .map_err(|error| failed(error.into()))?;
    let arn = arn(sqs, &url).await.map_err(failed)?.ok_or_else(unknown)?;
    Ok(QueueRef { url, arn })
}

async fn existing_url(sqs: &Client, name: &str) -> Result<Option<String>, aws_sdk_sqs::Error> {
    match sqs.get_queue_url().queue_name(name).send().await.map_err(aws_sdk_sqs::Error::from) {
        Ok(answer) => Ok(answer.queue_url),
        Err(error) if error.code().is_some_and(|code| MISSING_QUEUE_CODES.contains(&code)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn created_url(sqs: &Client, name: &str) -> Result<Option<String>, aws_sdk_sqs::Error> {
    Ok(sqs.create_queue().queue_name(name).send().await?.queue_url)
}

async fn arn(sqs: &Client, url: &str) -> Result<Option<String>, aws_sdk_sqs::Error> {
    let wanted = QueueAttributeName::QueueArn;
    let answer = sqs.get_queue_attributes().queue_url(url).attribute_names(wanted.clone()).send().await?;
    Ok(answer.attributes.and_then(|mut attributes| attributes.remove(&wanted)))
}

fn attributes(shape: &QueueShape<'_>) -> HashMap<QueueAttributeName, String> {
    let mut attributes = HashMap::from([
        (QueueAttributeName::VisibilityTimeout, shape.visibility_seconds.to_string()),
        (QueueAttributeName::MessageRetentionPeriod, shape.retention_seconds.to_string()),
    ]);
    if let Some(redrive) = &shape.redrive {
        let policy = json!({ "deadLetterTargetArn": redrive.target_arn, "maxReceiveCount": redrive.receive_count_max });
        attributes.insert(QueueAttributeName::RedrivePolicy, policy.to_string());
    }
    attributes
}
