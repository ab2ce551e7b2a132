//! `hookonce replay`: lets records run again.

use clap::Args;
use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::records::operate::{self, Kind};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Apply again what was applied.
    ///
    /// The records are APPLIED, DUPLICATE, or DEAD as REWOUND, and get a new generation. A repeat with the same --reason
    /// changes nothing.
    #[arg(long, conflicts_with = "accept_duplicate")]
    force: bool,
    /// Retry also STALE, `UNKNOWN_OUTCOME`: check first.
    ///
    /// They may have been applied or called. Look at the business data, or ask the callee.
    #[arg(long)]
    accept_duplicate: bool,
    /// Retry an `ID_COLLISION` by --key: compare first.
    ///
    /// It is another body under a known id. Either body may be forged.
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
