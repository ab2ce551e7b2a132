//! Points in time, told apart by unit so that seconds and milliseconds cannot be compared by accident.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch: when something was received or falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochMs(pub i64);

/// Seconds since the Unix epoch: the unit that DynamoDB's native TTL requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochSec(pub i64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// A length of whole seconds.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// A length of whole minutes.
    pub const fn minutes(minutes: i64) -> Self {
        Self::seconds(minutes.saturating_mul(60))
    }

    /// A length of whole hours.
    pub const fn hours(hours: i64) -> Self {
        Self::minutes(hours.saturating_mul(60))
    }

    /// A length of whole days.
    pub const fn days(days: i64) -> Self {
        Self::hours(days.saturating_mul(24))
    }

    /// The same length in whole seconds, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}

impl EpochMs {
    /// The point `length` later; saturates instead of wrapping.
    #[must_use]
    pub const fn plus(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// The same point in whole seconds, rounded down.
    pub const fn as_seconds(self) -> EpochSec {
        EpochSec(self.0.div_euclid(1_000))
    }
}

impl EpochSec {
    /// The same point in milliseconds; saturates instead of wrapping.
    pub const fn as_millis(self) -> EpochMs {
        EpochMs(self.0.saturating_mul(1_000))
    }
}
