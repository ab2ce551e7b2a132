//! What AWS takes for a unit, from a table that says where and when each price was read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// What a bill counts, one line each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// What a write of up to 1 KB takes in a table or an index.
    WriteUnits,
    /// What a consistent read of up to 4 KB takes.
    ReadUnits,
    /// What the tables and their indexes hold, on average over the month.
    StoredBytes,
    /// What point-in-time recovery keeps.
    BackupBytes,
    /// Requests to the HTTP API.
    GatewayRequests,
    /// Sends, receives and deletions, also those that find nothing.
    QueueRequests,
    /// Those of messages that name a group, which cost more.
    GroupedRequests,
    /// Calls of functions.
    Invocations,
    /// The memory of functions, times how long they run.
    GbSeconds,
    /// What is written to the log groups.
    LogBytes,
    /// Metrics of hookonce's own that have a value in the month.
    CustomMetrics,
    /// Metrics that alarms watch.
    AlarmMetrics,
    /// Dashboards of the stack.
    Dashboards,
    /// Events on a bus of `EventBridge`. hookonce has none.
    BusEvents,
    /// Operations of durable functions. hookonce has none.
    DurableOperations,
}

impl Item {
    /// The lines of hookonce's bill.
    pub const OWN: [Self; 13] = [
        Self::WriteUnits,
        Self::ReadUnits,
        Self::StoredBytes,
        Self::BackupBytes,
        Self::GatewayRequests,
        Self::QueueRequests,
        Self::GroupedRequests,
        Self::Invocations,
        Self::GbSeconds,
        Self::LogBytes,
        Self::CustomMetrics,
        Self::AlarmMetrics,
        Self::Dashboards,
    ];

    /// Its name for a person.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteUnits => "write units",
            Self::ReadUnits => "read units",
            Self::StoredBytes => "stored bytes",
            Self::BackupBytes => "backup bytes",
            Self::GatewayRequests => "gateway requests",
            Self::QueueRequests => "queue requests",
            Self::GroupedRequests => "grouped requests",
            Self::Invocations => "invocations",
            Self::GbSeconds => "GB-seconds",
            Self::LogBytes => "log bytes",
            Self::CustomMetrics => "custom metrics",
            Self::AlarmMetrics => "alarm metrics",
            Self::Dashboards => "dashboards",
            Self::BusEvents => "bus events",
            Self::DurableOperations => "durable operations",
        }
    }
}

/// How many units of each kind a month has.
#[derive(Debug, Clone, Default)]
pub struct Usage(BTreeMap<Item, f64>);

impl Usage {
    /// The same with so many more.
    #[must_use]
    pub fn with(mut self, item: Item, units: f64) -> Self {
        *self.0.entry(item).or_default() += units;
        self
    }

    /// How many there are of one kind.
    pub fn of(&self, item: Item) -> f64 {
        self.0.get(&item).copied().unwrap_or_default()
    }

    /// The kinds that have units.
    pub fn items(&self) -> impl Iterator<Item = Item> {
        self.0.keys().copied()
    }
}

/// What units cost from some number on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The units below it.
    pub from: f64,
    /// Dollars for as many units as the price is per.
    pub dollars: f64,
}

/// The price of one kind of unit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// How many units the dollars are for.
    pub per: f64,
    /// What they cost, from the first unit on.
    pub tiers: Vec<Tier>,
    /// Units that an account has free each month, for ever.
    pub free: f64,
    /// The pages that have the price and what is free.
    pub sources: Vec<String>,
    /// The day on which they were last read.
    pub read: String,
}

impl Price {
    /// What so many units cost, in dollars.
    pub fn list(&self, units: f64) -> f64 {
        let ends = self.tiers.iter().skip(1).map(|tier| tier.from).chain([f64::INFINITY]);
        let part = |(tier, end): (&Tier, f64)| (units.min(end) - tier.from).max(0.0) * tier.dollars;
        self.tiers.iter().zip(ends).map(part).sum::<f64>() / self.per
    }

    /// What is left of that in an account that uses nothing else.
    pub fn after_free(&self, units: f64) -> f64 {
        (self.list(units) - self.list(self.free)).max(0.0)
    }
}

/// The table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Where these prices apply.
    pub region: String,
    /// One for each kind of unit.
    pub prices: BTreeMap<Item, Price>,
}

impl Prices {
    /// The one that this command was built with.
    pub fn built_in() -> &'static Self {
        static TABLE: LazyLock<Prices> = LazyLock::new(|| {
            // A test reads it, and finds a price for each kind of unit.
            serde_json::from_str(include_str!("prices.json")).unwrap_or_default()
        });
        &TABLE
    }

    /// What so many units cost at list price, and after the free tiers.
    pub fn of(&self, item: Item, units: f64) -> (f64, f64) {
        self.prices.get(&item).map_or((0.0, 0.0), |price| (price.list(units), price.after_free(units)))
    }

    /// The first and the last day on which a price was read.
    pub fn read(&self) -> (&str, &str) {
        let days = || self.prices.values().map(|price| price.read.as_str());
        (days().min().unwrap_or_default(), days().max().unwrap_or_default())
    }
}
