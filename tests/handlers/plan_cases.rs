//! The cases of plans and of versions, which the packages for other languages read, too. `tests/cases` describes them.

use std::collections::BTreeMap;

use hookonce_protocol::check::Scope;
use hookonce_protocol::code::Code;
use hookonce_protocol::item::{self, Item};
use hookonce_protocol::key::{DomainKey, Tenant};
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{DomainWrite, Plan, Snapshot, Tie};
use hookonce_protocol::write::{Action, Change, Clause};
use hookonce_runtime::handlers::READS_MAX;
use hookonce_runtime::handlers::remote::HandlerAnswer;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cases::load;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    tables: BTreeMap<TableAlias, Attributes>,
    cases: Vec<PlanCase>,
}

/// The key of a table: each attribute with its type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    partition: (String, String),
    sort: Option<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanCase {
    name: String,
    items: Value,
    plan: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionFile {
    given: Vec<GivenCase>,
    cases: Vec<VersionCase>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionCase {
    #[serde(deserialize_with = "Option::deserialize")]
    stored: Option<item::Value>,
    version: item::Value,
    tie: String,
    written: bool,
}

/// A write that itself gives the attribute of its version a value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenCase {
    value: item::Value,
    version: item::Value,
    refused: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFile {
    tenant: Tenant,
    tables: BTreeMap<TableAlias, Attributes>,
    cases: Vec<AnswerCase>,
}

/// An answer that the worker refuses with this code, and the test kits with an error that holds these words. Without a
/// code it is taken.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerCase {
    name: String,
    code: Option<String>,
    #[serde(rename = "says")]
    error: Option<String>,
    fact: Option<String>,
    #[serde(default)]
    reads: Vec<Value>,
    plan: Option<Value>,
}

/// The value with each `{"times": N, "of": ..}` made: a text so many times, or a list of so many values. In those,
/// `%` is the number of each.
fn repeated(value: Value) -> Value {
    let Some(times) = value["times"].as_u64() else {
        return match value {
            Value::Array(values) => values.into_iter().map(repeated).collect(),
            Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, repeated(field))).collect(),
            plain => plain,
        };
    };
    let one = |number: u64| value["of"].to_string().replace('%', &number.to_string());
    match value["of"].as_str() {
        Some(text) => text.repeat(usize::try_from(times).unwrap()).into(),
        None => (0..times).map(|number| serde_json::from_str::<Value>(&one(number)).unwrap()).collect(),
    }
}

fn schemas(tables: BTreeMap<TableAlias, Attributes>) -> BTreeMap<TableAlias, KeySchema> {
    let attribute = |(name, kind): (String, String)| {
        let kind = match kind.as_str() {
            "S" => KeyKind::Text,
            "N" => KeyKind::Number,
            "B" => KeyKind::Bytes,
            other => panic!("{other} is no type of a key"),
        };
        KeyAttribute { name, kind }
    };
    let schema =
        |Attributes { partition, sort }| KeySchema { partition: attribute(partition), sort: sort.map(attribute) };
    tables.into_iter().map(|(alias, key)| (alias, schema(key))).collect()
}

/// The code that the worker gives the event of this answer, if it refuses it.
fn refusal(answer: &Value, tenant: &Tenant, scope: &Scope) -> Option<Code> {
    match HandlerAnswer::parse(answer.to_string().as_bytes(), "r") {
        Err(_) => Some(Code::HandlerAnswerMalformed),
        Ok(HandlerAnswer::Reads { reads, .. }) => {
            let fit = reads.len() <= READS_MAX && reads.iter().all(|item| item.check(tenant, &scope.tables).is_ok());
            (!fit).then_some(Code::HandlerReadsRefused)
        }
        Ok(HandlerAnswer::Plan { fact, plan }) => match plan.check(tenant, scope) {
            _ if !fact.as_ref().is_some_and(DomainKey::is_named) => Some(Code::FactMissing),
            checked => checked.err().map(|_| Code::PlanRefused),
        },
        Ok(other) => panic!("{other:?} is no answer of the cases"),
    }
}

#[test]
fn every_plan_of_the_cases_is_read_whole_and_passes_the_check() {
    let PlanFile { tables, cases } = load("plans.json");
    let tables = schemas(tables);
    for PlanCase { name, items, plan } in cases {
        let snapshot: Snapshot = serde_json::from_value(json!({ "items": items })).unwrap();
        let read: Plan = serde_json::from_value(plan.clone()).unwrap();
        assert_eq!(json!(read), plan, "{name}");
        let shown = snapshot.items().map(|(item, _)| item.clone()).collect();
        let scope = Scope { shown, tables: tables.clone(), ..Scope::default() };
        assert_eq!(read.check(&Tenant::parse("acme").unwrap(), &scope), Ok(()), "{name}");
    }
}

#[test]
fn an_answer_of_the_cases_is_refused_with_its_code() {
    let file: AnswerFile = serde_json::from_value(repeated(load("refused.json"))).unwrap();
    let tables = schemas(file.tables);
    for AnswerCase { name, code, error, fact, reads, plan } in file.cases {
        assert_eq!(code.is_some(), error.is_some(), "{name}");
        let read = |item: &Value| serde_json::from_value::<ItemRef>(item.clone()).unwrap();
        let shown = plan.iter().flat_map(|_| reads.iter().map(read)).collect();
        let mut answer = plan.unwrap_or_else(|| json!({ "reads": reads }));
        answer["request"] = "r".into();
        answer["fact"] = fact.unwrap_or_else(|| "f".to_owned()).into();
        let scope = Scope { shown, tables: tables.clone(), ..Scope::default() };
        let refused = refusal(&answer, &file.tenant, &scope);
        assert_eq!(refused.map(Code::as_str), code.as_deref(), "{name}");
    }
}

#[test]
fn version_comparisons_match_the_cases() {
    let VersionFile { cases, .. } = load("versions.json");
    for case in cases {
        let item = ItemRef::from("acme#order#17");
        let stored = case.stored.clone().map(|version| Item::from([("version".to_owned(), version)]));
        let snapshot: Snapshot = [(item.clone(), stored)].into_iter().collect();
        let tie = if case.tie == "skip" { Tie::Skip } else { Tie::Write };
        let write = DomainWrite::update(item, Vec::new()).newer_than(&snapshot, "version", case.version.clone(), tie);
        assert_eq!(write.is_some(), case.written, "{case:?}");
        if let Some(write) = write {
            let clause =
                case.stored.map_or(Clause::Absent("version".into()), |seen| Clause::Equals("version".into(), seen));
            assert_eq!(write.condition.0, [clause]);
            assert_eq!(write.action, Action::Update(vec![Change::Set("version".into(), case.version)]));
        }
    }
}

#[test]
fn a_write_that_gives_its_version_another_value_is_refused() {
    let item = ItemRef::from("acme#order#17");
    let snapshot: Snapshot = [(item.clone(), None)].into_iter().collect();
    let scope = Scope { shown: [item.clone()].into(), ..Scope::default() };
    for case in load::<VersionFile>("versions.json").given {
        let given = Item::from([("version".to_owned(), case.value.clone())]);
        let put = DomainWrite { action: Action::Put(given), ..DomainWrite::delete(item.clone()) };
        let update = DomainWrite::update(item.clone(), vec![Change::Set("version".into(), case.value.clone())]);
        for write in [put, update] {
            let plan = Plan::default().with(write.newer_than(&snapshot, "version", case.version.clone(), Tie::Skip));
            let checked = plan.check(&Tenant::parse("acme").unwrap(), &scope);
            assert_eq!(checked.is_err(), case.refused, "{case:?}: {checked:?}");
        }
    }
    let delete = DomainWrite::delete(item.clone()).newer_than(&snapshot, "version", 7, Tie::Skip);
    let refused = Plan::default().with(delete).check(&Tenant::parse("acme").unwrap(), &scope).unwrap_err();
    assert!(refused.to_string().ends_with("a delete forgets the version: mark the item as deleted with an update"));
}
