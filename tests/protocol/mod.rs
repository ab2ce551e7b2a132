//! The pure parts of the protocol, where a table or a property checks more than a run.

mod calls;
mod commits;
mod dead_letters;
mod dispatcher;
mod effects;
mod keys;
mod messages;
mod operators;
mod plans;
mod purposes;
mod records;
mod relay;
mod timing;

use std::collections::BTreeMap;

use hookonce_protocol::claim::Claim;
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::record::Record;
use hookonce_protocol::timing::Timing;

use crate::support::clock::START;

/// A claim of a delivery that has just arrived.
pub(crate) fn a_claim(key: &str) -> Claim {
    Claim {
        pk: RecordKey::parse(key).unwrap(),
        claim_id: ClaimId("claim-1".to_owned()),
        tenant: None,
        provider: "stripe".to_owned(),
        event_type: "invoice.paid".to_owned(),
        received_at: START,
        accept_before: START.plus(Timing::standard().accept_age_max),
        body: b"compressed".to_vec(),
        body_sha256: [7; 32],
        headers: BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]),
        secret_index: 0,
        quarantine_mismatch: false,
    }
}

/// A record as a claim writes it.
pub(crate) fn a_record(key: &str) -> Record {
    a_claim(key).record(&Timing::standard(), START)
}
