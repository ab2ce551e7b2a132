//! Many records: the first page costs a few reads, whatever their number, and no page grows with it.

use std::pin::pin;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt as _;
use hookonce_aws::DynamoStore;
use hookonce_local::backends::{Backends, DataLocation};
use hookonce_local::calls::CallCounts;
use hookonce_local::clients;
use hookonce_local::tables::{StackShape, create_stack};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::record::{DeadReason, Due, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{SHARDS, Timing};

use crate::records::{Filter, PageCursor, Reach, Read, latest, page_of, select};

/// Far more than one page of each partition.
const RECORDS: usize = 2_400;

/// Items that one import writes.
const IMPORTED_AT_ONCE: usize = 10_000;

/// The most records of one page, and partitions that are read at once.
const PAGE_MAX: usize = 100;
const AT_ONCE: usize = 8;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    filter: Filter,
}

fn filter(arguments: &[&str]) -> Filter {
    Command::parse_from([&["list"], arguments].concat()).filter
}

pub(crate) fn dead(index: usize) -> Record {
    let timing = Timing::standard();
    // Some die at one moment.
    let at = EpochMs(1_767_225_600_000 + i64::try_from(index / 7).unwrap());
    let key = RecordKey::parse(&format!("in#stripe#evt_{index}")).unwrap();
    let claim = Claim {
        pk: key.clone(),
        claim_id: ClaimId(format!("claim-{index}")),
        tenant: None,
        received_at: at,
        accept_before: at,
        provider: "stripe".to_owned(),
        event_type: "invoice.paid".to_owned(),
        body: vec![7; 64],
        body_sha256: [0; 32],
        headers: [].into(),
        secret_index: 0,
        quarantine_mismatch: false,
    };
    Record {
        status: Status::Dead,
        due: Some(Due::dead(&key, timing.shards, at)),
        dead_at: Some(at),
        dead_reason: Some(DeadReason::Permanent),
        expires_at: None,
        ..claim.record(&timing, at)
    }
}

/// A stack that holds nothing but dead records.
pub(crate) async fn filled(records: usize) -> (Backends, DynamoStore) {
    holding((0..records).map(dead)).await
}

/// A stack that holds these records.
pub(crate) async fn holding(records: impl Iterator<Item = Record>) -> (Backends, DynamoStore) {
    let backends = Backends::start(DataLocation::Memory, Duration::from_hours(1)).unwrap();
    let client = clients::dynamodb(backends.dynamodb_url());
    let shape = StackShape::deployed("scale");
    let place = create_stack(&client, &clients::sqs(backends.sqs_url()), &shape).await.unwrap();
    let mut items = records.map(|record| record.encode()).peekable();
    while items.peek().is_some() {
        let some: Vec<_> = items.by_ref().take(IMPORTED_AT_ONCE).collect();
        backends.import(&place.inbox_table, &serde_json::to_string(&some).unwrap()).unwrap();
    }
    (backends, DynamoStore::new(client, &place.inbox_table, &place.domain_table))
}

#[tokio::test]
async fn the_first_page_of_many_records_costs_a_few_reads() {
    let (backends, store) = filled(RECORDS).await;
    let calls = CallCounts::default();
    let config = store.client().config().to_builder().interceptor(calls.clone()).build();
    let store = store.with_client(aws_sdk_dynamodb::Client::from_conf(config));
    let shards = u64::from(SHARDS);
    let listed = latest(&store, &filter(&["--state", "DEAD"]), 50).await.unwrap();
    assert!(listed.records.len() >= 50);
    assert_eq!((calls.of("Query"), calls.of("BatchGetItem")), (shards, shards), "one page of each partition");

    let all = filter(&["--state", "DEAD"]);
    let mut pages = pin!(select(&store, &all, AT_ONCE, Read::Heads));
    let first = pages.next().await.unwrap().unwrap();
    assert!(first.records.len() <= PAGE_MAX);
    let ahead = calls.of("Query") - shards;
    assert!(ahead <= u64::try_from(2 * AT_ONCE).unwrap(), "{ahead} pages were read for the first one");
    let mut examined = first.examined;
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        assert!(page.records.len() <= PAGE_MAX, "no page is larger, so memory does not grow");
        examined += page.examined;
    }
    assert_eq!(examined, RECORDS);
    println!("{RECORDS} records: {} Query, {} BatchGetItem in all", calls.of("Query"), calls.of("BatchGetItem"));
    backends.shutdown().await;
}

/// However far a page looks, and although many records have one moment.
#[tokio::test]
async fn pages_repeat_no_record_and_skip_none() {
    const RECORDS: usize = 400;
    let (backends, store) = filled(RECORDS).await;
    let span = ["--since", "2025-12-31T22:30:00Z", "--until", "2026-01-01T00:30:00Z"];
    let all = Reach { keys: usize::MAX, hours: usize::MAX };
    for (options, reach) in [
        (&["--state", "DEAD"][..], all),
        (&["--state", "DEAD"], Reach { keys: 70, hours: 1 }),
        (&span, all),
        (&span, Reach { keys: 70, hours: 1 }),
        (&["--state", "DEAD", "--endpoint", "github"], Reach { keys: 70, hours: 1 }),
    ] {
        let filter = filter(options);
        let (mut seen, mut behind, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = page_of(&store, &filter, 50, reach, behind.as_ref()).await.unwrap();
            assert!(page.rows.len() <= 50);
            seen.extend(page.rows.into_iter().map(|(at, record)| (at, record.key)));
            pages += 1;
            assert!(pages < 100, "{options:?}: it never ends");
            let Some(next) = page.next else { break };
            behind = Some(PageCursor::parse(&next.to_string()).unwrap());
        }
        let expected = if options.contains(&"github") { 0 } else { RECORDS };
        assert_eq!(seen.len(), expected, "{options:?} {reach:?}, {pages} pages");
        assert!(seen.is_sorted_by(|one, other| one > other), "{options:?}: each once, the latest first");
    }
    backends.shutdown().await;
}
