//! The operations of the embedded DynamoDB, by their names on the wire.

use dynoxide::{Database, DynoxideError, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What stands in an error of dynoxide's readers before a text that DynamoDB answers.
const MARKER: &str = "VALIDATION";

/// Carries out an operation, and returns its answer as JSON.
///
/// # Errors
/// The answer of DynamoDB: also for an operation that it does not have, or that nobody needs here.
pub(super) fn carry_out(database: &Database, operation: &str, request: &[u8]) -> Result<String> {
    let db = database;
    match operation {
        "BatchGetItem" => run(request, |asked| db.batch_get_item(asked)),
        "BatchWriteItem" => run(request, |asked| db.batch_write_item(asked)),
        "CreateTable" => run(request, |asked| db.create_table(asked)),
        "DeleteItem" => run(request, |asked| db.delete_item(asked)),
        "DeleteTable" => run(request, |asked| db.delete_table(asked)),
        "DescribeTable" => run(request, |asked| db.describe_table(asked)),
        "DescribeTimeToLive" => run(request, |asked| db.describe_time_to_live(asked)),
        "GetItem" => run(request, |asked| db.get_item(asked)),
        "ListTables" => run(request, |asked| db.list_tables(asked)),
        "PutItem" => run(request, |asked| db.put_item(asked)),
        "Query" => run(request, |asked| db.query(asked)),
        "Scan" => run(request, |asked| db.scan(asked)),
        "TransactGetItems" => run(request, |asked| db.transact_get_items(asked)),
        "TransactWriteItems" => run(request, |asked| db.transact_write_items(asked)),
        "UpdateItem" => run(request, |asked| db.update_item(asked)),
        "UpdateTimeToLive" => run(request, |asked| db.update_time_to_live(asked)),
        _ => Err(DynoxideError::UnsupportedCapability("the embedded DynamoDB does not have this operation".to_owned())),
    }
}

fn run<Q: DeserializeOwned, A: Serialize>(request: &[u8], call: impl FnOnce(Q) -> Result<A>) -> Result<String> {
    let asked = serde_json::from_slice(request).map_err(|error| unreadable(&error.to_string()))?;
    serde_json::to_string(&call(asked)?).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

fn unreadable(error: &str) -> DynoxideError {
    let marked = error.split_once(MARKER).and_then(|(_, rest)| rest.split_once(':'));
    DynoxideError::ValidationException(marked.map_or(error, |(_, text)| text).to_owned())
}
