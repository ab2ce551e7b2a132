//! The relay function: resends due records on a schedule, and settles dead letters.

mod start;

use hookonce_protocol::call::{Signal, Unavailable};
use hookonce_protocol::dead_letter::DeadLetterOutcome;
use hookonce_protocol::relay::RunReport;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::inbox::batch::{Batch, BatchResponse};
use hookonce_runtime::inbox::drive::Driven;
use hookonce_runtime::inbox::maintain::{RelayParts, Runs};
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::telemetry::{Counts, Telemetry};
use serde_json::{Value, json};

pub use {lambda_runtime::Error, start::run};

/// The most batches of dead letters in one scheduled run.
pub const DEAD_LETTER_BATCHES_MAX: usize = 10;

/// The relay function.
#[derive(Debug)]
pub struct RelayFunction<S, Q, A> {
    parts: RelayParts<S, Q, A>,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, A: Ambient> RelayFunction<S, Q, A> {
    /// Creates the function from its parts.
    pub fn new(parts: RelayParts<S, Q, A>, telemetry: Telemetry) -> Self {
        Self { parts, telemetry }
    }

    /// Handles one invocation: a batch of dead letters if the event has `Records`, as an event source sends it, and a
    /// scheduled run otherwise. Both end before the deadline, when Lambda would end the process.
    pub async fn handle(&self, event: Value, deadline: EpochMs) -> Value {
        if event.get("Records").is_none() {
            return self.run(deadline, true).await;
        }
        // Keep every message of a malformed batch: Lambda takes an empty id as a failure of the whole batch.
        match serde_json::from_value::<Batch>(event) {
            Ok(batch) => json!(self.settle_dead_letters(batch, deadline).await),
            Err(_) => json!({"batchItemFailures": [{"itemIdentifier": ""}]}),
        }
    }

    /// A scheduled run that first takes dead letters from their queue: an event source would poll it all the time, for
    /// messages that hardly ever come. `delete` gets the receipts of those that are settled.
    pub async fn handle_with_letters(
        &self,
        receive: impl AsyncFn() -> Result<Batch, Unavailable>,
        delete: impl AsyncFn(&[String]),
        deadline: EpochMs,
    ) -> Value {
        let now = self.parts.ambient.moment().now;
        // A run without time sends nothing.
        let half = now.plus(Millis((deadline.0 - now.0) / 2));
        let mut are_read = true;
        for _ in 0..DEAD_LETTER_BATCHES_MAX {
            if !self.parts.may_bury(half) {
                break;
            }
            let Ok(batch) = receive().await else {
                are_read = false;
                break;
            };
            if batch.records.is_empty() {
                break;
            }
            let received: Vec<_> =
                batch.records.iter().map(|one| (one.message_id.clone(), one.receipt_handle.clone())).collect();
            let kept = self.settle_dead_letters(batch, half).await.failures;
            let is_kept = |id: &String| kept.iter().any(|failure| failure.message_id == *id);
            let settled: Vec<_> =
                received.into_iter().filter(|(id, _)| !is_kept(id)).map(|(_, receipt)| receipt).collect();
            delete(&settled).await;
        }
        self.run(deadline, are_read).await
    }

    async fn run(&self, deadline: EpochMs, letters_are_read: bool) -> Value {
        let Runs { events, waiting, effects } = self.parts.run(deadline).await;
        let mut counts = Counts::default();
        count(&mut counts, &events, ["relay_due", "relay_sent", "relay_oldest_due_age_ms"]);
        count(&mut counts, &waiting, ["waiting_due", "waiting_sent", "waiting_oldest_due_age_ms"]);
        count(&mut counts, &effects, ["effects_due", "effects_sent", "effects_oldest_due_age_ms"]);
        counts.set_unless_zero("effects_untried_resends", effects.output.untried_resends);
        counts.set_unless_zero("effects_failed_tries", effects.output.failed_tries);
        counts.set_unless_zero("handlers_away_ms", waiting.output.unavailable_for.map_or(0, |away| away.0));
        let report = &events.output;
        counts.set_unless_zero("relay_untried_resends", report.untried_resends);
        let dead = &report.dead;
        // If some shards did not answer, the count is a lower bound, and a 0 says nothing.
        if dead.shards_unavailable == 0 || dead.records > 0 {
            // Its alarm waits for a 0 to end.
            counts.set("dead_records", i64::try_from(dead.records).unwrap_or(i64::MAX));
            counts.set_unless_zero("dead_oldest_age_ms", dead.oldest_age.map_or(0, |age| age.0));
        }
        counts.add("dead_shards_capped", dead.shards_capped);
        counts.add("relay_shards_unavailable", dead.shards_unavailable);
        // What a run could not read or send is due for the next one, so only a run that did all of it counts. A 0 tells it
        // from no run at all.
        let did_all = |run: &Driven<RunReport>| run.output.failed == 0 && run.output.shards_unavailable == 0;
        let ran =
            letters_are_read && dead.shards_unavailable == 0 && [&events, &waiting, &effects].into_iter().all(did_all);
        counts.set("relay_ran", i64::from(ran));
        self.telemetry.emit(&counts, self.parts.ambient.moment().now);
        json!({"due": report.due, "sent": report.sent, "failed": report.failed})
    }

    /// Settles dead letters one after the other. Those for which the time does not suffice stay in the queue.
    async fn settle_dead_letters(&self, batch: Batch, deadline: EpochMs) -> BatchResponse {
        let now = || self.parts.ambient.moment().now;
        let on_signal = |signal: &Signal| self.telemetry.record(signal, now());
        let mut response = BatchResponse::default();
        for message in batch.records {
            if !self.parts.may_bury(deadline) {
                response.keep(message.message_id);
                continue;
            }
            let mut counts = Counts::default();
            let driven = self.parts.settle_dead_letter(&message.body, message.sent_at(), &on_signal).await;
            counts.unrecorded(&driven.signals);
            match driven.output {
                DeadLetterOutcome::Dead
                | DeadLetterOutcome::Rearmed
                | DeadLetterOutcome::Copy
                | DeadLetterOutcome::Elsewhere => {
                    counts.add("dead_letter_settled", 1);
                }
                DeadLetterOutcome::Keep => {
                    counts.add("dead_letter_kept", 1);
                    response.keep(message.message_id);
                }
            }
            // One line for each, at once: the next one may take the process down.
            self.telemetry.emit(&counts, now());
        }
        response
    }
}

/// Counts what was due, what was sent of it, and how old the oldest was, if there was any.
fn count(counts: &mut Counts, run: &Driven<RunReport>, [due, sent, age]: [&'static str; 3]) {
    let report = &run.output;
    counts.signals(&run.signals);
    counts.add(due, report.due);
    counts.add(sent, report.sent);
    counts.add("relay_failed", report.failed);
    counts.add("relay_shards_unavailable", report.shards_unavailable);
    counts.set_unless_zero(age, report.oldest_age.map_or(0, |age| age.0));
}
