//! Faults between a function and what it calls.
//!
//! A [`Script`] says what happens at which call of one run of a function. [`Faulty`] wraps the real adapter and injects
//! it. A killed process is a dropped future: the call at which it dies never returns, and [`Script::run`] stops waiting
//! for it.

use std::future::Future;
use std::sync::{Arc, Mutex};

use hookonce_aws::{DynamoStore, SqsQueue};
use hookonce_protocol::call::{CancellationReason, Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::worker::VISIBILITY_MAX;
use hookonce_protocol::write::{Action, Write};
use hookonce_runtime::port::{NotRead, Queue, Store};
use tokio::sync::{Notify, watch};

use super::call_names::named;

/// A remote call, by the operation that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Put,
    Update,
    Commit,
    Read,
    ReadEach,
    ReadHeads,
    ReadDomain,
    QueryDue,
    CountReceived,
    Send,
    SendEach,
    Hide,
}

/// A fault that a script can inject, by the name that it has in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Refused,
    ReplyLost,
    Invalid,
    CrashBefore,
    Conflict,
    /// Of several records, only the first is read.
    Partial,
}

/// What happens at a call.
#[derive(Debug, Clone)]
enum Interference {
    /// It meets a fault.
    Fault(Fault),
    /// It waits at the gate, and is then carried out.
    Held(Gate),
}

/// Holds a call until the test lets it go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<GateState>);

#[derive(Debug, Default)]
struct GateState {
    reached: Notify,
    open: Notify,
}

impl Gate {
    /// Waits until the call has reached the gate.
    pub(crate) async fn reached(&self) {
        self.0.reached.notified().await;
    }

    /// Lets the call go.
    pub(crate) fn open(&self) {
        self.0.open.notify_one();
    }

    async fn pass(&self) {
        self.0.reached.notify_one();
        self.0.open.notified().await;
    }
}

#[derive(Debug, Clone, Copy)]
enum When {
    /// The n-th call of this operation, from 0.
    NthOf(Operation, usize),
    /// Every call of this operation.
    Every(Operation),
    /// Every call that goes to the store.
    EveryOfStore,
}

/// What happens at the calls of one run of a function. Clones share the run.
#[derive(Debug, Clone)]
pub(crate) struct Script(Arc<Run>);

#[derive(Debug)]
struct Run {
    rules: Vec<(When, Interference)>,
    calls: Mutex<Vec<Operation>>,
    killed: watch::Sender<bool>,
    turn: Option<tokio::sync::Semaphore>,
}

impl Script {
    fn new(rules: Vec<(When, Interference)>, in_turn: bool) -> Self {
        let turn = in_turn.then(|| tokio::sync::Semaphore::new(1));
        Self(Arc::new(Run { rules, calls: Mutex::default(), killed: watch::Sender::new(false), turn }))
    }

    /// No fault, and as many calls at a time as the function wants.
    pub(crate) fn none() -> Self {
        Self::new(Vec::new(), false)
    }

    /// No fault, one call at a time, so that the order of calls is the same in every run.
    pub(crate) fn recording() -> Self {
        Self::new(Vec::new(), true)
    }

    /// A fault at the `index`-th call of an operation.
    pub(crate) fn on(operation: Operation, index: usize, fault: Fault) -> Self {
        Self::new(vec![(When::NthOf(operation, index), Interference::Fault(fault))], false)
    }

    /// The first call of an operation waits at a gate.
    pub(crate) fn held(operation: Operation, gate: &Gate) -> Self {
        Self::new(vec![(When::NthOf(operation, 0), Interference::Held(gate.clone()))], false)
    }

    /// The same fault at every call of an operation.
    pub(crate) fn every(operation: Operation, fault: Fault) -> Self {
        Self::new(vec![(When::Every(operation), Interference::Fault(fault))], false)
    }

    /// The store is down.
    pub(crate) fn store_outage() -> Self {
        Self::new(vec![(When::EveryOfStore, Interference::Fault(Fault::Refused))], false)
    }

    /// The calls so far, in order.
    pub(crate) fn calls(&self) -> Vec<Operation> {
        self.0.calls.lock().unwrap().clone()
    }

    /// How often an operation was called so far.
    pub(crate) fn count(&self, operation: Operation) -> usize {
        self.calls().into_iter().filter(|called| *called == operation).count()
    }

    /// Runs a function until it ends or dies.
    pub(crate) async fn run<T>(&self, function: impl Future<Output = T>) -> Option<T> {
        let mut killed = self.0.killed.subscribe();
        tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => None,
            output = function => Some(output),
        }
    }

    fn next(&self, operation: Operation) -> Option<Interference> {
        let mut calls = self.0.calls.lock().unwrap();
        let index_of_kind = calls.iter().filter(|called| **called == operation).count();
        calls.push(operation);
        let to_store = !matches!(operation, Operation::Send | Operation::SendEach | Operation::Hide);
        let applies = |when: &When| match when {
            When::NthOf(kind, nth) => *kind == operation && *nth == index_of_kind,
            When::Every(kind) => *kind == operation,
            When::EveryOfStore => to_store,
        };
        self.0.rules.iter().find(|(when, _)| applies(when)).map(|(_, interference)| interference.clone())
    }

    async fn die<T>(&self) -> T {
        self.0.killed.send_replace(true);
        std::future::pending().await
    }

    /// Carries one call out, or not.
    async fn carry<T, F: Future<Output = T>>(
        &self,
        operation: Operation,
        replies: Replies<T>,
        call: impl Fn() -> F,
    ) -> T {
        let Replies { refused, conflict, invalid, partial } = replies;
        let _turn = match &self.0.turn {
            Some(turn) => Some(turn.acquire().await.unwrap()),
            None => None,
        };
        let fault = match self.next(operation) {
            None => return call().await,
            Some(Interference::Held(gate)) => {
                gate.pass().await;
                return call().await;
            }
            Some(Interference::Fault(fault)) => fault,
        };
        match fault {
            Fault::Refused => refused,
            Fault::ReplyLost => {
                let _ = call().await;
                refused
            }
            Fault::Invalid => invalid.unwrap_or_else(|| panic!("{operation:?} is no single write")),
            Fault::CrashBefore => self.die().await,
            Fault::Conflict => conflict.unwrap_or_else(|| panic!("{operation:?} meets no transaction")),
            Fault::Partial => match partial {
                Some(partial) => partial(call().await),
                None => panic!("{operation:?} does not read several records"),
            },
        }
    }
}

/// What a call is told that is not carried out.
struct Replies<T> {
    /// By a side that is unavailable.
    refused: T,
    /// While a transaction is in the way, if the call can meet one.
    conflict: Option<T>,
    /// By a store that can never carry it out, if that can be.
    invalid: Option<T>,
    /// By a store that does a part, if that can be.
    partial: Option<fn(T) -> T>,
}

impl<T> Replies<T> {
    /// Those of a call that a side can only refuse.
    fn of(refused: T) -> Self {
        Self { refused, conflict: None, invalid: None, partial: None }
    }
}

/// What a store answers that read the first record alone, and leaves the others for later.
fn first_alone<T>(mut read: Vec<Result<T, Unavailable>>) -> Vec<Result<T, Unavailable>> {
    read.iter_mut().skip(1).for_each(|later| *later = Err(Unavailable));
    read
}

/// The deployed adapters, amid faults.
pub(crate) type TestStore = Faulty<DynamoStore>;
pub(crate) type TestQueue = Faulty<SqsQueue>;

/// A store or a queue behind a script.
#[derive(Debug)]
pub(crate) struct Faulty<P> {
    inner: P,
    script: Script,
}

impl<P> Faulty<P> {
    pub(crate) fn new(inner: P, script: &Script) -> Self {
        Self { inner, script: script.clone() }
    }
}

impl<S: Store> Store for Faulty<S> {
    async fn write(&self, write: &Write) -> Written {
        let operation = match write.action {
            Action::Put(_) => Operation::Put,
            Action::Update(_) | Action::Delete | Action::Check => Operation::Update,
        };
        let (conflict, invalid) = (Some(Written::TransactionConflict), Some(Written::Invalid));
        let replies = Replies { conflict, invalid, ..Replies::of(Written::Unavailable) };
        self.script.carry(operation, replies, || named(std::slice::from_ref(write), self.inner.write(write))).await
    }

    async fn commit(&self, writes: &[Write]) -> Committed {
        let conflict = Some(Committed::Cancelled(vec![CancellationReason::Transient; writes.len()]));
        let invalid = Some(Committed::Invalid);
        let replies = Replies { conflict, invalid, ..Replies::of(Committed::Unavailable) };
        self.script.carry(Operation::Commit, replies, || named(writes, self.inner.commit(writes))).await
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        self.script.carry(Operation::Read, Replies::of(Err(Unavailable)), || self.inner.read(key)).await
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        let replies = Replies { partial: Some(first_alone), ..Replies::of(vec![Err(Unavailable); keys.len()]) };
        self.script.carry(Operation::ReadEach, replies, || self.inner.read_each(keys)).await
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        let replies = Replies { partial: Some(first_alone), ..Replies::of(vec![Err(Unavailable); keys.len()]) };
        self.script.carry(Operation::ReadHeads, replies, || self.inner.read_heads(keys)).await
    }

    async fn read_items(&self, items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        if items.is_empty() {
            return self.inner.read_items(items).await; // This makes no remote call.
        }
        self.script.carry(Operation::ReadDomain, Replies::of(Err(Unavailable)), || self.inner.read_items(items)).await
    }

    async fn read_few_bytes(&self, items: &[ItemRef], bytes_max: u64) -> Result<Snapshot, NotRead> {
        let read = || self.inner.read_few_bytes(items, bytes_max);
        self.script.carry(Operation::ReadDomain, Replies::of(Err(NotRead::Unavailable)), read).await
    }

    /// Asked once per process, so no place for faults of its own: `tests/adapters` breaks it.
    async fn key_schema(&self, table: TableAlias, named: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        self.inner.key_schema(table, named).await
    }

    async fn query_due(&self, query: &DueQuery) -> Result<DuePage, Unavailable> {
        self.script.carry(Operation::QueryDue, Replies::of(Err(Unavailable)), || self.inner.query_due(query)).await
    }

    async fn count_received(&self, shard: u16, from: EpochMs, until: EpochMs) -> Result<u64, Unavailable> {
        let call = || self.inner.count_received(shard, from, until);
        self.script.carry(Operation::CountReceived, Replies::of(Err(Unavailable)), call).await
    }
}

impl<Q: Queue> Queue for Faulty<Q> {
    async fn send(&self, message: &Message) -> Result<(), Unavailable> {
        self.script.carry(Operation::Send, Replies::of(Err(Unavailable)), || self.inner.send(message)).await
    }

    async fn send_each(&self, messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        let refused = vec![Err(Unavailable); messages.len()];
        self.script.carry(Operation::SendEach, Replies::of(refused), || self.inner.send_each(messages)).await
    }

    /// Hides it for long, whatever the length: the queue's clock does not stand still, and the test decides when the
    /// message comes back.
    async fn hide(&self, lane: HintQueue, receipt_handle: &str, _length: Millis) -> Result<(), Unavailable> {
        let call = || self.inner.hide(lane, receipt_handle, VISIBILITY_MAX);
        self.script.carry(Operation::Hide, Replies::of(Err(Unavailable)), call).await
    }
}
