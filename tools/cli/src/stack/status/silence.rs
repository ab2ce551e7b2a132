//! Endpoints that are silent: they took no delivery for longer than their documents expect. A duplicate shows that the
//! provider still calls.

use std::collections::BTreeMap;

use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};

use super::{Need, documents_of};
use crate::documents::Stored;
use crate::documents::endpoints::expect_every;
use crate::failure::Failure;
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::logs::last_taken;
use crate::stack::traffic::Traffic;

/// An endpoint that is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Silent {
    pub(crate) endpoint: String,
    /// Within how long its document expects a delivery.
    pub(crate) expect_every: Millis,
    /// When it last took one. `None` if it never did, or not within that time.
    pub(crate) last: Option<EpochMs>,
}

impl Silent {
    /// What is wrong, as a sentence without its end.
    pub(crate) fn sentence(&self, now: EpochMs) -> String {
        let Self { endpoint, expect_every, last } = self;
        let every = output::between(EpochMs(0), EpochMs(expect_every.0));
        let last = last.map_or_else(
            || "none came in that time".to_owned(),
            |at| format!("the last one came {}", output::ago(at, now)),
        );
        format!("the endpoint {endpoint} is silent: it expects a delivery every {every}, and {last}")
    }

    pub(super) fn need(&self, now: EpochMs) -> Need {
        let page = "docs/run/runbook.md#an-endpoint-is-silent";
        Need::new(format!("silent:{}", self.endpoint), self.sentence(now), "hookonce endpoint list", page)
            .about([("endpoint", &self.endpoint)])
    }
}

/// The endpoints that are silent, as [`silent_of`] says.
///
/// # Errors
/// As [`silent_of`] says.
pub(crate) async fn silence(stack: &Connection, now: EpochMs) -> Result<Option<Vec<Silent>>, Failure> {
    silent_of(stack, documents_of(stack).await, now).await
}

/// Which of these endpoints are silent. `None` where their documents are not known. A log on AWS is searched only if a document
/// expects deliveries.
///
/// # Errors
/// [`Failure`] when the documents could not be read, or expect deliveries, and the log does not say whether any came.
pub(super) async fn silent_of(
    stack: &Connection,
    documents: Result<Option<BTreeMap<EndpointId, Stored>>, Failure>,
    now: EpochMs,
) -> Result<Option<Vec<Silent>>, Failure> {
    let Some(documents) = documents? else { return Ok(None) };
    let expecting = |(id, stored): (EndpointId, Stored)| {
        let every = expect_every(&stored.document(&id).ok()?).ok()??;
        Some((id.to_string(), every, stored.changed_at))
    };
    let expecting: Vec<_> = documents.into_iter().filter_map(expecting).collect();
    let Some(longest) = expecting.iter().map(|(_, every, _)| *every).max() else {
        return Ok(Some(Vec::new()));
    };
    let taken = if let Some(deployed) = stack.deployed() {
        last_taken(deployed, now, longest).await?
    } else {
        let traffic = Traffic::of(&stack.folder);
        let last =
            |(id, ..): &(String, Millis, Option<EpochMs>)| Some((id.clone(), traffic.endpoint(id).last_taken()?));
        expecting.iter().filter_map(last).collect()
    };
    Ok(Some(silent(expecting, &taken, now)))
}

/// Those of the endpoints that took nothing for longer than they expect. The time begins again when a document changes,
/// so a new endpoint has its time.
fn silent(
    expecting: Vec<(String, Millis, Option<EpochMs>)>,
    taken: &BTreeMap<String, EpochMs>,
    now: EpochMs,
) -> Vec<Silent> {
    let silent = expecting.into_iter().filter_map(|(endpoint, expect_every, changed_at)| {
        let last = taken.get(&endpoint).copied();
        let is_silent = last.max(changed_at).is_none_or(|since| now.0 - since.0 > expect_every.0);
        is_silent.then_some(Silent { endpoint, expect_every, last })
    });
    silent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn an_endpoint_is_silent_once_neither_a_delivery_nor_a_change_is_as_young_as_expected() {
        let found = |last: Option<i64>, changed: Option<i64>| {
            let expecting = vec![("shop".to_owned(), Millis::hours(26), changed.map(|hours| EpochMs(hours * HOUR)))];
            let taken = last.map(|hours| ("shop".to_owned(), EpochMs(hours * HOUR))).into_iter().collect();
            silent(expecting, &taken, EpochMs(100 * HOUR)).len()
        };
        assert_eq!(found(Some(74), None), 0, "at the limit");
        assert_eq!(found(Some(73), None), 1);
        assert_eq!(found(None, None), 1, "never");
        assert_eq!(found(Some(1), Some(80)), 0, "the field is new");
        assert_eq!(found(Some(73), Some(73)), 1);
        assert_eq!(found(Some(80), Some(1)), 0);
    }
}
