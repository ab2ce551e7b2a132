//! JSON of people, stores and handlers in other languages, read strictly.
//!
//! A derived struct also takes a list of its values in place of an object, and a map takes the last of two fields with
//! one name. Here an object is an object at every level, no field stands twice, and what does not fit is told with its
//! place. Only what a type takes as it was written, a raw value, may hold anything. A text whose lists and
//! objects would take more than [`PLAN_MEMORY_MAX`] as values is refused before they do.
//!
//! `At` wraps each part of serde: the deserializer, its visitors and their accesses. So every type with serde's own
//! traits is read in this way.

mod access;
mod at;
mod place;
mod visit;

use std::cell::Cell;
use std::marker::PhantomData;

use hookonce_protocol::plan::PLAN_MEMORY_MAX;
use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed as _, Deserializer};

use self::at::{Note, Notes, POSITION, at};
use self::place::DocumentPath;
pub use self::place::ShowNames;

/// Why a text is not what was asked for. It never holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct StrictError {
    /// The place, such as `routes[2].handler`. Empty for the whole.
    pub place: String,
    /// What is wrong there.
    pub why: String,
    /// The line of the text.
    pub line: usize,
    /// The column of the text.
    pub column: usize,
    /// Whether it is JSON, of another form than was asked for.
    pub is_json: bool,
}

/// Reads JSON as a value of this type.
///
/// # Errors
/// [`StrictError`] says where the text does not fit, and why.
pub fn read<T: DeserializeOwned>(json: &[u8], show: ShowNames) -> Result<T, StrictError> {
    let notes = Notes { show, first: Cell::new(None), room: Cell::new(PLAN_MEMORY_MAX) };
    let mut parser = serde_json::Deserializer::from_slice(json);
    let whole = at(&DocumentPath::Whole, &notes, PhantomData::<T>);
    let read = whole.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    read.map_err(|error| {
        notes.ended(&DocumentPath::Whole, &error);
        let Note { place, why, parser } = notes.first.take().unwrap_or_default();
        let (message, line, column) = position(&parser).unwrap_or((&parser, 0, 0));
        let is_json = why.is_some();
        StrictError { place, why: why.unwrap_or_else(|| message.to_owned()), line, column, is_json }
    })
}

/// What the parser says in front of the line and the column.
fn position(error: &str) -> Option<(&str, usize, usize)> {
    let (message, position) = error.rsplit_once(POSITION)?;
    let (line, column) = position.split_once(" column ")?;
    Some((message, line.parse().ok()?, column.parse().ok()?))
}

/// Reads a field that may be left out, but not be null. A null might say more than the absence: a route with
/// `"types": null` would take every type.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hookonce_protocol::item::{Value, map_bytes};
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Pair(String, u8),
        Named { inner: Inner },
        One(Vec<Inner>),
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        flag: bool,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        kinds: Vec<Kind>,
        #[serde(default)]
        free: BTreeMap<String, Option<i16>>,
        #[serde(default)]
        raw: Option<Box<RawValue>>,
        #[serde(default)]
        number: f64,
    }

    fn unread(text: &str, show: ShowNames) -> StrictError {
        read::<Outer>(text.as_bytes(), show).unwrap_err()
    }

    #[test]
    fn every_form_of_a_type_is_read() {
        let raw = r#"{"a": [1.10, "\ud800", 1e999], "a": []}"#;
        let kinds =
            r#"["plain", {"pair": ["a", 255]}, {"named": {"inner": {"flag": true}}}, {"one": [{"flag": false}]}]"#;
        let text = format!(r#"{{"kinds": {kinds}, "free": {{"a": -1, "b": null}}, "raw": {raw}, "number": 1}}"#);
        let Outer { kinds, free, raw: kept, number } = read(text.as_bytes(), ShowNames::Whole).unwrap();
        let [Kind::Plain, Kind::Pair(text, 255), Kind::Named { inner: Inner { flag: true } }, Kind::One(list)] =
            kinds.as_slice()
        else {
            panic!("{kinds:?}")
        };
        assert_eq!((text.as_str(), list.len()), ("a", 1));
        assert_eq!(free, BTreeMap::from([("a".to_owned(), Some(-1)), ("b".to_owned(), None)]));
        assert_eq!((kept.unwrap().get(), number.to_string().as_str()), (raw, "1"));
    }

    #[test]
    fn a_mismatch_names_its_place_and_not_its_value() {
        let one_of = "must be exactly one of plain, pair, named, one";
        for (text, place, why) in [
            (r"[[]]", "", "must be an object"),
            (r#"{"kinds": {}}"#, "kinds", "must be a list"),
            (r#"{"kinds": ["secret"]}"#, "kinds[0]", one_of),
            (r#"{"kinds": [{"secret": 1}]}"#, "kinds[0]", one_of),
            (r#"{"kinds": [7]}"#, "kinds[0]", one_of),
            (r#"{"kinds": [["plain"]]}"#, "kinds[0]", one_of),
            (r#"{"kinds": [{}]}"#, "kinds[0]", one_of),
            (r#"{"kinds": [{"one": [], "pair": ["secret", 1]}]}"#, "kinds[0]", one_of),
            (r#"{"kinds": [{"one": [], "one": []}]}"#, "kinds[0].one", "appears twice"),
            (r#"{"kinds": [{"plain": null}]}"#, "kinds[0]", "must be the word alone, as text"),
            (r#"{"kinds": ["one"]}"#, "kinds[0]", "must be an object with `one`"),
            (r#"{"kinds": [{"pair": ["secret", 256]}]}"#, "kinds[0].pair[1]", "must be a whole number from 0 to 255"),
            (r#"{"kinds": [{"pair": ["secret"]}]}"#, "kinds[0].pair", "must be a list of 2"),
            (r#"{"kinds": [{"pair": ["secret", 1, 2]}]}"#, "kinds[0].pair", "must be a list of 2"),
            (r#"{"kinds": [{"named": [{"flag": true}]}]}"#, "kinds[0].named", "must be an object"),
            (r#"{"kinds": [{"named": {"inner": [true]}}]}"#, "kinds[0].named.inner", "must be an object"),
            (
                r#"{"kinds": [{"named": {"inner": {"flag": "secret"}}}]}"#,
                "kinds[0].named.inner.flag",
                "must be true or false",
            ),
            (r#"{"kinds": [{"one": [{"flag": true}, {}]}]}"#, "kinds[0].one[1].flag", "is missing"),
            (r#"{"kinds": [], "free": {"a": 1, "a": 2}}"#, "free.`a`", "appears twice"),
            (
                r#"{"kinds": [], "free": {"secret": 0.5}}"#,
                "free.`sec...` (6 bytes)",
                "must be a whole number from -32768 to 32767",
            ),
            (r#"{"kinds": [], "free": null}"#, "free", "must be an object"),
            (r#"{"kinds": [], "number": "secret"}"#, "number", "must be a number"),
            (r#"{"kinds": [], "secret": {}}"#, "`sec...` (6 bytes)", "unknown field"),
            ("{}", "kinds", "is missing"),
        ] {
            let found = unread(text, ShowNames::Shortened);
            assert_eq!((found.place.as_str(), found.why.as_str(), found.is_json), (place, why, true), "{text}");
            assert!(found.line == 1 && !format!("{found:?}").contains("secret"), "{found:?}");
        }
        assert_eq!(unread(r#"{"kinds": [], "secret": {}}"#, ShowNames::Whole).place, "secret");
    }

    #[test]
    fn invalid_json_is_reported_with_its_position() {
        for (text, place, why, at) in [
            ("", "", "EOF while parsing a value", (1, 0)),
            ("{", "", "EOF while parsing an object", (1, 1)),
            ("{\n\"kinds\": [}", "kinds[0]", "expected value", (2, 11)),
            (r#"{"kinds": []} x"#, "", "trailing characters", (1, 15)),
            (r#"{"kinds": [], "number": 1e999}"#, "number", "number out of range", (1, 29)),
        ] {
            let found = unread(text, ShowNames::Whole);
            assert_eq!((found.place.as_str(), found.why.as_str(), found.is_json), (place, why, false), "{text}");
            assert_eq!((found.line, found.column), at, "{text}");
        }
    }

    #[test]
    fn a_text_that_becomes_too_many_values_is_refused_before_it_does() {
        fn count<T: DeserializeOwned>(element: &str, count: usize) -> Result<usize, StrictError> {
            let list = format!("[{}]", vec![element; count].join(","));
            read::<Vec<T>>(list.as_bytes(), ShowNames::Whole).map(|read| read.len())
        }
        let room = |each: usize| PLAN_MEMORY_MAX / (size_of::<Value>() + each);
        let (maps, structs, numbers) = (room(map_bytes(1)), room(256), room(0));
        let fits = [count::<BTreeMap<String, u8>>(r#"{"a":1}"#, maps), count::<Inner>(r#"{"flag":true}"#, structs)];
        assert_eq!(fits, [Ok(maps), Ok(structs)]);
        assert_eq!(count::<u8>("1", numbers), Ok(numbers));
        let refused = [
            count::<BTreeMap<String, u8>>(r#"{"a":1}"#, maps + 1),
            count::<Inner>(r#"{"flag":true}"#, structs + 1),
            count::<u8>("1", numbers + 1),
        ];
        for refused in refused.map(Result::unwrap_err) {
            assert_eq!(refused.why, "is too much: the whole takes more than 32 MiB of memory", "{}", refused.place);
            assert!(refused.is_json && refused.place.starts_with('['), "{}", refused.place);
        }
        let fields: Vec<_> = (0..320_000).map(|number| format!(r#""{number}":1"#)).collect();
        let wide = format!("{{{}}}", fields.join(","));
        assert!(read::<BTreeMap<String, u8>>(wide.as_bytes(), ShowNames::Whole).is_err(), "a map of many fields");
    }
}
