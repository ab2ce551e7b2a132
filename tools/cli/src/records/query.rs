//! The parts of the indexes that a filter reads.

use hookonce_aws::IndexQuery;
use hookonce_protocol::record::{Status, dead_shard, effect_shard, journal_shard, pending_shard, waiting_shard};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::SHARDS;

use super::filter::{DAYS_MAX, Filter, Kind, State};

/// The most hours of the journal that are read, with a part of one at each end.
const HOURS_MAX: i64 = 24 * DAYS_MAX + 2;

impl Filter {
    /// The parts of the indexes to read. PENDING and DEAD records have an index of their own; all others are found by
    /// their time of receipt, or by that of the event that an effect is of. A group must be read completely before an
    /// order by time can be told, because its partitions are in no order.
    pub(crate) fn queries(&self) -> Vec<Vec<IndexQuery>> {
        let [since, until] = self.span();
        let due = |partitions: &[fn(u16) -> String]| {
            let query = |shard| partitions.iter().map(move |partition| IndexQuery::due(partition(shard)));
            vec![(0..SHARDS).flat_map(query).collect()]
        };
        match (self.state, self.kind) {
            (Some(State::Status(Status::Dead)), _) => due(&[dead_shard]),
            (Some(State::Status(Status::Pending)), Some(Kind::Event)) => due(&[pending_shard, waiting_shard]),
            (Some(State::Status(Status::Pending)), _) if self.is_about_effects() => due(&[effect_shard]),
            (Some(State::Status(Status::Pending)), _) => due(&[pending_shard, waiting_shard, effect_shard]),
            (Some(State::Status(Status::Processed | Status::Discarded) | State::Outcome(_)) | None, _) => {
                let mut groups = journal(since, until);
                if self.state.is_none() && self.is_about_effects() {
                    let pending_and_dead = due(&[effect_shard, dead_shard]).into_iter().flatten();
                    groups.iter_mut().take(1).for_each(|latest| latest.extend(pending_and_dead.clone()));
                }
                groups
            }
        }
    }
}

/// One group for each hour, latest first.
fn journal(from: EpochMs, until: EpochMs) -> Vec<Vec<IndexQuery>> {
    let hour = Millis::hours(1);
    let hours = (0..HOURS_MAX).map(|back| EpochMs(until.0.saturating_sub(back.saturating_mul(hour.0))));
    // The last step may be earlier than `from` and still lie in its hour.
    let hours = hours.take_while(|at| at.0 > from.0.saturating_sub(hour.0));
    let group = |at: EpochMs| {
        let from = from.max(EpochMs(at.0.div_euclid(hour.0).saturating_mul(hour.0)));
        let query = |shard| IndexQuery::Journal { partition: journal_shard(at, shard), from, until };
        (0..SHARDS).map(query).collect()
    };
    hours.map(group).collect()
}
