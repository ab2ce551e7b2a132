//! Counts what the tables hold. It trusts neither the senders' answers nor the functions' logs.

use std::collections::BTreeSet;

use hookonce_protocol::call::Unavailable;
use hookonce_protocol::invariant::{self, fact_violation, surplus_effects};
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_runtime::aws::DynamoStore;
use hookonce_worker::handlers::COUNTED;

use crate::samples::Expected;

/// What the tables hold at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Census {
    /// Expected events whose effect is in the domain table.
    pub(crate) applied: usize,
    /// Effects that were applied more than once.
    pub(crate) applied_twice: usize,
    /// Expected events that have no effect and are not dead. They wait until the demo's time is over, or for ever.
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
pub(crate) async fn take(store: &DynamoStore, expected: &[Expected], timing: &Timing) -> Result<Census, Unavailable> {
    let records = store.scan(Table::Inbox).await?;
    let domain = store.scan(Table::Domain).await?;
    Ok(count(&records, &domain, expected, timing))
}

fn count(records: &[Item], domain: &[Item], expected: &[Expected], timing: &Timing) -> Census {
    let records: Vec<_> = records.iter().map(Record::decode).collect();
    let readable: Vec<_> = records.iter().flatten().collect();
    let standing = |status: Status| readable.iter().filter(|record| record.status == status).count();
    let violations = readable.iter().map(|record| invariant::violations(record, timing).len()).sum::<usize>();
    let keys: BTreeSet<_> = domain.iter().filter_map(key).collect();
    let stands = |event: &&Expected| usize::from(keys.contains(event.domain_key.as_str()));
    let applied = expected.iter().map(|event| stands(&event)).sum();
    let missing = expected.iter().filter(|event| fact_violation(&stands(event), &(1..=1)).is_some()).count();
    let dead = standing(Status::Dead);
    Census {
        applied,
        applied_twice: surplus_effects(&domain.iter().collect::<Vec<_>>(), &COUNTED),
        // A dead record keeps its payload for an operator, so its event is not lost. One that still waits is: nothing else in
        // the demo's table would tell of it. The tests' checker looks at any time, and counts those apart.
        lost: missing.saturating_sub(dead),
        dead,
        pending: standing(Status::Pending),
        violations: violations + (records.len() - readable.len()),
    }
}

fn key(item: &Item) -> Option<&str> {
    item.get(PARTITION_KEY).and_then(Value::as_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str, fields: &[(&str, i64)]) -> Item {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        fields.chain([(PARTITION_KEY.to_owned(), Value::from(key))]).collect()
    }

    #[test]
    fn an_event_without_an_effect_is_lost() {
        let expected = ["a", "b"].map(|fact| Expected { domain_key: format!("#dk#s#payments#{fact}") });
        let census = count(&[], &[item("#dk#s#payments#a", &[])], &expected, &Timing::standard());
        assert_eq!((census.applied, census.lost), (1, 1));
    }
}
