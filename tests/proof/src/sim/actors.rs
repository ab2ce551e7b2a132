//! The actors of a day: providers, the functions as they are invoked, the operator, the TTL.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hookonce_protocol::dead_letter;
use hookonce_protocol::ingress::IngressAnswer;
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{Lane, Message};
use hookonce_protocol::operator::Order;
use hookonce_protocol::record::{Found, Status, attribute};
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::trail::Operation;
use hookonce_protocol::worker::Settled;
use hookonce_protocol::write::Table;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::deadline::Deadline;
use hookonce_runtime::handler::Handlers;
use hookonce_runtime::ingest::IngressParts;
use hookonce_runtime::maintain::RelayParts;
use hookonce_runtime::operate::operate as operate_on;
use hookonce_runtime::port::Store as _;
use hookonce_runtime::process::{Processed, Received, WorkerParts};
use hookonce_runtime::route::{Offered, RouteSet, Routing};
use tokio::sync::{Notify, Semaphore};

use super::config::Config;
use super::handler::{Ledger, ROUTED, ROUTED_REMOTE};
use super::ports::{Ports, sleep};
use super::provider::{Behaviour, Delivery, PROVIDERS, Receiver, SentEvent};
use super::remote;
use super::sqs::{QueuePair, Receipt};
use super::world::{Inner, World};
use crate::label::Role;

/// Between two runs of the relay, in milliseconds.
const RELAY_PERIOD: i64 = 60_000;

/// How long the relay function may run.
const RELAY_TIMEOUT: Millis = Millis::seconds(50);

/// How long one of its calls takes at most.
const RELAY_CALL_MAX: Millis = Millis::seconds(3);

/// The longest message of the queue, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A provider with one delivery: attempts, copies, retries, until it gets a 2xx or the window is over.
pub async fn provide(world: World, receivers: Arc<Vec<Receiver>>, number: usize, delivery: Arc<Delivery>) {
    sleep(delivery.at).await;
    let (behaviour, window) = (PROVIDERS[delivery.provider].behaviour, world.lock().config.timing.provider_window.0);
    let (mut events, mut pause) = (delivery.events.clone(), 10_000);
    for round in 0_u32.. {
        let changes = behaviour == Behaviour::Retries && world.lock().rng.chance(500);
        let request = delivery.request(&events, delivery.rendering + u32::from(changes) * round);
        let copies = (0..delivery.copies).map(|_| attempt(&world, &receivers, number, &delivery, &request));
        let heard = futures_join(copies.collect()).await;
        let retries = behaviour != Behaviour::GivesUp || world.lock().rng.chance(2_000);
        let late = world.elapsed() + pause > delivery.at + window;
        if heard || !retries || late {
            return;
        }
        sleep(pause).await;
        pause = (pause * 3).min(6 * 3_600_000);
        if behaviour == Behaviour::Batches && !world.lock().config.steady {
            events = regrouped(&world, &delivery.events);
        }
    }
}

/// A retry keeps the events and promises nothing about their order.
fn regrouped(world: &World, events: &[SentEvent]) -> Vec<SentEvent> {
    let first = world.lock().rng.below(events.len());
    events.iter().cycle().skip(first).take(events.len()).cloned().collect()
}

/// Runs a few futures at once.
async fn futures_join<F: Future<Output = bool>>(futures: Vec<F>) -> bool {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut futures {
            if output.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if futures.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    futures.iter().any(|(_, output)| *output == Some(true))
}

/// One request. Returns whether the provider got a 2xx.
async fn attempt(
    world: &World,
    receivers: &[Receiver],
    number: usize,
    delivery: &Delivery,
    request: &super::provider::ProviderRequest,
) -> bool {
    let sent_at = EpochMs(world.now()).as_seconds();
    let (there, back, timeout) = {
        let mut inner = world.lock();
        inner.history.observations[number].attempts += 1;
        let chance = if inner.calm || inner.config.steady { 0 } else { 100 };
        let back = if inner.rng.chance(chance) { i64::MAX } else { inner.latency() };
        (inner.latency(), back, inner.config.timing.webhook_timeout)
    };
    sleep(there).await;
    let ports = Ports::new(world, Role::Ingress);
    let timing = ports.timing();
    let receiver = &receivers[delivery.provider];
    let elapsed = world.elapsed();
    let endpoint = receiver.endpoint(elapsed);
    let now = ports.moment().now.as_seconds();
    let Ok(verified) = receiver.receive(request, elapsed, sent_at, now) else { return false };
    let parts = IngressParts {
        store: ports.clone(),
        queue: ports.clone(),
        ambient: ports.clone(),
        timing,
        message_bytes_max: MESSAGE_BYTES_MAX,
    };
    let ingest = parts.ingest(endpoint, &verified, Deadline::of(&timing));
    let ingested = ports.live(timeout, ingest).await;
    let Some(Ok(ingested)) = ingested else { return false };
    match ingested.driven.output {
        IngressAnswer::Accepted(_) | IngressAnswer::Duplicate(_) => {
            world.lock().history.observations[number].acknowledged += 1;
        }
        IngressAnswer::RetryPlease => return false,
    }
    if back == i64::MAX {
        return false;
    }
    sleep(back).await;
    there + back < timing.provider_timeout.0
}

/// The event source of a lane: passes batches to the worker function, several at once, and deletes settled messages.
pub async fn event_source(world: World, lane: Lane) {
    let room = Arc::new(Semaphore::new(world.lock().config.workers));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let batch = loop {
            let (receipts, next) = take(&world, lane, false);
            if !receipts.is_empty() {
                break receipts;
            }
            wait(&world.wakeups(lane).sent, &world, next).await;
        };
        let world = world.clone();
        tokio::spawn(async move {
            work(&world, lane, batch).await;
            drop(permit);
        });
        sleep(1).await;
    }
}

/// How long an event source waits at most before it looks at its queue again, in milliseconds.
const LOOK_EVERY_MAX: i64 = 600_000;

/// Waits until a message can be received: until one comes, or one that is hidden comes back.
pub(super) async fn wait(come: &Notify, world: &World, next: Option<i64>) {
    let pause = next.map_or(LOOK_EVERY_MAX, |next| (next - world.now()).clamp(1, LOOK_EVERY_MAX));
    let pause = Duration::from_millis(u64::try_from(pause).unwrap_or(1));
    // A timeout is as good as a message: either way, the queue is checked again.
    let _ = tokio::time::timeout(pause, come.notified()).await;
}

pub(super) fn take(world: &World, lane: Lane, dead: bool) -> (Vec<Receipt>, Option<i64>) {
    let now = world.now();
    let mut guard = world.lock();
    let inner = &mut *guard;
    let limit = inner.config.batch_max;
    let trouble = if inner.calm { 0 } else { inner.config.queue_trouble };
    if !dead && inner.rng.chance(trouble) {
        // Only a hint: a message that carries its payload is the only copy.
        let expendable =
            |text: &str| Message::decode(text).is_ok_and(|message| message.is_hint()) || text.contains("\"k\":\"ref\"");
        inner.lane(lane).queue.lose(expendable);
    }
    let steady = inner.config.steady;
    let Inner { rng, lanes, .. } = inner;
    let QueuePair { queue, dead_letters } = &mut lanes[lane as usize];
    let from = if dead { &mut *dead_letters } else { &mut *queue };
    let receipts = from.receive(now, limit, |count| if steady { 0 } else { rng.below(count) });
    for receipt in &receipts {
        // Delivered twice: another receiver has it at the same time.
        if !dead && rng.chance(trouble) {
            queue.send(receipt.body.clone(), now, now);
        }
    }
    for (body, sent_at) in queue.take_dead() {
        dead_letters.send(body, sent_at, now);
        world.wakeups(lane).died.notify_one();
    }
    let next = if dead { dead_letters.next_visible() } else { queue.next_visible() };
    drop(guard);
    (receipts, next)
}

pub(super) fn worker_parts(ports: &Ports) -> WorkerParts<Ports, Ports, Ports> {
    let timing = ports.timing();
    let handlers = Handlers::new().with(Ledger(ports.world.clone()));
    let (store, queue, ambient) = (ports.clone(), ports.clone(), ports.clone());
    let remote = remote::handlers(ports);
    WorkerParts { store, queue, ambient, handlers, remote, catalog: Catalog::built_in(), timing }
}

/// What decides where events go now: the handlers, a set that lets them have effects, or one that ignores everything.
pub(super) fn routing(world: &World) -> Routing {
    static NOTHING: LazyLock<Arc<RouteSet>> = LazyLock::new(|| {
        let nothing = r#"{"version": 1, "otherwise": "ignore", "routes": []}"#;
        Arc::new(
            RouteSet::parse(nothing, Offered { handlers: &[], urls: false }).expect("a set without routes is a set"),
        )
    });
    let Config { unrouted, effects, remote_busy, .. } = world.lock().config;
    if unrouted.is_some_and(|(from, until)| (from..until).contains(&world.elapsed())) {
        Routing::Set(Arc::clone(&NOTHING))
    } else if effects {
        Routing::Set(Arc::clone(if remote_busy.is_some() { &ROUTED_REMOTE } else { &ROUTED }))
    } else {
        Routing::Handlers
    }
}

async fn work(world: &World, lane: Lane, batch: Vec<Receipt>) {
    let ports = Ports::new(world, Role::Worker);
    let parts = worker_parts(&ports);
    let received = |receipt: &Receipt| Received {
        body: ports.read_text(&receipt.body),
        receipt_handle: receipt.handle.to_string(),
        receives: i64::from(receipt.receives),
    };
    let messages: Vec<_> = batch.iter().map(received).collect();
    // In a statement of its own: the lock is held to the statement's end, and `routing` takes it, too.
    let longest = world.lock().config.timing.worker_timeout;
    let routing = routing(world);
    let Some(processed) = ports.live(longest, parts.process(&messages, &routing, EpochMs(i64::MAX), &|_| ())).await
    else {
        return;
    };
    let acknowledged = |processed: &Processed| match processed {
        Processed::Settled(driven) => matches!(driven.output, Settled::Ack(_)),
        Processed::Panicked | Processed::OutOfTime => false,
    };
    let mut inner = world.lock();
    for (receipt, processed) in batch.iter().zip(&processed) {
        let trouble = if inner.calm { 0 } else { inner.config.queue_trouble };
        if acknowledged(processed) && !inner.rng.chance(trouble) {
            inner.lane(lane).queue.delete(receipt.handle);
        }
    }
}

/// The schedule: starts a relay run every minute. A run that would find nothing is left out.
pub async fn schedule(world: World) {
    loop {
        sleep(RELAY_PERIOD).await;
        let (now, elapsed) = (world.now(), world.elapsed());
        if world.lock().config.relay_down.is_some_and(|(from, until)| (from..until).contains(&elapsed)) {
            continue;
        }
        let next = world.lock().tables.next_due(now);
        match next {
            Some(due) if due <= now + RELAY_PERIOD => tokio::spawn(relay(world.clone())),
            _ => continue,
        };
    }
}

pub(super) fn relay_parts(ports: &Ports) -> RelayParts<Ports, Ports, Ports> {
    let timing = ports.timing();
    let (store, queue, ambient) = (ports.clone(), ports.clone(), ports.clone());
    RelayParts { store, queue, ambient, timing, budget: Budget::standard(), call_max: RELAY_CALL_MAX }
}

async fn relay(world: World) {
    let ports = Ports::new(&world, Role::Relay);
    let deadline = ports.moment().now.plus(RELAY_TIMEOUT);
    let parts = relay_parts(&ports);
    ports.live(RELAY_TIMEOUT, parts.run(deadline)).await;
}

/// The event source of a dead-letter queue: one batch at a time.
pub async fn dead_letter_source(world: World, lane: Lane) {
    loop {
        let elapsed = world.elapsed();
        let kept = world.lock().config.dead_letters_kept;
        if let Some((_, until)) = kept.filter(|(from, until)| (*from..*until).contains(&elapsed)) {
            sleep(until - elapsed).await;
            if world.lock().config.redriven {
                redrive(&world, lane);
            }
            continue;
        }
        let (receipts, next) = take(&world, lane, true);
        if receipts.is_empty() {
            wait(&world.wakeups(lane).died, &world, next).await;
            continue;
        }
        let ports = Ports::new(&world, Role::DeadLetter);
        let parts = relay_parts(&ports);
        let bury = async {
            let mut settled = Vec::new();
            for receipt in &receipts {
                let driven = parts.bury(&ports.read_text(&receipt.body), Some(EpochMs(receipt.sent_at)), &|_| ()).await;
                settled.extend((driven.output != dead_letter::DeadLetterOutcome::Keep).then_some(receipt.handle));
            }
            settled
        };
        let settled = ports.live(RELAY_TIMEOUT, bury).await.unwrap_or_default();
        let mut inner = world.lock();
        for handle in settled {
            inner.lane(lane).dead_letters.delete(handle);
        }
    }
}

/// An operator moves dead letters back to the queue, where they start over.
fn redrive(world: &World, lane: Lane) {
    let now = world.now();
    let mut inner = world.lock();
    let QueuePair { queue, dead_letters } = inner.lane(lane);
    loop {
        let receipts = dead_letters.receive(now, usize::MAX, |_| 0);
        if receipts.is_empty() {
            break;
        }
        for receipt in receipts {
            dead_letters.delete(receipt.handle);
            queue.send(receipt.body, now, now);
        }
    }
    drop(inner);
    world.wakeups(lane).sent.notify_one();
}

/// An operator who looks at records and acts on what was shown, sometimes too late.
pub async fn operate(world: World) {
    let Some(every) = world.lock().config.operator_every else { return };
    loop {
        let pause = world.lock().rng.between(every / 2, every * 2);
        sleep(pause).await;
        if world.lock().calm {
            return;
        }
        let Some(key) = choose(&world) else { continue };
        let several = world.lock().config.operators;
        for _ in 0..several {
            let (world, key) = (world.clone(), key.clone());
            tokio::spawn(async move {
                for _ in 0..several {
                    let ports = Ports::new(&world, Role::Operator);
                    ports.live(Millis::hours(1), operator_action(&ports, &key)).await;
                }
            });
        }
    }
}

/// A dead record, one that has just changed, or any.
fn choose(world: &World) -> Option<RecordKey> {
    let mut inner = world.lock();
    if let Some(recent) = inner.invariants.recent.clone()
        && inner.rng.chance(4_000)
    {
        return RecordKey::parse(&recent);
    }
    let inner = &mut *inner;
    let items = inner.tables.items(Table::Inbox);
    let is_dead = |item: &Item| item.get(attribute::STATUS).and_then(Value::as_text) == Some(Status::Dead.as_str());
    let dead: Vec<_> = items.iter().filter(|(_, item)| is_dead(item)).map(|(key, _)| key).collect();
    let key = if !dead.is_empty() && inner.rng.chance(6_000) {
        dead[inner.rng.below(dead.len())]
    } else {
        items.keys().nth(inner.rng.below(items.len()))?
    };
    RecordKey::parse(key)
}

async fn operator_action(ports: &Ports, key: &RecordKey) -> Option<()> {
    let Ok(Found::Record(record)) = ports.read(key).await else { return None };
    let (think, choice, timing) = {
        let mut inner = ports.world.lock();
        let patience = if inner.config.operators > 1 { 3_000 } else { 20_000 };
        (inner.rng.between(0, patience), inner.rng.below(6), inner.config.timing)
    };
    sleep(think).await;
    let settled = matches!(record.status, Status::Processed | Status::Discarded);
    let (operation, accept_duplicate) = match choice {
        0 | 5 if record.status == Status::Dead => (Operation::Discard, false),
        1 => (Operation::Retry, true),
        2 | 3 if record.status == Status::Processed => (Operation::Force, false),
        4 if settled => (Operation::Redact, false),
        _ => (Operation::Retry, false),
    };
    let order = Order {
        operation,
        accept_duplicate,
        accept_other_body: true,
        by: "operator".to_owned(),
        reason: ports.claim_id().0,
    };
    operate_on(ports, &record, &order, &timing, ports).await;
    // A double click.
    let twice = ports.world.lock().rng.chance(2_000);
    if twice {
        operate_on(ports, &record, &order, &timing, ports).await;
    }
    Some(())
}

/// The TTL: removes expired items, some time after they expired.
pub async fn sweep(world: World) {
    let every = world.lock().config.sweep_every;
    loop {
        sleep(every).await;
        let now = world.now();
        let mut inner = world.lock();
        let swept = if inner.calm { 10_000 } else { inner.config.swept };
        for (table, key) in inner.tables.expired(now) {
            if !inner.rng.chance(swept) {
                continue;
            }
            inner.expire(table, &key, now);
        }
    }
}
