//! The effects that wait for a destination, or died of it.

use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::record::{Found, Status, dead_shard, effect_shard};
use hookonce_protocol::timing::SHARDS;
use hookonce_runtime::aws::{DynamoStore, IndexQuery};
use hookonce_runtime::port::Store as _;

use crate::failure::Failure;
use crate::target::store_unavailable;

/// The most index entries that are looked through. The index has those of all destinations.
const ENTRIES_MAX: usize = 20_000;

/// How many entries are looked through at a time.
const PAGE: usize = 500;

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
    for shard in 0..SHARDS {
        for partition in [effect_shard(shard), dead_shard(shard)] {
            let (query, mut from) = (IndexQuery::Due { partition }, None);
            loop {
                let page = store.index_page(&query, from, PAGE).await.map_err(|_| store_unavailable())?;
                entries += page.keys.len();
                let effects: Vec<_> = page.keys.into_iter().filter(|key| key.kind() == RecordKind::Effect).collect();
                for found in store.read_heads(&effects).await {
                    let Found::Record(record) = found.map_err(|_| store_unavailable())? else { continue };
                    let Some(part) = record.effect.as_ref().filter(|part| part.destination == *id) else { continue };
                    match record.status {
                        Status::Pending => {
                            waiting.pending += 1;
                            waiting.in_doubt += usize::from(part.first_call_at.is_some());
                        }
                        Status::Dead => waiting.dead += 1,
                        Status::Processed | Status::Discarded => {}
                    }
                }
                from = page.next;
                if from.is_none() {
                    break;
                }
                if entries > ENTRIES_MAX {
                    return Ok(Waiting { at_least: true, ..waiting });
                }
            }
        }
    }
    Ok(waiting)
}
