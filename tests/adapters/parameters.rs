//! What the sources of endpoint and destination documents and of the message key make of every answer of Parameter
//! Store.

use error_reporter::Report;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::message::MessageKey;
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::{SsmDestinations, SsmEndpoints, SsmMessageKey, message_keys, ssm_client};
use hookonce_runtime::config::DocumentLocation;
use hookonce_runtime::destination::{DestinationFetchError, DestinationSource as _};
use hookonce_runtime::document::FetchError;
use hookonce_runtime::message_key::{MessageKeyError, MessageKeySource as _};
use hookonce_runtime::port::EndpointSource as _;
use serde_json::{Value, json};

use super::{AMPLE, ATTEMPTS, Case, answering, means, refusal};
use crate::clients::{config_at, own_partition};
use crate::logs::{Logs, listen};
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// The parameters of the endpoint `shop` and of the destination `crm`.
const SHOP: &str = "/hookonce/test/endpoints/shop";
const CRM: &str = "/hookonce/test/destinations/crm";

/// The parameter of the message key.
const KEY: &str = "/hookonce/test/key/messages";

const SERVICE: &str = "com.amazonaws.ssm";

/// The texts of their documents.
const ENDPOINT: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;
const DESTINATION: &str = r#"{"kind": "http", "url": "https://a.example", "headers": {"a": "LEAKMENOT"}}"#;

/// A client of the deployed functions, whose calls may take `total`.
pub(super) fn ssm(url: &str, total: Millis) -> aws_sdk_ssm::Client {
    let config = ssm_client(&config_at(url), total).config().to_builder();
    aws_sdk_ssm::Client::from_conf(config.retry_partition(own_partition()).build())
}

/// The documents in the Parameter Store at this address, read as the webhook reads them.
pub(super) fn parameters_at(url: &str, total: Millis) -> SsmEndpoints {
    SsmEndpoints::new(ssm(url, total), "/hookonce/test/endpoints/")
}

/// The result of a fetch, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fetched {
    /// The provider of an endpoint, or the URL of a destination.
    Document(String),
    Missing,
    Malformed,
    Throttled,
    Unavailable,
}

fn document(text: &str) -> Fetched {
    Fetched::Document(text.to_owned())
}

/// What a fetch failed with. Its error does not repeat the answer.
fn failed(fetched: Fetched, error: &(impl std::error::Error + 'static)) -> Fetched {
    let printed = format!("{} {error:?}", Report::new(error));
    assert!(!printed.contains("LEAKMENOT"), "{printed}");
    fetched
}

async fn fetch(server: &ScriptedServer, total: Millis) -> Fetched {
    let shop = EndpointId::parse("shop").unwrap();
    let read = parameters_at(server.url(), total).fetch(&shop, &[]).await;
    match read.and_then(|read| read.document) {
        Ok(Some(document)) => Fetched::Document(document.provider),
        Ok(None) => Fetched::Missing,
        Err(error @ FetchError::Malformed(_)) => failed(Fetched::Malformed, &error),
        Err(error @ FetchError::Unavailable(_)) => failed(Fetched::Unavailable, &error),
        Err(error @ FetchError::Throttled) => failed(Fetched::Throttled, &error),
    }
}

async fn fetch_destination(server: &ScriptedServer, total: Millis) -> Fetched {
    let source = SsmDestinations::new(ssm(server.url(), total), "/hookonce/test/destinations/");
    match source.fetch(&DestinationId::parse("crm").unwrap()).await {
        Ok(Some(document)) => Fetched::Document(document.url.unwrap_or_default()),
        Ok(None) => Fetched::Missing,
        Err(error @ DestinationFetchError::Invalid(_)) => failed(Fetched::Malformed, &error),
        Err(error @ DestinationFetchError::Unavailable(_)) => failed(Fetched::Unavailable, &error),
    }
}

/// An answer with this parameter.
fn parameter(name: &str, kind: &str, value: &str) -> Reaction {
    found(&json!([{ "Name": name, "Type": kind, "Value": value, "Version": 3 }]), &json!([]))
}

fn found(parameters: &Value, absent: &Value) -> Reaction {
    json!({ "Parameters": parameters, "InvalidParameters": absent }).into()
}

/// What both sources make of the same answers about the parameter of this name.
fn of_both(name: &str, text: &str, expected: &str) -> Vec<Case<Fetched>> {
    let secure = |value: &str| parameter(name, "SecureString", value);
    vec![
        Case::new("a document", secure(text), document(expected), 1),
        Case::new("no such parameter", found(&json!([]), &json!([name])), Fetched::Missing, 1),
        // What the answer does not mention may exist.
        Case::new("nothing about it", found(&json!([]), &json!([])), Fetched::Unavailable, 1),
        Case::new("no document", secure("LEAKMENOT"), Fetched::Malformed, 1),
        Case::new("an empty document", secure(""), Fetched::Malformed, 1),
    ]
}

#[tokio::test]
async fn a_fetch_means_what_its_answer_says() {
    listen();
    let unavailable = |code: &str| Case::new(code, refusal(SERVICE, code), Fetched::Unavailable, 1);
    let another = found(&json!([{ "Name": "x", "Value": ENDPOINT }]), &json!(["y"]));
    let mut cases = of_both(SHOP, ENDPOINT, "stripe");
    cases.extend([
        // Many copies of the webhook start at once, and the limit of reads is one for all of them.
        Case::new("ThrottlingException", refusal(SERVICE, "ThrottlingException"), Fetched::Throttled, ATTEMPTS),
        // The key of KMS that encrypts the parameter is disabled, gone, or not for this role.
        unavailable("InvalidKeyId"),
        unavailable("KMSInvalidStateException"),
        unavailable("ValidationException"),
        Case::new("no value", found(&json!([{ "Name": SHOP }]), &json!([])), Fetched::Unavailable, 1),
        Case::new("no answer", (200, "{}"), Fetched::Unavailable, 1),
        Case::new("another one", another, Fetched::Unavailable, 1),
        // Ciphertext, as without decryption.
        Case::new("one that is not decrypted", parameter(SHOP, "SecureString", "AQICAHg="), Fetched::Malformed, 1),
    ]);
    means(SERVICE, fetch, Fetched::Unavailable, cases).await;
}

#[tokio::test]
async fn a_destination_means_what_its_answer_says() {
    listen();
    let mut cases = of_both(CRM, DESTINATION, "https://a.example");
    let unknown = parameter(CRM, "SecureString", r#"{"kind": "http", "LEAK": "LEAKMENOT"}"#);
    cases.push(Case::new("an unknown field", unknown, Fetched::Malformed, 1));
    means(SERVICE, fetch_destination, Fetched::Unavailable, cases).await;
}

/// Deliveries and calls matter more than how a secret is kept, so the document is used. But somebody must hear.
#[tokio::test]
async fn a_secret_that_is_not_encrypted_is_used_and_told() {
    listen();
    for (kind, told) in [("SecureString", false), ("String", true), ("StringList", true)] {
        let server = ScriptedServer::start(move |_, request| match request.json()["Names"][0].as_str() {
            Some(SHOP) => parameter(SHOP, kind, ENDPOINT),
            _ => parameter(CRM, kind, DESTINATION),
        })
        .await;
        let logs = Logs::catch("info");
        assert_eq!(fetch(&server, AMPLE).await, document("stripe"), "{kind}");
        let of_endpoint = logs.take();
        assert_eq!(fetch_destination(&server, AMPLE).await, document("https://a.example"), "{kind}");
        for (id, logged) in [("shop", of_endpoint), ("crm", logs.take())] {
            assert_eq!(logged.contains("SecureString") && logged.contains(id), told, "{kind}: {logged}");
            assert!(told || logged.is_empty(), "{kind}: {logged}");
            assert!(!logged.contains("LEAKMENOT"), "{kind}: {logged}");
        }
        let asked: Vec<_> = server.requests().iter().map(HttpMessage::json).collect();
        assert_eq!(asked, [SHOP, CRM].map(|name| json!({ "Names": [name], "WithDecryption": true })));
    }
}

/// The SDK logs, too.
#[tokio::test]
async fn no_log_of_any_level_holds_a_secret() {
    listen();
    for (answer, expected) in [
        (parameter(SHOP, "SecureString", ENDPOINT), document("stripe")),
        (json!({ "Parameters": "LEAKMENOT" }).into(), Fetched::Unavailable),
    ] {
        let server = answering([answer]).await;
        let logs = Logs::catch("trace");
        assert_eq!(fetch(&server, AMPLE).await, expected);
        let logged = logs.take();
        assert!(logged.contains("GetParameters") && !logged.contains("LEAKMENOT"), "{logged}");
    }
}

/// One request reads the document and texts of the index, which have names that no endpoint has. What is said of one is
/// not said of another: a text stays in use when the document is not valid.
#[tokio::test]
async fn a_document_and_texts_of_the_index_are_read_in_one_request() {
    let server = ScriptedServer::start(|_, _| {
        let text =
            |shard: u8, text: &str| json!({ "Name": format!("/hookonce/test/endpoints/ids.{shard}"), "Value": text });
        let document = json!({ "Name": SHOP, "Value": "no document" });
        found(&json!([text(9, "BBBB"), document, text(7, "AAAA")]), &json!(["/hookonce/test/endpoints/ids.8"]))
    })
    .await;
    let source = parameters_at(server.url(), AMPLE);
    let shop = EndpointId::parse("shop").unwrap();
    let read = source.fetch(&shop, &[7, 8, 9]).await.unwrap();
    assert!(matches!(read.document, Err(FetchError::Malformed(_))), "{:?}", read.document);
    let texts = read.index.iter().map(|(shard, text)| (*shard, text.as_deref()));
    assert_eq!(texts.collect::<Vec<_>>(), [(7, Some("AAAA")), (8, None), (9, Some("BBBB"))]);
    assert!(matches!(source.fetch(&shop, &[6]).await, Err(FetchError::Unavailable(_))), "nothing is said of this text");
    assert_eq!(server.requests().len(), 2);
    let throttling = ScriptedServer::start(|_, _| refusal(SERVICE, "ThrottlingException")).await;
    let throttled = parameters_at(throttling.url(), AMPLE).fetch(&shop, &[7]).await;
    assert!(matches!(throttled, Err(FetchError::Throttled)), "{throttled:?}");
}

async fn fetch_key(server: &ScriptedServer, total: Millis) -> Fetched {
    match SsmMessageKey::new(ssm(server.url(), total), KEY).message_key().await {
        Ok(key) => Fetched::Document(key.to_text()),
        Err(MessageKeyError::Absent) => Fetched::Missing,
        Err(error @ MessageKeyError::Invalid) => failed(Fetched::Malformed, &error),
        Err(error @ MessageKeyError::Unavailable(_)) => failed(Fetched::Unavailable, &error),
    }
}

#[tokio::test]
async fn the_message_key_is_what_its_parameter_holds() {
    let text = MessageKey::new([7; 32]).to_text();
    means(SERVICE, fetch_key, Fetched::Unavailable, of_both(KEY, &text, &text)).await;
}

/// Beside the endpoints, not among them: whoever lists those does not read it along.
#[tokio::test]
async fn the_message_key_is_read_by_its_name_alone() {
    let server = answering([parameter(KEY, "SecureString", &MessageKey::new([7; 32]).to_text())]).await;
    let location = DocumentLocation::Ssm("/hookonce/test/endpoints/".to_owned()).message_key();
    assert!(message_keys(ssm(server.url(), AMPLE), location).get().await.is_some());
    assert_eq!(server.requests()[0].json(), json!({ "Names": [KEY], "WithDecryption": true }));
}
