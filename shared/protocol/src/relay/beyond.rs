//! Shards above those that are read must be empty. If somebody lowered that number, this finds the records left there.

use crate::call::{DueQuery, DueState};
use crate::time::{EpochMs, Millis};
use crate::timing::{SHARDS_MAX, Timing};

/// What the run of this time looks at: whether one shard that nobody reads holds a PENDING record, an event that
/// waits, an effect or a DEAD record. Nothing if all shards are read.
///
/// It is another shard in each run, `period` apart, so that all have their turn. They take it in parts: the shards up
/// to twice as many as are read, those up to four times, and so on. The fewer shards such a part has, the sooner each
/// of them is seen, and the likelier it is that the number was lowered from there.
pub fn beyond(timing: &Timing, period: Millis, now: EpochMs) -> Vec<DueQuery> {
    let doubled = |first: &u16| first.checked_mul(2);
    let parts = std::iter::successors(Some(timing.shards_read.max(1)), doubled).take_while(|first| *first < SHARDS_MAX);
    let parts: Vec<_> = parts.map(|first| first..first.saturating_mul(2).min(SHARDS_MAX)).collect();
    let run = usize::try_from(now.0 / period.0.max(1)).unwrap_or(0);
    let part = run.checked_rem(parts.len()).and_then(|part| parts.get(part).cloned());
    let shard = part.and_then(|mut part| part.nth(run / parts.len() % part.len()));
    let Some(shard) = shard else { return Vec::new() };
    let look = |state| DueQuery { state, shard, until: now, after: None, limit: 1 };
    [DueState::Pending, DueState::Waiting, DueState::Effect, DueState::Dead].map(look).into()
}
