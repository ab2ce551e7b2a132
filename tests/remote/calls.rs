//! Calls: their time, in virtual time. What the adapters make of each answer is in `tests/adapters/handlers.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use hookonce_protocol::call::{Failure, Planned};
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{HANDLER_CALL_MAX, Moment, Timing};
use hookonce_providers::Catalog;
use hookonce_runtime::circuit_breaker::{FAILURES_MAX, OPEN_MIN};
use hookonce_runtime::handlers::Handlers;
use hookonce_runtime::handlers::remote::{CallBudget, Calls, REMEMBERED};
use hookonce_runtime::inbox::body::compress;
use hookonce_runtime::inbox::drive::duration;
use hookonce_runtime::inbox::memory::{MemoryPermit, MemoryPermits};
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::WorkerParts;
use hookonce_runtime::routes::{Offered, RouteSet, Routing};
use serde_json::json;
use tokio::time::Instant;

use super::count_at_once;
use crate::edge::deadlines::Slow;
use crate::protocol::a_record;
use crate::support::remote::{FakeHandlers, Reaction};

/// Plans a counted event with a handler that takes this long, until this long from now. Says how often it was called.
async fn planned(takes: Duration, until: Duration) -> (Planned, u16) {
    let handlers = FakeHandlers::new(move |request| Reaction::Slow(takes, count_at_once(request)));
    planned_by(&worker(&handlers), EpochMs(0), until).await
}

type Worker = WorkerParts<Slow, (), ()>;

fn worker(handlers: &FakeHandlers) -> Worker {
    WorkerParts {
        store: Slow::default(),
        queue: (),
        keys: MessageKeys::none(),
        ambient: (),
        handlers: Handlers::new(),
        remote: handlers.remote(),
        catalog: Catalog::built_in(),
        timing: Timing::standard(),
    }
}

async fn planned_by(parts: &Worker, now: EpochMs, until: Duration) -> (Planned, u16) {
    planned_from(false, parts, now, until).await
}

/// The same for a message that moves to the slow queue if its handler is slow.
async fn planned_from(slow_move: bool, parts: &Worker, now: EpochMs, until: Duration) -> (Planned, u16) {
    planned_of(&counted(), &MemoryPermit::of(&MemoryPermits::default()), slow_move, parts, now, until).await
}

/// The record of an event that is counted.
fn counted() -> Record {
    let mut record = a_record("in#shop#evt_1");
    record.provider = "standard_webhooks".to_owned();
    record.body = Some(compress(br#"{"type":"count.once","fact":"a"}"#).unwrap());
    record
}

async fn planned_of(
    record: &Record,
    memory: &MemoryPermit,
    slow_move: bool,
    parts: &Worker,
    now: EpochMs,
    until: Duration,
) -> (Planned, u16) {
    let route = json!({ "name": "n", "consumer": "c", "handler": {"lambda": "count"} });
    let set = json!({ "version": 1, "otherwise": "dead", "routes": [route] }).to_string();
    let set = RouteSet::parse(&set, Offered { handlers: &[], urls: false, tables: None }).unwrap();
    let budget = CallBudget::until(Instant::now() + until);
    let moment = || Moment { now, entropy: 0 };
    let calls = Calls { slow_move, budget: &budget, memory, request_id: &|| "r".to_owned(), moment: &moment };
    let planned = parts.plan(record, &Routing::Set(set.into()), calls).await;
    (planned, budget.made())
}

/// What moves is told with the handler, as the group of its message.
fn slow() -> Planned {
    Planned::HandlerSlow { handler: "count".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_when_its_time_is_over_and_is_not_begun_without_all_of_it() {
    let all = duration(HANDLER_CALL_MAX);
    let (just_less, long) = (all.saturating_sub(Duration::from_millis(1)), Duration::from_mins(1));
    assert!(matches!(planned(just_less, long).await, (Planned::Plan(_), 1)));
    let late = planned(all + Duration::from_millis(1), long).await;
    assert_eq!(late, (Planned::Failed(Failure::retryable("HANDLER_TIMED_OUT")), 1));
    assert!(matches!(planned(Duration::ZERO, all).await, (Planned::Plan(_), 1)));
    assert_eq!(planned(Duration::ZERO, just_less).await, (Planned::CallsUsedUp, 0));
}

/// How much memory items take is known only once they are read. Handlers work meanwhile.
#[tokio::test(start_paused = true)]
async fn of_a_batch_few_messages_at_a_time_read_long_items() {
    let handlers = FakeHandlers::new(move |request| {
        let read = request["items"].as_array().is_some_and(|items| !items.is_empty());
        let keys = || ["a", "b", "c"].map(|item| json!({ "key": format!("shop#{item}#long") }));
        let answer = if read { count_at_once(request) } else { json!({ "fact": "a", "reads": keys() }) };
        Reaction::Slow(Duration::from_secs(2), answer)
    });
    let (parts, permits, began) = (worker(&handlers), MemoryPermits::default(), Instant::now());
    parts.store.takes(Duration::from_millis(10));
    let batch = (0..10).map(|_| async {
        let memory = MemoryPermit::of(&permits);
        planned_of(&counted(), &memory, false, &parts, EpochMs(0), Duration::from_mins(1)).await
    });
    let planned = join_all(batch).await;
    assert!(planned.iter().all(|planned| matches!(planned, (Planned::Plan(_), 2))), "{planned:?}");
    assert_eq!(began.elapsed(), Duration::from_millis(2_000 + 4 * 10 + 2_000), "three at a time");
}

#[tokio::test(start_paused = true)]
async fn items_that_are_too_long_together_are_refused_unread() {
    let handlers = FakeHandlers::new(|_| {
        let reads = ["a", "b"].map(|item| json!({ "key": format!("shop#{item}#very-long") }));
        Reaction::Slow(Duration::ZERO, json!({ "fact": "a", "reads": reads }))
    });
    let ended = planned_by(&worker(&handlers), EpochMs(0), Duration::from_mins(1)).await;
    assert_eq!(ended, (Planned::Failed(Failure::permanent("HANDLER_ASKED_TOO_MUCH")), 1));
}

/// A handler that hangs would otherwise hold every worker for as long as it has events.
#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_several_times_in_a_row_opens_its_circuit() {
    let hang = Arc::new(AtomicBool::new(true));
    let hangs = Arc::clone(&hang);
    let handlers = FakeHandlers::new(move |request| {
        let takes = if hangs.load(Ordering::SeqCst) { Duration::from_hours(1) } else { Duration::ZERO };
        Reaction::Slow(takes, count_at_once(request))
    });
    let (parts, long) = (worker(&handlers), Duration::from_mins(1));
    for _ in 0..FAILURES_MAX {
        assert!(matches!(planned_by(&parts, EpochMs(0), long).await, (Planned::Failed(_), 1)));
    }
    let (half_open, began) = (EpochMs(0).plus(OPEN_MIN), Instant::now());
    assert_eq!(planned_by(&parts, EpochMs(half_open.0 - 1), long).await, (Planned::HandlerAway, 0));
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits for it");
    let batch = (0..10).map(|_| planned_by(&parts, half_open, long));
    let (tried, left): (Vec<_>, Vec<_>) = join_all(batch).await.into_iter().partition(|(_, calls)| *calls > 0);
    assert!(matches!(tried[..], [(Planned::Failed(_), 1)]), "one call tries it again: {tried:?}");
    assert!(left.iter().all(|(planned, _)| *planned == Planned::HandlerAway), "{left:?}");
    assert_eq!(planned_by(&parts, half_open, long).await, (Planned::HandlerAway, 0), "one more failure is enough");
    hang.store(false, Ordering::SeqCst);
    let later = half_open.plus(OPEN_MIN);
    for _ in 0..2 {
        assert!(matches!(planned_by(&parts, later, long).await, (Planned::Plan(_), 1)));
    }
}

/// Connecting to it takes two seconds, and fails. Each batch with one of its events would wait so long.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_slow_to_be_away_opens_its_circuit() {
    let handlers = FakeHandlers::new(|_| Reaction::AwayAfter(Duration::from_secs(2)));
    let (parts, long) = (worker(&handlers), Duration::from_mins(1));
    for calls in [1, 1, 1, 1, 1, 0] {
        assert_eq!(planned_by(&parts, EpochMs(0), long).await, (Planned::HandlerAway, calls));
    }
}

/// Its calls that hang use up its concurrency, so others are throttled at once.
#[tokio::test(start_paused = true)]
async fn a_throttled_call_does_not_hide_that_a_handler_hangs() {
    let calls = AtomicU32::new(0);
    let handlers = FakeHandlers::new(move |request| match calls.fetch_add(1, Ordering::SeqCst) {
        1 => Reaction::Away,
        _ => Reaction::Slow(Duration::from_hours(1), count_at_once(request)),
    });
    let (parts, long) = (worker(&handlers), Duration::from_mins(1));
    for _ in 0..=FAILURES_MAX {
        assert_eq!(planned_by(&parts, EpochMs(0), long).await.1, 1);
    }
    assert_eq!(planned_by(&parts, EpochMs(0), long).await, (Planned::HandlerAway, 0));
}

/// One that always answers just in time never opens its circuit. Its events would hold every run of the worker.
#[tokio::test(start_paused = true)]
async fn the_event_of_a_slow_handler_moves_without_a_call_and_is_tried_again_after_a_while() {
    let takes = Arc::new(AtomicU32::new(4));
    let seconds = Arc::clone(&takes);
    let handlers = FakeHandlers::new(move |request| {
        let takes = Duration::from_secs(seconds.load(Ordering::SeqCst).into());
        Reaction::Slow(takes, count_at_once(request))
    });
    let (parts, long, now) = (worker(&handlers), Duration::from_mins(1), EpochMs(0));
    let began = Instant::now();
    for called in [true, false, false] {
        let planned = planned_from(true, &parts, now, long).await;
        assert_eq!((planned.0 == slow(), planned.1), (!called, u16::from(called)));
    }
    assert_eq!(began.elapsed(), Duration::from_secs(4), "nobody waits for it any more");
    assert!(matches!(planned_by(&parts, now, long).await, (Planned::Plan(_), 1)), "from the slow queue it is called");
    let later = EpochMs(REMEMBERED.0);
    assert_eq!(planned_from(true, &parts, EpochMs(later.0 - 1), long).await, (slow(), 0));
    takes.store(0, Ordering::SeqCst);
    assert!(matches!(planned_from(true, &parts, later, long).await, (Planned::Plan(_), 1)));
    assert!(matches!(planned_from(true, &parts, later, long).await, (Planned::Plan(_), 1)));
}

/// A handler with little concurrency: most calls are throttled at once, and each batch waits for those that are not.
#[tokio::test(start_paused = true)]
async fn throttled_calls_do_not_hide_that_a_handler_is_slow() {
    let calls = AtomicU32::new(0);
    let handlers = FakeHandlers::new(move |request| match calls.fetch_add(1, Ordering::SeqCst) % 20 {
        0 => Reaction::Slow(Duration::from_secs(3), count_at_once(request)),
        _ => Reaction::Away,
    });
    let (parts, long, now) = (worker(&handlers), Duration::from_mins(1), EpochMs(0));
    let mut batches = Vec::new();
    for _ in 0..3 {
        let batch = join_all((0..20).map(|_| planned_from(true, &parts, now, long))).await;
        batches.push(batch.iter().filter(|(planned, _)| *planned == slow()).count());
    }
    assert_eq!(batches, [0, 0, 20]);
}
