//! What the role of each function allows, by the template.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::template::{Template, template};

/// Actions by resource.
pub(crate) type Allowed = BTreeMap<String, BTreeSet<String>>;

/// What each function's role allows, by the function's name in the template.
pub(crate) fn roles() -> BTreeMap<String, Allowed> {
    let template = template();
    let functions = template.resources("AWS::Serverless::Function");
    functions.into_iter().map(|function| (function.to_owned(), allowed(&template, function))).collect()
}

/// What the role of a function allows.
pub(crate) fn allowed(template: &Template, function: &str) -> Allowed {
    let role = template.property(function, &["Role"]);
    let role = role.as_str().and_then(|role| role.strip_suffix(".Arn")).unwrap_or_default();
    let mut allowed = Allowed::new();
    for policy in list(&template.property(role, &["Policies"])) {
        for statement in list(&policy["PolicyDocument"]["Statement"]) {
            assert_eq!(statement["Effect"], "Allow", "a role of a function only allows");
            for resource in texts(&statement["Resource"]) {
                allowed.entry(resource).or_default().extend(texts(&statement["Action"]));
            }
        }
    }
    allowed
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
