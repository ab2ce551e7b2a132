//! Dead letters count rounds, not messages.

use hookonce_protocol::call::{Call, Machine as _, Next, Reply, Signal, Unavailable, Written};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::dead_letter::{DeadLetter, DeadLetterOutcome};
use hookonce_protocol::message::{Message, MessageError};
use hookonce_protocol::record::{DeadReason, Found, Record, Status, Unreadable};
use hookonce_protocol::relay::rearm_write;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::{Settled, Worker};

use super::{a_claim, a_record, after, answered, at, call, hint};
use crate::support::clock::START;

/// How often the queue hands a message out before it becomes a dead letter, as the template says.
const RECEIVES_MAX: i64 = 100;

/// Settles one dead letter of this record.
fn bury(record: &mut Record, sent_at: EpochMs, now: EpochMs) -> DeadLetterOutcome {
    let step = DeadLetter::start(Ok(hint(record)), Some(sent_at), Timing::standard(), at(now));
    let mut step = answered(step, Reply::Read(Ok(Found::Record(Box::new(record.clone())))), now);
    if let Next::Call(_, Call::Write(write)) = &step.next {
        *record = after(write, record);
        step = answered(step, Reply::Written(Written::Applied), now);
    }
    match step.next {
        Next::Done(outcome) => outcome,
        Next::Call(_, call) => panic!("a dead letter does not ask for {call:?}"),
    }
}

/// A worker that crashes on every hint: each message is handed out every visibility timeout until it is a dead letter,
/// and the relay sends copies. Returns when each dead letter was counted, in minutes.
fn crash_loop(mut record: Record) -> Vec<i64> {
    let timing = Timing::standard();
    let (mut messages, mut counted) = (vec![START], Vec::new());
    for minute in 0..10_000 {
        let now = START.plus(Millis::minutes(minute));
        let worn_out = |sent: &EpochMs| now.0 - sent.0 >= timing.visibility_timeout.0 * RECEIVES_MAX;
        for sent_at in messages.extract_if(.., |sent| worn_out(sent)).collect::<Vec<_>>() {
            match bury(&mut record, sent_at, now) {
                DeadLetterOutcome::Dead => return [counted, vec![minute]].concat(),
                DeadLetterOutcome::Rearmed => counted.push(minute),
                DeadLetterOutcome::Copy => {}
                DeadLetterOutcome::Elsewhere | DeadLetterOutcome::Keep => panic!("the record is PENDING"),
            }
        }
        let due_at = record.due.as_ref().unwrap().at;
        if due_at <= now {
            let next = now.plus(timing.resend_interval(record.resends));
            record = after(&rearm_write(&record, due_at, next, &timing, at(now)), &record);
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
fn a_payload_with_another_body_is_a_mismatch_also_where_the_first_one_counts() {
    let item = a_record("in#a#x").encode();
    for quarantine_mismatch in [false, true] {
        let mut claim = Claim { quarantine_mismatch, body_sha256: [8; 32], ..a_claim("in#a#x") };
        claim.claim_id.0.push_str("-another");
        let full = Ok(Message::Full(Box::new(claim)));
        let step = DeadLetter::start(full, Some(START), Timing::standard(), at(START));
        assert!(matches!(call(&step), Call::Write(_)), "it claims");
        let lost = Written::ConditionFailed(Found::from_item(Some(&item)));
        let step = answered(step, Reply::Written(lost), START);
        let mismatch = step.signals.iter().any(|signal| matches!(signal, Signal::BodyMismatch { .. }));
        assert!(mismatch, "{quarantine_mismatch}");
    }
}

/// It may be the only copy of what was acknowledged.
#[test]
fn a_payload_is_claimed_and_due_at_once_and_dead_only_after_its_accept_time() {
    let claim = a_claim("in#a#x");
    let last = claim.accept_before;
    for (now, ends) in
        [(last, (Status::Pending, None)), (last.plus(Millis(1)), (Status::Dead, Some(DeadReason::Stale)))]
    {
        let full = Ok(Message::Full(Box::new(claim.clone())));
        let step = DeadLetter::start(full, Some(START), Timing::standard(), at(now));
        let Call::Write(write) = call(&step) else { panic!("it claims") };
        let record = Record::decode(&write.apply(None).unwrap().unwrap()).unwrap();
        assert_eq!((record.status, record.dead_reason), ends);
        assert_eq!(record.due.unwrap().at, now);
    }
}

/// How long a worker hides a message after this receive, if its first call is answered so.
fn wait(message: &Result<Message, MessageError>, reply: Option<&Reply>, receives: i64, entropy: u64) -> Millis {
    let moment = Moment { now: START, entropy };
    let started = Worker::start(message.clone(), receives, Timing::standard(), moment);
    let next = match (started.next, reply) {
        (Next::Call(worker, _), Some(reply)) => worker.step(reply.clone(), moment).next,
        (next, _) => next,
    };
    match next {
        Next::Done(Settled::Retry(wait)) => wait,
        other => panic!("it stays: {other:?}"),
    }
}

/// Q5: no outage makes a message a dead letter before the queue's retention ends.
#[test]
fn a_hundred_transient_failures_last_longer_than_the_queue_keeps_a_message() {
    let timing = Timing::standard();
    let (message, unavailable) = (Ok(hint(&a_record("in#a#x"))), Reply::Read(Err(Unavailable)));
    let wait = |receives: i64, entropy: u64| wait(&message, Some(&unavailable), receives, entropy);
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
        let wait =
            |receives, draw: u64| wait(&message, reply.as_ref(), receives, draw.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // Whatever the bound is, one of so many draws is close to it.
        let longest = |receives| (0..1_000).map(|draw| wait(receives, draw).0).max().unwrap_or(0);
        let longest: i64 = (1..=RECEIVES_MAX).map(longest).sum();
        assert!(longest < timing.queue_retention.0 / 2, "{message:?}, {reply:?}: {longest}");
    }
}
