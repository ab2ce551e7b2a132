//! Durations, their units, and the inequalities between them.

use hookonce_protocol::key::RecordKind;
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::{EpochMs, EpochSec, Millis};
use hookonce_protocol::timing::{Moment, Timing, TimingViolation};
use proptest::prelude::*;

use super::a_record;
use crate::support::clock::START;

/// The values that ship break none: one would be reported beside each of these.
#[test]
fn each_rule_that_is_broken_alone_is_reported_alone() {
    let whole = Timing::standard();
    let broken: [(TimingViolation, Timing); 23] = [
        (TimingViolation::WebhookTimeoutTooShort, Timing { send_timeout: Millis(1_000), ..whole }),
        (TimingViolation::WebhookTimeoutTooLong, Timing { provider_timeout: Millis(2_500), ..whole }),
        (TimingViolation::FirstResendTooSoon, Timing { first_resend: Millis(62_499), ..whole }),
        (TimingViolation::VisibilityTooShort, Timing { visibility_timeout: Millis(359_999), ..whole }),
        (TimingViolation::WorkerTimeoutTooShort, Timing { worker_timeout: Millis(29_999), ..whole }),
        (TimingViolation::UncountedWaitTooLong, Timing { uncounted_wait_max: Millis::days(3), ..whole }),
        (TimingViolation::VisibilityTooShort, Timing { batching_window: Millis(1), ..whole }),
        (
            TimingViolation::DeliveryRetentionTooShort,
            Timing { provider_window: Millis::days(35), effect_retention: Millis::days(99), ..whole },
        ),
        (TimingViolation::ZombieAgeTooLong, Timing { zombie_age_max: Millis::hours(9), ..whole }),
        (TimingViolation::AcceptAge, Timing { accept_age_max: Millis::days(7), ..whole }),
        (
            TimingViolation::AcceptAge,
            Timing { queue_retention: Millis::days(21), dead_letter_retention: Millis::days(22), ..whole },
        ),
        (TimingViolation::EffectRetentionTooShort, Timing { commit_age_max: Millis::days(65), ..whole }),
        (TimingViolation::DeadLetterRetentionTooShort, Timing { dead_letter_retention: Millis::days(7), ..whole }),
        (TimingViolation::ResendIntervalTooLong, Timing { resend_interval_max: Millis::hours(9), ..whole }),
        (TimingViolation::ResendIntervalTooLong, Timing { resend_interval_max: Millis::seconds(119), ..whole }),
        (TimingViolation::DispatcherTimeoutTooShort, Timing { dispatcher_timeout: Millis(47_999), ..whole }),
        (TimingViolation::EffectsVisibilityTooShort, Timing { effects_visibility_timeout: Millis(359_999), ..whole }),
        (TimingViolation::KeyMarginTooShort, Timing { key_margin: Millis(149_999), ..whole }),
        (TimingViolation::EffectAge, Timing { effect_age_max: Millis::days(95), ..whole }),
        (TimingViolation::EffectAge, Timing { effect_age_max: Millis::hours(1), ..whole }),
        // 30 days, and a pause of 52 days and a quarter of it.
        (TimingViolation::EffectAge, Timing { backoff_cap: Millis::days(52), ..whole }),
        (TimingViolation::EffectAge, Timing { effect_age_max: Millis(EFFECT_AGE_LIMIT + 1), ..whole }),
        (TimingViolation::Counts, Timing { attempts_max: 0, ..whole }),
    ];
    for (expected, timing) in broken {
        assert_eq!(timing.violations(), [expected]);
    }
    assert_eq!(Timing { shards: 0, ..whole }.violations(), [TimingViolation::Counts]);
    assert_eq!(Timing { backoff_base: Millis(0), ..whole }.violations(), [TimingViolation::Counts]);
}

/// 95 days, without the longest pause of 6 hours and the visibility timeout, a quarter of it, twice the clock skew and
/// 1 ms.
const EFFECT_AGE_LIMIT: i64 = 95 * 86_400_000 - (21_600_000 + 360_000) * 5 / 4 - 60_000 - 1;

#[test]
fn each_rule_holds_at_its_limit() {
    let whole = Timing::standard();
    for timing in [
        Timing { first_resend: Millis(62_500), ..whole },
        Timing { provider_timeout: Millis(2_501), ..whole },
        Timing { send_timeout: Millis(999), ..whole },
        Timing { dead_letter_retention: Millis(whole.queue_retention.0 + 1), ..whole },
        Timing { accept_age_max: Millis(whole.queue_retention.0 + 1), ..whole },
        Timing { dispatcher_timeout: Millis::seconds(48), ..whole },
        Timing { effect_age_max: Millis(EFFECT_AGE_LIMIT), ..whole },
    ] {
        assert_eq!(timing.violations(), []);
    }
}

#[test]
fn the_expiry_is_in_seconds_and_everything_else_in_milliseconds() {
    let record = a_record("in#a#x");
    let item = record.encode();
    assert_eq!(item["hookonce_expires_at"].as_i64(), Some(1_767_225_600 + 35 * 86_400));
    assert_eq!(item["received_at"].as_i64(), Some(1_767_225_600_000));
    assert_eq!(item["due_at"].as_i64(), Some(1_767_225_600_000 + 120_000));
    assert_eq!(Timing::standard().expiry(RecordKind::Event, START), EpochSec(1_767_225_600 + 95 * 86_400));
    assert_eq!(EpochMs(1_999).as_seconds(), EpochSec(1));
    assert_eq!(EpochMs(-1).as_seconds(), EpochSec(-1), "rounded down before the epoch, too");
    assert_eq!(EpochSec(2).as_millis(), EpochMs(2_000));
    assert_eq!(EpochSec(i64::MAX).as_millis(), EpochMs(i64::MAX), "saturated, not wrapped");
    assert_eq!(EpochMs(i64::MAX).plus(Millis(1)), EpochMs(i64::MAX));
    assert_eq!([Millis::days(1).0, Millis::hours(1).0, Millis::minutes(1).0], [86_400_000, 3_600_000, 60_000]);
    assert_eq!(Millis(1_999).as_seconds(), 1);
}

#[test]
fn intervals_double_up_to_their_limit() {
    let timing = Timing::standard();
    let seconds = |length: Millis| length.0 / 1_000;
    let resends: Vec<_> = (0..10).map(|count| seconds(timing.resend_interval(count))).collect();
    assert_eq!(resends, [240, 480, 960, 1_920, 3_840, 7_680, 15_360, 21_600, 21_600, 21_600]);
    let backoffs: Vec<_> = (0..14).map(|count| seconds(timing.backoff_bound(count))).collect();
    assert_eq!(backoffs[..6], [5, 10, 20, 40, 80, 160]);
    assert_eq!(backoffs[13], 21_600);
    for extreme in [i64::MIN, -1, 62, 63, 64, i64::MAX] {
        assert!((0..=21_600_000).contains(&timing.backoff_bound(extreme).0), "{extreme}");
        assert!((0..=21_600_000).contains(&timing.resend_interval(extreme).0), "{extreme}");
    }
}

#[test]
fn the_budget_grows_with_arrivals_and_never_falls_below_its_floor() {
    let budget = Budget::standard();
    assert_eq!(budget.sends_max(0), 600);
    assert_eq!(budget.sends_max(1_600), 600, "20 % of 1,600 a minute is below the floor");
    assert_eq!(budget.sends_max(16_000), 3_200);
    assert_eq!(Budget { period: Millis::seconds(2), ..budget }.sends_max(0), 20);
    assert!(budget.sends_max(u64::MAX) > 0, "saturated, not wrapped");
}

proptest! {
    #[test]
    fn jitter_stays_inside_its_bounds(entropy in any::<u64>(), bound in 0_i64..100_000_000) {
        let moment = Moment { now: EpochMs(0), entropy };
        prop_assert!((0..=bound).contains(&moment.uniform(Millis(bound)).0));
        prop_assert!((bound..=bound + bound / 4).contains(&moment.stretched(Millis(bound)).0));
        prop_assert_eq!(moment.uniform(Millis(-bound)), Millis(0));
    }
}
