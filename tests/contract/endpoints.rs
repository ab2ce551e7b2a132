//! What the webhook needs from a source of endpoint documents.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use error_reporter::Report;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::{SdkConfig, SsmEndpoints, ssm_client};
use hookonce_runtime::document::FetchError;
use hookonce_runtime::file::EndpointFolder;
use hookonce_runtime::port::EndpointSource;
use serde_json::{Value, json};

use super::nowhere;
use crate::support::endpoints::MemoryEndpoints;
use crate::support::logs::{Logs, listen};
use crate::support::wire::JsonServer;

const DOCUMENT: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;

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

fn ssm(url: &str) -> SsmEndpoints {
    let credentials = Credentials::new("local", "local", None, None, "test");
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    SsmEndpoints::new(ssm_client(&config, Millis(600)), "/hookonce/test/endpoints/")
}

/// A Parameter Store that behaves as the API reference of `GetParameter` says.
#[tokio::test]
async fn documents_in_parameter_store_keep_the_contract() {
    listen();
    let parameters: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let stored = Arc::clone(&parameters);
    let server = JsonServer::start(move |request| {
        assert!(request.asks_for("GetParameter"), "{}", request.head);
        let asked: Value = serde_json::from_slice(&request.body).unwrap();
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
    let source = ssm(&server.url);
    let put = |name: &str, text: &str| {
        parameters.lock().unwrap().insert(format!("/hookonce/test/endpoints/{name}"), text.to_owned());
    };
    a_source_keeps_the_contract(&source, put).await;

    put("shop", DOCUMENT);
    let logs = Logs::catch("trace");
    source.fetch(&id("shop")).await.unwrap().unwrap();
    let error = ssm(&nowhere().await).fetch(&id("shop")).await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "{error:?}");
    let denied = JsonServer::start(|_| (400, json!({ "__type": "AccessDeniedException" }).to_string())).await;
    let error = ssm(&denied.url).fetch(&id("shop")).await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "a denied read is not a missing document: {error:?}");
    let strange = JsonServer::start(|_| (200, json!({ "Parameter": "LEAKMENOT" }).to_string())).await;
    let error = ssm(&strange.url).fetch(&id("shop")).await.unwrap_err();
    assert!(matches!(error, FetchError::Unavailable(_)), "{error:?}");
    let printed = format!("{} {error:?}", Report::new(&error));
    assert!(!printed.contains("LEAKMENOT"), "an error does not repeat the response: {printed}");
    let logged = logs.take();
    assert!(logged.contains("GetParameter") && !logged.contains("LEAKMENOT"), "at no log level: {logged}");
}

#[tokio::test]
async fn a_throttled_read_of_parameter_store_is_repeated() {
    for (refusals, found) in [(2, true), (3, false)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let server = JsonServer::start(move |_| match counted.fetch_add(1, Ordering::Relaxed) {
            call if call < refusals => (400, json!({ "__type": "com.amazonaws.ssm#ThrottlingException" }).to_string()),
            _ => (200, json!({ "Parameter": { "Value": DOCUMENT } }).to_string()),
        })
        .await;
        let fetched = ssm(&server.url).fetch(&id("shop")).await;
        assert_eq!(fetched.is_ok_and(|document| document.is_some()), found, "after {refusals} refusals");
        assert_eq!(calls.load(Ordering::Relaxed), 3, "three attempts in all");
    }
}

#[tokio::test]
async fn a_parameter_store_that_never_answers_costs_no_more_than_the_time_out() {
    // Nothing accepts: a connection opens, but nobody reads the request.
    let silent = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let source = ssm(&format!("http://{}", silent.local_addr().unwrap()));
    let limit = Duration::from_secs(10);
    let fetched = tokio::time::timeout(limit, source.fetch(&id("shop"))).await.expect("it must not hang");
    assert!(matches!(fetched, Err(FetchError::Unavailable(_))), "{fetched:?}");
}
