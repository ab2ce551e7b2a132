//! What a provider's signature covers, in one word for each part of a request.

use serde::Serialize;

use crate::provider::{Provider, SchemeEntry};
use crate::source::Source;

/// How much of a part is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Nothing: whoever holds one delivery can change it.
    No,
    /// Only some values.
    Part,
    /// All of it.
    Yes,
}

impl Extent {
    /// As one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Part => "part",
            Self::Yes => "yes",
        }
    }

    fn of(is_signed: bool) -> Self {
        if is_signed { Self::Yes } else { Self::No }
    }
}

/// What the signature of every scheme that an endpoint takes without being told covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The body.
    pub body: Extent,
    /// The dedup key.
    pub id: Extent,
    /// The time of sending.
    pub time: Extent,
    /// The event type.
    #[serde(rename = "type")]
    pub event_type: Extent,
    /// The URL that was called.
    pub url: Extent,
}

impl Coverage {
    /// Every part with its name.
    pub const fn parts(&self) -> [(&'static str, Extent); 5] {
        [("body", self.body), ("id", self.id), ("time", self.time), ("type", self.event_type), ("URL", self.url)]
    }
}

impl Provider {
    /// What is signed. Where a provider has several schemes, the least counts.
    pub fn coverage(&self) -> Coverage {
        let taken = || self.schemes.iter().filter(|entry| !entry.only_if_listed);
        let least = |of: &dyn Fn(&SchemeEntry) -> Extent| taken().map(of).min().unwrap_or(Extent::No);
        Coverage {
            body: least(&|entry| self.body_coverage(entry)),
            id: Extent::of(self.key_is_signed()),
            time: least(&|entry| Extent::of(entry.scheme.kind().covers_time())),
            event_type: least(&|entry| Extent::of(self.types_of(entry).all(|source| covers(entry, source)))),
            url: least(&|entry| Extent::of(entry.scheme.kind().covers_url())),
        }
    }

    /// The body counts as signed in part when values that matter are signed in it.
    fn body_coverage(&self, entry: &SchemeEntry) -> Extent {
        let keys = self.item_rules.iter().flat_map(|rule| &rule.key).chain(self.keys_of(entry));
        let mut sources = keys.flat_map(|rule| &rule.0).chain(self.types_of(entry));
        if covers(entry, &Source::Sha256) {
            Extent::Yes
        } else if sources.any(|source| source.is_of_body() && covers(entry, source)) {
            Extent::Part
        } else {
            Extent::No
        }
    }
}

fn covers(entry: &SchemeEntry, source: &Source) -> bool {
    entry.scheme.kind().covers(source)
}
