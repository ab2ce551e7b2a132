//! Keyed effects through a callee that treats keys as Stripe's API does
//! (<https://docs.stripe.com/api/idempotent_requests>):
//!
//! - The status of the first request with a key is saved once it is carried out, and repeated for the key, also if it
//!   is 500.
//! - A request that fails validation, or that meets another one with its key, saves nothing.
//! - A known key with another body is refused.
//! - A key may be forgotten after 24 hours. It is then a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::destinations::{Caller as _, HttpCaller};
use hookonce_runtime::inbox::body;
use serde_json::json;

use super::calls::at;
use super::{MOMENT, delivery};
use crate::effects::{applied, keyed};
use crate::support::Harness;
use crate::support::clock::Clock;
use crate::support::receiver::{Receiver, Reply};
use crate::support::wire::HttpMessage;

/// How long a slow request is carried out, and how long a key is remembered.
const EXECUTION: Millis = Millis::minutes(15);
const WINDOW: Millis = Millis::hours(24);

/// How a first request with a key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Answered,
    /// It is carried out, and the connection breaks.
    Lost,
    /// It is carried out for longer than the caller waits.
    Slow,
    /// It is carried out, and what follows fails: 500.
    FailedAfter,
    /// It fails before anything was done, and yet saves its 500.
    FailedBefore,
    /// It is turned away for now, by a limit of requests: 429.
    Limited,
    /// It fails validation: 400.
    Invalid,
}

/// A callee like Stripe. Clones share everything.
#[derive(Debug, Clone)]
struct Stripe {
    clock: Clock,
    first: First,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    saved: BTreeMap<String, Saved>,
    /// How often it did what was asked for.
    charges: usize,
    /// The status of each answer, as it left.
    answers: Vec<u16>,
    turned_away: bool,
}

#[derive(Debug)]
struct Saved {
    at: EpochMs,
    executing_until: EpochMs,
    body: Vec<u8>,
    status: u16,
}

impl Stripe {
    fn new(clock: &Clock, first: First) -> Self {
        Self { clock: clock.clone(), first, memory: Arc::default() }
    }

    async fn listen(&self) -> Receiver {
        let stripe = self.clone();
        Receiver::answering(move |request| stripe.answer(request)).await
    }

    fn answer(&self, request: &HttpMessage) -> Reply {
        let mut memory = self.memory.lock().unwrap();
        let (status, heard) = self.judge(&mut memory, request);
        memory.answers.push(status);
        match heard {
            First::Lost => Reply::Bytes(Duration::ZERO, String::new()),
            First::Slow => Reply::Silence,
            _ => Reply::status(status, "", ""),
        }
    }

    /// The status of the answer, and how it goes.
    fn judge(&self, memory: &mut Memory, request: &HttpMessage) -> (u16, First) {
        let (key, now) = (request.header("idempotency-key").unwrap(), self.clock.now());
        memory.saved.retain(|_, saved| now < saved.at.plus(WINDOW));
        match memory.saved.get(key) {
            Some(saved) if now < saved.executing_until => return (409, First::Answered),
            Some(saved) if saved.body != request.body => return (400, First::Answered),
            Some(saved) => return (saved.status, First::Answered),
            None => {}
        }
        match self.first {
            First::Invalid => return (400, First::Invalid),
            First::Limited if !std::mem::replace(&mut memory.turned_away, true) => return (429, First::Limited),
            _ => {}
        }
        let status = if matches!(self.first, First::FailedAfter | First::FailedBefore) { 500 } else { 200 };
        memory.charges += usize::from(self.first != First::FailedBefore);
        let executing_until = if self.first == First::Slow { now.plus(EXECUTION) } else { now };
        memory.saved.insert(key.to_owned(), Saved { at: now, executing_until, body: request.body.clone(), status });
        (status, self.first)
    }

    fn charges(&self) -> usize {
        self.memory.lock().unwrap().charges
    }

    fn answers(&self) -> Vec<u16> {
        self.memory.lock().unwrap().answers.clone()
    }
}

/// A stack whose destination is this callee, with one effect that waits for its first call.
async fn waiting(first: First) -> (Harness, Stripe) {
    let mut harness = Harness::new().await;
    let stripe = Stripe::new(&harness.clock, first);
    let mut document = keyed(24);
    document["url"] = stripe.listen().await.url("/v1").into();
    document["allow_private"] = true.into();
    document["timeout_ms"] = if first == First::Slow { 1_000 } else { 20_000 }.into();
    harness.destinations.put("receipts", &document);
    harness.caller = Some(Arc::new(HttpCaller::on_loopback()));
    applied(&harness, "msg_1", &["receipts"]).await;
    (harness, stripe)
}

async fn effect(harness: &Harness) -> Record {
    let records = harness.observe().await.into_values();
    let [effect] =
        records.filter(|record| record.key.kind() == RecordKind::Effect).collect::<Vec<_>>().try_into().unwrap();
    effect
}

/// How an effect ended.
fn end(record: &Record) -> (Status, Option<Outcome>, Option<DeadReason>) {
    (record.status, record.outcome, record.dead_reason)
}

const DELIVERED: (Status, Option<Outcome>, Option<DeadReason>) = (Status::Processed, Some(Outcome::Delivered), None);

const fn dead(reason: DeadReason) -> (Status, Option<Outcome>, Option<DeadReason>) {
    (Status::Dead, None, Some(reason))
}

#[tokio::test]
async fn each_effect_is_done_once_or_refused() {
    for (first, charges, expected, answers) in [
        (First::Answered, 1, DELIVERED, &[200][..]),
        (First::Lost, 1, DELIVERED, &[200, 200]),
        (First::Slow, 1, DELIVERED, &[200, 409, 200]),
        (First::Limited, 1, DELIVERED, &[429, 200]),
        (First::Invalid, 0, dead(DeadReason::Refused), &[400]),
    ] {
        let (harness, stripe) = waiting(first).await;
        harness.settle().await;
        assert_eq!(end(&effect(&harness).await), expected, "{first:?}");
        assert_eq!((stripe.charges(), stripe.answers().as_slice()), (charges, answers), "{first:?}");
    }
}

/// Whether it was done before it failed, the callee alone knows. It says the same as long as it remembers the key.
#[tokio::test]
async fn an_error_that_the_callee_repeats_ends_as_unknown_and_is_called_only_within_the_window() {
    for (first, charges) in [(First::FailedAfter, 1), (First::FailedBefore, 0)] {
        let (harness, stripe) = waiting(first).await;
        harness.settle().await;
        assert_eq!(end(&effect(&harness).await), dead(DeadReason::UnknownOutcome), "{first:?}");
        assert_eq!(stripe.charges(), charges, "{first:?}");
        let answers = stripe.answers();
        assert!(answers.len() > 2 && answers.iter().all(|status| *status == 500), "{first:?}: {answers:?}");
    }
}

#[tokio::test]
async fn a_key_that_the_callee_may_have_forgotten_is_not_used_again() {
    let (harness, stripe) = waiting(First::Lost).await;
    harness.dispatch().await;
    harness.clock.advance(WINDOW);
    harness.settle().await;
    assert_eq!(end(&effect(&harness).await), dead(DeadReason::UnknownOutcome));
    assert_eq!((stripe.charges(), stripe.answers().as_slice()), (1, &[200][..]));
}

/// The test can fail: this callee does what it is asked for again, once the key or its window is another.
#[tokio::test]
async fn the_callee_minds_keys_bodies_and_time() {
    let clock = Clock::new(1);
    let stripe = Stripe::new(&clock, First::Answered);
    let receiver = stripe.listen().await;
    let destination = at(&receiver.url("/v1"), &json!({"key_header": "Idempotency-Key"}));
    let caller = HttpCaller::on_loopback();
    let call = async |sent: OutboundCall| caller.call(&destination, &sent, MOMENT).await;
    let done = Called::Done { status: Some(200) };
    assert_eq!((call(delivery()).await, call(delivery()).await, stripe.charges()), (done, done, 1));
    let other = OutboundCall { body: body::compress(b"{}").unwrap(), ..delivery() };
    assert_eq!((call(other).await, stripe.charges()), (Called::Refused { status: Some(400) }, 1));
    let another_key = OutboundCall { idempotency_key: "another".to_owned(), ..delivery() };
    assert_eq!((call(another_key).await, stripe.charges()), (done, 2));
    clock.advance(WINDOW);
    assert_eq!((call(delivery()).await, stripe.charges()), (done, 3));
}
