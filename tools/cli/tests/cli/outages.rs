//! A delivery that was accepted while the store was unavailable, and then redacted.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use hookonce_local::clients;
use serde_json::{Value, json as object};

use crate::forwards::{MARKER, WHY, message_holds, places_of_the_marker};
use crate::stacks::Tables;
use crate::support::{Running, Workspace, interrupt, json, root, text, wait_until};

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Both ends of each connection.
    open: Vec<TcpStream>,
}

/// A server's address that can be cut off from the server.
#[derive(Clone)]
struct Line {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Line {
    fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = format!("http://{}@{}", clients::access_key_id(url), listener.local_addr().unwrap());
        let line = Self { url: own, state: Arc::default() };
        let server = clients::without_key(url).strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let kept = line.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut state = kept.state.lock().unwrap();
                if state.is_cut {
                    continue;
                }
                let server = TcpStream::connect(&server).unwrap();
                state.open.extend([&client, &server].map(|end| end.try_clone().unwrap()));
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(client, server));
                std::thread::spawn(move || pass(back, forth));
            }
        });
        line
    }

    fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        for end in state.open.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.state.lock().unwrap().is_cut = false;
    }
}

/// Passes bytes on until one end closes.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut part = vec![0; 65_536];
    while let Some(size) = from.read(&mut part).ok().filter(|size| *size > 0) {
        if to.write_all(&part[..size]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The message that carries its payload is the only copy until the worker stores it. After the redaction, nothing has a
/// byte of it.
#[test]
fn a_redaction_leaves_no_byte_of_a_delivery_that_came_during_an_outage() {
    let servers = Workspace::new();
    let _servers = servers.dev(&["dev", "--port", "0"]);
    let state: Value = serde_json::from_str(&servers.read(".hookonce/stack.json")).unwrap();
    let (store, sqs) = (Line::to(state["dynamodb_url"].as_str().unwrap()), state["sqs_url"].as_str().unwrap());
    let workspace = Workspace::new();
    let add = ["endpoint", "add", "stripe", "--provider", "stripe", "--on-store-outage", "enqueue"];
    assert!(workspace.run(&add).status.success());
    let prefix = format!("outage-{}", std::process::id());
    let dev = ["dev", "--port", "0", "--dynamodb-url", &store.url, "--sqs-url", sqs, "--prefix", &prefix];
    let announced = workspace.path(".hookonce/stack.json");
    let start = || {
        let child = workspace.start_with_output(&dev);
        wait_until("the stack runs", || announced.exists());
        child
    };
    let stack = start();
    let tables = Tables::of_workspace(&workspace);
    let sample = std::fs::read(root().join("events/deliveries/stripe-invoice-paid.json")).unwrap();
    let mut event: Value = serde_json::from_slice(&sample).unwrap();
    (event["id"], event["data"]["object"]["description"]) = (object!("evt_0"), object!(MARKER));
    workspace.write("event.json", event.to_string().as_bytes());

    store.cut();
    let sent = workspace.run(&["send", "--provider", "stripe", "--file", "event.json"]);
    assert!(sent.status.success(), "{}", text(&sent));
    interrupt(stack);
    wait_until("the message waits", || tables.peek().iter().any(|message| message_holds(message)));

    store.mend();
    let _stack = Running::from(start());
    let applied = || json(&workspace.run(&["list", "--state", "APPLIED", "--since", "1h", "--json"]));
    wait_until("it is applied", || applied().as_array().unwrap().len() == 1);
    assert_eq!(places_of_the_marker(&workspace), 1, "the record holds it, and its message is gone");
    let redacted = workspace.run(&[&["redact", "--key", "stripe", "evt_0"][..], &WHY].concat());
    assert!(redacted.status.success(), "{}", text(&redacted));
    assert_eq!(places_of_the_marker(&workspace), 0);
    assert!(text(&workspace.run(&["show", "stripe", "evt_0"])).contains("erased"));
}
