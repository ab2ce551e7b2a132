//! `hookonce replay`: lets records run again.

use clap::Args;
use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::operate::{self, Kind};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Apply records again that were already applied, in a new generation: APPLIED, DUPLICATE, or DEAD as REWOUND. A
    /// repeat with the same --reason changes nothing.
    #[arg(long, conflicts_with = "accept_duplicate")]
    force: bool,
    /// Retry also records whose effect may already have been applied (STALE, `UNKNOWN_OUTCOME`). Check the
    /// business data, or ask the callee, first.
    #[arg(long)]
    accept_duplicate: bool,
    /// Also retry the records named by --key that hold a different body under a known id (`ID_COLLISION`). Compare both
    /// bodies first: either may be forged.
    #[arg(long, conflicts_with_all = ["force", "Filter"])]
    accept_other_body: bool,
    #[command(flatten)]
    order: operate::OrderArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let operation = if arguments.force { Operation::Force } else { Operation::Retry };
    let Arguments { accept_duplicate, accept_other_body, .. } = arguments;
    let kind = Kind { accept_duplicate, accept_other_body, ..Kind::of(operation) };
    Box::pin(operate::run(arguments.order, kind)).await
}
