//! The pure parts of the protocol, where a table or a property says more than a run.

mod commits;
mod keys;
mod messages;
mod operators;
mod plans;
mod purposes;
mod records;
mod timing;

use std::collections::BTreeMap;

use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::record::{Due, Record, Status, StoredBody, journal_shard};
use hookonce_protocol::timing::Timing;

use crate::support::clock::START;

/// A record as a claim writes it.
pub(crate) fn a_record(key: &str) -> Record {
    let key = RecordKey::parse(key).unwrap();
    let timing = Timing::standard();
    Record {
        status: Status::Pending,
        claim_id: ClaimId("claim-1".to_owned()),
        generation: 0,
        provider: "stripe".to_owned(),
        event_type: "invoice.paid".to_owned(),
        body: Some(StoredBody::Inline(b"compressed".to_vec())),
        body_sha256: [7; 32],
        headers: BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]),
        secret_index: 0,
        received_at: START,
        journal_shard: journal_shard(START, key.shard(timing.shards)),
        due: Some(Due::pending(&key, timing.shards, START.plus(timing.lease))),
        attempts: 0,
        resends: 0,
        dead_letters: 0,
        parent: None,
        expires_at: Some(timing.expiry(key.kind(), START)),
        outcome: None,
        last_error: None,
        dead_reason: None,
        duplicate_count: 0,
        last_seen_at: None,
        processed_at: None,
        dead_at: None,
        discarded_at: None,
        accept_duplicate: false,
        quarantine_mismatch: false,
        key,
    }
}
