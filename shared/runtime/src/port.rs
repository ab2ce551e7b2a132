//! Ports: what the drivers need from outside.
//!
//! No method writes a part of what belongs together: the record of an event, its domain key and its writes can only be
//! written through [`Store::commit`].

use std::future::Future;
use std::sync::Arc;

use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::Write;
use thiserror::Error;

/// The most requests, one after the other, in which [`Store::read_heads`] reads up to 100 records. Between two of them
/// is a pause.
pub const READ_ROUNDS_MAX: usize = 3;

/// Why items were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotRead {
    /// The store did not answer for all of them, or did not say how long its answer is.
    #[error("the store did not answer for all items")]
    Unavailable,
    /// The answers, up to the refused one, have this many bytes: more than the caller takes.
    #[error("the answers have {0} bytes, more than asked for")]
    TooLong(u64),
}

/// The two tables, and the user tables that handlers use.
pub trait Store: Send + Sync + 'static {
    /// Carries out one conditional write. If the condition fails, returns the item as it was.
    fn write(&self, write: &Write) -> impl Future<Output = Written> + Send;

    /// Carries out all writes or none. The implementation uses one request token for the call and its own retries.
    fn commit(&self, writes: &[Write]) -> impl Future<Output = Committed> + Send;

    /// Reads a record, strongly consistent.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    fn read(&self, key: &RecordKey) -> impl Future<Output = Result<Found, Unavailable>> + Send;

    /// Reads records in order, strongly consistent.
    fn read_each(&self, keys: &[RecordKey]) -> impl Future<Output = Vec<Result<Found, Unavailable>>> + Send;

    /// Reads records without their bodies, because many bodies may not fit into memory.
    fn read_heads(&self, keys: &[RecordKey]) -> impl Future<Output = Vec<Result<Found, Unavailable>>> + Send;

    /// Reads items of the domain table and of user tables, strongly consistent.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer for all of them.
    fn read_items(&self, items: &[ItemRef]) -> impl Future<Output = Result<Snapshot, Unavailable>> + Send;

    /// The same, unless the answers have more bytes than this. A store without answers in bytes takes any.
    ///
    /// # Errors
    /// [`NotRead`] says why there is nothing.
    fn read_few_bytes(
        &self,
        items: &[ItemRef],
        _bytes_max: u64,
    ) -> impl Future<Output = Result<Snapshot, NotRead>> + Send {
        async move { self.read_items(items).await.map_err(|Unavailable| NotRead::Unavailable) }
    }

    /// The key of a user table, of which items with these keys are named. `None` if the configuration has no table of
    /// this alias.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not say.
    fn key_schema(
        &self,
        table: TableAlias,
        named: &[&Key],
    ) -> impl Future<Output = Result<Option<KeySchema>, Unavailable>> + Send;

    /// Reads one page of a shard of the index of due records. The result may be stale.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    fn query_due(&self, query: &DueQuery) -> impl Future<Output = Result<DuePage, Unavailable>> + Send;

    /// Counts the records of one journal shard that were received in a span. The result may be stale.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    fn count_received(
        &self,
        shard: u16,
        from: EpochMs,
        until: EpochMs,
    ) -> impl Future<Output = Result<u64, Unavailable>> + Send;
}

/// The queues that carry hints.
pub trait Queue: Send + Sync + 'static {
    /// Sends one message.
    ///
    /// # Errors
    /// [`Unavailable`] when the queue did not confirm it.
    fn send(&self, message: &Message) -> impl Future<Output = Result<(), Unavailable>> + Send;

    /// Sends messages independently of each other, in as few calls as possible.
    fn send_each(&self, messages: &[Message]) -> impl Future<Output = Vec<Result<(), Unavailable>>> + Send;

    /// Hides a message that was received from a queue for this long.
    ///
    /// # Errors
    /// [`Unavailable`] when the queue did not confirm it; the message then returns after its visibility timeout.
    fn hide(
        &self,
        lane: HintQueue,
        receipt_handle: &str,
        length: Millis,
    ) -> impl Future<Output = Result<(), Unavailable>> + Send;
}

/// Where certificates and public keys of providers come from.
pub trait MaterialSource: Send + Sync + 'static {
    /// Fetches the body at a URL: with `GET`, or with `POST` if there is a JSON body. Does not follow redirects.
    ///
    /// # Errors
    /// [`Unavailable`] when there was no response, an unsuccessful one, or one that is too long.
    fn fetch(&self, url: &str, post_body: Option<&str>) -> impl Future<Output = Result<Vec<u8>, Unavailable>> + Send;
}

impl<S: Store> Store for Arc<S> {
    fn write(&self, write: &Write) -> impl Future<Output = Written> + Send {
        (**self).write(write)
    }

    fn commit(&self, writes: &[Write]) -> impl Future<Output = Committed> + Send {
        (**self).commit(writes)
    }

    fn read(&self, key: &RecordKey) -> impl Future<Output = Result<Found, Unavailable>> + Send {
        (**self).read(key)
    }

    fn read_each(&self, keys: &[RecordKey]) -> impl Future<Output = Vec<Result<Found, Unavailable>>> + Send {
        (**self).read_each(keys)
    }

    fn read_heads(&self, keys: &[RecordKey]) -> impl Future<Output = Vec<Result<Found, Unavailable>>> + Send {
        (**self).read_heads(keys)
    }

    fn read_items(&self, items: &[ItemRef]) -> impl Future<Output = Result<Snapshot, Unavailable>> + Send {
        (**self).read_items(items)
    }

    fn read_few_bytes(
        &self,
        items: &[ItemRef],
        bytes_max: u64,
    ) -> impl Future<Output = Result<Snapshot, NotRead>> + Send {
        (**self).read_few_bytes(items, bytes_max)
    }

    fn key_schema(
        &self,
        table: TableAlias,
        named: &[&Key],
    ) -> impl Future<Output = Result<Option<KeySchema>, Unavailable>> + Send {
        (**self).key_schema(table, named)
    }

    fn query_due(&self, query: &DueQuery) -> impl Future<Output = Result<DuePage, Unavailable>> + Send {
        (**self).query_due(query)
    }

    fn count_received(
        &self,
        shard: u16,
        from: EpochMs,
        until: EpochMs,
    ) -> impl Future<Output = Result<u64, Unavailable>> + Send {
        (**self).count_received(shard, from, until)
    }
}

impl<Q: Queue> Queue for Arc<Q> {
    fn send(&self, message: &Message) -> impl Future<Output = Result<(), Unavailable>> + Send {
        (**self).send(message)
    }

    fn send_each(&self, messages: &[Message]) -> impl Future<Output = Vec<Result<(), Unavailable>>> + Send {
        (**self).send_each(messages)
    }

    fn hide(
        &self,
        lane: HintQueue,
        receipt_handle: &str,
        length: Millis,
    ) -> impl Future<Output = Result<(), Unavailable>> + Send {
        (**self).hide(lane, receipt_handle, length)
    }
}
