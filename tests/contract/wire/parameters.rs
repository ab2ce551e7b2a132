//! What the source of endpoint documents makes of every answer of Parameter Store.

use error_reporter::Report;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::SsmEndpoints;
use hookonce_runtime::document::FetchError;
use hookonce_runtime::port::EndpointSource as _;
use serde_json::{Value, json};

use super::{AMPLE, Case, SHORT, ends, error, failing, hold};
use crate::contract::ssm;
use crate::support::logs::{Logs, listen};
use crate::support::wire::{Reaction, ScriptedServer};

const SERVICE: &str = "com.amazonaws.ssm";

/// The text of a document.
pub(crate) const DOCUMENT: &str =
    r#"{"provider":"stripe","secrets":["whsec_LEAKMENOT","whsec_old"],"on_store_outage":"enqueue"}"#;

/// The documents in the Parameter Store at this address, read as the webhook reads them.
pub(crate) fn parameters_at(url: &str, total: Millis) -> SsmEndpoints {
    SsmEndpoints::new(ssm(url, total), "/hookonce/test/endpoints/")
}

/// What a fetch comes to, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fetched {
    Provider(String),
    Missing,
    Malformed,
    Unavailable,
}

async fn fetch(server: &ScriptedServer, total: Millis) -> Fetched {
    match parameters_at(server.url(), total).fetch(&EndpointId::parse("shop").unwrap()).await {
        Ok(Some(document)) => Fetched::Provider(document.provider),
        Ok(None) => Fetched::Missing,
        Err(FetchError::Malformed { .. } | FetchError::Tenant(_)) => Fetched::Malformed,
        Err(error @ (FetchError::Unavailable(_) | FetchError::Throttled)) => {
            let printed = format!("{} {error:?}", Report::new(&error));
            assert!(!printed.contains("LEAKMENOT"), "an error does not repeat the answer: {printed}");
            Fetched::Unavailable
        }
    }
}

/// An answer with this parameter.
fn parameter(kind: &str, value: &str) -> Reaction {
    let parameter = json!({ "Name": "/hookonce/test/endpoints/shop", "Type": kind, "Value": value, "Version": 3 });
    (200, json!({ "Parameter": parameter }).to_string()).into()
}

#[tokio::test]
async fn a_fetch_means_what_its_answer_says() {
    listen();
    let unavailable = |code: &str| Case::new(code, error(400, &format!("{SERVICE}#{code}")), Fetched::Unavailable, 1);
    let mut cases = failing(SERVICE, &Fetched::Unavailable);
    cases.extend([
        Case::new("a document", parameter("SecureString", DOCUMENT), Fetched::Provider("stripe".to_owned()), 1),
        Case::new("no such parameter", error(400, &format!("{SERVICE}#ParameterNotFound")), Fetched::Missing, 1),
        unavailable("ParameterVersionNotFound"),
        // The key of KMS that encrypts the parameter is disabled, gone, or not for this role.
        unavailable("InvalidKeyId"),
        unavailable("KMSInvalidStateException"),
        unavailable("ValidationException"),
        Case::new("no value", (200, r#"{"Parameter":{"Type":"SecureString"}}"#), Fetched::Unavailable, 1),
        Case::new("no parameter", (200, "{}"), Fetched::Unavailable, 1),
        Case::new("no document", parameter("SecureString", "LEAKMENOT"), Fetched::Malformed, 1),
        Case::new("an empty document", parameter("SecureString", ""), Fetched::Malformed, 1),
        // Ciphertext, as without decryption.
        Case::new("a document that is not decrypted", parameter("SecureString", "AQICAHg="), Fetched::Malformed, 1),
    ]);
    hold(async |server: &ScriptedServer| fetch(server, AMPLE).await, cases).await;
    ends(async |server: &ScriptedServer| fetch(server, SHORT).await, Fetched::Unavailable).await;
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

/// The index is read as any parameter is, under a name that no endpoint has. A throttled read is known as one.
#[tokio::test]
async fn a_text_of_the_index_is_a_parameter_beside_the_endpoints() {
    let server = ScriptedServer::start(|_, request| {
        match serde_json::from_slice::<Value>(&request.body).unwrap()["Name"].as_str() {
            Some("/hookonce/test/endpoints/ids.7") => parameter("String", "AAAA"),
            Some("/hookonce/test/endpoints/ids.8") => error(400, &format!("{SERVICE}#ParameterNotFound")),
            _ => error(400, &format!("{SERVICE}#ThrottlingException")),
        }
    })
    .await;
    let source = parameters_at(server.url(), AMPLE);
    assert_eq!(source.index(7).await.unwrap().as_deref(), Some("AAAA"));
    assert_eq!(source.index(8).await.unwrap(), None);
    assert!(matches!(source.index(9).await, Err(FetchError::Throttled)));
}
