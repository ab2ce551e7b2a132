//! Finds the routes of a set that a body may fit. Each field that the set asks about is looked up once, however many
//! routes ask about it, and what routes ask alike is asked once.
//!
//! A route cannot fit a body if one of its fields fits nowhere in it, or if no element of an array has all that it asks
//! of one. So of a thousand routes, a body mostly leaves the one that takes it. What is left is still compared as a
//! whole: the index only leaves out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Number, Value};

use super::pattern::{Comparison, Field, Matcher, Pattern, below, each_leaf, objects};

/// The most objects in one place that are looked at one by one. More are taken for one object that has all their
/// fields, because a stranger may decide how many elements an array has.
const ELEMENTS_MAX: usize = 16;

/// The fields that the patterns of a set ask about.
#[derive(Debug, Default)]
pub(super) struct ValueIndex {
    /// Of each route, how many fields must be there and fit.
    asked: Vec<usize>,
    root: Node,
}

/// What routes ask of the values below one name, and of what is in them.
#[derive(Debug, Default)]
struct Node {
    /// The routes that ask about a field below, each with how many fields must be there and fit.
    asked: Vec<(usize, usize)>,
    /// Whether any of them asks about two fields of one object.
    asks_for_two: bool,
    below: HashMap<String, Node>,
    exact: HashMap<Leaf, Vec<usize>>,
    texts: HashMap<String, Vec<usize>>,
    starts: Parts,
    ends: Parts,
    ranges: BTreeMap<Range, Vec<usize>>,
    others: HashMap<Matcher, Vec<usize>>,
    /// The routes that also fit if there is no value.
    absent: Vec<usize>,
}

/// The least and the greatest rank of a number that routes ask for.
type Range = (i64, i64);

/// The rank of a number among the floats: a greater number has no lower one, and neighbours differ by one. `None` if it
/// is no float.
fn rank(number: &Number) -> Option<i64> {
    // 0 and -0 are equal and have different bits.
    let bits = (number.as_f64()? + 0.0).to_bits().cast_signed();
    Some(if bits < 0 { bits ^ i64::MAX } else { bits })
}

/// The ranks of all numbers within these bounds. `None` if a bound has no rank.
fn range(bounds: &[(Comparison, Number)]) -> Option<Range> {
    let (mut least, mut greatest) = (i64::MIN, i64::MAX);
    for (comparison, bound) in bounds {
        let rank = rank(bound)?;
        // Two whole numbers beyond this may have the same rank, and one be greater.
        let step = i64::from(bound.as_f64()?.abs() < WHOLE_FLOATS);
        match comparison {
            Comparison::Equal => (least, greatest) = (rank, rank),
            Comparison::Less => greatest = rank - step,
            Comparison::LessOrEqual => greatest = rank,
            Comparison::Greater => least = rank + step,
            Comparison::GreaterOrEqual => least = rank,
        }
    }
    Some((least, greatest))
}

/// Below this, each whole number is a float of its own.
const WHOLE_FLOATS: f64 = 9_007_199_254_740_992.0;

/// What routes ask of one end of a text.
#[derive(Debug, Default)]
pub(super) struct Parts {
    routes: HashMap<String, Vec<usize>>,
    /// In bytes, each once. A set asks for few different ones.
    lengths: BTreeSet<usize>,
}

impl Parts {
    pub(super) fn ask(&mut self, part: &str) -> &mut Vec<usize> {
        self.lengths.insert(part.len());
        self.routes.entry(part.to_owned()).or_default()
    }

    /// The routes that ask for how a text begins.
    pub(super) fn of_start<'a>(&'a self, text: &str) -> impl Iterator<Item = &'a Vec<usize>> {
        self.of(text, |text, length| text.get(..length))
    }

    /// The routes that ask for a part that a text has. `part_of` cuts as many bytes off its end.
    fn of<'a, 'text>(
        &'a self,
        text: &'text str,
        part_of: impl Fn(&'text str, usize) -> Option<&'text str>,
    ) -> impl Iterator<Item = &'a Vec<usize>> {
        self.lengths.iter().filter_map(move |length| self.routes.get(part_of(text, *length)?))
    }
}

/// A value other than a text, as the index tells it from others. Values that a pattern takes for equal are equal here,
/// too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Leaf {
    Null,
    Flag(bool),
    /// The rank of the number. Two numbers with the same rank may differ in a digit.
    Number(i64),
}

impl Leaf {
    /// None for a text, and for an object and an array, which no leaf is.
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(rank(number)?),
            Value::String(_) | Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

/// The routes that a body may fit: of each route of the set, how many fields do not fit.
#[derive(Debug)]
pub(super) struct Possible(Vec<usize>);

impl Possible {
    pub(super) fn contains(&self, route: usize) -> bool {
        self.0.get(route) == Some(&0)
    }
}

impl ValueIndex {
    /// Indexes the patterns of a set. A route without one is always possible.
    pub(super) fn of<'a>(patterns: impl Iterator<Item = Option<&'a Pattern>>) -> Self {
        let mut index = Self::default();
        for (route, pattern) in patterns.enumerate() {
            index.asked.push(pattern.map_or(0, |pattern| index.root.add(route, pattern)));
        }
        index
    }

    /// The routes that a body may fit. Every other one asks for a value that the body does not have.
    pub(super) fn possible(&self, body: &Value) -> Possible {
        let mut missing = self.asked.clone();
        let mut roots = Vec::new();
        objects(body, &mut roots);
        self.root.meet(&roots, &mut missing);
        Possible(missing)
    }
}

impl Node {
    /// Adds the pattern of a route, and returns how many of its fields must be there.
    fn add(&mut self, route: usize, pattern: &Pattern) -> usize {
        let mut asked = 0;
        for (name, field) in &pattern.fields {
            let node = self.below.entry(name.clone()).or_default();
            match field {
                Field::Object(pattern) => asked += node.add(route, pattern),
                Field::Leaf(matchers) if matchers.contains(&Matcher::Absent) => {
                    node.absent.push(route);
                    node.ask(route, matchers);
                }
                Field::Leaf(matchers) => {
                    asked += 1;
                    node.ask(route, matchers);
                }
            }
        }
        self.asked.push((route, asked));
        self.asks_for_two |= pattern.fields.len() > 1;
        asked
    }

    fn ask(&mut self, route: usize, matchers: &[Matcher]) {
        for matcher in matchers {
            let routes = match matcher {
                Matcher::Exact(Value::String(text)) => self.texts.entry(text.clone()).or_default(),
                Matcher::Prefix(start) => self.starts.ask(start),
                Matcher::Suffix(end) => self.ends.ask(end),
                Matcher::Numeric(bounds) => match range(bounds) {
                    Some(range) => self.ranges.entry(range).or_default(),
                    None => continue,
                },
                matcher => match matcher.exact().and_then(Leaf::of) {
                    Some(leaf) => self.exact.entry(leaf).or_default(),
                    None => self.others.entry(matcher.clone()).or_default(),
                },
            };
            routes.push(route);
        }
    }

    /// Looks up each name in these objects, which are all that the body has here. A route must fit in one of them.
    fn meet(&self, all: &[&Map<String, Value>], missing: &mut [usize]) {
        if !self.asks_for_two || !(2..=ELEMENTS_MAX).contains(&all.len()) {
            return self.meet_as_one(all, missing);
        }
        let mut fits = vec![false; self.asked.len()];
        let mut missing_here = vec![0; missing.len()];
        for object in all {
            for (route, asked) in &self.asked {
                missing_here.get_mut(*route).into_iter().for_each(|missing| *missing = *asked);
            }
            self.meet_as_one(&[object], &mut missing_here);
            for (fits, (route, _)) in fits.iter_mut().zip(&self.asked) {
                *fits |= missing_here.get(*route) == Some(&0);
            }
        }
        for (fits, (route, asked)) in fits.into_iter().zip(&self.asked) {
            let Some(missing) = missing.get_mut(*route) else { continue };
            // A route that fits in no object must be left out, even if it asks only for what must not be there.
            if fits { *missing -= asked } else { *missing += 1 }
        }
    }

    /// Looks up each name in these objects, as if they were one.
    fn meet_as_one(&self, all: &[&Map<String, Value>], missing: &mut [usize]) {
        let fields: usize = all.iter().map(|object| object.len()).sum();
        let nodes: Vec<_> = if self.below.len() <= fields {
            self.below.iter().collect()
        } else {
            let names: BTreeSet<_> = all.iter().flat_map(|object| object.keys()).collect();
            names.into_iter().filter_map(|name| self.below.get_key_value(name)).collect()
        };
        for (name, node) in nodes {
            let mut leaves = Vec::new();
            for value in all.iter().filter_map(|object| object.get(name)) {
                each_leaf(value, &mut |leaf| leaves.push(leaf));
            }
            if !leaves.is_empty() {
                node.compare(&leaves, missing);
            }
            if !node.below.is_empty() {
                node.meet(&below(all, name), missing);
            }
        }
    }

    fn compare<'a>(&self, leaves: &[&'a Value], missing: &mut [usize]) {
        for route in &self.absent {
            missing.get_mut(*route).into_iter().for_each(|missing| *missing += 1);
        }
        // A route has one field here, of which several entries may fit.
        let mut fitted = vec![false; missing.len()];
        let mut fit = |routes: &Vec<usize>| {
            for route in routes {
                if let (Some(fitted @ false), Some(missing)) = (fitted.get_mut(*route), missing.get_mut(*route)) {
                    *fitted = true;
                    *missing -= 1;
                }
            }
        };
        for leaf in leaves {
            Leaf::of(leaf).and_then(|leaf| self.exact.get(&leaf)).into_iter().for_each(&mut fit);
            if let Some(text) = leaf.as_str() {
                self.texts.get(text).into_iter().for_each(&mut fit);
                self.starts.of_start(text).for_each(&mut fit);
                let end = |text: &'a str, length| text.get(text.len().checked_sub(length)?..);
                self.ends.of(text, end).for_each(&mut fit);
            }
        }
        self.within(leaves).for_each(&mut fit);
        if !self.others.is_empty() {
            // A stranger may decide how often a value stands there.
            let distinct: HashSet<_> = leaves.iter().collect();
            let others = self.others.iter().filter(|(matcher, _)| distinct.iter().any(|leaf| matcher.fits(leaf)));
            others.for_each(|(_, routes)| fit(routes));
        }
    }

    /// The routes within whose bounds one of these numbers is. Both are in order, so each is looked at once.
    fn within(&self, leaves: &[&Value]) -> impl Iterator<Item = &Vec<usize>> {
        let mut numbers: Vec<_> = leaves.iter().filter_map(|leaf| rank(leaf.as_number()?)).collect();
        numbers.sort_unstable();
        let mut numbers = numbers.into_iter().peekable();
        self.ranges.iter().filter_map(move |((least, greatest), routes)| {
            while numbers.next_if(|number| number < least).is_some() {}
            numbers.peek().is_some_and(|number| number <= greatest).then_some(routes)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
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
    fn only_routes_of_which_each_field_fits_somewhere_are_left() {
        let patterns = [
            json!({"live": [true], "data": {"account": ["a"]}}),
            json!({"live": [true], "data": {"account": ["b", {"prefix": "b"}, "c"]}}),
            json!({"live": [true], "amount": [{"numeric": [">", 0]}]}),
            json!({"data": {"account": [{"prefix": "a"}]}}),
            json!(null),
            json!({"amount": [{"exists": false}, 1], "data": {"account": [{"exists": true}]}}),
        ];
        for (body, expected) in [
            (json!({"live": true, "data": {"account": "a"}}), vec![0, 3, 4, 5]),
            (json!({"live": false, "amount": 2, "data": {"account": "c"}}), vec![4]),
            (json!({"live": true, "amount": [0, 1], "data": {"account": "b"}}), vec![1, 2, 4, 5]),
            (json!({"live": true, "data": [{"account": "b"}, {"account": ["x", "a"]}]}), vec![0, 1, 3, 4, 5]),
            (json!([{"data": {"account": "z"}}, {"live": true}]), vec![4, 5]),
            (json!({"amount": {}, "data": [[{"account": {}}]]}), vec![4]),
            (json!("text"), vec![4]),
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
    fn a_number_is_found_within_its_bounds() {
        let bounds = [json!([">", 1, "<", 3]), json!([">=", 3]), json!(["=", 5]), json!(["<", -1]), json!([">", 0.5])];
        let patterns = bounds.map(|bounds| json!({ "n": [{ "numeric": bounds }] }));
        for (numbers, expected) in [
            (json!([0, "x", 3]), vec![1, 4]),
            (json!([[2], -2, {}]), vec![0, 3, 4]),
            (json!(5.0), vec![1, 2, 4]),
            (json!([-1, 0.5]), vec![]),
            (json!("5"), vec![]),
        ] {
            assert_eq!(left(&patterns, &json!({ "n": numbers })), expected, "{numbers}");
        }
    }

    #[test]
    fn fields_below_an_array_must_fit_within_one_element() {
        let patterns = [
            json!({"lines": {"kind": ["a"], "paid": [true]}}),
            json!({"lines": {"kind": ["b"], "paid": [{"exists": false}]}}),
            json!({"lines": {"of": {"kind": ["a"], "paid": [true]}}}),
        ];
        let split = [json!({"kind": "a", "paid": false}), json!({"kind": "b", "paid": true})];
        let whole = json!({"kind": "a", "paid": true});
        assert_eq!(left(&patterns, &json!({"lines": split})), Vec::<usize>::new());
        assert_eq!(left(&patterns, &json!({"lines": [split, [whole]]})), [0]);
        assert_eq!(left(&patterns, &json!({"lines": {"of": split}})), Vec::<usize>::new());
        assert_eq!(left(&patterns, &json!({"lines": [{"of": split}, {"of": [split[0], whole]}]})), [2]);
        // So many are not looked at one by one.
        let many = [&split[0], &split[1]].repeat(ELEMENTS_MAX);
        assert_eq!(left(&patterns, &json!({"lines": many})), [0]);
    }

    /// Few names and values, so that patterns and bodies meet often.
    fn names<T: Strategy<Value = Value> + 'static>(below: T) -> impl Strategy<Value = Value> {
        btree_map(select(vec!["a", "b"]), below, 1..3).prop_map(|object| json!(object))
    }

    fn patterns() -> impl Strategy<Value = Value> {
        let operators = [json!({"exists": false}), json!({"anything-but": [1]})];
        let bounds =
            [json!([">", 1]), json!(["<=", 1]), json!([">", 0, "<", 2]), json!([">", 9_007_199_254_740_992_u64])];
        let numeric = bounds.into_iter().map(|bounds| json!({ "numeric": bounds }));
        let entry = select([json!(1), json!("x")].into_iter().chain(operators).chain(numeric).collect::<Vec<_>>());
        let list = vec(entry, 1..3).prop_map(|entries| json!(entries));
        names(list.prop_recursive(3, 8, 2, names))
    }

    fn bodies() -> impl Strategy<Value = Value> {
        let value = || select(vec![json!(1), json!(2), json!("x"), json!({}), json!(9_007_199_254_740_993_u64)]);
        // More than are looked at one by one.
        let many = vec(names(value()), 2..4)
            .prop_map(|elements| json!(elements.iter().map(|one| vec![one; ELEMENTS_MAX]).collect::<Vec<_>>()));
        let leaf = prop_oneof![9 => value(), 1 => many];
        leaf.prop_recursive(5, 24, 3, |below| {
            prop_oneof![names(below.clone()), vec(below, 1..4).prop_map(|elements| json!(elements))]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]
        #[test]
        fn no_route_that_fits_is_left_out(patterns in vec(patterns(), 1..6), body in bodies()) {
            let left = left(&patterns, &body);
            for (route, pattern) in patterns.iter().enumerate() {
                let compiled = Pattern::compile(pattern.as_object().unwrap(), "when", &mut Faults::default());
                prop_assert!(left.contains(&route) || !compiled.fits(&body), "{} on {}", pattern, body);
            }
        }
    }

    #[test]
    fn a_set_of_many_routes_is_indexed_whole() {
        let patterns: Vec<_> = (0..200).map(|number| json!({ "n": [number, number + 1] })).collect();
        assert_eq!(left(&patterns, &json!({ "n": 130 })), [129, 130]);
    }
}
