//! Points in time and lengths, as people and programs read them.

use std::time::Duration;

use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::is_terminal;

/// A point in time in UTC, for commands and programs.
pub(crate) fn moment(at: EpochMs) -> String {
    // Beyond the year 9999 it has no form.
    let millis = u64::try_from(at.0.clamp(0, 253_402_300_799_999)).unwrap_or(0);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(millis);
    humantime::format_rfc3339_millis(at).to_string()
}

/// A point in time by this machine's clock: short on a terminal, whole elsewhere.
pub(crate) fn local_moment(at: EpochMs) -> String {
    if is_terminal() { short_moment(at) } else { whole_moment(at) }
}

/// The time of day, with the date if that is not today: for a person who reads it now.
pub(crate) fn short_moment(at: EpochMs) -> String {
    short(&zoned(at), &zoned(System.moment().now))
}

/// The date, the time and the zone, as one word: nobody knows when it is read.
pub(crate) fn whole_moment(at: EpochMs) -> String {
    zoned(at).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

/// A point in time by this machine's clock.
pub(crate) fn zoned(at: EpochMs) -> Zoned {
    Timestamp::from_millisecond(at.0).unwrap_or_default().to_zoned(TimeZone::system())
}

/// The time of day, with the date if that is not today.
fn short(at: &Zoned, now: &Zoned) -> String {
    at.strftime(if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string()
}

/// The same where the point may not be known.
pub(crate) fn known_moment(at: Option<EpochMs>) -> String {
    at.map_or_else(|| "unknown".to_owned(), local_moment)
}

/// A length of time in its two largest units.
pub(crate) fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    let rounded = match seconds {
        0..60 => Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        60..3_600 => Duration::from_secs(seconds),
        3_600..86_400 => Duration::from_secs(seconds / 60 * 60),
        _ => Duration::from_secs(seconds / 3_600 % 24 * 3_600),
    };
    // What is kept is kept for days. A month has no length.
    let days = match seconds / 86_400 {
        0 => return humantime::format_duration(rounded).to_string(),
        1 => "1day".to_owned(),
        days => format!("{days}days"),
    };
    if rounded.is_zero() { days } else { format!("{days} {}", humantime::format_duration(rounded)) }
}

/// The length of time from one moment to another. Zero if the second is earlier.
pub(crate) fn between(from: EpochMs, to: EpochMs) -> String {
    length(Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)))
}

/// How long something has been so, in whole seconds.
pub(crate) fn since(at: EpochMs, now: EpochMs) -> String {
    length(Duration::from_secs(u64::try_from(now.0.saturating_sub(at.0) / 1_000).unwrap_or(0)))
}

/// How long before a moment something was.
pub(crate) fn ago(at: EpochMs, now: EpochMs) -> String {
    format!("{} ago", since(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_printed_unless_it_is_today() {
        let zone = TimeZone::fixed(jiff::tz::offset(5));
        let at = |text: &str| text.parse::<Timestamp>().unwrap().to_zoned(zone.clone());
        let now = at("2026-11-28T20:00:00Z");
        assert_eq!(short(&at("2026-11-28T19:30:05Z"), &now), "00:30:05");
        assert_eq!(short(&at("2026-11-28T18:59:59Z"), &now), "2026-11-28 23:59:59", "a day begins by the wall's clock");
    }

    #[test]
    fn what_was_a_while_ago_counts_whole_seconds() {
        for (millis, expected) in [(-5_000, "0s ago"), (999, "0s ago"), (4_259, "4s ago"), (61_999, "1m 1s ago")] {
            assert_eq!(ago(EpochMs(0), EpochMs(millis)), expected);
        }
    }

    #[test]
    fn a_length_counts_days_and_no_months() {
        let cases = [(0, "0s"), (59, "59s"), (3_661, "1h 1m"), (86_400, "1day"), (90_061, "1day 1h")];
        for (seconds, expected) in
            cases.into_iter().chain([(35 * 86_400, "35days"), (400 * 86_400 + 7_200, "400days 2h")])
        {
            assert_eq!(length(Duration::from_secs(seconds)), expected);
        }
    }
}
