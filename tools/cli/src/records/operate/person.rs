//! Who acts, and why, for an audit trail.

use clap::Args;

use crate::failure::Failure;
use crate::stack::connection::Connection;

/// The placeholder for a reason that a person still has to give. It is refused as a reason.
pub(crate) const REASON: &str = "...";

/// The longest name and the longest reason, in bytes.
const BY_BYTES_MAX: usize = 256;
const REASON_BYTES_MAX: usize = 512;

/// The person.
#[derive(Debug, Args)]
pub(crate) struct Person {
    /// Your name [default: your AWS identity, or USER].
    ///
    /// It is for the audit trail. USER counts on a local stack.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The variable USER, for `by`.
    #[arg(long, env = "USER", hide = true)]
    user: Option<String>,
}

impl Person {
    /// The name that was typed. Empty if none was.
    pub(crate) fn named(&self) -> String {
        self.by.as_deref().unwrap_or_default().trim().to_owned()
    }

    /// What to do before a command that acts on a stack of this machine: nobody signs in there, and no name was given.
    pub(crate) fn lacking(&self, stack: &Connection) -> Option<&'static str> {
        let given = self.by.as_ref().or(self.user.as_ref());
        let lacks = stack.local().is_some() && given.is_none_or(|name| name.trim().is_empty());
        lacks.then_some("to do it, the audit trail needs your name: add --by NAME, or set USER")
    }

    /// The name that was typed, or else that of the caller on AWS, or else that of the user.
    ///
    /// # Errors
    /// [`Failure`] when there is none, or AWS does not name the caller.
    pub(crate) async fn known(&self, stack: &Connection) -> Result<String, Failure> {
        let by = match &self.by {
            Some(by) => Some(by.clone()),
            None => Box::pin(stack.caller()).await?.or_else(|| self.user.clone()),
        };
        let by = by.as_deref().unwrap_or_default().trim();
        if by.is_empty() {
            return Err(Failure::usage("the audit trail needs your name", "pass --by NAME, or set USER"));
        }
        Ok(by.to_owned())
    }
}

/// Checks what goes into an audit trail.
///
/// # Errors
/// [`Failure::Usage`] when a text is too long.
pub(crate) fn check_lengths(by: &str, reason: &str) -> Result<(), Failure> {
    for (name, text, bytes_max) in [("--by", by, BY_BYTES_MAX), ("--reason", reason, REASON_BYTES_MAX)] {
        if text.len() > bytes_max {
            return Err(Failure::usage(format!("{name} is longer than {bytes_max} bytes"), "shorten it"));
        }
    }
    Ok(())
}
