//! A user table: its name, and its key once DynamoDB has said what it is.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{KeySchemaElement, KeyType, ScalarAttributeType, TableDescription};
use error_reporter::Report;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::place::{KeyAttribute, KeyKind, KeySchema};
use tokio::sync::OnceCell;

/// A user table.
#[derive(Debug)]
pub(super) struct OwnTable {
    name: String,
    /// A key never changes during the life of a table, so it is asked for once.
    schema: OnceCell<KeySchema>,
}

impl OwnTable {
    pub(super) fn new(name: String) -> Self {
        Self { name, schema: OnceCell::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its key. Asks DynamoDB once.
    pub(super) async fn schema(&self, client: &Client) -> Result<KeySchema, Unavailable> {
        let described = self.schema.get_or_try_init(|| async {
            let described = client.describe_table().table_name(&self.name).send().await.map_err(|error| {
                tracing::error!(
                    operation = "DescribeTable",
                    table = self.name,
                    error = %Report::new(&error),
                    "a table of HOOKONCE_TABLES cannot be described; create it, or allow dynamodb:DescribeTable on it"
                );
                Unavailable
            })?;
            described.table().and_then(schema).ok_or(Unavailable)
        });
        described.await.cloned()
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
