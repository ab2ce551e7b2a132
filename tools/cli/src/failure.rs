//! How a command ends.

use std::process::ExitCode;

use crate::output::hints;

/// A command that ended on its own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// The command ran: the request was rejected, or nothing was found.
    No,
    /// A usage error.
    Usage,
    /// Something that the command needs is unavailable.
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

/// Why a command could not run. The text says what happened, the hint what to do next.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Failure {
    /// The command or its input is wrong.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to do next.
        hint: String,
    },
    /// What was named does not exist.
    #[error("{what}")]
    Missing {
        /// What does not exist.
        what: String,
        /// What to do next.
        hint: String,
    },
    /// The caller lacks a right.
    #[error("{what}")]
    Denied {
        /// What was refused.
        what: String,
        /// Which right to ask for.
        hint: String,
    },
    /// Something that the command needs is unavailable.
    #[error("{what}")]
    Unavailable {
        /// What is unavailable.
        what: String,
        /// What to do next.
        hint: String,
    },
}

impl Failure {
    /// A usage error.
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: pasteable(what), hint: pasteable(hint) }
    }

    /// What was named does not exist.
    pub(crate) fn missing(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Missing { what: pasteable(what), hint: pasteable(hint) }
    }

    /// Something that the command needs is unavailable.
    pub(crate) fn unavailable(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unavailable { what: pasteable(what), hint: pasteable(hint) }
    }

    /// The caller lacks a right.
    pub(crate) fn denied(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Denied { what: pasteable(what), hint: pasteable(hint) }
    }

    /// The same failure, with more to say and more to do.
    pub(crate) fn with(mut self, more: &str, advice: &str) -> Self {
        let (what, hint) = self.texts();
        what.push_str(&pasteable(more));
        hint.push_str(&pasteable(advice));
        self
    }

    /// The same failure, which names an option in place of the field that it sets.
    pub(crate) fn with_option(mut self, field: &str, option: &str) -> Self {
        let (what, _) = self.texts();
        *what = what.replace(field, option);
        self
    }

    fn texts(&mut self) -> (&mut String, &mut String) {
        match self {
            Self::Usage { what, hint }
            | Self::Missing { what, hint }
            | Self::Denied { what, hint }
            | Self::Unavailable { what, hint } => (what, hint),
        }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. }
            | Self::Missing { hint, .. }
            | Self::Denied { hint, .. }
            | Self::Unavailable { hint, .. } => hint,
        }
    }
}

/// The failure for words that a command does not take.
pub(crate) fn parse_failure(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    Failure::usage(what, "correct it, and try again")
}

fn pasteable(message: impl Into<String>) -> String {
    hints::pasteable(message.into())
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Usage { .. } => Self::Usage,
            Failure::Missing { .. } => Self::No,
            Failure::Denied { .. } | Failure::Unavailable { .. } => Self::Unavailable,
        }
    }
}
