//! Reads JSON without changing it. Each node knows its bytes in the document.
//!
//! An event that is taken out of a batch keeps every byte of its text. Numbers and strings are therefore never parsed
//! and printed again; a [`Node`] is a slice of the document together with its place in it.

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::limits::{JSON_DEPTH_MAX, UNPROVEN_WIDTH_MAX};
use crate::work;

/// Why a body could not be read as JSON. It contains nothing of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("the body is not JSON, or has more parts than are read")]
    NotJson,
    #[error("the body is nested too deeply")]
    TooDeep,
    #[error("an object in the body has one key twice")]
    DuplicateKey,
}

/// One JSON value: its text and the offset of that text in the document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    text: &'a str,
    start: usize,
    /// Most members or elements that are read of this node and of each node below it.
    width_max: usize,
}

impl<'a> Node<'a> {
    /// Reads a whole document of a known sender. The text is checked once here; nodes below it are valid JSON.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, JsonError> {
        Self::parse_within(body, usize::MAX)
    }

    /// Reads a whole document before its sender is known. An object or array with more than [`UNPROVEN_WIDTH_MAX`]
    /// parts cannot be read, because each part takes memory.
    pub(crate) fn parse_unproven(body: &'a [u8]) -> Result<Self, JsonError> {
        Self::parse_within(body, UNPROVEN_WIDTH_MAX)
    }

    fn parse_within(body: &'a [u8], width_max: usize) -> Result<Self, JsonError> {
        work::parsed(body.len());
        let text = std::str::from_utf8(body).map_err(|_| JsonError::NotUtf8)?;
        if depth(body) > JSON_DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        let raw: &RawValue = serde_json::from_str(text).map_err(|_| JsonError::NotJson)?;
        Ok(Self { text: raw.get(), start: offset(text, raw.get()), width_max })
    }

    pub(crate) const fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) const fn start(&self) -> usize {
        self.start
    }

    pub(crate) const fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    pub(crate) fn is_array(&self) -> bool {
        self.text.starts_with('[')
    }

    /// The members of an object in their order; none when this is not an object.
    pub(crate) fn members(&self) -> Result<Vec<(String, Node<'a>)>, JsonError> {
        let members = self.all_members()?;
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let unique = names.len();
        names.dedup();
        if names.len() != unique {
            return Err(JsonError::DuplicateKey);
        }
        Ok(members)
    }

    /// The members of an object in their order, even if a name comes twice.
    fn all_members(&self) -> Result<Vec<(String, Node<'a>)>, JsonError> {
        if !self.is_object() {
            return Ok(Vec::new());
        }
        work::parsed(self.text.len());
        let members = serde_json::Deserializer::from_str(self.text)
            .deserialize_map(MembersVisitor { most: self.width_max })
            .map_err(|_| JsonError::NotJson)?;
        Ok(members.into_iter().map(|(name, raw)| (name, self.child(raw))).collect())
    }

    /// The elements of an array in their order; none when this is not an array.
    pub(crate) fn elements(&self) -> Result<Vec<Node<'a>>, JsonError> {
        if !self.is_array() {
            return Ok(Vec::new());
        }
        work::parsed(self.text.len());
        let elements = serde_json::Deserializer::from_str(self.text)
            .deserialize_seq(ElementsVisitor { most: self.width_max })
            .map_err(|_| JsonError::NotJson)?;
        Ok(elements.into_iter().map(|raw| self.child(raw)).collect())
    }

    /// The text of a string, number or boolean; nothing for null, arrays and objects.
    pub(crate) fn scalar(&self) -> Option<String> {
        match self.text.as_bytes().first()? {
            b'"' => serde_json::from_str(self.text).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(self.text.to_owned()),
        }
    }

    /// The canonical text of a value: members sorted by name, no white space between tokens, every string escaped in
    /// one way. Numbers keep their digits, because a number that is read and printed again may become another one.
    /// Members and elements that start at one of these places of the document are left out.
    pub(crate) fn canonical_without(&self, left_out: &[usize]) -> String {
        let mut text = String::new();
        self.write_canonical(left_out, &mut text);
        text
    }

    /// The canonical text of an object's members that are neither objects nor arrays.
    pub(crate) fn canonical_scalars(&self) -> String {
        // A name with half of a surrogate pair is no Rust string, so such an object stays as it was written.
        let Ok(mut members) = self.all_members() else { return self.text.to_owned() };
        members.retain(|(_, member)| !member.is_object() && !member.is_array());
        let mut text = String::new();
        write_members(members, &[], &mut text);
        text
    }

    fn write_canonical(&self, left_out: &[usize], out: &mut String) {
        // Half of a surrogate pair is JSON but no Rust string. A string with one, and an object with one in a name,
        // stays as it was written: two of them never become one text.
        if self.is_object() {
            match self.all_members() {
                Ok(members) => write_members(members, left_out, out),
                Err(_) => out.push_str(self.text),
            }
        } else if self.is_array() {
            let Ok(mut elements) = self.elements() else { return out.push_str(self.text) };
            elements.retain(|element| !left_out.contains(&element.start));
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                element.write_canonical(left_out, out);
            }
            out.push(']');
        } else {
            let text = serde_json::from_str::<String>(self.text).ok();
            out.push_str(&text.map_or_else(|| self.text.to_owned(), |text| Value::String(text).to_string()));
        }
    }

    fn child(&self, raw: &'a RawValue) -> Node<'a> {
        Node { text: raw.get(), start: self.start + offset(self.text, raw.get()), ..*self }
    }
}

fn write_members(mut members: Vec<(String, Node<'_>)>, left_out: &[usize], out: &mut String) {
    members.retain(|(_, member)| !left_out.contains(&member.start));
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    out.push('{');
    for (index, (name, member)) in members.into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        out.push_str(&Value::String(name).to_string());
        out.push(':');
        member.write_canonical(left_out, out);
    }
    out.push('}');
}

/// Where `part`, a slice of `whole`, begins in it.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(whole.as_ptr().addr())
}

/// The deepest nesting of brackets outside strings. Counted before any parser sees the text.
fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for byte in outside_strings(body).filter_map(|(byte, outside)| outside.then_some(byte)) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The SHA-256 of a document without the white space between its tokens: the same however it is indented.
pub(crate) fn compact_sha256(json: &[u8]) -> [u8; 32] {
    let space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let kept = outside_strings(json).filter(|(byte, outside)| !(*outside && space(*byte)));
    Sha256::digest(kept.map(|(byte, _)| byte).collect::<Vec<u8>>()).into()
}

/// Each byte, and whether it stands outside strings; their quotation marks do.
fn outside_strings(json: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let (mut in_string, mut escaped) = (false, false);
    json.iter().map(move |byte| {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else {
            in_string = *byte == b'"';
            return (*byte, true);
        }
        (*byte, !in_string)
    })
}

struct MembersVisitor {
    most: usize,
}

impl<'a> Visitor<'a> for MembersVisitor {
    type Value = Vec<(String, &'a RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry::<String, &'a RawValue>()? {
            if members.len() == self.most {
                return Err(A::Error::custom("too many members"));
            }
            members.push(member);
        }
        Ok(members)
    }
}

struct ElementsVisitor {
    most: usize,
}

impl<'a> Visitor<'a> for ElementsVisitor {
    type Value = Vec<&'a RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element::<&'a RawValue>()? {
            if elements.len() == self.most {
                return Err(A::Error::custom("too many elements"));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_knows_its_bytes() {
        let text = r#" { "a" : [ 1.50 , {"b\u0061": "x"} ] } "#;
        let root = Node::parse(text.as_bytes()).unwrap();
        assert_eq!(&text[root.start()..root.end()], root.text());
        let members = root.members().unwrap();
        let elements = members[0].1.elements().unwrap();
        assert_eq!(elements[0].scalar().as_deref(), Some("1.50"));
        assert_eq!(&text[elements[1].start()..elements[1].end()], r#"{"b\u0061": "x"}"#);
        let inner = elements[1].members().unwrap();
        assert_eq!(inner[0].0, "ba");
        assert_eq!(&text[inner[0].1.start()..inner[0].1.end()], "\"x\"");
    }

    #[test]
    fn of_a_stranger_only_so_many_parts_are_read() {
        let list: fn(usize) -> String = |count| format!("[{}]", vec!["1"; count].join(","));
        let object: fn(usize) -> String = |count| {
            let members: Vec<String> = (0..count).map(|index| format!("\"{index}\":1")).collect();
            format!("{{\"within\":{{{}}}}}", members.join(","))
        };
        let width = |text: &str| {
            let root = Node::parse_unproven(text.as_bytes()).unwrap();
            let inner = root.members().unwrap().first().map_or(root, |(_, inner)| *inner);
            Some(inner.members().ok()?.len() + inner.elements().ok()?.len())
        };
        for text in [list, object] {
            assert_eq!(width(&text(UNPROVEN_WIDTH_MAX)), Some(UNPROVEN_WIDTH_MAX));
            assert_eq!(width(&text(UNPROVEN_WIDTH_MAX + 1)), None);
        }
        assert_eq!(Node::parse(list(UNPROVEN_WIDTH_MAX + 1).as_bytes()).unwrap().elements().unwrap().len(), 1_001);
    }

    #[test]
    fn a_key_named_twice_is_refused() {
        let root = Node::parse(br#"{"id":1,"i\u0064":2}"#).unwrap();
        assert_eq!(root.members().unwrap_err(), JsonError::DuplicateKey);
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(Node::parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(Node::parse(nested(JSON_DEPTH_MAX + 1).as_bytes()).unwrap_err(), JsonError::TooDeep);
        assert!(Node::parse(format!("\"{}\"", "[".repeat(500)).as_bytes()).is_ok());
    }

    #[test]
    fn white_space_between_tokens_makes_no_other_document() {
        let compact = compact_sha256(br#"{"a":["x \" , y",1]}"#);
        assert_eq!(compact, compact_sha256(b" {\n\t\"a\" : [ \"x \\\" , y\" ,\r\n 1 ] } "));
        assert_eq!(compact, <[u8; 32]>::from(Sha256::digest(br#"{"a":["x \" , y",1]}"#)));
        assert_ne!(compact, compact_sha256(br#"{"a":["x \", y",1]}"#), "inside a string it is part of the value");
    }

    #[test]
    fn a_canonical_text_depends_on_no_order_white_space_or_escape() {
        let canonical = |text: &str| Node::parse(text.as_bytes()).unwrap().canonical_without(&[]);
        let one = canonical(r#" {"b" : [1.50, "\u00e4\/", null], "a":{"y":true,"x":"\ud800"}} "#);
        assert_eq!(one, r#"{"a":{"x":"\ud800","y":true},"b":[1.50,"ä/",null]}"#);
        assert_eq!(one, canonical(&one), "it is its own canonical text");
        assert_ne!(canonical("18446744073709551617"), canonical("18446744073709551618"), "no digit is lost");
        assert_ne!(
            canonical(r#"{"a":1,"a":2}"#),
            canonical(r#"{"a":2,"a":1}"#),
            "which one counts depends on the order"
        );
        let scalars = Node::parse(br#"{"id":"1","list":[2],"time":3,"object":{}}"#).unwrap().canonical_scalars();
        assert_eq!(scalars, r#"{"id":"1","time":3}"#);
    }
}
