//! `trigger`: every sample event passes the real edge, under the key and the type that its provider gives it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Write as _};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json as object;

use crate::aws::Request;
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, interrupt, json, listen, wait_until};

/// Whether a text has the form of a pattern, in which `U` is a UUID, `S` a SHA-256, `H` a SHA-1 and `N` a number.
fn fits(pattern: &str, id: &str, text: &str) -> bool {
    let is_hex = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = |text: &str| text.split(['#', ':']).map(str::to_owned).collect::<Vec<_>>();
    let part = |(pattern, text): (String, String)| match pattern.as_str() {
        "U" => is_hex(&text.replace('-', ""), 32) && text.len() == 36,
        "S" => is_hex(&text, 64),
        "H" => is_hex(&text, 40),
        "N" => text.parse::<f64>().is_ok(),
        pattern => pattern.replace("ID", id) == text,
    };
    let (pattern, text) = (parts(pattern), parts(text));
    pattern.len() == text.len() && pattern.into_iter().zip(text).all(part)
}

#[test]
fn every_sample_is_accepted_once_with_its_key_its_type_and_its_effect() {
    let stack = Stack::new();
    let listed = json(&stack.run(&["trigger", "--list", "--json"]));
    let listed = listed.as_array().unwrap();
    let providers: BTreeSet<_> = listed.iter().map(|sample| sample["provider"].as_str().unwrap()).collect();
    for provider in providers.iter().filter(|provider| !["stripe", "github", "meta_whatsapp"].contains(provider)) {
        let setting: &[_] = match *provider {
            "braintree" => &["--setting", "public_key=integration_public_key"],
            "token" => &["--setting", "header=x-webhook-token"],
            // A user's name is part of the secret, so none is made.
            "basic" | "postmark" => &["--secret", "-"],
            _ => &[],
        };
        let add = [&["endpoint", "add", provider, "--provider", provider], setting].concat();
        stack.run_with_input(&add, "user:4f9a0c7712e8b35d").exits(0);
    }
    let names: Vec<_> = listed.iter().map(|sample| sample["event"].as_str().unwrap()).collect();
    // Every sample, its key for the id `ID`, and the domain key of its effect.
    let samples: Vec<(String, String, Option<String>)> = serde_json::from_str(include_str!("samples.json")).unwrap();
    let mut expected: Vec<_> = samples.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names.len(), expected.len());
    expected.retain(|name| !names.contains(name));
    assert!(expected.is_empty(), "{expected:?}");
    let mut sent = Vec::new();
    for (index, (name, key, effect)) in samples.iter().enumerate() {
        let id = format!("sample-{index}");
        let triggered = json(&stack.run(&["trigger", name, "--id", &id, "--copies", "2", "--json"]));
        let answers = triggered["deliveries"].as_array().unwrap();
        assert_eq!(answers[0]["answer"], "accepted", "{name}");
        // Pings of Dropbox are equal, so one in another second is another one.
        let is_another = name == "dropbox.list_folder" && answers[1]["answer"] == "accepted";
        assert!(is_another || answers[1]["answer"] == "duplicate", "{name}: {}", answers[1]);
        let stored = answers[0]["id"].as_str().unwrap().to_owned();
        assert!(fits(key, &id, &stored), "{name}: {stored} is not {key}");
        sent.push((name.as_str(), stored, id, effect.as_deref()));
    }
    for (name, key, id, effect) in sent {
        let sample = listed.iter().find(|sample| sample["event"] == name).unwrap();
        let endpoint = match sample["provider"].as_str().unwrap() {
            "meta_whatsapp" => "whatsapp",
            provider => provider,
        };
        let show = || json(&stack.run(&["show", endpoint, &key, "--json"]));
        wait_until(&format!("{name} is settled"), || show()["state"] == "PROCESSED");
        let shown = show();
        assert_eq!(shown["type"], sample["type"], "{name}");
        assert_eq!(shown["outcome"], if effect.is_some() { "APPLIED" } else { "IGNORED" }, "{name}: {shown}");
        let domain_key = shown["domain_key_today"].as_str();
        assert_eq!(domain_key.is_some(), effect.is_some(), "{name}");
        assert!(effect.is_none_or(|effect| fits(effect, &id, domain_key.unwrap())), "{name}: {domain_key:?}");
    }
}

#[test]
fn each_event_is_fresh_and_its_id_makes_it_again_with_a_changed_value() {
    let stack = Stack::new();
    let trigger = |more: &[&str]| json(&stack.run(&[&["trigger", "stripe.invoice.paid", "--json"], more].concat()));
    let first = trigger(&["--set", "data.object.amount_paid=12"]);
    let key = first["deliveries"][0]["id"].as_str().unwrap().to_owned();
    let body = json(&stack.run(&["show", "stripe", &key, "--body"]));
    assert_eq!(body["data"]["object"]["amount_paid"], 12);
    assert_eq!(trigger(&[])["deliveries"][0]["answer"], "accepted");
    let again = trigger(&["--id", first["id"].as_str().unwrap()])["deliveries"][0].clone();
    assert_eq!((&again["answer"], &again["id"]), (&object!("duplicate"), &object!(key)));
    let header = stack.run(&["trigger", "github.push", "--header", "x-github-delivery: mine", "--json"]);
    assert_eq!(json(&header)["deliveries"][0]["id"], "mine", "a header that a person gives counts");
}

/// The provider's strongest scheme takes the same secret, and would be refused.
#[test]
fn an_endpoint_that_lists_schemes_is_delivered_to_with_one_of_them() {
    let stack = Stack::new();
    for (event, scheme) in [
        ("gitlab.push_hook", "secret-token"),
        ("github.push", "sha1"),
        ("hubspot.deal.creation", "v1"),
        ("shopify.orders/create", "next"),
    ] {
        let provider = event.split('.').next().unwrap();
        let endpoint = format!("listing-{provider}");
        stack.run(&["endpoint", "add", &endpoint, "--provider", provider, "--scheme", scheme]);
        let triggered = json(&stack.run(&["trigger", event, "--endpoint", &endpoint, "--json"]));
        assert_eq!(triggered["deliveries"][0]["answer"], "accepted", "{event} by {scheme}");
    }
}

/// A server that answers the first request alone.
fn answers_once() -> String {
    let has_answered = AtomicBool::new(false);
    let address = listen(move |stream| {
        let mut stream = BufReader::new(stream);
        if Request::read(&mut stream).is_some() && !has_answered.swap(true, Ordering::SeqCst) {
            let body = r#"{"status":"accepted","id":"evt_1"}"#;
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.get_mut().write_all((head + body).as_bytes()).unwrap();
        }
    });
    format!("http://{address}/webhooks/stripe")
}

#[test]
fn a_lost_answer_hides_neither_the_other_answers_nor_the_id() {
    let workspace = Workspace::new();
    let secret = ["--secret", "-", "--copies", "2", "--id", "mine"];
    for more in [&[][..], &["--json"]] {
        let url = answers_once();
        let trigger = [&["trigger", "stripe.invoice.paid", "--url", &url], &secret[..], more].concat();
        let lost = workspace.run_with_input(&trigger, "whsec_a_secret_of_enough_bytes").exits(3);
        let answers = ["evt_1", "accepted", "no_answer", "did not answer 1 of 2 deliveries"];
        lost.prints_all(&answers).prints("stripe.invoice.paid --id mine");
    }
}

/// Whoever answers would choose who gets the delivery and, of a provider that sends one, its token.
#[test]
fn no_delivery_follows_a_redirect() {
    static ARRIVED: AtomicBool = AtomicBool::new(false);
    let elsewhere = listen(|_| ARRIVED.store(true, Ordering::SeqCst));
    let location = format!("http://{elsewhere}/webhooks/hooks");
    for status in [301, 302, 307, 308] {
        let answer =
            format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let here = listen(move |stream| {
            let mut stream = BufReader::new(stream);
            Request::read(&mut stream).unwrap();
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        });
        let url = format!("http://{here}/webhooks/hooks");
        let workspace = Workspace::new();
        workspace.write("job.json", b"{}");
        workspace.run(&["endpoint", "add", "hooks", "--provider", "standard_webhooks"]).exits(0);
        let to = format!("it was redirected to {location}, and nothing was sent there");
        let secret = ["--secret", "-", "--url", &url];
        for command in
            [&["trigger", "stripe.invoice.paid"][..], &["send", "--provider", "telegram", "--file", "job.json"]]
        {
            let sent = workspace.run_with_input(&[command, &secret].concat(), "0d7a2c5b7a112f0c1ab69d35").exits(1);
            sent.prints(&status.to_string()).prints(&to);
        }
        let job = ["submit", "--endpoint", "hooks", "--key", "k", "--type", "t", "--file", "job.json", "--url", &url];
        workspace.run(&job).exits(2).prints("nothing was stored").prints(&to);
    }
    assert!(!ARRIVED.load(Ordering::SeqCst));
}

#[test]
fn a_refused_trigger_prints_the_next_step() {
    let workspace = Workspace::new();
    let refused = |arguments: &[&str], expected: &str| {
        workspace.run(&[&["trigger"], arguments].concat()).exits(2).prints(expected);
    };
    refused(&["stripe.invoice.pai"], "try: stripe.invoice.paid");
    refused(&["paypal.PAYMENT.SALE.COMPLETED"], "hookonce dev --public https://NAME");
    refused(&["typeform.form_respond"], "try: typeform.form_response");
    refused(&["nobody.nothing"], "trigger --list");
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(3).prints("start one with `hookonce dev`");
    let _running = workspace.dev(&["dev", "--port", "0"]);
    refused(&["shopify.orders/create"], "hookonce endpoint add shopify --provider shopify");
    refused(&["stripe.invoice.paid", "--set", "data.none.amount=1"], "has no place data.none.amount");
    refused(&["stripe.invoice.paid", "--id", "a b"], "letters, digits");
    refused(&[], "PROVIDER.TYPE");
    workspace.run(&["trigger", "--list"]).exits(0).prints("stripe.invoice.paid");
    assert_ne!(json(&workspace.run(&["trigger", "--list", "--json"])), object!([]));
}

#[test]
fn dev_ends_with_the_result_of_the_command_that_it_runs() {
    let workspace = Workspace::new();
    let run = |command: &[&str]| workspace.run(&[&["dev", "--port", "0", "--"], command].concat());
    let hookonce = env!("CARGO_BIN_EXE_hookonce");
    let deliver = format!(
        "{hookonce} trigger stripe.invoice.paid --id first --copies 3; {hookonce} show stripe evt_first --wait"
    );
    run(&["sh", "-ec", &deliver]).exits(0).prints("2 duplicates").prints("processed: APPLIED");
    run(&["sh", "-c", "exit 3"]).exits(1).prints("sh ended with exit status: 3");
    run(&["./nowhere"]).exits(2).prints("./nowhere cannot start");

    // Only hookonce is interrupted here. The command may clean up. It ends in any case, because an orphan would keep the
    // test waiting for the end of its output.
    let cleans = "trap 'touch cleaned; exit' TERM; touch begun; for i in $(seq 600); do sleep 0.1; done";
    let child = workspace.start(&["dev", "--port", "0", "--", "sh", "-c", cleans]);
    wait_until("the command begins", || workspace.path("begun").exists());
    interrupt(child).exits(0).prints("the command ends first");
    assert!(workspace.path("cleaned").exists());
    assert!(!workspace.path(".hookonce/stack.json").exists(), "no stack is left");
}

#[test]
fn show_waits_until_an_event_settles_and_exits_by_its_result() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let handler = object!({ "url": format!("http://{closed}") });
    let away = object!({ "name": "away", "types": ["invoice.paid"], "consumer": "away", "handler": handler });
    let set = object!({ "version": 1, "otherwise": "dead", "routes": [away] });
    let stack = Stack::of(Workspace::routed(&set.to_string()));
    for (event, id) in [("stripe.invoice.paid", "paid"), ("stripe.charge.refunded", "refunded")] {
        stack.run(&["trigger", event, "--id", id]).exits(0);
    }
    let show = |key: &str, wait: &str| stack.run(&["show", "stripe", key, wait]);
    show("evt_refunded", "--wait").exits(1).prints("it was given up").prints("DEAD");
    show("evt_paid", "--wait=1s").exits(3).prints("it is not settled after 1s").prints("PENDING");
    show("evt_nobody", "--wait=1s").exits(3).prints("has no record");
    let waits = stack.start(&["show", "stripe", "evt_paid", "--wait"]);
    wait_until("it listens for Ctrl-C", || catches_interrupts(&waits));
    interrupt(waits).exits(1).prints_all(&["stopped waiting before it was settled", "PENDING"]);
}

/// Whether the kernel would hand Ctrl-C's signal to this process.
fn catches_interrupts(child: &Child) -> bool {
    const SIGINT: u64 = 1 << 1;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & SIGINT != 0
}

#[test]
fn the_command_for_the_same_event_again_signs_with_the_same_secret() {
    let stack = Stack::new();
    let trigger = ["trigger", "stripe.invoice.paid", "--id", "a", "--secret", "-"];
    let revealed = json(&stack.run(&["endpoint", "show", "stripe", "--reveal", "--json"]));
    let secret = revealed["secrets"][0].as_str().unwrap();
    let again = "`hookonce trigger stripe.invoice.paid --id a --secret -`";
    stack.run_with_input(&trigger, secret).exits(0).prints(again);
    let options = ["--endpoint", "stripe", "--header", "x-a: it's", "--set", "data.object.note=a > b", "--set=-b c=1"];
    let typed = [&["trigger", "stripe.invoice.paid", "--id", "b"][..], &options].concat();
    let printed = stack.run(&typed).exits(0);
    let printed = String::from_utf8(printed.stderr).unwrap();
    let again = printed.split('`').nth(1).unwrap();
    let words = shlex::split(again).unwrap();
    stack.run(&words.iter().skip(1).map(String::as_str).collect::<Vec<_>>()).exits(0).prints("duplicate");
    assert!(options.iter().all(|option| words.iter().any(|word| word == option)), "{again}");
    stack.run(&["trigger", "stripe.invoice.paid", "--copies", "0"]).exits(2).prints("--copies");
}
