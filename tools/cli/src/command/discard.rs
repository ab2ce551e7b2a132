//! `hookonce discard`: gives dead records up.

use hookonce_protocol::trail::Operation;

use crate::failure::{Exit, Failure};
use crate::orders;

pub(crate) async fn run(arguments: orders::OrderArguments) -> Result<Exit, Failure> {
    orders::run(arguments, Operation::Discard, false).await
}
