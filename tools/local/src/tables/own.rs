//! A user table, beside those of the stack.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeyType, ScalarAttributeType, TableDescription};

use super::CreateError;
use super::table::{described, element, failed};

/// A user table: its alias, and the attributes of its key with their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTableShape {
    /// The alias.
    pub alias: String,
    /// The partition key.
    pub partition: KeyPart,
    /// The sort key, if there is one.
    pub sort: Option<KeyPart>,
}

/// An attribute of a key, with its type.
pub type KeyPart = (String, ScalarAttributeType);

impl OwnTableShape {
    fn parts(&self) -> impl Iterator<Item = (&KeyPart, KeyType)> {
        [Some((&self.partition, KeyType::Hash)), self.sort.as_ref().map(|part| (part, KeyType::Range))]
            .into_iter()
            .flatten()
    }
}

/// Creates the table under this name if it is missing, and waits until it can be used.
pub(super) async fn create(dynamodb: &Client, name: &str, shape: &OwnTableShape) -> Result<(), CreateError> {
    match request(dynamodb, name, shape).await {
        Ok(()) | Err(aws_sdk_dynamodb::Error::ResourceInUseException(_)) => {}
        Err(error) => return Err(failed(name, error)),
    }
    let description = described(dynamodb, name).await?;
    if key(&description) == shape.parts().map(|((name, kind), _)| (name.as_str(), Some(kind))).collect::<Vec<_>>() {
        Ok(())
    } else {
        Err(CreateError::TableDiffers { table: name.to_owned(), difference: "key" })
    }
}

async fn request(dynamodb: &Client, name: &str, shape: &OwnTableShape) -> Result<(), aws_sdk_dynamodb::Error> {
    let definition = |(attribute, kind): &KeyPart| -> Result<AttributeDefinition, BuildError> {
        AttributeDefinition::builder().attribute_name(attribute).attribute_type(kind.clone()).build()
    };
    let mut create = dynamodb.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    for (part, place) in shape.parts() {
        create = create.attribute_definitions(definition(part)?).key_schema(element(&part.0, place)?);
    }
    create.send().await?;
    Ok(())
}

/// The attributes of a table's key, with their types.
fn key(description: &TableDescription) -> Vec<(&str, Option<&ScalarAttributeType>)> {
    let kind = |name: &str| {
        let defined = description.attribute_definitions().iter().find(|defined| defined.attribute_name() == name);
        defined.map(AttributeDefinition::attribute_type)
    };
    description.key_schema().iter().map(|part| (part.attribute_name(), kind(part.attribute_name()))).collect()
}
