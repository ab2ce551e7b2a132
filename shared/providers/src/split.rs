//! Reads the events of a delivery, only from its body and kept headers.
//!
//! This never fails. A verified delivery is authentic, and the provider may send it only once, so it is kept even if it
//! has no id or cannot be read. [`EventPart::fallback`] says so.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{EventKey, EventPart, Fallback, UNKNOWN_EVENT_TYPE, UNREADABLE_EVENT_TYPE};
use crate::items::{Expansion, FoundEvent, Kind, Read, Remainder};
use crate::json::{Node, compact_sha256};
use crate::key::{KeyRule, joined};
use crate::limits::{EVENTS_MAX, KEY_BYTES_MAX};
use crate::provider::{ItemRule, Provider};
use crate::source::{Facets, Source};
use crate::template::TextTemplate;
use sha2::{Digest, Sha256};

impl Provider {
    /// The events of a verified delivery, at least one: one for most providers, several for those that batch.
    ///
    /// `headers` are the kept headers of the delivery, names in lower case. The parts come back the same whether they
    /// are taken from the delivery or from one of their own bodies. There is never an empty key.
    pub fn split(&self, body: &[u8], headers: &BTreeMap<String, String>) -> Vec<EventPart> {
        let facets = Facets::new(body, headers).retried_with(&self.retry_changes);
        if !self.batches() {
            return vec![self.single(body, &facets)];
        }
        let parts = match self.lines(body) {
            Some(lines) => self.line_parts(&lines, headers),
            None => self.document_parts(&facets, headers),
        };
        parts.unwrap_or_else(|fallback| vec![unreadable(EventKey::Event, body, &facets, fallback)])
    }

    /// The event that the whole delivery is.
    fn single(&self, body: &[u8], facets: &Facets<'_>) -> EventPart {
        let rules = || self.schemes.iter().map(|entry| (self.keys_of(entry), self.events_of(entry)));
        let mut identified = rules().filter_map(|(keys, events)| Some((first_key(keys, None, facets)?, events)));
        let (key, events) = match identified.next() {
            Some((key, events)) => (Some(key), first_event(events, facets)),
            None => (None, rules().find_map(|(_, events)| first_event(events, facets))),
        };
        let is_lost = key.is_none() || events.is_none();
        let is_broken = !self.document.is_empty() && !self.document.iter().any(|place| facets.holds_a_document(place));
        if is_broken || is_lost && rules().any(|(keys, events)| wants_a_document(keys, events, facets)) {
            return EventPart {
                key: EventKey::Delivery(key.map_or_else(|| hash_key(facets.sha256()), |key| key.text)),
                ..unreadable(EventKey::Delivery, body, facets, Fallback::BodyUnreadable)
            };
        }
        let key = key.unwrap_or_else(|| FoundKey::hashed(facets.sha256(), Fallback::IdMissing));
        EventPart {
            key: EventKey::Delivery(key.text),
            event_type: events.unwrap_or_else(|| UNKNOWN_EVENT_TYPE.to_owned()),
            body: body.to_vec(),
            sha256: facets.sha256(),
            fallback: key.fallback,
        }
    }

    /// The lines of a body with one object per line, or its single object; `None` for an array.
    fn lines<'a>(&self, body: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let text = body.trim_ascii();
        if !self.lines || text.starts_with(b"[") {
            return None;
        }
        if Node::parse(text).is_ok() {
            return Some(vec![text]);
        }
        Some(text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).collect())
    }

    fn line_parts(&self, lines: &[&[u8]], headers: &BTreeMap<String, String>) -> Result<Vec<EventPart>, Fallback> {
        let rule = self.item_rules.first().ok_or(Fallback::BodyUnreadable)?;
        let object = |line: &[u8]| Node::parse(line).is_ok_and(|node| node.is_object());
        // Alone, a line with a bracket would be read as an array.
        if !lines.iter().any(|line| object(line)) || lines.iter().any(|line| line.starts_with(b"[")) {
            return Err(Fallback::BodyUnreadable);
        }
        if lines.len() > EVENTS_MAX {
            return Err(Fallback::TooManyEvents);
        }
        let parts = lines.iter().map(|line| match Node::parse(line) {
            Ok(node) if node.is_object() => {
                let facets = Facets::new(line, headers).retried_with(&self.retry_changes).at_item(node, line);
                let canonical = |changed: &[usize]| Sha256::digest(node.canonical_without(changed)).into();
                Self::event_part(rule, None, &facets, line.to_vec(), canonical)
            }
            _ => unreadable(EventKey::Event, line, &Facets::new(line, headers), Fallback::BodyUnreadable),
        });
        Ok(without_twins(parts))
    }

    fn document_parts(
        &self,
        facets: &Facets<'_>,
        headers: &BTreeMap<String, String>,
    ) -> Result<Vec<EventPart>, Fallback> {
        let root = facets.root().map_err(|_| Fallback::BodyUnreadable)?;
        if facets.is_no_document() || !(root.is_object() || root.is_array()) {
            return Err(Fallback::BodyUnreadable);
        }
        let read = self.item_tree.read(root)?;
        let found = read.events()?;
        if found.is_empty() {
            return Ok(vec![self.whole(facets.body().to_vec(), headers, read.remainder())]);
        }
        self.parts(&read, &found, facets, headers)
    }

    /// What is no event of a batch, such as an account update from a provider that batches messages. Most have no id.
    ///
    /// Its hash ignores white space between tokens, because pruning removes brackets and the white space around them.
    /// So the event has the same hash alone and among others.
    ///
    /// Many providers also send what is no event of a batch. The catalog names its type; without one, an array of
    /// events may have been renamed.
    fn whole(&self, body: Vec<u8>, headers: &BTreeMap<String, String>, kind: Remainder) -> EventPart {
        let facets = Facets::new(&body, headers);
        let event_type = first_event(&self.event, &facets);
        let key = first_key(&self.key, None, &facets);
        let sha256 = compact_sha256(&body);
        let fallback = match kind {
            Remainder::Unreadable => Some(Fallback::PartUnreadable),
            Remainder::Other if event_type.is_none() => Some(Fallback::EventsMissing),
            Remainder::Other | Remainder::Empty => key.as_ref().and_then(|key| key.fallback),
        };
        EventPart {
            key: EventKey::Event(key.map_or_else(|| hash_key(sha256), |key| key.text)),
            event_type: event_type.unwrap_or_else(|| UNKNOWN_EVENT_TYPE.to_owned()),
            body,
            sha256,
            fallback,
        }
    }

    fn parts<'a>(
        &self,
        read: &Read<'a>,
        found: &[FoundEvent<'a>],
        facets: &Facets<'a>,
        headers: &BTreeMap<String, String>,
    ) -> Result<Vec<EventPart>, Fallback> {
        let mut parts = Vec::with_capacity(found.len());
        let mut expansion = Expansion::new();
        for item in found {
            let body = read.prune(item).into_bytes();
            expansion.add(body.len())?;
            let rule = match item.kind {
                Kind::Event(rule) => self.item_rules.get(rule).ok_or(Fallback::BodyUnreadable)?,
                Kind::Remainder(kind) => {
                    parts.push(self.whole(body, headers, kind));
                    continue;
                }
            };
            let canonical = |changed: &[usize]| item.canonical_sha256(changed);
            let applies = || first_event(&self.prefix, &Facets::new(&body, headers));
            let prefix = rule.prefix.clone().or_else(applies);
            parts.push(Self::event_part(rule, prefix, &facets.at_item(item.node, &body), body, canonical));
        }
        Ok(without_twins(parts))
    }

    /// One event of a batch; `facets` look at it. Without an id, its key is the hash of its place and its canonical
    /// form: the same words in two places are two facts. What a retry changes is no part of it. A prefix stands before
    /// key and type, such as that of a message that another app handles.
    fn event_part(
        rule: &ItemRule,
        prefix: Option<String>,
        facets: &Facets<'_>,
        body: Vec<u8>,
        canonical: impl Fn(&[usize]) -> [u8; 32],
    ) -> EventPart {
        let hashed = || {
            let changed: Vec<_> = facets.changed().map(|node| node.start()).collect();
            Sha256::digest([rule.path.as_bytes(), b"\n", &canonical(&changed)].concat()).into()
        };
        let key = first_key(&rule.key, prefix.as_deref(), facets);
        let key = key.unwrap_or_else(|| FoundKey::hashed(hashed(), Fallback::IdMissing));
        let event_type = first_event(&rule.event, facets).unwrap_or_else(|| UNKNOWN_EVENT_TYPE.to_owned());
        EventPart {
            key: EventKey::Event(key.text),
            event_type: prefix.map_or_else(|| event_type.clone(), |prefix| format!("{prefix}.{event_type}")),
            body,
            sha256: facets.sha256(),
            fallback: key.fallback,
        }
    }
}

/// The same event twice is one event. Two texts under one key are both kept; the store decides.
fn without_twins(parts: impl IntoIterator<Item = EventPart>) -> Vec<EventPart> {
    let mut seen = BTreeSet::new();
    parts.into_iter().filter(|part| seen.insert((part.key.clone(), part.sha256))).collect()
}

/// A body, or a line of one, that cannot be read.
fn unreadable(kind: fn(String) -> EventKey, body: &[u8], facets: &Facets<'_>, fallback: Fallback) -> EventPart {
    let sha256 = facets.sha256();
    EventPart {
        key: kind(hash_key(sha256)),
        event_type: UNREADABLE_EVENT_TYPE.to_owned(),
        body: body.to_vec(),
        sha256,
        fallback: Some(fallback),
    }
}

/// The key of an event, and what was missing in it.
struct FoundKey {
    text: String,
    fallback: Option<Fallback>,
}

impl FoundKey {
    fn hashed(sha256: [u8; 32], fallback: Fallback) -> Self {
        Self { text: hash_key(sha256), fallback: Some(fallback) }
    }
}

fn hash_key(sha256: [u8; 32]) -> String {
    format!("sha256:{}", hex::encode(sha256))
}

fn first_key(rules: &[KeyRule], prefix: Option<&str>, facets: &Facets<'_>) -> Option<FoundKey> {
    let text = rules.iter().find_map(|rule| rule.key(facets))?;
    let text = match prefix {
        Some(prefix) => joined(&[prefix.to_owned(), text]),
        None => text,
    };
    Some(if text.len() > KEY_BYTES_MAX {
        FoundKey::hashed(Sha256::digest(text).into(), Fallback::IdTooLong)
    } else {
        FoundKey { text, fallback: None }
    })
}

fn first_event(templates: &[TextTemplate], facets: &Facets<'_>) -> Option<String> {
    let mut events = templates.iter().filter_map(|template| template.render(facets));
    events.find(|event| event.len() <= KEY_BYTES_MAX)
}

/// True when these rules need a document, and the body is neither JSON nor a form: one with a field of theirs, or, where
/// they have fields, one that was sent as a form.
fn wants_a_document(keys: &[KeyRule], events: &[TextTemplate], facets: &Facets<'_>) -> bool {
    let sources = || keys.iter().flat_map(|rule| &rule.0).chain(events.iter().flat_map(TextTemplate::sources));
    let wants = sources().any(Source::needs_structure);
    let is_form = || {
        let mut fields = sources().filter(|source| source.is_of_form()).peekable();
        fields.peek().is_some() && facets.is_sent_as_form() || fields.any(|source| facets.is_present(source))
    };
    wants && facets.is_no_document() && !is_form()
}
