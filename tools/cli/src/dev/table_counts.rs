//! Counts what the tables hold. It trusts neither the senders' answers nor the functions' logs.

use hookonce_aws::DynamoStore;
use hookonce_examples::COUNTED;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::invariant::{self, FactCount, surplus_changes};
use hookonce_protocol::item::Item;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;

/// What the tables hold at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TableCounts {
    /// Expected events that the domain table has as applied.
    pub(crate) applied: usize,
    /// Events that were applied more than once.
    pub(crate) applied_twice: usize,
    /// Expected events that were not applied and are not dead. They wait until the demo's time is over, or for ever.
    pub(crate) lost: usize,
    /// Dead records.
    pub(crate) dead: usize,
    /// Records that still wait for their handler.
    pub(crate) pending: usize,
    /// Records that break an invariant of the protocol.
    pub(crate) violations: usize,
}

/// Reads both tables and counts.
///
/// # Errors
/// [`Unavailable`] when the store did not answer.
pub(crate) async fn take(
    store: &DynamoStore,
    expected: &[String],
    timing: &Timing,
) -> Result<TableCounts, Unavailable> {
    let records = store.scan(Table::Inbox).await?;
    let domain = store.scan(Table::Domain).await?;
    Ok(count(&records, &domain, expected, timing))
}

fn count(records: &[Item], domain: &[Item], expected: &[String], timing: &Timing) -> TableCounts {
    let records: Vec<_> = records.iter().map(Record::decode).collect();
    let readable: Vec<_> = records.iter().flatten().collect();
    let standing = |status: Status| readable.iter().filter(|record| record.status == status).count();
    let violations = readable.iter().map(|record| invariant::violations(record, timing).len()).sum::<usize>();
    let dead = standing(Status::Dead);
    // A dead record keeps its payload for an operator, so its event is not lost. The event of a record that still waits
    // counts as lost: no other row of the demo's table would show it. The tests' checker may look before the end, and
    // counts such events separately.
    let facts = FactCount::of(domain, expected.iter().map(String::as_str), dead);
    TableCounts {
        applied: facts.applied,
        applied_twice: facts.doubled + surplus_changes(&domain.iter().collect::<Vec<_>>(), &COUNTED),
        lost: facts.lost,
        dead,
        pending: standing(Status::Pending),
        violations: violations + (records.len() - readable.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_an_effect_is_lost() {
        let counts = count(&[], &[], &["s#payments#a".to_owned()], &Timing::standard());
        assert_eq!((counts.applied, counts.lost), (0, 1));
    }
}
