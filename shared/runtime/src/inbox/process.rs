//! Processes a batch: each message independently of the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;

use error_reporter::Report;
use futures::FutureExt as _;
use hookonce_protocol::call::{Call, ChildEvent, Failure, Machine as _, Next, Planned, Reply, Signal, Split, Written};
use hookonce_protocol::check::Scope;
use hookonce_protocol::code::Code;
use hookonce_protocol::key::{EndpointId, RecordKey, RecordKind};
use hookonce_protocol::message::{HintQueue, Message, MessageKey};
use hookonce_protocol::plan::{EVENT_VERSION, Event, Plan};
use hookonce_protocol::record::Record;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{HANDLER_MARGIN, Timing};
use hookonce_protocol::worker::{Done, Settled, TRANSIENT_VISIBILITY_MAX, Worker, first_seen};
use hookonce_protocol::write::Write;
use hookonce_providers::{Catalog, EventPart, Provider};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

use crate::ambient::Ambient;
use crate::handlers::remote::{self, CallBudget, Calls, RemoteHandlers, RemoteTarget};
use crate::handlers::snapshot;
use crate::handlers::{Handlers, Recognised};
use crate::inbox::batch::{Batch, BatchResponse, QueueMessage};
use crate::inbox::body;
use crate::inbox::drive::{Carry, Driven, StoreAndQueue, drive_with, duration};
use crate::inbox::ingest::child_bytes_max;
use crate::inbox::memory::{MemoryPermit, MemoryPermits, SHORT_BYTES_MAX};
use crate::inbox::message_key::MessageKeys;
use crate::port::{Queue, Store};
use crate::routes::{self, Assigned, Lack, Missing, Routing};
use crate::telemetry::Counts;

/// The parts that the worker needs.
#[derive(Debug)]
pub struct WorkerParts<S, Q, A> {
    /// The tables.
    pub store: S,
    /// The queue.
    pub queue: Q,
    /// What verifies messages with a payload.
    pub keys: MessageKeys,
    /// Time and randomness.
    pub ambient: A,
    /// The business rules.
    pub handlers: Handlers,
    /// Those in other languages.
    pub remote: RemoteHandlers,
    /// The provider catalog, for splitting envelopes.
    pub catalog: &'static Catalog,
    /// The protocol's durations.
    pub timing: Timing,
}

/// One received message.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its text.
    pub body: String,
    /// Its receipt handle.
    pub receipt_handle: String,
    /// How often the message was received, this time included.
    pub receives: i64,
}

impl Received {
    /// Every message of a batch.
    pub fn each(batch: &Batch) -> Vec<Self> {
        let received = |message: &QueueMessage| Self {
            body: message.body.clone(),
            receipt_handle: message.receipt_handle.clone(),
            receives: message.receives(),
        };
        batch.records.iter().map(received).collect()
    }
}

/// The result of one message.
#[derive(Debug)]
pub enum Processed {
    /// The machine settled it.
    Settled(Driven<Settled>),
    /// The machine or its driver panicked. The message stays in the queue.
    Panicked,
    /// The time of the batch was over before the machine started or ended. The message stays in the queue.
    OutOfTime,
}

impl Processed {
    /// Whether the message leaves the queue.
    pub fn is_acknowledged(&self) -> bool {
        match self {
            Self::Settled(driven) => matches!(driven.output, Settled::Ack(_)),
            Self::Panicked | Self::OutOfTime => false,
        }
    }

    /// What the machine settled. Counts and logs the message if it did not come to that.
    fn settled(&self, counts: &mut Counts) -> Option<&Driven<Settled>> {
        match self {
            Self::Settled(driven) => Some(driven),
            Self::Panicked => {
                counts.add("message_panicked", 1);
                tracing::error!("processing a message panicked; the message stays in the queue");
                None
            }
            Self::OutOfTime => {
                counts.add("message_out_of_time", 1);
                tracing::warn!("the batch ran out of time; the message stays in the queue");
                None
            }
        }
    }
}

/// Names the record of a message in each line that is logged meanwhile. An effect's event is named once it is read.
pub(crate) fn span(key: Option<&RecordKey>) -> Span {
    tracing::error_span!("message", record.key = key.map(tracing::field::display), event.key = tracing::field::Empty)
}

/// The response to a batch: the messages that stay in the queue. Counts how each ended, by its signals and by what
/// `metric` calls it, apart for each endpoint. What cannot be verified counts for none.
pub fn respond(
    batch: Batch,
    processed: Vec<Processed>,
    key: Option<&MessageKey>,
    metric: impl Fn(&Settled) -> Option<&'static str>,
) -> (BatchResponse, Vec<Counts>) {
    let mut processed = processed.into_iter();
    let (mut response, mut by_endpoint) = (BatchResponse::default(), BTreeMap::new());
    for message in batch.records {
        let named = Message::decode(&message.body, key).ok();
        let key = named.as_ref().map(Message::record_key);
        let _span = span(key).entered();
        let endpoint = key.and_then(|key| EndpointId::parse(key.parts().0).ok());
        let counts = by_endpoint.entry(endpoint).or_insert_with_key(|endpoint| Counts::of(endpoint.as_ref()));
        let ended = processed.next();
        if let Some(driven) = ended.as_ref().and_then(|ended| ended.settled(counts)) {
            counts.unrecorded(&driven.signals);
            if let Some(metric) = metric(&driven.output) {
                counts.add(metric, 1);
            }
        }
        // A message without a result was not processed.
        if !ended.is_some_and(|ended| ended.is_acknowledged()) {
            response.keep(message.message_id);
        }
    }
    (response, by_endpoint.into_values().collect())
}

/// How long before the function's deadline a batch ends. What has not started by then is not started any more, and what
/// is under way is dropped: a killed process would hand back every message of its batch, the settled ones too.
pub const DEADLINE_MARGIN: Millis = Millis::seconds(2);

/// When a batch ends that begins now: shortly before the function's deadline, and within an hour whatever that is.
pub(crate) fn batch_end(deadline: EpochMs, now: EpochMs) -> Instant {
    let left = Millis(deadline.0.saturating_sub(now.0).saturating_sub(DEADLINE_MARGIN.0));
    Instant::now() + duration(left.clamp(Millis(0), Millis::hours(1)))
}

/// Works on the message of this record until the batch ends, and keeps its panic from the others.
pub(crate) async fn isolated(
    key: Option<RecordKey>,
    work: impl Future<Output = Driven<Settled>>,
    until: Instant,
) -> Processed {
    if Instant::now() >= until {
        return Processed::OutOfTime;
    }
    let work = work.instrument(span(key.as_ref()));
    match timeout_at(until, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(ended) => ended.map_or(Processed::Panicked, Processed::Settled),
        Err(_) => Processed::OutOfTime,
    }
}

/// Hides a message that stays in its queue until it may be received again.
pub(crate) async fn hide(queue: &impl Queue, lane: HintQueue, received: &Received, settled: &Settled) {
    if let Settled::Retry(length) = settled {
        let length = Millis(length.0.clamp(0, TRANSIENT_VISIBILITY_MAX.0));
        // Best effort: if it fails, the message returns after the queue's visibility timeout.
        if let Err(error) = queue.hide(lane, &received.receipt_handle, length).await {
            tracing::warn!(error = %Report::new(&error), "changing a message's visibility timeout failed");
        }
    }
}

impl<S: Store, Q: Queue, A: Ambient> WorkerParts<S, Q, A> {
    /// Processes every message of a batch until shortly before the deadline. The results are in the order of the
    /// messages. Signals are told at once, because a sibling may take the process down.
    pub async fn process(
        &self,
        messages: &[Received],
        routing: &Routing,
        deadline: EpochMs,
        on_signal: &(impl Fn(&Signal) + Sync),
    ) -> Vec<Processed> {
        let until = batch_end(deadline, self.ambient.moment().now);
        let earlier = duration(Millis(HANDLER_MARGIN.0 - DEADLINE_MARGIN.0));
        let calls_until = until.checked_sub(earlier).unwrap_or(until);
        let ahead = async {
            let decoded = self.keys.decode(messages.iter().map(|message| message.body.as_str())).await;
            let records = self.prefetch(&decoded).await;
            (decoded, records)
        };
        let Ok((decoded, mut records)) = timeout_at(until, ahead).await else {
            return messages.iter().map(|_| Processed::OutOfTime).collect();
        };
        let permits = &MemoryPermits::default();
        // A batch comes from one queue: any readable message tells the queue of the unreadable ones.
        let lane_of_batch = decoded.iter().flatten().next().map_or(HintQueue::Main, Message::lane);
        let work = messages.iter().zip(decoded).map(|(received, message)| {
            let moment = self.ambient.moment();
            let lane = message.as_ref().map_or(lane_of_batch, Message::lane);
            let key = message.as_ref().ok().map(|message| message.record_key().clone());
            let mut first = Worker::start(message, received.receives, self.timing, moment);
            let prefetched = match &first.next {
                Next::Call(_, Call::Read(key)) => records.remove(key),
                Next::Call(..) | Next::Done(_) => None,
            };
            let work = async move {
                if let Some(found) = prefetched {
                    first = match first.next {
                        Next::Call(machine, _) => machine.step(Reply::Read(Ok(found)), moment),
                        Next::Done(output) => hookonce_protocol::call::Step::done(output),
                    };
                }
                let budget = CallBudget::until(calls_until);
                let (first_seen, memory) = (OnceLock::new(), MemoryPermit::of(permits));
                let carrier = OneMessage { parts: self, routing, lane, budget: &budget, first_seen, memory };
                let mut driven = drive_with(first, &carrier, &self.ambient, on_signal).await;
                driven.signals.extend(std::iter::repeat_n(Signal::HandlerCalled, budget.made().into()));
                hide(&self.queue, lane, received, &driven.output).await;
                if let (Settled::Ack(Done::Settled(_)), Some(note)) = (&driven.output, carrier.first_seen.get())
                    && self.came_with_another(note).await
                {
                    driven.signals.push(Signal::SuspectedReplay);
                }
                driven
            };
            isolated(key, work, until)
        });
        futures::future::join_all(work).await
    }

    /// Reads all records that the batch names at once. If a read fails, the message's own machine reads the record
    /// again.
    async fn prefetch<E>(
        &self,
        messages: &[Result<Message, E>],
    ) -> BTreeMap<RecordKey, hookonce_protocol::record::Found> {
        let hint = |message: &Result<Message, E>| match message {
            Ok(Message::Ref { pk } | Message::Slow { pk, .. }) => Some(pk.clone()),
            Ok(Message::Full(_)) | Err(_) => None,
        };
        let mut keys: Vec<_> = messages.iter().filter_map(hint).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return BTreeMap::new();
        }
        let found = self.store.read_each(&keys).await;
        keys.into_iter().zip(found).filter_map(|(key, found)| Some((key, found.ok()?))).collect()
    }

    /// Notes which record a body came with, and returns whether it came with another record before. Best effort: it is
    /// only counted.
    async fn came_with_another(&self, note: &Write) -> bool {
        match self.store.write(note).await {
            Written::ConditionFailed(_) => {
                let known = self.store.read_items(&[note.key.clone().into()]).await;
                known.is_ok_and(|known| first_seen::is_of_another(note, &known))
            }
            Written::Applied | Written::TransactionConflict | Written::Invalid | Written::Unavailable => false,
        }
    }
}

impl<S: Store, Q, A> WorkerParts<S, Q, A> {
    /// Routes a record's event to its handler, reads what it asks for and lets it plan. Writes nothing.
    pub async fn plan(&self, record: &Record, routing: &Routing, calls: Calls<'_>) -> Planned {
        match guarded(|| self.read(record)) {
            Ok(event) => self.plan_event(&event, routing, calls).await,
            Err(failure) => Planned::Failed(failure),
        }
    }

    /// The handler in another language that plans for a record's event, if there is one.
    pub fn remote_target(&self, record: &Record, routing: &Routing) -> Option<RemoteTarget> {
        self.assigned(record, routing, |assigned| match assigned {
            Assigned::Remote(handling) => Some(handling.target),
            Assigned::Nobody | Assigned::Builtin(_) | Assigned::Forward(_) | Assigned::Missing(_) => None,
        })
    }

    /// What a record's event waits for: its route names it, and this worker lacks it.
    pub fn missing(&self, record: &Record, routing: &Routing) -> Option<Missing> {
        self.assigned(record, routing, |assigned| match assigned {
            Assigned::Missing(missing) => Some(missing.clone()),
            Assigned::Nobody | Assigned::Builtin(_) | Assigned::Forward(_) | Assigned::Remote(_) => None,
        })
    }

    /// The event of a record, as its handler gets it. `None` if it cannot be read.
    pub fn event(&self, record: &Record) -> Option<Event> {
        guarded(|| self.read(record)).ok()
    }

    fn assigned<T>(&self, record: &Record, routing: &Routing, of: impl FnOnce(Assigned<'_>) -> Option<T>) -> Option<T> {
        let Routing::Set(set) = routing else { return None };
        let event = self.event(record)?;
        of(guarded(|| routes::assign(&self.handlers, set, self.catalog, &event)).ok()?)
    }

    async fn plan_event(&self, event: &Event, routing: &Routing, calls: Calls<'_>) -> Planned {
        let set = match routing {
            // Until the routes are read, nobody guesses where an event goes.
            Routing::Unknown => return Planned::Unavailable,
            Routing::Set(set) => set,
        };
        match guarded(|| routes::assign(&self.handlers, set, self.catalog, event)) {
            Ok(Assigned::Nobody) => Planned::NoHandler,
            Ok(Assigned::Builtin(recognised)) => self.plan_here(event, recognised, calls.memory).await,
            Ok(Assigned::Forward(assignment)) => {
                snapshot::complete(&self.store, event, Scope::default(), assignment, Plan::default()).await
            }
            Ok(Assigned::Remote(handling)) => remote::plan(&self.store, &self.remote, &handling, event, calls).await,
            Ok(Assigned::Missing(Missing { route, what })) => {
                tracing::warn!(record.key = %event.record, route, missing = %what,
                    "the event waits: this worker lacks what the event's route names");
                match what {
                    Lack::Handler(_) | Lack::Handlers | Lack::Url => Planned::HandlerAway,
                    Lack::Table(_) => Planned::UserTableUnavailable,
                }
            }
            Err(failure) => Planned::Failed(failure),
        }
    }

    async fn plan_here(&self, event: &Event, recognised: Recognised<'_>, memory: &MemoryPermit) -> Planned {
        let (assignment, reads) = (recognised.assignment(), &recognised.reads);
        let tables = assignment.grants.tables.as_deref();
        let (scope, snapshot) = match snapshot::read(&self.store, event, reads, tables, memory).await {
            Ok(read) => read,
            Err(planned) => return planned,
        };
        match guarded(|| recognised.plan(&snapshot)) {
            Ok(plan) => snapshot::complete(&self.store, event, scope, assignment, plan).await,
            Err(failure) => Planned::Failed(failure),
        }
    }

    /// The event that a record stands for. A record that was claimed as one event stays one, whatever a later catalog
    /// would read out of its body.
    ///
    /// Its key is the provider's id of the event, also where the record is claimed under a signed value, unless a retry
    /// has that value, too.
    fn read(&self, record: &Record) -> Result<Event, Failure> {
        let endpoint = EndpointId::parse(record.key.parts().0).ok();
        let (endpoint, tenant) =
            endpoint.zip(record.owner()).ok_or_else(|| Failure::permanent(Code::BodyUnreadable))?;
        let body = raw_body(record)?;
        let provider = self.provider(record)?;
        let key = if provider.signs_retries_alike() {
            record.key.event_id()
        } else {
            let parts = <[EventPart; 1]>::try_from(provider.split(&body, &record.headers));
            parts.map_or_else(|_| record.key.event_id(), |[part]| part.key.into())
        };
        Ok(Event {
            version: EVENT_VERSION,
            tenant,
            endpoint,
            provider: record.provider.clone(),
            record: record.key.clone(),
            key,
            event_type: record.event_type.clone(),
            received_at: record.received_at,
            generation: record.generation,
            headers: record.headers.clone(),
            body,
        })
    }

    fn provider(&self, record: &Record) -> Result<&Provider, Failure> {
        // Retryable: a later deployment may put the provider back into the catalog.
        self.catalog.provider(&record.provider).ok_or_else(|| Failure::retryable(Code::ProviderUnknown))
    }

    /// Splits an envelope's body into events.
    pub fn split(&self, envelope: &Record) -> Split {
        let split = || {
            let body = raw_body(envelope)?;
            children(envelope, self.provider(envelope)?.split(&body, &envelope.headers))
        };
        match guarded(split) {
            Ok(events) => Split::Events(events),
            Err(failure) => Split::Failed(failure),
        }
    }
}

fn raw_body(record: &Record) -> Result<Vec<u8>, Failure> {
    let Some(stored) = &record.body else { return Err(Failure::permanent(Code::BodyMissing)) };
    body::decompress(stored).map_err(|_| Failure::permanent(Code::BodyUnreadable))
}

fn children(envelope: &Record, parts: Vec<EventPart>) -> Result<Vec<ChildEvent>, Failure> {
    let bytes_max = child_bytes_max(envelope);
    let endpoint =
        EndpointId::parse(envelope.key.parts().0).map_err(|_| Failure::permanent(Code::EnvelopeUnreadable))?;
    let child = |part: EventPart| {
        let body = body::compress(&part.body).map_err(|_| Failure::retryable(Code::BodyNotCompressed))?;
        let fits = body.len() + part.event_type.len() <= bytes_max;
        let key = part.key.record_key(&endpoint);
        Ok(ChildEvent { key, event_type: part.event_type, body, sha256: part.sha256, fits })
    };
    parts.into_iter().map(child).collect()
}

/// Carries out the calls of one message's machine.
#[derive(Debug)]
struct OneMessage<'a, S, Q, A> {
    parts: &'a WorkerParts<S, Q, A>,
    routing: &'a Routing,
    /// The queue that the message came from.
    lane: HintQueue,
    budget: &'a CallBudget,
    /// The note to write once the record is settled. Only for deliveries, and only if the provider does not sign its
    /// ids.
    first_seen: OnceLock<Write>,
    /// What this message may hold of events, items and answers.
    memory: MemoryPermit,
}

impl<S: Store, Q: Queue, A: Ambient> OneMessage<'_, S, Q, A> {
    async fn split(&self, record: &Record) -> Split {
        self.memory.release();
        let split = self.parts.split(record);
        // Events stay bytes: a message may hold more of them without a permit.
        let is_long = match &split {
            Split::Events(events) => events.iter().map(|event| event.body.len()).sum::<usize>() > 8 * SHORT_BYTES_MAX,
            Split::Failed(_) => false,
        };
        if !is_long || self.memory.try_take() {
            return split;
        }
        drop(split);
        self.memory.take().await;
        self.parts.split(record)
    }

    async fn plan(&self, record: &Record) -> Planned {
        let request_id = || self.parts.ambient.claim_id().0;
        let moment = || self.parts.ambient.moment();
        let slow_move = self.lane != HintQueue::Slow;
        let (budget, memory) = (self.budget, &self.memory);
        memory.release();
        let calls = Calls { slow_move, budget, memory, request_id: &request_id, moment: &moment };
        self.parts.plan(record, self.routing, calls).await
    }

    fn remember(&self, record: &Record) {
        let delivered = record.key.kind() != RecordKind::Event;
        let provider = self.parts.catalog.provider(&record.provider);
        if delivered && provider.is_some_and(|provider| !provider.key_is_signed()) {
            let moment = self.parts.ambient.moment();
            self.first_seen.get_or_init(|| first_seen::note(record, &self.parts.timing, moment));
        }
    }
}

impl<S: Store, Q: Queue, A: Ambient> Carry for OneMessage<'_, S, Q, A> {
    async fn carry(&self, call: Call) -> Reply {
        match call {
            Call::Plan(record) => {
                self.remember(&record);
                Reply::Planned(self.plan(&record).await)
            }
            Call::Split(record) => {
                self.remember(&record);
                Reply::Split(self.split(&record).await)
            }
            call => StoreAndQueue { store: &self.parts.store, queue: &self.parts.queue }.carry(call).await,
        }
    }
}

/// Runs a handler's code, or code on a provider's bytes, and turns a panic into a failure of this message alone. It
/// counts as an attempt, so the record dies in the end.
fn guarded<T, E: Into<Failure>>(code: impl FnOnce() -> Result<T, E>) -> Result<T, Failure> {
    match std::panic::catch_unwind(AssertUnwindSafe(code)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Failure::retryable(Code::HandlerPanicked)),
    }
}
