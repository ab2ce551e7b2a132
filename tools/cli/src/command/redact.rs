//! `hookonce redact`: erases stored bodies for good.

use clap::Args;
use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::records::operate::{self, Kind};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Confirm a scan of the whole table.
    ///
    /// A filter without --since needs one.
    #[arg(long)]
    scan: bool,
    #[command(flatten)]
    order: operate::OrderArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let kind = Kind { scan: Some(arguments.scan), ..Kind::of(Operation::Redact) };
    let exit = Box::pin(operate::run(arguments.order, kind)).await?;
    output::note(
        "still kept: the headers of an event, the path of an effect's call, a message with its payload (`on_store_outage: \
         enqueue`, up to 14 days), point-in-time recovery (up to 35 days), your own backups, and what handlers wrote",
    );
    output::note(
        "hookonce logs no body. What else holds bytes of an event is redacted with it: its effects, another body under its \
         id, and the delivery that it came in. A batch that is PENDING or DEAD keeps the bytes of its events until it ends: \
         `hookonce list --state PENDING` and `--state DEAD` show such batches",
    );
    Ok(exit)
}
