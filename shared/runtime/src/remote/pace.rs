//! How long the calls of a handler take, as one process sees it.

use hookonce_protocol::time::{EpochMs, Millis};

/// A handler is slow if its calls take this long on average.
pub const SLOW_MIN: Millis = Millis::seconds(1);

/// How long a process remembers the handlers that it does not call. Then one message finds out how they are.
pub const REMEMBERED: Millis = Millis::minutes(5);

/// The latest call changes the average by this part of the difference, so that one cold start makes nobody slow.
const WEIGHT: i64 = 8;

/// The average of the calls, the latest ones first of all.
#[derive(Debug, Default)]
pub(super) struct Pace {
    average_ms: i64,
    last_call: Option<EpochMs>,
}

impl Pace {
    /// Counts a call that ended now.
    pub(super) fn took(&mut self, length: Millis, now: EpochMs) {
        let average = if self.is_known(now) { self.average_ms } else { 0 };
        self.average_ms = average + length.0.saturating_sub(average) / WEIGHT;
        self.last_call = Some(now);
    }

    pub(super) fn is_slow(&self, now: EpochMs) -> bool {
        self.average_ms >= SLOW_MIN.0 && self.is_known(now)
    }

    fn is_known(&self, now: EpochMs) -> bool {
        self.last_call.is_some_and(|last| now < last.plus(REMEMBERED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: EpochMs = EpochMs(1_000_000);

    /// How many calls of this length make a handler slow.
    fn calls_until_slow(length: Millis) -> Option<usize> {
        let mut pace = Pace::default();
        (1..=100).find(|_| {
            pace.took(length, NOW);
            pace.is_slow(NOW)
        })
    }

    #[test]
    fn calls_that_take_long_make_a_handler_slow_and_one_cold_start_does_not() {
        assert_eq!(calls_until_slow(Millis::seconds(5)), Some(2));
        assert_eq!(calls_until_slow(Millis::seconds(2)), Some(6));
        assert_eq!(calls_until_slow(Millis(999)), None);
    }

    #[test]
    fn a_handler_that_is_quick_again_is_not_slow_any_more() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| pace.took(Millis::seconds(4), NOW));
        (0..10).for_each(|_| pace.took(Millis(50), NOW));
        assert!(pace.is_slow(NOW));
        pace.took(Millis(50), NOW);
        assert!(!pace.is_slow(NOW));
    }

    #[test]
    fn it_is_tried_again_after_a_while_without_a_call() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| pace.took(Millis::seconds(4), NOW));
        assert!(pace.is_slow(NOW.plus(Millis(REMEMBERED.0 - 1))));
        assert!(!pace.is_slow(NOW.plus(REMEMBERED)));
        pace.took(Millis(50), NOW.plus(REMEMBERED));
        assert!(!pace.is_slow(NOW.plus(REMEMBERED)), "what was forgotten stays forgotten");
    }
}
