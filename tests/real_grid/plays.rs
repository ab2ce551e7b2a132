//! The plays: small stories that faults are put into.

use super::board::Role;
use super::stage::{BATCHES_MAX, Stage};
use crate::support::Delivery;
use crate::support::samples::{charge_refunded, invoice_paid, messaged, paid, whatsapp_message, whatsapp_of};

/// The endpoints that enqueue while the store is down, of Stripe and of WhatsApp; all others reject.
pub(crate) const ENQUEUING: &str = "enqueuing";
pub(crate) const ENQUEUING_BATCHES: &str = "enqueuing-batches";

/// A small story.
#[derive(Debug, Clone)]
pub(crate) struct Play {
    pub(crate) name: &'static str,
    deliveries: Vec<Delivery>,
    /// The facts that must stand in the end, each once.
    pub(crate) facts: Vec<String>,
    /// How many of them may instead be owed to a person, by a dead record that has the payload.
    pub(crate) dead_max: usize,
    /// What is refused, whatever the point, until a provider delivers again or the story has been told.
    pub(crate) down: &'static [(Role, &'static str)],
    turn: Turn,
}

/// What happens once the deliveries were made, or while they are.
#[derive(Debug, Clone, Copy)]
enum Turn {
    None,
    /// A second copy overtakes the first before this call.
    Overtaken {
        before: &'static str,
    },
    /// The hints are lost, so that the relay has something to do.
    HintsLost,
    /// The messages end in the dead-letter queue without a handler having run.
    DeadLettered,
    /// Only one batch is worked on: what fails comes back at once or seconds later, as chance has it.
    OneBatch,
}

impl Play {
    fn new(name: &'static str, deliveries: Vec<Delivery>, facts: Vec<String>) -> Self {
        Self { name, deliveries, facts, dead_max: 0, down: &[], turn: Turn::None }
    }

    fn turn(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    fn down(self, down: &'static [(Role, &'static str)]) -> Self {
        Self { down, ..self }
    }

    /// Tells the story once.
    pub(crate) async fn tell(&self, stage: &Stage<'_>) {
        for delivery in &self.deliveries {
            match self.turn {
                Turn::Overtaken { before } => stage.arrive_twice(delivery, before).await,
                Turn::None | Turn::HintsLost | Turn::DeadLettered | Turn::OneBatch => {
                    stage.arrive(Role::Webhook, delivery).await;
                }
            }
        }
        let mut batches_max = BATCHES_MAX;
        match self.turn {
            Turn::None | Turn::Overtaken { .. } => {}
            Turn::OneBatch => batches_max = 1,
            Turn::HintsLost => {
                stage.lose_hints().await;
                stage.relay().await;
            }
            Turn::DeadLettered => {
                stage.bury().await;
                stage.relay().await;
            }
        }
        stage.work(batches_max).await;
    }
}

/// One event, whose handler reads nothing.
pub(crate) fn one_event() -> Play {
    Play::new("one event", vec![invoice_paid("evt_1", "in_1", 4_900)], vec![paid("in_1")])
}

/// An envelope of two messages by two people: one conversation would have their commits meet or not, as chance has it.
fn two_messages() -> Delivery {
    let message = |(id, from): (&str, &str)| {
        let mut message = whatsapp_message(id);
        message["from"] = from.into();
        message
    };
    whatsapp_of([("a", "4915100000001"), ("b", "4915100000002")].map(message).to_vec())
}

/// Every play.
pub(crate) fn all() -> Vec<Play> {
    let one = || (vec![invoice_paid("evt_1", "in_1", 4_900)], vec![paid("in_1")]);
    let (only_copy, only_fact) = (
        || vec![invoice_paid("evt_1", "in_1", 4_900).to(ENQUEUING)],
        || vec![format!("payments#{ENQUEUING}/invoice.paid/in_1")],
    );
    let only_batch = (
        vec![two_messages().to(ENQUEUING_BATCHES)],
        ["a", "b"].map(|id| format!("messages#{ENQUEUING_BATCHES}/message/wamid.{id}")).to_vec(),
    );
    let refund =
        (vec![charge_refunded("evt_1", "ch_1", 1_500)], vec!["payments#stripe/charge.refunded/ch_1/1500".to_owned()]);
    let again = vec![invoice_paid("evt_1", "in_1", 4_900), invoice_paid("evt_2", "in_1", 4_900)];
    let play = |name, (deliveries, facts)| Play::new(name, deliveries, facts);
    let store_down = &[(Role::Webhook, "PutItem")];
    vec![
        one_event(),
        play("an event whose handler reads", refund),
        play("one fact under two ids", (again, vec![paid("in_1")])),
        play("two copies, the second claims first", one()).turn(Turn::Overtaken { before: "PutItem" }),
        play("two copies, the second comes before the hint", one()).turn(Turn::Overtaken { before: "SendMessage" }),
        play("an envelope", (vec![two_messages()], vec![messaged("a"), messaged("b")])),
        play("store down", (only_copy(), only_fact())).down(store_down),
        play("an envelope, store down", only_batch).down(store_down),
        play("queue down", one()).down(&[(Role::Webhook, "SendMessage")]),
        play("commits refused", one()).turn(Turn::OneBatch).down(&[(Role::Worker, "TransactWriteItems")]),
        play("hints lost", one()).turn(Turn::HintsLost),
        play("hints lost, queue down", one()).turn(Turn::HintsLost).down(&[(Role::Relay, "SendMessageBatch")]),
        play("a dead letter", one()).turn(Turn::DeadLettered),
        Play { dead_max: 1, ..play("a dead letter that is the only copy", (only_copy(), only_fact())) }
            .turn(Turn::DeadLettered)
            .down(store_down),
    ]
}
