//! How many records arrived lately.

use crate::call::{Call, Machine, Reply, Step};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};

/// The span of the journal that is sampled for the arrival rate.
pub const SAMPLE_SPAN: Millis = Millis::seconds(60);

/// The most shards of the journal that are counted. They lie evenly between the first and the last, from a random one
/// on, so records that crowd in a few neighbouring shards are not taken for all.
pub const SHARDS_SAMPLED_MAX: u16 = 16;

/// The machine that samples the journal. It ends with the number of records that arrived within [`SAMPLE_SPAN`] in all
/// shards. It is exact if there are no more than [`SHARDS_SAMPLED_MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sample {
    shards: u16,
    counted: u64,
    from: EpochMs,
    until: EpochMs,
    /// When the run's time is needed for sends.
    count_until: EpochMs,
    /// The shards that are still to be counted, the next one last.
    left: Vec<u16>,
    sampled: u64,
}

impl Sample {
    /// Begins with the first shard. Begins no count after `count_until`.
    pub fn start(timing: &Timing, count_until: EpochMs, moment: Moment) -> Step<Self, u64> {
        let shards = timing.shards.max(1);
        let sampled = shards.min(SHARDS_SAMPLED_MAX);
        let stride = shards / sampled;
        let offset = u16::try_from(moment.entropy % u64::from(shards - stride * (sampled - 1))).unwrap_or(0);
        let left = (0..sampled).rev().map(|index| offset + index * stride).collect();
        let from = EpochMs(moment.now.0.saturating_sub(SAMPLE_SPAN.0));
        let sampled = u64::from(sampled);
        Self { shards, counted: 0, from, until: moment.now, count_until, left, sampled }.next()
    }

    fn next(mut self) -> Step<Self, u64> {
        match self.left.pop() {
            Some(shard) => {
                let call = Call::CountReceived { shard, from: self.from, until: self.until };
                Step::call(self, call)
            }
            None => self.end(),
        }
    }

    fn end(self) -> Step<Self, u64> {
        Step::done(self.counted.saturating_mul(u64::from(self.shards)) / self.sampled)
    }
}

impl Machine for Sample {
    type Output = u64;

    fn step(mut self, reply: Reply, moment: Moment) -> Step<Self, u64> {
        match reply.counted() {
            Ok(count) => {
                self.counted = self.counted.saturating_add(count);
                if moment.now > self.count_until { self.end() } else { self.next() }
            }
            // Uncounted arrivals add no budget. A store that fails needs fewer sends, not an estimate.
            Err(_) => self.end(),
        }
    }
}
