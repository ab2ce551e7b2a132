//! The store and the queue of the bench.

use std::sync::Arc;
use std::time::Duration;

use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::item::Item;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::{Action, Write};
use hookonce_runtime::port::{NotRead, Queue, Store};
use serde_json::{Value, json};

use super::single;

/// How long a call to the store takes.
const STORE_TIME: Duration = Duration::from_millis(5);

/// What the ids of events begin with that have a record.
pub(super) const KNOWN: &str = "known";

/// Small maps in an item that is read by itself: nearly as many as an item may have.
const MAPS_READ: usize = 45_000;

/// Small maps in all items that are read at once: the answer with a hundred of them is as long as it may be.
const MAPS_READ_AT_ONCE: usize = 40_000;

/// Bytes of an answer around each item: its key.
const AROUND_ITEM: usize = 60;

/// An item of so many small maps, as JSON.
pub(super) fn item(maps: usize) -> String {
    format!(r#"{{"l":{{"L":[{}]}}}}"#, vec![r#"{"M":{"a":{"BOOL":true}}}"#; maps].join(","))
}

/// Each of these items, as JSON.
fn text_of_each(items: &[ItemRef]) -> String {
    item(if let [_] = items { MAPS_READ } else { MAPS_READ_AT_ONCE / items.len() })
}

/// A store that holds these items, and forgets what it takes.
#[derive(Debug)]
pub(super) struct Nowhere {
    items: Vec<Write>,
    /// The longest record that there can be, as the store sends it.
    longest: Arc<str>,
}

impl Nowhere {
    pub(super) fn new(items: Vec<Write>, now: EpochMs) -> Option<Self> {
        Some(Self { items, longest: longest_record(now)? })
    }

    fn find(&self, key: &RecordKey) -> Found {
        let write = self.items.iter().find(|write| write.key.to_string() == key.as_str());
        match write.map(|write| &write.action) {
            Some(Action::Put(item)) => Found::from_item(Some(item)),
            Some(Action::Update(_) | Action::Delete | Action::Check) | None => Found::Nothing,
        }
    }
}

/// Bytes of the longest body that a record may have.
pub(super) const LONGEST: usize = 380_000;

/// A record with a body of about so many bytes.
pub(super) fn record_of(bytes: usize, now: EpochMs) -> Option<Item> {
    let Action::Put(item) = single(0, "any", super::noise(0, bytes).as_bytes(), now)?.action else { return None };
    Some(item)
}

/// The text of the longest record, as the store sends it.
pub(super) fn longest_record(now: EpochMs) -> Option<Arc<str>> {
    Some(serde_json::to_string(&record_of(LONGEST, now)?).ok()?.into())
}

/// The answer to a write that is refused because of this record: the text becomes values, and these become the item.
pub(super) async fn refused(write: &Write, record: &str) -> Written {
    let text = record.to_owned();
    tokio::time::sleep(STORE_TIME).await;
    let values: Option<Value> = serde_json::from_str(&text).ok();
    let item: Option<Item> = values.and_then(|values| serde_json::from_value(values).ok());
    drop(text);
    Written::refused(write, item.as_ref())
}

impl Store for Nowhere {
    async fn write(&self, write: &Write) -> Written {
        if write.key.as_str().contains(KNOWN) {
            return refused(write, &self.longest).await;
        }
        let request = match &write.action {
            Action::Put(item) => json!({ "Item": item }).to_string(),
            Action::Update(_) | Action::Delete | Action::Check => String::new(),
        };
        tokio::time::sleep(STORE_TIME).await;
        drop(request);
        Written::Applied
    }

    async fn commit(&self, writes: &[Write]) -> Committed {
        for write in writes {
            self.write(write).await;
        }
        Committed::Applied
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        Ok(self.find(key))
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        keys.iter().map(|key| Ok(self.find(key))).collect()
    }

    /// It is short of capacity for every other head, so that the writes find out.
    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        let head: Option<Item> = serde_json::from_str(&self.longest).ok();
        let read = keys.iter().enumerate().map(|(number, key)| match key.as_str().contains(KNOWN) {
            true if number % 2 == 0 => Err(Unavailable),
            true => Ok(Found::head_of(head.as_ref())),
            false => Ok(self.find(key)),
        });
        read.collect()
    }

    async fn read_items(&self, items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        let text = text_of_each(items);
        tokio::time::sleep(STORE_TIME).await;
        let read = items.iter().map(|item| {
            let values: Value = serde_json::from_str(&text).map_err(|_| Unavailable)?;
            Ok((item.clone(), Some(serde_json::from_value(values).map_err(|_| Unavailable)?)))
        });
        read.collect()
    }

    async fn read_few_bytes(&self, items: &[ItemRef], bytes_max: u64) -> Result<Snapshot, NotRead> {
        let bytes = (items.len() * (text_of_each(items).len() + AROUND_ITEM)) as u64;
        if bytes > bytes_max {
            return Err(NotRead::TooLong(bytes));
        }
        self.read_items(items).await.map_err(|Unavailable| NotRead::Unavailable)
    }

    async fn key_schema(&self, _: TableAlias, _: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        Err(Unavailable)
    }

    async fn query_due(&self, _: &DueQuery) -> Result<DuePage, Unavailable> {
        Err(Unavailable)
    }

    async fn count_received(&self, _: u16, _: EpochMs, _: EpochMs) -> Result<u64, Unavailable> {
        Err(Unavailable)
    }
}

/// A queue that takes everything.
#[derive(Debug)]
pub(super) struct Nobody;

impl Queue for Nobody {
    async fn send(&self, _: &Message) -> Result<(), Unavailable> {
        Ok(())
    }

    async fn send_each(&self, messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        vec![Ok(()); messages.len()]
    }

    async fn hide(&self, _: HintQueue, _: &str, _: Millis) -> Result<(), Unavailable> {
        Ok(())
    }
}
