//! Finds the routes of a set that a body may fit. What the set asks of one field is looked up together, so a value
//! costs about the same however many routes ask about it.
//!
//! The index only excludes routes: those that remain are still compared as a whole. A route that does not fit remains
//! only where whole numbers beyond 2^53 are compared, above or below zero: the index knows them as floats, and several
//! of them have the same float.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::asked::{self, Asks};
use super::leaves::Leaves;
use super::pattern::{Field, Matcher, Pattern};
use super::route_bits::{RouteBits, RouteGroup};

/// What the patterns of a set ask for.
#[derive(Debug)]
pub(super) struct ValueIndex {
    /// The routes without a pattern.
    without: RouteBits,
    body: Asked,
    /// How many fields may be absent, and how many places have such fields below.
    absences: Absences,
}

/// Counts while a set is indexed: each one has a number.
#[derive(Debug, Clone, Copy, Default)]
struct Absences {
    leaves: usize,
    nodes: usize,
}

impl ValueIndex {
    /// Indexes the patterns of a set, by the numbers of the routes.
    pub(super) fn of<'a>(patterns: impl Iterator<Item = Option<&'a Pattern>>) -> Self {
        let (mut without, mut asking, mut absences) = (RouteBits::default(), Vec::new(), Absences::default());
        for (route, pattern) in patterns.enumerate() {
            match pattern {
                Some(pattern) => asking.push((route, pattern)),
                None => without.insert(route),
            }
        }
        let body = Asked::of(&[], &asking, &mut absences);
        Self { without, body, absences }
    }

    /// What the patterns of these routes ask about in a body. `None` if it is no JSON, cannot be compared or takes too
    /// much memory.
    pub(super) fn read(&self, body: &[u8], routes: &RouteBits) -> Option<Value> {
        asked::read(body, AskedBy { routes, asked: &self.body })
    }

    /// The routes that a body may fit, of those that it was read for.
    pub(super) fn possible(&self, body: &Value) -> RouteBits {
        let Absences { leaves, nodes } = self.absences;
        let mut presence = Presence { leaves: vec![false; leaves], missed: vec![Vec::new(); nodes] };
        self.body.note(body, &mut presence);
        if presence.leaves.contains(&true) {
            self.body.note_missed(&mut presence);
        }
        let mut possible = self.body.fitting(body, &presence);
        possible.add(&self.without);
        possible
    }
}

/// Which of the fields that may be absent a body has. For a pattern, a field is absent if no element of an array has
/// it, not if one element lacks it.
struct Presence<'a> {
    /// Of each field, whether it has a value anywhere.
    leaves: Vec<bool>,
    /// For each place, the fields that its objects must have because they stand elsewhere in the body, and for which
    /// routes.
    missed: Vec<Vec<(&'a str, RouteBits)>>,
}

impl Presence<'_> {
    fn missed(&self, node: &Node) -> impl Iterator<Item = &(&str, RouteBits)> {
        self.missed.get(node.number).into_iter().flatten()
    }
}

/// What routes ask of the objects in one place.
#[derive(Debug)]
struct Node {
    /// The routes that need no field.
    need_nothing: RouteGroup,
    fields: HashMap<String, Asked>,
    /// Those of the fields that may be absent, or that have such fields below.
    absent: Vec<String>,
    number: usize,
}

/// What routes ask of one field. Each asks either for a value or for objects.
#[derive(Debug)]
struct Asked {
    /// The routes that ask.
    all: RouteGroup,
    /// What else they need, as far as they need this field and no field that fewer routes ask about.
    needs: Vec<Needs>,
    leaves: Option<Box<Leaves>>,
    below: Option<Box<Node>>,
}

/// Routes that need the same fields.
#[derive(Debug)]
struct Needs {
    fields: Vec<String>,
    routes: RouteGroup,
}

/// Whether an object without this field cannot fit.
fn is_needed(field: &Field) -> bool {
    match field {
        Field::Object(pattern) => pattern.fields.iter().any(|(_, field)| is_needed(field)),
        Field::Leaf(matchers) => !matchers.contains(&Matcher::Absent),
    }
}

impl Node {
    fn of(asking: &[(usize, &Pattern)], absences: &mut Absences) -> Self {
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
        let mut needs: HashMap<String, BTreeMap<Vec<String>, RouteGroup>> = HashMap::new();
        let mut need_nothing = RouteGroup::default();
        for (route, pattern) in asking {
            let fields = pattern.fields.iter().filter(|(_, field)| is_needed(field));
            let fields: Vec<_> = fields.map(|(name, _)| name.clone()).collect();
            match fields.iter().min_by_key(|name| asked_by(name)) {
                Some(rarest) => {
                    needs.entry(rarest.clone()).or_default().entry(fields).or_default().insert(*route);
                }
                None => need_nothing.insert(*route),
            }
        }
        let mut node = Self { need_nothing, fields: HashMap::new(), absent: Vec::new(), number: usize::MAX };
        for (name, (values, objects)) in asked {
            let mut field = Asked::of(&values, &objects, absences);
            let needs = needs.remove(name).into_iter().flatten();
            field.needs = needs.map(|(fields, routes)| Needs { fields, routes }).collect();
            node.absent.extend(field.may_be_absent().then(|| name.to_owned()));
            node.fields.insert(name.to_owned(), field);
        }
        if !node.absent.is_empty() {
            node.number = absences.nodes;
            absences.nodes += 1;
        }
        node
    }

    /// The routes that an object may fit.
    fn fitting(&self, object: &Map<String, Value>, presence: &Presence<'_>) -> RouteBits {
        let (mut fitting, mut misfits) = (RouteBits::default(), RouteBits::default());
        self.need_nothing.add_to(&mut fitting);
        for (name, value) in object {
            let Some(field) = self.fields.get(name) else { continue };
            for Needs { fields, routes } in &field.needs {
                if fields.len() <= object.len() && fields.iter().all(|name| object.contains_key(name)) {
                    routes.add_to(&mut fitting);
                }
            }
            misfits.add(&field.all_but(&field.fitting(value, presence)));
        }
        for (name, routes) in presence.missed(self) {
            if !object.contains_key(*name) {
                misfits.add(routes);
            }
        }
        fitting.remove(&misfits);
        fitting
    }

    /// The routes that fit where there is no object.
    fn fitting_nothing(&self, presence: &Presence<'_>) -> RouteBits {
        let mut fitting = RouteBits::default();
        self.need_nothing.add_to(&mut fitting);
        presence.missed(self).for_each(|(_, routes)| fitting.remove(routes));
        fitting
    }

    fn absent_fields(&self) -> impl Iterator<Item = (&String, &Asked)> {
        self.absent.iter().filter_map(|name| Some((name, self.fields.get(name)?)))
    }
}

/// What some routes ask of one field.
#[derive(Clone, Copy)]
struct AskedBy<'a> {
    routes: &'a RouteBits,
    asked: &'a Asked,
}

impl Asks for AskedBy<'_> {
    fn leaves(&self) -> bool {
        self.asked.leaves.as_ref().is_some_and(|leaves| leaves.asked_by.is_among(self.routes))
    }

    fn field(&self, name: &str) -> Option<Self> {
        let asked = self.asked.below.as_ref()?.fields.get(name)?;
        asked.all.is_among(self.routes).then_some(Self { asked, ..*self })
    }
}

impl Asked {
    fn of(values: &[(usize, &[Matcher])], objects: &[(usize, &Pattern)], absences: &mut Absences) -> Self {
        let mut all = RouteGroup::default();
        let routes = values.iter().map(|(route, _)| route).chain(objects.iter().map(|(route, _)| route));
        routes.for_each(|route| all.insert(*route));
        let leaves = (!values.is_empty()).then(|| Box::new(Leaves::of(values, &mut absences.leaves)));
        let below = (!objects.is_empty()).then(|| Box::new(Node::of(objects, absences)));
        Self { all, needs: Vec::new(), leaves, below }
    }

    /// The routes that fit if there is no value anywhere, and the number of the field.
    fn absent(&self) -> Option<&(RouteGroup, usize)> {
        self.leaves.as_ref()?.absent.as_ref()
    }

    fn may_be_absent(&self) -> bool {
        self.absent().is_some() || self.below.as_ref().is_some_and(|below| !below.absent.is_empty())
    }

    /// The routes that ask, but for these.
    fn all_but(&self, fitting: &RouteBits) -> RouteBits {
        let mut others = RouteBits::default();
        self.all.add_to(&mut others);
        others.remove(fitting);
        others
    }

    /// Notes which fields have a value, of those that may be absent.
    fn note(&self, value: &Value, presence: &mut Presence<'_>) {
        match value {
            _ if !self.may_be_absent() => {}
            Value::Array(elements) => elements.iter().for_each(|element| self.note(element, presence)),
            Value::Object(object) => {
                let Some(below) = &self.below else { return };
                for (field, value) in object.iter().filter_map(|(name, value)| Some((below.fields.get(name)?, value))) {
                    field.note(value, presence);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                if let Some(is_present) = self.absent().and_then(|(_, number)| presence.leaves.get_mut(*number)) {
                    *is_present = true;
                }
            }
        }
    }

    /// Notes what objects must not lack. Returns the routes that do not fit where there is nothing.
    fn note_missed<'a>(&'a self, presence: &mut Presence<'a>) -> RouteBits {
        let mut all = RouteBits::default();
        if let Some((routes, number)) = self.absent()
            && presence.leaves.get(*number) == Some(&true)
        {
            routes.add_to(&mut all);
        }
        if let Some(below) = self.below.as_ref().filter(|below| !below.absent.is_empty()) {
            let mut missed = Vec::new();
            for (name, field) in below.absent_fields() {
                let routes = field.note_missed(presence);
                if routes != RouteBits::default() {
                    all.add(&routes);
                    missed.push((name.as_str(), routes));
                }
            }
            presence.missed.get_mut(below.number).into_iter().for_each(|here| here.append(&mut missed));
        }
        all
    }

    /// The routes that a value may fit, or one of its elements.
    fn fitting(&self, value: &Value, presence: &Presence<'_>) -> RouteBits {
        let mut found = Found::default();
        self.look_through(value, &mut found, presence);
        if let Some((routes, number)) = self.absent().filter(|_| !found.a_leaf)
            && presence.leaves.get(*number) == Some(&false)
        {
            routes.add_to(&mut found.fitting);
        }
        if let (Some(below), false) = (&self.below, found.an_object) {
            found.fitting.add(&below.fitting_nothing(presence));
        }
        found.fitting
    }

    fn look_through(&self, value: &Value, found: &mut Found, presence: &Presence<'_>) {
        match value {
            Value::Array(elements) => elements.iter().for_each(|element| self.look_through(element, found, presence)),
            Value::Object(object) => {
                found.an_object = true;
                if let Some(below) = &self.below {
                    found.fitting.add(&below.fitting(object, presence));
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

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::json;

    use hookonce_protocol::key::{EndpointId, RecordKey};
    use hookonce_protocol::plan::{EVENT_VERSION, Event};
    use hookonce_protocol::time::EpochMs;

    use super::super::fault::Faults;
    use super::super::set::{Decision, Offered, RouteSet};
    use super::*;

    fn compiled(pattern: &Value) -> Pattern {
        let mut faults = Faults::default();
        let compiled = Pattern::compile(pattern.as_object().unwrap(), "when", &mut faults);
        faults.none().unwrap();
        compiled
    }

    fn left(patterns: &[Value], body: &Value) -> Vec<usize> {
        let compiled: Vec<_> = patterns.iter().map(compiled).collect();
        let possible = ValueIndex::of(compiled.iter().map(Some)).possible(body);
        (0..patterns.len()).filter(|route| possible.contains(*route)).collect()
    }

    /// Few names and values, so that patterns and bodies meet often.
    fn names<T: Strategy<Value = Value> + 'static>(below: T) -> impl Strategy<Value = Value> {
        btree_map(select(vec!["a", "b"]), below, 1..3).prop_map(|object| json!(object))
    }

    fn or_absent(mut entries: Value) -> Value {
        entries.as_array_mut().unwrap().push(json!({"exists": false}));
        entries
    }

    /// Patterns that the index decides as they do.
    fn decided() -> impl Strategy<Value = Value> {
        let ranges = [json!([">", 1]), json!(["<=", 1]), json!([">", 0, "<", 2]), json!([">=", 2]), json!(["<", -1])];
        let numeric = ranges.into_iter().chain([json!(["=", 1.5])]).map(|bounds| json!({ "numeric": bounds }));
        let but = [json!([1]), json!([2, 1]), json!(["x"])].into_iter().map(|values| json!({ "anything-but": values }));
        let texts = [json!({"prefix": "x"}), json!({"suffix": "y"}), json!({"exists": true})];
        let exact = [json!(1), json!(0), json!("x"), json!(""), json!(null), json!(true)];
        let entries: Vec<_> = exact.into_iter().chain(texts).chain(numeric).chain(but).collect();
        let list = vec(select(entries), 1..3).prop_map(|entries| json!(entries));
        let list = prop_oneof![5 => list.clone(), 1 => Just(json!([{"exists": false}])), 1 => list.prop_map(or_absent)];
        names(list.prop_recursive(3, 8, 2, names))
    }

    /// Patterns of which the index may leave some that do not fit.
    fn others() -> impl Strategy<Value = Value> {
        let great = 9_007_199_254_740_992_u64;
        let operators =
            [json!({"exists": false}), json!({"anything-but": [1, great]}), json!({"numeric": [">", great]})];
        let exact = [json!(1), json!("x"), json!(great), json!(u64::MAX)];
        let entry = select(exact.into_iter().chain(operators).collect::<Vec<_>>());
        let list = vec(entry, 1..3).prop_map(|entries| json!(entries));
        names(list.prop_recursive(3, 8, 2, names))
    }

    fn bodies() -> impl Strategy<Value = Value> {
        let others = [json!("x"), json!("xy"), json!(""), json!({}), json!([]), json!(null), json!(true)];
        let numbers = [json!(1), json!(1.0), json!(1.5), json!(2), json!(-0.0), json!(-1), json!(-2)];
        let great = [json!(9_007_199_254_740_993_u64), json!(u64::MAX)];
        let value = select(others.into_iter().chain(numbers).chain(great).collect::<Vec<_>>());
        value.prop_recursive(5, 24, 3, |below| {
            prop_oneof![names(below.clone()), vec(below, 1..4).prop_map(|elements| json!(elements))]
        })
    }

    fn fits(pattern: &Value, body: &Value) -> bool {
        compiled(pattern).fits(body)
    }

    /// Routes with and without a pattern, each for the event's type or for another one.
    fn routes(pattern: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<(Option<Value>, bool)>> {
        vec((proptest::option::weighted(0.95, pattern), proptest::bool::weighted(0.8)), 1..24)
    }

    /// A body as text. Some of its texts become what cannot be compared.
    fn texts() -> impl Strategy<Value = String> {
        let texts = [r#""x""#, "1e999", r#""\ud800""#];
        (bodies(), proptest::option::weighted(0.1, select(texts.to_vec())))
            .prop_map(|(body, text)| text.map_or(body.to_string(), |text| body.to_string().replace(r#""xy""#, text)))
    }

    /// What the set decides about the body: the number of the route, none, or that it cannot be read.
    fn decided_by_the_loop(routes: &[(Option<Value>, bool)], body: &str) -> Result<Option<usize>, ()> {
        let route = |(number, (when, is_concerned)): (usize, &(Option<Value>, bool))| {
            let types = [if *is_concerned { "t" } else { "other" }];
            let name = number.to_string();
            let mut route = json!({ "name": name, "consumer": name, "types": types, "forward": ["crm"] });
            route.as_object_mut().unwrap().extend(when.clone().map(|when| ("when".to_owned(), when)));
            route
        };
        let routes: Vec<_> = routes.iter().enumerate().map(route).collect();
        let text = json!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
        let set = RouteSet::parse(&text, Offered { handlers: &[], urls: false, tables: None }).unwrap();
        let endpoint = EndpointId::parse("e").unwrap();
        let event = Event {
            version: EVENT_VERSION,
            record: RecordKey::delivery(&endpoint, "1"),
            tenant: endpoint.clone().into(),
            endpoint,
            provider: "stripe".to_owned(),
            key: "1".to_owned(),
            event_type: "t".to_owned(),
            received_at: EpochMs(0),
            generation: 0,
            headers: BTreeMap::new(),
            body: body.as_bytes().to_vec(),
        };
        match set.decide(&event) {
            Decision::Handle(handling) => Ok(Some(handling.consumer.parse().unwrap())),
            Decision::Otherwise(_) => Ok(None),
            Decision::Unreadable => Err(()),
            Decision::Ignore => panic!("no route ignores"),
        }
    }

    /// The same by the index. With `is_compared`, what it leaves is compared as a whole.
    fn decided_by_the_index(
        routes: &[(Option<Value>, bool)],
        body: &str,
        is_compared: bool,
    ) -> Result<Option<usize>, ()> {
        let patterns: Vec<_> = routes.iter().map(|(when, _)| when.as_ref().map(compiled)).collect();
        let index = ValueIndex::of(patterns.iter().map(Option::as_ref));
        let concerned: RouteBits = (0..routes.len()).filter(|route| routes[*route].1).collect();
        for route in concerned.iter() {
            let Some(pattern) = &patterns[route] else { return Ok(Some(route)) };
            let json = index.read(body.as_bytes(), &concerned).ok_or(())?;
            if index.possible(&json).contains(route) && (!is_compared || pattern.fits(&json)) {
                return Ok(Some(route));
            }
        }
        Ok(None)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn the_loop_decides_as_the_index_alone_does(routes in routes(decided()), body in texts()) {
            prop_assert_eq!(decided_by_the_loop(&routes, &body), decided_by_the_index(&routes, &body, false));
        }

        #[test]
        fn the_loop_decides_as_the_index_does(routes in routes(prop_oneof![decided(), others()]), body in texts()) {
            prop_assert_eq!(decided_by_the_loop(&routes, &body), decided_by_the_index(&routes, &body, true));
        }

        #[test]
        fn the_index_leaves_the_routes_that_fit(patterns in vec(decided(), 1..6), body in bodies()) {
            let fitting: Vec<_> = (0..patterns.len()).filter(|route| fits(&patterns[*route], &body)).collect();
            prop_assert_eq!(left(&patterns, &body), fitting, "{:?} on {}", patterns, body);
        }

        #[test]
        fn what_no_pattern_asks_about_makes_no_difference(
            patterns in vec((prop_oneof![decided(), others()], any::<bool>()), 1..6),
            body in bodies(),
        ) {
            let compiled: Vec<_> = patterns.iter().map(|(pattern, _)| compiled(pattern)).collect();
            let index = ValueIndex::of(compiled.iter().map(Some));
            let asking: RouteBits = (0..patterns.len()).filter(|route| patterns[*route].1).collect();
            let read = index.read(body.to_string().as_bytes(), &asking).unwrap();
            let [possible, expected] = [&read, &body].map(|body| {
                let mut possible = index.possible(body);
                possible.keep(&asking);
                possible
            });
            prop_assert_eq!(possible, expected, "{} of {}", read, body);
            for pattern in asking.iter().map(|route| &compiled[route]) {
                prop_assert_eq!(pattern.misfit(&read), pattern.misfit(&body), "{:?} on {} of {}", pattern, read, body);
                prop_assert_eq!(pattern.fits(&read), pattern.fits(&body));
            }
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
