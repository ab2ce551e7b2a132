//! `hookonce replay`: lets records run again.

use clap::Args;
use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::orders::{self, Wish};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Apply PROCESSED records once more, in a new generation. Repeating the command with the same --reason forces
    /// nothing twice.
    #[arg(long, conflicts_with = "accept_duplicate")]
    force: bool,
    /// Retry also records whose effect may already have been applied (STALE). Check the business data first.
    #[arg(long)]
    accept_duplicate: bool,
    #[command(flatten)]
    order: orders::OrderArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let operation = if arguments.force { Operation::Force } else { Operation::Retry };
    let wish = Wish { operation, accept_duplicate: arguments.accept_duplicate, scan: None };
    orders::run(arguments.order, wish).await
}
