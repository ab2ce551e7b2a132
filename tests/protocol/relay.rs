//! What a run of the relay may begin, and how it estimates arrivals.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::call::{
    Call, DueCursor, DueEntry, DuePage, DueQuery, DueState, Machine, Next, Reply, Signal, Step, Unavailable, Written,
};
use hookonce_protocol::code::Code;
use hookonce_protocol::item::Item;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{Due, Found, Record, Unreadable, attribute};
use hookonce_protocol::relay::{
    Budget, CHUNK_MAX, Chunk, ChunkReport, FAILED_SEND_PAUSE, Limits, PAGES_MAX, Run, Sample, Scanned,
};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::write::{NotApplied, Write};

use super::{a_record, after, answered, call};
use crate::support::clock::START;

const LIMITS: Limits =
    Limits { deadline: START.plus(Millis(60_000)), scan_max: Millis(2_000), chunk_max: Millis(20_000) };

fn by_run(now: EpochMs) -> Moment {
    Moment { now, entropy: 7 }
}

fn run(shards: u16, budget: Budget) -> Run {
    Run::new(Timing { shards, ..Timing::standard() }, budget, LIMITS, by_run(START))
}

fn entry(number: usize) -> DueEntry {
    let due_at = EpochMs(i64::try_from(number).unwrap());
    DueEntry { key: RecordKey::parse(&format!("in#relay#{number:05}")).unwrap(), due_at }
}

/// The queries that a run begins now, each answered with this page.
fn scan(run: &mut Run, mut page: impl FnMut(&DueQuery) -> Result<DuePage, Unavailable>) -> usize {
    let mut count = 0;
    while let Some(Step { next: Next::Call(_, Call::QueryDue(query)), .. }) = run.next_scan(by_run(START)) {
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
    while let Some(Step { next: Next::Call(_, Call::ReadHeads(keys)), .. }) = run.next_chunk(by_run(now)) {
        sizes.push(keys.len());
    }
    sizes
}

#[test]
fn chunks_under_way_together_stay_within_the_budget() {
    let mut run = run(4, Budget { sends_per_second_min: 4, ..Budget::standard() });
    assert_eq!(scan(&mut run, full_of(100)), 4);
    assert!(run.sample(by_run(START)).is_some(), "more is due than the least budget allows");
    run.granted(0);
    assert_eq!(chunks(&mut run, START), [100, 100, 40], "240 a minute");
    run.ended(ChunkReport { entries: 100, rearmed: 70, ..ChunkReport::default() });
    assert_eq!(chunks(&mut run, START), [30], "what was not re-armed is left of the budget");
    run.ended(ChunkReport { entries: 100, rearmed: 100, ..ChunkReport::default() });
    assert_eq!(chunks(&mut run, START), [0; 0]);
}

#[test]
fn arrivals_are_sampled_only_if_they_matter() {
    let mut run = run(4, Budget::standard());
    scan(&mut run, full_of(100));
    assert!(run.sample(by_run(START)).is_none(), "400 are within the least budget of 600");
    assert_eq!(chunks(&mut run, START), [CHUNK_MAX; 4]);
}

#[test]
fn a_chunk_begins_only_if_it_can_end_before_the_deadline() {
    let mut run = run(4, Budget::standard());
    scan(&mut run, full_of(100));
    assert!(run.sample(by_run(START)).is_none());
    let last = EpochMs(LIMITS.deadline.0 - LIMITS.chunk_max.0 - LIMITS.scan_max.0);
    assert!(run.next_chunk(by_run(last)).is_some());
    assert_eq!(chunks(&mut run, last.plus(Millis(1))), [0; 0]);
    let ended = last.plus(LIMITS.chunk_max);
    assert!(
        run.next_dead_scan(by_run(ended)).is_some(),
        "what is DEAD is counted also after a chunk that takes all its time"
    );
}

#[test]
fn a_shard_is_read_only_if_a_chunk_can_follow() {
    let mut run = run(4, Budget::standard());
    let last = EpochMs(LIMITS.deadline.0 - LIMITS.chunk_max.0 - 2 * LIMITS.scan_max.0);
    assert!(run.next_scan(by_run(last)).is_some());
    assert!(run.next_scan(by_run(last.plus(Millis(1)))).is_none());
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
        assert!(run.sample(by_run(START)).is_none());
        if !run.turn_page() {
            break;
        }
    }
    assert_eq!(pages, PAGES_MAX);
}

#[test]
fn a_gauge_that_stops_at_its_limit_counts_the_capped_shard() {
    let mut run = run(2, Budget::standard());
    let mut more = false;
    while let Some(Step { next: Next::Call(_, Call::QueryDue(query)), .. }) = run.next_dead_scan(by_run(START)) {
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
    let mut step = Sample::start(&Timing { shards, ..Timing::standard() }, START, moment);
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
    let step = answered(Sample::start(&Timing::standard(), START, by_run(START)), Reply::Counted(Ok(7)), START);
    assert_eq!(answered(step, Reply::Counted(Err(Unavailable)), START).next, Next::Done(7));
}

#[test]
fn a_slow_store_does_not_take_the_time_for_sending() {
    let step = Sample::start(&Timing::standard(), START, by_run(START));
    assert_eq!(answered(step, Reply::Counted(Ok(7)), START.plus(Millis(1))).next, Next::Done(7));
}

/// The record of an entry, as the index shows it.
fn due(entry: &DueEntry) -> Record {
    Record { due: Some(Due::pending(&entry.key, 16, entry.due_at)), ..a_record(entry.key.as_str()) }
}

type ChunkStep = Step<Chunk, ChunkReport>;

/// A chunk of so many records that wants to move their due times.
fn rearming(entries: usize) -> ChunkStep {
    let entries: Vec<_> = (0..entries).map(entry).collect();
    let found = entries.iter().map(|entry| Ok(Found::Record(Box::new(due(entry))))).collect();
    answered(Chunk::start(entries, Timing::standard()), Reply::ReadHeads(found), START)
}

fn writes(step: &ChunkStep) -> &[Write] {
    let Call::WriteEach(writes) = call(step) else { panic!("it writes: {step:?}") };
    writes
}

/// An index that lags shows a record at an earlier due time as well, and a due time also moves back.
#[test]
fn a_record_is_re_armed_once_and_from_the_due_time_that_is_read() {
    let (own, stale) = (entry(3), DueEntry { due_at: EpochMs(9), ..entry(3) });
    let record = Record { resends: 3, ..due(&own) };
    for shown in [vec![own.clone(), stale.clone()], vec![stale, own]] {
        let step = Chunk::start(shown, Timing::standard());
        assert_eq!(*call(&step), Call::ReadHeads(vec![record.key.clone()]));
        let step = answered(step, Reply::ReadHeads(vec![Ok(Found::Record(Box::new(record.clone())))]), START);
        let rearms = writes(&step);
        let [rearm] = rearms else { panic!("it is moved once: {rearms:?}") };
        let moved = after(rearm, &record).due.unwrap().at.0 - START.0;
        let least = Timing::standard().resend_interval(3).0;
        assert!((least..=least + least / 4).contains(&moved), "{moved} ms, by an interval that grows from {least}");
    }
}

/// How long a run tells that a handler was away, if its index shows one record, due at this moment.
fn told(due_in: Millis, error: Code) -> (Option<Millis>, i64) {
    let shown = DueEntry { due_at: START.plus(due_in), ..entry(3) };
    let since = EpochMs(START.0 - 700_000);
    let record = Record { waits_since: Some(since), last_error: Some(error.as_str().to_owned()), ..due(&shown) };
    let mut run = Run::waiting(Timing { shards: 1, ..Timing::standard() }, Budget::standard(), LIMITS, by_run(START));
    run = run.looking_ahead();
    scan(&mut run, |_| Ok(DuePage { entries: vec![shown.clone()], next: None }));
    let step = run.next_chunk(by_run(START)).or_else(|| run.next_look(by_run(START))).unwrap();
    let found = Reply::ReadHeads(vec![Ok(Found::Record(Box::new(record)))]);
    let mut step = answered(step, found, START);
    if matches!(step.next, Next::Call(..)) {
        step = answered(step, Reply::WrittenEach(vec![Written::Applied]), START);
        step = answered(step, Reply::SentEach(vec![Ok(())]), START);
    }
    let Next::Done(report) = step.next else { panic!("it ends") };
    run.ended(report);
    let report = run.report();
    (report.unavailable_for, report.untried_resends)
}

#[test]
fn an_event_that_waits_for_a_handler_is_told_whether_it_is_due_or_not() {
    for due_in in [Millis(0), Millis(1), Millis::minutes(50)] {
        for error in [Code::HandlerUnavailable, Code::TableUnavailable] {
            assert_eq!(told(due_in, error), (Some(Millis(700_000)), 0));
        }
        assert_eq!(told(due_in, Code::ConditionFailed), (None, 0), "its plans fail, which pages nobody");
    }
}

/// A look costs a read of each record, so it takes a few, and others in each run. What was just accepted is none of them.
#[test]
fn a_run_looks_at_some_of_what_falls_due_later() {
    let shards = 4;
    let looked = |entropy, due_in: Millis| {
        let moment = Moment { now: START, entropy };
        let timing = Timing { shards, ..Timing::standard() };
        let mut run = Run::new(timing, Budget::standard(), LIMITS, moment).looking_ahead();
        let mut number = 0;
        let mut later = || {
            number += 1;
            DueEntry { due_at: START.plus(due_in), ..entry(number) }
        };
        let pages = scan(&mut run, |_| {
            let next = Some(DueCursor { key: "x".to_owned(), due_at: EpochMs(1) });
            Ok(DuePage { entries: (0..100).map(|_| later()).collect(), next })
        });
        assert_eq!(pages, usize::from(shards));
        assert!(!run.turn_page(), "what follows a page of these is due later, too");
        assert!(run.next_chunk(moment).is_none(), "none is due");
        let Some(Step { next: Next::Call(_, Call::ReadHeads(keys)), .. }) = run.next_look(moment) else {
            return Vec::new();
        };
        assert!(run.next_look(moment).is_none(), "once");
        keys
    };
    assert_eq!(looked(0, Timing::standard().first_resend), []);
    let seen: Vec<_> = (0..16).map(|entropy| looked(entropy, Millis::hours(3))).collect();
    assert!(seen.iter().all(|keys| keys.len() == CHUNK_MAX / 4));
    assert_eq!(seen.iter().flatten().collect::<BTreeSet<_>>().len(), 400, "each has its turn");
}

/// The store may have moved a due time without saying so. The record would then wait for a whole interval.
#[test]
fn a_re_arm_of_unknown_outcome_is_repaired() {
    let step = rearming(3);
    let rearms = writes(&step).to_vec();
    let written = vec![Written::Unavailable, Written::Applied, Written::TransactionConflict];
    let step = answered(step, Reply::WrittenEach(written), START);
    assert!(matches!(call(&step), Call::SendEach(messages) if messages.len() == 1), "{step:?}");
    let step = answered(step, Reply::SentEach(vec![Ok(())]), START);
    let repairs = writes(&step);
    assert_eq!(repairs.iter().map(|it| &it.key).collect::<Vec<_>>(), [&rearms[0].key, &rearms[2].key]);
    for (repair, rearm) in repairs.iter().zip([&rearms[0], &rearms[2]]) {
        let before = a_record(rearm.key.as_str()).encode();
        let due_at = entry(rearms.iter().position(|it| it.key == rearm.key).unwrap()).due_at;
        let before: Item = before.into_iter().chain([(attribute::DUE_AT.to_owned(), due_at.0.into())]).collect();
        assert_eq!(repair.apply(Some(&before)), Err(NotApplied::ConditionFailed), "what was not moved stays");
        let moved = rearm.apply(Some(&before)).unwrap().unwrap();
        let repaired = repair.apply(Some(&moved)).unwrap().unwrap();
        assert_eq!(repaired[attribute::DUE_AT], START.plus(FAILED_SEND_PAUSE).0.into());
    }
}

#[test]
fn a_re_arm_that_the_store_refuses_for_good_is_signalled() {
    let step = answered(rearming(1), Reply::WrittenEach(vec![Written::Invalid]), START);
    assert_eq!(step.signals, [Signal::WriteInvalid]);
}

/// Of a hundred entries, one is a record that this release may act on, and its write times out.
#[test]
fn one_write_of_a_chunk_of_newer_records_does_not_stall_the_run() {
    let entries: Vec<_> = (0..CHUNK_MAX).map(entry).collect();
    let newer = || Ok(Found::Unreadable(Unreadable { schema_version: Some(2) }));
    let mine = Ok(Found::Record(Box::new(due(&entries[0]))));
    let found = std::iter::once(mine).chain(std::iter::repeat_with(newer)).take(CHUNK_MAX).collect();
    let step = answered(Chunk::start(entries, Timing::standard()), Reply::ReadHeads(found), START);
    let step = answered(step, Reply::WrittenEach(vec![Written::Unavailable]), START);
    assert_eq!(writes(&step).len(), 1, "it repairs also without a hint to send");
    let ended = answered(step, Reply::WrittenEach(vec![Written::Applied]), START).next;
    assert!(matches!(&ended, Next::Done(report) if !report.stalled), "{ended:?}");
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
