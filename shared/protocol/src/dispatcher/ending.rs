//! The writes after a call, or instead of one. Each ends this message's part.

use super::{Dispatcher, DispatcherStep, Effect, Ending, NextCall, State};
use crate::call::{Call, Signal};
use crate::code::Code;
use crate::destination::Class;
use crate::purpose::Purpose;
use crate::record::{DeadReason, Outcome, Status, attribute, counted, equals, remove, set};
use crate::time::Millis;
use crate::timing::{Moment, Timing};
use crate::worker::{Done, Pause, Settled, death};
use crate::write::{Action, Change, Condition, Table, Write};

impl Dispatcher {
    /// Ends an effect that its callee did, even if another process has the pass by now or an operator has retried it.
    /// Only a replaced key means another call.
    pub(super) fn settle(self, effect: Effect, duration: Millis, moment: Moment) -> DispatcherStep {
        let changes = vec![
            set(attribute::STATUS, Status::Processed.as_str()),
            set(attribute::OUTCOME, Outcome::Delivered.as_str()),
            set(attribute::PROCESSED_AT, moment.now.0),
            set(attribute::EXPIRES_AT, self.timing.expiry(effect.record.key.kind(), moment.now).0),
            set(attribute::DURATION_MS, duration.0),
            remove(attribute::DUE_SHARD),
            remove(attribute::DUE_AT),
            remove(attribute::NOT_BEFORE),
            remove(attribute::LAST_ERROR),
        ];
        let condition = Condition(vec![
            equals(attribute::STATUS, effect.record.status.as_str()),
            equals(attribute::CLAIM_ID, effect.record.claim_id.0.as_str()),
            equals(attribute::GENERATION, effect.record.generation),
            counted(attribute::KEY_EPOCH, effect.part.key_epoch),
        ]);
        let settled = Settled::Ack(Done::Settled(Outcome::Delivered));
        self.end(effect, Purpose::SettleEffect, changes, condition, settled, Signal::EffectDelivered)
    }

    /// Makes an effect DEAD that may not be called again.
    pub(super) fn die(self, effect: Effect, reason: DeadReason, moment: Moment) -> DispatcherStep {
        let mut changes = vec![set(attribute::LAST_ERROR, reason.as_str())];
        changes.extend(death(&effect.record, reason, &self.timing, moment));
        let condition = effect.unchanged();
        let settled = Settled::Ack(Done::Dead);
        let died = Signal::RecordDead { key: effect.record.key.clone(), reason };
        self.end(effect, Purpose::DieOfCall, changes, condition, settled, died)
    }

    /// Lets an effect wait, without counting, after a call that did nothing or instead of one. The pause grows with
    /// these tries, even if the callee asks for less, so that the relay takes over before the message becomes a dead
    /// letter. From then on, the effect waits without a hidden message.
    ///
    /// If an earlier call may have been done and no pause leaves time for a repeat, the effect is DEAD now: its callee
    /// still knows the key, should a person let it go again.
    pub(super) fn postpone(
        self,
        call: NextCall,
        tries: i64,
        retry_after: Option<Millis>,
        moment: Moment,
    ) -> DispatcherStep {
        let NextCall { effect, first, terms } = call;
        // At most an hour, unless the callee asks for a longer pause.
        let backoff = Millis(self.timing.backoff_bound(tries).0.min(Millis::hours(1).0));
        let requested = retry_after.unwrap_or(Millis(0));
        let wait = stretched(requested.max(backoff), &self.timing, moment);
        let fitting =
            if first { Some(Pause::new(wait)) } else { self.fitting(&effect, terms.class, wait, requested, moment) };
        let Some(pause) = fitting else { return self.die(effect, DeadReason::UnknownOutcome, moment) };
        let mut changes = self.due_again(pause, moment);
        changes.push(set(attribute::LAST_ERROR, Code::DestinationUnavailable.as_str()));
        changes.push(set(attribute::NOT_DONE, effect.part.not_done + 1));
        if first {
            changes.extend([remove(attribute::FIRST_CALL_AT), remove(attribute::CALLEE)]);
        }
        let condition = effect.unchanged();
        self.end(effect, Purpose::RearmEffect, changes, condition, pause.settled(), Signal::EffectWaits)
    }

    /// Counts a call with an unknown outcome, and lets the effect wait for its next one. If that would be too late, the
    /// effect is DEAD now.
    pub(super) fn count(self, call: NextCall, retry_after: Option<Millis>, moment: Moment) -> DispatcherStep {
        let NextCall { effect, terms, .. } = call;
        let backoff = moment.uniform(self.timing.backoff_bound(effect.record.attempts));
        let requested = retry_after.map_or(Millis(0), |requested| stretched(requested, &self.timing, moment));
        let Some(pause) = self.fitting(&effect, terms.class, backoff.max(requested), requested, moment) else {
            return self.die(effect, DeadReason::UnknownOutcome, moment);
        };
        let mut changes = self.due_again(pause, moment);
        changes.extend(effect.record.failed_again(Code::CallUnclear.as_str(), moment.now));
        let condition = effect.unchanged();
        self.end(effect, Purpose::FailEffect, changes, condition, pause.settled(), Signal::EffectWaits)
    }

    /// The pause after which an effect may be called again. If the wanted pause would end too late, it is half of the
    /// time that is left. `None` if the callee asks for more than that, or if so little is left that the relay might
    /// come too late.
    fn fitting(&self, effect: &Effect, class: Class, wait: Millis, requested: Millis, moment: Moment) -> Option<Pause> {
        let is_in_time = |pause: &Pause| self.is_repeatable(effect, class, pause.ends_at(moment.now));
        let pause = Pause::new(wait);
        if is_in_time(&pause) {
            return Some(pause);
        }
        let half = Millis(self.repeatable_until(effect, class)?.0.saturating_sub(moment.now.0) / 2);
        let shorter = (half >= requested.max(self.timing.effects_visibility_timeout)).then_some(Pause::new(half));
        shorter.filter(is_in_time)
    }

    /// Gives the pass back.
    fn due_again(&self, pause: Pause, moment: Moment) -> Vec<Change> {
        let due_at = pause.due_at(moment.now, self.timing.effects_visibility_timeout);
        vec![
            set(attribute::DUE_AT, due_at.0),
            pause.note(moment.now),
            remove(attribute::PASS),
            remove(attribute::PASS_AT),
        ]
    }

    fn end(
        self,
        effect: Effect,
        purpose: Purpose,
        mut changes: Vec<Change>,
        condition: Condition,
        settled: Settled,
        signal: Signal,
    ) -> DispatcherStep {
        changes.extend(effect.part.noted_calls());
        let write = Write {
            purpose,
            table: Table::Inbox,
            key: effect.record.key.as_str().into(),
            action: Action::Update(changes),
            condition,
        };
        let ending = Box::new(Ending { record: effect.record, write: write.clone(), settled, signal });
        self.call(State::Writing { ending, rewrites: 0 }, Call::Write(write))
    }
}

/// Stretches a pause, between the back-off's base and its cap.
fn stretched(length: Millis, timing: &Timing, moment: Moment) -> Millis {
    moment.stretched(Millis(length.0.clamp(timing.backoff_base.0, timing.backoff_cap.0)))
}
