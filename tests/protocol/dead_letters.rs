//! Dead letters count rounds, not messages.

use hookonce_protocol::call::{Call, Machine as _, Next, Reply, Signal, Step, Unavailable, Written};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::dead_letter::{DeadLetter, DeadLetterOutcome};
use hookonce_protocol::item::Item;
use hookonce_protocol::message::{Message, MessageError};
use hookonce_protocol::record::{Found, Record, Status, Unreadable};
use hookonce_protocol::relay::rearm_write;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::{Settled, Worker};

use super::{a_claim, a_record};
use crate::support::clock::START;

/// How often the queue hands a message out before it becomes a dead letter, as the template says.
const RECEIVES_MAX: i64 = 100;

fn at(now: EpochMs) -> Moment {
    Moment { now, entropy: 0 }
}

fn record_of(item: &Item) -> Record {
    Record::decode(item).unwrap()
}

/// Settles one dead letter of the record in `item`.
fn bury(item: &mut Option<Item>, message: Message, sent_at: Option<EpochMs>, now: EpochMs) -> DeadLetterOutcome {
    let mut step = DeadLetter::start(Ok(message), sent_at, Timing::standard(), at(now));
    loop {
        let Step { next, .. } = step;
        let (machine, call) = match next {
            Next::Done(outcome) => return outcome,
            Next::Call(machine, call) => (machine, call),
        };
        let reply = match call {
            Call::Read(_) => Reply::Read(Ok(Found::from_item(item.as_ref()))),
            Call::Write(write) => Reply::Written(match write.apply(item.as_ref()) {
                Ok(after) => {
                    *item = after;
                    Written::Applied
                }
                Err(_) => Written::refused(&write, item.as_ref()),
            }),
            other => panic!("a dead letter does not ask for {other:?}"),
        };
        step = machine.step(reply, at(now));
    }
}

/// A worker that crashes on every hint: each message is handed out every visibility timeout until it is a dead letter,
/// and the relay sends copies. Returns when each dead letter was counted, in minutes.
fn crash_loop(mut record: Record) -> Vec<i64> {
    let timing = Timing::standard();
    record.due = record.due.map(|due| hookonce_protocol::record::Due { at: START.plus(timing.first_resend), ..due });
    let hint = || Message::Ref { pk: record.key.clone() };
    let (mut item, mut messages, mut counted) = (Some(record.encode()), vec![START], Vec::new());
    for minute in 0..10_000 {
        let now = START.plus(Millis::minutes(minute));
        let worn_out = |sent: &EpochMs| now.0 - sent.0 >= timing.visibility_timeout.0 * RECEIVES_MAX;
        for sent_at in messages.extract_if(.., |sent| worn_out(sent)).collect::<Vec<_>>() {
            match bury(&mut item, hint(), Some(sent_at), now) {
                DeadLetterOutcome::Dead => return [counted, vec![minute]].concat(),
                DeadLetterOutcome::Rearmed => counted.push(minute),
                DeadLetterOutcome::Copy => {}
                DeadLetterOutcome::Elsewhere | DeadLetterOutcome::Keep => panic!("the record is PENDING"),
            }
        }
        let waiting = record_of(item.as_ref().unwrap());
        let due_at = waiting.due.as_ref().unwrap().at;
        if due_at <= now {
            let next = now.plus(timing.resend_interval(waiting.resends));
            item = rearm_write(&waiting, due_at, next, &timing, at(now)).apply(item.as_ref()).unwrap();
            messages.push(now);
        }
    }
    panic!("it never dies: {counted:?}");
}

/// The first hint and copies of 2, 6, 14, 30 minutes later wear out between 10:00 and 10:30. If each counted, the
/// record would be dead at 10:06.
#[test]
fn a_crash_loop_kills_a_record_in_its_third_round_and_not_by_copies() {
    let rounds = crash_loop(a_record("in#a#x"));
    assert_eq!(rounds, [600, 1_200, 1_800], "every round takes 100 receives of 360 s");
    let tried = Record { attempts: 3, ..a_record("in#a#x") };
    assert_eq!(crash_loop(tried), rounds, "whether or not its handler has failed before");
}

#[test]
fn a_payload_that_is_not_too_old_is_claimed_and_due_at_once() {
    let claim = a_claim("in#a#x");
    let now = START.plus(Millis::days(14));
    let mut item = None;
    let full = || Message::Full(Box::new(claim.clone()));
    assert_eq!(bury(&mut item, full(), Some(START), now), DeadLetterOutcome::Rearmed);
    let record = record_of(item.as_ref().unwrap());
    assert_eq!((record.status, record.due.unwrap().at, record.dead_letters), (Status::Pending, now, 0));

    let mut late = None;
    let too_late = claim.accept_before.plus(Millis(1));
    assert_eq!(bury(&mut late, full(), Some(START), too_late), DeadLetterOutcome::Dead);
    assert_eq!(record_of(late.as_ref().unwrap()).status, Status::Dead);
}

#[test]
fn a_payload_with_another_body_is_told_also_where_the_first_one_counts() {
    let item = a_record("in#a#x").encode();
    for quarantine_mismatch in [false, true] {
        let mut claim = Claim { quarantine_mismatch, body_sha256: [8; 32], ..a_claim("in#a#x") };
        claim.claim_id.0.push_str("-another");
        let full = Ok(Message::Full(Box::new(claim)));
        let started = DeadLetter::start(full, Some(START), Timing::standard(), at(START));
        let Next::Call(machine, Call::Write(_)) = started.next else { panic!("it claims") };
        let lost = Written::ConditionFailed(Found::from_item(Some(&item)));
        let step = machine.step(Reply::Written(lost), at(START));
        let mismatch = step.signals.iter().any(|signal| matches!(signal, Signal::BodyMismatch(_)));
        assert!(mismatch, "{quarantine_mismatch}");
    }
}

/// Q5: no outage makes a message a dead letter before the queue's retention ends.
#[test]
fn a_hundred_transient_failures_last_longer_than_the_queue_keeps_a_message() {
    let timing = Timing::standard();
    let key = a_record("in#a#x").key;
    let wait = |receives: i64, entropy: u64| {
        let moment = Moment { now: START, entropy };
        let started = Worker::start(Ok(Message::Ref { pk: key.clone() }), receives, timing, moment);
        let Next::Call(worker, Call::Read(_)) = started.next else { panic!("it reads the record") };
        match worker.step(Reply::Read(Err(Unavailable)), moment).next {
            Next::Done(Settled::Retry(wait)) => wait,
            other => panic!("it waits: {other:?}"),
        }
    };
    let mut random = 7_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 20
    };
    let shortest = (0..500).map(|_| (1..=RECEIVES_MAX).map(|receives| wait(receives, draw()).0).sum::<i64>()).min();
    let shortest = Millis(shortest.unwrap());
    assert!(shortest > timing.queue_retention, "{shortest:?}");
    let longest = (1..=RECEIVES_MAX).map(|receives| wait(receives, u64::MAX / 2)).max().unwrap();
    assert!(longest <= Millis::hours(12), "SQS hides a message for at most 12 hours: {longest:?}");
}

/// No record may know its body, and the dead-letter queue keeps it for longer than the queue does.
#[test]
fn a_message_that_may_be_the_only_copy_becomes_a_dead_letter_while_the_queue_keeps_it() {
    let timing = Timing::standard();
    let claim = a_claim("in#a#x");
    let full = || Ok(Message::Full(Box::new(claim.clone())));
    let hint = || Ok(Message::Ref { pk: claim.pk.clone() });
    let written = |written| Some(Reply::Written(written));
    let later = Found::Unreadable(Unreadable { schema_version: Some(2) });
    let cases = [
        (Err(MessageError::UnknownVersion), None),
        (full(), written(Written::Unavailable)),
        (full(), written(Written::Invalid)),
        (full(), written(Written::ConditionFailed(later.clone()))),
        (hint(), Some(Reply::Read(Ok(later)))),
    ];
    for (message, reply) in cases {
        let longest: i64 = (1..=RECEIVES_MAX).map(|receives| longest_wait(&message, reply.as_ref(), receives)).sum();
        assert!(longest < timing.queue_retention.0 / 2, "{message:?}, {reply:?}: {longest}");
    }
}

/// The longest that a message is hidden after this receive.
fn longest_wait(message: &Result<Message, MessageError>, reply: Option<&Reply>, receives: i64) -> i64 {
    let wait = |entropy: u64| {
        let moment = Moment { now: START, entropy };
        let started = Worker::start(message.clone(), receives, Timing::standard(), moment);
        let next = match (started.next, reply) {
            (Next::Call(worker, _), Some(reply)) => worker.step(reply.clone(), moment).next,
            (next, _) => next,
        };
        match next {
            Next::Done(Settled::Retry(wait)) => wait.0,
            other => panic!("it stays: {other:?}"),
        }
    };
    // Whatever the bound is, one of so many draws is close to it.
    (0..1_000_u64).map(|draw| wait(draw.wrapping_mul(0x9E37_79B9_7F4A_7C15))).max().unwrap_or(0)
}
