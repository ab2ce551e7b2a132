//! What the change of one record may be. No other edge exists.

use hookonce_protocol::record::{Record, Status};

use super::rule::Rule;
use super::view::ItemView;

/// What a change of a record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Edge {
    /// The rule that it breaks.
    pub(crate) broken: Option<Rule>,
    /// An operator's force was accepted.
    pub(crate) forced: bool,
    /// An operator accepted a second effect.
    pub(crate) pardoned: bool,
    /// Its next time of sending moved into the future.
    pub(crate) rearmed: bool,
}

impl Edge {
    /// Judges a change.
    pub(crate) fn of(old: Option<&ItemView>, new: Option<&ItemView>) -> Self {
        let broken = |rule| Self { broken: Some(rule), ..Self::default() };
        let Some(new) = new else { return broken(Rule::Edge) };
        let Some(after) = &new.record else { return broken(Rule::Ghost) };
        if new.invalid {
            return broken(Rule::Record);
        }
        match old.map(|old| &old.record) {
            None | Some(None) => {
                let fresh = after.generation == 0 && matches!(after.status, Status::Pending | Status::Dead);
                if fresh { Self::default() } else { broken(Rule::Edge) }
            }
            Some(Some(before)) => Self::between(before, after),
        }
    }

    fn between(before: &Record, after: &Record) -> Self {
        let same = before.generation == after.generation;
        let legal = match (before.status, after.status) {
            (Status::Pending, Status::Pending | Status::Processed | Status::Dead)
            | (Status::Dead, Status::Pending | Status::Discarded)
            | (Status::Processed, Status::Processed)
            | (Status::Discarded, Status::Discarded) => same,
            (Status::Dead, Status::Dead) => same && before.dead_reason == after.dead_reason,
            (Status::Processed, Status::Pending) => after.generation == before.generation + 1,
            (Status::Pending | Status::Processed | Status::Dead | Status::Discarded, _) => false,
        };
        let counted = !same || after.attempts >= before.attempts || (after.attempts == 0 && after.resends == 0);
        let broken = if before.claim_id != after.claim_id || after.generation < before.generation {
            Some(Rule::Identity)
        } else if !legal {
            Some(Rule::Edge)
        } else if before.body != after.body {
            Some(Rule::Lost)
        } else if !counted {
            Some(Rule::Attempts)
        } else {
            None
        };
        Self {
            broken,
            forced: after.generation == before.generation + 1,
            pardoned: same && after.accept_duplicate && !before.accept_duplicate,
            rearmed: after.status == Status::Pending && due(after) > due(before),
        }
    }
}

fn due(record: &Record) -> Option<i64> {
    record.due.as_ref().map(|due| due.at.0)
}
