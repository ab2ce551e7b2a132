//! Queue messages, also those of versions that do not exist yet.

use std::collections::BTreeMap;

use hookonce_protocol::call::{Call, Next, Planned, Reply, Unavailable};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message, MessageError, MessageKey};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::worker::{Done, Settled};
use proptest::prelude::*;

use super::{a_claim, a_record, answered, call, planned};
use crate::support::clock::START;
use crate::support::stack::MESSAGE_KEY;

#[test]
fn the_text_of_a_hint_is_stable() {
    let hint = Message::Ref { pk: RecordKey::parse("in#stripe#evt_1").unwrap() };
    assert_eq!(hint.encode(None).unwrap(), r#"{"v":1,"k":"ref","pk":"in#stripe#evt_1"}"#);
    assert_eq!(Message::decode(&hint.encode(None).unwrap(), None), Ok(hint));
    let slow = Message::Slow { pk: RecordKey::parse("in#stripe#evt_1").unwrap(), handler: "plan".into() };
    assert_eq!(slow.encode(None).unwrap(), r#"{"v":1,"k":"slow","pk":"in#stripe#evt_1","handler":"plan"}"#);
    assert_eq!(Message::decode(&slow.encode(None).unwrap(), None), Ok(slow));
}

#[test]
fn each_message_has_one_queue() {
    let key = |key: &str| RecordKey::parse(key).unwrap();
    let slow = |pk| Message::Slow { pk: key(pk), handler: "plan".into() };
    for (message, lane) in [
        (Message::Ref { pk: key("in#a#x") }, HintQueue::Main),
        (Message::Full(Box::new(a_claim("in#a#x"))), HintQueue::Main),
        (slow("in#a#x"), HintQueue::Slow),
        (Message::Ref { pk: key("in#a#fx#1#receipt") }, HintQueue::Effects),
        (slow("in#a#fx#1#receipt"), HintQueue::Effects),
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
    use MessageError::{Malformed, UnknownVersion, Unverified};
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
        (r#"{"v":1,"k":"full","pk":"in#a#x"}"#, Unverified),
    ] {
        assert_eq!(Message::decode(text, None), Err(expected), "{text}");
    }
    let more = r#"{"v":1,"k":"ref","pk":"in#a#x","since":"tomorrow"}"#;
    assert!(Message::decode(more, None).is_ok(), "attributes are only added");
}

/// The text of a sealed message, and the two strings in it: the claim and its seal.
fn sealed() -> (String, String, String) {
    let text = Message::Full(Box::new(a_claim("in#stripe#evt_1"))).encode(Some(&MESSAGE_KEY)).unwrap();
    let fields: serde_json::Value = serde_json::from_str(&text).unwrap();
    let field = |name: &str| fields[name].as_str().unwrap().to_owned();
    (text, field("claim"), field("mac"))
}

fn with_a_seal(claim: &str, mac: &str) -> String {
    serde_json::json!({ "v": 1, "k": "full", "claim": claim, "mac": mac }).to_string()
}

/// Each bit of the seal, and each byte of the claim, whether or not what it becomes is a claim.
#[test]
fn a_payload_with_a_flipped_bit_is_refused() {
    let (_, claim, mac) = sealed();
    assert!(Message::decode(&with_a_seal(&claim, &mac), Some(&MESSAGE_KEY)).is_ok());
    let flips = |text: &str| -> Vec<String> {
        let flip = |(at, bit): (usize, u8)| {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            String::from_utf8(bytes).ok()
        };
        (0..text.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))).filter_map(flip).collect()
    };
    let forged = flips(&claim).into_iter().map(|claim| with_a_seal(&claim, &mac));
    for forged in forged.chain(flips(&mac).into_iter().map(|mac| with_a_seal(&claim, &mac))) {
        assert_eq!(Message::decode(&forged, Some(&MESSAGE_KEY)), Err(MessageError::Forged), "{forged}");
    }
}

#[test]
fn a_payload_is_refused_that_the_key_of_the_stack_did_not_seal() {
    let (text, claim, mac) = sealed();
    let (other, key) = (MessageKey::new([8; 32]), Some(&MESSAGE_KEY));
    assert_eq!(Message::decode(&text, Some(&other)), Err(MessageError::Forged));
    assert_eq!(Message::decode(&text, None), Err(MessageError::Unverified));
    // Cut, padded and empty seals, the seal of nothing, and a message that has none.
    for mac in [&mac[..40], &format!("{mac}AAAA"), "", "AAAA", &mac.to_lowercase()] {
        assert_eq!(Message::decode(&with_a_seal(&claim, mac), key), Err(MessageError::Forged), "{mac}");
    }
    let mut inline: serde_json::Value = serde_json::from_str(&claim).unwrap();
    inline["v"] = 1.into();
    inline["k"] = "full".into();
    for unsealed in [inline.to_string(), r#"{"v":1,"k":"full","pk":"in#a#x"}"#.to_owned(), with_a_seal("", &mac)] {
        assert_eq!(Message::decode(&unsealed, key), Err(MessageError::Forged), "{unsealed}");
    }
    // What the key sealed for another purpose, such as the claim alone, is no seal.
    assert_eq!(Message::Full(Box::new(a_claim("in#a#x"))).encode(None), None, "nothing is sent without a seal");
}

/// Computed by another library: HMAC-SHA256 over `hookonce full message 1`, a line break and the claim.
#[test]
fn the_seal_is_stable() {
    assert_eq!(sealed().2, "3/JAbMuXmfHi/Syb6aRaU3BUef0W2iqF/l/o/AqnnBY=");
}

#[test]
fn a_key_prints_nothing_of_itself() {
    assert_eq!(format!("{MESSAGE_KEY:?}"), "MessageKey(..)");
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
        let text = message.encode(Some(&MESSAGE_KEY)).unwrap();
        prop_assert_eq!(message.encoded_bytes(), text.len());
        prop_assert_eq!(Message::decode(&text, Some(&MESSAGE_KEY)), Ok(message));
    }

    #[test]
    fn no_text_makes_the_decoder_panic(text in "\\PC{0,60}") {
        drop(Message::decode(&text, Some(&MESSAGE_KEY)));
    }
}

/// SQS accepts only characters that XML allows, and a provider's id may contain any.
#[test]
fn a_message_consists_of_characters_that_sqs_takes() {
    let id: String = ('\0'..=char::MAX).filter(|c| !c.is_alphanumeric() && *c != '#').collect();
    for part in id.chars().collect::<Vec<_>>().chunks(100) {
        let hint = Message::Ref { pk: RecordKey::parse(&format!("in#a#{}", part.iter().collect::<String>())).unwrap() };
        let text = hint.encode(None).unwrap();
        let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..);
        assert!(text.chars().all(legal), "{text:?}");
        assert_eq!(Message::decode(&text, None), Ok(hint));
    }
}
