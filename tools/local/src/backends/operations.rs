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
        "BatchGetItem" => run(request, |input| db.batch_get_item(input)),
        "BatchWriteItem" => run(request, |input| db.batch_write_item(input)),
        "CreateTable" => run(request, |input| db.create_table(input)),
        "DeleteItem" => run(request, |input| db.delete_item(input)),
        "DeleteTable" => run(request, |input| db.delete_table(input)),
        "DescribeTable" => run(request, |input| db.describe_table(input)),
        "DescribeTimeToLive" => run(request, |input| db.describe_time_to_live(input)),
        "GetItem" => run(request, |input| db.get_item(input)),
        "ListTables" => run(request, |input| db.list_tables(input)),
        "PutItem" => run(request, |input| db.put_item(input)),
        "Query" => run(request, |input| db.query(input)),
        "Scan" => run(request, |input| db.scan(input)),
        "TransactGetItems" => run(request, |input| db.transact_get_items(input)),
        "TransactWriteItems" => run(request, |input| db.transact_write_items(input)),
        "UpdateItem" => run(request, |input| db.update_item(input)),
        "UpdateTimeToLive" => run(request, |input| db.update_time_to_live(input)),
        _ => Err(DynoxideError::UnsupportedCapability("the embedded DynamoDB does not have this operation".to_owned())),
    }
}

fn run<Q: DeserializeOwned, A: Serialize>(request: &[u8], call: impl FnOnce(Q) -> Result<A>) -> Result<String> {
    let input = serde_json::from_slice(request).map_err(|error| unreadable(&error.to_string()))?;
    serde_json::to_string(&call(input)?).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

fn unreadable(error: &str) -> DynoxideError {
    let marked = error.split_once(MARKER).and_then(|(_, rest)| rest.split_once(':'));
    DynoxideError::ValidationException(marked.map_or(error, |(_, text)| text).to_owned())
}
