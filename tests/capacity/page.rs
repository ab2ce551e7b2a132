//! The page itself.

use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{SHARDS_MAX, SHARDS_MIN, Timing};
use hookonce_protocol::worker::VISIBILITY_MAX;
use hookonce_runtime::aws::ATTEMPTS_MAX;
use hookonce_runtime::deadline::PATIENCE_MAX;
use hookonce_runtime::endpoint::{ABSENT_PER_MINUTE_MAX, CACHE_ENTRIES_MAX, UNLISTED_PER_MINUTE_MAX};
use hookonce_runtime::index::SHARDS;
use hookonce_runtime::port::INDEX_TEXTS_MAX;

use super::cold_starts::cold_starts;
use super::count::{PerEffect, PerEvent};
use super::limits::{
    ALL, CONCURRENCY, FAIR_QUEUE_PRICE, GATEWAY_PRICE, GATEWAY_REQUESTS, IN_FLIGHT, INVOCATION_PRICE, NEW_TABLE_WRITES,
    PARAMETER_READS, PARAMETER_READS_RAISED, PARTITION_WRITES, QUEUE_PRICE, READ_PRICE, SOURCE_CONCURRENCY,
    TABLE_WRITES, WRITE_PRICE,
};
use crate::template::default_of;

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

/// Instances of the webhook function that run all the time.
const RUNNING: [f64; 3] = [100.0, 300.0, 1_000.0];

/// How long a function keeps an endpoint's document, in seconds.
const KEPT_SECONDS: f64 = 300.0;

/// Runs of the relay in thirty days.
const RUNS: f64 = 43_200.0;

/// Something that ends at some rate.
struct Wall {
    what: &'static str,
    /// Events per second.
    ends_at: f64,
    moved_by: &'static str,
}

fn walls(event: &PerEvent) -> Vec<Wall> {
    let wall = |what, ends_at, moved_by| Wall { what, ends_at, moved_by };
    let partitions = f64::from(u32::try_from(default_of("IndexShards")).unwrap()) * PARTITION_WRITES.value * FILLED;
    let number = |name| f64::from(u32::try_from(default_of(name)).unwrap());
    let units = |units: u64| f64::from(u32::try_from(units).unwrap());
    let per_second = BATCH / BATCH_SECONDS;
    let mut walls = vec![
        wall("the worker", number("WorkerConcurrencyMax") * per_second, "`WorkerConcurrencyMax`, up to 1,000"),
        wall("the gateway's limit in the template", number("RequestsPerSecondMax"), "`RequestsPerSecondMax`"),
        wall(
            "the domain table while it is new",
            NEW_TABLE_WRITES.value / units(event.domain_units),
            "time: it grows with its load; or warm throughput, bought before a launch",
        ),
        wall(
            "Parameter Store",
            PARAMETER_READS.value / reads_of_delivery(ENDPOINTS),
            "higher throughput in Parameter Store's settings",
        ),
        wall("the index of due records", partitions / units(event.due_units), "`IndexShardsRead`, then `IndexShards`"),
        wall("the journal", partitions / units(event.journal_units), "`IndexShardsRead`, then `IndexShards`"),
        wall("the domain table", TABLE_WRITES.value / units(event.domain_units), "DynamoDB's quota per table"),
        wall("the inbox table", TABLE_WRITES.value / units(event.inbox_units), "DynamoDB's quota per table"),
        wall(
            "the gateway",
            GATEWAY_REQUESTS.value,
            "API Gateway's quota; events that come in batches need fewer requests",
        ),
        wall(
            "the account's concurrency",
            CONCURRENCY.value / (WEBHOOK_SECONDS + BATCH_SECONDS / BATCH),
            "Lambda's quota of concurrent executions",
        ),
        wall(
            "one event source",
            SOURCE_CONCURRENCY.value * per_second,
            "a faster handler, or a second stack: split the endpoints",
        ),
        wall("messages in flight", IN_FLIGHT.value / BATCH_SECONDS, "a faster handler, or a second stack"),
        wall(
            "one item that all events share, such as one customer's balance",
            PARTITION_WRITES.value / units(event.shared_item_units),
            "another plan: items of their own for single events",
        ),
    ];
    walls.sort_by(|a, b| a.ends_at.total_cmp(&b.ends_at));
    walls
}

/// Shards for this rate: the next power of two.
fn shards(event: &PerEvent, rate: u32) -> u32 {
    let units = f64::from(rate) * f64::from(u32::try_from(event.due_units).unwrap());
    let mut shards = u32::from(SHARDS_MIN);
    while f64::from(shards) * PARTITION_WRITES.value * FILLED < units {
        shards *= 2;
    }
    assert!(shards <= u32::from(SHARDS_MAX), "{rate} events per second need {shards} shards");
    shards
}

pub(super) fn written(event: &PerEvent, effect: &PerEffect) -> String {
    [
        "# How far a stack goes\n\n\
         A program writes this page (`scripts/xtask capacity`), and a test compares it. What an event costs is counted on\n\
         the functions of this repository. What AWS allows is quoted, with its source below. Nothing here was measured on\n\
         AWS.\n"
            .to_owned(),
        one_event(event),
        one_effect(effect),
        ends(event),
        needs(event),
        documents(),
        together(),
        hidden(),
        groups(),
        costs(event),
        sources(),
    ]
    .join("\n")
}

fn one_event(event: &PerEvent) -> String {
    let PerEvent { record_bytes, inbox_units, due_units, journal_units, domain_units, .. } = event;
    format!(
        "## One event\n\n\
         The second invoice of a customer, with the payments handler and a record of {record_bytes} bytes:\n\n\
         | | |\n|---|---|\n\
         | webhook | 1 `PutItem`, 1 `SendMessage` |\n\
         | worker | 1 `BatchGetItem` and 1 `TransactWriteItems`; the reads of a batch are one call |\n\
         | inbox table | {inbox_units} write units: the claim, and twice that in the transaction |\n\
         | index of due records | {due_units} write units: an entry comes and goes |\n\
         | journal | {journal_units} write unit |\n\
         | domain table | {domain_units} write units: the domain key, a ledger entry and a balance, in the transaction |\n\
         | together | {} write units, {} read unit |\n\n\
         Each further KB of a record adds 3 write units to the inbox table. A re-send by the relay costs {} write units: the\n\
         record, and an entry that goes and comes. Records are deleted by their TTL at no cost.\n",
        event.write_units(),
        event.read_units,
        event.record_bytes.div_ceil(1_024) + event.due_units,
    )
}

fn one_effect(effect: &PerEffect) -> String {
    let PerEffect { record_bytes, inbox_units, index_units, read_units } = effect;
    let together = inbox_units + index_units;
    let price = f64::from(u32::try_from(together).unwrap()) * WRITE_PRICE
        + f64::from(u32::try_from(*read_units).unwrap()) * READ_PRICE
        + 3.0 * (QUEUE_PRICE + FAIR_QUEUE_PRICE)
        + INVOCATION_PRICE;
    format!(
        "## One effect\n\n\
         An [effect](effects.md) comes on top of its event. One whose destination answers at once, with a record of\n\
         {record_bytes} bytes:\n\n\
         | | |\n|---|---|\n\
         | worker | 1 item more in the transaction; 1 `SendMessage` after it, for up to ten effects |\n\
         | dispatcher | 1 `GetItem`, 2 `UpdateItem`: before the call and after it |\n\
         | inbox table | {inbox_units} write units: 2 in the transaction, 1 before the call, 1 after it |\n\
         | indexes | {index_units} write units |\n\
         | together | {together} write units, {read_units} read unit |\n\
         | a million of them, at most | ${price:.2} for writes, reads, the queue and invocations |\n\n\
         Each further KB of a record adds 4 write units, so an effect with 64 KB of stored payload costs about 260. Each call that\n\
         is repeated costs 2 more updates and a re-send. The dispatcher's time comes on top: it waits for the destination.\n",
    )
}

fn ends(event: &PerEvent) -> String {
    let row = |wall: &Wall| format!("| {} | {} | {} |\n", grouped(wall.ends_at.floor()), wall.what, wall.moved_by);
    let rows: String = walls(event).iter().map(row).collect();
    let first = |rate: u32| {
        let before: Vec<_> =
            walls(event).iter().filter(|wall| wall.ends_at < f64::from(rate)).map(|wall| wall.what).collect();
        let list = if before.is_empty() { "nothing".to_owned() } else { before.join(", ") };
        format!("- **{} events per second.** Ends before: {list}.\n", grouped(f64::from(rate)))
    };
    let lists: String = RATES.into_iter().map(first).collect();
    format!(
        "## Where the first wall stands\n\n\
         With the template's default parameters, one event in each request, {} endpoints that receive all the time, {} ms\n\
         in the webhook function and {} ms for a batch of ten in the worker. Both times are assumptions: the metric\n\
         `delivery_duration_ms` and Lambda's `Duration` say what yours are. Of a partition {} % are planned for, because a\n\
         hash never spreads keys evenly. SQS itself has no limit on sends to a standard queue.\n\n\
         | events per second | what ends there | what moves it |\n|---:|---|---|\n{rows}\n{lists}",
        grouped(ENDPOINTS),
        grouped(WEBHOOK_SECONDS * 1_000.0),
        grouped(BATCH_SECONDS * 1_000.0),
        grouped(FILLED * 100.0),
    )
}

fn needs(event: &PerEvent) -> String {
    let times = |rate: u32, units: u64| grouped(f64::from(rate) * f64::from(u32::try_from(units).unwrap()));
    let row = |name: &str, cell: &dyn Fn(u32) -> String| format!("| {name} | {} |\n", RATES.map(cell).join(" | "));
    let workers = |rate: u32| f64::from(rate) * BATCH_SECONDS / BATCH;
    let webhooks = |rate: u32| f64::from(rate) * WEBHOOK_SECONDS;
    let rows = [
        row("`IndexShards`", &|rate| grouped(f64::from(shards(event, rate)))),
        row("`WorkerConcurrencyMax`", &|rate| {
            let needed = workers(rate);
            if needed > SOURCE_CONCURRENCY.value {
                format!("{}: more than one stack", grouped(needed))
            } else {
                grouped(needed)
            }
        }),
        row("concurrent executions", &|rate| grouped(workers(rate) + webhooks(rate))),
        row("requests per second at the gateway, without batches", &|rate| grouped(f64::from(rate))),
        row("write units per second, inbox table", &|rate| times(rate, event.inbox_units)),
        row("write units per second, index of due records", &|rate| times(rate, event.due_units)),
        row("write units per second, journal", &|rate| times(rate, event.journal_units)),
        row("write units per second, domain table", &|rate| times(rate, event.domain_units)),
        row("reads per second from Parameter Store", &|rate| {
            grouped((f64::from(rate) * reads_of_delivery(ENDPOINTS)).ceil())
        }),
    ];
    let heads = RATES.map(|rate| format!("{}/s", grouped(f64::from(rate))));
    format!("## What each rate needs\n\n| | {} |\n|---|---:|---:|---:|\n{}", heads.join(" | "), rows.concat())
}

/// Reads of documents for each delivery, with so many endpoints that receive all the time. An instance keeps a document for
/// [`KEPT_SECONDS`] and reads it again with the next delivery for it. There are [`WEBHOOK_SECONDS`] instances for each
/// delivery per second, and each gets its share of every endpoint.
fn reads_of_delivery(endpoints: f64) -> f64 {
    let pause = WEBHOOK_SECONDS * endpoints;
    pause / (KEPT_SECONDS + pause)
}

fn documents() -> String {
    let cell = |endpoints: f64, rate: u32| {
        let reads = (f64::from(rate) * reads_of_delivery(endpoints)).ceil();
        let needs = if reads > PARAMETER_READS_RAISED.value {
            ": too many"
        } else if reads > PARAMETER_READS.value {
            ": higher throughput"
        } else {
            ""
        };
        format!("{}{needs}", grouped(reads))
    };
    let row = |endpoints: f64| {
        let cells = READ_RATES.map(|rate| cell(endpoints, rate)).join(" | ");
        format!("| {} | {cells} |\n", grouped(endpoints))
    };
    let heads = READ_RATES.map(|rate| format!("{}/s", grouped(f64::from(rate)))).join(" | ");
    let strange = |instances: f64| {
        let per_second = |per_minute: usize| instances * f64::from(u32::try_from(per_minute).unwrap()) / 60.0;
        let reads = |per_minute: usize| grouped(per_second(per_minute).floor());
        let (listed, unknown) = (reads(UNLISTED_PER_MINUTE_MAX), reads(ABSENT_PER_MINUTE_MAX));
        format!("| {} | {listed} | {unknown} |\n", grouped(instances))
    };
    format!(
        "## Reads of endpoint documents\n\n\
         An instance of the webhook function keeps up to {} documents for {} s each, and reads one again with the next\n\
         delivery for its endpoint. If all endpoints receive as much, spread evenly over the instances, these are the reads\n\
         per second, by endpoints that receive all the time and deliveries per second:\n\n\
         | endpoints | {heads} |\n|---:|---:|---:|---:|---:|\n{}\n\
         More than {} reads per second need Parameter Store's higher throughput, which ends at {}. Few busy endpoints among\n\
         many quiet ones need fewer reads. With more than {} active endpoints an instance evicts the documents that it read\n\
         first.\n\n\
         Strangers who invent ids add reads: {UNLISTED_PER_MINUTE_MAX} a minute on each instance that knows the index of ids, and\n\
         {ABSENT_PER_MINUTE_MAX} a minute where there is none. Per second, at most:\n\n\
         | instances that run | with the index | without an index |\n|---:|---:|---:|\n{}",
        number_of(CACHE_ENTRIES_MAX),
        grouped(KEPT_SECONDS),
        ACTIVE.map(row).concat(),
        grouped(PARAMETER_READS.value),
        grouped(PARAMETER_READS_RAISED.value),
        number_of(CACHE_ENTRIES_MAX),
        RUNNING.map(strange).concat(),
    )
}

fn number_of(count: usize) -> String {
    grouped(f64::from(u32::try_from(count).unwrap()))
}

/// Instances of the webhook function that start within one second.
const STARTS: [u64; 3] = [80, 300, 1_000];

fn together() -> String {
    let row = |starts: u64| {
        let slow = cold_starts(starts, 1, PARAMETER_READS.value);
        let raised = cold_starts(starts, 1, PARAMETER_READS_RAISED.value);
        format!(
            "| {} | {} | {:.1} s | {:.1} s | {} | {}, the last after {:.1} s |\n",
            grouped(f64::from(u32::try_from(starts).unwrap())),
            number_of(slow.failed),
            slow.half.as_secs_f64(),
            slow.last.as_secs_f64(),
            number_of(slow.tried),
            number_of(raised.failed),
            raised.last.as_secs_f64(),
        )
    };
    let rows: String = STARTS.map(row).concat();
    format!(
        "## Instances that start together\n\n\
         An instance of the webhook function that has just started reads the document of the first endpoint that it gets a\n\
         delivery for. The same request brings along {INDEX_TEXTS_MAX} of the {SHARDS} texts of the index of ids, so that an id that a\n\
         stranger invents costs one read if the instance knows nothing yet, and {} reads together bring the whole index. For\n\
         10,000 endpoints that is 40 KB.\n\n\
         Parameter Store answers {} reads in a second, to the whole account. So of N instances that start together the last has\n\
         its turn about N / {} seconds later. A read that is throttled comes again after a pause with jitter, at most\n\
         4 s, and its request waits for it up to {} s. A provider that does not wait as long delivers again and finds a duplicate.\n\
         The functions' own code against a model of that limit, in virtual time, each instance with one delivery. The\n\
         client repeats a throttled read itself, up to {ATTEMPTS_MAX} attempts, and each of them counts as tried:\n\n\
         | instances start in a second | answer 503 | half have their document after | the last after | reads tried | 503 at {} reads per second |\n\
         |---:|---:|---:|---:|---:|---|\n{rows}\n\
         Anyone can start instances, and while they wait, they count as concurrent executions. Higher throughput ends the wait:\n\
         `aws ssm update-service-setting --setting-id /ssm/parameter-store/high-throughput-enabled --setting-value true`. AWS bills\n\
         it per read.\n",
        usize::from(SHARDS).div_ceil(INDEX_TEXTS_MAX),
        grouped(PARAMETER_READS.value),
        grouped(PARAMETER_READS.value),
        PATIENCE_MAX.as_secs(),
        grouped(PARAMETER_READS_RAISED.value),
    )
}

/// How long the messages of a record whose handler always fails are hidden in all, in seconds, on average. Of a back-off
/// drawn below a bound that exceeds what a message is hidden for, only the shorter draws hide it.
fn hidden_seconds(timing: &Timing) -> f64 {
    let seconds = |length: Millis| f64::from(u32::try_from(length.as_seconds()).unwrap());
    let longest = seconds(VISIBILITY_MAX);
    let of_one = |attempts| {
        let bound = seconds(timing.backoff_bound(attempts));
        if bound <= longest { bound / 2.0 } else { longest * longest / (2.0 * bound) }
    };
    (0..timing.attempts_max - 1).map(of_one).sum()
}

/// How often the relay sends the hint of one record again in this time.
fn resends(timing: &Timing, length: Millis) -> i64 {
    let (mut at, mut count) = (timing.lease.0, 0);
    while at <= length.0 {
        at += timing.resend_interval(count).0;
        count += 1;
    }
    count
}

fn hidden() -> String {
    let timing = Timing::standard();
    let seconds = hidden_seconds(&timing);
    let row = |hours: i64| {
        let messages = f64::from(u32::try_from(1 + resends(&timing, Millis::hours(hours))).unwrap());
        let records = grouped((IN_FLIGHT.value / messages).floor());
        format!(
            "| the tables do not answer the worker, for {hours} h | all the time, up to {messages} messages for each record | {records} records |\n"
        )
    };
    let rows: String = [1, 8, 24].map(row).concat();
    format!(
        "## Messages that wait hidden\n\n\
         A message that failed is hidden for its back-off, and a hidden message is in flight. SQS hands out no more once {} are.\n\n\
         | what fails | hidden | the limit is reached at |\n|---|---|---:|\n\
         | handlers, in all of {} attempts | {} s for each record, on average; a back-off of more than {} s hides nothing, the relay sends again | {} failing events per second |\n\
         {rows}\n\
         Beyond that, the worker gets nothing new until messages come back from their back-off, also for endpoints that\n\
         work. Nothing is lost: deliveries are still accepted, and each has its record. The relay goes on with its schedule, but\n\
         what it sends waits in the queue, too. The alarm `MessagesAreHidden` rings at three quarters of the limit; its first\n\
         step is in the [runbook](runbook.md#messages-are-hidden). AWS raises the quota on request.\n",
        grouped(IN_FLIGHT.value),
        timing.attempts_max,
        grouped(seconds),
        VISIBILITY_MAX.as_seconds(),
        grouped((IN_FLIGHT.value / seconds).floor()),
    )
}

fn groups() -> String {
    "## One endpoint among others\n\n\
     Each message names its endpoint as its group (`MessageGroupId`). A standard queue orders nothing by it. When one\n\
     group holds more than a tenth of the messages in flight, and at least thirty, SQS prefers the messages of the others\n\
     ([fair queues](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html)). So\n\
     the ten thousand events of one endpoint's envelope delay its own events, and hardly those of others.\n\n\
     On AWS this is not measured yet: no server for a laptop favours quiet groups. In a test, one endpoint sends 500 messages and\n\
     then another one sends a single message. Both the embedded queue, which checks the names and leaves them out, and ElasticMQ,\n\
     which takes them, hand out more than half of the 500 before it (`a_quiet_endpoint_waits_for_a_noisy_one`). The workers and the\n\
     tables are shared as before.\n"
        .to_owned()
}

fn costs(event: &PerEvent) -> String {
    let units = |units: u64| f64::from(u32::try_from(units).unwrap());
    let requests = units(event.sends) + 2.0;
    let lines = [
        ("writes", units(event.write_units()), WRITE_PRICE),
        ("reads", units(event.read_units), READ_PRICE),
        ("gateway", 1.0, GATEWAY_PRICE),
        ("queue: one send, at most one receive and one delete", requests, QUEUE_PRICE),
        ("queue: surcharge, because messages name their group", requests, FAIR_QUEUE_PRICE),
        ("functions, without their time", 2.0, INVOCATION_PRICE),
    ];
    let row = |(what, count, price): &(&str, f64, f64)| {
        format!("| {what} | {count} | ${price} per million | ${:.2} |\n", count * price)
    };
    let rows: String = lines.iter().map(row).collect();
    let total: f64 = lines.iter().map(|(_, count, price)| count * price).sum();
    let rest = |shards: u32| {
        let reads = RUNS * 3.0 * f64::from(shards);
        format!("| {shards} | {} | ${:.2} |\n", grouped(reads), reads * READ_PRICE / 1_000_000.0)
    };
    let rest: String = [16, 64, 256, 1_024].map(rest).concat();
    format!(
        "## What it costs\n\nOne million events, each with a request of its own:\n\n\
         | | for each event | price | |\n|---|---:|---|---:|\n{rows}| **together, at most** | | | **${total:.2}** |\n\n\
         The worker receives and deletes up to ten messages in one request, which makes the queue cheaper.\n\n\
         At rest, in thirty days, the relay reads three pages of each shard in each of its {} runs, one unit each at most:\n\n\
         | shards read | read units | |\n|---:|---:|---:|\n{rest}\n\
         What else costs something at rest stands in [deploy.md](deploy.md#what-it-costs).\n",
        grouped(RUNS),
    )
}

fn sources() -> String {
    let row = |limit: super::limits::Limit| {
        format!("| {} | {} | [AWS]({}) |\n", grouped(limit.value), limit.what, limit.source)
    };
    let rows: String = ALL.into_iter().map(row).collect();
    format!(
        "## Limits and prices\n\n| | | |\n|---:|---|---|\n{rows}\n\
         Quotas and prices are those of November 2026 in us-east-1 and change: look yours up in Service Quotas. The sources\n\
         of the prices stand in [deploy.md](deploy.md#what-it-costs). The surcharge for messages with a group is what a\n\
         third party reports ([cloudburn.io](https://cloudburn.io/blog/amazon-sqs-pricing)), not AWS.\n"
    )
}

/// A whole number with its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}
