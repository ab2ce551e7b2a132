//! What the dispatcher writes before a call and after it, in every class.

use hookonce_protocol::call::{Call, Machine as _, Next, Reply, Step, Written};
use hookonce_protocol::destination::{Called, Class, NoTurn, Offer, Terms};
use hookonce_protocol::dispatcher::Dispatcher;
use hookonce_protocol::operator::retry;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{DeadReason, EffectPart, EndedCall, FAILURES_KEPT, Found, Outcome, Record, Status};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::{Done, Settled, VISIBILITY_MAX};
use hookonce_protocol::write::Write;

use super::dispatcher::an_effect;
use super::{after, answered, at, call, hint};
use crate::support::clock::START;

const CLASSES: [Class; 3] = [Class::Keyed { window: Millis::hours(24) }, Class::AtMostOnce, Class::AtLeastOnce];
const UNCLEAR: Called = Called::Unclear { status: None, retry_after: None };
const NOT_DONE: Called = Called::NotDone { status: None, retry_after: None };
const REFUSED: Called = Called::Refused { status: Some(400) };
const DONE: Called = Called::Done { status: Some(200) };

type DispatcherStep = Step<Dispatcher, Settled>;

/// The terms, and a turn.
fn offer(class: Class) -> Offer {
    Offer { terms: terms(class), turn: Ok(()) }
}

fn terms(class: Class) -> Terms {
    Terms { class, callee: format!("{class:?}"), timeout: Millis::seconds(5), give_up_after: Millis::hours(72) }
}

/// A dispatcher that knows the effect and the terms of its destination.
fn with_terms(effect: &Record, class: Class, pass: &str, receives: i64, now: EpochMs) -> DispatcherStep {
    offered(effect, offer(class), pass, receives, now)
}

fn offered(effect: &Record, offer: Offer, pass: &str, receives: i64, now: EpochMs) -> DispatcherStep {
    let step = Dispatcher::start(Ok(hint(effect)), receives, pass.to_owned(), Timing::standard(), at(now));
    let step = answered(step, Reply::Read(Ok(Found::Record(Box::new(effect.clone())))), now);
    answered(step, Reply::Terms(Ok(Some(offer))), now)
}

fn write(step: &DispatcherStep) -> Write {
    let Call::Write(write) = call(step) else { panic!("it writes") };
    write.clone()
}

fn part(record: &Record) -> &EffectPart {
    record.effect.as_ref().unwrap()
}

/// The effect as the guard leaves it, and what the call that ends so is followed by.
fn called(effect: &Record, class: Class, called: Called, receives: i64, now: EpochMs) -> (Record, DispatcherStep) {
    let step = with_terms(effect, class, "mine", receives, now);
    let guard = write(&step);
    assert_eq!(guard.purpose, Purpose::GuardCall);
    let step = answered(step, Reply::Written(Written::Applied), now);
    assert!(matches!(call(&step), Call::Deliver(_)));
    (after(&guard, effect), answered(step, Reply::Called(called), now))
}

/// The effect after a call that ends so.
fn left(effect: &Record, class: Class, ended: Called, now: EpochMs) -> Record {
    let (guarded, step) = called(effect, class, ended, 1, now);
    after(&write(&step), &guarded)
}

fn later(length: Millis) -> EpochMs {
    START.plus(length)
}

#[test]
fn a_call_is_known_whatever_class_comes_next() {
    let unclear = left(&an_effect(), Class::AtLeastOnce, UNCLEAR, START);
    assert_eq!((unclear.attempts, &part(&unclear).pass, part(&unclear).first_call_at), (1, &None, Some(START)));
    for class in [CLASSES[0], CLASSES[1]] {
        let step = with_terms(&unclear, class, "next", 1, later(Millis::hours(1)));
        let dead = after(&write(&step), &unclear);
        assert_eq!(dead.dead_reason, Some(DeadReason::UnknownOutcome), "{class:?}");
    }
    let next = with_terms(&unclear, Class::AtLeastOnce, "next", 1, later(Millis::hours(1)));
    assert_eq!(write(&next).purpose, Purpose::GuardCall);
}

/// From who was never called with this key, the answer says something else, or another has used the key.
#[test]
fn it_was_done_before_only_where_an_earlier_call_may_have_been_done() {
    let keyed = CLASSES[0];
    let already = Called::AlreadyDone { status: 409 };
    let first = left(&an_effect(), keyed, already, START);
    assert_eq!((first.status, first.dead_reason), (Status::Dead, Some(DeadReason::UnknownOutcome)));
    let not_done_now = left(&an_effect(), keyed, NOT_DONE, START);
    assert_eq!(
        left(&not_done_now, keyed, already, later(Millis::minutes(1))).dead_reason,
        Some(DeadReason::UnknownOutcome)
    );

    let unclear = left(&an_effect(), keyed, UNCLEAR, START);
    let done = left(&unclear, keyed, already, later(Millis::minutes(1)));
    assert_eq!((done.outcome, part(&done).calls.last().unwrap().status), (Some(Outcome::Delivered), Some(409)));
    // The person who accepted another call has seen that nothing was done. The same answer must not say the opposite.
    let accepted = after(&retry(&first, true, &Timing::standard(), at(START)).unwrap(), &first);
    assert_eq!(left(&accepted, keyed, already, START).dead_reason, Some(DeadReason::UnknownOutcome));
}

/// Another call could do it a second time, and would be answered alike.
#[test]
fn an_outcome_that_stays_unknown_ends_an_effect_in_every_class() {
    for class in CLASSES {
        let dead = left(&an_effect(), class, Called::Unknown { status: 302 }, START);
        assert_eq!((dead.attempts, dead.dead_reason), (0, Some(DeadReason::UnknownOutcome)), "{class:?}");
    }
}

#[test]
fn a_record_keeps_its_latest_calls_and_the_status_of_each_answer() {
    let keyed = CLASSES[0];
    let unclear = Called::Unclear { status: Some(503), retry_after: None };
    let busy = Called::NotDone { status: Some(429), retry_after: None };
    let statuses = |record: &Record| part(record).calls.iter().map(|call| call.status).collect::<Vec<_>>();
    let refused = left(&an_effect(), keyed, Called::Refused { status: Some(422) }, START);
    assert_eq!((refused.status, statuses(&refused)), (Status::Dead, vec![Some(422)]));
    let mut now = START;
    let mut next = |record: &Record, called: Called| {
        now = now.plus(Millis::hours(1));
        left(record, keyed, called, now)
    };
    let failed = next(&an_effect(), unclear);
    assert_eq!(part(&failed).calls, [EndedCall { at: START.plus(Millis::hours(1)), status: Some(503), unsent: false }]);
    // A call that was not made has no answer. One that was made and has none says so.
    let uncalled = next(&failed, Called::NoTime);
    let waits = next(&uncalled, busy);
    let silent = next(&waits, UNCLEAR);
    assert_eq!(statuses(&silent), [Some(503), Some(429), None]);
    assert_eq!(statuses(&next(&silent, DONE)), [Some(503), Some(429), None, Some(200)]);
    let unsent = |record: &Record| part(record).calls.last().unwrap().unsent;
    assert_eq!((unsent(&silent), unsent(&next(&silent, NOT_DONE))), (false, true), "no byte reached the callee");
    let mut many = silent;
    for _ in 0..FAILURES_KEPT {
        many = next(&many, busy);
    }
    assert_eq!(statuses(&many), [Some(429); FAILURES_KEPT], "the last ones are kept");
}

/// Nobody knows the answer to a call in which its process died. Whoever takes the pass, or ends the effect, notes that.
#[test]
fn a_call_whose_process_died_is_kept_without_an_answer() {
    let died_at = START.plus(Millis::hours(1));
    let (died, _) =
        called(&left(&an_effect(), Class::AtLeastOnce, UNCLEAR, START), Class::AtLeastOnce, DONE, 1, died_at);
    let unknown = EndedCall { at: died_at, status: None, unsent: false };
    assert_eq!(part(&died).calls.len(), 1, "it may still be alive");
    let now = died_at.plus(Millis::hours(1));
    let (guarded, step) = called(&died, Class::AtLeastOnce, UNCLEAR, 1, now);
    assert_eq!(part(&guarded).calls.last(), Some(&unknown));
    let failed = after(&write(&step), &guarded);
    assert_eq!(part(&failed).calls[1..], [unknown.clone(), EndedCall { at: now, status: None, unsent: false }]);

    let (died, _) = called(&an_effect(), Class::AtMostOnce, DONE, 1, died_at);
    let dead = after(&write(&with_terms(&died, Class::AtMostOnce, "other", 1, now)), &died);
    assert_eq!((dead.dead_reason, &part(&dead).calls), (Some(DeadReason::UnknownOutcome), &vec![unknown]));
}

/// A queue hands a message out 100 times before it is a dead letter, and three rounds of them end an effect.
#[test]
fn a_short_retry_after_grows_until_the_relay_takes_over() {
    let pause = |seconds: i64, receives: i64| {
        pause_after(0, Called::NotDone { status: None, retry_after: Some(Millis::seconds(seconds)) }, receives)
    };
    assert_eq!([pause(1, 1), pause(1, 4)], [Millis::seconds(5), Millis::seconds(40)]);
    assert_eq!(pause(60, 1), Millis::seconds(60), "a longer one counts");
    assert!((9..=100).all(|receives| pause(1, receives) > VISIBILITY_MAX));
}

/// An effect of which so many calls failed, and the pause after one more call that ends so.
fn pause_after(not_done: i64, ended: Called, receives: i64) -> Millis {
    pause_of(an_effect(), not_done, ended, receives)
}

fn pause_of(mut effect: Record, not_done: i64, ended: Called, receives: i64) -> Millis {
    effect.effect.as_mut().unwrap().not_done = not_done;
    let (guarded, step) = called(&effect, Class::AtLeastOnce, ended, receives, START);
    let left = after(&write(&step), &guarded);
    assert_eq!(part(&left).not_done, not_done + 1);
    let (due_in, timeout) = (left.due.unwrap().at.0 - START.0, Timing::standard().effects_visibility_timeout.0);
    match answered(step, Reply::Written(Written::Applied), START).next {
        Next::Done(Settled::Retry(hidden)) if hidden <= VISIBILITY_MAX => {
            assert_eq!(due_in, hidden.0 + timeout, "the message returns first");
            hidden
        }
        Next::Done(Settled::Ack(Done::Deferred)) if due_in > VISIBILITY_MAX.0 => Millis(due_in),
        ended => panic!("it waits: {ended:?}, due in {due_in} ms"),
    }
}

/// Otherwise the messages of a destination that is unavailable for a day would be hidden nearly all of the time, and
/// SQS hides only so many.
#[test]
fn the_pauses_of_a_destination_that_is_away_grow_from_message_to_message() {
    let pauses: Vec<_> = (0..12).map(|not_done| pause_after(not_done, NOT_DONE, 1)).collect();
    assert!(pauses.is_sorted() && pauses[8] > VISIBILITY_MAX, "{pauses:?}");
    assert_eq!((pauses[0], pauses[11]), (Millis::seconds(5), Millis::hours(1)));
    let busy = Called::NotDone { status: None, retry_after: Some(Millis::hours(3)) };
    assert_eq!(pause_after(0, busy, 1), Millis::hours(3), "a callee may ask for more");
}

#[test]
fn an_effect_that_has_no_turn_soon_comes_again() {
    let sent_again = Record { resends: 12, ..an_effect() };
    assert_eq!(pause_of(sent_again, 0, Called::NoTime, 1), Millis::hours(1), "unless that happens for hours");
    let pauses: Vec<_> = (1..=100).map(|receives| pause_after(40, Called::NoTime, receives)).collect();
    assert_eq!((pauses[0], pauses[4], pauses[9]), (Millis::seconds(5), Millis::seconds(20), Millis::seconds(80)));
    assert!(
        pauses.is_sorted() && pauses[20..].iter().all(|pause| *pause > VISIBILITY_MAX),
        "no dead letter: {pauses:?}"
    );
}

/// Whoever reads a pass, or that a call was allowed, must take it that the callee may have done the effect. If a
/// destination is down while the store throttles, effects that nobody called would end with an unknown outcome.
#[test]
fn an_effect_without_a_turn_is_never_guarded() {
    for (class, no_turn) in CLASSES
        .into_iter()
        .flat_map(|class| [NoTurn::Busy, NoTurn::Away { retry_after: None }].map(|no_turn| (class, no_turn)))
    {
        let step = offered(&an_effect(), Offer { turn: Err(no_turn), ..offer(class) }, "mine", 1, START);
        let write = write(&step);
        assert_eq!(write.purpose, Purpose::RearmEffect, "{class:?}, {no_turn:?}");
        let waits = after(&write, &an_effect());
        let part = part(&waits);
        assert_eq!((waits.attempts, part.not_done, &part.pass, part.first_call_at), (0, 1, &None, None));
        assert!(waits.not_before.is_some_and(|pause| START < pause), "{waits:?}");
    }
    let away = NoTurn::Away { retry_after: Some(Millis::minutes(30)) };
    let step = offered(&an_effect(), Offer { turn: Err(away), ..offer(CLASSES[1]) }, "mine", 1, START);
    assert_eq!(after(&write(&step), &an_effect()).not_before, Some(later(Millis::minutes(30))));
    // An earlier call may have been done, so the key's window counts here, too.
    let unclear = left(&an_effect(), CLASSES[0], UNCLEAR, START);
    let late = NoTurn::Away { retry_after: Some(Millis::hours(2)) };
    let step = offered(&unclear, Offer { turn: Err(late), ..offer(CLASSES[0]) }, "mine", 1, later(Millis::hours(22)));
    assert_eq!(after(&write(&step), &unclear).dead_reason, Some(DeadReason::UnknownOutcome));
}

/// The relay sends copies of a hint, also of an effect whose callee asked to be left alone.
#[test]
fn no_copy_of_a_hint_calls_a_callee_before_its_retry_after() {
    let busy = Called::NotDone { status: None, retry_after: Some(Millis::minutes(30)) };
    for ended in [busy, Called::Unclear { status: None, retry_after: Some(Millis::minutes(30)) }] {
        let waits = left(&an_effect(), Class::AtLeastOnce, ended, START);
        assert_eq!(waits.not_before, Some(later(Millis::minutes(30))), "{ended:?}");
        let read = |now: EpochMs| {
            let step = Dispatcher::start(Ok(hint(&waits)), 1, "copy".to_owned(), Timing::standard(), at(now));
            answered(step, Reply::Read(Ok(Found::Record(Box::new(waits.clone())))), now).next
        };
        assert_eq!(read(later(Millis::seconds(8))), Next::Done(Settled::Ack(Done::Deferred)));
        let by_another_clock = later(Millis(Millis::minutes(30).0 - 20));
        assert_eq!(read(by_another_clock), Next::Done(Settled::Retry(Millis(20))), "it may be the one that was hidden");
        assert!(matches!(read(later(Millis::minutes(30))), Next::Call(_, Call::Terms(_))));
    }
}

/// Messages that stay hidden would fill the queue of all destinations.
#[test]
fn an_effect_whose_destination_is_unknown_is_soon_left_to_the_relay() {
    let effect = an_effect();
    let wait = |receives: i64| {
        let longest =
            Moment { now: START, entropy: u64::try_from(Timing::standard().backoff_bound(receives - 1).0).unwrap() };
        let step = Dispatcher::start(Ok(hint(&effect)), receives, "mine".to_owned(), Timing::standard(), longest);
        let Next::Call(machine, Call::Read(_)) = step.next else { panic!("it reads") };
        let step = machine.step(Reply::Read(Ok(Found::Record(Box::new(effect.clone())))), longest);
        let Next::Call(machine, Call::Terms(_)) = step.next else { panic!("it asks") };
        match machine.step(Reply::Terms(Ok(None)), longest).next {
            Next::Done(settled) => settled,
            Next::Call(..) => panic!("it has ended"),
        }
    };
    assert_eq!(wait(1), Settled::Retry(Timing::standard().backoff_base));
    assert!((9..=100).all(|receives| wait(receives) == Settled::Ack(Done::Deferred)));
}

/// While the callee still knows the key, a person may let the effect go again without harm.
#[test]
fn a_repeat_that_would_come_after_the_window_is_given_up_at_once() {
    let keyed = CLASSES[0];
    let unclear = left(&an_effect(), keyed, UNCLEAR, START);
    let now = later(Millis::hours(22));
    let in_two_hours = Some(Millis::hours(2));
    for (ended, reason) in [
        (UNCLEAR, None),
        (NOT_DONE, None),
        (Called::Unclear { status: None, retry_after: in_two_hours }, Some(DeadReason::UnknownOutcome)),
        (Called::NotDone { status: None, retry_after: in_two_hours }, Some(DeadReason::UnknownOutcome)),
    ] {
        assert_eq!(left(&unclear, keyed, ended, now).dead_reason, reason, "{ended:?}");
    }
    let first = left(&an_effect(), keyed, Called::NotDone { status: None, retry_after: Some(Millis::hours(30)) }, now);
    assert_eq!(first.status, Status::Pending, "no key is in use");
}

#[test]
fn a_pause_is_cut_so_that_a_repeat_comes_before_the_end_of_the_window() {
    let keyed = CLASSES[0];
    let mut unclear = left(&an_effect(), keyed, UNCLEAR, START);
    unclear.effect.as_mut().unwrap().not_done = 40;
    let not_done = |minutes: i64, retry_after: Option<i64>| {
        let ended = Called::NotDone { status: None, retry_after: retry_after.map(Millis::minutes) };
        left(&unclear, keyed, ended, later(Millis::minutes(22 * 60 + minutes)))
    };
    let due = |record: Record| record.due.unwrap().at;
    let timeout = Timing::standard().effects_visibility_timeout;
    assert_eq!(due(not_done(30, None)), later(Millis::minutes(22 * 60 + 45)).plus(timeout), "half of what is left");
    // The relay may send it two minutes after its time: an hour is in time here, and four minutes later it is not.
    assert_eq!(due(not_done(-5, None)), later(Millis::minutes(22 * 60 + 55)));
    assert_eq!(due(not_done(-1, None)), later(Millis(80_970_000)));
    for (minutes, retry_after) in [(30, Some(20)), (55, None)] {
        assert_eq!(not_done(minutes, retry_after).dead_reason, Some(DeadReason::UnknownOutcome), "{minutes}");
    }
}

/// The store carries it out after another process has called, and the callee has said that it did nothing. Otherwise it
/// would look as if a process had died in the middle of a call.
#[test]
fn a_guard_that_comes_late_takes_no_pass_after_a_call_that_was_not_done() {
    let effect = an_effect();
    let late = write(&with_terms(&effect, Class::AtMostOnce, "late", 1, START));
    let not_done_now = left(&effect, Class::AtMostOnce, NOT_DONE, later(Millis::seconds(30)));
    let EffectPart { not_done, pass, first_call_at, callee, .. } = part(&not_done_now);
    assert_eq!((not_done, pass, first_call_at, callee, not_done_now.attempts), (&1, &None, &None, &None, 0));
    assert!(late.apply(Some(&not_done_now.encode())).is_err());
    let mut careless = late;
    careless.condition.0.retain(|clause| clause.attribute() != "not_done");
    assert!(careless.apply(Some(&not_done_now.encode())).is_ok(), "nothing else tells");
    let next = write(&with_terms(&not_done_now, Class::AtMostOnce, "next", 1, later(Millis::minutes(2))));
    assert!(next.apply(Some(&not_done_now.encode())).is_ok());
}

#[test]
fn a_guard_whose_reply_was_lost_finds_itself() {
    let effect = an_effect();
    let step = with_terms(&effect, Class::AtMostOnce, "mine", 1, START);
    let item = write(&step).apply(Some(&effect.encode())).unwrap();
    let step = answered(step, Reply::Written(Written::Unavailable), START);
    assert!(matches!(call(&step), Call::Wait(_)));
    let step = answered(step, Reply::Done, later(Millis(100)));
    let found = Written::refused(&write(&step), item.as_ref());
    let step = answered(step, Reply::Written(found), later(Millis(100)));
    assert!(matches!(call(&step), Call::Deliver(_)));

    let other = write(&with_terms(&effect, Class::AtMostOnce, "other", 1, START));
    assert!(matches!(Written::refused(&other, item.as_ref()), Written::ConditionFailed(_)));
}

#[test]
fn who_slept_between_the_guard_and_the_call_makes_none() {
    let guarded = |now| {
        let step = with_terms(&an_effect(), Class::AtMostOnce, "mine", 1, START);
        answered(step, Reply::Written(Written::Applied), now).next
    };
    let timeout = Timing::standard().dispatcher_timeout;
    assert!(matches!(guarded(later(timeout)), Next::Call(_, Call::Deliver(_))));
    assert!(matches!(guarded(later(Millis(timeout.0 + 1))), Next::Done(Settled::Retry(_))));
}

#[test]
fn every_write_but_the_last_names_the_first_call_as_it_was_read() {
    let timing = Timing::standard();
    let other = |record: &Record| {
        let mut record = record.clone();
        let first = &mut record.effect.as_mut().unwrap().first_call_at;
        *first = Some(first.map_or(START, |at| at.plus(Millis(1))));
        record.encode()
    };
    let effect = an_effect();
    let old = write_when_old(&effect, later(Millis(timing.effect_age_max.0 + 1)));
    assert_eq!(after(&old, &effect).dead_reason, Some(DeadReason::Stale));
    assert!(old.apply(Some(&other(&effect))).is_err());
    for (ended, names_it) in [(NOT_DONE, true), (UNCLEAR, true), (REFUSED, true), (DONE, false)] {
        let (guarded, step) = called(&effect, Class::AtLeastOnce, ended, 1, START);
        assert_eq!(write(&step).apply(Some(&other(&guarded))).is_err(), names_it, "{ended:?}");
    }
}

fn write_when_old(effect: &Record, now: EpochMs) -> Write {
    let step = Dispatcher::start(Ok(hint(effect)), 1, "mine".to_owned(), Timing::standard(), at(now));
    write(&answered(step, Reply::Read(Ok(Found::Record(Box::new(effect.clone())))), now))
}

/// If nobody ever called, a retry can do it once at most. The acceptance of a duplicate removes the trace of a call,
/// but not what that call may have done.
#[test]
fn an_effect_that_waits_too_long_is_unknown_unless_it_was_never_called() {
    let (effect, timing) = (an_effect(), Timing::standard());
    let old = later(Millis(timing.effect_age_max.0 + 1));
    let dies = |effect: &Record| after(&write_when_old(effect, old), effect);
    let unclear = left(&effect, Class::AtLeastOnce, UNCLEAR, START);
    let unknown = left(&effect, Class::AtMostOnce, UNCLEAR, START);
    let accepted = after(&retry(&unknown, true, &timing, at(START)).unwrap(), &unknown);
    assert_eq!(part(&accepted).first_call_at, None);
    for dead in [dies(&unclear), dies(&accepted)] {
        assert_eq!((dead.dead_reason, dead.outcome_unknown()), (Some(DeadReason::UnknownOutcome), true));
    }
    let stale = dies(&effect);
    assert_eq!((stale.dead_reason, stale.outcome_unknown()), (Some(DeadReason::Stale), false));
    let retried = after(&retry(&stale, false, &timing, at(old)).unwrap(), &stale);
    assert_eq!((retried.status, part(&retried).retried_at), (Status::Pending, Some(old)));
}

#[test]
fn what_was_done_is_done_also_if_it_was_retried_meanwhile() {
    let timing = Timing::standard();
    let (guarded, step) = called(&an_effect(), Class::AtMostOnce, DONE, 1, START);
    let retried = after(&retry(&guarded, false, &timing, at(START)).unwrap(), &guarded);
    assert_eq!((retried.retries, retried.status), (1, Status::Pending));
    let done = after(&write(&step), &retried);
    assert_eq!((done.status, done.outcome), (Status::Processed, Some(Outcome::Delivered)));

    let refused = Record { status: Status::Dead, dead_reason: Some(DeadReason::Refused), ..guarded };
    let under_another_key = after(&retry(&refused, false, &timing, at(START)).unwrap(), &refused);
    assert_eq!(part(&under_another_key).key_epoch, 1);
    assert!(write(&step).apply(Some(&under_another_key.encode())).is_err());
}
