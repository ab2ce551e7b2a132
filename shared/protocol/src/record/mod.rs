//! The record: one item per delivery or event. It is the truth about it.

pub mod attribute;
mod decode;
mod due;
mod effect;
mod failed;
mod read;

use std::collections::BTreeMap;

use crate::effect::EffectName;
use crate::item::{Item, PARTITION_KEY, Value};
use crate::key::{ClaimId, EndpointId, RecordKey, Tenant};
use crate::time::{EpochMs, EpochSec};
use crate::timing::{Moment, Timing};
use crate::words::words;
use crate::write::{AttributeName, Change, Clause, Condition};

pub use due::{
    DEAD_LIST, Due, EFFECT_LIST, PENDING_LIST, WAITING_LIST, dead_shard, effect_shard, journal_shard, pending_shard,
    waiting_shard,
};
use effect::insert;
pub use effect::{EffectPart, EndedCall, Pass};
use failed::encode_failures;
pub use failed::{FAILURES_KEPT, FailedAttempt};
pub(crate) use read::encode_names;

/// The version that this code writes. It acts on no other.
pub const SCHEMA_VERSION: i64 = 1;

words! {
    /// The status of a record.
    Status {
        /// Claimed. It still has to be applied.
        Pending = "PENDING",
        /// Settled: it was applied, or there was nothing to apply.
        Processed = "PROCESSED",
        /// Given up by hookonce. It is kept with its payload until an operator decides.
        Dead = "DEAD",
        /// Discarded by an operator.
        Discarded = "DISCARDED",
    }
}

words! {
    /// How a processed record ended.
    Outcome {
        /// This record committed the effect.
        Applied = "APPLIED",
        /// The business fact was applied before, under another id.
        Duplicate = "DUPLICATE",
        /// No handler and no route wanted it. A retry lets it be looked at again.
        Ignored = "IGNORED",
        /// An envelope whose events all have their own records.
        FannedOut = "FANNED_OUT",
        /// An effect that its callee did.
        Delivered = "DELIVERED",
    }
}

words! {
    /// Why a record is DEAD.
    DeadReason {
        /// Its handler failed as often as allowed.
        AttemptsExhausted = "ATTEMPTS_EXHAUSTED",
        /// Its handler or its body can never succeed.
        Permanent = "PERMANENT",
        /// Too old to commit safely: it may have been applied, and its domain key forgotten.
        Stale = "STALE",
        /// Its message became a dead letter.
        DeadLetter = "DEAD_LETTER",
        /// Another body came under a known id.
        IdCollision = "ID_COLLISION",
        /// The callee may have done the effect: the outcome is unknown, and it must not be called again.
        UnknownOutcome = "UNKNOWN_OUTCOME",
        /// The callee refused the effect, and did not do it.
        Refused = "REFUSED",
        /// Its domain key says that it was applied: its table was restored to an earlier time.
        Rewound = "REWOUND",
    }
}

/// One record. `Option` means that the attribute may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// The partition key.
    pub key: RecordKey,
    /// The status.
    pub status: Status,
    /// Who claimed it. Never changes while the record exists.
    pub claim_id: ClaimId,
    /// The number of accepted forced replays.
    pub generation: i64,
    /// The tenant that the endpoint's document named when it was claimed. `None` if it named none.
    pub tenant: Option<Tenant>,
    /// The provider's id in the catalog.
    pub provider: String,
    /// The provider's name for the type of event.
    pub event_type: String,
    /// The zstd-compressed payload. `None` once it is gone for good (never while PENDING or DEAD).
    pub body: Option<Vec<u8>>,
    /// The SHA-256 of the raw bytes; for one event of a batch, of the event's own bytes; for what is no event, from a
    /// provider that batches, of the delivery reduced to it, without the white space between its tokens. What the
    /// provider changes from try to try is left out of the hash of an event, and of no other.
    pub body_sha256: [u8; 32],
    /// The request headers that are kept.
    pub headers: BTreeMap<String, String>,
    /// Which secret verified the delivery. 0 is the newest.
    pub secret_index: i64,
    /// When the delivery was received.
    pub received_at: EpochMs,
    /// Its partition of the journal, which lists records by the hour of receipt. Written once. `None` for an effect.
    pub journal_shard: Option<String>,
    /// The entry in the index of due records. `None` unless PENDING or DEAD.
    pub due: Option<Due>,
    /// How often an operator brought it back in the same generation. What was decided before a retry must not end the
    /// record after it, so what decides on a record names the count that it starts from. An effect that its callee did
    /// ends all the same.
    pub retries: i64,
    /// Handler failures since it was claimed or brought back.
    pub attempts: i64,
    /// Relay sends since it was claimed or brought back.
    pub resends: i64,
    /// How many rounds of its messages ended as dead letters.
    pub dead_letters: i64,
    /// When the last of them was counted. Only a message that was sent later counts again.
    pub dead_letter_at: Option<EpochMs>,
    /// Since when it waits uncounted: its handler is unavailable, or conditions of its plans fail. `None` if it does
    /// not.
    pub waits_since: Option<EpochMs>,
    /// When the pause after its last attempt ends. Only a PENDING record has one. The relay sends further hints while
    /// it lasts; a hint that comes before this time is not acted on.
    pub not_before: Option<EpochMs>,
    /// The envelope that this event came in, or the event that this effect belongs to.
    pub parent: Option<RecordKey>,
    /// The native TTL, in seconds. `None` while DEAD, because a dead record never expires by itself.
    pub expires_at: Option<EpochSec>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The code of the last failure.
    pub last_error: Option<String>,
    /// The last attempts that failed, oldest first, also from before an operator brought it back.
    pub failures: Vec<FailedAttempt>,
    /// Why it is DEAD.
    pub dead_reason: Option<DeadReason>,
    /// How many further deliveries came.
    pub duplicate_count: i64,
    /// When the last of them came.
    pub last_seen_at: Option<EpochMs>,
    /// The claim id of the last of them. It keeps a repeated count from counting twice.
    pub last_seen_by: Option<ClaimId>,
    /// When it was applied.
    pub processed_at: Option<EpochMs>,
    /// When it became DEAD.
    pub dead_at: Option<EpochMs>,
    /// When an operator discarded it.
    pub discarded_at: Option<EpochMs>,
    /// An operator accepts that a retry may apply the change twice.
    pub accept_duplicate: bool,
    /// The endpoint quarantines another body under a known id. Kept for the fan-out of an envelope.
    pub quarantine_mismatch: bool,
    /// The names of the effects that its last commit created.
    pub effects: Vec<EffectName>,
    /// The names of the effects that commits of earlier generations created, each once.
    pub earlier_effects: Vec<EffectName>,
    /// What only an effect has.
    pub effect: Option<Box<EffectPart>>,
}

/// A stored item that this code must not act on: another version wrote it, or it is not a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("this version does not know the record's schema or status (schema_version {schema_version:?})")]
pub struct Unreadable {
    /// The version that the item names, if any.
    pub schema_version: Option<i64>,
}

/// What a read or a failed condition returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Found {
    /// There is no item.
    Nothing,
    /// A record of this version.
    Record(Box<Record>),
    /// A durable item that this version must not act on.
    Unreadable(Unreadable),
}

impl Found {
    /// Decodes what the store returned.
    pub fn from_item(item: Option<&Item>) -> Self {
        Self::decoded(item, Record::decode)
    }

    /// Decodes what the store returned, but for the body. A head looks like a record that has lost its body, so a
    /// machine reads a record before it works on it.
    pub fn head_of(item: Option<&Item>) -> Self {
        Self::decoded(item, Record::decode_head)
    }

    fn decoded(item: Option<&Item>, decode: fn(&Item) -> Result<Record, Unreadable>) -> Self {
        item.map_or(Self::Nothing, |item| match decode(item) {
            Ok(record) => Self::Record(Box::new(record)),
            Err(unreadable) => Self::Unreadable(unreadable),
        })
    }
}

/// The state that a change starts from. It is part of the condition of an update of a record. Three updates name less
/// of it: the relay's re-arm, a counted duplicate, and the end of a delivered effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The status that the record must have.
    pub status: Status,
    /// The claim that the record must have.
    pub claim_id: ClaimId,
    /// The generation that the record must have.
    pub generation: i64,
    /// The retries that the record must have.
    pub retries: i64,
}

impl Guard {
    /// This guard as a condition, with further clauses.
    pub fn condition(&self, further: impl IntoIterator<Item = Clause>) -> Condition {
        let mut clauses = vec![
            equals(attribute::STATUS, self.status.as_str()),
            equals(attribute::CLAIM_ID, self.claim_id.0.as_str()),
            equals(attribute::GENERATION, self.generation),
            counted(attribute::RETRIES, self.retries),
        ];
        clauses.extend(further);
        Condition(clauses)
    }
}

/// A clause on an attribute of the protocol.
pub fn equals(name: &'static str, value: impl Into<Value>) -> Clause {
    Clause::Equals(name.into(), value.into())
}

/// A clause on a counter of the protocol, which is stored only where it is not zero.
pub(crate) fn counted(name: &'static str, count: i64) -> Clause {
    if count == 0 { Clause::Absent(name.into()) } else { equals(name, count) }
}

/// A change of an attribute of the protocol.
pub fn set(name: &'static str, value: impl Into<Value>) -> Change {
    Change::Set(name.into(), value.into())
}

/// A removal of an attribute of the protocol.
pub fn remove(name: &'static str) -> Change {
    Change::Remove(AttributeName::Borrowed(name))
}

impl Record {
    /// The same record, DEAD before it is written.
    #[must_use]
    pub(crate) fn stillborn(self, reason: DeadReason, timing: &Timing, moment: Moment) -> Self {
        Self {
            status: Status::Dead,
            due: Some(Due::dead(&self.key, timing.shards, moment.now)),
            dead_reason: Some(reason),
            last_error: Some(reason.as_str().to_owned()),
            dead_at: Some(moment.now),
            expires_at: None,
            ..self
        }
    }

    /// A record that nobody has worked on: PENDING, received now and due at its first re-send. It has no provider, no
    /// type and no headers yet, and is in no journal.
    pub(crate) fn fresh(
        key: RecordKey,
        claim_id: ClaimId,
        body: Vec<u8>,
        body_sha256: [u8; 32],
        timing: &Timing,
        now: EpochMs,
    ) -> Self {
        Self {
            status: Status::Pending,
            claim_id,
            generation: 0,
            tenant: None,
            provider: String::new(),
            event_type: String::new(),
            body: Some(body),
            body_sha256,
            headers: BTreeMap::new(),
            secret_index: 0,
            received_at: now,
            journal_shard: None,
            due: Some(Due::pending(&key, timing.shards, now.plus(timing.first_resend))),
            retries: 0,
            attempts: 0,
            resends: 0,
            dead_letters: 0,
            dead_letter_at: None,
            waits_since: None,
            not_before: None,
            parent: None,
            expires_at: Some(timing.expiry(key.kind(), now)),
            outcome: None,
            last_error: None,
            failures: Vec::new(),
            dead_reason: None,
            duplicate_count: 0,
            last_seen_at: None,
            last_seen_by: None,
            processed_at: None,
            dead_at: None,
            discarded_at: None,
            accept_duplicate: false,
            quarantine_mismatch: false,
            effects: Vec::new(),
            earlier_effects: Vec::new(),
            effect: None,
            key,
        }
    }

    /// The guard for this record's current state.
    pub fn guard(&self) -> Guard {
        Guard {
            status: self.status,
            claim_id: self.claim_id.clone(),
            generation: self.generation,
            retries: self.retries,
        }
    }

    /// Requires that the pause is still as it was read.
    pub(crate) fn pause_as_read(&self) -> Clause {
        match self.not_before {
            Some(at) => equals(attribute::NOT_BEFORE, at.0),
            None => Clause::Absent(attribute::NOT_BEFORE.into()),
        }
    }

    /// Whose event it is: the tenant that it was claimed for, else its endpoint. `None` if the key names no endpoint.
    pub fn owner(&self) -> Option<Tenant> {
        self.tenant.clone().or_else(|| EndpointId::parse(self.key.parts().0).ok().map(Tenant::from))
    }

    /// Whether it died and may have been applied all the same, so that a retry could apply it twice.
    pub fn outcome_unknown(&self) -> bool {
        match self.dead_reason {
            Some(DeadReason::UnknownOutcome | DeadReason::Rewound) => true,
            // The domain key may have expired. An effect is STALE only if it was not called.
            Some(DeadReason::Stale) => self.effect.is_none(),
            Some(
                DeadReason::AttemptsExhausted
                | DeadReason::Permanent
                | DeadReason::DeadLetter
                | DeadReason::IdCollision
                | DeadReason::Refused,
            )
            | None => false,
        }
    }

    /// The keys of the effects that its last commit created.
    pub fn effect_keys(&self) -> Vec<RecordKey> {
        self.keys_of(&self.effects, self.generation)
    }

    /// The keys that effects of earlier generations may have. Not every generation made each of them, and some have
    /// expired.
    pub fn earlier_effect_keys(&self) -> Vec<RecordKey> {
        (0..self.generation).flat_map(|generation| self.keys_of(&self.earlier_effects, generation)).collect()
    }

    fn keys_of(&self, effects: &[EffectName], generation: i64) -> Vec<RecordKey> {
        let key = |name: &EffectName| RecordKey::effect(&self.key, &self.claim_id, generation, name.as_str());
        effects.iter().map(key).collect()
    }

    /// The changes that count one more failed attempt. They name the numbers and the list that they leave, so the write
    /// needs the attempts in its condition.
    pub(crate) fn failed_again(&self, code: &str, now: EpochMs) -> Vec<Change> {
        let earlier = self.failures.iter().skip((self.failures.len() + 1).saturating_sub(FAILURES_KEPT)).cloned();
        let failures: Vec<_> = earlier.chain([FailedAttempt { at: now, code: code.to_owned() }]).collect();
        vec![
            set(attribute::ATTEMPTS, self.attempts + 1),
            set(attribute::LAST_ERROR, code),
            set(attribute::FAILURES, encode_failures(&failures)),
        ]
    }

    /// Whether it may have been applied or called after the moment that its table was restored to, and would run, or
    /// could be retried, without anybody accepting that. A quarantined body runs only for one who names it.
    pub fn is_doubtable(&self) -> bool {
        let may_run = match self.status {
            Status::Pending => true,
            Status::Dead => !self.outcome_unknown() && self.dead_reason != Some(DeadReason::IdCollision),
            Status::Processed => self.outcome == Some(Outcome::Ignored),
            Status::Discarded => false,
        };
        may_run && self.body.is_some()
    }

    /// Whether it is not settled: it waits to run, or a person may let it run again.
    pub fn may_run(&self) -> bool {
        matches!(self.status, Status::Pending | Status::Dead)
    }

    /// The one word that says most about where it stands: its outcome, else its status.
    pub fn state_word(&self) -> &'static str {
        match (self.status, self.outcome) {
            (Status::Processed, Some(outcome)) => outcome.as_str(),
            (status, _) => status.as_str(),
        }
    }

    /// Encodes the record as a stored item.
    pub fn encode(&self) -> Item {
        let mut item = Item::new();
        let mut put = |name: &str, value: Value| item.insert(name.to_owned(), value);
        put(PARTITION_KEY, self.key.as_str().into());
        put(attribute::SCHEMA_VERSION, SCHEMA_VERSION.into());
        put(attribute::STATUS, self.status.as_str().into());
        put(attribute::CLAIM_ID, self.claim_id.0.as_str().into());
        put(attribute::GENERATION, self.generation.into());
        put(attribute::PROVIDER, self.provider.as_str().into());
        put(attribute::EVENT_TYPE, self.event_type.as_str().into());
        put(attribute::BODY_SHA256, Value::Bytes(self.body_sha256.to_vec()));
        put(attribute::SECRET_INDEX, self.secret_index.into());
        put(attribute::RECEIVED_AT, self.received_at.0.into());
        put(attribute::ATTEMPTS, self.attempts.into());
        put(attribute::RESENDS, self.resends.into());
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let names = |names: &[EffectName]| (!names.is_empty()).then(|| encode_names(names));
        put(attribute::HEADERS, Value::Map(headers));
        let optional = [
            (attribute::JOURNAL_SHARD, self.journal_shard.as_deref().map(Value::from)),
            (attribute::TENANT, self.tenant.as_ref().map(|tenant| tenant.as_str().into())),
            (attribute::BODY, self.body.clone().map(Value::Bytes)),
            (attribute::DUE_SHARD, self.due.as_ref().map(|due| due.shard.as_str().into())),
            (attribute::DUE_AT, self.due.as_ref().map(|due| due.at.0.into())),
            (attribute::PARENT, self.parent.as_ref().map(|parent| parent.as_str().into())),
            (attribute::EXPIRES_AT, self.expires_at.map(|at| at.0.into())),
            (attribute::OUTCOME, self.outcome.map(|outcome| outcome.as_str().into())),
            (attribute::LAST_ERROR, self.last_error.as_deref().map(Value::from)),
            (attribute::FAILURES, (!self.failures.is_empty()).then(|| encode_failures(&self.failures))),
            (attribute::DEAD_REASON, self.dead_reason.map(|reason| reason.as_str().into())),
            (attribute::LAST_SEEN_AT, self.last_seen_at.map(|at| at.0.into())),
            (attribute::LAST_SEEN_BY, self.last_seen_by.as_ref().map(|by| by.0.as_str().into())),
            (attribute::PROCESSED_AT, self.processed_at.map(|at| at.0.into())),
            (attribute::DEAD_AT, self.dead_at.map(|at| at.0.into())),
            (attribute::DISCARDED_AT, self.discarded_at.map(|at| at.0.into())),
            (attribute::DEAD_LETTER_AT, self.dead_letter_at.map(|at| at.0.into())),
            (attribute::WAITS_SINCE, self.waits_since.map(|at| at.0.into())),
            (attribute::NOT_BEFORE, self.not_before.map(|at| at.0.into())),
            (attribute::RETRIES, (self.retries > 0).then(|| self.retries.into())),
            (attribute::DEAD_LETTERS, (self.dead_letters > 0).then(|| self.dead_letters.into())),
            (attribute::DUPLICATE_COUNT, (self.duplicate_count > 0).then(|| self.duplicate_count.into())),
            (attribute::ACCEPT_DUPLICATE, self.accept_duplicate.then_some(Value::Flag(true))),
            (attribute::QUARANTINE_MISMATCH, self.quarantine_mismatch.then_some(Value::Flag(true))),
            (attribute::EFFECTS, names(&self.effects)),
            (attribute::EARLIER_EFFECTS, names(&self.earlier_effects)),
        ];
        insert(&mut item, optional);
        if let Some(effect) = &self.effect {
            effect.encode(&mut item);
        }
        item
    }
}
