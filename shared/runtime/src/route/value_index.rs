//! Finds the routes of a set that a body may fit, by the exact values that they ask for.
//!
//! A route that lists only exact values for a field cannot fit a body without one of them there. So of a thousand routes that
//! each ask for a customer of their own, a body leaves one to look at. What is left is still compared as a whole:
//! the index only leaves out.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::pattern::{Pattern, below, each_leaf, objects};

/// The names of the objects that lead to a field, and its own.
type Path = Vec<String>;

/// The routes by the value of one field each.
#[derive(Debug)]
pub(super) struct ValueIndex {
    fields: Vec<(Path, HashMap<Leaf, Vec<usize>>)>,
    /// The routes that it can never leave out.
    others: RouteBits,
}

/// A value as the index tells it from others. Values that a pattern takes for equal are equal here, too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Leaf {
    Null,
    Flag(bool),
    Text(String),
    /// The bits of the number as a float. Two numbers with the same bits may differ in a digit.
    Number(u64),
}

impl Leaf {
    /// None for an object and an array, which no leaf is.
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::String(text) => Self::Text(text.clone()),
            // 0 and -0 are equal and have different bits.
            Value::Number(number) => Self::Number((number.as_f64()? + 0.0).to_bits()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

/// Some routes of a set, by their place.
#[derive(Debug, Clone)]
pub(super) struct RouteBits(Vec<u64>);

impl RouteBits {
    fn none(routes: usize) -> Self {
        Self(vec![0; routes.div_ceil(64)])
    }

    fn insert(&mut self, route: usize) {
        if let Some(word) = self.0.get_mut(route / 64) {
            *word |= 1 << (route % 64);
        }
    }

    pub(super) fn contains(&self, route: usize) -> bool {
        self.0.get(route / 64).is_some_and(|word| word >> (route % 64) & 1 == 1)
    }
}

impl ValueIndex {
    /// Indexes each route by the field that tells it best from the others.
    pub(super) fn of<'a>(patterns: impl ExactSizeIterator<Item = Option<&'a Pattern>>) -> Self {
        let mut others = RouteBits::none(patterns.len());
        let exact: Vec<_> = patterns.map(|pattern| pattern.map(exact_fields).unwrap_or_default()).collect();
        let mut sharing: HashMap<(&Path, &Leaf), usize> = HashMap::new();
        let mut asking: HashMap<&Path, usize> = HashMap::new();
        for (path, leaves) in exact.iter().flatten() {
            *asking.entry(path).or_default() += 1;
            for leaf in leaves {
                *sharing.entry((path, leaf)).or_default() += 1;
            }
        }
        // The fewest routes beside it; then the field that most routes ask about, so that few fields are looked up.
        let rank = |path: &Path, leaves: &[Leaf]| {
            let beside: usize = leaves.iter().filter_map(|leaf| sharing.get(&(path, leaf))).sum();
            (beside, Reverse(asking.get(path).copied()))
        };
        let mut fields: HashMap<&Path, HashMap<Leaf, Vec<usize>>> = HashMap::new();
        for (route, candidates) in exact.iter().enumerate() {
            match candidates.iter().min_by_key(|(path, leaves)| rank(path, leaves)) {
                Some((path, leaves)) => {
                    let field = fields.entry(path).or_default();
                    for leaf in leaves {
                        field.entry(leaf.clone()).or_default().push(route);
                    }
                }
                None => others.insert(route),
            }
        }
        let fields = fields.into_iter().map(|(path, routes)| (path.clone(), routes)).collect();
        Self { fields, others }
    }

    /// The routes that a body may fit. Every other one asks for a value that the body does not have.
    pub(super) fn possible(&self, body: &Value) -> RouteBits {
        let mut possible = self.others.clone();
        let mut roots = Vec::new();
        objects(body, &mut roots);
        for (path, routes) in &self.fields {
            leaves_at(&roots, path, &mut |leaf| {
                let found = Leaf::of(leaf).and_then(|leaf| routes.get(&leaf));
                found.into_iter().flatten().for_each(|route| possible.insert(*route));
            });
        }
        possible
    }
}

/// The fields for which a pattern lists exact values only.
fn exact_fields(pattern: &Pattern) -> Vec<(Path, Vec<Leaf>)> {
    let mut found = Vec::new();
    pattern.each_exact(&mut Vec::new(), &mut |path, values| {
        if let Some(leaves) = values.iter().map(|value| Leaf::of(value)).collect::<Option<Vec<_>>>() {
            found.push((path.to_vec(), leaves));
        }
    });
    found
}

fn leaves_at(all: &[&Map<String, Value>], path: &[String], found: &mut dyn FnMut(&Value)) {
    match path {
        [] => {}
        [name] => all.iter().filter_map(|object| object.get(name)).for_each(|value| each_leaf(value, found)),
        [name, rest @ ..] => leaves_at(&below(all, name), rest, found),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fault::Faults;
    use super::*;

    fn left(patterns: &[Value], body: &Value) -> Vec<usize> {
        let mut faults = Faults::default();
        let compiled =
            |pattern: &Value| pattern.as_object().map(|object| Pattern::compile(object, "when", &mut faults));
        let compiled: Vec<_> = patterns.iter().map(compiled).collect();
        faults.none().unwrap();
        let possible = ValueIndex::of(compiled.iter().map(Option::as_ref)).possible(body);
        (0..patterns.len()).filter(|route| possible.contains(*route)).collect()
    }

    #[test]
    fn only_routes_whose_value_the_body_has_are_left() {
        let patterns = [
            json!({"live": [true], "data": {"account": ["a"]}}),
            json!({"live": [true], "data": {"account": ["b", "c"]}}),
            json!({"live": [true], "amount": [{"numeric": [">", 0]}]}),
            json!({"data": {"account": [{"prefix": "a"}]}}),
            json!(null),
        ];
        for (body, expected) in [
            (json!({"live": true, "data": {"account": "a"}}), vec![0, 2, 3, 4]),
            (json!({"live": false, "data": {"account": "c"}}), vec![1, 3, 4]),
            (json!({"live": true, "data": [{"account": "b"}, {"account": ["x", "a"]}]}), vec![0, 1, 2, 3, 4]),
            (json!([{"data": {"account": "z"}}, {"live": true}]), vec![2, 3, 4]),
            (json!("text"), vec![3, 4]),
        ] {
            assert_eq!(left(&patterns, &body), expected, "{body}");
        }
    }

    #[test]
    fn values_that_are_equal_are_found_however_they_are_written() {
        let of = |wanted: Value, body: Value| left(&[json!({ "a": [wanted] })], &json!({ "a": body })).len();
        for (wanted, body) in [
            (json!(300), json!(3e2)),
            (json!(0), json!(-0.0)),
            (json!(u64::MAX), json!(u64::MAX)),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0)),
            (json!(null), json!(null)),
            (json!(""), json!([[""]])),
        ] {
            assert_eq!(of(wanted.clone(), body.clone()), 1, "{wanted} and {body}");
        }
        for (wanted, body) in [(json!(1), json!("1")), (json!(null), json!("")), (json!(true), json!({"b": true}))] {
            assert_eq!(of(wanted.clone(), body.clone()), 0, "{wanted} and {body}");
        }
    }

    #[test]
    fn a_set_of_many_routes_is_indexed_whole() {
        let patterns: Vec<_> = (0..200).map(|number| json!({ "n": [number, number + 1] })).collect();
        assert_eq!(left(&patterns, &json!({ "n": 130 })), [129, 130]);
    }
}
