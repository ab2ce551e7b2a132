//! `hookonce discard`: gives dead records up.

use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::orders::{self, OrderKind};

pub(crate) async fn run(arguments: orders::OrderArguments) -> Result<Exit, Failure> {
    Box::pin(orders::run(
        arguments,
        OrderKind { operation: Operation::Discard, accept_duplicate: false, accept_other_body: false, scan: None },
    ))
    .await
}
