//! Output for people and programs.

use std::io::Write as _;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use hookonce_protocol::time::EpochMs;
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
