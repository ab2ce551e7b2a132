//! The store on DynamoDB.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure, Select, TransactWriteItem, Update,
};
use error_reporter::Report;
use hookonce_protocol::call::{
    CancellationReason, Committed, DueCursor, DueEntry, DuePage, DueQuery, Unavailable, Written,
};
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, attribute, journal_shard};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::write::{Action, Table, Write};

use super::answer_limit::{AnswerLimit, AnswerTooLong};
use super::batch_get::{self, Read, Wanted};
use super::own_table::OwnTable;
use super::render::{Expression, from_attributes, key_of, to_attributes};
use hookonce_runtime::ambient::{Ambient, System};
use hookonce_runtime::inbox::drive::duration;
use hookonce_runtime::port::{NotRead, READ_ROUNDS_MAX, Store};

/// The index of PENDING records by due time, and of DEAD records.
pub const DUE_INDEX: &str = "due";

/// The index of received records.
pub const JOURNAL_INDEX: &str = "journal";

/// The code of a request that DynamoDB can never carry out.
const VALIDATION_EXCEPTION: &str = "ValidationException";

/// The most keys in one BatchGetItem.
const BATCH_KEYS_MAX: usize = 100;

/// The bound of the first pause before unprocessed keys are asked for again. DynamoDB leaves them when it is short of
/// capacity, so asking again at once would fail for the same reason.
pub const FIRST_PAUSE: Millis = Millis(50);

/// The two tables and the user tables, by name.
#[derive(Debug, Clone)]
pub struct DynamoStore<A = System> {
    client: Client,
    inbox_table: String,
    domain_table: String,
    own_tables: Arc<BTreeMap<TableAlias, OwnTable>>,
    ambient: A,
}

impl DynamoStore {
    /// Creates the store for these two tables.
    pub fn new(client: Client, inbox_table: impl Into<String>, domain_table: impl Into<String>) -> Self {
        let (inbox_table, domain_table) = (inbox_table.into(), domain_table.into());
        Self { client, inbox_table, domain_table, own_tables: Arc::default(), ambient: System }
    }

    /// The same store, with pauses drawn elsewhere.
    pub fn with_ambient<A: Ambient>(self, ambient: A) -> DynamoStore<A> {
        let Self { client, inbox_table, domain_table, own_tables, ambient: System } = self;
        DynamoStore { client, inbox_table, domain_table, own_tables, ambient }
    }

    /// The same store, with these user tables. What their keys are is read when a handler first names them.
    #[must_use]
    pub fn with_tables(self, names: impl IntoIterator<Item = (TableAlias, String)>) -> Self {
        let tables = names.into_iter().map(|(alias, name)| (alias, OwnTable::new(name)));
        Self { own_tables: Arc::new(tables.collect()), ..self }
    }
}

impl<A: Ambient> DynamoStore<A> {
    /// The same store through another client, such as one whose calls are counted.
    #[must_use]
    pub fn with_client(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// The client, for tools that read more than the protocol does.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The aliases of the user tables.
    pub fn aliases(&self) -> BTreeSet<TableAlias> {
        self.own_tables.keys().copied().collect()
    }

    /// The name of a table. Empty for an alias that the configuration does not have, which DynamoDB refuses.
    pub fn table(&self, table: Table) -> &str {
        match table {
            Table::Inbox => &self.inbox_table,
            Table::Domain => &self.domain_table,
            Table::Own(alias) => self.own_tables.get(&alias).map_or("", OwnTable::name),
        }
    }

    /// Opens the connection ahead of the first delivery. The result does not matter.
    pub async fn warm_up(&self) {
        let read = self.client.get_item().table_name(&self.inbox_table).set_key(Some(text_key("warm-up")));
        if let Err(error) = read.send().await {
            tracing::warn!(error = %Report::new(&error), "opening the DynamoDB connection failed");
        }
    }

    async fn put(&self, write: &Write, item: &Item) -> Written {
        let mut expression = Expression::default();
        let condition = expression.condition(&write.condition);
        let put = self
            .client
            .put_item()
            .table_name(self.table(write.table))
            .set_item(Some(with_key(item, &write.key)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(expression.take_names())
            .set_expression_attribute_values(expression.take_values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.send().await {
            Ok(_) => Written::Applied,
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => {
                    // The response goes, too: it holds the item once more.
                    let failed = error.into_service_error();
                    let item = if let PutItemError::ConditionalCheckFailedException(failed) = failed {
                        failed.item
                    } else {
                        None
                    };
                    refused(write, item)
                }
                Some(PutItemError::TransactionConflictException(_)) => Written::TransactionConflict,
                _ => failed("PutItem", write, &error),
            },
        }
    }

    async fn update(&self, write: &Write, changes: &[hookonce_protocol::write::Change]) -> Written {
        let mut expression = Expression::default();
        let condition = expression.condition(&write.condition);
        let changes = expression.update(changes);
        let update = self
            .client
            .update_item()
            .table_name(self.table(write.table))
            .set_key(Some(key_of(&write.key)))
            .update_expression(changes)
            .set_condition_expression(condition)
            .set_expression_attribute_names(expression.take_names())
            .set_expression_attribute_values(expression.take_values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match update.send().await {
            Ok(_) => Written::Applied,
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => {
                    // The response goes, too: it holds the item once more.
                    let failed = error.into_service_error();
                    let item = if let UpdateItemError::ConditionalCheckFailedException(failed) = failed {
                        failed.item
                    } else {
                        None
                    };
                    refused(write, item)
                }
                Some(UpdateItemError::TransactionConflictException(_)) => Written::TransactionConflict,
                _ => failed("UpdateItem", write, &error),
            },
        }
    }

    /// Renders a write as one action of a transaction.
    fn action(&self, write: &Write) -> Option<TransactWriteItem> {
        let mut expression = Expression::default();
        let condition = expression.condition(&write.condition);
        let table = self.table(write.table);
        let item = TransactWriteItem::builder();
        let item = match &write.action {
            Action::Put(put) => item.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(with_key(put, &write.key)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(expression.take_names())
                    .set_expression_attribute_values(expression.take_values())
                    // Who applied the fact. The item is small, and no other write of a transaction is asked about.
                    .set_return_values_on_condition_check_failure(
                        (write.purpose == Purpose::DomainKey).then_some(ReturnValuesOnConditionCheckFailure::AllOld),
                    )
                    .build()
                    .ok()?,
            ),
            Action::Update(changes) => item.update(
                Update::builder()
                    .table_name(table)
                    .set_key(Some(key_of(&write.key)))
                    .update_expression(expression.update(changes))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(expression.take_names())
                    .set_expression_attribute_values(expression.take_values())
                    .build()
                    .ok()?,
            ),
            Action::Check => item.condition_check(
                ConditionCheck::builder()
                    .table_name(table)
                    .set_key(Some(key_of(&write.key)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(expression.take_names())
                    .set_expression_attribute_values(expression.take_values())
                    .build()
                    .ok()?,
            ),
            Action::Delete => item.delete(
                Delete::builder()
                    .table_name(table)
                    .set_key(Some(key_of(&write.key)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(expression.take_names())
                    .set_expression_attribute_values(expression.take_values())
                    .build()
                    .ok()?,
            ),
        };
        Some(item.build())
    }

    /// Reads up to [`BATCH_KEYS_MAX`] items by key, strongly consistent. If `attributes` is not empty, reads only those
    /// and the key. Items that could not be read are not in the answer.
    ///
    /// # Errors
    /// [`AnswerTooLong`] when the answers have more bytes than the limit allows.
    async fn batch_get(
        &self,
        mut wanted: Wanted,
        attributes: &[&str],
        limit: Option<&AnswerLimit>,
    ) -> Result<Read, AnswerTooLong> {
        let mut read = Read::new();
        for round in 0..READ_ROUNDS_MAX {
            if wanted.is_empty() {
                break;
            }
            if round > 0 {
                tokio::time::sleep(duration(self.ambient.moment().uniform(pause_bound(round)))).await;
            }
            let request = batch_get::request(&wanted, attributes, |table| self.table(table));
            let mut call = self.client.batch_get_item().set_request_items(request).customize();
            if let Some(limit) = limit {
                call = call.interceptor(limit.clone());
            }
            match call.send().await {
                Ok(output) => {
                    wanted = batch_get::answered(wanted, output, &mut read, |table| self.table(table));
                    limit.into_iter().for_each(AnswerLimit::count);
                }
                Err(error) => {
                    if let Some(too_long) = limit.and_then(AnswerLimit::exceeded) {
                        return Err(too_long);
                    }
                    log_failure("BatchGetItem", &error);
                    if error.code() == Some(VALIDATION_EXCEPTION) {
                        self.another_key(wanted.iter().map(|(table, key)| (*table, key))).await;
                    }
                    break;
                }
            }
        }
        Ok(read)
    }

    async fn items(&self, items: &[ItemRef], limit: Option<&AnswerLimit>) -> Result<Snapshot, NotRead> {
        let place = |item: &ItemRef| (item.table.map_or(Table::Domain, Table::Own), item.key.clone());
        let mut snapshot = Vec::with_capacity(items.len());
        for chunk in items.chunks(BATCH_KEYS_MAX) {
            let read = self.batch_get(chunk.iter().map(place).collect(), &[], limit).await;
            let mut read = read.map_err(|AnswerTooLong(bytes)| NotRead::TooLong(bytes))?;
            let distinct: BTreeSet<_> = chunk.iter().collect();
            for item in distinct {
                let found = read.remove(&place(item)).ok_or(NotRead::Unavailable)?;
                snapshot.push((item.clone(), found));
            }
        }
        Ok(snapshot.into_iter().collect())
    }

    /// One reason for each write. Logs a write that can never succeed, or whose user table is busy: nothing else in the
    /// response names it.
    fn cancellation_reasons(
        &self,
        writes: &[Write],
        reasons: &[aws_sdk_dynamodb::types::CancellationReason],
    ) -> Vec<CancellationReason> {
        // Without a write of its own, a reason says only what its code says.
        let meaning = |(number, reason): (usize, &aws_sdk_dynamodb::types::CancellationReason)| match (
            cancellation_reason(reason.code()),
            writes.get(number),
            reason.item(),
        ) {
            (CancellationReason::ConditionFailed, Some(write), Some(item)) => {
                CancellationReason::refused(write, Some(&from_attributes(item.clone())))
            }
            (meaning, _, _) => meaning,
        };
        let each: Vec<_> = reasons.iter().enumerate().map(meaning).collect();
        for ((write, reason), meaning) in writes.iter().zip(reasons).zip(&each) {
            let is_logged = match meaning {
                CancellationReason::Invalid => true,
                CancellationReason::Transient => matches!(write.table, Table::Own(_)),
                CancellationReason::None | CancellationReason::ConditionFailed | CancellationReason::OwnFact { .. } => {
                    false
                }
            };
            if is_logged {
                tracing::warn!(
                    operation = "TransactWriteItems",
                    table = self.table(write.table),
                    write.purpose = write.purpose.as_str(),
                    code = reason.code().unwrap_or_default(),
                    error = reason.message().unwrap_or_default(),
                    "DynamoDB call failed"
                );
            }
        }
        each
    }

    /// Whether a user table's key schema differs from that of these keys, because the table was created again. Asks
    /// DynamoDB and caches the answer for the next plan. True if DynamoDB does not answer: an event must not die of
    /// that.
    async fn another_key<'a>(&self, named: impl Iterator<Item = (Table, &'a Key)>) -> bool {
        let mut keys: BTreeMap<TableAlias, Vec<&Key>> = BTreeMap::new();
        for (table, key) in named {
            if let Table::Own(alias) = table {
                keys.entry(alias).or_default().push(key);
            }
        }
        for (alias, keys) in keys {
            let Some(table) = self.own_tables.get(&alias) else { continue };
            let schema = table.schema_anew(&self.client).await;
            if !schema.is_ok_and(|schema| keys.iter().all(|key| schema.is_of(key))) {
                return true;
            }
        }
        false
    }

    async fn read_records(&self, keys: &[RecordKey], attributes: &[&str]) -> Vec<Result<Found, Unavailable>> {
        let mut found = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(BATCH_KEYS_MAX) {
            let places: Vec<_> = chunk.iter().map(|key| (Table::Inbox, Key::from(key.as_str()))).collect();
            let read = self.batch_get(places.iter().cloned().collect(), attributes, None).await.unwrap_or_default();
            found.extend(
                places
                    .iter()
                    .map(|place| read.get(place).map(|item| Found::from_item(item.as_ref())).ok_or(Unavailable)),
            );
        }
        found
    }
}

/// The bound of the pause before this round of a read, from the second one on.
fn pause_bound(round: usize) -> Millis {
    Millis(FIRST_PAUSE.0 << round.clamp(1, READ_ROUNDS_MAX).saturating_sub(1))
}

impl<A: Ambient> Store for DynamoStore<A> {
    async fn write(&self, write: &Write) -> Written {
        match &write.action {
            Action::Put(item) => self.put(write, item).await,
            Action::Update(changes) => self.update(write, changes).await,
            // Only a handler's transaction contains these.
            Action::Delete | Action::Check => match self.commit(std::slice::from_ref(write)).await {
                Committed::Applied => Written::Applied,
                Committed::Cancelled(reasons) => match reasons.first() {
                    Some(CancellationReason::ConditionFailed | CancellationReason::OwnFact { .. }) => {
                        Written::ConditionFailed(Found::Nothing)
                    }
                    Some(CancellationReason::Invalid) => Written::Invalid,
                    Some(CancellationReason::Transient | CancellationReason::None) | None => Written::Unavailable,
                },
                Committed::Invalid => Written::Invalid,
                Committed::Denied | Committed::Unavailable => Written::Unavailable,
            },
        }
    }

    async fn commit(&self, writes: &[Write]) -> Committed {
        let Some(actions) = writes.iter().map(|write| self.action(write)).collect::<Option<Vec<_>>>() else {
            return Committed::Invalid;
        };
        let named = writes.iter().map(|write| (write.table, &write.key));
        match self.client.transact_write_items().set_transact_items(Some(actions)).send().await {
            Ok(_) => Committed::Applied,
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    let reasons = self.cancellation_reasons(writes, cancelled.cancellation_reasons());
                    // A record that has moved on, or a fact that is applied, says more than a key that is refused.
                    let is_settled = writes.iter().zip(&reasons).any(|(write, reason)| {
                        reason.is_failed_condition()
                            && !matches!(write.purpose, Purpose::DomainWrite | Purpose::DomainCheck)
                    });
                    let is_refused = reasons.contains(&CancellationReason::Invalid) && !is_settled;
                    if is_refused && self.another_key(named).await {
                        Committed::Denied
                    } else {
                        Committed::Cancelled(reasons)
                    }
                }
                Some(service) if service.code() == Some(VALIDATION_EXCEPTION) => {
                    log_write_failure("TransactWriteItems", writes, &error);
                    if self.another_key(named).await { Committed::Denied } else { Committed::Invalid }
                }
                Some(service)
                    if matches!(service.code(), Some("AccessDeniedException" | "ResourceNotFoundException")) =>
                {
                    log_write_failure("TransactWriteItems", writes, &error);
                    Committed::Denied
                }
                _ => {
                    log_write_failure("TransactWriteItems", writes, &error);
                    Committed::Unavailable
                }
            },
        }
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        let read = self
            .client
            .get_item()
            .table_name(&self.inbox_table)
            .set_key(Some(text_key(key.as_str())))
            .consistent_read(true);
        match read.send().await {
            Ok(output) => Ok(Found::from_item(output.item.map(from_attributes).as_ref())),
            Err(error) => {
                log_failure("GetItem", &error);
                Err(Unavailable)
            }
        }
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        self.read_records(keys, &[]).await
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        self.read_records(keys, &attribute::HEAD).await
    }

    async fn read_items(&self, items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        self.items(items, None).await.map_err(|_| Unavailable)
    }

    async fn read_few_bytes(&self, items: &[ItemRef], bytes_max: u64) -> Result<Snapshot, NotRead> {
        self.items(items, Some(&AnswerLimit::new(bytes_max))).await
    }

    async fn key_schema(&self, table: TableAlias, named: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        match self.own_tables.get(&table) {
            Some(table) => table.schema(&self.client, named).await.map(Some),
            None => Ok(None),
        }
    }

    async fn query_due(&self, query: &DueQuery) -> Result<DuePage, Unavailable> {
        let request = self
            .client
            .query()
            .table_name(&self.inbox_table)
            .index_name(DUE_INDEX)
            .key_condition_expression("#shard = :shard AND #due <= :until")
            .expression_attribute_names("#shard", attribute::DUE_SHARD)
            .expression_attribute_names("#due", attribute::DUE_AT)
            .expression_attribute_values(":shard", AttributeValue::S(query.partition()))
            .expression_attribute_values(":until", AttributeValue::N(query.until.0.to_string()))
            .set_exclusive_start_key(query.after.as_ref().map(|place| index_key(&query.partition(), place)))
            .limit(i32::try_from(query.limit).unwrap_or(i32::MAX));
        match request.send().await {
            Ok(output) => Ok(DuePage {
                entries: output.items.into_iter().flatten().filter_map(due_entry).collect(),
                next: output.last_evaluated_key.and_then(due_cursor),
            }),
            Err(error) => {
                log_failure("Query", &error);
                Err(Unavailable)
            }
        }
    }

    async fn count_received(&self, shard: u16, from: EpochMs, until: EpochMs) -> Result<u64, Unavailable> {
        let mut partitions = vec![journal_shard(from, shard), journal_shard(until, shard)];
        partitions.dedup();
        let mut count = 0;
        for partition in partitions {
            let query = self
                .client
                .query()
                .table_name(&self.inbox_table)
                .index_name(JOURNAL_INDEX)
                .select(Select::Count)
                .key_condition_expression("#shard = :shard AND #received BETWEEN :from AND :until")
                .expression_attribute_names("#shard", attribute::JOURNAL_SHARD)
                .expression_attribute_names("#received", attribute::RECEIVED_AT)
                .expression_attribute_values(":shard", AttributeValue::S(partition))
                .expression_attribute_values(":from", AttributeValue::N(from.0.to_string()))
                .expression_attribute_values(":until", AttributeValue::N(until.0.to_string()));
            match query.send().await {
                // One page holds thousands of keys. Counting further pages would only raise the budget above what is
                // needed.
                Ok(output) => count += u64::try_from(output.count()).unwrap_or(0),
                Err(error) => {
                    log_failure("Query", &error);
                    return Err(Unavailable);
                }
            }
        }
        Ok(count)
    }
}

fn text_key(key: &str) -> HashMap<String, AttributeValue> {
    key_of(&key.into())
}

/// The key of an index entry, for a query that continues after it.
fn index_key(partition: &str, place: &DueCursor) -> HashMap<String, AttributeValue> {
    let mut key = text_key(&place.key);
    key.insert(attribute::DUE_SHARD.to_owned(), AttributeValue::S(partition.to_owned()));
    key.insert(attribute::DUE_AT.to_owned(), AttributeValue::N(place.due_at.0.to_string()));
    key
}

fn with_key(item: &Item, key: &Key) -> HashMap<String, AttributeValue> {
    let mut attributes = to_attributes(item);
    attributes.extend(key_of(key));
    attributes
}

fn due_cursor(item: HashMap<String, AttributeValue>) -> Option<DueCursor> {
    let item = from_attributes(item);
    let due_at = item.get(attribute::DUE_AT).and_then(Value::as_i64)?;
    Some(DueCursor { key: item.get(PARTITION_KEY)?.as_text()?.to_owned(), due_at: EpochMs(due_at) })
}

fn due_entry(item: HashMap<String, AttributeValue>) -> Option<DueEntry> {
    let place = due_cursor(item)?;
    Some(DueEntry { key: RecordKey::parse(&place.key)?, due_at: place.due_at })
}

/// The condition did not hold. Logs a write that found itself, because nothing else shows that its reply was lost.
fn refused(write: &Write, item: Option<HashMap<String, AttributeValue>>) -> Written {
    let written = Written::refused(write, item.map(from_attributes).as_ref());
    if written == Written::Applied {
        tracing::info!(write.purpose = write.purpose.as_str(), "a repeated write was already carried out");
    }
    written
}

fn cancellation_reason(code: Option<&str>) -> CancellationReason {
    match code {
        None | Some("None") => CancellationReason::None,
        Some("ConditionalCheckFailed") => CancellationReason::ConditionFailed,
        Some("ValidationError" | "ItemCollectionSizeLimitExceeded") => CancellationReason::Invalid,
        // TransactionConflict, throttling, internal errors, and unknown codes.
        Some(_) => CancellationReason::Transient,
    }
}

/// A single write failed for another reason than its condition.
fn failed<E, R>(operation: &'static str, write: &Write, error: &SdkError<E, R>) -> Written
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug,
{
    log_write_failure(operation, std::slice::from_ref(write), error);
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code);
    match code {
        // The second one: items that share a key are too large together. A repetition changes neither.
        Some(VALIDATION_EXCEPTION | "ItemCollectionSizeLimitExceededException") => Written::Invalid,
        _ => Written::Unavailable,
    }
}

/// Logs a failed call with its whole chain of causes. The caller only learns that the call failed.
pub(super) fn log_failure<E, R>(operation: &'static str, error: &SdkError<E, R>)
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug,
{
    tracing::warn!(operation, error = %Report::new(error), "DynamoDB call failed");
}

/// Logs a failed write, also with its purposes.
fn log_write_failure<E, R>(operation: &'static str, writes: &[Write], error: &SdkError<E, R>)
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug,
{
    let mut purposes: Vec<_> = writes.iter().map(|write| write.purpose.as_str()).collect();
    purposes.dedup();
    let purposes = purposes.join(", ");
    tracing::warn!(operation, write.purpose = purposes, error = %Report::new(error), "DynamoDB call failed");
}
