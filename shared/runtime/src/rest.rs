//! A rest for whoever fails several times in a row, as one process sees it.

use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;

/// How many failures in a row lead to a rest.
pub const FAILURES_MAX: u32 = 5;

/// The shortest rest.
pub const REST_MIN: Millis = Millis::seconds(25);

/// What is added to it at random, at most.
pub const REST_SPREAD: Millis = Millis::seconds(10);

/// How often somebody failed since the last success, and the rest that followed.
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

    /// Counts a failure. From [`FAILURES_MAX`] in a row on, each begins a rest.
    pub(crate) fn failed(&mut self, moment: Moment) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.rests_until = Some(moment.now.plus(REST_MIN).plus(moment.uniform(REST_SPREAD)));
        }
    }

    /// Forgets the failures.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}
