//! Creates the stack's tables and queues through the SDK, as `CloudFormation` does on AWS.
//!
//! The calls work with the embedded backends, DynamoDB Local and `ElasticMQ`. They change nothing that is already
//! right, so they run at every start.

mod location;
mod own;
mod queue;
mod table;

use aws_sdk_dynamodb::types::ScalarAttributeType;

pub use self::location::StackLocation;
pub use self::own::{KeyPart, OwnTableShape};
pub use self::queue::{QueueRef, queue_policy};
pub use self::table::documents_policy;

/// Names and settings of the stack's tables and queues. Durations are in seconds, as SQS expects them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackShape {
    /// The table of records.
    pub inbox_table: String,
    /// The table of domain keys and of the handlers' own items.
    pub domain_table: String,
    /// The table of documents.
    pub documents_table: String,
    /// User tables.
    pub own_tables: Vec<OwnTableShape>,
    /// The queue of hints.
    pub queue: String,
    /// The queue of hints of events whose handler is slow.
    pub slow_queue: String,
    /// The queue for messages of the other queues that were received too often.
    pub dead_letter_queue: String,
    /// The queue of hints of effects.
    pub effects_queue: String,
    /// How long a received message stays hidden. At least six times the worker's timeout.
    pub visibility_seconds: u32,
    /// Receives after which a message goes to the dead-letter queue.
    pub receive_count_max: u32,
    /// How long the queue keeps a message.
    pub retention_seconds: u32,
    /// How long the dead-letter queue keeps a message, counted from its first send.
    pub dead_letter_retention_seconds: u32,
}

impl StackShape {
    /// The deployed stack's settings, under names that begin with `stack`.
    pub fn deployed(stack: &str) -> Self {
        Self {
            inbox_table: format!("{stack}-inbox"),
            domain_table: format!("{stack}-domain"),
            documents_table: format!("{stack}-documents"),
            own_tables: Vec::new(),
            queue: format!("{stack}-hints"),
            slow_queue: format!("{stack}-slow"),
            dead_letter_queue: format!("{stack}-hints-dead"),
            effects_queue: format!("{stack}-effects"),
            visibility_seconds: 360,
            receive_count_max: 100,
            retention_seconds: 7 * DAY_SECONDS,
            dead_letter_retention_seconds: 14 * DAY_SECONDS,
        }
    }
}

const DAY_SECONDS: u32 = 86_400;

/// What was created, by the names that the functions are configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackResources {
    /// The table of records.
    pub inbox_table: String,
    /// The table of domain keys and of the handlers' own items.
    pub domain_table: String,
    /// The table of documents. A stack on a laptop keeps them in files, and leaves it empty.
    pub documents_table: String,
    /// User tables: alias and name.
    pub own_tables: Vec<(String, String)>,
    /// The queue of hints.
    pub queue: QueueRef,
    /// The queue of hints of events whose handler is slow.
    pub slow_queue: QueueRef,
    /// The dead-letter queue.
    pub dead_letter_queue: QueueRef,
    /// The queue of hints of effects.
    pub effects_queue: QueueRef,
}

/// Why the stack could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// DynamoDB refused or did not answer.
    #[error("creating the table {table} failed")]
    Table {
        /// The table.
        table: String,
        /// The error of DynamoDB.
        source: Box<aws_sdk_dynamodb::Error>,
    },
    /// A table of that name exists with other keys, indexes or TTL attribute, for example from another version.
    #[error("the table {table} exists with a different {difference}")]
    TableDiffers {
        /// The table.
        table: String,
        /// What is different.
        difference: &'static str,
    },
    /// The table did not become usable in time.
    #[error("the table {table} was not ready in time")]
    TableNotReady {
        /// The table.
        table: String,
    },
    /// SQS refused or did not answer.
    #[error("creating the queue {queue} failed")]
    Queue {
        /// The queue.
        queue: String,
        /// The error of SQS.
        source: Box<aws_sdk_sqs::Error>,
    },
    /// SQS answered without the queue's URL or ARN.
    #[error("the server did not return the URL or ARN of the queue {queue}")]
    QueueAddress {
        /// The queue.
        queue: String,
    },
}

/// Creates the tables and queues that are missing.
///
/// # Errors
/// See [`CreateError`]. What exists by then stays, and the call can be repeated.
pub async fn create_stack(
    dynamodb: &aws_sdk_dynamodb::Client,
    sqs: &aws_sdk_sqs::Client,
    shape: &StackShape,
) -> Result<StackResources, CreateError> {
    table::create(dynamodb, &inbox_table(&shape.inbox_table)).await?;
    table::create(dynamodb, &domain_table(&shape.domain_table)).await?;
    own::create(dynamodb, &shape.documents_table, &documents_table()).await?;
    let mut own_tables = Vec::with_capacity(shape.own_tables.len());
    for own in &shape.own_tables {
        // The infix keeps an alias such as `inbox` apart from the stack's own tables.
        let name = format!("{}-own-{}", shape.domain_table, own.alias);
        own::create(dynamodb, &name, own).await?;
        own_tables.push((own.alias.clone(), name));
    }
    let dead_letter_queue = queue::create(sqs, &dead_letter_queue(shape)).await?;
    let queue = queue::create(sqs, &hint_queue(shape, &shape.queue, &dead_letter_queue)).await?;
    let slow_queue = queue::create(sqs, &hint_queue(shape, &shape.slow_queue, &dead_letter_queue)).await?;
    let effects_queue = queue::create(sqs, &hint_queue(shape, &shape.effects_queue, &dead_letter_queue)).await?;
    Ok(StackResources {
        inbox_table: shape.inbox_table.clone(),
        domain_table: shape.domain_table.clone(),
        documents_table: shape.documents_table.clone(),
        own_tables,
        queue,
        slow_queue,
        dead_letter_queue,
        effects_queue,
    })
}

/// The TTL attribute of the inbox and the domain table, epoch seconds.
const TTL_ATTRIBUTE: &str = "hookonce_expires_at";

fn inbox_table(name: &str) -> table::TableShape<'_> {
    table::TableShape {
        name,
        hash_key: "pk",
        ttl_attribute: TTL_ATTRIBUTE,
        indexes: &[
            table::IndexShape { name: "due", hash_key: "due_shard", range_key: "due_at" },
            table::IndexShape { name: "journal", hash_key: "journal_shard", range_key: "received_at" },
        ],
    }
}

fn domain_table(name: &str) -> table::TableShape<'_> {
    table::TableShape { name, hash_key: "pk", ttl_attribute: TTL_ATTRIBUTE, indexes: &[] }
}

fn documents_table() -> OwnTableShape {
    let part = |name: &str| (name.to_owned(), ScalarAttributeType::S);
    OwnTableShape { alias: String::new(), partition: part("kind"), sort: Some(part("id")) }
}

fn dead_letter_queue(shape: &StackShape) -> queue::QueueShape<'_> {
    queue::QueueShape {
        name: &shape.dead_letter_queue,
        visibility_seconds: shape.visibility_seconds,
        retention_seconds: shape.dead_letter_retention_seconds,
        redrive: None,
    }
}

fn hint_queue<'a>(shape: &StackShape, name: &'a str, dead_letter_queue: &'a QueueRef) -> queue::QueueShape<'a> {
    queue::QueueShape {
        name,
        visibility_seconds: shape.visibility_seconds,
        retention_seconds: shape.retention_seconds,
        redrive: Some(queue::Redrive {
            target_arn: &dead_letter_queue.arn,
            receive_count_max: shape.receive_count_max,
        }),
    }
}

/// The keys of every index and table are a string, then a number.
const HASH_KEY_TYPE: ScalarAttributeType = ScalarAttributeType::S;
const RANGE_KEY_TYPE: ScalarAttributeType = ScalarAttributeType::N;
