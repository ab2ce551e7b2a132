//! How many hints the relay sends per second: `scripts/bench relay`. What a route set costs an event: `scripts/bench
//! routes`. What the functions hold in memory: `scripts/bench memory`.
//!
//! The relay is the deployed one. Its store is the simulator's, with an answer after [`STORE_TIME`], and its queue
//! answers after [`QUEUE_TIME`]. So this measures how well a run uses its time, not how fast AWS is.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for a terminal")]

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hookonce_proof::sim::tables::{NotWritten, Tables};
use hookonce_proof::{memory, route_cost};
use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::{Table, Write};
use hookonce_runtime::ambient::{Ambient, System};
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::{Queue, Store};
use serde_json::{Value, json};

/// Due records.
const RECORDS: usize = 20_000;

/// How long a call to the store takes.
const STORE_TIME: Duration = Duration::from_millis(5);

/// How long a call to the queue takes.
const QUEUE_TIME: Duration = Duration::from_millis(10);

/// The tables, behind a network.
#[derive(Debug, Default)]
struct FarTables(Mutex<Tables>);

impl FarTables {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FarTables {
    async fn write(&self, write: &Write) -> Written {
        tokio::time::sleep(STORE_TIME).await;
        match self.lock().write(write, 0) {
            Ok(_) => Written::Applied,
            Err(NotWritten::ConditionFailed(item)) => Written::refused(write, item.as_ref()),
            Err(NotWritten::Invalid) => Written::Invalid,
        }
    }

    async fn commit(&self, _: &[Write]) -> Committed {
        Committed::Unavailable // The relay commits nothing.
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        tokio::time::sleep(STORE_TIME).await;
        Ok(Found::from_item(self.lock().get(Table::Inbox, key.as_str())))
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        tokio::time::sleep(STORE_TIME).await;
        let tables = self.lock();
        keys.iter().map(|key| Ok(Found::from_item(tables.get(Table::Inbox, key.as_str())))).collect()
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        self.read_each(keys).await
    }

    async fn read_items(&self, _: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        Err(Unavailable) // The relay reads none.
    }

    async fn key_schema(&self, _: TableAlias, _: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        Err(Unavailable)
    }

    async fn query_due(&self, query: &DueQuery) -> Result<DuePage, Unavailable> {
        tokio::time::sleep(STORE_TIME).await;
        Ok(self.lock().query_due(query, 0))
    }

    async fn count_received(&self, shard: u16, from: EpochMs, until: EpochMs) -> Result<u64, Unavailable> {
        tokio::time::sleep(STORE_TIME).await;
        Ok(self.lock().count_received(shard, from, until))
    }
}

/// A queue that confirms everything, after a while. Its batches run side by side, as the deployed adapter's do.
#[derive(Debug)]
struct FarQueue;

impl Queue for FarQueue {
    async fn send(&self, _: &Message) -> Result<(), Unavailable> {
        tokio::time::sleep(QUEUE_TIME).await;
        Ok(())
    }

    async fn send_each(&self, messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        tokio::time::sleep(QUEUE_TIME).await;
        vec![Ok(()); messages.len()]
    }

    async fn hide(&self, _: HintQueue, _: &str, _: Millis) -> Result<(), Unavailable> {
        Ok(())
    }
}

/// A PENDING record that fell due a minute ago.
fn due_write(number: usize, timing: &Timing, now: EpochMs) -> Option<Write> {
    let claim = memory::claim(&format!("in#bench#evt_{number:06}"), "stripe", "invoice.paid", vec![7; 500], now)?;
    let claimed_at = EpochMs(now.0 - timing.first_resend.0 - 60_000);
    Some(claim_write(&claim.record(timing, claimed_at)))
}

/// How many hints the relay sends per second.
async fn relay() -> Value {
    let timing = Timing { shards: 64, ..Timing::standard() };
    let (store, now) = (FarTables::default(), System.moment().now);
    for write in (0..RECORDS).filter_map(|number| due_write(number, &timing, now)) {
        let _ = store.lock().write(&write, 0);
    }
    let budget = Budget { sends_per_second_min: 10_000, ..Budget::standard() };
    let call_max = Millis::seconds(2);
    let keys = MessageKeys::none();
    let relay = RelayParts { store, queue: FarQueue, keys, ambient: System, timing, budget, call_max };
    let begun = System.moment().now;
    let report = relay.run(now.plus(Millis::minutes(10))).await.events.output;
    let millis = System.moment().now.0 - begun.0;
    let seconds = f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1_000.0;
    let rate = f64::from(u32::try_from(report.sent).unwrap_or(u32::MAX)) / seconds;
    json!({
        "bench": "relay", "records": RECORDS, "sent": report.sent, "seconds": seconds,
        "sends_per_second": rate.round(), "store_ms": STORE_TIME.as_millis(), "queue_ms": QUEUE_TIME.as_millis(),
    })
}

/// Prints the figures, and what is over its limit.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let measured = match std::env::args().nth(1).as_deref() {
        Some("memory") => memory::measure().await.ok_or("the memory of this process is not known"),
        Some("routes") => route_cost::measure().ok_or("an event did not get where the route set sends it"),
        Some(_) | None => Ok((relay().await, Vec::new())),
    };
    let faults = match measured {
        Ok((figures, over)) => {
            println!("{figures}");
            over
        }
        Err(why) => vec![why.to_owned()],
    };
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
