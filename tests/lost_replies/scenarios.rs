//! The scenarios. Together they make every kind of write.

use futures::future::{BoxFuture, FutureExt as _};
use hookonce_protocol::destination::Called;
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::Operation;
use hookonce_runtime::operate::operate;

use super::run::Run;
use crate::support::counting::{count, counted};
use crate::support::samples::{push, whatsapp};
use crate::support::{Delivery, Fault, Operation as Call, Script, order, word};

/// Deliveries and what happens around them.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The facts that are applied, each once.
    pub(crate) facts: &'static [&'static str],
    pub(crate) steps: fn(&Run) -> BoxFuture<'_, ()>,
}

/// Dead letters until a record must be dead.
const DEAD_LETTERS_MAX: usize = 8;

const ORDER: &[&str] = &["standard_webhooks#counting#order-1"];

const FORWARDED: &[&str] = &["standard_webhooks#crm#%fact#key#msg_1"];

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "one event, and a late copy", facts: ORDER, steps: one_event },
    Scenario { name: "an event whose plan checks an item", facts: ORDER, steps: checked },
    Scenario { name: "two copies before the worker", facts: ORDER, steps: two_copies },
    Scenario { name: "one fact under two ids", facts: ORDER, steps: one_fact_under_two_ids },
    Scenario { name: "another body under a known id", facts: ORDER, steps: another_body },
    Scenario { name: "an event that nobody wants", facts: &[], steps: unwanted },
    Scenario { name: "an envelope", facts: &[], steps: envelope },
    Scenario { name: "queue down", facts: ORDER, steps: queue_down },
    Scenario { name: "store down", facts: ORDER, steps: store_down },
    Scenario { name: "store down for weeks", facts: &[], steps: store_down_for_weeks },
    Scenario { name: "hints lost", facts: ORDER, steps: hints_lost },
    Scenario { name: "hints lost, queue down", facts: ORDER, steps: hints_lost_and_queue_down },
    Scenario { name: "a handler away", facts: ORDER, steps: handler_away },
    Scenario { name: "a failure, and another attempt", facts: &[], steps: failing },
    Scenario { name: "a failure for good, and what an operator does", facts: &[], steps: failing_for_good },
    Scenario { name: "a record that waited too long", facts: &[], steps: too_old },
    Scenario { name: "dead letters", facts: &[], steps: dead_letters },
    Scenario { name: "an effect, and a copy of its hint", facts: FORWARDED, steps: effect },
    Scenario { name: "an effect that is not done, and then unclear", facts: FORWARDED, steps: effect_waits },
    Scenario { name: "an effect that is refused", facts: FORWARDED, steps: effect_refused },
    Scenario { name: "an effect that a restore left in doubt", facts: FORWARDED, steps: effect_doubted },
    Scenario {
        name: "a forced event",
        facts: &["standard_webhooks#counting#order-1", "standard_webhooks#counting#order-1"],
        steps: forced,
    },
];

impl Run {
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

fn one_event(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&count("msg_1", "order-1")).await;
        run.work().await;
        run.harness.clock.advance(Millis::minutes(1));
        run.deliver(&count("msg_1", "order-1")).await;
    }
    .boxed()
}

fn checked(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&counted("msg_1", "count.checked", "order-1")).await;
        run.work().await;
    }
    .boxed()
}

fn two_copies(run: &Run) -> BoxFuture<'_, ()> {
    async {
        for _ in 0..3 {
            run.deliver(&count("msg_1", "order-1")).await;
        }
        run.work().await;
    }
    .boxed()
}

fn one_fact_under_two_ids(run: &Run) -> BoxFuture<'_, ()> {
    async {
        for id in ["msg_1", "msg_2"] {
            run.deliver(&count(id, "order-1")).await;
            run.work().await;
        }
    }
    .boxed()
}

fn another_body(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.harness.endpoints.change("standard_webhooks", "on_body_mismatch", "quarantine".into());
        run.deliver(&count("msg_1", "order-1")).await;
        run.deliver(&count("msg_1", "order-2")).await;
        run.work().await;
    }
    .boxed()
}

fn unwanted(run: &Run) -> BoxFuture<'_, ()> {
    async {
        for delivery in ["delivery-1", "delivery-2"] {
            // The ids are not signed, so the worker notes what each body came with.
            run.deliver(&push(delivery, "aaaa")).await;
            run.work().await;
        }
    }
    .boxed()
}

fn handler_away(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&counted("msg_1", "away.once", "order-1")).await;
        run.work().await;
        run.harness.redeliver().await;
        run.work().await;
    }
    .boxed()
}

/// An event that is forwarded, once.
async fn forwarded(run: &Run) {
    run.deliver(&counted("msg_1", "forward.once", "order-1")).await;
    run.work().await;
}

fn effect(run: &Run) -> BoxFuture<'_, ()> {
    async {
        forwarded(run).await;
        run.harness.lose_effects().await;
        for _ in 0..2 {
            run.relay(Millis::minutes(10), &Script::none()).await;
            run.dispatch(Called::Done { status: Some(200) }).await;
        }
    }
    .boxed()
}

fn effect_waits(run: &Run) -> BoxFuture<'_, ()> {
    async {
        forwarded(run).await;
        for called in [Called::NotDone { retry_after: None }, Called::Unclear { retry_after: None }] {
            run.dispatch(called).await;
            run.harness.redeliver().await;
        }
        run.dispatch(Called::Done { status: Some(200) }).await;
    }
    .boxed()
}

fn effect_refused(run: &Run) -> BoxFuture<'_, ()> {
    async {
        forwarded(run).await;
        run.dispatch(Called::Refused { status: Some(422) }).await;
    }
    .boxed()
}

fn effect_doubted(run: &Run) -> BoxFuture<'_, ()> {
    async {
        forwarded(run).await;
        run.operate_on(RecordKind::Effect, Operation::Doubt).await;
    }
    .boxed()
}

fn envelope(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&whatsapp(&["a", "b"])).await;
        run.work().await;
        run.deliver(&whatsapp(&["b", "c"])).await;
        run.work().await;
    }
    .boxed()
}

fn queue_down(run: &Run) -> BoxFuture<'_, ()> {
    async {
        let down = Script::every(Call::Send, Fault::Refused);
        run.deliver_under(&down, &count("msg_1", "order-1")).await;
        run.relay(Millis(1), &Script::none()).await;
        run.work().await;
    }
    .boxed()
}

fn store_down(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
        run.deliver_under(&Script::store_outage(), &count("msg_1", "order-1")).await;
        run.work().await;
    }
    .boxed()
}

fn store_down_for_weeks(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
        run.deliver_under(&Script::store_outage(), &count("msg_1", "order-1")).await;
        run.harness.clock.advance(Millis(run.harness.timing.accept_age_max.0 + 1));
        run.work().await;
    }
    .boxed()
}

fn hints_lost(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&count("msg_1", "order-1")).await;
        for _ in 0..2 {
            run.harness.lose_hints().await;
            run.relay(Millis::minutes(10), &Script::none()).await;
        }
        run.work().await;
    }
    .boxed()
}

fn hints_lost_and_queue_down(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&count("msg_1", "order-1")).await;
        run.harness.lose_hints().await;
        let down = Script::every(Call::SendEach, Fault::Refused);
        run.relay(Millis::minutes(10), &down).await;
        run.relay(Millis::minutes(1), &Script::none()).await;
        run.work().await;
    }
    .boxed()
}

fn failing(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&counted("msg_1", "count.later", "order-1")).await;
        run.work().await;
        run.harness.lose_hints().await;
        run.relay(Millis::hours(1), &Script::none()).await;
        run.work().await;
    }
    .boxed()
}

fn failing_for_good(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&counted("msg_1", "count.never", "order-1")).await;
        run.work().await;
        run.operate(Operation::Retry).await;
        run.relay(Millis(1), &Script::none()).await;
        run.work().await;
        run.operate(Operation::Discard).await;
        run.operate(Operation::Redact).await;
    }
    .boxed()
}

fn too_old(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&count("msg_1", "order-1")).await;
        run.harness.clock.advance(Millis(run.harness.timing.commit_age_max.0 + 1));
        run.work().await;
    }
    .boxed()
}

fn dead_letters(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&count("msg_1", "order-1")).await;
        run.harness.lose_hints().await;
        let Some(record) = run.only_record().await else { return };
        let hint = Message::Ref { pk: record.key }.encode();
        for _ in 0..DEAD_LETTERS_MAX {
            run.harness.clock.advance(Millis::days(1));
            let response = run.harness.bury_under(&Script::none(), &hint).await.unwrap();
            run.note("bury", response).await;
            if run.only_record().await.is_some_and(|record| record.status == Status::Dead) {
                break;
            }
        }
    }
    .boxed()
}

fn forced(run: &Run) -> BoxFuture<'_, ()> {
    async {
        run.deliver(&count("msg_1", "order-1")).await;
        run.work().await;
        run.operate(Operation::Force).await;
        run.relay(Millis(1), &Script::none()).await;
        run.work().await;
    }
    .boxed()
}
