//! When a request was signed, and whether that is close enough to now.

use hookonce_protocol::time::{EpochSec, Millis};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::path::Path;
use crate::refusal::Refusal;

/// Where the timestamp is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimestampSource {
    /// A header of its own.
    Header(String),
    /// A named value next to the signature, in the same header.
    Pair(String),
    /// In the JSON body, read before the body is verified.
    Json(Path),
}

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TimestampUnit {
    /// Seconds since the Unix epoch.
    Seconds,
    /// Milliseconds since the Unix epoch.
    Milliseconds,
    /// RFC 3339, with or without a fraction of a second.
    Rfc3339,
}

/// How many digits a timestamp has that is signed directly before the body. With any number, a digit of the body could
/// move into the timestamp, and one signature would fit two requests. Seconds have 10 digits until the year 2286.
const FIXED_DIGITS: usize = 10;

/// A scheme's timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timestamp {
    pub(crate) source: TimestampSource,
    pub(crate) unit: TimestampUnit,
    /// How old it may be, and up to [`CLOCK_SKEW`] how far in the future.
    pub(crate) tolerance: Millis,
    /// Whether it must have a fixed width, because nothing stands between it and what is signed next.
    pub(crate) fixed_width: bool,
}

impl Timestamp {
    /// Reads the text as milliseconds since the Unix epoch.
    pub(crate) fn read(&self, text: &str) -> Result<i64, Refusal> {
        let width = match self.unit {
            TimestampUnit::Seconds => Some(FIXED_DIGITS),
            TimestampUnit::Milliseconds => Some(FIXED_DIGITS + 3),
            TimestampUnit::Rfc3339 => None,
        };
        if self.fixed_width && width.is_some_and(|width| text.len() != width) {
            return Err(Refusal::TimestampMalformed);
        }
        self.unit.parse(text)
    }
}

/// Most digits of a Unix timestamp; milliseconds have 13 until the year 2286.
const DIGITS_MAX: usize = 15;

impl TimestampUnit {
    /// Reads the text of a timestamp as milliseconds since the Unix epoch.
    pub(crate) fn parse(self, text: &str) -> Result<i64, Refusal> {
        match self {
            Self::Seconds => Ok(digits(text)?.saturating_mul(1_000)),
            Self::Milliseconds => digits(text),
            Self::Rfc3339 => {
                let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| Refusal::TimestampMalformed)?;
                i64::try_from(at.unix_timestamp_nanos().div_euclid(1_000_000)).map_err(|_| Refusal::TimestampMalformed)
            }
        }
    }

    /// Writes a time as a sender would.
    #[cfg(feature = "tools")]
    pub(crate) fn print(self, at: EpochSec) -> Option<String> {
        match self {
            Self::Seconds => Some(at.0.to_string()),
            Self::Milliseconds => Some(at.as_millis().0.to_string()),
            Self::Rfc3339 => OffsetDateTime::from_unix_timestamp(at.0).ok()?.format(&Rfc3339).ok(),
        }
    }
}

/// Digits only: no sign, no space, no fraction.
fn digits(text: &str) -> Result<i64, Refusal> {
    if text.is_empty() || text.len() > DIGITS_MAX || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::TimestampMalformed);
    }
    text.parse().map_err(|_| Refusal::TimestampMalformed)
}

/// How far the clocks of two sides may differ.
pub(crate) const CLOCK_SKEW: Millis = Millis::minutes(5);

/// How far in the future a timestamp may be. A retry makes it old; only a clock puts it into the future.
pub(crate) fn ahead_max(tolerance: Millis) -> Millis {
    tolerance.min(CLOCK_SKEW)
}

/// Refuses a timestamp that is older than the tolerance, or further in the future than clocks explain. The limit itself
/// is accepted.
pub(crate) fn check_skew(at_milliseconds: i64, now: EpochSec, tolerance: Millis) -> Result<(), Refusal> {
    let age = now.as_millis().0.saturating_sub(at_milliseconds);
    let limit = if age < 0 { ahead_max(tolerance) } else { tolerance };
    if u64::try_from(limit.0).is_ok_and(|limit| age.unsigned_abs() <= limit) {
        Ok(())
    } else {
        Err(Refusal::TimestampOutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_reads_what_it_prints() {
        let at = EpochSec(1_767_225_600);
        for unit in [TimestampUnit::Seconds, TimestampUnit::Milliseconds, TimestampUnit::Rfc3339] {
            assert_eq!(unit.parse(&unit.print(at).unwrap()).unwrap(), at.as_millis().0);
        }
        assert_eq!(TimestampUnit::Rfc3339.parse("2025-12-31T23:59:55.123456789Z").unwrap(), 1_767_225_595_123);
        assert_eq!(TimestampUnit::Rfc3339.parse("2026-01-01T01:00:00+01:00").unwrap(), 1_767_225_600_000);
    }

    #[test]
    fn anything_but_digits_is_malformed() {
        for text in ["", " 1", "+1", "-1", "1.0", "1e3", "0x1", "1767225600000000", "\u{661}"] {
            assert_eq!(TimestampUnit::Seconds.parse(text), Err(Refusal::TimestampMalformed), "{text:?}");
        }
    }

    #[test]
    fn the_tolerance_holds_in_both_directions_the_future_to_clocks_and_includes_its_limit() {
        let (now, tolerance) = (EpochSec(1_000), Millis::seconds(300));
        for (at, accepted) in
            [(700_000, true), (699_999, false), (1_300_000, true), (1_300_001, false), (i64::MIN, false)]
        {
            assert_eq!(check_skew(at, now, tolerance).is_ok(), accepted, "{at}");
        }
        assert!(check_skew(1_000_000, now, Millis(-1)).is_err());
        let day = Millis::hours(24);
        for (now, accepted) in [(87_400, true), (87_401, false), (700, true), (699, false)] {
            assert_eq!(check_skew(1_000_000, EpochSec(now), day).is_ok(), accepted, "{now}");
        }
    }
}
