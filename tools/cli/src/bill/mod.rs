//! A month's bill: the units that hookonce takes, counted, times prices that say where and when they were read.
//!
//! What is counted is data, and tests compare it with what they count: `tests/template/bill.rs` in the template and in
//! what the functions write, `tests/stack/units.rs` at the tables.

mod design;
mod price;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;
use std::time::Duration;

use hookonce_protocol::key::RecordKind;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use serde::{Deserialize, Serialize};

pub use self::design::Design;
pub use self::price::{Item, Price, Prices, Tier, Usage};

/// A month has thirty days.
pub const MONTH: Millis = Millis::days(30);

const MINUTES: f64 = 30.0 * 24.0 * 60.0;
const MB_OF_GB: f64 = 1_024.0;
const UNIT_BYTES: f64 = 1_024.0;
const READ_BYTES: f64 = 4_096.0;

/// What a stack is built of and what its functions do, as far as it costs something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Metrics that the template's alarms watch.
    pub alarm_metrics: f64,
    /// Queues from which Lambda polls for a function.
    pub event_sources: f64,
    /// How often it polls each, at least: five pollers wait for 20 seconds each. Assumed.
    pub polls_per_minute: f64,
    /// Dashboards of the template.
    pub dashboards: f64,
    /// Metrics that have a value while nothing is delivered.
    pub metrics_at_rest: f64,
    /// Further ones once events are delivered, some twice and some refused.
    pub metrics_of_deliveries: f64,
    /// Further ones once effects are made.
    pub metrics_of_effects: f64,
    /// Queries of a run of the relay, of half a unit each.
    pub relay_queries: f64,
    /// How long such a run takes. Assumed.
    pub relay_seconds: f64,
    /// Its memory.
    pub relay_mb: f64,
    /// The line that it writes.
    pub relay_log_bytes: f64,
    /// How long the webhook function takes for a delivery. Assumed.
    pub webhook_seconds: f64,
    /// Its memory.
    pub webhook_mb: f64,
    /// What it writes for a delivery.
    pub webhook_log_bytes: f64,
    /// In how many lines.
    pub webhook_log_lines: f64,
    /// How long the worker takes for an event. Assumed.
    pub worker_seconds: f64,
    /// Its memory.
    pub worker_mb: f64,
    /// The line that it writes for an event that comes alone.
    pub worker_log_bytes: f64,
    /// How long the dispatcher takes for an effect, with the callee. Assumed.
    pub dispatcher_seconds: f64,
    /// Its memory.
    pub dispatcher_mb: f64,
    /// What it writes for an effect that comes alone.
    pub dispatcher_log_bytes: f64,
    /// In how many lines.
    pub dispatcher_log_lines: f64,
    /// What the webhook function writes for a delivery that it refuses.
    pub refusal_log_bytes: f64,
    /// The line that the gateway writes for a request.
    pub gateway_log_bytes: f64,
    /// What CloudWatch adds to each line.
    pub log_line_bytes: f64,
    /// Writes of a plan of the sample handler.
    pub plan_writes: f64,
    /// What the record of an event has beside the compressed body.
    pub record_bytes_beside_body: f64,
    /// The record of an effect with a small body.
    pub effect_record_bytes: f64,
    /// The item that remembers a fact.
    pub domain_key_bytes: f64,
    /// The entry of a record in the journal.
    pub journal_entry_bytes: f64,
    /// What DynamoDB adds to each item and to each entry of an index for storage.
    pub stored_item_bytes: f64,
    /// How well bodies compress: measured on the sample events.
    pub bodies: Vec<Body>,
}

/// What is stored of a body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// Its length.
    pub bytes: f64,
    /// The length of its compressed form, on average.
    pub compressed: f64,
}

impl Counted {
    /// The counts that this command was built with.
    pub fn built_in() -> &'static Self {
        static COUNTED: LazyLock<Counted> = LazyLock::new(|| {
            // Tests read it, and compare all that can be counted.
            serde_json::from_str(include_str!("counted.json")).unwrap_or_default()
        });
        &COUNTED
    }

    /// How many bytes the record of an event has with a body of this length. The share that compression leaves is that
    /// of bodies of about that length; beyond the longest sample it falls no further.
    pub fn record_bytes(&self, body_bytes: f64) -> f64 {
        self.record_bytes_beside_body + body_bytes * self.compressed_share(body_bytes)
    }

    fn compressed_share(&self, body_bytes: f64) -> f64 {
        let share = |body: &Body| body.compressed / body.bytes;
        let mut below: Option<&Body> = None;
        for body in &self.bodies {
            if body.bytes >= body_bytes {
                let Some(below) = below else { return share(body) };
                let bytes = below.bytes;
                let way = (body_bytes - bytes) / (body.bytes - bytes);
                return share(below) + (share(body) - share(below)) * way;
            }
            below = Some(body);
        }
        below.map_or(1.0, share)
    }
}

/// What a month brings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Events that are accepted and applied.
    pub events: f64,
    /// Further deliveries of each, on average.
    pub duplicates: f64,
    /// Effects of each, on average.
    pub effects: f64,
    /// Requests of strangers, which are refused.
    pub refused: f64,
    /// The length of a body.
    pub body_bytes: f64,
}

/// Write units, by where they are consumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteUnits {
    /// The inbox table.
    pub inbox: f64,
    /// Its index of due records.
    pub due: f64,
    /// Its index of all records by the hour.
    pub journal: f64,
    /// The domain table.
    pub domain: f64,
}

impl WriteUnits {
    /// Those of an event from its claim to its end, with a plan of so many small writes. The claim creates the record
    /// and its entries in two indexes. The transaction changes the record, creates the domain key and carries out the
    /// plan, each for twice the units, and removes the entry in the index of due records.
    pub fn of_event(record_bytes: f64, plan_writes: f64) -> Self {
        let size = units(record_bytes);
        Self { inbox: size + 2.0 * size, due: 1.0 + 1.0, journal: 1.0, domain: 2.0 + 2.0 * plan_writes }
    }

    /// Those of a delivery that repeats an event: a claim that fails, and a duplicate that is counted.
    pub fn of_duplicate(record_bytes: f64) -> Self {
        Self { inbox: 2.0 * units(record_bytes), due: 0.0, journal: 0.0, domain: 0.0 }
    }

    /// Those of an effect: its record is created in the event's transaction, then take its pass and its end one write
    /// each.
    pub fn of_effect(record_bytes: f64) -> Self {
        Self { inbox: 4.0 * units(record_bytes), due: 1.0 + 1.0, journal: 0.0, domain: 0.0 }
    }

    /// All of them.
    pub fn total(&self) -> f64 {
        self.inbox + self.due + self.journal + self.domain
    }
}

/// A unit writes up to 1 KB.
fn units(bytes: f64) -> f64 {
    (bytes / UNIT_BYTES).ceil()
}

impl Load {
    /// Nothing is delivered.
    pub const AT_REST: Self = Self { events: 0.0, duplicates: 0.0, effects: 0.0, refused: 0.0, body_bytes: 0.0 };

    /// The units of the month. What is stored is what a stack holds once its oldest records expire.
    pub fn usage(&self, counted: &Counted) -> Usage {
        let Self { events, refused, .. } = *self;
        let (repeats, effects) = (events * self.duplicates, events * self.effects);
        let requests = events + repeats + refused;
        let record = counted.record_bytes(self.body_bytes);
        let receives = (counted.event_sources * counted.polls_per_minute + 1.0) * MINUTES;
        // A send, a receive and a deletion. Batches make it fewer.
        let grouped = 3.0 * (events + effects);
        let writes = events * WriteUnits::of_event(record, counted.plan_writes).total()
            + repeats * WriteUnits::of_duplicate(record).total()
            + effects * WriteUnits::of_effect(counted.effect_record_bytes).total();
        let reads = events * (record / READ_BYTES).ceil() + effects + refused;
        let stored = self.stored_bytes(counted, record);
        let journal = kept(RecordKind::Delivery) * events * (counted.journal_entry_bytes + counted.stored_item_bytes);
        let metrics = if events > 0.0 { counted.metrics_of_deliveries } else { 0.0 }
            + if effects > 0.0 { counted.metrics_of_effects } else { 0.0 };
        Usage::default()
            .with(Item::WriteUnits, writes)
            .with(Item::ReadUnits, counted.relay_queries / 2.0 * MINUTES + reads)
            .with(Item::StoredBytes, stored + journal)
            .with(Item::BackupBytes, stored)
            .with(Item::GatewayRequests, requests * self.metered())
            .with(Item::QueueRequests, receives + grouped)
            .with(Item::GroupedRequests, grouped)
            .with(Item::Invocations, MINUTES + requests + events + effects)
            .with(Item::GbSeconds, self.gb_seconds(counted))
            .with(Item::LogBytes, self.log_bytes(counted))
            .with(Item::CustomMetrics, counted.metrics_at_rest + metrics)
            .with(Item::AlarmMetrics, counted.alarm_metrics)
            .with(Item::Dashboards, counted.dashboards)
    }

    /// How many requests the gateway counts for one: one for each 512 KB,
    /// <https://www.stormit.cloud/blog/amazon-api-gateway-pricing>.
    fn metered(&self) -> f64 {
        (self.body_bytes / (512.0 * UNIT_BYTES)).ceil().max(1.0)
    }

    fn gb_seconds(&self, counted: &Counted) -> f64 {
        let gb_seconds = |count: f64, seconds: f64, mb: f64| count * seconds * mb / MB_OF_GB;
        let requests = self.events * (1.0 + self.duplicates) + self.refused;
        gb_seconds(MINUTES, counted.relay_seconds, counted.relay_mb)
            + gb_seconds(requests, counted.webhook_seconds, counted.webhook_mb)
            + gb_seconds(self.events, counted.worker_seconds, counted.worker_mb)
            + gb_seconds(self.events * self.effects, counted.dispatcher_seconds, counted.dispatcher_mb)
    }

    fn log_bytes(&self, counted: &Counted) -> f64 {
        let line = counted.log_line_bytes;
        let gateway = counted.gateway_log_bytes + line;
        let lines = counted.webhook_log_lines * line + gateway;
        MINUTES * (counted.relay_log_bytes + line)
            + self.events * (1.0 + self.duplicates) * (counted.webhook_log_bytes + lines)
            + self.refused * (counted.refusal_log_bytes + lines)
            + self.events * (counted.worker_log_bytes + line)
            + self.events * self.effects * (counted.dispatcher_log_bytes + counted.dispatcher_log_lines * line)
    }

    /// What the tables hold: records, facts and effects. The items of a handler grow with the business and are not
    /// counted.
    fn stored_bytes(&self, counted: &Counted, record_bytes: f64) -> f64 {
        let item = |bytes: f64| bytes + counted.stored_item_bytes;
        let (known, effects) = (kept(RecordKind::Delivery), kept(RecordKind::Effect));
        self.events * (known * item(record_bytes) + effects * item(counted.domain_key_bytes))
            + self.events * self.effects * effects * item(counted.effect_record_bytes)
    }
}

/// For how many months a record of this kind is kept.
fn kept(kind: RecordKind) -> f64 {
    let days = |time: Millis| Duration::from_millis(time.0.unsigned_abs()).as_secs_f64();
    days(Timing::standard().retention(kind)) / days(MONTH)
}

/// One line of a bill.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// What is billed.
    pub item: Item,
    /// How many units.
    pub units: f64,
    /// Dollars, at list price.
    pub list: f64,
    /// Dollars, after the free tiers.
    pub after_free: f64,
}

/// A month's bill.
#[derive(Debug, Clone)]
pub struct Bill {
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Bill {
    /// What hookonce costs with this load.
    pub fn of(load: &Load, counted: &Counted, prices: &Prices) -> Self {
        let usage = load.usage(counted);
        Self { lines: Item::OWN.into_iter().map(|item| Line::of(item, usage.of(item), prices)).collect() }
    }

    /// What all lines come to in dollars, at list price.
    pub fn list(&self) -> f64 {
        self.lines.iter().map(|line| line.list).sum()
    }

    /// And after the free tiers.
    pub fn after_free(&self) -> f64 {
        self.lines.iter().map(|line| line.after_free).sum()
    }
}

impl Line {
    fn of(item: Item, units: f64, prices: &Prices) -> Self {
        let (list, after_free) = prices.of(item, units);
        Self { item, units, list, after_free }
    }
}
