//! Every clause of the claim, the commit and the re-arm is there for a reason: without it, a scenario ends with a checker
//! that sounds the alarm. Each scenario is played twice, whole and with its clause taken away.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use hookonce_protocol::call::{Call, HandlerPlan, Machine as _, Next, Planned, Reply, Written};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::PARTITION_KEY;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::Message;
use hookonce_protocol::operator;
use hookonce_protocol::plan::Plan;
use hookonce_protocol::record::{Found, Status, attribute};
use hookonce_protocol::relay::rearm_write;
use hookonce_protocol::worker::Worker;
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::batch::BatchResponse;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::support::counting::{count, counted, counted_fact, counting};
use crate::support::weakened::{Kind, Weakening, attribute_of};
use crate::support::{Fault, Gate, Harness, Operation, Script, Verdict, word};

type Played<'a> = Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// A clause, and the story that needs it.
struct Mutation {
    kind: Kind,
    attribute: &'static str,
    play: fn(&Harness) -> Played<'_>,
    /// How the story ends where the clause is there.
    whole: fn() -> Verdict,
}

const MUTATIONS: [Mutation; 7] = [
    Mutation {
        kind: Kind::Claim,
        attribute: PARTITION_KEY,
        play: |harness| Box::pin(a_duplicate_after_the_effect(harness)),
        whole: || Verdict::applied(1),
    },
    Mutation {
        kind: Kind::Settle,
        attribute: attribute::STATUS,
        play: |harness| Box::pin(a_commit_that_lands_after_the_operator_gave_the_record_up(harness)),
        whole: Verdict::default,
    },
    Mutation {
        kind: Kind::Settle,
        attribute: attribute::CLAIM_ID,
        play: |harness| Box::pin(a_commit_that_lands_on_the_next_claim_of_the_same_id(harness)),
        whole: || Verdict::applied(1),
    },
    Mutation {
        kind: Kind::Settle,
        attribute: attribute::GENERATION,
        play: |harness| Box::pin(a_commit_that_lands_after_a_forced_replay(harness)),
        whole: || Verdict::applied(2),
    },
    Mutation {
        kind: Kind::DomainKey,
        attribute: PARTITION_KEY,
        play: |harness| Box::pin(one_fact_under_two_delivery_ids(harness)),
        whole: || Verdict::applied(1),
    },
    Mutation {
        kind: Kind::Rearm,
        attribute: attribute::STATUS,
        play: |harness| Box::pin(a_record_that_dies_in_the_millisecond_it_falls_due(harness)),
        whole: || Verdict::default().dead(1),
    },
    Mutation {
        kind: Kind::Rearm,
        attribute: attribute::DUE_AT,
        play: |harness| Box::pin(two_relays_at_once(harness)),
        whole: || Verdict::applied(1),
    },
];

/// Plays a story whole and weakened.
async fn prove(kind: Kind, attribute: &str) {
    let mutation = MUTATIONS.iter().find(|it| it.kind == kind && it.attribute == attribute).unwrap();
    let whole = (mutation.play)(&Harness::with(counting).await).await;
    assert_eq!(whole, (mutation.whole)(), "{kind:?} with its clause on {attribute}");
    let weakening = Weakening::without(kind, mutation.attribute);
    let harness = Harness::with(counting).await.weakened(Some(weakening.clone()));
    let weakened = (mutation.play)(&harness).await;
    assert!(weakening.weakened() > 0, "{kind:?}: no write lost its clause on {attribute}");
    assert!(weakened.is_alarming(), "{kind:?} without its clause on {attribute}: nobody noticed: {weakened:?}");
    println!("{kind:?} without {attribute}: {weakened:?}");
}

/// A worker that has planned and whose transaction is on its way.
struct InFlight {
    gate: Gate,
    messages: Vec<aws_sdk_sqs::types::Message>,
    worker: JoinHandle<BatchResponse>,
}

impl InFlight {
    async fn start(harness: &Harness) -> Self {
        let gate = Gate::default();
        let worker = harness.worker(&Script::on(Operation::Commit, 0, Fault::Held(gate.clone())));
        let (messages, batch) = harness.batch().await.unwrap();
        let worker = tokio::spawn(async move { Box::pin(worker.handle(batch)).await });
        gate.reached().await;
        Self { gate, messages, worker }
    }

    async fn land(self, harness: &Harness) {
        self.gate.open();
        let response = self.worker.await.unwrap();
        harness.conclude(self.messages, Some(response)).await;
    }
}

fn key(id: &str) -> RecordKey {
    RecordKey::parse(&format!("in#standard_webhooks#{id}")).unwrap()
}

/// Lets a record die of its dead letters, and gives it up.
async fn give_up(harness: &Harness, id: &str) {
    let text = Message::Ref { pk: key(id) }.encode();
    for _ in 0..3 {
        harness.bury_under(&Script::none(), &text).await.unwrap();
    }
    let tables = harness.tables().await;
    let record = tables.record(key(id).as_str());
    assert_eq!(record.status, Status::Dead);
    let write = operator::discard(record, &harness.timing, harness.clock.moment()).unwrap();
    assert_eq!(harness.operate(&write).await, Written::Applied);
}

async fn verdict(harness: &Harness, facts: &[&str]) -> Verdict {
    let facts: Vec<_> = facts.iter().map(|fact| counted_fact(fact)).collect();
    harness.tables().await.verdict(&facts)
}

async fn a_duplicate_after_the_effect(harness: &Harness) -> Verdict {
    for _ in 0..2 {
        harness.deliver(&count("msg_1", "order-1")).await;
        harness.settle().await;
    }
    verdict(harness, &["order-1"]).await
}

async fn a_commit_that_lands_after_the_operator_gave_the_record_up(harness: &Harness) -> Verdict {
    harness.deliver(&count("msg_1", "order-1")).await;
    let late = InFlight::start(harness).await;
    give_up(harness, "msg_1").await;
    late.land(harness).await;
    verdict(harness, &[]).await
}

async fn a_commit_that_lands_on_the_next_claim_of_the_same_id(harness: &Harness) -> Verdict {
    harness.deliver(&count("msg_1", "order-1")).await;
    let late = InFlight::start(harness).await;
    give_up(harness, "msg_1").await;
    harness.expire(&key("msg_1")).await;
    // The id comes again, long after, for something else.
    assert_eq!(word(&harness.deliver(&count("msg_1", "order-2")).await), (200, "accepted".to_owned()));
    late.land(harness).await;
    harness.settle().await;
    verdict(harness, &["order-2"]).await
}

async fn a_commit_that_lands_after_a_forced_replay(harness: &Harness) -> Verdict {
    harness.deliver(&count("msg_1", "order-1")).await;
    let late = InFlight::start(harness).await;
    harness.clock.advance(harness.timing.lease);
    harness.relay().await;
    harness.work().await;
    let tables = harness.tables().await;
    let write = operator::force(tables.record("#msg_1"), &harness.timing, harness.clock.moment()).unwrap();
    assert_eq!(harness.operate(&write).await, Written::Applied);
    late.land(harness).await;
    harness.relay().await;
    harness.settle().await;
    verdict(harness, &["order-1", "order-1"]).await
}

async fn one_fact_under_two_delivery_ids(harness: &Harness) -> Verdict {
    harness.deliver(&count("msg_1", "order-1")).await;
    harness.deliver(&count("msg_2", "order-1")).await;
    harness.settle().await;
    verdict(harness, &["order-1"]).await
}

/// A relay that has read what is due and whose first re-arm is on its way.
async fn relay_in_flight(harness: &Harness) -> (Gate, JoinHandle<Value>) {
    let gate = Gate::default();
    let relay = harness.relay_function(&Script::on(Operation::Update, 0, Fault::Held(gate.clone())));
    let relay = tokio::spawn(async move { relay.handle(Value::Null).await });
    gate.reached().await;
    (gate, relay)
}

async fn a_record_that_dies_in_the_millisecond_it_falls_due(harness: &Harness) -> Verdict {
    harness.deliver(&counted("msg_1", "count.never", "order-1")).await;
    harness.clock.advance(harness.timing.lease);
    let (gate, relay) = relay_in_flight(harness).await;
    harness.work().await;
    assert_eq!(harness.tables().await.record("#msg_1").status, Status::Dead);
    gate.open();
    relay.await.unwrap();
    harness.settle().await;
    verdict(harness, &[]).await
}

async fn two_relays_at_once(harness: &Harness) -> Verdict {
    harness.deliver(&count("msg_1", "order-1")).await;
    harness.lose_hints().await;
    harness.clock.advance(harness.timing.lease);
    let (gate, slow) = relay_in_flight(harness).await;
    let fast = harness.relay().await["sent"].as_i64().unwrap();
    gate.open();
    let sent = fast + slow.await.unwrap()["sent"].as_i64().unwrap();
    harness.settle().await;
    let mut verdict = verdict(harness, &["order-1"]).await;
    let counted = harness.tables().await.record("#msg_1").resends;
    if sent > counted {
        verdict.broken.push(format!("the relay sent {sent} hints and counted {counted}"));
    }
    verdict
}

#[tokio::test]
async fn a_claim_needs_the_absence_of_the_item() {
    prove(Kind::Claim, PARTITION_KEY).await;
}

#[tokio::test]
async fn a_commit_needs_the_records_status() {
    prove(Kind::Settle, attribute::STATUS).await;
}

#[tokio::test]
async fn a_commit_needs_the_records_claim() {
    prove(Kind::Settle, attribute::CLAIM_ID).await;
}

#[tokio::test]
async fn a_commit_needs_the_records_generation() {
    prove(Kind::Settle, attribute::GENERATION).await;
}

#[tokio::test]
async fn a_commit_needs_the_absence_of_the_domain_key() {
    prove(Kind::DomainKey, PARTITION_KEY).await;
}

#[tokio::test]
async fn a_rearm_needs_the_records_status() {
    prove(Kind::Rearm, attribute::STATUS).await;
}

#[tokio::test]
async fn a_rearm_needs_the_due_time_that_was_observed() {
    prove(Kind::Rearm, attribute::DUE_AT).await;
}

/// A clause that is added to the protocol must be added here, with a story of its own.
#[tokio::test]
async fn every_clause_has_its_story() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "order-1")).await;
    let tables = harness.tables().await;
    let record = tables.record("#msg_1");
    let moment = harness.clock.moment();

    let mut writes = vec![claim_write(record), rearm_write(record, moment.now, moment.now, &harness.timing, moment)];
    let started = Worker::start(Ok(Message::Ref { pk: record.key.clone() }), 1, harness.timing, moment);
    let Next::Call(worker, _) = started.next else { panic!("it reads first") };
    let found = Reply::Read(Ok(Found::Record(Box::new(record.clone()))));
    let Next::Call(worker, _) = worker.step(found, moment).next else { panic!("it plans") };
    let plan = HandlerPlan { handler: "h".to_owned(), domain_key: "k".to_owned(), plan: Plan::default() };
    let planned = Reply::Planned(Planned::Plan(Box::new(plan)));
    let Next::Call(_, Call::Commit(commit)) = worker.step(planned, moment).next else { panic!("it commits") };
    writes.extend(commit);

    let mut clauses = BTreeSet::new();
    for write in &writes {
        let kind = Kind::of(write).expect("one of the four kinds");
        clauses.extend(write.condition.0.iter().map(|clause| (kind, attribute_of(clause))));
    }
    let told: BTreeSet<_> = MUTATIONS.iter().map(|mutation| (mutation.kind, mutation.attribute)).collect();
    assert_eq!(clauses, told);
}
