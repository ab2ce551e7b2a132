//! A field that stands twice in one object of an answer. A parser would silently take the last one, and of two conditions the
//! one that guards the write might be the other.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use hookonce_protocol::check::Shown;
use serde::de::{Deserialize as _, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The names that an answer gives to its own fields. Of any other, a place shows how it begins: a handler may have made it of
/// what a provider sent.
const WORDS: [&str; 32] = [
    "absent",
    "action",
    "add",
    "blind",
    "checks",
    "code",
    "condition",
    "destination",
    "differs",
    "effect",
    "effects",
    "equals",
    "error",
    "fact",
    "ignore",
    "key",
    "method",
    "one_of",
    "path",
    "payload",
    "payload_base64",
    "present",
    "put",
    "reads",
    "remove",
    "request",
    "retryable",
    "set",
    "table",
    "update",
    "when_condition_fails",
    "writes",
];

/// The place of the first field that stands twice in one object. None in what is no JSON.
///
/// What an effect sends is left out. It leaves as it was written, and nobody here reads it.
pub(super) fn twice(answer: &[u8]) -> Option<String> {
    let found = Cell::new(None);
    let whole = Look { place: &Place::Whole, found: &found };
    // The error itself only says that the search has ended.
    let _ended = whole.deserialize(&mut serde_json::Deserializer::from_slice(answer));
    found.into_inner()
}

/// Where a value stands: in a field or in a list of the value around it.
enum Place<'a> {
    Whole,
    Field(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn is_sent(&self) -> bool {
        matches!(self, Place::Field(Place::Element(Place::Field(Place::Whole, "effects"), _), "payload"))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Element(around, index) => write!(formatter, "{around}[{index}]"),
            Self::Field(around, name) => {
                let dot = if matches!(around, Self::Whole) { "" } else { "." };
                write!(formatter, "{around}{dot}")?;
                if WORDS.contains(name) { formatter.write_str(name) } else { Shown::from(*name).fmt(formatter) }
            }
        }
    }
}

/// Looks through the value at this place, until a field stands there twice.
struct Look<'a> {
    place: &'a Place<'a>,
    found: &'a Cell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.place.is_sent() {
            return IgnoredAny::deserialize(deserializer).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        for index in 0.. {
            let place = Place::Element(self.place, index);
            if elements.next_element_seed(Look { place: &place, found: self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let place = Place::Field(self.place, &name);
            if names.contains(&name) {
                self.found.set(Some(place.to_string()));
                return Err(A::Error::custom("a field stands there twice"));
            }
            fields.next_value_seed(Look { place: &place, found: self.found })?;
            names.insert(name);
        }
        Ok(())
    }
}
