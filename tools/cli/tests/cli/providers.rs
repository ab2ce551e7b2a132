//! The catalog on the command line, and one delivery of every provider that signs with a shared secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json as object};

use crate::support::{Ended, Workspace, json, vector};

#[test]
fn a_short_fact_is_printed_whole() {
    let list = String::from_utf8(Workspace::new().run(&["providers"]).stdout).unwrap();
    let line = |id: &str| list.lines().find(|line| line.starts_with(&format!(" {id} "))).unwrap().to_owned();
    assert!(line("circleci").contains(" 10 s "), "{}", line("circleci"));
    assert!(line("discord").contains(" 3 s "), "{}", line("discord"));
}

#[test]
fn the_catalog_lists_every_provider_with_what_an_operator_needs() {
    let catalog = json(&Workspace::new().run(&["providers", "--json"]).exits(0));
    assert_eq!(catalog.as_array().unwrap().len(), 74);
    for provider in catalog.as_array().unwrap() {
        let (id, facts) = (&provider["id"], &provider["facts"]);
        for fact in ["retries", "deadline", "key_on_retry", "key_on_redelivery", "checked", "sources"] {
            assert!(!facts[fact].is_null(), "{id}: {fact}");
        }
        assert!(provider["answers"]["retry_please"]["status"].is_u64(), "{id}");
        let limits = ["body_bytes_max", "text_body_bytes_max", "compressed_bytes_max"].map(|name| &provider[name]);
        assert_eq!(limits, [4_669_440, 3_112_960, 393_216], "{id}");
    }
    let one = Workspace::new().run(&["providers", "zendesk", "--json"]);
    let one = json(&one);
    assert_eq!((&one["id"], &one["answers"]["retry_please"]["status"]), (&object!("zendesk"), &object!(409)));
    let zendesk = Workspace::new().run(&["providers", "zendesk"]);
    zendesk.prints_all(&["into 393216 bytes", "more than 3112960 bytes"]);
    let questions = ["retries: ", "deadline: ", "secret: ", "dedup key: ", "`hookonce providers zendesk --json`"];
    Workspace::new().run(&["providers", "zendesk"]).prints_all(&questions).omits("sources[0]").omits("binds_bodies");
    Workspace::new().run(&["providers", "nobody"]).exits(2).omits("did you mean");
    for near in ["strip", "Stripe!", "gitub"] {
        let meant = if near == "gitub" { "did you mean github?" } else { "did you mean stripe?" };
        Workspace::new().run(&["providers", near]).exits(2).prints(meant);
    }
}

/// An inbox that answers 200 would let everybody in.
#[test]
fn a_sender_that_is_none_or_signs_nothing_is_refused_by_its_name() {
    let workspace = Workspace::new();
    for name in ["supabase_auth", "supabase-auth-hooks", "Supabase Auth", "supabase"] {
        let add = ["endpoint", "add", "login", "--provider", name];
        workspace.run(&add).exits(2).prints_all(&["whose answer decides a login", "`--provider token`"]);
    }
    workspace.run(&["providers", "monday.com"]).exits(2).prints("a token with each call, which gives access");
    for (name, kind) in
        [("assembly_ai", "token"), ("huggingface", "token"), ("deepgram", "basic"), ("pipedrive", "basic")]
    {
        let hint = format!("`--provider {kind}`");
        workspace.run(&["providers", name]).exits(2).prints_all(&["signs nothing", &hint]);
    }
}

#[test]
fn who_adds_an_endpoint_of_a_token_is_told_that_nothing_is_signed() {
    let workspace = Workspace::new();
    let warning = "nothing is signed: who has the token can send anything";
    for (provider, settings) in [("basic", &[][..]), ("token", &["--setting", "header=x-webhook-secret"])] {
        let secret = if provider == "basic" { "user:4f9a0c7712e8b35d" } else { "4f9a0c7712e8b35d" };
        let add = [&["endpoint", "add", provider, "--provider", provider, "--secret", "-"], settings].concat();
        workspace.run_with_input(&add, secret).exits(0).prints(warning);
        workspace.run(&["providers", provider]).exits(0).prints("nothing is signed: who has the");
    }
    let unfit = ["endpoint", "add", "other", "--provider", "token", "--secret", "-", "--setting", "header=x-event"];
    workspace.run_with_input(&unfit, "4f9a0c7712e8b35d").exits(2).prints("settings.header must be");
}

/// Providers that sign with a private key, which only they have.
const OWN_KEYS: [&str; 6] = ["aws_sns", "discord", "paypal", "plaid", "sendgrid", "telnyx"];

/// Parts of the names of headers that `send` writes itself.
const MADE: [&str; 8] =
    ["signature", "signed-headers", "timestamp", "authorization", "token", "mac", "verification", "hmac"];

/// Settings that may stand on the command line.
const OPEN_SETTINGS: [&str; 6] = ["public_url", "webhook_id", "environment", "public_key", "topic_arns", "header"];

fn add(workspace: &Workspace, provider: &str, sample: &Value) {
    let mut input = vec![sample["secrets"][0].as_str().unwrap()];
    let settings = sample["settings"].as_object().into_iter().flatten();
    let settings: Vec<_> = settings
        .map(|(name, value)| match value.as_str().unwrap() {
            value if OPEN_SETTINGS.contains(&name.as_str()) => format!("--setting={name}={value}"),
            value => {
                input.push(value);
                format!("--setting={name}=-")
            }
        })
        .collect();
    let mut arguments = vec!["endpoint", "add", provider, "--provider", provider, "--secret", "-"];
    arguments.extend(settings.iter().map(String::as_str));
    workspace.run_with_input(&arguments, &format!("{}\n", input.join("\n"))).exits(0);
}

#[test]
fn what_send_signs_is_accepted_for_every_provider_with_a_shared_secret() {
    let workspace = Workspace::new();
    let catalog = json(&workspace.run(&["providers", "--json"]));
    let ids = catalog.as_array().unwrap().iter().map(|provider| provider["id"].as_str().unwrap());
    let samples: Vec<_> = ids.map(|id| (id, vector(id, "valid"))).collect();
    for (provider, sample) in &samples {
        add(&workspace, provider, sample);
    }
    let _running = workspace.dev(&["dev", "--port", "0"]);
    for (provider, sample) in &samples {
        let body = workspace.write("body", &STANDARD.decode(sample["body_base64"].as_str().unwrap()).unwrap());
        let headers = sample["headers"].as_object().unwrap().iter();
        let headers = headers.filter(|(name, _)| !MADE.iter().any(|part| name.contains(part)));
        let headers: Vec<_> =
            headers.map(|(name, value)| format!("--header={name}:{}", value.as_str().unwrap())).collect();
        let mut arguments = vec!["send", "--provider", provider, "--file", &body, "--json"];
        arguments.extend(headers.iter().map(String::as_str));
        workspace.run(&arguments).exits(if OWN_KEYS.contains(provider) { 2 } else { 0 });
    }
}
