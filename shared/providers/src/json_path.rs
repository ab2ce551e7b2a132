//! A path to one scalar of a JSON body, for whoever names a fact by it.

use crate::json::Node;
use crate::path::{Path, Root};

/// A path from the body to one value: `$.data.object.id`, `$["event-data"].id`, `$.entry[0].id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Path);

/// Why a text is no such path. It is a sentence for the path's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// [`JsonPathError`] when it is no path, does not start from the body, or names many values.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let path = Path::parse(text).map_err(JsonPathError)?;
        if path.root != Root::Body || path.has_each() {
            return Err(JsonPathError(format!(
                "the path `{text}` must start with `$` and name one value, without `[*]`"
            )));
        }
        Ok(Self(path))
    }

    /// The text of the string, number or boolean that the path leads to, with every digit as it was written. `None` if
    /// the body is no JSON, the path leads nowhere, to null, to an object or array, or through an object that has one
    /// name twice.
    pub fn scalar(&self, body: &[u8]) -> Option<String> {
        self.0.find(Node::parse(body).ok()?).ok()??.scalar()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_keeps_its_digits_and_nothing_else_has_a_text() {
        let body = br#"{"a":{"id":18446744073709551617,"n":-0.10,"t":"x\n","no":null,"f":true,"s":""},"l":["y"],"a.b":1,"d":{"i":1,"i":2}}"#;
        for (path, scalar) in [
            ("$.a.id", Some("18446744073709551617")),
            ("$.a.n", Some("-0.10")),
            ("$.a.t", Some("x\n")),
            ("$.a.f", Some("true")),
            ("$.a.s", Some("")),
            ("$.l[0]", Some("y")),
            ("$[\"a.b\"]", Some("1")),
            ("$.a.no", None),
            ("$.a", None),
            ("$.l", None),
            ("$.l[1]", None),
            ("$.z.id", None),
            ("$.d.i", None),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().scalar(body).as_deref(), scalar, "{path}");
        }
        assert_eq!(JsonPath::parse("$.a").unwrap().scalar(b"a=1"), None);
    }

    #[test]
    fn a_path_that_names_no_one_value_of_the_body_is_refused() {
        for text in ["", "id", "@.id", "$.a[*].id", "$.", "$..id"] {
            assert!(JsonPath::parse(text).unwrap_err().to_string().contains(text), "{text}");
        }
    }
}
