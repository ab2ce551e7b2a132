//! What the template says and no lint sees: that the functions get the environment they read, that its numbers satisfy
//! the protocol, and that each policy allows exactly what its function calls.
//!
//! Each rule is run on `template.yaml`, and on a copy in which one line was changed, so that a rule that finds nothing
//! is known to be able to find something.

mod document;
mod documentation;
mod environment;
mod events;
mod metrics;
pub(crate) mod policies;
mod tables;

use std::path::Path;

use document::Template;

fn text() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml")).unwrap()
}

/// The template as it stands.
fn template() -> Template {
    Template::parse(&text())
}

/// The template with one change. What is to be changed must stand there.
fn changed(from: &str, to: &str) -> Template {
    let text = text();
    assert!(text.contains(from), "the template has no {from:?}");
    Template::parse(&text.replacen(from, to, 1))
}

/// Fails with every finding, one in a line.
fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Exactly one finding, and it says this.
fn only(findings: &[String], part: &str) {
    assert!(findings.len() == 1 && findings.iter().all(|finding| finding.contains(part)), "{part}: {findings:?}");
}
