//! The scenarios that faults are injected into.

use super::cluster::{BATCHES_MAX, Cluster};
use super::fault_plan::{CALL_DESTINATION, CALL_HANDLER, Role};
use super::handler::{FACT, REMOTE};
use crate::support::Delivery;
use crate::support::samples::{charge_refunded, invoice_paid, messaged, paid, whatsapp_message, whatsapp_of};

/// The destinations, each named after its class. An endpoint of the same name forwards to it.
pub(crate) const KEYED: &str = "keyed";
pub(crate) const AT_MOST_ONCE: &str = "at_most_once";
pub(crate) const AT_LEAST_ONCE: &str = "at_least_once";
pub(crate) const CLASSES: [&str; 3] = [KEYED, AT_MOST_ONCE, AT_LEAST_ONCE];

/// The endpoints of Stripe and WhatsApp enqueue while the store is down; all others reject.
pub(crate) const ENQUEUING: &str = "enqueuing";
pub(crate) const ENQUEUING_BATCHES: &str = "enqueuing-batches";

/// One scenario: deliveries, and what happens around them.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) deliveries: Vec<Delivery>,
    /// The facts that must be applied in the end, each once.
    pub(crate) facts: Vec<String>,
    /// How many of them may instead be left to a person, in a dead record that has the payload.
    pub(crate) dead_max: usize,
    /// The destination that the only delivery is forwarded to.
    pub(crate) forwarded: Option<&'static str>,
    /// What is refused at every point until a provider delivers again or the scenario is over.
    pub(crate) down: &'static [(Role, &'static str)],
    disturbance: Disturbance,
}

/// What happens after the deliveries, or during them.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    None,
    /// A second copy overtakes the first before this call.
    Overtaken(&'static str),
    /// The hints for this function are lost, so that the relay has something to do.
    HintsLost(Role),
    /// The messages for this function end in the dead-letter queue without it having run.
    DeadLettered(Role),
    /// Only one batch of each queue is worked on: a failed message comes back at once or seconds later, at random.
    OneBatch,
}

impl Scenario {
    fn new(name: &'static str, deliveries: Vec<Delivery>, facts: Vec<String>) -> Self {
        Self { name, deliveries, facts, dead_max: 0, forwarded: None, down: &[], disturbance: Disturbance::None }
    }

    fn disturbance(self, disturbance: Disturbance) -> Self {
        Self { disturbance, ..self }
    }

    fn down(self, down: &'static [(Role, &'static str)]) -> Self {
        Self { down, ..self }
    }

    /// Runs the scenario once.
    pub(crate) async fn run(&self, cluster: &Cluster<'_>) {
        for delivery in &self.deliveries {
            if let Disturbance::Overtaken(operation) = self.disturbance {
                cluster.arrive_twice(delivery, operation).await;
            } else {
                cluster.arrive(Role::Webhook, delivery).await;
            }
        }
        let mut batches_max = BATCHES_MAX;
        match self.disturbance {
            Disturbance::None | Disturbance::Overtaken(_) => {}
            Disturbance::OneBatch => batches_max = 1,
            Disturbance::HintsLost(role) => {
                commit_before(role, cluster).await;
                cluster.lose_hints(role).await;
                cluster.relay().await;
            }
            Disturbance::DeadLettered(role) => {
                commit_before(role, cluster).await;
                cluster.bury(role).await;
                cluster.relay().await;
            }
        }
        cluster.work(batches_max).await;
    }
}

/// There are hints of effects once the worker has committed them.
async fn commit_before(role: Role, cluster: &Cluster<'_>) {
    if role == Role::Dispatcher {
        cluster.work_as(Role::Worker, BATCHES_MAX).await;
    }
}

/// One event, whose handler reads nothing.
pub(crate) fn one_event() -> Scenario {
    Scenario::new("one event", vec![invoice_paid("evt_1", "in_1", 4_900)], vec![paid("in_1")])
}

/// An envelope of two messages from two people. In one conversation, their commits would conflict at random.
fn two_messages() -> Delivery {
    let message = |(id, from): (&str, &str)| {
        let mut message = whatsapp_message(id);
        message["from"] = from.into();
        message
    };
    whatsapp_of([("a", "4915100000001"), ("b", "4915100000002")].map(message).to_vec())
}

/// One event that is applied and forwarded to a destination.
pub(crate) fn forwarded(name: &'static str, destination: &'static str) -> Scenario {
    let fact = format!("{destination}#payments#invoice.paid#in_1");
    let delivery = invoice_paid("evt_1", "in_1", 4_900).to(destination);
    Scenario { forwarded: Some(destination), ..Scenario::new(name, vec![delivery], vec![fact]) }
}

/// Every scenario.
pub(crate) fn all() -> Vec<Scenario> {
    [events(), remote(), effects()].concat()
}

/// Those in which an event has an effect.
fn effects() -> Vec<Scenario> {
    let callee_down = |name, destination| {
        let down = &[(Role::Dispatcher, CALL_DESTINATION)];
        forwarded(name, destination).disturbance(Disturbance::OneBatch).down(down)
    };
    vec![
        forwarded("a keyed effect", KEYED),
        forwarded("an effect at most once", AT_MOST_ONCE),
        forwarded("an effect at least once", AT_LEAST_ONCE),
        callee_down("a keyed effect, callee down", KEYED),
        callee_down("an effect at most once, callee down", AT_MOST_ONCE),
        forwarded("an effect's hint lost", AT_LEAST_ONCE).disturbance(Disturbance::HintsLost(Role::Dispatcher)),
        forwarded("an effect's dead letter", KEYED).disturbance(Disturbance::DeadLettered(Role::Dispatcher)),
    ]
}

/// Those with a handler in another language, which has a table of its own.
fn remote() -> Vec<Scenario> {
    let away = counting("a remote handler that is away").down(&[(Role::Worker, CALL_HANDLER)]);
    vec![counting("a remote handler"), away.disturbance(Disturbance::OneBatch)]
}

/// One event of the handler in another language.
pub(crate) fn counting(name: &'static str) -> Scenario {
    let delivery = invoice_paid("evt_1", "in_1", 4_900).to(REMOTE);
    Scenario::new(name, vec![delivery], vec![FACT.to_owned()])
}

/// Those without effects.
fn events() -> Vec<Scenario> {
    let one = || (vec![invoice_paid("evt_1", "in_1", 4_900)], vec![paid("in_1")]);
    let (only_copy, only_fact) = (
        || vec![invoice_paid("evt_1", "in_1", 4_900).to(ENQUEUING)],
        || vec![format!("{ENQUEUING}#payments#invoice.paid#in_1")],
    );
    let only_batch = (
        vec![two_messages().to(ENQUEUING_BATCHES)],
        ["a", "b"].map(|id| format!("{ENQUEUING_BATCHES}#messages#message#wamid.{id}")).to_vec(),
    );
    let refund =
        (vec![charge_refunded("evt_1", "ch_1", 1_500)], vec!["stripe#payments#charge.refunded#ch_1#1500".to_owned()]);
    let again = vec![invoice_paid("evt_1", "in_1", 4_900), invoice_paid("evt_2", "in_1", 4_900)];
    let scenario = |name, (deliveries, facts)| Scenario::new(name, deliveries, facts);
    let store_down = &[(Role::Webhook, "PutItem")];
    vec![
        one_event(),
        scenario("an event whose handler reads", refund),
        scenario("one fact under two ids", (again, vec![paid("in_1")])),
        scenario("two copies, the second claims first", one()).disturbance(Disturbance::Overtaken("PutItem")),
        scenario("two copies, the second comes before the hint", one())
            .disturbance(Disturbance::Overtaken("SendMessage")),
        scenario("an envelope", (vec![two_messages()], vec![messaged("a"), messaged("b")])),
        scenario("store down", (only_copy(), only_fact())).down(store_down),
        scenario("an envelope, store down", only_batch).down(store_down),
        scenario("queue down", one()).down(&[(Role::Webhook, "SendMessage")]),
        scenario("commits refused", one())
            .disturbance(Disturbance::OneBatch)
            .down(&[(Role::Worker, "TransactWriteItems")]),
        scenario("hints lost", one()).disturbance(Disturbance::HintsLost(Role::Worker)),
        scenario("hints lost, queue down", one())
            .disturbance(Disturbance::HintsLost(Role::Worker))
            .down(&[(Role::Relay, "SendMessageBatch")]),
        scenario("a dead letter", one()).disturbance(Disturbance::DeadLettered(Role::Worker)),
        Scenario { dead_max: 1, ..scenario("a dead letter that is the only copy", (only_copy(), only_fact())) }
            .disturbance(Disturbance::DeadLettered(Role::Worker))
            .down(store_down),
    ]
}
