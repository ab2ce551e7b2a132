//! A circuit breaker: a handler or a destination that fails several times in a row is not called for a while. Each
//! process counts for itself.

use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;

/// How many failures in a row open the circuit.
pub const FAILURES_MAX: u32 = 5;

/// The shortest time for which it is open.
pub const OPEN_MIN: Millis = Millis::seconds(25);

/// What is added to it at random, at most.
pub const OPEN_SPREAD: Millis = Millis::seconds(10);

/// The circuit is open for at least this many times as long as the failure took, so that a callee that hangs takes
/// at most a fifth of the time.
pub const OPEN_PER_FAILURE: i64 = 4;

/// How often a callee failed since the last success, and until when its circuit is open.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker {
    failures: u32,
    open_until: Option<EpochMs>,
}

impl CircuitBreaker {
    /// For how long the circuit is still open: nothing is called.
    pub(crate) fn open_for(&self, now: EpochMs) -> Option<Millis> {
        self.open_until.filter(|until| now < *until).map(|until| Millis(until.0.saturating_sub(now.0)))
    }

    /// True from [`FAILURES_MAX`] failures in a row on. Once the circuit is no longer open it is half open: one call at
    /// a time finds out whether the callee works again.
    pub(crate) fn is_tripped(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Counts a failure that took this long. From [`FAILURES_MAX`] in a row on, each opens the circuit; the
    /// longest time counts.
    pub(crate) fn failed(&mut self, moment: Moment, took: Millis) {
        self.failures = self.failures.saturating_add(1);
        if self.is_tripped() {
            let length = Millis(took.0.saturating_mul(OPEN_PER_FAILURE)).max(OPEN_MIN);
            let until = moment.now.plus(length).plus(moment.uniform(OPEN_SPREAD));
            self.open_until = self.open_until.max(Some(until));
        }
    }

    /// Forgets the failures.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}
