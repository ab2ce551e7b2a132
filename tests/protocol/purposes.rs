//! Every purpose belongs to a write that some machine makes.

use hookonce_protocol::plan::{Check, Plan, Snapshot};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::worker::first_seen;

use super::a_record;

/// The transitions that the model takes, one a line.
const TRANSITIONS: &str = include_str!("../proof/transitions.txt");

/// Purposes that no transition of the model names. A check of a plan changes nothing, and if it fails, that is what the
/// failure of a plan's write is. The entry of a trail never fails alone: each act changes what the condition of the
/// next one names of the record. The record of an effect is created by the transaction that settles its event. A note
/// is made after a record is settled, outside of the machine, and nothing depends on it.
const NOT_IN_THE_MODEL: [Purpose; 4] =
    [Purpose::DomainCheck, Purpose::CreateEffect, Purpose::NoteOperation, Purpose::NoteBody];

#[test]
fn every_other_purpose_is_in_a_transition_of_the_model() {
    let seen = |purpose: Purpose| {
        let (answered, cancelled) = (format!(": {purpose} -> "), format!(" -> cancelled by the {purpose}"));
        TRANSITIONS.lines().any(|label| label.contains(&answered) || label.ends_with(&cancelled))
    };
    let unseen: Vec<_> = Purpose::ALL.iter().copied().filter(|purpose| !seen(*purpose)).collect();
    assert_eq!(unseen, NOT_IN_THE_MODEL);
}

/// Purposes that are no single writes: their transaction is repeated under its token, and then counts as carried out.
const IN_TRANSACTIONS: [Purpose; 9] = [
    Purpose::Settle,
    Purpose::DomainKey,
    Purpose::DomainWrite,
    Purpose::Retry,
    Purpose::Force,
    Purpose::Discard,
    Purpose::Redact,
    Purpose::Doubt,
    Purpose::NoteOperation,
];

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
fn a_check_and_a_note_are_made_all_the_same() {
    let check = Check::as_seen("a#item#x", &Snapshot::default(), ["total"]);
    let made: Vec<_> = Plan::default().with_check(check).into_writes().map(|write| write.purpose).collect();
    let note = first_seen::note(&a_record("in#a#x"), &Timing::standard(), Moment { now: EpochMs(0), entropy: 0 });
    assert!([made[0], note.purpose].iter().all(|purpose| NOT_IN_THE_MODEL.contains(purpose)));
    let after = note.apply(None).unwrap();
    assert!(!note.stands_in(None) && note.stands_in(after.as_ref()), "it finds itself");
}

#[test]
fn every_purpose_has_a_word_of_its_own() {
    for purpose in Purpose::ALL {
        assert_eq!(Purpose::parse(purpose.as_str()), Some(*purpose));
    }
}
