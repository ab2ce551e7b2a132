//! What AWS allows, and what it asks for it (us-east-1), as of November 2026.

/// A figure of AWS, with the page that gives it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// The figure.
    pub(super) value: f64,
    /// What it is.
    pub(super) what: &'static str,
    /// The page.
    pub(super) source: &'static str,
}

pub(super) const PARTITION_WRITES: Limit = Limit {
    value: 1_000.0,
    what: "write units per second of one partition",
    source: "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html",
};

pub(super) const TABLE_WRITES: Limit = Limit {
    value: 40_000.0,
    what: "write units per second of one table, or of one index: a quota that AWS raises on request",
    source: "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html",
};

pub(super) const NEW_TABLE_WRITES: Limit = Limit {
    value: 4_000.0,
    what: "write units per second that a new table takes at once; later twice its earlier peak within half an hour",
    source: "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html",
};

pub(super) const GATEWAY_REQUESTS: Limit = Limit {
    value: 10_000.0,
    what: "requests per second of all gateways of an account and region: a quota that AWS raises on request",
    source: "https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html",
};

pub(super) const CONCURRENCY: Limit = Limit {
    value: 1_000.0,
    what: "concurrent executions of all functions of an account: a quota that AWS raises on request; new accounts have less",
    source: "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
};

pub(super) const SOURCE_CONCURRENCY: Limit = Limit {
    value: 1_000.0,
    what: "the highest `WorkerConcurrencyMax`",
    source: "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html",
};

pub(super) const PARAMETER_READS: Limit = Limit {
    value: 40.0,
    what: "reads per second of Parameter Store",
    source: "https://docs.aws.amazon.com/general/latest/gr/ssm.html",
};

pub(super) const PARAMETER_READS_RAISED: Limit = Limit {
    value: 1_000.0,
    what: "the same with higher throughput, a paid setting, for reads of several parameters",
    source: "https://docs.aws.amazon.com/general/latest/gr/ssm.html",
};

pub(super) const IN_FLIGHT: Limit = Limit {
    value: 120_000.0,
    what: "messages of a standard queue that were received and not deleted",
    source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html",
};

pub(super) const ALL: [Limit; 9] = [
    PARTITION_WRITES,
    TABLE_WRITES,
    NEW_TABLE_WRITES,
    GATEWAY_REQUESTS,
    CONCURRENCY,
    SOURCE_CONCURRENCY,
    PARAMETER_READS,
    PARAMETER_READS_RAISED,
    IN_FLIGHT,
];

/// Dollars per million.
pub(super) const WRITE_PRICE: f64 = 0.625;
pub(super) const READ_PRICE: f64 = 0.125;
pub(super) const GATEWAY_PRICE: f64 = 1.0;
pub(super) const QUEUE_PRICE: f64 = 0.4;
/// On top of the queue's price, for requests with messages that name their group.
pub(super) const FAIR_QUEUE_PRICE: f64 = 0.1;
pub(super) const INVOCATION_PRICE: f64 = 0.2;
