//! A running stack with some records, and its tables and queues, beside hookonce.

use std::collections::HashMap;
use std::ops::Deref;
use std::process::Output;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, BillingMode, GlobalSecondaryIndex, PutRequest, WriteRequest};
use aws_sdk_sqs::types::QueueAttributeName;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_local::clients;
use serde_json::{Value, json as object};

use crate::support::{Ended, Running, Workspace, sample, text};

/// A folder and the stack that runs in it.
pub(crate) struct Stack {
    _running: Running,
    workspace: Workspace,
}

impl Deref for Stack {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

/// The JSON lines on a command's standard output.
pub(crate) fn lines(output: &Output) -> Vec<Value> {
    let all = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    all.map(|line| line.unwrap_or_else(|error| panic!("{error} in {}", text(output)))).collect()
}

pub(crate) fn summary(output: &Output) -> Value {
    lines(output).pop().unwrap_or_else(|| panic!("{}", text(output)))["summary"].clone()
}

impl Stack {
    /// Without a record.
    pub(crate) fn new() -> Self {
        Self::of(Workspace::new())
    }

    /// The stack of a folder.
    pub(crate) fn of(workspace: Workspace) -> Self {
        Self { _running: workspace.dev(&["dev", "--port", "0"]), workspace }
    }

    /// The stack of the same folder, after `dev` was stopped and started again.
    pub(crate) fn restarted(self) -> Self {
        let Self { _running: running, workspace } = self;
        running.stop();
        Self::of(workspace)
    }

    /// `sound` invoices that are applied, and `broken` ones that no handler can read and that are dead.
    pub(crate) fn with(sound: usize, broken: usize) -> Self {
        let stack = Self::new();
        for index in 0..sound + broken {
            stack.deliver(index, index < sound).exits(0);
        }
        stack.wait_for("APPLIED", sound);
        stack.wait_for("DEAD", broken);
        stack
    }

    /// Delivers an invoice of its own. No handler can read one that is not sound.
    pub(crate) fn deliver(&self, index: usize, sound: bool) -> Output {
        let mut event = sample("stripe-invoice-paid");
        event["id"] = object!(format!("evt_{index}"));
        event["data"]["object"]["id"] = object!(format!("in_{index}"));
        if !sound {
            event["data"]["object"]["amount_paid"] = object!("much");
        }
        let file = self.workspace.write("event.json", event.to_string().as_bytes());
        self.workspace.run(&["send", "--provider", "stripe", "--file", &file])
    }
}

pub(crate) type Item = HashMap<String, AttributeValue>;

/// An item as DynamoDB sends it.
pub(crate) fn as_json(item: &Item) -> Value {
    let value = |value: &AttributeValue| match value {
        AttributeValue::S(text) => object!({ "S": text }),
        AttributeValue::N(number) => object!({ "N": number }),
        AttributeValue::Bool(bool) => object!({ "BOOL": bool }),
        AttributeValue::B(bytes) => object!({ "B": STANDARD.encode(bytes) }),
        AttributeValue::M(map) => object!({ "M": as_json(map) }),
        other => panic!("no record has {other:?}"),
    };
    item.iter().map(|(name, it)| (name.clone(), value(it))).collect::<serde_json::Map<_, _>>().into()
}

/// The tables of a running stack, beside hookonce.
pub(crate) struct Tables {
    runtime: tokio::runtime::Runtime,
    client: Client,
    queues: aws_sdk_sqs::Client,
    pub(crate) inbox: String,
    pub(crate) domain: String,
}

impl Tables {
    pub(crate) fn of(workspace: &Workspace) -> Self {
        let running = workspace.announced();
        let text = |name: &str| running[name].as_str().unwrap().to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = clients::dynamodb(&text("dynamodb_url"));
        let queues = clients::sqs(&text("sqs_url"));
        Self { runtime, client, queues, inbox: text("inbox_table"), domain: text("domain_table") }
    }

    /// Sets or removes an attribute, as no hookonce would.
    pub(crate) fn damage(&self, table: &str, key: &str, name: &str, value: Option<AttributeValue>) {
        let update = self.client.update_item().table_name(table).key("pk", AttributeValue::S(key.to_owned()));
        let update = update.expression_attribute_names("#n", name);
        let update = match value {
            Some(value) => update.update_expression("SET #n = :v").expression_attribute_values(":v", value),
            None => update.update_expression("REMOVE #n"),
        };
        self.runtime.block_on(update.send()).unwrap();
    }

    /// A whole number of an item.
    pub(crate) fn number(&self, table: &str, key: &str, name: &str) -> i64 {
        let get = self.client.get_item().table_name(table).key("pk", AttributeValue::S(key.to_owned()));
        let found = self.runtime.block_on(get.send()).unwrap();
        found.item().unwrap()[name].as_n().unwrap().parse().unwrap()
    }

    /// Sets a whole number, as no hookonce would.
    pub(crate) fn set_number(&self, table: &str, key: &str, name: &str, number: i64) {
        self.damage(table, key, name, Some(AttributeValue::N(number.to_string())));
    }

    /// Stores copies of a record that have other keys, each with a change.
    pub(crate) fn copy(&self, key: &str, count: usize, change: impl Fn(usize, &mut Item)) {
        let get = self.client.get_item().table_name(&self.inbox).key("pk", AttributeValue::S(key.to_owned()));
        let item = self.runtime.block_on(get.send()).unwrap().item.unwrap();
        let put = |index: usize| {
            let mut item = item.clone();
            change(index, &mut item);
            item.insert("pk".to_owned(), AttributeValue::S(format!("{key}-copy-{index}")));
            let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
            WriteRequest::builder().put_request(put).build()
        };
        for batch in (0..count).collect::<Vec<_>>().chunks(25) {
            let batch = batch.iter().map(|index| put(*index)).collect();
            self.runtime.block_on(self.client.batch_write_item().request_items(&self.inbox, batch).send()).unwrap();
        }
    }

    /// All items of a table.
    pub(crate) fn items(&self, table: &str) -> Vec<Item> {
        self.scan(table, None)
    }

    /// All that the indexes of a table hold.
    pub(crate) fn entries(&self, table: &str) -> Vec<Item> {
        ["due", "journal"].map(|index| self.scan(table, Some(index.to_owned()))).concat()
    }

    fn scan(&self, table: &str, index: Option<String>) -> Vec<Item> {
        let pages = self.client.scan().table_name(table).set_index_name(index).into_paginator().items().send();
        self.runtime.block_on(pages.collect::<Result<_, _>>()).unwrap()
    }

    /// Sends a message to the dead-letter queue, as SQS does with one that nobody could settle.
    pub(crate) fn bury(&self, body: &str) {
        let dead = self.dead_letter_queue();
        self.runtime.block_on(self.queues.send_message().queue_url(dead).message_body(body).send()).unwrap();
    }

    /// Sets attributes of a queue, as no hookonce would.
    pub(crate) fn set_queue(&self, url: &str, attributes: &[(QueueAttributeName, &str)]) {
        let attributes = attributes.iter().map(|(name, value)| (name.clone(), (*value).to_owned())).collect();
        let set = self.queues.set_queue_attributes().queue_url(url).set_attributes(Some(attributes));
        self.runtime.block_on(set.send()).unwrap();
    }

    /// The URL of the dead-letter queue.
    pub(crate) fn dead_letter_queue(&self) -> String {
        let urls = self.runtime.block_on(self.queue_urls());
        urls.into_iter().find(|url| url.contains("dead")).unwrap()
    }

    /// Removes a queue.
    pub(crate) fn remove_queue(&self, url: &str) {
        self.runtime.block_on(self.queues.delete_queue().queue_url(url).send()).unwrap();
    }

    /// The queues of this stack, on servers that may have others.
    async fn queue_urls(&self) -> Vec<String> {
        let prefix = self.inbox.strip_suffix("inbox").unwrap();
        let listed = self.queues.list_queues().queue_name_prefix(prefix).send().await.unwrap();
        assert_eq!(listed.queue_urls().len(), 4);
        listed.queue_urls.unwrap()
    }

    /// The bodies of all messages that no function holds. They stay hidden for a while.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let mut bodies = Vec::new();
            for url in &self.queue_urls().await {
                loop {
                    let received = self.receive(url, None).await;
                    if received.is_empty() {
                        break;
                    }
                    bodies.extend(received);
                }
            }
            bodies
        })
    }

    /// The bodies of messages that wait in the queue of hints. They stay visible.
    pub(crate) fn peek(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let urls = self.queue_urls().await;
            self.receive(urls.iter().find(|url| url.ends_with("hints")).unwrap(), Some(0)).await
        })
    }

    async fn receive(&self, url: &str, hidden_seconds: Option<i32>) -> Vec<String> {
        let receive = self.queues.receive_message().queue_url(url).max_number_of_messages(10).wait_time_seconds(0);
        let received = receive.set_visibility_timeout(hidden_seconds).send().await.unwrap();
        received.messages().iter().filter_map(|message| message.body().map(str::to_owned)).collect()
    }

    /// Makes another table with the same items, as a restore does.
    pub(crate) fn copy_table(&self, from: &str, to: &str) {
        let described = self.runtime.block_on(self.client.describe_table().table_name(from).send()).unwrap();
        let described = described.table().unwrap();
        let make = self.client.create_table().table_name(to).billing_mode(BillingMode::PayPerRequest);
        let make = make.set_attribute_definitions(described.attribute_definitions.clone());
        let mut make = make.set_key_schema(described.key_schema.clone());
        for index in described.global_secondary_indexes() {
            let own = GlobalSecondaryIndex::builder().index_name(index.index_name().unwrap());
            let own = own.set_key_schema(index.key_schema.clone()).set_projection(index.projection.clone());
            make = make.global_secondary_indexes(own.build().unwrap());
        }
        self.runtime.block_on(make.send()).unwrap();
        for item in self.items(from) {
            let put = self.client.put_item().table_name(to).set_item(Some(item));
            self.runtime.block_on(put.send()).unwrap();
        }
    }

    pub(crate) fn delete(&self, table: &str, key: &str) {
        let delete = self.client.delete_item().table_name(table).key("pk", AttributeValue::S(key.to_owned()));
        self.runtime.block_on(delete.send()).unwrap();
    }

    /// Everything in a table, as debug text.
    pub(crate) fn dump(&self, table: &str) -> String {
        format!("{:?}", self.items(table))
    }
}
