//! The claim: everything known about a verified delivery.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::item::base64_bytes;
use crate::key::{ClaimId, RecordKey, Tenant};
use crate::record::{Record, journal_shard};
use crate::time::EpochMs;
use crate::timing::Timing;

/// A claim. Ingress makes it. The record is made from it, and so is the message that carries the payload. A message with
/// a field that this release does not know is left to the later one that wrote it: a record made here would lack it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The key of the record to claim.
    pub pk: RecordKey,
    /// Who claims it. Made once per request.
    pub claim_id: ClaimId,
    /// The tenant that the endpoint's document names. `None` if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The provider's id in the catalog.
    pub provider: String,
    /// The provider's name for the type of event.
    pub event_type: String,
    /// When the delivery was received.
    pub received_at: EpochMs,
    /// The last moment at which it may be claimed. Later, its dedup record may have expired.
    pub accept_before: EpochMs,
    /// The compressed payload.
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
    /// The record's `body_sha256`.
    #[serde(with = "base64_array")]
    pub body_sha256: [u8; 32],
    /// The request headers that are kept.
    pub headers: BTreeMap<String, String>,
    /// Which secret verified the delivery.
    pub secret_index: i64,
    /// The endpoint's policy for another body under a known id.
    pub quarantine_mismatch: bool,
}

impl Claim {
    /// Makes the record that the claim creates: PENDING, due at its first re-send after `now`.
    pub fn record(&self, timing: &Timing, now: EpochMs) -> Record {
        let (key, body) = (self.pk.clone(), self.body.clone());
        Record {
            tenant: self.tenant.clone(),
            provider: self.provider.clone(),
            event_type: self.event_type.clone(),
            headers: self.headers.clone(),
            secret_index: self.secret_index,
            received_at: self.received_at,
            journal_shard: Some(journal_shard(self.received_at, key.shard(timing.shards))),
            expires_at: Some(timing.expiry(key.kind(), self.received_at)),
            quarantine_mismatch: self.quarantine_mismatch,
            ..Record::fresh(key, self.claim_id.clone(), body, self.body_sha256, timing, now)
        }
    }
}

mod base64_array {
    use serde::{Deserializer, Serializer, de};

    use crate::item::base64_bytes;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        base64_bytes::serialize(bytes, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        base64_bytes::deserialize(deserializer)?.try_into().map_err(|_| de::Error::custom("not 32 bytes"))
    }
}
