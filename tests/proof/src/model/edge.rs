//! What the change of one record means.

use hookonce_protocol::invariant::{IllegalStep, illegal_step};
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status};

use super::rule::Rule;
use super::view::ItemView;

/// What a change of a record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a change may mean, and several may hold")]
pub(crate) struct Edge {
    /// The rule that it breaks.
    pub(crate) broken: Option<Rule>,
    /// An operator's force was accepted.
    pub(crate) forced: bool,
    /// An operator accepted a second effect.
    pub(crate) duplicates_accepted: bool,
    /// It was brought back.
    pub(crate) revived: bool,
    /// It ended as IGNORED.
    pub(crate) ignored: bool,
    /// Its callee refused the effect.
    pub(crate) refused: bool,
    /// Its next time of sending moved into the future.
    pub(crate) rearmed: bool,
}

impl Edge {
    /// Judges a change.
    pub(crate) fn of(old: Option<&ItemView>, new: Option<&ItemView>) -> Self {
        let broken = |rule| Self { broken: Some(rule), ..Self::default() };
        let Some(new) = new else { return broken(Rule::Edge) };
        let Some(after) = &new.record else { return broken(Rule::NoRecord) };
        if new.invalid {
            return broken(Rule::Record);
        }
        match old.map(|old| &old.record) {
            None | Some(None) => Self { broken: illegal_step(None, after).map(rule), ..Self::default() },
            Some(Some(before)) => Self::between(before, after),
        }
    }

    fn between(before: &Record, after: &Record) -> Self {
        let same = before.generation == after.generation;
        Self {
            broken: illegal_step(Some(before), after).map(rule),
            forced: after.generation == before.generation + 1,
            duplicates_accepted: same && after.accept_duplicate && !before.accept_duplicate,
            revived: !same || before.retries != after.retries,
            ignored: before.status == Status::Pending && after.outcome == Some(Outcome::Ignored),
            refused: before.status == Status::Pending && after.dead_reason == Some(DeadReason::Refused),
            rearmed: after.status == Status::Pending && due(after) > due(before),
        }
    }
}

/// The rule that a step breaks.
fn rule(illegal: IllegalStep) -> Rule {
    match illegal {
        IllegalStep::Identity => Rule::Identity,
        IllegalStep::Edge => Rule::Edge,
        IllegalStep::Body => Rule::Lost,
        IllegalStep::Attempts => Rule::Attempts,
        IllegalStep::Pause => Rule::Early,
    }
}

fn due(record: &Record) -> Option<i64> {
    record.due.as_ref().map(|due| due.at.0)
}
