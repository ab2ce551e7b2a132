//! The offline checker: compares what providers sent with the tables, once everything has come to rest.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::invariant::{FactViolation, fact_violation};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::{AppliedFact, RecordKind};
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status};
use hookonce_protocol::write::Table;

use super::callee::Callees;
use super::handler::{COUNT, EFFECT, LATER, OWN_KEY, OWN_TABLE, TOTAL, effects_planned, is_shared};
use super::invariants::{Violation, facts_of};
use super::world::{Inner, readable};
use crate::model::rule::Rule;

/// What the checker counted, in Jepsen's terms, by fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Facts that providers sent.
    pub facts: usize,
    /// Acknowledged, and applied once.
    pub ok: usize,
    /// Acknowledged, and neither applied nor kept for an operator.
    pub lost: usize,
    /// Applied more often than once plus the times that operators asked for.
    pub duplicated: usize,
    /// Applied although no genuine delivery carried it.
    pub unexpected: usize,
    /// Never acknowledged, but applied.
    pub recovered: usize,
    /// Kept dead, with their payload.
    pub dead: usize,
    /// Effects whose records are there at the end.
    pub effects: usize,
    /// Effects that a third party has confirmed.
    pub delivered: usize,
    /// Effects that are kept dead.
    pub effects_dead: usize,
}

impl Verdict {
    /// Adds another day.
    pub const fn add(&mut self, other: &Self) {
        self.facts += other.facts;
        self.ok += other.ok;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.unexpected += other.unexpected;
        self.recovered += other.recovered;
        self.dead += other.dead;
        self.effects += other.effects;
        self.delivered += other.delivered;
        self.effects_dead += other.effects_dead;
    }
}

/// Everything that is wrong, and the counts. It does not use `FactCount`, because it counts effects and not domain
/// keys, and knows for each fact who acknowledged it and which record keeps it.
pub fn check(inner: &Inner) -> (Verdict, BTreeSet<Violation>) {
    let mut state = FinalState::read(inner);
    let mut verdict = state.effect_counts;
    for fact in &inner.facts {
        let effects = state.effects(fact);
        let granted = inner.invariants.granted.get(fact).copied().unwrap_or(0);
        let kept = state.kept.contains(fact);
        verdict.facts += 1;
        verdict.dead += usize::from(kept && effects == 0);
        let excused = kept || state.ignored.contains(fact) || inner.invariants.given_up.contains(fact);
        let acknowledged = inner.acknowledged.contains(fact);
        match fact_violation(&effects, &(i64::from(acknowledged && !excused)..=1 + granted)) {
            Some(FactViolation::Lost) => {
                verdict.lost += 1;
                state.broken(Rule::Lost, fact);
            }
            Some(FactViolation::Doubled | FactViolation::Unexpected) => {
                verdict.duplicated += 1;
                state.broken(Rule::Doubled, fact);
            }
            None => {}
        }
        verdict.ok += usize::from(acknowledged && effects > 0);
        verdict.recovered += usize::from(!acknowledged && effects > 0);
    }
    for (fact, effects) in state.effects.clone() {
        if !inner.facts.contains(&fact) && fact_violation(&effects, &(0..=0)).is_some() {
            verdict.unexpected += 1;
            state.broken(Rule::NoRecord, &fact);
        }
    }
    state.check_totals();
    if !inner.restored.domain {
        state.check_committed(inner);
    }
    (verdict, state.violations)
}

/// The contents of the tables.
struct FinalState {
    /// How often each fact was applied.
    effects: BTreeMap<String, i64>,
    /// For each endpoint, how often its shared facts were applied, and what its total says about that.
    totals: BTreeMap<String, (i64, i64)>,
    /// Facts of records that are dead with their payload.
    kept: BTreeSet<String>,
    /// Facts that no handler wants, or that no route wanted when their record was looked at.
    ignored: BTreeSet<String>,
    /// How many effects the plans that were committed have, by fact.
    planned: BTreeMap<String, i64>,
    /// How they ended.
    effect_counts: Verdict,
    violations: BTreeSet<Violation>,
}

impl FinalState {
    fn read(inner: &Inner) -> Self {
        let domain = inner.tables.items(Table::Domain);
        let count = |item: &Item| item.get(COUNT).and_then(Value::as_i64);
        let ignored = inner.facts.iter().filter(|fact| fact.starts_with("ignored"));
        let mut state = Self {
            effects: BTreeMap::new(),
            totals: BTreeMap::new(),
            kept: BTreeSet::new(),
            ignored: ignored.cloned().collect(),
            planned: BTreeMap::new(),
            effect_counts: Verdict::default(),
            violations: inner.invariants.violations.clone(),
        };
        for (rule, effect) in &inner.callees.broken {
            state.broken(*rule, effect);
        }
        for (key, count) in domain.iter().filter_map(|(key, item)| Some((key, count(item)?))) {
            state.add(key, count, inner.config.effects);
        }
        for item in inner.tables.items(Table::Own(*OWN_TABLE)).values() {
            let fact = item.get(OWN_KEY).and_then(Value::as_text).unwrap_or_default().to_owned();
            *state.effects.entry(fact).or_default() += count(item).unwrap_or(0);
        }
        // Which generations of which record had their effect.
        let applied = domain.values().filter_map(AppliedFact::of);
        let owners: BTreeSet<_> = applied.map(|applied| (applied.record, applied.generation)).collect();
        for (key, item) in inner.tables.items(Table::Inbox) {
            match Record::decode(&readable(item)) {
                Ok(record) if record.effect.is_some() => state.check_effect(&record, &inner.callees),
                Ok(record) => state.check_record(&record, &owners, inner),
                Err(_) => state.broken(Rule::NoRecord, key),
            }
        }
        state
    }

    /// Takes in one item that counts: `endpoint#kind#name`.
    fn add(&mut self, key: &str, count: i64, effects: bool) {
        let parts: Vec<_> = key.split('#').collect();
        let [endpoint, kind, name] = parts[..] else { return };
        let total = self.totals.entry(endpoint.to_owned()).or_default();
        if kind == TOTAL {
            total.1 += count;
        } else if kind == EFFECT {
            total.0 += if is_shared(name) { count } else { 0 };
            *self.effects.entry(name.to_owned()).or_default() += count;
            if effects {
                *self.planned.entry(name.to_owned()).or_default() += count * effects_planned(endpoint, name);
            }
        }
    }

    fn check_record(&mut self, record: &Record, owners: &BTreeSet<(&str, i64)>, inner: &Inner) {
        let key = record.key.as_str();
        let (unrouted, restored) = (inner.config.unrouted.is_some(), &inner.restored);
        if restored.hides(record) {
            self.broken(Rule::EffectGone, key);
        }
        match record.status {
            Status::Pending => self.broken(Rule::Stuck, key),
            Status::Dead => {
                let owned = owners.contains(&(key, record.generation));
                // If an operator accepted a duplicate, the effect may date from before the record expired.
                let known = record.accept_duplicate || record.outcome_unknown();
                if record.dead_reason == Some(DeadReason::Rewound) && !restored.inbox {
                    self.broken(Rule::Misjudged, key);
                }
                if owned && !known && !restored.inbox {
                    self.broken(Rule::DeadYetApplied, key);
                }
                // The handler fails for such a fact for a shorter time than its attempts take.
                let hasty = |fact: &String| fact.starts_with(LATER);
                if record.dead_reason == Some(DeadReason::AttemptsExhausted) && facts_of(record).iter().any(hasty) {
                    self.broken(Rule::Early, key);
                }
                self.kept.extend(facts_of(record));
            }
            Status::Processed => {
                let envelope = record.key.kind() == RecordKind::Envelope;
                let applied = matches!(record.outcome, Some(Outcome::Applied | Outcome::Duplicate));
                let short = |fact: &String| self.effects(fact) < 1 + record.generation;
                if applied && !envelope && !restored.domain && facts_of(record).iter().any(short) {
                    self.broken(Rule::Unapplied, key);
                }
                if record.outcome == Some(Outcome::Ignored) && unrouted {
                    self.ignored.extend(facts_of(record));
                }
            }
            Status::Discarded => {}
        }
    }

    /// An effect is settled, and what its record says of the third party is so.
    fn check_effect(&mut self, record: &Record, callees: &Callees) {
        let key = record.key.as_str();
        self.effect_counts.effects += 1;
        match record.status {
            Status::Pending => self.broken(Rule::Stuck, key),
            Status::Dead => self.effect_counts.effects_dead += 1,
            Status::Processed => self.effect_counts.delivered += 1,
            Status::Discarded => {}
        }
        if let Some(rule) = callees.contradiction(record) {
            self.broken(rule, key);
        }
    }

    /// Each commit of a plan has stored each of its effects, and no other.
    fn check_committed(&mut self, inner: &Inner) {
        let facts: BTreeSet<_> = self.planned.keys().chain(inner.invariants.committed.keys()).cloned().collect();
        for fact in facts {
            let count = |by_fact: &BTreeMap<String, i64>| by_fact.get(&fact).copied().unwrap_or(0);
            let (planned, committed) = (count(&self.planned), count(&inner.invariants.committed));
            if committed != planned {
                self.broken(if committed < planned { Rule::Lost } else { Rule::Uncommitted }, &fact);
            }
        }
    }

    /// Every effect that counts in a total is in it: no plan was committed on an outdated snapshot.
    fn check_totals(&mut self) {
        for (endpoint, (applied, total)) in self.totals.clone() {
            if applied != total {
                self.broken(Rule::Lost, &format!("{endpoint}#{TOTAL}"));
            }
        }
    }

    fn effects(&self, fact: &str) -> i64 {
        self.effects.get(fact).copied().unwrap_or(0)
    }

    fn broken(&mut self, rule: Rule, what: &str) {
        self.violations.insert(Violation { rule, what: what.to_owned() });
    }
}
