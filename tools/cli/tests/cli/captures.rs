//! `dev` keeps requests that `verify` can judge, `verify` takes a request in parts too, and `dev --public`
//! works behind a tunnel.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json as object};

use crate::support::{Ended, Workspace, json, text, vector};

/// The files of a folder, by name.
fn captures(workspace: &Workspace) -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(workspace.path("captures")).unwrap().map(|file| file.unwrap());
    let mut files: Vec<_> = files.map(|file| (file.file_name().into_string().unwrap(), file.path())).collect();
    files.sort();
    files
}

#[test]
fn a_captured_request_holds_no_credential_and_verify_judges_it_as_the_inbox_did() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0", "--capture", "captures"]);
    // Telegram's secret is itself a header.
    workspace.run(&["endpoint", "add", "telegram", "--provider", "telegram"]).exits(0);
    let update = workspace.write("update.json", br#"{"update_id":1,"message":{"message_id":1}}"#);
    let telegram = ["send", "--provider", "telegram", "--file", &update];
    let forged = ["trigger", "stripe.invoice.paid", "--secret", "-"];
    let runs = [
        (&["trigger", "stripe.invoice.paid", "--id", "a"][..], "-stripe-200-accepted.request.json"),
        (&["trigger", "stripe.invoice.paid", "--id", "a"], "-stripe-200-duplicate.request.json"),
        (&forged, "-stripe-401-signature_mismatch.request.json"),
        (&telegram, "-telegram-200-accepted.request.json"),
    ];
    for (arguments, _) in &runs {
        workspace.run_with_input(arguments, "whsec_another_secret_of_enough_bytes");
    }
    let nobody = format!("{}/webhooks/nobody", workspace.announced()["url"].as_str().unwrap());
    let stranger = ["trigger", "stripe.invoice.paid", "--url", &nobody, "--secret", "-"];
    workspace.run_with_input(&stranger, "whsec_a_secret_of_enough_bytes");
    let secrets = ["stripe", "telegram"].map(|id| {
        let shown = json(&workspace.run(&["endpoint", "show", id, "--reveal", "--json"]));
        shown["secrets"][0].as_str().unwrap().to_owned()
    });
    // A capture still fits after a rotation.
    workspace.run_with_input(&["endpoint", "rotate", "stripe", "--secret", "-"], "whsec_the_newest_one").exits(0);
    let files = captures(&workspace);
    assert_eq!(files.len(), runs.len(), "{files:?}");
    for ((name, path), (_, ending)) in files.iter().zip(&runs) {
        assert!(name.ends_with(ending), "{name} is not {ending}");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let kept = fs::read_to_string(path).unwrap();
        assert!(secrets.iter().all(|secret| !kept.contains(secret.as_str())), "{kept}");
        let kept: Value = serde_json::from_str(&kept).unwrap();
        let judged = workspace.run(&["verify", "--request", path.to_str().unwrap(), "--json"]);
        let report = json(&judged);
        assert_eq!(report["response"]["status"], kept["answer"]["status"], "{name}: {report}");
        assert_eq!(judged.status.success(), kept["answer"]["status"] == 200, "{name}: {report}");
    }
}

#[test]
fn the_latest_refusal_is_explained_without_a_word_more() {
    let workspace = Workspace::new();
    let last = ["verify", "--last"];
    let none = ["no refused request is kept in .hookonce/requests", "`hookonce dev` keeps its latest requests"];
    workspace.run(&last).exits(2).prints_all(&none);
    let running = workspace.dev(&["dev", "--port", "0"]);
    // An earlier refusal, for another reason, with a slash at the end of its path.
    let gateway = workspace.announced()["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let mut unsigned = TcpStream::connect(&gateway).unwrap();
    let head = format!(
        "POST /webhooks/stripe/ HTTP/1.1\r\nhost: {gateway}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
    );
    unsigned.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    unsigned.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("signature_missing"), "{answer}");
    let wrong = "whsec_another_secret_of_enough_bytes";
    let trigger = ["trigger", "stripe.invoice.paid", "--secret", "-"];
    let refused = workspace.run_with_input(&trigger, wrong).exits(1);
    refused.prints("`hookonce verify --last`").omits("the same event again");
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0).prints("the same event again").omits("verify");

    let explained = ["-stripe-401-signature_mismatch.request.json", "code signature_mismatch"];
    workspace.run(&last).exits(1).prints_all(&explained);
    workspace.run(&[&last[..], &["--endpoint", "stripe"]].concat()).exits(1).prints_all(&explained);
    workspace.run(&[&last[..], &["--stack", "./.hookonce"]].concat()).exits(1).prints_all(&explained);
    workspace.run(&[&last[..], &["--stack", "inbox"]].concat()).exits(2).prints("--stack ./FOLDER names a stack");
    let github = [&last[..], &["--endpoint", "github"]].concat();
    workspace.run(&github).exits(2).prints("no refused request of github is kept in /");
    let kept = fs::read_dir(workspace.path(".hookonce/requests")).unwrap().map(|file| file.unwrap());
    let kept: Vec<_> = kept.map(|file| (fs::read_to_string(file.path()).unwrap(), file.metadata().unwrap())).collect();
    assert_eq!(kept.len(), 3, "the accepted one, too");
    let secret = json(&workspace.run(&["endpoint", "show", "stripe", "--reveal", "--json"]));
    let secret = secret["secrets"][0].as_str().unwrap();
    for (text, metadata) in kept {
        assert!(!text.contains(wrong) && !text.contains(secret), "{text}");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
    running.stop().exits(0);
    workspace.run(&last).exits(1).prints_all(&explained);

    // Another folder is found while the stack runs.
    let _running = workspace.dev(&["dev", "--port", "0", "--capture", "captures"]);
    workspace.run(&last).exits(2).prints("captures");
    workspace.run_with_input(&trigger, wrong).exits(1);
    workspace.run(&last).exits(1).prints_all(&explained).prints("captures");
}

/// The only capture of an endpoint, as its path and its text.
fn only(workspace: &Workspace, endpoint: &str) -> (String, String) {
    let mut files = captures(workspace);
    files.retain(|(name, _)| name.contains(&format!("-{endpoint}-")));
    let [(_, path)] = &files[..] else { panic!("{files:?}") };
    (path.to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
}

/// The 401 after a rotation at one side only: what was sent is none of the endpoint's secrets.
#[test]
fn a_credential_that_the_endpoint_does_not_hold_is_not_kept_and_verify_names_its_place() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0", "--capture", "captures"]);
    for (provider, more) in [("telegram", &[][..]), ("gitlab", &["--scheme", "secret-token"])] {
        workspace.run(&[&["endpoint", "add", provider, "--provider", provider], more].concat()).exits(0);
    }
    let update = workspace.write("update.json", br#"{"update_id":1,"message":{"message_id":1}}"#);
    workspace.run(&["send", "--provider", "telegram", "--file", &update]).exits(0);
    let shown = json(&workspace.run(&["endpoint", "show", "telegram", "--reveal", "--json"]));
    let retired = shown["secrets"][0].as_str().unwrap().to_owned();
    for more in [&["--secret", "-"][..], &["--retire"]] {
        let rotate = [&["endpoint", "rotate", "telegram"], more].concat();
        workspace.run_with_input(&rotate, "a_newer_secret_of_enough_bytes").exits(0);
    }
    let wrong = "a_wrong_token_of_enough_bytes";
    workspace.run_with_input(&["trigger", "gitlab.push_hook", "--secret", "-"], wrong);
    for (endpoint, hidden, place) in [
        ("telegram", retired.as_str(), "header:x-telegram-bot-api-secret-token"),
        ("gitlab", wrong, "header:x-gitlab-token"),
    ] {
        let (path, kept) = only(&workspace, endpoint);
        assert!(!kept.contains(hidden), "{kept}");
        let report = json(&workspace.run(&["verify", "--request", &path, "--json"]));
        let verdict = [&report["authentic"], &report["code"], &report["unknown_credentials"][0]["place"]];
        assert_eq!(object!(verdict), object!([false, "signature_mismatch", place]), "{report}");
        let expected = format!("the credential at {place} is not one of the endpoint's");
        workspace.run(&["verify", "--request", &path]).prints(&expected);
    }
}

/// An endpoint's own settings count, and nothing is assumed for those that it lacks.
#[test]
fn an_endpoint_without_a_setting_that_it_needs_is_judged_as_the_inbox_judges_it() {
    let workspace = Workspace::new();
    let add = ["endpoint", "add", "whatsapp", "--provider", "meta_whatsapp", "--setting", "verify_token=-"];
    workspace.run_with_input(&add, "a token").exits(0);
    let document = ".hookonce/endpoints/whatsapp.json";
    let mut stored: Value = serde_json::from_str(&workspace.read(document)).unwrap();
    stored.as_object_mut().unwrap().remove("settings");
    workspace.write(document, stored.to_string().as_bytes());
    let url = "https://x.example/?hub.mode=subscribe&hub.challenge=1&hub.verify_token=";
    let url = format!("{url}{}", stored["secrets"][0].as_str().unwrap());
    let request = object!({
        "endpoint": "whatsapp", "method": "GET", "url": url, "headers": {}, "body_base64": "", "now_unix": 1_767_225_600,
    });
    let verify = || workspace.run_with_input(&["verify", "--json", "--request", "-"], &request.to_string());
    let report = json(&verify());
    let codes = [&report["code"], &report["causes"][0]["code"]];
    assert_eq!(codes, ["not_configured", "setting_missing"], "{report}");

    stored["tenant"] = object!("No Tenant");
    workspace.write(document, stored.to_string().as_bytes());
    verify().prints("tenant: a tenant has 1 to 64 of");
}

#[test]
fn verify_takes_a_request_in_parts_or_from_curl() {
    let workspace = Workspace::new();
    let request = vector("stripe", "valid");
    let secret = request["secrets"][0].as_str().unwrap();
    let add = ["endpoint", "add", "shop", "--provider", "stripe", "--secret", "-"];
    workspace.run_with_input(&add, secret).exits(0);
    let body = STANDARD.decode(request["body_base64"].as_str().unwrap()).unwrap();
    let body = workspace.write("body.json", &body);
    let at = request["now_unix"].to_string();
    let signature = request["headers"]["stripe-signature"].as_str().unwrap();
    let header = format!("Stripe-Signature: {signature}");

    let parts = ["verify", "--json", "--endpoint", "shop", "--header", &header, "--body", &body, "--at", &at];
    let report = json(&workspace.run(&parts));
    assert_eq!((&report["verdict"], &report["matched_secret"]), (&object!("accepted"), &object!(0)), "{report}");
    let late = json(&workspace.run(parts.split_last().unwrap().1.split_last().unwrap().1));
    assert_eq!(late["code"], "timestamp_out_of_range", "without --at it came now: {late}");

    // The endpoint's own tolerance counts.
    let later = (request["now_unix"].as_i64().unwrap() + 1_000).to_string();
    let later = [&parts[..parts.len() - 1], &[later.as_str()]].concat();
    assert_eq!(json(&workspace.run(&later))["code"], "timestamp_out_of_range");
    let document = ".hookonce/endpoints/shop.json";
    let patient = workspace.read(document).replacen('{', "{\"tolerance_seconds\":3600,", 1);
    workspace.write(document, patient.as_bytes());
    let report = json(&workspace.run(&later));
    assert_eq!((&report["verdict"], &report["causes"]), (&object!("accepted"), &object!([])), "{report}");

    let curl =
        format!("* Connected\n> POST /webhooks/shop/ HTTP/1.1\n> Host: x.example\n> {header}\n>\n< HTTP/1.1 401\n");
    let curl = workspace.write("curl.txt", curl.as_bytes());
    let report = json(&workspace.run(&["verify", "--json", "--curl", &curl, "--body", &body, "--at", &at]));
    assert_eq!(report["verdict"], "accepted", "{report}");

    // A gateway reports the name in the Host header without its port.
    let signed = vector("square", "valid");
    let add = ["endpoint", "add", "square", "--provider", "square", "--secret", "-"];
    workspace.run_with_input(&add, signed["secrets"][0].as_str().unwrap()).exits(0);
    let (host, path) = signed["url"].as_str().unwrap().trim_start_matches("https://").split_once('/').unwrap();
    let header = signed["headers"]["x-square-hmacsha256-signature"].as_str().unwrap();
    let curl = format!("> POST /{path} HTTP/1.1\n> Host: {host}:8787\n> x-square-hmacsha256-signature: {header}\n");
    let curl = workspace.write("square.txt", curl.as_bytes());
    let square = workspace.write("square.json", &STANDARD.decode(signed["body_base64"].as_str().unwrap()).unwrap());
    let report =
        json(&workspace.run(&["verify", "--json", "--endpoint", "square", "--curl", &curl, "--body", &square]));
    assert_eq!(report["verdict"], "accepted", "{report}");

    let request = object!({ "endpoint": "shop", "method": "POST", "url": "https://x.example/", "now_unix": 1_767_225_600,
        "headers": { "stripe-signature": signature }, "body_base64": request["body_base64"] });
    let request = workspace.write("request.json", request.to_string().as_bytes());
    let report = json(&workspace.run(&["verify", "--json", "--request", &request]));
    assert_eq!(report["verdict"], "accepted", "{report}");
}

#[test]
fn everything_that_a_request_lacks_is_named_at_once() {
    let workspace = Workspace::new();
    let refused = |arguments: &[&str]| workspace.run(&[&["verify"], arguments].concat()).exits(2);
    refused(&[]).prints_all(&["--endpoint", "--header", "--body", "--request FILE"]);
    refused(&["--endpoint", "shop", "--header", "a: b"]).prints("lacks the body").omits("the endpoint (");
    let file = workspace.write("some.json", br#"{"provider":"stripe","url":"","headers":{}}"#);
    let missing = "`method`, `body_base64`, `secrets`, `now_unix` are missing";
    refused(&["--request", &file]).prints_all(&[missing, "--endpoint ID"]);
    refused(&["--request", &file, "--body", &file]).prints("cannot be used with");
    let other = workspace.write("other.json", br#"{"provider":"github","endpoint":"stripe"}"#);
    workspace.run(&["endpoint", "add", "stripe", "--provider", "stripe"]).exits(0);
    refused(&["--request", &other]).prints("for another provider");
}

#[test]
fn behind_a_tunnel_the_public_address_is_what_is_signed() {
    let workspace = Workspace::new();
    for url in ["http://abc.example", "https://abc.example/hooks", "https://abc.example:8443", "abc.example"] {
        workspace.run(&["dev", "--port", "0", "--public", url]).exits(2);
    }
    workspace.run(&["endpoint", "add", "square", "--provider", "square"]).exits(0);
    let dev = ["dev", "--port", "0", "--public", "https://abc.example/", "--capture", "captures"];
    let (running, out) = workspace.dev_with_output(&dev, &[]);
    let trigger = |more: &[&str]| workspace.run(&[&["trigger", "square.payment.created", "--json"], more].concat());
    let signed = trigger(&[]);
    assert_eq!(json(&signed)["deliveries"][0]["answer"], "accepted", "{}", text(&signed));
    let other = trigger(&["--setting", "public_url=https://127.0.0.1/webhooks/square"]);
    assert_eq!(json(&other)["deliveries"][0]["answer"], "signature_mismatch", "{}", text(&other));
    // What curl sent to this machine is judged as what came through the tunnel.
    let (_, kept) = &captures(&workspace)[0];
    let request: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    let body = workspace.write("body.json", &STANDARD.decode(request["body_base64"].as_str().unwrap()).unwrap());
    let signature = request["headers"]["x-square-hmacsha256-signature"][0].as_str().unwrap();
    let curl = format!(
        "> POST /webhooks/square HTTP/1.1\n> Host: 127.0.0.1:8787\n> x-square-hmacsha256-signature: {signature}\n"
    );
    let curl = workspace.write("curl.txt", curl.as_bytes());
    workspace.run(&["verify", "--curl", &curl, "--body", &body]).exits(0);
    drop(running);
    let lines: Vec<_> = BufReader::new(out).lines().map(Result::unwrap).collect();
    assert!(lines.iter().any(|line| line.contains("  https://abc.example/webhooks/square  (square)")), "{lines:?}");
    let (_, kept) = &captures(&workspace)[0];
    workspace.run(&["verify", "--request", kept.to_str().unwrap()]).exits(0);
    assert!(workspace.read(".hookonce/functions.env").contains("HOOKONCE_PUBLIC_URL=https://abc.example\n"));
}
