//! What the calls of one message share.

use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use hookonce_protocol::timing::{HANDLER_CALL_MAX, HANDLER_CALLS_MAX, Moment};
use tokio::time::Instant;

use crate::inbox::drive::duration;
use crate::inbox::memory::MemoryPermit;

/// The calls that one message may make.
#[derive(Debug)]
pub struct CallBudget {
    until: Instant,
    made: AtomicU16,
}

impl CallBudget {
    /// At most [`HANDLER_CALLS_MAX`] calls, each of which can end before this moment.
    pub fn until(end: Instant) -> Self {
        Self { until: end, made: AtomicU16::new(0) }
    }

    /// How many calls were made.
    pub fn made(&self) -> u16 {
        self.made.load(Ordering::Relaxed)
    }

    /// Takes one call, if there is one left and time for all of it. A handler that gets less time than it was promised
    /// would be blamed for the lack.
    pub(super) fn take(&self) -> bool {
        let may = self.made() < HANDLER_CALLS_MAX && Instant::now() + call_max() <= self.until;
        if may {
            self.made.fetch_add(1, Ordering::Relaxed);
        }
        may
    }
}

/// How long one call may take.
pub(super) fn call_max() -> Duration {
    duration(HANDLER_CALL_MAX)
}

/// What the calls of one message share.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    /// Whether the event of a slow handler moves to the queue of slow handlers, instead of a call.
    pub slow_move: bool,
    /// How many there may be.
    pub budget: &'a CallBudget,
    /// What the message holds of the memory that a batch shares.
    pub memory: &'a MemoryPermit,
    /// Makes an id for a request.
    pub request_id: &'a (dyn Fn() -> String + Sync),
    /// Tells the time.
    pub moment: &'a (dyn Fn() -> Moment + Sync),
}

impl fmt::Debug for Calls<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut calls = formatter.debug_struct("Calls");
        calls.field("slow_move", &self.slow_move).field("budget", self.budget).finish_non_exhaustive()
    }
}
