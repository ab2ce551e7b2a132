//! The checker: judges by what is in the tables at the end, and by nothing else.

use std::collections::BTreeMap;

use hookonce_examples::COUNTED;
use hookonce_protocol::invariant::{Counted, FactCount, surplus_changes};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::{AppliedFact, DOMAIN_KEY_PREFIX};
use hookonce_protocol::record::{DeadReason, Found, Outcome, Record, Status, attribute};

/// What the effects of the tests' own handler leave behind.
const COUNTING: Counted =
    Counted { counter: "#count#", attribute: "applied", trace: "#counting#", by_domain_key: true };

/// Both tables as read, and everything that was wrong.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) records: BTreeMap<String, Record>,
    pub(crate) domain: BTreeMap<String, Item>,
    broken: Vec<String>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    /// Expected facts that stand, each as often as it is expected.
    pub(crate) applied: usize,
    /// Effects beyond one for each domain key.
    pub(crate) applied_twice: usize,
    /// Expected facts that do not stand and that no record owes any more.
    pub(crate) lost: usize,
    /// Records that are dead.
    pub(crate) dead: usize,
    /// Records that still wait for their effect.
    pub(crate) owed: usize,
    /// Everything that contradicts an invariant.
    pub(crate) broken: Vec<String>,
}

impl Verdict {
    /// This many facts applied, and nothing wrong.
    pub(crate) fn applied(applied: usize) -> Self {
        Self { applied, ..Self::default() }
    }

    /// The same with dead records.
    pub(crate) fn dead(self, dead: usize) -> Self {
        Self { dead, ..self }
    }

    /// Whether a checker would sound the alarm.
    pub(crate) fn is_alarming(&self) -> bool {
        self.applied_twice > 0 || self.lost > 0 || !self.broken.is_empty()
    }
}

impl Tables {
    /// Reads the items of both tables. `broken` is what was already found wrong.
    pub(crate) fn open(inbox: &[Item], domain: Vec<Item>, broken: Vec<String>) -> Self {
        let mut tables = Self { records: BTreeMap::new(), domain: BTreeMap::new(), broken };
        for item in inbox {
            match Found::from_item(Some(item)) {
                Found::Record(record) => drop(tables.records.insert(record.key.as_str().to_owned(), *record)),
                Found::Nothing | Found::Unreadable(_) => tables.broken.push(format!("not a record: {item:?}")),
            }
        }
        tables.domain = domain.into_iter().map(|item| (text(&item, "pk").to_owned(), item)).collect();
        tables
    }

    /// The record whose key ends like this.
    pub(crate) fn record(&self, end: &str) -> &Record {
        let mut found = self.records.values().filter(|record| record.key.as_str().ends_with(end));
        let record = found.next().unwrap_or_else(|| panic!("no record ends in {end}: {:?}", self.records.keys()));
        assert!(found.next().is_none(), "several records end in {end}");
        record
    }

    /// Domain items whose key contains this.
    pub(crate) fn items<'a>(&'a self, part: &'a str) -> impl Iterator<Item = (&'a String, &'a Item)> {
        let items = self.domain.iter().filter(|(key, _)| !key.starts_with(DOMAIN_KEY_PREFIX));
        items.filter(move |(key, _)| key.contains(part))
    }

    /// A whole number of a domain item; zero where it does not exist.
    pub(crate) fn number(&self, key: &str, attribute: &str) -> i64 {
        self.domain.get(key).and_then(|item| item.get(attribute)).and_then(Value::as_i64).unwrap_or(0)
    }

    /// Compares the tables with the facts that should be applied. A fact that is named twice should be applied twice,
    /// because an operator forced it.
    pub(crate) fn verdict<F: AsRef<str>>(&self, facts: &[F]) -> Verdict {
        let (dead, owed) = (self.count(Status::Dead), self.count(Status::Pending));
        // What is still owed, or kept for an operator, is not lost. The demo's census calls lost what is owed in the
        // end.
        let count = FactCount::of(self.domain.values(), facts.iter().map(AsRef::as_ref), owed + dead);
        let counted = [&COUNTED[..], &[COUNTING]].concat();
        let surplus = surplus_changes(&self.domain.values().collect::<Vec<_>>(), &counted);
        let unexpected = count.unexpected.iter().map(|fact| format!("the fact {fact} is not expected"));
        Verdict {
            applied: count.applied,
            applied_twice: count.doubled + surplus,
            lost: count.lost,
            dead,
            owed,
            broken: self.broken.iter().cloned().chain(unexpected).chain(self.contradictions()).collect(),
        }
    }

    fn count(&self, status: Status) -> usize {
        self.records.values().filter(|record| record.status == status).count()
    }

    /// Contradictions between records and domain keys.
    fn contradictions(&self) -> Vec<String> {
        let keys: Vec<_> = self.domain.values().filter_map(AppliedFact::of).collect();
        let mut broken = Vec::new();
        for key in &keys {
            // An expired record is gone before its domain key.
            let Some(record) = self.records.get(key.record) else { continue };
            let applied = record.status == Status::Processed && record.outcome == Some(Outcome::Applied);
            // As after a restore, which the record says.
            let is_marked = applied || record.dead_reason == Some(DeadReason::Rewound);
            if record.generation < key.generation || (record.generation == key.generation && !is_marked) {
                broken.push(format!("{}: the effect of {} stands, the record says otherwise", key.record, key.fact));
            }
        }
        for record in self.records.values().filter(|record| record.outcome == Some(Outcome::Applied)) {
            let stands =
                |key: &AppliedFact<'_>| key.record == record.key.as_str() && key.generation == record.generation;
            if !keys.iter().any(stands) {
                broken.push(format!("{}: it says APPLIED and no domain key stands for it", record.key));
            }
        }
        let expiry = |(key, item): &(&String, &Item)| key.starts_with('#') != item.contains_key(attribute::EXPIRES_AT);
        for (key, _) in self.domain.iter().filter(expiry) {
            broken.push(format!("{key}: items of hookonce itself expire, and no others"));
        }
        let counted = |part: &str| self.items(part).count();
        let entries: i64 = self.items("#balance#").map(|(key, _)| self.number(key, "entries")).sum();
        if usize::try_from(entries).unwrap() < counted("#ledger#") {
            broken.push("a ledger entry is in no balance".to_owned());
        }
        broken
    }
}

/// The text of an attribute, empty where there is none.
fn text<'a>(item: &'a Item, attribute: &str) -> &'a str {
    item.get(attribute).and_then(Value::as_text).unwrap_or_default()
}
