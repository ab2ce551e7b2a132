//! Functions behind Lambda's invoke API.

use std::time::Duration;

use bytes::Bytes;
use hookonce_local::clients::without_key;
use hookonce_local::invoke::{InvokeBytes, InvokeError};
use hookonce_local::invoke_api::InvokeApi;
use serde_json::{Value, json};

const KEY: &str = "LOCAL123";

/// Answers with its event, unless all its places are taken.
struct Echo {
    is_full: bool,
}

impl InvokeBytes for Echo {
    type Slot = ();

    async fn slot(&self) -> Result<(), InvokeError> {
        if self.is_full { Err(InvokeError::Throttled) } else { Ok(()) }
    }

    async fn invoke_bytes(&self, (): (), event: Bytes) -> Result<Bytes, InvokeError> {
        let read: Value = serde_json::from_slice(&event).unwrap();
        match read["do"].as_str() {
            Some("fail") => Err(InvokeError::Failed { error_type: "Boom".to_owned(), message: "it broke".to_owned() }),
            Some("hang") => std::future::pending().await,
            Some("not start") => Err(InvokeError::NotStarted {
                binary: "no-program".to_owned(),
                source: std::io::Error::from(std::io::ErrorKind::NotFound),
            }),
            _ => Ok(event),
        }
    }
}

async fn api(timeout: Duration) -> InvokeApi {
    InvokeApi::start([("plan".to_owned(), Echo { is_full: false })], timeout, KEY).await.unwrap()
}

/// Status, error mark and body of an invocation that is signed with this access key id.
async fn invoke(api: &InvokeApi, name: &str, key: &str, body: &str) -> (u16, Option<String>, String) {
    let url = format!("{}/2015-03-31/functions/{name}/invocations", without_key(api.url()));
    let signed = format!("AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/lambda/aws4_request, Signature=0");
    let request = reqwest::Client::new().post(url).header("authorization", signed).body(body.to_owned());
    let response = request.send().await.unwrap();
    let mark = response.headers().get("x-amz-function-error").map(|mark| mark.to_str().unwrap().to_owned());
    (response.status().as_u16(), mark, response.text().await.unwrap())
}

#[tokio::test]
async fn a_function_is_invoked_by_its_name_version_or_arn() {
    let api = api(Duration::from_secs(30)).await;
    for name in ["plan", "plan%3Alive", "arn:aws:lambda:eu-central-1:123456789012:function:plan:3"] {
        let answer = invoke(&api, name, KEY, r#"{"a":1}"#).await;
        assert_eq!(answer, (200, None, r#"{"a":1}"#.to_owned()), "{name}");
    }
    assert_eq!(invoke(&api, "other", KEY, "{}").await.0, 404);
    assert_eq!(invoke(&api, "plan", KEY, "no JSON").await.0, 400);
}

#[tokio::test]
async fn a_failure_and_a_timeout_are_errors_of_the_function() {
    let api = api(Duration::from_millis(50)).await;
    let (status, mark, body) = invoke(&api, "plan", KEY, r#"{"do":"fail"}"#).await;
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, mark.as_deref()), (200, Some("Unhandled")));
    assert_eq!(document, json!({ "errorType": "Boom", "errorMessage": "it broke" }));
    let (status, mark, body) = invoke(&api, "plan", KEY, r#"{"do":"hang"}"#).await;
    assert_eq!((status, mark.as_deref()), (200, Some("Unhandled")));
    assert!(body.contains("Sandbox.Timedout"), "{body}");
}

/// Numbers are not rounded, and a field that appears twice is for the worker to refuse.
#[tokio::test]
async fn an_event_and_its_response_are_the_same_bytes() {
    let event = r#"{"n": 12345678901234567890123, "n": 1.10}"#;
    let answer = invoke(&api(Duration::from_secs(30)).await, "plan", KEY, event).await;
    assert_eq!(answer, (200, None, event.to_owned()));
}

/// The worker then lets its events wait, as if the function were missing.
#[tokio::test]
async fn a_function_that_cannot_start_is_away_and_has_not_failed() {
    let (status, mark, _) = invoke(&api(Duration::from_secs(30)).await, "plan", KEY, r#"{"do":"not start"}"#).await;
    assert_eq!((status, mark), (502, None));
}

#[tokio::test]
async fn a_function_without_a_free_place_throttles() {
    let full = [("plan".to_owned(), Echo { is_full: true })];
    let api = InvokeApi::start(full, Duration::from_secs(30), KEY).await.unwrap();
    let (status, mark, body) = invoke(&api, "plan", KEY, "{}").await;
    assert_eq!((status, mark, body.as_str()), (429, None, r#"{"Message":"Rate Exceeded."}"#));
}

#[tokio::test]
async fn only_the_access_key_of_this_run_is_let_in() {
    let api = api(Duration::from_secs(30)).await;
    assert_eq!(invoke(&api, "plan", "LOCAL124", "{}").await.0, 403);
    let url = format!("{}/2015-03-31/functions/plan/invocations", without_key(api.url()));
    assert_eq!(reqwest::Client::new().post(url).body("{}").send().await.unwrap().status(), 403);
}
