//! One table.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, IndexStatus, KeySchemaElement, KeyType, Projection,
    ProjectionType, TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveSpecification, TimeToLiveStatus,
};

use serde_json::{Value, json};

use super::{CreateError, HASH_KEY_TYPE, RANGE_KEY_TYPE};

/// Longest wait for a table and its indexes to become active. The embedded tables count every item before they describe a
/// table, which takes half a minute where there are a million.
const READY_SECONDS_MAX: u64 = 120;
/// Pause between two checks of a table that is not yet active.
const READY_POLL_MILLIS: u64 = 100;

/// The policy of the table of documents of a deployed stack: nobody reads items of all kinds, or a copy of them.
#[must_use]
pub fn documents_policy() -> Value {
    let reads = [
        "dynamodb:Scan",
        "dynamodb:PartiQLSelect",
        "dynamodb:PartiQLInsert",
        "dynamodb:PartiQLUpdate",
        "dynamodb:PartiQLDelete",
        "dynamodb:ExportTableToPointInTime",
    ];
    let statement = json!({ "Effect": "Deny", "Principal": "*", "Action": reads, "Resource": "*" });
    json!({ "Version": "2012-10-17", "Statement": [statement] })
}

/// The wanted state of a table: a string hash key, a TTL attribute, billed on demand.
pub(super) struct TableShape<'a> {
    pub(super) name: &'a str,
    pub(super) hash_key: &'static str,
    pub(super) ttl_attribute: &'static str,
    pub(super) indexes: &'static [IndexShape],
}

/// A global secondary index that holds keys only: a string hash key and a number to sort by.
pub(super) struct IndexShape {
    pub(super) name: &'static str,
    pub(super) hash_key: &'static str,
    pub(super) range_key: &'static str,
}

/// Creates the table if it is missing, waits until it can be used and switches its TTL on.
pub(super) async fn create(dynamodb: &Client, shape: &TableShape<'_>) -> Result<(), CreateError> {
    request_creation(dynamodb, shape).await.map_err(|source| failed(shape.name, source))?;
    let description = described(dynamodb, shape.name).await?;
    if let Some(difference) = difference(&description, shape) {
        return Err(CreateError::TableDiffers { table: shape.name.to_owned(), difference });
    }
    enable_ttl(dynamodb, shape).await
}

pub(super) fn failed(table: &str, source: aws_sdk_dynamodb::Error) -> CreateError {
    CreateError::Table { table: table.to_owned(), source: Box::new(source) }
}

/// The description of a table, once it is active.
pub(super) async fn described(dynamodb: &Client, table: &str) -> Result<TableDescription, CreateError> {
    match tokio::time::timeout(Duration::from_secs(READY_SECONDS_MAX), until_active(dynamodb, table)).await {
        Ok(described) => described.map_err(|source| failed(table, source)),
        Err(_elapsed) => Err(CreateError::TableNotReady { table: table.to_owned() }),
    }
}

/// Creates the table unless it exists.
async fn request_creation(dynamodb: &Client, shape: &TableShape<'_>) -> Result<(), aws_sdk_dynamodb::Error> {
    let request = dynamodb
        .create_table()
        .table_name(shape.name)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(element(shape.hash_key, KeyType::Hash)?)
        .set_attribute_definitions(Some(attribute_definitions(shape)?))
        .set_global_secondary_indexes(indexes(shape)?);
    match request.send().await.map_err(aws_sdk_dynamodb::Error::from) {
        Ok(_) | Err(aws_sdk_dynamodb::Error::ResourceInUseException(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn attribute_definitions(shape: &TableShape<'_>) -> Result<Vec<AttributeDefinition>, BuildError> {
    let attribute = |name, kind| AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build();
    let mut definitions = vec![attribute(shape.hash_key, HASH_KEY_TYPE)?];
    for index in shape.indexes {
        definitions.push(attribute(index.hash_key, HASH_KEY_TYPE)?);
        definitions.push(attribute(index.range_key, RANGE_KEY_TYPE)?);
    }
    Ok(definitions)
}

/// `None` instead of an empty list, which DynamoDB refuses.
fn indexes(shape: &TableShape<'_>) -> Result<Option<Vec<GlobalSecondaryIndex>>, BuildError> {
    let indexes: Vec<_> = shape.indexes.iter().map(global_index).collect::<Result<_, _>>()?;
    Ok((!indexes.is_empty()).then_some(indexes))
}

fn global_index(index: &IndexShape) -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .key_schema(element(index.hash_key, KeyType::Hash)?)
        .key_schema(element(index.range_key, KeyType::Range)?)
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}

pub(super) fn element(name: &str, kind: KeyType) -> Result<KeySchemaElement, BuildError> {
    KeySchemaElement::builder().attribute_name(name).key_type(kind).build()
}

async fn until_active(dynamodb: &Client, table: &str) -> Result<TableDescription, aws_sdk_dynamodb::Error> {
    loop {
        let patient = TimeoutConfig::builder().operation_timeout(Duration::from_secs(READY_SECONDS_MAX)).build();
        let patient = Config::builder().timeout_config(patient);
        let answer = dynamodb.describe_table().table_name(table).customize().config_override(patient).send().await?;
        match answer.table {
            Some(description) if is_active(&description) => return Ok(description),
            Some(_) | None => tokio::time::sleep(Duration::from_millis(READY_POLL_MILLIS)).await,
        }
    }
}

fn is_active(description: &TableDescription) -> bool {
    let indexes_active =
        description.global_secondary_indexes().iter().all(|index| index.index_status() == Some(&IndexStatus::Active));
    description.table_status() == Some(&TableStatus::Active) && indexes_active
}

/// How an existing table differs from the wanted state.
fn difference(description: &TableDescription, shape: &TableShape<'_>) -> Option<&'static str> {
    if keys(description.key_schema()) != [shape.hash_key] {
        return Some("key");
    }
    let existing: BTreeSet<_> = description
        .global_secondary_indexes()
        .iter()
        .map(|index| (index.index_name().unwrap_or_default(), keys(index.key_schema())))
        .collect();
    let wanted = shape.indexes.iter().map(|index| (index.name, vec![index.hash_key, index.range_key])).collect();
    (existing != wanted).then_some("set of indexes")
}

fn keys(schema: &[KeySchemaElement]) -> Vec<&str> {
    schema.iter().map(KeySchemaElement::attribute_name).collect()
}

/// Switches TTL on unless it is on, because repeating it is an error on AWS.
async fn enable_ttl(dynamodb: &Client, shape: &TableShape<'_>) -> Result<(), CreateError> {
    let described = describe_ttl(dynamodb, shape).await.map_err(|source| failed(shape.name, source))?;
    match ttl_attribute(described.as_ref()) {
        Some(attribute) if attribute == shape.ttl_attribute => Ok(()),
        Some(_) => {
            Err(CreateError::TableDiffers { table: shape.name.to_owned(), difference: "time-to-live attribute" })
        }
        None => request_ttl(dynamodb, shape).await.map_err(|source| failed(shape.name, source)),
    }
}

async fn describe_ttl(
    dynamodb: &Client,
    shape: &TableShape<'_>,
) -> Result<Option<TimeToLiveDescription>, aws_sdk_dynamodb::Error> {
    Ok(dynamodb.describe_time_to_live().table_name(shape.name).send().await?.time_to_live_description)
}

/// The attribute that TTL works on, if it is on.
fn ttl_attribute(description: Option<&TimeToLiveDescription>) -> Option<&str> {
    let on = [TimeToLiveStatus::Enabled, TimeToLiveStatus::Enabling];
    description.filter(|ttl| ttl.time_to_live_status().is_some_and(|status| on.contains(status)))?.attribute_name()
}

async fn request_ttl(dynamodb: &Client, shape: &TableShape<'_>) -> Result<(), aws_sdk_dynamodb::Error> {
    let specification = TimeToLiveSpecification::builder().enabled(true).attribute_name(shape.ttl_attribute).build()?;
    dynamodb.update_time_to_live().table_name(shape.name).time_to_live_specification(specification).send().await?;
    Ok(())
}
