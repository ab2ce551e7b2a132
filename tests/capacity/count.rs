//! What one event costs, counted on the deployed functions.

use std::collections::BTreeMap;

use hookonce_capacity::{PerEffect, PerEvent};
use hookonce_protocol::item::{Item, Number, PARTITION_KEY, Value};
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::record::attribute;
use hookonce_protocol::write::Table;

use crate::effects::{applied, keyed};
use crate::support::samples::invoice_paid;
use crate::support::{Fault, Harness, Operation, Script};

type Items = BTreeMap<String, Item>;

async fn items(harness: &Harness, table: Table) -> Items {
    let key = |item: &Item| item[PARTITION_KEY].as_text().unwrap().to_owned();
    harness.stack.scan(table).await.into_iter().map(|item| (key(&item), item)).collect()
}

/// Follows the second event of a customer, because the first one creates the balance.
pub(super) async fn of_one_event() -> PerEvent {
    let harness = Harness::new().await;
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    harness.work().await;
    let domain_before = items(&harness, Table::Domain).await;

    let ingress = Script::recording();
    harness.deliver_under(&ingress, &invoice_paid("evt_2", "in_2", 4_900)).await;
    assert_eq!(ingress.calls(), [Operation::Put, Operation::Send], "one claim and one hint");
    let claimed = items(&harness, Table::Inbox).await;

    let work = Script::recording();
    assert!(harness.work_under(&work).await);
    assert_eq!((work.count(Operation::Commit), work.count(Operation::Update)), (1, 0), "one transaction");
    let (settled, domain) = (items(&harness, Table::Inbox).await, items(&harness, Table::Domain).await);

    let (key, after) = settled.iter().find(|(key, _)| key.ends_with("evt_2")).unwrap();
    let before = &claimed[key];
    let larger = bytes(before).max(bytes(after));
    let changed: Vec<_> = domain.iter().filter(|(key, item)| domain_before.get(*key) != Some(item)).collect();
    let units_of =
        |(key, item): &(&String, &Item)| 2 * kilobytes(bytes(item).max(domain_before.get(*key).map_or(0, bytes)));
    let shared = changed.iter().filter(|(key, _)| domain_before.contains_key(*key));
    let entries = |name: &str| u32::from(before.contains_key(name)) + u32::from(!after.contains_key(name));
    assert_eq!(work.count(Operation::ReadDomain), 0, "the handler reads no item");
    PerEvent {
        record_bytes: larger,
        inbox_units: kilobytes(bytes(before)) + 2 * kilobytes(larger),
        due_units: entries(attribute::DUE_SHARD),
        journal_units: entries(attribute::JOURNAL_SHARD),
        domain_units: changed.iter().map(units_of).sum(),
        shared_item_units: shared.map(units_of).max().unwrap_or(0),
        read_units: bytes(before).div_ceil(4 * 1_024),
        sends: 1,
    }
}

/// Follows an effect whose destination answers at once. A dispatcher that dies before its last write shows what the
/// note of the call left.
pub(super) async fn of_one_effect() -> PerEffect {
    let kill = Script::on(Operation::Update, 1, Fault::CrashBefore);
    let [created, noted] = effect_around(&kill).await;
    let recording = Script::recording();
    let [_, settled] = effect_around(&recording).await;
    assert_eq!(recording.calls(), [Operation::Read, Operation::Update, Operation::Update], "one note and one end");
    let entry = |name: &str| {
        let moves = |before: &Item, after: &Item| match (before.get(name), after.get(name)) {
            (None, None) => 0,
            (Some(_), Some(_)) => u32::from(key_of(before, name) != key_of(after, name)) * 2,
            _ => 1,
        };
        u32::from(created.contains_key(name)) + moves(&created, &noted) + moves(&noted, &settled)
    };
    let [created_bytes, noted_bytes, settled_bytes] = [&created, &noted, &settled].map(bytes);
    PerEffect {
        record_bytes: created_bytes,
        inbox_units: 2 * kilobytes(created_bytes)
            + kilobytes(created_bytes.max(noted_bytes))
            + kilobytes(noted_bytes.max(settled_bytes)),
        index_units: entry(attribute::DUE_SHARD) + entry(attribute::JOURNAL_SHARD),
        read_units: created_bytes.div_ceil(4 * 1_024),
    }
}

/// An effect as its event made it, and as a dispatcher under this script left it.
async fn effect_around(script: &Script) -> [Item; 2] {
    let harness = Harness::new().await;
    harness.destinations.put("receipts", keyed(24));
    applied(&harness, "msg_1", &["receipts"]).await;
    let effect = async || {
        let found = items(&harness, Table::Inbox).await;
        let is_effect = |key: &str| RecordKey::parse(key).is_some_and(|key| key.kind() == RecordKind::Effect);
        found.into_iter().find_map(|(key, item)| is_effect(&key).then_some(item)).unwrap()
    };
    let created = effect().await;
    assert!(harness.dispatch_under(script, harness.deadline()).await);
    [created, effect().await]
}

/// Where an index has an item: its partition and its place there.
fn key_of<'a>(item: &'a Item, partition: &str) -> [Option<&'a Value>; 2] {
    let place = if partition == attribute::DUE_SHARD { attribute::DUE_AT } else { attribute::RECEIVED_AT };
    [item.get(partition), item.get(place)]
}

fn kilobytes(bytes: u32) -> u32 {
    bytes.div_ceil(1_024)
}

/// The size of an item as DynamoDB counts it: names and values.
fn bytes(item: &Item) -> u32 {
    item.iter().map(|(name, value)| length(name) + value_bytes(value)).sum()
}

fn length(text: &str) -> u32 {
    count(text.len())
}

fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap()
}

fn value_bytes(value: &Value) -> u32 {
    match value {
        Value::Text(text) => length(text),
        Value::Number(number) => length(number.as_text()).div_ceil(2) + 1,
        Value::Bytes(bytes) => count(bytes.len()),
        Value::Flag(_) | Value::Null(_) => 1,
        Value::TextSet(texts) => 3 + texts.as_slice().iter().map(|text| 1 + length(text)).sum::<u32>(),
        Value::NumberSet(numbers) => {
            let bytes = |number: &Number| length(number.as_text()).div_ceil(2) + 2;
            3 + numbers.as_slice().iter().map(bytes).sum::<u32>()
        }
        Value::BytesSet(blobs) => 3 + blobs.as_slice().iter().map(|blob| 1 + count(blob.len())).sum::<u32>(),
        Value::List(values) => 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<u32>(),
        Value::Map(values) => 3 + values.iter().map(|(name, value)| 1 + length(name) + value_bytes(value)).sum::<u32>(),
    }
}
