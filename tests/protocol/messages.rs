//! Queue messages, also those of versions that do not exist yet.

use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{Message, MessageError, Payload};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Timing;
use proptest::prelude::*;

use super::a_record;
use crate::support::clock::START;

#[test]
fn the_text_of_a_hint_is_stable() {
    let hint = Message::Ref { pk: RecordKey::parse("in#stripe#evt_1").unwrap() };
    assert_eq!(hint.encode(), r#"{"v":1,"k":"ref","pk":"in#stripe#evt_1"}"#);
    assert_eq!(Message::decode(&hint.encode()), Ok(hint));
}

#[test]
fn what_a_later_version_adds_is_left_for_it() {
    use MessageError::{Malformed, UnknownVersion};
    for (text, expected) in [
        ("", Malformed),
        ("not JSON", Malformed),
        ("[]", Malformed),
        ("{}", Malformed),
        (r#"{"v":"1","k":"ref","pk":"in#a#x"}"#, Malformed),
        (r#"{"k":"ref","pk":"in#a#x"}"#, Malformed),
        (r#"{"v":2,"k":"ref","pk":"in#a#x"}"#, UnknownVersion),
        (r#"{"v":0,"k":"ref","pk":"in#a#x"}"#, UnknownVersion),
        (r#"{"v":1,"k":"tomorrow","pk":"in#a#x"}"#, UnknownVersion),
        (r#"{"v":1,"pk":"in#a#x"}"#, UnknownVersion),
        (r#"{"v":1,"k":"ref"}"#, UnknownVersion),
        (r#"{"v":1,"k":"full","pk":"in#a#x"}"#, UnknownVersion),
    ] {
        assert_eq!(Message::decode(text), Err(expected), "{text}");
    }
    let more = r#"{"v":1,"k":"ref","pk":"in#a#x","since":"tomorrow"}"#;
    assert!(Message::decode(more).is_ok(), "attributes are only added");
}

#[test]
fn a_payload_is_the_claim_that_it_stands_for() {
    let timing = Timing::standard();
    let record = a_record("in#stripe#evt_1");
    let payload = Payload::of_claim(&record, &timing).unwrap();
    assert_eq!(payload.record(&timing, START), record, "claimed at once");
    assert_eq!(payload.accept_before, START.plus(timing.accept_age_max));
    let later = payload.record(&timing, EpochMs(START.0 + 3_600_000));
    assert_eq!(
        (later.received_at, later.expires_at),
        (record.received_at, record.expires_at),
        "ages count from receipt"
    );
    assert_eq!(later.due.unwrap().at, EpochMs(START.0 + 3_600_000 + timing.lease.0), "the lease counts from the claim");
    assert_eq!(Payload::of_claim(&hookonce_protocol::record::Record { body: None, ..record }, &timing), None);
}

proptest! {
    #[test]
    fn a_payload_survives_the_queue(body in proptest::collection::vec(any::<u8>(), 0..300), word in "\\PC{0,20}") {
        let mut record = a_record("in#stripe#evt_1");
        record.body = Some(hookonce_protocol::record::StoredBody::Inline(body));
        record.headers.insert("x-note".to_owned(), word.clone());
        record.event_type = word;
        let message = Message::Full(Box::new(Payload::of_claim(&record, &Timing::standard()).unwrap()));
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn no_text_makes_the_decoder_panic(text in "\\PC{0,60}") {
        drop(Message::decode(&text));
    }
}

/// SQS takes only what XML can carry, and a provider's id may hold anything.
#[test]
fn a_message_consists_of_characters_that_sqs_takes() {
    let id: String = ('\0'..=char::MAX).filter(|c| !c.is_alphanumeric() && *c != '#').collect();
    for part in id.chars().collect::<Vec<_>>().chunks(100) {
        let hint = Message::Ref { pk: RecordKey::parse(&format!("in#a#{}", part.iter().collect::<String>())).unwrap() };
        let text = hint.encode();
        let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..);
        assert!(text.chars().all(legal), "{text:?}");
        assert_eq!(Message::decode(&text), Ok(hint));
    }
}
