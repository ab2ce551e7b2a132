//! Copies of one delivery that arrive together.

use std::collections::BTreeMap;

use futures::future::join_all;
use hookonce_protocol::call::Written;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::Message;
use hookonce_protocol::operator;
use hookonce_runtime::ambient::Ambient as _;

use crate::support::counting::{count, counted_fact, counting};
use crate::support::{CommitInFlight, Delivery, Fault, Harness, Operation, Script, Verdict, samples, word};

/// How many copies arrive together.
const COPIES: usize = 64;

/// Delivers copies to this many functions at once and counts their answers.
async fn deliver_together(
    harness: &Harness,
    delivery: &Delivery,
    scripts: &[Script],
) -> BTreeMap<(u16, String), usize> {
    let functions: Vec<_> = scripts.iter().map(|script| harness.webhook(script)).collect();
    let event = delivery.event(&harness.clock);
    let answers = join_all(functions.iter().map(|function| function.handle(event.clone()))).await;
    answers.iter().map(word).fold(BTreeMap::new(), |mut counts, word| {
        *counts.entry(word).or_default() += 1;
        counts
    })
}

fn total(scripts: &[Script], operation: Operation) -> usize {
    scripts.iter().map(|script| script.count(operation)).sum()
}

#[tokio::test]
async fn of_64_concurrent_copies_one_is_accepted_and_63_are_duplicates_of_one_effect() {
    let harness = Harness::new().await;
    let delivery = samples::invoice_paid("evt_1", "in_1", 4_900);
    let scripts: Vec<_> = (0..COPIES).map(|_| Script::none()).collect();
    let answers = deliver_together(&harness, &delivery, &scripts).await;

    assert_eq!(answers, BTreeMap::from([((200, "accepted".to_owned()), 1), ((200, "duplicate".to_owned()), 63)]));
    assert_eq!(total(&scripts, Operation::Put), COPIES, "one PutItem for each copy");
    assert_eq!(total(&scripts, Operation::Send), 1, "one SendMessage in all");
    assert_eq!(harness.stack.messages().await, 1);
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[samples::paid("in_1")]), Verdict::applied(1));
    assert_eq!(tables.number("stripe#balance#cus_SampleCustomer#eur", "minor"), 4_900);
    println!("{COPIES} copies: {answers:?}; counted as duplicates: {}", tables.record("#evt_1").duplicate_count);
}

/// The embedded store never answers `TransactionConflict`, so half of the copies are told so.
#[tokio::test]
async fn copies_that_arrive_while_the_transaction_is_in_flight_are_duplicates_too() {
    let harness = Harness::with(counting).await;
    let delivery = count("msg_1", "order-1");
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()));

    let commit = CommitInFlight::start(&harness).await;
    let script = |index: usize| match index % 2 {
        0 => Script::none(),
        _ => Script::on(Operation::Put, 0, Fault::Conflict),
    };
    let scripts: Vec<_> = (0..COPIES).map(script).collect();
    let answers = deliver_together(&harness, &delivery, &scripts).await;
    assert!(commit.land(&harness).await);

    assert_eq!(answers, BTreeMap::from([((200, "duplicate".to_owned()), COPIES)]));
    assert_eq!(total(&scripts, Operation::Read), COPIES / 2, "a conflict is resolved by one consistent read");
    assert_eq!((total(&scripts, Operation::Send), harness.metric("claim_conflict")), (0, 32));
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
    println!("{COPIES} copies during the transaction: {answers:?}");
}

/// The conflict can also come from a transaction that then deletes or never creates the item.
#[tokio::test]
async fn a_claim_in_conflict_that_finds_no_record_is_made_once_more() {
    let harness = Harness::with(counting).await;
    let delivery = count("msg_1", "order-1");
    let once = Script::on(Operation::Put, 0, Fault::Conflict);
    assert_eq!(word(&harness.deliver_under(&once, &delivery).await.unwrap()), (200, "accepted".to_owned()));
    assert_eq!(once.calls(), [Operation::Put, Operation::Read, Operation::Put, Operation::Send]);

    let always = Script::every(Operation::Put, Fault::Conflict);
    let outbound = harness.deliver_under(&always, &count("msg_2", "order-2")).await.unwrap();
    assert_eq!(word(&outbound), (503, "store_unavailable".to_owned()));
    assert_eq!(always.calls(), [Operation::Put, Operation::Read, Operation::Put]);

    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-1")]), Verdict::applied(1));
}

/// The commit's condition names the claim. The model cannot show why: its deliveries of one id are one fact.
#[tokio::test]
async fn a_commit_in_flight_does_not_land_on_the_next_claim_of_its_id() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    let commit = CommitInFlight::start(&harness).await;

    // Dead letters make the record DEAD, an operator discards it, and it expires.
    let key = RecordKey::parse("in#standard_webhooks#msg_1").unwrap();
    for _ in 0..3 {
        harness.bury_under(&Script::none(), &Message::Ref { pk: key.clone() }.encode(None).unwrap()).await.unwrap();
    }
    let discard = operator::discard(harness.tables().await.record("#msg_1"), &harness.timing, harness.clock.moment());
    assert_eq!(harness.operate(&discard.unwrap()).await, Written::Applied);
    harness.expire(&key).await;

    // Much later, the id comes again with another fact.
    assert_eq!(word(&harness.deliver(&count("msg_1", "order-2")).await), (200, "accepted".to_owned()));
    assert!(commit.land(&harness).await, "a copy that was overtaken acknowledges its message");
    harness.settle().await;
    assert_eq!(harness.tables().await.verdict(&[counted_fact("order-2")]), Verdict::applied(1));
}
