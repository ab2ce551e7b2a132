//! The names of endpoints or types that a route is for.

use std::collections::{BTreeSet, HashMap};

use crate::documents::fault::Checker;

/// The most names in the list of one route.
const NAMES_MAX: usize = 100;

/// Names that a route is for. `None` is any name.
#[derive(Debug)]
pub(super) struct Names(Option<Vec<NamePattern>>);

#[derive(Debug)]
enum NamePattern {
    Exact(String),
    Prefix(String),
}

impl Names {
    pub(super) fn contain(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                NamePattern::Exact(exact) => exact == name,
                NamePattern::Prefix(start) => name.starts_with(start),
            })
        })
    }

    pub(super) fn compile(texts: Option<Vec<String>>, check: &mut Checker<'_>) -> Self {
        let Some(texts) = texts else { return Self(None) };
        if texts.is_empty() || texts.len() > NAMES_MAX {
            check.add(format!("must list 1 to {NAMES_MAX} names; leave it out for any name"));
        }
        let pattern = |text: String| match text.split_once('*') {
            None if !text.is_empty() => Some(NamePattern::Exact(text)),
            Some((start, "")) => Some(NamePattern::Prefix(start.to_owned())),
            None | Some(_) => {
                check.add(format!("`{text}` is empty or has a `*` before its end"));
                None
            }
        };
        Self(Some(texts.into_iter().filter_map(pattern).collect()))
    }
}

/// The groups of routes that are for one name, by their numbers in the order given: any other name is for all or some
/// of the routes of one of these groups.
///
/// It is enough to look at the texts in the lists. The longest text that a name begins with, or is, is itself a name
/// with the same beginnings.
pub(super) fn groups<'a>(routes: impl Iterator<Item = (usize, &'a Names)>) -> BTreeSet<Vec<usize>> {
    let (mut any, mut exact, mut starts) = (Vec::new(), HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
    for (route, names) in routes {
        match &names.0 {
            None => any.push(route),
            Some(patterns) => patterns.iter().for_each(|pattern| match pattern {
                NamePattern::Exact(name) => exact.entry(name.as_str()).or_default().push(route),
                NamePattern::Prefix(start) => starts.entry(start.as_str()).or_default().push(route),
            }),
        }
    }
    let group = |name: &str| {
        let beginnings = (0..=name.len()).filter_map(|end| starts.get(name.get(..end)?));
        let mut group: Vec<_> = beginnings.chain(exact.get(name)).flatten().chain(&any).copied().collect();
        group.sort_unstable();
        group.dedup();
        group
    };
    exact.keys().chain(starts.keys()).chain([&""]).map(|name| group(name)).collect()
}
