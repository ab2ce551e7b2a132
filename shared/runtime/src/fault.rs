//! What is wrong with a document that people write: a route set or a destination.

use std::fmt;

/// One fault: where it is, and why. Neither repeats a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFault {
    /// The place, such as `headers.host` or `routes[2].when.data.id`.
    pub place: String,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.reason)
    }
}

/// Faults in one line.
pub(crate) fn joined(faults: &[DocumentFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
