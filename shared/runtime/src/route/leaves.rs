//! What the routes of a set ask of the values in one place: each value finds the routes that take it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Number, Value};

use super::pattern::{Comparison, Matcher, same};
use super::route_bits::{RouteBits, RouteGroup};

/// What routes ask of the values in one place.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    /// The routes that ask for a value.
    pub(super) asked_by: RouteGroup,
    /// The routes that fit if there is no value anywhere, and the number of the field.
    pub(super) absent: Option<(RouteGroup, usize)>,
    exists: RouteGroup,
    exact: ByValue,
    starts: Parts,
    ends: Parts,
    ranges: Ranges,
    anything_but: RouteGroup,
    /// The routes of `anything_but` that a value does not fit.
    but: ByValue,
}

impl Leaves {
    pub(super) fn of(asking: &[(usize, &[Matcher])], absences: &mut usize) -> Self {
        let (mut leaves, mut absent, mut ranges) = (Self::default(), RouteGroup::default(), Vec::new());
        let may_be_absent = asking.iter().any(|(_, matchers)| matchers.contains(&Matcher::Absent));
        for (route, matchers) in asking {
            leaves.asked_by.insert(*route);
            for matcher in *matchers {
                match matcher {
                    Matcher::Exact(value) => leaves.exact.insert(value, *route),
                    Matcher::Prefix(start) => leaves.starts.insert(start, *route),
                    Matcher::Suffix(end) => leaves.ends.insert(end, *route),
                    Matcher::Numeric(bounds) => ranges.push((range(bounds), *route)),
                    Matcher::Exists => leaves.exists.insert(*route),
                    Matcher::AnythingBut(_) => leaves.anything_but.insert(*route),
                    Matcher::Absent => absent.insert(*route),
                }
            }
            for value in excepted(matchers) {
                leaves.but.insert(value, *route);
            }
        }
        leaves.ranges = Ranges::of(&ranges);
        if may_be_absent {
            leaves.absent = Some((absent, *absences));
            *absences += 1;
        }
        leaves
    }

    /// Adds the routes that a value may fit.
    pub(super) fn add_fitting(&self, leaf: &Value, fitting: &mut RouteBits) {
        self.exists.add_to(fitting);
        let mut others = RouteBits::default();
        self.anything_but.add_to(&mut others);
        self.but.get(leaf).into_iter().for_each(|group| group.remove_from(&mut others));
        fitting.add(&others);
        let mut add = |group: &RouteGroup| group.add_to(fitting);
        self.exact.get(leaf).into_iter().for_each(&mut add);
        match leaf {
            Value::String(text) => {
                self.starts.of_start(text).for_each(&mut add);
                self.ends.of_end(text).for_each(&mut add);
            }
            Value::Number(number) => {
                self.ranges.holding(rank(number)).into_iter().for_each(|routes| fitting.add(routes));
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        }
    }
}

/// The values that each `anything-but` of a list names. Two numbers of one rank may differ, so a great one is left out.
fn excepted(matchers: &[Matcher]) -> impl Iterator<Item = &Value> {
    let mut lists = matchers.iter().filter_map(|matcher| match matcher {
        Matcher::AnythingBut(values) => Some(values),
        _ => None,
    });
    let first = lists.next().into_iter().flatten();
    let rest: Vec<_> = lists.collect();
    let is_certain = |value: &&Value| value.as_number().is_none_or(is_told_apart);
    first
        .filter(is_certain)
        .filter(move |value| rest.iter().all(|values| values.iter().any(|other| same(value, other))))
}

/// Routes by the value that they name. Values that a pattern takes for equal are equal here, too.
#[derive(Debug, Default)]
struct ByValue {
    texts: HashMap<String, RouteGroup>,
    others: HashMap<Leaf, RouteGroup>,
}

/// A value other than a text.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Leaf {
    Null,
    Flag(bool),
    Number(i64),
}

impl Leaf {
    /// None for a text, and for an object and an array, which no leaf is.
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(rank(number)),
            Value::String(_) | Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

impl ByValue {
    fn insert(&mut self, value: &Value, route: usize) {
        let group = match (value, Leaf::of(value)) {
            (_, Some(leaf)) => self.others.entry(leaf).or_default(),
            (Value::String(text), None) => self.texts.entry(text.clone()).or_default(),
            (_, None) => return,
        };
        group.insert(route);
    }

    fn get(&self, value: &Value) -> Option<&RouteGroup> {
        match value {
            Value::String(text) => self.texts.get(text),
            value => self.others.get(&Leaf::of(value)?),
        }
    }
}

/// The rank of a number among the floats: a greater number has no lower one, and neighbours differ by one.
fn rank(number: &Number) -> i64 {
    // 0 and -0 are equal and have different bits.
    let bits = (number.as_f64().unwrap_or(f64::INFINITY) + 0.0).to_bits().cast_signed();
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Below this, each whole number is a float of its own.
const WHOLE_FLOATS: f64 = 9_007_199_254_740_992.0;

/// Whether two numbers of this one's rank are equal.
fn is_told_apart(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number.abs() < WHOLE_FLOATS)
}

/// The least and the greatest rank of the numbers within these bounds.
fn range(bounds: &[(Comparison, Number)]) -> (i64, i64) {
    let (mut least, mut greatest) = (i64::MIN, i64::MAX);
    for (comparison, bound) in bounds {
        let (rank, step) = (rank(bound), i64::from(is_told_apart(bound)));
        match comparison {
            Comparison::Equal => (least, greatest) = (rank, rank),
            Comparison::Less => greatest = rank - step,
            Comparison::LessOrEqual => greatest = rank,
            Comparison::Greater => least = rank + step,
            Comparison::GreaterOrEqual => least = rank,
        }
    }
    (least, greatest)
}

/// Routes by ranges of ranks. The ranges cut all ranks into spans, in each of which the routes are the same.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<i64, RouteBits>);

impl Ranges {
    /// The ranges, each with its route. Ranges of one route may overlap.
    fn of(ranges: &[((i64, i64), usize)]) -> Self {
        let mut steps: BTreeMap<i64, Vec<(usize, isize)>> = BTreeMap::new();
        for ((least, greatest), route) in ranges {
            steps.entry(*least).or_default().push((*route, 1));
            if let Some(after) = greatest.checked_add(1) {
                steps.entry(after).or_default().push((*route, -1));
            }
        }
        let mut open: BTreeMap<usize, isize> = BTreeMap::new();
        let span = |(from, steps): (i64, Vec<(usize, isize)>)| {
            for (route, step) in steps {
                *open.entry(route).or_default() += step;
            }
            (from, open.iter().filter(|(_, ranges)| **ranges > 0).map(|(route, _)| *route).collect())
        };
        Self(steps.into_iter().map(span).collect())
    }

    /// The routes of which a range holds this rank.
    fn holding(&self, rank: i64) -> Option<&RouteBits> {
        self.0.range(..=rank).next_back().map(|(_, routes)| routes)
    }
}

/// Routes by one end of a text.
#[derive(Debug, Default)]
pub(super) struct Parts {
    groups: HashMap<String, RouteGroup>,
    /// In bytes, each once. A set asks for few different ones.
    lengths: BTreeSet<usize>,
}

impl Parts {
    pub(super) fn insert(&mut self, part: &str, route: usize) {
        self.lengths.insert(part.len());
        self.groups.entry(part.to_owned()).or_default().insert(route);
    }

    /// The routes that ask for how a text begins.
    pub(super) fn of_start(&self, text: &str) -> impl Iterator<Item = &RouteGroup> {
        self.lengths.iter().filter_map(|length| self.groups.get(text.get(..*length)?))
    }

    /// The routes that ask for how a text ends.
    fn of_end(&self, text: &str) -> impl Iterator<Item = &RouteGroup> {
        self.lengths.iter().filter_map(|length| self.groups.get(text.get(text.len().checked_sub(*length)?..)?))
    }
}
