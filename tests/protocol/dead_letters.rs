//! Which messages become dead letters and when, and what is told of them.

use hookonce_protocol::call::{Call, Machine as _, Next, Reply, Signal, Unavailable, Written};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::dead_letter::DeadLetter;
use hookonce_protocol::message::{Message, MessageError};
use hookonce_protocol::record::{Found, Unreadable};
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::{Settled, Worker};

use super::{a_claim, a_record, answered, at, call, hint};
use crate::support::clock::START;

/// How often the queue hands a message out before it becomes a dead letter, as the template says.
const RECEIVES_MAX: i64 = 100;

#[test]
fn a_payload_with_another_body_is_told_also_where_the_first_one_counts() {
    let item = a_record("in#a#x").encode();
    for quarantine_mismatch in [false, true] {
        let mut claim = Claim { quarantine_mismatch, body_sha256: [8; 32], ..a_claim("in#a#x") };
        claim.claim_id.0.push_str("-another");
        let full = Ok(Message::Full(Box::new(claim)));
        let step = DeadLetter::start(full, Some(START), Timing::standard(), at(START));
        assert!(matches!(call(&step), Call::Write(_)), "it claims");
        let lost = Written::ConditionFailed(Found::from_item(Some(&item)));
        let step = answered(step, Reply::Written(lost), START);
        let mismatch = step.signals.iter().any(|signal| matches!(signal, Signal::BodyMismatch(_)));
        assert!(mismatch, "{quarantine_mismatch}");
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
