//! The embedded DynamoDB, and how both servers start and stop.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use hookonce_local::backends::{BackendError, Backends, DataLocation};
use hookonce_local::clients;
use hookonce_local::tables::StackShape;

use crate::support::{NEVER, Stack, ambient, eventually, number, stack, stack_on, text};

type Item = HashMap<String, AttributeValue>;

async fn put(stack: &Stack, item: Item) {
    stack.dynamodb.put_item().table_name(&stack.resources.inbox_table).set_item(Some(item)).send().await.unwrap();
}

async fn keys(stack: &Stack) -> Vec<String> {
    let scanned = stack.dynamodb.scan().table_name(&stack.resources.inbox_table).send().await.unwrap();
    let mut keys: Vec<_> = scanned.items().iter().map(|item| item["pk"].as_s().unwrap().clone()).collect();
    keys.sort();
    keys
}

fn expiring(pk: &str, expires_at: u64) -> Item {
    HashMap::from([("pk".to_owned(), text(pk)), ("hookonce_expires_at".to_owned(), number(expires_at))])
}

#[tokio::test]
async fn a_sweep_deletes_what_has_expired_from_table_and_index_and_nothing_else() {
    let stack = stack(30, 3).await;
    let now = ambient().unix_millis() / 1_000;
    let mut expired = expiring("expired", now - 60);
    expired.extend([("due_shard".to_owned(), text("due#0")), ("due_at".to_owned(), number(1))]);
    put(&stack, expired).await;
    put(&stack, expiring("alive", now + 3_600)).await;
    put(&stack, HashMap::from([("pk".to_owned(), text("eternal"))])).await;
    let as_text =
        HashMap::from([("pk".to_owned(), text("not a number")), ("hookonce_expires_at".to_owned(), text("1"))]);
    put(&stack, as_text).await;
    let other_attribute =
        HashMap::from([("pk".to_owned(), text("other attribute")), ("received_at".to_owned(), number(1))]);
    put(&stack, other_attribute).await;

    assert_eq!(stack.backends.sweep_ttl().await.unwrap(), 1);
    assert_eq!(keys(&stack).await, ["alive", "eternal", "not a number", "other attribute"]);
    assert_eq!(stack.backends.sweep_ttl().await.unwrap(), 0);
    let due = stack
        .dynamodb
        .query()
        .table_name(&stack.resources.inbox_table)
        .index_name("due")
        .key_condition_expression("due_shard = :shard")
        .expression_attribute_values(":shard", text("due#0"))
        .send()
        .await
        .unwrap();
    assert_eq!(due.count(), 0);
}

#[tokio::test]
async fn expired_items_go_by_themselves() {
    let sweeping = Backends::start(DataLocation::Memory, Duration::from_millis(20)).unwrap();
    let stack = stack_on(sweeping, &StackShape::deployed("test")).await;
    put(&stack, expiring("expired", ambient().unix_millis() / 1_000 - 60)).await;
    eventually("the item is deleted", async || keys(&stack).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn the_directory_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataLocation::Directory(directory.path().join("not yet there"));
    for (run, expected) in [("first", vec![]), ("second", vec!["first"]), ("third", vec!["first", "second"])] {
        let backends = Backends::start(data.clone(), NEVER).unwrap();
        let stack = stack_on(backends, &StackShape::deployed("test")).await;
        assert_eq!(keys(&stack).await, expected, "{run}");
        put(&stack, HashMap::from([("pk".to_owned(), text(run))])).await;
        stack.backends.shutdown().await;
    }
}

#[tokio::test]
async fn a_directory_is_used_by_one_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataLocation::Directory(directory.path().to_owned());
    let first = Backends::start(data.clone(), NEVER).unwrap();
    let refused = Backends::start(data.clone(), NEVER).unwrap_err();
    assert!(matches!(refused, BackendError::DirectoryInUse { .. }), "{refused}");
    first.shutdown().await;
    Backends::start(data, NEVER).unwrap().shutdown().await;
}

#[tokio::test]
async fn a_file_in_the_place_of_the_directory_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = Backends::start(DataLocation::Directory(file.path().to_owned()), NEVER).unwrap_err();
    assert!(matches!(refused, BackendError::Directory { .. }), "{refused}");
}

#[tokio::test]
async fn dropping_the_backends_stops_them_and_frees_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataLocation::Directory(directory.path().to_owned());
    drop(Backends::start(data.clone(), NEVER).unwrap());
    eventually("the directory is free", async || Backends::start(data.clone(), NEVER).ok()).await;
}

#[tokio::test]
async fn the_servers_are_on_loopback_and_gone_after_shutdown() {
    let stack = stack(30, 3).await;
    let addresses = [stack.backends.dynamodb_url(), stack.backends.sqs_url()]
        .map(|url| clients::without_key(url).strip_prefix("http://").unwrap().to_owned());
    for address in &addresses {
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        TcpStream::connect(address).unwrap();
    }
    stack.backends.shutdown().await;
    for address in &addresses {
        assert!(TcpStream::connect(address).is_err(), "{address} still answers");
    }
}

/// The tables and the queue of a developer belong to no web page, neither to one of another origin nor to one whose
/// name points here, and to no program that does not know the access key id of the run.
#[tokio::test]
async fn the_embedded_servers_answer_only_who_knows_the_key_of_the_run() {
    let backends = Backends::start(DataLocation::Memory, NEVER).unwrap();
    // A refusal awaits no body.
    let address = clients::without_key(backends.dynamodb_url()).trim_start_matches("http://").to_owned();
    let mut stranger = TcpStream::connect(&address).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: {address}\r\ncontent-length: 16000000\r\n\r\n");
    stranger.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stranger.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 403");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (url, target) in
        [(backends.dynamodb_url(), "DynamoDB_20120810.ListTables"), (backends.sqs_url(), "AmazonSQS.ListQueues")]
    {
        let signed = |id: &str| {
            format!(
                "AWS4-HMAC-SHA256 Credential={id}/20260101/us-east-1/x/aws4_request, SignedHeaders=host, Signature=0"
            )
        };
        let list = |id: &str, name: &'static str, value: &'static str| {
            let request = client.post(clients::without_key(url)).header("x-amz-target", target).body("{}");
            let request =
                request.header("content-type", "application/x-amz-json-1.0").header("x-amz-date", "20260101T000000Z");
            let request = if id.is_empty() { request } else { request.header("authorization", signed(id)) };
            let request = if name.is_empty() { request } else { request.header(name, value) };
            async { request.send().await.unwrap().status().as_u16() }
        };
        let own = clients::access_key_id(url);
        assert_eq!(list(own, "", "").await, 200, "{target}");
        for id in ["", "local", "LOCAL0", &own[..own.len() - 1], &format!("{own}X")] {
            assert_eq!(list(id, "", "").await, 403, "{target} {id}");
        }
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("host", "evil.example"),
        ] {
            assert_eq!(list(own, name, value).await, 403, "{target} {name} {value}");
        }
        let preflight =
            client.request(reqwest::Method::OPTIONS, clients::without_key(url)).header("origin", "http://evil.example");
        let answer = preflight.send().await.unwrap();
        assert_eq!(answer.status(), 403, "{target}");
        assert_eq!(answer.headers().get("access-control-allow-origin"), None, "{target}");
    }
    let other = Backends::start(DataLocation::Memory, NEVER).unwrap();
    assert_ne!(clients::access_key_id(backends.sqs_url()), clients::access_key_id(other.sqs_url()));
    backends.shutdown().await;
    other.shutdown().await;
}
