//! A delivery that was accepted while the store was unavailable, and then redacted.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use hookonce_local::clients;

use crate::forwards::{WHY, message_holds, places_of_the_marker, write_marked_event};
use crate::stacks::{Stack, Tables};
use crate::support::{Ended, Workspace, listen, wait_until};

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Both ends of each connection.
    open: Vec<TcpStream>,
    /// How many calls went through.
    calls: usize,
}

/// A server's address that can be cut off from the server, and counts the calls of DynamoDB and SQS.
pub(crate) struct Line {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Line {
    pub(crate) fn to(url: &str) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let server = clients::without_key(url).strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let kept = Arc::clone(&state);
        let address = listen(move |client| {
            let (back, forth) = {
                let mut state = kept.lock().unwrap();
                if state.is_cut {
                    return;
                }
                let server = TcpStream::connect(&server).unwrap();
                state.open.extend([&client, &server].map(|end| end.try_clone().unwrap()));
                ((server.try_clone().unwrap(), client.try_clone().unwrap()), (client, server))
            };
            std::thread::spawn(move || pass(back, |_| ()));
            let mut sent = Vec::new();
            pass(forth, |part| {
                let before = calls_in(&sent);
                sent.extend_from_slice(part);
                kept.lock().unwrap().calls += calls_in(&sent) - before;
            });
        });
        Self { url: format!("http://{}@{address}", clients::access_key_id(url)), state }
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }

    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        for end in state.open.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.state.lock().unwrap().is_cut = false;
    }
}

fn calls_in(sent: &[u8]) -> usize {
    String::from_utf8_lossy(sent).matches("\r\nx-amz-target:").count()
}

/// Passes bytes on, each part after it was shown, until one end closes.
fn pass((mut from, mut to): (TcpStream, TcpStream), mut show: impl FnMut(&[u8])) {
    let mut part = vec![0; 65_536];
    while let Some(size) = from.read(&mut part).ok().filter(|size| *size > 0) {
        show(&part[..size]);
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
    let servers = Stack::new();
    let state = servers.announced();
    let (store, sqs) = (Line::to(state["dynamodb_url"].as_str().unwrap()), state["sqs_url"].as_str().unwrap());
    let workspace = Workspace::new();
    workspace.run(&["endpoint", "add", "stripe", "--provider", "stripe", "--on-store-outage", "enqueue"]).exits(0);
    let prefix = format!("outage-{}", std::process::id());
    let dev = ["dev", "--port", "0", "--dynamodb-url", &store.url, "--sqs-url", sqs, "--prefix", &prefix];
    let stack = workspace.dev(&dev);
    let tables = Tables::of(&workspace);
    write_marked_event(&workspace);

    store.cut();
    workspace.run(&["send", "--provider", "stripe", "--file", "event.json"]).exits(0);
    stack.stop();
    wait_until("the message waits", || tables.peek().iter().any(|message| message_holds(message)));

    store.mend();
    let _stack = workspace.dev(&dev);
    workspace.wait_for("APPLIED", 1);
    assert_eq!(places_of_the_marker(&workspace), 1, "the record holds it, and its message is gone");
    workspace.run(&[&["redact", "--key", "stripe", "evt_0"][..], &WHY].concat()).exits(0);
    assert_eq!(places_of_the_marker(&workspace), 0);
    workspace.run(&["show", "stripe", "evt_0"]).prints("erased");
}
