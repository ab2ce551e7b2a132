//! Reads the events of a delivery, only from its body and kept headers.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{EventKey, EventPart, UNKNOWN_EVENT_TYPE};
use crate::items::{Expansion, FoundEvent, ItemError, Read};
use crate::json::{JsonError, Node, compact_sha256};
use crate::key::KeyRule;
use crate::limits::{EVENTS_MAX, EXPANDED_BYTES_MAX, KEY_BYTES_MAX};
use crate::provider::{ItemRule, Provider};
use crate::source::Facets;
use crate::template::TextTemplate;

/// Why the events of a delivery cannot be read. It contains nothing of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The provider sends JSON, but this is not JSON, is nested too deeply, or has a key twice.
    #[error("the body is not a JSON document of the provider's form")]
    Body,
    /// Neither the delivery's id nor an alternative to it is present.
    #[error("an event has no dedup key")]
    KeyMissing,
    /// The id is longer than any that a provider sends.
    #[error("a dedup key is longer than {KEY_BYTES_MAX} bytes")]
    KeyTooLong,
    /// More events than any provider puts into one delivery.
    #[error("the delivery holds more than {EVENTS_MAX} events")]
    TooManyEvents,
    /// Each event keeps what surrounds it, and the sum is too large.
    #[error("the events of the delivery take more than {EXPANDED_BYTES_MAX} bytes")]
    TooLarge,
}

impl From<JsonError> for SplitError {
    fn from(_: JsonError) -> Self {
        Self::Body
    }
}

impl From<ItemError> for SplitError {
    fn from(error: ItemError) -> Self {
        match error {
            ItemError::Json(_) => Self::Body,
            ItemError::TooMany => Self::TooManyEvents,
            ItemError::TooLarge => Self::TooLarge,
        }
    }
}

impl Provider {
    /// The events of a verified delivery: one for most providers, several for those that batch.
    ///
    /// `headers` are the kept headers of the delivery, names in lower case. The parts come back the same whether they
    /// are taken from the delivery or from one of their own bodies.
    ///
    /// # Errors
    /// [`SplitError`] when an event or its key cannot be read. There is never an empty key.
    pub fn split(&self, body: &[u8], headers: &BTreeMap<String, String>) -> Result<Vec<EventPart>, SplitError> {
        let facets = Facets::new(body, headers);
        if !self.batches() {
            let rules = self.schemes.iter().map(|entry| (self.keys_of(entry), self.events_of(entry)));
            for (keys, events) in rules {
                if let Some(key) = first_key(keys, &facets)? {
                    let event_type = first_event(events, &facets)?;
                    let sha256 = facets.sha256();
                    return Ok(vec![EventPart {
                        key: EventKey::Delivery(key),
                        event_type,
                        body: body.to_vec(),
                        sha256,
                    }]);
                }
            }
            return Err(SplitError::KeyMissing);
        }
        if let Some(lines) = self.lines(body) {
            return self.line_parts(&lines, headers);
        }
        let root = facets.root()?;
        if !root.is_object() && !root.is_array() {
            return Err(SplitError::Body);
        }
        let read = self.item_tree.read(root)?;
        let found = read.events()?;
        if found.is_empty() {
            return Ok(vec![self.whole(body.to_vec(), headers)?]);
        }
        self.parts(&read, &found, &facets, headers)
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

    fn line_parts(&self, lines: &[&[u8]], headers: &BTreeMap<String, String>) -> Result<Vec<EventPart>, SplitError> {
        let rule = self.item_rules.first().ok_or(SplitError::Body)?;
        if lines.len() > EVENTS_MAX {
            return Err(SplitError::TooManyEvents);
        }
        let mut parts = Vec::with_capacity(lines.len());
        let mut seen = BTreeSet::new();
        for line in lines {
            let node = Node::parse(line)?;
            if !node.is_object() {
                return Err(SplitError::Body);
            }
            let facets = Facets::new(line, headers).at_item(node, line);
            let part = event_part(rule, &facets, line.to_vec())?;
            if seen.insert((part.key.clone(), part.sha256)) {
                parts.push(part);
            }
        }
        if parts.is_empty() { Err(SplitError::Body) } else { Ok(parts) }
    }

    /// An event without an id, such as an account update from a provider that batches messages.
    ///
    /// Its hash ignores white space between tokens, because pruning removes brackets and the white space around them. So
    /// the event has the same hash alone and among others.
    fn whole(&self, body: Vec<u8>, headers: &BTreeMap<String, String>) -> Result<EventPart, SplitError> {
        let event_type = first_event(&self.event, &Facets::new(&body, headers))?;
        let sha256 = compact_sha256(&body);
        let key = EventKey::Event(format!("sha256:{}", hex::encode(sha256)));
        Ok(EventPart { key, event_type, body, sha256 })
    }

    fn parts<'a>(
        &self,
        read: &Read<'a>,
        found: &[FoundEvent<'a>],
        facets: &Facets<'a>,
        headers: &BTreeMap<String, String>,
    ) -> Result<Vec<EventPart>, SplitError> {
        let mut parts = Vec::with_capacity(found.len());
        let mut seen = BTreeSet::new();
        let mut expansion = Expansion::new();
        for item in found {
            let body = read.prune(item).into_bytes();
            expansion.add(body.len())?;
            let part = match item.rule.and_then(|rule| self.item_rules.get(rule)) {
                None => self.whole(body, headers)?,
                Some(rule) => event_part(rule, &facets.at_item(item.node, &body), body)?,
            };
            // The same event twice is one event. Two texts under one key are both kept; the store decides.
            if seen.insert((part.key.clone(), part.sha256)) {
                parts.push(part);
            }
        }
        Ok(parts)
    }
}

/// One event of a batch; `facets` look at it.
fn event_part(rule: &ItemRule, facets: &Facets<'_>, body: Vec<u8>) -> Result<EventPart, SplitError> {
    let key = first_key(&rule.key, facets)?.ok_or(SplitError::KeyMissing)?;
    let event_type = first_event(&rule.event, facets)?;
    Ok(EventPart { key: EventKey::Event(key), event_type, body, sha256: facets.sha256() })
}

fn first_key(rules: &[KeyRule], facets: &Facets<'_>) -> Result<Option<String>, SplitError> {
    for rule in rules {
        if let Some(key) = rule.key(facets)? {
            return if key.len() > KEY_BYTES_MAX { Err(SplitError::KeyTooLong) } else { Ok(Some(key)) };
        }
    }
    Ok(None)
}

fn first_event(templates: &[TextTemplate], facets: &Facets<'_>) -> Result<String, SplitError> {
    for template in templates {
        if let Some(event) = template.render(facets)?.filter(|event| event.len() <= KEY_BYTES_MAX) {
            return Ok(event);
        }
    }
    Ok(UNKNOWN_EVENT_TYPE.to_owned())
}
