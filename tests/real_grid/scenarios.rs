//! The scenarios that faults are injected into.

use super::cluster::{BATCHES_MAX, Cluster};
use super::fault_plan::Role;
use crate::support::Delivery;
use crate::support::samples::{charge_refunded, invoice_paid, messaged, paid, whatsapp_message, whatsapp_of};

/// The endpoints of Stripe and WhatsApp enqueue while the store is down; all others reject.
pub(crate) const ENQUEUING: &str = "enqueuing";
pub(crate) const ENQUEUING_BATCHES: &str = "enqueuing-batches";

/// One scenario: deliveries, and what happens around them.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    deliveries: Vec<Delivery>,
    /// The facts that must be applied in the end, each once.
    pub(crate) facts: Vec<String>,
    /// How many of them may instead be left to a person, in a dead record that has the payload.
    pub(crate) dead_max: usize,
    /// What is refused at every point until a provider delivers again or the scenario is over.
    pub(crate) down: &'static [(Role, &'static str)],
    disturbance: Disturbance,
}

/// What happens after the deliveries, or during them.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    None,
    /// A second copy overtakes the first before this call.
    Overtaken {
        before: &'static str,
    },
    /// The hints are lost, so that the relay has something to do.
    HintsLost,
    /// The messages end in the dead-letter queue without a handler having run.
    DeadLettered,
    /// Only one batch is worked on: a failed message comes back at once or seconds later, at random.
    OneBatch,
}

impl Scenario {
    fn new(name: &'static str, deliveries: Vec<Delivery>, facts: Vec<String>) -> Self {
        Self { name, deliveries, facts, dead_max: 0, down: &[], disturbance: Disturbance::None }
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
            match self.disturbance {
                Disturbance::Overtaken { before } => cluster.arrive_twice(delivery, before).await,
                Disturbance::None | Disturbance::HintsLost | Disturbance::DeadLettered | Disturbance::OneBatch => {
                    cluster.arrive(Role::Webhook, delivery).await;
                }
            }
        }
        let mut batches_max = BATCHES_MAX;
        match self.disturbance {
            Disturbance::None | Disturbance::Overtaken { .. } => {}
            Disturbance::OneBatch => batches_max = 1,
            Disturbance::HintsLost => {
                cluster.lose_hints().await;
                cluster.relay().await;
            }
            Disturbance::DeadLettered => {
                cluster.bury().await;
                cluster.relay().await;
            }
        }
        cluster.work(batches_max).await;
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

/// Every scenario.
pub(crate) fn all() -> Vec<Scenario> {
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
        scenario("two copies, the second claims first", one())
            .disturbance(Disturbance::Overtaken { before: "PutItem" }),
        scenario("two copies, the second comes before the hint", one())
            .disturbance(Disturbance::Overtaken { before: "SendMessage" }),
        scenario("an envelope", (vec![two_messages()], vec![messaged("a"), messaged("b")])),
        scenario("store down", (only_copy(), only_fact())).down(store_down),
        scenario("an envelope, store down", only_batch).down(store_down),
        scenario("queue down", one()).down(&[(Role::Webhook, "SendMessage")]),
        scenario("commits refused", one())
            .disturbance(Disturbance::OneBatch)
            .down(&[(Role::Worker, "TransactWriteItems")]),
        scenario("hints lost", one()).disturbance(Disturbance::HintsLost),
        scenario("hints lost, queue down", one())
            .disturbance(Disturbance::HintsLost)
            .down(&[(Role::Relay, "SendMessageBatch")]),
        scenario("a dead letter", one()).disturbance(Disturbance::DeadLettered),
        Scenario { dead_max: 1, ..scenario("a dead letter that is the only copy", (only_copy(), only_fact())) }
            .disturbance(Disturbance::DeadLettered)
            .down(store_down),
    ]
}
