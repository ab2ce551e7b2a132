//! Stored records, also those of versions that do not exist yet.

use hookonce_protocol::call::{Call, Failure, Planned};
use hookonce_protocol::effect::EffectName;
use hookonce_protocol::invariant::{
    FactCount, FactViolation, IllegalStep, RecordViolation, fact_violation, illegal_step, violations,
};
use hookonce_protocol::item::{PARTITION_KEY, Value, fields, size_bytes};
use hookonce_protocol::key::{ClaimId, RECORD, Tenant};
use hookonce_protocol::plan::PLAN_WRITES_MAX;
use hookonce_protocol::record::{
    DeadReason, Due, FailedAttempt, Found, Outcome, Record, Status, Unreadable, attribute,
};
use hookonce_protocol::time::{EpochMs, EpochSec};
use hookonce_protocol::timing::Timing;
use hookonce_runtime::inbox::ingest::ITEM_BYTES_RESERVED;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::dispatcher::an_effect;
use super::{a_record, after, call, planned};

fn any_record() -> impl Strategy<Value = Record> {
    let tenant = option::of("[a-z0-9_-]{1,12}");
    let identity =
        (select(Status::ALL), "[a-z0-9-]{1,12}", 0_i64..5, "\\PC{0,12}", "\\PC{0,12}", any::<[u8; 32]>(), tenant);
    let content = (
        option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        proptest::collection::btree_map("[a-z-]{1,8}", "\\PC{0,12}", 0..4),
        0_i64..4,
        any::<i64>(),
    );
    let course = (
        option::of((0_i64..i64::MAX).prop_map(EpochMs)),
        option::of(any::<i64>().prop_map(EpochSec)),
        option::of(select(Outcome::ALL)),
        option::of(select(DeadReason::ALL)),
        option::of("\\PC{0,12}"),
        any::<bool>(),
        any::<bool>(),
    );
    let counters = (0_i64..20, 0_i64..20, 0_i64..4, 0_i64..90);
    let moments = (option::of(0_i64..9), option::of(0_i64..9), option::of(0_i64..9), option::of(0_i64..9));
    let failures = proptest::collection::vec(("[A-Z_]{1,8}", 0_i64..9), 0..3);
    (identity, content, course, counters, moments, failures).prop_map(
        |(identity, content, course, counters, moments, failures)| {
            let base = a_record("in#a#x");
            Record {
                status: identity.0,
                claim_id: ClaimId(identity.1),
                generation: identity.2,
                tenant: identity.6.map(|name| Tenant::parse(&name).unwrap()),
                provider: identity.3,
                event_type: identity.4,
                body_sha256: identity.5,
                body: content.0,
                headers: content.1,
                secret_index: content.2,
                received_at: EpochMs(content.3),
                due: course.0.map(|at| Due::pending(&base.key, 16, at)),
                expires_at: course.1,
                outcome: course.2,
                dead_reason: course.3,
                last_error: course.4,
                failures: failures.into_iter().map(|(code, at)| FailedAttempt { at: EpochMs(at), code }).collect(),
                accept_duplicate: course.5,
                quarantine_mismatch: course.6,
                retries: counters.2,
                attempts: counters.0,
                resends: counters.1,
                dead_letters: counters.2,
                dead_letter_at: moments.0.map(EpochMs),
                waits_since: moments.1.map(EpochMs),
                duplicate_count: counters.3,
                last_seen_at: moments.0.map(EpochMs),
                last_seen_by: moments.0.map(|by| ClaimId(by.to_string())),
                processed_at: moments.1.map(EpochMs),
                dead_at: moments.2.map(EpochMs),
                discarded_at: moments.3.map(EpochMs),
                parent: (counters.0 % 2 == 0).then(|| base.key.clone()),
                ..base
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(record in any_record()) {
        prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn an_attribute_that_this_version_does_not_know_changes_nothing(record in any_record(), name in "future_[a-z]{1,5}") {
        let mut item = record.encode();
        item.insert(name, Value::from("tomorrow"));
        prop_assert_eq!(Record::decode(&item), Ok(record));
    }

    #[test]
    fn a_head_is_a_record_without_its_body(record in any_record()) {
        let mut item = record.encode();
        item.retain(|name, _| name == PARTITION_KEY || attribute::HEAD.contains(&name.as_str()));
        prop_assert_eq!(Record::decode(&item), Ok(Record { body: None, ..record }));
    }

    #[test]
    fn the_size_of_an_item_is_never_underestimated(record in any_record()) {
        let item = record.encode();
        let text: usize = item.iter().map(|(name, value)| name.len() + value.as_text().map_or(0, str::len)).sum();
        let bytes: usize = item.values().filter_map(Value::as_bytes).map(<[u8]>::len).sum();
        prop_assert!(size_bytes(&item) >= text + bytes);
    }
}

/// Whatever happens to a record, it still fits one item.
#[test]
fn what_an_item_reserves_holds_all_that_later_updates_add() {
    let claimed = a_record("in#a#x");
    let names = |list: char| {
        let name = |number| EffectName::parse(&format!("{list}{number:063}")).unwrap();
        (0..PLAN_WRITES_MAX).map(name).collect::<Vec<_>>()
    };
    let (far, many, code) = (EpochMs(i64::MAX), i64::MAX, "C".repeat(64));
    let mut busiest = Record {
        status: Status::Discarded,
        generation: many,
        retries: many,
        attempts: many,
        resends: many,
        dead_letters: many,
        dead_letter_at: Some(far),
        waits_since: Some(far),
        outcome: Some(Outcome::FannedOut),
        last_error: Some(code.clone()),
        dead_reason: Some(DeadReason::AttemptsExhausted),
        duplicate_count: many,
        last_seen_at: Some(far),
        last_seen_by: Some(ClaimId("c".repeat(64))),
        processed_at: Some(far),
        dead_at: Some(far),
        discarded_at: Some(far),
        accept_duplicate: true,
        quarantine_mismatch: true,
        effects: names('a'),
        earlier_effects: names('b'),
        ..claimed.clone()
    };
    for _ in 0..100 {
        let pending = Record { status: Status::Pending, attempts: 0, ..busiest.clone() };
        let step = planned(pending.clone(), Planned::Failed(Failure::retryable(&code)), 0);
        let Call::Write(write) = call(&step) else { panic!("it counts the failure") };
        busiest.failures = after(write, &pending).failures;
    }
    assert_eq!(busiest.failures.len(), 10, "the last ones are kept");
    let added = size_bytes(&busiest.encode()) - size_bytes(&claimed.encode());
    assert!((ITEM_BYTES_RESERVED - 4 * 1024..ITEM_BYTES_RESERVED).contains(&added), "{added}");
}

#[test]
fn every_required_attribute_is_required() {
    let whole = a_record("in#a#x").encode();
    for name in whole.keys() {
        let mut item = whole.clone();
        item.remove(name);
        let optional = [attribute::BODY, attribute::DUE_SHARD, attribute::DUE_AT, attribute::EXPIRES_AT];
        assert_eq!(Record::decode(&item).is_ok(), optional.contains(&name.as_str()), "without {name}");
    }
}

#[test]
fn another_version_or_status_is_left_alone_and_named() {
    let whole = a_record("in#a#x").encode();
    let changed = |name: &str, value: Value| {
        let mut item = whole.clone();
        item.insert(name.to_owned(), value);
        Found::from_item(Some(&item))
    };
    let unreadable = |schema_version| Found::Unreadable(Unreadable { schema_version });
    assert_eq!(changed(attribute::SCHEMA_VERSION, 2.into()), unreadable(Some(2)));
    assert_eq!(changed(attribute::SCHEMA_VERSION, "1".into()), unreadable(None));
    assert_eq!(changed(attribute::STATUS, "PAUSED".into()), unreadable(Some(1)));
    assert_eq!(changed(attribute::RECEIVED_AT, "now".into()), unreadable(Some(1)));
    assert_eq!(changed(attribute::BODY_SHA256, Value::Bytes(vec![1, 2])), unreadable(Some(1)));
    let number = Value::Map([("a".to_owned(), 1.into())].into());
    assert_eq!(changed(attribute::HEADERS, number), unreadable(Some(1)));
    assert_eq!(Found::from_item(None), Found::Nothing);
}

#[test]
fn a_fresh_claim_breaks_no_invariant_and_each_invariant_can_be_broken() {
    let timing = Timing::standard();
    let whole = a_record("in#a#x");
    assert_eq!(violations(&whole, &timing), []);
    let early = |ms: i64| Some(EpochMs(whole.received_at.0 + ms).as_seconds());
    let kept_ms = timing.delivery_retention.0 - timing.clock_skew_max.0;
    let closed = Record { status: Status::Processed, outcome: Some(Outcome::FannedOut), due: None, ..whole.clone() };
    let broken: [(RecordViolation, Record); 9] = [
        (RecordViolation::BodyMissing, Record { body: None, ..whole.clone() }),
        (RecordViolation::BodyKept, closed),
        (RecordViolation::Expiry, Record { expires_at: None, ..whole.clone() }),
        (RecordViolation::ExpiresEarly, Record { expires_at: early(kept_ms - 1_000), ..whole.clone() }),
        (RecordViolation::DueEntry, Record { due: None, ..whole.clone() }),
        (
            RecordViolation::DueEntry,
            Record { due: Some(Due::dead(&whole.key, timing.shards, EpochMs(0))), ..whole.clone() },
        ),
        (RecordViolation::OutcomeMissing, Record { status: Status::Processed, due: None, ..whole.clone() }),
        (
            RecordViolation::ReasonMissing,
            Record {
                status: Status::Dead,
                due: Some(Due::dead(&whole.key, timing.shards, EpochMs(0))),
                expires_at: None,
                ..whole.clone()
            },
        ),
        (RecordViolation::NegativeCounter, Record { attempts: -1, ..whole.clone() }),
    ];
    for (expected, record) in broken {
        assert_eq!(violations(&record, &timing), [expected]);
    }
    let behind = Record { expires_at: early(kept_ms), ..whole.clone() };
    assert_eq!(violations(&behind, &timing), [], "a clock that is behind renewed it");
}

/// The edges of the contract, one by one. An edge that is not listed does not exist.
#[test]
fn a_record_takes_the_edges_of_the_state_machine_and_no_other() {
    use Status::{Dead, Discarded, Pending, Processed};
    let at = |status, generation, retries| Record {
        status,
        generation,
        retries,
        outcome: (status == Processed).then_some(Outcome::Applied),
        dead_reason: (status == Dead).then_some(DeadReason::Stale),
        accept_duplicate: true,
        ..a_record("in#a#x")
    };
    let same_generation = [(Pending, Processed), (Pending, Dead), (Dead, Discarded)];
    for (from, to) in Status::ALL.iter().flat_map(|from| Status::ALL.iter().map(move |to| (*from, *to))) {
        let same = from == to || same_generation.contains(&(from, to));
        let next = (from, to) == (Processed, Pending);
        let retried = [(Pending, Pending), (Dead, Pending)].contains(&(from, to));
        let steps = [(1, 0, same), (1, 1, retried), (1, 2, false), (2, 0, next), (2, 1, false), (3, 0, false)];
        for (generation, retries, legal) in steps {
            let illegal = illegal_step(Some(&at(from, 1, 0)), &at(to, generation, retries));
            let step = format!("{from} to {to}, generation {generation}, retries {retries}");
            assert_eq!(illegal, (!legal).then_some(IllegalStep::Edge), "{step}");
        }
    }
    for (status, generation) in Status::ALL.iter().flat_map(|status| [(*status, 0), (*status, 1)]) {
        let legal = generation == 0 && matches!(status, Pending | Dead);
        assert_eq!(illegal_step(None, &at(status, generation, 0)).is_none(), legal, "claimed {status}");
    }
}

#[test]
fn a_step_keeps_the_claim_the_body_the_count_and_the_end() {
    let before = Record { generation: 1, attempts: 2, resends: 1, accept_duplicate: true, ..a_record("in#a#x") };
    let processed = Record { status: Status::Processed, outcome: Some(Outcome::Applied), ..before.clone() };
    let dead = Record { status: Status::Dead, dead_reason: Some(DeadReason::Stale), ..before.clone() };
    let retried = Record { retries: 1, attempts: 0, resends: 0, ..before.clone() };
    assert_eq!(illegal_step(Some(&before), &retried), None);
    let died = Record { dead_reason: Some(DeadReason::DeadLetter), ..dead.clone() };
    let rewound = Record { dead_reason: Some(DeadReason::Rewound), ..dead.clone() };
    let broken: [(IllegalStep, &Record, Record); 15] = [
        (IllegalStep::Identity, &retried, Record { retries: 0, ..retried.clone() }),
        (IllegalStep::Identity, &before, Record { claim_id: ClaimId("another".to_owned()), ..before.clone() }),
        (IllegalStep::Identity, &before, Record { tenant: Tenant::parse("another").ok(), ..before.clone() }),
        (IllegalStep::Identity, &before, Record { body_sha256: [8; 32], ..before.clone() }),
        (IllegalStep::Identity, &before, Record { accept_duplicate: false, ..before.clone() }),
        (IllegalStep::Identity, &before, Record { generation: 0, ..before.clone() }),
        (IllegalStep::Body, &before, Record { body: None, ..before.clone() }),
        (IllegalStep::Attempts, &before, Record { attempts: 1, ..before.clone() }),
        (IllegalStep::Attempts, &before, Record { attempts: 0, resends: 0, ..before.clone() }),
        (IllegalStep::Edge, &before, Record { attempts: 1, ..retried.clone() }),
        (IllegalStep::Edge, &before, Record { outcome: Some(Outcome::Applied), ..before.clone() }),
        (IllegalStep::Edge, &processed, Record { outcome: Some(Outcome::Duplicate), ..processed.clone() }),
        (IllegalStep::Edge, &dead, Record { dead_reason: Some(DeadReason::DeadLetter), ..dead.clone() }),
        (IllegalStep::Edge, &died, Record { dead_reason: Some(DeadReason::Permanent), ..died.clone() }),
        (IllegalStep::Edge, &rewound, retried.clone()),
    ];
    assert_eq!(illegal_step(Some(&died), &dead), None, "a doubt");
    assert_eq!(
        illegal_step(Some(&rewound), &Record { generation: 2, attempts: 0, resends: 0, ..before.clone() }),
        None
    );
    for (expected, before, after) in broken {
        assert_eq!(illegal_step(Some(before), &after), Some(expected), "{before:?} to {after:?}");
    }
}

/// How a PENDING record ends and how a new one may be DEAD, by what it is and whether its callee may have done it.
#[test]
fn each_end_belongs_to_events_or_to_effects() {
    let event = a_record("in#a#x");
    let effect = an_effect();
    let mut called = effect.clone();
    called.effect.as_mut().unwrap().first_call_at = Some(EpochMs(1));
    let accepted = Record { accept_duplicate: true, ..effect.clone() };
    let ends = |before: &Record| {
        let dies = |reason: &&DeadReason| {
            let dead = Record { status: Status::Dead, dead_reason: Some(**reason), ..before.clone() };
            illegal_step(Some(before), &dead).is_none()
        };
        let settles = |outcome: &&Outcome| {
            let processed = Record { status: Status::Processed, outcome: Some(**outcome), ..before.clone() };
            illegal_step(Some(before), &processed).is_none()
        };
        let outcomes: Vec<_> = Outcome::ALL.iter().filter(settles).map(|outcome| outcome.as_str()).collect();
        let reasons: Vec<_> = DeadReason::ALL.iter().filter(dies).map(|reason| reason.as_str()).collect();
        (outcomes.join(" "), reasons.join(" "))
    };
    let expected = |outcomes: &str, reasons: &str| (outcomes.to_owned(), reasons.to_owned());
    let outcomes = "APPLIED DUPLICATE IGNORED FANNED_OUT";
    assert_eq!(ends(&event), expected(outcomes, "ATTEMPTS_EXHAUSTED PERMANENT STALE DEAD_LETTER REWOUND"));
    let unsure = "ATTEMPTS_EXHAUSTED UNKNOWN_OUTCOME REFUSED";
    assert_eq!(ends(&effect), expected("DELIVERED", "ATTEMPTS_EXHAUSTED STALE DEAD_LETTER UNKNOWN_OUTCOME REFUSED"));
    assert_eq!((ends(&called), ends(&accepted)), (expected("DELIVERED", unsure), expected("DELIVERED", unsure)));
    let born = |reason: &&DeadReason| {
        illegal_step(None, &Record { status: Status::Dead, dead_reason: Some(**reason), ..event.clone() }).is_none()
    };
    let born: Vec<_> = DeadReason::ALL.iter().filter(born).collect();
    assert_eq!(born, [&DeadReason::Stale, &DeadReason::IdCollision]);
    assert!(illegal_step(None, &Record { retries: 1, ..event.clone() }).is_some());
}

#[test]
fn a_fact_stands_as_often_as_it_is_expected() {
    let cases = [
        (1..=1, vec![Some(FactViolation::Lost), None, Some(FactViolation::Doubled)]),
        (0..=1, vec![None, None, Some(FactViolation::Doubled)]),
        (1..=2, vec![Some(FactViolation::Lost), None, None]),
        (0..=0, vec![None, Some(FactViolation::Unexpected), Some(FactViolation::Unexpected)]),
    ];
    for (expected, violations) in cases {
        let found: Vec<_> = (0..=2).map(|stands| fact_violation(&stands, &expected)).collect();
        assert_eq!(found, violations, "{expected:?}");
    }
    let items = ["#dk#e#h#a", "#dk#e#h#a##in#e#x#g1", "#dk#e#h#b", "#dk#e#h#b##in#e#x#g1", "#dk#e#h#d", "e#count#a"];
    let items = items.map(|key| fields([(PARTITION_KEY, key.into()), (RECORD, "in#e#x".into())]));
    let count = |excusing| FactCount::of(&items, ["e#h#a", "e#h#a", "e#h#b", "e#h#c", "e#h#c"], excusing);
    let expected = FactCount { applied: 3, lost: 2, doubled: 1, unexpected: vec!["e#h#d"] };
    assert_eq!((count(0), count(3).lost), (expected, 0));
}

#[test]
fn a_body_is_not_printed() {
    let mut record = a_record("in#a#x");
    record.body = Some(b"LEAKMENOT".to_vec());
    let printed = format!("{:?}", record.encode());
    assert!(printed.contains("<9 bytes>") && !printed.contains("LEAKMENOT"), "{printed}");
}
