//! Hands a type what it visits: a value, the elements of a list or the fields of an object.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::access::{Elements, Fields, OneField};
use super::at::{At, at, kept};
use super::place::{Expected, Mismatch};

impl<V> At<'_, V> {
    /// Shows the type something, and keeps what it finds.
    fn show<T, E: Error>(self, show: impl FnOnce(V) -> Result<T, Mismatch>) -> Result<T, E> {
        let Self { inner, place, notes, expected } = self;
        show(inner).map_err(|misfit| kept(notes, place, expected, misfit))
    }

    /// Another kind of value than the type asked for, whether it would take that or not.
    fn refuse<T, E: Error>(self) -> Result<T, E> {
        self.show(|_| Err(Mismatch::Kind(String::new())))
    }
}

impl<'de, V: Visitor<'de>> At<'_, V> {
    /// A word that stands for a variant without a value.
    fn word<E: Error>(self, word: &str) -> Result<V::Value, E> {
        let known = self.expected.known().iter().find(|known| **known == word);
        self.show(|visitor| {
            let read = visitor.visit_enum(StrDeserializer::<Mismatch>::new(word));
            read.map_err(|misfit| match (misfit, known) {
                (Mismatch::Kind(_), Some(known)) => Mismatch::Message(format!("must be an object with `{known}`")),
                (misfit, _) => misfit,
            })
        })
    }

    /// An object whose one field is a variant with its value.
    fn variant<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let mut fields = Fields::of(map, self.place, self.notes, self.expected);
        self.show(|visitor| {
            let value = visitor.visit_enum(OneField(&mut fields))?;
            let another = fields.next_key::<IgnoredAny>()?;
            if another.is_some() { Err(Mismatch::Kind(String::new())) } else { Ok(value) }
        })
    }
}

macro_rules! show {
    ($($method:ident($value:ty),)*) => {
        $(fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.show(|visitor| visitor.$method(value))
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for At<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    show! { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        match self.expected {
            Expected::OneOf(_) => self.word(text),
            _ => self.show(|visitor| visitor.visit_str(text)),
        }
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        match self.expected {
            Expected::OneOf(_) => self.word(text),
            _ => self.show(|visitor| visitor.visit_borrowed_str(text)),
        }
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        match self.expected {
            Expected::OneOf(_) => self.word(&text),
            _ => self.show(|visitor| visitor.visit_string(text)),
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.show(V::visit_none)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let at = at(self.place, self.notes, deserializer);
        self.show(|visitor| visitor.visit_some(at))
    }

    /// An object of any fields would take null for an empty one.
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        match self.expected {
            Expected::Object(_) => self.refuse(),
            _ => self.show(V::visit_unit),
        }
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let at = at(self.place, self.notes, deserializer);
        self.show(|visitor| visitor.visit_newtype_struct(at))
    }

    /// A derived struct would take a list for its fields.
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        if matches!(self.expected, Expected::Object(_)) {
            return self.refuse();
        }
        let mut elements = Elements { list, place: self.place, notes: self.notes, index: 0 };
        self.show(|visitor| {
            let value = visitor.visit_seq(&mut elements)?;
            // A tuple takes as many as it has.
            let another = elements.next_element::<IgnoredAny>()?;
            if another.is_some() { Err(Mismatch::Kind(String::new())) } else { Ok(value) }
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        if matches!(self.expected, Expected::OneOf(_)) {
            return self.variant(map);
        }
        let fields = Fields::of(map, self.place, self.notes, self.expected);
        self.show(|visitor| visitor.visit_map(fields))
    }
}
