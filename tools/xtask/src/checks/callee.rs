//! What the callee's table and the inbox table say together of the effects. Nothing that the product says of itself
//! counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::tables::text;
use crate::process::Outcome;

const KEYED: &str = "keyed";
const AT_MOST_ONCE: &str = "at_most_once";
const AT_LEAST_ONCE: &str = "at_least_once";

/// A call with this answer may be repeated in every class: the callee says that it did nothing.
const SAID_NOT_DONE: &str = "busy";

/// An effect, as the callee knows it: by the class of its destination, and the fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct EffectId {
    class: String,
    fact: String,
}

impl EffectId {
    fn new(class: &str, fact: &str) -> Self {
        Self { class: class.to_owned(), fact: fact.to_owned() }
    }

    /// The effect that this record is of, if it is of one. Its event `stripe#evt_000001b` reports `in_000001`.
    fn of(record: &Value) -> Option<Self> {
        let class = match text(record, "destination") {
            "receipts" => KEYED,
            "once" => AT_MOST_ONCE,
            "copies" => AT_LEAST_ONCE,
            _ => return None,
        };
        let (_, event) = text(record, "parent").rsplit_once("evt_")?;
        Some(Self::new(class, &format!("in_{}", event.get(..6)?)))
    }
}

/// A call, with the milliseconds since the epoch.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Call {
    #[serde(flatten)]
    effect: EffectId,
    key: String,
    sha256: String,
    answer: String,
    at: i64,
}

/// What the callee has noted, in the order in which it came.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Noted {
    pub(crate) starts: Vec<IgnoredAny>,
    pub(crate) calls: Vec<Call>,
    work: Vec<EffectId>,
    refused: Vec<IgnoredAny>,
}

/// What was recorded of a run.
#[derive(Debug, Clone)]
pub(crate) struct Count {
    /// How many events were delivered. Each reports a fact of its own.
    pub(crate) events: usize,
    pub(crate) noted: Noted,
    /// The inbox table.
    records: Vec<Value>,
    pub(crate) effects: BTreeMap<EffectId, Value>,
    /// The `keyed` effects that have outlived their callee's window, and since when.
    pub(crate) outlived: BTreeMap<EffectId, i64>,
}

/// A change to what was recorded.
type Fault<'a> = Box<dyn Fn(&mut Count) + 'a>;

impl Count {
    /// The load names effects that have outlived their window by the keys of their records.
    pub(crate) fn new(events: usize, noted: Noted, records: Vec<Value>, outlived: &BTreeMap<String, i64>) -> Self {
        let effects = records.iter().filter_map(|record| Some((EffectId::of(record)?, record.clone()))).collect();
        let since = |record| Some((EffectId::of(record)?, *outlived.get(text(record, "pk"))?));
        let outlived = records.iter().filter_map(since).collect();
        Self { events, noted, records, effects, outlived }
    }

    fn dead(&self) -> impl Iterator<Item = (&EffectId, &Value)> {
        self.effects.iter().filter(|(_, record)| text(record, "status") == "DEAD")
    }

    /// Effects that end so because nobody knows whether the callee did them.
    pub(crate) fn unknown(&self) -> usize {
        self.dead().filter(|(_, record)| text(record, "dead_reason") == "UNKNOWN_OUTCOME").count()
    }

    /// How often each class got each answer.
    pub(crate) fn answers(&self) -> BTreeMap<(&str, &str), usize> {
        let mut answers = BTreeMap::new();
        for call in &self.noted.calls {
            *answers.entry((call.effect.class.as_str(), call.answer.as_str())).or_default() += 1;
        }
        answers
    }

    /// Facts whose effect the callee has not done, and that no person is asked about, either.
    fn lost(&self, class: &str) -> usize {
        let done_or_dead: BTreeSet<_> = self.noted.work.iter().chain(self.dead().map(|(effect, _)| effect)).collect();
        let effects = (0..self.events).map(|number| EffectId::new(class, &format!("in_{number:06}")));
        effects.filter(|effect| !done_or_dead.contains(effect)).count()
    }

    fn calls_of(&self, class: &str) -> impl Iterator<Item = &Call> {
        self.noted.calls.iter().filter(move |call| call.effect.class == class)
    }

    /// Calls to `at_most_once` after one that may have been done.
    fn repeated(&self) -> usize {
        let (mut may_be_done, mut repeated) = (BTreeSet::new(), 0);
        for call in self.calls_of(AT_MOST_ONCE) {
            repeated += usize::from(may_be_done.contains(&call.effect));
            if call.answer != SAID_NOT_DONE {
                may_be_done.insert(&call.effect);
            }
        }
        repeated
    }

    /// The figures that must be zero.
    pub(crate) fn violations(&self) -> [(&'static str, usize); 4] {
        let work: Vec<_> = self.noted.work.iter().filter(|effect| effect.class == KEYED).collect();
        let is_outside = |call: &&Call| self.outlived.get(&call.effect).is_some_and(|since| call.at > *since);
        [
            ("keyed_doubled", work.len() - work.iter().collect::<BTreeSet<_>>().len()),
            ("keyed_lost", self.lost(KEYED)),
            ("at_most_once_repeated", self.repeated()),
            ("calls_outside_window", self.calls_of(KEYED).filter(is_outside).count()),
        ]
    }

    /// Figures that stay as they are when one fault of their kind is planted into this very run.
    pub(crate) fn unseen(&self) -> Outcome<Vec<&'static str>> {
        let lives = |effect: &&EffectId| effect.class == KEYED && self.dead().all(|(dead, _)| dead != *effect);
        let done = self.noted.work.iter().find(lives).ok_or("no keyed effect was done")?;
        let mut open = self.calls_of(AT_MOST_ONCE).filter(|call| call.answer != SAID_NOT_DONE);
        let open = open.next().ok_or("no call may have been done at most once")?;
        let faults: [Fault<'_>; 4] = [
            Box::new(|run| run.noted.work.push(done.clone())),
            Box::new(|run| run.noted.work.retain(|effect| effect != done)),
            Box::new(|run| run.noted.calls.push(open.clone())),
            Box::new(|run| run.outlived.extend([(done.clone(), 0)])),
        ];
        let figures = self.violations().into_iter().zip(faults);
        let is_unseen = |(figure, plant): ((&'static str, usize), Fault<'_>)| {
            let mut run = self.clone();
            plant(&mut run);
            let grows = run.violations().iter().any(|(name, count)| *name == figure.0 && *count > figure.1);
            (!grows).then_some(figure.0)
        };
        Ok(figures.filter_map(is_unseen).collect())
    }

    /// The different values of this field in the calls of each effect.
    fn by_effect<'a>(&'a self, of: impl Fn(&'a Call) -> &'a str) -> BTreeMap<&'a EffectId, BTreeSet<&'a str>> {
        let mut found = BTreeMap::<_, BTreeSet<_>>::new();
        for call in &self.noted.calls {
            found.entry(&call.effect).or_default().insert(of(call));
        }
        found
    }

    /// Every other violation, with its count.
    pub(crate) fn others(&self) -> Vec<(&'static str, usize)> {
        let (keys, contents) = (self.by_effect(|call| &call.key), self.by_effect(|call| &call.sha256));
        let several = |sets: &BTreeMap<_, BTreeSet<_>>| sets.values().filter(|set| set.len() > 1).count();
        let of_all = keys.values().flatten().collect::<BTreeSet<_>>().len();
        let is_explained = |effect: &EffectId| effect.class == AT_MOST_ONCE || self.outlived.contains_key(effect);
        let has_cause = |(effect, record): &(&EffectId, &Value)| {
            text(record, "dead_reason") == "UNKNOWN_OUTCOME" && is_explained(effect)
        };
        let with = |status| self.records.iter().filter(move |record| text(record, "status") == status);
        vec![
            ("calls whose signature the library refuses", self.noted.refused.len()),
            ("effects with two keys", several(&keys)),
            ("effects with two contents", several(&contents)),
            ("keys of two effects", keys.values().map(BTreeSet::len).sum::<usize>() - of_all),
            ("calls for what was not committed", keys.keys().filter(|key| !self.effects.contains_key(**key)).count()),
            ("at_least_once effects lost", self.lost(AT_LEAST_ONCE)),
            ("at_most_once effects lost", self.lost(AT_MOST_ONCE)),
            ("effects that are dead without a cause", self.dead().filter(|dead| !has_cause(dead)).count()),
            ("records that are not at rest", with("PENDING").count()),
            ("events that are dead", with("DEAD").filter(|record| EffectId::of(record).is_none()).count()),
        ]
    }
}
