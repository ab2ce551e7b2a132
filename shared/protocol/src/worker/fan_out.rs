//! Fan-out: splits an envelope into one record per event. The event is the unit of deduplication, not the delivery,
//! because no provider promises that a retry groups events the same way.

use super::{State, Worker, WorkerStep};
use crate::call::{Call, ChildEvent, Failure, Reply, Signal, Split, Written};
use crate::ingress::{creation, quarantined};
use crate::key::{ClaimId, EndpointId, RecordKey};
use crate::message::Message;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Due, Found, Outcome, Record, Status, journal_shard};
use crate::timing::{Moment, Timing};

/// Why an event of an envelope gets no record of its own. Its envelope dies in its place, because only the envelope has
/// the event's payload; the siblings are not concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LeftOut {
    /// It does not fit into one.
    TooLarge,
    /// The store can never take the record.
    Invalid,
}

impl Worker {
    pub(super) fn split(self, split: Option<Split>, envelope: Box<Record>, moment: Moment) -> WorkerStep {
        match split {
            Some(Split::Events(events)) => self.fan_out(events, envelope, moment),
            Some(Split::Failed(failure)) => self.fail(envelope, &failure, moment),
            None => self.transient(envelope.attempts, moment),
        }
    }

    /// Creates a record for each event that fits into one. `envelope` may also be the record of a single event, if
    /// today's catalog reads several out of its body.
    pub(super) fn fan_out(self, events: Vec<ChildEvent>, envelope: Box<Record>, moment: Moment) -> WorkerStep {
        if events.is_empty() {
            return self.mark(envelope, Outcome::FannedOut, moment);
        }
        let (children, others): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.fits);
        let left_out = (!others.is_empty()).then_some(LeftOut::TooLarge);
        match records(&envelope, &children, &self.timing, moment) {
            Some(records) => {
                let writes = records.iter().map(|record| creation(record, Purpose::ClaimChild)).collect();
                self.call(State::Creating { record: envelope, children, left_out }, Call::WriteEach(writes))
            }
            None => self.fail(envelope, &Failure::permanent("ENVELOPE_UNREADABLE"), moment),
        }
    }

    /// Continues after the children were written. The envelope may only be closed when every child is known to exist.
    pub(super) fn created(
        self,
        envelope: Box<Record>,
        events: &[ChildEvent],
        written: &[Written],
        left_out: Option<LeftOut>,
        moment: Moment,
    ) -> WorkerStep {
        let decided = written.iter().all(|written| match written {
            Written::Applied | Written::Invalid => true,
            Written::ConditionFailed(found) => *found != Found::Nothing,
            Written::TransactionConflict | Written::Unavailable => false,
        });
        if !decided {
            return self.transient(envelope.attempts, moment);
        }
        let Some(records) = records(&envelope, events, &self.timing, moment) else {
            return self.fail(envelope, &Failure::permanent("ENVELOPE_UNREADABLE"), moment);
        };
        let mut fresh = Vec::new();
        let mut other_bodies = Vec::new();
        for (record, written) in records.into_iter().zip(written) {
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
        let mismatch = !other_bodies.is_empty();
        let left_out = if written.contains(&Written::Invalid) { Some(LeftOut::Invalid) } else { left_out };
        let step = if mismatch && envelope.quarantine_mismatch {
            let keep = |record: &Record| creation(&quarantined(record, &self.timing, moment), Purpose::Quarantine);
            let call = Call::WriteEach(other_bodies.iter().map(keep).collect());
            self.call(State::Quarantining { record: envelope, fresh, left_out }, call)
        } else {
            self.hint(envelope, fresh, left_out, moment)
        };
        if mismatch { step.signal(Signal::BodyMismatch) } else { step }
    }

    pub(super) fn quarantined(
        self,
        envelope: Box<Record>,
        fresh: Vec<RecordKey>,
        left_out: Option<LeftOut>,
        reply: Reply,
        moment: Moment,
    ) -> WorkerStep {
        let decided = |written: &Written| match written {
            Written::Applied | Written::ConditionFailed(_) | Written::Invalid => true,
            Written::TransactionConflict | Written::Unavailable => false,
        };
        let Reply::WrittenEach(written) = reply else { return self.transient(envelope.attempts, moment) };
        let died = written.iter().filter(|written| **written == Written::Applied).count();
        let step = if written.iter().all(decided) {
            let left_out = if written.contains(&Written::Invalid) { Some(LeftOut::Invalid) } else { left_out };
            self.hint(envelope, fresh, left_out, moment)
        } else {
            self.transient(envelope.attempts, moment)
        };
        (0..died).fold(step, |step, _| step.signal(Signal::RecordDead(DeadReason::IdCollision)))
    }

    /// Sends the hints of fresh children. If an event was left out, the envelope dies instead: it keeps that event, and the
    /// relay sends the hints of the others.
    fn hint(
        self,
        envelope: Box<Record>,
        fresh: Vec<RecordKey>,
        left_out: Option<LeftOut>,
        moment: Moment,
    ) -> WorkerStep {
        match left_out {
            Some(LeftOut::Invalid) => return self.invalid(envelope, moment),
            Some(LeftOut::TooLarge) => return self.fail(envelope, &Failure::permanent("EVENT_TOO_LARGE"), moment),
            None => {}
        }
        if fresh.is_empty() {
            return self.mark(envelope, Outcome::FannedOut, moment);
        }
        let messages = fresh.into_iter().map(|pk| Message::Ref { pk }).collect();
        self.call(State::Hinting { record: envelope }, Call::SendEach(messages))
    }
}

/// The records of an envelope's events. Every run makes the same claims.
fn records(envelope: &Record, events: &[ChildEvent], timing: &Timing, moment: Moment) -> Option<Vec<Record>> {
    let endpoint = EndpointId::parse(envelope.key.parts().0).ok()?;
    let child = |event: &ChildEvent| {
        let key = RecordKey::event(&endpoint, &event.event_id);
        Record {
            status: Status::Pending,
            claim_id: ClaimId::of_child(&envelope.key, &envelope.claim_id, &key),
            generation: 0,
            event_type: event.event_type.clone(),
            body: Some(event.body.clone()),
            body_sha256: event.sha256,
            // Thousands of children would crowd into the envelope's partition of the journal.
            journal_shard: journal_shard(envelope.received_at, key.shard(timing.shards)),
            due: Some(Due::pending(&key, timing.shards, moment.now.plus(timing.lease))),
            attempts: 0,
            resends: 0,
            dead_letters: 0,
            dead_letter_at: None,
            parent: Some(envelope.key.clone()),
            expires_at: Some(timing.expiry(key.kind(), moment.now)),
            outcome: None,
            last_error: None,
            duplicate_count: 0,
            last_seen_at: None,
            last_seen_by: None,
            key,
            ..envelope.clone()
        }
    };
    Some(events.iter().map(child).collect())
}
