//! What a run of the relay may begin, and how it estimates arrivals.

use std::collections::BTreeMap;

use hookonce_protocol::call::{
    Call, DueCursor, DueEntry, DuePage, DueQuery, DueState, Machine, Next, Reply, Step, Unavailable,
};
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::relay::{Budget, CHUNK_MAX, ChunkReport, Limits, PAGES_MAX, Run, Sample, Scanned};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};

use crate::support::clock::START;

const LIMITS: Limits =
    Limits { deadline: START.plus(Millis(60_000)), scan_max: Millis(2_000), chunk_max: Millis(20_000) };

fn at(now: EpochMs) -> Moment {
    Moment { now, entropy: 7 }
}

fn run(shards: u16, budget: Budget) -> Run {
    Run::new(Timing { shards, shards_read: shards, ..Timing::standard() }, budget, LIMITS, at(START))
}

fn entry(number: usize) -> DueEntry {
    let due_at = EpochMs(i64::try_from(number).unwrap());
    DueEntry { key: RecordKey::parse(&format!("in#relay#{number:05}")).unwrap(), due_at }
}

/// The queries that a run begins now, each answered with this page.
fn scan(run: &mut Run, mut page: impl FnMut(&DueQuery) -> Result<DuePage, Unavailable>) -> usize {
    let mut count = 0;
    while let Some(Step { next: Next::Call(_, Call::QueryDue(query)), .. }) = run.next_scan(at(START)) {
        let page = page(&query);
        run.scanned(Scanned { query, page });
        count += 1;
    }
    count
}

fn full_of(entries: usize) -> impl FnMut(&DueQuery) -> Result<DuePage, Unavailable> {
    let mut given = 0;
    move |_| {
        let page = DuePage { entries: (given..given + entries).map(entry).collect(), next: None };
        given += entries;
        Ok(page)
    }
}

/// The sizes of the chunks that a run begins now.
fn chunks(run: &mut Run, now: EpochMs) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let Some(Step { next: Next::Call(_, Call::ReadHeads(keys)), .. }) = run.next_chunk(at(now)) {
        sizes.push(keys.len());
    }
    sizes
}

fn wholly(entries: usize) -> ChunkReport {
    ChunkReport { entries, rearmed: entries, sent: entries, ..ChunkReport::default() }
}

#[test]
fn chunks_under_way_together_stay_within_the_budget() {
    let mut run = run(4, Budget { sends_per_second_min: 4, ..Budget::standard() });
    assert_eq!(scan(&mut run, full_of(100)), 4);
    assert!(run.sample(at(START)).is_some(), "more is due than the least budget allows");
    run.granted(0);
    assert_eq!(chunks(&mut run, START), [100, 100, 40], "240 a minute");
    run.ended(ChunkReport { entries: 100, rearmed: 70, ..ChunkReport::default() });
    assert_eq!(chunks(&mut run, START), [30], "what was not re-armed is left of the budget");
    run.ended(wholly(100));
    assert_eq!(chunks(&mut run, START), [0; 0]);
    assert!(!run.turn_page());
}

#[test]
fn arrivals_are_sampled_only_if_they_matter() {
    let mut run = run(4, Budget::standard());
    scan(&mut run, full_of(100));
    assert!(run.sample(at(START)).is_none(), "400 are within the least budget of 600");
    assert_eq!(chunks(&mut run, START), [CHUNK_MAX; 4]);
}

#[test]
fn no_chunk_follows_one_that_stalled() {
    let mut run = run(4, Budget::standard());
    scan(&mut run, full_of(100));
    assert!(run.sample(at(START)).is_none());
    assert!(run.next_chunk(at(START)).is_some());
    run.ended(ChunkReport { stalled: true, failed: 100, ..wholly(100) });
    assert_eq!(chunks(&mut run, START), [0; 0]);
    assert!(!run.turn_page());
}

#[test]
fn a_chunk_begins_only_if_it_can_end_before_the_deadline() {
    let mut run = run(4, Budget::standard());
    scan(&mut run, full_of(100));
    assert!(run.sample(at(START)).is_none());
    let last = EpochMs(LIMITS.deadline.0 - LIMITS.chunk_max.0);
    assert!(run.next_chunk(at(last)).is_some());
    assert_eq!(chunks(&mut run, last.plus(Millis(1))), [0; 0]);
}

#[test]
fn a_shard_is_read_only_if_a_chunk_can_follow() {
    let mut run = run(4, Budget::standard());
    let last = EpochMs(LIMITS.deadline.0 - LIMITS.chunk_max.0 - LIMITS.scan_max.0);
    assert!(run.next_scan(at(last)).is_some());
    assert!(run.next_scan(at(last.plus(Millis(1)))).is_none());
    assert_eq!(run.report().shards_unavailable, 3, "the others were not read");
}

#[test]
fn full_pages_are_followed_up_to_a_limit() {
    let mut run = run(1, Budget { sends_per_second_min: 10_000, ..Budget::standard() });
    let mut pages = 0;
    loop {
        pages += scan(&mut run, |query| {
            let seen = query.after.as_ref().map_or(0, |place| place.key.parse::<usize>().unwrap());
            let next = Some(DueCursor { key: (seen + 1).to_string(), due_at: EpochMs(0) });
            Ok(DuePage { entries: Vec::new(), next })
        });
        assert!(run.sample(at(START)).is_none());
        if !run.turn_page() {
            break;
        }
    }
    assert_eq!(pages, PAGES_MAX);
}

#[test]
fn a_gauge_that_stops_at_its_limit_says_so() {
    let mut run = run(2, Budget::standard());
    let mut more = false;
    while let Some(Step { next: Next::Call(_, Call::QueryDue(query)), .. }) = run.next_dead_scan(at(START)) {
        assert_eq!(query.state, DueState::Dead);
        let next = more.then(|| DueCursor { key: "x".to_owned(), due_at: EpochMs(1) });
        more = true;
        run.dead_scanned(Scanned { query, page: Ok(DuePage { entries: vec![entry(7), entry(9)], next }) });
    }
    let dead = run.report().dead;
    assert_eq!((dead.records, dead.shards_capped, dead.shards_unavailable), (4, 1, 0));
    assert_eq!(dead.oldest_age, Some(Millis(START.0 - 7)));
}

/// Drives a sample over the journal's shards.
fn sampled(counts: &BTreeMap<u16, u64>, shards: u16, entropy: u64) -> u64 {
    let moment = Moment { now: START, entropy };
    let mut step = Sample::start(&Timing { shards, ..Timing::standard() }, moment);
    loop {
        match step.next {
            Next::Done(arrivals) => return arrivals,
            Next::Call(machine, Call::CountReceived { shard, .. }) => {
                assert!(shard < shards);
                let count = counts.get(&shard).copied().unwrap_or(0);
                step = machine.step(Reply::Counted(Ok(count)), moment);
            }
            Next::Call(_, call) => panic!("{call:?}"),
        }
    }
}

#[test]
fn a_sample_of_few_shards_is_exact_however_uneven_they_are() {
    let skewed = BTreeMap::from([(3, 10_000), (4, 1)]);
    for entropy in 0..100 {
        assert_eq!(sampled(&skewed, 16, entropy), 10_001);
    }
}

#[test]
fn a_store_that_does_not_count_grants_nothing() {
    let step = Sample::start(&Timing::standard(), at(START));
    let Next::Call(machine, _) = step.next else { panic!("it counts") };
    let step = machine.step(Reply::Counted(Ok(7)), at(START));
    let Next::Call(machine, _) = step.next else { panic!("it counts on") };
    assert_eq!(machine.step(Reply::Counted(Err(Unavailable)), at(START)).next, Next::Done(7));
}

/// Ten thousand events of one envelope, in any number of shards.
#[test]
fn the_events_of_an_envelope_do_not_distort_the_sample() {
    let endpoint = EndpointId::parse("whatsapp").unwrap();
    for shards in [16, 32, 64, 128, 256, 512, 1_024] {
        let mut counts = BTreeMap::new();
        for number in 0..10_000 {
            *counts.entry(RecordKey::event(&endpoint, &format!("wamid.{number}")).shard(shards)).or_insert(0_u64) += 1;
        }
        for entropy in 0..100 {
            let arrivals = sampled(&counts, shards, entropy);
            assert!((7_000..=13_000).contains(&arrivals), "{arrivals} of 10,000 in {shards} shards");
        }
    }
}
