//! The driver: carries out a machine's calls until the machine ends.

use std::future::Future;
use std::time::Duration;

use hookonce_protocol::call::{Call, Machine, Next, Reply, Signal, Step};
use hookonce_protocol::time::Millis;

use crate::ambient::Ambient;
use crate::port::{Queue, Store};

/// How many independent writes run at once.
pub const WRITES_IN_FLIGHT_MAX: usize = 25;

/// Carries out calls.
pub trait Carry: Sync {
    /// Carries out one call. A call that this carrier does not support gets [`Reply::Done`], which every machine treats
    /// as "unavailable".
    fn carry(&self, call: Call) -> impl Future<Output = Reply> + Send;
}

/// A machine's output and signals.
#[derive(Debug)]
pub struct Driven<Output> {
    /// The output.
    pub output: Output,
    /// The signals, in order.
    pub signals: Vec<Signal>,
}

/// Drives a machine from its first step to its end.
pub async fn drive<M: Machine>(
    first: Step<M, M::Output>,
    carrier: &impl Carry,
    ambient: &impl Ambient,
) -> Driven<M::Output> {
    drive_with(first, carrier, ambient, &|_| ()).await
}

/// Drives a machine from its first step to its end, and hands on the signals of each step before its call: what was
/// written is then recorded, even if the call is the last that this process makes.
pub async fn drive_with<M: Machine>(
    first: Step<M, M::Output>,
    carrier: &impl Carry,
    ambient: &impl Ambient,
    on_signal: &(impl Fn(&Signal) + Sync),
) -> Driven<M::Output> {
    let mut signals = Vec::new();
    let mut step = first;
    loop {
        step.signals.iter().for_each(on_signal);
        signals.append(&mut step.signals);
        match step.next {
            Next::Done(output) => return Driven { output, signals },
            Next::Call(machine, call) => {
                // Boxed: the SDK's futures are too large to nest in the caller's.
                let reply = Box::pin(carrier.carry(call)).await;
                step = machine.step(reply, ambient.moment());
            }
        }
    }
}

/// Carries out calls to the store and the queue.
#[derive(Debug)]
pub struct StoreAndQueue<'a, S, Q> {
    /// The store.
    pub store: &'a S,
    /// The queue.
    pub queue: &'a Q,
}

impl<S: Store, Q: Queue> Carry for StoreAndQueue<'_, S, Q> {
    async fn carry(&self, call: Call) -> Reply {
        match call {
            Call::Write(write) => Reply::Written(self.store.write(&write).await),
            Call::WriteBestEffort(write) => {
                // It may fail: nothing depends on it.
                self.store.write(&write).await;
                Reply::Done
            }
            Call::WriteEach(writes) => {
                let mut written = Vec::with_capacity(writes.len());
                for chunk in writes.chunks(WRITES_IN_FLIGHT_MAX) {
                    written.extend(futures::future::join_all(chunk.iter().map(|write| self.store.write(write))).await);
                }
                Reply::WrittenEach(written)
            }
            Call::Read(key) => Reply::Read(self.store.read(&key).await),
            Call::ReadHeads(keys) => Reply::ReadHeads(self.store.read_heads(&keys).await),
            Call::Commit(writes) => Reply::Committed(self.store.commit(&writes).await),
            Call::Send(message) => Reply::Sent(self.queue.send(&message).await),
            Call::SendEach(messages) => Reply::SentEach(self.queue.send_each(&messages).await),
            Call::QueryDue(query) => Reply::Due(self.store.query_due(&query).await),
            Call::CountReceived { shard, from, until } => {
                Reply::Counted(self.store.count_received(shard, from, until).await)
            }
            Call::Wait(length) => {
                tokio::time::sleep(duration(length)).await;
                Reply::Done
            }
            Call::Plan(_) | Call::Split(_) | Call::ReadTrail(_) | Call::Terms(_) | Call::Deliver(_) => Reply::Done,
        }
    }
}

/// Converts a protocol duration to the standard library's.
pub fn duration(length: Millis) -> Duration {
    Duration::from_millis(u64::try_from(length.0).unwrap_or(0))
}
