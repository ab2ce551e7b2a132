//! A callee that fails several times in a row, such as a handler, is not called for a while. Each process counts for
//! itself.

use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;

/// How many failures in a row lead to a rest.
pub const FAILURES_MAX: u32 = 5;

/// The shortest rest.
pub const REST_MIN: Millis = Millis::seconds(25);

/// What is added to it at random, at most.
pub const REST_SPREAD: Millis = Millis::seconds(10);

/// A rest is at least this many times as long as the failure that it follows, so that a callee that hangs takes
/// at most a fifth of the time.
pub const REST_PER_FAILURE: i64 = 4;

/// How often a callee failed since the last success, and the rest that followed.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failures: u32,
    rests_until: Option<EpochMs>,
}

impl Health {
    /// What is left of the rest.
    pub(crate) fn rest(&self, now: EpochMs) -> Option<Millis> {
        self.rests_until.filter(|until| now < *until).map(|until| Millis(until.0.saturating_sub(now.0)))
    }

    /// True from [`FAILURES_MAX`] failures in a row on: whether it works again is unknown.
    pub(crate) fn is_doubted(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Counts a failure that took this long. From [`FAILURES_MAX`] in a row on, each begins a rest; the longest one
    /// counts.
    pub(crate) fn failed(&mut self, moment: Moment, took: Millis) {
        self.failures = self.failures.saturating_add(1);
        if self.is_doubted() {
            let length = Millis(took.0.saturating_mul(REST_PER_FAILURE)).max(REST_MIN);
            let until = moment.now.plus(length).plus(moment.uniform(REST_SPREAD));
            self.rests_until = self.rests_until.max(Some(until));
        }
    }

    /// Forgets the failures.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}
