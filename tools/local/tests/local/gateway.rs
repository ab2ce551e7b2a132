//! The gateway over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hookonce_local::gateway::{BODY_BYTES_MAX, Gateway, GatewayConfig, GatewayError};
use hookonce_local::invoke::{Invoke, InvokeError, invoke_fn};
use serde_json::{Value, json};

use crate::support::{ambient, eventually, held};

const LONG: Duration = Duration::from_secs(30);

fn config() -> GatewayConfig {
    GatewayConfig { port: 0, integration_timeout: LONG, function_timeout: LONG, public_host: None }
}

pub(super) async fn gateway(function: impl Invoke) -> Gateway {
    Gateway::start(function, config(), ambient()).await.unwrap()
}

/// A gateway before a function that returns its event.
async fn echo() -> Gateway {
    gateway(invoke_fn(|event| async move { Ok(event) })).await
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// The status and the body of the answer to a POST.
async fn post(gateway: &Gateway, body: Vec<u8>) -> (u16, String) {
    let answer = client().post(gateway.url()).body(body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Sends bytes as they are and returns everything that comes back.
async fn raw(address: SocketAddr, request: impl AsRef<[u8]> + Send + 'static) -> String {
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_ref()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

#[tokio::test]
async fn duplicate_headers_are_joined_and_names_lower_cased() {
    let gateway = echo().await;
    let request = b"GET / HTTP/1.1\r\nHost: localhost:80\r\nX-Sig: one\r\nx-sig: two\r\nX-SIG:  three \r\n\
                    Connection: close\r\n\r\n";
    let answer = raw(gateway.address(), request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let event: Value = serde_json::from_str(body).unwrap();
    assert_eq!(event["headers"]["x-sig"], json!("one,two,three"));
    let request_id = event["requestContext"]["requestId"].as_str().unwrap();
    assert!(head.contains(&format!("apigw-requestid: {request_id}")), "{head}");
}

/// Any page in this machine's browser can send requests to loopback. Its origin or its site gives it away, or the name
/// that it has made point here.
#[tokio::test]
async fn a_web_page_reaches_no_function() {
    let tunnelled = GatewayConfig { public_host: Some("abc.example".to_owned()), ..config() };
    let function = || invoke_fn(|event| async move { Ok(event) });
    let tunnelled = Gateway::start(function(), tunnelled, ambient()).await.unwrap();
    let without = echo().await;
    for (gateway, host, origin, status) in [
        (&tunnelled, "127.0.0.1:80", "", 200),
        (&tunnelled, "localhost:80", "", 200),
        (&tunnelled, "abc.example", "", 200),
        (&tunnelled, "ABC.example", "", 200),
        (&tunnelled, "abc.example.evil", "", 403),
        (&tunnelled, "abc.example", "origin: http://evil.example\r\n", 403),
        (&tunnelled, "127.0.0.1:80", "origin: http://evil.example\r\n", 403),
        (&tunnelled, "abc.example", "sec-fetch-site: cross-site\r\n", 403),
        (&without, "127.0.0.1:80", "sec-fetch-site: same-site\r\n", 403),
        (&without, "127.0.0.1:80", "sec-fetch-site: none\r\n", 200),
        (&tunnelled, "evil.example", "", 403),
        (&tunnelled, "abc.example\r\nhost: abc.example", "", 403),
        (&without, "127.0.0.1:80", "", 200),
        (&without, "abc.example", "", 403),
    ] {
        let head = format!("GET /webhooks/x HTTP/1.1\r\nhost: {host}\r\n{origin}connection: close\r\n\r\n");
        let answer = raw(gateway.address(), head).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host} {origin}: {answer}");
    }
}

#[tokio::test]
async fn a_path_that_aws_refuses_is_refused() {
    let gateway = echo().await;
    let answer = client().get(format!("{}/100%25done", gateway.url())).send().await.unwrap();
    assert_eq!(answer.status(), 400);
}

#[tokio::test]
async fn a_function_that_fails_gives_500_without_details() {
    let gateway = gateway(invoke_fn(|event: Value| async move {
        match event["body"].as_str() {
            Some("ZXJyb3I=") => {
                Err(InvokeError::Failed { error_type: "Boom".to_owned(), message: "secret".to_owned() })
            }
            Some("cGFuaWM=") => panic!("secret"),
            _ => Ok(json!({ "statusCode": "secret" })),
        }
    }))
    .await;
    for body in ["error", "panic", "nonsense"] {
        let expected = (500, r#"{"message":"Internal Server Error"}"#.to_owned());
        assert_eq!(post(&gateway, body.into()).await, expected, "{body}");
    }
}

#[tokio::test]
async fn a_function_that_is_too_slow_is_not_waited_for() {
    let never = || invoke_fn(|_| std::future::pending());
    let short = Duration::from_millis(20);
    let slow = GatewayConfig { integration_timeout: short, ..config() };
    let gateway = Gateway::start(never(), slow, ambient()).await.unwrap();
    assert_eq!(post(&gateway, Vec::new()).await, (503, r#"{"message":"Service Unavailable"}"#.to_owned()));

    let stopped = GatewayConfig { function_timeout: short, ..config() };
    let gateway = Gateway::start(never(), stopped, ambient()).await.unwrap();
    assert_eq!(post(&gateway, Vec::new()).await, (500, r#"{"message":"Internal Server Error"}"#.to_owned()));
}

#[tokio::test]
async fn what_is_too_large_for_the_gateway_or_for_lambda_is_refused() {
    let gateway =
        gateway(invoke_fn(|event: Value| async move { Ok(json!({ "length": event["body"].as_str().map(str::len) })) }))
            .await;
    let too_large = (413, r#"{"message":"Request Entity Too Large"}"#.to_owned());
    assert_eq!(post(&gateway, vec![0; BODY_BYTES_MAX + 1]).await, too_large);
    assert_eq!(post(&gateway, vec![0; 4_800_000]).await, too_large, "its event is above 6 MB");
    assert_eq!(post(&gateway, vec![0; 4_500_000]).await, (200, r#"{"length":6000000}"#.to_owned()));
}

#[tokio::test]
async fn shutdown_waits_for_the_request_under_way() {
    let (started, finish, function) = held(json!({ "statusCode": 200, "body": "done" }));
    let gateway = gateway(function).await;
    let (address, url) = (gateway.address(), gateway.url());
    let request = tokio::spawn(async move { client().get(url).send().await.unwrap().text().await });
    started.notified().await;
    let stopping = tokio::spawn(gateway.shutdown());
    eventually("it takes no more requests", async || TcpStream::connect(address).is_err().then_some(())).await;
    assert!(!stopping.is_finished(), "a request is under way");
    finish.notify_one();
    assert_eq!(request.await.unwrap().unwrap(), "done");
    stopping.await.unwrap();
}

#[tokio::test]
async fn it_listens_on_loopback_and_names_a_port_that_is_taken() {
    let gateway = echo().await;
    assert!(gateway.address().ip().is_loopback());
    let taken = GatewayConfig { port: gateway.address().port(), ..config() };
    let refused = Gateway::start(invoke_fn(|event| async move { Ok(event) }), taken, ambient()).await.unwrap_err();
    let GatewayError::Listen { port, .. } = refused;
    assert_eq!(port, gateway.address().port());
}
