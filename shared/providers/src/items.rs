//! Splits a delivery into its events without changing a byte of any event.
//!
//! The paths of a batching provider form a tree. The body is read along that tree once. This gives the events, and for
//! each of them a *pruned delivery*: the same document, with every array on the way reduced to the one element that
//! leads to the event. A pruned delivery is again a delivery of that provider with exactly that event, so splitting it
//! again changes nothing.

use std::cell::OnceCell;
use std::rc::Rc;

use sha2::{Digest, Sha256};

use crate::event::Fallback;
use crate::json::Node;
use crate::limits::{EVENTS_MAX, EXPANDED_BYTES_MAX};
use crate::path::Segment;

/// What may be at one place of a body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ItemTree {
    /// Members that lead to events.
    members: Vec<(String, ItemTree)>,
    /// The elements of an array that leads to events.
    elements: Option<Box<ItemTree>>,
    /// The rule of the events at this place.
    rule: Option<usize>,
}

impl ItemTree {
    /// Adds the path of one rule. Only members and arrays lead to events.
    pub(crate) fn add(&mut self, path: &[Segment], rule: usize) {
        match path.split_first() {
            None => self.rule = Some(rule),
            Some((Segment::Each, rest)) => self.elements.get_or_insert_default().add(rest, rule),
            Some((Segment::Member(name), rest)) => {
                if let Some((_, branch)) = self.members.iter_mut().find(|(known, _)| known == name) {
                    branch.add(rest, rule);
                } else {
                    let mut branch = Self::default();
                    branch.add(rest, rule);
                    self.members.push((name.clone(), branch));
                }
            }
            // The check of the catalog file has refused this.
            Some((Segment::Index(_), _)) => {}
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.members.is_empty() && self.elements.is_none()
    }

    /// Reads a body along this tree. A part that cannot be read leads to no event.
    pub(crate) fn read<'a>(&self, node: Node<'a>) -> Result<Read<'a>, Fallback> {
        if let Some(rule) = self.rule {
            return Ok(Read { node, shape: Shape::Event(rule) });
        }
        if let Some(tree) = self.elements.as_deref().filter(|_| node.is_array()) {
            let Ok(elements) = node.elements() else { return Ok(Read { node, shape: Shape::Unreadable }) };
            if elements.len() > EVENTS_MAX {
                return Err(Fallback::TooManyEvents);
            }
            let elements = elements.into_iter().map(|element| tree.read(element)).collect::<Result<_, _>>()?;
            return Ok(Read { node, shape: Shape::Array(elements) });
        }
        if self.members.is_empty() || !node.is_object() {
            return Ok(Read { node, shape: Shape::Other });
        }
        let Ok(read) = node.members() else { return Ok(Read { node, shape: Shape::Unreadable }) };
        let mut members = Vec::new();
        for (name, value) in read {
            members.push(match self.members.iter().find(|(known, _)| *known == name) {
                Some((_, tree)) => tree.read(value)?,
                None => Read { node: value, shape: Shape::Other },
            });
        }
        Ok(Read { node, shape: Shape::Object(members) })
    }
}

/// A part of a body that was read along the tree.
pub(crate) struct Read<'a> {
    node: Node<'a>,
    shape: Shape<'a>,
}

enum Shape<'a> {
    /// An event and its rule.
    Event(usize),
    /// An array of events, or of values that lead to them.
    Array(Vec<Read<'a>>),
    /// An object, with all its members in order.
    Object(Vec<Read<'a>>),
    /// Something that does not lead to events.
    Other,
    /// Something that leads to events and cannot be read: an object with one name twice, or with a name that is no
    /// text.
    Unreadable,
}

/// What was found at one place of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An event, and its rule.
    Event(usize),
    /// A part without an event, see [`Read::events`].
    Remainder(Remainder),
}

/// Why a part of a body holds no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remainder {
    /// It has an array of events, and the array is empty.
    Empty,
    /// It has no array of events.
    Other,
    /// It cannot be read, so it may hold some.
    Unreadable,
}

/// One event found in a body: where, and by which rule; or a remainder.
pub(crate) struct FoundEvent<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) kind: Kind,
    /// The elements of arrays that it stands in, from the top, without itself.
    owners: Vec<Rc<Owner<'a>>>,
    /// The index of the member or element taken on the way, from the top.
    choices: Vec<usize>,
}

/// The way from the top of a body to the part that is being read.
#[derive(Default)]
struct Way<'a> {
    choices: Vec<usize>,
    /// The elements of arrays on the way, without the events themselves.
    owners: Vec<Rc<Owner<'a>>>,
}

impl<'a> Way<'a> {
    fn found(&self, node: Node<'a>, kind: Kind) -> FoundEvent<'a> {
        FoundEvent { node, kind, owners: self.owners.clone(), choices: self.choices.clone() }
    }
}

/// An element of an array in which events stand. Its own values are hashed once for all of them.
struct Owner<'a> {
    node: Node<'a>,
    sha256: OnceCell<[u8; 32]>,
}

impl Owner<'_> {
    fn sha256(&self) -> &[u8; 32] {
        self.sha256.get_or_init(|| Sha256::digest(self.node.canonical_scalars()).into())
    }
}

impl FoundEvent<'_> {
    /// The SHA-256 of the event's canonical form: the hash of the plain values of each array element that it stands in,
    /// then the event itself. What the delivery says about itself, outside of all arrays, does not count, so the event
    /// has the same hash alone and among others. Nor do the values of the event that start at these places.
    pub(crate) fn canonical_sha256(&self, left_out: &[usize]) -> [u8; 32] {
        let mut hash = Sha256::new();
        for owner in &self.owners {
            hash.update(owner.sha256());
        }
        hash.update(self.node.canonical_without(left_out));
        hash.finalize().into()
    }
}

impl<'a> Read<'a> {
    /// The events of the body, in its order.
    ///
    /// An array element on the way may hold no event, such as a change of another kind in the same delivery. It is a
    /// *remainder*: it is returned too, without a rule, because dropping it would lose something that was acknowledged.
    pub(crate) fn events(&self) -> Result<Vec<FoundEvent<'a>>, Fallback> {
        let mut found = Vec::new();
        self.collect(&mut Way::default(), &mut found)?;
        Ok(found)
    }

    fn collect(&self, way: &mut Way<'a>, found: &mut Vec<FoundEvent<'a>>) -> Result<(), Fallback> {
        match &self.shape {
            Shape::Other | Shape::Unreadable => {}
            Shape::Event(rule) => push(found, way.found(self.node, Kind::Event(*rule)))?,
            Shape::Object(members) => {
                for (index, member) in members.iter().enumerate() {
                    way.choices.push(index);
                    member.collect(way, found)?;
                    way.choices.pop();
                }
            }
            Shape::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    way.choices.push(index);
                    element.collect_element(way, found)?;
                    way.choices.pop();
                }
            }
        }
        Ok(())
    }

    fn collect_element(&self, way: &mut Way<'a>, found: &mut Vec<FoundEvent<'a>>) -> Result<(), Fallback> {
        if let Shape::Event(_) = self.shape {
            return self.collect(way, found);
        }
        let before = found.len();
        way.owners.push(Rc::new(Owner { node: self.node, sha256: OnceCell::new() }));
        self.collect(way, found)?;
        way.owners.pop();
        if found.len() == before {
            push(found, way.found(self.node, Kind::Remainder(self.remainder())))?;
        }
        Ok(())
    }

    /// Why this part holds no event, if it holds none.
    pub(crate) fn remainder(&self) -> Remainder {
        let parts = match &self.shape {
            Shape::Unreadable => return Remainder::Unreadable,
            Shape::Event(_) | Shape::Other => return Remainder::Other,
            Shape::Array(elements) if elements.is_empty() => return Remainder::Empty,
            Shape::Array(parts) | Shape::Object(parts) => parts,
        };
        let mut kind = Remainder::Other;
        for part in parts {
            match part.remainder() {
                Remainder::Unreadable => return Remainder::Unreadable,
                Remainder::Empty => kind = Remainder::Empty,
                Remainder::Other => {}
            }
        }
        kind
    }

    /// The delivery reduced to one event.
    pub(crate) fn prune(&self, found: &FoundEvent<'_>) -> String {
        let mut text = String::new();
        self.write(&found.choices, &mut text);
        text
    }

    /// Writes this part without all other events.
    fn write(&self, choices: &[usize], out: &mut String) {
        let Some((choice, rest)) = choices.split_first() else {
            out.push_str(self.node.text());
            return;
        };
        match &self.shape {
            Shape::Event(_) | Shape::Other | Shape::Unreadable => out.push_str(self.node.text()),
            Shape::Object(members) => self.write_object(members, Some((*choice, rest)), out),
            Shape::Array(elements) => {
                let Some(element) = elements.get(*choice) else { return };
                let alone = elements.len() == 1;
                out.push_str(if alone { self.slice(self.node.start(), element.node.start()) } else { "[" });
                element.write(rest, out);
                out.push_str(if alone { self.slice(element.node.end(), self.node.end()) } else { "]" });
            }
        }
    }

    /// Writes an object. Members that were not chosen lose their arrays of events.
    fn write_object(&self, members: &[Read<'a>], chosen: Option<(usize, &[usize])>, out: &mut String) {
        let mut at = self.node.start() + 1;
        let mut comma_wanted = false;
        out.push('{');
        for (index, member) in members.iter().enumerate() {
            let lead = self.slice(at, member.node.start());
            at = member.node.end();
            let is_chosen = chosen.filter(|(choice, _)| *choice == index);
            if is_chosen.is_none() && matches!(member.shape, Shape::Array(_)) {
                continue;
            }
            let leads = comma_wanted || index == 0;
            out.push_str(if leads { lead } else { lead.trim_start_matches([' ', '\t', '\r', '\n', ',']) });
            comma_wanted = true;
            match (&member.shape, is_chosen) {
                (_, Some((_, rest))) => member.write(rest, out),
                (Shape::Object(members), None) => member.write_object(members, None, out),
                (Shape::Event(_) | Shape::Other | Shape::Unreadable | Shape::Array(_), None) => {
                    out.push_str(member.node.text());
                }
            }
        }
        out.push_str(self.slice(at, self.node.end()));
    }

    /// The bytes of the document between two offsets inside this part.
    fn slice(&self, from: usize, to: usize) -> &'a str {
        let range = from.saturating_sub(self.node.start())..to.saturating_sub(self.node.start());
        self.node.text().get(range).unwrap_or_default()
    }
}

fn push<'a>(found: &mut Vec<FoundEvent<'a>>, item: FoundEvent<'a>) -> Result<(), Fallback> {
    if found.len() == EVENTS_MAX {
        return Err(Fallback::TooManyEvents);
    }
    found.push(item);
    Ok(())
}

/// The total size of the events of one delivery so far.
pub(crate) struct Expansion(usize);

impl Expansion {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Fallback> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > EXPANDED_BYTES_MAX { Err(Fallback::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_all_events_together_are_limited() {
        let mut expansion = Expansion::new();
        assert_eq!(expansion.add(EXPANDED_BYTES_MAX - 1), Ok(()));
        assert_eq!(expansion.add(1), Ok(()));
        assert_eq!(expansion.add(1), Err(Fallback::TooLarge));
    }
}
