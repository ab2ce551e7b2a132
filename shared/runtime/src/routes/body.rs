//! Reads of a body only the fields that patterns name. A sender decides what else is in there: a few megabytes of
//! small objects take a hundred times as much memory once they are values.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::{Map, Number, Value};

use super::pattern::{Field, Pattern};

/// The most values of a body that are looked at. An event whose body has more of them is not decided.
const VALUES_MAX: usize = 10_000;

/// The fields that some patterns name, and those below them.
#[derive(Debug, Default)]
pub(super) struct Named<'a> {
    /// Whether a pattern names a text, a number, a flag or null here.
    leaf: bool,
    fields: BTreeMap<&'a str, Self>,
}

impl<'a> Named<'a> {
    pub(super) fn by(patterns: impl Iterator<Item = &'a Pattern>) -> Self {
        let mut named = Self::default();
        patterns.for_each(|pattern| named.add(pattern));
        named
    }

    fn add(&mut self, pattern: &'a Pattern) {
        for (name, field) in &pattern.fields {
            let named = self.fields.entry(name).or_default();
            match field {
                Field::Leaf(_) => named.leaf = true,
                Field::Object(pattern) => named.add(pattern),
            }
        }
    }
}

/// The named fields of a body. `None` if it is no JSON, if they cannot be compared or have too many values. What says
/// nothing is left out: a value where only objects are named, or an empty object.
pub(super) fn read(body: &[u8], named: &Named<'_>) -> Option<Value> {
    read_from(&mut serde_json::Deserializer::from_str(str::from_utf8(body).ok()?), named)
}

fn read_from<'de>(json: &mut serde_json::Deserializer<impl Read<'de>>, named: &Named<'_>) -> Option<Value> {
    let read = Part { named, left: &Cell::new(VALUES_MAX) }.deserialize(&mut *json).ok()?;
    json.end().ok()?;
    Some(read.unwrap_or(Value::Array(Vec::new())))
}

/// A value at a place of which something is named.
#[derive(Clone, Copy)]
struct Part<'a> {
    named: &'a Named<'a>,
    /// How many more values may be looked at.
    left: &'a Cell<usize>,
}

impl Part<'_> {
    fn leaf(self, value: impl Into<Value>) -> Option<Value> {
        self.named.leaf.then(|| value.into())
    }
}

/// The name of a field of this value. `None` if no pattern names it.
struct Name<'a>(Part<'a>);

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<(&'a str, Part<'a>)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<(&'a str, Part<'a>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let Part { named, left } = self.0;
        Ok(named.fields.get_key_value(name).map(|(name, named)| (*name, Part { named, left })))
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("has too many values"))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
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
        Ok(self.leaf(text))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<Self::Value, S::Error> {
        let mut kept = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            kept.extend(element);
        }
        Ok((!kept.is_empty()).then_some(Value::Array(kept)))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let mut kept = Map::new();
        while let Some(field) = fields.next_key_seed(Name(self))? {
            let Some((name, part)) = field else {
                fields.next_value::<IgnoredAny>()?;
                continue;
            };
            // Of a field that stands twice, the last one counts.
            match fields.next_value_seed(part)? {
                Some(value) => kept.insert(name.to_owned(), value),
                None => kept.remove(name),
            };
        }
        Ok((!kept.is_empty()).then_some(Value::Object(kept)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use serde_json::json;

    use super::*;
    use crate::documents::fault::Checker;

    fn pattern(pattern: &Value) -> Pattern {
        Pattern::compile(pattern.as_object().unwrap(), &mut Checker::new(&mut Vec::new()))
    }

    #[test]
    fn what_no_pattern_names_is_neither_kept_nor_compared() {
        let patterns = [pattern(&json!({"a": [1]})), pattern(&json!({"a": {"b": [1]}}))];
        let named = Named::by(patterns.iter());
        let text = r#"{"b": [1e999, "\ud800", {"a": 1}], "a": [1, {}, [], [null, {"b": "x"}]], "c": {"a": 2}}"#;
        assert_eq!(read(text.as_bytes(), &named), Some(json!({"a": [1, [null, {"b": "x"}]]})));
        for (text, kept) in [
            ("7", Some(json!([]))),
            (r#"{"a": 1, "a": {}}"#, Some(json!([]))),
            (r#"{"a": {"b": {"a": 1}}}"#, Some(json!([]))),
            (r#"{"a": 1e999}"#, None),
            (r#"{"a": "\ud800"}"#, None),
        ] {
            assert_eq!(read(text.as_bytes(), &named), kept, "{text}");
        }
        for text in [&b"{\"b\": \"\xff\"}"[..], b"{\"b\": 1} 2", b"{\"b\": 1", b"", b"\"\\ud800\": 1}"] {
            assert_eq!(read(text, &named), None, "{text:?}");
        }
    }

    fn array(elements: usize, element: &str) -> String {
        format!("[{}]", vec![element; elements].join(","))
    }

    /// The object and the array around the elements count, too.
    #[test]
    fn so_many_values_are_looked_at_and_no_more() {
        let pattern = pattern(&json!({"a": {"b": [1]}}));
        let named = Named::by([&pattern].into_iter());
        for (element, each) in [("0", 1), (r#"{"c":[0,0]}"#, 1), (r#"{"b":0}"#, 2), (r#"{"b":[0,0]}"#, 4), ("[]", 1)] {
            let most = (VALUES_MAX - 2) / each;
            for (elements, is_read) in [(most, true), (most + 1, false)] {
                let body = format!(r#"{{"a":{},"c":{}}}"#, array(elements, element), array(20_000, "0"));
                assert_eq!(read(body.as_bytes(), &named).is_some(), is_read, "{elements} of {element}");
            }
        }
    }

    /// A sender can fit so many objects into one body. Reading them all would keep the other messages of the batch
    /// waiting.
    #[test]
    fn what_has_too_many_values_is_not_read_to_its_end() {
        let pattern = pattern(&json!({"a": {"": [1]}}));
        let mut body = Cursor::new(format!(r#"{{"a":{}}}"#, array(580_000, r#"{"":0}"#)));
        let json = &mut serde_json::Deserializer::from_reader(&mut body);
        assert_eq!(read_from(json, &Named::by([&pattern].into_iter())), None);
        assert!(body.position() < 7 * 10_000, "{} bytes were read", body.position());
    }
}
