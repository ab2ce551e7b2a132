//! The queues on SQS.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message as Received, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
use error_reporter::Report;
use futures::stream::{self, StreamExt as _};
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::{ENDPOINT_BYTES_MAX, RecordKind};
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::time::Millis;

use hookonce_runtime::inbox::batch::{Batch, QueueAttributes, QueueMessage};
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::Queue;

/// The most messages in one call.
const BATCH_MAX: usize = 10;

/// The queue of hints, and perhaps those of slow handlers and of effects, by URL.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
    /// Where hints of events go whose handler is slow.
    slow_url: Option<String>,
    /// Where hints of effects go.
    effects_url: Option<String>,
    /// What seals messages with a payload.
    keys: MessageKeys,
}

impl SqsQueue {
    /// Creates the queue from its URL. It sends hints only.
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into(), slow_url: None, effects_url: None, keys: MessageKeys::none() }
    }

    /// Sends hints of effects to this queue, where the dispatcher finds them.
    #[must_use]
    pub fn with_effects(self, url: impl Into<String>) -> Self {
        Self { effects_url: Some(url.into()), ..self }
    }

    /// Sends hints of events whose handler is slow to this queue.
    #[must_use]
    pub fn with_slow(self, url: impl Into<String>) -> Self {
        Self { slow_url: Some(url.into()), ..self }
    }

    /// Also sends messages with a payload, sealed with this key.
    #[must_use]
    pub fn with_keys(self, keys: MessageKeys) -> Self {
        Self { keys, ..self }
    }

    fn url_of(&self, lane: HintQueue) -> &str {
        let url = match lane {
            HintQueue::Main => None,
            HintQueue::Slow => self.slow_url.as_deref(),
            HintQueue::Effects => self.effects_url.as_deref(),
        };
        url.unwrap_or(&self.url)
    }

    /// The client, for tools that do more than the protocol does.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The queue's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens the connection ahead of the first delivery. The result does not matter.
    pub async fn warm_up(&self) {
        let read = self.client.get_queue_attributes().queue_url(&self.url);
        if let Err(error) = read.attribute_names(QueueAttributeName::QueueArn).send().await {
            tracing::warn!(error = %Report::new(&error), "opening the SQS connection failed");
        }
    }

    /// Receives up to ten messages of a queue, without waiting for any, as an event source would hand them over.
    ///
    /// # Errors
    /// [`Unavailable`] when the queue did not answer.
    pub async fn receive(&self, url: &str) -> Result<Batch, Unavailable> {
        let attributes =
            [MessageSystemAttributeName::ApproximateReceiveCount, MessageSystemAttributeName::SentTimestamp];
        let receive = self.client.receive_message().queue_url(url).wait_time_seconds(0);
        let receive = receive.max_number_of_messages(i32::try_from(BATCH_MAX).unwrap_or(1));
        match receive.set_message_system_attribute_names(Some(attributes.into())).send().await {
            Ok(output) => {
                Ok(Batch { records: output.messages.unwrap_or_default().into_iter().map(received).collect() })
            }
            Err(error) => {
                tracing::warn!(operation = "ReceiveMessage", error = %Report::new(&error), "SQS call failed");
                Err(Unavailable)
            }
        }
    }

    /// Deletes up to ten messages of a queue by their receipts. One that stays is received again.
    pub async fn delete(&self, url: &str, receipts: &[String]) {
        let entry = |(index, receipt): (usize, &String)| {
            DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(receipt).build()
        };
        let Ok(entries) = receipts.iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>() else { return };
        if entries.is_empty() {
            return;
        }
        if let Err(error) = self.client.delete_message_batch().queue_url(url).set_entries(Some(entries)).send().await {
            tracing::warn!(operation = "DeleteMessageBatch", error = %Report::new(&error), "SQS call failed");
        }
    }

    /// Sends messages of one queue, each with its place among all. Returns the places of those that are confirmed.
    async fn send_batch(&self, url: &str, messages: &[(usize, &Message)]) -> Vec<usize> {
        let entries = messages.iter().enumerate().filter_map(|(index, (_, message))| {
            let body = message.encode(self.keys.known().as_ref())?;
            let entry = SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(body);
            Some(entry.message_group_id(group(message)).build())
        });
        let Ok(entries) = entries.collect::<Result<Vec<_>, _>>() else { return Vec::new() };
        if entries.is_empty() {
            return Vec::new();
        }
        match self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await {
            Ok(output) => {
                let sent =
                    output.successful().iter().filter_map(|entry| messages.get(entry.id().parse::<usize>().ok()?));
                sent.map(|(place, _)| *place).collect()
            }
            Err(error) => {
                tracing::warn!(operation = "SendMessageBatch", error = %Report::new(&error), "SQS call failed");
                Vec::new()
            }
        }
    }
}

/// A message as an event source hands it over.
fn received(message: Received) -> QueueMessage {
    let attribute = |name| message.attributes.as_ref().and_then(|all| all.get(&name)).cloned().unwrap_or_default();
    QueueMessage {
        attributes: QueueAttributes {
            approximate_receive_count: attribute(MessageSystemAttributeName::ApproximateReceiveCount),
            sent_timestamp: attribute(MessageSystemAttributeName::SentTimestamp),
        },
        message_id: message.message_id.unwrap_or_default(),
        receipt_handle: message.receipt_handle.unwrap_or_default(),
        body: message.body.unwrap_or_default(),
    }
}

/// The group of a message: what most often delays messages of its queue. In the slow queue that is the handler. For an
/// effect it is its name and its endpoint, because one destination is behind them. Otherwise it is the endpoint. On a
/// standard queue a group orders nothing. SQS uses it to keep one group's backlog from delaying the messages of the
/// others (fair queues).
fn group(message: &Message) -> String {
    let (endpoint, rest) = message.record_key().parts();
    let group = match (message, message.record_key().kind(), rest.rsplit_once('#')) {
        (Message::Slow { handler, .. }, ..) => {
            handler.rsplit_once(":function:").map_or(&**handler, |(_, name)| name).to_owned()
        }
        (_, RecordKind::Effect, Some((_, name))) => format!("{name}/{endpoint}"),
        _ => endpoint.to_owned(),
    };
    // Endpoints' ids, effects' names and functions' names have only characters that SQS allows.
    let mut group: String = group.chars().filter(char::is_ascii_graphic).take(GROUP_BYTES_MAX).collect();
    if group.is_empty() {
        endpoint.clone_into(&mut group);
    }
    group
}

/// The longest group id that SQS accepts.
const GROUP_BYTES_MAX: usize = 128;

const _: () = assert!(ENDPOINT_BYTES_MAX <= GROUP_BYTES_MAX);

impl Queue for SqsQueue {
    async fn send(&self, message: &Message) -> Result<(), Unavailable> {
        let key = if message.is_hint() { None } else { self.keys.get().await };
        // Without its seal nobody would take the payload, so it is not sent.
        let body = message.encode(key.as_ref()).ok_or(Unavailable)?;
        let send = self.client.send_message().queue_url(self.url_of(message.lane())).message_body(body);
        let send = send.message_group_id(group(message));
        send.send().await.map(|_| ()).map_err(|error| {
            tracing::warn!(operation = "SendMessage", error = %Report::new(&error), "SQS call failed");
            Unavailable
        })
    }

    async fn send_each(&self, messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        let mut by_queue = BTreeMap::<&str, Vec<(usize, &Message)>>::new();
        for (place, message) in messages.iter().enumerate() {
            by_queue.entry(self.url_of(message.lane())).or_default().push((place, message));
        }
        let batches = by_queue
            .iter()
            .flat_map(|(url, of_queue)| of_queue.chunks(BATCH_MAX).map(|batch| self.send_batch(url, batch)));
        let batches: Vec<_> = batches.collect();
        // All of a relay's chunk at once. More follow, as an envelope may have a thousand events.
        let confirmed: BTreeSet<usize> = stream::iter(batches).buffered(10).concat().await.into_iter().collect();
        (0..messages.len()).map(|place| if confirmed.contains(&place) { Ok(()) } else { Err(Unavailable) }).collect()
    }

    async fn hide(&self, lane: HintQueue, receipt_handle: &str, length: Millis) -> Result<(), Unavailable> {
        let hide = self
            .client
            .change_message_visibility()
            .queue_url(self.url_of(lane))
            .receipt_handle(receipt_handle)
            .visibility_timeout(i32::try_from(length.as_seconds_up()).unwrap_or(i32::MAX));
        hide.send().await.map(|_| ()).map_err(|error| {
            tracing::warn!(operation = "ChangeMessageVisibility", error = %Report::new(&error), "SQS call failed");
            Unavailable
        })
    }
}
