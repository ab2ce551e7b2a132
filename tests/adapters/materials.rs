//! What is fetched without an SDK: certificates and public keys.

use hookonce_protocol::call::Unavailable;
use hookonce_runtime::aws::HttpsMaterials;
use hookonce_runtime::port::MaterialSource as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::clients::nowhere;
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// Answers one connection with this head and body, and returns what was requested.
async fn answer_once(listener: TcpListener, answer: Vec<u8>) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = vec![0; 4_096];
    let length = stream.read(&mut asked).await.unwrap();
    // The client may close the connection before everything is written.
    let _ = stream.write_all(&answer).await;
    String::from_utf8_lossy(&asked[..length]).into_owned()
}

async fn fetched(answer: Vec<u8>) -> (Result<Vec<u8>, Unavailable>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/key", listener.local_addr().unwrap());
    let source = HttpsMaterials::new();
    tokio::join!(source.fetch(&url, None), answer_once(listener, answer))
}

/// A redirect is not followed, because only the requested host was checked.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = elsewhere.local_addr().unwrap();
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let head = format!("HTTP/1.1 {status}\r\nlocation: http://{address}/key\r\ncontent-length: 0\r\n\r\n");
        let (result, asked) = fetched(head.into_bytes()).await;
        assert_eq!(result, Err(Unavailable), "{status}");
        assert!(asked.starts_with("GET /key HTTP/1.1\r\n"), "{asked}");
    }
    let mut followed = Box::pin(elsewhere.accept());
    assert!(futures::poll!(&mut followed).is_pending(), "no request followed the redirect");
}

#[tokio::test]
async fn what_is_too_long_or_no_success_is_no_certificate() {
    let answer = |status: &str, length: usize| {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        [head.into_bytes(), vec![b'x'; length]].concat()
    };
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
