//! Every mutant: one clause of the contract, taken out.

use hookonce_protocol::call::{Call, CancellationReason, Committed, Reply, Written};
use hookonce_protocol::key::ClaimId;
use hookonce_protocol::message::Message;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, Unreadable, attribute};
use hookonce_protocol::time::{EpochMs, Millis};

use super::change::{
    NOTHING, any, each, mutants, rewrite, same, survivors, unconditional, without_changes, without_clauses,
};
use super::{Mutant, Mutation};
use crate::label::Role;

const FAILURE: &[Purpose] =
    &[Purpose::CountFailure, Purpose::DeadAfterFailures, Purpose::DeadTooOld, Purpose::DeadRewound];
const DEATH: &[Purpose] = &[Purpose::DeadAfterFailures, Purpose::DeadTooOld, Purpose::DeadRewound];
const DOUBT: &[Purpose] = &[Purpose::Doubt];
const POSTPONE: &[Purpose] = &[Purpose::Postpone];
const SETTLE: &[Purpose] = &[Purpose::Settle];
const MARK: &[Purpose] = &[Purpose::MarkDuplicate];
const IGNORED: &[Purpose] = &[Purpose::MarkIgnored];
const DEAD_LETTER: &[Purpose] = &[Purpose::DieOfDeadLetter, Purpose::RearmDeadLetter];

/// Every mutant.
pub fn all() -> Vec<Mutant> {
    let killed = [writes(), ingress(), worker(), failures(), fan_out(), relay(), dead_letters(), operators()];
    [killed.concat(), costs(), second_nets(), super::effect::all()].concat()
}

fn writes() -> Vec<Mutant> {
    mutants! {
        "own-write-not-recognised", "every write: one that finds itself counts as carried out", &["every write repeated"],
            Mutation { refused: Some(|_, item| Written::ConditionFailed(Found::head_of(item))), ..NOTHING };
        "invalid-counts-as-unavailable", "every write: what the store can never carry out is not tried for ever", &["{a,b}, b fits into no item"],
            Mutation { reply: Some(|_, _, reply| {
                let each: &mut [Written] = if let Reply::Written(written) = reply {
                    std::slice::from_mut(written)
                } else if let Reply::WrittenEach(each) = reply { each } else { return };
                each.iter_mut().filter(|one| **one == Written::Invalid).for_each(|one| *one = Written::Unavailable);
            }), ..NOTHING };
    }
}

fn ingress() -> Vec<Mutant> {
    mutants! {
        "claim-unconditional", "G1: the claim requires that no record exists", &["two deliveries"],
            rewrite!(Ingress, &[Purpose::Claim], unconditional);
        "claim-not-due", "G1: the claim enters the index of due records", &["two deliveries"],
            rewrite!(Ingress, &[Purpose::Claim], same!(DUE_AT, DUE_SHARD));
        "claim-without-expiry", "G1: the claim sets the TTL", &["two deliveries"],
            rewrite!(Ingress, &[Purpose::Claim], same!(EXPIRES_AT));
        "unknown-claim-counts-as-won", "G1: an unknown claim is not acknowledged", &["three deliveries"],
            Mutation { reply: Some(|role, call, reply| {
                if role == Role::Ingress && matches!(call, Call::Write(_)) && *reply == Reply::Written(Written::Unavailable) {
                    *reply = Reply::Written(Written::Applied);
                }
            }), ..NOTHING };
        "conflict-counts-as-won", "G1: a claim that met a transaction is looked up", &["three deliveries"],
            Mutation { reply: Some(|role, call, reply| {
                if role == Role::Ingress && matches!(call, Call::Write(_)) && *reply == Reply::Written(Written::TransactionConflict) {
                    *reply = Reply::Written(Written::Applied);
                }
            }), ..NOTHING };
        "unknown-payload-counts-as-sent", "G4: fail-open acknowledges only a confirmed message", &["fail-open with dead letters"],
            Mutation { reply: Some(|_, call, reply| {
                if matches!(call, Call::Send(Message::Full(_))) {
                    *reply = Reply::Sent(Ok(()));
                }
            }), ..NOTHING };
        "quarantine-unconditional", "G3, W1, F1, 1.8: another body is kept only once", &["another body, writes repeated"],
            Mutation { call: Some(|role, call| {
                for writer in [Role::Ingress, Role::Worker, Role::DeadLetter] {
                    each(role, call, writer, &[Purpose::Quarantine], unconditional);
                }
            }), ..NOTHING };
        "due-mark-any-status", "G2: the due mark requires PENDING", &["two deliveries"],
            rewrite!(Ingress, &[Purpose::MarkDue], any!(STATUS, DUE_AT));
        "duplicate-count-upserts", "G3: the duplicate count requires that the record exists", &["re-delivery around the expiry"],
            rewrite!(Ingress, &[Purpose::CountDuplicate], unconditional);
    }
}

fn worker() -> Vec<Mutant> {
    mutants! {
        "payload-read-as-hint", "W1: a message with a payload makes the claim", &["fail-open with dead letters"],
            Mutation { message: Some(|role, message| {
                if role == Role::Worker { *message = Message::Ref { pk: message.record_key().clone() }; }
            }), ..NOTHING };
        "accept-before-ignored", "W1: a payload is claimed only until its accept time", &["fail-open with TTL"],
            Mutation { message: Some(|_, message| {
                if let Message::Full(payload) = message { payload.accept_before = EpochMs(i64::MAX); }
            }), ..NOTHING };
        "payload-claim-unconditional", "W1: its claim requires that no record exists", &["fail-open with dead letters"],
            rewrite!(Worker, &[Purpose::Claim, Purpose::ClaimDead], unconditional);
        "age-ignored", "W2: nothing older than the commit age is committed", &["one fact, far apart"],
            Mutation { timing: Some(|timing| timing.commit_age_max = Millis(i64::MAX / 4)), ..NOTHING };
        "commit-unconditional", "W4[0]: the commit names the state that it starts from", &["two deliveries"],
            rewrite!(Worker, SETTLE, unconditional);
        "commit-any-status", "W4[0]: the commit requires PENDING", &["two deliveries"], rewrite!(Worker, SETTLE, any!(STATUS));
        "commit-stays-due", "W4[0]: the commit leaves the index of due records", &["two deliveries"],
            rewrite!(Worker, SETTLE, same!(DUE_AT, DUE_SHARD));
        "domain-key-unconditional", "W4[1]: the domain key is put only once", &["one fact under two ids"],
            rewrite!(Worker, &[Purpose::DomainKey], unconditional);
        "domain-key-without-generation", "1.2: a forced generation has a domain key of its own", &["two forces"],
            rewrite!(Worker, &[Purpose::DomainKey], |write| {
                if let Some((plain, _)) = write.key.as_str().split_once("##in#") { write.key = plain.to_owned().into(); }
            });
        "mark-unconditional", "W4: the duplicate mark names the state that it starts from", &["one fact under two ids, forced"],
            rewrite!(Worker, MARK, unconditional);
        "mark-any-generation", "W4: the duplicate mark requires the generation that was read", &["one fact under two ids, forced"],
            rewrite!(Worker, MARK, any!(GENERATION));
        "mark-any-status", "W4: the duplicate mark requires PENDING", &["one fact under two ids, forced"],
            rewrite!(Worker, MARK, any!(STATUS));
        "ignored-mark-any-status", "W3: the mark of an event without a handler requires PENDING", &["an event without a handler"],
            rewrite!(Worker, IGNORED, any!(STATUS));
        "ignored-mark-any-retries", "W3: the mark of an event without a handler requires the retries that were read", &["an ignored event, brought back"],
            rewrite!(Worker, IGNORED, any!(RETRIES));
        "ignored-mark-any-generation", "W3: the mark of an event without a handler requires the generation that was read", &["an ignored event, two operators"],
            rewrite!(Worker, IGNORED, any!(GENERATION));
        "ignored-mark-any-claim", "W3: the mark of an event without a handler requires the claim that was read", &["an ignored event around the expiry"],
            rewrite!(Worker, IGNORED, any!(CLAIM_ID));
        "own-fact-is-a-duplicate", "W4: a fact that the record itself has applied is no duplicate", &["an effect, its inbox rewound"],
            Mutation { reply: Some(|_, _, reply| own_facts(reply, |own| *own = CancellationReason::ConditionFailed)), ..NOTHING };
        "any-own-fact-was-rewound", "W4: a fact that an expired record of the same key has applied makes a duplicate", &["re-delivery around the expiry"],
            Mutation { reply: Some(|_, _, reply| own_facts(reply, |own| {
                *own = CancellationReason::OwnFact { applied_at: EpochMs(i64::MAX / 4) };
            })), ..NOTHING };
        "any-cancellation-is-a-duplicate", "W4: a cancelled commit is judged reason by reason", &["overtaken plans"],
            Mutation { reply: Some(|_, _, reply| {
                if let Reply::Committed(Committed::Cancelled(reasons)) = reply
                    && reasons.iter().all(|reason| *reason == CancellationReason::Transient)
                {
                    *reasons = vec![CancellationReason::None, CancellationReason::ConditionFailed, CancellationReason::None];
                }
            }), ..NOTHING };
    }
}

fn failures() -> Vec<Mutant> {
    mutants! {
        "failure-unconditional", "W5: a failure names the state that it starts from", &["two deliveries"],
            rewrite!(Worker, FAILURE, unconditional);
        "failure-any-status", "W5: a failure requires PENDING", &["two deliveries"], rewrite!(Worker, FAILURE, any!(STATUS));
        "pause-ignored", "W5: no failure counts within the pause after the last one", &["copies of a hint"],
            Mutation {
                reply: Some(|role, _, reply| {
                    if let (Role::Worker, Reply::Read(Ok(Found::Record(record)))) = (role, reply) { record.not_before = None; }
                }),
                call: Some(|role, call| each(role, call, Role::Worker, FAILURE, any!(NOT_BEFORE))),
                ..NOTHING
            };
        "failure-any-pause", "W5: a failure requires the pause that was read", &["copies of a hint"],
            rewrite!(Worker, FAILURE, any!(NOT_BEFORE, ATTEMPTS));
        "pause-not-noted", "W5, Q11: the record says when its pause ends", &["copies of a hint"],
            rewrite!(Worker, &[Purpose::CountFailure, Purpose::Postpone], same!(NOT_BEFORE));
        "postpone-unconditional", "Q11: a wait for the handler names the state that it starts from", &["a handler away, operators and dead letters"],
            rewrite!(Worker, POSTPONE, unconditional);
        "postpone-any-due-time", "Q11: a wait for the handler requires the due time that was read", &["a handler away"],
            rewrite!(Worker, POSTPONE, any!(DUE_AT));
        "postpone-any-status", "Q11: a wait for the handler requires PENDING", &["a handler away, operators and dead letters"],
            rewrite!(Worker, POSTPONE, any!(STATUS, DUE_AT));
        "postpone-keeps-list", "Q11: what waits leaves the list of what does not", &["a handler away"],
            rewrite!(Worker, POSTPONE, same!(DUE_SHARD));
        "death-keeps-expiry", "W5: a dead record does not expire", &["replay, retry and force"],
            rewrite!(Worker, DEATH, same!(EXPIRES_AT));
        "death-keeps-due-entry", "W5: a dead record leaves the relay's index for the operator's", &["replay, retry and force"],
            rewrite!(Worker, DEATH, same!(DUE_AT, DUE_SHARD));
    }
}

/// A record, whatever it says.
const NOT_READ: Found = Found::Unreadable(Unreadable { schema_version: None });

fn fan_out() -> Vec<Mutant> {
    mutants! {
        "child-unconditional", "F1: a child is created only once", &["{a,b} with {b,a}", "{a,b} with {b}"],
            rewrite!(Worker, &[Purpose::ClaimChild], unconditional);
        "unknown-child-counts-as-created", "F3: the envelope closes only when every child is known", &["{a,b}, two crashes"],
            Mutation { reply: Some(|role, _, reply| {
                if let (Role::Worker, Reply::WrittenEach(each)) = (role, reply) {
                    each.iter_mut().filter(|one| **one == Written::Unavailable).for_each(|one| *one = Written::Applied);
                }
            }), ..NOTHING };
        "unread-child-counts-as-created", "F3: a child that could not be read is created", &["{a,b}, two crashes"],
            Mutation { reply: Some(|role, _, reply| {
                if let (Role::Worker, Reply::ReadHeads(each)) = (role, reply) {
                    each.iter_mut().filter(|one| one.is_err()).for_each(|one| *one = Ok(NOT_READ));
                }
            }), ..NOTHING };
        "child-not-due", "F1: a child enters the index of due records", &["{a,b}, two crashes"],
            rewrite!(Worker, &[Purpose::ClaimChild], same!(DUE_AT, DUE_SHARD));
        "close-unconditional", "F3: closing names the state that it starts from", &["{a,b}, given up"],
            rewrite!(Worker, &[Purpose::CloseEnvelope], unconditional);
        "close-keeps-body", "F3: closing erases the body", &["{a,b} with {b}"],
            rewrite!(Worker, &[Purpose::CloseEnvelope], same!(BODY));
    }
}

fn relay() -> Vec<Mutant> {
    mutants! {
        "re-arm-any-status", "R2: a re-arm requires PENDING", &["two relays at once"], rewrite!(Relay, &[Purpose::Rearm], any!(STATUS, DUE_AT));
        "re-arm-any-due-time", "R2: a re-arm requires the due time that was seen", &["two relays at once"],
            rewrite!(Relay, &[Purpose::Rearm], any!(DUE_AT));
        "re-arm-keeps-due-time", "R2: a re-arm moves the due time before anything is sent", &["two relays at once"],
            rewrite!(Relay, &[Purpose::Rearm], same!(DUE_AT));
        "re-arm-keeps-expiry", "R2: a re-arm renews the TTL", &["TTL with renewal"], rewrite!(Relay, &[Purpose::Rearm], same!(EXPIRES_AT));
        "send-without-re-arm", "R3: only the winner of a re-arm sends", &["two relays at once"],
            Mutation { reply: Some(|role, _, reply| {
                if let (Role::Relay, Reply::WrittenEach(each)) = (role, reply) {
                    each.fill(Written::Applied);
                }
            }), ..NOTHING };
        "repair-unconditional", "R3: the repair of a failed send names the state that it starts from", &["two relays at once"],
            rewrite!(Relay, &[Purpose::RepairDueTime], unconditional);
    }
}

fn dead_letters() -> Vec<Mutant> {
    mutants! {
        "dead-letter-read-as-hint", "1.8: a dead letter with a payload makes the claim", &["fail-open with dead letters"],
            Mutation { message: Some(|role, message| {
                if role == Role::DeadLetter { *message = Message::Ref { pk: message.record_key().clone() }; }
            }), ..NOTHING };
        "dead-letter-claim-unconditional", "1.8: its claim requires that no record exists", &["fail-open with dead letters"],
            rewrite!(DeadLetter, &[Purpose::Claim, Purpose::ClaimDead], unconditional);
        "dead-letter-copies-count", "1.8: a dead letter counts only if it was sent after the last one was counted",
            &["dead letters, copies"],
            rewrite!(DeadLetter, &[Purpose::RearmDeadLetter], same!(DEAD_LETTER_AT));
        "dead-letter-unconditional", "1.8: a dead letter names the state that it starts from", &["two deliveries"],
            rewrite!(DeadLetter, DEAD_LETTER, unconditional);
        "dead-letter-any-status", "1.8: a dead letter requires PENDING", &["two deliveries", "dead letters never tried"],
            rewrite!(DeadLetter, DEAD_LETTER, any!(STATUS));
    }
}

fn operators() -> Vec<Mutant> {
    mutants! {
        "doubt-any-status", "1.9: a doubt requires the status that was shown", &["doubts"],
            rewrite!(Operator, DOUBT, any!(STATUS));
        "doubt-any-claim", "1.9: a doubt requires the claim that was shown", &["an ignored event around the expiry, doubted"],
            rewrite!(Operator, DOUBT, any!(CLAIM_ID));
        "doubt-any-generation", "1.9: a doubt requires the generation that was shown", &["doubts"],
            rewrite!(Operator, DOUBT, any!(GENERATION));
        "doubt-any-retries", "1.9: a doubt requires the retries that were shown", &["doubts"],
            rewrite!(Operator, DOUBT, any!(RETRIES));
        "doubt-any-body", "1.9: a doubt requires the body", &["an ignored event, doubted"],
            rewrite!(Operator, DOUBT, any!(BODY));
        "doubt-keeps-expiry", "1.9: what was doubted never expires by itself", &["doubts"],
            rewrite!(Operator, DOUBT, same!(EXPIRES_AT));
        "retry-any-status", "1.9: a retry requires the status that was shown", &["two operators"],
            rewrite!(Operator, &[Purpose::Retry], any!(STATUS));
        "retry-not-counted", "1.9: a retry is counted", &["two operators"],
            rewrite!(Operator, &[Purpose::Retry], same!(RETRIES));
        "retry-any-retries", "1.9: a retry requires the retries that were shown", &["two operators"],
            rewrite!(Operator, &[Purpose::Retry], any!(RETRIES));
        "retry-any-claim", "1.9: a retry requires the claim that was shown", &["an ignored event around the expiry"],
            rewrite!(Operator, &[Purpose::Retry], any!(CLAIM_ID));
        "retry-any-generation", "1.9: a retry requires the generation that was shown", &["two operators"],
            rewrite!(Operator, &[Purpose::Retry], any!(GENERATION));
        "discard-any-status", "1.9: a discard requires DEAD", &["two operators"],
            rewrite!(Operator, &[Purpose::Discard], any!(STATUS));
        "discard-any-claim", "1.9: a discard requires the claim that was shown", &["operators around the expiry"],
            rewrite!(Operator, &[Purpose::Discard], any!(CLAIM_ID));
        "discard-any-retries", "1.9: a discard requires the retries that were shown", &["two operators"],
            rewrite!(Operator, &[Purpose::Discard], any!(RETRIES));
        "redact-any-retries", "1.9: a redaction requires the retries that were shown", &["an ignored event, two operators"],
            rewrite!(Operator, &[Purpose::Redact], any!(RETRIES));
        "retry-any-reason", "1.9: a retry of a dead record requires the reason that was shown", &["doubts"],
            rewrite!(Operator, &[Purpose::Retry], any!(DEAD_REASON));
        "retry-without-expiry", "1.9: a retry sets the TTL again", &["replay, retry and force"],
            rewrite!(Operator, &[Purpose::Retry], same!(EXPIRES_AT));
        "retry-not-due", "1.9: a retry enters the index of due records", &["replay, retry and force"],
            rewrite!(Operator, &[Purpose::Retry], same!(DUE_AT, DUE_SHARD));
        "force-any-claim", "1.9: a force requires the claim that was shown", &["operators around the expiry"],
            rewrite!(Operator, &[Purpose::Force], any!(CLAIM_ID));
        "force-any-generation", "1.9: a force requires the generation that was shown", &["two forces"],
            rewrite!(Operator, &[Purpose::Force], any!(GENERATION));
        "force-keeps-generation", "1.9: a force begins a generation", &["two forces"],
            rewrite!(Operator, &[Purpose::Force], same!(GENERATION));
        "redact-unconditional", "1.9: a redaction names the state that it starts from", &["operators around the expiry"],
            rewrite!(Operator, &[Purpose::Redact], unconditional);
        "redact-any-claim", "1.9: a redaction requires the claim that was shown", &["operators around the expiry"],
            rewrite!(Operator, &[Purpose::Redact], any!(CLAIM_ID));
        "retry-any-body", "1.9: a retry requires the body", &["an ignored event, two operators"],
            rewrite!(Operator, &[Purpose::Retry], any!(BODY));
        "force-any-body", "1.9: a force requires the body", &["two operators"],
            rewrite!(Operator, &[Purpose::Force], any!(BODY));
        "redact-any-body", "1.9: a redaction requires the body", &["two operators"],
            rewrite!(Operator, &[Purpose::Redact], any!(BODY));
    }
}

/// Changes what a worker is told of facts that its record's own key has applied.
fn own_facts(reply: &mut Reply, change: fn(&mut CancellationReason)) {
    if let Reply::Committed(Committed::Cancelled(reasons)) = reply {
        reasons.iter_mut().filter(|reason| matches!(reason, CancellationReason::OwnFact { .. })).for_each(change);
    }
}

fn costs() -> Vec<Mutant> {
    survivors! {
        "own-retry-not-recognised", "G1: a claim that finds itself counts as won", &["three deliveries"],
            "cost: the relay sends the hint instead, when its first re-send is due",
            Mutation { reply: Some(|role, _, reply| {
                if let (Role::Ingress, Reply::Written(Written::ConditionFailed(Found::Record(record)))) = (role, reply) {
                    record.claim_id = ClaimId("another".to_owned());
                }
            }), ..NOTHING };
        "due-mark-any-due-time", "G2: the due mark requires its own due time", &["two deliveries, relay and clock"],
            "cost: at most one send earlier than the schedule", rewrite!(Ingress, &[Purpose::MarkDue], any!(DUE_AT));
        "unknown-commit-counts-as-applied", "W4: an unknown commit is confirmed by a read", &["two deliveries, relay and clock"],
            "cost: the relay owns the record once its hint is gone",
            Mutation { reply: Some(|_, _, reply| {
                if *reply == Reply::Committed(Committed::Unavailable) { *reply = Reply::Committed(Committed::Applied); }
            }), ..NOTHING };
        "commit-keeps-expiry", "W4[0]: the commit renews the TTL", &["late delivery after force"],
            "horizon: the claim's TTL already spans the provider's window; renewal only prolongs the memory of a record that waited long",
            rewrite!(Worker, SETTLE, same!(EXPIRES_AT));
        "commit-any-claim", "W4[0]: the commit requires the claim that was read", &["zombies around the expiry"],
            "second net: the domain key outlives the record, and cancels the commit of an earlier claim",
            rewrite!(Worker, SETTLE, any!(CLAIM_ID));
        "commit-any-generation", "W4[0]: the commit requires the generation that was read", &["two forces", "replay, retry and force"],
            "second net: the domain key of the earlier generation exists, and cancels its late commit",
            rewrite!(Worker, SETTLE, any!(GENERATION));
        "close-any-generation", "F3: closing requires the generation that was read", &["{a,b}, dead letters and force"],
            "in no scenario: nobody can force an envelope, so it has the first generation only",
            rewrite!(Worker, &[Purpose::CloseEnvelope], any!(GENERATION));
        "force-any-status", "1.9: a force requires PROCESSED", &["two forces"],
            "second net: a processed record leaves that status only by a new generation, which the condition names too",
            rewrite!(Operator, &[Purpose::Force], any!(STATUS));
        "failure-any-generation", "W5: a failure requires the generation that was read", &["replay, retry and force"],
            "cost: a forced generation may count a failure, or die with its payload, that belongs to the one before",
            rewrite!(Worker, FAILURE, any!(GENERATION));
        "postpone-any-claim", "Q11: a wait for the handler requires the claim that was read", &["a handler away"],
            "second net: the due time that it names belongs to one claim", rewrite!(Worker, POSTPONE, any!(CLAIM_ID));
        "postpone-any-generation", "Q11: a wait for the handler requires the generation that was read", &["a handler away"],
            "second net: the due time that it names belongs to one generation", rewrite!(Worker, POSTPONE, any!(GENERATION));
        "re-arm-keeps-count", "R2: a re-arm counts the send to come", &["stale reads"],
            "cost: the interval does not grow; the simulation of outages, not the model, shows what that costs",
            rewrite!(Relay, &[Purpose::Rearm], same!(RESENDS));
        "dead-letter-any-count", "1.8: a dead letter requires the counts that were read", &["dead letters never tried"],
            "cost: two copies of one dead letter may count once",
            rewrite!(DeadLetter, DEAD_LETTER, any!(DEAD_LETTERS));
    }
}

/// Each clause alone. Another clause of the same write or transaction says the same for every state that the record can
/// reach, or what the clause saves is time.
fn second_nets() -> Vec<Mutant> {
    survivors! {
        "due-mark-any-claim", "G2: the due mark requires its own claim", &["two forces"],
            "second net: the due time that it names is that of this request's first re-send",
            rewrite!(Ingress, &[Purpose::MarkDue], any!(CLAIM_ID));
        "due-mark-any-generation", "G2: the due mark requires generation 0", &["two forces"],
            "second net: the due time that it names is that of this request's first re-send",
            rewrite!(Ingress, &[Purpose::MarkDue], any!(GENERATION));
        "commit-any-retries", "W4, F3: a commit, the duplicate mark and closing require the retries that were read",
            &["an ignored event, brought back", "an ignored event and another id of its fact"],
            "cost: what was planned before a retry may end the record after it; its effect, or that of the same fact, stands all the same",
            rewrite!(Worker, &[Purpose::Settle, Purpose::MarkDuplicate, Purpose::CloseEnvelope], any!(RETRIES));
        "failure-any-attempts", "W5: a failure requires the count that was read", &["three failures", "copies of a hint"],
            "second net: each failure that is counted notes another pause, and the condition names the pause that was read",
            rewrite!(Worker, FAILURE, any!(ATTEMPTS));
        "failure-any-retries", "W5: a failure requires the retries that were read", &["an ignored event, brought back, writes repeated"],
            "cost: a record that was brought back may count a failure, or die with its payload, that belongs to the time before",
            rewrite!(Worker, FAILURE, any!(RETRIES));
        "dead-letter-any-retries", "1.8: a dead letter requires the retries that were read", &["operators and dead letters"],
            "cost: a record that was brought back may count a dead letter that belongs to the time before",
            rewrite!(DeadLetter, DEAD_LETTER, any!(RETRIES));
        "due-mark-any-retries", "G2: the due mark requires that nobody retried", &["two deliveries, relay and clock"],
            "second net: the due time that it names is that of this request's first re-send",
            rewrite!(Ingress, &[Purpose::MarkDue], any!(RETRIES));
        "repair-any-retries", "R3: the repair of a failed send requires the retries that were read", &["two relays at once"],
            "second net: the due time that it names is that of this run's re-arm",
            rewrite!(Relay, &[Purpose::RepairDueTime], any!(RETRIES));
        "note-of-body-unconditional", "H15: the note of a body is put only once", &[],
            "cost: a replay of a body under another id is not counted; nothing depends on the note",
            rewrite!(Worker, &[Purpose::NoteBody], unconditional);
        "discard-any-generation", "1.9: a discard requires the generation that was shown", &["two operators"],
            "second net: a dead record comes back only by a retry, and the condition names the retries, too",
            rewrite!(Operator, &[Purpose::Discard], any!(GENERATION));
        "force-any-retries", "1.9: a force requires the retries that were shown", &["an ignored event, two operators"],
            "second net: an applied record leaves that status only by a new generation, which the condition names too",
            rewrite!(Operator, &[Purpose::Force], any!(RETRIES));
        "note-any-count", "1.9: an entry of the trail requires the trail that was read", &["two operators", "an ignored event, two operators"],
            "second net: each act changes what the condition of the next one names of the record",
            rewrite!(Operator, &[Purpose::NoteOperation], unconditional);
    }
}
