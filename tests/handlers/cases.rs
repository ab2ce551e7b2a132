//! The cases that hold handlers in every language to the same plans. `tests/cases` describes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_examples::handlers;
use hookonce_protocol::effect::{Effect, EffectName, Method, check_path};
use hookonce_protocol::item::Item;
use hookonce_protocol::key::{DomainKey, ItemKey, RecordKey, Tenant};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use hookonce_runtime::handlers::{HandlerError, Recognised};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::event;
use crate::support::samples::{bytes, invoice_paid};

const HANDLERS: [&str; 5] = ["answers", "builds", "messages", "payments", "receipts"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    event: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    event: BTreeMap<String, Value>,
    delivery: Option<String>,
    body: Option<String>,
    #[serde(default)]
    replace: BTreeMap<String, String>,
    #[serde(default)]
    repeat: BTreeMap<String, usize>,
    #[serde(default)]
    items: Vec<Stored>,
    expect: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    key: String,
    item: Item,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    items: Vec<NamedItem>,
    once: Vec<NamedItem>,
    facts: Vec<NamedFact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedItem {
    tenant: String,
    kind: String,
    parts: Vec<Value>,
    key: String,
    record: Option<String>,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedFact {
    parts: Vec<Value>,
    fact: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectFile {
    names: Texts,
    paths: Texts,
    effects: Vec<NamedEffect>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    valid: Vec<String>,
    refused: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedEffect {
    name: String,
    effect: String,
    destination: String,
    payload: Option<Value>,
    payload_base64: Option<String>,
    #[serde(default)]
    method: Method,
    #[serde(default)]
    path: String,
    expect: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

pub(super) fn load<T: DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Case {
    fn event(&self, common: &Value) -> Event {
        let mut event = common.clone();
        for (name, value) in &self.event {
            event[name] = value.clone();
        }
        event["body_base64"] = STANDARD.encode(self.body()).into();
        serde_json::from_value(event).unwrap()
    }

    fn body(&self) -> String {
        let delivery = |name: &String| String::from_utf8(bytes(&format!("deliveries/{name}"))).unwrap();
        let body = self.body.clone().or_else(|| self.delivery.as_ref().map(delivery)).expect("a body or a delivery");
        let replaced = self.replace.iter().map(|(old, new)| (old, new.clone()));
        let repeated = self.repeat.iter().map(|(text, times)| (text, text.repeat(*times)));
        replaced.chain(repeated).fold(body, |body, (old, new)| {
            assert!(body.contains(old), "{}: the body does not hold {old}", self.name);
            body.replace(old, &new)
        })
    }

    fn answer(&self, handler: &str, event: &Event) -> Value {
        let handlers = handlers();
        let answer = match handlers.recognise_by(handler, event) {
            Ok(None) => return json!({ "ignore": true }),
            Ok(Some(recognised)) => self.planned(event, recognised),
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(
            |HandlerError { code, retryable }| json!({ "error": { "code": code, "retryable": retryable } }),
        )
    }

    fn planned(&self, event: &Event, recognised: Recognised<'_>) -> Result<Value, HandlerError> {
        let stored = |item: &ItemRef| self.items.iter().find(|stored| stored.key == item.key.as_str());
        let shown = |item: &ItemRef| (item.clone(), stored(item).map(|stored| stored.item.clone()));
        let snapshot: Snapshot = recognised.reads.iter().map(shown).collect();
        let reads: Vec<_> = recognised.reads.iter().map(|item| json!({ "key": item.key })).collect();
        let fact = fact_of(&recognised.domain_key, event);
        Ok(json!({ "fact": fact, "reads": reads, "plan": canonical(&recognised.plan(&snapshot)?) }))
    }
}

/// The name of the fact without what the protocol adds.
fn fact_of(key: &DomainKey, event: &Event) -> String {
    let stored = key.item(&event.tenant, "consumer", &event.record, 0);
    stored.strip_prefix(&format!("#dk#{}#consumer#", event.tenant)).unwrap().to_owned()
}

/// The plan as JSON, with everything sorted whose order means nothing.
fn canonical(plan: &Plan) -> Value {
    let mut plan = json!(plan);
    for write in plan["writes"].as_array_mut().unwrap() {
        for list in ["/action/update", "/condition"] {
            write.pointer_mut(list).and_then(Value::as_array_mut).into_iter().for_each(|list| sort(list));
        }
    }
    sort(plan["writes"].as_array_mut().unwrap());
    plan
}

fn sort(values: &mut [Value]) {
    values.sort_by_key(Value::to_string);
}

fn parts(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect()
}

#[test]
fn every_handler_answers_its_cases() {
    for handler in HANDLERS {
        let CaseFile { event: common, cases } = load(&format!("{handler}.json"));
        for case in cases {
            let mut expected = case.expect.clone();
            if let Some(plan) = expected.get_mut("plan") {
                *plan = canonical(&serde_json::from_value(plan.clone()).unwrap());
            }
            let answer = case.answer(handler, &case.event(&common));
            assert_eq!(answer, expected, "{handler}: {}", case.name);
        }
    }
}

#[test]
fn keys_match_the_cases() {
    let keys: Keys = load("keys.json");
    for NamedItem { tenant, kind, parts: named, key, record, generation } in keys.items.into_iter().chain(keys.once) {
        let tenant = Tenant::parse(&tenant).unwrap();
        let record = RecordKey::parse(record.as_deref().unwrap_or("in#e#k")).unwrap();
        let event = Event { tenant, record, generation, ..event(&invoice_paid("evt_1", "in_1", 1)) };
        assert_eq!(ItemKey::from(event.once(&kind, parts(&named))).as_str(), key);
    }
    for NamedFact { parts: named, fact } in keys.facts {
        assert_eq!(fact_of(&DomainKey::of(parts(&named)), &event(&invoice_paid("evt_1", "in_1", 1))), fact);
    }
}

#[test]
fn effects_match_the_cases() {
    let EffectFile { names, paths, effects } = load("effects.json");
    let is_name = |name: &String| EffectName::parse(name).is_ok();
    let is_path = |path: &String| check_path(path).is_ok();
    assert_eq!(names.valid.iter().find(|name| !is_name(name)), None);
    assert_eq!(names.refused.iter().find(|name| is_name(name)), None);
    assert_eq!(paths.valid.iter().find(|path| !is_path(path)), None);
    assert_eq!(paths.refused.iter().find(|path| is_path(path)), None);
    for NamedEffect { name, effect, destination, payload, payload_base64, method, path, expect } in effects {
        let built = match payload_base64 {
            Some(text) => Effect::bytes(&effect, &destination, STANDARD.decode(text).unwrap()),
            None => Effect::json(&effect, &destination, &payload),
        };
        let built = built.unwrap().method(method).path(path);
        assert_eq!(json!(built), expect, "{name}");
    }
}

#[test]
fn every_file_of_cases_is_read() {
    let names = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "README.md").collect();
    names.sort();
    let read = "answers builds codes effects keys messages payments plans receipts refused signatures versions";
    assert_eq!(names, read.split(' ').map(|name| format!("{name}.json")).collect::<Vec<_>>());
}
