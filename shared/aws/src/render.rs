//! Renders the protocol's values and conditions for the SDK.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::BuildHasher;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use hookonce_protocol::item::{Item, Number, Value};
use hookonce_protocol::place::Key;
use hookonce_protocol::write::{Change, Clause, Condition};

/// An expression with its names and values. Every name and value is a placeholder, so that nothing needs escaping and
/// reserved words do not matter.
#[derive(Debug, Default)]
pub(super) struct Expression {
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

impl Expression {
    fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().find(|(_, known)| *known == name).map(|(placeholder, _)| placeholder.clone());
        known.unwrap_or_else(|| {
            let placeholder = format!("#n{}", self.names.len());
            self.names.insert(placeholder.clone(), name.to_owned());
            placeholder
        })
    }

    fn value(&mut self, value: &Value) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), to_attribute(value));
        placeholder
    }

    /// Renders the condition. `None` if it has no clauses.
    pub(super) fn condition(&mut self, condition: &Condition) -> Option<String> {
        let clauses: Vec<_> = condition.0.iter().map(|clause| self.clause(clause)).collect();
        (!clauses.is_empty()).then(|| clauses.join(" AND "))
    }

    fn clause(&mut self, clause: &Clause) -> String {
        match clause {
            Clause::Absent(name) => format!("attribute_not_exists({})", self.name(name)),
            Clause::Present(name) => format!("attribute_exists({})", self.name(name)),
            Clause::Equals(name, value) => format!("{} = {}", self.name(name), self.value(value)),
            Clause::OneOf(name, values) => {
                let name = self.name(name);
                let values: Vec<_> = values.iter().map(|value| self.value(value)).collect();
                format!("{name} IN ({})", values.join(", "))
            }
            Clause::Differs(name, value) => {
                let (name, value) = (self.name(name), self.value(value));
                format!("(attribute_not_exists({name}) OR {name} <> {value})")
            }
        }
    }

    /// Renders the changes as an update expression.
    pub(super) fn update(&mut self, changes: &[Change]) -> String {
        let (mut sets, mut removes, mut adds) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            match change {
                Change::Set(name, value) => sets.push(format!("{} = {}", self.name(name), self.value(value))),
                Change::Remove(name) => removes.push(self.name(name)),
                Change::Add(name, amount) => {
                    adds.push(format!("{} {}", self.name(name), self.value(&Value::from(*amount))));
                }
            }
        }
        [("SET", sets), ("REMOVE", removes), ("ADD", adds)].into_iter().fold(
            String::new(),
            |mut text, (word, parts)| {
                if !parts.is_empty() {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{word} {} ", parts.join(", "));
                }
                text
            },
        )
    }

    /// Takes the names. `None` if there are none: DynamoDB refuses an empty map.
    pub(super) fn take_names(&mut self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| std::mem::take(&mut self.names))
    }

    /// Takes the values. `None` if there are none: DynamoDB refuses an empty map.
    pub(super) fn take_values(&mut self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| std::mem::take(&mut self.values))
    }
}

fn to_attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text.clone()),
        Value::Number(number) => AttributeValue::N(number.as_text().to_owned()),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes.clone())),
        Value::Flag(flag) => AttributeValue::Bool(*flag),
        Value::TextSet(texts) => AttributeValue::Ss(texts.as_slice().to_vec()),
        Value::NumberSet(numbers) => {
            AttributeValue::Ns(numbers.as_slice().iter().map(|number| number.as_text().to_owned()).collect())
        }
        Value::BytesSet(blobs) => AttributeValue::Bs(blobs.as_slice().iter().cloned().map(Blob::new).collect()),
        Value::List(values) => AttributeValue::L(values.iter().map(to_attribute).collect()),
        Value::Map(values) => AttributeValue::M(to_attributes(values)),
        Value::Null(_) => AttributeValue::Null(true),
    }
}

/// Converts an item to the SDK's type.
pub fn to_attributes(item: &Item) -> HashMap<String, AttributeValue> {
    item.iter().map(|(name, value)| (name.clone(), to_attribute(value))).collect()
}

/// Converts a key to the SDK's type.
pub(super) fn key_of(key: &Key) -> HashMap<String, AttributeValue> {
    to_attributes(&key.stored())
}

fn from_attribute(value: AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::Text(text),
        AttributeValue::N(number) => Value::Number(Number::from_text(&number)),
        AttributeValue::B(blob) => Value::Bytes(blob.into_inner()),
        AttributeValue::Bool(flag) => Value::Flag(flag),
        AttributeValue::L(values) => Value::List(values.into_iter().map(from_attribute).collect()),
        AttributeValue::M(values) => Value::Map(from_attributes(values)),
        AttributeValue::Ss(texts) => Value::TextSet(texts.into()),
        AttributeValue::Ns(numbers) => {
            Value::NumberSet(numbers.iter().map(Number::from_text).collect::<Vec<_>>().into())
        }
        AttributeValue::Bs(blobs) => {
            Value::BytesSet(blobs.into_iter().map(Blob::into_inner).collect::<Vec<_>>().into())
        }
        // Null, and types that DynamoDB may add later. Neither the protocol nor the handlers write them.
        _ => Value::Null(true),
    }
}

/// Converts an item from the SDK's type. It takes the item, because both may not fit into memory.
pub fn from_attributes<S: BuildHasher>(item: HashMap<String, AttributeValue, S>) -> Item {
    item.into_iter().map(|(name, value)| (name, from_attribute(value))).collect()
}
