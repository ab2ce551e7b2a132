//! `storm`: where it may go, what it says of it, how it ends. `scripts/check storm` shows what it finds.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Ended, Workspace, json, listen, send_interrupt, text, wait_until};

const SECRET: &str = "whsec_4f9a0c7712e8b35d4f9a0c7712e8b35d";

/// An endpoint that answers each request with what this makes of its text, and counts them.
fn endpoint(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let address = listen(move |mut stream: TcpStream| {
        let (mut text, mut part) = (String::new(), [0; 4096]);
        while !is_whole(&text) {
            match stream.read(&mut part) {
                Ok(0) | Err(_) => return,
                Ok(length) => text.push_str(&String::from_utf8_lossy(&part[..length])),
            }
        }
        counted.fetch_add(1, Ordering::SeqCst);
        // Whoever went away reads no answer.
        let _ = stream.write_all(answer(&text).as_bytes());
    });
    (address, count)
}

/// Whether a request is there with its whole body.
fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() >= length.parse().unwrap()
}

fn status(status: u16) -> String {
    format!("HTTP/1.1 {status} Word\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// The arguments of a storm at this address.
fn storm<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["storm", url, "--provider", "stripe"], more].concat()
}

#[test]
fn another_machine_gets_nothing_unless_its_host_is_typed_again() {
    let workspace = Workspace::new();
    // Addresses of documentation: nothing answers there.
    for far in ["http://203.0.113.5/in", "http://[2001:db8::1]/in", "https://203.0.113.5/in", "http://0.0.0.0:9/in"] {
        let refused = workspace.run(&storm(far, &[])).exits(2);
        refused.prints_all(&["which is not this machine", "--i-own-this"]).omits("sends about");
    }
    let other = workspace.run(&storm("http://203.0.113.5/in", &["--i-own-this", "203.0.113.50"])).exits(2);
    other.prints("the URL's host is").omits("sends about");
    let long = workspace.run(&storm("http://203.0.113.5/in", &["--i-own-this", "203.0.113.5", "--long"])).exits(2);
    long.prints("600 requests at most").omits("sends about");
}

#[test]
fn the_first_line_says_what_will_be_sent_and_the_secret_is_made_up_the_same_each_time() {
    let (address, count) = endpoint(|_| status(401));
    let url = format!("http://{address}/in");
    let workspace = Workspace::new();
    let runs = [1, 1, 2].map(|seed| {
        let run = workspace.run(&storm(&url, &["--seed", &seed.to_string()])).exits(3);
        let printed = String::from_utf8_lossy(&run.stderr).into_owned();
        let first = printed.lines().next().unwrap();
        assert!(first.starts_with("sends about ") && first.contains(&format!("to {url} at 127.0.0.1")), "{printed}");
        run.prints_all(&["cannot judge", "0 were answered with 2xx", "traces not counted"]);
        printed.lines().find_map(|line| line.split_once("must know: ")).unwrap().1.to_owned()
    });
    assert!(runs[0] == runs[1] && runs[1] != runs[2] && runs[0].starts_with("whsec_"), "{runs:?}");
    assert!(count.load(Ordering::SeqCst) < 60, "only the control was sent");
}

#[test]
fn nothing_follows_a_redirect_and_no_proxy_is_asked() {
    let (elsewhere, others) = endpoint(|_| status(200));
    let (address, count) = endpoint(move |_| {
        format!("HTTP/1.1 307 Moved\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    let variables =
        ["http_proxy", "HTTP_PROXY", "all_proxy"].map(|name| (name.to_owned(), format!("http://{elsewhere}")));
    let url = format!("http://{address}/in");
    let run = Workspace::new().run_with_environment(&storm(&url, &[]), &variables).exits(3);
    run.prints("(307, 307");
    assert!(count.load(Ordering::SeqCst) >= 10);
    assert_eq!(others.load(Ordering::SeqCst), 0);
}

#[test]
fn an_endpoint_that_takes_forgeries_fails_and_the_secret_that_was_given_is_nowhere() {
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&seen);
    let (address, _) = endpoint(move |request| {
        kept.lock().unwrap().push_str(request);
        status(200)
    });
    let (workspace, url) = (Workspace::new(), format!("http://{address}/in"));
    let words = ["--secret", "-", "--only", "unsigned", "--json", "--html", "page.html"];
    let run = workspace.run_with_input(&storm(&url, &words), SECRET).exits(1);
    let report = json(&run);
    assert_eq!(report["verdict"], "failed");
    assert_eq!(report["summary"], "20 forgeries got no 4xx");
    let [part] = report["scenarios"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&part["scenario"], &part["not_refused"]), (&Value::from("unsigned"), &Value::from(20)));
    assert_eq!(part["named"].as_array().unwrap().len(), 3);
    let named = &part["named"][0];
    assert!(named["only"].as_str().unwrap().ends_with("--only unsigned/1 --secret -"), "{named}");
    assert!(!named["requests"][0]["head"].as_str().unwrap().contains("stripe-signature"), "{named}");
    let page = workspace.read("page.html");
    assert!(page.contains("20 forgeries got no 4xx") && !page.contains("<script"), "{page}");
    for text in [&text(&run), &page, &*seen.lock().unwrap()] {
        assert!(!text.contains(SECRET));
    }
    assert!(seen.lock().unwrap().contains("\"livemode\":false"));
    let only = workspace.run_with_input(&storm(&url, &["--secret", "-", "--only", "unsigned/7"]), SECRET).exits(1);
    only.prints_all(&["1 forgery got no 4xx", "traces not counted", "https://docs.stripe.com/webhooks"]);
}

#[test]
fn a_right_endpoint_passes_and_its_traces_are_counted_at_the_sink() {
    let sink = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let traces = Mutex::new(std::collections::BTreeSet::new());
    let (address, _) = endpoint(move |request| {
        let id = request.split("\"id\":\"evt_").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        if !request.contains("\r\nstripe-signature: ") {
            return status(400);
        }
        if traces.lock().unwrap().insert(id.to_owned()) {
            let mut stream = TcpStream::connect(sink).unwrap();
            let call =
                format!("POST /charges/{id} HTTP/1.1\r\nhost: sink\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(call.as_bytes()).unwrap();
            stream.read_to_string(&mut String::new()).unwrap();
        }
        status(200)
    });
    let (url, port) = (format!("http://{address}/in"), sink.port().to_string());
    let run = Workspace::new().run(&storm(&url, &["--sink", &port, "--only", "race", "--json"])).exits(0);
    let report = json(&run);
    assert_eq!((&report["verdict"], &report["traces"]), (&Value::from("passed"), &Value::from("sink")));
    let part = &report["scenarios"][0];
    assert_eq!((&part["events"], &part["deliveries"], &part["good"]), (&30.into(), &100.into(), &30.into()));
    assert!(part["catalog"].as_str().unwrap().contains("backoff up to 3 days"), "{part}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is shown")]
fn ctrl_c_ends_a_storm_within_a_second_and_its_child_with_it() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let workspace = Workspace::new();
    // A child of a child, as `npm start` makes one. It listens, and never answers.
    let server = format!(
        "import socket, time\ns = socket.create_server(('127.0.0.1', {port}))\nopen('up', 'w').close()\ntime.sleep(600)\n"
    );
    workspace.write("server.py", server.as_bytes());
    let url = format!("http://127.0.0.1:{port}/in");
    let child = workspace.start(&storm(&url, &["--run", "sh -c 'python3 server.py; true'"]));
    wait_until("the child listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    std::thread::sleep(Duration::from_millis(300));
    let started = Instant::now();
    send_interrupt(child.id());
    let ended = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    ended.exits(1).prints("stopped");
    let ended = Instant::now();
    // A port that is listened at cannot be had.
    while std::net::TcpListener::bind(("127.0.0.1", port)).is_err() {
        assert!(ended.elapsed() < Duration::from_secs(5), "the child of the child lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_child_that_does_not_come_up_and_a_port_that_is_taken_are_explained() {
    let (address, count) = endpoint(|_| status(200));
    let workspace = Workspace::new();
    let taken = format!("http://{address}/in");
    workspace.run(&storm(&taken, &["--run", "true"])).exits(2).prints("listens at");
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let free = format!("http://{free}/in");
    let failed = workspace.run(&storm(&free, &["--run", "echo no database >&2; exit 4"])).exits(3);
    failed.prints_all(&["it ended with exit status: 4", "no database"]);
    workspace.run(&storm(&free, &[])).exits(3).prints("nothing listens");
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_reason() {
    let workspace = Workspace::new();
    let url = "http://127.0.0.1:9/in";
    workspace.run(&storm(url, &["--only", "regrouped"])).exits(2).prints("several events in one delivery");
    workspace.run(&storm(url, &["--only", "race/31"])).exits(2).prints("no such event");
    workspace.run(&["storm", url, "--provider", "paypal"]).exits(2).prints("private key of its own");
    workspace.run(&storm(url, &["--secret", SECRET])).exits(2).prints("stands on the command line").omits(SECRET);
    workspace.run(&storm(url, &["--sink", "9099", "--", "true"])).exits(2);
}

/// A form has no JSON that a receiver could parse and print again, so of this scenario nothing is sent.
#[test]
fn a_storm_of_which_nothing_was_sent_is_no_pass() {
    let (address, count) = endpoint(|_| status(200));
    let url = format!("http://{address}/in");
    let only = ["storm", &url, "--provider", "twilio", "--only", "raw"];
    Workspace::new().run(&only).exits(3).prints("cannot judge: none of the events of this storm was sent");
    assert!(count.load(Ordering::SeqCst) < 30, "only the control was sent");
}
