//! What is wrong with a route set, with the place of each fault.

use crate::fault::{DocumentFault, joined};

/// The most faults that are told at once.
const FAULTS_MAX: usize = 20;

/// A route set that is not valid. It is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.faults))]
pub struct RouteSetError {
    /// The faults. Of very many, only the first are told.
    pub faults: Vec<DocumentFault>,
}

/// Collects faults.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<DocumentFault>);

impl Faults {
    /// Notes a fault.
    pub(super) fn add(&mut self, place: &str, reason: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(DocumentFault { place: place.to_owned(), reason: reason.into() });
        }
    }

    /// An error if there was any.
    pub(super) fn none(self) -> Result<(), RouteSetError> {
        if self.0.is_empty() { Ok(()) } else { Err(RouteSetError { faults: self.0 }) }
    }
}
