//! Checks of the template that no linter makes: the functions get the environment they read, the numbers satisfy the
//! protocol, and each policy allows exactly what its function calls.
//!
//! Each rule runs on `template.yaml`, and on a copy with one changed line, which shows that the rule can find
//! something.

mod alarms;
mod bill;
mod conditions;
mod documentation;
mod documents;
pub(crate) mod environment;
mod events;
pub(crate) mod metrics;
mod policies;
mod queues;
mod tables;

use std::path::Path;

use crate::support::template::{Template, template, text};
use crate::tidy::none;

/// A file of the project, by its path from the root of the workspace.
fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// A property of a resource that is a number.
pub(crate) fn property_of(resource: &str, property: &str) -> i64 {
    template().property(resource, &[property]).as_i64().unwrap()
}

/// The template with one replacement. The text to replace must exist.
fn changed(from: &str, to: &str) -> Template {
    let text = text();
    assert!(text.contains(from), "the template has no {from:?}");
    Template::parse(&text.replacen(from, to, 1))
}

/// A rule on the template.
struct Rule<F>(F);

impl<F: Fn(&Template) -> Vec<String>> Rule<F> {
    /// It finds nothing in the template, and exactly this in each copy with one replacement.
    fn finds<const N: usize>(self, planted: [(&str, &str, &str); N]) {
        none(&(self.0)(&template()));
        for (from, to, part) in planted {
            only(&(self.0)(&changed(from, to)), part);
        }
    }
}

/// Exactly one finding, and it says this.
fn only(findings: &[String], part: &str) {
    assert!(findings.len() == 1 && findings.iter().all(|finding| finding.contains(part)), "{part}: {findings:?}");
}
