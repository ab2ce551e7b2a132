//! What each release stored, as it stands in `tests/stored/RELEASE`. This release reads all of it. A folder is written at
//! the release's tag by `scripts/releases/stored` and never changes; `unreleased` is what the next tag would write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use hookonce_protocol::claim::Claim;
use hookonce_protocol::effect::{DestinationId, Method};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::message::{Message, MessageKey};
use hookonce_protocol::record::{
    DEAD_LIST, DeadReason, Due, EFFECT_LIST, EffectPart, Outcome, PENDING_LIST, Record, Status, WAITING_LIST,
};
use hookonce_protocol::trail::Trail;
use hookonce_providers::Catalog;
use hookonce_runtime::config::Environment;
use hookonce_runtime::destinations::{Destination, DestinationDocument};
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::Endpoint;
use hookonce_runtime::routes::{Offered, RouteSet};
use serde::{Deserialize, Serialize};

use super::forms::{
    ENVELOPE, MESSAGE_KEY, applied_fact, destination_document, endpoint_document, first_seen, full_claim, full_effect,
    full_record, route_set, trail,
};
use crate::support::clock::START;
use crate::support::template::{Template, template};
use crate::template::environment::{FUNCTIONS, environment};

/// The folder of what the next release stores.
const UNRELEASED: &str = "unreleased";

/// What a release stored, but for the environments of its functions.
#[derive(Serialize, Deserialize)]
struct Corpus {
    /// Items of the inbox table, with every word of every list.
    records: Vec<Item>,
    /// The audit trail of a record.
    trail: Item,
    /// What the domain table holds besides.
    domain: Vec<Item>,
    /// The key that seals messages.
    message_key: String,
    /// The texts of messages.
    messages: Vec<String>,
    /// The texts of documents, by kind.
    documents: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("stored")
}

/// Records with every word of every list.
fn records() -> Vec<Record> {
    let event = full_record("in#shop#evt_1");
    let effect = full_effect();
    let part = |method| Some(Box::new(EffectPart { method, ..*effect.effect.clone().unwrap() }));
    let list = |list: &str| Some(Due { shard: format!("{list}3"), at: START });
    let status = Status::ALL.iter().map(|status| Record { status: *status, ..event.clone() });
    let outcome = Outcome::ALL.iter().map(|outcome| Record { outcome: Some(*outcome), ..event.clone() });
    let reason = DeadReason::ALL.iter().map(|reason| Record { dead_reason: Some(*reason), ..event.clone() });
    let methods = [Method::Post, Method::Put, Method::Patch, Method::Delete];
    let method = methods.map(|method| Record { effect: part(method), ..effect.clone() });
    let due = [PENDING_LIST, WAITING_LIST, EFFECT_LIST, DEAD_LIST].map(|it| Record { due: list(it), ..event.clone() });
    let kinds = [full_record("in#shop#ev#item_1"), full_record(ENVELOPE), effect.clone(), event.clone()];
    kinds.into_iter().chain(status).chain(outcome).chain(reason).chain(method).chain(due).collect()
}

fn written() -> Corpus {
    let key = MessageKey::parse(MESSAGE_KEY).unwrap();
    let pk = full_record("in#shop#evt_1").key;
    let messages = [
        Message::Ref { pk: pk.clone() },
        Message::Slow { pk, handler: "payments".to_owned() },
        Message::Full(Box::new(full_claim())),
    ];
    let documents =
        [("endpoint", endpoint_document()), ("destination", destination_document()), ("routes", route_set())];
    Corpus {
        records: records().iter().map(Record::encode).collect(),
        trail: trail(),
        domain: vec![applied_fact(), first_seen()],
        message_key: key.to_text(),
        messages: messages.iter().map(|message| message.encode(Some(&key)).unwrap()).collect(),
        documents: documents.map(|(kind, document)| (kind.to_owned(), document.to_string())).into(),
    }
}

/// The files of a release: its corpus, and the environment that its template gives to each function.
fn files() -> BTreeMap<String, String> {
    let template = template();
    let environments = FUNCTIONS.map(|(function, ..)| {
        let name = function.trim_end_matches("Function").to_lowercase();
        (format!("environment.{name}.json"), lines(&environment(&template, function)))
    });
    let others = [("stored.json", lines(&written())), ("template.json", lines(&needs(&template)))];
    environments.into_iter().chain(others.map(|(name, text)| (name.to_owned(), text))).collect()
}

/// What code of a release, its operators and their deployments find in the template: parameters, outputs, queues, indexes
/// and what each role may do.
fn needs(template: &Template) -> BTreeSet<String> {
    let mut needs = BTreeSet::new();
    let names = |kind: &str, of: Vec<&str>| of.into_iter().map(|name| format!("{kind} {name}")).collect::<Vec<_>>();
    needs.extend(names("parameter", template.parameters()));
    needs.extend(names("queue", template.resources("AWS::SQS::Queue")));
    let outputs = template.at(&["Outputs"]);
    needs.extend(names("output", outputs.as_object().unwrap().keys().map(String::as_str).collect()));
    for table in template.resources("AWS::DynamoDB::Table") {
        let indexes = template.property(table, &["GlobalSecondaryIndexes"]);
        let indexes = indexes.as_array().into_iter().flatten();
        needs.extend(indexes.map(|index| format!("index {} of {table}", index["IndexName"].as_str().unwrap())));
    }
    let each = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    for role in template.resources("AWS::IAM::Role") {
        let policies = each(&template.property(role, &["Policies"]));
        let statements = policies.iter().flat_map(|policy| each(&policy["PolicyDocument"]["Statement"]));
        for statement in statements.filter(|statement| statement["Effect"] == "Allow") {
            for (action, resource) in each(&statement["Action"]).into_iter().flat_map(|action| {
                each(&statement["Resource"]).into_iter().map(move |resource| (action.clone(), resource))
            }) {
                needs.insert(format!("{role} {} {}", action.as_str().unwrap(), resource.as_str().unwrap()));
            }
        }
    }
    needs
}

fn lines(value: &impl Serialize) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap())
}

/// The files of every release.
fn releases() -> Vec<(String, BTreeMap<String, String>)> {
    let folders = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let read = |path: PathBuf| {
        let files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let files = files
            .map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&file).unwrap()));
        (path.file_name().unwrap().to_str().unwrap().to_owned(), files.collect())
    };
    folders.map(read).collect()
}

/// What this release does not read of a corpus.
fn unread(corpus: &Corpus) -> Vec<String> {
    let mut unread = Vec::new();
    let mut check = |what: String, is_read: bool| unread.extend((!is_read).then_some(what));
    for item in &corpus.records {
        // What it writes of a record again is what was there. A later release may add attributes.
        let again = Record::decode(item).map(|record| record.encode());
        let is_kept = again.is_ok_and(|again| item.iter().all(|(name, value)| again.get(name) == Some(value)));
        check(format!("the record {item:?}"), is_kept);
    }
    check("the trail".to_owned(), Trail::decode(Some(&corpus.trail)).unread == 0);
    for item in &corpus.domain {
        let is_text = |name| item.get(name).and_then(Value::as_text).is_some();
        check(format!("the item {item:?}"), is_text("pk") && is_text("record"));
    }
    let key = MessageKey::parse(&corpus.message_key);
    for text in &corpus.messages {
        let again = Message::decode(text, key.as_ref()).ok().and_then(|message| message.encode(key.as_ref()));
        check(format!("the message {text}"), again.as_ref() == Some(text));
    }
    for (kind, text) in &corpus.documents {
        let is_read = match kind.as_str() {
            "endpoint" => EndpointDocument::parse(text).is_ok_and(|document| {
                Endpoint::new(EndpointId::parse("shop").unwrap(), document, Catalog::built_in()).is_ok()
            }),
            "destination" => DestinationDocument::parse(text)
                .is_ok_and(|document| Destination::new(DestinationId::parse("receipts").unwrap(), &document).is_ok()),
            "routes" => RouteSet::parse(text, Offered { handlers: &["payments"], urls: false, tables: None }).is_ok(),
            _ => false,
        };
        check(format!("the {kind} {text}"), is_read);
    }
    unread
}

#[test]
fn what_every_release_stored_is_read() {
    let all = releases();
    assert!(all.iter().any(|(release, _)| release == UNRELEASED), "{all:?}");
    for (release, files) in &all {
        let corpus: Corpus = serde_json::from_str(&files["stored.json"]).unwrap();
        assert_eq!(unread(&corpus), [""; 0], "{release}");
        // A message that was lost on the way, and a claim with a field of a later release.
        let planted = Corpus { messages: vec![corpus.messages[0].replace("ref", "rex")], ..written() };
        assert_eq!(unread(&planted).len(), 1);
    }
    let mut late = serde_json::to_value(full_claim()).unwrap();
    late["origin"] = "zz".into();
    assert!(serde_json::from_value::<Claim>(late).is_err());
}

/// A function of this release starts in the environment of each release before it, and the other way round: a variable
/// that it needs was there in the release before, or has a default for one release.
#[test]
fn a_function_starts_in_the_environment_of_every_release() {
    for (release, files) in releases() {
        for (function, _, read) in FUNCTIONS {
            let name = function.trim_end_matches("Function").to_lowercase();
            let mut environment: Environment =
                serde_json::from_str(&files[&format!("environment.{name}.json")]).unwrap();
            assert_eq!(read(&environment), Ok(()), "{function} of {release}");
            environment.insert("HOOKONCE_ZZ_LATER".to_owned(), "1".to_owned());
            assert_eq!(read(&environment), Ok(()), "{function} of {release}");
        }
    }
}

/// The numbers of a release. What is not released is later than all.
fn numbers(release: &str) -> Vec<u32> {
    release.split('.').map(|number| number.parse().unwrap_or(u32::MAX)).collect()
}

/// The files of the last release that has a tag, or of the next one if none has.
fn last_release() -> BTreeMap<String, String> {
    let mut releases = releases();
    releases.sort_by_key(|(release, _)| numbers(release));
    let last = releases.iter().rposition(|(release, _)| release != UNRELEASED).unwrap_or(releases.len() - 1);
    releases.swap_remove(last).1
}

/// A roll-back brings code back, and an update keeps the parameters of a person. So what the last release finds in its
/// template is in this one.
#[test]
fn what_the_last_release_needs_of_its_template_is_there() {
    let now = needs(&template());
    let gone = |needs: &BTreeSet<String>| needs.difference(&now).cloned().collect::<Vec<_>>();
    assert_eq!(gone(&serde_json::from_str(&last_release()["template.json"]).unwrap()), [""; 0]);
    let text = crate::support::template::text();
    for (old, new, expected) in [
        ("  LogLevel:\n", "  LogsLevel:\n", "parameter LogLevel"),
        ("  SlowQueueUrl:\n", "  SlowUrl:\n", "output SlowQueueUrl"),
        ("- IndexName: journal", "- IndexName: received", "index journal of InboxTable"),
        (
            "Action: [dynamodb:GetItem, dynamodb:UpdateItem]",
            "Action: dynamodb:GetItem",
            "DispatcherRole dynamodb:UpdateItem",
        ),
    ] {
        assert!(text.contains(old), "{old}");
        let later = needs(&Template::parse(&text.replacen(old, new, 1)));
        let gone: Vec<_> = now.difference(&later).collect();
        assert!(gone.len() == 1 && gone[0].starts_with(expected), "{gone:?}");
    }
}

/// A roll-back brings the code of the last release back first. So whatever it had in its environment stays for one
/// release, although nothing reads it any more.
#[test]
fn the_last_release_starts_in_the_environment_of_this_one() {
    let last = last_release();
    let now = files();
    for (name, text) in last.iter().filter(|(name, _)| name.starts_with("environment.")) {
        let [then, now] = [text, &now[name]].map(|text| serde_json::from_str::<Environment>(text).unwrap());
        let gone: Vec<_> = then.keys().filter(|name| !now.contains_key(*name)).collect();
        assert!(gone.is_empty(), "{name} had {gone:?}");
    }
}

/// While nothing is tagged, forms may change. Whoever changes one sees it here: `scripts/releases/stored` writes the folder again.
#[test]
fn the_forms_of_the_next_release_are_those_in_its_folder() {
    let stands: BTreeMap<_, _> = releases().into_iter().collect();
    let again = files();
    assert_eq!(stands[UNRELEASED].keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
    for (name, text) in again {
        assert!(stands[UNRELEASED][&name] == text, "tests/stored/{UNRELEASED}/{name} is not what is written today");
    }
}

/// Not a test: `scripts/releases/stored` runs it.
#[test]
#[ignore = "it writes tests/stored/unreleased"]
fn write_the_forms_of_the_next_release() {
    let folder = folder().join(UNRELEASED);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files() {
        fs::write(folder.join(name), text).unwrap();
    }
}
