//! What each release stored, as it stands in `tests/stored/RELEASE`. This release reads all of it. A folder is written at
//! the release's tag by `scripts/releases/stored` and never changes; `unreleased` is what the next tag would write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use aws_sdk_dynamodb::types::AttributeValue;
use hookonce_aws::{DocumentChange, DocumentWritten, ID, KIND, from_attributes, to_attributes};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::effect::{DestinationId, Method};
use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::message::{Message, MessageKey};
use hookonce_protocol::record::{
    DEAD_LIST, DeadReason, Due, EFFECT_LIST, EffectPart, Outcome, PENDING_LIST, Record, Status, WAITING_LIST,
};
use hookonce_protocol::trail::{Operation, Trail};
use hookonce_providers::Catalog;
use hookonce_runtime::config::Environment;
use hookonce_runtime::destinations::{ClassName, Destination, DestinationDocument, DestinationKind, SuccessDocument};
use hookonce_runtime::documents::DocumentKind;
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::Endpoint;
use hookonce_runtime::handlers::remote::HandlerAnswer;
use hookonce_runtime::routes::{HandlerDocument, Offered, Otherwise, RouteDocument, RouteSet, RouteSetDocument};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::forms::{
    ENVELOPE, MESSAGE_KEY, answers, applied_fact, documents, first_seen, full_claim, full_effect, full_record, pause,
    requests, trail,
};
use crate::support::clock::START;
use crate::support::stack::TestStack;
use crate::support::template::{Template, template};
use crate::template::environment::{FUNCTIONS, LEAVING, environment};

/// The folder of what the next release stores.
const UNRELEASED: &str = "unreleased";

/// Words that this release reads and does not write yet, such as `dead_reason STALE`. What writes one comes a release later.
const NOT_WRITTEN: [&str; 0] = [];

/// What a release stored, but for the environments of its functions.
#[derive(Serialize, Deserialize)]
struct Corpus {
    /// Items of the inbox table, with every word of every list that the release writes.
    records: Vec<Item>,
    /// The words of records that it reads.
    words: Vec<String>,
    /// The audit trail of a record.
    trail: Item,
    /// What the domain table holds besides.
    domain: Vec<Item>,
    /// What people did to a function. The command that pauses one reads it, and its tests read this.
    pause: Item,
    /// The key that seals messages.
    message_key: String,
    /// The texts of messages.
    messages: Vec<String>,
    /// Items of the table of documents.
    documents: Vec<Item>,
    /// What handlers in other languages are asked. The packages for them read it in their tests.
    requests: Vec<serde_json::Value>,
    /// What they answer.
    answers: Vec<serde_json::Value>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("stored")
}

/// Every word that is read of these lists. A trail of which not all is understood refuses the next order.
fn words() -> Vec<String> {
    let status = Status::ALL.iter().map(|word| format!("status {}", word.as_str()));
    let outcome = Outcome::ALL.iter().map(|word| format!("outcome {}", word.as_str()));
    let reason = DeadReason::ALL.iter().map(|word| format!("dead_reason {}", word.as_str()));
    let method = methods().into_iter().map(|word| format!("method {}", word.as_str()));
    let list = LISTS.iter().map(|word| format!("due {word}"));
    let message = messages().into_iter().map(|message| format!("message {}", kind_of(&message)));
    let message = message.collect::<BTreeSet<_>>().into_iter();
    let document = DocumentKind::ALL.iter().map(|kind| format!("document {}", kind.as_str()));
    let operation = Operation::ALL.iter().map(|word| format!("operation {}", word.as_str()));
    let of_documents = document_words()
        .into_iter()
        .flat_map(|(_, field, words)| words.into_iter().map(move |word| format!("{field} {word}")));
    let of_records = status.chain(outcome).chain(reason).chain(method).chain(list);
    of_records.chain(message).chain(document).chain(of_documents).chain(operation).collect()
}

/// The fields of documents that hold one of a list of words: the kind of the document, the field, and the words.
fn document_words() -> [(DocumentKind, &'static str, BTreeSet<String>); 5] {
    let outage = OnStoreOutage::ALL.iter().map(|word| word.as_str().to_owned());
    let mismatch = OnBodyMismatch::ALL.iter().map(|word| word.as_str().to_owned());
    [
        (DocumentKind::Endpoint, "on_store_outage", outage.collect()),
        (DocumentKind::Endpoint, "on_body_mismatch", mismatch.collect()),
        (DocumentKind::Destination, "kind", expected::<DestinationKind>(json!(""))),
        (DocumentKind::Destination, "class", expected::<ClassName>(json!(""))),
        (DocumentKind::Routes, "otherwise", expected::<Otherwise>(json!(""))),
    ]
}

fn methods() -> Vec<Method> {
    expected::<Method>(json!("")).iter().map(|word| Method::parse(word).unwrap()).collect()
}

const LISTS: [&str; 4] = [PENDING_LIST, WAITING_LIST, EFFECT_LIST, DEAD_LIST];

/// A message of each kind.
fn messages() -> Vec<Message> {
    let pk = full_record("in#shop#evt_1").key;
    vec![
        Message::Ref { pk: pk.clone() },
        Message::Slow { pk, handler: "payments".to_owned() },
        Message::Ref { pk: full_effect().key },
        Message::Full(Box::new(full_claim())),
    ]
}

/// A new kind belongs into [`messages`], too.
const fn kind_of(message: &Message) -> &'static str {
    match message {
        Message::Ref { .. } => "ref",
        Message::Slow { .. } => "slow",
        Message::Full(_) => "full",
    }
}

fn is_written(list: &str, word: &str) -> bool {
    !NOT_WRITTEN.contains(&format!("{list} {word}").as_str())
}

/// Records with every word of every list that is written.
fn records() -> Vec<Record> {
    let event = full_record("in#shop#evt_1");
    let effect = full_effect();
    let part = |method| Some(Box::new(EffectPart { method, ..*effect.effect.clone().unwrap() }));
    let list = |list: &str| Some(Due { shard: format!("{list}3"), at: START });
    let status = Status::ALL.iter().filter(|it| is_written("status", it.as_str()));
    let status = status.map(|status| Record { status: *status, ..event.clone() });
    let outcome = Outcome::ALL.iter().filter(|it| is_written("outcome", it.as_str()));
    let outcome = outcome.map(|outcome| Record { outcome: Some(*outcome), ..event.clone() });
    let reason = DeadReason::ALL.iter().filter(|it| is_written("dead_reason", it.as_str()));
    let reason = reason.map(|reason| Record { dead_reason: Some(*reason), ..event.clone() });
    let methods = methods();
    let method = methods.iter().map(|method| Record { effect: part(*method), ..effect.clone() });
    let due = LISTS.map(|it| Record { due: list(it), ..event.clone() });
    let kinds = [full_record("in#shop#ev#item_1"), full_record(ENVELOPE), effect.clone(), event.clone()];
    kinds.into_iter().chain(status).chain(outcome).chain(reason).chain(method).chain(due).collect()
}

async fn written() -> Corpus {
    let key = MessageKey::parse(MESSAGE_KEY).unwrap();
    Corpus {
        records: records().iter().map(Record::encode).collect(),
        words: words(),
        trail: trail(),
        domain: vec![applied_fact(), first_seen()],
        pause: pause(),
        message_key: key.to_text(),
        messages: messages().iter().map(|message| message.encode(Some(&key)).unwrap()).collect(),
        documents: document_items().await,
        requests: requests(),
        answers: answers().as_array().cloned().unwrap(),
    }
}

/// The documents as they stand in their table.
async fn document_items() -> Vec<Item> {
    let stack = TestStack::new().await;
    let table = stack.documents_of(stack.dynamodb.clone());
    let change = DocumentChange { at: START, by: "ada".to_owned(), with: "0.1.0".to_owned() };
    let mut items = Vec::new();
    for (kind, id, text) in documents() {
        assert_eq!(table.put(kind, id, None, &text, &change).await.unwrap(), DocumentWritten::Done);
        let name = |name: &str| AttributeValue::S(name.to_owned());
        let get = stack.dynamodb.get_item().table_name(&stack.resources.documents_table);
        let found = get.key(KIND, name(kind.as_str())).key(ID, name(id)).send().await.unwrap();
        items.push(from_attributes(found.item.unwrap()));
    }
    items
}

/// The text of a document that stands in its table, with its kind and id. `None` if this release does not read who
/// changed it, or no text.
async fn document_of(stack: &TestStack, item: &Item) -> Option<(DocumentKind, String, String)> {
    let put = stack.dynamodb.put_item().table_name(&stack.resources.documents_table);
    put.set_item(Some(to_attributes(item))).send().await.unwrap();
    let text = |name: &str| item.get(name).and_then(Value::as_text);
    let kind = DocumentKind::ALL.into_iter().find(|kind| text(KIND) == Some(kind.as_str()))?;
    let id = text(ID)?;
    let stored = stack.documents_of(stack.dynamodb.clone()).get(kind, id).await.ok()??;
    let is_known = stored.change.is_some_and(|change| !change.by.is_empty() && !change.with.is_empty());
    is_known.then(|| (kind, id.to_owned(), stored.text))
}

fn is_document(kind: DocumentKind, id: &str, text: &str) -> bool {
    match kind {
        DocumentKind::Endpoint => EndpointDocument::parse(text)
            .is_ok_and(|document| Endpoint::new(EndpointId::parse(id).unwrap(), document, Catalog::built_in()).is_ok()),
        DocumentKind::Destination => DestinationDocument::parse(text)
            .is_ok_and(|document| Destination::new(DestinationId::parse(id).unwrap(), &document).is_ok()),
        DocumentKind::Routes => {
            RouteSet::parse(text, Offered { handlers: &["payments"], urls: false, tables: None }).is_ok()
        }
        DocumentKind::Key => MessageKey::parse(text).is_some(),
    }
}

/// The files of a release: its corpus, and the environment that its template gives to each function.
async fn files() -> BTreeMap<String, String> {
    let template = template();
    let environments = FUNCTIONS.map(|(function, ..)| {
        let name = function.trim_end_matches("Function").to_lowercase();
        (format!("environment.{name}.json"), lines(&environment(&template, function)))
    });
    let others = [("stored.json", lines(&written().await)), ("template.json", lines(&needs(&template)))];
    environments.into_iter().chain(others.map(|(name, text)| (name.to_owned(), text))).collect()
}

/// What code of a release, its operators and their deployments find in the template: parameters, outputs, queues, the
/// gateway, keys and indexes of tables, what each role may do, and the variables that functions read. A queue, gateway or
/// key of another name is a new one.
fn needs(template: &Template) -> BTreeSet<String> {
    let mut needs = BTreeSet::new();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let names = |kind: &str, of: Vec<&str>| of.into_iter().map(|name| format!("{kind} {name}")).collect::<Vec<_>>();
    needs.extend(names("parameter", template.parameters()));
    needs.extend(names("queue", template.resources("AWS::SQS::Queue")));
    needs.extend(names("gateway", template.resources("AWS::Serverless::HttpApi")));
    let outputs = template.at(&["Outputs"]);
    needs.extend(names("output", outputs.as_object().unwrap().keys().map(String::as_str).collect()));
    for table in template.resources("AWS::DynamoDB::Table") {
        let indexes = template.property(table, &["GlobalSecondaryIndexes"]);
        let indexes = indexes.as_array().into_iter().flatten();
        needs.extend(indexes.map(|index| format!("index {} of {table}", index["IndexName"].as_str().unwrap())));
        let types = template.property(table, &["AttributeDefinitions"]);
        let type_of = |name: &serde_json::Value| {
            types.as_array().unwrap().iter().find(|it| it["AttributeName"] == *name).unwrap()["AttributeType"].clone()
        };
        for key in template.property(table, &["KeySchema"]).as_array().unwrap() {
            let (name, kind) = (&key["AttributeName"], type_of(&key["AttributeName"]));
            needs.insert(format!("key {} {} {} of {table}", text(name), text(&kind), text(&key["KeyType"])));
        }
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
    needs.extend(variables(template).into_iter().filter(|(_, name)| !LEAVING.contains(&name.as_str())).map(variable));
    needs
}

/// The function and the name of each variable.
fn variables(template: &Template) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    for (function, ..) in FUNCTIONS {
        variables.extend(environment(template, function).into_keys().map(|name| (function, name)));
    }
    variables
}

fn variable((function, name): (&str, String)) -> String {
    format!("variable {name} of {function}")
}

/// The same, and the variables that the template has for the release before alone.
fn has(template: &Template) -> BTreeSet<String> {
    needs(template).into_iter().chain(variables(template).into_iter().map(variable)).collect()
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
async fn unread(corpus: &Corpus) -> Vec<String> {
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
    let stack = TestStack::new().await;
    for item in &corpus.documents {
        let is_read = document_of(&stack, item).await.is_some_and(|(kind, id, text)| is_document(kind, &id, &text));
        check(format!("the document {item:?}"), is_read);
    }
    for answer in &corpus.answers {
        let request = answer["request"].as_str().unwrap_or_default();
        check(format!("the answer {answer}"), HandlerAnswer::parse(answer.to_string().as_bytes(), request).is_ok());
    }
    unread
}

#[tokio::test]
async fn what_every_release_stored_is_read() {
    let all = releases();
    assert!(all.iter().any(|(release, _)| release == UNRELEASED), "{all:?}");
    for (release, files) in &all {
        let corpus: Corpus = serde_json::from_str(&files["stored.json"]).unwrap();
        assert_eq!(unread(&corpus).await, [""; 0], "{release}");
        // A message that was lost on the way, and a claim with a field of a later release.
        let mut planted = Corpus { messages: vec![corpus.messages[0].replace("ref", "rex")], ..written().await };
        assert_eq!(unread(&planted).await.len(), 1);
        // Nobody is named who changed it, an answer of no shape.
        planted.documents[0].remove("changed_by");
        planted.answers[0].as_object_mut().unwrap().remove("reads");
        assert_eq!(unread(&planted).await.len(), 3);
    }
    let mut late = serde_json::to_value(full_claim()).unwrap();
    late["origin"] = "zz".into();
    assert!(serde_json::from_value::<Claim>(late).is_err());
}

/// A function of this release starts in the environment of each release before it, and the other way round: a variable
/// that it needs was there in each of them, or has a default.
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

/// The fields that a type reads.
fn known<T: DeserializeOwned>() -> BTreeSet<String> {
    expected::<T>(json!({ "": null }))
}

/// The fields or words that a type reads: its refusal of an empty one names them.
fn expected<T: DeserializeOwned>(empty: serde_json::Value) -> BTreeSet<String> {
    let Err(refused) = serde_json::from_value::<T>(empty) else { panic!("it reads anything") };
    let refused = refused.to_string();
    let (_, expected) = refused.split_once("``, expected ").unwrap();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Fields of documents that this release reads, and none of these documents has.
fn fields_without_a_document(documents: &[(DocumentKind, String, String)]) -> Vec<String> {
    let mut has = BTreeMap::<_, BTreeSet<String>>::new();
    let mut add = |place, value: &serde_json::Value| {
        let names = value.as_object().into_iter().flatten().map(|(name, _)| name.clone());
        has.entry(place).or_default().extend(names);
    };
    for (kind, _, text) in documents {
        // The message key is no JSON.
        let Ok(document) = serde_json::from_str::<serde_json::Value>(text) else { continue };
        add(kind.as_str(), &document);
        add("success_json", &document["success_json"]);
        for route in document["routes"].as_array().into_iter().flatten() {
            add("route", route);
            add("handler", &route["handler"]);
        }
    }
    // A handler at a URL is for laptops.
    let handlers = known::<HandlerDocument>().into_iter().filter(|kind| kind != "url").collect();
    let mut missing = Vec::new();
    for (place, known) in [
        ("endpoint", known::<EndpointDocument>()),
        ("destination", known::<DestinationDocument>()),
        ("success_json", known::<SuccessDocument>()),
        ("routes", known::<RouteSetDocument>()),
        ("route", known::<RouteDocument>()),
        ("handler", handlers),
    ] {
        let new = known.difference(&has[place]).map(|name| format!("{place}.{name}"));
        missing.extend(new);
    }
    missing
}

/// Words of documents that none of these documents has.
fn words_without_a_document(documents: &[(DocumentKind, String, String)]) -> Vec<String> {
    let of = |kind, field| {
        let documents = documents.iter().filter(move |(it, ..)| *it == kind);
        let value = move |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()[field].take();
        documents.filter_map(move |(.., text)| Some(value(text).as_str()?.to_owned())).collect::<BTreeSet<_>>()
    };
    let missing = document_words().into_iter().flat_map(|(kind, field, words)| {
        let missing: Vec<_> = words.difference(&of(kind, field)).map(|word| format!("{field} {word}")).collect();
        missing
    });
    missing.filter(|word| !NOT_WRITTEN.contains(&word.as_str())).collect()
}

/// A command of this release writes documents that functions of the one before read: after a roll-back, or before an
/// update. So a field is read for one release before a command takes it. Until then `add`, `rotate` and `route deploy`
/// refuse it, and this test leaves it out.
#[tokio::test]
async fn a_field_of_a_document_was_read_by_the_last_release() {
    let stack = TestStack::new().await;
    for files in [last_release(), unreleased()] {
        let corpus: Corpus = serde_json::from_str(&files["stored.json"]).unwrap();
        let mut documents = Vec::new();
        for item in &corpus.documents {
            documents.push(document_of(&stack, item).await.unwrap());
        }
        assert_eq!(fields_without_a_document(&documents), [""; 0]);
        assert_eq!(words_without_a_document(&documents), [""; 0]);
        for (_, _, text) in &mut documents {
            *text =
                text.replace("\"schemes\"", "\"zz\"").replace("\"ignore\":", "\"zz\":").replace("at_most_once", "zz");
        }
        assert_eq!(words_without_a_document(&documents), ["class at_most_once"]);
        assert_eq!(fields_without_a_document(&documents), ["endpoint.schemes", "route.ignore"]);
    }
}

/// The order of releases. What is not released is later than all, and a version later than what was tried before it.
fn rank(release: &str) -> impl Ord {
    let part = |part| str::parse(part).map_or((u32::MAX, part), |number| (number, ""));
    let (version, trial) = release.split_once('-').unwrap_or((release, ""));
    (version.split('.').map(part).collect::<Vec<_>>(), trial.is_empty(), trial.split('.').map(part).collect::<Vec<_>>())
}

#[test]
fn releases_have_the_order_of_their_versions() {
    let releases = ["0.2.0-alpha.5", "0.2.0-rc.1", "0.2.0-rc.2", "0.2.0", "0.10.0", UNRELEASED];
    assert!(releases.is_sorted_by(|earlier, later| rank(earlier) < rank(later)));
}

/// The files of the next release.
fn unreleased() -> BTreeMap<String, String> {
    releases().into_iter().find(|(release, _)| release == UNRELEASED).unwrap().1
}

/// The files of the last release that stores anything else than the next one, which is compared with itself if there is
/// none. So at its own tag, a release is compared with the one before.
fn last_release() -> BTreeMap<String, String> {
    let (mut releases, next) = (releases(), unreleased());
    releases.sort_by(|(one, _), (other, _)| rank(one).cmp(&rank(other)));
    releases.into_iter().map(|(_, files)| files).rfind(|files| *files != next).unwrap_or_else(unreleased)
}

/// A roll-back meets what this release has written. So a word is read for one release before any writes it.
#[test]
fn a_word_that_is_written_was_read_by_the_last_release() {
    let last: Corpus = serde_json::from_str(&last_release()["stored.json"]).unwrap();
    let written = || words().into_iter().filter(|word| !NOT_WRITTEN.contains(&word.as_str()));
    let unread = |known: &[String]| written().filter(|word| !known.contains(word)).collect::<Vec<_>>();
    assert_eq!(
        unread(&last.words),
        [""; 0],
        "keep it in NOT_WRITTEN for this release, and write what was written before"
    );
    assert_eq!(unread(&last.words[1..]), last.words[..1]);
    assert!(
        NOT_WRITTEN.iter().all(|word| words().iter().any(|it| it == word)),
        "it is no word any more: {NOT_WRITTEN:?}"
    );
}

/// A roll-back brings code back, and an update keeps the parameters of a person. So what the last release finds in its
/// template is in this one.
#[test]
fn what_the_last_release_needs_of_its_template_is_there() {
    let now = needs(&template());
    let last: BTreeSet<String> = serde_json::from_str(&last_release()["template.json"]).unwrap();
    assert_eq!(last.difference(&has(&template())).collect::<Vec<_>>(), [""; 0]);
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
        ("          HOOKONCE_SLOW_QUEUE_URL: ", "          HOOKONCE_SLOW_URL: ", "variable HOOKONCE_SLOW_QUEUE_URL of"),
    ] {
        assert!(text.contains(old), "{old}");
        let later = has(&Template::parse(&text.replacen(old, new, 1)));
        let gone: Vec<_> = now.difference(&later).collect();
        assert!(gone.len() == 1 && gone[0].starts_with(expected), "{gone:?}");
    }
}

/// While nothing is tagged, forms may change. Whoever changes one sees it here: `scripts/releases/stored` writes the folder again.
#[tokio::test]
async fn the_forms_of_the_next_release_are_those_in_its_folder() {
    let stands: BTreeMap<_, _> = releases().into_iter().collect();
    let again = files().await;
    assert_eq!(stands[UNRELEASED].keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
    for (name, text) in again {
        assert!(stands[UNRELEASED][&name] == text, "tests/stored/{UNRELEASED}/{name} is not what is written today");
    }
}

/// Not a test: `scripts/releases/stored` runs it.
#[tokio::test]
#[ignore = "it writes tests/stored/unreleased"]
async fn write_the_forms_of_the_next_release() {
    let folder = folder().join(UNRELEASED);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files().await {
        fs::write(folder.join(name), text).unwrap();
    }
}
