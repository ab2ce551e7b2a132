//! `verify` on captured requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Ended, Workspace, json as parsed, text};

fn verify(request: &Value) -> (Option<i32>, Value) {
    let output = Workspace::new().run_with_input(&["verify", "--request", "-", "--json"], &request.to_string());
    (output.status.code(), parsed(&output))
}

/// A capture may be of another stack than the one of this folder.
#[test]
fn a_missing_endpoint_is_named_with_the_folder_that_was_searched() {
    let mut request = genuine();
    request.as_object_mut().unwrap().remove("secrets");
    request["endpoint"] = json!("shop");
    let output = Workspace::new().run_with_input(&["verify", "--request", "-"], &request.to_string()).exits(1);
    output.prints_all(&["there is no endpoint shop in the folder .hookonce", "--stack"]);
}

/// The 3 a.m. case: is the secret wrong, or did something change the body?
#[test]
fn the_body_is_compared_with_the_hash_of_the_provider() {
    let workspace = Workspace::new();
    let file = workspace.write("captured.json", genuine().to_string().as_bytes());
    let verify = |more: &[&str]| workspace.run(&[&["verify", "--request", &file], more].concat());
    let judged = parsed(&verify(&["--json"]));
    let sha256 = judged["captured"]["body_sha256"].as_str().unwrap().to_uppercase();
    assert_eq!((sha256.len(), &judged["captured"]["is_the_named_body"]), (64, &Value::Null));
    let same = verify(&["--json", "--sha256", &sha256]);
    assert_eq!(parsed(&same)["captured"]["is_the_named_body"], true);
    verify(&["--sha256", &sha256]).prints("the body matches --sha256");
    verify(&["--sha256", &"0".repeat(64)]).exits(0).prints("does not match --sha256");
    verify(&["--sha256", "abc"]).exits(2);
}

#[test]
fn a_tampered_request_is_rejected_with_its_code() {
    let (exit, report) = verify(&vector("stripe", "tampered-body"));
    assert_eq!(exit, Some(1), "{report}");
    assert_eq!((&report["verdict"], &report["code"]), (&json!("rejected"), &json!("signature_mismatch")));
    assert_eq!(report["response"]["status"], 401);
    assert_eq!(report["events"], json!([]));
}

/// An authentic event that is kept by its content is named before a metric counts it.
#[test]
fn verify_names_what_an_event_lacks() {
    let fallbacks = |case: (&str, &str)| {
        let (exit, report) = verify(&vector(case.0, case.1));
        assert_eq!(exit, Some(0), "{report}");
        report["events"].as_array().unwrap().iter().map(|event| event["fallback"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(fallbacks(("circleci", "valid")), [Value::Null]);
    assert_eq!(fallbacks(("circleci", "missing-key")), ["id_missing"]);
    assert_eq!(fallbacks(("github", "non-utf8-body")), ["body_unreadable"]);
    assert_eq!(fallbacks(("line", "without-id")), [json!("id_missing"), Value::Null]);
    let workspace = Workspace::new();
    let check = |case: (&str, &str)| {
        let file = workspace.write("captured.json", vector(case.0, case.1).to_string().as_bytes());
        workspace.run(&["verify", "--request", &file])
    };
    check(("circleci", "missing-key")).prints("    id_missing: it has no id where the provider puts one");
    check(("github", "non-utf8-body")).prints("of type unreadable\n    body_unreadable: it is not what");
    check(("circleci", "valid")).omits("id_missing");
}

#[test]
fn a_program_learns_whether_the_signature_holds_and_why_not() {
    let (_, forged) = verify(&vector("stripe", "tampered-body"));
    assert_eq!((&forged["authentic"], &forged["causes"][0]["code"]), (&json!(false), &json!("other_secret_or_body")));
    assert!(forged["causes"][0]["sentence"].as_str().unwrap().contains("No secret matches"), "{forged}");
    let (exit, valid) = verify(&genuine());
    assert_eq!((exit, &valid["authentic"], &valid["causes"]), (Some(0), &json!(true), &json!([])));
    let (exit, keyless) = verify(&vector("circleci", "missing-key"));
    assert_eq!((exit, &keyless["authentic"], &keyless["verdict"]), (Some(0), &json!(true), &json!("accepted")));
    assert_eq!((&keyless["matched_secret"], &keyless["causes"][0]["code"]), (&json!(0), &json!("id_missing")));
    let unreadable = vector("circleci", "non-utf8-body-without-key").to_string();
    let output = Workspace::new().run_with_input(&["verify", "--request", "-"], &unreadable);
    output.prints_all(&["is authentic", "cannot be read"]);
}

/// What the function refuses, because it takes no weaker scheme and no short secret, is refused here too.
#[test]
fn an_endpoint_is_configured_as_the_function_would() {
    let mut weak = vector("github", "valid");
    weak["headers"] = json!({ "x-hub-signature": "sha1=00", "x-github-delivery": "1" });
    let (exit, report) = verify(&weak);
    assert_eq!((exit, &report["code"]), (Some(1), &json!("scheme_not_taken")), "{report}");
    assert_eq!(report["causes"][0]["code"], "scheme_not_taken");
    weak["schemes"] = json!(["sha1"]);
    assert_eq!(verify(&weak).1["code"], "signature_mismatch");
    for (field, value, cause) in [
        ("secrets", json!(["short"]), "shorter than 16 bytes"),
        ("schemes", json!(["sha3"]), "not a scheme of this provider"),
    ] {
        let mut request = vector("github", "valid");
        request[field] = value;
        let (exit, report) = verify(&request);
        assert_eq!((exit, &report["code"]), (Some(1), &json!("not_configured")), "{report}");
        assert_eq!(report["causes"][0]["code"], "configuration");
        assert!(report["causes"][0]["sentence"].as_str().unwrap().contains(cause), "{report}");
    }
}

/// The person who chose the secret learns that it is the right one, and that no endpoint takes it.
#[test]
fn a_signature_is_judged_also_where_its_secret_can_be_guessed() {
    let signed = |secret: &str| {
        json!({
            "provider": "github", "method": "POST", "url": "https://example.com/webhooks/github",
            "headers": {
                "x-hub-signature-256": "sha256=49c88cec5cde1b7a75bd0eb4f53bfdf4802ef380faa13e6d5714a7c7f14f8fb9",
                "x-github-delivery": "1", "x-github-event": "ping",
            },
            "body_base64": STANDARD.encode("{}"), "now_unix": 1_767_225_600, "secrets": [secret],
        })
    };
    let (exit, report) = verify(&signed("short"));
    assert_eq!((exit, &report["authentic"], &report["code"]), (Some(1), &json!(true), &json!("not_configured")));
    let causes = report["causes"].as_array().unwrap();
    assert!(causes.len() == 1 && causes[0]["sentence"].as_str().unwrap().contains("it has 5"), "{report}");
    let check = |secret: &str| {
        Workspace::new().run_with_input(&["verify", "--request", "-"], &signed(secret).to_string()).exits(1)
    };
    check("short").prints_all(&["The request is authentic, but refused", "shorter than 16 bytes (it has 5)"]);
    let other = ["secrets[0] is shorter than 16 bytes (it has 5)", "No secret matches"];
    check("other").omits("is authentic").prints_all(&other);
    check("your_webhook_secret").omits("is authentic").prints_all(&["secrets[0] can be guessed", "No secret matches"]);
}

/// Every process of the machine can read a command line, also for as long as `verify` runs.
#[test]
fn a_credential_of_a_request_is_never_on_the_command_line() {
    let workspace = Workspace::new();
    let (token, name) = ("0d7a2c5b7a112f0c1ab69d35", "x-telegram-bot-api-secret-token");
    for provider in ["telegram", "meta_whatsapp"] {
        let add = ["endpoint", "add", provider, "--provider", provider, "--secret", "-"];
        let settings: &[&str] = if provider == "telegram" { &[] } else { &["--setting", "verify_token=-"] };
        let lines = if provider == "telegram" { token.to_owned() } else { format!("{token}\n{token}") };
        workspace.run_with_input(&[&add[..], settings].concat(), &lines).exits(0);
    }
    workspace.write("body.json", br#"{"update_id":1}"#);
    let endpoint = ["--endpoint", "telegram"];
    let request = |header: &str| ["--header", header, "--body", "body.json"].map(str::to_owned).to_vec();
    let run = |command: &[&str], more: &[String], input: &str| {
        let more = more.iter().map(String::as_str);
        workspace.run_with_input(&command.iter().copied().chain(more).collect::<Vec<_>>(), input)
    };
    let verify = [&["verify"], &endpoint[..]].concat();
    for open in [format!("{name}:{token}"), format!("X-Telegram-Bot-Api-Secret-Token : {token}")] {
        let parts = ["every process of this machine", &format!("header:{name}"), "`--header NAME=-`"];
        run(&verify, &request(&open), "").exits(2).omits(token).prints_all(&parts);
        let elsewhere = ["--file".to_owned(), "body.json".to_owned(), "--header".to_owned(), open];
        let send = ["send", "--provider", "telegram", "--url", "http://127.0.0.1:9/"];
        run(&send, &elsewhere, "").exits(2).omits(token).prints("every process of this machine");
    }
    // Any of these may be the header that an endpoint names.
    let send = ["send", "--provider", "token", "--url", "http://127.0.0.1:9/", "--file", "body.json", "--secret", "-"];
    let header = ["--setting", "header=x-webhook-secret", "--header", "x-webhook-secret: 0d7a2c5b7a112f0c1ab69d35"];
    let send = [&send[..], &header].concat();
    workspace.run_with_input(&send, token).exits(2).omits(token).prints("every process of this machine");
    let hidden = request(&format!("{name}=-"));
    run(&verify, &hidden, token).exits(0).omits(token).prints("The request is authentic");
    run(&verify, &hidden, "another-token-of-the-bot").exits(1).prints("signature_mismatch");
    let both = ["--body", "-", "--header"].map(str::to_owned).into_iter().chain([format!("{name}=-")]);
    run(&verify, &both.collect::<Vec<_>>(), token).exits(2).prints("`--body -` reads all of standard input");
    let url = format!("https://shop.example/webhooks/x?hub.verify_token={token}");
    let arguments = ["verify", "--endpoint", "meta_whatsapp", "--method", "GET", "--url", &url];
    workspace.run(&arguments).exits(2).omits(token).prints("query:hub.verify_token");
}

#[test]
fn a_handshake_is_answered_with_its_challenge() {
    let request = json!({
        "provider": "meta_whatsapp", "method": "GET", "headers": {}, "body_base64": "", "now_unix": 1_767_225_600,
        "url": "https://example.com/webhooks/meta?hub.mode=subscribe&hub.verify_token=token&hub.challenge=1158201444",
        "secrets": ["app-secret-of-16-bytes"], "settings": {"verify_token": "token"},
    });
    let (exit, report) = verify(&request);
    assert_eq!(exit, Some(0), "{report}");
    assert_eq!((&report["verdict"], &report["response"]["body"]), (&json!("handshake"), &json!("1158201444")));
}

/// The request as Stripe's own library signed it, before anyone touched its body.
fn genuine() -> Value {
    vector("stripe", "valid")
}

/// The request of a conformance vector.
fn vector(provider: &str, case: &str) -> Value {
    let mut vector = crate::support::vector(provider, case);
    let names = ["method", "url", "headers", "body_base64", "secrets", "now_unix"];
    let mut request: Value = names.into_iter().map(|name| (name.to_owned(), vector[name].take())).collect();
    request["provider"] = json!(provider);
    request
}

/// What `verify` prints, which never holds the secret or the correct signature.
fn explained(request: &Value) -> String {
    let output = Workspace::new().run_with_input(&["verify", "--request", "-"], &request.to_string());
    let printed = text(&output);
    let right = genuine();
    let signature = right["headers"]["stripe-signature"].as_str().unwrap().split("v1=").nth(1).unwrap();
    let secret = right["secrets"][0].as_str().unwrap();
    assert!(!printed.contains(signature) && !printed.contains(secret.trim_start_matches("whsec_")), "{printed}");
    printed
}

#[test]
fn verify_explains_the_likely_cause() {
    assert!(explained(&genuine()).contains("secret 0 matched"));
    let changed = |field: &str, value: Value| {
        let mut request = genuine();
        request[field] = value;
        explained(&request)
    };
    let secret = genuine()["secrets"][0].as_str().unwrap().to_owned();
    let late = genuine()["now_unix"].as_i64().unwrap() + 1_000;
    let body = STANDARD.decode(genuine()["body_base64"].as_str().unwrap()).unwrap();
    let spaced = STANDARD.encode([body.as_slice(), b"\n"].concat());
    for (field, value, cause) in [
        ("secrets", json!([format!("{secret}\n")]), "space or line break around it"),
        ("now_unix", json!(late), "1000 s old"),
        ("headers", json!({}), "stripe-signature: missing"),
        ("body_base64", json!(spaced), "a reformatted copy of this body"),
    ] {
        let printed = changed(field, value);
        assert!(printed.contains(cause), "{cause}: {printed}");
    }
    let printed = changed("secrets", json!([]));
    assert!(
        printed.contains("The endpoint has no secret.") && printed.contains("Refused: not_configured."),
        "{printed}"
    );
    assert!(!printed.contains("signature_mismatch") && !printed.contains("No secret matches"), "{printed}");
}
