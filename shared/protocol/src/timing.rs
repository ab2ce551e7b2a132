//! The protocol's durations, and the inequalities that tie them together.

use crate::key::RecordKind;
use crate::time::{EpochMs, EpochSec, Millis};

/// Every duration and count that the protocol depends on. Built once, from configuration, and checked at start-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How far two clocks may be apart.
    pub clock_skew_max: Millis,
    /// How long a signed request that was given up on may still be carried out by the store.
    pub zombie_age_max: Millis,
    /// The shortest time in which a provider that this stack serves gives a delivery up.
    pub provider_timeout: Millis,
    /// The longest time over which a provider re-delivers, by itself or by hand.
    pub provider_window: Millis,
    /// Total time of the claim's write, own retries included.
    pub claim_timeout: Millis,
    /// Total time of a send, own retries included.
    pub send_timeout: Millis,
    /// Time-out of the webhook function.
    pub webhook_timeout: Millis,
    /// Time-out of the worker function.
    pub worker_timeout: Millis,
    /// How long the event source waits to fill a batch.
    pub batching_window: Millis,
    /// Visibility timeout of the queue.
    pub visibility_timeout: Millis,
    /// How long the queue keeps a message.
    pub queue_retention: Millis,
    /// How long the dead-letter queue keeps a message.
    pub dead_letter_retention: Millis,
    /// From the claim to the first time the relay may send a hint again.
    pub lease: Millis,
    /// The longest interval between two sends of one record.
    pub resend_interval_max: Millis,
    /// How long a message that carries its payload (fail-open) may be claimed.
    pub accept_age_max: Millis,
    /// How old a delivery may be when it is committed or fanned out.
    pub commit_age_max: Millis,
    /// How long the record of a delivery is kept.
    pub delivery_retention: Millis,
    /// How long domain keys, and the event records of providers that batch, are kept.
    pub effect_retention: Millis,
    /// Handler failures after which a record is DEAD.
    pub attempts_max: i64,
    /// The first back-off bound.
    pub backoff_base: Millis,
    /// The largest back-off bound.
    pub backoff_cap: Millis,
    /// Shards of the index of due records, and of the journal.
    pub shards: u16,
}

impl Timing {
    /// The values the project ships with.
    pub const fn standard() -> Self {
        Self {
            clock_skew_max: Millis::seconds(30),
            zombie_age_max: Millis::minutes(15),
            provider_timeout: Millis::seconds(3),
            provider_window: Millis::days(30),
            claim_timeout: Millis(1_200),
            send_timeout: Millis(800),
            webhook_timeout: Millis(2_500),
            worker_timeout: Millis::seconds(60),
            batching_window: Millis(0),
            visibility_timeout: Millis::seconds(360),
            queue_retention: Millis::days(7),
            dead_letter_retention: Millis::days(14),
            lease: Millis::seconds(120),
            resend_interval_max: Millis::hours(6),
            accept_age_max: Millis::days(21),
            commit_age_max: Millis::days(60),
            delivery_retention: Millis::days(35),
            effect_retention: Millis::days(95),
            attempts_max: 12,
            backoff_base: Millis::seconds(5),
            backoff_cap: Millis::hours(6),
            shards: 16,
        }
    }

    /// How long a record of this kind is kept once nothing renews it.
    pub const fn retention(&self, kind: RecordKind) -> Millis {
        match kind {
            RecordKind::Delivery | RecordKind::Envelope => self.delivery_retention,
            RecordKind::Event => self.effect_retention,
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

    /// The interval until the relay may send again, once it has sent `resends` times: `min(max, lease * 2^(resends+1))`.
    pub fn resend_interval(&self, resends: i64) -> Millis {
        exponential(self.lease, resends.saturating_add(1), self.resend_interval_max)
    }

    /// Everything that is wrong with these values, all at once.
    pub fn violations(&self) -> Vec<TimingViolation> {
        let skew = self.clock_skew_max.0.saturating_mul(2);
        let edge = self.claim_timeout.0 + self.send_timeout.0 + 300;
        let window = self.provider_window.0.max(self.accept_age_max.0);
        let rules = [
            (TimingViolation::WebhookTimeoutTooShort, edge < self.webhook_timeout.0),
            (TimingViolation::WebhookTimeoutTooLong, self.webhook_timeout.0 < self.provider_timeout.0),
            (TimingViolation::LeaseTooShort, self.lease.0 >= self.webhook_timeout.0 + skew),
            (
                TimingViolation::VisibilityTooShort,
                self.visibility_timeout.0 >= 6 * self.worker_timeout.0 + self.batching_window.0,
            ),
            (
                TimingViolation::DeliveryRetentionTooShort,
                self.delivery_retention.0 > window + self.zombie_age_max.0 + skew
                    && self.delivery_retention.0 > self.zombie_age_max.0.saturating_mul(96),
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
                self.resend_interval_max.0.saturating_mul(96) < self.delivery_retention.0
                    && self.resend_interval_max.0 >= self.lease.0,
            ),
            (
                TimingViolation::Counts,
                self.attempts_max >= 1 && self.shards >= 1 && self.backoff_base.0 >= 1 && self.lease.0 >= 1,
            ),
        ];
        rules.into_iter().filter_map(|(violation, holds)| (!holds).then_some(violation)).collect()
    }
}

/// An inequality that does not hold. The sentence names the values to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TimingViolation {
    /// Q1, lower half.
    #[error("the webhook time-out must be longer than the claim's and the send's time-outs together plus 300 ms")]
    WebhookTimeoutTooShort,
    /// Q1, upper half.
    #[error("the webhook time-out must be shorter than the provider's")]
    WebhookTimeoutTooLong,
    /// Q2.
    #[error("the lease must be at least the webhook time-out plus twice the clock skew")]
    LeaseTooShort,
    /// Q3.
    #[error("the queue's visibility timeout must be at least six worker time-outs plus the batching window")]
    VisibilityTooShort,
    /// Q4 and Q8.
    #[error(
        "the delivery retention must be longer than the provider's window and the accept age, plus the zombie age and twice the clock skew, and far longer than the zombie age"
    )]
    DeliveryRetentionTooShort,
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
    #[error("the longest resend interval must be at least the lease and far shorter than the delivery retention")]
    ResendIntervalTooLong,
    /// Counts and lengths of zero.
    #[error("attempts, shards, the back-off base and the lease must be at least one")]
    Counts,
}

/// What a step may know of the world: the time, and randomness drawn for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Now.
    pub now: EpochMs,
    /// Uniformly random bits, fresh for each step.
    pub entropy: u64,
}

impl Moment {
    /// A length drawn uniformly from `0..=bound`: full jitter.
    pub fn uniform(&self, bound: Millis) -> Millis {
        let choices = u64::try_from(bound.0.max(0)).unwrap_or(0).saturating_add(1);
        Millis(i64::try_from(self.entropy % choices).unwrap_or(0))
    }

    /// `length` stretched by a factor drawn uniformly from 1 to 1.25, so that records claimed together do not fall due
    /// together for ever.
    pub fn stretched(&self, length: Millis) -> Millis {
        Millis(length.0.saturating_add(self.uniform(Millis(length.0 / 4)).0))
    }
}

fn exponential(base: Millis, exponent: i64, cap: Millis) -> Millis {
    let factor = u32::try_from(exponent.max(0)).ok().and_then(|exponent| 1_i64.checked_shl(exponent.min(62)));
    Millis(base.0.saturating_mul(factor.unwrap_or(i64::MAX)).clamp(0, cap.0))
}
