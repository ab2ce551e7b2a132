//! What is wrong with a route set, with the place of each fault.

use std::fmt;

/// The most faults that are told at once.
const FAULTS_MAX: usize = 20;

/// One fault: where it is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteFault {
    /// The place in the set, such as `routes[2].when.data.id`.
    pub place: String,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

/// A route set that does not check. It is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RouteSetError {
    /// The faults. Of very many, only the first are told.
    pub faults: Vec<RouteFault>,
}

impl fmt::Display for RouteSetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, RouteFault { place, reason }) in self.faults.iter().enumerate() {
            write!(formatter, "{}{place}: {reason}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Collects faults.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<RouteFault>);

impl Faults {
    /// Notes a fault.
    pub(super) fn add(&mut self, place: &str, reason: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(RouteFault { place: place.to_owned(), reason: reason.into() });
        }
    }

    /// An error if there was any.
    pub(super) fn none(self) -> Result<(), RouteSetError> {
        if self.0.is_empty() { Ok(()) } else { Err(RouteSetError { faults: self.0 }) }
    }
}

impl RouteSetError {
    /// The error of a text that cannot be read any further.
    pub(super) fn one(place: String, reason: String) -> Self {
        Self { faults: vec![RouteFault { place, reason }] }
    }
}
