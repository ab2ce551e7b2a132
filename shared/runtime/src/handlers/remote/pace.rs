//! How long the calls of a handler take, as one process sees it.

use hookonce_protocol::time::{EpochMs, Millis};

/// How long a process remembers a handler that it does not call. Then it finds out anew how the handler is: a slow one
/// gets one call, and the other events still move.
pub const REMEMBERED: Millis = Millis::minutes(5);

/// The average of the calls, in which long ones and the latest ones weigh most.
#[derive(Debug, Default)]
pub(super) struct Pace {
    average_ms: i64,
    last_call: Option<EpochMs>,
    /// Whether the next call begins a new average.
    is_tried: bool,
}

impl Pace {
    /// Counts a call that ended now.
    pub(super) fn took(&mut self, length: Millis, now: EpochMs) {
        let is_new = std::mem::take(&mut self.is_tried) || !self.is_known(now);
        let average = if is_new { 0 } else { self.average_ms };
        let difference = length.0.saturating_sub(average);
        // A longer call changes the average by a fourth of the difference, so that one cold start makes nobody slow. A
        // shorter one changes it less: a batch waits for its slowest call, so a handler that is slow for some events
        // holds most of its batches.
        self.average_ms = average + difference / if difference > 0 { 4 } else { 16 };
        self.last_call = Some(now);
    }

    /// Whether its events move. If nobody has called a slow handler for long, the first event that asks stays, to
    /// measure it again.
    pub(super) fn is_slow(&mut self, now: EpochMs) -> bool {
        let (is_slow, is_known) = (self.average_ms >= Millis::seconds(1).0, self.is_known(now));
        if is_slow && !is_known {
            (self.is_tried, self.last_call) = (true, Some(now));
        }
        is_slow && is_known
    }

    fn is_known(&self, now: EpochMs) -> bool {
        self.last_call.is_some_and(|last| now < last.plus(REMEMBERED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: EpochMs = EpochMs(1_000_000);

    fn after(lengths: impl IntoIterator<Item = Millis>) -> Pace {
        let mut pace = Pace::default();
        lengths.into_iter().for_each(|length| pace.took(length, NOW));
        pace
    }

    /// How many calls of this length make a handler slow.
    fn calls_until_slow(length: Millis) -> Option<usize> {
        (1..=100).find(|calls| after(vec![length; *calls]).is_slow(NOW))
    }

    #[test]
    fn calls_that_take_long_make_a_handler_slow_and_one_cold_start_does_not() {
        assert_eq!(calls_until_slow(Millis::seconds(4)), Some(1));
        assert_eq!(calls_until_slow(Millis::seconds(3)), Some(2));
        assert_eq!(calls_until_slow(Millis::seconds(2)), Some(3));
        assert_eq!(calls_until_slow(Millis(1_200)), Some(7));
        assert_eq!(calls_until_slow(Millis(999)), None);
    }

    /// Nearly every batch of ten has one.
    #[test]
    fn a_handler_that_is_slow_for_one_event_in_ten_is_slow() {
        let lengths = (0..100).map(|call| if call % 10 == 0 { Millis::seconds(4) } else { Millis(50) });
        assert!(after(lengths).is_slow(NOW));
    }

    #[test]
    fn a_handler_that_is_quick_again_is_not_slow_any_more() {
        let slow = || vec![Millis::seconds(4); 20].into_iter();
        assert!(after(slow().chain(vec![Millis(50); 21])).is_slow(NOW));
        assert!(!after(slow().chain(vec![Millis(50); 23])).is_slow(NOW));
    }

    #[test]
    fn it_is_tried_again_after_a_while_without_a_call() {
        let later = NOW.plus(REMEMBERED);
        let slow = || after(vec![Millis::seconds(4); 20]);
        assert!(slow().is_slow(NOW.plus(Millis(REMEMBERED.0 - 1))));
        // One cold start keeps nobody slow.
        for (length, is_slow) in [(Millis(50), false), (Millis(1_500), false), (Millis::seconds(4), true)] {
            let mut pace = slow();
            assert!(!pace.is_slow(later), "one event is called for");
            assert!(pace.is_slow(later), "the others still move");
            pace.took(length, later);
            assert_eq!(pace.is_slow(later), is_slow, "{length:?}");
        }
    }
}
