//! Names of items that a handler reads and writes: in the domain table by text, in a user table by the
//! attributes of its key.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::item::{Item, Number, PARTITION_KEY, Value, size_bytes};
use crate::key::{ITEM_KEY_BYTES_MAX, ItemKey, OnceKey, Tenant, is_plain};

/// The longest alias, in bytes.
pub const ALIAS_BYTES_MAX: usize = 32;

/// The longest sort key, in bytes. DynamoDB accepts no longer one.
pub const SORT_KEY_BYTES_MAX: usize = 1_024;

/// The name by which handlers and routes call a user table. The worker's configuration says which table it is.
///
/// The same names in code that compiles, so that the example fails for its reason alone:
///
/// ```
/// fn item(key: hookonce_protocol::place::Key) -> hookonce_protocol::place::ItemRef {
///     hookonce_protocol::place::ItemRef { table: None, key }
/// }
/// ```
///
/// ```compile_fail,E0308
/// // A handler names no table of DynamoDB, and so none of the stack.
/// fn item(key: hookonce_protocol::place::Key) -> hookonce_protocol::place::ItemRef {
///     hookonce_protocol::place::ItemRef { table: Some("inbox-table"), key }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableAlias {
    // Inline, so that a table is as cheap to copy as the protocol's own two.
    text: [u8; ALIAS_BYTES_MAX],
    length: u8,
}

/// The text is not an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an alias of a table has 1 to {ALIAS_BYTES_MAX} of the characters a-z, 0-9, '-' and '_'")]
pub struct TableAliasError;

impl TableAlias {
    /// Parses an alias.
    ///
    /// # Errors
    /// [`TableAliasError`] when it is empty, too long or has a character other than `a-z`, `0-9`, `-`, `_`.
    pub fn parse(alias: &str) -> Result<Self, TableAliasError> {
        let mut text = [0; ALIAS_BYTES_MAX];
        let length = u8::try_from(alias.len()).map_err(|_| TableAliasError)?;
        let fits = is_plain(alias, ALIAS_BYTES_MAX);
        let room = text.get_mut(..alias.len()).filter(|_| fits).ok_or(TableAliasError)?;
        room.copy_from_slice(alias.as_bytes());
        Ok(Self { text, length })
    }

    /// The alias as text.
    pub fn as_str(&self) -> &str {
        self.text.get(..usize::from(self.length)).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl TryFrom<String> for TableAlias {
    type Error = TableAliasError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<TableAlias> for String {
    fn from(alias: TableAlias) -> Self {
        alias.as_str().to_owned()
    }
}

impl fmt::Display for TableAlias {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for TableAlias {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

/// The key of an item: text in the protocol's two tables, key attributes in a user table.
///
/// Every key has a text, and two keys of one table are the same exactly if their texts are: `1`, `1.0` and `1e0` are
/// one number.
#[derive(Debug, Clone, Serialize)]
#[serde(into = "KeyForm")]
pub struct Key {
    text: String,
    /// Empty for a key of text.
    attributes: Item,
}

#[derive(Serialize)]
#[serde(untagged)]
enum KeyForm {
    Text(String),
    Attributes(Item),
}

/// Reads both forms. An untagged enum would not say where an attribute is wrong.
struct KeyReader;

impl<'de> Visitor<'de> for KeyReader {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, or an object of at least one attribute")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Key, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, attributes: A) -> Result<Key, A::Error> {
        let attributes = Item::deserialize(MapAccessDeserializer::new(attributes))?;
        if attributes.is_empty() {
            return Err(de::Error::invalid_length(0, &self));
        }
        Ok(Key::of(attributes))
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyReader)
    }
}

impl Key {
    /// A key of these attributes.
    pub fn of(attributes: Item) -> Self {
        let parts: Vec<_> = attributes.iter().map(|(name, value)| format!("{name:?}:{}", identity(value))).collect();
        Self { text: format!("{{{}}}", parts.join(",")), attributes }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its attributes. `None` for a key of text.
    pub fn attributes(&self) -> Option<&Item> {
        (!self.attributes.is_empty()).then_some(&self.attributes)
    }

    /// The key as attributes of the stored item.
    pub fn stored(&self) -> Item {
        match self.attributes() {
            Some(attributes) => attributes.clone(),
            None => Item::from([(PARTITION_KEY.to_owned(), Value::from(self.text.as_str()))]),
        }
    }

    /// Whether the attribute is a part of the key.
    pub fn has(&self, attribute: &str) -> bool {
        self.attributes().map_or(attribute == PARTITION_KEY, |attributes| attributes.contains_key(attribute))
    }

    /// The name of an attribute of the key. Only items that exist have it.
    pub fn attribute(&self) -> &str {
        self.attributes.keys().next().map_or(PARTITION_KEY, String::as_str)
    }

    /// Its part of the item's size, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.attributes().map_or_else(|| PARTITION_KEY.len() + self.text.len(), size_bytes)
    }

    fn identity(&self) -> (bool, &str) {
        (self.attributes.is_empty(), &self.text)
    }
}

/// The same for every text of one value, and for no other value.
fn identity(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("S{text:?}"),
        Value::Number(number) => {
            let (negative, digits, exponent) = number.identity();
            format!("N{}{digits:?}e{exponent}", if negative { "-" } else { "" })
        }
        Value::Bytes(bytes) => format!("B{}", STANDARD.encode(bytes)),
        // No key holds any other type: the check of the plan refuses it.
        Value::Flag(_)
        | Value::TextSet(_)
        | Value::NumberSet(_)
        | Value::BytesSet(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Null(_) => format!("{value:?}"),
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(attributes) = self.attributes() else { return formatter.write_str(&self.text) };
        let parts: Vec<_> = attributes.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        write!(formatter, "{{{}}}", parts.join(", "))
    }
}

impl From<Key> for KeyForm {
    fn from(key: Key) -> Self {
        if key.attributes.is_empty() { Self::Text(key.text) } else { Self::Attributes(key.attributes) }
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self { text, attributes: Item::new() }
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<ItemKey> for Key {
    fn from(key: ItemKey) -> Self {
        String::from(key).into()
    }
}

/// One item that a handler may read or write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemRef {
    /// The user table. None is the domain table.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub table: Option<TableAlias>,
    /// Its key.
    pub key: Key,
}

/// Reads a field that may be left out, but not be null: a null alias would name the domain table.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl ItemRef {
    /// The item with these key attributes in a user table.
    pub fn own<const N: usize>(table: TableAlias, key: [(&str, Value); N]) -> Self {
        Self { table: Some(table), key: Key::of(crate::item::fields(key)) }
    }

    /// Checks that this tenant may name the item, and that its table can have it.
    ///
    /// # Errors
    /// [`PlaceFault`] says what is wrong.
    pub fn check(&self, tenant: &Tenant, tables: &BTreeMap<TableAlias, KeySchema>) -> Result<(), PlaceFault> {
        match &self.table {
            None if self.key.attributes().is_some() || !ItemKey::names(tenant, self.key.as_str()) => {
                Err(PlaceFault::Tenant)
            }
            None => Ok(()),
            Some(table) => tables.get(table).ok_or(PlaceFault::Table)?.check(&self.key),
        }
    }
}

impl fmt::Display for ItemRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(formatter, "{} in table {table}", self.key),
            None => self.key.fmt(formatter),
        }
    }
}

impl<K: Into<Key>> From<K> for ItemRef {
    fn from(key: K) -> Self {
        Self { table: None, key: key.into() }
    }
}

impl From<&ItemKey> for ItemRef {
    fn from(key: &ItemKey) -> Self {
        key.as_str().into()
    }
}

impl From<OnceKey> for ItemRef {
    fn from(key: OnceKey) -> Self {
        ItemKey::from(key).into()
    }
}

impl From<&Self> for ItemRef {
    fn from(item: &Self) -> Self {
        item.clone()
    }
}

/// Why a handler may not read or write an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum PlaceFault {
    /// An item of another tenant, or of the protocol itself.
    #[error(
        "a key of the domain table must be text that begins with the tenant, and have at most {ITEM_KEY_BYTES_MAX} bytes"
    )]
    Tenant,
    /// No such table, or the route does not list it.
    #[error("the route does not list this table, or the worker has none of this alias")]
    Table,
    /// Other attributes than the table's key has.
    #[error("the key must have the attributes of the table's key, each of its type")]
    Attributes,
    /// A part of the key that DynamoDB refuses.
    #[error(
        "a part of the key is empty, not a number of at most 38 digits, or longer than {ITEM_KEY_BYTES_MAX} bytes \
         ({SORT_KEY_BYTES_MAX} for a sort key)"
    )]
    Size,
}

/// The type of a key attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Text.
    Text,
    /// A number.
    Number,
    /// Bytes.
    Bytes,
}

/// One attribute of a table's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyAttribute {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: KeyKind,
}

/// The key of a user table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeySchema {
    /// The partition key.
    pub partition: KeyAttribute,
    /// The sort key, if the table has one.
    pub sort: Option<KeyAttribute>,
}

impl KeySchema {
    /// Whether a key has these attributes, each of its type.
    pub fn is_of(&self, key: &Key) -> bool {
        self.check(key) != Err(PlaceFault::Attributes)
    }

    fn check(&self, key: &Key) -> Result<(), PlaceFault> {
        let attributes = key.attributes().ok_or(PlaceFault::Attributes)?;
        if attributes.len() != 1 + usize::from(self.sort.is_some()) {
            return Err(PlaceFault::Attributes);
        }
        let parts = [(Some(&self.partition), ITEM_KEY_BYTES_MAX), (self.sort.as_ref(), SORT_KEY_BYTES_MAX)];
        for (part, bytes_max) in parts {
            let Some(part) = part else { continue };
            let value = attributes.get(&part.name).ok_or(PlaceFault::Attributes)?;
            let fits = match (part.kind, value) {
                (KeyKind::Text, Value::Text(text)) => (1..=bytes_max).contains(&text.len()),
                (KeyKind::Bytes, Value::Bytes(bytes)) => (1..=bytes_max).contains(&bytes.len()),
                (KeyKind::Number, Value::Number(number)) => Number::is_sound(number),
                _ => return Err(PlaceFault::Attributes),
            };
            if !fits {
                return Err(PlaceFault::Size);
            }
        }
        Ok(())
    }
}
