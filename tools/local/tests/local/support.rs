//! Helpers for several tests.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::Message;
use hookonce_local::ambient::Ambient;
use hookonce_local::backends::{Backends, DataLocation};
use hookonce_local::clients;
use hookonce_local::invoke::{Invoke, invoke_fn};
use hookonce_local::tables::{StackResources, StackShape, create_stack};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

/// Longest wait for an expected event.
const DEADLINE: Duration = Duration::from_secs(30);
/// An hour: nothing is swept unless the test does it.
pub(crate) const NEVER: Duration = Duration::from_hours(1);

/// Backends in memory with a stack in them.
pub(crate) struct Stack {
    pub(crate) backends: Backends,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) resources: StackResources,
}

/// A stack whose messages stay hidden for `visibility_seconds` and are moved after `receive_count_max` receives.
pub(crate) async fn stack(visibility_seconds: u32, receive_count_max: u32) -> Stack {
    let shape = StackShape { visibility_seconds, receive_count_max, ..StackShape::deployed("test") };
    stack_on(Backends::start(DataLocation::Memory, NEVER).unwrap(), &shape).await
}

/// A stack of this shape on backends that run already.
pub(crate) async fn stack_on(backends: Backends, shape: &StackShape) -> Stack {
    let dynamodb = clients::dynamodb(backends.dynamodb_url());
    let sqs = clients::sqs(backends.sqs_url());
    let resources = create_stack(&dynamodb, &sqs, shape).await.unwrap();
    Stack { backends, dynamodb, sqs, resources }
}

impl Stack {
    pub(crate) async fn send(&self, body: &str) -> String {
        let sent =
            self.sqs.send_message().queue_url(&self.resources.queue.url).message_body(body).send().await.unwrap();
        sent.message_id.unwrap()
    }

    /// One short poll of the queue.
    pub(crate) async fn receive(&self) -> Vec<Message> {
        self.resources.queue.receive(&self.sqs).await.unwrap()
    }

    pub(crate) async fn receive_dead(&self) -> Vec<Message> {
        self.resources.dead_letter_queue.receive(&self.sqs).await.unwrap()
    }

    /// Messages that are in the queue, hidden ones included.
    pub(crate) async fn remaining(&self) -> u64 {
        self.resources.queue.messages(&self.sqs).await.unwrap().unwrap()
    }
}

/// A function that gives this answer once it may: what says that it has started, what lets it finish, and the function.
pub(crate) fn held(answer: Value) -> (Arc<Notify>, Arc<Notify>, impl Invoke) {
    let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_started, may_finish) = (Arc::clone(&started), Arc::clone(&finish));
    let function = invoke_fn(move |_| {
        let (has_started, may_finish, answer) = (Arc::clone(&has_started), Arc::clone(&may_finish), answer.clone());
        async move {
            has_started.notify_one();
            may_finish.notified().await;
            Ok(answer)
        }
    });
    (started, finish, function)
}

/// Repeats a check until it returns `Some`, for a limited time.
pub(crate) async fn eventually<T, F>(what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(Instant::now() < end, "it never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is the outside that hands the clock in")]
pub(crate) fn ambient() -> Ambient {
    Ambient::new(SystemTime::now, Uuid::new_v4)
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
