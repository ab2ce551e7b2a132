//! Reads of a body only what some patterns ask about. A sender decides what else is in there: a few megabytes
//! of small objects take a hundred times as much memory once they are values.

use std::cell::Cell;
use std::fmt;

use hookonce_protocol::item::block_bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What patterns ask of a value.
pub(super) trait Asks: Copy {
    /// Whether any asks for a text, a number, a flag or null.
    fn leaves(&self) -> bool;
    /// What they ask of a field, if the value is an object.
    fn field(&self, name: &str) -> Option<Self>;
}

/// The most memory that the values may take, in bytes. An event whose body asks for more is not decided.
const MEMORY_MAX: usize = 64 * 1024 * 1024;

/// What an element of an array may take: an array that grows is copied to twice the room.
const ELEMENT_BYTES: usize = 3 * size_of::<Value>();

/// What the first element may take: room for four is made at once.
const FIRST_ELEMENT_BYTES: usize = 4 * size_of::<Value>() + 16;

/// Each block of an object's fields has at least so many, unless it is the only one.
const BLOCK_FIELDS_MIN: usize = 5;

/// What a body says about what is asked. `None` if it is no JSON, cannot be compared or takes too much memory. What
/// says nothing is left out: a value where only objects are asked about, or an empty object.
pub(super) fn read(body: &[u8], asks: impl Asks) -> Option<Value> {
    let text = str::from_utf8(body).ok()?;
    let mut json = serde_json::Deserializer::from_str(text);
    let left = Cell::new(MEMORY_MAX);
    let read = Part { asks, left: &left }.deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(read.unwrap_or(Value::Array(Vec::new())))
}

struct Part<'a, A> {
    asks: A,
    left: &'a Cell<usize>,
}

impl<A: Asks> Part<'_, A> {
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| E::custom("takes too much memory"))?;
        self.left.set(left);
        Ok(())
    }

    fn leaf(&self, value: impl Into<Value>) -> Option<Value> {
        self.asks.leaves().then(|| value.into())
    }
}

/// The name of a field, and what is asked of it. `None` if nothing is.
struct Field<A>(A);

impl<'de, A: Asks> DeserializeSeed<'de> for Field<A> {
    type Value = Option<(String, A)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<A: Asks> Visitor<'_> for Field<A> {
    type Value = Option<(String, A)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name).map(|asks| (name.to_owned(), asks)))
    }
}

impl<'de, A: Asks> DeserializeSeed<'de> for Part<'_, A> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, A: Asks> Visitor<'de> for Part<'_, A> {
    type Value = Option<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.leaf(Value::Null))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(self.leaf(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(self.leaf(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(self.leaf(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).and_then(|number| self.leaf(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if !self.asks.leaves() {
            return Ok(None);
        }
        self.take(text.len())?;
        Ok(self.leaf(text))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<Self::Value, S::Error> {
        let mut kept = Vec::new();
        while let Some(element) = elements.next_element_seed(Part { asks: self.asks, left: self.left })? {
            if let Some(element) = element {
                self.take(if kept.is_empty() { FIRST_ELEMENT_BYTES } else { ELEMENT_BYTES })?;
                kept.push(element);
            }
        }
        Ok((!kept.is_empty()).then_some(Value::Array(kept)))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let mut kept = Map::new();
        while let Some(field) = fields.next_key_seed(Field(self.asks))? {
            let Some((name, asks)) = field else {
                fields.next_value::<IgnoredAny>()?;
                continue;
            };
            // Of a field that stands twice, the last one counts.
            let Some(value) = fields.next_value_seed(Part { asks, left: self.left })? else {
                kept.remove(&name);
                continue;
            };
            let block = if kept.len().is_multiple_of(BLOCK_FIELDS_MIN) { block_bytes::<Value>() } else { 0 };
            self.take(block + name.len())?;
            kept.insert(name, value);
        }
        Ok((!kept.is_empty()).then_some(Value::Object(kept)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Patterns that ask about everything, or about the field `a` and nothing else.
    #[derive(Clone, Copy)]
    enum Patterns {
        Everything,
        FieldA,
    }

    impl Asks for Patterns {
        fn leaves(&self) -> bool {
            matches!(self, Self::Everything)
        }

        fn field(&self, name: &str) -> Option<Self> {
            match self {
                Self::Everything => Some(*self),
                Self::FieldA => (name == "a").then_some(Self::Everything),
            }
        }
    }

    #[test]
    fn what_nothing_asks_about_is_neither_kept_nor_compared() {
        let text = r#"{"b": [1e999, "\ud800", {"a": 1}], "a": [1, {}, [], [null, {"b": "x"}]], "c": {"a": 2}}"#;
        assert_eq!(read(text.as_bytes(), Patterns::FieldA), Some(json!({"a": [1, [null, {"b": "x"}]]})));
        for (text, kept) in
            [("7", Some(json!([]))), (r#"{"a": 1, "a": {}}"#, Some(json!([]))), (r#"{"a": 1e999}"#, None)]
        {
            assert_eq!(read(text.as_bytes(), Patterns::FieldA), kept, "{text}");
        }
        for text in [&b"{\"b\": \"\xff\"}"[..], b"{\"b\": 1} 2", b"{\"b\": 1", b"", b"\"\\ud800\": 1}"] {
            assert_eq!(read(text, Patterns::FieldA), None, "{text:?}");
        }
    }

    /// The shortest object, value and text of which a body can hold many. Each takes as much as is charged, or less.
    #[test]
    fn values_that_take_too_much_memory_are_not_kept() {
        let read = |element: &str, count, asks| {
            let elements = vec![element; count].join(",");
            read(format!(r#"{{"a": [{elements}]}}"#).as_bytes(), asks).is_some()
        };
        let texts = format!("\"{}\"", "x".repeat(1_000));
        for (element, most) in [(r#"{"":0}"#, 90_000), ("0", 699_000), (&texts, 61_000)] {
            assert!(read(element, most, Patterns::Everything), "{most} of {}", &element[..1]);
            assert!(!read(element, most + most / 50, Patterns::Everything), "more than {most} of {}", &element[..1]);
        }
        let fields: Vec<_> = (0..12).map(|field| format!(r#""field_{field}":0"#)).collect();
        let wide = format!("{{{}}}", fields.join(","));
        assert!(read(&wide, 30_000, Patterns::Everything) && !read(&wide, 33_000, Patterns::Everything));
        let beside = format!(r#"{{"b": [{}]}}"#, vec![r#"{"":0}"#; 500_000].join(","));
        assert_eq!(super::read(beside.as_bytes(), Patterns::FieldA), Some(json!([])));
    }
}
