//! `dev --forward` puts the inbox in front of a service that exists.

use std::io::{Read as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::support::{Ended, Workspace, listen};

/// A service that keeps what it is called with. Returns its address and the calls.
fn service() -> (String, Receiver<String>) {
    let (sender, calls) = channel();
    let address = listen(move |mut call| {
        let mut request = vec![0; 65_536];
        let mut length = 0;
        let is_whole = |request: &[u8]| {
            let text = String::from_utf8_lossy(request).to_lowercase();
            let (head, body) = text.split_once("\r\n\r\n")?;
            let size = head.split_once("content-length: ")?.1.split("\r\n").next()?.parse::<usize>().ok()?;
            Some(body.len() >= size)
        };
        while is_whole(&request[..length]) != Some(true) {
            match call.read(&mut request[length..]) {
                Ok(more) if more > 0 => length += more,
                _ => return,
            }
        }
        let _ = sender.send(String::from_utf8_lossy(&request[..length]).into_owned());
        let _ = call.write_all(b"HTTP/1.1 200 It\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    });
    (format!("http://{address}/webhooks"), calls)
}

#[test]
fn a_service_behind_the_inbox_gets_one_call_with_a_key_for_three_copies() {
    let workspace = Workspace::new();
    let (url, calls) = service();
    let forward = ["--forward", url.as_str()];
    for (id, starts) in [("first", "it writes the documents"), ("second", "it finds its own documents")] {
        let (running, mut lines) = workspace.dev_with_json(&forward);
        let trigger = ["trigger", "stripe.invoice.paid", "--id", id, "--copies", "3", "--concurrency", "3"];
        workspace.run(&trigger).exits(0);
        lines.outcome(&["delivered"]);
        running.stop().exits(0);
        let call = calls.try_recv().unwrap_or_else(|_| panic!("{starts}, and no call came"));
        let (head, body) = call.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /webhooks HTTP/1.1") && head.contains("hookonce-key: "), "{head}");
        let event: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&event["id"], &event["type"]), (&json!(format!("evt_{id}")), &json!("invoice.paid")));
        assert!(calls.try_recv().is_err(), "one call");
    }
}

#[test]
fn a_route_set_or_a_destination_of_ones_own_is_never_replaced() {
    let own = r#"{"version": 1, "otherwise": "dead", "routes": []}"#;
    let workspace = Workspace::routed(own);
    let forward = |url: &str| workspace.run(&["dev", "--port", "0", "--forward", url, "--", "true"]);
    forward("http://127.0.0.1:9/in").exits(2).prints_all(&["writes a route set only where there is none", "--stack"]);
    assert_eq!(workspace.read(".hookonce/routes.json"), own);
    assert!(!workspace.path(".hookonce/destinations/app.json").exists(), "nothing is written");

    std::fs::remove_file(workspace.path(".hookonce/routes.json")).unwrap();
    workspace.destination("app", 7);
    forward("http://127.0.0.1:9/in").exits(2).prints("the destination app is another one");
    assert!(!workspace.path(".hookonce/routes.json").exists(), "nothing is written");
    for (url, expected) in [
        ("127.0.0.1:3000/in", "begins with http:// or https://"),
        ("https://hooks.slack.com/services/T/B/hush", "holds a secret"),
    ] {
        forward(url).exits(2).prints(expected);
    }
}
