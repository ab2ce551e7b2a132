//! Writes `docs/capacity.md`: how far a stack goes, which limit comes first, and what an event costs.
//!
//! The words of the page stand in `page.txt`, with a name in the place of each figure. What an event costs is counted
//! by a test on the deployed functions, which also compares the page. What AWS allows and asks for it stands in
//! `limits.rs`, each with its source.

pub mod limits;

use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{SHARDS_MAX, SHARDS_MIN, Timing};
use hookonce_protocol::worker::{VISIBILITY_MAX, WAITING_VISIBILITY_MAX};
use hookonce_runtime::endpoint::CACHE_ENTRIES_MAX;

use self::limits::{
    ALL, CONCURRENCY, FAIR_QUEUE_PRICE, GATEWAY_PRICE, GATEWAY_REQUESTS, IN_FLIGHT, INVOCATION_PRICE, Limit,
    NEW_TABLE_WRITES, PARTITION_READS, PARTITION_WRITES, QUEUE_PRICE, READ_PRICE, SOURCE_CONCURRENCY, TABLE_WRITES,
    WRITE_PRICE,
};

/// What the page is computed from.
#[derive(Debug)]
pub struct Counted {
    /// What an event costs.
    pub event: PerEvent,
    /// What an effect costs.
    pub effect: PerEffect,
    /// What the template sets.
    pub defaults: Defaults,
}

/// What an accepted event of the payments handler costs, from the delivery to the commit. Write units are as AWS counts
/// them: whole KB of the larger item, before or after; twice that in a transaction; one for each index entry that comes
/// or goes.
#[derive(Debug)]
pub struct PerEvent {
    /// The stored record, in bytes.
    pub record_bytes: u32,
    /// Write units of the inbox table itself.
    pub inbox_units: u32,
    /// Write units of the index of due records.
    pub due_units: u32,
    /// Write units of the journal.
    pub journal_units: u32,
    /// Write units of the domain table.
    pub domain_units: u32,
    /// Write units of the domain item that most events share.
    pub shared_item_units: u32,
    /// Read units.
    pub read_units: u32,
    /// Messages that are sent.
    pub sends: u32,
}

impl PerEvent {
    fn write_units(&self) -> u32 {
        self.inbox_units + self.due_units + self.journal_units + self.domain_units
    }
}

/// What one effect costs beside its event, from the commit to the answer of its destination.
#[derive(Debug)]
pub struct PerEffect {
    /// The stored record, in bytes.
    pub record_bytes: u32,
    /// Write units of the inbox table itself.
    pub inbox_units: u32,
    /// Write units of the indexes.
    pub index_units: u32,
    /// Read units.
    pub read_units: u32,
}

/// Defaults of the template's parameters.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// `IndexShards`.
    pub index_shards: u32,
    /// `WorkerConcurrencyMax`.
    pub worker_concurrency_max: u32,
    /// `RequestsPerSecondMax`.
    pub requests_per_second_max: u32,
}

/// Events per second.
const RATES: [u32; 3] = [1_000, 10_000, 100_000];

/// How much of a partition is planned for: keys are spread by a hash, never evenly.
const FILLED: f64 = 0.7;

/// How long the functions take, in seconds. Nobody has measured this on AWS: put your own figures in their place.
const WEBHOOK_SECONDS: f64 = 0.030;
const BATCH_SECONDS: f64 = 0.300;

/// Messages in a batch.
const BATCH: f64 = 10.0;

/// Endpoints that receive deliveries all the time: the fewest is what the other sections count with.
const ACTIVE: [f64; 3] = [ENDPOINTS, 1_000.0, 10_000.0];
const ENDPOINTS: f64 = 100.0;

/// Deliveries per second for which the reads of documents are counted: the rates, and that of a small stack.
const READ_RATES: [u32; 4] = [200, 1_000, 10_000, 100_000];

/// How long a function keeps an endpoint's document, in seconds.
const KEPT_SECONDS: f64 = 300.0;

/// Runs of the relay in thirty days.
const RUNS: f64 = 43_200.0;

/// Something that ends at some rate.
struct Bottleneck {
    what: &'static str,
    /// Events per second.
    ends_at: f64,
    moved_by: &'static str,
}

fn bottlenecks(event: &PerEvent, defaults: Defaults) -> Vec<Bottleneck> {
    let bottleneck = |what, ends_at, moved_by| Bottleneck { what, ends_at, moved_by };
    let partitions = f64::from(defaults.index_shards) * PARTITION_WRITES.value * FILLED;
    let per_second = BATCH / BATCH_SECONDS;
    let mut bottlenecks = vec![
        bottleneck(
            "the worker",
            f64::from(defaults.worker_concurrency_max) * per_second,
            "`WorkerConcurrencyMax`, up to 1,000",
        ),
        bottleneck(
            "the gateway's limit in the template",
            f64::from(defaults.requests_per_second_max),
            "`RequestsPerSecondMax`",
        ),
        bottleneck(
            "the domain table while it is new",
            NEW_TABLE_WRITES.value / f64::from(event.domain_units),
            "time: it grows with its load; or warm throughput, bought before a launch",
        ),
        bottleneck(
            "the partition of the endpoints' documents",
            PARTITION_READS.value / reads_of_delivery(ENDPOINTS),
            "time: DynamoDB splits it",
        ),
        bottleneck(
            "the index of due records",
            partitions / f64::from(event.due_units),
            "`IndexShardsRead`, then `IndexShards`",
        ),
        bottleneck("the journal", partitions / f64::from(event.journal_units), "`IndexShardsRead`, then `IndexShards`"),
        bottleneck(
            "the domain table",
            TABLE_WRITES.value / f64::from(event.domain_units),
            "DynamoDB's quota per table",
        ),
        bottleneck("the inbox table", TABLE_WRITES.value / f64::from(event.inbox_units), "DynamoDB's quota per table"),
        bottleneck(
            "the gateway",
            GATEWAY_REQUESTS.value,
            "API Gateway's quota; events that come in batches need fewer requests",
        ),
        bottleneck(
            "the account's concurrency",
            CONCURRENCY.value / (WEBHOOK_SECONDS + BATCH_SECONDS / BATCH),
            "Lambda's quota of concurrent executions",
        ),
        bottleneck(
            "one event source",
            SOURCE_CONCURRENCY.value * per_second,
            "a faster handler, or a second stack: split the endpoints",
        ),
        bottleneck("messages in flight", IN_FLIGHT.value / BATCH_SECONDS, "a faster handler, or a second stack"),
        bottleneck(
            "one item that all events share, such as one customer's balance",
            PARTITION_WRITES.value / f64::from(event.shared_item_units),
            "another plan: items of their own for single events",
        ),
    ];
    bottlenecks.sort_by(|a, b| a.ends_at.total_cmp(&b.ends_at));
    bottlenecks
}

/// Shards for this rate: the next power of two.
fn shards(event: &PerEvent, rate: u32) -> String {
    let units = f64::from(rate) * f64::from(event.due_units);
    let mut shards = u32::from(SHARDS_MIN);
    while f64::from(shards) * PARTITION_WRITES.value * FILLED < units {
        shards *= 2;
    }
    number_or_stacks(f64::from(shards), f64::from(SHARDS_MAX))
}

/// The page.
pub fn page(counted: &Counted) -> String {
    let Counted { event, effect, defaults } = counted;
    let timing = Timing::standard();
    let (prices, price) = prices(event);
    format!(
        include_str!("page.txt"),
        record_bytes = event.record_bytes,
        inbox_units = event.inbox_units,
        due_units = event.due_units,
        journal_units = event.journal_units,
        domain_units = event.domain_units,
        write_units = event.write_units(),
        read_units = event.read_units,
        resend_units = event.record_bytes.div_ceil(1_024) + event.due_units,
        effect_bytes = effect.record_bytes,
        effect_inbox = effect.inbox_units,
        effect_indexes = effect.index_units,
        effect_units = effect.inbox_units + effect.index_units,
        effect_reads = effect.read_units,
        effect_price = effect_price(effect),
        endpoints = grouped(ENDPOINTS),
        webhook_ms = grouped(WEBHOOK_SECONDS * 1_000.0),
        batch_ms = grouped(BATCH_SECONDS * 1_000.0),
        filled = grouped(FILLED * 100.0),
        bottlenecks = bottleneck_rows(event, *defaults),
        first_bottlenecks = first_bottlenecks(event, *defaults),
        rates = heads(&RATES),
        needs = needs(event),
        documents = number_of(CACHE_ENTRIES_MAX),
        kept_seconds = grouped(KEPT_SECONDS),
        read_rates = heads(&READ_RATES),
        reads = reads(),
        partition_reads = grouped(PARTITION_READS.value),
        requests = grouped(f64::from(defaults.requests_per_second_max)),
        in_flight = grouped(IN_FLIGHT.value),
        handler_attempts = timing.attempts_max,
        hidden_seconds = grouped(hidden_seconds(&timing)),
        visibility = VISIBILITY_MAX.as_seconds(),
        failing = grouped((IN_FLIGHT.value / hidden_seconds(&timing)).floor()),
        waiting_visibility = WAITING_VISIBILITY_MAX.as_seconds(),
        waiting_seconds = grouped(waiting_seconds()),
        waiting = grouped((IN_FLIGHT.value / waiting_seconds()).floor()),
        outages = outages(&timing),
        prices = prices,
        price = price,
        runs = grouped(RUNS),
        at_rest = at_rest(),
        limits = limits(),
    )
}

/// A million effects, in dollars.
fn effect_price(effect: &PerEffect) -> f64 {
    let PerEffect { inbox_units, index_units, read_units, .. } = effect;
    f64::from(inbox_units + index_units) * WRITE_PRICE
        + f64::from(*read_units) * READ_PRICE
        + 3.0 * (QUEUE_PRICE + FAIR_QUEUE_PRICE)
        + INVOCATION_PRICE
}

fn bottleneck_rows(event: &PerEvent, defaults: Defaults) -> String {
    let row = |bottleneck: &Bottleneck| {
        format!("| {} | {} | {} |\n", grouped(bottleneck.ends_at.floor()), bottleneck.what, bottleneck.moved_by)
    };
    bottlenecks(event, defaults).iter().map(row).collect()
}

/// What ends before each rate.
fn first_bottlenecks(event: &PerEvent, defaults: Defaults) -> String {
    let first = |rate: u32| {
        let before: Vec<_> = bottlenecks(event, defaults)
            .iter()
            .filter(|bottleneck| bottleneck.ends_at < f64::from(rate))
            .map(|bottleneck| bottleneck.what)
            .collect();
        let list = if before.is_empty() { "nothing".to_owned() } else { before.join(", ") };
        format!("- **{} events per second.** Ends before: {list}.\n", grouped(f64::from(rate)))
    };
    RATES.map(first).concat()
}

fn heads(rates: &[u32]) -> String {
    rates.iter().map(|rate| format!("{}/s", grouped(f64::from(*rate)))).collect::<Vec<_>>().join(" | ")
}

/// What each rate needs.
fn needs(event: &PerEvent) -> String {
    let times = |rate: u32, units: u32| grouped(f64::from(rate) * f64::from(units));
    let row = |name: &str, cell: &dyn Fn(u32) -> String| format!("| {name} | {} |\n", RATES.map(cell).join(" | "));
    let workers = |rate: u32| f64::from(rate) * BATCH_SECONDS / BATCH;
    let webhooks = |rate: u32| f64::from(rate) * WEBHOOK_SECONDS;
    [
        row("`IndexShards`", &|rate| shards(event, rate)),
        row("`WorkerConcurrencyMax`", &|rate| number_or_stacks(workers(rate), SOURCE_CONCURRENCY.value)),
        row("concurrent executions", &|rate| grouped(workers(rate) + webhooks(rate))),
        row("and of handlers that are Lambda functions, at most", &|rate| grouped(workers(rate) * BATCH)),
        row("requests per second at the gateway, without batches", &|rate| grouped(f64::from(rate))),
        row("write units per second, inbox table", &|rate| times(rate, event.inbox_units)),
        row("write units per second, index of due records", &|rate| times(rate, event.due_units)),
        row("write units per second, journal", &|rate| times(rate, event.journal_units)),
        row("write units per second, domain table", &|rate| times(rate, event.domain_units)),
        row("reads of endpoint documents per second", &|rate| {
            grouped((f64::from(rate) * reads_of_delivery(ENDPOINTS)).ceil())
        }),
    ]
    .concat()
}

/// A number that has a maximum per stack.
fn number_or_stacks(needed: f64, most: f64) -> String {
    let more = if needed > most { ": more than one stack" } else { "" };
    format!("{}{more}", grouped(needed))
}

/// Reads of documents for each delivery, with so many endpoints that receive all the time. An instance keeps a document
/// for [`KEPT_SECONDS`] and reads it again with the next delivery for it. There are [`WEBHOOK_SECONDS`] instances for
/// each delivery per second, and each gets its share of every endpoint.
fn reads_of_delivery(endpoints: f64) -> f64 {
    let pause = WEBHOOK_SECONDS * endpoints;
    pause / (KEPT_SECONDS + pause)
}

/// Reads of documents per second.
fn reads() -> String {
    let cell = |endpoints: f64, rate: u32| {
        let reads = (f64::from(rate) * reads_of_delivery(endpoints)).ceil();
        let needs = if reads > PARTITION_READS.value { ": once the partition is split" } else { "" };
        format!("{}{needs}", grouped(reads))
    };
    let row = |endpoints: f64| {
        let cells = READ_RATES.map(|rate| cell(endpoints, rate)).join(" | ");
        format!("| {} | {cells} |\n", grouped(endpoints))
    };
    ACTIVE.map(row).concat()
}

fn number_of(count: usize) -> String {
    grouped(float(count))
}

/// A count, of which none here is near 2^32.
fn float<Count>(count: Count) -> f64
where
    u32: TryFrom<Count>,
{
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// How long the messages of a record whose handler always fails are hidden in all, in seconds, on average. Of a
/// back-off drawn below a bound that exceeds what a message is hidden for, only the shorter draws hide it.
fn hidden_seconds(timing: &Timing) -> f64 {
    let seconds = |length: Millis| float(length.as_seconds());
    let longest = seconds(VISIBILITY_MAX);
    let of_one = |attempts| {
        let bound = seconds(timing.backoff_bound(attempts));
        if bound <= longest { bound / 2.0 } else { longest * longest / (2.0 * bound) }
    };
    (0..timing.attempts_max - 1).map(of_one).sum()
}

/// For how many seconds the messages of a record are hidden at most while its handler is unavailable. A pause lasts at
/// least half as long as the record has waited, so the last one that hides a message begins after two of the longest.
fn waiting_seconds() -> f64 {
    3.0 * float(WAITING_VISIBILITY_MAX.as_seconds())
}

/// How often the relay sends the hint of one record again in this time.
fn resends(timing: &Timing, length: Millis) -> i64 {
    let (mut at, mut count) = (timing.first_resend.0, 0);
    while at <= length.0 {
        at += timing.resend_interval(count).0;
        count += 1;
    }
    count
}

/// How many records an outage of the tables hides.
fn outages(timing: &Timing) -> String {
    let row = |hours: i64| {
        let messages = float(1 + resends(timing, Millis::hours(hours)));
        let records = grouped((IN_FLIGHT.value / messages).floor());
        format!(
            "| the tables do not answer the worker, for {hours} h | all the time, up to {messages} messages for each record | {records} records |\n"
        )
    };
    [1, 8, 24].map(row).concat()
}

/// What a million events cost, line by line and together.
fn prices(event: &PerEvent) -> (String, f64) {
    let requests = f64::from(event.sends) + 2.0;
    let lines = [
        ("writes", f64::from(event.write_units()), WRITE_PRICE),
        ("reads", f64::from(event.read_units), READ_PRICE),
        ("gateway", 1.0, GATEWAY_PRICE),
        ("queue: one send, at most one receive and one delete", requests, QUEUE_PRICE),
        ("queue: surcharge, because messages name their group", requests, FAIR_QUEUE_PRICE),
        ("functions, without their time", 2.0, INVOCATION_PRICE),
    ];
    let row = |(what, count, price): &(&str, f64, f64)| {
        format!("| {what} | {count} | ${price} per million | ${:.2} |\n", count * price)
    };
    (lines.iter().map(row).collect(), lines.iter().map(|(_, count, price)| count * price).sum())
}

/// What the relay reads in thirty days.
fn at_rest() -> String {
    let row = |shards: u32| {
        let looked_at = u32::from(SHARDS_MAX).min(shards + 1);
        let reads = RUNS * 4.0 * f64::from(looked_at);
        format!("| {shards} | {} | ${:.2} |\n", grouped(reads), reads * READ_PRICE / 1_000_000.0)
    };
    [16, 64, 256, 1_024].map(row).concat()
}

fn limits() -> String {
    let row = |limit: &Limit| format!("| {} | {} | [AWS]({}) |\n", grouped(limit.value), limit.what, limit.source);
    ALL.iter().map(row).collect()
}

/// A whole number with its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}
