//! The memory that the messages of a batch share for what they hold beside their bodies: the events of envelopes, and
//! what handlers read and answer. What is short has room. What is long waits for one of a few permits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hookonce_protocol::plan::PLAN_MEMORY_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most bytes of items or of an answer, as text, that a message holds without a permit. As values they take up to 40
/// times as much.
pub const SHORT_BYTES_MAX: usize = 128 * 1024;

/// How many messages of a batch hold more at once.
pub const LONG_AT_ONCE: usize = 3;

// Values are there several times: in the machine, in its writes, and in the requests. `scripts/bench memory` measures
// what that takes of the worker's 512 MiB: a fourth permit would not fit.
const _: () = assert!(LONG_AT_ONCE * PLAN_MEMORY_MAX <= 96 * 1024 * 1024);

/// The permits of one batch.
#[derive(Debug, Clone)]
pub struct MemoryPermits(Arc<Semaphore>);

impl Default for MemoryPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LONG_AT_ONCE)))
    }
}

/// The permit of one message, while it holds something long.
#[derive(Debug)]
pub struct MemoryPermit {
    all: MemoryPermits,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl MemoryPermit {
    /// A message that holds nothing yet.
    pub fn of(all: &MemoryPermits) -> Self {
        Self { all: all.clone(), held: Mutex::default() }
    }

    /// Takes a permit if one is left. True if the message has one.
    pub(crate) fn try_take(&self) -> bool {
        let mut held = self.held();
        if held.is_none() {
            *held = Arc::clone(&self.all.0).try_acquire_owned().ok();
        }
        held.is_some()
    }

    /// Waits for a permit. Whoever waits must hold nothing long that can be read again.
    pub(crate) async fn take(&self) {
        if !self.try_take() {
            let permit = Arc::clone(&self.all.0).acquire_owned().await.ok();
            *self.held() = permit;
        }
    }

    /// The message holds nothing long any more.
    pub(crate) fn release(&self) {
        *self.held() = None;
    }

    fn held(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_long_waits_until_another_message_has_ended() {
        let all = MemoryPermits::default();
        let mut first: Vec<_> = (0..LONG_AT_ONCE).map(|_| MemoryPermit::of(&all)).collect();
        assert!(first.iter().all(MemoryPermit::try_take));
        assert!(first.iter().all(MemoryPermit::try_take), "a message takes one permit, however often it asks");
        let [other, another] = [&all; 2].map(MemoryPermit::of);
        let waits =
            async |permit: &MemoryPermit| tokio::time::timeout(std::time::Duration::from_secs(1), permit.take()).await;
        assert!(!other.try_take() && waits(&other).await.is_err());
        drop(first.pop());
        assert!(waits(&other).await.is_ok() && !another.try_take());
        first[0].release();
        assert!(another.try_take());
    }
}
