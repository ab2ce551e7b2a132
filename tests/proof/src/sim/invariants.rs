//! Checks every change of a record when it happens, and every send.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::item::Item;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Write;
use hookonce_runtime::inbox::body;

use super::provider::facts_in;
use super::tables::Changed;
use super::world::readable;
use crate::label::Role;
use crate::model::edge::Edge;
use crate::model::rule::{Rule, resends_max};
use crate::model::view::ItemView;

/// A broken rule, and the record or fact that broke it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The record or fact.
    pub what: String,
}

/// What has been seen of each record.
#[derive(Debug)]
pub struct InvariantChecker {
    timing: Timing,
    /// What was found wrong.
    pub violations: BTreeSet<Violation>,
    /// Effects that operators asked for beyond the first, by fact.
    pub granted: BTreeMap<String, i64>,
    /// Facts that an operator gave up, or that no route wanted until their record was gone.
    pub given_up: BTreeSet<String>,
    /// Effects that were committed, by fact.
    pub committed: BTreeMap<String, i64>,
    /// The record that changed last.
    pub recent: Option<String>,
    /// Re-arms that have not been followed by a send.
    rearmed: BTreeMap<String, i64>,
    /// How often a record came to fall due earlier than the relay's schedule says.
    excused: BTreeMap<String, i64>,
}

impl InvariantChecker {
    /// Nothing seen yet. The durations are those of the contract, whichever clause is removed from the protocol.
    pub const fn new(timing: Timing) -> Self {
        Self {
            timing,
            violations: BTreeSet::new(),
            granted: BTreeMap::new(),
            given_up: BTreeSet::new(),
            committed: BTreeMap::new(),
            recent: None,
            rearmed: BTreeMap::new(),
            excused: BTreeMap::new(),
        }
    }

    fn break_rule(&mut self, rule: Rule, what: &str) {
        self.violations.insert(Violation { rule, what: what.to_owned() });
    }

    /// A write met the item as it leaves it, and was taken for another's or changed the item once more.
    pub fn disowned(&mut self, write: &Write) {
        self.break_rule(Rule::Disowned, write.key.as_str());
    }

    /// An effect was committed.
    pub fn committed(&mut self, effect: &Record) {
        for fact in facts_of(effect) {
            *self.committed.entry(fact).or_default() += 1;
        }
    }

    /// A record was forced while one of its effects may still be done.
    pub fn forced_too_early(&mut self, effect: &str) {
        self.break_rule(Rule::ForcedOpen, effect);
    }

    /// A write was carried out, alone or in a transaction.
    pub fn intent(&mut self, write: &Write) {
        match write.purpose {
            Purpose::Rearm => *self.rearmed.entry(write.key.as_str().to_owned()).or_default() += 1,
            Purpose::MarkDue
            | Purpose::RepairDueTime
            | Purpose::CountFailure
            | Purpose::Postpone
            | Purpose::RearmEffect
            | Purpose::FailEffect
            | Purpose::RearmDeadLetter
            | Purpose::Retry
            | Purpose::Force => *self.excused.entry(write.key.as_str().to_owned()).or_default() += 1,
            Purpose::Claim
            | Purpose::ClaimChild
            | Purpose::ClaimDead
            | Purpose::Quarantine
            | Purpose::CountDuplicate
            | Purpose::Settle
            | Purpose::DomainKey
            | Purpose::DomainWrite
            | Purpose::DomainCheck
            | Purpose::MarkDuplicate
            | Purpose::MarkIgnored
            | Purpose::CloseEnvelope
            | Purpose::DeadAfterFailures
            | Purpose::DeadTooOld
            | Purpose::DeadRewound
            | Purpose::DieOfDeadLetter
            | Purpose::CreateEffect
            | Purpose::GuardCall
            | Purpose::SettleEffect
            | Purpose::DieOfCall
            | Purpose::Discard
            | Purpose::Redact
            | Purpose::Doubt
            | Purpose::NoteOperation
            | Purpose::NoteBody => {}
        }
    }

    /// A record changed.
    pub fn changed(&mut self, change: &Changed, now: i64) {
        let (before, after) = (self.view(change.before.as_ref()), self.view(change.after.as_ref()));
        let edge = Edge::of(before.as_ref(), after.as_ref());
        if let Some(rule) = edge.broken {
            self.break_rule(rule, &change.key);
        }
        self.recent = Some(change.key.clone());
        let erased = |record: &Record| record.body.is_none() && record.effect.is_none();
        let erased = after.as_ref().and_then(|view| view.record.as_ref()).is_some_and(erased);
        if let Some(ignored) = before.filter(ItemView::given_up).and_then(|view| view.record).filter(|_| erased) {
            self.given_up.extend(facts_of(&ignored));
        }
        let Some(record) = after.and_then(|view| view.record) else { return };
        // The fact of an effect was applied with its commit.
        let own = record.effect.is_none();
        if own && (edge.forced || edge.duplicates_accepted) {
            for fact in facts_of(&record) {
                *self.granted.entry(fact).or_default() += 1;
            }
        }
        if own && record.status == Status::Discarded {
            self.given_up.extend(facts_of(&record));
        }
        let excused = self.excused.get(&change.key).copied().unwrap_or(0);
        if record.resends > resends_max(now - record.received_at.0, &self.timing) + excused + 1 {
            self.break_rule(Rule::Storm, &change.key);
        }
    }

    /// The TTL removed a record. It may take a PENDING one only where the relay missed its whole horizon.
    pub fn expired(&mut self, key: &str, item: &Item, relay_down: bool) {
        let Some(record) = self.view(Some(item)).and_then(|view| view.record) else { return };
        match record.status {
            Status::Pending if relay_down && record.effect.is_some() => {}
            Status::Pending if relay_down => self.given_up.extend(facts_of(&record)),
            Status::Pending | Status::Dead => self.break_rule(Rule::Expired, key),
            Status::Processed if record.outcome == Some(Outcome::Ignored) => self.given_up.extend(facts_of(&record)),
            Status::Processed | Status::Discarded => {}
        }
    }

    /// A message was sent.
    pub fn sent(&mut self, role: Role, key: &RecordKey) {
        if role != Role::Relay {
            return;
        }
        let left = self.rearmed.entry(key.as_str().to_owned()).or_default();
        *left -= 1;
        if *left < 0 {
            self.break_rule(Rule::Storm, key.as_str());
        }
    }

    fn view(&self, item: Option<&Item>) -> Option<ItemView> {
        item.map(|item| ItemView::of(&readable(item), &self.timing, &[]))
    }
}

/// The facts that a record's body tells.
pub fn facts_of(record: &Record) -> Vec<String> {
    let Some(stored) = &record.body else { return Vec::new() };
    body::decompress(stored).map(|raw| facts_in(&raw)).unwrap_or_default()
}
