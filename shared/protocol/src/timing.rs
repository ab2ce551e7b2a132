//! The protocol's durations, and the inequalities that tie them together.

use crate::key::RecordKind;
use crate::time::{EpochMs, EpochSec, Millis};

/// All durations and counts that the protocol depends on. Built once from configuration and checked at start-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How far apart two clocks may be.
    pub clock_skew_max: Millis,
    /// The zombie age: how long the store may still carry out a signed request after its sender gave up on it.
    pub zombie_age_max: Millis,
    /// The shortest time after which one of this stack's providers gives up on a delivery.
    pub provider_timeout: Millis,
    /// The longest time in which a provider delivers again, by itself or by hand.
    pub provider_window: Millis,
    /// The total time of the claim's write, including retries.
    pub claim_timeout: Millis,
    /// The total time of a send, including retries.
    pub send_timeout: Millis,
    /// How long a delivery waits for a write on which nothing depends.
    pub best_effort_timeout: Millis,
    /// The timeout of the webhook function.
    pub webhook_timeout: Millis,
    /// The timeout of the worker function.
    pub worker_timeout: Millis,
    /// How long the event source waits to fill a batch.
    pub batching_window: Millis,
    /// The visibility timeout of the queue.
    pub visibility_timeout: Millis,
    /// How long the queue keeps a message.
    pub queue_retention: Millis,
    /// How long the dead-letter queue keeps a message.
    pub dead_letter_retention: Millis,
    /// How long after the claim the relay may first send the hint again.
    pub first_resend: Millis,
    /// The longest interval between two sends of one record.
    pub resend_interval_max: Millis,
    /// How long a message that carries its payload (fail-open) may still be claimed.
    pub accept_age_max: Millis,
    /// The highest age of a delivery when it is committed or fanned out.
    pub commit_age_max: Millis,
    /// How long the record of a delivery is kept.
    pub delivery_retention: Millis,
    /// How long domain keys are kept, and the event records of providers that batch.
    pub effect_retention: Millis,
    /// How long a record waits uncounted while its handler is unavailable, or while conditions of its plans fail. After
    /// that, each time counts as a failure.
    pub uncounted_wait_max: Millis,
    /// The timeout of the dispatcher function.
    pub dispatcher_timeout: Millis,
    /// The visibility timeout of the effects queue. After it, the process that had a pass is gone.
    pub effects_visibility_timeout: Millis,
    /// How long before the end of a key's window the last call with it begins.
    pub key_margin: Millis,
    /// The highest age of an effect when it is called.
    pub effect_age_max: Millis,
    /// The number of handler failures after which a record is DEAD.
    pub attempts_max: i64,
    /// The first back-off bound.
    pub backoff_base: Millis,
    /// The largest back-off bound.
    pub backoff_cap: Millis,
    /// The number of shards of the index of due records and of the journal. A deployed stack has [`SHARDS`].
    pub shards: u16,
}

/// How long one call of a handler in another language may take.
pub const HANDLER_CALL_MAX: Millis = Millis::seconds(5);

/// How many such calls one message may make each time it is received.
pub const HANDLER_CALLS_MAX: u16 = 4;

/// How long before the worker's deadline the last such call ends: the time for the commit and what follows it.
pub const HANDLER_MARGIN: Millis = Millis::seconds(10);

/// How long one call of a destination may take.
pub const DESTINATION_CALL_MAX: Millis = Millis::seconds(30);

/// How long a call of a destination may wait for its turn.
pub const DESTINATION_TURN_MAX: Millis = Millis::seconds(1);

/// How long the dispatcher waits for a destination's document.
pub const DESTINATION_LOOKUP_MAX: Millis = Millis::seconds(3);

/// How long one of the dispatcher's calls of the store or the queue may take, including the SDK's retries.
pub const DISPATCHER_STORE_MAX: Millis = Millis::seconds(2);

/// How long before the dispatcher's deadline the last call of a destination ends: the time to write how it ended.
pub const DISPATCHER_MARGIN: Millis = Millis::seconds(10);

/// The shards of a stack. Each takes what one partition of a table does, and is one more query of each list in every run
/// of the relay. It never changes, because entries stay where they were written.
pub const SHARDS: u16 = 16;

/// How many times a duration must fit into the delivery retention, if a record must never expire because of it.
const FAR: i64 = 96;

impl Timing {
    /// The default values.
    pub const fn standard() -> Self {
        Self {
            clock_skew_max: Millis::seconds(30),
            zombie_age_max: Millis::minutes(15),
            provider_timeout: Millis::seconds(3),
            provider_window: Millis::days(30),
            claim_timeout: Millis(1_200),
            send_timeout: Millis(800),
            best_effort_timeout: Millis(150),
            webhook_timeout: Millis(2_500),
            worker_timeout: Millis::seconds(60),
            batching_window: Millis(0),
            visibility_timeout: Millis::seconds(360),
            queue_retention: Millis::days(7),
            dead_letter_retention: Millis::days(14),
            first_resend: Millis::seconds(120),
            resend_interval_max: Millis::hours(6),
            accept_age_max: Millis::days(21),
            commit_age_max: Millis::days(60),
            delivery_retention: Millis::days(35),
            effect_retention: Millis::days(95),
            uncounted_wait_max: Millis::hours(24),
            dispatcher_timeout: Millis::seconds(60),
            effects_visibility_timeout: Millis::seconds(360),
            key_margin: Millis::hours(1),
            effect_age_max: Millis::days(30),
            attempts_max: 12,
            backoff_base: Millis::seconds(5),
            backoff_cap: Millis::hours(6),
            shards: SHARDS,
        }
    }

    /// How long a record of this kind is kept after it was last renewed.
    pub const fn retention(&self, kind: RecordKind) -> Millis {
        match kind {
            RecordKind::Delivery | RecordKind::Envelope => self.delivery_retention,
            RecordKind::Event | RecordKind::Effect => self.effect_retention,
        }
    }

    /// When a record of this kind expires if it is written or renewed at `moment`.
    pub const fn expiry(&self, kind: RecordKind, moment: EpochMs) -> EpochSec {
        moment.plus(self.retention(kind)).as_seconds()
    }

    /// The bound of the back-off after `attempts` failures: `min(cap, base * 2^attempts)`.
    pub fn backoff_bound(&self, attempts: i64) -> Millis {
        exponential(self.backoff_base, attempts, self.backoff_cap)
    }

    /// How long after `resends` sends the relay may send again: `min(max, first_resend * 2^(resends+1))`.
    pub fn resend_interval(&self, resends: i64) -> Millis {
        exponential(self.first_resend, resends.saturating_add(1), self.resend_interval_max)
    }

    /// Returns all violations at once.
    pub fn violations(&self) -> Vec<TimingViolation> {
        let skew = self.clock_skew_max.0.saturating_mul(2);
        let edge = self.claim_timeout.0 + self.send_timeout.0 + 300;
        let window = self.provider_window.0.max(self.accept_age_max.0);
        // The read, the document, the guard, the turn and the call: one that does not fit is never begun.
        let call =
            2 * DISPATCHER_STORE_MAX.0 + DESTINATION_LOOKUP_MAX.0 + DESTINATION_TURN_MAX.0 + DESTINATION_CALL_MAX.0;
        // Pauses of an effect and intervals of the relay are stretched by a quarter.
        let pause =
            self.backoff_cap.0.saturating_add(self.effects_visibility_timeout.0).max(self.resend_interval_max.0);
        let stretched = pause.saturating_add(pause / 4);
        let rules = [
            (TimingViolation::WebhookTimeoutTooShort, edge < self.webhook_timeout.0),
            (TimingViolation::WebhookTimeoutTooLong, self.webhook_timeout.0 < self.provider_timeout.0),
            (TimingViolation::FirstResendTooSoon, self.first_resend.0 >= self.webhook_timeout.0 + skew),
            (
                TimingViolation::VisibilityTooShort,
                self.visibility_timeout.0 >= 6 * self.worker_timeout.0 + self.batching_window.0,
            ),
            (
                TimingViolation::WorkerTimeoutTooShort,
                self.worker_timeout.0 >= HANDLER_MARGIN.0 + HANDLER_CALL_MAX.0 * i64::from(HANDLER_CALLS_MAX),
            ),
            (
                TimingViolation::DeliveryRetentionTooShort,
                self.delivery_retention.0 > window + self.zombie_age_max.0 + skew,
            ),
            (TimingViolation::ZombieAgeTooLong, self.delivery_retention.0 > self.zombie_age_max.0.saturating_mul(FAR)),
            (
                TimingViolation::UncountedWaitTooLong,
                self.delivery_retention.0 > self.uncounted_wait_max.0.saturating_mul(self.attempts_max),
            ),
            (
                TimingViolation::AcceptAge,
                self.accept_age_max.0 > self.queue_retention.0 && self.accept_age_max.0 < self.delivery_retention.0,
            ),
            (
                TimingViolation::EffectRetentionTooShort,
                self.effect_retention.0 > self.provider_window.0 + self.commit_age_max.0 + skew,
            ),
            (TimingViolation::DeadLetterRetentionTooShort, self.dead_letter_retention.0 > self.queue_retention.0),
            (
                TimingViolation::ResendIntervalTooLong,
                self.resend_interval_max.0.saturating_mul(FAR) < self.delivery_retention.0
                    && self.resend_interval_max.0 >= self.first_resend.0,
            ),
            (
                TimingViolation::Counts,
                self.attempts_max >= 1 && self.shards >= 1 && self.backoff_base.0 >= 1 && self.first_resend.0 >= 1,
            ),
            (TimingViolation::DispatcherTimeoutTooShort, self.dispatcher_timeout.0 >= call + DISPATCHER_MARGIN.0),
            (
                TimingViolation::EffectsVisibilityTooShort,
                self.effects_visibility_timeout.0 >= 6 * self.dispatcher_timeout.0
                    && self.effects_visibility_timeout.0 > self.dispatcher_timeout.0 + DESTINATION_CALL_MAX.0 + skew,
            ),
            (
                TimingViolation::KeyMarginTooShort,
                self.key_margin.0 >= self.dispatcher_timeout.0 + DESTINATION_CALL_MAX.0 + skew,
            ),
            (
                TimingViolation::EffectAge,
                self.effect_age_max.0 > self.key_margin.0
                    && self.effect_retention.0.saturating_sub(self.effect_age_max.0) > stretched.saturating_add(skew),
            ),
        ];
        rules.into_iter().filter_map(|(violation, holds)| (!holds).then_some(violation)).collect()
    }
}

/// An inequality that does not hold. The text names the values to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TimingViolation {
    /// Q1, lower half.
    #[error("the webhook timeout must be longer than the claim's and the send's timeouts together plus 300 ms")]
    WebhookTimeoutTooShort,
    /// Q1, upper half.
    #[error("the webhook timeout must be shorter than the provider's")]
    WebhookTimeoutTooLong,
    /// Q2.
    #[error("the delay of the first re-send must be at least the webhook timeout plus twice the clock skew")]
    FirstResendTooSoon,
    /// Q3.
    #[error("the queue's visibility timeout must be at least six worker timeouts plus the batching window")]
    VisibilityTooShort,
    /// Q11.
    #[error("the worker timeout must be at least 30 seconds, so that there is time for each call of a handler")]
    WorkerTimeoutTooShort,
    /// Q4.
    #[error(
        "the delivery retention must be longer than the longer of the provider's window and the accept age, plus the \
         zombie age and twice the clock skew"
    )]
    DeliveryRetentionTooShort,
    /// Q8.
    #[error("the delivery retention must be longer than {FAR} times the zombie age")]
    ZombieAgeTooLong,
    /// A record must not expire while it waits.
    #[error("the delivery retention must be longer than the longest uncounted wait times the attempts")]
    UncountedWaitTooLong,
    /// Q5.
    #[error("the accept age must be longer than the queue's retention and shorter than the delivery retention")]
    AcceptAge,
    /// Q6.
    #[error(
        "the effect retention must be longer than the provider's window plus the commit age plus twice the clock skew"
    )]
    EffectRetentionTooShort,
    /// A message keeps its first enqueue time in the dead-letter queue.
    #[error("the dead-letter queue must keep messages longer than the queue does")]
    DeadLetterRetentionTooShort,
    /// Q10.
    #[error(
        "the longest resend interval must be at least that of the first one, and the delivery retention longer than {FAR} times it"
    )]
    ResendIntervalTooLong,
    /// A call that would not fit is never begun.
    #[error(
        "the dispatcher time-out must be at least 48 seconds, so that the longest call and the reads and writes around it fit"
    )]
    DispatcherTimeoutTooShort,
    /// V of the dispatcher.
    #[error(
        "the visibility timeout of the effects queue must be at least six dispatcher timeouts, and longer than the \
         dispatcher timeout plus the longest call plus twice the clock skew"
    )]
    EffectsVisibilityTooShort,
    /// Q7.
    #[error(
        "the margin of keys must be at least the dispatcher timeout plus the longest call and twice the clock skew"
    )]
    KeyMarginTooShort,
    /// An effect must outlive its last call.
    #[error(
        "the effect age must be longer than the margin of keys, and the effect retention longer than the effect age plus the longest pause of an effect and twice the clock skew"
    )]
    EffectAge,
    /// Counts and durations of zero.
    #[error("attempts, shards, the back-off base and the delay of the first re-send must be at least one")]
    Counts,
}

/// A step's view of the world: the time, and random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The current time.
    pub now: EpochMs,
    /// Uniformly random bits, fresh for each step.
    pub entropy: u64,
}

impl Moment {
    /// A duration drawn uniformly from `0..=bound` (full jitter).
    pub fn uniform(&self, bound: Millis) -> Millis {
        let choices = u64::try_from(bound.0.max(0)).unwrap_or(0).saturating_add(1);
        Millis(i64::try_from(self.entropy % choices).unwrap_or(0))
    }

    /// Stretches `length` by a factor drawn uniformly from 1 to 1.25, so that records claimed together do not stay due
    /// together.
    pub fn stretched(&self, length: Millis) -> Millis {
        Millis(length.0.saturating_add(self.uniform(Millis(length.0 / 4)).0))
    }
}

fn exponential(base: Millis, exponent: i64, cap: Millis) -> Millis {
    let factor = u32::try_from(exponent.max(0)).ok().and_then(|exponent| 1_i64.checked_shl(exponent.min(62)));
    Millis(base.0.saturating_mul(factor.unwrap_or(i64::MAX)).clamp(0, cap.0))
}
