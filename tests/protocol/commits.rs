//! What a cancelled commit means, over every list of reasons that a short transaction can have.

use std::collections::BTreeMap;

use hookonce_protocol::call::CancellationReason::{self, ConditionFailed, Invalid, None as Fine, Transient};
use hookonce_protocol::call::{
    Call, Committed, Failure, HandlerPlan, Machine as _, Next, Planned, Reply, Signal, Step, Written,
};
use hookonce_protocol::check::Scope;
use hookonce_protocol::code::Code;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{DomainWrite, Plan};
use hookonce_protocol::record::{Found, Record, attribute, set};
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::{
    Cancellation, Done, RECOMMITS_MAX, Settled, VISIBILITY_MAX, WAITING_VISIBILITY_MAX, Worker,
};
use hookonce_protocol::write::{Action, Write};

use super::a_record;
use super::dispatcher::{answered, at, call, hint};
use crate::support::clock::START;

const ALL: [CancellationReason; 4] = [Fine, ConditionFailed, Transient, Invalid];

/// The rule as a table: the first matching line counts.
fn expected(reasons: &[CancellationReason]) -> Cancellation {
    if reasons.first() == Some(&ConditionFailed) {
        return Cancellation::Elsewhere;
    }
    if reasons.get(1) == Some(&ConditionFailed) {
        return Cancellation::DuplicateFact;
    }
    if reasons.contains(&Invalid) {
        return Cancellation::Invalid;
    }
    if reasons.iter().skip(2).any(|reason| *reason == ConditionFailed) {
        return Cancellation::Overtaken;
    }
    Cancellation::Transient
}

fn lists(length: usize) -> Vec<Vec<CancellationReason>> {
    (0..length).fold(vec![Vec::new()], |lists, _| {
        lists.iter().flat_map(|list| ALL.map(|reason| [&list[..], &[reason]].concat())).collect()
    })
}

#[test]
fn every_list_of_reasons_has_its_meaning() {
    let mut cases = 0;
    for reasons in (0..=5).flat_map(lists) {
        assert_eq!(Cancellation::of(&reasons, 0), expected(&reasons), "{reasons:?}");
        cases += 1;
    }
    println!("{cases} lists of reasons");
}

#[test]
fn someone_else_wins_over_every_other_reason() {
    for others in lists(3) {
        let reasons = [&[ConditionFailed], &others[..]].concat();
        assert_eq!(Cancellation::of(&reasons, 1), Cancellation::Elsewhere, "{others:?}");
    }
}

#[test]
fn an_effect_that_exists_is_no_condition_of_the_handler() {
    let reasons = [Fine, Fine, ConditionFailed, ConditionFailed];
    assert_eq!(Cancellation::of(&reasons, 1), Cancellation::EffectExists);
    assert_eq!(Cancellation::of(&reasons[..3], 0), Cancellation::Overtaken);
    assert_eq!(Cancellation::of(&[Fine, Fine, Fine, ConditionFailed], 2), Cancellation::EffectExists);
    assert_eq!(Cancellation::of(&[Fine, ConditionFailed, ConditionFailed], 1), Cancellation::DuplicateFact);
}

type WorkerStep = Step<Worker, Settled>;

/// A worker that has read the event and plans.
fn planning() -> WorkerStep {
    planning_of(a_record("in#shop#evt_1"))
}

fn planning_of(event: Record) -> WorkerStep {
    let step = Worker::start(Ok(hint(&event)), 1, Timing::standard(), at(START));
    answered(step, Reply::Read(Ok(Found::Record(Box::new(event)))), START)
}

/// A worker that commits a write to a user table.
fn committing() -> WorkerStep {
    let orders = TableAlias::parse("orders").unwrap();
    let partition = KeyAttribute { name: "order".to_owned(), kind: KeyKind::Text };
    let scope = Scope { tables: BTreeMap::from([(orders, KeySchema { partition, sort: None })]), ..Scope::default() };
    let paid = DomainWrite::update(ItemRef::own(orders, [("order", "a".into())]), vec![set("paid", 1)]);
    let (consumer, domain_key) = ("h".to_owned(), DomainKey::of(["fact"]));
    let plan = HandlerPlan { consumer, domain_key, plan: Plan::default().with(paid), effects: Vec::new(), scope };
    answered(planning(), Reply::Planned(Planned::Plan(Box::new(plan))), START)
}

fn cancelled(step: WorkerStep, reasons: [CancellationReason; 3]) -> WorkerStep {
    answered(step, Reply::Committed(Committed::Cancelled(reasons.to_vec())), START)
}

/// The write that lets a record wait with this code.
fn waits_with(step: &WorkerStep, code: Code) -> bool {
    let Next::Call(_, Call::Write(Write { action: Action::Update(changes), .. })) = &step.next else { return false };
    changes.contains(&set(attribute::LAST_ERROR, code.as_str())) && !step.signals.contains(&Signal::HandlerFailed)
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
        for _ in 0..RECOMMITS_MAX {
            step = cancelled(step, reasons);
            assert!(matches!(call(&step), Call::Wait(_)), "a short pause comes first");
            step = answered(step, Reply::Done, START);
        }
        let step = cancelled(step, reasons);
        assert_eq!(waits_with(&step, Code::TableUnavailable), only_user_tables, "{reasons:?}");
        assert_eq!(step.signals.contains(&Signal::TableAway), only_user_tables, "{reasons:?}");
        assert_eq!(matches!(step.next, Next::Done(Settled::Retry(_))), !only_user_tables, "{reasons:?}");
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
        let step = planning_of(Record { attempts: 10, ..a_record("in#shop#evt_1") });
        let Next::Call(planning, Call::Plan(_)) = step.next else { panic!("it plans") };
        let moment = Moment { now: START, entropy: u64::try_from(pause.0).unwrap() };
        let failed = planning.step(Reply::Planned(Planned::Failed(Failure::retryable("LATER"))), moment);
        let Next::Call(_, Call::Write(Write { action: Action::Update(changes), .. })) = &failed.next else {
            panic!("it writes")
        };
        assert!(changes.contains(&set(attribute::DUE_AT, START.plus(pause).plus(fallback).0)), "{changes:?}");
        let hidden = if fallback.0 > 0 { Settled::Retry(pause) } else { Settled::Ack(Done::Deferred) };
        assert_eq!(answered(failed, Reply::Written(Written::Applied), START).next, Next::Done(hidden));
    }
}

/// A handler is unavailable for hours, for all events of a busy account. SQS hides only so many messages, also those of
/// others.
#[test]
fn a_message_of_what_waits_is_hidden_for_a_minute_at_most() {
    let visibility = Timing::standard().visibility_timeout;
    let settled = |waited: Millis, entropy: u64| {
        let since = START.plus(Millis(-waited.0));
        let step = planning_of(Record { waits_since: Some(since), ..a_record("in#shop#evt_1") });
        let Next::Call(planning, Call::Plan(_)) = step.next else { panic!("it plans") };
        let away = planning.step(Reply::Planned(Planned::HandlerAway), Moment { now: START, entropy });
        let Next::Call(_, Call::Write(Write { action: Action::Update(changes), .. })) = &away.next else {
            panic!("it writes")
        };
        let changes = changes.clone();
        let due = |pause: Millis| changes.contains(&set(attribute::DUE_AT, START.plus(pause).0));
        match answered(away, Reply::Written(Written::Applied), START).next {
            Next::Done(Settled::Retry(wait)) => {
                assert!(due(Millis(wait.0 + visibility.0)), "the relay is the fallback: {changes:?}");
                Settled::Retry(wait)
            }
            Next::Done(settled) => {
                let pause = waited.min(Millis::hours(1)).0 / 2 + i64::try_from(entropy).unwrap();
                assert!(due(Millis(pause)), "the relay sends after the pause: {changes:?}");
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
