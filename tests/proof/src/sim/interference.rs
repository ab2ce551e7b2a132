//! Interference: other processes act after a function has read a record and before it writes to it.
//!
//! At random, this would be too rare to see in a few thousand days, and every function must survive it. The others are
//! whole processes with the same drivers. Nothing disturbs them, and no time passes meanwhile.

use std::future::Future;
use std::pin::Pin;

use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Found, Record, Status, attribute};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::trail::Operation;
use hookonce_protocol::write::{Table, Write};
use hookonce_runtime::inbox::operate::operate;
use hookonce_runtime::inbox::process::Received;
use hookonce_runtime::port::Store as _;

use super::actors::{dispatcher_parts, order, relay_parts, routing, worker_parts};
use super::ports::Ports;
use super::world::World;
use crate::label::Role;

/// How often a dead letter may come back before its record dies.
const DEAD_LETTERS_MAX: usize = 4;

/// What happens to a record meanwhile.
#[derive(Debug, Clone, Copy)]
enum Step {
    Work,
    Die,
    Act(Operation),
    Expire,
}

/// What may happen, in this order.
const CHOICES: [&[Step]; 9] = [
    &[Step::Work],
    &[Step::Die],
    &[Step::Die, Step::Act(Operation::Discard)],
    &[Step::Die, Step::Act(Operation::Retry)],
    &[Step::Work, Step::Act(Operation::Force)],
    &[Step::Act(Operation::Retry), Step::Work],
    &[Step::Work, Step::Act(Operation::Redact)],
    &[Step::Work, Step::Act(Operation::Retry)],
    &[Step::Expire],
];

/// Sometimes does something to the record that a write is about to change.
///
/// Boxed, because what it does includes writes, too.
pub fn interfere<'a>(world: &'a World, about_to: &'a Write) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        let Some(chosen) = chosen(world, about_to) else { return };
        let Some(key) = RecordKey::parse(about_to.key.as_str()) else { return };
        for step in chosen {
            match *step {
                Step::Work => work(world, &key).await,
                Step::Die => die(world, &key).await,
                Step::Act(operation) => act(world, &key, operation).await,
                Step::Expire => expire(world, &key),
            }
        }
    })
}

fn chosen(world: &World, about_to: &Write) -> Option<&'static [Step]> {
    let mut inner = world.lock();
    let chance = if inner.calm || about_to.table == Table::Domain { 0 } else { inner.config.interference };
    (chance > 0 && inner.rng.chance(chance)).then(|| inner.rng.pick(&CHOICES))
}

/// Another worker with a hint of the same record, or another dispatcher.
async fn work(world: &World, key: &RecordKey) {
    let body = Message::Ref { pk: key.clone() }.encode(None).unwrap_or_default();
    let hint = [Received { body, receipt_handle: String::new(), receives: 1 }];
    if key.kind() == RecordKind::Effect {
        let ports = Ports::undisturbed(world, Role::Dispatcher);
        dispatcher_parts(&ports).dispatch(&hint, EpochMs(i64::MAX), &|_| ()).await;
    } else {
        let ports = Ports::undisturbed(world, Role::Worker);
        worker_parts(&ports).process(&hint, &routing(world), EpochMs(i64::MAX), &|_| ()).await;
    }
}

/// A hint of the record that ended in the dead-letter queue, again and again.
async fn die(world: &World, key: &RecordKey) {
    let ports = Ports::undisturbed(world, Role::DeadLetter);
    let hint = Message::Ref { pk: key.clone() }.encode(None).unwrap_or_default();
    for _ in 0..DEAD_LETTERS_MAX {
        if record(world, key).await.is_none_or(|record| record.status != Status::Pending) {
            return;
        }
        relay_parts(&ports).settle_dead_letter(&hint, None, &|_| ()).await;
    }
}

async fn record(world: &World, key: &RecordKey) -> Option<Box<Record>> {
    match Ports::undisturbed(world, Role::Operator).read(key).await {
        Ok(Found::Record(record)) => Some(record),
        Ok(Found::Nothing | Found::Unreadable(_)) | Err(_) => None,
    }
}

/// What an operator does to a record. Each retry of an event accepts a duplicate, every other one of an effect.
async fn act(world: &World, key: &RecordKey, operation: Operation) {
    let Some(record) = record(world, key).await else { return };
    let ports = Ports::undisturbed(world, Role::Operator);
    let timing = world.lock().config.timing;
    let accepts = record.effect.is_none() || world.lock().rng.chance(5_000);
    let accept_duplicate = operation == Operation::Retry && accepts;
    let order = order(&ports, operation, accept_duplicate, "another");
    operate(&ports, &record, &order, &timing, &ports).await;
}

/// The TTL, if the record has expired. It leaves a record that still owes its effect, unless the relay stood still.
fn expire(world: &World, key: &RecordKey) {
    let now = world.now();
    let mut inner = world.lock();
    let down = inner.config.relay_down.is_some();
    let over = |item: &Item| {
        let pending = item.get(attribute::STATUS).and_then(Value::as_text) == Some(Status::Pending.as_str());
        let expires = item.get(attribute::EXPIRES_AT).and_then(Value::as_i64);
        expires.is_some_and(|at| at * 1_000 < now) && (down || !pending)
    };
    if inner.tables.get(Table::Inbox, key.as_str()).is_some_and(over) {
        inner.expire(Table::Inbox, key.as_str(), now);
    }
}
