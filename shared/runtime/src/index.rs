//! The index of endpoint ids: says whether an id exists without a read for each id that a stranger invents.
//!
//! It has [`SHARDS`] texts. An id belongs to one of them by its hash. A text lists 24 bits of each id's hash, so 10,000 ids
//! fit into standard parameters, 4 KB each, and one invented id in 16 million looks like an existing one.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hookonce_protocol::key::EndpointId;
use sha2::{Digest as _, Sha256};

/// How many texts the index has.
pub const SHARDS: u8 = 16;

/// The bytes of one id in a text. Three bytes are four characters of base64, so texts can be joined and read by pieces.
const FINGERPRINT_BYTES: usize = 3;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// A text without ids. A parameter cannot be empty.
const NONE: &str = "-";

/// The ids of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdShard(BTreeSet<Fingerprint>);

impl IdShard {
    /// Reads the text of a shard. `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        if text == NONE {
            return Some(Self::default());
        }
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (fingerprints, rest) = bytes.as_chunks::<FINGERPRINT_BYTES>();
        rest.is_empty().then(|| Self(fingerprints.iter().copied().collect()))
    }

    /// Whether the id is listed.
    pub fn contains(&self, id: &EndpointId) -> bool {
        self.0.contains(&place(id).1)
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flatten().copied().collect();
        if bytes.is_empty() { NONE.to_owned() } else { STANDARD_NO_PAD.encode(bytes) }
    }
}

/// The shard of an id.
pub fn shard(id: &EndpointId) -> u8 {
    place(id).0
}

/// The name of a shard's parameter, beside those of the endpoints. No endpoint has this name, because an id holds no dot.
pub fn parameter(shard: u8) -> String {
    format!("ids.{shard}")
}

/// The texts of an index of these ids, by shard.
pub fn texts<'a>(ids: impl IntoIterator<Item = &'a EndpointId>) -> Vec<String> {
    let mut shards = vec![IdShard::default(); usize::from(SHARDS)];
    for id in ids {
        let (shard, fingerprint) = place(id);
        if let Some(shard) = shards.get_mut(usize::from(shard)) {
            shard.0.insert(fingerprint);
        }
    }
    shards.iter().map(IdShard::text).collect()
}

/// The shard and the fingerprint of an id.
fn place(id: &EndpointId) -> (u8, Fingerprint) {
    let [shard, one, two, three, ..] = <[u8; 32]>::from(Sha256::digest(id.as_str()));
    (shard % SHARDS, [one, two, three])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(prefix: &str, count: usize) -> Vec<EndpointId> {
        (0..count).map(|number| EndpointId::parse(&format!("{prefix}-{number}")).unwrap()).collect()
    }

    #[test]
    fn ten_thousand_ids_fit_into_standard_parameters() {
        let known = ids("shop", 10_000);
        let texts = texts(&known);
        let shards: Vec<_> = texts.iter().map(|text| IdShard::parse(text).unwrap()).collect();
        let is_listed = |id: &EndpointId| shards[usize::from(shard(id))].contains(id);
        assert!(known.iter().all(is_listed));
        assert!(ids("invented", 10_000).iter().filter(|id| is_listed(id)).count() <= 1);
        let longest = texts.iter().map(String::len).max().unwrap();
        println!("the longest text has {longest} bytes");
        assert!(longest <= 4_096, "{longest}");
    }

    #[test]
    fn an_empty_index_is_no_missing_one() {
        assert_eq!(IdShard::parse(&texts([])[3]), Some(IdShard::default()));
        for text in ["", "AAAAA", "not base64!", "AA"] {
            assert!(text.is_empty() || IdShard::parse(text).is_none(), "{text}");
        }
    }
}
