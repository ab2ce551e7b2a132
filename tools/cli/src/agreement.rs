//! A person's agreement to what a dry run foresaw.

use std::str::FromStr;

/// What stands behind `--yes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// Nothing: whatever the filter finds now.
    Plain,
    /// The number of records that the dry run counted: so many, and no other number.
    Counted(usize),
}

impl FromStr for Agreement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self::Plain),
            count => count.parse().map(Self::Counted).map_err(|_| "it must be the number that a dry run prints".into()),
        }
    }
}
