//! What others wrote is shown and never obeyed: no command passes a control character on to the terminal. And secrets:
//! in no command line, and in files that only their owner reads.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::aws::answering;
use crate::support::{Ended, Workspace, json as parsed, text, wait_until};

/// What a terminal would obey: a colour, a title, a control character of the second set, another direction.
const EVIL: &str = "\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\r";

/// Commands that another test of this file runs, or that print nothing but what they were built with.
const ELSEWHERE: [&str; 3] = ["hookonce-demo", "hookonce-dev", "hookonce-man"];

/// The names of the manual pages of all commands that do something, apart from those of `ELSEWHERE`.
fn commands_of(workspace: &Workspace) -> BTreeSet<String> {
    if !workspace.path("man").exists() {
        workspace.run(&["man", "man"]).exits(0);
    }
    let pages = std::fs::read_dir(workspace.path("man")).unwrap().map(|page| page.unwrap().path());
    let pages: BTreeSet<_> = pages.map(|page| page.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let is_group = |name: &str| pages.iter().any(|page| page.starts_with(&format!("{name}-")));
    pages.iter().filter(|page| !is_group(page) && !ELSEWHERE.contains(&page.as_str())).cloned().collect()
}

/// The name of the manual page of the command that these words call. Words that call none stand for one that is called.
fn page_of(workspace: &Workspace, words: &[&str]) -> String {
    let known = commands_of(workspace);
    let names = [
        format!("hookonce-{}", words.iter().take(2).copied().collect::<Vec<_>>().join("-")),
        format!("hookonce-{}", words[0]),
    ];
    names.into_iter().find(|name| known.contains(name)).unwrap_or_else(|| "hookonce-list".to_owned())
}

fn is_clean(output: &std::process::Output) -> bool {
    is_shown_only(&output.stdout) && is_shown_only(&output.stderr)
}

fn is_shown_only(printed: &[u8]) -> bool {
    let printed = std::str::from_utf8(printed).unwrap();
    !printed.chars().any(|c| (c.is_control() && c != '\n') || "\u{202e}".contains(c))
}

/// Calls of commands, each with what somebody else wrote: in a record with this key, in files, or typed.
fn commands<'a>(key: &'a str, body: &'a str, document: &'a str) -> Vec<Vec<&'a str>> {
    let order = ["--by", "me", "--reason", EVIL];
    let with_order = |command: &[&'a str]| [command, &["--key", "stripe", key], &order].concat();
    vec![
        vec!["list", "--since", "1h"],
        vec!["list", "--since", "1h", "--json"],
        vec!["show", "stripe", key],
        vec!["show", "stripe", key, "--json"],
        vec!["show", "stripe", EVIL],
        vec!["stats", "--since", "1h"],
        vec!["stats", "--since", "1h", "--json"],
        vec!["cost", "--events", EVIL],
        vec!["cost", "--stack", EVIL],
        vec!["audit"],
        vec!["drill", "--since", "1h"],
        vec!["drill", "--since", "1h", "--json"],
        with_order(&["replay", "--force"]),
        with_order(&["replay", "--force", "--json"]),
        with_order(&["discard"]),
        with_order(&["redact"]),
        vec!["pause", "worker", "--by", "me", "--reason", EVIL],
        vec!["resume", "worker", "--by", "me", "--reason", EVIL],
        vec!["status"],
        vec!["list", "--since", "1h", "--kind", "effect"],
        vec!["route", "explain", "--endpoint", "stripe", "--file", body],
        vec!["route", "explain", "--endpoint", EVIL, "--file", EVIL],
        vec![EVIL],
        vec!["show", "stripe", key, EVIL],
        vec!["destination", "show", EVIL],
        vec!["destination", "add", "x", "--ready", EVIL],
        vec!["trigger", EVIL],
        vec!["pull", EVIL, EVIL, "--stack", EVIL],
        vec!["storm", EVIL, "--provider", "stripe"],
        vec!["storm", "http://127.0.0.1:9/", "--provider", EVIL],
        vec!["submit", "--endpoint", EVIL, "--key", EVIL, "--type", EVIL, "--file", body],
        vec!["endpoint", "list"],
        vec!["endpoint", "show", EVIL],
        vec!["endpoint", "add", "x", "--provider", EVIL],
        vec!["providers", EVIL],
        vec!["explain", EVIL],
        vec!["send", "--provider", EVIL, "--file", body],
        vec!["send", "--provider", "stripe", "--file", body, "--header", EVIL],
        vec!["endpoint", "check", document],
        vec!["endpoint", "import", document],
        vec!["endpoint", "index"],
        vec!["endpoint", "rotate", EVIL, "--finish"],
        vec!["endpoint", "remove", EVIL],
        vec!["destination", "list"],
        vec!["destination", "check", document],
        vec!["destination", "test", EVIL],
        vec!["destination", "rotate", EVIL],
        vec!["destination", "remove", EVIL],
        vec!["route", "check", document],
        vec!["route", "show"],
        vec!["route", "deploy", document],
        vec!["verify", "--request", document],
        vec!["doctor"],
        vec!["deploy", "--template", EVIL, "--stack", EVIL, EVIL],
        vec!["doubt", "--before", EVIL],
        vec!["new", EVIL],
        vec!["completions", EVIL],
        vec!["console"],
    ]
}

#[test]
fn no_command_passes_on_what_a_terminal_would_obey() {
    let workspace = Workspace::new();
    let dev = workspace.dev_with_all_output(&["dev", "--port", "0"], &[("RUST_LOG".to_owned(), "warn".to_owned())]);
    let id = format!("evt_{EVIL}");
    let body = json!({ "id": id, "type": format!("invoice.paid{EVIL}"), "data": EVIL }).to_string();
    let body = workspace.write("evil.json", body.as_bytes());
    workspace.run(&["send", "--provider", "stripe", "--file", &body]).exits(0);
    let listed = || parsed(&workspace.run(&["list", "--since", "1h", "--json"]));
    wait_until("the record is there", || listed() != json!([]));
    let key = listed()[0]["key"].as_str().unwrap().to_owned();
    assert!(key.contains('\u{1b}'), "the JSON holds the very text: {key:?}");
    let unreadable = json!({ "id": format!("{id}2"), "type": "invoice.paid", "data": EVIL }).to_string();
    let unreadable = workspace.write("unreadable.json", unreadable.as_bytes());
    workspace.run(&["send", "--provider", "stripe", "--file", &unreadable]).exits(0);
    workspace.wait_for("DEAD", 1);
    let document = json!({ EVIL: EVIL, "provider": EVIL, "kind": EVIL, "routes": [{ "name": EVIL }], "headers": EVIL });
    let document = workspace.write("document.json", document.to_string().as_bytes());
    let commands = commands(&key, &body, &document);
    for arguments in &commands {
        let output = workspace.run(arguments);
        assert!(is_clean(&output), "{arguments:?}: {:?}", text(&output));
    }
    let named: BTreeSet<_> = commands.iter().map(|words| page_of(&workspace, words)).collect();
    assert_eq!(named, commands_of(&workspace), "each command is called here, or named in `ELSEWHERE`");
    let printed = dev.stop().prints("a record died");
    assert!(is_clean(&printed), "{:?}", text(&printed));
}

/// The lines of `dev` have colours of their own. Whoever wrote an event has none.
#[test]
fn dev_colours_its_words_and_nothing_that_a_stranger_wrote() {
    let workspace = Workspace::new();
    let colours = [("CLICOLOR_FORCE".to_owned(), "1".to_owned())];
    let (_running, out) = workspace.dev_with_output(&["dev", "--port", "0"], &colours);
    let body = json!({ "id": format!("evt_{EVIL}"), "type": format!("strange{EVIL}") }).to_string();
    let body = workspace.write("evil.json", body.as_bytes());
    workspace.run(&["send", "--provider", "stripe", "--file", &body]).exits(0);
    let lines = BufReader::new(out).lines().map(Result::unwrap);
    let ours: Vec<_> = lines.filter(|line| line.contains("evt_")).take(2).collect();
    for (word, colour) in [("accepted   ", "36"), ("ignored    ", "2")] {
        let word = format!("\u{1b}[{colour}m{word}\u{1b}[0m");
        let line = ours.iter().find(|line| line.contains(&word)).unwrap_or_else(|| panic!("{word:?}: {ours:?}"));
        assert!(line.contains("strange\\u{1b}[31m"), "{line:?}");
        let rest = line.replace(&word, "");
        assert!(is_shown_only(rest.as_bytes()), "{rest:?}");
    }
}

#[test]
fn verify_shows_what_a_request_holds_and_does_not_obey_it() {
    let workspace = Workspace::new();
    let secret = "whsec_a_signing_secret";
    let id = format!("evt_{EVIL}");
    let signed = json!({ "id": id, "type": EVIL }).to_string();
    let file = workspace.write("captured.json", captured(secret, secret, &signed).as_bytes());
    let accepted = workspace.run(&["verify", "--request", &file]).exits(0);
    assert!(is_clean(&accepted), "{:?}", text(&accepted));
}

/// A captured request, whose body is signed with a secret. Its endpoint holds the same one or another.
pub(crate) fn captured(signed_with: &str, held: &str, body: &str) -> String {
    let request = json!({
        "provider": "stripe", "method": "POST", "url": "https://example.com/", "secrets": [held], "now_unix": 1_767_225_600,
        "headers": { "stripe-signature": signature(signed_with, body) }, "body_base64": STANDARD.encode(body),
    });
    request.to_string()
}

/// Stripe's signature of a body.
pub(crate) fn signature(secret: &str, body: &str) -> String {
    use hookonce_protocol::time::EpochSec;
    use hookonce_providers::{Catalog, UnsignedRequest};
    let unsigned = UnsignedRequest { method: "POST", url: "https://example.com/", headers: &[], body: body.as_bytes() };
    let stripe = Catalog::built_in().provider("stripe").unwrap();
    stripe.sign(&unsigned, secret, EpochSec(1_767_225_600)).unwrap().remove(0).1
}

#[test]
fn what_a_remote_server_answers_is_only_shown() {
    let server = answering(|_| json!({ "status": EVIL, "id": EVIL }).to_string());
    let url = format!("http://{server}/webhooks/x");
    let workspace = Workspace::new();
    let file = workspace.write("body.json", br#"{"id":"1","type":"t"}"#);
    let arguments = ["send", "--provider", "stripe", "--secret", "-", "--file", &file, "--url", &url];
    let output = workspace.run_with_input(&arguments, "whsec_a_signing_secret").exits(0).prints("\\u{1b}[31m");
    assert!(is_clean(&output), "{:?}", text(&output));
}

#[test]
fn a_secret_on_the_command_line_is_refused() {
    let workspace = Workspace::new();
    for arguments in [
        &["endpoint", "add", "shop", "--provider", "stripe", "--secret", "whsec_a_signing_secret"][..],
        &["endpoint", "rotate", "shop", "--secret", "whsec_a_signing_secret"],
        &["endpoint", "add", "bank", "--provider", "plaid", "--setting", "api_secret=whsec_a_signing_secret"],
        &["endpoint", "add", "chat", "--provider", "meta_whatsapp", "--setting", "verify_token=whsec_a_signing_secret"],
        &["trigger", "stripe.invoice.paid", "--secret", "whsec_a_signing_secret"],
        &["trigger", "stripe.invoice.paid", "--setting", "verify_token=whsec_a_signing_secret"],
    ] {
        let refused = workspace.run(arguments).exits(2).omits("whsec_a_signing_secret");
        refused.prints_all(&["every process of this machine", "pass `-"]);
    }
    let add = ["endpoint", "add", "shop", "--provider", "stripe", "--secret", "-"];
    workspace.run_with_input(&add, "whsec_a_signing_secret\n").exits(0);
    let rotate = ["endpoint", "rotate", "shop", "--secret", "-"];
    workspace.run_with_input(&rotate, "whsec_a_newer_signing_secret").exits(0);
    let shown = parsed(&workspace.run(&["endpoint", "show", "shop", "--reveal", "--json"]));
    assert_eq!(shown["secrets"], json!(["whsec_a_newer_signing_secret", "whsec_a_signing_secret"]));
    let plaid = ["endpoint", "add", "bank", "--provider", "plaid", "--setting", "environment=sandbox"];
    let plaid = [&plaid[..], &["--setting", "client_id=-", "--setting", "api_secret=-"]].concat();
    workspace.run_with_input(&plaid, "an-id\nan-api-secret\n").exits(0);
    let settings = |show: &[&str]| parsed(&workspace.run(show))["settings"]["api_secret"].clone();
    assert_eq!(settings(&["endpoint", "show", "bank", "--json"]), "<hidden>");
    assert_eq!(settings(&["endpoint", "show", "bank", "--json", "--reveal"]), "an-api-secret");
}

/// Each `-` takes a line, the last one what is left: no secret is empty, or another one's, without a word.
#[test]
fn several_secrets_come_one_in_each_line() {
    let workspace = Workspace::new();
    let add = |id: &str, input: &str| {
        let whatsapp = ["endpoint", "add", id, "--provider", "meta_whatsapp"];
        let arguments = ["--setting", "verify_token=-", "--secret", "-"];
        workspace.run_with_input(&[&whatsapp[..], &arguments].concat(), input)
    };
    add("chat", "an-app-secret-of-meta\r\na-verify-token\n").exits(0);
    let shown = parsed(&workspace.run(&["endpoint", "show", "chat", "--reveal", "--json"]));
    assert_eq!(shown["secrets"], json!(["an-app-secret-of-meta"]));
    assert_eq!(shown["settings"]["verify_token"], "a-verify-token");
    for (input, lacks) in [("", "no secret came"), ("an-app-secret-of-meta\n", "no verify_token came")] {
        add("other", input).exits(2).prints_all(&[lacks, "each takes a line"]);
    }
    let body = ["send", "--provider", "stripe", "--file", "-", "--secret", "-", "--url", "http://127.0.0.1:9/x"];
    workspace.run_with_input(&body, "{}").exits(2).prints("`--file -` reads all of standard input");
}

#[test]
fn a_file_with_secrets_is_its_owners_alone_and_replaced_at_once() {
    let workspace = Workspace::new();
    workspace.run(&["endpoint", "add", "shop", "--provider", "stripe"]).exits(0);
    let path = workspace.path(".hookonce/endpoints/shop.json");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // A second name for the old file keeps its text: the new one is another file, in place at once.
    let old = workspace.path("old.json");
    std::fs::hard_link(&path, &old).unwrap();
    let before = std::fs::read_to_string(&old).unwrap();
    workspace.run_with_input(&["endpoint", "rotate", "shop", "--secret", "-"], "whsec_another_secret").exits(0);
    assert_eq!(std::fs::read_to_string(&old).unwrap(), before);
    assert_ne!(std::fs::read_to_string(&path).unwrap(), before);
    assert_eq!(mode(), 0o600);
    let files: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing is left beside it");
}
