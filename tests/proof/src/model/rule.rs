//! What must hold in every state.

use std::fmt;

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::record::{DeadReason, Outcome, Status};
use hookonce_protocol::timing::Timing;

use super::pool::{MessageId, ProcId};
use super::state::{Budget, FACTS, SLOTS, State};
use super::view::{FACT_NAMES, ItemView, fact_of};
use super::world::World;
use super::{Kind, Model};

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $(= $code:literal)?, $words:literal;)+) => {
        /// A promise or an invariant, named as in the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Rule { $($(#[$doc])* $rule $(= $code)?),+ }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$rule),+];
        }

        impl fmt::Display for Rule {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $(Self::$rule => $words),+ })
            }
        }
    };
}

rules! {
    /// P1, A1: acknowledged work is applied, owed with its payload, dead with its payload, or discarded by an operator.
    Lost = 1, "P1/A1 acknowledged work is lost";
    /// P2, A2: a fact is applied at most once, beyond what an operator asked for.
    Doubled, "P2/A2 a fact is applied twice";
    /// A3: the work of a record that says it is processed is done, in each of its generations.
    Unapplied, "A3 processed, and its work is not done";
    /// A4: the work of a dead record is not done, unless it says that this is unknown.
    DeadYetApplied, "A4 dead although applied";
    /// A5, A6: expiry, due entry, body, outcome and reason fit the status.
    Record, "A5/A6 a record does not fit its status";
    /// A7: no item without status, claim and version.
    NoRecord, "A7 an item that is no record";
    /// A8: the claim never changes, and the generation never falls.
    Identity, "A8 a claim changed or a generation fell";
    /// No other edge of the state machine exists.
    Edge, "an edge that does not exist";
    /// Only an operator lowers the attempts.
    Attempts, "attempts fell";
    /// A counted failure, or a call of an effect, comes after the pause that the last one drew.
    Early, "an attempt within the pause of the last one";
    /// P5, A10: sends are bounded by the schedule, and each relay send by its own re-arm.
    Storm, "P5/A10 more sends than granted";
    /// A5: the TTL reaches a PENDING record only when the relay missed its whole horizon.
    Expired, "A5 the TTL took a PENDING record";
    /// P3, A9, A11: without further faults, everything ends well.
    Stuck, "P3/A11 no good end without further faults";
    /// Copies of a message count as one dead letter.
    Hasty, "a copy of a dead letter counts";
    /// A write that the store's client repeats recognises what it wrote, and writes it once.
    Disowned, "a repeated write does not recognise itself";
    /// An operator changes a record only as it was shown.
    Unseen, "an operator changes what was not shown";
    /// Each act of an operator is an entry of the trail.
    Untrailed, "an operator's act is not in the trail";
    /// A record ends as IGNORED only if no handler wanted it since it was claimed or brought back.
    NotDeclined, "a record that was brought back is ignored unasked";
    /// P6: an effect is called for a plan that did not commit.
    Uncommitted, "P6 a call for a plan that did not commit";
    /// P6: an effect of a committed plan is delivered, dead or waiting.
    EffectGone, "P6 an effect of a committed plan is gone";
    /// P6: an effect is not called again that was promised at most once, or whose key means nothing to the callee.
    Recalled, "P6 called again although it was promised otherwise";
    /// P6: no call with a key whose window is over.
    Outside, "P6 called after the window of its key";
    /// P6: what is promised once is done once, beyond what persons accepted.
    DoneTwice, "P6 done twice";
    /// A key that its callee refused is not used again.
    SpentKey, "a refused key is used again";
    /// An effect ends as unknown only if something was left open, and an event as rewound only if its table was.
    Misjudged, "dead as unknown although nothing was left open";
    /// An event is forced only when no effect of it is PENDING or DEAD.
    ForcedOpen, "forced while an effect is open";
    /// P6: every repeat of a call is the same, and has the same key.
    Changed, "P6 a repeat differs from its first call";
}

impl Rule {
    /// The rule of a code.
    pub fn parse(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| *rule as u8 == code)
    }
}

/// How often the relay may have re-armed a record of this age.
pub(crate) fn resends_max(age: i64, timing: &Timing) -> i64 {
    let (mut at, mut count) = (timing.first_resend.0, 0);
    while at <= age {
        at += timing.resend_interval(count).0;
        count += 1;
    }
    count
}

impl Model {
    /// The rule that a state breaks, if any, apart from [`Rule::Stuck`].
    pub(super) fn broken(&self, world: &World, state: &State) -> Option<Rule> {
        let domain = world.domains.view(state.domain);
        let doubled = |fact: usize| domain.effects[fact] > 1 + state.forced[fact] + state.duplicates_accepted[fact];
        let doubled = || (0..FACTS).any(doubled).then_some(Rule::Doubled);
        let by_record = || (0..SLOTS).find_map(|slot| self.broken_by_record(world, state, slot));
        let by_effects = || if state.callees.is_some() { self.broken_by_effects(world, state) } else { None };
        let forgiven = state.expired && self.scenario.clock.relay_may_be_down();
        let lost = |delivery: usize| state.acked & (1 << delivery) != 0 && !self.accounted(world, state, delivery);
        let lost = || (!forgiven && (0..self.scenario.deliveries.len()).any(lost)).then_some(Rule::Lost);
        Rule::parse(state.broken).or_else(doubled).or_else(by_record).or_else(by_effects).or_else(lost)
    }

    fn broken_by_record(&self, world: &World, state: &State, slot: usize) -> Option<Rule> {
        let view = world.item(state.items[slot])?;
        let Some(record) = &view.record else { return Some(Rule::NoRecord) };
        if view.invalid {
            return Some(Rule::Record);
        }
        let domain = world.domains.view(state.domain);
        let envelope = record.key.kind() == RecordKind::Envelope;
        let generation = u8::try_from(record.generation).unwrap_or(u8::MAX);
        if view.applied()
            && !envelope
            && let Some(fact) = fact_of(record)
            && domain.effects[fact] < 1 + generation
            && !state.domain_rewound
        {
            return Some(Rule::Unapplied);
        }
        let fanned_out = record.outcome == Some(Outcome::FannedOut);
        if record.status == Status::Processed && fanned_out && !self.children_known(state, slot, domain.effects) {
            return Some(Rule::Unapplied);
        }
        let known_dead = record.status == Status::Dead && !record.outcome_unknown();
        let forgiven = state.expired || state.inbox_rewound;
        if known_dead && !forgiven && domain.owned[slot] & (1 << generation.min(7)) != 0 {
            return Some(Rule::DeadYetApplied);
        }
        // A payload that waits in the queue while the record that applied its fact expires looks the same. A person is
        // asked, which is the safe side.
        let outlived = state.expired && self.scenario.on_outage == OnStoreOutage::Enqueue;
        if record.dead_reason == Some(DeadReason::Rewound) && !state.inbox_rewound && !outlived {
            return Some(Rule::Misjudged);
        }
        let age = state.now - record.received_at.0;
        if record.resends > resends_max(age, &world.timing) + self.excused(state) {
            return Some(Rule::Storm);
        }
        None
    }

    /// Re-sends that came early for a reason: a failed send, a counted failure, an unavailable handler, a dead letter,
    /// a crash that makes one of them happen again, an operator.
    fn excused(&self, state: &State) -> i64 {
        let reasons = [
            Budget::Crash,
            Budget::Duplicate,
            Budget::Refuse,
            Budget::Conflict,
            Budget::Late,
            Budget::Redrive,
            Budget::Fail,
            Budget::Poison,
            Budget::Away,
            Budget::Busy,
            Budget::Retry,
            Budget::Accept,
            Budget::Force,
        ];
        reasons.into_iter().map(|budget| self.used(state, budget)).sum()
    }

    /// How much of a budget was used.
    pub(super) fn used(&self, state: &State, budget: Budget) -> i64 {
        i64::from(self.scenario.budgets[budget as usize]) - i64::from(state.left[budget as usize])
    }

    fn children_known(&self, state: &State, envelope: usize, effects: [u8; FACTS]) -> bool {
        self.children[envelope]
            .iter()
            .all(|slot| state.items[*slot].is_some() || self.facts[*slot].is_some_and(|fact| effects[fact] > 0))
    }

    /// An acknowledged delivery is applied, or owed with its payload, or given up by an operator.
    fn accounted(&self, world: &World, state: &State, delivery: usize) -> bool {
        let slot = self.slots[delivery];
        let effects = world.domains.view(state.domain).effects;
        let applied = |slot: usize| self.facts[slot].is_some_and(|fact| effects[fact] > 0);
        let made = self.scenario.deliveries[delivery];
        if made.kind == Kind::Envelope {
            let children = &self.children[slot];
            let settled = |child: &usize| applied(*child) || owed(world, state, *child, None);
            return owed(world, state, slot, None) || (!children.is_empty() && children.iter().all(settled));
        }
        let fact = FACT_NAMES.iter().position(|name| *name == made.body);
        // Where another body under a known id counts as a duplicate, the first one stands for it.
        let strict = self.scenario.on_mismatch == OnBodyMismatch::Quarantine;
        let wanted = if strict { fact } else { None };
        fact.is_some_and(|fact| effects[fact] > 0)
            || owed(world, state, slot, wanted)
            || self.alternates[delivery].is_some_and(|slot| owed(world, state, slot, wanted))
    }
}

/// The record, or a message that carries its payload, still accounts for the fact (for any, if none is named).
fn owed(world: &World, state: &State, slot: usize, fact: Option<usize>) -> bool {
    let names = |named: Option<usize>| fact.is_none() || named == fact;
    if state.given_up & (1 << slot) != 0 {
        return true;
    }
    let accounts = |view: &ItemView| view.accounts() && names(view.record.as_ref().and_then(fact_of));
    if world.item(state.items[slot]).is_some_and(accounts) {
        return true;
    }
    let live = |message: MessageId| {
        message.is_some() && {
            let view = world.messages.view(message);
            view.slot == slot && !view.hint && names(view.fact)
        }
    };
    let at_work = |proc: &ProcId| proc.is_some() && live(world.procs.view(*proc).message);
    state.queue.iter().chain(&state.dead).any(|message| live(*message)) || state.procs.iter().any(at_work)
}
