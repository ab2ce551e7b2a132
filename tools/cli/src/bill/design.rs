//! What people would build instead, at the same prices: how many units it takes, and what it does not do.

use super::{Counted, Item, Load, MB_OF_GB, MINUTES, Prices, Usage, units};

/// EventBridge and SQS bill a request for each so many bytes of it.
const CHUNK_BYTES: f64 = 65_536.0;
/// The most bytes of an item of DynamoDB.
const ITEM_BYTES_MAX: f64 = 400.0 * 1_024.0;
/// The most bytes of a message of SQS, and of an event of `EventBridge`.
const MESSAGE_BYTES_MAX: f64 = 1_024.0 * 1_024.0;

/// A way to take webhooks without hookonce.
#[derive(Debug, Clone)]
pub struct Design {
    /// What it is.
    pub name: &'static str,
    /// What it does not do.
    pub lacks: &'static str,
    /// Whether bodies of this length fit where it keeps them.
    pub fits: bool,
    /// The units of a month.
    pub usage: Usage,
}

impl Design {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// Each design, with this load. It has no alarms, and makes no effects. Its functions have the memory of the
    /// webhook function, take the same time, and write one line for each call.
    pub fn all(load: &Load, counted: &Counted) -> [Self; Self::COUNT] {
        let Load { events, duplicates, body_bytes, .. } = *load;
        let (plan, repeats) = (counted.plan_writes, events * duplicates);
        let requests = events + repeats;
        let polls = if events > 0.0 { counted.polls_per_minute * MINUTES } else { 0.0 };
        let called = |calls: f64, seconds: f64| {
            let line = |bytes: f64| bytes + counted.log_line_bytes;
            Usage::default()
                .with(Item::GatewayRequests, requests * load.metered())
                .with(Item::Invocations, calls)
                .with(Item::GbSeconds, requests * seconds * counted.webhook_mb / MB_OF_GB)
                .with(
                    Item::LogBytes,
                    requests * line(counted.gateway_log_bytes) + calls * line(counted.worker_log_bytes),
                )
        };
        let both = counted.webhook_seconds + counted.worker_seconds;
        // A record that is created before, one that is updated after, and what the code writes itself.
        let idempotent = events * (2.0 + plan) + repeats;
        // A send, a receive and a deletion.
        let queued = 3.0 * requests + polls;
        let chunks = (body_bytes / CHUNK_BYTES).ceil().max(1.0);
        let raw_bytes = body_bytes + counted.record_bytes_beside_body;
        let raw = units(raw_bytes);
        let fits_message = body_bytes <= MESSAGE_BYTES_MAX;
        [
            Self {
                name: "Powertools in the webhook",
                lacks: "the provider waits; no body is kept",
                fits: true,
                usage: called(requests, both).with(Item::WriteUnits, idempotent),
            },
            Self {
                name: "a queue, then Powertools",
                lacks: "takes forgeries; a crash repeats",
                fits: fits_message,
                usage: called(requests, counted.worker_seconds)
                    .with(Item::WriteUnits, idempotent)
                    .with(Item::QueueRequests, queued + 2.0 * requests * (chunks - 1.0)),
            },
            Self {
                name: "put, send, and a worker",
                lacks: "applies a repeat again",
                fits: raw_bytes <= ITEM_BYTES_MAX,
                usage: called(2.0 * requests, both)
                    .with(Item::WriteUnits, requests * (raw + plan))
                    .with(Item::QueueRequests, queued),
            },
            Self {
                name: "verify, then EventBridge",
                lacks: "applies a repeat again; retries 24 h",
                fits: fits_message,
                usage: called(2.0 * requests, both)
                    .with(Item::WriteUnits, requests * plan)
                    .with(Item::BusEvents, requests * chunks),
            },
            Self {
                name: "a durable function, 2 steps",
                lacks: "a step that crashed may run twice",
                fits: true,
                usage: called(requests, both)
                    .with(Item::WriteUnits, events * plan)
                    .with(Item::DurableOperations, 3.0 * events),
            },
        ]
    }

    /// What it costs in dollars, at list price. Nothing if the bodies do not fit.
    pub fn list(&self, prices: &Prices) -> Option<f64> {
        self.fits.then(|| self.usage.items().map(|item| prices.of(item, self.usage.of(item)).0).sum())
    }
}
