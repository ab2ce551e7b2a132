//! The fan-out of an envelope, and what those who are refused a write get to see.

use std::collections::BTreeMap;

use hookonce_protocol::call::{Call, ChildEvent, Next, Reply, Split, Step, Unavailable, Written};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::Item;
use hookonce_protocol::key::{ClaimId, EndpointId, RecordKey};
use hookonce_protocol::message::Message;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, Outcome, Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::worker::{Done, Settled, Worker};
use hookonce_protocol::write::Write;

use super::{a_claim, a_record, answered, at, call};
use crate::support::clock::START;

/// Events of the envelope: two whole chunks and a half.
const EVENTS: usize = 250;

/// An envelope in a table, and what its runs ask for.
struct Fan {
    table: BTreeMap<String, Item>,
    envelope: RecordKey,
    /// From which write on the store is short of capacity.
    throttled_from: usize,
    /// Whether heads cannot be read.
    blind: bool,
    looked_at: usize,
    written: usize,
    hinted: usize,
}

impl Fan {
    fn new() -> Self {
        let envelope = a_record("in#a#en#x");
        let (key, item) = (envelope.key.clone(), envelope.encode());
        let table = BTreeMap::from([(key.as_str().to_owned(), item)]);
        Self { table, envelope: key, throttled_from: usize::MAX, blind: false, looked_at: 0, written: 0, hinted: 0 }
    }

    fn write(&mut self, write: &Write) -> Written {
        let current = self.table.get(write.key.as_str());
        match write.apply(current) {
            Ok(after) => {
                self.table.extend(after.map(|item| (write.key.as_str().to_owned(), item)));
                Written::Applied
            }
            Err(_) => Written::refused(write, current),
        }
    }

    fn carry(&mut self, request: &Call) -> Reply {
        match request {
            Call::Read(key) => Reply::Read(Ok(Found::from_item(self.table.get(key.as_str())))),
            Call::Split(_) => Reply::Split(Split::Events((0..EVENTS).map(event).collect())),
            Call::ReadHeads(keys) => {
                assert!(keys.len() <= 100, "no run holds all heads at once");
                self.looked_at += keys.len();
                let head = |key: &RecordKey| Ok(Found::head_of(self.table.get(key.as_str())));
                Reply::ReadHeads(keys.iter().map(|key| if self.blind { Err(Unavailable) } else { head(key) }).collect())
            }
            Call::WriteEach(writes) => {
                let each = writes.iter().map(|write| {
                    self.written += 1;
                    if self.written > self.throttled_from { Written::Unavailable } else { self.write(write) }
                });
                Reply::WrittenEach(each.collect())
            }
            Call::SendEach(messages) => {
                self.hinted += messages.len();
                Reply::SentEach(vec![Ok(()); messages.len()])
            }
            Call::Write(write) => {
                assert_eq!(write.purpose, Purpose::CloseEnvelope);
                Reply::Written(self.write(write))
            }
            other => panic!("a fan-out does not ask for {other:?}"),
        }
    }

    /// One run. Counts anew.
    fn run(&mut self) -> Settled {
        (self.looked_at, self.written, self.hinted) = (0, 0, 0);
        let message = Message::Ref { pk: self.envelope.clone() };
        let mut step: Step<Worker, Settled> = Worker::start(Ok(message), 1, Timing::standard(), at(START));
        loop {
            let reply = match &step.next {
                Next::Done(settled) => return settled.clone(),
                Next::Call(_, request) => self.carry(&request.clone()),
            };
            step = answered(step, reply, START);
        }
    }

    fn closed(&self) -> Record {
        Record::decode(&self.table[self.envelope.as_str()]).unwrap()
    }
}

fn event(number: usize) -> ChildEvent {
    let key = RecordKey::event(&EndpointId::parse("a").unwrap(), &format!("e{number:03}"));
    ChildEvent { key, event_type: "message".to_owned(), body: vec![1], sha256: [3; 32], fits: true }
}

const FANNED_OUT: Settled = Settled::Ack(Done::Settled(Outcome::FannedOut));

#[test]
fn a_fan_out_creates_only_what_is_missing() {
    let mut fan = Fan::new();
    for number in (0..EVENTS).step_by(2) {
        let record = Record { body_sha256: [3; 32], ..a_record(event(number).key.as_str()) };
        assert_eq!(fan.write(&claim_write(&record)), Written::Applied);
    }
    assert_eq!(fan.run(), FANNED_OUT);
    assert_eq!((fan.looked_at, fan.written, fan.hinted), (EVENTS, EVENTS / 2, EVENTS / 2));
    assert_eq!(fan.closed().body, None, "its events have their bodies");
    assert_eq!(fan.table.len(), EVENTS + 1);
}

/// What a run has created stays, and the next one pays for reads only.
#[test]
fn each_run_of_a_fan_out_gets_further() {
    let mut fan = Fan::new();
    let mut created = 0;
    for throttled_from in [120, 30] {
        fan.throttled_from = throttled_from;
        assert!(matches!(fan.run(), Settled::Retry(_)));
        assert_eq!(fan.table.len() - 1, created + throttled_from);
        assert_eq!(fan.hinted, throttled_from, "they need not wait for the relay");
        created += throttled_from;
        assert_eq!(fan.closed().status, Status::Pending);
    }
    assert_eq!(fan.written, 80, "it wrote to the end of its chunk, and left the last one to a better moment");
    fan.throttled_from = usize::MAX;
    assert_eq!((fan.run(), fan.written), (FANNED_OUT, EVENTS - created));
}

#[test]
fn a_child_that_cannot_be_read_is_created_all_the_same() {
    let mut fan = Fan::new();
    fan.blind = true;
    assert_eq!((fan.run(), fan.written), (FANNED_OUT, EVENTS));
    // Again, as if the last write had not been made: each child is there.
    let envelope = fan.envelope.as_str().to_owned();
    fan.table.insert(envelope, a_record("in#a#en#x").encode());
    assert_eq!((fan.run(), fan.table.len()), (FANNED_OUT, EVENTS + 1));
}

/// A write whose reply was lost knows itself by all that it wrote, its body too. A claim sees the body that came first, to
/// say where its own differs. To all others the item is a head: there may be hundreds.
#[test]
fn of_refused_writes_only_a_claim_returns_the_body() {
    let record = a_record("in#a#x");
    let item = record.encode();
    assert_eq!(Written::refused(&claim_write(&record), Some(&item)), Written::Applied);
    let other = Record { body: Some(b"another".to_vec()), ..record.clone() };
    let met = |body| Written::ConditionFailed(Found::Record(Box::new(Record { body, ..record.clone() })));
    assert_eq!(Written::refused(&claim_write(&other), Some(&item)), met(record.body.clone()));
    let child = Write { purpose: Purpose::ClaimChild, ..claim_write(&other) };
    assert_eq!(Written::refused(&child, Some(&item)), met(None));
}

/// The head has no body to plan with. If the record is gone by then, the message may be the only copy.
#[test]
fn a_payload_that_meets_a_record_reads_it_before_it_works_on_it() {
    let met = |old: &Record| {
        let claim = Claim { claim_id: ClaimId("later".to_owned()), ..a_claim("in#a#x") };
        let step = Worker::start(Ok(Message::Full(Box::new(claim))), 1, Timing::standard(), at(START));
        let found = Written::ConditionFailed(Found::head_of(Some(&old.encode())));
        answered(step, Reply::Written(found), START)
    };
    let old = a_record("in#a#x");
    let reads = met(&old);
    assert_eq!(*call(&reads), Call::Read(old.key.clone()));
    let planning = answered(reads, Reply::Read(Ok(Found::Record(Box::new(old.clone())))), START);
    assert_eq!(*call(&planning), Call::Plan(Box::new(old.clone())));
    for reply in [Ok(Found::Nothing), Err(Unavailable)] {
        assert!(matches!(answered(met(&old), Reply::Read(reply), START).next, Next::Done(Settled::Retry(_))));
    }
    let settled = Record { status: Status::Processed, ..old.clone() };
    assert!(matches!(met(&settled).next, Next::Done(Settled::Ack(Done::Elsewhere))));
}
