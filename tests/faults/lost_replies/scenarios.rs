//! The scenarios. Together they make every kind of write.

use futures::future::{BoxFuture, FutureExt as _};
use hookonce_protocol::destination::Called;
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::time::Millis;
use hookonce_protocol::trail::Operation;
use hookonce_runtime::inbox::operate::operate;

use super::run::Run;
use crate::operators::restores;
use crate::support::counting::{count, counted};
use crate::support::samples::{push, whatsapp};
use crate::support::{Delivery, Fault, Operation as Call, Script, order, word};

/// Deliveries and what happens around them.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The facts that are applied, each once.
    pub(crate) facts: &'static [&'static str],
    pub(crate) steps: Steps,
}

/// Dead letters until a record must be dead.
const DEAD_LETTERS_MAX: usize = 8;

const ORDER: &[&str] = &["standard_webhooks#counting#order-1"];

const TWICE: &[&str] = &["standard_webhooks#counting#order-1", "standard_webhooks#counting#order-1"];

const FORWARDED: &[&str] = &["standard_webhooks#crm#%fact#key#standard_webhooks#msg_1"];

type Steps = fn(&Run) -> BoxFuture<'_, ()>;

const fn scenario(name: &'static str, facts: &'static [&'static str], steps: Steps) -> Scenario {
    Scenario { name, facts, steps }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario("one event, and a late copy", ORDER, |run| one_event(run).boxed()),
    scenario("an event whose plan checks an item", ORDER, |run| checked(run).boxed()),
    scenario("two copies before the worker", ORDER, |run| two_copies(run).boxed()),
    scenario("one fact under two ids", ORDER, |run| one_fact_under_two_ids(run).boxed()),
    scenario("another body under a known id", ORDER, |run| another_body(run).boxed()),
    scenario("an event that nobody wants", &[], |run| unwanted(run).boxed()),
    scenario("an envelope", &[], |run| envelope(run).boxed()),
    scenario("queue down", ORDER, |run| queue_down(run).boxed()),
    scenario("store down", ORDER, |run| store_down(run, Millis(0)).boxed()),
    scenario("store down for weeks", &[], |run| {
        store_down(run, Millis(run.harness.timing.accept_age_max.0 + 1)).boxed()
    }),
    scenario("hints lost", ORDER, |run| hints_lost(run).boxed()),
    scenario("hints lost, queue down", ORDER, |run| hints_lost_and_queue_down(run).boxed()),
    scenario("a handler away", ORDER, |run| handler_away(run).boxed()),
    scenario("a failure, and another attempt", &[], |run| failing(run).boxed()),
    scenario("a failure for good, and what an operator does", &[], |run| failing_for_good(run).boxed()),
    scenario("a record that waited too long", &[], |run| too_old(run).boxed()),
    scenario("dead letters", &[], |run| dead_letters(run).boxed()),
    scenario("an effect, and a copy of its hint", FORWARDED, |run| effect(run).boxed()),
    scenario("an effect that is not done, and then unclear", FORWARDED, |run| effect_waits(run).boxed()),
    scenario("an effect that is refused", FORWARDED, |run| effect_refused(run).boxed()),
    scenario("an effect that a restore left in doubt", FORWARDED, |run| effect_doubted(run).boxed()),
    scenario("a forced event", TWICE, |run| forced(run).boxed()),
    scenario("an event that a restored table has forgotten", ORDER, |run| rewound(run).boxed()),
];

impl Run {
    /// What is hidden comes back, at a time at which its record may be tried again.
    async fn after_its_pause(&self) {
        self.harness.clock.advance(Millis::minutes(1));
        self.harness.redeliver().await;
    }

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

async fn one_event(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    run.work().await;
    run.harness.clock.advance(Millis::minutes(1));
    run.deliver(&count("msg_1", "order-1")).await;
}

async fn checked(run: &Run) {
    run.deliver(&counted("msg_1", "count.checked", "order-1")).await;
    run.work().await;
}

async fn two_copies(run: &Run) {
    for _ in 0..3 {
        run.deliver(&count("msg_1", "order-1")).await;
    }
    run.work().await;
}

async fn one_fact_under_two_ids(run: &Run) {
    for id in ["msg_1", "msg_2"] {
        run.deliver(&count(id, "order-1")).await;
        run.work().await;
    }
}

async fn another_body(run: &Run) {
    run.change("standard_webhooks", "on_body_mismatch", "quarantine".into()).await;
    run.deliver(&count("msg_1", "order-1")).await;
    run.deliver(&count("msg_1", "order-2")).await;
    run.work().await;
}

async fn unwanted(run: &Run) {
    for delivery in ["delivery-1", "delivery-2"] {
        // The ids are not signed, so the worker notes what each body came with.
        run.deliver(&push(delivery, "aaaa")).await;
        run.work().await;
    }
}

async fn handler_away(run: &Run) {
    run.deliver(&counted("msg_1", "away.once", "order-1")).await;
    run.work().await;
    run.after_its_pause().await;
    run.work().await;
}

/// An event that is forwarded, once.
async fn forwarded(run: &Run) {
    run.deliver(&counted("msg_1", "forward.once", "order-1")).await;
    run.work().await;
}

async fn effect(run: &Run) {
    forwarded(run).await;
    run.harness.lose_effects().await;
    for _ in 0..2 {
        run.relay(Millis::minutes(10), &Script::none()).await;
        run.dispatch(Called::Done { status: Some(200) }).await;
    }
}

async fn effect_waits(run: &Run) {
    forwarded(run).await;
    for called in
        [Called::NotDone { status: None, retry_after: None }, Called::Unclear { status: None, retry_after: None }]
    {
        run.dispatch(called).await;
        run.after_its_pause().await;
    }
    run.dispatch(Called::Done { status: Some(200) }).await;
}

async fn effect_refused(run: &Run) {
    forwarded(run).await;
    run.dispatch(Called::Refused { status: Some(422) }).await;
}

async fn effect_doubted(run: &Run) {
    forwarded(run).await;
    run.operate_on(RecordKind::Effect, Operation::Doubt).await;
}

async fn envelope(run: &Run) {
    run.deliver(&whatsapp(&["a", "b"])).await;
    run.work().await;
    run.deliver(&whatsapp(&["b", "c"])).await;
    run.work().await;
}

async fn queue_down(run: &Run) {
    let down = Script::every(Call::Send, Fault::Refused);
    run.deliver_under(&down, &count("msg_1", "order-1")).await;
    run.relay(Millis(1), &Script::none()).await;
    run.work().await;
}

async fn store_down(run: &Run, length: Millis) {
    run.change("standard_webhooks", "on_store_outage", "enqueue".into()).await;
    run.deliver_under(&Script::store_outage(), &count("msg_1", "order-1")).await;
    run.harness.clock.advance(length);
    run.work().await;
}

async fn hints_lost(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    for _ in 0..2 {
        run.harness.lose_hints().await;
        run.relay(Millis::minutes(10), &Script::none()).await;
    }
    run.work().await;
}

async fn hints_lost_and_queue_down(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    run.harness.lose_hints().await;
    let down = Script::every(Call::SendEach, Fault::Refused);
    run.relay(Millis::minutes(10), &down).await;
    run.relay(Millis::minutes(1), &Script::none()).await;
    run.work().await;
}

async fn failing(run: &Run) {
    run.deliver(&counted("msg_1", "count.later", "order-1")).await;
    run.work().await;
    run.harness.lose_hints().await;
    run.relay(Millis::hours(1), &Script::none()).await;
    run.work().await;
}

async fn failing_for_good(run: &Run) {
    run.deliver(&counted("msg_1", "count.never", "order-1")).await;
    run.work().await;
    run.operate(Operation::Retry).await;
    run.relay(Millis(1), &Script::none()).await;
    run.work().await;
    run.operate(Operation::Discard).await;
    run.operate(Operation::Redact).await;
}

async fn too_old(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    run.harness.clock.advance(Millis(run.harness.timing.commit_age_max.0 + 1));
    run.work().await;
}

async fn dead_letters(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    run.harness.lose_hints().await;
    let Some(record) = run.only_record().await else { return };
    let hint = Message::Ref { pk: record.key }.encode(None).unwrap();
    for _ in 0..DEAD_LETTERS_MAX {
        run.harness.clock.advance(Millis::days(1));
        let response = run.harness.bury_under(&Script::none(), &hint).await.unwrap();
        run.note("bury", response).await;
        if run.only_record().await.is_some_and(|record| record.status == Status::Dead) {
            break;
        }
    }
}

async fn rewound(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    let Some(pending) = run.only_record().await else { return };
    run.work().await;
    restores::restore(&run.harness, &pending, Some(&pending)).await;
    run.relay(Millis::minutes(10), &Script::none()).await;
    run.work().await;
}

async fn forced(run: &Run) {
    run.deliver(&count("msg_1", "order-1")).await;
    run.work().await;
    run.operate(Operation::Force).await;
    run.relay(Millis(1), &Script::none()).await;
    run.work().await;
}
