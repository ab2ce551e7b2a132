//! Carries out an operator's order on one record.

use hookonce_protocol::operator::{Order, Refusal, Verdict, carry_out};
use hookonce_protocol::record::Record;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::trail::{Trail, trail_item};

use crate::ambient::Ambient;
use crate::drive::duration;
use crate::port::Store;

/// How often an order is tried when another transaction is in its way.
const ATTEMPTS_MAX: u32 = 4;

/// The bound of the first pause between two tries.
const PAUSE: Millis = Millis(100);

/// The result of an order on one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operated {
    /// It was carried out, and the trail says so.
    Done,
    /// The protocol refuses it. Nothing was written.
    Refused(Refusal),
    /// The record changed after it was read: another operator or the worker was first. Nothing was written.
    Overtaken,
    /// The store refuses the order for good, or other transactions on the record were in its way each time. Nothing was
    /// written. Other records are not concerned.
    Blocked,
    /// The store did not answer. The order was carried out or not; it is safe to repeat it.
    Unavailable,
}

/// Reads the trails of these records, in order. `None` where the store did not answer.
pub async fn trails<S: Store>(store: &S, records: &[&Record]) -> Option<Vec<Trail>> {
    let items: Vec<_> = records.iter().map(|record| trail_item(&record.key).into()).collect();
    let found = store.read_items(&items).await.ok()?;
    Some(items.iter().map(|item| Trail::decode(found.item(item))).collect())
}

/// Carries out an order on a record as it was read. The record's change and the entry of its trail are one transaction.
pub async fn operate<S: Store, A: Ambient>(
    store: &S,
    record: &Record,
    order: &Order,
    timing: &Timing,
    ambient: &A,
) -> Operated {
    // The same for every try, so that the trail tells whether one of them was carried out.
    let id = ambient.claim_id().0;
    for attempt in 0..ATTEMPTS_MAX {
        let Some(trail) = trail(store, record).await else { return Operated::Unavailable };
        if trail.has(&id) {
            return Operated::Done;
        }
        let moment = ambient.moment();
        let writes = match carry_out(record, &trail, order, &id, timing, moment) {
            Ok(writes) => writes,
            Err(refusal) => return Operated::Refused(refusal),
        };
        let verdict = Verdict::from(store.commit(&writes).await);
        let otherwise = match verdict {
            Verdict::Done => return Operated::Done,
            Verdict::Overtaken => Operated::Overtaken,
            Verdict::Invalid => Operated::Blocked,
            Verdict::Unknown => Operated::Unavailable,
            Verdict::Transient => {
                tokio::time::sleep(duration(moment.uniform(Millis(PAUSE.0 << attempt)))).await;
                continue;
            }
        };
        return match self::trail(store, record).await {
            Some(trail) if trail.has(&id) => Operated::Done,
            Some(_) | None => otherwise,
        };
    }
    Operated::Blocked
}

async fn trail<S: Store>(store: &S, record: &Record) -> Option<Trail> {
    trails(store, &[record]).await?.pop()
}
