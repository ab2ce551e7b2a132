//! `hookonce doubt`: ends what may have been applied or called, after a restore.

use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::orders::{self, OrderKind};

pub(crate) async fn run(arguments: orders::OrderArguments) -> Result<Exit, Failure> {
    let kind = OrderKind { operation: Operation::Doubt, accept_duplicate: false, accept_other_body: false, scan: None };
    Box::pin(orders::run(arguments, kind)).await
}
