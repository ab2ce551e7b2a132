//! Patterns on a JSON body, in the language of EventBridge: exact values, `prefix`, `suffix`, `anything-but`, `exists`
//! and `numeric`, with the meaning that AWS documents; docs/use/routes.md names the differences.
//!
//! A field of a pattern holds a list, and one of its entries must fit; all fields must fit. An array in the body fits
//! if one of its elements does, and fields below an array of objects must fit within one element. `exists` asks for a
//! leaf, so an object or an empty list does not exist; what `{"exists": false}` names must not occur in the body.
//! <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html>
//!
//! No crate does it: `quamina` 0.7 takes neighbours among the whole numbers above 2^53 for equal, refuses a body that
//! is an array, and panics on 1,000 patterns of two fields; `event-ruler` has had one release.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::documents::fault::Checker;

/// The most entries in the list of one field.
const ENTRIES_MAX: usize = 100;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    pub(super) fields: Vec<(String, Field)>,
    /// Whether any field tests absence. Only then is the whole body looked through.
    tests_absence: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field {
    Object(Pattern),
    Leaf(Vec<Matcher>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Matcher {
    Exact(Value),
    Prefix(String),
    Suffix(String),
    AnythingBut(Vec<Value>),
    Exists,
    Absent,
    Numeric(Vec<(Comparison, Number)>),
}

/// What exists nowhere in a body, by the fields of a pattern. It is looked up once for each path, because a stranger
/// may decide how many elements an array has. Empty if the pattern does not ask.
#[derive(Debug, Default)]
struct Absence(Vec<Absent>);

#[derive(Debug)]
enum Absent {
    Leaf(bool),
    Below(Absence),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "=" => Self::Equal,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Pattern {
    /// Compiles a pattern, and tells every fault with its place.
    pub(super) fn compile(object: &Map<String, Value>, check: &mut Checker<'_>) -> Self {
        if object.is_empty() {
            check.add("is empty; leave it out, or name a field");
        }
        let mut fields = Vec::with_capacity(object.len());
        for (name, value) in object {
            let mut check = check.field(name);
            match value {
                _ if name == "$or" => check.add("`$or` is not supported; write two routes"),
                Value::Object(object) => {
                    fields.push((name.clone(), Field::Object(Self::compile(object, &mut check))));
                }
                Value::Array(entries) if entries.is_empty() || entries.len() > ENTRIES_MAX => {
                    check.add(format!("must list 1 to {ENTRIES_MAX} values or operators"));
                }
                Value::Array(entries) => {
                    let matchers = entries.iter().filter_map(|entry| matcher(entry, &mut check)).collect();
                    fields.push((name.clone(), Field::Leaf(matchers)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    check.add("must be an object or a list: write [VALUE] for one value");
                }
            }
        }
        let tests_absence = fields.iter().any(|(_, field)| match field {
            Field::Object(pattern) => pattern.tests_absence,
            Field::Leaf(matchers) => matchers.contains(&Matcher::Absent),
        });
        Self { fields, tests_absence }
    }

    /// How many values and operators its fields list, those in the list of an `anything-but` included.
    pub(super) fn entries(&self) -> usize {
        let entries = self.fields.iter().map(|(_, field)| match field {
            Field::Object(pattern) => pattern.entries(),
            Field::Leaf(matchers) => matchers.iter().map(Matcher::entries).sum(),
        });
        entries.sum()
    }

    /// Whether a body fits.
    pub(super) fn fits(&self, body: &Value) -> bool {
        let mut roots = Vec::new();
        if self.tests_absence {
            objects(body, &mut roots);
        }
        self.fits_value(Some(body), &self.absence(&roots))
    }

    /// Whether a value fits, or one of its elements.
    fn fits_value(&self, value: Option<&Value>, absence: &Absence) -> bool {
        if self.tests_absence {
            let mut here = Vec::new();
            if let Some(value) = value {
                objects(value, &mut here);
            }
            return self.fits_one_of(&here, absence);
        }
        match value {
            Some(Value::Object(object)) => self.fits_object(Some(object), absence),
            Some(Value::Array(elements)) => elements.iter().any(|element| self.fits_value(Some(element), absence)),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
        }
    }

    /// The first field that does not fit, as a path in the pattern.
    pub(super) fn misfit(&self, body: &Value) -> Option<String> {
        let mut roots = Vec::new();
        objects(body, &mut roots);
        if self.fits_one_of(&roots, &self.absence(&roots)) { None } else { Some(self.misfit_below(&roots)) }
    }

    fn misfit_below(&self, all: &[&Map<String, Value>]) -> String {
        let alone = |(name, field): &&(String, Field)| {
            let alone = Self { fields: vec![(name.clone(), field.clone())], tests_absence: self.tests_absence };
            !alone.fits_one_of(all, &alone.absence(all))
        };
        match self.fields.iter().find(alone) {
            Some((name, Field::Object(pattern))) => format!("{name}.{}", pattern.misfit_below(&below(all, name))),
            Some((name, Field::Leaf(_))) => name.clone(),
            // Each field fits, but not within one element of an array.
            None => "(all fields of one element)".to_owned(),
        }
    }

    /// What exists nowhere. `all` are the objects at this pattern's path anywhere in the body.
    fn absence(&self, all: &[&Map<String, Value>]) -> Absence {
        if !self.tests_absence {
            return Absence::default();
        }
        let nowhere = |name: &str| {
            !all.iter().any(|object| object.get(name).is_some_and(|value| any_leaf(value, &|_: &Value| true)))
        };
        Absence(
            self.fields
                .iter()
                .map(|(name, field)| match field {
                    Field::Leaf(matchers) => Absent::Leaf(matchers.contains(&Matcher::Absent) && nowhere(name)),
                    Field::Object(pattern) if pattern.tests_absence => {
                        Absent::Below(pattern.absence(&below(all, name)))
                    }
                    Field::Object(_) => Absent::Below(Absence::default()),
                })
                .collect(),
        )
    }

    /// Whether one of these objects fits.
    fn fits_one_of(&self, here: &[&Map<String, Value>], absence: &Absence) -> bool {
        if here.is_empty() {
            return self.tests_absence && self.fits_object(None, absence);
        }
        here.iter().any(|object| self.fits_object(Some(object), absence))
    }

    fn fits_object(&self, object: Option<&Map<String, Value>>, absence: &Absence) -> bool {
        let nothing = Absence::default();
        self.fields.iter().enumerate().all(|(at, (name, field))| {
            let value = object.and_then(|object| object.get(name));
            let absent = absence.0.get(at);
            match field {
                Field::Leaf(matchers) => matchers.iter().any(|matcher| match matcher {
                    Matcher::Absent => matches!(absent, Some(Absent::Leaf(true))),
                    matcher => value.is_some_and(|value| any_leaf(value, &|leaf: &Value| matcher.fits(leaf))),
                }),
                Field::Object(pattern) => match absent {
                    Some(Absent::Below(below)) => pattern.fits_value(value, below),
                    Some(Absent::Leaf(_)) | None => pattern.fits_value(value, &nothing),
                },
            }
        })
    }
}

impl Matcher {
    fn entries(&self) -> usize {
        match self {
            Self::AnythingBut(values) => values.len(),
            Self::Exact(_) | Self::Prefix(_) | Self::Suffix(_) | Self::Exists | Self::Absent | Self::Numeric(_) => 1,
        }
    }

    fn fits(&self, leaf: &Value) -> bool {
        match self {
            Self::Exact(value) => same(value, leaf),
            Self::Prefix(start) => leaf.as_str().is_some_and(|text| text.starts_with(start)),
            Self::Suffix(end) => leaf.as_str().is_some_and(|text| text.ends_with(end)),
            Self::AnythingBut(values) => !values.iter().any(|value| same(value, leaf)),
            Self::Exists => true,
            Self::Absent => false,
            Self::Numeric(bounds) => leaf.as_number().is_some_and(|number| {
                bounds
                    .iter()
                    .all(|(comparison, bound)| order(number, bound).is_some_and(|order| comparison.holds(order)))
            }),
        }
    }
}

/// Reads one entry of a field's list.
fn matcher(entry: &Value, check: &mut Checker<'_>) -> Option<Matcher> {
    let object = match entry {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Some(Matcher::Exact(entry.clone()));
        }
        Value::Array(_) => {
            check.add("a list within the list is not supported");
            return None;
        }
        Value::Object(object) => object,
    };
    let mut members = object.iter();
    let (Some((operator, operand)), None) = (members.next(), members.next()) else {
        check.add("an operator is an object with exactly one name, such as {\"prefix\": \"a\"}");
        return None;
    };
    let matcher = match operator.as_str() {
        "prefix" => operand.as_str().map(|text| Matcher::Prefix(text.to_owned())).ok_or("`prefix` takes a text"),
        "suffix" => operand.as_str().map(|text| Matcher::Suffix(text.to_owned())).ok_or("`suffix` takes a text"),
        "exists" => match operand {
            Value::Bool(true) => Ok(Matcher::Exists),
            Value::Bool(false) => Ok(Matcher::Absent),
            _ => Err("`exists` takes true or false"),
        },
        "anything-but" => anything_but(operand).ok_or("`anything-but` takes a text, a number, or a list of either"),
        "numeric" => numeric(operand)
            .ok_or("`numeric` takes [\"=\", N], or one or both of a lower (>, >=) and an upper (<, <=) bound"),
        other => {
            let known = "prefix, suffix, anything-but, exists and numeric";
            check.add(format!("the operator `{other}` is not supported; these are: {known}"));
            return None;
        }
    };
    matcher.map_err(|reason| check.add(reason)).ok()
}

fn anything_but(operand: &Value) -> Option<Matcher> {
    let values = match operand {
        Value::String(_) | Value::Number(_) => vec![operand.clone()],
        Value::Array(values) => values.clone(),
        Value::Null | Value::Bool(_) | Value::Object(_) => return None,
    };
    let alike = values.iter().all(Value::is_string) || values.iter().all(Value::is_number);
    (!values.is_empty() && alike && values.len() <= ENTRIES_MAX).then_some(Matcher::AnythingBut(values))
}

fn numeric(operand: &Value) -> Option<Matcher> {
    let (pairs, rest) = operand.as_array()?.as_chunks::<2>();
    let bound = |[comparison, number]: &[Value; 2]| {
        Some((Comparison::parse(comparison.as_str()?)?, number.as_number()?.clone()))
    };
    let bounds = pairs.iter().map(bound).collect::<Option<Vec<_>>>().filter(|_| rest.is_empty())?;
    let is_lower = |comparison| matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
    let is_upper = |comparison| matches!(comparison, Comparison::Less | Comparison::LessOrEqual);
    let formed = match bounds.as_slice() {
        [_] => true,
        [(lower, from), (upper, to)] => {
            is_lower(*lower) && is_upper(*upper) && order(from, to).is_some_and(Ordering::is_lt)
        }
        _ => false,
    };
    formed.then_some(Matcher::Numeric(bounds))
}

/// Equal as JSON values. Numbers are equal by value: 300, 300.0 and 3e2 are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => order(one, other).is_some_and(Ordering::is_eq),
        (one, other) => one == other,
    }
}

/// Whole numbers are compared digit by digit, because a float has only about 15.
fn order(one: &Number, other: &Number) -> Option<Ordering> {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (None, _) | (_, None) => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Whether a leaf fits: the value itself, or one in its arrays.
fn any_leaf(value: &Value, fits: &impl Fn(&Value) -> bool) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(|element| any_leaf(element, fits)),
        Value::Object(_) => false,
        leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => fits(leaf),
    }
}

/// The objects that a value is or has in its arrays.
fn objects<'a>(value: &'a Value, found: &mut Vec<&'a Map<String, Value>>) {
    match value {
        Value::Object(object) => found.push(object),
        Value::Array(elements) => elements.iter().for_each(|element| objects(element, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The objects that these objects have under a name.
fn below<'a>(all: &[&'a Map<String, Value>], name: &str) -> Vec<&'a Map<String, Value>> {
    let mut found = Vec::new();
    for value in all.iter().filter_map(|object| object.get(name)) {
        objects(value, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::body::{self, Named};
    use super::*;
    use crate::documents::fault::joined;

    fn compiled(pattern: &Value) -> Result<Pattern, String> {
        let mut faults = Vec::new();
        let pattern = Pattern::compile(pattern.as_object().unwrap(), &mut Checker::new(&mut faults).field("when"));
        if faults.is_empty() { Ok(pattern) } else { Err(joined(&faults)) }
    }

    /// Patterns with bodies and whether they fit, each group by what it shows; and patterns that are refused, with what
    /// is said.
    #[derive(serde::Deserialize)]
    struct Cases {
        fits: std::collections::BTreeMap<String, Vec<(Value, Value, bool)>>,
        refused: Vec<(Value, String)>,
    }

    fn cases() -> Cases {
        serde_json::from_str(include_str!("pattern_cases.json")).unwrap()
    }

    /// Whether a body fits. What names the misfit agrees, and what the pattern does not name makes no difference.
    fn holds(pattern: &Value, body: &Value) -> bool {
        let compiled = compiled(pattern).unwrap();
        let fits = compiled.fits(body);
        let read = body::read(body.to_string().as_bytes(), &Named::by([&compiled].into_iter())).unwrap();
        assert_eq!(compiled.fits(&read), fits, "{pattern} on {read} of {body}");
        assert_eq!(compiled.misfit(body).is_none(), fits, "{pattern} on {body}");
        assert_eq!(compiled.misfit(&read), compiled.misfit(body), "{pattern} on {read} of {body}");
        fits
    }

    #[test]
    fn a_pattern_means_what_eventbridge_documents() {
        for (pattern, body, fits) in cases().fits.into_values().flatten() {
            assert_eq!(holds(&pattern, &body), fits, "{pattern} on {body}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_and_place() {
        for (pattern, expected) in cases().refused {
            let error = compiled(&pattern).unwrap_err();
            assert!(error.contains(&expected), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_misfit_names_its_field() {
        let pattern = compiled(&json!({"a": ["x"], "b": {"c": [1], "d": [{"exists": true}]}})).unwrap();
        assert_eq!(pattern.misfit(&json!({"a": "x", "b": {"c": 1}})).as_deref(), Some("b.d"));
        assert_eq!(pattern.misfit(&json!({"b": {"c": 1, "d": 1}})).as_deref(), Some("a"));
        let split = json!({"a": "x", "b": [{"c": 1}, {"d": 1}]});
        assert_eq!(pattern.misfit(&split).as_deref(), Some("b.(all fields of one element)"));
    }

    /// If each element were compared with all, this test would not end within minutes.
    #[test]
    fn a_long_array_is_looked_through_once() {
        let pattern = compiled(&json!({"items": {"deleted": {"at": [{"exists": false}]}, "kind": ["x"]}})).unwrap();
        let elements = |count| vec![json!({"deleted": {"by": 1}}); count];
        assert!(!pattern.fits(&json!({"items": elements(100_000)})));
        assert!(pattern.fits(&json!({"items": [elements(2), [{"kind": "x"}]]})));
        assert!(!pattern.fits(&json!({"items": [{"deleted": {"at": 1}}, {"kind": "x"}]})));
    }
}
