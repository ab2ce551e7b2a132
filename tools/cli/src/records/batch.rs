//! The records of a batch's events.

use std::pin::pin;

use futures::StreamExt as _;
use hookonce_aws::DynamoStore;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::record::Record;

use super::filter::Filter;
use super::stream::{READS_AT_ONCE, Read, select};
use crate::failure::Failure;

/// The records that a batch created for its events: all have its moment of receipt. An event that had a record before
/// is not among them, because a closed batch has no body that would name it. Once more than `max` are found, no further
/// page is read.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn created_by(store: &DynamoStore, batch: &Record, max: usize) -> Result<Vec<Record>, Failure> {
    let mut created = Vec::new();
    let at = batch.received_at;
    let Ok(endpoint) = EndpointId::parse(batch.key.parts().0) else { return Ok(created) };
    let mut filter = Filter::received(&endpoint, at);
    filter.until = Some(at);
    let mut pages = pin!(select(store, &filter, READS_AT_ONCE, Read::Heads));
    while let Some(page) = pages.next().await.transpose()? {
        created.extend(page.records.into_iter().filter(|record| record.parent.as_ref() == Some(&batch.key)));
        if created.len() > max {
            break;
        }
    }
    created.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(created)
}
