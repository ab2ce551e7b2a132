//! Reading a stored item. What is there and not understood makes the whole item unreadable: a later release wrote it,
//! and may mean by it what this one must not do.

use std::collections::BTreeMap;

use super::due::Due;
use super::effect::EffectPart;
use super::failed::decode_failures;
use super::read::{Attributes, NotUnderstood, text};
use super::{DeadReason, Outcome, Record, SCHEMA_VERSION, Status, Unreadable, attribute};
use crate::item::{Item, PARTITION_KEY, Value};
use crate::key::{ClaimId, RecordKey, RecordKind, Tenant};
use crate::time::{EpochMs, EpochSec};

impl Attributes<'_> {
    /// The entry in the index of due records. An item with half of one is in no index.
    fn due(self) -> Result<Option<Due>, NotUnderstood> {
        match (self.optional(attribute::DUE_SHARD, Value::as_text)?, self.moment(attribute::DUE_AT)?) {
            (Some(shard), Some(at)) => Due::stored(shard, at).map(Some).ok_or(NotUnderstood),
            (Some(_) | None, _) => Ok(None),
        }
    }
}

impl Record {
    /// Decodes a stored item.
    ///
    /// # Errors
    /// [`Unreadable`] when the schema version is unknown, a required attribute is missing, or one of its attributes is
    /// not understood. Attributes of other names are not looked at.
    pub fn decode(item: &Item) -> Result<Self, Unreadable> {
        let record = Self::decode_head(item)?;
        let body = Attributes(item).optional(attribute::BODY, |body| body.as_bytes().map(<[u8]>::to_vec));
        let body = body.map_err(|NotUnderstood| unreadable(item))?;
        Ok(Self { body, ..record })
    }

    /// Decodes a stored item, but for its body.
    pub(super) fn decode_head(item: &Item) -> Result<Self, Unreadable> {
        match fields(item) {
            Ok(record) if unreadable(item).schema_version == Some(SCHEMA_VERSION) => Ok(record),
            Ok(_) | Err(NotUnderstood) => Err(unreadable(item)),
        }
    }
}

fn unreadable(item: &Item) -> Unreadable {
    Unreadable { schema_version: item.get(attribute::SCHEMA_VERSION).and_then(Value::as_i64) }
}

fn fields(item: &Item) -> Result<Record, NotUnderstood> {
    let read = Attributes(item);
    let claim_id = |value: &Value| text(value).map(ClaimId);
    let key = read.required(PARTITION_KEY, |key| RecordKey::parse(key.as_text()?))?;
    let (journal_shard, effect) = match key.kind() {
        RecordKind::Delivery | RecordKind::Event | RecordKind::Envelope => {
            (Some(read.text(attribute::JOURNAL_SHARD)?), None)
        }
        RecordKind::Effect => (None, Some(Box::new(EffectPart::decode(read)?))),
    };
    Ok(Record {
        key,
        status: read.required(attribute::STATUS, |word| Status::parse(word.as_text()?))?,
        claim_id: read.required(attribute::CLAIM_ID, claim_id)?,
        generation: read.number(attribute::GENERATION)?,
        tenant: read.optional(attribute::TENANT, |tenant| Tenant::parse(tenant.as_text()?).ok())?,
        provider: read.text(attribute::PROVIDER)?,
        event_type: read.text(attribute::EVENT_TYPE)?,
        body: None,
        body_sha256: read.required(attribute::BODY_SHA256, |hash| hash.as_bytes()?.try_into().ok())?,
        headers: read.required(attribute::HEADERS, decode_headers)?,
        secret_index: read.number(attribute::SECRET_INDEX)?,
        received_at: EpochMs(read.number(attribute::RECEIVED_AT)?),
        journal_shard,
        due: read.due()?,
        retries: read.count(attribute::RETRIES)?,
        attempts: read.number(attribute::ATTEMPTS)?,
        resends: read.number(attribute::RESENDS)?,
        dead_letters: read.count(attribute::DEAD_LETTERS)?,
        dead_letter_at: read.moment(attribute::DEAD_LETTER_AT)?,
        waits_since: read.moment(attribute::WAITS_SINCE)?,
        not_before: read.moment(attribute::NOT_BEFORE)?,
        parent: read.optional(attribute::PARENT, |key| RecordKey::parse(key.as_text()?))?,
        expires_at: read.optional(attribute::EXPIRES_AT, |at| at.as_i64().map(EpochSec))?,
        outcome: read.optional(attribute::OUTCOME, |word| Outcome::parse(word.as_text()?))?,
        last_error: read.optional(attribute::LAST_ERROR, text)?,
        failures: read.optional(attribute::FAILURES, decode_failures)?.unwrap_or_default(),
        dead_reason: read.optional(attribute::DEAD_REASON, |word| DeadReason::parse(word.as_text()?))?,
        duplicate_count: read.count(attribute::DUPLICATE_COUNT)?,
        last_seen_at: read.moment(attribute::LAST_SEEN_AT)?,
        last_seen_by: read.optional(attribute::LAST_SEEN_BY, claim_id)?,
        processed_at: read.moment(attribute::PROCESSED_AT)?,
        dead_at: read.moment(attribute::DEAD_AT)?,
        discarded_at: read.moment(attribute::DISCARDED_AT)?,
        accept_duplicate: read.flag(attribute::ACCEPT_DUPLICATE)?,
        quarantine_mismatch: read.flag(attribute::QUARANTINE_MISMATCH)?,
        effects: read.names(attribute::EFFECTS)?,
        earlier_effects: read.names(attribute::EARLIER_EFFECTS)?,
        effect,
    })
}

fn decode_headers(value: &Value) -> Option<BTreeMap<String, String>> {
    let Value::Map(map) = value else { return None };
    map.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}
