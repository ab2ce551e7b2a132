//! The pure parts of the protocol, where a table or a property checks more than a run.

mod calls;
mod commits;
mod dead_letters;
mod dispatcher;
mod effects;
mod fan_outs;
mod keys;
mod messages;
mod operators;
mod plans;
mod purposes;
mod records;
mod relay;
mod timing;

use std::collections::BTreeSet;

use hookonce_protocol::call::{Call, Machine, Next, Planned, Reply, Step};
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Found, Record};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::{Settled, Worker};
use hookonce_protocol::write::{Action, Change, Write};

use crate::support::clock::START;
pub(crate) use dispatcher::an_effect;

pub(crate) use crate::support::fixtures::{a_claim, a_record};

fn at(now: EpochMs) -> Moment {
    Moment { now, entropy: 0 }
}

fn hint(record: &Record) -> Message {
    Message::Ref { pk: record.key.clone() }
}

fn answered<M: Machine>(step: Step<M, M::Output>, reply: Reply, now: EpochMs) -> Step<M, M::Output> {
    match step.next {
        Next::Call(machine, _) => machine.step(reply, at(now)),
        Next::Done(_) => panic!("it has ended"),
    }
}

fn call<M: Machine>(step: &Step<M, M::Output>) -> &Call {
    match &step.next {
        Next::Call(_, call) => call,
        Next::Done(_) => panic!("it has ended"),
    }
}

/// A worker that has read an event and is told what its handler plans, at a moment with this entropy.
fn planned(event: Record, planned: Planned, entropy: u64) -> Step<Worker, Settled> {
    let step = Worker::start(Ok(hint(&event)), 1, Timing::standard(), at(START));
    let step = answered(step, Reply::Read(Ok(Found::Record(Box::new(event)))), START);
    let Next::Call(planning, Call::Plan(_)) = step.next else { panic!("it plans") };
    planning.step(Reply::Planned(planned), Moment { now: START, entropy })
}

/// The record after an update. DynamoDB refuses one that names an attribute twice.
fn after(write: &Write, before: &Record) -> Record {
    let Action::Update(changes) = &write.action else { panic!("it updates the record: {write:?}") };
    let names: BTreeSet<_> = changes.iter().map(Change::attribute).collect();
    assert_eq!(names.len(), changes.len(), "an attribute changes twice: {changes:?}");
    Record::decode(&write.apply(Some(&before.encode())).unwrap().unwrap()).unwrap()
}
