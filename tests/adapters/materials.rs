//! What is fetched without an SDK: certificates and public keys.

use hookonce_aws::HttpsMaterials;
use hookonce_protocol::call::Unavailable;
use hookonce_runtime::port::MaterialSource as _;
use serde_json::json;

use crate::scripted::{HttpMessage, Reaction, ScriptedServer, nowhere};

/// What a fetch makes of this answer, and what was asked.
async fn fetched(answer: HttpMessage) -> (Result<Vec<u8>, Unavailable>, Vec<HttpMessage>) {
    let server = ScriptedServer::start(move |_, _| Reaction::Answer(answer.clone())).await;
    let result = HttpsMaterials::new().fetch(&format!("{}/key", server.url()), None).await;
    (result, server.requests())
}

/// A redirect is not followed, because only the requested host was checked.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = ScriptedServer::start(|_, _| (200, "a key")).await;
    let location = format!("{}/key", elsewhere.url());
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let (result, requests) = fetched(HttpMessage::reply((status, "")).with_header("location", &location)).await;
        assert_eq!(result, Err(Unavailable), "{status}");
        assert!(requests.len() == 1 && requests[0].head.starts_with("GET /key HTTP/1.1\r\n"), "{requests:?}");
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn what_is_too_long_or_no_success_is_no_certificate() {
    let answer = |status: &str, length: usize| HttpMessage::reply((status, &"x".repeat(length)));
    assert_eq!(fetched(answer("200 OK", 64 * 1024)).await.0.unwrap().len(), 64 * 1024);
    assert_eq!(fetched(answer("200 OK", 64 * 1024 + 1)).await.0, Err(Unavailable));
    assert_eq!(fetched(answer("404 Not Found", 3)).await.0, Err(Unavailable));
}

/// A provider may be asked with a body, as one asks for a key set.
#[tokio::test]
async fn a_body_is_posted_as_json() {
    let server = ScriptedServer::start(|_, _| (200, "keys")).await;
    let url = format!("{}/keys", server.url());
    let fetched = HttpsMaterials::new().fetch(&url, Some(r#"{"id": 1}"#)).await;
    assert_eq!(fetched, Ok(b"keys".to_vec()));
    let requests = server.requests();
    assert!(requests[0].head.starts_with("POST /keys HTTP/1.1"), "{}", requests[0].head);
    assert_eq!(
        (requests[0].header("content-type"), requests[0].json()),
        (Some("application/json"), json!({ "id": 1 }))
    );
}

#[tokio::test]
async fn what_breaks_off_or_has_no_address_is_no_certificate() {
    let whole = HttpMessage::reply(("200 OK", "a certificate"));
    for reaction in [Reaction::Break(whole), Reaction::Close] {
        let server = ScriptedServer::start(move |_, _| reaction.clone()).await;
        assert_eq!(HttpsMaterials::new().fetch(server.url(), None).await, Err(Unavailable));
    }
    assert_eq!(HttpsMaterials::new().fetch("not an address", None).await, Err(Unavailable));
    assert_eq!(HttpsMaterials::new().fetch(&nowhere().await, None).await, Err(Unavailable));
}
