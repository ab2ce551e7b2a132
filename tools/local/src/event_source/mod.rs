//! The event source: polls a queue and invokes a function with batches of messages, as Lambda's event source mapping
//! for SQS does with `ReportBatchItemFailures`.
//!
//! It deletes messages that succeeded and does nothing else to a message. One that failed reappears when its visibility
//! timeout ends, which the function may have changed. The queue counts the receives and moves it to the dead-letter
//! queue in the end.

mod batch;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::receive_message::ReceiveMessageError;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use error_reporter::Report;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use self::batch::{BatchFailure, BatchResult, sqs_event};
use crate::invoke::{Invoke, Isolated};

/// Most messages that one call to SQS receives or deletes.
const SQS_BATCH_MAX: usize = 10;
/// Longest long poll that SQS allows.
const LONG_POLL_SECONDS_MAX: u64 = 20;
/// Largest batch of a standard queue.
const BATCH_SIZE_MAX: u16 = 10_000;
/// Largest `MaximumConcurrency`.
const CONCURRENCY_MAX: u16 = 1_000;
/// First pause after the queue could not be reached. It doubles with every further failure.
const PAUSE_MILLIS_MIN: u64 = 100;
/// Longest pause.
const PAUSE_MILLIS_MAX: u64 = 5_000;
/// Pause between two short polls at the end of a batching window.
const WINDOW_POLL_MILLIS: u64 = 20;

/// The configuration of the event source. The comments give Lambda's names of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSourceConfig {
    /// The queue to poll.
    pub queue_url: String,
    /// The queue's ARN, which the event carries.
    pub queue_arn: String,
    /// The region, which the event carries.
    pub region: String,
    /// Most messages of one invocation (`BatchSize`, default 10). More than 10 need a batching window of a second.
    pub batch_size: u16,
    /// How long a batch that is not full waits for more (`MaximumBatchingWindowInSeconds`, default 0).
    pub batching_window: Duration,
    /// Most invocations in parallel (`ScalingConfig.MaximumConcurrency`).
    pub concurrency_max: u16,
    /// How long one request waits at an empty queue, in whole seconds.
    pub long_poll: Duration,
    /// How long the function may run.
    pub function_timeout: Duration,
    /// Whether it polls before anybody turns its [`Switch`] (`Enabled`, default true).
    pub enabled: bool,
}

/// An invalid setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventSourceConfigError {
    /// The batch size is 0 or above the maximum.
    #[error("the batch size must be from 1 to {BATCH_SIZE_MAX}")]
    BatchSize,
    /// A batch larger than one receive needs time to fill.
    #[error("a batch size above {SQS_BATCH_MAX} needs a batching window of at least one second")]
    BatchingWindow,
    /// The concurrency is 0 or above the maximum.
    #[error("the concurrency must be from 1 to {CONCURRENCY_MAX}")]
    Concurrency,
    /// SQS does not keep a poll open that long.
    #[error("a long poll lasts at most {LONG_POLL_SECONDS_MAX} s")]
    LongPoll,
}

impl EventSourceConfig {
    fn check(&self) -> Result<(), EventSourceConfigError> {
        if !(1..=BATCH_SIZE_MAX).contains(&self.batch_size) {
            return Err(EventSourceConfigError::BatchSize);
        }
        if usize::from(self.batch_size) > SQS_BATCH_MAX && self.batching_window < Duration::from_secs(1) {
            return Err(EventSourceConfigError::BatchingWindow);
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency_max) {
            return Err(EventSourceConfigError::Concurrency);
        }
        if self.long_poll > Duration::from_secs(LONG_POLL_SECONDS_MAX) {
            return Err(EventSourceConfigError::LongPoll);
        }
        Ok(())
    }
}

/// A running event source. Dropping it stops it in the background, after the running invocations.
#[derive(Debug)]
pub struct EventSource {
    stop: watch::Sender<bool>,
    switch: Switch,
    poller: JoinHandle<()>,
}

/// Turns an event source off and on, as `UpdateEventSourceMapping` does. A poll that is running ends first, and what it
/// received is processed.
#[derive(Debug, Clone)]
pub struct Switch {
    wanted: watch::Sender<bool>,
    is_idle: watch::Receiver<bool>,
}

impl Switch {
    /// Lets it poll, or not.
    pub fn turn(&self, on: bool) {
        self.wanted.send_if_modified(|wanted| std::mem::replace(wanted, on) != on);
    }

    /// Whether it is off, and no poll is running any more.
    pub fn is_off(&self) -> bool {
        !*self.wanted.borrow() && *self.is_idle.borrow()
    }
}

impl EventSource {
    /// Starts polling. The queue does not have to exist or answer yet.
    ///
    /// # Errors
    /// [`EventSourceConfigError`].
    pub fn start(
        sqs: Client,
        function: impl Invoke,
        config: EventSourceConfig,
    ) -> Result<Self, EventSourceConfigError> {
        config.check()?;
        let (stop, stopping) = watch::channel(false);
        let (wanted, turned) = watch::channel(config.enabled);
        let (idle, is_idle) = watch::channel(false);
        let poller = Arc::new(Poller { function: Isolated::new(function, config.function_timeout), sqs, config });
        let poller = tokio::spawn(run(poller, stopping, Turned { wanted: turned, idle }));
        Ok(Self { stop, switch: Switch { wanted, is_idle }, poller })
    }

    /// What turns it off and on.
    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    /// Stops receiving and waits for the running invocations and their deletions.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // The poller neither returns an error nor panics.
        drop(self.poller.await);
    }
}

struct Poller<I> {
    sqs: Client,
    function: Isolated<I>,
    config: EventSourceConfig,
}

type Stopping = watch::Receiver<bool>;
type ReceiveError = aws_sdk_sqs::error::SdkError<ReceiveMessageError>;

/// The other end of a [`Switch`].
struct Turned {
    wanted: watch::Receiver<bool>,
    idle: watch::Sender<bool>,
}

impl Turned {
    /// Waits while it is turned off, or until the stop.
    async fn on(&mut self, stopping: &mut Stopping) {
        if *self.wanted.borrow_and_update() {
            return;
        }
        self.idle.send_replace(true);
        or_stop(stopping, self.wanted.wait_for(|on| *on)).await;
        self.idle.send_replace(false);
    }
}

/// Polls until it is stopped, then waits for the running invocations.
///
/// It takes a slot before it receives messages: what cannot be processed yet stays in the queue, with no receive
/// counted.
async fn run<I: Invoke>(poller: Arc<Poller<I>>, mut stopping: Stopping, mut turned: Turned) {
    let slots = Arc::new(Semaphore::new(usize::from(poller.config.concurrency_max)));
    let mut pause = Pause::default();
    while let Some(slot) = free_slot(&slots, &mut stopping).await {
        turned.on(&mut stopping).await;
        match poller.collect(&mut stopping).await {
            Ok(messages) => {
                pause = Pause::default();
                if !messages.is_empty() {
                    tokio::spawn(Arc::clone(&poller).process(messages, slot));
                }
            }
            Err(error) => {
                let length = pause.next();
                tracing::warn!(
                    queue = poller.config.queue_url,
                    pause_ms = length.as_millis(),
                    error = %Report::new(&error),
                    "polling the queue failed"
                );
                or_stop(&mut stopping, tokio::time::sleep(length)).await;
            }
        }
    }
    drop(slots.acquire_many(u32::from(poller.config.concurrency_max)).await);
}

/// A slot for one more invocation, or `None` to stop.
async fn free_slot(slots: &Arc<Semaphore>, stopping: &mut Stopping) -> Option<OwnedSemaphorePermit> {
    or_stop(stopping, Arc::clone(slots).acquire_owned()).await?.ok()
}

/// The result of `work`, or `None` if the stop comes first. The stop wins when both are ready.
async fn or_stop<T>(stopping: &mut Stopping, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => None,
        done = work => Some(done),
    }
}

/// Pauses between failures, each twice as long as the last.
#[derive(Debug, Default)]
struct Pause {
    failures: u32,
}

impl Pause {
    fn next(&mut self) -> Duration {
        let millis = PAUSE_MILLIS_MIN.saturating_mul(2_u64.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(millis.min(PAUSE_MILLIS_MAX))
    }
}

impl<I: Invoke> Poller<I> {
    /// Waits for messages, then, while the window is open and the batch is not full, for more.
    ///
    /// Received messages are never dropped: an error or the stop ends the batch early instead.
    async fn collect(&self, stopping: &mut Stopping) -> Result<Vec<Message>, ReceiveError> {
        let batch_size = usize::from(self.config.batch_size);
        let first = or_stop(stopping, self.receive(batch_size, self.config.long_poll));
        let Some(received) = first.await else { return Ok(Vec::new()) };
        let mut messages = received?;
        let end = Instant::now() + self.config.batching_window;
        while !messages.is_empty() && messages.len() < batch_size {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let room = batch_size.saturating_sub(messages.len());
            match or_stop(stopping, self.receive(room, left)).await {
                Some(Ok(more)) if more.is_empty() => {
                    or_stop(stopping, tokio::time::sleep(left.min(Duration::from_millis(WINDOW_POLL_MILLIS)))).await;
                }
                Some(Ok(more)) => messages.extend(more),
                Some(Err(_)) | None => break,
            }
        }
        Ok(messages)
    }

    /// One request for at most `room` messages. It waits for them for the whole seconds of `wait`.
    async fn receive(&self, room: usize, wait: Duration) -> Result<Vec<Message>, ReceiveError> {
        let wait = wait.as_secs().min(LONG_POLL_SECONDS_MAX);
        let received = self
            .sqs
            .receive_message()
            .queue_url(&self.config.queue_url)
            .max_number_of_messages(i32::try_from(room.min(SQS_BATCH_MAX)).unwrap_or(1))
            .wait_time_seconds(i32::try_from(wait).unwrap_or(0))
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await;
        Ok(received?.messages.unwrap_or_default())
    }

    /// Invokes the function with a batch and deletes the messages that succeeded. Then the slot is free again.
    async fn process(self: Arc<Self>, messages: Vec<Message>, slot: OwnedSemaphorePermit) {
        let event = sqs_event(&messages, &self.config.queue_arn, &self.config.region);
        let response = self.function.invoke(event).await;
        let ids: Vec<&str> = messages.iter().filter_map(Message::message_id).collect();
        let verdict = BatchResult::of(&ids, &response);
        if let BatchResult::Failed(failure) = &verdict {
            tracing::warn!(queue = self.config.queue_url, messages = messages.len(), error = %failure, "a batch failed");
        }
        let done: Vec<&Message> =
            messages.iter().filter(|message| message.message_id().is_some_and(|id| verdict.deletes(id))).collect();
        for chunk in done.chunks(SQS_BATCH_MAX) {
            self.delete(chunk).await;
        }
        drop(slot);
    }

    /// Deletes messages. Those that stay are delivered again, which the worker must handle.
    async fn delete(&self, messages: &[&Message]) {
        let entries: Result<Vec<_>, _> = messages
            .iter()
            .enumerate()
            .map(|(index, message)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .set_receipt_handle(message.receipt_handle().map(str::to_owned))
                    .build()
            })
            .collect();
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(queue = self.config.queue_url, error = %Report::new(&error), "a message has no handle");
                return;
            }
        };
        let request = self.sqs.delete_message_batch().queue_url(&self.config.queue_url);
        match request.set_entries(Some(entries)).send().await {
            Ok(answer) => {
                if !answer.failed().is_empty() {
                    tracing::warn!(
                        queue = self.config.queue_url,
                        count = answer.failed().len(),
                        "deleting messages failed"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(queue = self.config.queue_url, error = %Report::new(&error), "deleting messages failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> EventSourceConfig {
        EventSourceConfig {
            queue_url: String::new(),
            queue_arn: String::new(),
            region: String::new(),
            batch_size: 10,
            batching_window: Duration::ZERO,
            concurrency_max: 2,
            long_poll: Duration::from_secs(20),
            function_timeout: Duration::from_mins(1),
            enabled: true,
        }
    }

    #[test]
    fn pauses_double_up_to_their_maximum() {
        let mut pause = Pause::default();
        let lengths: Vec<_> = (0..8).map(|_| pause.next().as_millis()).collect();
        assert_eq!(lengths, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        pause.failures = u32::MAX;
        assert_eq!(pause.next().as_millis(), 5_000);
    }

    #[test]
    fn settings_that_aws_refuses_are_refused() {
        assert_eq!(config().check(), Ok(()));
        let large = EventSourceConfig { batch_size: 11, ..config() };
        assert_eq!(large.check(), Err(EventSourceConfigError::BatchingWindow));
        assert_eq!(EventSourceConfig { batching_window: Duration::from_secs(1), ..large }.check(), Ok(()));
        let cases = [
            (EventSourceConfig { batch_size: 0, ..config() }, EventSourceConfigError::BatchSize),
            (EventSourceConfig { batch_size: 10_001, ..config() }, EventSourceConfigError::BatchSize),
            (EventSourceConfig { concurrency_max: 0, ..config() }, EventSourceConfigError::Concurrency),
            (EventSourceConfig { concurrency_max: 1_001, ..config() }, EventSourceConfigError::Concurrency),
            (EventSourceConfig { long_poll: Duration::from_secs(21), ..config() }, EventSourceConfigError::LongPoll),
        ];
        for (config, expected) in cases {
            assert_eq!(config.check(), Err(expected));
        }
    }
}
