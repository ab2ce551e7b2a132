//! The texts of the [index] that are in memory.

use std::collections::BTreeMap;

use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};

use crate::index::{self, IdShard, SHARDS};
use crate::port::{INDEX_TEXTS_MAX, IndexTexts};

/// How old a text may get before a read brings it again.
pub const INDEX_AGE_MAX: Millis = Millis::seconds(300);

/// What the index says about an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    Yes,
    No,
    /// The source keeps no index.
    NoIndex,
    /// The text of the id's shard is not in memory yet.
    Unread,
}

/// The texts in memory, by shard. One that is old stays in use until a read brings it again: no request waits for it,
/// and no read is made for it alone.
#[derive(Debug, Default)]
pub(crate) struct Listing(BTreeMap<u8, Held>);

#[derive(Debug)]
struct Held {
    /// `None` if there is no index.
    ids: Option<IdShard>,
    again_at: EpochMs,
}

impl Listing {
    pub(crate) fn says(&self, id: &EndpointId) -> Listed {
        match self.0.get(&index::shard(id)) {
            Some(Held { ids: Some(ids), .. }) if ids.contains(id) => Listed::Yes,
            Some(Held { ids: Some(_), .. }) => Listed::No,
            Some(Held { ids: None, .. }) => Listed::NoIndex,
            None => Listed::Unread,
        }
    }

    /// The shards whose texts the read of this id should bring along: those that are missing or old, its own first.
    pub(crate) fn wanted(&self, id: &EndpointId, now: EpochMs) -> Vec<u8> {
        let own = index::shard(id);
        let shards = (0..SHARDS).map(|step| (own + step) % SHARDS);
        let is_wanted = |shard: &u8| self.0.get(shard).is_none_or(|held| now >= held.again_at);
        shards.filter(is_wanted).take(INDEX_TEXTS_MAX).collect()
    }

    pub(crate) fn hold(&mut self, texts: IndexTexts, now: EpochMs) {
        let held = |text: Option<String>| Held {
            ids: text.and_then(|text| IdShard::parse(&text)),
            again_at: now.plus(INDEX_AGE_MAX),
        };
        self.0.extend(texts.into_iter().map(|(shard, text)| (shard, held(text))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_brings_what_is_missing_or_old_its_own_shard_first() {
        let (id, now) = (EndpointId::parse("stripe").unwrap(), EpochMs(0));
        let own = index::shard(&id);
        let mut listing = Listing::default();
        let first = listing.wanted(&id, now);
        assert_eq!((first[0], first.len()), (own, INDEX_TEXTS_MAX));
        let texts = |shards: &[u8]| shards.iter().map(|shard| (*shard, None)).collect::<IndexTexts>();
        listing.hold(texts(&first), now);
        let rest = listing.wanted(&id, now);
        assert_eq!(rest.len(), usize::from(SHARDS) - INDEX_TEXTS_MAX);
        assert!(!rest.iter().any(|shard| first.contains(shard)), "{first:?} {rest:?}");
        listing.hold(texts(&rest), now.plus(Millis(1)));
        assert_eq!(listing.wanted(&id, EpochMs(INDEX_AGE_MAX.0 - 1)), [0_u8; 0]);
        assert_eq!(listing.wanted(&id, EpochMs(INDEX_AGE_MAX.0)), first, "those of the first read are old");
        assert_eq!(listing.says(&id), Listed::NoIndex, "what is old stays in use");
    }
}
