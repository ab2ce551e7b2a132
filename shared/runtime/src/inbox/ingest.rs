//! Ingest: stores a verified delivery.

use std::collections::BTreeMap;
use std::time::Duration;

use hookonce_protocol::call::{Call, Next};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::ingress::{Ingress, IngressAnswer, OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::item::{ITEM_BYTES_MAX, size_bytes};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::{Record, attribute};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::{Action, Write};
use hookonce_providers::{Contents, VerifiedDelivery};

use crate::ambient::Ambient;
use crate::config::MESSAGE_BYTES_MAX;
use crate::deadline::{Deadline, UntilDeadline};
use crate::documents::endpoint::Endpoint;
use crate::inbox::body::{self, BodyError};
use crate::inbox::drive::{Driven, StoreAndQueue, drive, duration};
use crate::inbox::message_key::MessageKeys;
use crate::port::{Queue, Store};

/// Space that later updates of a record may need, in bytes: the names of its effects, twice over, the last failed
/// attempts, counters, times.
pub const ITEM_BYTES_RESERVED: usize = 16 * 1024;

/// The longest record that is made of a delivery, in bytes: the compressed body, the kept headers and the names.
pub const CLAIM_BYTES_MAX: usize = ITEM_BYTES_MAX - ITEM_BYTES_RESERVED;

/// An item always fits into a message, as base64 with quotation marks and escapes around it.
const _: () = assert!(ITEM_BYTES_MAX / 3 * 4 + 64 * 1024 < MESSAGE_BYTES_MAX);

/// The parts that ingress needs.
#[derive(Debug)]
pub struct IngressParts<S, Q, A> {
    /// The tables.
    pub store: S,
    /// The queue.
    pub queue: Q,
    /// Time and randomness.
    pub ambient: A,
    /// What seals the message of a delivery while the store is down.
    pub keys: MessageKeys,
    /// The protocol's durations.
    pub timing: Timing,
    /// The longest message that the queue accepts, in bytes.
    pub message_bytes_max: usize,
}

/// Why a delivery was not sent to the store.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Even compressed, it does not fit into one item.
    #[error("the delivery does not fit into one stored item")]
    TooLarge,
    /// The compressor failed.
    #[error("the delivery could not be compressed")]
    Compress(#[source] BodyError),
}

/// The result of a claim.
#[derive(Debug)]
pub struct Ingested {
    /// The key of the record.
    pub key: RecordKey,
    /// The answer, with the signals.
    pub driven: Driven<IngressAnswer>,
}

impl<S: Store, Q: Queue, A: Ambient> IngressParts<S, Q, A> {
    /// Claims a verified delivery and sends its hint, until the deadline.
    ///
    /// # Errors
    /// [`IngestError`] if it fails before anything is written.
    pub async fn ingest(
        &self,
        endpoint: &Endpoint,
        delivery: &VerifiedDelivery,
        deadline: Deadline,
    ) -> Result<Ingested, IngestError> {
        let claim = self.claim(endpoint, delivery)?;
        let key = claim.pk.clone();
        let first = Ingress::start(claim, endpoint.on_store_outage, self.message_bytes_max, self.timing);
        // The record as it is written, so that it is encoded once.
        if let Next::Call(_, Call::Write(Write { action: Action::Put(record), .. })) = &first.next
            && size_bytes(record) > CLAIM_BYTES_MAX
        {
            return Err(IngestError::TooLarge);
        }
        let remote = StoreAndQueue { store: &self.store, queue: &self.queue };
        let best_effort = duration(self.timing.best_effort_timeout);
        let carrier = UntilDeadline { carrier: &remote, deadline, best_effort };
        let driven = futures::join!(drive(first, &carrier, &self.ambient), self.read_key_ahead(endpoint, deadline)).0;
        Ok(Ingested { key, driven })
    }

    /// Reads the message key beside the first delivery that may need it, once for each process: while the store is
    /// down, what keeps the key may be down, too. A delivery that needs it and does not find it is answered with
    /// "please retry".
    async fn read_key_ahead(&self, endpoint: &Endpoint, deadline: Deadline) {
        if endpoint.on_store_outage == OnStoreOutage::Enqueue && self.keys.known().is_none() {
            // The answer does not need it, so it does not wait longer. The next delivery tries again.
            let _ = deadline.at_most(Duration::from_millis(300)).within(self.keys.get()).await;
        }
    }

    fn claim(&self, endpoint: &Endpoint, delivery: &VerifiedDelivery) -> Result<Claim, IngestError> {
        let (event_type, raw, body_sha256) = match delivery.contents() {
            Contents::Single(part) => (part.event_type.clone(), part.body.as_slice(), part.sha256),
            Contents::Several(parts) => (format!("batch.{}", parts.len()), delivery.body(), delivery.body_sha256()),
        };
        let now = self.ambient.moment().now;
        Ok(Claim {
            pk: delivery.record_key(&endpoint.id),
            claim_id: self.ambient.claim_id(),
            tenant: endpoint.tenant.clone(),
            provider: delivery.provider_id().to_owned(),
            event_type,
            received_at: now,
            accept_before: now.plus(self.timing.accept_age_max),
            body: body::compress(raw).map_err(IngestError::Compress)?,
            body_sha256,
            headers: BTreeMap::clone(delivery.headers()),
            secret_index: i64::try_from(delivery.secret_index()).unwrap_or(i64::MAX),
            quarantine_mismatch: endpoint.on_body_mismatch == OnBodyMismatch::Quarantine,
        })
    }
}

/// The most bytes that the body and the type of one event may have for a record of its own, beside what it takes over
/// from its envelope.
pub(crate) fn child_bytes_max(envelope: &Record) -> usize {
    let mut head = envelope.encode();
    head.remove(attribute::BODY);
    // What the record of an event has more than its envelope's: the names of its keys and of its parent.
    CLAIM_BYTES_MAX.saturating_sub(size_bytes(&head) + 2 * 1024)
}
