//! What the role of each function allows, by the template: its statements, and a small evaluator of IAM that decides a
//! request by them. It knows what the template uses. Whatever else a statement says fails the test.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::template::{Template, template};

/// Actions by resource.
pub(crate) type Allowed = BTreeMap<String, BTreeSet<String>>;

/// What each function's role allows, by the function's name in the template.
pub(crate) fn roles() -> BTreeMap<String, Allowed> {
    let template = template();
    let functions = template.resources("AWS::Serverless::Function");
    functions.into_iter().map(|function| (function.to_owned(), allowed(&template, function))).collect()
}

/// What the role of a function names as allowed, whatever the conditions and the denials are.
pub(crate) fn allowed(template: &Template, function: &str) -> Allowed {
    let mut allowed = Allowed::new();
    for statement in Statements::of(template, function).0 {
        if statement.is_allowed {
            for resource in texts(&statement.resources) {
                allowed.entry(resource).or_default().extend(statement.actions());
            }
        }
    }
    allowed
}

/// One call to AWS, as a policy sees it.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    action: &'a str,
    resource: &'a str,
    /// What AWS knows beside, by the name of the condition's key. A key that is not here is missing in the request.
    context: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Request<'a> {
    pub(crate) const fn new(action: &'a str, resource: &'a str) -> Self {
        Self { action, resource, context: BTreeMap::new() }
    }

    pub(crate) fn with(mut self, key: &'a str, values: &[&'a str]) -> Self {
        assert!(KEYS.iter().any(|(known, _)| *known == key), "no policy of the template knows the key {key}");
        self.context.insert(key, values.to_vec());
        self
    }
}

/// The statements of all policies that apply to one principal, or that one resource has.
#[derive(Debug)]
pub(crate) struct Statements(Vec<Statement>);

impl Statements {
    /// Those of a function's role: its own, and those of the policies that name it.
    pub(crate) fn of(template: &Template, function: &str) -> Self {
        let role = template.property(function, &["Role"]);
        let role = role.as_str().and_then(|role| role.strip_suffix(".Arn")).unwrap_or_default();
        let own = list(&template.property(role, &["Policies"]));
        let own = own.into_iter().map(|policy| policy["PolicyDocument"].clone());
        let bound = template.resources("AWS::IAM::Policy").into_iter();
        let bound =
            bound.filter(|policy| texts(&template.property(policy, &["Roles"])).iter().any(|name| name == role));
        let bound = bound.map(|policy| template.property(policy, &["PolicyDocument"]));
        Self(own.chain(bound).flat_map(|document| Self::in_document(&document).0).collect())
    }

    pub(crate) fn in_document(document: &Value) -> Self {
        Self(list(&document["Statement"]).iter().map(Statement::read).collect())
    }

    /// Together with those of a policy that a person adds.
    pub(crate) fn and(mut self, document: &Value) -> Self {
        self.0.extend(Self::in_document(document).0);
        self
    }

    /// Some statement allows it, and none denies it.
    pub(crate) fn allow(&self, request: &Request<'_>) -> bool {
        !self.deny(request) && self.any(true, request)
    }

    /// Some statement denies it, so that no other policy can allow it.
    pub(crate) fn deny(&self, request: &Request<'_>) -> bool {
        self.any(false, request)
    }

    fn any(&self, is_allowed: bool, request: &Request<'_>) -> bool {
        // All of them are evaluated, so that a condition that nobody knows is found in any case.
        let found = self.0.iter().map(|statement| statement.applies_to(request) && statement.is_allowed == is_allowed);
        found.fold(false, |any, one| any | one)
    }
}

/// One statement of a policy.
#[derive(Debug)]
struct Statement {
    is_allowed: bool,
    /// `Action`, or else `NotAction`, which means all actions but these.
    actions: Value,
    but_actions: Value,
    resources: Value,
    /// Operators, each with its keys, each with the wanted values.
    conditions: Map<String, Value>,
}

impl Statement {
    fn read(statement: &Value) -> Self {
        let known = ["Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "Condition"];
        let parts = statement.as_object().expect("a statement");
        let strange = parts.keys().find(|part| !known.contains(&part.as_str()));
        assert!(strange.is_none(), "this evaluator does not know {strange:?} of {statement}");
        let everybody = statement["Principal"].is_null() || statement["Principal"] == "*";
        assert!(everybody, "this evaluator does not know principals: {statement}");
        let one = statement["Action"].is_null() != statement["NotAction"].is_null();
        assert!(one && !statement["Resource"].is_null(), "no action, or no resource: {statement}");
        let is_allowed = match statement["Effect"].as_str() {
            Some("Allow") => true,
            Some("Deny") => false,
            effect => panic!("{effect:?} is no effect"),
        };
        Self {
            is_allowed,
            actions: statement["Action"].clone(),
            but_actions: statement["NotAction"].clone(),
            resources: statement["Resource"].clone(),
            conditions: statement["Condition"].as_object().cloned().unwrap_or_default(),
        }
    }

    fn actions(&self) -> Vec<String> {
        assert!(self.but_actions.is_null(), "a statement that allows names its actions");
        texts(&self.actions)
    }

    fn applies_to(&self, request: &Request<'_>) -> bool {
        let is_of = |actions: &Value| {
            texts(actions).iter().any(|action| is_like(&action.to_lowercase(), &request.action.to_lowercase()))
        };
        let by_action = if self.but_actions.is_null() { is_of(&self.actions) } else { !is_of(&self.but_actions) };
        let by_resource = texts(&self.resources).iter().any(|resource| is_like(resource, request.resource));
        let keys = self.conditions.iter().flat_map(|(operator, keys)| {
            keys.as_object()
                .expect("keys of an operator")
                .iter()
                .map(move |(key, wanted)| (operator, key, texts(wanted)))
        });
        // Every condition is evaluated, for the same reason.
        let held = keys.map(|(operator, key, wanted)| holds(operator, key, &wanted, request));
        held.fold(true, |all, one| all & one) && by_action && by_resource
    }
}

/// The keys that a condition may name, and whether a request may have several values of it.
const KEYS: [(&str, bool); 5] = [
    ("aws:PrincipalArn", false),
    ("aws:SecureTransport", false),
    ("dynamodb:LeadingKeys", true),
    ("kms:EncryptionContext:aws:dynamodb:tableName", false),
    ("kms:ViaService", false),
];

/// Whether one condition holds. In IAM's user guide, `reference_policies_elements_condition_operators` and
/// `reference_policies_condition-single-vs-multi-valued-context-keys` say when.
fn holds(operator: &str, key: &str, wanted: &[String], request: &Request<'_>) -> bool {
    let known = KEYS.iter().find(|(known, _)| *known == key);
    let Some((_, has_many)) = known else { panic!("this evaluator does not know the key {key}") };
    let values = request.context.get(key).map(Vec::as_slice).unwrap_or_default();
    if operator == "Null" {
        let [wanted] = wanted else { panic!("Null of {key} wants one value") };
        let wants_it_missing: bool = wanted.parse().expect("Null wants true or false");
        return values.is_empty() == wants_it_missing;
    }
    let (set, name) = operator.split_once(':').unwrap_or(("", operator));
    let (is_same, is_negated) = comparison(name);
    let matches = |value: &&str| wanted.iter().any(|wanted| is_same(wanted, value)) != is_negated;
    match set {
        // What it asks of every value holds if there is none.
        "ForAllValues" => values.iter().all(matches),
        "ForAnyValue" => values.iter().any(matches),
        "" => {
            assert!(!has_many, "{operator} of {key}, which may have several values");
            // Without the key, a negated operator holds, and every other one does not.
            values.first().map_or(is_negated, matches)
        }
        _ => panic!("this evaluator does not know {operator}"),
    }
}

/// How an operator compares a wanted value with one of the request, and whether it wants the request to match none.
fn comparison(operator: &str) -> (fn(&str, &str) -> bool, bool) {
    match operator {
        "StringEquals" => (|wanted, value| wanted == value, false),
        "StringNotEquals" => (|wanted, value| wanted == value, true),
        "StringLike" | "ArnEquals" | "ArnLike" => (is_like, false),
        "StringNotLike" | "ArnNotEquals" | "ArnNotLike" => (is_like, true),
        "Bool" => (str::eq_ignore_ascii_case, false),
        _ => panic!("this evaluator does not know {operator}"),
    }
}

/// Whether a text is like a pattern, in which `*` is any text and `?` any letter.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut letters = pattern.chars();
    match letters.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = letters.as_str();
            text.char_indices().map(|(at, _)| &text[at..]).chain([""]).any(|tail| is_like(rest, tail))
        }
        Some(letter) => {
            let mut others = text.chars();
            let other = others.next();
            other.is_some_and(|other| letter == '?' || letter == other) && is_like(letters.as_str(), others.as_str())
        }
    }
}

pub(crate) fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// One text or a list of them.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let many = list(value);
    let all = if many.is_empty() { vec![value.clone()] } else { many };
    all.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
}
