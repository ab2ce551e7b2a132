//! Only the relay re-sends: within its budget, and oldest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use hookonce_aws::SqsQueue;
use hookonce_protocol::call::Written;
use hookonce_protocol::destination::Called;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{DeadReason, Due, Record, Status, attribute, journal_shard};
use hookonce_protocol::relay::{Budget, CHUNK_MAX, FAILED_SEND_PAUSE, SHARD_PAGE};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Action;
use hookonce_relay::DEAD_LETTER_BATCHES_MAX;
use hookonce_runtime::inbox::drive::duration;
use hookonce_runtime::inbox::maintain::{CHUNKS_IN_FLIGHT_MAX, RelayParts};
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::Store as _;
use serde_json::json;
use tokio::sync::watch;

use crate::effects::{applied, keyed};
use crate::protocol::a_record;
use crate::support::counting::{count, counted_fact, counting};
use crate::support::harness::{CALL_MAX, RELAY_TIMEOUT};
use crate::support::logs::Logs;
use crate::support::samples::whatsapp;
use crate::support::stack::urls;
use crate::support::wire::{HttpMessage, Injector, Proxy, WireFault};
use crate::support::{Fault, Gate, Harness, Operation, Script, Verdict};

/// How often a test looks for what must come soon.
const POLLS_MAX: usize = 1_000;

/// Delivers this many events a second apart, and loses every hint.
async fn forgotten(harness: &Harness, events: usize) {
    for index in 0..events {
        harness.deliver(&count(&format!("msg_{index:03}"), &format!("order-{index}"))).await;
        harness.clock.advance(Millis::seconds(1));
    }
    assert_eq!(harness.lose_hints().await, events);
}

#[tokio::test]
async fn a_run_sends_no_more_than_its_budget_and_the_oldest_first() {
    let mut harness = Harness::with(counting).await;
    harness.budget = Budget { sends_per_second_min: 1, arrivals_percent: 20, period: Millis::seconds(4) };
    forgotten(&harness, 10).await;
    harness.clock.advance(harness.timing.first_resend);
    for run in 0..3 {
        let report = harness.relay().await;
        let expected = if run < 2 { 4 } else { 2 };
        assert_eq!((&report["due"], &report["sent"]), (&json!(10 - 4 * run), &json!(expected)), "run {run}");
        let records = harness.records().await;
        let sent: Vec<_> = records.values().filter(|record| record.resends == 1).collect();
        assert_eq!(sent.len(), (4 * (run + 1)).min(10), "run {run}");
        let newest = sent.iter().map(|record| record.received_at).max().unwrap();
        let mut waiting = records.values().filter(|record| record.resends == 0);
        assert!(waiting.all(|record| record.received_at > newest), "run {run}: a younger one was sent first");
    }
    harness.settle().await;
    let facts: Vec<_> = (0..10).map(|index| counted_fact(&format!("order-{index}"))).collect();
    assert_eq!(harness.tables().await.verdict(&facts), Verdict::applied(10));
}

/// A slow page is the last of its run, because another one might not end before the function's time does.
#[tokio::test]
async fn nothing_begins_late() {
    let mut harness = Harness::with(counting).await;
    harness.timing = Timing { shards: 1, ..harness.timing };
    owed(&harness, SHARD_PAGE + 8, None).await;
    let gate = Gate::default();
    let script = Script::held(Operation::SendEach, &gate);
    let slowly = async {
        gate.reached().await;
        harness.clock.advance(Millis(RELAY_TIMEOUT.0 - CALL_MAX.0 + 1));
        gate.open();
    };
    let (report, ()) = tokio::join!(harness.relay_under(&script), slowly);
    assert_eq!(report.unwrap()["sent"], json!(SHARD_PAGE));
    assert_eq!(harness.metric("relay_shards_unavailable"), 2, "what was not read is told: a page, and the DEAD");
    assert_eq!(harness.relay().await["sent"], json!(8), "the next period takes the rest");
}

/// A backlog of events may take all the time that a run has.
#[tokio::test]
async fn effects_are_sent_however_long_the_events_take() {
    let harness = Harness::new().await;
    applied(&harness, "msg_1", &["receipts"]).await;
    assert_eq!(harness.lose_effects().await, 1);
    harness.clock.advance(harness.timing.first_resend);
    let gate = Gate::default();
    let script = Script::held(Operation::QueryDue, &gate);
    let slowly = async {
        gate.reached().await;
        for _ in 0..POLLS_MAX {
            if harness.stack.messages_of(&harness.stack.resources.effects_queue).await > 0 {
                break;
            }
        }
        harness.clock.advance(RELAY_TIMEOUT);
        gate.open();
    };
    let (report, ()) = tokio::join!(harness.relay_under(&script), slowly);
    assert_eq!(report.unwrap()["sent"], json!(0), "the events took all the time");
    assert_eq!(harness.metric("effects_sent"), 1);
    harness.destinations.put("receipts", keyed(24));
    harness.dispatch().await;
    assert_eq!(harness.callee.calls().len(), 1, "what was sent is done");
}

/// A handler that is unavailable for a day leaves more events waiting than one run may send.
#[tokio::test]
async fn events_that_wait_hold_up_no_other_event() {
    let mut harness = Harness::with(counting).await;
    harness.budget = Budget { sends_per_second_min: 1, arrivals_percent: 20, period: Millis::seconds(4) };
    owed(&harness, 10, Some(harness.clock.now())).await;
    forgotten(&harness, 1).await;
    harness.clock.advance(harness.timing.first_resend);
    assert_eq!(harness.relay().await["sent"], json!(1), "it fell due after all of those that wait");
    assert_eq!(harness.metric("waiting_sent"), 10, "they have a budget of their own");
}

/// Records are re-sent, but no worker runs. Their age when due shows nothing, because each send moves the due time.
#[tokio::test]
async fn what_is_sent_and_never_worked_on_is_counted() {
    let harness = Harness::with(counting).await;
    forgotten(&harness, 1).await;
    for resends in 0..4 {
        harness.clock.advance(Millis::hours(6));
        harness.relay().await;
        assert_eq!(harness.metric("relay_untried_resends"), (0..=resends).sum::<i64>(), "each run counts once");
        harness.lose_hints().await;
    }
}

/// In the end a record is due once in some hours. An alarm that looked back as far would end as late.
#[tokio::test]
async fn what_waits_unworked_on_is_told_by_each_run_until_it_is_done() {
    let harness = Harness::with(counting).await;
    forgotten(&harness, 1).await;
    for _ in 0..4 {
        harness.clock.advance(Millis::hours(6));
        harness.relay().await;
        harness.lose_hints().await;
    }
    let told = || harness.metric("relay_untried_resends");
    assert_eq!(told(), 6, "0, 1, 2 and 3");
    for minutes in 1..4 {
        harness.clock.advance(Millis::minutes(1));
        assert_eq!(harness.relay().await["due"], json!(0));
        assert_eq!(told(), 6 + 3 * minutes, "it is sent in hours, and told now");
    }
    harness.clock.advance(Millis::hours(6));
    harness.relay().await;
    harness.settle().await;
    let before = told();
    harness.clock.advance(Millis::minutes(1));
    harness.relay().await;
    assert_eq!(told(), before, "it is done");
    harness.deliver(&count("msg_new", "order-new")).await;
    assert_eq!(harness.lose_hints().await, 1);
    harness.clock.advance(harness.timing.first_resend);
    harness.relay().await;
    harness.clock.advance(Millis::minutes(1));
    harness.relay().await;
    assert_eq!(told(), before, "a first send may still be answered");
}

/// The same of effects: no dispatcher runs, then it calls a destination that is down.
#[tokio::test]
async fn effects_that_nobody_calls_and_that_are_called_in_vain_are_counted() {
    let harness = Harness::new().await;
    harness.destinations.put("receipts", keyed(24));
    harness.callee.answers_at("receipts", Called::NotDone { status: None, retry_after: None });
    applied(&harness, "msg_1", &["receipts"]).await;
    let counted = || ["effects_untried_resends", "effects_failed_tries"].map(|metric| harness.metric(metric));
    for expected in [[0, 0], [1, 0]] {
        harness.lose_effects().await;
        harness.clock.advance(Millis::hours(6));
        harness.relay().await;
        assert_eq!(counted(), expected);
    }
    harness.dispatch().await;
    harness.clock.advance(Millis::hours(12));
    harness.relay().await;
    assert_eq!(counted(), [1, 1], "it was called once; metrics add up");
    assert_eq!(harness.metric("relay_untried_resends"), 0, "no event waits");
}

#[tokio::test]
async fn a_hint_that_could_not_be_sent_falls_due_again_soon() {
    let harness = Harness::with(counting).await;
    forgotten(&harness, 1).await;
    harness.clock.advance(harness.timing.first_resend);
    let report = harness.relay_under(&Script::every(Operation::SendEach, Fault::Refused)).await.unwrap();
    assert_eq!((&report["sent"], &report["failed"]), (&json!(0), &json!(1)));
    harness.clock.advance(Millis(FAILED_SEND_PAUSE.0 - 1));
    assert_eq!(harness.relay().await["due"], json!(0));
    harness.clock.advance(Millis(1));
    assert_eq!(harness.relay().await["sent"], json!(1));
    assert_eq!(harness.metric("relay_failed"), 1);
}

#[tokio::test]
async fn a_shard_that_cannot_be_read_holds_up_no_other() {
    let harness = Harness::with(counting).await;
    forgotten(&harness, 8).await;
    harness.clock.advance(harness.timing.first_resend);
    let report = harness.relay_under(&Script::on(Operation::QueryDue, 0, Fault::Refused)).await.unwrap();
    let first = report["sent"].as_u64().unwrap();
    assert!((1..8).contains(&first), "{report}");
    assert_eq!(harness.metric("relay_shards_unavailable"), 1);
    assert_eq!(harness.relay().await["sent"], json!(8 - first));
}

#[tokio::test]
async fn three_rounds_of_dead_letters_make_a_record_dead_and_their_copies_count_for_nothing() {
    let harness = Harness::with(counting).await;
    let hint = r#"{"v":1,"k":"ref","pk":"in#standard_webhooks#msg_1"}"#;
    harness.deliver(&count("msg_1", "a")).await;
    let logs = Logs::catch("warn");
    for round in 1..=3 {
        harness.lose_hints().await;
        let sent = json!({ "SentTimestamp": harness.clock.now().0.to_string() });
        let letter = json!({ "messageId": "m", "receiptHandle": "r", "body": hint, "attributes": sent });
        harness.clock.advance(Millis::hours(10));
        for _copy in 0..2 {
            harness.relay_on(json!({ "Records": [letter] }), harness.deadline()).await;
            harness.observe().await;
            let tables = harness.tables().await;
            let record = tables.record("#msg_1");
            assert_eq!((record.dead_letters, record.status == Status::Dead), (round, round == 3));
        }
        assert_eq!(harness.relay().await["sent"], json!(i32::from(round < 3)), "it falls due at once");
    }
    assert_eq!(harness.tables().await.record("#msg_1").dead_reason, Some(DeadReason::DeadLetter));
    assert_eq!(harness.metric("record_dead"), 1);
    let died: serde_json::Value = serde_json::from_str(logs.take().trim()).unwrap();
    assert_eq!(died["span"]["record.key"], "in#standard_webhooks#msg_1", "{died}");
}

/// An event source would poll the dead-letter queue all the time, so the scheduled run takes from it, up to a limit.
#[tokio::test]
async fn a_scheduled_run_settles_dead_letters_and_keeps_the_others() {
    let harness = Harness::with(counting).await;
    harness.deliver(&count("msg_1", "a")).await;
    harness.lose_hints().await;
    harness.clock.advance(Millis::seconds(30));
    let queue = &harness.stack.resources.dead_letter_queue;
    let bury = async |body: String| {
        harness.stack.sqs.send_message().queue_url(&queue.url).message_body(body).send().await.unwrap();
    };
    let hint = |id: &str| format!(r#"{{"v":1,"k":"ref","pk":"in#standard_webhooks#{id}"}}"#);
    bury(hint("msg_1")).await;
    bury("of another sender".to_owned()).await;
    let report = harness.relay_with_letters(&queue.url).await;
    assert_eq!(report["sent"], json!(1), "what a dead letter made due is sent at once");
    assert_eq!((harness.metric("dead_letter_settled"), harness.metric("dead_letter_kept")), (1, 1));
    assert_eq!((harness.stack.messages_of(queue).await, harness.metric("relay_ran")), (1, 1));
    let most = DEAD_LETTER_BATCHES_MAX * 10;
    for number in 0..most + 5 {
        bury(hint(&format!("unknown_{number}"))).await;
    }
    harness.relay_with_letters(&queue.url).await;
    assert_eq!(harness.stack.messages_of(queue).await, 1 + 5, "the next run takes the rest");
    harness.relay_with_letters(&queue.url).await;
    assert_eq!((harness.stack.messages_of(queue).await, harness.metric("relay_ran")), (1, 3));
}

/// The alarm `RelayDoesNotRun` shows it.
#[tokio::test]
async fn a_run_that_cannot_read_the_dead_letters_sends_and_is_no_good_one() {
    let harness = Harness::with(counting).await;
    forgotten(&harness, 1).await;
    harness.clock.advance(harness.timing.first_resend);
    let queue = &harness.stack.resources.dead_letter_queue.url;
    harness.stack.sqs.delete_queue().queue_url(queue).send().await.unwrap();
    let report = harness.relay_with_letters(queue).await;
    assert_eq!((&report["sent"], harness.metric("relay_ran")), (&json!(1), 0));
}

/// Writes this many PENDING records that are due, and that may wait for a handler since then.
async fn owed(harness: &Harness, records: usize, waits_since: Option<EpochMs>) {
    let list = if waits_since.is_some() { Due::waiting } else { Due::pending };
    let (store, due_at) = (harness.stack.store(), EpochMs(harness.clock.now().0 - 1));
    let claim = |number: usize| {
        let mut record = a_record(&format!("in#standard_webhooks#msg_{number:04}"));
        record.waits_since = waits_since;
        record.due = Some(list(&record.key, harness.timing.shards, due_at));
        claim_write(&record)
    };
    let writes = futures::stream::iter((0..records).map(claim)).map(async |write| store.write(&write).await);
    let written: Vec<_> = writes.buffer_unordered(32).collect().await;
    assert_eq!(written, vec![Written::Applied; records]);
}

/// A queue that takes requests and never answers. It notes the records that it was sent hints for. Once they are so
/// many, it hangs up on every caller.
#[derive(Debug)]
struct SilentQueue {
    most: usize,
    requested: watch::Sender<BTreeSet<String>>,
}

impl Injector for SilentQueue {
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        let request = request.json();
        let bodies = request["Entries"].as_array().unwrap().iter().map(|entry| &entry["MessageBody"]);
        let keys = bodies.map(|body| match Message::decode(body.as_str().unwrap(), None).unwrap() {
            Message::Ref { pk } | Message::Slow { pk, .. } => pk.as_str().to_owned(),
            Message::Full(_) => unreachable!("the relay sends hints only"),
        });
        self.requested.send_modify(|requested| requested.extend(keys));
        self.requested.subscribe().wait_for(|requested| requested.len() >= self.most).await.unwrap();
        Some(WireFault::ReplyLost)
    }
}

/// The queue takes messages and says nothing. What was re-armed was also tried: otherwise it would wait for twice as
/// long without a hint.
#[tokio::test]
async fn nothing_is_rearmed_that_is_not_tried() {
    let mut harness = Harness::with(counting).await;
    harness.timing = Timing { shards: 8, ..harness.timing };
    owed(&harness, 6 * SHARD_PAGE, None).await;
    let silent = SilentQueue { most: CHUNKS_IN_FLIGHT_MAX * CHUNK_MAX, requested: watch::Sender::default() };
    let silent = Arc::new(silent);
    let proxy = Proxy::start(urls().1, &silent).await;
    let store = harness.stack.store();
    // No call ends by its own time: a slow machine may need all of it to make so many.
    let sqs = crate::contract::sqs(proxy.url(), Millis::minutes(1));
    let queue = SqsQueue::new(sqs, &harness.stack.resources.queue.url);
    let (ambient, timing, budget) = (harness.clock.clone(), harness.timing, harness.budget);
    let keys = MessageKeys::none();
    let parts = RelayParts { store, queue, keys, ambient, timing, budget, call_max: CALL_MAX };
    let run = parts.run(harness.clock.now().plus(RELAY_TIMEOUT));
    let run = tokio::time::timeout(duration(RELAY_TIMEOUT) * 5, run).await.map(|run| run.events.output);
    let records = harness.records().await;
    let rearmed: BTreeSet<_> = records.values().filter(|it| it.resends > 0).map(|it| it.key.to_string()).collect();
    let untried = rearmed.difference(&silent.requested.borrow()).count();
    assert_eq!(untried, 0, "of {} re-armed; the run: {run:?}", rearmed.len());
    let run = run.unwrap();
    assert_eq!((run.rearmed, run.failed), (rearmed.len(), rearmed.len()));
    assert!(rearmed.len() <= CHUNKS_IN_FLIGHT_MAX * CHUNK_MAX, "no chunk follows those that failed");
    let soon = harness.clock.now().plus(FAILED_SEND_PAUSE);
    let repaired = |record: &&Record| record.due.as_ref().is_some_and(|due| due.at == soon);
    assert_eq!(records.values().filter(repaired).count(), rearmed.len(), "each is due again soon");
}

/// DynamoDB may read some of several keys and leave the others for later (`UnprocessedKeys`).
#[tokio::test]
async fn what_a_partial_read_leaves_out_is_sent_later() {
    let harness = Harness::with(counting).await;
    forgotten(&harness, 3).await;
    harness.clock.advance(harness.timing.first_resend);
    let script = Script::on(Operation::ReadHeads, 0, Fault::Partial);
    assert_eq!(harness.relay_under(&script).await.unwrap()["sent"], json!(1));
    assert_eq!(harness.records().await.values().filter(|record| record.resends > 0).count(), 1, "no other was moved");
    assert_eq!(harness.relay().await["sent"], json!(2));
}

/// Thousands of events would crowd into the envelope's partition.
#[tokio::test]
async fn each_event_of_an_envelope_has_a_place_of_its_own_in_the_journal() {
    let mut harness = Harness::new().await;
    harness.timing = Timing { shards: 16, ..harness.timing };
    let ids: Vec<_> = (0..20).map(|number| format!("wamid.{number}")).collect();
    harness.deliver(&whatsapp(&ids.iter().map(String::as_str).collect::<Vec<_>>())).await;
    harness.work().await;
    let records = harness.records().await;
    let events: Vec<_> = records.values().filter(|record| record.parent.is_some()).collect();
    assert_eq!(events.len(), 20);
    for event in &events {
        assert_eq!(event.journal_shard, Some(journal_shard(event.received_at, event.key.shard(16))), "{}", event.key);
    }
    let partitions: BTreeSet<_> = events.iter().map(|event| &event.journal_shard).collect();
    assert!(partitions.len() > 8, "{partitions:?}");
}

/// The relay counts what is in the table, so a death that nobody logged is seen, too. An index that cannot be read
/// shows nothing of it.
#[tokio::test]
async fn dead_records_are_counted_in_each_run_unless_the_index_cannot_be_read() {
    let harness = Harness::with(counting).await;
    harness.relay().await;
    assert!(harness.counted("dead_records"), "0 is a figure");
    assert!(!harness.counted("relay_oldest_due_age_ms"), "nothing is due");
    assert_eq!((harness.metric("dead_records"), harness.metric("dead_oldest_age_ms")), (0, 0));
    let store = harness.stack.store();
    for number in 0..3 {
        let mut record = a_record(&format!("in#standard_webhooks#dead_{number}"));
        record.status = Status::Dead;
        record.due = Some(Due::dead(&record.key, 2, EpochMs(harness.clock.now().0 - 1_000 * (number + 1))));
        assert_eq!(store.write(&claim_write(&record)).await, Written::Applied);
    }
    harness.relay_under(&Script::every(Operation::QueryDue, Fault::Refused)).await.unwrap();
    let line = harness.metric_lines().pop().unwrap();
    assert!(!line.contains("\"dead_records\":"), "not read is not zero: {line}");
    assert!(line.contains("\"relay_ran\":0"), "it ran, and did not do all: {line}");
    harness.relay().await;
    assert_eq!((harness.metric("dead_records"), harness.metric("dead_oldest_age_ms")), (3, 3_000));
    assert_eq!(harness.metric("dead_shards_capped"), 0);
}

/// After a roll-back, records of the newer release stay due for ever. They hide no record of this release.
#[tokio::test]
async fn records_of_a_newer_release_hide_no_other() {
    let mut harness = Harness::with(counting).await;
    harness.timing = Timing { shards: 1, ..harness.timing };
    let (store, now) = (harness.stack.store(), harness.clock.now());
    for number in 0..2 * SHARD_PAGE {
        let mut newer = a_record(&format!("in#standard_webhooks#newer_{number:03}"));
        newer.due = Some(Due::pending(&newer.key, 1, EpochMs(now.0 - 1_000)));
        let mut write = claim_write(&newer);
        let Action::Put(item) = &mut write.action else { unreachable!("a claim is a put") };
        item.insert(attribute::SCHEMA_VERSION.to_owned(), 99.into());
        assert_eq!(store.write(&write).await, Written::Applied);
    }
    owed(&harness, 8, None).await;
    let script = Script::none();
    assert_eq!(harness.relay_under(&script).await.unwrap()["sent"], json!(8));
    assert_eq!(
        script.count(Operation::QueryDue),
        3 + 1 + 1 + 1,
        "three pages, one of what waits, one of effects, one of the DEAD"
    );
    assert_eq!(harness.metric("unknown_version"), 2, "once for each chunk");
}
