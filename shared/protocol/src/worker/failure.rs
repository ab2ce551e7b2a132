//! Failures. Counted ones bring a record closer to DEAD; transient ones only cost time.

use super::{Done, Pause, Settled, State, VISIBILITY_MAX, Worker, WorkerStep, died};
use crate::call::{Call, Failure, Signal, Step, Written};
use crate::code::Code;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Due, Found, Record, Status, attribute, equals, remove, set};
use crate::time::Millis;
use crate::timing::{Moment, Timing};
use crate::write::{Action, Change, Table, Write};

/// The longest time that a message is hidden after a transient failure. SQS hides a message for at most 12 hours from
/// its receipt.
pub const TRANSIENT_VISIBILITY_MAX: Millis = Millis::hours(11);

impl Worker {
    /// Backs off without counting, because the event is not to blame. The exponent also grows with the receives, up to
    /// hours, so that no outage uses up the receives after which the message becomes a dead letter. A hint that waits
    /// holds nothing up: its record is in the relay's schedule.
    pub(super) fn transient(self, attempts: i64, moment: Moment) -> WorkerStep {
        let exponent = attempts.max(self.receives.saturating_sub(1));
        let bound = self.timing.backoff_bound(exponent).0.min(TRANSIENT_VISIBILITY_MAX.0);
        Step::done(Settled::Retry(moment.uniform(Millis(bound))))
    }

    /// Backs off with a message that may be the only copy of a body. It becomes a dead letter long before the queue's
    /// retention ends: the dead-letter queue keeps it for longer, and tells people.
    pub(super) fn hold(self, moment: Moment) -> WorkerStep {
        let bound = self.timing.backoff_bound(self.receives.saturating_sub(1)).0.min(VISIBILITY_MAX.0);
        Step::done(Settled::Retry(moment.uniform(Millis(bound))))
    }

    /// Lets the record wait, without counting, for a handler or a table that is unavailable, or for items that others
    /// change. The pause grows with the time that it has waited. After [`Timing::uncounted_wait_max`] each try counts,
    /// so the wait is bounded.
    ///
    /// For a short pause the message itself comes back. After a longer one the relay sends it: hidden messages would
    /// fill the queue, and hold up events of other handlers. It has a list and a budget for what waits, for the same
    /// reason.
    pub(super) fn postpone(self, record: Box<Record>, code: Code, moment: Moment) -> WorkerStep {
        let since = record.waits_since.unwrap_or(moment.now);
        let away = Millis(moment.now.0.saturating_sub(since.0));
        if away > self.timing.uncounted_wait_max {
            return self.fail(record, &Failure::retryable(code), moment).signal(Signal::HandlerFailed);
        }
        // The handler is called again for a record after an hour at the latest.
        let half = Millis(away.0.max(self.timing.backoff_base.0).min(Millis::hours(1).0) / 2);
        let pause = Pause::uncounted(Millis(half.0 + moment.uniform(half).0));
        let due_at = pause.due_at(moment.now, self.timing.visibility_timeout);
        let due = Due::waiting(&record.key, self.timing.shards, due_at);
        let changes = vec![
            set(attribute::DUE_SHARD, due.shard),
            set(attribute::DUE_AT, due.at.0),
            set(attribute::WAITS_SINCE, since.0),
            pause.note(moment.now),
            set(attribute::LAST_ERROR, code.as_str()),
        ];
        // The due time that was read: a write that comes late must not undo what the relay or another copy has set
        // since.
        let seen = record.due.as_ref().map(|due| equals(attribute::DUE_AT, due.at.0));
        let write = Write {
            purpose: Purpose::Postpone,
            table: Table::Inbox,
            key: record.key.as_str().into(),
            action: Action::Update(changes),
            condition: record.guard().condition(seen),
        };
        self.call(State::Postponing { record, pause }, Call::Write(write))
    }

    /// Counts a failure of the handler, or makes the record DEAD if no more failures are allowed.
    pub(super) fn fail(self, mut record: Box<Record>, failure: &Failure, moment: Moment) -> WorkerStep {
        let exhausted = record.attempts + 1 >= self.timing.attempts_max;
        let reason = match (failure.retryable, exhausted) {
            (false, _) => Some(DeadReason::Permanent),
            (true, true) => Some(DeadReason::AttemptsExhausted),
            (true, false) => None,
        };
        let pause = Pause::new(moment.uniform(self.timing.backoff_bound(record.attempts)));
        let mut changes = record.failed_again(&failure.code, moment.now);
        // What a record may wait for without a counted attempt.
        let waited_for = [Code::HandlerUnavailable, Code::TableUnavailable, Code::ConditionFailed].map(Code::as_str);
        if !waited_for.contains(&failure.code.as_str()) {
            changes.push(remove(attribute::WAITS_SINCE));
            record.waits_since = None;
        }
        if let Some(reason) = reason {
            changes.extend(death(&record, reason, &self.timing, moment));
        } else {
            let due_at = pause.due_at(moment.now, self.timing.visibility_timeout);
            let list = if record.waits_since.is_some() { Due::waiting } else { Due::pending };
            let due = list(&record.key, self.timing.shards, due_at);
            changes.extend([
                set(attribute::DUE_SHARD, due.shard),
                set(attribute::DUE_AT, due.at.0),
                pause.note(moment.now),
            ]);
        }
        let purpose = if reason.is_some() { Purpose::DeadAfterFailures } else { Purpose::CountFailure };
        self.write_failure(record, purpose, changes, pause, reason)
    }

    /// Makes a record DEAD when the store can never carry out its write.
    pub(super) fn invalid(self, record: Box<Record>, moment: Moment) -> WorkerStep {
        self.fail(record, &Failure::permanent(Code::WriteInvalid), moment).signal(Signal::WriteInvalid)
    }

    /// Makes a record DEAD that may already have been applied, and its domain key forgotten.
    pub(super) fn stale(self, record: Box<Record>, moment: Moment) -> WorkerStep {
        self.die(record, Purpose::DeadTooOld, DeadReason::Stale, moment)
    }

    /// Makes a record DEAD that was applied, as its domain key says, and does not know it. What its commit wrote beside
    /// the domain key may be missing, its effects among it.
    pub(super) fn rewound(self, record: Box<Record>, moment: Moment) -> WorkerStep {
        self.die(record, Purpose::DeadRewound, DeadReason::Rewound, moment)
    }

    fn die(self, record: Box<Record>, purpose: Purpose, reason: DeadReason, moment: Moment) -> WorkerStep {
        let mut changes = vec![set(attribute::LAST_ERROR, reason.as_str())];
        changes.extend(death(&record, reason, &self.timing, moment));
        let pause = Pause::new(moment.uniform(self.timing.backoff_bound(record.attempts)));
        self.write_failure(record, purpose, changes, pause, Some(reason))
    }

    fn write_failure(
        self,
        record: Box<Record>,
        purpose: Purpose,
        changes: Vec<Change>,
        pause: Pause,
        dead: Option<DeadReason>,
    ) -> WorkerStep {
        let write = Write {
            purpose,
            table: Table::Inbox,
            key: record.key.as_str().into(),
            action: Action::Update(changes),
            // The condition includes the count, so that two copies that fail at the same time count once; and the
            // pause, so that none counts within a pause that another copy began meanwhile.
            condition: record.guard().condition([equals(attribute::ATTEMPTS, record.attempts), record.pause_as_read()]),
        };
        self.call(State::Failing { record, pause, dead }, Call::Write(write))
    }

    pub(super) fn failed(
        self,
        record: &Record,
        written: Written,
        pause: Pause,
        dead: Option<DeadReason>,
        moment: Moment,
    ) -> WorkerStep {
        match (written, dead) {
            (Written::Applied, Some(reason)) => died(record.key.clone(), reason),
            (written, _) => self.not_dead(record, written, pause, moment),
        }
    }

    /// After the failure was written, or not.
    pub(super) fn not_dead(self, record: &Record, written: Written, pause: Pause, moment: Moment) -> WorkerStep {
        match written {
            Written::Applied => Step::done(pause.settled()),
            Written::ConditionFailed(found) if still_mine(&found, record) => self.transient(record.attempts, moment),
            Written::ConditionFailed(_) => Step::done(Settled::Ack(Done::Elsewhere)),
            Written::TransactionConflict | Written::Unavailable => self.transient(record.attempts, moment),
            // Writing the failure is refused, too. The record stays PENDING, and its message comes back after growing
            // pauses.
            Written::Invalid => self.transient(record.attempts, moment).signal(Signal::WriteInvalid),
        }
    }
}

/// Whether the record is still PENDING under this claim, so that only another copy's count came first. An unreadable
/// record counts as such: this version must not give it up.
pub(crate) fn still_mine(found: &Found, record: &Record) -> bool {
    match found {
        Found::Record(now) => {
            now.status == Status::Pending && now.claim_id == record.claim_id && now.generation == record.generation
        }
        Found::Unreadable(_) => true,
        Found::Nothing => false,
    }
}

/// The changes that make a record DEAD. It moves from the relay's index partition to the operator's, and never expires
/// by itself.
pub(crate) fn death(record: &Record, reason: DeadReason, timing: &Timing, moment: Moment) -> Vec<Change> {
    let due = Due::dead(&record.key, timing.shards, moment.now);
    vec![
        set(attribute::STATUS, Status::Dead.as_str()),
        set(attribute::DEAD_REASON, reason.as_str()),
        set(attribute::DEAD_AT, moment.now.0),
        set(attribute::DUE_SHARD, due.shard),
        set(attribute::DUE_AT, due.at.0),
        remove(attribute::NOT_BEFORE),
        remove(attribute::EXPIRES_AT),
    ]
}
