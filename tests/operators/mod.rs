//! Operators: what they order, what they are refused, and what happens if they die or meet each other on the way.

pub(crate) mod restores;

use hookonce_protocol::key::ClaimId;
use hookonce_protocol::operator::{Operated, Refusal};
use hookonce_protocol::record::Record;
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::{Entry, Operation as Ordered, Trail, trail_item};
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::inbox::operate::{operate, trails};
use hookonce_runtime::port::Store as _;

use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::{Fault, Gate, Harness, Operation, Script, Verdict, order, word};

async fn record(harness: &Harness, end: &str) -> Record {
    harness.tables().await.record(end).clone()
}

async fn trail(harness: &Harness, record: &Record) -> Trail {
    trails(&harness.stack.store(), &[record]).await.unwrap().pop().unwrap()
}

/// Both orders fit the record as it was read. The second one finds it changed.
#[tokio::test]
async fn concurrent_operators_only_one_succeeds() {
    let harness = Harness::with(counting).await;
    harness.deliver(&counted("msg_1", "count.later", "a")).await;
    let pending = record(&harness, "#msg_1").await;
    let gate = Gate::default();
    let held = harness.operator_store(&Script::held(Operation::Commit, &gate));
    let (late, early) = (order(Ordered::Retry, "late"), order(Ordered::Retry, "early"));
    let both = tokio::join!(operate(&held, &pending, &late, &harness.timing, &harness.clock), async {
        gate.reached().await;
        let early = harness.ordered(&pending, &early).await;
        gate.open();
        early
    });
    assert_eq!(both, (Operated::Overtaken, Operated::Done));
    let trail = trail(&harness, &pending).await;
    assert_eq!((trail.count, trail.entries[0].reason.as_str()), (1, "early"), "only what was done is in the trail");
}

/// Every call of an order meets every fault, and then the person repeats the command.
#[tokio::test]
async fn an_order_that_dies_at_any_call_is_repeated_and_nothing_happens_twice() {
    for fault in [Fault::Refused, Fault::ReplyLost, Fault::CrashBefore, Fault::Conflict] {
        for operation in [Operation::ReadDomain, Operation::Commit] {
            if fault == Fault::Conflict && operation != Operation::Commit {
                continue;
            }
            let harness = Harness::with(counting).await;
            harness.deliver(&count("msg_1", "a")).await;
            harness.settle().await;
            let force = order(Ordered::Force, "wrong account");
            let script = Script::on(operation, 0, fault);
            let first = record(&harness, "#msg_1").await;
            let store = harness.operator_store(&script);
            let operated = script.run(Box::pin(operate(&store, &first, &force, &harness.timing, &harness.clock))).await;
            harness.observe().await;
            harness.relay().await;
            harness.settle().await;
            let again = harness.ordered(&record(&harness, "#msg_1").await, &force).await;
            harness.relay().await;
            harness.settle().await;
            let fact = counted_fact("a");
            let at = format!("{fault:?} at {operation:?}: {operated:?}, then {again:?}");
            assert_eq!(harness.tables().await.verdict(&[&fact, &fact]), Verdict::applied(2), "{at}");
            assert_eq!(trail(&harness, &first).await.count, 1, "{at}");
            if fault == Fault::ReplyLost && operation == Operation::Commit {
                assert_eq!(operated, Some(Operated::Done), "the trail tells what a lost reply did");
            }
        }
    }
}

#[tokio::test]
async fn the_trail_names_who_did_what_when_and_why_and_expires_with_the_effects() {
    let harness = Harness::with(counting).await;
    harness.deliver(&counted("msg_1", "count.never", "a")).await;
    harness.settle().await;
    let (dead, store) = (record(&harness, "#msg_1").await, harness.stack.store());
    assert_eq!(harness.ordered(&dead, &order(Ordered::Discard, "test data")).await, Operated::Done);
    let now = harness.clock.moment().now;
    let Trail { count: 1, entries, unread: 0 } = trail(&harness, &dead).await else { panic!("one entry") };
    let [entry] = entries.try_into().unwrap();
    let expected = Entry {
        id: entry.id.clone(),
        claim_id: dead.claim_id.clone(),
        at: now,
        by: "ada".to_owned(),
        reason: "test data".to_owned(),
        operation: "discard".to_owned(),
        from: "DEAD".to_owned(),
        to: "DISCARDED".to_owned(),
        accept_duplicate: false,
        accept_other_body: false,
    };
    assert_eq!(entry, expected);
    let trail = trail_item(&dead.key);
    let stored = store.read_items(&[trail.clone().into()]).await.unwrap();
    let item = stored.item(trail).unwrap();
    let expires = item["hookonce_expires_at"].as_i64().unwrap();
    assert_eq!(expires, now.plus(harness.timing.effect_retention).as_seconds().0);
}

#[tokio::test]
async fn a_redacted_record_has_no_body_and_still_knows_its_delivery() {
    let harness = Harness::with(counting).await;
    let delivery = count("msg_1", "a");
    harness.deliver(&delivery).await;
    let early = record(&harness, "#msg_1").await;
    let redact = order(Ordered::Redact, "erasure asked for");
    assert_eq!(harness.ordered(&early, &redact).await, Operated::Refused(Refusal::NotRedactable));
    harness.settle().await;
    let applied = record(&harness, "#msg_1").await;
    assert_eq!(harness.ordered(&applied, &redact).await, Operated::Done);
    let redacted = record(&harness, "#msg_1").await;
    assert_eq!(redacted, Record { body: None, ..applied });
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "duplicate".to_owned()));
    for (operation, refusal) in [(Ordered::Force, Refusal::NoBody), (Ordered::Redact, Refusal::NoBody)] {
        let refused = harness.ordered(&redacted, &order(operation, "again")).await;
        assert_eq!(refused, Operated::Refused(refusal), "{operation}");
    }
    harness.clock.advance(Millis::hours(1));
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("a")]), Verdict::applied(1));
}

/// A trail outlives its record. A key that is claimed again begins without forces.
#[tokio::test]
async fn a_force_before_the_record_expired_is_no_force_of_its_successor() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    harness.settle().await;
    let first = record(&harness, "#msg_1").await;
    let force = order(Ordered::Force, "wrong account");
    assert_eq!(harness.ordered(&first, &force).await, Operated::Done);
    let trail = trail(&harness, &first).await;
    let moment = harness.clock.moment();
    assert_eq!(force.write(&first, &trail, &harness.timing, moment).err(), Some(Refusal::ForcedBefore));
    let another = order(Ordered::Force, "wrong account again");
    assert!(another.write(&first, &trail, &harness.timing, moment).is_ok(), "another reason is another force");
    let successor = Record { claim_id: ClaimId("another".to_owned()), ..first };
    assert!(force.write(&successor, &trail, &harness.timing, moment).is_ok());
}
