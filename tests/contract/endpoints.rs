//! What the webhook needs from a source of endpoint documents.

use std::fs;

use error_reporter::Report;
use hookonce_protocol::key::EndpointId;
use hookonce_runtime::document::{EndpointDocument, FetchError};
use hookonce_runtime::file::DocumentFolder;
use hookonce_runtime::port::EndpointSource;

use crate::support::endpoints::MemoryEndpoints;

/// The text of a document.
const DOCUMENT: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;

fn id(text: &str) -> EndpointId {
    EndpointId::parse(text).unwrap()
}

/// The document that a source has for an id.
async fn document(source: &impl EndpointSource, name: &str) -> Result<Option<EndpointDocument>, FetchError> {
    source.fetch(&id(name), &[]).await?.document
}

/// The suite. `put` writes the text of a document.
async fn a_source_keeps_the_contract(source: &impl EndpointSource, put: impl Fn(&str, &str)) {
    assert!(document(source, "nobody").await.unwrap().is_none(), "a missing document is no error");

    put("shop", DOCUMENT);
    let stored = document(source, "shop").await.unwrap().unwrap();
    assert_eq!((stored.provider.as_str(), stored.secrets.len()), ("stripe", 2));
    assert!(!format!("{stored:?}").contains("LEAKMENOT"), "a document does not print its secrets");
    put("shop", &DOCUMENT.replace("stripe", "github"));
    assert_eq!(document(source, "shop").await.unwrap().unwrap().provider, "github", "each call fetches again");

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
            "settings.`a`: stands there twice",
        ),
    ] {
        put(name, text);
        let error = document(source, name).await.unwrap_err();
        assert!(matches!(error, FetchError::Malformed(_)), "{name}: {error:?}");
        let printed = format!("{} {error:?}", Report::new(&error));
        assert!(printed.starts_with(&format!("the endpoint document is not valid: {fault}")), "{name}: {printed}");
        assert!(!printed.contains("LEAKMENOT"), "{name}: {printed}");
    }
}

#[tokio::test]
async fn documents_in_a_folder_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let source = DocumentFolder::new(folder.path().join("not-there-yet"));
    assert!(document(&source, "shop").await.unwrap().is_none(), "the folder need not exist");
    fs::create_dir(source.folder()).unwrap();
    a_source_keeps_the_contract(&source, |name, text| fs::write(source.path(&id(name)), text).unwrap()).await;

    fs::create_dir(source.path(&id("unreadable"))).unwrap();
    let error = document(&source, "unreadable").await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn the_documents_of_these_tests_keep_the_contract() {
    let source = MemoryEndpoints::default();
    a_source_keeps_the_contract(&source, |name, text| source.put(name, text)).await;
    source.set_down(true);
    assert!(matches!(document(&source, "shop").await.unwrap_err(), FetchError::Unavailable(_)));
}
