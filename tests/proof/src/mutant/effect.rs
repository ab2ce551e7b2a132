//! The mutants of the dispatcher, and of what others do with effects.

use hookonce_protocol::call::{Call, Reply, Written};
use hookonce_protocol::destination::{Called, Class};
use hookonce_protocol::item::Value;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{DeadReason, Found, Record, Status, attribute, remove, set};
use hookonce_protocol::time::Millis;
use hookonce_protocol::write::{Action, Change, Write};

use super::change::{
    NOTHING, any, each, mutants, rewrite, same, survivors, unconditional, without_changes, without_clauses,
};
use super::{Mutant, Mutation};
use crate::label::Role;

const GUARD: &[Purpose] = &[Purpose::GuardCall];
const SETTLE: &[Purpose] = &[Purpose::SettleEffect];
const REARM: &[Purpose] = &[Purpose::RearmEffect];
const DIE: &[Purpose] = &[Purpose::DieOfCall];
const WAIT: &[Purpose] = &[Purpose::RearmEffect, Purpose::FailEffect];
const ENDING: &[Purpose] = &[Purpose::RearmEffect, Purpose::FailEffect, Purpose::DieOfCall];

fn changes(write: &mut Write) -> Option<&mut Vec<Change>> {
    if let Action::Update(changes) = &mut write.action { Some(changes) } else { None }
}

/// Sets an attribute to another value, if the write sets it.
fn instead(write: &mut Write, name: &'static str, value: &Value) {
    let set = changes(write).into_iter().flatten();
    for change in set {
        if let Change::Set(attribute, old) = change
            && attribute == name
        {
            *old = value.clone();
        }
    }
}

/// Adds a change of an attribute that the write does not change.
fn besides(write: &mut Write, change: Change) {
    if let Some(changes) = changes(write)
        && !changes.iter().any(|other| other.attribute() == change.attribute())
    {
        changes.push(change);
    }
}

fn reason_instead(write: &mut Write, from: DeadReason, to: DeadReason) {
    let dies_so = set(attribute::DEAD_REASON, from.as_str());
    if changes(write).is_some_and(|changes| changes.contains(&dies_so)) {
        instead(write, attribute::DEAD_REASON, &to.as_str().into());
    }
}

/// A dispatcher gets another reply to a call.
macro_rules! called_instead {
    ($called:pat => $instead:expr) => {
        Mutation {
            reply: Some(|role, _, reply| {
                if let (Role::Dispatcher, Reply::Called(called)) = (role, reply)
                    && let $called = called
                {
                    *called = $instead;
                }
            }),
            ..NOTHING
        }
    };
}

/// Changes what a dispatcher is told of its guard.
fn guarded(role: Role, call: &Call, reply: &mut Reply, change: fn(&mut Written)) {
    if let (Role::Dispatcher, Call::Write(write), Reply::Written(written)) = (role, call, reply)
        && write.purpose == Purpose::GuardCall
    {
        change(written);
    }
}

/// Changes what a dispatcher reads.
fn read(role: Role, reply: &mut Reply, change: fn(&mut Record)) {
    if let (Role::Dispatcher, Reply::Read(Ok(Found::Record(record)))) = (role, reply) {
        change(record);
    }
}

/// Every mutant about effects.
pub(super) fn all() -> Vec<Mutant> {
    [commits(), ages(), guards(), endings(), people(), second_nets()].concat()
}

fn commits() -> Vec<Mutant> {
    mutants! {
        "effect-not-due", "W4: an effect enters the index of due effects", &["an effect, from the delivery on"],
            rewrite!(Worker, &[Purpose::CreateEffect], same!(DUE_AT, DUE_SHARD));
        "effect-without-expiry", "W4: an effect has a TTL", &["an effect, from the delivery on"],
            rewrite!(Worker, &[Purpose::CreateEffect], same!(EXPIRES_AT));
        "commit-names-no-effects", "W4[0]: the event keeps the names of its effects", &["an effect, from the delivery on"],
            rewrite!(Worker, &[Purpose::Settle], same!(EFFECTS));
    }
}

fn ages() -> Vec<Mutant> {
    mutants! {
        "effect-read-is-old", "D1: an effect is read consistently", &["at most once: crashes and zombies"],
            Mutation { reply: Some(|role, _, reply| read(role, reply, |record| {
                record.attempts = 0;
                if let Some(part) = &mut record.effect {
                    (part.pass, part.first_call_at, part.callee, part.not_done) = (None, None, None, 0);
                }
            })), ..NOTHING };
        "effect-age-ignored", "D2: nothing older than the effect age is called", &["a destination that goes away"],
            Mutation { timing: Some(|timing| timing.effect_age_max = Millis(i64::MAX / 4)), ..NOTHING };
        "pause-of-effect-ignored", "D2: no effect is called within the pause after its last call", &["copies of a hint of an effect"],
            Mutation { reply: Some(|role, _, reply| read(role, reply, |record| record.not_before = None)), ..NOTHING };
        "pause-of-effect-not-noted", "D6: the record says when its pause ends", &["copies of a hint of an effect"],
            rewrite!(Dispatcher, WAIT, same!(NOT_BEFORE));
        "key-margin-zero", "D3: the last call with a key begins before its window ends, by a margin", &["keyed: at the end of the window"],
            Mutation { timing: Some(|timing| timing.key_margin = Millis(0)), ..NOTHING };
        "window-ignored", "D3: no call after the window of the key", &["keyed: at the end of the window"],
            Mutation { timing: Some(|timing| timing.key_margin = Millis(i64::MIN / 4)), ..NOTHING };
        "callee-ignored", "D3: the callee of a repeat is that of the first call", &["keyed, moved to another callee", "a destination with another class"],
            Mutation { reply: Some(|_, _, reply| {
                if let Reply::Terms(Ok(Some(offer))) = reply { "same".clone_into(&mut offer.terms.callee); }
            }), ..NOTHING };
    }
}

fn guards() -> Vec<Mutant> {
    mutants! {
        "guard-any-not-done", "D4: the guard requires the number of calls that were not done", &["at most once: answers"],
            rewrite!(Dispatcher, GUARD, any!(NOT_DONE));
        "guard-any-attempts", "D4: the guard requires the count that was read", &["keyed: crashes and zombies"],
            rewrite!(Dispatcher, GUARD, any!(ATTEMPTS));
        "guard-unconditional", "D4: the guard names the state that it starts from", &["at most once: crashes and zombies"],
            rewrite!(Dispatcher, GUARD, unconditional);
        "guard-any-pass-or-first-call", "D4: the guard requires that nobody else has the pass, and the first call that was read", &["at most once: crashes and zombies"],
            rewrite!(Dispatcher, GUARD, any!(PASS, FIRST_CALL_AT));
        "guard-notes-no-first-call", "D4: the guard notes the first call", &["at most once: crashes and zombies"],
            rewrite!(Dispatcher, GUARD, same!(FIRST_CALL_AT));
        "guard-notes-each-call-as-first", "D4: only the first call is noted", &["keyed: at the end of the window"],
            rewrite!(Dispatcher, GUARD, |write| {
                let now = changes(write).into_iter().flatten().find_map(|change| match change {
                    Change::Set(name, value) => (name == attribute::PASS_AT).then(|| value.clone()),
                    Change::Remove(_) | Change::Add(..) => None,
                });
                besides(write, set(attribute::FIRST_CALL_AT, now.unwrap_or_else(|| 0.into())));
            });
        "passes-not-unique", "D4: each receive has a pass of its own", &["at most once: crashes and zombies"],
            rewrite!(Dispatcher, GUARD, |write| instead(write, attribute::PASS, &"same".into()));
        "unconfirmed-guard-counts-as-won", "D4: no call without a confirmed guard", &["at most once: crashes and zombies"],
            Mutation { reply: Some(|role, call, reply| guarded(role, call, reply, |written| {
                if *written == Written::Unavailable { *written = Written::Applied; }
            })), ..NOTHING };
        "lost-guard-counts-as-won", "D4: no call after a guard that another one has won", &["at most once: crashes and zombies"],
            Mutation { reply: Some(|role, call, reply| guarded(role, call, reply, |written| {
                if matches!(written, Written::ConditionFailed(Found::Record(_))) { *written = Written::Applied; }
            })), ..NOTHING };
        "late-guard-calls", "D4: no call after a guard whose answer came late", &["keyed: at the end of the window"],
            Mutation { timing: Some(|timing| timing.dispatcher_timeout = Millis(i64::MAX / 4)), ..NOTHING };
    }
}

fn endings() -> Vec<Mutant> {
    mutants! {
        "unanswered-call-repeats", "D5: one pass makes one call", &["at most once: crashes and zombies"],
            Mutation { repeats_calls: true, ..NOTHING };
        "unclear-counts-as-done", "D6: an unclear call is not done", &["at least once: crashes and zombies"],
            called_instead!(Called::Unclear { .. } => Called::Done { status: None });
        "unclear-counts-as-not-done", "D6: an unclear call may have been done", &["at most once: crashes and zombies"],
            called_instead!(Called::Unclear { .. } => Called::NotDone { status: None, retry_after: None });
        "ambiguous-counts-as-refused", "D6: an answer that leaves it open is no refusal", &["at most once: answers"],
            called_instead!(Called::Unknown { .. } => Called::Refused { status: None });
        "not-done-counts-as-unclear", "D6: what is not done is called again", &["at most once: answers"],
            called_instead!(Called::NotDone { .. } | Called::NoTime => Called::Unclear { status: None, retry_after: None });
        "done-before-counts-at-a-first-call", "D6: who was never called cannot have done it before", &["keyed, and says of something else that it was done before"],
            called_instead!(Called::AlreadyDone { status } => Called::Done { status: Some(*status) });
        "at-most-once-repeats", "D3, D6: what is promised at most once is not repeated", &["at most once: crashes and zombies"],
            Mutation { reply: Some(|_, _, reply| {
                if let Reply::Terms(Ok(Some(offer))) = reply && offer.terms.class == Class::AtMostOnce { offer.terms.class = Class::AtLeastOnce; }
            }), ..NOTHING };
        "refused-repeat-is-certain", "D6: the refusal of a repeat says nothing of the call before", &["keyed: operators"],
            rewrite!(Dispatcher, DIE, |write| reason_instead(write, DeadReason::UnknownOutcome, DeadReason::Refused));
        "not-done-keeps-first-call", "D6: what is not done removes the first call that its own pass has noted", &["at most once: not done, and left to the relay"],
            rewrite!(Dispatcher, REARM, same!(FIRST_CALL_AT, CALLEE));
        "not-done-removes-first-call", "D6: what is not done leaves the first call of an earlier pass", &["keyed: answers", "keyed: not done at the end of the window"],
            rewrite!(Dispatcher, REARM, |write| besides(write, remove(attribute::FIRST_CALL_AT)));
        "settle-unconditional", "D6: what is done ends the record as it was read", &["an effect, operators"],
            rewrite!(Dispatcher, SETTLE, unconditional);
        "settle-any-status", "D6: what is done ends a PENDING record only", &["an effect, operators"],
            rewrite!(Dispatcher, SETTLE, any!(STATUS));
        "death-of-call-unconditional", "D2, D3, D6: a death names the state that it starts from", &["keyed: answers", "an effect, operators"],
            rewrite!(Dispatcher, DIE, unconditional);
        "death-of-call-any-status", "D2, D3, D6: a death requires PENDING", &["keyed: answers", "an effect, operators"],
            rewrite!(Dispatcher, DIE, any!(STATUS));
        "stale-instead-of-unknown", "D2: what is too old and was called is unknown", &["keyed: at the end of the window"],
            rewrite!(Dispatcher, DIE, |write| reason_instead(write, DeadReason::UnknownOutcome, DeadReason::Stale));
        "wait-unconditional", "D6: a wait names the state that it starts from", &["keyed: answers", "an effect, operators"],
            rewrite!(Dispatcher, WAIT, unconditional);
        "ending-any-pass", "D6: an ending requires its own pass", &["keyed: answers"],
            rewrite!(Dispatcher, ENDING, any!(PASS));
        "ending-any-retries", "D4, D6: guard and endings require the retries that were read", &["an effect, operators"],
            rewrite!(Dispatcher, &[Purpose::GuardCall, Purpose::RearmEffect, Purpose::FailEffect, Purpose::DieOfCall], any!(RETRIES));
        "dead-letter-of-a-call-is-certain", "D7: a dead letter of an effect that was called is unknown", &["an effect, dead letters"],
            rewrite!(DeadLetter, &[Purpose::DieOfDeadLetter], |write| reason_instead(write, DeadReason::UnknownOutcome, DeadReason::DeadLetter));
        "dead-letter-any-first-call", "D7: a dead letter requires the first call that was read", &["an effect, dead letters"],
            rewrite!(DeadLetter, &[Purpose::DieOfDeadLetter], any!(FIRST_CALL_AT));
    }
}

fn people() -> Vec<Mutant> {
    mutants! {
        "retry-always-removes-guards", "1.9: only who accepts a duplicate removes what guards an effect", &["an effect, operators"],
            rewrite!(Operator, &[Purpose::Retry], |write| {
                for name in [attribute::PASS, attribute::PASS_AT, attribute::FIRST_CALL_AT, attribute::CALLEE] {
                    besides(write, remove(name));
                }
            });
        "retry-keeps-key", "1.9: a retry of a refused effect has another key", &["an effect, operators"],
            rewrite!(Operator, &[Purpose::Retry], same!(KEY_EPOCH));
        "doubt-keeps-key", "1.9: a refused effect that was doubted has another key", &["an effect, doubted"],
            rewrite!(Operator, &[Purpose::Doubt], same!(KEY_EPOCH));
        "force-with-open-effects", "1.9: no force while an effect is PENDING or DEAD", &["an effect, forced"],
            Mutation { reply: Some(|role, _, reply| {
                if let (Role::Operator, Reply::ReadHeads(each)) = (role, reply) { each.fill(Ok(Found::Nothing)); }
            }), ..NOTHING };
    }
}

fn second_nets() -> Vec<Mutant> {
    survivors! {
        "ended-effect-read-as-pending", "D1: an effect that is not PENDING is not called", &["an effect, operators"],
            "second net: the guard requires PENDING",
            Mutation { reply: Some(|role, _, reply| read(role, reply, |record| record.status = Status::Pending)), ..NOTHING };
        "effect-unconditional", "W4: the record of an effect is created only once", &["an effect, from the delivery on"],
            "second net: the commit that creates it is carried out once, by the condition of its event",
            rewrite!(Worker, &[Purpose::CreateEffect], unconditional);
        "guard-any-pass", "D4: the guard requires that nobody else has the pass", &["at most once: crashes and zombies", "keyed: crashes and zombies"],
            "second net: whoever has it has changed the first call or the attempts, or calls with the same key",
            rewrite!(Dispatcher, GUARD, any!(PASS));
        "guard-any-first-call", "D4: the guard requires the first call that was read", &["at most once: crashes and zombies"],
            "second net: whoever has changed it has the pass",
            rewrite!(Dispatcher, GUARD, any!(FIRST_CALL_AT));
        "crash-does-not-wait", "D4, D6: after a crash the pass stays for the visibility timeout", &["keyed: crashes and zombies", "at most once: crashes and zombies"],
            "cost: an effect may end as unknown, or be called with the same key, while its call is under way",
            Mutation { timing: Some(|timing| timing.effects_visibility_timeout = Millis(0)), ..NOTHING };
        "ending-any-first-call", "D6: an ending requires the first call that was read", &["keyed: answers"],
            "second net: it changes only with the pass, the status or the retries, which the condition names too",
            rewrite!(Dispatcher, ENDING, any!(FIRST_CALL_AT));
        "ending-any-attempts", "D6: an ending requires the count that was read", &["keyed: answers"],
            "second net: it changes only with the pass or the retries, which the condition names too",
            rewrite!(Dispatcher, ENDING, any!(ATTEMPTS));
        "effect-any-claim", "D4, D6: guard and endings require the claim that was read", &["an effect, operators"],
            "second net: the key of an effect's record names the claim of its event, so there is no other",
            rewrite!(Dispatcher, &[Purpose::GuardCall, Purpose::SettleEffect, Purpose::RearmEffect, Purpose::FailEffect, Purpose::DieOfCall], any!(CLAIM_ID));
        "effect-any-generation", "D4, D6: guard and endings require the generation that was read", &["an effect, operators"],
            "second net: an effect is never forced, so there is no other",
            rewrite!(Dispatcher, &[Purpose::GuardCall, Purpose::SettleEffect, Purpose::RearmEffect, Purpose::FailEffect, Purpose::DieOfCall], any!(GENERATION));
        "settle-any-key-epoch", "D6: what is done ends the record of its own key", &["an effect, operators"],
            "second net: a key is replaced only after the one call that was made with it",
            rewrite!(Dispatcher, SETTLE, any!(KEY_EPOCH));
        "guard-any-status", "D4: the guard requires PENDING", &["an effect, operators"],
            "second net: a record leaves PENDING with its first call, its pass or its retries changed",
            rewrite!(Dispatcher, GUARD, any!(STATUS));
        "ambiguous-counts-as-unclear", "D6: an answer that leaves it open is not asked again", &["keyed: answers"],
            "cost: a repeat that cannot help",
            called_instead!(Called::Unknown { .. } => Called::Unclear { status: None, retry_after: None });
        "give-up-ignored", "D6: an unclear effect is given up in the end", &["keyed: at the end of the window"],
            "cost: it waits until the effect age",
            Mutation { reply: Some(|_, _, reply| {
                if let Reply::Terms(Ok(Some(offer))) = reply { offer.terms.give_up_after = Millis(i64::MAX / 4); }
            }), ..NOTHING };
        "accepted-duplicate-keeps-guards", "1.9: an accepted duplicate removes what guards an effect", &["an effect, operators"],
            "cost: what a person lets go again dies once more, without a call",
            rewrite!(Operator, &[Purpose::Retry], same!(FIRST_CALL_AT, CALLEE, PASS, PASS_AT));
    }
}
