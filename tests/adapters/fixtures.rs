//! A record, a delivery and a destination, as the tests of many parts need them.

use std::collections::BTreeMap;

use hookonce_protocol::claim::Claim;
use hookonce_protocol::destination::OutboundCall;
use hookonce_protocol::effect::{DestinationId, Method};
use hookonce_protocol::key::{ClaimId, EndpointId, RecordKey};
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_runtime::destinations::{Destination, DestinationDocument, DestinationError};
use hookonce_runtime::inbox::body;
use serde_json::Value;

/// 1 January 2026, 00:00 UTC: the moment at which the recorded events were signed.
pub(crate) const START: EpochMs = EpochMs(1_767_225_600_000);

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

/// The moment of a call that is made at [`START`].
pub(crate) const MOMENT: Moment = Moment { now: START, entropy: 0 };
/// The key of [`delivery`].
pub(crate) const KEY: &str = "0b9c3f52-3f1e-4b59-9d3a-0d6a1f8f5a11";

/// A delivery of an effect.
pub(crate) fn delivery() -> OutboundCall {
    let endpoint = EndpointId::parse("shop").unwrap();
    OutboundCall {
        effect: RecordKey::delivery(&endpoint, "effect"),
        event: RecordKey::delivery(&endpoint, "evt_1"),
        destination: id(),
        idempotency_key: KEY.to_owned(),
        method: Method::Post,
        path: "/receipts".to_owned(),
        content_type: "application/json".to_owned(),
        body: body::compress(br#"{"amount": 10.50}"#).unwrap(),
        hops: 0,
    }
}

/// The destination of [`delivery`].
pub(crate) fn id() -> DestinationId {
    DestinationId::parse("receipts").unwrap()
}

/// A destination with this document.
pub(crate) fn destination(document: &Value) -> Result<Destination, DestinationError> {
    DestinationDocument::parse(&document.to_string()).and_then(|document| Destination::new(id(), &document))
}
