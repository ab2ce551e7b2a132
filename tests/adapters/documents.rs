//! What the table of documents makes of every answer of DynamoDB.

use std::sync::Arc;

use error_reporter::Report;
use hookonce_aws::{
    DocumentCallError, DocumentChange, DocumentTable, DocumentTooLong, DocumentWritten,
    documents_at as documents_at_location, fits,
};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::item::Value as ItemValue;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::message::MessageKey;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_providers::Catalog;
use hookonce_runtime::config::DocumentsLocation;
use hookonce_runtime::deadline::Deadline;
use hookonce_runtime::destinations::Destinations;
use hookonce_runtime::documents::endpoint::Endpoints;
use hookonce_runtime::documents::{DocumentKind, DocumentSource, MESSAGE_KEY_ID, ROUTE_SET_ID};
use hookonce_runtime::inbox::body::compress;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::routes::{FetchOutcome, Routes};
use serde_json::{Value, json};

use super::{AMPLE, ATTEMPTS, Case, STORE, answering, denied, failing, means, refusal};
use crate::clients::dynamodb;
use crate::logs::{Logs, listen};
use crate::scripted::{Reaction, ScriptedServer};

/// The text of a document.
const ENDPOINT: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;

/// Another text of it.
const OTHER: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT_either"]}"#;

/// The documents in the table at this address.
pub(super) fn documents_at(url: &str, total: Millis) -> DocumentTable {
    DocumentTable::new(dynamodb(url, total), "documents")
}

/// Who changes documents here.
pub(super) fn change() -> DocumentChange {
    DocumentChange { at: EpochMs(1_767_225_600_000), by: "me".to_owned(), with: "1.2.3".to_owned() }
}

/// A call failed. Its error names the operation and does not repeat the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed;

fn failed(operation: &str) -> impl Fn(DocumentCallError) -> Failed {
    move |error| {
        let printed = format!("{} {error:?}", Report::new(&error));
        assert!(printed.starts_with(&format!("{operation} failed: ")), "{printed}");
        assert!(!printed.contains("LEAKMENOT"), "{printed}");
        assert_eq!(error.operation, operation);
        Failed
    }
}

/// An item as it stands in the table.
fn item(kind: &str, id: &str, document: &Value) -> Value {
    json!({ "kind": {"S": kind}, "id": {"S": id}, "document": document })
}

fn endpoint(text: &str) -> Value {
    item("endpoint", "shop", &json!({ "S": text }))
}

fn bytes_of(bytes: &[u8]) -> Value {
    json!(ItemValue::Bytes(bytes.to_vec()))
}

fn of_set(bytes: &[u8]) -> Value {
    item("routes", ROUTE_SET_ID, &bytes_of(bytes))
}

/// An answer with this item.
fn found(item: &Value) -> Reaction {
    json!({ "Item": item }).into()
}

/// The refusal of a condition, with the item that is there.
fn condition_failed(item: Option<&Value>) -> Reaction {
    let mut body = json!({ "__type": format!("{STORE}#ConditionalCheckFailedException"), "message": "not so" });
    if let Some(item) = item {
        body["Item"] = item.clone();
    }
    (400, body.to_string()).into()
}

type Read = Result<Option<String>, Failed>;

async fn get(table: DocumentTable, kind: DocumentKind, id: &str) -> Read {
    let found = table.get(kind, id).await.map_err(failed("dynamodb:GetItem"))?;
    Ok(found.map(|found| found.text))
}

#[tokio::test]
async fn each_answer_to_a_read_has_its_result() {
    listen();
    let read = async |server: &ScriptedServer, total| {
        get(documents_at(server.url(), total), DocumentKind::Endpoint, "shop").await
    };
    let is = |name: &str, document: &Value, expected: Read| {
        Case::new(name, found(&item("endpoint", "shop", document)), expected, 1)
    };
    let text = |text: &str| Ok(Some(text.to_owned()));
    let cases = vec![
        is("a document", &json!({ "S": ENDPOINT }), text(ENDPOINT)),
        is("an empty text", &json!({ "S": "" }), text("")),
        is("a number", &json!({ "N": "1" }), Err(Failed)),
        is("bytes", &bytes_of(b"LEAKMENOT"), Err(Failed)),
        is("a list", &json!({ "L": [{"S": "LEAKMENOT"}] }), Err(Failed)),
        Case::new("no item", (200, "{}"), Ok(None), 1),
        Case::new("an item without a document", found(&json!({ "kind": {"S": "endpoint"} })), Err(Failed), 1),
        // Many copies of the webhook start at once, and a partition answers only so many reads.
        Case::new("throttled", refusal(STORE, "ProvisionedThroughputExceededException"), Err(Failed), ATTEMPTS),
        Case::new("an answer that is no JSON", (200, "LEAKMENOT"), Err(Failed), 1),
    ];
    means(STORE, read, Err(Failed), cases).await;
}

#[tokio::test]
async fn each_answer_to_a_route_set_read_has_its_result() {
    let read = async |server: &ScriptedServer, total| {
        get(documents_at(server.url(), total), DocumentKind::Routes, ROUTE_SET_ID).await
    };
    let set = r#"{"version":1,"otherwise":"dead","routes":[]}"#;
    let compressed = compress(set.as_bytes()).unwrap();
    let cut = &compressed[..compressed.len() - 1];
    let cases = vec![
        Case::new("a set", found(&of_set(&compressed)), Ok(Some(set.to_owned())), 1),
        Case::new("half a set", found(&of_set(cut)), Err(Failed), 1),
        Case::new("not compressed", found(&item("routes", "set", &json!({ "S": set }))), Err(Failed), 1),
        Case::new("bytes that are not compressed", found(&of_set(set.as_bytes())), Err(Failed), 1),
        Case::new("no text", found(&of_set(&compress(b"LEAKMENOT\xff").unwrap())), Err(Failed), 1),
        Case::new("no set", (200, "{}"), Ok(None), 1),
    ];
    means(STORE, read, Err(Failed), cases).await;
}

/// No answer is taken for no set: a worker then would not know whether to wait.
#[tokio::test]
async fn no_route_set_is_distinguished_from_no_answer() {
    listen();
    let outcome = async |server: &ScriptedServer| {
        let routes = Routes::new(Arc::new(documents_at(server.url(), AMPLE)), Vec::new());
        let current = routes.current(Moment { now: EpochMs(0), entropy: 0 }).await;
        (current.fetch, current.refused)
    };
    for Case { name, answer, .. } in failing(STORE, &()) {
        let server = ScriptedServer::start(move |_, _| answer.clone()).await;
        assert_eq!(outcome(&server).await, (FetchOutcome::Unanswered, false), "{name}");
    }
    let server = answering([(200, "{}").into()]).await;
    assert_eq!(outcome(&server).await, (FetchOutcome::Answered, true));
}

#[tokio::test]
async fn each_answer_to_a_page_read_has_its_result() {
    type Page = Result<(Vec<(String, String)>, Option<String>), Failed>;
    let read = async |server: &ScriptedServer, total| -> Page {
        let page = documents_at(server.url(), total).page(DocumentKind::Endpoint, Some("a")).await;
        let page = page.map_err(failed("dynamodb:Query"))?;
        Ok((page.documents.into_iter().map(|(id, found)| (id, found.text)).collect(), page.next))
    };
    let answer = |items: &Value, next: &Value| -> Reaction {
        let mut answer = json!({ "Items": items, "Count": 1, "ScannedCount": 1 });
        if !next.is_null() {
            answer["LastEvaluatedKey"] = next.clone();
        }
        answer.into()
    };
    let key = json!({ "kind": {"S": "endpoint"}, "id": {"S": "shop"} });
    let one = || vec![("shop".to_owned(), ENDPOINT.to_owned())];
    let shop = json!([endpoint(ENDPOINT)]);
    let cases = vec![
        Case::new("the end", answer(&shop, &Value::Null), Ok((one(), None)), 1),
        Case::new("one of several", answer(&shop, &key), Ok((one(), Some("shop".to_owned()))), 1),
        Case::new("nothing", answer(&json!([]), &Value::Null), Ok((Vec::new(), None)), 1),
        Case::new("nothing yet", answer(&json!([]), &key), Ok((Vec::new(), Some("shop".to_owned()))), 1),
        Case::new("no id", answer(&json!([{ "document": {"S": "LEAKMENOT"} }]), &Value::Null), Err(Failed), 1),
        Case::new("no document", answer(&json!([key]), &Value::Null), Err(Failed), 1),
        Case::new("no id to go on after", answer(&shop, &json!({ "kind": {"S": "endpoint"} })), Err(Failed), 1),
    ];
    means(STORE, read, Err(Failed), cases).await;
}

type Written = Result<DocumentWritten, Failed>;

async fn put(table: DocumentTable, read: Option<&str>) -> Written {
    let put = table.put(DocumentKind::Endpoint, "shop", read, ENDPOINT, &change()).await;
    put.map_err(failed("dynamodb:PutItem"))
}

/// What is refused is told apart by what is there. What is not confirmed may have been carried out.
#[tokio::test]
async fn each_answer_to_a_write_has_its_result() {
    use DocumentWritten::{Absent, Done, Overtaken};
    let is = |name: &str, answer: Reaction, expected| Case::new(name, answer, Ok(expected), 1);
    for read in [None, Some(OTHER)] {
        let written = async |server: &ScriptedServer, total| put(documents_at(server.url(), total), read).await;
        let no_text = item("endpoint", "shop", &json!({ "N": "1" }));
        let cases = vec![
            is("done", (200, "{}").into(), Done),
            is("nothing is there", condition_failed(None), Absent),
            // Our own write, whose reply was lost.
            is("our text is there", condition_failed(Some(&endpoint(ENDPOINT))), Done),
            is("another text is there", condition_failed(Some(&endpoint(OTHER))), Overtaken),
            is("what is there is no text", condition_failed(Some(&no_text)), Overtaken),
            Case::new("too long", refusal(STORE, "ValidationException"), Err(Failed), 1),
            Case::new("a conflict", refusal(STORE, "TransactionConflictException"), Err(Failed), 1),
        ];
        means(STORE, written, Err(Failed), cases).await;
    }
}

#[tokio::test]
async fn each_answer_to_a_removal_has_its_result() {
    use DocumentWritten::{Done, Overtaken};
    let removed = async |server: &ScriptedServer, total| {
        let removed = documents_at(server.url(), total).delete(DocumentKind::Endpoint, "shop", ENDPOINT).await;
        removed.map_err(failed("dynamodb:DeleteItem"))
    };
    let cases = vec![
        Case::new("done", (200, "{}"), Ok(Done), 1),
        Case::new("another text is there", condition_failed(None), Ok(Overtaken), 1),
    ];
    means(STORE, removed, Err(Failed), cases).await;
}

#[tokio::test]
async fn who_changed_a_document_is_read_from_its_item() {
    let with = |changed: &Value| {
        let mut item = endpoint(ENDPOINT);
        item.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        found(&item)
    };
    let at = json!({ "changed_at": {"N": "1767225600000"} });
    let all =
        json!({ "changed_at": {"N": "1767225600000"}, "changed_by": {"S": "me"}, "changed_with": {"S": "1.2.3"} });
    let unnamed = DocumentChange { by: String::new(), with: String::new(), ..change() };
    for (changed, expected) in [
        (all, Some(change())),
        (at, Some(unnamed)),
        (json!({}), None),
        (json!({ "changed_at": {"S": "1767225600000"} }), None),
    ] {
        let server = answering([with(&changed)]).await;
        let found = documents_at(server.url(), AMPLE).get(DocumentKind::Endpoint, "shop").await.unwrap().unwrap();
        assert_eq!(found.change, expected, "{changed}");
    }
}

#[test]
fn a_location_selects_the_documents_to_read() {
    let client = dynamodb("http://127.0.0.1:1", AMPLE);
    for (location, is_local) in
        [(DocumentsLocation::Table("documents".to_owned()), false), (DocumentsLocation::Folder("f".into()), true)]
    {
        assert_eq!(documents_at_location(location, &client).is_local(), is_local);
    }
}

#[test]
fn what_the_table_does_not_keep_is_refused() {
    let bytes = |length| "x".repeat(length);
    for kind in [DocumentKind::Endpoint, DocumentKind::Destination, DocumentKind::Key] {
        assert_eq!(fits(kind, &bytes(8_192)), Ok(()));
        assert_eq!(fits(kind, &bytes(8_193)), Err(DocumentTooLong { bytes: 8_193, bytes_max: 8_192 }));
    }
    assert_eq!(fits(DocumentKind::Routes, &bytes(1_048_576)), Ok(()), "it is stored compressed");
    // Numbers that follow no rule compress to about half of their digits.
    let mut state = 1_u64;
    let mut digits = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", state >> 32)
    };
    let long: String = (0..40_000).map(|_| digits()).collect();
    let DocumentTooLong { bytes, bytes_max } = fits(DocumentKind::Routes, &long).unwrap_err();
    assert!(bytes_max == 65_536 && bytes > bytes_max && bytes < long.len(), "{bytes}");
    assert_eq!(fits(DocumentKind::Routes, &long[..80_000]), Ok(()));
}

/// The client repeats the write, which then meets itself.
#[tokio::test]
async fn a_write_whose_reply_was_lost_counts_as_done() {
    for lost in 1..ATTEMPTS {
        for read in [None, Some(OTHER)] {
            let server = ScriptedServer::start(move |index, _| match index {
                index if index < lost => Reaction::Close,
                _ => condition_failed(Some(&endpoint(ENDPOINT))),
            });
            let server = server.await;
            let written = put(documents_at(server.url(), AMPLE), read).await;
            assert_eq!((written, server.requests().len()), (Ok(DocumentWritten::Done), lost + 1));
        }
    }
    // A process that makes the message key reads what is stored, whoever was first.
    let server = answering([Reaction::Close, condition_failed(Some(&endpoint(OTHER)))]).await;
    documents_at(server.url(), AMPLE).create(DocumentKind::Key, MESSAGE_KEY_ID, "AAAA").await.unwrap();
    assert_eq!(server.requests().len(), 2);
}

/// A refusal names its code, by which the command line says what to do.
#[tokio::test]
async fn a_refusal_names_its_code() {
    let server = ScriptedServer::start(|_, _| denied()).await;
    let table = documents_at(server.url(), AMPLE);
    let errors = [
        table.get(DocumentKind::Endpoint, "shop").await.map(drop).unwrap_err(),
        table.page(DocumentKind::Endpoint, None).await.map(drop).unwrap_err(),
        table.put(DocumentKind::Endpoint, "shop", None, ENDPOINT, &change()).await.map(drop).unwrap_err(),
        table.delete(DocumentKind::Endpoint, "shop", ENDPOINT).await.map(drop).unwrap_err(),
    ];
    let named = errors.map(|error| (error.operation, error.code.unwrap()));
    let code = || "AccessDeniedException".to_owned();
    let operations = ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:DeleteItem"];
    assert_eq!(named, operations.map(|operation| (operation, code())));
}

#[tokio::test]
async fn the_message_key_is_what_its_item_holds() {
    listen();
    let item = |text: &str| found(&item("key", MESSAGE_KEY_ID, &json!({ "S": text })));
    let text = MessageKey::new([7; 32]).to_text();
    for (answer, is_key) in [(item(&text), true), (item(&text[4..]), false), ((200, "{}").into(), false)] {
        let server = answering([answer]).await;
        let keys = MessageKeys::new(Arc::new(documents_at(server.url(), AMPLE)));
        let found = keys.get().await.map(|key| key.to_text());
        assert_eq!(found, is_key.then(|| text.clone()));
        let [request] = &server.requests()[..] else { panic!("one request") };
        assert_eq!(request.json()["Key"], json!({ "kind": {"S": "key"}, "id": {"S": MESSAGE_KEY_ID} }));
    }
}

/// The webhook function makes the key once, and uses the one that is stored.
#[tokio::test]
async fn a_key_that_is_made_is_read_again() {
    let theirs = MessageKey::new([9; 32]).to_text();
    let stored = item("key", MESSAGE_KEY_ID, &json!({ "S": theirs }));
    let server = answering([(200, "{}").into(), condition_failed(Some(&stored)), found(&stored)]).await;
    let keys = MessageKeys::making(Arc::new(documents_at(server.url(), AMPLE)));
    assert_eq!(keys.get().await.unwrap().to_text(), theirs);
    let operations: Vec<_> = server.requests().iter().map(|request| request.operation().unwrap().to_owned()).collect();
    assert_eq!(operations, ["GetItem", "PutItem", "GetItem"]);
    let made = &server.requests()[1].json()["Item"];
    let text = made["document"]["S"].as_str().unwrap();
    assert!(text != theirs && MessageKey::parse(text).is_some(), "a random one");
    let server = answering([(200, "{}").into()]).await;
    assert!(MessageKeys::new(Arc::new(documents_at(server.url(), AMPLE))).get().await.is_none());
    assert_eq!(server.requests().len(), 1, "the worker and the relay make none");
}

/// Whatever a function may be told to log. The SDK prints whole answers at lower levels, which is why only this project
/// may log more than `info`.
#[tokio::test]
async fn no_log_of_any_level_holds_a_secret() {
    listen();
    let deadline = || Deadline::of(&Timing { webhook_timeout: AMPLE, ..Timing::standard() });
    for answer in [
        found(&endpoint(ENDPOINT)),
        found(&endpoint(r#"{"provider":"stripe","secrets":["LEAKMENOT"#)),
        found(&endpoint(r#"{"LEAK":"LEAKMENOT"}"#)),
        json!({ "Item": "LEAKMENOT" }).into(),
        denied(),
    ] {
        let server = ScriptedServer::start(move |_, _| answer.clone()).await;
        let source: Arc<dyn DocumentSource> = Arc::new(documents_at(server.url(), AMPLE));
        let logs = Logs::catch("info,hookonce=trace,hookonce_runtime=trace");
        let endpoints = Endpoints::new(Arc::clone(&source), Catalog::built_in());
        let shop = EndpointId::parse("shop").unwrap();
        let looked_up = endpoints.get(&shop, EpochMs(0), deadline()).await;
        let printed = format!("{looked_up:?}");
        let destinations = Destinations::new(Arc::clone(&source));
        let destination = destinations.get(&DestinationId::parse("shop").unwrap(), EpochMs(0)).await;
        let key = MessageKeys::new(source).get().await;
        assert!(destination.is_err() && key.is_none());
        let logged = logs.take();
        assert!(logged.contains("a destination"), "{logged}");
        assert!(!logged.contains("LEAKMENOT"), "{logged}");
        assert!(!printed.contains("LEAKMENOT"), "{printed}");
    }
    // What would be in the log otherwise.
    let server = answering([found(&endpoint(ENDPOINT))]).await;
    let logs = Logs::catch("trace");
    documents_at(server.url(), AMPLE).get(DocumentKind::Endpoint, "shop").await.unwrap();
    assert!(logs.take().contains("LEAKMENOT"));
}
