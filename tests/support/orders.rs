//! What an operator of the tests orders.

use hookonce_protocol::operator::Order;
use hookonce_protocol::trail::Operation;

/// An order of Ada's, who accepts no risk.
pub(crate) fn order(operation: Operation, reason: &str) -> Order {
    Order {
        operation,
        accept_duplicate: false,
        accept_other_body: false,
        by: "ada".to_owned(),
        reason: reason.to_owned(),
    }
}
