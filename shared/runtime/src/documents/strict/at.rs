//! A deserializer that knows its place in the document, and keeps the first value that does not fit.

use std::cell::Cell;
use std::fmt;

use hookonce_protocol::plan::PLAN_MEMORY_MAX;
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use super::place::{DocumentPath, Expected, Mismatch, ShowNames};

/// What stands before the position in an error of the parser.
pub(super) const POSITION: &str = " at line ";

/// The first thing that does not fit. Without a reason, the text is no JSON from there on.
#[derive(Default)]
pub(super) struct Note {
    pub(super) place: String,
    pub(super) why: Option<String>,
    /// The parser's error with the position, which no other error on the way out has.
    pub(super) parser: String,
}

pub(super) struct Notes {
    pub(super) show: ShowNames,
    pub(super) first: Cell<Option<Note>>,
    /// The bytes that values may still take.
    pub(super) room: Cell<usize>,
}

impl Notes {
    pub(super) fn keep(&self, place: &DocumentPath<'_>, why: Option<String>) {
        let first = || Note { place: place.shown(self.show), why, parser: String::new() };
        self.first.set(Some(self.first.take().unwrap_or_else(first)));
    }

    /// Takes room for a value at a place.
    pub(super) fn take(&self, bytes: usize, place: &DocumentPath<'_>) -> Result<(), Mismatch> {
        if let Some(left) = self.room.get().checked_sub(bytes) {
            self.room.set(left);
            return Ok(());
        }
        self.keep(
            place,
            Some(format!("is too much: the whole takes more than {} MiB of memory", PLAN_MEMORY_MAX >> 20)),
        );
        Err(Mismatch::Kept)
    }

    /// Keeps what a type has found at a place.
    fn misfit(&self, place: &DocumentPath<'_>, expected: Expected, misfit: Mismatch) {
        match misfit {
            Mismatch::Kept => {}
            Mismatch::Kind(kind) => self.keep(place, Some(expected.rule(&kind))),
            Mismatch::Message(why) => self.keep(place, Some(why)),
            Mismatch::Missing(name) => self.keep(&place.known(name), Some("is missing".to_owned())),
            Mismatch::Unknown(name) => self.keep(&place.field(&name, &[]), Some("unknown field".to_owned())),
        }
    }

    /// Keeps where the parser stopped, and its first error with a position. That error is the reason only if no type
    /// has refused a value.
    pub(super) fn ended(&self, place: &DocumentPath<'_>, error: &impl fmt::Display) -> Mismatch {
        self.keep(place, None);
        self.first.set(self.first.take().map(|first| {
            let message = if first.parser.is_empty() { error.to_string() } else { String::new() };
            if message.contains(POSITION) { Note { parser: message, ..first } } else { first }
        }));
        Mismatch::Kept
    }
}

/// Keeps what a type has found, and returns the error that ends the parser.
pub(super) fn kept<E: Error>(notes: &Notes, place: &DocumentPath<'_>, expected: Expected, misfit: Mismatch) -> E {
    notes.misfit(place, expected, misfit);
    E::custom("a value does not fit")
}

/// A part of serde at a place.
pub(super) struct At<'a, T> {
    pub(super) inner: T,
    pub(super) place: &'a DocumentPath<'a>,
    pub(super) notes: &'a Notes,
    pub(super) expected: Expected,
}

/// A part that expects nothing yet.
pub(super) fn at<'a, T>(place: &'a DocumentPath<'a>, notes: &'a Notes, inner: T) -> At<'a, T> {
    At { inner, place, notes, expected: Expected::Anything }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for At<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let Self { inner, place, notes, .. } = self;
        inner
            .deserialize(at(place, notes, deserializer))
            .map_err(|misfit| kept(notes, place, Expected::Anything, misfit))
    }
}

impl<'de, D: Deserializer<'de>> At<'_, D> {
    /// JSON names the kind of each value. The visitor decides whether that is the expected one.
    fn deserialize_as<V: Visitor<'de>>(self, expected: Expected, visitor: V) -> Result<V::Value, Mismatch> {
        let Self { inner, place, notes, .. } = self;
        inner.deserialize_any(At { inner: visitor, place, notes, expected }).map_err(|error| notes.ended(place, &error))
    }
}

macro_rules! each {
    ($($method:ident => $expected:expr,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            self.deserialize_as($expected, visitor)
        })*
    };
}

macro_rules! whole {
    ($($method:ident $number:ident,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            self.deserialize_as(Expected::Whole($number::MIN.into(), $number::MAX.into()), visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for At<'_, D> {
    type Error = Mismatch;

    whole! {
        deserialize_i8 i8, deserialize_i16 i16, deserialize_i32 i32, deserialize_i64 i64,
        deserialize_u8 u8, deserialize_u16 u16, deserialize_u32 u32, deserialize_u64 u64,
    }

    each! {
        deserialize_any => Expected::Anything,
        deserialize_bool => Expected::Flag,
        deserialize_f32 => Expected::Number,
        deserialize_f64 => Expected::Number,
        deserialize_char => Expected::Text,
        deserialize_str => Expected::Text,
        deserialize_string => Expected::Text,
        deserialize_bytes => Expected::Anything,
        deserialize_byte_buf => Expected::Anything,
        deserialize_unit => Expected::Anything,
        deserialize_seq => Expected::List(None),
        deserialize_map => Expected::Object(&[]),
        deserialize_identifier => Expected::Anything,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let Self { inner, place, notes, .. } = self;
        inner.deserialize_option(at(place, notes, visitor)).map_err(|error| notes.ended(place, &error))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_as(Expected::Anything, visitor)
    }

    /// A raw value has its own protocol with the parser, by this name.
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Mismatch> {
        let Self { inner, place, notes, .. } = self;
        inner.deserialize_newtype_struct(name, at(place, notes, visitor)).map_err(|error| notes.ended(place, &error))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_as(Expected::List(Some(length)), visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_as(Expected::List(Some(length)), visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_as(Expected::Object(fields), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_as(Expected::OneOf(words), visitor)
    }

    /// Nobody reads it, so nothing in it is looked at.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let Self { inner, place, notes, .. } = self;
        inner.deserialize_ignored_any(visitor).map_err(|error| notes.ended(place, &error))
    }
}
