//! Which plans were answered, by the handlers' own notes, and which were committed, by the domain table.
//!
//! The handlers are `troubled.py` and `troubled.mjs`: every plan holds an item of its own call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::tables::text;
use crate::process::{Outcome, read};

/// A line of a handler's notes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Note {
    Plan { fact: String, call: String, slow: bool },
    Kill { killed_in: Round },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Round {
    Reads,
    Plan,
}

/// The calls that planned for a fact.
type Calls = BTreeMap<String, BTreeSet<String>>;

/// What the handlers answered.
#[derive(Default)]
pub(crate) struct Answers {
    by_fact: Calls,
    /// Plans that came later than the worker waits.
    pub(crate) late: usize,
    /// Handlers that killed their process instead of asking for items.
    pub(crate) killed_in_reads: usize,
    /// Handlers that killed their process instead of answering with a plan.
    pub(crate) killed_in_plan: usize,
}

impl Answers {
    /// Reads the notes. A process that was killed may have left half of a line.
    pub(crate) fn noted(path: &Path) -> Outcome<Self> {
        let mut answers = Self::default();
        for note in read(path)?.lines().filter_map(|line| serde_json::from_str::<Note>(line).ok()) {
            match note {
                Note::Plan { fact, call, slow } => {
                    answers.by_fact.entry(fact).or_default().insert(call);
                    answers.late += usize::from(slow);
                }
                Note::Kill { killed_in: Round::Reads } => answers.killed_in_reads += 1,
                Note::Kill { killed_in: Round::Plan } => answers.killed_in_plan += 1,
            }
        }
        Ok(answers)
    }

    /// How many facts got several answers. No two are equal.
    pub(crate) fn differing(&self) -> usize {
        self.by_fact.values().filter(|calls| calls.len() > 1).count()
    }

    /// How many facts do not have exactly one committed plan, which was one of the answers. Facts without an answer
    /// count, too.
    pub(crate) fn violations(&self, committed: &Calls) -> usize {
        let facts: BTreeSet<_> = self.by_fact.keys().chain(committed.keys()).collect();
        let none = BTreeSet::new();
        let is_one_of_its_answers = |fact: &&String| {
            let committed = committed.get(*fact).unwrap_or(&none);
            committed.len() == 1 && committed.is_subset(self.by_fact.get(*fact).unwrap_or(&none))
        };
        facts.len() - facts.iter().filter(|fact| is_one_of_its_answers(fact)).count()
    }
}

/// The plans that were committed: the items of their calls in the domain table.
pub(crate) fn committed(domain: &[Value]) -> Calls {
    let mut calls = Calls::new();
    for item in domain.iter().filter(|item| !text(item, "answered_fact").is_empty()) {
        calls.entry(text(item, "answered_fact").to_owned()).or_default().insert(text(item, "answered_by").to_owned());
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::{Answers, Calls};

    fn calls(facts: &[(&str, &[&str])]) -> Calls {
        let call = |call: &&str| (*call).to_owned();
        facts.iter().map(|(fact, calls)| ((*fact).to_owned(), calls.iter().map(call).collect())).collect()
    }

    #[test]
    fn each_fact_has_one_committed_plan_and_it_was_answered() {
        let answers = Answers { by_fact: calls(&[("a", &["1", "2"]), ("b", &["3"])]), ..Answers::default() };
        assert_eq!(answers.differing(), 1);
        assert_eq!(answers.violations(&calls(&[("a", &["2"]), ("b", &["3"])])), 0);
        let violated: [&[(&str, &[&str])]; 4] = [
            &[("a", &["1", "2"]), ("b", &["3"])],
            &[("a", &["1"])],
            &[("a", &["1"]), ("b", &["2"])],
            &[("a", &["1"]), ("b", &["3"]), ("c", &["4"])],
        ];
        for committed in violated {
            assert_eq!(answers.violations(&calls(committed)), 1, "{committed:?}");
        }
    }
}
