//! Fan-out: splits an envelope into one record per event. The event is the unit of deduplication, not the delivery,
//! because no provider promises that a retry groups events the same way.

use super::{State, Worker, WorkerStep};
use crate::call::{Call, ChildEvent, Failure, Planned, Signal, Split, Written};
use crate::code::Code;
use crate::ingress::{creation, quarantined};
use crate::key::{ClaimId, RecordKey};
use crate::message::Message;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Found, Outcome, Record, journal_shard};
use crate::timing::{Moment, Timing};

/// Why an event gets no record of its own from this run. Its envelope dies in its place, because only the envelope has
/// the event's payload; the siblings are not concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LeftOut {
    /// It does not fit into one.
    TooLarge,
    /// The store can never take the record.
    Invalid,
    /// It has a record already. Forcing the whole cannot repeat the effect of that record, and must not appear to.
    HasRecord,
}

/// A record whose events get records of their own. It is an envelope, or the record of a single event out of which
/// today's catalog reads several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FanOut {
    record: Box<Record>,
    left_out: Option<LeftOut>,
    own: Option<Own>,
}

/// The decision about the event with the record's own key. It waits until its siblings have records: once the record is
/// settled, nobody reads them out of it any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) planned: Box<Planned>,
    pub(super) replans: u8,
}

impl Worker {
    pub(super) fn split(self, split: Option<Split>, envelope: Box<Record>, moment: Moment) -> WorkerStep {
        match split {
            Some(Split::Events(events)) => self.fan_out(events, envelope, None, moment),
            Some(Split::Failed(failure)) => self.fail(envelope, &failure, moment),
            None => self.transient(envelope.attempts, moment),
        }
    }

    /// Creates a record for each event that fits into one.
    pub(super) fn fan_out(
        self,
        events: Vec<ChildEvent>,
        record: Box<Record>,
        own: Option<Own>,
        moment: Moment,
    ) -> WorkerStep {
        let (children, large): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.fits);
        let left_out = (!large.is_empty()).then_some(LeftOut::TooLarge);
        let fan_out = FanOut { record, left_out, own };
        if children.is_empty() {
            return self.hint(fan_out, Vec::new(), moment);
        }
        let records = records(&fan_out.record, &children, &self.timing, moment);
        let writes = records.map(|record| creation(&record, Purpose::ClaimChild)).collect();
        self.call(State::Creating { fan_out, children }, Call::WriteEach(writes))
    }

    /// Continues after the children were written. The envelope may only be closed when every child is known to exist.
    pub(super) fn created(
        self,
        mut fan_out: FanOut,
        events: &[ChildEvent],
        written: &[Written],
        moment: Moment,
    ) -> WorkerStep {
        let decided = written.iter().all(|written| match written {
            Written::Applied | Written::Invalid => true,
            Written::ConditionFailed(found) => *found != Found::Nothing,
            Written::TransactionConflict | Written::Unavailable => false,
        });
        if !decided {
            return self.transient(fan_out.record.attempts, moment);
        }
        let mut fresh = Vec::new();
        let mut other_bodies = Vec::new();
        for (record, written) in records(&fan_out.record, events, &self.timing, moment).zip(written) {
            if fan_out.cannot_repeat(&record, written) {
                fan_out.left_out.get_or_insert(LeftOut::HasRecord);
            }
            match written {
                Written::Applied => fresh.push(record.key),
                Written::ConditionFailed(Found::Record(old)) if old.body_sha256 != record.body_sha256 => {
                    other_bodies.push(record);
                }
                // An earlier run may have created this child without sending its hint. The relay sends it.
                Written::ConditionFailed(_)
                | Written::TransactionConflict
                | Written::Invalid
                | Written::Unavailable => {}
            }
        }
        let mismatch = other_bodies.first().map(|record| Signal::BodyMismatch(record.key.clone()));
        if written.contains(&Written::Invalid) {
            fan_out.left_out = Some(LeftOut::Invalid);
        }
        let step = if mismatch.is_some() && fan_out.record.quarantine_mismatch {
            let keep = |record: &Record| creation(&quarantined(record, &self.timing, moment), Purpose::Quarantine);
            let call = Call::WriteEach(other_bodies.iter().map(keep).collect());
            let others = other_bodies.into_iter().map(|record| record.key.alternate()).collect();
            self.call(State::Quarantining { fan_out, fresh, others }, call)
        } else {
            self.hint(fan_out, fresh, moment)
        };
        mismatch.into_iter().fold(step, WorkerStep::signal)
    }

    pub(super) fn quarantined(
        self,
        mut fan_out: FanOut,
        fresh: Vec<RecordKey>,
        others: Vec<RecordKey>,
        written: &[Written],
        moment: Moment,
    ) -> WorkerStep {
        let decided = |written: &Written| match written {
            Written::Applied | Written::ConditionFailed(_) | Written::Invalid => true,
            Written::TransactionConflict | Written::Unavailable => false,
        };
        let died = others.into_iter().zip(written).filter(|(_, written)| **written == Written::Applied);
        let died = died.map(|(key, _)| Signal::RecordDead { key, reason: DeadReason::IdCollision });
        let step = if written.iter().all(decided) {
            if written.contains(&Written::Invalid) {
                fan_out.left_out = Some(LeftOut::Invalid);
            }
            self.hint(fan_out, fresh, moment)
        } else {
            self.transient(fan_out.record.attempts, moment)
        };
        died.fold(step, WorkerStep::signal)
    }

    /// Sends the hints of fresh children. If an event was left out, the envelope dies instead: it keeps that event, and
    /// the relay sends the hints of the others.
    fn hint(self, fan_out: FanOut, fresh: Vec<RecordKey>, moment: Moment) -> WorkerStep {
        let code = match fan_out.left_out {
            Some(LeftOut::Invalid) => return self.invalid(fan_out.record, moment),
            Some(LeftOut::TooLarge) => Some(Code::EventTooLarge),
            Some(LeftOut::HasRecord) => Some(Code::EventHasRecord),
            None => None,
        };
        if let Some(code) = code {
            return self.fail(fan_out.record, &Failure::permanent(code), moment);
        }
        if fresh.is_empty() {
            return self.close(fan_out, moment);
        }
        let messages = fresh.into_iter().map(|pk| Message::Ref { pk }).collect();
        self.call(State::Hinting { fan_out }, Call::SendEach(messages))
    }

    /// Every event has a record. Ends the one that held them, or goes on with its own event.
    pub(super) fn close(self, fan_out: FanOut, moment: Moment) -> WorkerStep {
        match fan_out.own {
            Some(Own { planned, replans }) => self.planned(*planned, fan_out.record, replans, moment),
            None => self.mark(fan_out.record, Outcome::FannedOut, moment),
        }
    }
}

impl FanOut {
    /// Whether a forced record meets a child that an earlier generation, or another delivery, created.
    fn cannot_repeat(&self, child: &Record, written: &Written) -> bool {
        let forced = self.record.generation > 0 && self.own.is_none();
        let Written::ConditionFailed(found) = written else { return false };
        let mine = matches!(found, Found::Record(old) if old.claim_id == child.claim_id);
        forced && !mine
    }
}

/// The records of an envelope's events, one after the other, because all of them together are large. Every run makes
/// the same claims.
fn records(envelope: &Record, events: &[ChildEvent], timing: &Timing, moment: Moment) -> impl Iterator<Item = Record> {
    // A forced record tells the children that it created itself, before a crash, from those of earlier generations.
    let claim = match envelope.generation {
        0 => envelope.claim_id.clone(),
        generation => ClaimId(format!("{}#g{generation}", envelope.claim_id.0)),
    };
    let child = move |event: &ChildEvent| {
        let key = event.key.clone();
        let claim_id = ClaimId::of_child(&envelope.key, &claim, &key);
        Record {
            tenant: envelope.tenant.clone(),
            provider: envelope.provider.clone(),
            event_type: event.event_type.clone(),
            headers: envelope.headers.clone(),
            secret_index: envelope.secret_index,
            received_at: envelope.received_at,
            // Thousands of children would crowd into the envelope's partition of the journal.
            journal_shard: Some(journal_shard(envelope.received_at, key.shard(timing.shards))),
            parent: Some(envelope.key.clone()),
            accept_duplicate: envelope.accept_duplicate,
            quarantine_mismatch: envelope.quarantine_mismatch,
            ..Record::fresh(key, claim_id, event.body.clone(), event.sha256, timing, moment.now)
        }
    };
    events.iter().map(child)
}
