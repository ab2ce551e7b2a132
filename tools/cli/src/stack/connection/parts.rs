//! What every stack consists of.

use std::cmp::Ordering;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The release of this command.
pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What every stack consists of. A running one writes it into a file, a deployed one has it as outputs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StackParts {
    /// The release of hookonce.
    pub(crate) version: String,
    /// The table of records.
    pub(crate) inbox_table: String,
    /// The table of business data.
    pub(crate) domain_table: String,
    /// The queue of hints. It names its dead-letter queue, which all have.
    pub(crate) queue_url: String,
    /// The queue of hints of events whose handler is slow.
    pub(crate) slow_queue_url: String,
    /// The queue of hints of effects.
    pub(crate) effects_queue_url: String,
}

impl StackParts {
    /// Refuses a stack of a later release, for a command that changes what is stored: it would write what that release
    /// has given another meaning. A command that only reads leaves out what it does not understand, and says so.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the stack is of a later release than this command, or of one that cannot be compared.
    pub(crate) fn takes_changes(&self) -> Result<(), Failure> {
        if compared(&self.version, OWN_VERSION).is_some_and(Ordering::is_le) {
            return Ok(());
        }
        let version = &self.version;
        Err(Failure::usage(
            format!("the stack is of release {version}, and this command of {OWN_VERSION} changes nothing there"),
            "use the hookonce of the deployed release; commands that only read work with this one, too",
        ))
    }
}

/// Whether a stack is of an earlier release than this command. A release that cannot be compared is not.
pub(crate) fn is_earlier(stack: &str) -> bool {
    compared(stack, OWN_VERSION).is_some_and(Ordering::is_lt)
}

/// How one release compares with another, by Semantic Versioning: a pre-release comes before its release. `None` if one
/// of them is no version.
fn compared(release: &str, other: &str) -> Option<Ordering> {
    Some(Version::parse(release).ok()?.cmp_precedence(&Version::parse(other).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_comes_before_its_release() {
        let ascending =
            ["1.1.9", "1.2.0-alpha", "1.2.0-rc.1", "1.2.0-rc.2", "1.2.0-rc.10", "1.2.0", "1.2.1-rc.1", "1.10.0"];
        for (at, release) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(compared(release, other), Some(at.cmp(&other_at)), "{release} and {other}");
            }
        }
        assert_eq!(compared("1.2.0+a.build", "1.2.0"), Some(Ordering::Equal));
        for none in ["tomorrow", "", "1.2", "1.2.0.1", "1.2.0-", "v1.2.0"] {
            assert_eq!((compared(none, "1.2.0"), compared("1.2.0", none)), (None, None), "{none}");
        }
    }

    #[test]
    fn a_stack_takes_changes_of_its_own_release_and_of_later_ones() {
        let takes = |version: &str| {
            let url = String::new;
            let parts = StackParts {
                version: version.to_owned(),
                inbox_table: url(),
                domain_table: url(),
                queue_url: url(),
                slow_queue_url: url(),
                effects_queue_url: url(),
            };
            parts.takes_changes().is_ok()
        };
        for earlier in [OWN_VERSION, "0.0.9", "0.0.10-rc.1"] {
            assert!(takes(earlier), "{earlier}");
        }
        for later in ["100.0.0", "100.0.0-rc.1", "tomorrow", "", "0.0", "0.0.9.0"] {
            assert!(!takes(later), "{later}");
        }
    }
}
