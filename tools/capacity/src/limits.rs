//! What AWS allows, and what it asks for it (us-east-1), as of November 2026.

/// A figure of AWS, with the page that gives it.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The figure.
    pub value: f64,
    /// What it is.
    pub what: &'static str,
    /// The page.
    pub source: &'static str,
}

macro_rules! limits {
    ($($name:ident = $value:literal, $what:literal, $source:literal;)+) => {
        $(#[doc = $what] pub const $name: Limit = Limit { value: $value, what: $what, source: $source };)+

        /// All of them.
        pub const ALL: &[Limit] = &[$($name),+];
    };
}

limits! {
    PARTITION_READS = 3_000.0, "read units per second of one partition",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html";
    PARTITION_WRITES = 1_000.0, "write units per second of one partition",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html";
    TABLE_WRITES = 40_000.0, "write units per second of one table, or of one index: a quota that AWS raises on request",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html";
    NEW_TABLE_WRITES = 4_000.0, "write units per second that a new table takes at once; later twice its earlier peak within half an hour",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html";
    GATEWAY_REQUESTS = 10_000.0, "requests per second of all gateways of an account and region: a quota that AWS raises on request",
        "https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html";
    CONCURRENCY = 1_000.0, "concurrent executions of all functions of an account: a quota that AWS raises on request; new accounts have less",
        "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html";
    SOURCE_CONCURRENCY = 1_000.0, "the highest `WorkerConcurrencyMax`",
        "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html";
    IN_FLIGHT = 120_000.0, "messages of a standard queue that were received and not deleted",
        "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html";
}

/// Dollars per million.
pub(super) const WRITE_PRICE: f64 = 0.625;
pub(super) const READ_PRICE: f64 = 0.125;
pub(super) const GATEWAY_PRICE: f64 = 1.0;
pub(super) const QUEUE_PRICE: f64 = 0.4;
/// On top of the queue's price, for requests with messages that name their group.
pub(super) const FAIR_QUEUE_PRICE: f64 = 0.1;
pub(super) const INVOCATION_PRICE: f64 = 0.2;
