//! What an operator may do, in every state of a record.

use hookonce_protocol::effect::EffectName;
use hookonce_protocol::invariant::{illegal_step, violations};
use hookonce_protocol::operator::{Order, Refusal, carry_out, discard, doubt, force, redacted_with, retry};
use hookonce_protocol::record::{DeadReason, Due, Outcome, Record, Status};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, SHARDS, Timing};
use hookonce_protocol::trail::{ENTRIES_MAX, Operation, Trail};
use hookonce_protocol::write::Action;

use super::dispatcher::an_effect;
use super::{a_record, after};
use crate::support::clock::START;
use crate::support::order;

const LATER: Moment = Moment { now: EpochMs(START.0 + 3_600_000), entropy: 0 };

fn record(status: Status) -> Record {
    let whole = a_record("in#a#x");
    let dead = Due::dead(&whole.key, SHARDS, START);
    match status {
        Status::Pending => whole,
        Status::Processed => Record { status, due: None, outcome: Some(Outcome::Applied), attempts: 3, ..whole },
        Status::Dead => {
            let dead_reason = Some(DeadReason::AttemptsExhausted);
            Record { status, due: Some(dead), expires_at: None, dead_reason, dead_at: Some(START), ..whole }
        }
        Status::Discarded => Record { status, due: None, ..whole },
    }
}

#[test]
fn every_order_is_granted_or_refused_by_the_state() {
    let timing = Timing::standard();
    for status in Status::ALL {
        let record = record(*status);
        let granted = |granted: bool, refusal: Refusal| if granted { Ok(()) } else { Err(refusal) };
        let waits = matches!(status, Status::Pending | Status::Dead);
        let retried = retry(&record, false, &timing, LATER).map(drop);
        assert_eq!(retried, granted(waits, Refusal::NotRetryable), "retry, {status}");
        let forced = force(&record, &timing, LATER).map(drop);
        assert_eq!(forced, granted(*status == Status::Processed, Refusal::NotForceable), "force, {status}");
        let discarded = discard(&record, &timing, LATER).map(drop);
        assert_eq!(discarded, granted(*status == Status::Dead, Refusal::NotDiscardable), "discard, {status}");
    }
    let ignored = Record { outcome: Some(Outcome::Ignored), ..record(Status::Processed) };
    assert!(retry(&ignored, false, &timing, LATER).is_ok());
    assert_eq!(force(&ignored, &timing, LATER), Err(Refusal::NotForceable), "it has had no effect to repeat");
    for status in [Status::Pending, Status::Processed] {
        let gone = Record { body: None, ..record(status) };
        let order =
            if status == Status::Pending { retry(&gone, false, &timing, LATER) } else { force(&gone, &timing, LATER) };
        assert_eq!(order, Err(Refusal::NoBody));
    }
}

/// Records in every state that hookonce writes: of events and of effects.
fn every_state() -> Vec<Record> {
    let mut states = Vec::new();
    for whole in [a_record("in#a#x"), an_effect()] {
        let is_effect = whole.effect.is_some();
        let pending = Record { attempts: 2, resends: 3, ..whole };
        let at = |status| Record { due: None, ..Record { status, ..pending.clone() } };
        let outcomes = Outcome::ALL.iter().filter(|outcome| is_effect == (**outcome == Outcome::Delivered));
        states.extend(outcomes.map(|outcome| Record { outcome: Some(*outcome), ..at(Status::Processed) }));
        states.extend(DeadReason::ALL.iter().map(|reason| Record { dead_reason: Some(*reason), ..at(Status::Dead) }));
        states.extend([at(Status::Discarded), pending]);
    }
    states
}

/// What an order makes of a record whose state does not matter.
fn carried_out(order: &Order, record: &Record) -> Record {
    let changed = match order.operation {
        Operation::Retry | Operation::Force => Record { status: Status::Pending, ..record.clone() },
        Operation::Discard => return Record { status: Status::Discarded, ..record.clone() },
        Operation::Redact => return Record { body: None, ..record.clone() },
        Operation::Doubt => {
            let is_event = record.effect.is_none();
            let dead_reason = Some(if is_event { DeadReason::Stale } else { DeadReason::UnknownOutcome });
            let doubted = Record { status: Status::Dead, dead_reason, outcome: None, ..record.clone() };
            return with_next_key(doubted, record);
        }
    };
    let begun = Record { attempts: 0, resends: 0, outcome: None, dead_reason: None, ..changed };
    let begun = if order.operation == Operation::Force {
        Record { generation: record.generation + 1, accept_duplicate: true, ..begun }
    } else {
        Record { retries: record.retries + 1, accept_duplicate: order.accept_duplicate, ..begun }
    };
    with_next_key(begun, record)
}

/// With another key, if its callee had refused the first.
fn with_next_key(mut changed: Record, before: &Record) -> Record {
    if let (Some(effect), Some(DeadReason::Refused)) = (&mut changed.effect, before.dead_reason) {
        effect.key_epoch += 1;
    }
    changed
}

/// The invariant allows what an operator may do, and nothing that is refused.
#[test]
fn an_order_is_an_edge_of_the_state_machine_if_it_is_granted_and_none_if_it_is_refused() {
    let timing = Timing::standard();
    let mut granted = 0;
    for (record, operation) in every_state().iter().flat_map(|it| Operation::ALL.iter().map(move |op| (it, *op))) {
        for accept_duplicate in [false, true] {
            let order = Order { accept_duplicate, accept_other_body: true, ..order(operation, "x") };
            let write = order.write(record, &Trail::default(), &timing, LATER);
            let step = format!("{operation:?} of {} {:?}", record.state_word(), record.dead_reason);
            match &write {
                Ok(write) => assert_eq!(illegal_step(Some(record), &after(write, record)), None, "{step}"),
                Err(_) if carried_out(&order, record) == *record => {}
                Err(refusal) => {
                    let illegal = illegal_step(Some(record), &carried_out(&order, record));
                    assert!(illegal.is_some(), "{step}: {refusal}");
                }
            }
            granted += usize::from(write.is_ok());
        }
    }
    assert!(granted > 40, "{granted}");
}

#[test]
fn what_may_have_been_applied_is_retried_only_by_one_who_accepts_that() {
    let timing = Timing::standard();
    for reason in DeadReason::ALL {
        let dead = Record { dead_reason: Some(*reason), ..record(Status::Dead) };
        assert_eq!(retry(&dead, false, &timing, LATER).is_err(), dead.outcome_unknown(), "{reason}");
        let unknown = matches!(reason, DeadReason::Stale | DeadReason::UnknownOutcome | DeadReason::Rewound);
        assert_eq!(dead.outcome_unknown(), unknown, "{reason}");
        if *reason == DeadReason::Rewound {
            // A retry would meet the same domain key. A force has one of its own.
            assert_eq!(retry(&dead, true, &timing, LATER), Err(Refusal::Rewound));
            assert_eq!(after(&force(&dead, &timing, LATER).unwrap(), &dead).generation, 1);
            continue;
        }
        assert_eq!(force(&dead, &timing, LATER), Err(Refusal::NotForceable), "{reason}");
        let write = retry(&dead, true, &timing, LATER).unwrap();
        assert!(after(&write, &dead).accept_duplicate, "{reason}");
    }
}

/// Its table was restored to a moment before it may have been called.
#[test]
fn a_doubted_effect_is_called_again_only_for_one_who_accepts_that() {
    let timing = Timing::standard();
    let effect = an_effect();
    let write = doubt(&effect, &timing, LATER).unwrap();
    let dead = after(&write, &effect);
    assert_eq!((dead.status, dead.dead_reason), (Status::Dead, Some(DeadReason::UnknownOutcome)));
    assert_eq!((violations(&dead, &timing), illegal_step(Some(&effect), &dead)), (vec![], None));
    assert_eq!(doubt(&dead, &timing, LATER), Err(Refusal::NotDoubtable), "once is enough");
    assert_eq!(retry(&dead, false, &timing, LATER), Err(Refusal::OutcomeUnknown));
    let again = after(&retry(&dead, true, &timing, LATER).unwrap(), &dead);
    assert_eq!((again.status, again.effect.unwrap().key_epoch), (Status::Pending, 0), "with the key of the first call");
    // Whoever changed it meanwhile was first.
    for overtaken in [Record { retries: 1, ..effect.clone() }, Record { generation: 1, ..effect.clone() }, dead] {
        assert!(write.apply(Some(&overtaken.encode())).is_err());
    }
    assert!(order(Operation::Doubt, "").needs_reason());
}

/// It may have run after the moment that its table was restored to: what waited, what was retried, what was brought
/// back once a route wanted it.
#[test]
fn an_event_that_was_doubted_runs_only_for_one_who_accepts_a_duplicate() {
    let timing = Timing::standard();
    let ignored = Record { outcome: Some(Outcome::Ignored), ..record(Status::Processed) };
    for event in [record(Status::Pending), record(Status::Dead), ignored.clone()] {
        let write = doubt(&event, &timing, LATER).unwrap();
        let doubted = after(&write, &event);
        assert_eq!((doubted.status, doubted.dead_reason), (Status::Dead, Some(DeadReason::Stale)));
        assert_eq!((violations(&doubted, &timing), illegal_step(Some(&event), &doubted)), (vec![], None));
        assert_eq!(retry(&doubted, false, &timing, LATER), Err(Refusal::OutcomeUnknown));
        assert!(retry(&doubted, true, &timing, LATER).is_ok());
        assert!(write.apply(Some(&Record { retries: 1, ..event.clone() }.encode())).is_err(), "somebody was first");
        assert_eq!(doubt(&doubted, &timing, LATER), Err(Refusal::NotDoubtable), "once is enough");
    }
    let quarantined = Record { dead_reason: Some(DeadReason::IdCollision), ..record(Status::Dead) };
    let redacted = Record { body: None, ..ignored };
    for event in [record(Status::Processed), record(Status::Discarded), quarantined, redacted] {
        assert_eq!(doubt(&event, &timing, LATER), Err(Refusal::NotDoubtable), "{} {event:?}", event.state_word());
    }
}

/// Whoever retried it after the moment of the restore called with the next key, under which the callee may know it.
#[test]
fn a_refused_effect_that_was_doubted_has_the_key_that_a_retry_would_have_given_it() {
    let timing = Timing::standard();
    let effect = an_effect();
    let (dead_reason, due) = (Some(DeadReason::Refused), Some(Due::dead(&effect.key, SHARDS, START)));
    let refused = Record { status: Status::Dead, dead_reason, due, expires_at: None, ..effect };
    let doubted = after(&doubt(&refused, &timing, LATER).unwrap(), &refused);
    assert_eq!((doubted.dead_reason, illegal_step(Some(&refused), &doubted)), (Some(DeadReason::UnknownOutcome), None));
    let again = after(&retry(&doubted, true, &timing, LATER).unwrap(), &doubted);
    assert_eq!((doubted.effect.unwrap().key_epoch, again.effect.unwrap().key_epoch), (1, 1));
}

/// A forger may have written a quarantined body. A retry of all dead records must not apply it.
#[test]
fn a_quarantined_body_runs_only_for_one_who_accepts_it() {
    let dead = Record { dead_reason: Some(DeadReason::IdCollision), ..record(Status::Dead) };
    let write = |order: &Order| order.write(&dead, &Trail::default(), &Timing::standard(), LATER);
    let retry = order(Operation::Retry, "");
    assert!(!retry.needs_reason());
    assert_eq!(write(&retry), Err(Refusal::OtherBody));
    assert_eq!(write(&Order { accept_duplicate: true, ..retry.clone() }), Err(Refusal::OtherBody));
    let accepted = Order { accept_other_body: true, ..retry };
    assert!(accepted.needs_reason());
    assert_eq!(after(&write(&accepted).unwrap(), &dead).status, Status::Pending);
    assert!(write(&order(Operation::Discard, "forged")).is_ok());
    for (order, both) in [
        (accepted, (true, false)),
        (Order { accept_other_body: false, ..order(Operation::Discard, "x") }, (false, false)),
    ] {
        let writes = carry_out(&dead, &Trail::default(), &order, "1", &Timing::standard(), LATER).unwrap();
        let Action::Put(item) = &writes[1].action else { panic!("{:?}", writes[1]) };
        let entry = &Trail::decode(Some(item)).entries[0];
        assert_eq!((entry.accept_other_body, entry.accept_duplicate), both, "the trail says what was accepted");
    }
}

#[test]
fn a_retry_starts_anew_in_the_same_generation() {
    let timing = Timing::standard();
    let fresh = a_record("in#a#x");
    let (due, expires_at) = (Due::pending(&fresh.key, SHARDS, LATER.now), timing.expiry(fresh.key.kind(), LATER.now));
    // What was decided before the retry must not end the record.
    let begun = Record { retries: 1, due: Some(due), expires_at: Some(expires_at), ..fresh };
    let dead = Record { attempts: 12, resends: 9, dead_letters: 2, ..record(Status::Dead) };
    let processed_at = Some(START);
    let ignored = Record { outcome: Some(Outcome::Ignored), processed_at, ..record(Status::Processed) };
    for ended in [dead, ignored] {
        assert_eq!(after(&retry(&ended, false, &timing, LATER).unwrap(), &ended), begun, "{}", ended.status);
    }
    assert_eq!(violations(&begun, &timing), []);
}

/// The records of effects stay when their event is forced, with what they sent. Whoever erases it must find them.
#[test]
fn a_force_keeps_the_names_of_earlier_effects() {
    let timing = Timing::standard();
    let names = |names: &[&str]| names.iter().map(|name| EffectName::parse(name).unwrap()).collect::<Vec<_>>();
    let done = Record { effects: names(&["receipt", "note"]), ..record(Status::Processed) };
    let once = after(&force(&done, &timing, LATER).unwrap(), &done);
    assert_eq!((&once.effects, &once.earlier_effects), (&names(&[]), &names(&["receipt", "note"])));
    assert_eq!(once.earlier_effect_keys(), done.effect_keys());
    let again = Record { effects: names(&["note", "mail"]), generation: 1, ..done.clone() };
    let again = Record { earlier_effects: once.earlier_effects, ..again };
    let twice = after(&force(&again, &timing, LATER).unwrap(), &again);
    assert_eq!(twice.earlier_effects, names(&["receipt", "note", "mail"]));
    let keys = twice.earlier_effect_keys();
    assert!(done.effect_keys().iter().chain(&again.effect_keys()).all(|key| keys.contains(key)), "{keys:?}");
    let plain = record(Status::Processed);
    let forced = after(&force(&plain, &timing, LATER).unwrap(), &plain);
    assert!(!forced.encode().contains_key("earlier_effects"), "an event without effects is as before");
}

#[test]
fn a_discarded_record_expires_like_a_processed_one() {
    let timing = Timing::standard();
    let dead = record(Status::Dead);
    let now = after(&discard(&dead, &timing, LATER).unwrap(), &dead);
    let expires_at = Some(LATER.now.plus(Millis::days(35)).as_seconds());
    let discarded_at = Some(LATER.now);
    assert_eq!(now, Record { status: Status::Discarded, due: None, discarded_at, expires_at, ..dead });
    assert_eq!(violations(&now, &timing), []);
}

/// Whoever erases an event erases every copy of its bytes, and nothing of another event.
#[test]
fn a_redaction_reaches_effects_of_every_generation_another_body_with_its_effects_and_the_batch() {
    let names = |names: &[&str]| names.iter().map(|name| EffectName::parse(name).unwrap()).collect::<Vec<_>>();
    let (batch, other) = (a_record("in#a#batch"), a_record("in#a#x").key.alternate());
    let event = Record {
        generation: 1,
        effects: names(&["crm"]),
        earlier_effects: names(&["mail"]),
        parent: Some(batch.key.clone()),
        ..record(Status::Processed)
    };
    let effects = [event.effect_keys(), event.earlier_effect_keys()].concat();
    assert_eq!(effects.len(), 2);
    let around = [event.key.alternate(), batch.key.clone()];
    assert_eq!(redacted_with(&event, &event), [&effects[..], &around].concat());
    let other = Record { effects: names(&["crm"]), ..a_record(other.as_str()) };
    assert_eq!(redacted_with(&event, &other), other.effect_keys());
    assert_eq!(redacted_with(&event, &batch), [], "its other events stay");
    let effect = an_effect();
    assert_eq!((redacted_with(&effect, &effect), effect.parent.is_some()), (vec![], true), "its event stays");
}

/// A new entry rewrites the others. What is not understood would be lost, and may be the force that was asked for.
#[test]
fn no_order_is_carried_out_beside_a_trail_of_a_later_release() {
    let (timing, dead) = (Timing::standard(), record(Status::Dead));
    let retry = order(Operation::Retry, "a test");
    let writes = carry_out(&dead, &Trail::default(), &retry, "1", &timing, LATER).unwrap();
    let Action::Put(item) = &writes[1].action else { panic!("{:?}", writes[1]) };
    assert!(carry_out(&dead, &Trail::decode(Some(item)), &retry, "2", &timing, LATER).is_ok());
    let mut later = item.clone();
    later.insert("zz_later".to_owned(), 1.into());
    let trail = Trail::decode(Some(&later));
    assert_eq!((trail.entries.len(), trail.unread), (1, 1));
    for operation in Operation::ALL {
        let order = Order { operation: *operation, ..retry.clone() };
        assert_eq!(carry_out(&dead, &trail, &order, "2", &timing, LATER), Err(Refusal::LaterTrail), "{operation}");
    }
}

/// A repeated command looks for its own force in the trail, so other acts do not push it out.
#[test]
fn a_full_trail_lets_forces_go_last() {
    let (timing, record) = (Timing::standard(), record(Status::Processed));
    let mut trail = Trail::default();
    for number in 0..ENTRIES_MAX + 3 {
        let (operation, record) = match number {
            0 => (Operation::Force, record.clone()),
            _ => (Operation::Retry, self::record(Status::Pending)),
        };
        let order = order(operation, &format!("number {number}"));
        let writes = carry_out(&record, &trail, &order, &number.to_string(), &timing, LATER).unwrap();
        let Action::Put(item) = &writes[1].action else { panic!("{:?}", writes[1]) };
        trail = Trail::decode(Some(item));
    }
    let reasons: Vec<_> = trail.entries.iter().map(|entry| entry.reason.as_str()).collect();
    assert_eq!((reasons.len(), reasons[0], reasons[1]), (ENTRIES_MAX, "number 0", "number 4"));
    assert_eq!(trail.count, i64::try_from(ENTRIES_MAX).unwrap() + 3);
}
