//! Time and randomness under a test's control.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hookonce_protocol::key::ClaimId;
use hookonce_protocol::time::{EpochMs, EpochSec, Millis};
use hookonce_protocol::timing::Moment;
use hookonce_runtime::ambient::Ambient;

pub(crate) use super::fixtures::START;

/// A clock that stands still until it is moved, and a repeatable generator. Clones share both.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<State>);

#[derive(Debug)]
struct State {
    now: AtomicI64,
    draws: AtomicU64,
    /// What a draw adds: 1, or 0 while every draw is the same.
    step: AtomicU64,
    claims: AtomicU64,
    seed: u64,
}

impl Clock {
    /// A clock at [`START`].
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(State {
            now: AtomicI64::new(START.0),
            draws: AtomicU64::new(0),
            step: AtomicU64::new(1),
            claims: AtomicU64::new(0),
            seed,
        }))
    }

    pub(crate) fn now(&self) -> EpochMs {
        EpochMs(self.0.now.load(Ordering::SeqCst))
    }

    pub(crate) fn seconds(&self) -> EpochSec {
        self.now().as_seconds()
    }

    pub(crate) fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.now().0).unwrap())
    }

    pub(crate) fn advance(&self, length: Millis) {
        self.0.now.fetch_add(length.0, Ordering::SeqCst);
    }

    /// Does work in which every draw is the same, whatever order the answers of servers give to what goes on side by
    /// side.
    pub(crate) async fn drawing_once<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.step.store(0, Ordering::SeqCst);
        let done = work.await;
        self.0.step.store(1, Ordering::SeqCst);
        done
    }
}

impl Ambient for Clock {
    fn moment(&self) -> Moment {
        let draw = self.0.draws.fetch_add(self.0.step.load(Ordering::SeqCst), Ordering::SeqCst);
        Moment { now: self.now(), entropy: scrambled(self.0.seed.wrapping_add(draw)) }
    }

    fn claim_id(&self) -> ClaimId {
        ClaimId(format!("claim-{:04}", self.0.claims.fetch_add(1, Ordering::SeqCst)))
    }
}

/// The output function of `SplitMix64`.
fn scrambled(index: u64) -> u64 {
    let mut bits = index.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
