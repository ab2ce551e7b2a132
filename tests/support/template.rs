//! A template as plain JSON, and the few intrinsic functions that it uses.

use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Value, json};

use super::document;

/// A template in its long form: `!Ref x` is `{"Ref": "x"}`.
pub(crate) struct Template(Value);

impl Template {
    pub(crate) fn parse(text: &str) -> Self {
        let documents = Yaml::load_from_str(text).unwrap();
        assert_eq!(documents.len(), 1, "one document");
        Self(plain(&documents[0]))
    }

    /// The value at a path of names, resolved.
    pub(crate) fn at(&self, path: &[&str]) -> Value {
        self.resolve(raw(&self.0, path))
    }

    /// The value at a path of names and positions, as it is written.
    pub(crate) fn raw(&self, path: &[&str]) -> &Value {
        path.iter().fold(&self.0, |value, name| match value {
            Value::Array(values) => name.parse().ok().and_then(|at: usize| values.get(at)).unwrap_or(&Value::Null),
            value => &value[*name],
        })
    }

    /// A property of a resource, resolved.
    pub(crate) fn property(&self, resource: &str, path: &[&str]) -> Value {
        self.resolve(raw(&self.0["Resources"][resource]["Properties"], path))
    }

    /// The text of a property before values are inserted into it.
    pub(crate) fn raw_text(&self, resource: &str, property: &str) -> String {
        self.0["Resources"][resource]["Properties"][property]["Fn::Sub"].as_str().unwrap_or_default().to_owned()
    }

    /// The names of all parameters.
    pub(crate) fn parameters(&self) -> Vec<&str> {
        self.0["Parameters"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    /// The names of all resources of a type.
    pub(crate) fn resources(&self, kind: &str) -> Vec<&str> {
        let resources = self.0["Resources"].as_object().unwrap();
        let of_kind = resources.iter().filter(|(_, resource)| resource["Type"] == kind);
        of_kind.map(|(name, _)| name.as_str()).collect()
    }

    /// A function's events of one type, by name.
    pub(crate) fn events(&self, function: &str, kind: &str) -> Vec<(String, Value)> {
        let events = self.property(function, &["Events"]);
        let events = events.as_object().cloned().unwrap_or_default();
        let of_kind = events.into_iter().filter(|(_, event)| event["Type"] == kind);
        of_kind.map(|(name, event)| (name, event["Properties"].clone())).collect()
    }

    /// Evaluates intrinsic functions as far as that is possible without an account: a parameter is its default, every
    /// condition holds, a resource is its name, an attribute is `Name.Attribute`.
    fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Object(map) => match single(map) {
                Some(("Ref", name)) => self.reference(name.as_str().unwrap()),
                Some(("Fn::GetAtt", path)) => path.clone(),
                Some(("Fn::Sub", Value::Array(parts))) => {
                    let values = parts[1].as_object().unwrap().iter();
                    let insert = |text: String, (name, value): (&String, &Value)| {
                        let value = self.resolve(value);
                        text.replace(&format!("${{{name}}}"), value.as_str().unwrap_or(&value.to_string()))
                    };
                    json!(substituted(&values.fold(parts[0].as_str().unwrap().to_owned(), insert)))
                }
                Some(("Fn::Sub", text)) => json!(substituted(text.as_str().unwrap())),
                Some(("Fn::FindInMap", path)) => {
                    let names: Vec<_> = path.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
                    raw(&self.0["Mappings"], &names).clone()
                }
                Some(("Fn::If", branches)) => self.resolve(&branches[1]),
                // No account, no text to cut.
                Some(("Fn::Select", parts)) => self.resolve(&parts[1]["Fn::Split"][1]),
                _ => {
                    let resolved = map.iter().map(|(name, value)| (name.clone(), self.resolve(value)));
                    Value::Object(resolved.filter(|(_, value)| !value.is_null()).collect())
                }
            },
            Value::Array(values) => {
                values.iter().map(|value| self.resolve(value)).filter(|value| !value.is_null()).collect()
            }
            plain => plain.clone(),
        }
    }

    fn reference(&self, name: &str) -> Value {
        if name == "AWS::NoValue" {
            return Value::Null;
        }
        let parameter = &self.0["Parameters"][name];
        if parameter.is_null() { json!(name) } else { parameter["Default"].clone() }
    }
}

/// A text in which each `${Name}` is `Name`.
fn substituted(text: &str) -> String {
    let mut parts = text.split("${");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + &part.replacen('}', "", 1))
}

fn raw<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| &value[*name])
}

fn single(map: &Map<String, Value>) -> Option<(&str, &Value)> {
    if map.len() == 1 { map.iter().next().map(|(name, value)| (name.as_str(), value)) } else { None }
}

fn plain(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(flag)) => json!(flag),
        Yaml::Value(Scalar::Integer(number)) => json!(number),
        Yaml::Value(Scalar::FloatingPoint(number)) => json!(number.into_inner()),
        Yaml::Value(Scalar::String(text)) => json!(text),
        Yaml::Sequence(values) => values.iter().map(plain).collect(),
        Yaml::Mapping(pairs) => {
            let name = |name: &Yaml<'_>| plain(name).as_str().expect("names are text").to_owned();
            Value::Object(pairs.iter().map(|(key, value)| (name(key), plain(value))).collect())
        }
        Yaml::Tagged(tag, inner) => {
            let name = if tag.suffix == "Ref" { tag.suffix.clone() } else { format!("Fn::{}", tag.suffix) };
            json!({ name: plain(inner) })
        }
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => panic!("CloudFormation has no such node"),
    }
}

#[test]
fn intrinsic_functions_are_carried_out() {
    let template = Template::parse(
        "Parameters: { Size: { Default: 7 } }\nMappings: { A: { B: { C: 5 } } }\nResources:\n  Thing:\n    Type: T\n    \
         Properties:\n      One: !Ref Size\n      Two: !FindInMap [A, B, C]\n      Three: !Sub 'x/${Thing.Arn}/{y}'\n      \
         Four: !GetAtt Thing.Arn\n      Five: !If [Never, !Ref Thing, !Ref AWS::NoValue]\n      Six: [!Ref AWS::NoValue]\n      Seven: !Sub ['${N}/${Thing}', {N: !Ref Size}]",
    );
    let expected = json!({"One": 7, "Two": 5, "Three": "x/Thing.Arn/{y}", "Four": "Thing.Arn", "Five": "Thing", "Six": [], "Seven": "7/Thing"});
    assert_eq!(template.property("Thing", &[]), expected);
}

/// The text of the template.
pub(crate) fn text() -> String {
    document("template.yaml")
}

/// The template as it is.
pub(crate) fn template() -> Template {
    Template::parse(&text())
}
