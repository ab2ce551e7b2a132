//! A rest for whoever fails several times in a row, as one process sees it.

use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;

/// How many failures in a row lead to a rest.
pub const FAILURES_MAX: u32 = 5;

/// The shortest rest.
pub const REST_MIN: Millis = Millis::seconds(25);

/// What is added to it at random, at most.
pub const REST_SPREAD: Millis = Millis::seconds(10);

/// A rest is at least this many times as long as the failure that it follows, so that one who hangs takes at most a fifth of the
/// time.
pub const REST_PER_FAILURE: i64 = 4;

/// How often somebody failed since the last success, and the rest that followed.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failures: u32,
    rests_until: Option<EpochMs>,
}

impl Health {
    /// Whether they may be asked now; otherwise, what is left of the rest. After a rest one call finds out whether they are
    /// back. For all others, the next rest begins with it.
    pub(crate) fn admit(&mut self, moment: Moment) -> Result<(), Millis> {
        if let Some(until) = self.rests_until.filter(|until| moment.now < *until) {
            return Err(Millis(until.0.saturating_sub(moment.now.0)));
        }
        if self.failures >= FAILURES_MAX {
            self.begin_rest(moment, Millis(0));
        }
        Ok(())
    }

    /// Counts a failure that took this long. From [`FAILURES_MAX`] in a row on, each begins a rest.
    pub(crate) fn failed(&mut self, moment: Moment, took: Millis) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.begin_rest(moment, took);
        }
    }

    fn begin_rest(&mut self, moment: Moment, took: Millis) {
        let length = Millis(took.0.saturating_mul(REST_PER_FAILURE)).max(REST_MIN);
        self.rests_until = Some(moment.now.plus(length).plus(moment.uniform(REST_SPREAD)));
    }

    /// Forgets the failures.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}
