//! When a record is due, and the partitions of the indexes.

use crate::key::{RecordKey, RecordKind};
use crate::time::EpochMs;

/// When a record is due, and in which shard of the index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Due {
    /// `due#<n>` while PENDING, `waiting#<n>` while it waits without counting, `effect_due#<n>` for an effect,
    /// `dead#<n>` while DEAD.
    pub shard: String,
    /// The next send time while PENDING, the time of death while DEAD.
    pub at: EpochMs,
}

impl Due {
    /// The entry of a PENDING record.
    pub fn pending(key: &RecordKey, shards: u16, at: EpochMs) -> Self {
        let list = match key.kind() {
            RecordKind::Delivery | RecordKind::Event | RecordKind::Envelope => pending_shard,
            RecordKind::Effect => effect_shard,
        };
        Self { shard: list(key.shard(shards)), at }
    }

    /// The entry of a PENDING event that waits without counting, for a handler or a table that is unavailable.
    pub fn waiting(key: &RecordKey, shards: u16, at: EpochMs) -> Self {
        Self { shard: waiting_shard(key.shard(shards)), at }
    }

    /// A stored entry. `None` if the list is not one of these, or what follows it is no shard.
    pub(super) fn stored(shard: &str, at: EpochMs) -> Option<Self> {
        let lists = [PENDING_LIST, WAITING_LIST, EFFECT_LIST, DEAD_LIST];
        let number = lists.iter().find_map(|list| shard.strip_prefix(list))?;
        number.parse::<u16>().is_ok().then(|| Self { shard: shard.to_owned(), at })
    }

    /// The entry of a DEAD record.
    pub fn dead(key: &RecordKey, shards: u16, at: EpochMs) -> Self {
        Self { shard: dead_shard(key.shard(shards)), at }
    }
}

/// What the index partitions of PENDING deliveries, events and envelopes begin with, before the shard.
pub const PENDING_LIST: &str = "due#";

/// What the index partitions of PENDING events that wait without counting begin with, before the shard.
pub const WAITING_LIST: &str = "waiting#";

/// What the index partitions of PENDING effects begin with, before the shard.
pub const EFFECT_LIST: &str = "effect_due#";

/// What the index partitions of DEAD records begin with, before the shard.
pub const DEAD_LIST: &str = "dead#";

/// The index partition for PENDING deliveries, events and envelopes of a shard.
pub fn pending_shard(shard: u16) -> String {
    format!("{PENDING_LIST}{shard}")
}

/// The index partition for PENDING events of a shard that wait without counting.
pub fn waiting_shard(shard: u16) -> String {
    format!("{WAITING_LIST}{shard}")
}

/// The index partition for PENDING effects of a shard.
pub fn effect_shard(shard: u16) -> String {
    format!("{EFFECT_LIST}{shard}")
}

/// The index partition for DEAD records of a shard.
pub fn dead_shard(shard: u16) -> String {
    format!("{DEAD_LIST}{shard}")
}

/// The journal partition for records received at `moment`: the hour since the epoch, and a shard.
pub fn journal_shard(moment: EpochMs, shard: u16) -> String {
    format!("{}#{shard}", moment.0.div_euclid(3_600_000))
}
