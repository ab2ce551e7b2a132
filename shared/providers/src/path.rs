//! Paths into a JSON body, in the form of a catalog file: `$.data.id`, `$["event-data"].id`, `$.entry[*].id`, `@.id`.

use std::fmt;

use crate::json::{JsonError, Node};
use crate::limits::PATH_SEGMENTS_MAX;

/// What a path starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// `$`: the whole body.
    Body,
    /// `@`: the event that is being read out of a batch.
    Item,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `.name` or `["name"]`.
    Member(String),
    /// `[0]`.
    Index(usize),
    /// `[*]`; only in the path of `items`.
    Each,
}

/// A parsed path. Its length is limited, and so is the depth to which it reads a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) root: Root,
    pub(crate) segments: Vec<Segment>,
}

impl Path {
    /// Reads a path; the error is a sentence for the author of a catalog file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let root = match text.chars().next() {
            Some('$') => Root::Body,
            Some('@') => Root::Item,
            _ => return Err(format!("the path `{text}` must start with `$` (the body) or `@` (one item)")),
        };
        let mut rest = text.get(1..).unwrap_or_default();
        let mut segments = Vec::new();
        while !rest.is_empty() {
            let (segment, after) =
                segment(rest).ok_or_else(|| format!("the path `{text}` cannot be read at `{rest}`"))?;
            segments.push(segment);
            rest = after;
        }
        if segments.len() > PATH_SEGMENTS_MAX {
            return Err(format!("the path `{text}` has more than {PATH_SEGMENTS_MAX} steps"));
        }
        Ok(Self { root, segments })
    }

    /// True when the path names many values.
    pub(crate) fn has_each(&self) -> bool {
        self.segments.contains(&Segment::Each)
    }

    /// The node that the path leads to from `start`, if any.
    pub(crate) fn find<'a>(&self, start: Node<'a>) -> Result<Option<Node<'a>>, JsonError> {
        find(&self.segments, start)
    }
}

/// The node that these steps lead to from `start`, if any.
pub(crate) fn find<'a>(segments: &[Segment], start: Node<'a>) -> Result<Option<Node<'a>>, JsonError> {
    let mut node = start;
    for segment in segments {
        let next = match segment {
            Segment::Member(name) => node.members()?.into_iter().find(|(key, _)| key == name).map(|(_, value)| value),
            Segment::Index(index) => node.elements()?.into_iter().nth(*index),
            Segment::Each => None,
        };
        let Some(next) = next else { return Ok(None) };
        node = next;
    }
    Ok(Some(node))
}

/// The first step of `rest` and what follows it.
fn segment(rest: &str) -> Option<(Segment, &str)> {
    if let Some(rest) = rest.strip_prefix('.') {
        let length = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(length)?;
        return (!name.is_empty()).then(|| (Segment::Member(name.to_owned()), after));
    }
    if let Some(rest) = rest.strip_prefix("[\"") {
        let (name, after) = rest.split_once("\"]")?;
        return (!name.is_empty()).then(|| (Segment::Member(name.to_owned()), after));
    }
    let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
    match inside {
        "*" => Some((Segment::Each, after)),
        index => Some((Segment::Index(index.parse().ok()?), after)),
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.root {
            Root::Body => "$",
            Root::Item => "@",
        })?;
        for segment in &self.segments {
            match segment {
                Segment::Member(name) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                    write!(formatter, ".{name}")?;
                }
                Segment::Member(name) => write!(formatter, "[\"{name}\"]")?,
                Segment::Index(index) => write!(formatter, "[{index}]")?,
                Segment::Each => formatter.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_and_prints_the_same() {
        for text in ["$", "$.id", "$[\"event-data\"].id", "$.entry[0].changes[*].value", "@.message.mid"] {
            assert_eq!(Path::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_malformed_path_is_named_in_its_error() {
        for text in ["id", "", "$.", "$.a..b", "$[", "$[x]", "$[\"a]", "$id"] {
            assert!(Path::parse(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn a_path_has_a_limited_number_of_steps() {
        assert!(Path::parse(&format!("${}", ".a".repeat(PATH_SEGMENTS_MAX))).is_ok());
        assert!(Path::parse(&format!("${}", ".a".repeat(PATH_SEGMENTS_MAX + 1))).unwrap_err().contains("12 steps"));
    }

    #[test]
    fn a_path_finds_what_is_there_and_nothing_else() {
        let root = Node::parse(br#"{"a":[{"b":null},{"b":"x"}]}"#).unwrap();
        let found = |path: &str| Path::parse(path).unwrap().find(root).unwrap().map(|node| node.text().to_owned());
        assert_eq!(found("$.a[1].b").as_deref(), Some("\"x\""));
        assert_eq!(found("$.a[0].b").as_deref(), Some("null"));
        assert_eq!(found("$.a[2].b"), None);
        assert_eq!(found("$.a.b"), None);
    }
}
