//! Who is called because of an effect: what it did, what it remembers, and what the promises say about each call.

use std::collections::BTreeSet;

use hookonce_protocol::destination::Class;
use hookonce_protocol::time::Millis;

use super::rule::Rule;

/// A document of the one destination that the model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    /// The promise.
    pub class: Class,
    /// The callee's identity, as the protocol sees it.
    pub callee: &'static str,
    /// The server that is really called.
    pub server: u8,
    /// For a key that it knows, the callee says only that it did this before.
    pub answers_done_before: bool,
}

impl Document {
    /// How long its callee honours a key.
    pub(super) fn window(&self) -> Option<Millis> {
        match self.class {
            Class::Keyed { window } => Some(window),
            Class::AtMostOnce | Class::AtLeastOnce => None,
        }
    }
}

/// Everything that was called.
pub(super) type Callees = Vec<Calls>;

/// How the calls of one effect ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Calls {
    /// How often it was done.
    pub(super) done: u8,
    /// How many calls may have been done.
    made: u8,
    /// How many further calls persons accepted.
    pub(super) accepted: u8,
    /// The first call that may have been done, since a person last accepted another one.
    pub(super) doubt: Option<Doubt>,
    /// The keys that callees remember.
    known: Vec<Known>,
    /// The keys of which the protocol knows that their callee refused them.
    spent: BTreeSet<u8>,
}

/// Calls that may have been done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Doubt {
    /// When the first of them was made.
    since: i64,
    /// Under which documents they were made.
    documents: BTreeSet<u8>,
}

/// A key that a callee remembers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Known {
    server: u8,
    key: u8,
    /// Since when.
    at: i64,
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneCall<'a> {
    /// When its bytes arrive.
    pub(super) now: i64,
    /// The number of its key.
    pub(super) key: u8,
    /// The document under which it is made, by its place.
    pub(super) document: u8,
    /// All documents of the destination.
    pub(super) documents: &'a [Option<Document>],
}

impl OneCall<'_> {
    fn at(&self, document: u8) -> Document {
        self.documents[usize::from(document)].expect("nobody calls what has no document")
    }
}

impl Calls {
    /// The rule that a call breaks by being made.
    pub(super) fn refuses(&self, call: OneCall<'_>) -> Option<Rule> {
        if self.spent.contains(&call.key) {
            return Some(Rule::SpentKey);
        }
        let current = call.at(call.document);
        if current.class == Class::AtMostOnce && self.made > self.accepted {
            return Some(Rule::Recalled);
        }
        let doubt = self.doubt.as_ref()?;
        let mut all = doubt.documents.iter().map(|document| call.at(*document)).chain([current]);
        let over = |window: Millis| call.now > doubt.since + window.0;
        all.find_map(|document| match document.class {
            Class::AtMostOnce => (self.made > self.accepted).then_some(Rule::Recalled),
            Class::Keyed { .. } if document.callee != current.callee => Some(Rule::Recalled),
            Class::Keyed { window } => over(window).then_some(Rule::Outside),
            // It has no promise to break, whoever is called next; `current` has its own.
            Class::AtLeastOnce => matches!(current.class, Class::Keyed { .. }).then_some(Rule::Recalled),
        })
    }

    /// A call was made that may have been done. `guarded` says that its pass still stands. A person who accepts another
    /// call takes the pass away, even from a call under way, which then counts as accepted.
    pub(super) fn doubtful(&mut self, call: OneCall<'_>, guarded: bool) {
        // Beyond that, more calls make no difference.
        self.made = (self.made + 1).min(self.accepted + 2);
        if !guarded && self.accepted > 0 {
            return;
        }
        let doubt = self.doubt.get_or_insert_with(|| Doubt { since: call.now, documents: BTreeSet::new() });
        doubt.documents.insert(call.document);
    }

    /// Whether the callee answers that it did this before: it knows the key, or at the first call it means something
    /// else.
    pub(super) fn answers_done_before(&self, call: OneCall<'_>, means_else: bool) -> bool {
        let document = call.at(call.document);
        let knows = |known: &Known| (known.server, known.key) == (document.server, call.key);
        document.answers_done_before && if means_else { self.made == 0 } else { self.known.iter().any(knows) }
    }

    /// The callee does what it is asked for, unless it knows the key. Returns the rule that this breaks.
    pub(super) fn work(&mut self, call: OneCall<'_>) -> Option<Rule> {
        let document = call.at(call.document);
        if let Some(window) = document.window() {
            self.known.retain(|known| call.now <= known.at + window.0);
            if self.known.iter().any(|known| (known.server, known.key) == (document.server, call.key)) {
                return None;
            }
            self.known.push(Known { server: document.server, key: call.key, at: call.now });
        }
        // Where it may be done any number of times, more than once or more than twice makes no difference.
        self.done = (self.done + 1).min(self.accepted + 3);
        let promised = document.class != Class::AtLeastOnce;
        (promised && self.done > 1 + self.accepted).then_some(Rule::DoneTwice)
    }

    /// A person accepts one more call.
    pub(super) fn accept(&mut self) {
        self.accepted += 1;
        self.doubt = None;
    }

    /// The protocol has noted that the callee refused this key.
    pub(super) fn spend(&mut self, key: u8) {
        self.spent.insert(key);
    }

    /// The next moment after `now` at which a callee forgets a key of this effect, or the window of its first call is
    /// over.
    pub(super) fn forgets(&self, now: i64, documents: &[Option<Document>]) -> Option<i64> {
        let windows = documents.iter().flatten().filter_map(Document::window);
        let starts = || self.known.iter().map(|known| known.at).chain(self.doubt.iter().map(|doubt| doubt.since));
        let ends = windows.flat_map(|window| starts().map(move |start| start + window.0 + 1));
        ends.filter(|end| *end > now).min()
    }
}
