//! Every purpose belongs to a write that some machine makes.

use hookonce_protocol::call::{Call, Machine as _, Next, Planned, Reply};
use hookonce_protocol::message::Message;
use hookonce_protocol::operator::{Order, carry_out};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, Outcome, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::trail::{Operation, Trail};
use hookonce_protocol::worker::{Worker, first_seen};

use super::a_record;

/// The transitions that the model takes, one a line.
const TRANSITIONS: &str = include_str!("../proof/transitions.txt");

/// Purposes that the model has no write for, and why.
const NOT_IN_THE_MODEL: [Purpose; 4] = [
    // This write differs from a duplicate mark only in its outcome. Every event of the model has a handler.
    Purpose::MarkIgnored,
    // It changes nothing that a machine decides on: only a force needs the body of a settled record, and its condition
    // asks for it.
    Purpose::Redact,
    // Written with an operator's change, in one transaction. No machine reads it.
    Purpose::NoteOperation,
    // Made after a record is settled, outside of the machine: nothing depends on it.
    Purpose::NoteBody,
];

#[test]
fn every_purpose_but_four_is_in_a_transition_of_the_model() {
    let seen = |purpose: Purpose| {
        let (asked, cancelled) = (format!(": {purpose} -> "), format!(" -> cancelled by the {purpose}"));
        TRANSITIONS.lines().any(|label| label.contains(&asked) || label.ends_with(&cancelled))
    };
    let unseen: Vec<_> = Purpose::ALL.iter().copied().filter(|purpose| !seen(*purpose)).collect();
    assert_eq!(unseen, NOT_IN_THE_MODEL);
}

/// Purposes that are no single writes: their transaction is repeated under its token, and then counts as carried out.
const IN_TRANSACTIONS: [Purpose; 3] = [Purpose::Settle, Purpose::DomainKey, Purpose::DomainWrite];

/// Purposes whose replies do not matter.
const BEST_EFFORT: [Purpose; 2] = [Purpose::CountDuplicate, Purpose::MarkDue];

#[test]
fn every_single_write_of_the_model_is_repeated_there_and_refused_for_good() {
    let outside = [&NOT_IN_THE_MODEL[..], &IN_TRANSACTIONS[..]].concat();
    for purpose in Purpose::ALL.iter().filter(|purpose| !outside.contains(purpose)) {
        let seen = |result: &str| TRANSITIONS.lines().any(|label| label.ends_with(&format!(": {purpose} -> {result}")));
        assert!(seen("found itself"), "{purpose} is never repeated");
        assert!(seen("invalid") || BEST_EFFORT.contains(purpose), "{purpose} is never refused for good");
    }
}

#[test]
fn the_four_are_made_all_the_same() {
    let (timing, moment) = (Timing::standard(), Moment { now: EpochMs(0), entropy: 0 });
    let record = a_record("in#a#x");
    let note = first_seen::note(&record, &timing, moment);
    let started = Worker::start(Ok(Message::Ref { pk: record.key.clone() }), 1, timing, moment);
    let replies = [Reply::Read(Ok(Found::Record(Box::new(record)))), Reply::Planned(Planned::NoHandler)];
    let last = replies.into_iter().fold(started, |step, reply| match step.next {
        Next::Call(worker, _) => worker.step(reply, moment),
        Next::Done(settled) => panic!("it ended with {settled:?}"),
    });
    let Next::Call(_, Call::Write(mark)) = last.next else { panic!("it marks the record") };
    let settled =
        Record { status: Status::Processed, outcome: Some(Outcome::Applied), due: None, ..a_record("in#a#x") };
    let order = Order {
        operation: Operation::Redact,
        accept_duplicate: false,
        by: "ada".to_owned(),
        reason: "erasure asked for".to_owned(),
    };
    let orders = carry_out(&settled, &Trail::default(), &order, "id", &timing, moment).unwrap();
    assert_eq!([mark.purpose, orders[0].purpose, orders[1].purpose, note.purpose], NOT_IN_THE_MODEL);
    for (write, before) in [(mark, Some(a_record("in#a#x").encode())), (note, None)] {
        assert!(!write.stands_in(before.as_ref()));
        let after = write.apply(before.as_ref()).unwrap();
        assert!(write.stands_in(after.as_ref()), "{} finds itself", write.purpose);
    }
}

#[test]
fn every_purpose_has_a_word_of_its_own() {
    for purpose in Purpose::ALL {
        assert_eq!(Purpose::parse(purpose.as_str()), Some(*purpose));
    }
}
