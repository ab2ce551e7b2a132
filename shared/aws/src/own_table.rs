//! A user table: its name, and its key once DynamoDB has said what it is.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{KeySchemaElement, KeyType, ScalarAttributeType, TableDescription};
use error_reporter::Report;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::place::{Key, KeyAttribute, KeyKind, KeySchema};
use tokio::sync::Mutex;

/// A user table.
#[derive(Debug)]
pub(super) struct OwnTable {
    name: String,
    /// A key never changes during the life of a table. But the table may be deleted and created again.
    known: Mutex<Option<KeySchema>>,
}

impl OwnTable {
    pub(super) fn new(name: String) -> Self {
        Self { name, known: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its key. Reads it from DynamoDB if it is not known, or if one of these keys is not of its form.
    pub(super) async fn schema(&self, client: &Client, named: &[&Key]) -> Result<KeySchema, Unavailable> {
        let mut known = self.known.lock().await;
        match known.as_ref().filter(|schema| named.iter().all(|key| schema.is_of(key))) {
            Some(schema) => Ok(schema.clone()),
            None => self.describe(client, &mut known).await,
        }
    }

    /// Reads the key from DynamoDB again.
    pub(super) async fn schema_anew(&self, client: &Client) -> Result<KeySchema, Unavailable> {
        self.describe(client, &mut *self.known.lock().await).await
    }

    async fn describe(&self, client: &Client, known: &mut Option<KeySchema>) -> Result<KeySchema, Unavailable> {
        let described = client.describe_table().table_name(&self.name).send().await.map_err(|error| {
            tracing::error!(
                operation = "DescribeTable",
                table = self.name,
                error = %Report::new(&error),
                "a table of HOOKONCE_TABLES cannot be described; create it, or allow dynamodb:DescribeTable on it"
            );
            Unavailable
        })?;
        let schema = described.table().and_then(schema).ok_or(Unavailable)?;
        Ok(known.insert(schema).clone())
    }
}

/// The key of a table. `None` if DynamoDB left something out.
fn schema(table: &TableDescription) -> Option<KeySchema> {
    let attribute = |element: &KeySchemaElement| {
        let name = element.attribute_name();
        let defined = table.attribute_definitions().iter().find(|defined| defined.attribute_name() == name)?;
        let kind = match defined.attribute_type() {
            ScalarAttributeType::S => KeyKind::Text,
            ScalarAttributeType::N => KeyKind::Number,
            ScalarAttributeType::B => KeyKind::Bytes,
            _ => return None,
        };
        Some(KeyAttribute { name: name.to_owned(), kind })
    };
    let element = |wanted: &KeyType| table.key_schema().iter().find(|element| element.key_type() == wanted);
    let sort = match element(&KeyType::Range) {
        Some(element) => Some(attribute(element)?),
        None => None,
    };
    Some(KeySchema { partition: attribute(element(&KeyType::Hash)?)?, sort })
}
