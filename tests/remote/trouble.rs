//! Exactly once, whatever a handler in another language does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use hookonce_protocol::call::Written;
use hookonce_protocol::operator;
use hookonce_protocol::record::{DeadReason, Outcome, Status, WAITING_LIST};
use hookonce_protocol::time::Millis;
use hookonce_runtime::ambient::Ambient as _;
use serde_json::{Value, json};

use super::{count_at_once, count_in_two_rounds, fact, harness, key};
use crate::support::counting::{count, counted, counted_fact};
use crate::support::logs::Logs;
use crate::support::remote::{FakeHandlers, Reaction};
use crate::support::tables::Tables;
use crate::support::{Harness, Script, Verdict, hang_until};

/// In real time, because the queues are servers. So long, some calls make a handler slow.
const SLOW: Duration = Duration::from_millis(2_100);

/// A harness whose handlers react like this until they are mended. Then they answer like that.
async fn until_mended(
    broken: impl Fn(&Value) -> Reaction + Send + 'static,
    mended: fn(&Value) -> Value,
) -> (Harness, FakeHandlers, Arc<AtomicBool>) {
    let is_mended = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&is_mended);
    let rule = move |request: &Value| {
        if known.load(Ordering::SeqCst) { Reaction::Answers(mended(request)) } else { broken(request) }
    };
    let (harness, handlers) = harness(rule).await;
    (harness, handlers, is_mended)
}

#[tokio::test]
async fn racing_duplicates_of_one_event_have_one_effect() {
    let (harness, handlers) = harness(|request| Reaction::Answers(count_in_two_rounds(request))).await;
    let functions: Vec<_> = (0..32).map(|_| harness.webhook(&Script::none())).collect();
    let deliveries: Vec<_> = (0..32).map(|index| count(&format!("msg_{}", index % 4), "a")).collect();
    let racing = functions.iter().zip(&deliveries);
    join_all(racing.map(|(function, delivery)| function.handle(delivery.event(&harness.clock)))).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[counted_fact("a")]), Verdict::applied(1));
    assert_eq!(tables.number("standard_webhooks#count#a", "applied"), 1);
    assert_eq!(harness.metric("handler_calls"), i64::try_from(handlers.requests().len()).unwrap());
}

/// A copy of the message is worked on at the same time, and the handler answers each call differently.
#[tokio::test]
async fn of_two_answers_that_differ_one_plan_commits() {
    let calls = AtomicUsize::new(0);
    let (harness, _) = harness(move |request| {
        let mut answer = count_at_once(request);
        let amount = if calls.fetch_add(1, Ordering::SeqCst) == 0 { 10 } else { 3 };
        answer["writes"][0]["action"] = json!({ "update": [{"add": ["applied", amount]}] });
        Reaction::Answers(answer)
    })
    .await;
    harness.deliver(&count("msg_1", "a")).await;
    let (messages, batch) = harness.batch().await.unwrap();
    let workers = [harness.worker(&Script::none()), harness.worker(&Script::none())];
    let copies = workers.iter().map(|worker| Box::pin(worker.handle(batch.clone(), harness.deadline())));
    let responses = join_all(copies).await;
    harness.conclude(messages, responses.into_iter().next()).await;
    harness.settle().await;
    let applied = harness.tables().await.number("standard_webhooks#count#a", "applied");
    assert!(applied == 10 || applied == 3, "{applied} is one of the two answers, not their sum");
}

#[tokio::test]
async fn a_crash_in_either_round_is_a_counted_attempt_and_loses_nothing() {
    for round in 0..2 {
        let crashed = AtomicBool::new(false);
        let (harness, _) = harness(move |request| {
            let second = request["items"].get(0).is_some();
            if second == (round == 1) && !crashed.swap(true, Ordering::SeqCst) {
                return Reaction::Crashes;
            }
            Reaction::Answers(count_in_two_rounds(request))
        })
        .await;
        harness.deliver(&count("msg_1", "a")).await;
        harness.work_under(&Script::none()).await;
        let tables = harness.tables().await;
        let record = tables.record("#msg_1");
        assert_eq!((record.attempts, record.last_error.as_deref()), (1, Some("HANDLER_CRASHED")));
        harness.settle().await;
        assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
    }
}

#[tokio::test]
async fn a_handler_that_is_away_for_a_day_loses_nothing_and_kills_nothing() {
    let (harness, _, is_mended) = until_mended(|_| Reaction::Away, count_in_two_rounds).await;
    for fact in ["a", "b", "c"] {
        harness.deliver(&count(&format!("msg_{fact}"), fact)).await;
    }
    let began = harness.clock.now();
    for _ in 0..20 {
        harness.redeliver().await;
        harness.relay().await;
        harness.work().await;
        for record in harness.observe().await.values() {
            assert_eq!((record.status, record.attempts), (Status::Pending, 0), "{record:?}");
            assert_eq!(record.last_error.as_deref(), Some("HANDLER_UNAVAILABLE"));
            assert_eq!(record.waits_since, Some(began));
            assert!(record.due.as_ref().unwrap().at > harness.clock.now(), "the relay leaves it alone");
        }
        harness.clock.advance(Millis::minutes(70));
    }
    let away_calls = harness.metric("handler_unavailable");
    // The hint that comes back and the relay's may meet in one hour.
    assert!((60..=120).contains(&away_calls), "{away_calls}: twice in a round for each record, not more");
    assert_eq!(harness.metric("handler_failed"), 0);
    is_mended.store(true, Ordering::SeqCst);
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&["a", "b", "c"].map(counted_fact)), Verdict::applied(3));
    assert_eq!(tables.record("#msg_a").waits_since, None);
}

/// Delivers an event that waits uncounted for a day. Then its attempts count until it is DEAD, all with this code.
async fn given_up_after_a_day(harness: &Harness, code: &str) -> Tables {
    harness.deliver(&count("msg_1", "a")).await;
    harness.work_under(&Script::none()).await;
    harness.clock.advance(Millis(Millis::hours(24).0 + 1));
    harness.settle().await;
    let tables = harness.tables().await;
    let dead = tables.record("#msg_1");
    assert_eq!((dead.status, dead.dead_reason), (Status::Dead, Some(DeadReason::AttemptsExhausted)));
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (harness.timing.attempts_max, Some(code)));
    tables
}

#[tokio::test]
async fn a_handler_that_stays_away_is_counted_after_a_day_and_the_record_can_be_replayed() {
    let (harness, _, is_mended) = until_mended(|_| Reaction::Away, count_at_once).await;
    let tables = given_up_after_a_day(&harness, "HANDLER_UNAVAILABLE").await;
    let dead = tables.record("#msg_1");
    is_mended.store(true, Ordering::SeqCst);
    let retry = operator::retry(dead, false, &harness.timing, harness.clock.moment()).unwrap();
    assert_eq!(harness.operate(&retry).await, Written::Applied);
    assert_eq!(harness.tables().await.record("#msg_1").waits_since, None, "a retry waits anew");
    harness.relay().await;
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

/// While both are deployed, a newer worker may meet an older handler.
#[tokio::test]
async fn a_handler_that_is_older_than_its_worker_is_waited_for_and_counts_no_attempt() {
    let older = |request: &Value| {
        let refused = || json!({ "error": {"code": "REQUEST_VERSION_UNKNOWN", "retryable": true} });
        let is_second = request["items"].get(0).is_some();
        Reaction::Answers(if is_second { refused() } else { count_in_two_rounds(request) })
    };
    let (harness, _, is_mended) = until_mended(older, count_in_two_rounds).await;
    harness.deliver(&count("msg_1", "a")).await;
    harness.work_under(&Script::none()).await;
    let tables = harness.tables().await;
    let record = tables.record("#msg_1");
    assert_eq!((record.attempts, record.last_error.as_deref()), (0, Some("HANDLER_UNAVAILABLE")));
    assert_eq!((harness.metric("handler_unavailable"), harness.metric("handler_failed")), (1, 0));
    is_mended.store(true, Ordering::SeqCst);
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

const TYPES: [&str; 4] = ["count.odd", "count.greedy", "count.even", "local.even"];

/// What no further attempt can change.
fn too_many_reads(request: &Value) -> Value {
    let reads: Vec<_> = (0..=100).map(|number| json!({ "key": key(&number.to_string()) })).collect();
    json!({ "fact": fact(request), "reads": reads })
}

/// Events of the same handler that it can read go on meanwhile, and so do those of others.
#[tokio::test]
async fn nonsense_for_an_hour_harms_only_its_own_records_and_replay_mends_them() {
    let nonsense = |request: &Value| {
        Reaction::Answers(match request["event"]["type"].as_str() {
            Some("count.odd") => json!({ "done": true }),
            Some("count.greedy") => too_many_reads(request),
            _ => count_at_once(request),
        })
    };
    let (harness, _, is_mended) = until_mended(nonsense, count_at_once).await;
    let logs = Logs::catch("warn");
    let minutes: Vec<_> = (0..60).step_by(5).collect();
    for minute in &minutes {
        for event_type in TYPES {
            let fact = format!("{event_type}-{minute}");
            harness.deliver(&counted(&format!("msg_{fact}"), event_type, &fact)).await;
        }
        harness.redeliver().await;
        harness.relay().await;
        harness.work().await;
        let tables = harness.tables().await;
        for event_type in ["count.even", "local.even"] {
            let record = tables.record(&format!("#msg_{event_type}-{minute}"));
            assert_eq!(record.outcome, Some(Outcome::Applied), "{record:?}");
        }
        harness.clock.advance(Millis::minutes(5));
    }
    let log = logs.take();
    assert!(log.contains("unknown field") && !log.contains("done"), "{log}");

    is_mended.store(true, Ordering::SeqCst);
    let tables = harness.tables().await;
    for minute in &minutes {
        let waits = tables.record(&format!("#msg_count.odd-{minute}"));
        assert_eq!((waits.status, waits.last_error.as_deref()), (Status::Pending, Some("HANDLER_ANSWER_MALFORMED")));
        let dead = tables.record(&format!("#msg_count.greedy-{minute}"));
        assert_eq!((dead.status, dead.last_error.as_deref()), (Status::Dead, Some("HANDLER_ASKED_TOO_MUCH")));
        let retry = operator::retry(dead, false, &harness.timing, harness.clock.moment()).unwrap();
        assert_eq!(harness.operate(&retry).await, Written::Applied);
    }
    harness.relay().await;
    harness.settle().await;
    let facts = |minute| TYPES.map(|event_type| counted_fact(&format!("{event_type}-{minute}")));
    let facts: Vec<_> = minutes.iter().flat_map(facts).collect();
    assert_eq!(harness.tables().await.verdict(&facts), Verdict::applied(facts.len()));
}

/// The records of another handler are committed while one has not answered, from either queue: nothing waits for the
/// batch.
#[tokio::test]
async fn a_slow_handler_holds_up_no_other_record() {
    let (harness, _) = harness(|request| match request["event"]["type"].as_str() {
        Some("count.slow") if fact(request).starts_with("hangs") => Reaction::Slow(Duration::from_hours(1), json!({})),
        _ => Reaction::Slow(SLOW, count_at_once(request)),
    })
    .await;
    let worker = harness.worker(&Script::none());
    let (queue, slow_queue) = (&harness.stack.resources.queue, &harness.stack.resources.slow_queue);
    let send = async |batch: &str| {
        for id in (0..8).map(|number| format!("{batch}-{number}")) {
            let event_type = if id.ends_with(['0', '1', '2', '3']) { "count.slow" } else { "local.slow" };
            harness.deliver(&counted(&format!("msg_{id}"), event_type, &id)).await;
        }
    };
    let hangs_and_the_others_are_applied = async |name: &str, queue| {
        let (_, batch) = harness.batch_of(queue).await.unwrap();
        let are_applied = async || {
            let tables = harness.tables().await;
            let outcome = |number| tables.record(&format!("#msg_{name}-{number}")).outcome;
            (4..8).all(|number| outcome(number) == Some(Outcome::Applied))
        };
        hang_until(Box::pin(worker.handle(batch, harness.deadline())), are_applied).await;
        assert_eq!(harness.tables().await.record(&format!("#msg_{name}-0")).attempts, 0);
    };
    send("hangs-a").await;
    hangs_and_the_others_are_applied("hangs-a", queue).await;
    send("quick").await;
    assert!(harness.work_on(&worker, queue, &Script::none()).await);
    assert!(harness.work_on(&worker, slow_queue, &Script::none()).await);
    send("hangs-b").await;
    assert!(harness.work_on(&worker, queue, &Script::none()).await);
    assert_eq!(harness.metric("event_moved"), 4 + 8, "both handlers are known as slow by now");
    hangs_and_the_others_are_applied("hangs-b", slow_queue).await;
}

/// A batch ends with its slowest message, so the events of a slow handler would hold every run of the worker.
#[tokio::test]
async fn the_events_of_a_slow_handler_hold_no_batch_once_a_process_knows_it() {
    let (harness, handlers) = harness(|request| match request["event"]["type"].as_str() {
        Some("count.slow") => Reaction::Slow(SLOW, count_at_once(request)),
        _ => Reaction::Answers(count_at_once(request)),
    })
    .await;
    let worker = harness.worker(&Script::none());
    let (queue, slow_queue) = (&harness.stack.resources.queue, &harness.stack.resources.slow_queue);
    let send = async |batch: &str| {
        for number in 0..9 {
            let id = format!("{batch}{number}");
            harness.deliver(&counted(&format!("msg_{id}"), "count.slow", &id)).await;
        }
        harness.deliver(&counted(&format!("msg_{batch}"), "local.quick", batch)).await;
    };
    send("a").await;
    assert!(harness.work_on(&worker, queue, &Script::none()).await);
    assert_eq!(handlers.requests().len(), 10, "nobody knows it yet");

    send("b").await;
    assert!(harness.work_on(&worker, queue, &Script::none()).await);
    let tables = harness.tables().await;
    assert_eq!(handlers.requests().len(), 11, "only the quick one was called");
    assert_eq!(tables.record("#msg_b").outcome, Some(Outcome::Applied));
    assert_eq!((tables.record("#msg_b0").status, harness.metric("event_moved")), (Status::Pending, 9));
    assert!(!harness.work_on(&worker, queue, &Script::none()).await, "acknowledged");

    assert!(harness.work_on(&worker, slow_queue, &Script::none()).await);
    assert_eq!(
        (handlers.requests().len(), harness.metric("event_moved")),
        (20, 9),
        "from the slow queue they are called"
    );
    assert!(!harness.work_on(&worker, slow_queue, &Script::none()).await, "and do not move to it again");

    // All are lost on the way. The relay sends them to the queue again, and they move once more.
    send("c").await;
    assert!(harness.work_on(&worker, queue, &Script::none()).await);
    assert_eq!(harness.stack.lose(slow_queue).await, 9);
    harness.clock.advance(Millis::minutes(4));
    harness.relay().await;
    assert!(harness.work_on(&worker, queue, &Script::none()).await);
    assert_eq!((handlers.requests().len(), harness.metric("event_moved")), (21, 27));
    assert!(harness.work_on(&worker, slow_queue, &Script::none()).await);
    let facts = |batch: &str| (0..9).map(|at| format!("{batch}{at}")).chain([batch.to_owned()]).collect::<Vec<_>>();
    let facts: Vec<_> = ["a", "b", "c"].iter().flat_map(|batch| facts(batch)).map(|fact| counted_fact(&fact)).collect();
    assert_eq!(harness.tables().await.verdict(&facts), Verdict::applied(facts.len()));
}

/// The same answer, whose write has a condition that does not hold.
fn overtaken(mut answer: Value) -> Value {
    if answer.get("writes").is_some() {
        answer["writes"][0]["condition"] = json!([{ "equals": ["applied", {"N": "99"}] }]);
    }
    answer
}

/// Another writer changes the counter before each commit. Whatever contention costs is no failure of the event. Plans
/// in one round use up their plans before their calls.
#[tokio::test]
async fn contention_uses_up_the_calls_or_plans_of_a_receive_and_counts_no_attempt() {
    for counts in [count_at_once, count_in_two_rounds] {
        let (harness, handlers, is_mended) =
            until_mended(move |request| Reaction::Answers(overtaken(counts(request))), counts).await;
        harness.deliver(&count("msg_1", "a")).await;
        harness.work_under(&Script::none()).await;
        assert_eq!(handlers.requests().len(), 4, "four plans, or two rounds twice");
        let tables = harness.tables().await;
        let waits = tables.record("#msg_1");
        assert_eq!((waits.status, waits.attempts), (Status::Pending, 0));
        assert_eq!(waits.last_error.as_deref(), Some("CONDITION_FAILED"), "a person can see why it waits");
        assert!(waits.due.as_ref().unwrap().shard.starts_with(WAITING_LIST));
        is_mended.store(true, Ordering::SeqCst);
        harness.settle().await;
        assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
    }
}

/// For example, a handler that creates an item which exists. Nobody could tell it from contention at first.
#[tokio::test]
async fn a_condition_that_never_holds_is_counted_after_a_day() {
    let (harness, _) = harness(|request| Reaction::Answers(overtaken(count_in_two_rounds(request)))).await;
    given_up_after_a_day(&harness, "CONDITION_FAILED").await;
}
