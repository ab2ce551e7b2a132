//! Finds the routes of a set that a body may fit, in one walk through the body. What the set asks of one field is
//! looked up together, so a value costs about the same however many routes ask about it.
//!
//! The index only leaves out, and what it leaves is still compared as a whole. It leaves a route that does not fit only
//! if the route takes a value or its absence (`["a", {"exists": false}]`), or asks for a number that no float can tell
//! from its neighbours.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Number, Value};

use super::pattern::{Comparison, Field, Matcher, Pattern};
use super::route_bits::{RouteBits, RouteGroup};

/// What the patterns of a set ask for.
#[derive(Debug)]
pub(super) struct ValueIndex {
    /// The routes without a pattern.
    without: RouteBits,
    body: Asked,
}

impl ValueIndex {
    /// Indexes the patterns of a set, by the numbers of the routes.
    pub(super) fn of<'a>(patterns: impl Iterator<Item = Option<&'a Pattern>>) -> Self {
        let (mut without, mut asking) = (RouteBits::default(), Vec::new());
        for (route, pattern) in patterns.enumerate() {
            match pattern {
                Some(pattern) => asking.push((route, pattern)),
                None => without.insert(route),
            }
        }
        Self { without, body: Asked { below: Some(Node::of(&asking)), ..Asked::default() } }
    }

    /// The routes that a body may fit.
    pub(super) fn possible(&self, body: &Value) -> RouteBits {
        let mut excluded = RouteBits::default();
        let mut possible = self.body.fitting(body, &mut excluded);
        possible.remove(&excluded);
        possible.add(&self.without);
        possible
    }
}

/// What routes ask of the objects in one place.
#[derive(Debug, Default)]
struct Node {
    /// The routes that need no field.
    need_nothing: RouteBits,
    fields: HashMap<String, Asked>,
}

/// What routes ask of one field. Each asks either for a value or for objects.
#[derive(Debug, Default)]
struct Asked {
    /// The routes that ask.
    all: RouteBits,
    /// What else they need, as far as they need this field and no field that fewer routes ask about.
    needs: Vec<Needs>,
    leaves: Option<Leaves>,
    below: Option<Node>,
}

/// Routes that need the same fields.
#[derive(Debug)]
struct Needs {
    fields: BTreeSet<String>,
    routes: RouteBits,
}

/// What routes ask of the values in one place.
#[derive(Debug, Default)]
struct Leaves {
    /// The routes that fit if there is no value.
    absent: RouteBits,
    /// Those of them that fit only then.
    only_absent: RouteBits,
    exists: RouteBits,
    exact: ByValue,
    starts: Parts,
    ends: Parts,
    ranges: Ranges,
    anything_but: RouteBits,
    /// The routes of `anything_but` that a value does not fit.
    but: ByValue,
}

/// Whether an object without this field cannot fit.
fn is_needed(field: &Field) -> bool {
    match field {
        Field::Object(pattern) => pattern.fields.iter().any(|(_, field)| is_needed(field)),
        Field::Leaf(matchers) => !matchers.contains(&Matcher::Absent),
    }
}

impl Node {
    fn of(asking: &[(usize, &Pattern)]) -> Self {
        let mut asked: BTreeMap<&str, (Vec<_>, Vec<_>)> = BTreeMap::new();
        for (route, pattern) in asking {
            for (name, field) in &pattern.fields {
                let (values, objects) = asked.entry(name).or_default();
                match field {
                    Field::Leaf(matchers) => values.push((*route, matchers.as_slice())),
                    Field::Object(pattern) => objects.push((*route, pattern)),
                }
            }
        }
        let asked_by = |name: &str| asked.get(name).map_or(0, |(values, objects)| values.len() + objects.len());
        let mut needs: HashMap<String, Vec<Needs>> = HashMap::new();
        let mut need_nothing = RouteBits::default();
        for (route, pattern) in asking {
            let fields = pattern.fields.iter().filter(|(_, field)| is_needed(field));
            let fields: BTreeSet<_> = fields.map(|(name, _)| name.clone()).collect();
            let Some(rarest) = fields.iter().min_by_key(|name| asked_by(name)) else {
                need_nothing.insert(*route);
                continue;
            };
            let needs = needs.entry(rarest.clone()).or_default();
            match needs.iter_mut().find(|needs| needs.fields == fields) {
                Some(needs) => needs.routes.insert(*route),
                None => needs.push(Needs { fields, routes: [*route].into_iter().collect() }),
            }
        }
        let field = |(name, (values, objects)): (&str, (Vec<_>, Vec<_>))| {
            let asked = Asked {
                all: values.iter().map(|(route, _)| *route).chain(objects.iter().map(|(route, _)| *route)).collect(),
                needs: needs.remove(name).unwrap_or_default(),
                leaves: (!values.is_empty()).then(|| Leaves::of(&values)),
                below: (!objects.is_empty()).then(|| Self::of(&objects)),
            };
            (name.to_owned(), asked)
        };
        Self { need_nothing, fields: asked.into_iter().map(field).collect() }
    }

    /// The routes that an object may fit.
    fn fitting(&self, object: &Map<String, Value>, excluded: &mut RouteBits) -> RouteBits {
        let (mut fitting, mut misfits) = (self.need_nothing.clone(), RouteBits::default());
        for (name, value) in object {
            let Some(field) = self.fields.get(name) else { continue };
            for needs in &field.needs {
                if needs.fields.iter().all(|name| object.contains_key(name)) {
                    fitting.add(&needs.routes);
                }
            }
            let mut misfits_here = field.all.clone();
            misfits_here.remove(&field.fitting(value, excluded));
            misfits.add(&misfits_here);
        }
        fitting.remove(&misfits);
        fitting
    }
}

impl Asked {
    /// The routes that a value may fit, or one of its elements. Adds those to `excluded` that fit nowhere because there
    /// is a value here.
    fn fitting(&self, value: &Value, excluded: &mut RouteBits) -> RouteBits {
        let mut found = Found::default();
        self.look_through(value, &mut found, excluded);
        if let Some(leaves) = &self.leaves {
            if found.a_leaf {
                excluded.add(&leaves.only_absent);
            } else {
                found.fitting.add(&leaves.absent);
            }
        }
        if let (Some(below), false) = (&self.below, found.an_object) {
            found.fitting.add(&below.need_nothing);
        }
        found.fitting
    }

    fn look_through(&self, value: &Value, found: &mut Found, excluded: &mut RouteBits) {
        match value {
            Value::Array(elements) => elements.iter().for_each(|element| self.look_through(element, found, excluded)),
            Value::Object(object) => {
                found.an_object = true;
                if let Some(below) = &self.below {
                    found.fitting.add(&below.fitting(object, excluded));
                }
            }
            leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                found.a_leaf = true;
                if let Some(leaves) = &self.leaves {
                    leaves.add_fitting(leaf, &mut found.fitting);
                }
            }
        }
    }
}

/// What a value consists of, and the routes that one of its elements fits.
#[derive(Debug, Default)]
struct Found {
    a_leaf: bool,
    an_object: bool,
    fitting: RouteBits,
}

impl Leaves {
    fn of(asking: &[(usize, &[Matcher])]) -> Self {
        let mut leaves = Self::default();
        let mut ranges = Vec::new();
        for (route, matchers) in asking {
            for matcher in *matchers {
                match matcher {
                    Matcher::Exact(value) => leaves.exact.insert(value, *route),
                    Matcher::Prefix(start) => leaves.starts.insert(start, *route),
                    Matcher::Suffix(end) => leaves.ends.insert(end, *route),
                    Matcher::Numeric(bounds) => ranges.push((range(bounds), *route)),
                    Matcher::Exists => leaves.exists.insert(*route),
                    Matcher::AnythingBut(_) => leaves.anything_but.insert(*route),
                    Matcher::Absent if matchers.iter().all(|matcher| *matcher == Matcher::Absent) => {
                        leaves.only_absent.insert(*route);
                        leaves.absent.insert(*route);
                    }
                    Matcher::Absent => leaves.absent.insert(*route),
                }
            }
            for value in excepted(matchers) {
                leaves.but.insert(value, *route);
            }
        }
        leaves.ranges = Ranges::of(&ranges);
        leaves
    }

    /// Adds the routes that a value may fit.
    fn add_fitting(&self, leaf: &Value, fitting: &mut RouteBits) {
        fitting.add(&self.exists);
        let mut others = self.anything_but.clone();
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
    first.filter(is_certain).filter(move |value| rest.iter().all(|values| values.contains(value)))
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
        let many = [&split[0], &split[1]].repeat(1_000);
        assert_eq!(left(&patterns, &json!({"lines": many})), Vec::<usize>::new());
        assert_eq!(left(&patterns, &json!({"lines": [many, whole]})), [0]);
    }

    /// Few names and values, so that patterns and bodies meet often.
    fn names<T: Strategy<Value = Value> + 'static>(below: T) -> impl Strategy<Value = Value> {
        btree_map(select(vec!["a", "b"]), below, 1..3).prop_map(|object| json!(object))
    }

    /// Patterns that the index decides as they do.
    fn decided() -> impl Strategy<Value = Value> {
        let bounds = [json!([">", 1]), json!(["<=", 1]), json!([">", 0, "<", 2])];
        let numeric = bounds.into_iter().map(|bounds| json!({ "numeric": bounds }));
        let but = [json!([1]), json!([2, 1]), json!(["x"])].into_iter().map(|values| json!({ "anything-but": values }));
        let texts = [json!({"prefix": "x"}), json!({"suffix": "y"}), json!({"exists": true})];
        let entries: Vec<_> = [json!(1), json!("x")].into_iter().chain(texts).chain(numeric).chain(but).collect();
        let list = vec(select(entries), 1..3).prop_map(|entries| json!(entries));
        let list = prop_oneof![6 => list, 1 => Just(json!([{"exists": false}]))];
        names(list.prop_recursive(3, 8, 2, names))
    }

    /// Patterns of which the index may leave some that do not fit.
    fn others() -> impl Strategy<Value = Value> {
        let great = 9_007_199_254_740_992_u64;
        let operators =
            [json!({"exists": false}), json!({"anything-but": [1, great]}), json!({"numeric": [">", great]})];
        let entry = select([json!(1), json!("x"), json!(great)].into_iter().chain(operators).collect::<Vec<_>>());
        let list = vec(entry, 1..3).prop_map(|entries| json!(entries));
        names(list.prop_recursive(3, 8, 2, names))
    }

    fn bodies() -> impl Strategy<Value = Value> {
        let texts = [json!("x"), json!("xy")];
        let values =
            [json!(1), json!(1.5), json!(2), json!({}), json!([]), json!(null), json!(9_007_199_254_740_993_u64)];
        let value = select(texts.into_iter().chain(values).collect::<Vec<_>>());
        value.prop_recursive(5, 24, 3, |below| {
            prop_oneof![names(below.clone()), vec(below, 1..4).prop_map(|elements| json!(elements))]
        })
    }

    fn fits(pattern: &Value, body: &Value) -> bool {
        Pattern::compile(pattern.as_object().unwrap(), "when", &mut Faults::default()).fits(body)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn the_index_leaves_the_routes_that_fit(patterns in vec(decided(), 1..6), body in bodies()) {
            let fitting: Vec<_> = (0..patterns.len()).filter(|route| fits(&patterns[*route], &body)).collect();
            prop_assert_eq!(left(&patterns, &body), fitting, "{:?} on {}", patterns, body);
        }

        #[test]
        fn no_route_that_fits_is_left_out(patterns in vec(prop_oneof![decided(), others()], 1..6), body in bodies()) {
            let left = left(&patterns, &body);
            for (route, pattern) in patterns.iter().enumerate() {
                prop_assert!(left.contains(&route) || !fits(pattern, &body), "{} on {}", pattern, body);
            }
        }
    }

    #[test]
    fn a_set_of_many_routes_is_indexed_whole() {
        let patterns: Vec<_> = (0..200).map(|number| json!({ "n": [number, number + 1] })).collect();
        assert_eq!(left(&patterns, &json!({ "n": 130 })), [129, 130]);
    }
}
