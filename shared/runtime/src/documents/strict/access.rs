//! The elements of a list and the fields of an object, each with its place.

use std::collections::BTreeSet;

use hookonce_protocol::item::{Value, map_bytes};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::at::{Notes, at};
use super::place::{DocumentPath, Expected, Mismatch};

/// The elements of a list.
pub(super) struct Elements<'a, A> {
    pub(super) list: A,
    pub(super) place: &'a DocumentPath<'a>,
    pub(super) notes: &'a Notes,
    pub(super) index: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = Mismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        let place = DocumentPath::Element { around: self.place, index: self.index };
        self.index += 1;
        let read = self.list.next_element_seed(at(&place, self.notes, seed));
        let read = read.map_err(|error| self.notes.ended(&place, &error))?;
        if read.is_some() {
            self.notes.take(size_of::<Value>(), &place)?;
        }
        Ok(read)
    }

    fn size_hint(&self) -> Option<usize> {
        self.list.size_hint()
    }
}

/// The fields of an object. None may appear twice.
pub(super) struct Fields<'a, A> {
    map: A,
    place: &'a DocumentPath<'a>,
    notes: &'a Notes,
    expected: Expected,
    seen: BTreeSet<String>,
    name: String,
}

impl<'a, A> Fields<'a, A> {
    pub(super) fn of(map: A, place: &'a DocumentPath<'a>, notes: &'a Notes, expected: Expected) -> Self {
        Self { map, place, notes, expected, seen: BTreeSet::new(), name: String::new() }
    }

    /// The room for one field more: of a struct all with the first, of a map those of its blocks.
    fn next_field_bytes(&self) -> usize {
        match (self.expected, self.seen.len()) {
            (Expected::Object([]), seen) => map_bytes(seen) - map_bytes(seen - 1),
            // About what the largest take: a write and an effect.
            (Expected::Object(_), 1) => 256,
            (..) => 0,
        }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = Mismatch;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        let name = self.map.next_key::<String>().map_err(|error| self.notes.ended(self.place, &error))?;
        let Some(name) = name else { return Ok(None) };
        if !self.seen.insert(name.clone()) {
            self.notes.keep(&self.place.field(&name, self.expected.known()), Some("appears twice".to_owned()));
            return Err(Mismatch::Kept);
        }
        self.name = name;
        self.notes.take(self.next_field_bytes(), self.place)?;
        let key = StrDeserializer::<Mismatch>::new(&self.name);
        at(self.place, self.notes, seed).deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        let place = self.place.field(&self.name, self.expected.known());
        let read = self.map.next_value_seed(at(&place, self.notes, seed));
        read.map_err(|error| self.notes.ended(&place, &error))
    }

    fn size_hint(&self) -> Option<usize> {
        self.map.size_hint()
    }
}

/// The one field of an object that stands for a variant.
pub(super) struct OneField<'f, F>(pub(super) &'f mut F);

impl<'de, F: MapAccess<'de, Error = Mismatch>> EnumAccess<'de> for OneField<'_, F> {
    type Error = Mismatch;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Mismatch> {
        let variant = self.0.next_key_seed(seed)?.ok_or_else(|| Mismatch::Kind(String::new()))?;
        Ok((variant, self))
    }
}

impl<'de, F: MapAccess<'de, Error = Mismatch>> VariantAccess<'de> for OneField<'_, F> {
    type Error = Mismatch;

    fn unit_variant(self) -> Result<(), Mismatch> {
        Err(Mismatch::Message("must be the word alone, as text".to_owned()))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Mismatch> {
        self.0.next_value_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Mismatch> {
        self.0.next_value_seed(Tuple(length, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.0.next_value_seed(Struct(fields, visitor))
    }
}

struct Tuple<V>(usize, V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Tuple<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_tuple(self.0, self.1)
    }
}

struct Struct<V>(&'static [&'static str], V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Struct<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_struct("", self.0, self.1)
    }
}
