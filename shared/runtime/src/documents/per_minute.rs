//! Counters that start again every minute.

use std::collections::HashMap;
use std::hash::Hash;

use hookonce_protocol::time::EpochMs;

/// Counters by key. All start again at zero with each clock minute.
#[derive(Debug)]
pub(crate) struct PerMinute<K> {
    minute: i64,
    counts: HashMap<K, usize>,
}

// A derived `Default` would require `K: Default`.
impl<K> Default for PerMinute<K> {
    fn default() -> Self {
        Self { minute: 0, counts: HashMap::new() }
    }
}

impl<K: Eq + Hash> PerMinute<K> {
    /// The counter of a key in the minute of `now`.
    pub(crate) fn count(&mut self, key: K, now: EpochMs) -> &mut usize {
        let minute = now.0.div_euclid(60_000);
        if self.minute != minute {
            self.minute = minute;
            self.counts.clear();
        }
        self.counts.entry(key).or_default()
    }
}
