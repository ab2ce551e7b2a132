//! The relay: the only part that sends hints again.
//!
//! A [`Run`] decides what comes next and makes no calls. Its calls belong to three machines, of which a driver may have
//! several under way at once:
//!
//! - [`Scan`] reads one page of one shard of the index.
//! - [`Sample`] estimates how many records arrived, if more is due than the least budget allows.
//! - [`Chunk`] takes up to [`CHUNK_MAX`] due records: it reads them, moves their due time, sends their hints, and
//!   repairs the due time of those that it could not send.
//!
//! A hint is sent only after a conditional write has moved the record's due time into the future, so a crash in between
//! costs one interval and never causes a loop. A record that is not in a chunk keeps its due time: if the queue or the
//! store fails, or the function's time ends, whatever was not tried is due at once for the next run.

mod chunk;
mod run;
mod sample;
mod scan;

use crate::time::Millis;

pub use chunk::{CHUNK_MAX, Chunk, ChunkReport, FAILED_SEND_PAUSE, rearm_write};
pub use run::{DeadReport, Limits, PAGES_MAX, Run, RunReport};
pub use sample::{SAMPLE_SPAN, SHARDS_SAMPLED_MAX, Sample};
pub use scan::{DEAD_PAGE, SHARD_PAGE, Scan, Scanned};

/// How many messages the relay may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// The rate that is always allowed, in sends per second.
    pub sends_per_second_min: u64,
    /// The share of the arrival rate that is allowed if that is more, in percent.
    pub arrivals_percent: u64,
    /// How long the budget of one run must last: the period of the schedule.
    pub period: Millis,
}

impl Budget {
    /// The default values: 10 sends per second or 20 % of arrivals, whichever is more, once a minute.
    pub const fn standard() -> Self {
        Self { sends_per_second_min: 10, arrivals_percent: 20, period: Millis::seconds(60) }
    }

    /// How many hints one run may send of effects, and how many of events that wait: five times the least budget. If a destination or a handler is
    /// away for a day, everything for it waits, and each record asks for a hint about once an hour. The arrival rate
    /// says nothing about how many wait.
    pub fn backlog_max(&self) -> usize {
        self.sends_max(0).saturating_mul(5)
    }

    /// How many messages one run may send, if this many records arrived within [`SAMPLE_SPAN`].
    pub fn sends_max(&self, arrivals: u64) -> usize {
        let seconds = u64::try_from(self.period.as_seconds()).unwrap_or(0).max(1);
        let span = u64::try_from(SAMPLE_SPAN.as_seconds()).unwrap_or(0).max(1);
        let arrivals = arrivals.saturating_mul(seconds) / span;
        let granted = (arrivals.saturating_mul(self.arrivals_percent) / 100).max(self.sends_per_second_min * seconds);
        usize::try_from(granted).unwrap_or(usize::MAX)
    }
}
