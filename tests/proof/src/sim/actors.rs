//! The actors of a day: providers, the functions as they are invoked, the operator, the TTL.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hookonce_protocol::call::Unavailable;
use hookonce_protocol::dead_letter;
use hookonce_protocol::ingress::{IngressAnswer, OnStoreOutage};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::operator::Order;
use hookonce_protocol::record::{Found, Status, attribute};
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::trail::Operation;
use hookonce_protocol::write::Table;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::deadline::Deadline;
use hookonce_runtime::destinations::{Destinations, RateLimited};
use hookonce_runtime::documents::endpoint::Endpoint;
use hookonce_runtime::handlers::Handlers;
use hookonce_runtime::inbox::dispatch::DispatcherParts;
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::maintain::RelayParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::operate::operate as operate_on;
use hookonce_runtime::inbox::process::{Processed, Received, WorkerParts};
use hookonce_runtime::port::Store as _;
use hookonce_runtime::routes::Routing;
use tokio::sync::{Notify, Semaphore};

use super::config::Config;
use super::destination::{Documents, Outside};
use super::fault::{Answers, Side};
use super::handler::{BUILTIN, Ledger, ROUTED, ROUTED_REMOTE, UNROUTED};
use super::ports::{KEY, Ports, sleep};
use super::provider::{Behaviour, Delivery, PROVIDERS, ProviderRequest, Receiver, SentEvent};
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

/// How long a dispatcher that sleeps may go on: what it does after that, another one does.
const DISPATCHER_LIFE_MAX: Millis = Millis::minutes(59);

/// The longest message of the queue, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A provider with one delivery: attempts, copies, retries, until it gets a 2xx or the window is over.
pub async fn provide(world: World, receivers: Arc<Vec<Receiver>>, delivery: Delivery) {
    sleep(delivery.at).await;
    let (behaviour, window) = (PROVIDERS[delivery.provider].behaviour, world.lock().config.timing.provider_window.0);
    let (mut events, mut pause) = (delivery.events.clone(), 10_000);
    for round in 0_u32.. {
        let changes = behaviour == Behaviour::Retries && world.lock().rng.chance(500);
        let request = delivery.request(&events, delivery.rendering + u32::from(changes) * round);
        let copies = (0..delivery.copies).map(|_| attempt(&world, &receivers, &delivery, &request));
        let heard = any_heard(copies.collect()).await;
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

/// Makes a few attempts at once, until all have ended. Returns whether the provider got a 2xx for any.
async fn any_heard<F: Future<Output = bool>>(attempts: Vec<F>) -> bool {
    let mut attempts: Vec<_> = attempts.into_iter().map(Box::pin).collect();
    let mut heard = false;
    poll_fn(|context| {
        attempts.retain_mut(|attempt| {
            let ended = attempt.as_mut().poll(context);
            heard |= ended == Poll::Ready(true);
            ended.is_pending()
        });
        if attempts.is_empty() { Poll::Ready(heard) } else { Poll::Pending }
    })
    .await
}

/// One request. Returns whether the provider got a 2xx.
async fn attempt(world: &World, receivers: &[Receiver], delivery: &Delivery, request: &ProviderRequest) -> bool {
    let sent_at = EpochMs(world.now()).as_seconds();
    let (there, back, timeout) = {
        let mut inner = world.lock();
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
    let (store, queue, ambient) = (ports.clone(), ports.clone(), ports.clone());
    let keys = MessageKeys::fixed(KEY);
    let parts = IngressParts { store, queue, keys, ambient, timing, message_bytes_max: MESSAGE_BYTES_MAX };
    let answered = async {
        if !knows_endpoint(&ports, endpoint).await {
            return None;
        }
        parts.ingest(endpoint, &verified, Deadline::of(&timing)).await.ok()
    };
    let Some(ingested) = ports.live(timeout, answered).await.flatten() else { return false };
    match ingested.driven.output {
        IngressAnswer::Accepted(_) | IngressAnswer::Duplicate(_) => {
            world.lock().acknowledged.extend(delivery.facts());
        }
        IngressAnswer::RetryPlease => return false,
    }
    if back == i64::MAX {
        return false;
    }
    sleep(back).await;
    there + back < timing.provider_timeout.0
}

/// The event source of a lane: passes batches to its function, several at once, and deletes settled messages.
pub async fn event_source(world: World, lane: HintQueue) {
    let room = Arc::new(Semaphore::new(world.lock().config.workers));
    let idle: Arc<Mutex<Vec<Dispatching>>> = Arc::default();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let batch = loop {
            if let Some(left) = paused(&world, lane) {
                sleep(left).await;
            }
            let (receipts, next) = take(&world, lane, false);
            if !receipts.is_empty() {
                break receipts;
            }
            wait(&world.wakeups(lane).sent, &world, next).await;
        };
        let (world, idle) = (world.clone(), Arc::clone(&idle));
        tokio::spawn(async move {
            match lane {
                HintQueue::Main | HintQueue::Slow => work(&world, lane, &batch).await,
                HintQueue::Effects => dispatch(&world, &idle, &batch).await,
            }
            drop(permit);
        });
        sleep(1).await;
    }
}

/// For how long the function of this lane is still paused, in milliseconds.
fn paused(world: &World, lane: HintQueue) -> Option<i64> {
    let (elapsed, inner) = (world.elapsed(), world.lock());
    let pause = match lane {
        HintQueue::Main | HintQueue::Slow => inner.config.worker_paused,
        HintQueue::Effects => inner.config.dispatcher_paused,
    };
    let (_, until) = pause.filter(|(from, until)| (*from..*until).contains(&elapsed))?;
    Some(until - elapsed)
}

/// How long an event source waits at most before it looks at its queue again, in milliseconds.
const LOOK_EVERY_MAX: i64 = 600_000;

/// Waits until a message can be received: until one comes, or one that is hidden comes back.
async fn wait(come: &Notify, world: &World, next: Option<i64>) {
    let pause = next.map_or(LOOK_EVERY_MAX, |next| (next - world.now()).clamp(1, LOOK_EVERY_MAX));
    let pause = Duration::from_millis(u64::try_from(pause).unwrap_or(1));
    // A timeout is as good as a message: either way, the queue is checked again.
    let _ = tokio::time::timeout(pause, come.notified()).await;
}

/// Whether this instance knows the document of an endpoint: it has read it before, or reads it now.
async fn knows_endpoint(ports: &Ports, endpoint: &Endpoint) -> bool {
    let counted = usize::from(endpoint.on_store_outage == OnStoreOutage::Enqueue);
    {
        let mut inner = ports.world.lock();
        if inner.config.cold_starts == 0 || !inner.strikes(|config| config.cold_starts) {
            return true;
        }
        inner.cold_enqueue += counted;
    }
    let edge = ports.edge("read endpoint", false, Side::Store);
    let read = ports.call(edge, Answers::only(Err(Unavailable)), |_, _| Ok(())).await;
    if read.is_err() {
        ports.world.lock().cold_enqueue_refused += counted;
    }
    read.is_ok()
}

fn take(world: &World, lane: HintQueue, dead: bool) -> (Vec<Receipt>, Option<i64>) {
    let now = world.now();
    let mut guard = world.lock();
    let inner = &mut *guard;
    let limit = inner.config.batch_max;
    let trouble = if inner.calm { 0 } else { inner.config.queue_trouble };
    if !dead && inner.rng.chance(trouble) {
        // Only a hint: a message that carries its payload is the only copy.
        let expendable = |text: &str| {
            Message::decode(text, None).is_ok_and(|message| message.is_hint()) || text.contains("\"k\":\"ref\"")
        };
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
    let (remote, keys) = (remote::handlers(ports), MessageKeys::fixed(KEY));
    WorkerParts { store, queue, keys, ambient, handlers, remote, catalog: Catalog::built_in(), timing }
}

/// The set by which events go now: it asks the handlers, it lets them have effects, or it ignores everything.
pub(super) fn routing(world: &World) -> Routing {
    let Config { unrouted, effects, remote_busy, .. } = world.lock().config;
    if unrouted.is_some_and(|(from, until)| (from..until).contains(&world.elapsed())) {
        Routing::Set(Arc::clone(&UNROUTED))
    } else if effects {
        Routing::Set(Arc::clone(if remote_busy.is_some() { &ROUTED_REMOTE } else { &ROUTED }))
    } else {
        Routing::Set(Arc::clone(&BUILTIN))
    }
}

/// A batch as a process reads it.
fn received(ports: &Ports, batch: &[Receipt]) -> Vec<Received> {
    let received = |receipt: &Receipt| Received {
        body: ports.read_text(&receipt.body),
        receipt_handle: receipt.handle.to_string(),
        receives: i64::from(receipt.receives),
    };
    batch.iter().map(received).collect()
}

/// Deletes the messages that a process has settled. `None` if it is dead.
fn conclude(world: &World, lane: HintQueue, batch: &[Receipt], processed: Option<Vec<Processed>>) {
    let mut inner = world.lock();
    for (receipt, processed) in batch.iter().zip(processed.into_iter().flatten()) {
        if processed.is_acknowledged() && !inner.strikes(|config| config.queue_trouble) {
            inner.lane(lane).queue.delete(receipt.handle);
        }
    }
}

/// A new worker with one batch.
async fn work(world: &World, lane: HintQueue, batch: &[Receipt]) {
    let ports = Ports::new(world, Role::Worker);
    let parts = worker_parts(&ports);
    let messages = received(&ports, batch);
    // In a statement of its own: the lock is held to the statement's end, and `routing` takes it, too.
    let longest = world.lock().config.timing.worker_timeout;
    let routing = routing(world);
    let processed = ports.live(longest, parts.process(&messages, &routing, EpochMs(i64::MAX), &|_| ())).await;
    conclude(world, lane, batch, processed);
}

/// A dispatcher, with the documents that it knows and its circuit breakers.
type Dispatching = DispatcherParts<Ports, Ports, Ports>;

pub(super) fn dispatcher_parts(ports: &Ports) -> Dispatching {
    let (store, queue, ambient) = (ports.clone(), ports.clone(), ports.clone());
    let destinations = Destinations::new(Arc::new(Documents(ports.clone())));
    let caller = RateLimited::new(Arc::new(Outside(ports.clone())));
    DispatcherParts { store, queue, ambient, destinations, caller, timing: ports.timing() }
}

/// A dispatcher with one batch: an idle one, or a new one. It may serve another batch later.
async fn dispatch(world: &World, idle: &Mutex<Vec<Dispatching>>, batch: &[Receipt]) {
    let warm = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let parts = warm.unwrap_or_else(|| dispatcher_parts(&Ports::new(world, Role::Dispatcher)));
    let ports = &parts.store;
    let messages = received(ports, batch);
    let longest = if ports.sleeps() { DISPATCHER_LIFE_MAX } else { parts.timing.dispatcher_timeout };
    let deadline = ports.moment().now.plus(longest);
    let processed = ports.live(longest, parts.dispatch(&messages, deadline, &|_| ())).await;
    let survived = processed.is_some();
    conclude(world, HintQueue::Effects, batch, processed);
    // While two releases run, each process serves one batch.
    let stays = {
        let mut inner = world.lock();
        inner.config.rollout.is_none() && inner.rng.chance(7_000)
    };
    if survived && stays {
        idle.lock().unwrap_or_else(PoisonError::into_inner).push(parts);
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
    let (keys, budget) = (MessageKeys::fixed(KEY), Budget::standard());
    RelayParts { store, queue, keys, ambient, timing, budget, call_max: RELAY_CALL_MAX }
}

async fn relay(world: World) {
    let ports = Ports::new(&world, Role::Relay);
    let deadline = ports.moment().now.plus(RELAY_TIMEOUT);
    let parts = relay_parts(&ports);
    ports.live(RELAY_TIMEOUT, parts.run(deadline)).await;
}

/// The event source of a dead-letter queue: one batch at a time.
pub async fn dead_letter_source(world: World, lane: HintQueue) {
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
                let driven = parts
                    .settle_dead_letter(&ports.read_text(&receipt.body), Some(EpochMs(receipt.sent_at)), &|_| ())
                    .await;
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
fn redrive(world: &World, lane: HintQueue) {
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
    let order = order(ports, operation, accept_duplicate, "operator");
    operate_on(ports, &record, &order, &timing, ports).await;
    // A double click.
    let twice = ports.world.lock().rng.chance(2_000);
    if twice {
        operate_on(ports, &record, &order, &timing, ports).await;
    }
    Some(())
}

/// What an operator orders. The reason is a new one each time.
pub(super) fn order(ports: &Ports, operation: Operation, accept_duplicate: bool, by: &str) -> Order {
    Order { operation, accept_duplicate, accept_other_body: true, by: by.to_owned(), reason: ports.claim_id().0 }
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
