//! What the source of endpoint documents makes of every answer of Parameter Store.

use error_reporter::Report;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::{SsmDestinations, SsmEndpoints};
use hookonce_runtime::destination::{DestinationFetchError, DestinationSource as _};
use hookonce_runtime::document::FetchError;
use hookonce_runtime::port::EndpointSource as _;
use serde_json::{Value, json};

use super::{AMPLE, Case, error, failing, means};
use crate::clients::ssm;
use crate::logs::{Logs, listen};
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// The parameter of the endpoint `shop`.
const NAME: &str = "/hookonce/test/endpoints/shop";

const SERVICE: &str = "com.amazonaws.ssm";

/// The text of a document.
const DOCUMENT: &str = r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;

/// The documents in the Parameter Store at this address, read as the webhook reads them.
pub(super) fn parameters_at(url: &str, total: Millis) -> SsmEndpoints {
    SsmEndpoints::new(ssm(url, total), "/hookonce/test/endpoints/")
}

/// The result of a fetch, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fetched {
    Provider(String),
    Missing,
    Malformed,
    Throttled,
    Unavailable,
}

async fn fetch(server: &ScriptedServer, total: Millis) -> Fetched {
    let shop = EndpointId::parse("shop").unwrap();
    let read = parameters_at(server.url(), total).fetch(&shop, &[]).await;
    match read.and_then(|read| read.document) {
        Ok(Some(document)) => Fetched::Provider(document.provider),
        Ok(None) => Fetched::Missing,
        Err(FetchError::Malformed(_)) => Fetched::Malformed,
        Err(error @ (FetchError::Unavailable(_) | FetchError::Throttled)) => {
            let printed = format!("{} {error:?}", Report::new(&error));
            assert!(!printed.contains("LEAKMENOT"), "an error does not repeat the answer: {printed}");
            if matches!(error, FetchError::Throttled) { Fetched::Throttled } else { Fetched::Unavailable }
        }
    }
}

/// An answer with this parameter.
fn parameter(kind: &str, value: &str) -> Reaction {
    let parameter = json!({ "Name": NAME, "Type": kind, "Value": value, "Version": 3 });
    found(&json!([parameter]), &json!([]))
}

fn found(parameters: &Value, absent: &Value) -> Reaction {
    (200, json!({ "Parameters": parameters, "InvalidParameters": absent }).to_string()).into()
}

#[tokio::test]
async fn a_fetch_means_what_its_answer_says() {
    listen();
    let unavailable = |code: &str| Case::new(code, error(400, &format!("{SERVICE}#{code}")), Fetched::Unavailable, 1);
    let mut cases = failing(SERVICE, &Fetched::Unavailable);
    // Many copies of the webhook start at once, and the limit of reads is one for all of them.
    for case in cases.iter_mut().filter(|case| case.name == "ThrottlingException") {
        case.expected = Fetched::Throttled;
    }
    cases.extend([
        Case::new("a document", parameter("SecureString", DOCUMENT), Fetched::Provider("stripe".to_owned()), 1),
        Case::new("no such parameter", found(&json!([]), &json!([NAME])), Fetched::Missing, 1),
        // The key of KMS that encrypts the parameter is disabled, gone, or not for this role.
        unavailable("InvalidKeyId"),
        unavailable("KMSInvalidStateException"),
        unavailable("ValidationException"),
        Case::new("no value", found(&json!([{ "Name": NAME }]), &json!([])), Fetched::Unavailable, 1),
        // What the answer does not mention may exist.
        Case::new("nothing about it", found(&json!([]), &json!([])), Fetched::Unavailable, 1),
        Case::new("no answer", (200, "{}"), Fetched::Unavailable, 1),
        Case::new(
            "another one",
            found(&json!([{ "Name": "x", "Value": DOCUMENT }]), &json!(["y"])),
            Fetched::Unavailable,
            1,
        ),
        Case::new("no document", parameter("SecureString", "LEAKMENOT"), Fetched::Malformed, 1),
        Case::new("an empty document", parameter("SecureString", ""), Fetched::Malformed, 1),
        // Ciphertext, as without decryption.
        Case::new("a document that is not decrypted", parameter("SecureString", "AQICAHg="), Fetched::Malformed, 1),
    ]);
    means(fetch, cases, Fetched::Unavailable).await;
}

/// A provider's deliveries matter more than how its secret is kept, so the document is used. But somebody must hear.
#[tokio::test]
async fn a_secret_that_is_not_encrypted_is_used_and_told() {
    for (kind, told) in [("SecureString", false), ("String", true), ("StringList", true)] {
        let server = ScriptedServer::start(move |_, _| parameter(kind, DOCUMENT)).await;
        let logs = Logs::catch("info");
        assert_eq!(fetch(&server, AMPLE).await, Fetched::Provider("stripe".to_owned()), "{kind}");
        let logged = logs.take();
        assert_eq!(logged.contains("SecureString"), told, "{kind}: {logged}");
        assert!(!logged.contains("LEAKMENOT"), "{kind}: {logged}");
    }
}

/// One request reads the document and texts of the index, which have names that no endpoint has. What is said of one is
/// not said of another: a text stays in use when the document is not valid.
#[tokio::test]
async fn a_document_and_texts_of_the_index_are_read_in_one_request() {
    let server = ScriptedServer::start(|_, _| {
        let text =
            |shard: u8, text: &str| json!({ "Name": format!("/hookonce/test/endpoints/ids.{shard}"), "Value": text });
        let document = json!({ "Name": NAME, "Value": "no document" });
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
    let throttling = ScriptedServer::start(|_, _| error(400, &format!("{SERVICE}#ThrottlingException"))).await;
    let throttled = parameters_at(throttling.url(), AMPLE).fetch(&shop, &[7]).await;
    assert!(matches!(throttled, Err(FetchError::Throttled)), "{throttled:?}");
}

/// The document of the destination `crm`, and what was asked for it.
async fn fetch_destination(server: &ScriptedServer, total: Millis) -> Fetched {
    let source = SsmDestinations::new(ssm(server.url(), total), "/hookonce/test/destinations/");
    match source.fetch(&DestinationId::parse("crm").unwrap()).await {
        Ok(Some(document)) => Fetched::Provider(document.url.unwrap_or_default()),
        Ok(None) => Fetched::Missing,
        Err(error) => {
            let printed = format!("{} {error:?}", Report::new(&error));
            assert!(!printed.contains("LEAKMENOT"), "an error does not repeat the answer: {printed}");
            match error {
                DestinationFetchError::Invalid(_) => Fetched::Malformed,
                DestinationFetchError::Unavailable(_) => Fetched::Unavailable,
            }
        }
    }
}

#[tokio::test]
async fn a_destination_means_what_its_answer_says() {
    listen();
    let name = "/hookonce/test/destinations/crm";
    let answer = |value: &str| {
        found(&json!([{ "Name": name, "Type": "SecureString", "Value": value, "Version": 1 }]), &json!([]))
    };
    let document = r#"{"kind": "http", "url": "https://a.example", "headers": {"a": "LEAKMENOT"}}"#;
    let mut cases = failing(SERVICE, &Fetched::Unavailable);
    cases.extend([
        Case::new("a document", answer(document), Fetched::Provider("https://a.example".to_owned()), 1),
        Case::new("no such parameter", found(&json!([]), &json!([name])), Fetched::Missing, 1),
        // What the answer does not mention may exist.
        Case::new("nothing about it", found(&json!([]), &json!([])), Fetched::Unavailable, 1),
        Case::new("no document", answer("LEAKMENOT"), Fetched::Malformed, 1),
        Case::new("an empty document", answer(""), Fetched::Malformed, 1),
        Case::new("an unknown field", answer(r#"{"kind": "http", "LEAK": "LEAKMENOT"}"#), Fetched::Malformed, 1),
    ]);
    means(fetch_destination, cases, Fetched::Unavailable).await;

    let answer = answer(document);
    let server = ScriptedServer::start(move |_, _| answer.clone()).await;
    let logs = Logs::catch("info");
    fetch_destination(&server, AMPLE).await;
    assert_eq!(logs.take(), "");
    let asked: Vec<_> = server.requests().iter().map(HttpMessage::json).collect();
    assert_eq!(asked, [json!({ "Names": [name], "WithDecryption": true })]);
}

#[tokio::test]
async fn a_destination_that_is_not_encrypted_is_used_and_told() {
    listen();
    let document = r#"{"kind": "http", "url": "https://a.example", "headers": {"a": "LEAKMENOT"}}"#;
    let parameter = json!({ "Name": "/hookonce/test/destinations/crm", "Type": "String", "Value": document });
    let answer = found(&json!([parameter]), &json!([]));
    let server = ScriptedServer::start(move |_, _| answer.clone()).await;
    let logs = Logs::catch("info");
    assert_eq!(fetch_destination(&server, AMPLE).await, Fetched::Provider("https://a.example".to_owned()));
    let logged = logs.take();
    assert!(logged.contains("SecureString") && logged.contains("crm") && !logged.contains("LEAKMENOT"), "{logged}");
}
