//! How a command ends.

use std::process::ExitCode;

/// A command that ended on its own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Done, and the answer is no.
    No,
    /// Wrong usage.
    Usage,
    /// The other side is unavailable.
    Unavailable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 3,
        })
    }
}

/// A command that could not be carried out. Each says what happened; the hint says what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The caller asked for something that cannot be.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to do next.
        hint: String,
    },
    /// Something on the other side did not answer.
    #[error("{what}")]
    Unavailable {
        /// What did not answer.
        what: String,
        /// What to do next.
        hint: String,
    },
}

impl Failure {
    /// Wrong usage.
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: hint.into() }
    }

    /// The other side is unavailable.
    pub(crate) fn unavailable(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), hint: hint.into() }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. } | Self::Unavailable { hint, .. } => hint,
        }
    }
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Usage { .. } => Self::Usage,
            Failure::Unavailable { .. } => Self::Unavailable,
        }
    }
}
