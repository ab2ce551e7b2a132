//! One queue.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::json;

use super::CreateError;

/// A queue by both its names: the SDK takes the URL, the event source mapping and the redrive policy take the ARN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRef {
    /// The queue URL.
    pub url: String,
    /// The queue ARN.
    pub arn: String,
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
