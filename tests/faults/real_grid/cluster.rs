//! One run of a scenario: the functions behind their proxies, and everything around them that is not the project's: the
//! provider, the event source, the schedule and the passage of time.

use hookonce_local::clients::REGION;
use hookonce_local::event_source::sqs_event;
use hookonce_local::tables::QueueRef;
use hookonce_protocol::record::{Record, Status, attribute, set};
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_runtime::ambient::{Ambient as _, System};
use serde_json::{Value, json};

use super::fault_plan::{FaultPlan, Role};
use super::functions::Functions;
use crate::support::Delivery;
use crate::support::clock::{Clock, START};
use crate::support::stack::TestStack;
use crate::support::tables::Tables;
use crate::support::wire::WireFault;

/// How often a provider delivers, or a dead letter is handed over, before it must have been accepted.
const TRIES_MAX: usize = 4;

/// Batches that one round takes from the queue, at most.
pub(crate) const BATCHES_MAX: usize = 16;

/// Rounds of work and relay until everything must be at rest.
const ROUNDS_MAX: usize = 8;

/// The environment of a run.
pub(crate) struct Cluster<'a> {
    stack: &'a TestStack,
    plan: &'a FaultPlan,
    functions: Functions,
}

impl<'a> Cluster<'a> {
    pub(crate) fn new(stack: &'a TestStack, plan: &'a FaultPlan, functions: Functions) -> Self {
        Self { stack, plan, functions }
    }

    /// Invokes a function; `None` if it was killed.
    async fn invoke(&self, role: Role, event: Value) -> Option<Value> {
        let answer = tokio::select! {
            biased;
            () = self.plan.crashed(role) => None,
            answer = self.functions.invoke(role, event) => Some(answer),
        };
        self.plan.carry_out_late(WireFault::Late).await;
        answer.map(|answer| answer.unwrap_or_else(|error| panic!("{role:?} failed as a whole: {error}")))
    }

    /// A provider that delivers until it gets a 2xx, and signs each attempt again.
    pub(crate) async fn arrive(&self, role: Role, delivery: &Delivery) {
        for _ in 0..TRIES_MAX {
            let clock = Clock::new(1);
            clock.advance(Millis(System.moment().now.0 - START.0));
            let answer = self.invoke(role, delivery.event(&clock)).await;
            if answer.is_some_and(|answer| answer["statusCode"].as_u64().is_some_and(|code| (200..300).contains(&code)))
            {
                return;
            }
            self.plan.mend();
        }
        panic!("the provider was refused {TRIES_MAX} times");
    }

    /// Two copies: the second comes when the first is about to make a call of this operation, and overtakes it.
    pub(crate) async fn arrive_twice(&self, delivery: &Delivery, operation: &'static str) {
        self.plan.hold(Role::Webhook, operation);
        let first = async {
            self.arrive(Role::Webhook, delivery).await;
            self.plan.give_up_holding();
        };
        let second = async {
            self.plan.reached().await;
            self.arrive(Role::Copy, delivery).await;
            self.plan.release();
        };
        tokio::join!(first, second);
    }

    /// The queue with the hints for a function.
    fn queue_of(&self, role: Role) -> &QueueRef {
        match role {
            Role::Dispatcher => &self.stack.resources.effects_queue,
            Role::Webhook | Role::Copy | Role::Worker | Role::Relay => &self.stack.resources.queue,
        }
    }

    /// Hands one batch of a queue to a function, deletes what it acknowledged and holds the rest. Says whether there
    /// was one.
    async fn process(&self, role: Role, queue: &QueueRef) -> bool {
        let messages = self.stack.receive(queue).await;
        if messages.is_empty() {
            return false;
        }
        let response = self.invoke(role, sqs_event(&messages, &queue.arn, REGION)).await;
        self.stack.conclude(queue, &messages, response).await;
        true
    }

    /// Works until neither queue shows a message, or on this many batches of each.
    pub(crate) async fn work(&self, batches_max: usize) {
        self.work_as(Role::Worker, batches_max).await;
        self.work_as(Role::Dispatcher, batches_max).await;
    }

    /// The same with one function alone.
    pub(crate) async fn work_as(&self, role: Role, batches_max: usize) {
        for _ in 0..batches_max {
            if !self.process(role, self.queue_of(role)).await {
                return;
            }
        }
    }

    /// Every message for this function is received too often: the relay takes them as dead letters until it keeps none.
    pub(crate) async fn bury(&self, role: Role) {
        for _ in 0..TRIES_MAX {
            if !self.process(Role::Relay, self.queue_of(role)).await {
                return;
            }
            self.stack.redeliver().await;
        }
    }

    /// One run of the relay on its schedule, after everything that waits has fallen due.
    pub(crate) async fn relay(&self) {
        self.let_time_pass().await;
        self.invoke(Role::Relay, json!({ "source": "aws.events" })).await;
    }

    /// Takes every visible message for this function out of its queue permanently.
    pub(crate) async fn lose_hints(&self, role: Role) {
        self.stack.lose(self.queue_of(role)).await;
    }

    /// Moves the due time of every waiting record and the end of its pause into the past, because the functions use the
    /// machine's clock. Whoever had the pass of an effect is gone by now, so that one is moved back by as long as it is
    /// held.
    async fn let_time_pass(&self) {
        let past = System.moment().now.0 - 1_000;
        let held_since = past - Timing::standard().effects_visibility_timeout.0;
        for record in self.pending().await {
            let mut changes = vec![set(attribute::DUE_AT, past)];
            if record.not_before.is_some() {
                changes.push(set(attribute::NOT_BEFORE, past));
            }
            if record.effect.as_ref().is_some_and(|effect| effect.pass.is_some()) {
                changes.push(set(attribute::PASS_AT, held_since));
            }
            self.stack.change(&record, changes).await;
        }
    }

    async fn pending(&self) -> Vec<Record> {
        let records = self.tables().await.records.into_values();
        records.filter(|record| record.status == Status::Pending).collect()
    }

    /// Works, lets time pass and runs the relay until nothing is owed and nothing is queued. Returns whether it came to
    /// rest.
    pub(crate) async fn settle(&self) -> bool {
        for round in 0..ROUNDS_MAX {
            self.stack.redeliver().await;
            self.work(BATCHES_MAX).await;
            let queued =
                self.stack.messages().await + self.stack.messages_of(&self.stack.resources.effects_queue).await;
            let at_rest = self.pending().await.is_empty() && queued == 0;
            if at_rest && !self.plan.carry_out_late(WireFault::LateAtRest).await {
                return true;
            }
            // The functions use the machine's clock.
            let pause = (round == 0).then(|| self.plan.pause_of_document()).flatten();
            tokio::time::sleep(pause.unwrap_or_default()).await;
            self.relay().await;
        }
        false
    }

    /// Reads both tables.
    pub(crate) async fn tables(&self) -> Tables {
        Tables::open(&self.stack.scan(Table::Inbox).await, self.stack.scan(Table::Domain).await, Vec::new())
    }
}
