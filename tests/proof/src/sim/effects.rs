//! The dispatcher as it is invoked: its event source, and processes that serve several batches.

use std::sync::{Arc, Mutex, PoisonError};

use hookonce_protocol::message::Lane;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::destination::{Destinations, Guarded};
use hookonce_runtime::dispatch::DispatcherParts;
use hookonce_runtime::process::{Processed, Received};
use tokio::sync::Semaphore;

use super::actors::{take, wait};
use super::destination::{Documents, Outside};
use super::ports::{Ports, sleep};
use super::sqs::Receipt;
use super::world::World;
use crate::label::Role;

/// How long a process that sleeps may go on: what it does after that, another one does.
const LIFE_MAX: Millis = Millis::minutes(59);

/// A process, with the documents that it knows and its circuit breakers.
type Dispatching = DispatcherParts<Ports, Ports, Ports, Documents>;

/// The dispatcher of a new process.
pub(super) fn dispatcher_parts(ports: &Ports) -> Dispatching {
    DispatcherParts {
        store: ports.clone(),
        queue: ports.clone(),
        ambient: ports.clone(),
        destinations: Destinations::new(Documents(ports.clone())),
        caller: Arc::new(Guarded::new(Outside(ports.clone()))),
        timing: ports.timing(),
    }
}

/// The event source of the effects queue: passes batches to processes, several at once, and deletes settled messages.
pub async fn dispatch(world: World) {
    let room = Arc::new(Semaphore::new(world.lock().config.workers));
    let idle: Arc<Mutex<Vec<Dispatching>>> = Arc::default();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let batch = loop {
            let (receipts, next) = take(&world, Lane::Effects, false);
            if !receipts.is_empty() {
                break receipts;
            }
            wait(&world.wakeups(Lane::Effects).sent, &world, next).await;
        };
        let (world, idle) = (world.clone(), Arc::clone(&idle));
        tokio::spawn(async move {
            let warm = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let parts = warm.unwrap_or_else(|| dispatcher_parts(&Ports::new(&world, Role::Dispatcher)));
            let survived = work(&world, &parts, &batch).await;
            // While two releases run, each process serves one batch.
            let stays = {
                let mut inner = world.lock();
                inner.config.rollout.is_none() && inner.rng.chance(7_000)
            };
            if survived && stays {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(parts);
            }
            drop(permit);
        });
        sleep(1).await;
    }
}

/// One batch. Says whether the process is still alive.
async fn work(world: &World, parts: &Dispatching, batch: &[Receipt]) -> bool {
    let ports = &parts.store;
    let received = |receipt: &Receipt| Received {
        body: ports.read_text(&receipt.body),
        receipt_handle: receipt.handle.to_string(),
        receives: i64::from(receipt.receives),
    };
    let messages: Vec<_> = batch.iter().map(received).collect();
    let sleeps = ports.sleeps();
    let longest = if sleeps { LIFE_MAX } else { parts.timing.dispatcher_timeout };
    let deadline = ports.moment().now.plus(longest);
    let Some(processed) = ports.live(longest, parts.dispatch(&messages, deadline, &|_| ())).await else {
        return false;
    };
    let mut inner = world.lock();
    for (receipt, processed) in batch.iter().zip(&processed) {
        let trouble = if inner.calm { 0 } else { inner.config.queue_trouble };
        if processed.is_acknowledged() && !inner.rng.chance(trouble) {
            inner.lane(Lane::Effects).queue.delete(receipt.handle);
        }
    }
    true
}

/// Another dispatcher with a hint of an effect.
pub(super) async fn dispatch_one(ports: &Ports, body: String) {
    let hint = Received { body, receipt_handle: String::new(), receives: 1 };
    let _: Vec<Processed> = dispatcher_parts(ports).dispatch(&[hint], EpochMs(i64::MAX), &|_| ()).await;
}
