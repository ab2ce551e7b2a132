//! Endpoint documents: which are accepted, which are refused and why, and how to handle a broken one.

use std::net::TcpListener;
use std::process::Output;

use crate::support::Workspace;

/// Exit code, standard output and standard error of a command.
fn run(workspace: &Workspace, arguments: &[&str]) -> (i32, String, String) {
    parts(&workspace.run(arguments))
}

fn give_a_secret(workspace: &Workspace, arguments: &[&str]) -> (i32, String, String) {
    parts(&workspace.run_with_input(arguments, "whsec_a_secret_of_enough_bytes"))
}

fn parts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// It was wrong usage, and standard error says this.
#[track_caller]
fn refused((code, _, error): &(i32, String, String), said: &[&str]) {
    assert!(*code == 2 && said.iter().all(|part| error.contains(part)), "{said:?}: {code} {error}");
}

#[test]
fn a_secret_is_made_only_where_the_provider_takes_one() {
    let workspace = Workspace::new();
    let (code, secret, _) = run(&workspace, &["endpoint", "add", "shop", "--provider", "stripe"]);
    assert!(code == 0 && secret.starts_with("whsec_"), "{secret}");
    let sns = ["endpoint", "add", "topic", "--provider", "aws_sns", "--setting", "topic_arns=arn:aws:sns:a:1:b"];
    assert_eq!(run(&workspace, &sns).0, 0, "its certificate is fetched");
    for arguments in [&["endpoint", "add", "mail", "--provider", "sendgrid"][..], &["endpoint", "rotate", "topic"]] {
        refused(&run(&workspace, arguments), &["cannot be generated", "--secret -"]);
    }
}

#[test]
fn a_setting_that_the_provider_needs_is_asked_for() {
    let workspace = Workspace::new();
    refused(&run(&workspace, &["endpoint", "add", "pay", "--provider", "paypal"]), &["webhook_id"]);
}

#[test]
fn a_document_is_checked_before_it_is_sent_anywhere() {
    let workspace = Workspace::new();
    for (document, code, said) in [
        (r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"]}"#, 0, "valid (provider: stripe)"),
        (r#"{"provider": "paypal", "secrets": []}"#, 1, "settings.webhook_id is missing"),
        (r#"{"provider": "stripe", "secrets": [""]}"#, 1, "secret"),
        (r#"{"provider": "stripe", "secrets": ["whsec_1"]}"#, 1, "secrets[0] is shorter than 16 bytes"),
        (r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret "]}"#, 1, "secrets[0] has white space"),
        (
            r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"], "settings": {"topic": "x"}}"#,
            1,
            "settings.topic is not a setting",
        ),
        (r#"{"provider": "nobody", "secrets": ["s"]}"#, 1, "catalog"),
        (r#"{"provider": "stripe", "secrets": ["s"], "colour": 1}"#, 1, "`col...` (6 bytes): is no known field"),
        ("{", 1, "line 1"),
    ] {
        let file = workspace.write("endpoint.json", document.as_bytes());
        let (is, out, error) = run(&workspace, &["endpoint", "check", &file]);
        assert!(is == code && (out + &error).contains(said), "{document}: {is} {error}");
    }
    assert_eq!(run(&workspace, &["endpoint", "check", "nothing.json"]).0, 2);
}

#[test]
fn a_broken_document_hides_no_other() {
    let workspace = Workspace::new();
    assert_eq!(run(&workspace, &["endpoint", "add", "shop", "--provider", "stripe"]).0, 0);
    workspace.write(".hookonce/endpoints/bad.json", b"{");
    let (code, list, error) = run(&workspace, &["endpoint", "list"]);
    assert!(code == 0 && list.contains("shop") && error.contains("endpoint bad:"), "{list}{error}");
    let (_, list, _) = run(&workspace, &["endpoint", "list", "--json"]);
    assert!(list.contains("changed_at_ms"), "{list}");
    assert_eq!(run(&workspace, &["endpoint", "remove", "bad"]).0, 0);
    assert_eq!(run(&workspace, &["endpoint", "remove", "bad"]).0, 2, "it is gone");
}

/// Whoever named an endpoint as a tenant would read and change its items.
#[test]
fn an_endpoint_shares_its_facts_only_if_its_own_document_says_so() {
    let workspace = Workspace::new();
    let add =
        |id: &str, more: &[&str]| run(&workspace, &[&["endpoint", "add", id, "--provider", "stripe"], more].concat());
    assert_eq!(add("shop", &[]).0, 0);
    refused(&add("eu", &["--tenant", "shop"]), &["so shop would share"]);
    assert_eq!(add("eu", &["--tenant", "acme"]).0, 0);
    // Nobody reads every document to add one. The check of all finds it.
    assert_eq!(add("acme", &[]).0, 0);
    let (code, checked, error) = run(&workspace, &["endpoint", "check"]);
    assert!(code == 1 && checked.contains("acme: not valid") && checked.contains("eu: valid"), "{checked}{error}");
    let (code, lines, _) = run(&workspace, &["endpoint", "check", "--json"]);
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |id: &str| lines.iter().find(|line| line["document"] == id).unwrap();
    assert_eq!((code, &told("eu")["valid"], &told("eu")["provider"]), (1, &true.into(), &"stripe".into()), "{lines:?}");
    assert!(told("acme")["problem"].is_string() && told("acme")["try"].is_string(), "{lines:?}");
    assert_eq!(run(&workspace, &["endpoint", "remove", "acme"]).0, 0);
    assert_eq!(add("acme", &["--tenant", "acme"]).0, 0);
    assert_eq!(add("us", &["--tenant", "acme"]).0, 0, "both documents say so");
    assert_eq!(run(&workspace, &["endpoint", "check"]).0, 0);
    let (_, list, _) = run(&workspace, &["endpoint", "list"]);
    let row = list.lines().find(|row| row.contains("/webhooks/us")).unwrap();
    assert!(row.contains("acme"), "{list}");
}

#[test]
fn what_cannot_be_sent_is_wrong_usage() {
    let workspace = Workspace::new();
    let file = workspace.write("body.json", b"{}");
    let send = |url: &str, header: &str| {
        let arguments =
            ["send", "--provider", "github", "--secret", "-", "--file", &file, "--url", url, "--header", header];
        give_a_secret(&workspace, &arguments)
    };
    refused(&send("localhost:8787", "x-github-event:push"), &["http://"]);
    refused(&send("http://127.0.0.1:1/webhooks/x", "x github event:push"), &["NAME:VALUE"]);
    let discord = ["send", "--provider", "discord", "--secret", "-", "--file", &file, "--url", "http://127.0.0.1:1/x"];
    refused(&give_a_secret(&workspace, &discord), &["itself send an event, to `hookonce dev"]);
}

/// A proxy is only for other machines.
#[test]
fn this_machine_is_not_reached_through_a_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let workspace = Workspace::new();
    let file = workspace.write("body.json", b"{}");
    assert_eq!(run(&workspace, &["endpoint", "add", "shop", "--provider", "stripe"]).0, 0);
    let arguments = ["send", "--provider", "stripe", "--file", &file, "--url", "http://127.0.0.1:1/x"];
    let variables = ["HTTP_PROXY", "http_proxy", "ALL_PROXY"].map(|name| (name.to_owned(), url.clone()));
    assert_eq!(workspace.run_with_environment(&arguments, &variables).status.code(), Some(3));
    assert!(proxy.accept().is_err(), "no request reached the proxy");
}
