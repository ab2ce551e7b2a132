//! Records by their keys.

use std::pin::pin;

use futures::StreamExt as _;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{Found, Record};
use hookonce_runtime::aws::DynamoStore;
use hookonce_runtime::port::Store as _;

use super::filter::Filter;
use super::stream::{READS_AT_ONCE, Read, select};
use crate::failure::Failure;
use crate::target::store_unavailable;

/// The keys that a record may have, by its endpoint and the key that `list` and the HTTP answer show.
///
/// # Errors
/// [`Failure`] when it is no endpoint's id.
pub(crate) fn candidates(endpoint: &str, key: &str) -> Result<Vec<RecordKey>, Failure> {
    let endpoint = &EndpointId::parse(endpoint).map_err(|error| {
        Failure::usage(error.to_string(), "take the endpoint and the key as `hookonce list` prints them")
    })?;
    let candidates = [
        RecordKey::parse(&format!("in#{endpoint}#{key}")),
        Some(RecordKey::delivery(endpoint, key)),
        Some(RecordKey::event(endpoint, key)),
    ];
    Ok(candidates.into_iter().flatten().collect())
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

/// The records of these keys, without their bodies.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn states(
    store: &DynamoStore,
    keys: Vec<RecordKey>,
) -> Result<Vec<(RecordKey, Option<Record>)>, Failure> {
    let found = store.read_heads(&keys).await;
    let record = |found: Result<Found, Unavailable>| match found.map_err(|_| store_unavailable())? {
        Found::Record(record) => Ok(Some(*record)),
        Found::Nothing | Found::Unreadable(_) => Ok(None),
    };
    keys.into_iter().zip(found).map(|(key, found)| Ok((key, record(found)?))).collect()
}

/// The records that a batch created for its events: all have its moment of receipt. An event that had a record before
/// is not among them, because a closed batch has no body that would name it.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn created_by(store: &DynamoStore, batch: &Record) -> Result<Vec<Record>, Failure> {
    let mut created = Vec::new();
    let at = batch.received_at;
    let Ok(endpoint) = EndpointId::parse(batch.key.parts().0) else { return Ok(created) };
    let mut filter = Filter::received(&endpoint, at);
    filter.until = Some(at);
    let mut pages = pin!(select(store, &filter, READS_AT_ONCE, Read::Heads));
    while let Some(page) = pages.next().await.transpose()? {
        created.extend(page.records.into_iter().filter(|record| record.parent.as_ref() == Some(&batch.key)));
    }
    created.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(created)
}
