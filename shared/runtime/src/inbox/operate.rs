//! Carries out an operator's order on one record.

use hookonce_protocol::call::{Call, Reply};
use hookonce_protocol::operator::{Operated, Operator, Order};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::record::Record;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::trail::{Trail, trail_item};

use crate::ambient::Ambient;
use crate::inbox::drive::{Carry, drive, duration};
use crate::port::Store;

/// Reads the trails of these records, in order. `None` where the store did not answer.
pub async fn trails<S: Store>(store: &S, records: &[&Record]) -> Option<Vec<Trail>> {
    let items: Vec<_> = records.iter().map(|record| trail_item(&record.key).into()).collect();
    let found = store.read_items(&items).await.ok()?;
    Some(items.iter().map(|item| Trail::decode(found.item(item))).collect())
}

/// Carries out an order on a record as it was read.
pub async fn operate<S: Store, A: Ambient>(
    store: &S,
    record: &Record,
    order: &Order,
    timing: &Timing,
    ambient: &A,
) -> Operated {
    let first = Operator::start(record.clone(), order.clone(), ambient.claim_id().0, *timing);
    drive(first, &OrderCalls(store), ambient).await.output
}

/// The calls of an order. It sends nothing.
struct OrderCalls<'a, S>(&'a S);

impl<S: Store> Carry for OrderCalls<'_, S> {
    async fn carry(&self, call: Call) -> Reply {
        match call {
            Call::ReadTrail(key) => {
                let item: ItemRef = trail_item(&key).into();
                let found = self.0.read_items(std::slice::from_ref(&item)).await;
                Reply::Trail(found.map(|found| Trail::decode(found.item(&item))))
            }
            Call::ReadHeads(keys) => Reply::ReadHeads(self.0.read_heads(&keys).await),
            Call::Commit(writes) => Reply::Committed(self.0.commit(&writes).await),
            Call::Wait(length) => {
                tokio::time::sleep(duration(length)).await;
                Reply::Done
            }
            Call::Write(_)
            | Call::WriteBestEffort(_)
            | Call::WriteEach(_)
            | Call::Read(_)
            | Call::Send(_)
            | Call::SendEach(_)
            | Call::QueryDue(_)
            | Call::CountReceived { .. }
            | Call::Plan(_)
            | Call::Split(_)
            | Call::Terms(_)
            | Call::Deliver(_) => Reply::Done,
        }
    }
}
