//! Points in time. Each unit has its own type, so that seconds and milliseconds cannot be compared by accident.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch: when something was received or is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochMs(pub i64);

/// Seconds since the Unix epoch, as DynamoDB's native TTL requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochSec(pub i64);

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// A duration of whole seconds.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// A duration of whole minutes.
    pub const fn minutes(minutes: i64) -> Self {
        Self::seconds(minutes.saturating_mul(60))
    }

    /// A duration of whole hours.
    pub const fn hours(hours: i64) -> Self {
        Self::minutes(hours.saturating_mul(60))
    }

    /// A duration of whole days.
    pub const fn days(days: i64) -> Self {
        Self::hours(days.saturating_mul(24))
    }

    /// The duration in whole seconds, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The duration in whole seconds, rounded up: what is not over before it has passed.
    pub const fn as_seconds_up(self) -> i64 {
        self.0.saturating_add(999).div_euclid(1_000)
    }
}

impl EpochMs {
    /// The time `length` later. Saturates instead of wrapping.
    #[must_use]
    pub const fn plus(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// The time in whole seconds, rounded down.
    pub const fn as_seconds(self) -> EpochSec {
        EpochSec(self.0.div_euclid(1_000))
    }
}

impl EpochSec {
    /// The time in milliseconds. Saturates instead of wrapping.
    pub const fn as_millis(self) -> EpochMs {
        EpochMs(self.0.saturating_mul(1_000))
    }
}
