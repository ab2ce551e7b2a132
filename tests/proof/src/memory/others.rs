//! The relay and the dispatcher, while others are faster: each of their writes is refused.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hookonce_protocol::call::{Committed, DueEntry, DuePage, DueQuery, DueState, Unavailable, Written};
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::item::{Item, PARTITION_KEY};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::{Found, attribute};
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::write::Write;
use hookonce_runtime::ambient::System;
use hookonce_runtime::destinations::{Caller, Destination, Destinations, RateLimited};
use hookonce_runtime::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::Received;
use hookonce_runtime::port::Store;
use serde_json::json;

use super::store::{Nobody, longest_record, record_of, refused};
use super::{MESSAGES, MOST_KIB_OF_OTHERS, Work};

/// Due records in each shard that has any, and the shards: enough for as many chunks as a run has under way.
const DUE: usize = 100;
const SHARDS: u16 = 4;

/// Bytes of the payload of an effect: nearly as many as one may have.
const PAYLOAD: usize = 60_000;

/// A run of the relay: all that is due has the longest body, and another run re-arms it first.
pub(super) async fn relay(now: EpochMs) -> Option<Work> {
    let mut due = record_of(0, now)?;
    due.insert(attribute::DUE_AT.to_owned(), (now.0 - 60_000).into());
    let store = Arc::new(Overtaken { record: due, stored: longest_record(now)?, refused: AtomicUsize::new(0) });
    let timing = Timing::standard();
    let budget = Budget { sends_per_second_min: 1_000, ..Budget::standard() };
    let call_max = Millis::seconds(2);
    let keys = MessageKeys::none();
    let relay =
        RelayParts { store: Arc::clone(&store), queue: Nobody, keys, ambient: System, timing, budget, call_max };
    relay.run(now.plus(Millis::minutes(30))).await;
    let (done, lists) = (store.refused.load(Ordering::Relaxed), 2);
    Some(Work { done, of: lists * DUE * usize::from(SHARDS), most_kib_allowed: MOST_KIB_OF_OTHERS })
}

/// A batch of the dispatcher: other processes take the pass of each effect first.
pub(super) async fn dispatcher(now: EpochMs) -> Option<Work> {
    let mut effect = record_of(PAYLOAD, now)?;
    let own = [
        (attribute::DUE_SHARD, "effect_due#0"),
        (attribute::PARENT, "in#bench#0"),
        (attribute::EFFECT, "forward:bench"),
        (attribute::DESTINATION, "bench"),
        (attribute::METHOD, "POST"),
        (attribute::PATH, ""),
        (attribute::CONTENT_TYPE, "application/json"),
    ];
    effect.extend(own.map(|(name, value)| (name.to_owned(), value.into())));
    let stored = serde_json::to_string(&effect).ok()?.into();
    let store = Arc::new(Overtaken { record: effect, stored, refused: AtomicUsize::new(0) });
    let (destinations, caller) = (Destinations::new(Arc::new(Bench)), RateLimited::new(Arc::new(Bench)));
    let timing = Timing::standard();
    let dispatcher =
        DispatcherParts { store: Arc::clone(&store), queue: Nobody, ambient: System, destinations, caller, timing };
    let key = |number| format!("in#bench#fx#{number:064x}#forward:bench");
    let body = |number| format!(r#"{{"v":1,"k":"ref","pk":"{}"}}"#, key(number));
    let received = |number| Received { body: body(number), receipt_handle: String::new(), receives: 1 };
    let messages: Vec<_> = (0..MESSAGES).map(received).collect();
    dispatcher.dispatch(&messages, now.plus(Millis::minutes(30)), &|_| ()).await;
    let done = store.refused.load(Ordering::Relaxed);
    Some(Work { done, of: MESSAGES, most_kib_allowed: MOST_KIB_OF_OTHERS })
}

/// A store that has the same record under each key, and in which somebody else is always faster.
#[derive(Debug)]
struct Overtaken {
    /// The record as it is read.
    record: Item,
    /// The text of the record as it is meanwhile.
    stored: Arc<str>,
    /// How many writes were refused.
    refused: AtomicUsize,
}

impl Overtaken {
    fn found(&self, key: &RecordKey, decode: fn(Option<&Item>) -> Found) -> Found {
        let mut item = self.record.clone();
        item.insert(PARTITION_KEY.to_owned(), key.as_str().into());
        decode(Some(&item))
    }
}

impl Store for Overtaken {
    async fn write(&self, write: &Write) -> Written {
        self.refused.fetch_add(1, Ordering::Relaxed);
        refused(write, &self.stored).await
    }

    async fn commit(&self, _: &[Write]) -> Committed {
        Committed::Unavailable // Neither commits.
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        Ok(self.found(key, Found::from_item))
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        keys.iter().map(|key| Ok(self.found(key, Found::from_item))).collect()
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        keys.iter().map(|key| Ok(self.found(key, Found::head_of))).collect()
    }

    async fn read_items(&self, _: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        Err(Unavailable)
    }

    async fn key_schema(&self, _: TableAlias, _: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        Err(Unavailable)
    }

    async fn query_due(&self, query: &DueQuery) -> Result<DuePage, Unavailable> {
        let list = match query.state {
            DueState::Pending => "due",
            DueState::Waiting => "waiting",
            DueState::Effect | DueState::Dead => return Ok(DuePage::default()),
        };
        if query.shard >= SHARDS {
            return Ok(DuePage::default());
        }
        let key = |number| RecordKey::parse(&format!("in#bench#{list}.{}.{number}", query.shard));
        let entry = |number| Some(DueEntry { key: key(number)?, due_at: EpochMs(0) });
        Ok(DuePage { entries: (0..DUE).filter_map(entry).collect(), next: None })
    }

    async fn count_received(&self, _: u16, _: EpochMs, _: EpochMs) -> Result<u64, Unavailable> {
        Ok(0)
    }
}

/// The destination of the effects. Nobody gets as far as to call it.
#[derive(Debug)]
struct Bench;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DocumentsUnavailable>> + Send + 'a>>;

impl DocumentSource for Bench {
    fn read<'a>(&'a self, _: DocumentKind, _: &'a str) -> Answer<'a, Option<String>> {
        let document = json!({
            "kind": "http", "url": "https://bench.example.com/v1", "class": "at_least_once",
            "give_up_after_hours": 72, "timeout_ms": 5_000,
        });
        Box::pin(async move { Ok(Some(document.to_string())) })
    }

    fn create<'a>(&'a self, _: DocumentKind, _: &'a str, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Err(DocumentsUnavailable("a dispatcher writes no document".into())) })
    }

    fn is_local(&self) -> bool {
        false
    }
}

impl Caller for Bench {
    fn call<'a>(
        &'a self,
        _: &'a Destination,
        _: &'a OutboundCall,
        _: Moment,
    ) -> Pin<Box<dyn Future<Output = Called> + Send + 'a>> {
        Box::pin(async { Called::NotDone { status: None, retry_after: None } })
    }
}
