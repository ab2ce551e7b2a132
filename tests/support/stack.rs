//! The backends, and a stack of tables and queues for each test.
//!
//! The backends are the embedded ones, unless `TEST_DYNAMODB_URL` and `TEST_SQS_URL` name others, as
//! `scripts/real-backends test` does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, DeleteRequest, KeySchemaElement, KeyType, ScalarAttributeType,
    TimeToLiveSpecification, WriteRequest,
};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message};
use hookonce_aws::{
    DocumentChange, DocumentTable, DocumentWritten, DynamoStore, SqsQueue, from_attributes, to_attributes,
};
use hookonce_local::backends::{Backends, DataLocation};
use hookonce_local::clients;
use hookonce_local::event_source::BatchResult;
use hookonce_local::tables::{QueueRef, StackResources, StackShape, create_stack};
use hookonce_protocol::call::Written;
use hookonce_protocol::item::{Item, PARTITION_KEY};
use hookonce_protocol::message::MessageKey;
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Record, attribute};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::{Action, Change, Clause, Table, Write};
use hookonce_runtime::documents::DocumentKind;
use hookonce_runtime::handlers::tables::{OwnTables, aliases};
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::Store as _;
use serde_json::Value;

use super::logs::listen;

/// Items that one `BatchWriteItem` deletes.
const BATCH_WRITES_MAX: usize = 25;

/// Messages that one receive returns.
const RECEIVE_MAX: usize = 10;

/// Nothing is swept unless a test asks for it.
const NEVER: Duration = Duration::from_hours(1);

/// One pair of servers for the whole run: a new stack costs a test a few milliseconds, new servers cost more.
static SERVERS: LazyLock<Servers> = LazyLock::new(Servers::find);
static STACKS: AtomicUsize = AtomicUsize::new(0);

/// The servers that a run uses.
enum Servers {
    Embedded(Backends),
    Real { dynamodb_url: String, sqs_url: String },
}

impl Servers {
    fn find() -> Self {
        #[expect(clippy::disallowed_methods, reason = "whoever runs the tests names the servers")]
        let url = |name: &str| std::env::var(name).ok();
        match (url("TEST_DYNAMODB_URL"), url("TEST_SQS_URL")) {
            (Some(dynamodb_url), Some(sqs_url)) => Self::Real { dynamodb_url, sqs_url },
            (None, None) => Self::Embedded(Backends::start(DataLocation::Memory, NEVER).unwrap()),
            _ => panic!("TEST_DYNAMODB_URL and TEST_SQS_URL belong together; one is missing"),
        }
    }
}

/// The servers' addresses.
pub(crate) fn urls() -> (&'static str, &'static str) {
    match &*SERVERS {
        Servers::Embedded(backends) => (backends.dynamodb_url(), backends.sqs_url()),
        Servers::Real { dynamodb_url, sqs_url } => (dynamodb_url, sqs_url),
    }
}

/// Whether the servers are part of the run.
pub(crate) fn is_embedded() -> bool {
    matches!(&*SERVERS, Servers::Embedded(_))
}

/// A stack of tables and queues that nothing else uses.
#[derive(Debug, Clone)]
pub(crate) struct TestStack {
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) resources: StackResources,
    own_tables: OwnTables,
    own_keys: BTreeMap<TableAlias, Vec<String>>,
    /// Queue and receipt of each message that was received and not deleted.
    held: Arc<Mutex<Vec<(String, String)>>>,
}

impl TestStack {
    /// A fresh stack on the run's servers.
    pub(crate) async fn new() -> Self {
        let (dynamodb_url, sqs_url) = urls();
        Self::at(dynamodb_url, sqs_url).await
    }

    /// A fresh stack on any servers.
    pub(crate) async fn at(dynamodb_url: &str, sqs_url: &str) -> Self {
        Self::shaped(dynamodb_url, sqs_url, |_| {}).await
    }

    /// A fresh stack on any servers that differs from the deployed one.
    pub(crate) async fn shaped(dynamodb_url: &str, sqs_url: &str, change: impl FnOnce(&mut StackShape)) -> Self {
        listen();
        let dynamodb = clients::dynamodb(dynamodb_url);
        let sqs = clients::sqs(sqs_url);
        // Real servers may have seen an earlier run.
        let name = format!("test-{}-{}", std::process::id(), STACKS.fetch_add(1, Ordering::SeqCst));
        let mut shape = StackShape::deployed(&name);
        change(&mut shape);
        let resources = create_stack(&dynamodb, &sqs, &shape).await.unwrap();
        let (own_tables, own_keys, held) = (OwnTables::new(), BTreeMap::new(), Arc::default());
        let stack = Self { dynamodb, sqs, resources, own_tables, own_keys, held };
        // A test's clock is months behind that of the servers.
        stack.delete_expired(false).await;
        stack
    }

    /// Tells the servers whether to delete expired items.
    pub(crate) async fn delete_expired(&self, enabled: bool) {
        for table in [Table::Inbox, Table::Domain] {
            let wanted = TimeToLiveSpecification::builder().enabled(enabled).attribute_name(attribute::EXPIRES_AT);
            let update = self.dynamodb.update_time_to_live().table_name(self.table(table));
            update.time_to_live_specification(wanted.build().unwrap()).send().await.unwrap();
        }
    }

    pub(crate) fn store(&self) -> DynamoStore {
        self.store_of(self.dynamodb.clone())
    }

    /// The store behind this client.
    pub(crate) fn store_of(&self, client: aws_sdk_dynamodb::Client) -> DynamoStore {
        let StackResources { inbox_table, domain_table, .. } = &self.resources;
        DynamoStore::new(client, inbox_table, domain_table).with_tables(self.own_tables.clone())
    }

    /// The documents behind this client.
    pub(crate) fn documents_of(&self, client: aws_sdk_dynamodb::Client) -> DocumentTable {
        DocumentTable::new(client, &self.resources.documents_table)
    }

    /// Writes a document in the place of what is there.
    pub(crate) async fn write_document(&self, kind: DocumentKind, id: &str, text: &str) {
        let documents = self.documents_of(self.dynamodb.clone());
        let found = documents.get(kind, id).await.unwrap().map(|found| found.text);
        let change = DocumentChange { at: EpochMs(0), by: "a test".to_owned(), with: "0.0.0".to_owned() };
        let written = documents.put(kind, id, found.as_deref(), text, &change).await;
        assert_eq!(written.unwrap(), DocumentWritten::Done);
    }

    /// The aliases of the further tables.
    pub(crate) fn aliases(&self) -> BTreeSet<TableAlias> {
        aliases(&self.own_tables)
    }

    /// Lets an alias stand for a table that does not exist.
    pub(crate) fn without_table(mut self, alias: &str) -> Self {
        self.own_tables.insert(TableAlias::parse(alias).unwrap(), "nowhere".to_owned());
        self
    }

    pub(crate) fn queue(&self) -> SqsQueue {
        queues(self.sqs.clone(), &self.resources)
    }

    /// The stack with a further table, whose key has these attributes. It takes the place of one with this alias.
    pub(crate) async fn with_table(mut self, alias: &str, key: &[(&str, ScalarAttributeType)]) -> Self {
        let name = format!("{}-{alias}", self.resources.domain_table);
        let mut create = self.dynamodb.create_table().table_name(&name).billing_mode(BillingMode::PayPerRequest);
        for ((attribute, kind), part) in key.iter().zip([KeyType::Hash, KeyType::Range]) {
            let defined = AttributeDefinition::builder().attribute_name(*attribute).attribute_type(kind.clone());
            let element = KeySchemaElement::builder().attribute_name(*attribute).key_type(part);
            create = create.attribute_definitions(defined.build().unwrap()).key_schema(element.build().unwrap());
        }
        let alias = TableAlias::parse(alias).unwrap();
        if self.own_keys.contains_key(&alias) {
            self.dynamodb.delete_table().table_name(&name).send().await.unwrap();
        }
        create.send().await.unwrap();
        self.resources.own_tables.push((alias.to_string(), name.clone()));
        self.own_tables.insert(alias, name);
        self.own_keys.insert(alias, key.iter().map(|(attribute, _)| (*attribute).to_owned()).collect());
        self
    }

    /// The names of a table's key attributes.
    fn key_of(&self, table: Table) -> Vec<String> {
        match table {
            Table::Inbox | Table::Domain => vec![PARTITION_KEY.to_owned()],
            Table::Own(alias) => self.own_keys[&alias].clone(),
        }
    }

    /// Every item of a table, straight from the server.
    pub(crate) async fn scan(&self, table: Table) -> Vec<Item> {
        let name = self.table(table);
        let mut items = Vec::new();
        let mut from = None;
        loop {
            let scan = self.dynamodb.scan().table_name(name).consistent_read(true).set_exclusive_start_key(from);
            let page = scan.send().await.unwrap();
            items.extend(page.items.into_iter().flatten().map(from_attributes));
            from = page.last_evaluated_key;
            if from.is_none() {
                return items;
            }
        }
    }

    /// Deletes an item, as its expiry would.
    pub(crate) async fn expire(&self, table: Table, key: &str) {
        let delete = self.dynamodb.delete_item().table_name(self.table(table));
        delete.key(PARTITION_KEY, AttributeValue::S(key.to_owned())).send().await.unwrap();
    }

    /// Deletes every item of a table.
    pub(crate) async fn clear(&self, table: Table) {
        let items = self.scan(table).await;
        for chunk in items.chunks(BATCH_WRITES_MAX) {
            let names = self.key_of(table);
            let delete = |item: &Item| {
                let key = to_attributes(item).into_iter().filter(|(name, _)| names.contains(name));
                let delete = DeleteRequest::builder().set_key(Some(key.collect())).build().unwrap();
                WriteRequest::builder().delete_request(delete).build()
            };
            let requests = chunk.iter().map(delete).collect();
            self.dynamodb.batch_write_item().request_items(self.table(table), requests).send().await.unwrap();
        }
    }

    /// Changes a record that is as it was read, and says whether it still was.
    pub(crate) async fn change(&self, record: &Record, changes: Vec<Change>) -> bool {
        let item = record.encode();
        let as_read = [attribute::PASS, attribute::PASS_AT, attribute::FIRST_CALL_AT, attribute::DUE_AT];
        let as_read = as_read.map(|name| match item.get(name) {
            Some(value) => Clause::Equals(name.into(), value.clone()),
            None => Clause::Absent(name.into()),
        });
        let write = Write {
            purpose: Purpose::DomainWrite,
            table: Table::Inbox,
            key: record.key.as_str().into(),
            action: Action::Update(changes),
            condition: record.guard().condition(as_read),
        };
        self.store().write(&write).await == Written::Applied
    }

    fn table(&self, table: Table) -> &str {
        match table {
            Table::Inbox => &self.resources.inbox_table,
            Table::Domain => &self.resources.domain_table,
            Table::Own(alias) => &self.own_tables[&alias],
        }
    }

    /// One short poll.
    pub(crate) async fn receive(&self, queue: &QueueRef) -> Vec<Message> {
        queue.receive(&self.sqs).await.unwrap()
    }

    /// Deletes received messages of the queue of hints.
    pub(crate) async fn delete(&self, messages: &[&Message]) {
        self.delete_from(&self.resources.queue.url, messages).await;
    }

    /// Deletes received messages of a queue.
    pub(crate) async fn delete_from(&self, queue_url: &str, messages: &[&Message]) {
        if messages.is_empty() {
            return;
        }
        let entry = |(index, message): (usize, &&Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(message.receipt_handle().unwrap()).build().unwrap()
        };
        let entries = messages.iter().enumerate().map(entry).collect();
        let delete = self.sqs.delete_message_batch().queue_url(queue_url).set_entries(Some(entries));
        assert!(delete.send().await.unwrap().failed().is_empty());
    }

    /// Deletes what a function acknowledged, and holds the rest. A killed function has no response: the event source
    /// deletes nothing.
    pub(crate) async fn conclude(&self, queue: &QueueRef, messages: &[Message], response: Option<Value>) {
        let ids: Vec<_> = messages.iter().map(|message| message.message_id().unwrap()).collect();
        let verdict = response.map(|response| BatchResult::of(&ids, &Ok(response)));
        let is_done =
            |message: &&Message| verdict.as_ref().is_some_and(|verdict| verdict.deletes(message.message_id().unwrap()));
        let (done, kept): (Vec<_>, Vec<_>) = messages.iter().partition(is_done);
        self.delete_from(&queue.url, &done).await;
        let receipts = kept.iter().map(|message| (queue.url.clone(), message.receipt_handle().unwrap().to_owned()));
        self.held.lock().unwrap().extend(receipts);
    }

    /// Makes every message visible again that was received and not deleted.
    pub(crate) async fn redeliver(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        for (url, receipt) in held {
            let show = self.sqs.change_message_visibility().queue_url(url);
            // This fails if the message is visible already or was received again.
            drop(show.receipt_handle(receipt).visibility_timeout(0).send().await);
        }
    }

    /// Takes every visible message out of a queue permanently, and returns how many there were.
    pub(crate) async fn lose(&self, queue: &QueueRef) -> usize {
        let mut lost = 0;
        loop {
            let messages = self.receive(queue).await;
            self.delete_from(&queue.url, &messages.iter().collect::<Vec<_>>()).await;
            lost += messages.len();
            if messages.len() < RECEIVE_MAX {
                return lost;
            }
        }
    }

    /// Messages in the queue of hints, hidden ones included.
    pub(crate) async fn messages(&self) -> u64 {
        self.messages_of(&self.resources.queue).await
    }

    /// Messages in a queue, hidden ones included.
    pub(crate) async fn messages_of(&self, queue: &QueueRef) -> u64 {
        queue.messages(&self.sqs).await.unwrap().unwrap()
    }
}

/// The queues of a stack, for all that do not only dispatch.
pub(crate) fn queues(sqs: aws_sdk_sqs::Client, resources: &StackResources) -> SqsQueue {
    let StackResources { queue, slow_queue, effects_queue, .. } = resources;
    let queue = SqsQueue::new(sqs, &queue.url).with_slow(&slow_queue.url).with_effects(&effects_queue.url);
    queue.with_keys(MessageKeys::fixed(MESSAGE_KEY))
}

/// The message key of every stack in these tests.
pub(crate) const MESSAGE_KEY: MessageKey = MessageKey::new([7; 32]);
