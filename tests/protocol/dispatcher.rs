//! The commit of effects, and where their hints go.

use std::collections::BTreeSet;

use hookonce_protocol::call::{Call, Committed, HandlerPlan, Next, Planned, Reply, Signal, Step};
use hookonce_protocol::check::{EffectFault, PlanError, Scope};
use hookonce_protocol::dispatcher::{Dispatcher, idempotency_key};
use hookonce_protocol::effect::{DestinationId, EffectDraft, EffectName, Method};
use hookonce_protocol::invariant::violations;
use hookonce_protocol::key::{DomainKey, RecordKind};
use hookonce_protocol::message::Message;
use hookonce_protocol::plan::Plan;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, Outcome, Record};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::worker::{Done, Settled, Worker};
use hookonce_protocol::write::Write;

use super::{a_claim, a_record, after, answered, at, call, hint, planned};
use crate::support::clock::START;

fn destination() -> DestinationId {
    DestinationId::parse("receipts").unwrap()
}

fn draft(name: &str) -> EffectDraft {
    EffectDraft {
        name: EffectName::parse(name).unwrap(),
        destination: destination(),
        method: Method::Post,
        path: "/send".to_owned(),
        content_type: "application/json".to_owned(),
        body: b"compressed".to_vec(),
        sha256: [9; 32],
    }
}

fn scope() -> Scope {
    Scope { destinations: BTreeSet::from([destination()]), ..Scope::default() }
}

/// A worker that has read the event and planned.
fn worker(effects: Vec<EffectDraft>, scope: Scope) -> (Record, Step<Worker, Settled>) {
    let event = a_record("in#shop#evt_1");
    let (consumer, domain_key) = ("h".to_owned(), DomainKey::of(["fact"]));
    let plan = HandlerPlan { consumer, domain_key, plan: Plan::default(), effects, scope };
    (event.clone(), planned(event, Planned::Plan(Box::new(plan)), 0))
}

fn committed(step: &Step<Worker, Settled>) -> Vec<Write> {
    let Call::Commit(writes) = call(step) else { panic!("it commits") };
    writes.clone()
}

/// The record of an effect as its commit writes it.
pub(crate) fn an_effect() -> Record {
    let (_, step) = worker(vec![draft("receipt")], scope());
    let item = committed(&step).last().unwrap().apply(None).unwrap().unwrap();
    Record::decode(&item).unwrap()
}

#[test]
fn a_commit_ends_with_one_record_for_each_effect() {
    let (event, step) = worker(vec![draft("receipt"), draft("note")], scope());
    let writes = committed(&step);
    let purposes: Vec<_> = writes.iter().map(|write| write.purpose).collect();
    assert_eq!(purposes, [Purpose::Settle, Purpose::DomainKey, Purpose::CreateEffect, Purpose::CreateEffect]);
    let settled = after(&writes[0], &event);
    let keys: Vec<_> = writes[2..].iter().map(|write| write.key.as_str().to_owned()).collect();
    assert_eq!(settled.effect_keys().iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>(), keys);
    for write in &writes[2..] {
        let effect = Record::decode(&write.apply(None).unwrap().unwrap()).unwrap();
        assert_eq!(effect.key.kind(), RecordKind::Effect);
        assert_eq!((effect.parent.as_ref(), effect.received_at), (Some(&event.key), START));
        assert!(effect.due.as_ref().unwrap().shard.starts_with("effect_due#"));
        assert_eq!(violations(&effect, &Timing::standard()), []);
        assert_eq!(Record::decode(&effect.encode()).unwrap(), effect);
        assert!(!effect.encode().contains_key("journal_shard"));
    }
}

#[test]
fn a_commit_names_its_own_effects_and_none_of_an_earlier_one() {
    let (event, step) = worker(Vec::new(), scope());
    let before = Record { effects: vec![EffectName::parse("old").unwrap()], ..event };
    let settled = committed(&step)[0].apply(Some(&before.encode())).unwrap().unwrap();
    assert!(!settled.contains_key("effects"));
}

#[test]
fn the_hints_of_effects_follow_the_commit_also_one_that_was_found_later() {
    let (event, step) = worker(vec![draft("receipt")], scope());
    let writes = committed(&step);
    let now = after(&writes[0], &event);
    let hints = Call::SendEach(vec![Message::Ref { pk: now.effect_keys().remove(0) }]);

    let sure = answered(step, Reply::Committed(Committed::Applied), START);
    assert_eq!(call(&sure), &hints);
    let lost = answered(sure, Reply::Done, START);
    assert_eq!(lost.signals, [Signal::HintFailed]);
    assert_eq!(lost.next, Next::Done(Settled::Ack(Done::Settled(Outcome::Applied))));

    let (_, step) = worker(vec![draft("receipt")], scope());
    let unsure = answered(step, Reply::Committed(Committed::Unavailable), START);
    let found = answered(unsure, Reply::Read(Ok(Found::Record(Box::new(now)))), START);
    assert_eq!(call(&found), &hints);
}

#[test]
fn a_worker_and_a_dispatcher_leave_the_hints_of_each_other_alone() {
    let (timing, effect, event) = (Timing::standard(), an_effect(), a_record("in#shop#evt_1"));
    let read = Worker::start(Ok(hint(&effect)), 1, timing, at(START));
    let step = answered(read, Reply::Read(Ok(Found::Record(Box::new(effect)))), START);
    assert_eq!((step.signals, step.next), (vec![Signal::HintMisrouted], Next::Done(Settled::Ack(Done::Elsewhere))));
    let step = Dispatcher::start(Ok(hint(&event)), 1, "p".to_owned(), timing, at(START));
    assert_eq!((step.signals, step.next), (vec![Signal::HintMisrouted], Next::Done(Settled::Ack(Done::Elsewhere))));
    let full = Ok(Message::Full(Box::new(a_claim("in#shop#evt_1"))));
    let step = Dispatcher::start(full, 1, "p".to_owned(), timing, at(START));
    assert!(matches!(step.next, Next::Done(Settled::Retry(_))), "it is the only copy");
}

#[test]
fn a_plan_is_refused_for_each_fault_of_an_effect() {
    let refused = |effects, scope| worker(effects, scope).1.signals;
    let plan = |error| vec![Signal::PlanRefused { key: a_record("in#shop#evt_1").key, error }];
    let fault = |index, fault| plan(PlanError::Effect { index, fault });
    let large = EffectDraft { body: vec![0; 64 * 1024 + 1], ..draft("b") };
    let astray = EffectDraft { path: "/../x".to_owned(), ..draft("b") };
    let long = EffectDraft { content_type: "x".repeat(257), ..draft("b") };
    assert_eq!(refused(vec![draft("a"), draft("a")], scope()), fault(1, EffectFault::NameTwice));
    assert_eq!(refused(vec![draft("a")], Scope::default()), fault(0, EffectFault::Destination));
    assert_eq!(refused(vec![draft("a"), large], scope()), fault(1, EffectFault::TooLarge));
    assert!(matches!(
        refused(vec![draft("a"), astray], scope())[..],
        [Signal::PlanRefused { error: PlanError::Effect { index: 1, fault: EffectFault::Path(_) }, .. }]
    ));
    assert_eq!(refused(vec![draft("a"), long], scope()), fault(1, EffectFault::ContentTypeTooLong));
    let many = |count: usize| (0..count).map(|index| draft(&format!("e{index}"))).collect::<Vec<_>>();
    assert_eq!(refused(many(99), scope()), plan(PlanError::TooManyWrites));
    assert_eq!(refused(many(98), scope()), vec![]);
    let heavy = many(50).into_iter().map(|effect| EffectDraft { body: vec![0; 64 * 1024], ..effect }).collect();
    assert_eq!(refused(heavy, scope()), plan(PlanError::TooLarge));
}

#[test]
fn an_idempotency_key_is_a_uuid_and_changes_with_the_epoch_alone() {
    let effect = an_effect();
    let key = |epoch| idempotency_key(&effect.key, &effect.claim_id, effect.generation, epoch);
    assert_eq!(key(0), key(0));
    assert_ne!(key(0), key(1));
    let parts: Vec<_> = key(0).split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert_eq!(key(0).as_bytes()[14], b'8');
    assert!(b"89ab".contains(&key(0).as_bytes()[19]));
}
