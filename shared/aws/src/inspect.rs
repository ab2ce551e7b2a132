//! Reads for the operator's tools. Nothing here is on a hot path or writes anything.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Select, TableDescription};
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::attribute;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::Table;

use super::dynamodb::{DUE_INDEX, DynamoStore, JOURNAL_INDEX, log_failure};
use super::render::from_attributes;

/// Which of the two indexes to read, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexQuery {
    /// PENDING or DEAD records, latest first.
    Due {
        /// The partition, such as `dead#3`.
        partition: String,
        /// The latest moment at which one of them is due or died.
        until: EpochMs,
    },
    /// Records received in a time span, newest first.
    Journal {
        /// The partition: an hour and a shard.
        partition: String,
        /// The start of the span.
        from: EpochMs,
        /// The end of the span.
        until: EpochMs,
    },
}

impl IndexQuery {
    /// All that is due or dead in a partition.
    pub const fn due(partition: String) -> Self {
        Self::Due { partition, until: EpochMs(i64::MAX) }
    }
}

/// A page of one index partition.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexPage {
    /// The keys, latest first, each with the moment that the index orders by: when the record is due, died or was
    /// received.
    pub entries: Vec<(RecordKey, EpochMs)>,
    /// Where the next page begins. `None` on the last page.
    pub next: Option<IndexCursor>,
}

impl IndexPage {
    /// The keys alone.
    pub fn keys(&self) -> impl Iterator<Item = RecordKey> {
        self.entries.iter().map(|(key, _)| key.clone())
    }
}

/// A position in an index partition.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexCursor(HashMap<String, AttributeValue>);

/// A page of items of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanPage {
    /// How many items were read, those of other prefixes included.
    pub read: usize,
    /// The items.
    pub items: Vec<Item>,
    /// The key after which the next page begins. `None` on the last page.
    pub next: Option<String>,
}

impl DynamoStore {
    /// Reads one page of at most `limit` keys from an index partition. The index may be stale.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub async fn index_page(
        &self,
        query: &IndexQuery,
        from: Option<IndexCursor>,
        limit: usize,
    ) -> Result<IndexPage, Unavailable> {
        let request = self.query(query).scan_index_forward(false).limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let request = request.set_exclusive_start_key(from.map(|IndexCursor(key)| key));
        let output = request.send().await.map_err(|error| failed("Query", &error))?;
        let sorted_by = match query {
            IndexQuery::Due { .. } => attribute::DUE_AT,
            IndexQuery::Journal { .. } => attribute::RECEIVED_AT,
        };
        let entry = |item| {
            let item = from_attributes(item);
            let key = RecordKey::parse(item.get(PARTITION_KEY).and_then(Value::as_text)?)?;
            Some((key, EpochMs(item.get(sorted_by).and_then(Value::as_i64)?)))
        };
        let entries = output.items.into_iter().flatten().filter_map(entry).collect();
        Ok(IndexPage { entries, next: output.last_evaluated_key.map(IndexCursor) })
    }

    /// Counts the keys of an index partition. The index may be stale.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub async fn index_count(&self, query: &IndexQuery) -> Result<u64, Unavailable> {
        let mut pages = self.query(query).select(Select::Count).into_paginator().send();
        let mut count = 0;
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed("Query", &error))?;
            count += u64::try_from(page.count()).unwrap_or(0);
        }
        Ok(count)
    }

    fn query(&self, query: &IndexQuery) -> QueryFluentBuilder {
        let request = self.client().query().table_name(self.table(Table::Inbox));
        match query {
            IndexQuery::Due { partition, until } => request
                .index_name(DUE_INDEX)
                .key_condition_expression("#partition = :partition AND #due <= :until")
                .expression_attribute_names("#partition", attribute::DUE_SHARD)
                .expression_attribute_names("#due", attribute::DUE_AT)
                .expression_attribute_values(":partition", AttributeValue::S(partition.clone()))
                .expression_attribute_values(":until", AttributeValue::N(until.0.to_string())),
            IndexQuery::Journal { partition, from, until } => request
                .index_name(JOURNAL_INDEX)
                .key_condition_expression("#partition = :partition AND #received BETWEEN :from AND :until")
                .expression_attribute_names("#partition", attribute::JOURNAL_SHARD)
                .expression_attribute_names("#received", attribute::RECEIVED_AT)
                .expression_attribute_values(":partition", AttributeValue::S(partition.clone()))
                .expression_attribute_values(":from", AttributeValue::N(from.0.to_string()))
                .expression_attribute_values(":until", AttributeValue::N(until.0.to_string())),
        }
    }

    /// Reads one page of a table in the order of the store, after this key. Reads only the key and these attributes,
    /// and only items whose key begins with `prefix`.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub async fn scan_page(
        &self,
        table: Table,
        prefix: &str,
        attributes: &[&str],
        after: Option<&str>,
        limit: usize,
    ) -> Result<ScanPage, Unavailable> {
        let scan = self.client().scan().table_name(self.table(table)).consistent_read(true);
        let scan = scan.limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let from = after.map(|key| HashMap::from([(PARTITION_KEY.to_owned(), AttributeValue::S(key.to_owned()))]));
        let scan = scan.set_exclusive_start_key(from).expression_attribute_names("#pk", PARTITION_KEY);
        // DynamoDB compares with no empty text.
        let scan = if prefix.is_empty() {
            scan
        } else {
            scan.filter_expression("begins_with(#pk, :prefix)")
                .expression_attribute_values(":prefix", AttributeValue::S(prefix.to_owned()))
        };
        let names = std::iter::once("#pk".to_owned()).chain(attributes.iter().map(|name| format!("#{name}")));
        let scan = scan.projection_expression(names.collect::<Vec<_>>().join(", "));
        let named =
            attributes.iter().fold(scan, |scan, name| scan.expression_attribute_names(format!("#{name}"), *name));
        let output = named.send().await.map_err(|error| failed("Scan", &error))?;
        let next = output.last_evaluated_key.map(from_attributes);
        Ok(ScanPage {
            read: usize::try_from(output.scanned_count).unwrap_or(0),
            items: output.items.into_iter().flatten().map(from_attributes).collect(),
            next: next.and_then(|key| key.get(PARTITION_KEY)?.as_text().map(str::to_owned)),
        })
    }

    /// About how many items a table has, and their bytes. The store counts a few times a day.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub async fn table_size(&self, table: Table) -> Result<(i64, i64), Unavailable> {
        let described = self.client().describe_table().table_name(self.table(table)).send().await;
        let described = described.map_err(|error| failed("DescribeTable", &error))?;
        let table = described.table();
        let items = table.and_then(TableDescription::item_count).unwrap_or(0);
        Ok((items, table.and_then(TableDescription::table_size_bytes).unwrap_or(0)))
    }

    /// Reads every item of a table, strongly consistent. For small tables and audits.
    ///
    /// # Errors
    /// [`Unavailable`] when the store did not answer.
    pub async fn scan(&self, table: Table) -> Result<Vec<Item>, Unavailable> {
        let scan = self.client().scan().table_name(self.table(table)).consistent_read(true);
        let mut pages = scan.into_paginator().items().send();
        let mut items = Vec::new();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|error| failed("Scan", &error))?;
            items.push(from_attributes(item));
        }
        Ok(items)
    }
}

fn failed<E, R>(operation: &'static str, error: &SdkError<E, R>) -> Unavailable
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug,
{
    log_failure(operation, error);
    Unavailable
}
