//! A record by its whole key.

use hookonce_aws::DynamoStore;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{Found, Record};
use hookonce_runtime::port::Store as _;

use crate::failure::Failure;
use crate::stack::target::store_unavailable;

/// The keys that a record may have, by its endpoint and the key that `list` and the HTTP answer show.
///
/// # Errors
/// [`Failure`] when it is no endpoint's id.
pub(crate) fn candidates(endpoint: &str, key: &str) -> Result<Vec<RecordKey>, Failure> {
    let endpoint = &EndpointId::parse(endpoint).map_err(|error| {
        Failure::usage(error.to_string(), "take the endpoint and the key as `hookonce list` prints them")
    })?;
    Ok(candidates_at(endpoint, key))
}

/// The keys that a record of this endpoint may have.
pub(super) fn candidates_at(endpoint: &EndpointId, key: &str) -> Vec<RecordKey> {
    let candidates = [
        // As logs, headers and pages have it: with its endpoint.
        RecordKey::parse(key).filter(|whole| whole.parts().0 == endpoint.as_str()),
        RecordKey::parse(&format!("in#{endpoint}#{key}")),
        Some(RecordKey::delivery(endpoint, key)),
        Some(RecordKey::event(endpoint, key)),
    ];
    let mut keys: Vec<_> = candidates.into_iter().flatten().collect();
    // The key of a delivery is that of its id.
    keys.dedup();
    keys
}

/// Finds a record by its endpoint and the key that `list` and the HTTP answer show.
///
/// # Errors
/// [`Failure`] when it is no endpoint's id, the store does not answer, or another version wrote the record.
pub(crate) async fn find(store: &DynamoStore, endpoint: &str, key: &str) -> Result<Option<Record>, Failure> {
    let keys = candidates(endpoint, key)?;
    for found in store.read_each(&keys).await {
        if let Some(record) = readable(found)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The record that was found.
///
/// # Errors
/// [`Failure`] when the store did not answer, or another version wrote the record.
pub(crate) fn readable(found: Result<Found, Unavailable>) -> Result<Option<Record>, Failure> {
    match found.map_err(|_| store_unavailable())? {
        Found::Record(record) => Ok(Some(*record)),
        Found::Nothing => Ok(None),
        Found::Unreadable(unreadable) => {
            Err(Failure::usage(unreadable.to_string(), "use the hookonce version that wrote this record"))
        }
    }
}
