//! What a call of a handler in another language becomes, after every answer of its function or of what stands before
//! it.

use std::time::Duration;

use hookonce_aws::{LambdaHandlers, LoopbackHandlers};
use hookonce_runtime::documents::document::EVENT_BYTES_MAX;
use hookonce_runtime::handlers::remote::{CallError, CallHandler};
use serde_json::json;

use super::account::without_credentials;
use super::sdk::untaken;
use crate::clients::config_at;
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// What a call became, in a word.
async fn call(handlers: &dyn CallHandler, handler: &str) -> String {
    match handlers.call(handler, br#"{"version":1}"#.to_vec()).await {
        Ok(answer) => String::from_utf8(answer).unwrap(),
        Err(CallError::Away(_)) => "away".to_owned(),
        Err(CallError::Crashed(_)) => "crashed".to_owned(),
        Err(CallError::TooLong) => "too long".to_owned(),
    }
}

fn status(status: u16) -> Reaction {
    (status, "").into()
}

fn answer(body: &str) -> HttpMessage {
    HttpMessage::reply(("200 OK", body))
}

#[tokio::test]
async fn each_answer_of_a_url_has_its_result() {
    let redirect = HttpMessage::reply(("302 Found", "")).with_header("location", "http://127.0.0.1:1/");
    for (reaction, expected) in [
        (Reaction::Answer(answer("{}")), "{}"),
        (status(429), "away"),
        (status(502), "away"),
        (status(503), "away"),
        (status(504), "away"),
        (status(500), "crashed"),
        (status(404), "crashed"),
        (Reaction::Answer(redirect), "crashed"),
        // It died with the request in its hands.
        (Reaction::Close, "crashed"),
        (Reaction::Break(answer("{\"fact\":\"in_1\"}")), "crashed"),
        (Reaction::Answer(answer(&"x".repeat(EVENT_BYTES_MAX + 1))), "too long"),
    ] {
        let server = ScriptedServer::start(move |_, _| reaction.clone()).await;
        let url = format!("{}/plan?x=1", server.url());
        assert_eq!(call(&LoopbackHandlers::new(), &url).await, expected);
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "nothing repeats a call");
        assert!(requests[0].head.starts_with("POST /plan?x=1 HTTP/1.1"), "{}", requests[0].head);
        assert_eq!(requests[0].json(), json!({ "version": 1 }));
    }
    assert_eq!(call(&LoopbackHandlers::new(), "http://127.0.0.1:1/").await, "away", "nothing listens");
}

#[tokio::test]
async fn each_answer_of_lambda_has_its_result() {
    let failed =
        |kind: &str| Reaction::Answer(answer("{\"errorMessage\":\"boom\"}").with_header("x-amz-function-error", kind));
    let named = |status: u16, error: &str| {
        HttpMessage::reply((&format!("{status} -"), "{}")).with_header("x-amzn-errortype", error)
    };
    for (reaction, expected) in [
        (Reaction::Answer(answer("{}")), "{}"),
        (failed("Handled"), "crashed"),
        (failed("Unhandled"), "crashed"),
        (status(400), "crashed"),
        (Reaction::Answer(named(400, "InvalidRequestContentException:http://internal")), "crashed"),
        (Reaction::Answer(named(400, "SnapStartException")), "away"),
        (status(413), "crashed"),
        (status(415), "crashed"),
        (Reaction::Break(answer("{\"fact\":\"in_1\"}")), "away"),
        (Reaction::Answer(answer(&"x".repeat(EVENT_BYTES_MAX + 1))), "too long"),
        (status(403), "away"),
        (status(404), "away"),
        (status(409), "away"),
        (status(429), "away"),
        (status(500), "away"),
        (status(502), "away"),
        (Reaction::Close, "away"),
    ] {
        let server = ScriptedServer::start(move |_, _| reaction.clone()).await;
        let handlers = LambdaHandlers::new(&config_at(server.url()));
        assert_eq!(call(&handlers, "plan:live").await, expected);
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "nothing repeats a call");
        let (head, signature) = (&requests[0].head, requests[0].header("authorization").unwrap());
        assert!(head.starts_with("POST /2015-03-31/functions/plan%3Alive/invocations HTTP/1.1"), "{head}");
        let headers = ["content-type", "x-amz-invocation-type"].map(|name| requests[0].header(name).unwrap());
        assert_eq!(headers, ["application/json", "RequestResponse"]);
        assert!(signature.contains("/lambda/aws4_request"), "{signature}");
        assert_eq!(requests[0].json(), json!({ "version": 1 }));
    }
}

/// A name may have a qualifier, and one of them begins with a character that a path must not hold as it is.
#[tokio::test]
async fn the_latest_version_of_a_function_can_be_called() {
    let server = ScriptedServer::start(|_, _| (200, "{}")).await;
    assert_eq!(call(&LambdaHandlers::new(&config_at(server.url())), "plan:$LATEST").await, "{}");
    let head = &server.requests()[0].head;
    assert!(head.starts_with("POST /2015-03-31/functions/plan%3A%24LATEST/invocations HTTP/1.1"), "{head}");
}

#[tokio::test]
async fn a_handler_without_credentials_to_call_it_is_away() {
    let server = ScriptedServer::start(|_, _| (200, "{}")).await;
    assert_eq!(call(&LambdaHandlers::new(&without_credentials(server.url())), "plan").await, "away");
    assert_eq!(server.requests().len(), 0);
}

/// A service that cannot be reached must not look like a slow function: the system itself gives up after minutes.
#[tokio::test]
async fn a_connection_to_lambda_that_is_not_taken_is_given_up() {
    let (url, _kept) = untaken().await;
    let handlers = LambdaHandlers::new(&config_at(&url));
    let called = tokio::time::timeout(Duration::from_mins(1), call(&handlers, "plan"));
    assert_eq!(called.await.expect("it must not hang"), "away");
}

/// A program on a laptop is restarted whenever somebody changes it.
#[tokio::test]
async fn no_connection_to_a_url_is_kept() {
    let server = ScriptedServer::start(|_, _| (200, "{}")).await;
    let handlers = LoopbackHandlers::new();
    for _ in 0..2 {
        assert_eq!(call(&handlers, server.url()).await, "{}");
    }
    assert_eq!(server.connections(), 2);
    assert_eq!(server.requests()[0].header("content-type"), Some("application/json"));
}
