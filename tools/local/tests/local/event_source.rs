//! The event source against the embedded SQS.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_local::calls::CallCounts;
use hookonce_local::clients;
use hookonce_local::event_source::{EventSource, EventSourceConfig};
use hookonce_local::invoke::{Invoke, InvokeError, invoke_fn};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore, mpsc};

use crate::support::{Stack, eventually, held, stack};

fn config(stack: &Stack) -> EventSourceConfig {
    EventSourceConfig {
        queue_url: stack.resources.queue.url.clone(),
        queue_arn: stack.resources.queue.arn.clone(),
        region: clients::REGION.to_owned(),
        batch_size: 10,
        batching_window: Duration::ZERO,
        concurrency_max: 2,
        long_poll: Duration::from_secs(1),
        function_timeout: Duration::from_secs(30),
        enabled: true,
    }
}

fn start(stack: &Stack, function: impl Invoke) -> EventSource {
    EventSource::start(stack.sqs.clone(), function, config(stack)).unwrap()
}

/// The records of an event.
fn records(event: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|record| (text(&record["messageId"]), text(&record["body"]))).collect()
}

fn failures(ids: impl IntoIterator<Item = String>) -> Value {
    let entries: Vec<_> = ids.into_iter().map(|id| json!({ "itemIdentifier": id })).collect();
    json!({ "batchItemFailures": entries })
}

/// The bodies that were delivered.
type Deliveries = Arc<Mutex<Vec<String>>>;

/// Notes a delivery, and returns how many there were of this body before.
fn note(deliveries: &Deliveries, body: &str) -> usize {
    let mut deliveries = deliveries.lock().unwrap();
    deliveries.push(body.to_owned());
    deliveries.iter().filter(|delivered| *delivered == body).count() - 1
}

/// A function that succeeds, and what it finds in each event.
fn finding<T: Send + 'static>(
    find: impl Fn(&Value) -> T + Send + Sync + 'static,
) -> (impl Invoke, mpsc::UnboundedReceiver<T>) {
    let (found, receiver) = mpsc::unbounded_channel();
    let function = invoke_fn(move |event: Value| {
        found.send(find(&event)).unwrap();
        async { Ok(Value::Null) }
    });
    (function, receiver)
}

async fn until_empty(stack: &Stack) {
    eventually("every message is deleted", async || (stack.remaining().await == 0).then_some(())).await;
}

/// A client of the stack whose requests for messages are counted.
fn counted(stack: &Stack) -> (aws_sdk_sqs::Client, CallCounts) {
    let counts = CallCounts::default();
    let config = stack.sqs.config().to_builder().interceptor(counts.clone()).build();
    (aws_sdk_sqs::Client::from_conf(config), counts)
}

async fn until_polled(counts: &CallCounts, times: u64) {
    eventually("it asks for messages", async || (counts.of("ReceiveMessage") >= times).then_some(())).await;
}

#[tokio::test]
async fn a_partial_failure_leaves_the_listed_message_and_deletes_the_others() {
    let stack = stack(3, 100).await;
    for body in ["good", "bad", "better"] {
        stack.send(body).await;
    }
    let seen = Deliveries::default();
    let noted = seen.clone();
    let function = invoke_fn(move |event| {
        let seen = noted.clone();
        async move {
            let first_bad = |body: &str| note(&seen, body) == 0 && body == "bad";
            Ok(failures(records(&event).into_iter().filter(|(_, body)| first_bad(body)).map(|(id, _)| id)))
        }
    });
    let source = start(&stack, function);
    until_empty(&stack).await;
    source.stop().await;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["bad", "bad", "better", "good"]);
}

#[tokio::test]
async fn a_batch_whose_function_crashes_is_delivered_again() {
    let stack = stack(1, 100).await;
    stack.send("first").await;
    stack.send("second").await;
    let invocations = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&invocations);
    let function = invoke_fn(move |_| {
        let invocation = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match invocation {
                0 => panic!("a bug"),
                1 => Err(InvokeError::Failed { error_type: "Boom".to_owned(), message: "again".to_owned() }),
                2 => Ok(json!("not an object")),
                3 => Ok(failures(["nobody".to_owned()])),
                _ => Ok(json!({})),
            }
        }
    });
    let _source = start(&stack, function);
    until_empty(&stack).await;
    assert!(invocations.load(Ordering::SeqCst) > 4);
}

#[tokio::test]
async fn a_poison_body_reaches_the_dead_letter_queue_and_its_neighbours_do_not() {
    let stack = stack(3, 2).await;
    for body in [r#"{"v":1}"#, "\u{feff}not json <at> all", r#"{"v":2}"#] {
        stack.send(body).await;
    }
    let function = invoke_fn(|event| async move {
        let unreadable = |body: &str| serde_json::from_str::<Value>(body).is_err();
        Ok(failures(records(&event).into_iter().filter(|(_, body)| unreadable(body)).map(|(id, _)| id)))
    });
    let source = start(&stack, function);
    let dead = eventually("the poison is moved", async || stack.receive_dead().await.pop()).await;
    assert_eq!(dead.body(), Some("\u{feff}not json <at> all"));
    source.stop().await;
    assert_eq!(stack.remaining().await, 0);
}

#[tokio::test]
async fn the_visibility_that_the_function_set_decides_when_a_message_returns() {
    let stack = stack(3_600, 100).await;
    stack.send("hint").await;
    let (sqs, queue_url) = (stack.sqs.clone(), stack.resources.queue.url.clone());
    let seen = Deliveries::default();
    let noted = seen.clone();
    let function = invoke_fn(move |event: Value| {
        let (sqs, queue_url, seen) = (sqs.clone(), queue_url.clone(), noted.clone());
        async move {
            if note(&seen, "hint") > 0 {
                return Ok(Value::Null);
            }
            let handle = event["Records"][0]["receiptHandle"].as_str().unwrap();
            let change = sqs.change_message_visibility().queue_url(queue_url).receipt_handle(handle);
            change.visibility_timeout(1).send().await.unwrap();
            Ok(failures(records(&event).into_iter().map(|(id, _)| id)))
        }
    });
    let _source = start(&stack, function);
    until_empty(&stack).await;
    assert_eq!(seen.lock().unwrap().len(), 2, "it came again long before the queue's visibility ends");
}

#[tokio::test]
async fn the_event_carries_what_lambda_puts_in_it() {
    let stack = stack(30, 100).await;
    let sent = stack.send("hint").await;
    let (function, mut received) = finding(Value::clone);
    let _source = start(&stack, function);
    let event = received.recv().await.unwrap();
    let record = &event["Records"][0];
    assert_eq!(record["messageId"], json!(sent));
    assert_eq!(record["body"], json!("hint"));
    assert_eq!(record["md5OfBody"], json!("ee2faeed038501c1deab01c7b54f2fa9"));
    assert_eq!(record["eventSource"], json!("aws:sqs"));
    assert_eq!(record["eventSourceARN"], json!(stack.resources.queue.arn));
    assert_eq!(record["awsRegion"], json!("us-east-1"));
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], json!("1"));
    for attribute in ["SentTimestamp", "SenderId", "ApproximateFirstReceiveTimestamp"] {
        assert!(record["attributes"][attribute].is_string(), "{attribute}");
    }
}

#[tokio::test]
async fn a_batch_that_is_not_full_waits_for_the_window() {
    let stack = stack(30, 100).await;
    let (function, mut sizes) = finding(|event| records(event).len());
    let window = EventSourceConfig { batch_size: 3, batching_window: Duration::from_secs(20), ..config(&stack) };
    let _source = EventSource::start(stack.sqs.clone(), function, window).unwrap();
    for body in ["one", "two", "three"] {
        stack.send(body).await;
    }
    assert_eq!(sizes.recv().await, Some(3));
}

#[tokio::test]
async fn no_more_invocations_run_at_a_time_than_allowed() {
    let stack = stack(30, 100).await;
    for index in 0..12 {
        stack.send(&format!("hint {index}")).await;
    }
    let (places, all) = (Arc::new(Semaphore::new(3)), Arc::new(Barrier::new(3)));
    let invocations = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&invocations);
    let function = invoke_fn(move |_| {
        let (places, all) = (Arc::clone(&places), Arc::clone(&all));
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            let _place = places.try_acquire().expect("no fourth one runs");
            all.wait().await;
            Ok(Value::Null)
        }
    });
    let narrow = EventSourceConfig { batch_size: 1, concurrency_max: 3, ..config(&stack) };
    let source = EventSource::start(stack.sqs.clone(), function, narrow).unwrap();
    until_empty(&stack).await;
    source.stop().await;
    assert_eq!(invocations.load(Ordering::SeqCst), 12);
}

#[tokio::test]
async fn stopping_waits_for_the_batch_under_way_and_its_deletion() {
    let stack = stack(30, 100).await;
    stack.send("hint").await;
    let (started, finish, function) = held(Value::Null);
    // With one batch at a time it does not poll meanwhile. The server may notice late that a poll was given up, and give
    // it the message.
    let alone = EventSourceConfig { concurrency_max: 1, ..config(&stack) };
    let source = EventSource::start(stack.sqs.clone(), function, alone).unwrap();
    started.notified().await;
    let stopping = tokio::spawn(source.stop());
    stack.send("too late").await;
    finish.notify_one();
    stopping.await.unwrap();
    assert_eq!(stack.remaining().await, 1);
    assert_eq!(stack.receive().await.pop().unwrap().body(), Some("too late"));
}

#[tokio::test]
async fn a_long_poll_does_not_delay_the_stop_nor_swallow_a_message() {
    let stack = stack(3_600, 100).await;
    let patient = EventSourceConfig { long_poll: Duration::from_secs(20), ..config(&stack) };
    let function = invoke_fn(|_| async { Ok(Value::Null) });
    let (sqs, counts) = counted(&stack);
    let source = EventSource::start(sqs, function, patient).unwrap();
    until_polled(&counts, 1).await;
    tokio::time::timeout(Duration::from_secs(10), source.stop()).await.unwrap();
    // The abandoned poll must not take this message.
    stack.send("hint").await;
    eventually("the message is there", async || stack.receive().await.pop()).await;
}

/// What waits meanwhile was received by nobody, so no receive of it is spent.
#[tokio::test]
async fn what_is_switched_off_receives_nothing_until_it_is_switched_on() {
    let stack = stack(3_600, 100).await;
    let off = EventSourceConfig { enabled: false, ..config(&stack) };
    let of = |event: &Value| {
        let receives = &event["Records"][0]["attributes"]["ApproximateReceiveCount"];
        (records(event).remove(0).1, receives.as_str().unwrap().to_owned())
    };
    let (function, mut found) = finding(of);
    let source = EventSource::start(stack.sqs.clone(), function, off).unwrap();
    let switch = source.switch();
    for body in ["before the first poll", "after a poll"] {
        eventually("no poll runs", async || switch.is_off().then_some(())).await;
        stack.send(body).await;
        assert_eq!(stack.remaining().await, 1, "{body}");
        switch.turn(true);
        assert_eq!(found.recv().await.unwrap(), (body.to_owned(), "1".to_owned()));
        eventually("it is deleted", async || (stack.remaining().await == 0).then_some(())).await;
        switch.turn(false);
    }
    eventually("no poll runs", async || switch.is_off().then_some(())).await;
    tokio::time::timeout(Duration::from_secs(10), source.stop()).await.unwrap();
}

#[tokio::test]
async fn a_queue_that_appears_later_is_found() {
    let stack = stack(30, 100).await;
    let later = stack.resources.queue.url.replace("hints", "later");
    let early = EventSourceConfig { queue_url: later.clone(), ..config(&stack) };
    let (function, mut bodies) = finding(|event| records(event).remove(0).1);
    let (sqs, counts) = counted(&stack);
    let _source = EventSource::start(sqs, function, early).unwrap();
    until_polled(&counts, 2).await;
    stack.sqs.create_queue().queue_name("test-later").send().await.unwrap();
    stack.sqs.send_message().queue_url(&later).message_body("hint").send().await.unwrap();
    assert_eq!(bodies.recv().await.as_deref(), Some("hint"));
}

#[tokio::test]
async fn a_server_that_is_gone_is_polled_again_and_does_not_hinder_the_stop() {
    let stack = stack(30, 100).await;
    let ((sqs, counts), config) = (counted(&stack), config(&stack));
    stack.backends.shutdown().await;
    let source = EventSource::start(sqs, invoke_fn(|_| async { Ok(Value::Null) }), config).unwrap();
    // More often than the SDK tries one request.
    until_polled(&counts, 4).await;
    source.stop().await;
}
