//! The third parties of a day: what they do when they are called, what they remember, and what must hold of each call.
//!
//! A callee of class `keyed` keeps a key together with its work, for its window and no longer. The others know no keys,
//! so each call that they carry out is done once more.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::destination::{Called, Class, OutboundCall, Terms};
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status};
use hookonce_protocol::time::Millis;

use super::rng::Rng;
use crate::model::rule::Rule;

/// How often callees answer with something else than success, each in ten thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct CalleeRates {
    /// 5xx, and nothing is done.
    pub fails_before: u32,
    /// 5xx, after it was done.
    pub fails_after: u32,
    /// 429, sometimes with `Retry-After`.
    pub busy: u32,
    /// 4xx. A callee that keeps keys keeps its refusal, too.
    pub refuses: u32,
    /// An answer that tells nothing, and never will: 408, a redirect to another page.
    pub vague: u32,
}

/// The longest time that a callee asks to wait.
const RETRY_AFTER_MAX: Millis = Millis::hours(2);

/// What a callee keeps under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Done,
    Refused,
}

/// A call that may have been done.
#[derive(Debug, Clone)]
struct OpenCall {
    number: usize,
    at: i64,
    callee: String,
}

/// What is known of one effect outside of the tables.
#[derive(Debug, Default)]
struct Account {
    /// Calls that arrived, apart from those whose caller knows that nothing was done.
    open: Vec<OpenCall>,
    /// How often it was done.
    done: usize,
    /// How often it was done under a promise that it is done at most once.
    promised: usize,
    /// How often a person accepted that it is called again although it may be done.
    accepted: usize,
    /// The keys that it was called with, and how many it may have.
    keys: BTreeSet<String>,
    epochs: usize,
    /// Whether a callee that knows its key has reported that it is done.
    reported_done: bool,
    /// What was sent.
    sent: Option<(Vec<u8>, &'static str, String)>,
}

/// Every callee of the day.
#[derive(Debug, Default)]
pub struct Callees {
    accounts: BTreeMap<String, Account>,
    /// By callee and key: since when, and what.
    memory: BTreeMap<(String, String), (i64, Kept)>,
    /// Calls that arrived.
    pub calls: usize,
    /// What was found wrong, and with which effect.
    pub broken: BTreeSet<(Rule, String)>,
}

/// How a call was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub called: Called,
    /// The number of the call.
    pub number: usize,
}

impl Callees {
    /// An effect was committed. If it was before, everything about it has expired since, and a person lets its event be
    /// applied again. Only a callee may still know its key.
    pub fn committed(&mut self, effect: &str) {
        self.accounts.insert(effect.to_owned(), Account::default());
    }

    /// A call arrives.
    pub fn receive(
        &mut self,
        delivery: &OutboundCall,
        terms: &Terms,
        callee_rates: CalleeRates,
        now: i64,
        rng: &mut Rng,
    ) -> Answered {
        self.calls += 1;
        let number = self.calls;
        self.judge(delivery, terms, number, now);
        let after = |rng: &mut Rng| rng.chance(5_000).then(|| Millis(rng.between(0, RETRY_AFTER_MAX.0)));
        let mut roll = u32::try_from(rng.below(10_000)).unwrap_or(0);
        let CalleeRates { fails_before, fails_after, busy, refuses, vague } = callee_rates;
        let mut falls = |width: u32| {
            let falls = roll < width;
            roll = if falls { u32::MAX } else { roll - width.min(roll) };
            falls
        };
        let called = if falls(fails_before) {
            Called::Unclear { status: None, retry_after: after(rng) }
        } else if falls(fails_after) {
            self.work(delivery, terms, Kept::Done, now);
            Called::Unclear { status: None, retry_after: after(rng) }
        } else if falls(busy) {
            Called::NotDone { status: None, retry_after: after(rng) }
        } else if falls(vague) {
            if rng.chance(5_000) {
                self.work(delivery, terms, Kept::Done, now);
            }
            Called::Unknown { status: 408 }
        } else {
            let kept = if falls(refuses) { Kept::Refused } else { Kept::Done };
            match self.work(delivery, terms, kept, now) {
                Kept::Done => Called::Done { status: Some(200) },
                Kept::Refused => Called::Refused { status: Some(400) },
            }
        };
        Answered { called, number }
    }

    /// Does what is asked for, unless the key is known. Returns what was done now, or the first time.
    fn work(&mut self, delivery: &OutboundCall, terms: &Terms, wanted: Kept, now: i64) -> Kept {
        if let Class::Keyed { window } = terms.class {
            let place = (terms.callee.clone(), delivery.idempotency_key.clone());
            let known = self.memory.get(&place).filter(|(since, _)| now <= since.saturating_add(window.0));
            if let Some((_, kept)) = known {
                let account = self.accounts.entry(delivery.effect.as_str().to_owned()).or_default();
                account.reported_done |= *kept == Kept::Done;
                return *kept;
            }
            self.memory.insert(place, (now, wanted));
        }
        if wanted == Kept::Done {
            let account = self.accounts.entry(delivery.effect.as_str().to_owned()).or_default();
            account.done += 1;
            if terms.class != Class::AtLeastOnce {
                account.promised += 1;
                if account.promised > 1 + account.accepted {
                    self.broken.insert((Rule::DoneTwice, delivery.effect.as_str().to_owned()));
                }
            }
        }
        wanted
    }

    /// What must hold of every call, whatever becomes of it.
    fn judge(&mut self, delivery: &OutboundCall, terms: &Terms, number: usize, now: i64) {
        let effect = delivery.effect.as_str();
        let Some(account) = self.accounts.get_mut(effect) else {
            self.broken.insert((Rule::Uncommitted, effect.to_owned()));
            return;
        };
        // Another callee needs an acceptance, however often the former one was called.
        let others = account.open.iter().map(|call| &call.callee).filter(|callee| **callee != terms.callee);
        let here = account.open.len() - others.clone().count();
        let elsewhere = others.collect::<BTreeSet<_>>().len();
        let first = account.open.iter().map(|call| call.at).min();
        // After an accepted duplicate, only what was done counts.
        let outlives = |window: Millis| first.is_some_and(|first| now > first.saturating_add(window.0));
        let outside = matches!(terms.class, Class::Keyed { window } if account.accepted == 0 && outlives(window));
        let repeated = terms.class == Class::AtMostOnce && here > account.accepted;
        if outside {
            self.broken.insert((Rule::Outside, effect.to_owned()));
        }
        if repeated || elsewhere > account.accepted {
            self.broken.insert((Rule::Recalled, effect.to_owned()));
        }
        account.keys.insert(delivery.idempotency_key.clone());
        let sends = (delivery.body.clone(), delivery.method.as_str(), delivery.path.clone());
        let same = account.sent.get_or_insert_with(|| sends.clone()) == &sends;
        if account.keys.len() > 1 + account.epochs || !same {
            self.broken.insert((Rule::Changed, effect.to_owned()));
        }
        account.open.push(OpenCall { number, at: now, callee: terms.callee.clone() });
    }

    /// The caller has heard that nothing was done.
    pub fn heard_not_done(&mut self, delivery: &OutboundCall, number: usize) {
        if let Some(account) = self.accounts.get_mut(delivery.effect.as_str()) {
            account.open.retain(|call| call.number != number);
        }
    }

    /// The record of an effect changed.
    pub fn changed(&mut self, before: Option<&Record>, after: &Record) {
        let Some(part) = &after.effect else { return };
        let Some(account) = self.accounts.get_mut(after.key.as_str()) else { return };
        if let Some((before, old)) = before.and_then(|before| Some((before, before.effect.as_ref()?))) {
            let fresh_key = part.key_epoch > old.key_epoch;
            let called = old.first_call_at.is_some() || before.outcome_unknown();
            let accepts = after.retries > before.retries && !fresh_key && called && part.first_call_at.is_none();
            account.epochs += usize::from(fresh_key);
            account.accepted += usize::from(accepts);
        }
        if let Some(rule) = self.contradiction(after) {
            self.broken.insert((rule, after.key.as_str().to_owned()));
        }
    }

    /// The untrue statement of an effect's record, if it makes one.
    pub fn contradiction(&self, record: &Record) -> Option<Rule> {
        let account = self.accounts.get(record.key.as_str())?;
        let delivered = record.status == Status::Processed && record.outcome == Some(Outcome::Delivered);
        // Destinations that are called at least once end by their attempts, done or not.
        let not_done = !record.outcome_unknown() && record.dead_reason != Some(DeadReason::AttemptsExhausted);
        let dead = record.status == Status::Dead && not_done;
        if delivered && account.done == 0 && !account.reported_done {
            Some(Rule::Unapplied)
        } else if dead && account.done > 0 {
            Some(Rule::DeadYetApplied)
        } else {
            None
        }
    }
}
