//! The memory that the messages of a batch share for what they hold beside their bodies: the events of envelopes, and
//! what handlers read and answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hookonce_protocol::item::{Value, block_bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most KiB that the messages of a batch hold at once. Each KiB is there several times: in the machine, in its
/// writes and in the requests. A message that needs more has all of it, alone.
const BUDGET_KIB: u32 = 32 * 1024;

/// The memory of one batch.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Semaphore>);

impl Default for MemoryBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_KIB as usize)))
    }
}

/// What one message holds of the budget, until it ends or holds something else.
#[derive(Debug)]
pub struct MemoryPermit {
    budget: MemoryBudget,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    permit: Option<OwnedSemaphorePermit>,
    /// It is all that there is, and is held until the message ends.
    to_the_end: bool,
}

impl MemoryPermit {
    /// A message that holds nothing yet.
    pub fn of(budget: &MemoryBudget) -> Self {
        Self { budget: budget.clone(), held: Mutex::default() }
    }

    /// Holds so many bytes more if they are left, or all.
    pub(crate) fn try_hold_more(&self, bytes: usize) -> bool {
        let mut held = self.held();
        let more = kib(bytes).min(BUDGET_KIB - held.kib());
        let Ok(more) = Arc::clone(&self.budget.0).try_acquire_many_owned(more) else { return false };
        match &mut held.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        true
    }

    /// Waits for so many bytes. Whoever waits holds nothing: those that wait would fill the memory together.
    pub(crate) async fn hold(&self, bytes: usize) {
        self.release();
        if !self.held().to_the_end {
            let all = Arc::clone(&self.budget.0);
            let permit = all.acquire_many_owned(kib(bytes)).await.ok();
            self.held().permit = permit;
        }
    }

    /// Waits for all bytes, and holds them until the message ends, whatever it holds or releases later.
    pub(crate) async fn hold_all_to_the_end(&self) {
        self.hold(usize::MAX).await;
        self.held().to_the_end = true;
    }

    /// Gives back what it holds beyond so many bytes.
    pub(crate) fn keep(&self, bytes: usize) {
        let mut held = self.held();
        let beyond = if held.to_the_end { 0 } else { held.kib().saturating_sub(kib(bytes)) };
        drop(held.permit.as_mut().and_then(|permit| permit.split(beyond as usize)));
    }

    /// Holds nothing more.
    pub(crate) fn release(&self) {
        let mut held = self.held();
        if !held.to_the_end {
            held.permit = None;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn kib(&self) -> u32 {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(held).unwrap_or(BUDGET_KIB)
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1_024)).unwrap_or(BUDGET_KIB).min(BUDGET_KIB)
}

/// About the memory that JSON takes once it is values, in bytes: its text, and what its objects and elements take.
pub(crate) fn json_memory(json: &[u8]) -> usize {
    let (mut bytes, mut in_text, mut escaped) = (json.len(), false, false);
    for byte in json {
        match byte {
            b'"' if !escaped => in_text = !in_text,
            b'{' if !in_text => bytes += block_bytes::<Value>(),
            b',' if !in_text => bytes += size_of::<Value>(),
            _ => {}
        }
        escaped = *byte == b'\\' && !escaped;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_text_takes_no_room() {
        let object = json_memory(b"{}") - 2;
        assert_eq!(json_memory(br#"{"{,\"{,": "\\"}"#), object + 16);
        assert_eq!(json_memory(br#"[{"a": {}}, 1]"#), 14 + 2 * object + size_of::<Value>());
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_more_than_there_is_waits_until_it_is_alone() {
        let budget = MemoryBudget::default();
        let [one, other, large, one_more] = [&budget; 4].map(MemoryPermit::of);
        one.hold(1_024 * 1_024).await;
        assert!(other.try_hold_more(1_024));
        let waits = async |share: &MemoryPermit| {
            tokio::time::timeout(std::time::Duration::from_secs(1), share.hold(usize::MAX)).await
        };
        assert!(waits(&large).await.is_err());
        drop(one);
        other.release();
        assert!(waits(&large).await.is_ok());
        assert!(!other.try_hold_more(1) && large.try_hold_more(1), "all is enough for anything");
        large.keep(1);
        assert!(other.try_hold_more(30 * 1_024 * 1_024), "it gives back what it held");
        assert!(!large.try_hold_more(2 * 1_024 * 1_024), "more is held beside what is held");
        drop(other);
        large.hold_all_to_the_end().await;
        large.release();
        assert!(waits(&large).await.is_ok() && large.try_hold_more(1), "it has all");
        assert!(!one_more.try_hold_more(1), "and keeps it");
    }
}
