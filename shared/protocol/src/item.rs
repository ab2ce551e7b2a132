//! Stored items as plain data, with DynamoDB's types.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One stored item: attribute names and values.
pub type Item = BTreeMap<String, Value>;

/// Makes an item from names and values.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Item {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The name of the partition key attribute in both tables.
pub const PARTITION_KEY: &str = "pk";

/// One attribute value. Its JSON form is DynamoDB's own: `{"S": "text"}`, `{"N": "42"}`, `{"B": "<base64>"}`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Value {
    /// Text.
    #[serde(rename = "S")]
    Text(String),
    /// A number.
    #[serde(rename = "N")]
    Number(Number),
    /// Bytes.
    #[serde(rename = "B", with = "base64_bytes")]
    Bytes(Vec<u8>),
    /// A boolean.
    #[serde(rename = "BOOL")]
    Flag(bool),
    /// A list.
    #[serde(rename = "L")]
    List(Vec<Self>),
    /// A map.
    #[serde(rename = "M")]
    Map(BTreeMap<String, Self>),
    /// The explicit null. Its content is always `true`, as DynamoDB requires.
    #[serde(rename = "NULL")]
    Null(bool),
}

/// A number as DynamoDB stores it: decimal text, so that no digit is lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Number(String);

impl Number {
    /// Takes decimal text from the store.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The decimal text.
    pub fn as_text(&self) -> &str {
        &self.0
    }

    /// The whole number, if the value is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }
}

impl From<i64> for Number {
    fn from(whole: i64) -> Self {
        Self(whole.to_string())
    }
}

impl From<i64> for Value {
    fn from(whole: i64) -> Self {
        Self::Number(whole.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Value {
    /// The text, if the value is text.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The whole number, if the value is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    /// The bytes, if the value is bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The value's size as DynamoDB counts it, in bytes (an upper bound).
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Number(number) => number.0.len() + 1,
            Self::Bytes(bytes) => bytes.len(),
            Self::Flag(_) | Self::Null(_) => 1,
            Self::List(values) => values.iter().map(|value| value.size_bytes() + 1).sum::<usize>() + 3,
            Self::Map(values) => size_bytes(values) + values.len() + 3,
        }
    }
}

/// The item's size as DynamoDB counts it, names and values, in bytes (an upper bound).
pub fn size_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value.size_bytes()).sum()
}

/// Prints only the number of bytes, because they may be a provider's payload.
impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(formatter, "{text:?}"),
            Self::Number(number) => write!(formatter, "{}", number.0),
            Self::Bytes(bytes) => write!(formatter, "<{} bytes>", bytes.len()),
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::List(values) => formatter.debug_list().entries(values).finish(),
            Self::Map(values) => formatter.debug_map().entries(values).finish(),
            Self::Null(_) => formatter.write_str("null"),
        }
    }
}

/// Serde form of bytes: standard base64 text.
pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(|_| de::Error::custom("not standard base64"))
    }
}
