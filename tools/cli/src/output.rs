//! Output for people and programs.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use hookonce_protocol::time::EpochMs;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::failure::Failure;

/// Writes one line of data.
pub(crate) fn line(text: &str) {
    // A closed pipe, as after `head`, is no error.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Writes one line to standard error, for a person.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes data as indented JSON.
pub(crate) fn json(data: &impl Serialize) {
    // Plain data always serialises.
    line(&serde_json::to_string_pretty(data).unwrap_or_default());
}

/// Writes data as JSON in one line.
pub(crate) fn json_line(data: &impl Serialize) {
    line(&serde_json::to_string(data).unwrap_or_default());
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Asks a person for a yes. Where there is none, the answer is no.
pub(crate) fn confirm(question: &str) -> bool {
    if !is_watched() || !std::io::stdin().is_terminal() {
        return false;
    }
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// A progress bar with rate, elapsed and remaining time, on standard error.
pub(crate) fn bar(label: &'static str, length: u64) -> ProgressBar {
    let style = "{msg:>8} {bar:30} {pos}/{len}  {per_sec:.1}  {elapsed} elapsed  {eta} left";
    let bar = ProgressBar::new(length).with_message(label);
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Writes raw bytes.
pub(crate) fn bytes(bytes: &[u8]) {
    let _ = std::io::stdout().write_all(bytes);
}

/// Writes a failure and what to do next.
pub(crate) fn failure(failure: &Failure) {
    note(&format!("error: {failure}"));
    if !failure.hint().is_empty() {
        note(&format!("  try: {}", failure.hint()));
    }
}

/// A table without borders, so that `awk` and `cut` can read it.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    if !header.is_empty() {
        table.set_header(header.iter().map(|name| name.to_uppercase()));
    }
    table
}

/// Writes a table.
pub(crate) fn print(table: &Table) {
    for row in table.lines() {
        line(row.trim_end());
    }
}

/// A point in time as RFC 3339 text.
pub(crate) fn moment(at: EpochMs) -> String {
    let millis = u64::try_from(at.0).unwrap_or(0);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(millis);
    humantime::format_rfc3339_millis(at).to_string()
}

/// A point in time in this machine's time zone, to the second.
pub(crate) fn local_moment(at: EpochMs) -> String {
    let at = Timestamp::from_millisecond(at.0).unwrap_or_default().to_zoned(TimeZone::system());
    at.strftime("%Y-%m-%d %H:%M:%S%.3f %:z").to_string()
}

/// A length of time in its two largest units.
pub(crate) fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    let rounded = match seconds {
        0..60 => Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        60..3_600 => Duration::from_secs(seconds),
        3_600..86_400 => Duration::from_secs(seconds / 60 * 60),
        _ => Duration::from_secs(seconds / 3_600 * 3_600),
    };
    humantime::format_duration(rounded).to_string()
}

/// The length of time from one moment to another. Nothing if the second is earlier.
pub(crate) fn between(from: EpochMs, to: EpochMs) -> String {
    length(Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)))
}
