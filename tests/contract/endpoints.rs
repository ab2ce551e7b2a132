//! What the webhook needs from a source of endpoint documents.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use error_reporter::Report;
use hookonce_protocol::key::EndpointId;
use hookonce_runtime::document::FetchError;
use hookonce_runtime::file::EndpointFolder;
use hookonce_runtime::port::EndpointSource;
use serde_json::json;

use super::nowhere;
use super::wire::AMPLE;
use super::wire::parameters::{DOCUMENT, parameters_at};
use crate::support::endpoints::MemoryEndpoints;
use crate::support::logs::{Logs, listen};
use crate::support::wire::ScriptedServer;

fn id(text: &str) -> EndpointId {
    EndpointId::parse(text).unwrap()
}

/// The suite. `put` writes the text of a document.
async fn a_source_keeps_the_contract(source: &impl EndpointSource, put: impl Fn(&str, &str)) {
    assert!(source.fetch(&id("nobody")).await.unwrap().is_none(), "a missing document is no error");

    put("shop", DOCUMENT);
    let document = source.fetch(&id("shop")).await.unwrap().unwrap();
    assert_eq!((document.provider.as_str(), document.secrets.len()), ("stripe", 2));
    assert!(!format!("{document:?}").contains("LEAKMENOT"), "a document does not print its secrets");
    put("shop", &DOCUMENT.replace("stripe", "github"));
    assert_eq!(source.fetch(&id("shop")).await.unwrap().unwrap().provider, "github", "each call fetches again");

    for (name, text) in [
        ("cut-off", "{\"provider\":\"stripe\",\n\"secrets\":[\"LEAKMENOT"),
        ("unknown-field", r#"{"provider":"stripe","secrets":["LEAKMENOT"],"secret":"LEAKMENOT"}"#),
        ("wrong-word", r#"{"provider":"stripe","secrets":["LEAKMENOT"],"on_store_outage":"LEAKMENOT"}"#),
        ("no-secrets", r#"{"provider":"LEAKMENOT"}"#),
    ] {
        put(name, text);
        let error = source.fetch(&id(name)).await.unwrap_err();
        assert!(matches!(error, FetchError::Malformed { line: 1.., .. }), "{name}: {error:?}");
        let printed = format!("{} {error:?}", Report::new(&error));
        assert!(!printed.contains("LEAKMENOT"), "{name}: {printed}");
    }
    put("tenant", r#"{"provider":"stripe","secrets":["LEAKMENOT"],"tenant":"LEAKMENOT"}"#);
    let error = source.fetch(&id("tenant")).await.unwrap_err();
    let printed = Report::new(&error).to_string();
    assert!(printed.contains("`tenant` is not valid: a tenant has 1 to 64 of the characters a-z"), "{printed}");
    assert!(!format!("{printed} {error:?}").contains("LEAKMENOT"), "{printed}");
}

#[tokio::test]
async fn documents_in_a_folder_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let source = EndpointFolder::new(folder.path().join("not-there-yet"));
    assert!(source.fetch(&id("shop")).await.unwrap().is_none(), "the folder need not exist");
    fs::create_dir(source.folder()).unwrap();
    a_source_keeps_the_contract(&source, |name, text| fs::write(source.path(&id(name)), text).unwrap()).await;

    fs::create_dir(source.path(&id("unreadable"))).unwrap();
    let error = source.fetch(&id("unreadable")).await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn the_documents_of_these_tests_keep_the_contract() {
    let source = MemoryEndpoints::default();
    a_source_keeps_the_contract(&source, |name, text| source.put(name, text)).await;
    source.set_down(true);
    assert!(matches!(source.fetch(&id("shop")).await.unwrap_err(), FetchError::Unavailable(_)));
}

/// A Parameter Store that behaves as the API reference of `GetParameter` says.
#[tokio::test]
async fn documents_in_parameter_store_keep_the_contract() {
    listen();
    let parameters: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let stored = Arc::clone(&parameters);
    let server = ScriptedServer::start(move |_, request| {
        assert!(request.asks_for("GetParameter"), "{}", request.head);
        let asked = request.json();
        assert_eq!(asked["WithDecryption"], json!(true));
        let name = asked["Name"].as_str().unwrap();
        match stored.lock().unwrap().get(name) {
            Some(value) => {
                (200, json!({ "Parameter": { "Name": name, "Type": "SecureString", "Value": value } }).to_string())
            }
            None => (400, json!({ "__type": "ParameterNotFound" }).to_string()),
        }
    })
    .await;
    let source = parameters_at(server.url(), AMPLE);
    let put = |name: &str, text: &str| {
        parameters.lock().unwrap().insert(format!("/hookonce/test/endpoints/{name}"), text.to_owned());
    };
    a_source_keeps_the_contract(&source, put).await;

    put("shop", DOCUMENT);
    let logs = Logs::catch("trace");
    source.fetch(&id("shop")).await.unwrap().unwrap();
    let error = parameters_at(&nowhere().await, AMPLE).fetch(&id("shop")).await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "{error:?}");
    let strange = ScriptedServer::start(|_, _| (200, json!({ "Parameter": "LEAKMENOT" }).to_string())).await;
    let error = parameters_at(strange.url(), AMPLE).fetch(&id("shop")).await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "{error:?}");
    let printed = format!("{} {error:?}", Report::new(&error));
    assert!(!printed.contains("LEAKMENOT"), "an error does not repeat the response: {printed}");
    let logged = logs.take();
    assert!(logged.contains("GetParameter") && !logged.contains("LEAKMENOT"), "at no log level: {logged}");
}
