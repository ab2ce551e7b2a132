//! The catalog on the command line, and one delivery of every provider that signs with a shared secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::{Ended, Workspace, json, text, valid};

/// Providers that sign with a private key, which only they have.
const OWN_KEYS: [&str; 5] = ["aws_sns", "discord", "paypal", "plaid", "sendgrid"];

/// Parts of the names of headers that `send` writes itself.
const MADE: [&str; 8] =
    ["signature", "signed-headers", "timestamp", "authorization", "token", "mac", "verification", "hmac"];

/// Settings that may stand on the command line.
const OPEN_SETTINGS: [&str; 5] = ["public_url", "webhook_id", "environment", "public_key", "topic_arns"];

fn catalog() -> Vec<Value> {
    let output = Workspace::new().run(&["providers", "--json"]).exits(0);
    serde_json::from_value(json(&output)).unwrap()
}

fn id(provider: &Value) -> &str {
    provider["id"].as_str().unwrap()
}

#[test]
fn a_short_fact_is_printed_whole() {
    let list = String::from_utf8(Workspace::new().run(&["providers"]).stdout).unwrap();
    let line = |id: &str| list.lines().find(|line| line.starts_with(&format!(" {id} "))).unwrap().to_owned();
    assert!(line("circleci").contains(" 10 s "), "{}", line("circleci"));
    assert!(line("discord").contains(" 3 s "), "{}", line("discord"));
}

#[test]
fn the_catalog_lists_every_provider_with_what_an_operator_needs() {
    let catalog = catalog();
    assert_eq!(catalog.len(), 57);
    for provider in &catalog {
        let facts = &provider["facts"];
        for fact in ["retries", "deadline", "key_on_retry", "key_on_redelivery", "checked", "sources"] {
            assert!(!facts[fact].is_null(), "{}: {fact}", id(provider));
        }
        assert!(provider["answers"]["retry_please"]["status"].is_u64(), "{}", id(provider));
        let limits = ["body_bytes_max", "text_body_bytes_max", "compressed_bytes_max"].map(|name| &provider[name]);
        assert_eq!(limits, [4_669_440, 3_112_960, 393_216], "{}", id(provider));
    }
    let one = Workspace::new().run(&["providers", "zendesk", "--json"]);
    assert_eq!(json(&one)["answers"]["retry_please"]["status"], 409);
    let zendesk = Workspace::new().run(&["providers", "zendesk"]);
    zendesk.says_all(&["into 393216 bytes", "more than 3112960 bytes"]);
    Workspace::new().run(&["providers", "nobody"]).exits(2);
}

fn add(workspace: &Workspace, provider: &str, sample: &Value) {
    let secret = sample["secrets"][0].as_str().unwrap();
    let mut arguments = vec!["endpoint", "add", provider, "--provider", provider, "--secret", "-"];
    let settings = sample["settings"].as_object().into_iter().flatten();
    let mut input = secret.to_owned();
    let settings: Vec<_> = settings
        .map(|(name, value)| match value.as_str().unwrap() {
            value if OPEN_SETTINGS.contains(&name.as_str()) => format!("{name}={value}"),
            value => {
                input = format!("{input}\n{value}");
                format!("{name}=-")
            }
        })
        .collect();
    arguments.extend(settings.iter().flat_map(|setting| ["--setting", setting]));
    let output = workspace.run_with_input(&arguments, &format!("{input}\n"));
    assert_eq!(output.status.code(), Some(0), "{provider}: {}", text(&output));
}

#[test]
fn what_send_signs_is_accepted_for_every_provider_with_a_shared_secret() {
    let workspace = Workspace::new();
    let catalog = catalog();
    let samples: Vec<_> = catalog.iter().map(|provider| (id(provider), valid(id(provider)))).collect();
    for (provider, sample) in &samples {
        add(&workspace, provider, sample);
    }
    let _running = workspace.dev(&["dev", "--port", "0"]);
    let mut accepted = 0;
    for (provider, sample) in &samples {
        let body = workspace.write("body", &STANDARD.decode(sample["body_base64"].as_str().unwrap()).unwrap());
        let headers = sample["headers"].as_object().unwrap().iter();
        let headers: Vec<_> = headers
            .filter(|(name, _)| !MADE.iter().any(|part| name.contains(part)))
            .map(|(name, value)| format!("{name}:{}", value.as_str().unwrap()))
            .collect();
        let mut arguments = vec!["send", "--provider", provider, "--file", &body, "--json"];
        arguments.extend(headers.iter().flat_map(|header| ["--header", header]));
        let output = workspace.run(&arguments);
        if OWN_KEYS.contains(provider) {
            assert_eq!(output.status.code(), Some(2), "{provider}: {}", text(&output));
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{provider}: {}", text(&output));
        accepted += 1;
    }
    assert_eq!(accepted, 52);
}
