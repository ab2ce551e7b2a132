//! What functions need from a source of documents, and what the command line needs from the table.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use error_reporter::Report;
use hookonce_aws::{
    DOCUMENT_BYTES_MAX, DocumentChange, DocumentTable, DocumentTooLong, DocumentWritten, ROUTE_SET_STORED_BYTES_MAX,
    StoredDocument, fits,
};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_providers::Catalog;
use hookonce_runtime::deadline::Deadline;
use hookonce_runtime::destinations::Destinations;
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::{Endpoints, LookupError};
use hookonce_runtime::documents::file::DocumentFolder;
use hookonce_runtime::documents::{DocumentKind, DocumentSource, MESSAGE_KEY_ID, ROUTE_SET_ID};
use hookonce_runtime::inbox::body::decompress;
use hookonce_runtime::routes::{Routes, Routing};

use crate::contract::dynamodb;
use crate::support::documents::MemoryDocuments;
use crate::support::logs::Logs;
use crate::support::samples::noise;
use crate::support::stack::{TestStack, urls};
use crate::support::wire::{HttpMessage, Injector, Proxy, WireFault};

use DocumentKind::{Destination, Endpoint, Key, Routes as RouteSetKind};
use DocumentWritten::{Absent, Done, Overtaken};

const ENDPOINT: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;
const DESTINATION: &str = r#"{"kind":"http","url":"https://a.example","class":"at_least_once"}"#;
const SET: &str = r#"{"version":1,"otherwise":"dead","routes":[]}"#;

/// A document of each kind: its id, and two texts.
const EACH: [(DocumentKind, &str, [&str; 2]); 4] = [
    (Endpoint, "shop", [ENDPOINT, "{\n  \"wörd\": 1\n}\n"]),
    (Destination, "shop", [DESTINATION, ""]),
    (RouteSetKind, ROUTE_SET_ID, [SET, "{}"]),
    (Key, MESSAGE_KEY_ID, ["AAAA", "BBBB"]),
];

async fn text(source: &dyn DocumentSource, kind: DocumentKind, id: &str) -> Option<String> {
    source.read(kind, id).await.unwrap()
}

/// The suite. `put` writes the text of a document.
async fn a_source_keeps_the_contract(source: Arc<dyn DocumentSource>, put: impl AsyncFn(DocumentKind, &str, &str)) {
    for (kind, id, _) in EACH {
        assert_eq!(text(&*source, kind, id).await, None, "a missing document is no error: {kind:?}");
    }
    for (number, (kind, id, [first, second])) in EACH.into_iter().enumerate() {
        put(kind, id, first).await;
        assert_eq!(text(&*source, kind, id).await.as_deref(), Some(first));
        for (other, id, _) in &EACH[number + 1..] {
            assert_eq!(text(&*source, *other, id).await, None, "{other:?} is not {kind:?}");
        }
        put(kind, id, second).await;
        assert_eq!(text(&*source, kind, id).await.as_deref(), Some(second), "each call reads anew");
        put(kind, id, first).await;
    }
    for (kind, id, [first, second]) in EACH {
        source.create(kind, id, second).await.unwrap();
        assert_eq!(text(&*source, kind, id).await.as_deref(), Some(first), "what is there stays");
    }
    for created in [DESTINATION, ENDPOINT] {
        source.create(Destination, "made", created).await.unwrap();
        assert_eq!(text(&*source, Destination, "made").await.as_deref(), Some(DESTINATION), "the first one stays");
    }
    assert_eq!(text(&*source, Endpoint, "made").await, None);
    no_error_prints_a_part_of_an_endpoint(&source, &put).await;
    no_error_prints_a_part_of_a_destination(&source, &put).await;
    no_log_prints_a_secret_of_a_route_set(&source, &put).await;
}

async fn no_error_prints_a_part_of_an_endpoint(
    source: &Arc<dyn DocumentSource>,
    put: &impl AsyncFn(DocumentKind, &str, &str),
) {
    let stored = EndpointDocument::parse(ENDPOINT).unwrap();
    assert!(!format!("{stored:?}").contains("LEAKMENOT"), "a document does not print its secrets");
    for (name, text, fault) in [
        (
            "cut-off",
            "{\"provider\":\"stripe\",\n\"secrets\":[\"LEAKMENOT",
            "line 2 column 21: EOF while parsing a string",
        ),
        (
            "word",
            r#"{"provider":"stripe","secrets":["LEAKMENOT"],"on_store_outage":"LEAKMENOT"}"#,
            "on_store_outage: must be",
        ),
        ("no-secrets", r#"{"provider":"LEAKMENOT"}"#, "secrets: is missing"),
        ("list", r#"["stripe",null,["LEAKMENOT"]]"#, "the document: must be an object"),
        (
            "twice",
            r#"{"provider":"stripe","settings":{"a":"LEAKMENOT","a":"LEAKMENOT"}}"#,
            "settings.`a`: appears twice",
        ),
    ] {
        put(Endpoint, name, text).await;
        let endpoints = Endpoints::new(Arc::clone(source), Catalog::built_in());
        let deadline = Deadline::of(&Timing { webhook_timeout: Millis::minutes(1), ..Timing::standard() });
        let error = endpoints.get(&EndpointId::parse(name).unwrap(), EpochMs(0), deadline).await.unwrap_err();
        assert!(matches!(error, LookupError::Malformed(_)), "{name}: {error:?}");
        let printed = format!("{} {error:?}", Report::new(&error));
        assert!(printed.starts_with(&format!("the endpoint document is not valid: {fault}")), "{name}: {printed}");
        assert!(!printed.contains("LEAKMENOT"), "{name}: {printed}");
    }
}

async fn no_error_prints_a_part_of_a_destination(
    source: &Arc<dyn DocumentSource>,
    put: &impl AsyncFn(DocumentKind, &str, &str),
) {
    for (name, text) in [
        ("cut-off", r#"{"kind":"http","headers":{"a":"LEAKMENOT"#),
        ("unknown", r#"{"kind":"http","url":"https://a.example","class":"at_least_once","LEAK":"LEAKMENOT"}"#),
        ("word", r#"{"kind":"LEAKMENOT"}"#),
        ("no-document", "LEAKMENOT"),
        ("empty", ""),
    ] {
        put(Destination, name, text).await;
        let logs = Logs::catch("info");
        let destinations = Destinations::new(Arc::clone(source));
        let error = destinations.get(&DestinationId::parse(name).unwrap(), EpochMs(0)).await.unwrap_err();
        let printed = format!("{} {error:?} {}", Report::new(&error), logs.take());
        assert!(printed.starts_with("the destination document is not valid: "), "{name}: {printed}");
        assert!(!printed.contains("LEAKMENOT"), "{name}: {printed}");
    }
}

/// A route set has no secrets, but somebody may have put one into the wrong place.
async fn no_log_prints_a_secret_of_a_route_set(
    source: &Arc<dyn DocumentSource>,
    put: &impl AsyncFn(DocumentKind, &str, &str),
) {
    for text in [r#"{"version":1,"routes":["LEAKMENOT"#, r#"{"secrets":["LEAKMENOT"]}"#, r#"["LEAKMENOT"]"#] {
        put(RouteSetKind, ROUTE_SET_ID, text).await;
        let logs = Logs::catch("info");
        let current = Routes::new(Arc::clone(source), Vec::new()).current(Moment { now: EpochMs(0), entropy: 0 }).await;
        assert!(matches!(current.routing, Routing::Unknown) && current.refused, "{text}");
        let logged = logs.take();
        assert!(logged.contains("a route set is refused as a whole"), "{logged}");
        assert!(!logged.contains("LEAKMENOT"), "{logged}");
    }
}

#[tokio::test]
async fn documents_in_a_folder_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let source = DocumentFolder::new(folder.path().join("not-there-yet"));
    assert!(source.is_local());
    assert_eq!(text(&source, Endpoint, "shop").await, None, "the folder need not exist");
    let put = async |kind, id: &str, text: &str| {
        fs::create_dir_all(source.folder_of(kind)).unwrap();
        fs::write(source.path(kind, id), text).unwrap();
    };
    a_source_keeps_the_contract(Arc::new(source.clone()), put).await;

    fs::create_dir(source.path(Endpoint, "unreadable")).unwrap();
    assert!(source.read(Endpoint, "unreadable").await.is_err());
    fs::write(source.path(Endpoint, "bytes"), b"LEAKMENOT\xff").unwrap();
    let error = source.read(Endpoint, "bytes").await.unwrap_err();
    let printed = format!("{} {error:?}", Report::new(&error));
    assert!(printed.starts_with("the documents of the stack are unavailable") && !printed.contains("LEAKMENOT"));
    // What a person sees beside the folder of endpoints is where the documentation says it is.
    let names = ["endpoints/a.json", "destinations/a.json", "routes.json", "message.key"];
    for (kind, name) in DocumentKind::ALL.into_iter().zip(names) {
        assert_eq!(DocumentFolder::new("f").path(kind, "a"), std::path::Path::new("f").join(name));
    }
}

/// Two processes may make the message key at once. A reader finds all of it, or none.
#[tokio::test]
async fn a_file_that_is_made_is_whole_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let source = DocumentFolder::new(folder.path().join("new"));
    source.create(Key, MESSAGE_KEY_ID, "AAAA").await.unwrap();
    let left: Vec<_> =
        fs::read_dir(folder.path().join("new")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["message.key"]);
    let mode = fs::metadata(source.path(Key, MESSAGE_KEY_ID)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn the_documents_of_these_tests_keep_the_contract() {
    let source = MemoryDocuments::of(Endpoint);
    let put = async |kind, id: &str, text: &str| source.and_of(kind).put(id, text);
    a_source_keeps_the_contract(source.source(), put).await;
    source.set_down(true);
    assert!(source.read(Endpoint, "shop").await.is_err());
    assert!(source.create(Endpoint, "shop", "").await.is_err());
    assert!(source.read(Destination, "shop").await.is_ok(), "each kind is down by itself");
    assert!(source.is_local() && !source.deployed().is_local());
}

#[tokio::test]
async fn documents_in_a_table_keep_the_contract() {
    let stack = TestStack::new().await;
    let source = documents(&stack);
    assert!(!source.is_local());
    let put = async |kind, id: &str, text: &str| stack.write_document(kind, id, text).await;
    a_source_keeps_the_contract(Arc::new(source), put).await;
}

fn documents(stack: &TestStack) -> DocumentTable {
    stack.documents_of(stack.dynamodb.clone())
}

fn change(at: i64) -> DocumentChange {
    DocumentChange { at: EpochMs(at), by: "arn:aws:iam::123456789012:user/me".to_owned(), with: "1.2.3".to_owned() }
}

/// Writes in the place of what was read.
async fn put(table: &DocumentTable, kind: DocumentKind, read: Option<&str>, new: &str) -> DocumentWritten {
    table.put(kind, id_of(kind), read, new, &change(1)).await.unwrap()
}

fn id_of(kind: DocumentKind) -> &'static str {
    EACH.into_iter().find(|each| each.0 == kind).unwrap().1
}

/// There is no counter that begins again: what was removed and created is another document than the one that was read.
#[tokio::test]
async fn a_write_names_the_text_that_it_replaces() {
    let stack = TestStack::new().await;
    let table = documents(&stack);
    let put = async |kind, read: Option<&str>, new: &str| put(&table, kind, read, new).await;
    for kind in DocumentKind::ALL {
        let id = id_of(kind);
        let is = async || table.get(kind, id).await.unwrap().map(|found| found.text);
        assert_eq!(put(kind, Some("one"), "two").await, Absent, "{kind:?}: nothing is there to be replaced");
        assert_eq!(is().await, None);
        assert_eq!(put(kind, None, "one").await, Done);
        assert_eq!(put(kind, None, "other").await, Overtaken, "somebody was first");
        assert_eq!(put(kind, Some("other"), "two").await, Overtaken, "that is not what is there");
        assert_eq!(is().await.as_deref(), Some("one"));
        assert_eq!(put(kind, Some("one"), "two").await, Done);
        // Read, removed by somebody else, created again, and replaced by who read the first.
        assert_eq!(table.delete(kind, id, "one").await.unwrap(), Overtaken, "that is not what is there any more");
        assert_eq!(table.delete(kind, id, "two").await.unwrap(), Done);
        assert_eq!(is().await, None);
        assert_eq!(table.delete(kind, id, "two").await.unwrap(), Done, "it is gone, by whomever");
        assert_eq!(put(kind, None, "again").await, Done);
        assert_eq!(put(kind, Some("two"), "three").await, Overtaken);
        assert_eq!(table.delete(kind, id, "two").await.unwrap(), Overtaken);
        assert_eq!(is().await.as_deref(), Some("again"));
    }
}

/// Loses the reply to the first attempt of every write.
#[derive(Debug, Default)]
struct LostWrites(AtomicUsize);

impl Injector for LostWrites {
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        let is_write = request.is_for("PutItem") || request.is_for("DeleteItem");
        let is_first = request.header("amz-sdk-request").is_some_and(|attempt| attempt.contains("attempt=1"));
        (is_write && is_first).then(|| {
            self.0.fetch_add(1, Ordering::Relaxed);
            WireFault::ReplyLost
        })
    }
}

/// The client repeats the write, which is then refused because of itself.
#[tokio::test]
async fn a_write_whose_reply_was_lost_is_done() {
    let stack = TestStack::new().await;
    let lost = Arc::new(LostWrites::default());
    let proxy = Proxy::start(urls().0, &lost).await;
    let table = stack.documents_of(dynamodb(proxy.url(), Millis::seconds(20)));
    for kind in DocumentKind::ALL {
        assert_eq!(put(&table, kind, None, "one").await, Done, "{kind:?}");
        assert_eq!(put(&table, kind, Some("one"), "two").await, Done, "{kind:?}");
        assert_eq!(documents(&stack).get(kind, id_of(kind)).await.unwrap().unwrap().text, "two");
        assert_eq!(table.delete(kind, id_of(kind), "two").await.unwrap(), Done, "{kind:?}");
        table.create(kind, id_of(kind), "three").await.unwrap();
        assert_eq!(documents(&stack).get(kind, id_of(kind)).await.unwrap().unwrap().text, "three");
    }
    assert_eq!(lost.0.load(Ordering::Relaxed), 4 * DocumentKind::ALL.len());
}

/// Of many at once, one is first, and each of the others hears it.
#[tokio::test]
async fn of_many_writers_of_one_text_one_is_first() {
    let table = documents(&TestStack::new().await);
    let texts: Vec<_> = (1..=16).map(|number| number.to_string()).collect();
    for read in [None, Some("0")] {
        let written = futures::future::join_all(texts.iter().map(|new| put(&table, Endpoint, read, new))).await;
        let done: Vec<_> = texts.iter().zip(&written).filter(|(_, written)| **written == Done).collect();
        let [(first, _)] = done[..] else { panic!("{written:?}") };
        assert!(written.iter().all(|written| matches!(written, Done | Overtaken)), "{written:?}");
        let found = table.get(Endpoint, id_of(Endpoint)).await.unwrap().unwrap().text;
        assert_eq!(found, *first);
        assert_eq!(table.delete(Endpoint, id_of(Endpoint), &found).await.unwrap(), Done);
        assert_eq!(put(&table, Endpoint, None, "0").await, Done);
    }
}

#[tokio::test]
async fn who_changed_a_document_comes_back() {
    let stack = TestStack::new().await;
    let table = documents(&stack);
    for (kind, id, [first, second]) in EACH {
        assert_eq!(table.put(kind, id, None, first, &change(1)).await.unwrap(), Done);
        let stored = |text: &str, at| Some(StoredDocument { text: text.to_owned(), change: Some(change(at)) });
        assert_eq!(table.get(kind, id).await.unwrap().map(shown), stored(first, 1).map(shown));
        assert_eq!(table.put(kind, id, Some(first), second, &change(2)).await.unwrap(), Done);
        assert_eq!(table.get(kind, id).await.unwrap().map(shown), stored(second, 2).map(shown));
        let page = table.page(kind, None).await.unwrap();
        assert_eq!(page.documents.into_iter().map(|(_, found)| shown(found)).next(), stored(second, 2).map(shown));
    }
    // Terraform writes neither a time nor a name.
    let item = stack.dynamodb.put_item().table_name(&stack.resources.documents_table);
    let item = item.item("kind", AttributeValue::S("endpoint".to_owned()));
    let item = item.item("id", AttributeValue::S("by-hand".to_owned()));
    item.item("document", AttributeValue::S(ENDPOINT.to_owned())).send().await.unwrap();
    let found = table.get(Endpoint, "by-hand").await.unwrap().unwrap();
    assert_eq!(shown(found), (ENDPOINT.to_owned(), None));
}

/// A document prints no part of itself, so what is compared is shown here.
fn shown(document: StoredDocument) -> (String, Option<DocumentChange>) {
    (document.text, document.change)
}

/// DynamoDB answers a megabyte at most.
#[tokio::test]
async fn a_list_goes_on_over_several_pages() {
    const COUNT: usize = 300;
    let stack = TestStack::new().await;
    let table = documents(&stack);
    let large = "x".repeat(DOCUMENT_BYTES_MAX);
    let ids: Vec<_> = (0..COUNT).map(|number| format!("shop-{number:03}")).collect();
    for ids in ids.chunks(50) {
        let puts = ids.iter().map(async |id| table.put(Endpoint, id, None, &large, &change(1)).await.unwrap());
        assert!(futures::future::join_all(puts).await.iter().all(|written| *written == Done));
    }
    // Not of this kind.
    stack.write_document(Destination, "shop-000", DESTINATION).await;
    let (mut listed, mut pages, mut after) = (Vec::new(), 0, None::<String>);
    loop {
        let page = table.page(Endpoint, after.as_deref()).await.unwrap();
        assert!(page.documents.iter().all(|(_, found)| found.text == large));
        listed.extend(page.documents.into_iter().map(|(id, _)| id));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids, "each once, in order");
    assert!(pages > 1, "{pages}");
    assert_eq!(table.page(Destination, None).await.unwrap().documents.len(), 1);
    assert!(table.page(Key, None).await.unwrap().documents.is_empty());
}

/// The item of the route set.
async fn item_of_set(stack: &TestStack) -> std::collections::HashMap<String, AttributeValue> {
    let get = stack.dynamodb.get_item().table_name(&stack.resources.documents_table);
    let get = get.key("kind", AttributeValue::S("routes".to_owned())).key("id", AttributeValue::S("set".to_owned()));
    get.send().await.unwrap().item.unwrap()
}

#[tokio::test]
async fn a_route_set_is_stored_compressed_with_the_hash_of_its_text() {
    let stack = TestStack::new().await;
    let table = documents(&stack);
    let set = format!(r#"{{"version":1,"otherwise":"dead","routes":[{}]}}"#, " ".repeat(100_000));
    assert_eq!(fits(RouteSetKind, &set), Ok(()));
    assert_eq!(put(&table, RouteSetKind, None, &set).await, Done);
    let item = item_of_set(&stack).await;
    let stored = item["document"].as_b().unwrap().as_ref();
    assert!(stored.len() < 1_000, "{}", stored.len());
    assert_eq!(decompress(stored).unwrap(), set.as_bytes());
    let hash = item["sha256"].as_s().unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{hash}");
    assert_eq!(put(&table, RouteSetKind, Some(&set), SET).await, Done);
    assert_ne!(item_of_set(&stack).await["sha256"].as_s().unwrap(), hash);
    assert_eq!(table.get(RouteSetKind, ROUTE_SET_ID).await.unwrap().unwrap().text, SET);
}

/// What another program wrote, or half of it, is no document, and none of it is shown.
#[tokio::test]
async fn an_item_that_holds_no_document_is_refused() {
    let stack = TestStack::new().await;
    let table = documents(&stack);
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let bytes = |bytes: &[u8]| AttributeValue::B(Blob::new(bytes));
    for (kind, document, expected) in [
        (RouteSetKind, Some(text("LEAKMENOT")), "the route set is not compressed"),
        (RouteSetKind, None, "the route set is not compressed"),
        (RouteSetKind, Some(bytes(b"LEAKMENOT")), "the stored body is not a zstd frame"),
        (RouteSetKind, Some(bytes(&hookonce_runtime::inbox::body::compress(b"LEAKMENOT\xff").unwrap())), "not UTF-8"),
        (Endpoint, Some(bytes(b"LEAKMENOT")), "the attribute `document` is not a string"),
        (Endpoint, None, "the attribute `document` is not a string"),
        (Key, Some(bytes(b"LEAKMENOT")), "the attribute `document` is not a string"),
    ] {
        let item = stack.dynamodb.put_item().table_name(&stack.resources.documents_table);
        let item = item.item("kind", text(kind.as_str())).item("id", text(id_of(kind)));
        let item = document.into_iter().fold(item, |item, document| item.item("document", document));
        item.send().await.unwrap();
        let error = table.read(kind, id_of(kind)).await.unwrap_err();
        let printed = format!("{} {error:?}", Report::new(&error));
        assert!(printed.contains(expected) && !printed.contains("LEAKMENOT"), "{kind:?}: {printed}");
        // Of many, a person must know which.
        let error = table.page(kind, None).await.err().unwrap();
        let printed = format!("{} {error:?}", Report::new(&error));
        let named = printed.contains(&format!("`{}` of kind {}", id_of(kind), kind.as_str()));
        assert!(named && printed.contains(expected) && !printed.contains("LEAKMENOT"), "{kind:?}: {printed}");
        // Nobody writes over what could not be read.
        assert_eq!(put(&table, kind, None, SET).await, Overtaken);
        assert_eq!(put(&table, kind, Some(SET), SET).await, Overtaken);
        assert_eq!(table.delete(kind, id_of(kind), SET).await.unwrap(), Overtaken);
    }
}

#[test]
fn what_is_too_long_for_the_table_is_refused_with_both_numbers() {
    for kind in [Endpoint, Destination, Key] {
        assert_eq!(fits(kind, &"x".repeat(DOCUMENT_BYTES_MAX)), Ok(()));
        let error = fits(kind, &"x".repeat(DOCUMENT_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(error, DocumentTooLong { bytes: 8_193, bytes_max: 8_192 });
        assert_eq!(error.to_string(), "it takes 8193 bytes in the table, and 8192 are allowed");
    }
    // Long, and compresses well: what counts is what is stored.
    assert_eq!(fits(RouteSetKind, &" ".repeat(1024 * 1024)), Ok(()));
    let long = STANDARD.encode(noise(100 * 1024));
    let DocumentTooLong { bytes, bytes_max } = fits(RouteSetKind, &long).unwrap_err();
    assert!(bytes_max == ROUTE_SET_STORED_BYTES_MAX && bytes > bytes_max && bytes < long.len(), "{bytes}");
}
