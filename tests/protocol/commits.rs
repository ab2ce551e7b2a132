//! What a cancelled commit means, over every list of reasons that a short transaction can have.

use std::collections::BTreeMap;

use hookonce_protocol::call::CancellationReason::{self, ConditionFailed, Invalid, None as Fine, Transient};
use hookonce_protocol::call::{Call, Committed, Failure, HandlerPlan, Next, Planned, Reply, Signal, Step, Written};
use hookonce_protocol::check::{PlanError, PlanFault, Scope};
use hookonce_protocol::code::Code;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::operator::retry;
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{Check, DomainWrite, Plan, Snapshot, WhenConditionFails};
use hookonce_protocol::record::{DeadReason, Found, Outcome, Record, attribute, set};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::worker::{
    Cancellation, Done, REPLANS_MAX, Settled, VISIBILITY_MAX, WAITING_VISIBILITY_MAX, Worker,
};
use hookonce_protocol::write::{Action, Change, Write};

use super::{a_record, after, answered, at, call, hint, planned};
use crate::support::clock::START;

/// The domain key of the record itself.
const OWN: CancellationReason = CancellationReason::OwnFact { applied_at: START };

const ALL: [CancellationReason; 5] = [Fine, ConditionFailed, OWN, Transient, Invalid];

/// The rule as a table: the first matching line counts. The last reasons are those of so many effects.
fn expected(reasons: &[CancellationReason], effects: usize) -> Cancellation {
    let others = reasons.get(2..).unwrap_or_default();
    let (plan, effects) = others.split_at(others.len().saturating_sub(effects));
    let fails = |reason: &CancellationReason| [ConditionFailed, OWN].contains(reason);
    let lines = [
        (reasons.first().is_some_and(fails), Cancellation::Elsewhere),
        (reasons.get(1) == Some(&OWN), Cancellation::OwnFact { applied_at: START }),
        (reasons.get(1) == Some(&ConditionFailed), Cancellation::DuplicateFact),
        (reasons.contains(&Invalid), Cancellation::Invalid),
        (effects.iter().any(fails), Cancellation::EffectExists),
        (plan.iter().any(fails), Cancellation::Overtaken),
    ];
    lines.into_iter().find_map(|(matches, means)| matches.then_some(means)).unwrap_or(Cancellation::Transient)
}

fn lists(length: usize) -> Vec<Vec<CancellationReason>> {
    (0..length).fold(vec![Vec::new()], |lists, _| {
        lists.iter().flat_map(|list| ALL.map(|reason| [&list[..], &[reason]].concat())).collect()
    })
}

#[test]
fn every_list_of_reasons_has_its_meaning() {
    for (reasons, effects) in (0..=3).flat_map(|effects| (0..=5).flat_map(lists).map(move |list| (list, effects))) {
        let cancellation = Cancellation::of(&reasons, effects);
        assert_eq!(cancellation, expected(&reasons, effects), "{reasons:?}, {effects} effects");
    }
}

type WorkerStep = Step<Worker, Settled>;

/// A worker that commits a write to a user table.
fn committing() -> WorkerStep {
    let orders = TableAlias::parse("orders").unwrap();
    let partition = KeyAttribute { name: "order".to_owned(), kind: KeyKind::Text };
    let scope = Scope { tables: BTreeMap::from([(orders, KeySchema { partition, sort: None })]), ..Scope::default() };
    let paid = DomainWrite::update(ItemRef::own(orders, [("order", "a".into())]), vec![set("paid", 1)]);
    let (consumer, domain_key) = ("h".to_owned(), DomainKey::of(["fact"]));
    let plan = HandlerPlan { consumer, domain_key, plan: Plan::default().with(paid), effects: Vec::new(), scope };
    planned(a_record("in#shop#evt_1"), Planned::Plan(Box::new(plan)), 0)
}

fn cancelled(step: WorkerStep, reasons: [CancellationReason; 3]) -> WorkerStep {
    answered(step, Reply::Committed(Committed::Cancelled(reasons.to_vec())), START)
}

/// What the write of a worker changes; nothing if it asks for no write.
fn changes(step: &WorkerStep) -> &[Change] {
    match &step.next {
        Next::Call(_, Call::Write(Write { action: Action::Update(changes), .. })) => changes,
        Next::Call(..) | Next::Done(_) => &[],
    }
}

/// Whether the write lets a record wait with this code.
fn waits_with(step: &WorkerStep, code: Code) -> bool {
    let is_stored = changes(step).contains(&set(attribute::LAST_ERROR, code.as_str()));
    is_stored && !step.signals.contains(&Signal::HandlerFailed)
}

/// Whether the write makes a record due so long after the start.
fn is_due_after(step: &WorkerStep, pause: Millis) -> bool {
    changes(step).contains(&set(attribute::DUE_AT, START.plus(pause).0))
}

/// The messages of one busy table would fill the queue that all handlers share.
#[test]
fn what_a_busy_user_table_holds_up_waits_uncounted_by_the_relays_schedule() {
    for (reasons, only_user_tables) in [
        ([Fine, Fine, Transient], true),
        ([Transient, Fine, Transient], false),
        ([Fine, Transient, Fine], false),
        ([Fine, Fine, Fine], false),
    ] {
        let mut step = committing();
        for _ in 0..3 {
            step = cancelled(step, reasons);
            assert!(matches!(call(&step), Call::Wait(_)), "a short pause comes first");
            step = answered(step, Reply::Done, START);
        }
        let step = cancelled(step, reasons);
        assert_eq!(waits_with(&step, Code::TableUnavailable), only_user_tables, "{reasons:?}");
        assert_eq!(step.signals.contains(&Signal::UserTableUnavailable), only_user_tables, "{reasons:?}");
        assert_eq!(matches!(step.next, Next::Done(Settled::Retry(_))), !only_user_tables, "{reasons:?}");
    }
}

#[test]
fn an_event_that_waited_too_long_dies_as_stale_unless_a_person_accepts_a_duplicate() {
    let oldest = START.plus(Timing::standard().commit_age_max);
    for (now, accept_duplicate, dies) in
        [(oldest, false, false), (oldest.plus(Millis(1)), false, true), (oldest.plus(Millis(1)), true, false)]
    {
        let event = Record { accept_duplicate, ..a_record("in#shop#evt_1") };
        let step = Worker::start(Ok(hint(&event)), 1, Timing::standard(), at(now));
        let step = answered(step, Reply::Read(Ok(Found::Record(Box::new(event.clone())))), now);
        let reason = match call(&step) {
            Call::Write(write) => after(write, &event).dead_reason,
            call => {
                assert!(matches!(call, Call::Plan(_)), "{call:?}");
                None
            }
        };
        assert_eq!(reason, dies.then_some(DeadReason::Stale), "accepted: {accept_duplicate}");
    }
}

/// Once its record can have expired, a delivery that comes again has a record of its own.
#[test]
fn the_fact_of_an_earlier_record_of_the_same_key_makes_a_duplicate() {
    let timing = Timing::standard();
    let oldest = START.plus(Millis(2 * timing.clock_skew_max.0 - timing.delivery_retention.0));
    for (applied_at, outcome) in [(oldest, Some(Outcome::Duplicate)), (oldest.plus(Millis(1)), None)] {
        let own = CancellationReason::OwnFact { applied_at };
        let step = cancelled(committing(), [Fine, own, Fine]);
        let Call::Write(write) = call(&step) else { panic!("it ends the record") };
        let ended = after(write, &a_record("in#shop#evt_1"));
        let reason = outcome.is_none().then_some(DeadReason::Rewound);
        assert_eq!((ended.outcome, ended.dead_reason), (outcome, reason), "{applied_at:?}");
    }
}

/// A plan with a write to the domain table, one to a user table, and a check.
fn several(when_condition_fails: WhenConditionFails) -> Planned {
    let orders = TableAlias::parse("orders").unwrap();
    let partition = KeyAttribute { name: "order".to_owned(), kind: KeyKind::Text };
    let scope = Scope { tables: BTreeMap::from([(orders, KeySchema { partition, sort: None })]), ..Scope::default() };
    let paid = |order: &str| ItemRef::own(orders, [("order", order.into())]);
    let plan = Plan { when_condition_fails, ..Plan::default() }
        .with(DomainWrite::update("shop#a", vec![set("paid", 1)]))
        .with(DomainWrite::update(paid("a"), vec![set("paid", 1)]))
        .with_check(Check::as_seen(paid("b"), &Snapshot::default(), ["paid"]));
    let (consumer, domain_key) = ("h".to_owned(), DomainKey::of(["fact"]));
    Planned::Plan(Box::new(HandlerPlan { consumer, domain_key, plan, effects: Vec::new(), scope }))
}

/// The log says it, by the place in the plan and the table: the key may hold what a provider sent.
#[test]
fn the_condition_that_did_not_hold_is_named() {
    let orders = TableAlias::parse("orders").ok();
    let fault = || PlanFault::ConditionFailed;
    let key = || a_record("in#shop#evt_1").key;
    for (failing, error) in [
        (2, PlanError::Write { index: 0, table: None, fault: fault() }),
        (3, PlanError::Write { index: 1, table: orders, fault: fault() }),
        (4, PlanError::Check { index: 0, table: orders, fault: fault() }),
    ] {
        let reasons: Vec<_> = (0..5).map(|index| if index >= failing { ConditionFailed } else { Fine }).collect();
        let cancelled = |step| answered(step, Reply::Committed(Committed::Cancelled(reasons.clone())), START);
        let dies = cancelled(planned(a_record("in#shop#evt_1"), several(WhenConditionFails::Permanent), 0));
        assert_eq!(dies.signals, [Signal::PlanRefused { key: key(), error: error.clone() }]);

        let mut step = planned(a_record("in#shop#evt_1"), several(WhenConditionFails::Retry), 0);
        for _ in 0..REPLANS_MAX {
            step = cancelled(step);
            assert_eq!(step.signals, [], "it plans again");
            step = answered(step, Reply::Read(Ok(Found::Record(Box::new(a_record("in#shop#evt_1"))))), START);
            step = answered(step, Reply::Planned(several(WhenConditionFails::Retry)), START);
        }
        let waits = cancelled(step);
        assert!(waits_with(&waits, Code::ConditionFailed));
        assert_eq!(waits.signals, [Signal::PlanOvertaken { key: key(), error: Some(error) }]);
    }
}

/// Only a handler that could not be asked again was overtaken each time.
#[test]
fn an_outage_while_a_handler_plans_again_is_no_failed_condition() {
    for (planned, is_contention) in [(Planned::CallsUsedUp, true), (Planned::Unavailable, false)] {
        let read = cancelled(committing(), [Fine, Fine, ConditionFailed]);
        let again = answered(read, Reply::Read(Ok(Found::Record(Box::new(a_record("in#shop#evt_1"))))), START);
        let step = answered(again, Reply::Planned(planned), START);
        assert_eq!(waits_with(&step, Code::ConditionFailed), is_contention);
        assert_eq!(matches!(step.next, Next::Done(Settled::Retry(_))), !is_contention);
    }
}

#[test]
fn after_a_pause_for_which_no_message_is_hidden_a_failed_record_is_due_at_once() {
    let visibility = Timing::standard().visibility_timeout;
    for (pause, fallback) in [(VISIBILITY_MAX, visibility), (Millis(VISIBILITY_MAX.0 + 1), Millis(0))] {
        let event = Record { attempts: 10, ..a_record("in#shop#evt_1") };
        let entropy = u64::try_from(pause.0).unwrap();
        let failed = planned(event, Planned::Failed(Failure::retryable("LATER")), entropy);
        assert!(is_due_after(&failed, Millis(pause.0 + fallback.0)), "{failed:?}");
        let hidden = if fallback.0 > 0 { Settled::Retry(pause) } else { Settled::Ack(Done::Deferred) };
        assert_eq!(answered(failed, Reply::Written(Written::Applied), START).next, Next::Done(hidden));
    }
}

/// After a stop of the worker, the relay has sent a record's hint several times. At its own pace, each of them would
/// try the record, and together they would use up its attempts within seconds.
#[test]
fn no_copy_of_a_hint_tries_a_record_before_its_pause_is_over() {
    let minute = u64::try_from(Millis::minutes(1).0).unwrap();
    for planning in [Planned::Failed(Failure::retryable("LATER")), Planned::HandlerAway] {
        let event =
            Record { attempts: 5, waits_since: Some(START.plus(Millis::hours(-1))), ..a_record("in#shop#evt_1") };
        let step = planned(event.clone(), planning, minute);
        let Call::Write(write) = call(&step) else { panic!("it writes") };
        let waits = after(write, &event);
        let pause = waits.not_before.expect("the record says when its pause ends");
        assert!(START.plus(Millis::minutes(1)) <= pause, "{pause:?}");
        let copy = |now: EpochMs| {
            let step = Worker::start(Ok(hint(&waits)), 1, Timing::standard(), at(now));
            answered(step, Reply::Read(Ok(Found::Record(Box::new(waits.clone())))), now).next
        };
        let before = |length: i64| EpochMs(pause.0 - length);
        let skew = Timing::standard().clock_skew_max.0;
        assert_eq!(copy(START), Next::Done(Settled::Ack(Done::Deferred)), "the relay has it");
        assert_eq!(copy(before(skew + 1)), Next::Done(Settled::Ack(Done::Deferred)));
        assert_eq!(copy(before(skew)), Next::Done(Settled::Retry(Millis(skew))), "by another clock, it may be on time");
        assert!(matches!(copy(pause), Next::Call(_, Call::Plan(_))));
    }
}

/// Whoever brings a record back does not wait for a pause, and what has ended has none.
#[test]
fn a_pause_ends_with_a_retry_and_with_the_record() {
    let paused = Record { attempts: 11, not_before: Some(START), ..a_record("in#shop#evt_1") };
    let died = planned(paused.clone(), Planned::Failed(Failure::retryable("LATER")), 0);
    let ignored = planned(paused.clone(), Planned::NoHandler, 0);
    let retried = retry(&paused, false, &Timing::standard(), at(START)).unwrap();
    for write in [&died, &ignored]
        .map(call)
        .into_iter()
        .map(|call| match call {
            Call::Write(write) => write,
            call => panic!("it writes: {call:?}"),
        })
        .chain([&retried])
    {
        assert_eq!(after(write, &paused).not_before, None, "{}", write.purpose);
    }
}

/// A handler is unavailable for hours, for all events of a busy account. SQS hides only so many messages, also those of
/// others.
#[test]
fn a_message_of_what_waits_is_hidden_for_a_minute_at_most() {
    let visibility = Timing::standard().visibility_timeout;
    let settled = |waited: Millis, entropy: u64| {
        let since = START.plus(Millis(-waited.0));
        let event = Record { waits_since: Some(since), ..a_record("in#shop#evt_1") };
        let away = planned(event, Planned::HandlerAway, entropy);
        match answered(away.clone(), Reply::Written(Written::Applied), START).next {
            Next::Done(Settled::Retry(wait)) => {
                assert!(is_due_after(&away, Millis(wait.0 + visibility.0)), "the relay is the fallback: {away:?}");
                Settled::Retry(wait)
            }
            Next::Done(settled) => {
                let pause = waited.min(Millis::hours(1)).0 / 2 + i64::try_from(entropy).unwrap();
                assert!(is_due_after(&away, Millis(pause)), "the relay sends after the pause: {away:?}");
                settled
            }
            Next::Call(..) => panic!("it has ended"),
        }
    };
    assert_eq!(settled(Millis(0), 0), Settled::Retry(Millis(Timing::standard().backoff_base.0 / 2)));
    assert_eq!(settled(Millis::minutes(2), 0), Settled::Retry(WAITING_VISIBILITY_MAX));
    for (waited, entropy) in [(Millis::minutes(2), 1), (Millis::minutes(3), 0), (Millis::hours(20), 0)] {
        assert_eq!(settled(waited, entropy), Settled::Ack(Done::Deferred), "{waited:?}");
    }
}
