//! One fault anywhere: a function is killed at each of its remote calls, before the call or after it was carried out, or
//! the call is refused, or its reply is lost. Then everything is started again. Every event must have one effect.
//!
//! How many calls a function makes is not written down here: a run without faults is recorded first, and the grid has one
//! cell for each recorded call and each fault.

use hookonce_protocol::call::CancellationReason;
use hookonce_protocol::time::Millis;

use crate::support::counting::{count, counted_fact};
use crate::support::{Delivery, Fault, Harness, Operation, Script, Verdict, samples};

/// Whose calls meet the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Webhook,
    Worker,
    Relay,
    DeadLetters,
}

/// What happens around the fault.
#[derive(Debug, Clone, Copy)]
struct Play {
    name: &'static str,
    /// The function that meets it.
    role: Role,
    /// The endpoint's policy while the store does not answer.
    on_store_outage: &'static str,
    /// What the provider has to deliver, in this order.
    deliveries: fn() -> Vec<Delivery>,
    /// The facts that must stand in the end.
    facts: fn() -> Vec<String>,
    /// What goes wrong before the function in question runs.
    mishap: Mishap,
    /// Whether the provider delivers again until it hears a 2xx.
    provider_retries: bool,
    /// What fails in any case, so that the calls that mend it are part of the grid.
    beside: fn(Script) -> Script,
    /// Records that must be dead in the end.
    dead: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    None,
    /// The hints are lost, so that the relay has something to do.
    HintsLost,
    /// The store is down while the deliveries arrive, so that the queue holds the only copies.
    StoreDown,
    /// The messages end in the dead-letter queue without a handler having run.
    DeadLettered,
}

/// What a cell of the grid has seen.
struct Seen {
    calls: Vec<Operation>,
    acknowledged: usize,
}

impl Play {
    /// Plays it once, with `script` in front of the calls of its role.
    async fn perform(&self, harness: &Harness, script: &Script) -> Seen {
        let script_of = |role: Role| if role == self.role { script.clone() } else { Script::none() };
        let mut acknowledged = 0;
        for delivery in (self.deliveries)() {
            acknowledged += usize::from(self.deliver(harness, &delivery, &script_of(Role::Webhook)).await);
        }
        match self.mishap {
            Mishap::None | Mishap::StoreDown => {}
            Mishap::HintsLost => drop(harness.lose_hints().await),
            Mishap::DeadLettered => self.bury(harness, &script_of(Role::DeadLetters)).await,
        }
        if self.role == Role::Relay {
            harness.clock.advance(harness.timing.lease);
            harness.relay_under(&script_of(Role::Relay)).await;
        }
        for _ in 0..8 {
            if !harness.work_under(&script_of(Role::Worker)).await {
                break;
            }
        }
        harness.settle().await;
        Seen { calls: script.calls(), acknowledged }
    }

    /// Delivers until there is a 2xx, if the provider retries at all. Says whether there was one.
    async fn deliver(&self, harness: &Harness, delivery: &Delivery, script: &Script) -> bool {
        let first = if self.mishap == Mishap::StoreDown { &Script::store_outage() } else { script };
        let mut answer = harness.deliver_under(first, delivery).await;
        while self.provider_retries && answer.as_ref().is_none_or(|outbound| outbound.status_code >= 300) {
            harness.clock.advance(Millis::seconds(18));
            answer = harness.deliver_under(&Script::none(), delivery).await;
        }
        answer.is_some_and(|outbound| outbound.status_code < 300)
    }

    /// Moves every message to the dead-letter consumer; one that it keeps comes to it again.
    async fn bury(&self, harness: &Harness, script: &Script) {
        let Some((messages, _)) = harness.batch().await else { return };
        for message in &messages {
            let text = message.body().unwrap();
            let kept = |response: &Option<serde_json::Value>| {
                response.as_ref().is_none_or(|response| response["batchItemFailures"] != serde_json::json!([]))
            };
            let response = harness.bury_under(script, text).await;
            if kept(&response) {
                assert!(!kept(&harness.bury_under(&Script::none(), text).await), "{}", self.name);
            }
        }
        harness.stack.delete(&messages.iter().collect::<Vec<_>>()).await;
    }
}

/// The faults that a call can meet.
fn faults(operation: Operation) -> Vec<Fault> {
    let mut faults = vec![Fault::CrashBefore, Fault::CrashAfter, Fault::Refused];
    match operation {
        Operation::Put | Operation::Update => faults.extend([Fault::ReplyLost, Fault::TransactionConflict]),
        Operation::Commit => {
            faults.extend([Fault::ReplyLost, Fault::Cancelled(vec![CancellationReason::Transient; 3])]);
        }
        Operation::Send | Operation::SendEach | Operation::Hide => faults.push(Fault::ReplyLost),
        // A read whose reply is lost is a read that was refused.
        Operation::Read
        | Operation::ReadEach
        | Operation::ReadHeads
        | Operation::ReadDomain
        | Operation::QueryDue
        | Operation::CountReceived => {}
    }
    faults
}

/// Plays every cell of a play's grid.
async fn grid(play: Play) {
    let mut harness = Harness::with(all).await;
    for endpoint in ["stripe", "meta_whatsapp", "standard_webhooks"] {
        harness.endpoints.change(endpoint, "on_store_outage", play.on_store_outage.into());
    }
    for endpoint in ["stripe", "github"] {
        harness.endpoints.change(endpoint, "on_body_mismatch", "quarantine".into());
    }
    let calls = play.perform(&harness, &(play.beside)(Script::recording())).await.calls;
    let facts = (play.facts)();
    let whole = Verdict::applied(facts.len()).dead(play.dead);
    assert_eq!(harness.tables().await.verdict(&facts), whole, "{}, no fault", play.name);
    assert!(!calls.is_empty(), "{}: its function made no call", play.name);

    let (mut cells, mut reached) = (0, 0);
    for (index, operation) in calls.iter().enumerate() {
        for fault in faults(*operation) {
            harness.reset().await;
            let cell = format!("{}: {fault:?} at call {index}, {operation:?}", play.name);
            let seen = play.perform(&harness, &(play.beside)(Script::at(index, fault))).await;
            assert_eq!(seen.calls.get(index), Some(operation), "{cell}: another call than in the recording");
            reached = reached.max(index + 1);
            let verdict = harness.tables().await.verdict(&facts);
            check(&play, &seen, &verdict, facts.len(), &cell);
            cells += 1;
        }
    }
    assert!(reached >= calls.len() && cells >= 3 * calls.len(), "the grid has a hole");
    println!("{}: {} calls, {cells} faults, {} facts each time: {calls:?}", play.name, calls.len(), facts.len());
}

/// A delivery that was acknowledged has its effect once. One that never was may have it, once, or leave nothing at all.
fn check(play: &Play, seen: &Seen, verdict: &Verdict, facts: usize, cell: &str) {
    if play.provider_retries || seen.acknowledged == (play.deliveries)().len() {
        assert_eq!(*verdict, Verdict::applied(facts).dead(play.dead), "{cell}");
    } else {
        assert_eq!(play.dead, 0, "{cell}");
        let unacknowledged = Verdict { lost: facts - verdict.applied, ..Verdict::applied(verdict.applied) };
        assert_eq!(*verdict, unacknowledged, "{cell}");
    }
}

fn all() -> hookonce_runtime::handler::Handlers {
    hookonce_worker::handlers::all().with(crate::support::counting::Counting)
}

fn one_invoice() -> Vec<Delivery> {
    vec![samples::invoice_paid("evt_1", "in_1", 4_900)]
}

fn one_invoice_paid() -> Vec<String> {
    vec![samples::paid("in_1")]
}

const ONE: Play = Play {
    name: "one event",
    role: Role::Webhook,
    on_store_outage: "reject",
    deliveries: one_invoice,
    facts: one_invoice_paid,
    mishap: Mishap::None,
    provider_retries: true,
    beside: |script| script,
    dead: 0,
};

const BATCH: Play = Play {
    name: "an envelope of two",
    deliveries: || vec![samples::whatsapp(&["a", "b"])],
    facts: || vec![samples::messaged("a"), samples::messaged("b")],
    ..ONE
};

#[tokio::test]
async fn the_webhook_dies_and_the_provider_retries() {
    grid(Play { name: "webhook, reject", ..ONE }).await;
    grid(Play { name: "webhook, enqueue", on_store_outage: "enqueue", ..ONE }).await;
}

#[tokio::test]
async fn the_webhook_dies_and_nobody_retries() {
    grid(Play { name: "webhook, reject, no retry", provider_retries: false, ..ONE }).await;
    grid(Play { name: "webhook, enqueue, no retry", on_store_outage: "enqueue", provider_retries: false, ..ONE }).await;
}

#[tokio::test]
async fn the_webhook_dies_on_an_envelope() {
    grid(Play { name: "webhook, envelope, enqueue", on_store_outage: "enqueue", ..BATCH }).await;
    grid(Play { name: "webhook, envelope, no retry", provider_retries: false, ..BATCH }).await;
}

#[tokio::test]
async fn the_webhook_dies_on_a_duplicate_and_on_another_body_under_a_known_id() {
    let twice = || vec![samples::push("push-1", "c1"), samples::push("push-1", "c1")];
    let facts = || vec![samples::built("c1")];
    grid(Play { name: "webhook, duplicate", deliveries: twice, facts, ..ONE }).await;
    let other_body = || vec![samples::push("push-1", "c1"), samples::push("push-1", "c2")];
    grid(Play { name: "webhook, quarantine", deliveries: other_body, facts, dead: 1, ..ONE }).await;
}

#[tokio::test]
async fn the_webhook_dies_while_it_mends_a_hint_that_failed() {
    let beside = |script: Script| script.and_on(Operation::Send, 0, Fault::Refused);
    grid(Play { name: "webhook, hint refused", beside, ..ONE }).await;
    let beside = |script: Script| script.and_on(Operation::Put, 0, Fault::TransactionConflict);
    grid(Play { name: "webhook, claim in conflict", beside, ..ONE }).await;
}

#[tokio::test]
async fn the_worker_dies_while_it_mends_a_commit_that_failed() {
    let play = Play { role: Role::Worker, ..ONE };
    let unknown = |script: Script| script.and_on(Operation::Commit, 0, Fault::ReplyLost);
    grid(Play { name: "worker, commit unknown", beside: unknown, ..play }).await;
    let refused = |script: Script| script.and_on(Operation::Commit, 0, Fault::Refused);
    grid(Play { name: "worker, commit refused", beside: refused, ..play }).await;
    // Overtaken as often as it may be: the failure is then counted.
    let overtaken = |script: Script| {
        let reasons = [CancellationReason::None, CancellationReason::None, CancellationReason::ConditionFailed];
        (0..4).fold(script, |script, index| script.and_on(Operation::Commit, index, Fault::Cancelled(reasons.to_vec())))
    };
    grid(Play { name: "worker, overtaken", beside: overtaken, ..play }).await;
}

#[tokio::test]
async fn the_worker_dies_on_an_event_with_reads_and_one_without() {
    let deliveries =
        || vec![samples::charge_refunded("evt_1", "ch_1", 1_500), samples::invoice_paid("evt_2", "in_1", 9)];
    let facts = || vec!["payments#stripe/charge.refunded/ch_1/1500".to_owned(), samples::paid("in_1")];
    grid(Play { name: "worker, two events", role: Role::Worker, deliveries, facts, ..ONE }).await;
}

#[tokio::test]
async fn the_worker_dies_on_the_only_copy() {
    let play = Play { role: Role::Worker, on_store_outage: "enqueue", mishap: Mishap::StoreDown, ..ONE };
    grid(Play { name: "worker, only copy", ..play }).await;
    let (deliveries, facts) = (BATCH.deliveries, BATCH.facts);
    grid(Play { name: "worker, only copy of an envelope", deliveries, facts, ..play }).await;
}

#[tokio::test]
async fn the_worker_dies_on_an_envelope_and_its_events() {
    grid(Play { name: "worker, envelope", role: Role::Worker, ..BATCH }).await;
}

#[tokio::test]
async fn the_worker_dies_on_a_fact_that_two_deliveries_tell() {
    let deliveries =
        || vec![samples::invoice_paid("evt_1", "in_1", 4_900), samples::invoice_paid("evt_2", "in_1", 4_900)];
    grid(Play { name: "worker, one fact twice", role: Role::Worker, deliveries, ..ONE }).await;
}

#[tokio::test]
async fn the_worker_dies_on_a_batch_of_several_messages() {
    let deliveries = || vec![count("msg_1", "x"), count("msg_2", "y"), count("msg_3", "z")];
    let facts = || ["x", "y", "z"].map(counted_fact).to_vec();
    grid(Play { name: "worker, three messages", role: Role::Worker, deliveries, facts, ..ONE }).await;
}

#[tokio::test]
async fn the_relay_dies_while_hints_are_lost() {
    let deliveries =
        || vec![samples::invoice_paid("evt_1", "in_1", 4_900), samples::invoice_paid("evt_2", "in_2", 100)];
    let facts = || vec![samples::paid("in_1"), samples::paid("in_2")];
    let (role, mishap) = (Role::Relay, Mishap::HintsLost);
    grid(Play { name: "relay, two records", role, mishap, deliveries, facts, ..ONE }).await;
}

#[tokio::test]
async fn the_relay_dies_while_it_mends_sends_that_failed() {
    let beside = |script: Script| script.and_on(Operation::SendEach, 0, Fault::Refused);
    grid(Play { name: "relay, sends refused", role: Role::Relay, mishap: Mishap::HintsLost, beside, ..ONE }).await;
}

#[tokio::test]
async fn the_relay_dies_on_a_dead_letter() {
    grid(Play { name: "dead letter", role: Role::DeadLetters, mishap: Mishap::DeadLettered, ..ONE }).await;
}
