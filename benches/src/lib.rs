//! The two clients of the webhook function, as the documentation of the SDK makes them, and the events that are read.

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
pub use lambda_runtime::Error;
use lambda_runtime::{LambdaEvent, service_fn};

/// What is read of an HTTP API's event, and of a message.
#[derive(serde::Deserialize)]
pub struct Event {
    /// The request's body.
    pub body: String,
}

/// What is read of the event of a queue, or of a schedule, which has no messages.
#[derive(serde::Deserialize)]
pub struct Batch {
    #[serde(default, rename = "Records")]
    messages: Vec<Event>,
}

impl Batch {
    /// The keys of the records that the messages name.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        let hint = |message: &Event| serde_json::from_str::<Hint>(&message.body).ok();
        self.messages.iter().filter_map(hint).map(|Hint { pk }| pk)
    }
}

#[derive(serde::Deserialize)]
struct Hint {
    pk: String,
}

/// What an HTTP API takes for an answer.
#[derive(serde::Serialize)]
pub struct Answer {
    #[serde(rename = "statusCode")]
    status_code: u16,
    body: &'static str,
}

/// Both clients, and where they write.
pub struct Stack {
    /// DynamoDB.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// SQS.
    pub sqs: aws_sdk_sqs::Client,
    /// The table of the first.
    pub table: String,
    /// Its other table.
    pub domain: String,
    /// The queue of the second.
    pub queue: String,
}

impl Stack {
    /// Makes both clients and opens their connections.
    ///
    /// # Errors
    /// If a variable is missing.
    #[expect(clippy::disallowed_methods, reason = "nothing of the product is in what it is compared with")]
    pub async fn start() -> Result<Self, Error> {
        let https =
            aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let config = aws_config::defaults(aws_config::BehaviorVersion::latest()).http_client(https).load().await;
        let stack = Self {
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            sqs: aws_sdk_sqs::Client::new(&config),
            table: std::env::var("HOOKONCE_INBOX_TABLE")?,
            domain: std::env::var("HOOKONCE_DOMAIN_TABLE")?,
            queue: std::env::var("HOOKONCE_QUEUE_URL")?,
        };
        let item = stack.dynamodb.get_item().table_name(&stack.table).key("pk", AttributeValue::S("none".to_owned()));
        let attributes =
            stack.sqs.get_queue_attributes().queue_url(&stack.queue).attribute_names(QueueAttributeName::QueueArn);
        let (item, attributes) = tokio::join!(item.send(), attributes.send());
        item?;
        attributes?;
        Ok(stack)
    }
}

/// Answers each event with 200 after the work is done.
///
/// # Errors
/// Those of the runtime.
pub async fn answer<E, Work>(work: Work) -> Result<(), Error>
where
    E: for<'a> serde::Deserialize<'a>,
    Work: AsyncFn(&E) -> Result<(), Error>,
{
    lambda_runtime::run(service_fn(async |event: LambdaEvent<E>| {
        work(&event.payload).await?;
        Ok::<_, Error>(Answer { status_code: 200, body: r#"{"status":"accepted"}"# })
    }))
    .await
}
