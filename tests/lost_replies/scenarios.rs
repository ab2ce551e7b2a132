//! The scenarios. Together they make every kind of write.

use futures::future::{BoxFuture, FutureExt as _};
use hookonce_protocol::destination::Called;
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::Operation;
use hookonce_runtime::operate::operate;

use super::stage::Stage;
use crate::support::counting::{count, counted};
use crate::support::samples::{push, whatsapp};
use crate::support::{Delivery, Fault, Operation as Call, Script, order, word};

/// Deliveries and what happens around them.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The facts that are applied, each once.
    pub(crate) facts: &'static [&'static str],
    pub(crate) play: fn(&Stage) -> BoxFuture<'_, ()>,
}

/// Dead letters until a record must be dead.
const DEAD_LETTERS_MAX: usize = 8;

const ORDER: &[&str] = &["standard_webhooks#counting#order-1"];

const FORWARDED: &[&str] = &["standard_webhooks#crm#%fact#key#msg_1"];

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "one event, and a late copy", facts: ORDER, play: one_event },
    Scenario { name: "an event whose plan checks an item", facts: ORDER, play: checked },
    Scenario { name: "two copies before the worker", facts: ORDER, play: two_copies },
    Scenario { name: "one fact under two ids", facts: ORDER, play: one_fact_under_two_ids },
    Scenario { name: "another body under a known id", facts: ORDER, play: another_body },
    Scenario { name: "an event that nobody wants", facts: &[], play: unwanted },
    Scenario { name: "an envelope", facts: &[], play: envelope },
    Scenario { name: "queue down", facts: ORDER, play: queue_down },
    Scenario { name: "store down", facts: ORDER, play: store_down },
    Scenario { name: "store down for weeks", facts: &[], play: store_down_for_weeks },
    Scenario { name: "hints lost", facts: ORDER, play: hints_lost },
    Scenario { name: "hints lost, queue down", facts: ORDER, play: hints_lost_and_queue_down },
    Scenario { name: "a handler away", facts: ORDER, play: handler_away },
    Scenario { name: "a failure, and another attempt", facts: &[], play: failing },
    Scenario { name: "a failure for good, and what an operator does", facts: &[], play: failing_for_good },
    Scenario { name: "a record that waited too long", facts: &[], play: too_old },
    Scenario { name: "dead letters", facts: &[], play: dead_letters },
    Scenario { name: "an effect, and a copy of its hint", facts: FORWARDED, play: effect },
    Scenario { name: "an effect that is not done, and then unclear", facts: FORWARDED, play: effect_waits },
    Scenario { name: "an effect that is refused", facts: FORWARDED, play: effect_refused },
    Scenario { name: "an effect that a restore left in doubt", facts: FORWARDED, play: effect_doubted },
    Scenario {
        name: "a forced event",
        facts: &["standard_webhooks#counting#order-1", "standard_webhooks#counting#order-1"],
        play: forced,
    },
];

impl Stage {
    async fn deliver(&self, delivery: &Delivery) {
        self.deliver_under(&Script::none(), delivery).await;
    }

    async fn deliver_under(&self, script: &Script, delivery: &Delivery) {
        let answer = self.harness.deliver_under(script, delivery).await.unwrap();
        self.note("deliver", word(&answer)).await;
    }

    async fn work(&self) {
        self.harness.work().await;
        self.note("work", ()).await;
    }

    async fn relay(&self, after: Millis, script: &Script) {
        self.harness.clock.advance(after);
        // It sends events and effects side by side.
        let report = self.harness.clock.drawing_once(self.harness.relay_under(script)).await.unwrap();
        self.note("relay", report).await;
    }

    async fn dispatch(&self, called: Called) {
        self.harness.callee.answers_at("crm", called);
        self.harness.dispatch().await;
        self.note("dispatch", self.harness.callee.keys()).await;
    }

    async fn only_record(&self) -> Option<Record> {
        self.harness.records().await.into_values().next()
    }

    /// What an operator does to the record.
    async fn operate(&self, operation: Operation) {
        self.operate_on(RecordKind::Delivery, operation).await;
    }

    async fn operate_on(&self, kind: RecordKind, operation: Operation) {
        let records = self.harness.records().await;
        let Some(record) = records.into_values().find(|record| record.key.kind() == kind) else { return };
        let order = order(operation, "a reason");
        let store = self.harness.operator_store(&Script::none());
        let operated = operate(&store, &record, &order, &self.harness.timing, &self.harness.clock).await;
        self.note("operate", operated).await;
    }
}

fn one_event(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&count("msg_1", "order-1")).await;
        stage.work().await;
        stage.harness.clock.advance(Millis::minutes(1));
        stage.deliver(&count("msg_1", "order-1")).await;
    }
    .boxed()
}

fn checked(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&counted("msg_1", "count.checked", "order-1")).await;
        stage.work().await;
    }
    .boxed()
}

fn two_copies(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        for _ in 0..3 {
            stage.deliver(&count("msg_1", "order-1")).await;
        }
        stage.work().await;
    }
    .boxed()
}

fn one_fact_under_two_ids(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        for id in ["msg_1", "msg_2"] {
            stage.deliver(&count(id, "order-1")).await;
            stage.work().await;
        }
    }
    .boxed()
}

fn another_body(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.harness.endpoints.change("standard_webhooks", "on_body_mismatch", "quarantine".into());
        stage.deliver(&count("msg_1", "order-1")).await;
        stage.deliver(&count("msg_1", "order-2")).await;
        stage.work().await;
    }
    .boxed()
}

fn unwanted(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        for delivery in ["delivery-1", "delivery-2"] {
            // The ids are not signed, so the worker notes what each body came with.
            stage.deliver(&push(delivery, "aaaa")).await;
            stage.work().await;
        }
    }
    .boxed()
}

fn handler_away(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&counted("msg_1", "away.once", "order-1")).await;
        stage.work().await;
        stage.harness.redeliver().await;
        stage.work().await;
    }
    .boxed()
}

/// An event that is forwarded, once.
async fn forwarded(stage: &Stage) {
    stage.deliver(&counted("msg_1", "forward.once", "order-1")).await;
    stage.work().await;
}

fn effect(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        forwarded(stage).await;
        stage.harness.lose_effects().await;
        for _ in 0..2 {
            stage.relay(Millis::minutes(10), &Script::none()).await;
            stage.dispatch(Called::Done { status: Some(200) }).await;
        }
    }
    .boxed()
}

fn effect_waits(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        forwarded(stage).await;
        for called in [Called::NotDone { retry_after: None }, Called::Unclear { retry_after: None }] {
            stage.dispatch(called).await;
            stage.harness.redeliver().await;
        }
        stage.dispatch(Called::Done { status: Some(200) }).await;
    }
    .boxed()
}

fn effect_refused(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        forwarded(stage).await;
        stage.dispatch(Called::Refused { status: Some(422) }).await;
    }
    .boxed()
}

fn effect_doubted(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        forwarded(stage).await;
        stage.operate_on(RecordKind::Effect, Operation::Doubt).await;
    }
    .boxed()
}

fn envelope(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&whatsapp(&["a", "b"])).await;
        stage.work().await;
        stage.deliver(&whatsapp(&["b", "c"])).await;
        stage.work().await;
    }
    .boxed()
}

fn queue_down(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        let down = Script::every(Call::Send, Fault::Refused);
        stage.deliver_under(&down, &count("msg_1", "order-1")).await;
        stage.relay(Millis(1), &Script::none()).await;
        stage.work().await;
    }
    .boxed()
}

fn store_down(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
        stage.deliver_under(&Script::store_outage(), &count("msg_1", "order-1")).await;
        stage.work().await;
    }
    .boxed()
}

fn store_down_for_weeks(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
        stage.deliver_under(&Script::store_outage(), &count("msg_1", "order-1")).await;
        stage.harness.clock.advance(Millis(stage.harness.timing.accept_age_max.0 + 1));
        stage.work().await;
    }
    .boxed()
}

fn hints_lost(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&count("msg_1", "order-1")).await;
        for _ in 0..2 {
            stage.harness.lose_hints().await;
            stage.relay(Millis::minutes(10), &Script::none()).await;
        }
        stage.work().await;
    }
    .boxed()
}

fn hints_lost_and_queue_down(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&count("msg_1", "order-1")).await;
        stage.harness.lose_hints().await;
        let down = Script::every(Call::SendEach, Fault::Refused);
        stage.relay(Millis::minutes(10), &down).await;
        stage.relay(Millis::minutes(1), &Script::none()).await;
        stage.work().await;
    }
    .boxed()
}

fn failing(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&counted("msg_1", "count.later", "order-1")).await;
        stage.work().await;
        stage.harness.lose_hints().await;
        stage.relay(Millis::hours(1), &Script::none()).await;
        stage.work().await;
    }
    .boxed()
}

fn failing_for_good(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&counted("msg_1", "count.never", "order-1")).await;
        stage.work().await;
        stage.operate(Operation::Retry).await;
        stage.relay(Millis(1), &Script::none()).await;
        stage.work().await;
        stage.operate(Operation::Discard).await;
        stage.operate(Operation::Redact).await;
    }
    .boxed()
}

fn too_old(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&count("msg_1", "order-1")).await;
        stage.harness.clock.advance(Millis(stage.harness.timing.commit_age_max.0 + 1));
        stage.work().await;
    }
    .boxed()
}

fn dead_letters(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&count("msg_1", "order-1")).await;
        stage.harness.lose_hints().await;
        let Some(record) = stage.only_record().await else { return };
        let hint = Message::Ref { pk: record.key }.encode();
        for _ in 0..DEAD_LETTERS_MAX {
            stage.harness.clock.advance(Millis::days(1));
            let response = stage.harness.bury_under(&Script::none(), &hint).await.unwrap();
            stage.note("bury", response).await;
            if stage.only_record().await.is_some_and(|record| record.status == Status::Dead) {
                break;
            }
        }
    }
    .boxed()
}

fn forced(stage: &Stage) -> BoxFuture<'_, ()> {
    async {
        stage.deliver(&count("msg_1", "order-1")).await;
        stage.work().await;
        stage.operate(Operation::Force).await;
        stage.relay(Millis(1), &Script::none()).await;
        stage.work().await;
    }
    .boxed()
}
