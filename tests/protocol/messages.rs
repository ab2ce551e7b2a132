//! Queue messages, also those of versions that do not exist yet.

use std::collections::BTreeMap;

use hookonce_protocol::call::{Call, Next, Planned, Reply, Unavailable};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{Lane, Message, MessageError};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::worker::{Done, Settled};
use proptest::prelude::*;

use super::{a_claim, a_record, answered, call, planned};
use crate::support::clock::START;

#[test]
fn the_text_of_a_hint_is_stable() {
    let hint = Message::Ref { pk: RecordKey::parse("in#stripe#evt_1").unwrap() };
    assert_eq!(hint.encode(), r#"{"v":1,"k":"ref","pk":"in#stripe#evt_1"}"#);
    assert_eq!(Message::decode(&hint.encode()), Ok(hint));
    let slow = Message::Slow { pk: RecordKey::parse("in#stripe#evt_1").unwrap(), handler: "plan".into() };
    assert_eq!(slow.encode(), r#"{"v":1,"k":"slow","pk":"in#stripe#evt_1","handler":"plan"}"#);
    assert_eq!(Message::decode(&slow.encode()), Ok(slow));
}

#[test]
fn each_message_has_one_queue() {
    let key = |key: &str| RecordKey::parse(key).unwrap();
    let slow = |pk| Message::Slow { pk: key(pk), handler: "plan".into() };
    for (message, lane) in [
        (Message::Ref { pk: key("in#a#x") }, Lane::Events),
        (Message::Full(Box::new(a_claim("in#a#x"))), Lane::Events),
        (slow("in#a#x"), Lane::SlowEvents),
        (Message::Ref { pk: key("in#a#fx#1#receipt") }, Lane::Effects),
        (slow("in#a#fx#1#receipt"), Lane::Effects),
    ] {
        assert_eq!(message.lane(), lane, "{message:?}");
        assert_eq!(message.is_hint(), !matches!(message, Message::Full(_)));
    }
}

/// Otherwise only the relay would send the event again, minutes later.
#[test]
fn the_event_of_a_slow_handler_has_left_its_queue_once_it_is_in_the_other() {
    let record = a_record("in#stripe#evt_1");
    for (sent, is_acknowledged) in [(Ok(()), true), (Err(Unavailable), false)] {
        let step = planned(record.clone(), Planned::HandlerSlow { handler: "plan".into() }, 0);
        assert_eq!(*call(&step), Call::Send(Message::Slow { pk: record.key.clone(), handler: "plan".into() }));
        let ended = answered(step, Reply::Sent(sent), START).next;
        assert_eq!(ended == Next::Done(Settled::Ack(Done::Moved)), is_acknowledged, "{ended:?}");
        assert_eq!(matches!(ended, Next::Done(Settled::Retry(_))), !is_acknowledged, "{ended:?}");
    }
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
fn a_claim_made_late_counts_its_ages_from_the_receipt_and_its_lease_from_now() {
    let timing = Timing::standard();
    let (at_once, now) = (a_record("in#stripe#evt_1"), EpochMs(START.0 + 3_600_000));
    let later = a_claim("in#stripe#evt_1").record(&timing, now);
    assert_eq!((later.received_at, later.expires_at), (START, at_once.expires_at));
    assert_eq!(later.due.unwrap().at, now.plus(timing.first_resend));
}

proptest! {
    #[test]
    fn a_payload_survives_the_queue(body in proptest::collection::vec(any::<u8>(), 0..300), word in "\\PC{0,20}") {
        let headers = BTreeMap::from([("x-note".to_owned(), word.clone())]);
        let claim = Claim { body, headers, event_type: word, ..a_claim("in#stripe#evt_1") };
        let message = Message::Full(Box::new(claim));
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn no_text_makes_the_decoder_panic(text in "\\PC{0,60}") {
        drop(Message::decode(&text));
    }
}

/// SQS accepts only characters that XML allows, and a provider's id may contain any.
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
