//! What the operator's tools need of a store beside the port: counts and scans.

use std::collections::BTreeSet;

use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::call::Written;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::{PARTITION_KEY, Value};
use hookonce_protocol::record::{dead_shard, journal_shard, pending_shard};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_runtime::port::Store as _;

use crate::protocol::a_record;
use crate::support::stack::TestStack;

/// Records of the suite, more than one page of a scan.
const RECORDS: usize = 40;
const PAGE: usize = 7;

#[tokio::test]
async fn the_store_can_be_inspected() {
    let store = TestStack::new().await.store();
    for index in 0..RECORDS {
        let endpoint = if index % 4 == 0 { "other" } else { "inspected" };
        let record = a_record(&format!("in#{endpoint}#{index}"));
        assert_eq!(store.write(&claim_write(&record)).await, Written::Applied);
    }
    a_count_is_that_of_its_partition(&store).await;
    a_scan_reads_each_item_once(&store).await;
}

async fn sum(store: &DynamoStore, query: impl Fn(u16) -> IndexQuery) -> u64 {
    let mut sum = 0;
    for shard in 0..Timing::standard().shards {
        sum += store.index_count(&query(shard)).await.unwrap();
    }
    sum
}

async fn a_count_is_that_of_its_partition(store: &DynamoStore) {
    let all = u64::try_from(RECORDS).unwrap();
    assert_eq!(sum(store, |shard| IndexQuery::due(pending_shard(shard))).await, all);
    assert_eq!(sum(store, |shard| IndexQuery::due(dead_shard(shard))).await, 0);
    let at = a_record("in#inspected#1").received_at;
    let received = |from: EpochMs, until: EpochMs| {
        move |shard| IndexQuery::Journal { partition: journal_shard(at, shard), from, until }
    };
    assert_eq!(sum(store, received(at, at)).await, all, "both ends belong to the span");
    assert_eq!(sum(store, received(at.plus(Millis(1)), at.plus(Millis::hours(1)))).await, 0);
    assert_eq!(sum(store, received(EpochMs(0), EpochMs(at.0 - 1))).await, 0);
}

async fn a_scan_reads_each_item_once(store: &DynamoStore) {
    let (mut keys, mut read, mut pages, mut after) = (BTreeSet::new(), 0, 0, None::<String>);
    loop {
        let page = store.scan_page(Table::Inbox, "in#inspected#", &[], after.as_deref(), PAGE).await.unwrap();
        assert!(page.read <= PAGE && page.items.len() <= page.read);
        (read, pages) = (read + page.read, pages + 1);
        for item in page.items {
            let key = item.get(PARTITION_KEY).and_then(Value::as_text).unwrap().to_owned();
            assert!(keys.insert(key.clone()), "{key} was read twice");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((keys.len(), read), (RECORDS * 3 / 4, RECORDS), "others are read and left out");
    assert!(pages > RECORDS / PAGE, "{pages}");
    // Whoever stops goes on after the last key of a page, and misses nothing.
    let whole = store.scan_page(Table::Inbox, "", &[], None, 2 * RECORDS).await.unwrap();
    let last = whole.items[RECORDS / 2].get(PARTITION_KEY).and_then(Value::as_text).unwrap();
    let rest = store.scan_page(Table::Inbox, "", &[], Some(last), 2 * RECORDS).await.unwrap();
    assert_eq!(rest.items, whole.items[RECORDS / 2 + 1..]);
    assert!(rest.next.is_none());
}
