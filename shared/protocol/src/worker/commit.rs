//! The transaction that applies an event, and what its cancellation means.

use crate::call::{CancellationReason, HandlerPlan};
use crate::check::{PlanError, PlanFault};
use crate::effect::EffectDraft;
use crate::ingress::creation;
use crate::item::{Item, Value};
use crate::key::{APPLIED_AT, ClaimId, RECORD, RecordKey, RecordKind, Tenant};
use crate::purpose::Purpose;
use crate::record::{EffectPart, Outcome, Record, Status, attribute, encode_names, remove, set};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};
use crate::write::{Action, Condition, Table, Write};

/// Why a commit was cancelled. The position of a reason tells its write: 0 is the record, 1 the domain key, the rest
/// are the handler's own writes, and at the end the effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cancellation {
    /// The record is no longer as it was read: it was finished, killed, replayed or expired. Takes precedence over all
    /// others.
    Elsewhere,
    /// The business fact was applied before.
    DuplicateFact,
    /// The same, by a record with this record's own key.
    OwnFact {
        /// When it was applied.
        applied_at: EpochMs,
    },
    /// An effect of this commit has a record. Only this commit or its own earlier try can have created it, so the
    /// record says what happened.
    EffectExists,
    /// A condition of the handler's own writes failed.
    Overtaken,
    /// The store can never carry out one of the writes.
    Invalid,
    /// Conflict, throttling or an internal error. Trying again may succeed.
    Transient,
}

impl Cancellation {
    /// Reads the reasons of a cancelled commit, the last of which are those of this many effects.
    pub fn of(reasons: &[CancellationReason], effects: usize) -> Self {
        let failed = |reason: &CancellationReason| reason.is_failed_condition();
        let first_effect = reasons.len().saturating_sub(effects).max(2);
        match reasons {
            [record, ..] if failed(record) => Self::Elsewhere,
            [_, CancellationReason::OwnFact { applied_at }, ..] => Self::OwnFact { applied_at: *applied_at },
            [_, domain_key, ..] if failed(domain_key) => Self::DuplicateFact,
            _ if reasons.contains(&CancellationReason::Invalid) => Self::Invalid,
            _ if reasons.iter().skip(first_effect).any(failed) => Self::EffectExists,
            [_, _, rest @ ..] if rest.iter().any(failed) => Self::Overtaken,
            _ => Self::Transient,
        }
    }
}

/// The first of the handler's own writes and checks whose condition did not hold, by its place in the plan.
pub(super) fn failed_condition(writes: &[Write], reasons: &[CancellationReason]) -> Option<PlanError> {
    let own = |purpose| {
        let all = writes.iter().zip(reasons).filter(move |(write, _)| write.purpose == purpose);
        let (index, (write, _)) = all.enumerate().find(|(_, (_, reason))| reason.is_failed_condition())?;
        let table = if let Table::Own(table) = write.table { Some(table) } else { None };
        Some((index, table))
    };
    let fault = PlanFault::ConditionFailed;
    if let Some((index, table)) = own(Purpose::DomainWrite) {
        return Some(PlanError::Write { index, table, fault });
    }
    own(Purpose::DomainCheck).map(|(index, table)| PlanError::Check { index, table, fault })
}

/// Whether a fact that was applied then under this record's key was applied by this record, although it is PENDING: its
/// table was restored to an earlier time, and the domain table was not, or not to the same moment. If its key was
/// claimed anew because the record that applied the fact had expired, it was received later than that.
pub(super) fn is_rewound(record: &Record, applied_at: EpochMs, timing: &Timing) -> bool {
    let first_expiry = applied_at.plus(timing.retention(record.key.kind()));
    record.received_at < first_expiry.plus(Millis(-2 * timing.clock_skew_max.0))
}

/// Whether nothing but user tables stood in the way: they are throttled, or others write the same items.
pub(super) fn only_user_tables_busy(writes: &[Write], reasons: &[CancellationReason]) -> bool {
    let is_busy = |(_, reason): &(&Write, &CancellationReason)| **reason == CancellationReason::Transient;
    let mut busy = writes.iter().zip(reasons).filter(is_busy).map(|(write, _)| write.table).peekable();
    busy.peek().is_some() && busy.all(|table| matches!(table, Table::Own(_)))
}

/// The bound of the pause before a cancelled commit is retried.
pub(super) fn pause_bound(recommits: u8) -> Millis {
    Millis(50 << recommits.min(8))
}

/// The transaction: the record, the domain key, all writes of the plan, and its effects.
pub(super) fn writes(
    record: &Record,
    tenant: &Tenant,
    plan: HandlerPlan,
    timing: &Timing,
    moment: Moment,
) -> Vec<Write> {
    let key = plan.domain_key.item(tenant, &plan.consumer, &record.key, record.generation);
    let mut settled = settle(record, Outcome::Applied, timing, moment);
    let names: Vec<_> = plan.effects.iter().map(|draft| draft.name.clone()).collect();
    if let Action::Update(changes) = &mut settled.action {
        let named = || set(attribute::EFFECTS, encode_names(&names));
        changes.push(if names.is_empty() { remove(attribute::EFFECTS) } else { named() });
    }
    let mut writes = vec![settled, domain_key(record, key, timing, moment)];
    writes.extend(plan.plan.into_writes());
    let effects = plan.effects.into_iter().map(|draft| effect(record, draft, timing, moment));
    writes.extend(effects.map(|effect| creation(&effect, Purpose::CreateEffect)));
    writes
}

/// The header that counts how often hookonce has passed an event on.
pub const HOPS: &str = "hookonce-hops";

/// The record of an effect: PENDING, due at its first re-send after `now`.
fn effect(event: &Record, draft: EffectDraft, timing: &Timing, moment: Moment) -> Record {
    let key = RecordKey::effect(&event.key, &event.claim_id, event.generation, draft.name.as_str());
    let claim_id = ClaimId::of_child(&event.key, &event.claim_id, &key);
    let part = EffectPart {
        name: draft.name,
        destination: draft.destination,
        method: draft.method,
        path: draft.path,
        content_type: draft.content_type,
        pass: None,
        first_call_at: None,
        callee: None,
        not_done: 0,
        key_epoch: 0,
        retried_at: None,
        calls: Vec::new(),
        duration: None,
    };
    Record {
        tenant: event.tenant.clone(),
        provider: event.provider.clone(),
        event_type: event.event_type.clone(),
        headers: event.headers.iter().filter(|(name, _)| *name == HOPS).map(|(n, v)| (n.clone(), v.clone())).collect(),
        secret_index: event.secret_index,
        parent: Some(event.key.clone()),
        effect: Some(Box::new(part)),
        ..Record::fresh(key, claim_id, draft.body, draft.sha256, timing, moment.now)
    }
}

/// Ends a PENDING record. The condition is the same for a single write and in the transaction.
pub(super) fn settle(record: &Record, outcome: Outcome, timing: &Timing, moment: Moment) -> Write {
    let from = EpochMs(moment.now.0.max(record.received_at.0));
    let purpose = match outcome {
        Outcome::Applied => Purpose::Settle,
        Outcome::Duplicate => Purpose::MarkDuplicate,
        Outcome::Ignored => Purpose::MarkIgnored,
        Outcome::FannedOut => Purpose::CloseEnvelope,
        Outcome::Delivered => Purpose::SettleEffect,
    };
    let mut changes = vec![
        set(attribute::STATUS, Status::Processed.as_str()),
        set(attribute::OUTCOME, outcome.as_str()),
        set(attribute::PROCESSED_AT, moment.now.0),
        set(attribute::EXPIRES_AT, timing.expiry(record.key.kind(), from).0),
        remove(attribute::DUE_SHARD),
        remove(attribute::DUE_AT),
        remove(attribute::LAST_ERROR),
        remove(attribute::WAITS_SINCE),
        remove(attribute::NOT_BEFORE),
    ];
    if outcome == Outcome::FannedOut {
        // Nothing brings it back, and each event has a body of its own. So who erases an event has erased it.
        changes.push(remove(attribute::BODY));
    }
    let key = record.key.as_str().into();
    Write {
        purpose,
        table: Table::Inbox,
        key,
        action: Action::Update(changes),
        condition: record.guard().condition([]),
    }
}

fn domain_key(record: &Record, key: String, timing: &Timing, moment: Moment) -> Write {
    let item = Item::from([
        (RECORD.to_owned(), Value::from(record.key.as_str())),
        (APPLIED_AT.to_owned(), Value::from(moment.now.0)),
        (attribute::EXPIRES_AT.to_owned(), Value::from(timing.expiry(RecordKind::Event, moment.now).0)),
    ]);
    Write {
        purpose: Purpose::DomainKey,
        table: Table::Domain,
        key: key.into(),
        action: Action::Put(item),
        condition: Condition::item_absent(),
    }
}
