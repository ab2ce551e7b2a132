//! Addresses within the console, below the address that its pages name as their base. Only the functions here make one,
//! out of parts that were parsed, so no text of a sender can lead a person elsewhere.

use hookonce_protocol::key::RecordKey;
use maud::Render;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What means nothing in an address stays as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// An address within the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Href(String);

impl Render for Href {
    fn render_to(&self, buffer: &mut String) {
        self.0.render_to(buffer);
    }
}

impl Href {
    /// The same as text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The same with one more pair of its query.
    pub(super) fn with(&self, name: &'static str, value: &str) -> Self {
        let mark = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{mark}{name}={}", self.0, encoded(value)))
    }
}

fn encoded(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

/// A page or a file of the console.
pub(super) fn page(path: &'static str) -> Href {
    Href(path.to_owned())
}

/// The page of an order, or a part of it.
pub(super) fn order(number: u64, part: &'static str) -> Href {
    Href(format!("orders/{number}{part}"))
}

/// What stands before a key that a browser would take for a step in the path.
const KEY_MARK: char = '~';

/// The page of a record.
pub(super) fn record(key: &RecordKey) -> Href {
    let (endpoint, own) = key.parts();
    let is_marked = [".", ".."].contains(&own) || own.starts_with(KEY_MARK);
    let mark = if is_marked { KEY_MARK.to_string() } else { String::new() };
    Href(format!("records/{}/{mark}{}", encoded(endpoint), encoded(own)))
}

/// The key that a part of an address stands for.
pub(super) fn key_of(part: &str) -> &str {
    part.strip_prefix(KEY_MARK).unwrap_or(part)
}

/// What belongs to the page of a record, such as its body.
pub(super) fn of_record(key: &RecordKey, part: &'static str) -> Href {
    Href(format!("{}/{part}", record(key).0))
}

/// The records that pass a filter, by the names of the command's options.
pub(super) fn records<'a>(filter: impl IntoIterator<Item = (&'static str, &'a str)>) -> Href {
    let given = filter.into_iter().filter(|(_, value)| !value.is_empty());
    given.fold(page("records"), |href, (name, value)| href.with(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_address_leaves_its_place() {
        let key = RecordKey::parse("in#stripe#a/../b?c=d&e=\"f>").unwrap();
        assert_eq!(record(&key).0, "records/stripe/a%2F..%2Fb%3Fc%3Dd%26e%3D%22f%3E");
        for own in [".", "..", "~", "~.", "a.b"] {
            let href = record(&RecordKey::parse(&format!("in#stripe#{own}")).unwrap()).0;
            let part = href.strip_prefix("records/stripe/").unwrap();
            assert!(part != "." && part != ".." && key_of(part) == own, "{href}");
        }
        assert_eq!(records([("state", "DEAD"), ("type", ""), ("error", "a&b")]).0, "records?state=DEAD&error=a%26b");
    }
}
