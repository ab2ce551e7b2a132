//! Fan-out: splits an envelope into one record per event. The event is the unit of deduplication, not the delivery,
//! because no provider promises that a retry groups events the same way.

use super::{State, Worker, WorkerStep};
use crate::call::{Call, ChildEvent, Failure, Signal, Split, Unavailable, Written};
use crate::code::Code;
use crate::ingress::{creation, quarantined};
use crate::key::{ClaimId, RecordKey};
use crate::message::Message;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Found, Outcome, Record, journal_shard};
use crate::timing::{Moment, Timing};

/// The most events that a run looks at, and creates the records of, at once.
const EVENTS_AT_ONCE: usize = 100;

/// Why an event gets no record of its own from this run. Its envelope dies in its place, because only the envelope has
/// the event's payload; the siblings are not concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LeftOut {
    /// It does not fit into one.
    TooLarge,
    /// The store can never take the record.
    Invalid,
}

/// An envelope whose events get records of their own.
///
/// It takes a chunk of its events at a time: it looks which of them have records, creates only those that are missing,
/// and sends their hints. So a run that ends early has created what it came to, the next one finds that at the price of
/// reads and gets further, and no run holds the records of all events at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FanOut {
    envelope: Box<Record>,
    /// The events that are left, the next one last.
    left: Vec<ChildEvent>,
    left_out: Option<LeftOut>,
    /// Whether another body was told.
    mismatch_signalled: bool,
    /// Whether it is unknown of an event so far if it has a record.
    is_unsure: bool,
}

impl Worker {
    pub(super) fn split(self, split: Option<Split>, envelope: Box<Record>, moment: Moment) -> WorkerStep {
        match split {
            Some(Split::Events(events)) => self.fan_out(events, envelope, moment),
            Some(Split::Failed(failure)) => self.fail(envelope, &failure, moment),
            None => self.transient(envelope.attempts, moment),
        }
    }

    /// Creates a record for each event that fits into one.
    fn fan_out(self, events: Vec<ChildEvent>, envelope: Box<Record>, moment: Moment) -> WorkerStep {
        let (mut left, large): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.fits);
        left.reverse();
        let left_out = (!large.is_empty()).then_some(LeftOut::TooLarge);
        self.look(FanOut { envelope, left, left_out, mismatch_signalled: false, is_unsure: false }, moment)
    }

    /// Looks which of the next events have records.
    pub(super) fn look(self, mut fan_out: FanOut, moment: Moment) -> WorkerStep {
        let chunk = fan_out.next_chunk();
        if chunk.is_empty() {
            return self.looked_at_all(fan_out, moment);
        }
        let keys = chunk.iter().map(|event| event.key.clone()).collect();
        self.call(State::Looking { fan_out, chunk }, Call::ReadHeads(keys))
    }

    /// Creates the records that are missing. One that could not be read may be missing, too: its write finds out.
    pub(super) fn looked(
        self,
        fan_out: FanOut,
        chunk: Vec<ChildEvent>,
        found: Vec<Result<Found, Unavailable>>,
        moment: Moment,
    ) -> WorkerStep {
        let (mut missing, mut others) = (Vec::new(), Vec::new());
        for (event, found) in chunk.into_iter().zip(found) {
            match found {
                Ok(Found::Nothing) | Err(Unavailable) => missing.push(event),
                Ok(found) => others.extend(with_other_body(event, &found)),
            }
        }
        if missing.is_empty() {
            return self.keep_others(fan_out, others, Vec::new(), moment);
        }
        let write =
            |event: &ChildEvent| creation(&child(&fan_out.envelope, event, &self.timing, moment), Purpose::ClaimChild);
        let writes = missing.iter().map(write).collect();
        self.call(State::Creating { fan_out, missing, others }, Call::WriteEach(writes))
    }

    /// Continues after the missing records were written.
    pub(super) fn created(
        self,
        mut fan_out: FanOut,
        missing: Vec<ChildEvent>,
        mut others: Vec<ChildEvent>,
        written: &[Written],
        moment: Moment,
    ) -> WorkerStep {
        let mut fresh = Vec::new();
        let total = missing.len();
        let mut unknown = 0;
        for (event, written) in missing.into_iter().zip(written) {
            match written {
                Written::Applied => fresh.push(event.key),
                Written::Invalid => fan_out.left_out = Some(LeftOut::Invalid),
                // Another run created it since, or the read did not find out.
                Written::ConditionFailed(found @ (Found::Record(_) | Found::Unreadable(_))) => {
                    others.extend(with_other_body(event, found));
                }
                Written::ConditionFailed(Found::Nothing) | Written::TransactionConflict | Written::Unavailable => {
                    unknown += 1;
                }
            }
        }
        fan_out.is_unsure |= unknown > 0;
        if unknown * 2 > total {
            // The store is short of capacity. More writes would keep it so, also for others.
            fan_out.left.clear();
        }
        self.keep_others(fan_out, others, fresh, moment)
    }

    /// Keeps other bodies that came under known ids, if the endpoint says so.
    fn keep_others(
        self,
        mut fan_out: FanOut,
        others: Vec<ChildEvent>,
        fresh: Vec<RecordKey>,
        moment: Moment,
    ) -> WorkerStep {
        let Some(first) = others.first() else { return self.hint(fan_out, fresh, moment) };
        let mismatch = Signal::BodyMismatch { key: first.key.clone(), bodies: None };
        let is_first = !std::mem::replace(&mut fan_out.mismatch_signalled, true);
        let step = if fan_out.envelope.quarantine_mismatch {
            let keep = |event: &ChildEvent| {
                let child = child(&fan_out.envelope, event, &self.timing, moment);
                creation(&quarantined(&child, &self.timing, moment), Purpose::Quarantine)
            };
            let call = Call::WriteEach(others.iter().map(keep).collect());
            let others = others.into_iter().map(|event| event.key.alternate()).collect();
            self.call(State::Quarantining { fan_out, fresh, others }, call)
        } else {
            self.hint(fan_out, fresh, moment)
        };
        if is_first { step.signal(mismatch) } else { step }
    }

    pub(super) fn quarantined(
        self,
        mut fan_out: FanOut,
        fresh: Vec<RecordKey>,
        others: Vec<RecordKey>,
        written: &[Written],
        moment: Moment,
    ) -> WorkerStep {
        let mut died = Vec::new();
        for (key, written) in others.into_iter().zip(written) {
            match written {
                Written::Applied => died.push(Signal::RecordDead { key, reason: DeadReason::IdCollision }),
                Written::Invalid => fan_out.left_out = Some(LeftOut::Invalid),
                Written::ConditionFailed(_) => {}
                Written::TransactionConflict | Written::Unavailable => fan_out.is_unsure = true,
            }
        }
        died.into_iter().fold(self.hint(fan_out, fresh, moment), WorkerStep::signal)
    }

    /// Sends the hints of fresh children. An earlier run may have created others without sending theirs: the relay
    /// sends them.
    fn hint(self, fan_out: FanOut, fresh: Vec<RecordKey>, moment: Moment) -> WorkerStep {
        if fresh.is_empty() {
            return self.look(fan_out, moment);
        }
        let messages = fresh.into_iter().map(|pk| Message::Ref { pk }).collect();
        self.call(State::Hinting { fan_out }, Call::SendEach(messages))
    }

    /// No event is left. If one was left out, the envelope dies, because it keeps that event. It may only be closed
    /// when every event is known to have a record.
    fn looked_at_all(self, fan_out: FanOut, moment: Moment) -> WorkerStep {
        if fan_out.is_unsure {
            return self.transient(fan_out.envelope.attempts, moment);
        }
        match fan_out.left_out {
            Some(LeftOut::Invalid) => self.invalid(fan_out.envelope, moment),
            Some(LeftOut::TooLarge) => self.fail(fan_out.envelope, &Failure::permanent(Code::EventTooLarge), moment),
            None => self.mark(fan_out.envelope, Outcome::FannedOut, moment),
        }
    }
}

impl FanOut {
    /// The next events, in their order.
    fn next_chunk(&mut self) -> Vec<ChildEvent> {
        let mut chunk = self.left.split_off(self.left.len().saturating_sub(EVENTS_AT_ONCE));
        chunk.reverse();
        chunk
    }
}

/// An event has a record. Returns the event if its own body is another one.
fn with_other_body(event: ChildEvent, found: &Found) -> Option<ChildEvent> {
    matches!(found, Found::Record(old) if old.body_sha256 != event.sha256).then_some(event)
}

/// The record of an envelope's event.
fn child(envelope: &Record, event: &ChildEvent, timing: &Timing, moment: Moment) -> Record {
    let key = event.key.clone();
    // The same on every run.
    let claim_id = ClaimId::of_child(&envelope.key, &envelope.claim_id, &key);
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
}
