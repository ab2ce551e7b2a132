//! The effects that wait for a destination, or died of it.

use std::pin::pin;

use futures::StreamExt as _;
use hookonce_aws::DynamoStore;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::record::{Record, Status};

use crate::failure::Failure;
use crate::records::{Filter, READS_AT_ONCE, Read, select};

/// The most index entries that are looked through. The index has those of all destinations.
const ENTRIES_MAX: usize = 20_000;

/// How many effects there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Effects that are still to be called, or were called and are in doubt.
    pub(crate) pending: usize,
    /// Of those, the ones that may have been called already.
    pub(crate) in_doubt: usize,
    /// Effects that a person may let go again.
    pub(crate) dead: usize,
    /// Whether there were too many to look through.
    pub(crate) at_least: bool,
}

/// Counts the effects of a destination. The index may be a moment behind.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn waiting(store: &DynamoStore, id: &DestinationId) -> Result<Waiting, Failure> {
    let (mut waiting, mut entries) = (Waiting::default(), 0);
    for status in [Status::Pending, Status::Dead] {
        let filter = Filter::effects(id, status);
        let mut pages = pin!(select(store, &filter, READS_AT_ONCE, Read::Heads));
        while let Some(page) = pages.next().await.transpose()? {
            if entries > ENTRIES_MAX {
                return Ok(Waiting { at_least: true, ..waiting });
            }
            entries += page.examined;
            let called = |record: &&Record| record.effect.as_ref().is_some_and(|it| it.first_call_at.is_some());
            if status == Status::Dead {
                waiting.dead += page.records.len();
            } else {
                waiting.pending += page.records.len();
                waiting.in_doubt += page.records.iter().filter(called).count();
            }
        }
    }
    Ok(waiting)
}
