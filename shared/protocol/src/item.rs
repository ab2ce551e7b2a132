//! Stored items as plain data, with DynamoDB's types.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize};

/// The largest item that the store accepts, in bytes.
pub const ITEM_BYTES_MAX: usize = 400 * 1024;

/// One stored item: attribute names and values.
pub type Item = BTreeMap<String, Value>;

/// Makes an item from names and values.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Item {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The most digits of a number.
const NUMBER_DIGITS_MAX: usize = 38;

/// The most levels of a value: lists and maps, and the value in them.
const DEPTH_MAX: usize = 32;

/// The longest name of an attribute, in bytes.
const NAME_BYTES_MAX: usize = 65_535;

/// Whether an attribute can have this name.
pub fn is_attribute_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}

/// Why DynamoDB refuses a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum ValueFault {
    /// A set without a member, or with one twice.
    #[error("holds a set that is empty or has a member twice")]
    Set,
    /// Not a number, or one with too many digits or too large an exponent.
    #[error("holds an invalid number: not a number, more than {NUMBER_DIGITS_MAX} digits, or an exponent beyond 125")]
    Number,
    /// A null that is not `true`.
    #[error("holds a NULL that is not true")]
    Null,
    /// Too many levels.
    #[error("holds more than {DEPTH_MAX} levels of lists, maps and values")]
    Depth,
    /// A name in a map that DynamoDB refuses.
    #[error("holds a map with a name that is empty or too long")]
    Name,
}

/// The name of the partition key attribute in both tables.
pub const PARTITION_KEY: &str = "pk";

/// How the names of the attributes begin that only hookonce may use. DynamoDB deletes an item by one of them.
pub const RESERVED_PREFIX: &str = "hookonce_";

/// One attribute value. Its JSON form is DynamoDB's own: `{"S": "text"}`, `{"N": "42"}`, `{"B": "<base64>"}`, `{"SS":
/// ["a", "b"]}`.
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
    /// A set of texts.
    #[serde(rename = "SS")]
    TextSet(Members<String>),
    /// A set of numbers.
    #[serde(rename = "NS")]
    NumberSet(Members<Number>),
    /// A set of byte strings.
    #[serde(rename = "BS", with = "base64_members")]
    BytesSet(Members<Vec<u8>>),
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

/// The members of a set. They are kept in order, so that two sets with the same members are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Members<T>(Vec<T>);

/// What a set has as members. An answer may hold very many of them.
pub trait Member: Sized {
    /// Puts them in order.
    fn sort(members: &mut [Self]);
}

impl Member for String {
    fn sort(members: &mut [Self]) {
        members.sort_unstable();
    }
}

impl Member for Vec<u8> {
    fn sort(members: &mut [Self]) {
        members.sort_unstable();
    }
}

impl Member for Number {
    fn sort(members: &mut [Self]) {
        members.sort_by_cached_key(Self::identity);
    }
}

impl<T: Member> From<Vec<T>> for Members<T> {
    fn from(mut members: Vec<T>) -> Self {
        T::sort(&mut members);
        Self(members)
    }
}

impl<'de, T: Deserialize<'de> + Member> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

impl<T> Members<T> {
    /// The members, in order.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Whether it has a member, and none twice by what `identity` makes of them.
    fn is_set<I: Ord>(&self, identity: impl Fn(&T) -> I) -> bool {
        let distinct: BTreeSet<_> = self.0.iter().map(identity).collect();
        !self.0.is_empty() && distinct.len() == self.0.len()
    }
}

/// A number as DynamoDB stores it: decimal text, so that no digit is lost. Two are equal if they are one number,
/// because DynamoDB compares numbers and gives them back in a spelling of its own: `12.50` comes back as `12.5`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Number(String);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.identity() == other.identity()
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order in which sets keep their members. [`Number::order`] says which number is less.
impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

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

    /// The same for every text of one number: `10`, `10.0` and `1e1`. The sign, the digits without zeros around them,
    /// and the power of ten. A text that is no number stands for itself.
    pub(crate) fn identity(&self) -> (bool, String, i64) {
        self.decimal().unwrap_or_else(|| (false, self.0.clone(), 0))
    }

    /// Whether the store keeps it: a number of at most 38 digits between 1e-130 and 9.99e125, of either sign.
    pub fn is_sound(&self) -> bool {
        let powers = -130..=125;
        let Some(scaled) = self.scaled() else { return false };
        if scaled.digits.is_empty() {
            // The store judges a zero as if its last digit were a one.
            return powers.contains(&scaled.last);
        }
        let length = i64::try_from(scaled.digits.len()).unwrap_or(i64::MAX);
        let first = scaled.last.saturating_add(length).saturating_sub(1);
        scaled.digits.len() <= NUMBER_DIGITS_MAX && powers.contains(&first)
    }

    /// Whether it is less than the other one, equal or greater. `None` if one of them is no number.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        let (one, two) = (self.decimal()?, other.decimal()?);
        // The sign, then where the first digit stands, then the digits. Zero has no digits and no sign.
        let rank = |(negative, digits, _): &(bool, String, i64)| match (negative, digits.is_empty()) {
            (_, true) => 0,
            (true, false) => -1,
            (false, false) => 1,
        };
        let first = |(_, digits, exponent): &(bool, String, i64)| {
            i64::try_from(digits.len()).unwrap_or(i64::MAX).saturating_add(*exponent)
        };
        let size = first(&one).cmp(&first(&two)).then_with(|| one.1.cmp(&two.1));
        Some(rank(&one).cmp(&rank(&two)).then(if one.0 { size.reverse() } else { size }))
    }

    fn decimal(&self) -> Option<(bool, String, i64)> {
        let Scaled { negative, digits, last } = self.scaled()?;
        Some(if digits.is_empty() { (false, digits, 0) } else { (negative, digits, last) })
    }

    fn scaled(&self) -> Option<Scaled> {
        let (mantissa, exponent) = self.0.split_once(['e', 'E']).unwrap_or((&self.0, "0"));
        let exponent: i64 = exponent.parse().ok()?;
        let (negative, unsigned) = match mantissa.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = [whole, fraction].concat();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let unpadded = digits.trim_start_matches('0');
        let significant = unpadded.trim_end_matches('0');
        let zeros = i64::try_from(unpadded.len() - significant.len()).ok()?;
        let shift = zeros - i64::try_from(fraction.len()).ok()?;
        Some(Scaled { negative, digits: significant.to_owned(), last: exponent.saturating_add(shift) })
    }

    /// Its size as DynamoDB counts it, in bytes (an upper bound): two digits in a byte, the sign and the exponent.
    fn size_bytes(&self) -> usize {
        self.decimal().map_or(self.0.len(), |(_, digits, _)| digits.len() / 2) + 3
    }
}

/// A number's digits without zeros around them, and the power of ten of the last one.
struct Scaled {
    negative: bool,
    digits: String,
    last: i64,
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

    /// Whether it is less than the other one, equal or greater. `None` unless both are numbers or both are text.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => one.order(two),
            (Self::Text(one), Self::Text(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }

    /// What DynamoDB refuses in the value, if it refuses it.
    pub fn fault(&self) -> Option<ValueFault> {
        self.fault_at(0)
    }

    fn fault_at(&self, depth: usize) -> Option<ValueFault> {
        if depth >= DEPTH_MAX {
            return Some(ValueFault::Depth);
        }
        let set = |is_set: bool| (!is_set).then_some(ValueFault::Set);
        match self {
            Self::TextSet(texts) => set(texts.is_set(Clone::clone)),
            Self::NumberSet(numbers) if !numbers.0.iter().all(Number::is_sound) => Some(ValueFault::Number),
            Self::NumberSet(numbers) => set(numbers.is_set(Number::identity)),
            Self::BytesSet(blobs) => set(blobs.is_set(Clone::clone)),
            Self::List(values) => values.iter().find_map(|value| value.fault_at(depth + 1)),
            Self::Map(values) if values.keys().any(|name| !is_attribute_name(name)) => Some(ValueFault::Name),
            Self::Map(values) => values.values().find_map(|value| value.fault_at(depth + 1)),
            Self::Number(number) => (!number.is_sound()).then_some(ValueFault::Number),
            Self::Null(true) | Self::Text(_) | Self::Bytes(_) | Self::Flag(_) => None,
            Self::Null(false) => Some(ValueFault::Null),
        }
    }

    /// The value's size as DynamoDB counts it, in bytes (an upper bound).
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Number(number) => number.size_bytes(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Flag(_) | Self::Null(_) => 1,
            // Unlike a list, a set costs nothing beside its members.
            Self::TextSet(texts) => texts.0.iter().map(String::len).sum(),
            Self::NumberSet(numbers) => numbers.0.iter().map(Number::size_bytes).sum(),
            Self::BytesSet(blobs) => blobs.0.iter().map(Vec::len).sum(),
            Self::List(values) => values.iter().map(|value| value.size_bytes() + 1).sum::<usize>() + 3,
            Self::Map(values) => size_bytes(values) + values.len() + 3,
        }
    }

    /// About the memory that the value takes beside itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Number(number) => number.0.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Flag(_) | Self::Null(_) => 0,
            Self::TextSet(texts) => texts.0.iter().map(|text| size_of::<String>() + text.len()).sum(),
            Self::NumberSet(numbers) => numbers.0.iter().map(|number| size_of::<Number>() + number.0.len()).sum(),
            Self::BytesSet(blobs) => blobs.0.iter().map(|bytes| size_of::<Vec<u8>>() + bytes.len()).sum(),
            Self::List(values) => values.iter().map(|value| size_of::<Self>() + value.memory_bytes()).sum(),
            Self::Map(values) => memory_bytes(values),
        }
    }
}

/// The item's size as DynamoDB counts it, names and values, in bytes (an upper bound).
pub fn size_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value.size_bytes()).sum()
}

/// The memory that so many fields of an item or a map take beside their names and values, in bytes. A tree keeps up to
/// eleven entries in a block, and at least five unless it is the only one.
pub const fn map_bytes(fields: usize) -> usize {
    let block = 11 * (size_of::<String>() + size_of::<Value>()) + 32;
    fields.div_ceil(6) * block
}

/// About the memory that an item takes, in bytes. A small map takes a hundred times its size.
pub fn memory_bytes(item: &Item) -> usize {
    let values = item.iter().map(|(name, value)| name.len() + value.memory_bytes());
    map_bytes(item.len()) + values.sum::<usize>()
}

/// Prints only the number of bytes, because they may be a provider's payload.
impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(formatter, "{text:?}"),
            Self::Number(number) => write!(formatter, "{}", number.0),
            Self::Bytes(bytes) => write!(formatter, "<{} bytes>", bytes.len()),
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::TextSet(texts) => formatter.debug_set().entries(&texts.0).finish(),
            Self::NumberSet(numbers) => formatter.debug_set().entries(numbers.0.iter().map(Number::as_text)).finish(),
            Self::BytesSet(blobs) => write!(formatter, "<a set of {} byte strings>", blobs.0.len()),
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

/// Serde form of sets of bytes: standard base64 texts.
mod base64_members {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Members, base64_bytes};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Member(#[serde(with = "base64_bytes")] Vec<u8>);

    pub(super) fn serialize<S: Serializer>(members: &Members<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(members.0.iter().map(|member| Member(member.clone())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Members<Vec<u8>>, D::Error> {
        let members = Vec::<Member>::deserialize(deserializer)?;
        Ok(members.into_iter().map(|member| member.0).collect::<Vec<_>>().into())
    }
}
