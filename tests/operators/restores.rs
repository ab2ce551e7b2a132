//! One table was restored to an earlier moment, and the other was not.

use hookonce_protocol::call::Written;
use hookonce_protocol::operator::{Operated, Order, Refusal};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::Operation;
use hookonce_protocol::write::{Action, Condition, Table, Write};
use hookonce_runtime::port::Store as _;

use crate::effects::{apply, effects, keyed};
use crate::support::counting::{count, counted_fact, counting};
use crate::support::{Harness, Verdict, order};

const KEY: &str = "#msg_1";

async fn record(harness: &Harness) -> Record {
    harness.tables().await.record(KEY).clone()
}

/// Gives the inbox table a record as it was, or takes one away that was not there yet.
pub(crate) async fn restore(harness: &Harness, now: &Record, then: Option<&Record>) {
    harness.forget(&now.key);
    let action = then.map_or(Action::Delete, |then| Action::Put(then.encode()));
    let (purpose, condition) = (Purpose::DomainWrite, Condition::none());
    let write = Write { purpose, table: Table::Inbox, key: now.key.as_str().into(), action, condition };
    assert_eq!(harness.stack.store().write(&write).await, Written::Applied);
}

async fn work(harness: &Harness) {
    harness.clock.advance(Millis::minutes(10));
    harness.relay().await;
    harness.settle().await;
}

/// The commit was a second later than the moment that the inbox table was restored to.
#[tokio::test]
async fn an_event_that_meets_its_own_fact_is_no_duplicate_and_takes_effect_again_only_by_force() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    let pending = record(&harness).await;
    harness.settle().await;
    assert_eq!(record(&harness).await.outcome, Some(Outcome::Applied));
    restore(&harness, &pending, Some(&pending)).await;
    work(&harness).await;
    let dead = record(&harness).await;
    assert_eq!((dead.status, dead.dead_reason), (Status::Dead, Some(DeadReason::Rewound)));
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1).dead(1));
    assert_eq!((harness.metric("record_dead"), harness.metric("event_duplicate")), (1, 0));

    let retry = order(Operation::Retry, "restored");
    for accept_duplicate in [false, true] {
        let retry = Order { accept_duplicate, ..retry.clone() };
        assert_eq!(harness.ordered(&dead, &retry).await, Operated::Refused(Refusal::Rewound));
    }
    let force = order(Operation::Force, "its effects were never sent");
    assert_eq!(harness.ordered(&dead, &force).await, Operated::Done);
    work(&harness).await;
    let applied = record(&harness).await;
    assert_eq!((applied.outcome, applied.generation, applied.dead_reason), (Some(Outcome::Applied), 1, None));
    let fact = counted_fact("a");
    assert_eq!(harness.tables().await.verdict(&[&fact, &fact]), Verdict::applied(2));
}

/// The provider, or a person, delivers again what came after the moment that the inbox table was restored to.
#[tokio::test]
async fn an_event_that_comes_again_because_its_record_is_lost_is_no_duplicate() {
    let harness = Harness::with(counting).await;
    for (lost, reason) in [(Millis::days(1), Some(DeadReason::Rewound)), (Millis::days(40), None)] {
        harness.deliver(&count("msg_1", "a")).await;
        harness.settle().await;
        let first = record(&harness).await;
        harness.clock.advance(lost);
        restore(&harness, &first, None).await;
        harness.deliver(&count("msg_1", "a")).await;
        harness.settle().await;
        let again = record(&harness).await;
        let outcome = reason.is_none().then_some(Outcome::Duplicate);
        assert_eq!((again.dead_reason, again.outcome), (reason, outcome), "after {lost:?}");
        restore(&harness, &again, None).await;
    }
}

/// Whether the effects of the lost commit were done, only their callee knows.
#[tokio::test]
async fn effects_that_a_restored_table_has_forgotten_do_not_vanish_with_a_duplicate() {
    let harness = Harness::new().await;
    harness.destinations.put("receipts", keyed(24));
    harness.deliver(&count("msg_1", "a")).await;
    let pending = record(&harness).await;
    apply(&harness, &["receipts"]).await;
    let [effect] = effects(&harness).await.try_into().unwrap();
    restore(&harness, &pending, Some(&pending)).await;
    restore(&harness, &effect, None).await;

    harness.clock.advance(Millis::minutes(10));
    harness.relay().await;
    apply(&harness, &["receipts"]).await;
    let dead = record(&harness).await;
    assert_eq!((dead.dead_reason, effects(&harness).await.len()), (Some(DeadReason::Rewound), 0));
    assert_eq!(harness.ordered(&dead, &order(Operation::Force, "never sent")).await, Operated::Done);
    harness.clock.advance(Millis::minutes(10));
    harness.relay().await;
    apply(&harness, &["receipts"]).await;
    harness.dispatch().await;
    let [forced] = effects(&harness).await.try_into().unwrap();
    assert_eq!((forced.outcome, forced.key != effect.key), (Some(Outcome::Delivered), true));
}
