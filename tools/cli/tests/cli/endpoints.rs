//! Endpoint documents: which are accepted, which are refused and why, and how to handle a broken one.

use std::net::TcpListener;
use std::process::Output;

use serde_json::json as object;

use crate::aws::{Aws, Deployed, Interception, now};
use crate::stacks::{Stack, lines};
use crate::support::{Ended, Workspace, json, text, wait_until};

fn give_a_secret(workspace: &Workspace, arguments: &[&str]) -> Output {
    workspace.run_with_input(arguments, "whsec_a_secret_of_enough_bytes")
}

#[test]
fn a_secret_is_made_only_where_the_provider_takes_one_and_a_needed_setting_is_required() {
    let workspace = Workspace::new();
    let shop = workspace.run(&["endpoint", "add", "shop", "--provider", "stripe"]).exits(0);
    assert!(shop.stdout.starts_with(b"whsec_"), "{shop:?}");
    // The certificate of SNS is fetched.
    let sns = ["endpoint", "add", "topic", "--provider", "aws_sns", "--setting", "topic_arns=arn:aws:sns:a:1:b"];
    workspace.run(&sns).exits(0);
    for arguments in [&["endpoint", "add", "mail", "--provider", "sendgrid"][..], &["endpoint", "rotate", "topic"]] {
        workspace.run(arguments).exits(2).prints_all(&["generate", "--secret -"]);
    }
    let user = ["endpoint", "add", "user", "--provider", "basic"];
    workspace.run(&user).exits(2).prints("you choose the secret").omits("issues its secrets");
    workspace.run(&["endpoint", "add", "pay", "--provider", "paypal"]).exits(2).prints("webhook_id");
}

/// Stripe signs with no secret that anybody else made, and an API key is no such secret.
#[test]
fn a_secret_that_the_provider_does_not_sign_with_is_refused_before_anything_changes() {
    let workspace = Workspace::new();
    let run = |arguments: &[&str], input: &str| workspace.run_with_input(&[&["endpoint"], arguments].concat(), input);
    let give = |arguments: &[&str], input: &str| run(&[arguments, &["--secret", "-"]].concat(), input);
    let stripe = ["add", "shop", "--provider", "stripe"];
    give(&stripe, "sk_live_abcdefghijklmnop")
        .exits(2)
        .prints_all(&["begins with `whsec_`", "API key"])
        .omits("sk_live");
    let made = run(&stripe, "").exits(0);
    made.prints_all(&["Stripe issues its secrets", "`hookonce endpoint rotate shop --secret -`"]);
    let before = workspace.read(".hookonce/endpoints/shop.json");
    give(&["rotate", "shop"], "sk_live_abcdefghijklmnop").exits(2).prints("begins with `whsec_`");
    for command in [&["rotate", "shop"][..], &["rotate", "shop", "--retire"]] {
        run(command, "").exits(2).prints_all(&["Stripe issues its secrets", "pass `--secret -`"]);
    }
    assert_eq!(workspace.read(".hookonce/endpoints/shop.json"), before);
    give(&["rotate", "shop"], "whsec_from_the_dashboard").exits(0).omits("give the new secret");

    // A deployed endpoint is called by Stripe alone.
    let deployed = Deployed::new("endpoint", &[]);
    deployed.run(&["add", "shop", "--provider", "stripe"]).exits(2).prints("Stripe shows the secret once the address");
    assert_eq!(deployed.aws.account().count("PutItem"), 0);

    let lemons = ["add", "lemons", "--provider", "lemonsqueezy"];
    give(&lemons, &"x".repeat(41)).exits(2).prints("has at most 40 characters, and this one has 41");
    run(&lemons, "").exits(0);
    let made: serde_json::Value = serde_json::from_str(&workspace.read(".hookonce/endpoints/lemons.json")).unwrap();
    assert_eq!(made["secrets"][0].as_str().unwrap().len(), 40, "one that its page takes");

    let entries = r#"[{"id": "a", "provider": "stripe", "secrets": ["whsec_a_signing_secret"]},
        {"id": "b", "provider": "stripe", "secrets": ["sk_live_abcdefghijklmnop"]}]"#;
    let file = workspace.write("endpoints.json", entries.as_bytes());
    let imported = workspace.run(&["endpoint", "import", &file]).exits(2);
    imported.prints_all(&["nothing was imported", "b: what was pasted is a secret API key"]).omits("sk_live");
    assert!(!workspace.path(".hookonce/endpoints/a.json").exists());
}

/// Stripe shows a secret once the address is registered. The same where the secret is not asked for.
#[test]
fn who_adds_an_endpoint_is_told_its_address_and_where_to_register_it_before_the_secret_is_asked_for() {
    let deployed = Deployed::new("endpoint", &[("WebhookUrl", "https://hooks.example.com/webhooks/")]);
    let add = ["endpoint", "add", "shop", "--provider", "stripe", "--stack", "inbox"];
    let added = deployed.workspace.run_at_terminal(&add, &deployed.variables, "whsec_from_the_dashboard\n").exits(0);
    let shown = text(&added);
    let lines = [
        "1. The endpoint's address: https://hooks.example.com/webhooks/shop",
        "2. Register it at Stripe: Dashboard: Workbench > Webhooks",
        "3. Give its secret here; it begins with whsec_",
        "secret:",
        "endpoint shop receives webhooks from Stripe",
    ];
    let places = lines.map(|line| shown.find(line).unwrap_or_else(|| panic!("{line}: {shown}")));
    assert!(places.is_sorted(), "{places:?}");
    deployed.run(&["show", "shop", "--reveal"]).exits(0).prints("whsec_from_the_dashboard");
    let unasked = ["add", "third", "--provider", "stripe"];
    deployed.run(&unasked).exits(2).prints_all(&[
        "Stripe shows the secret once the address is registered: https://hooks.example.com/webhooks/third",
        "register it at Stripe: Dashboard: Workbench > Webhooks",
    ]);

    let given = [&["endpoint", "add", "other", "--provider", "stripe", "--secret", "-"][..], &add[5..]].concat();
    let run = |arguments: &[&str], input: &str| {
        deployed.workspace.run_with_environment_and_input(arguments, &deployed.variables, input).exits(0)
    };
    run(&given, "whsec_from_the_dashboard").prints_all(&[
        "receives webhooks from Stripe at https://hooks.example.com/webhooks/other",
        "register this address at Stripe: Dashboard",
    ]);
    // No page says where senders of the specification have their addresses.
    deployed
        .run(&["add", "jobs", "--provider", "standard_webhooks"])
        .exits(0)
        .prints("register this address at Standard");
}

/// Slack asks the address a question, which only a stored endpoint answers. What Notion sends to the address, nobody sees.
#[test]
fn an_endpoint_that_answers_a_question_is_stored_before_its_address_is_registered() {
    let deployed = Deployed::new("endpoint", &[("WebhookUrl", "https://hooks.example.com/webhooks/")]);
    let add = ["endpoint", "add", "team", "--provider", "slack", "--stack", "inbox"];
    let secret = "0123456789abcdef0123456789abcdef\n";
    let added = deployed.workspace.run_at_terminal(&add, &deployed.variables, secret).exits(0);
    let shown = text(&added);
    let lines = [
        "1. The endpoint's address: https://hooks.example.com/webhooks/team",
        "2. Give its secret here",
        "secret:",
        "endpoint team receives webhooks from Slack",
        "3. Register the address at Slack (Events API, interactivity, commands): App",
    ];
    let places = lines.map(|line| shown.find(line).unwrap_or_else(|| panic!("{line}: {shown}")));
    assert!(places.is_sorted() && shown.matches("Register").count() == 1, "{places:?}: {shown}");
    deployed.run(&["add", "other", "--provider", "slack"]).exits(2).prints("issues its secrets and signs");
    deployed
        .run(&["add", "wiki", "--provider", "notion"])
        .exits(2)
        .prints_all(&["Notion sends its secret to the address", "Nothing was written"]);
}

/// As people copy it, and what they copy in its place.
#[test]
fn a_secret_is_taken_out_of_what_was_pasted_and_the_document_holds_it_alone() {
    let workspace = Workspace::new();
    let give = |arguments: &[&str], input: &str| {
        workspace.run_with_input(&[&["endpoint"], arguments, &["--secret", "-"]].concat(), input)
    };
    let secret = || {
        let document: serde_json::Value =
            serde_json::from_str(&workspace.read(".hookonce/endpoints/shop.json")).unwrap();
        document["secrets"][0].as_str().unwrap().to_owned()
    };
    give(&["add", "shop", "--provider", "stripe"], "\u{feff}STRIPE_SECRET=\"whsec_pasted_and_kept_1\"\r\n")
        .exits(0)
        .prints_all(&["taken without", "byte order mark", "the name in front", "quotation marks"])
        .omits("whsec_pasted");
    assert_eq!(secret(), "whsec_pasted_and_kept_1");
    give(&["rotate", "shop"], "'whsec_pasted_and_kept_2'").exits(0).prints("quotation marks").omits("whsec_pasted");
    assert_eq!(secret(), "whsec_pasted_and_kept_2");
    give(&["rotate", "shop"], "STRIPE_SECRET_KEY=rk_live_pasted_by_mistake")
        .exits(2)
        .prints_all(&["a restricted API key of Stripe", "the secret begins with `whsec_`"])
        .omits("pasted_by");
    let supabase = ["add", "auth", "--provider", "standard_webhooks"];
    give(&supabase, "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .exits(0)
        .prints("the version `v1,`")
        .prints("not for Supabase auth hooks");

    let file = workspace
        .write("endpoints.json", br#"{"id": "a", "provider": "github", "secrets": ["'0f9c1d8e7b6a5f4e3d2c'"]}"#);
    let imported = workspace.run(&["endpoint", "import", &file]).exits(2);
    imported.prints_all(&["a: a secret has quotation marks around it", "store the secret alone"]).omits("0f9c1d");
}

#[test]
fn who_stores_a_secret_of_an_app_is_told_by_each_command_that_sees_it() {
    let workspace = Workspace::new();
    let (app, api) = ("can sign for every customer", "a credential of the provider's API");
    let add = |id: &str, provider: &str| {
        let add = ["endpoint", "add", id, "--provider", provider, "--secret", "-"];
        workspace.run_with_input(&add, "0123456789abcdef0123456789abcdef").exits(0)
    };
    add("shop-1", "shopify").prints_all(&[app, api]);
    add("shop-2", "shopify").prints_all(&[app, api]);
    add("slack", "slack").prints(app).omits(api);
    let perhaps = "if it is the secret of an app";
    add("repo", "github").prints(perhaps).omits(app).omits(api);
    workspace
        .run(&["endpoint", "check"])
        .exits(0)
        .prints_all(&["shop-1: this secret is the app's", app, api])
        .omits("repo: this");
    let checked = lines(&workspace.run(&["endpoint", "check", "--json"]).exits(0));
    let warnings = |id: &str| {
        let line = checked.iter().find(|line| line["document"] == id).unwrap();
        line["warnings"].as_array().unwrap().len()
    };
    assert_eq!(["shop-1", "slack", "repo"].map(warnings), [2, 1, 1]);
    let entries = br#"{"id": "bulk-1", "provider": "slack", "secrets": ["0123456789abcdef0123456789abcd01"]}
{"id": "bulk-2", "provider": "slack", "secrets": ["0123456789abcdef0123456789abcd02"]}
{"id": "bulk-3", "provider": "stripe", "secrets": ["whsec_0123456789abcdef"]}"#;
    let file = workspace.write("endpoints.jsonl", entries);
    let imported = workspace.run(&["endpoint", "import", &file]).exits(0);
    imported.prints_all(&["bulk-1, bulk-2: this secret is the app's", app]).omits("bulk-3");
    let again = lines(&workspace.run(&["endpoint", "import", &file, "--json"]).exits(0));
    assert_eq!(again[0]["warnings"].as_array().unwrap().len(), 1);
    let doctor = workspace.run(&["doctor"]);
    doctor.prints_all(&[
        "endpoints: bulk-1, bulk-2, shop-1, shop-2, slack: this secret is the app's",
        "endpoints: shop-1, shop-2: this secret is a",
        "endpoints: shop-1, shop-2: they share a secret",
    ]);
}

#[test]
fn a_document_is_checked_before_it_is_sent_anywhere() {
    let workspace = Workspace::new();
    let add = |every| workspace.run(&["endpoint", "add", "repo", "--provider", "github", "--expect-every", every]);
    add("soon").exits(2).prints("expect_every is not a time from 1h to 30days");
    add("26h").exits(0);
    workspace.run(&["endpoint", "show", "repo"]).exits(0).prints("26h");
    for (document, code, expected) in [
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
        (r#"{"provider": "stripe", "secrets": ["sk_live_abcdefghijklmnop"]}"#, 0, "no form of this provider's secrets"),
        (r#"{"provider": "stripe", "secrets": ["'whsec_a_signing_secret'"]}"#, 0, "no form of this provider's secrets"),
        (r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"], "expect_every": "26h"}"#, 0, "valid"),
        (r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"], "expect_every": "30days"}"#, 0, "valid"),
        (
            r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"], "expect_every": "59m"}"#,
            1,
            "expect_every is not a time from 1h to 30days",
        ),
        (
            r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"], "expect_every": "31days"}"#,
            1,
            "expect_every is not a time from 1h to 30days",
        ),
        (
            r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"], "expect_every": "daily"}"#,
            1,
            "expect_every is not a time from 1h to 30days",
        ),
        (r#"{"provider": "nobody", "secrets": ["s"]}"#, 1, "catalog"),
        (r#"{"provider": "stripe", "secrets": ["s"], "colour": 1}"#, 1, "`col...` (6 bytes): unknown field"),
        ("{", 1, "line 1"),
    ] {
        let file = workspace.write("endpoint.json", document.as_bytes());
        workspace.run(&["endpoint", "check", &file]).exits(code).prints(expected);
    }
    workspace.run(&["endpoint", "check", "nothing.json"]).exits(2);
}

#[test]
fn a_broken_document_hides_no_other() {
    let workspace = Workspace::new();
    workspace.run(&["endpoint", "add", "shop", "--provider", "stripe"]).exits(0);
    workspace.write(".hookonce/endpoints/bad.json", b"{");
    let listed = workspace.run(&["endpoint", "list"]).exits(0);
    let [out, error] = [listed.stdout, listed.stderr].map(|printed| String::from_utf8(printed).unwrap());
    assert!(out.contains("shop") && error.contains("endpoint bad:"), "{out}{error}");
    workspace.run(&["endpoint", "list", "--json"]).prints("changed_at_ms");
    workspace.run(&["endpoint", "remove", "bad"]).exits(0);
    // It is gone.
    workspace.run(&["endpoint", "remove", "bad"]).exits(1);
}

/// A function takes such a secret, and the provider may really have given it.
#[test]
fn a_secret_of_an_odd_form_is_named_and_can_be_rotated_away() {
    let workspace = Workspace::new();
    let add = ["endpoint", "add", "shop", "--provider", "stripe", "--secret", "-"];
    workspace.run_with_input(&add, "whsec_a_signing_secret").exits(0);
    workspace.run(&["endpoint", "check"]).exits(0).omits("no form");
    workspace
        .write(".hookonce/endpoints/shop.json", br#"{"provider": "stripe", "secrets": ["sk_live_abcdefghijklmnop"]}"#);
    let odd = "shop: a secret has no form of this provider's secrets";
    workspace.run(&["endpoint", "check"]).exits(0).prints(odd);
    workspace.run(&["doctor"]).prints(&format!("endpoints: {odd}"));
    let rotate = ["endpoint", "rotate", "shop", "--secret", "-"];
    workspace.run_with_input(&rotate, "whsec_another_signing_secret").exits(0);
    workspace.run(&["endpoint", "rotate", "shop", "--finish", "--yes"]).exits(0);
    workspace.run(&["endpoint", "check"]).exits(0).omits("no form");
}

/// Whoever named an endpoint as a tenant would read and change its items.
#[test]
fn an_endpoint_shares_its_facts_only_by_its_own_document() {
    let workspace = Workspace::new();
    let run = |more: &[&str]| workspace.run(&[&["endpoint"], more].concat());
    let add = |id: &str, more: &[&str]| run(&[&["add", id, "--provider", "stripe"], more].concat());
    add("shop", &[]).exits(0);
    add("eu", &["--tenant", "shop"]).exits(2).prints("so shop would share");
    add("eu", &["--tenant", "acme"]).exits(0);
    // Nobody reads every document to add one. The check of all finds it.
    add("acme", &[]).exits(0);
    run(&["check"]).exits(1).prints_all(&["acme: not valid", "eu: valid"]);
    let lines = lines(&run(&["check", "--json"]).exits(1));
    let of = |id: &str| lines.iter().find(|line| line["document"] == id).unwrap();
    assert_eq!((&of("eu")["valid"], &of("eu")["provider"]), (&true.into(), &"stripe".into()), "{lines:?}");
    assert!(of("acme")["problem"].is_string() && of("acme")["try"].is_string(), "{lines:?}");
    run(&["remove", "acme"]).exits(0);
    add("acme", &["--tenant", "acme"]).exits(0);
    // Both documents say so.
    add("us", &["--tenant", "acme"]).exits(0);
    run(&["check"]).exits(0);
    let list = String::from_utf8(run(&["list"]).stdout).unwrap();
    let row = list.lines().find(|row| row.trim_start().starts_with("us ")).unwrap();
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
    send("localhost:8787", "x-github-event:push").exits(2).prints("http://");
    send("http://127.0.0.1:1/webhooks/x", "x github event:push").exits(2).prints("NAME:VALUE");
    let discord = ["send", "--provider", "discord", "--secret", "-", "--file", &file, "--url", "http://127.0.0.1:1/x"];
    give_a_secret(&workspace, &discord).exits(2).prints("itself send an event, to `hookonce dev");
}

/// A proxy is only for other machines.
#[test]
fn this_machine_is_not_reached_through_a_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let workspace = Workspace::new();
    let file = workspace.write("body.json", b"{}");
    workspace.run(&["endpoint", "add", "shop", "--provider", "stripe"]).exits(0);
    let arguments = ["send", "--provider", "stripe", "--file", &file, "--url", "http://127.0.0.1:1/x"];
    let variables = ["HTTP_PROXY", "http_proxy", "ALL_PROXY"].map(|name| (name.to_owned(), url.clone()));
    workspace.run_with_environment(&arguments, &variables).exits(3);
    assert!(proxy.accept().is_err(), "no request reached the proxy");
}

/// Rows as the search returns them: one endpoint was refused last, the other one accepted long ago.
fn logged_day(aws: &Aws) {
    let at = |hours: u64| ((now() - hours * 3_600) * 1_000).to_string();
    let text = |text: &str| text.to_owned();
    let mut account = aws.account();
    for id in ["shop", "quiet"] {
        account.put("endpoint", id, r#"{"provider": "github", "secrets": ["0123456789abcdef"]}"#);
    }
    account.logged = vec![
        vec![
            ("endpoint", text("shop")),
            ("answer", text("none")),
            ("accepted", text("40")),
            ("older_secret", text("4")),
            ("last_older_secret", at(5)),
            ("duplicates", text("2")),
            ("last_accepted", at(3)),
            ("last", at(3)),
        ],
        vec![
            ("endpoint", text("shop")),
            ("answer", text("signature_mismatch")),
            ("requests", text("7")),
            ("last", at(1)),
        ],
        vec![
            ("endpoint", text("shop")),
            ("answer", text("timestamp_missing")),
            ("requests", text("2")),
            ("last", at(2)),
        ],
    ];
}

#[test]
fn the_endpoints_of_a_deployed_stack_say_what_its_log_says_of_them() {
    let deployed = Deployed::new("endpoint", &[]);
    logged_day(&deployed.aws);
    let listed = json(&deployed.run(&["list", "--json"]).exits(0));
    let of = |id: &str| listed.as_array().unwrap().iter().find(|it| it["id"] == id).unwrap()["answered"].clone();
    let shop = of("shop");
    assert_eq!((&shop["accepted_24h"], &shop["refused_24h"]), (&object!(40), &object!(9)));
    assert_eq!(shop["last_refusal"]["code"], "signature_mismatch", "the latest one");
    let age = now() * 1_000 - shop["last_accepted_at_ms"].as_u64().unwrap();
    assert!((3 * 3_600_000..3 * 3_600_000 + 60_000).contains(&age), "{age}");
    assert!(of("quiet")["last_accepted_at_ms"].is_null());
    assert_eq!((&shop["old_secret_24h"], &of("quiet")["old_secret_24h"]), (&object!(4), &object!(0)));
    assert_eq!(deployed.aws.account().count("StartQuery"), 1, "one search, which is asked until it is done");
    let people = deployed.run(&["list"]).exits(0);
    people.prints_all(&["LAST ACCEPTED", "signature_mismatch", "not in 24h", "13 KB of the webhook function's log"]);
    // Which secret is in use is a question only while there are several.
    deployed.run(&["show", "shop"]).exits(0).omits("older secrets");
    assert_eq!(deployed.aws.account().count("StartQuery"), 2);
    let several = r#"{"provider": "github", "secrets": ["0123456789abcdef", "fedcba9876543210"]}"#;
    deployed.aws.account().put("endpoint", "shop", several);
    let used = "verified 4 of the 40 accepted in 24h, the latest at ";
    deployed.run(&["show", "shop"]).exits(0).prints_all(&[
        "older secrets",
        used,
        "13 KB of the webhook function's log",
    ]);
    deployed.aws.account().put("endpoint", "quiet", several);
    deployed.run(&["show", "quiet"]).exits(0).prints("verified 0 of the 0 accepted in 24h\n");
}

/// The running stack counts it itself.
#[test]
fn a_delivery_that_an_older_secret_verified_is_counted() {
    let stack = Stack::with(1, 0);
    let url = format!("{}/webhooks/stripe", stack.announced()["url"].as_str().unwrap());
    let older = json(&stack.run(&["endpoint", "show", "stripe", "--reveal", "--json"]))["secrets"][0].clone();
    stack
        .run_with_input(&["endpoint", "rotate", "stripe", "--secret", "-"], "whsec_another_secret_of_enough_bytes")
        .exits(0);
    wait_until("both secrets are taken", || {
        let by_newest = ["trigger", "stripe.invoice.paid", "--json"];
        stack.run(&by_newest).status.success()
    });
    let by_older = ["trigger", "stripe.invoice.paid", "--url", &url, "--secret", "-"];
    stack.run_with_input(&by_older, older.as_str().unwrap()).exits(0);
    wait_until("it is counted", || {
        let listed = json(&stack.run(&["endpoint", "list", "--json"]));
        listed.as_array().unwrap().iter().any(|it| it["id"] == "stripe" && it["answered"]["old_secret_24h"] == 1)
    });
    stack.run(&["endpoint", "show", "stripe"]).exits(0).prints_all(&["verified 1 of the ", ", the latest at "]);
}

/// Who may not read the log still sees the endpoints.
#[test]
fn a_log_that_refuses_hides_no_endpoint() {
    let deployed = Deployed::new("endpoint", &[]);
    logged_day(&deployed.aws);
    deployed.aws.account().snags.push_back(("StartQuery", Interception::Answered("AccessDeniedException")));
    let listed = deployed.run(&["list"]).exits(0);
    listed.prints_all(&["shop", "quiet", "is not known", "ask for the permission logs:StartQuery"]).omits("REFUSED");
    deployed.aws.account().snags.push_back(("StartQuery", Interception::Answered("AccessDeniedException")));
    assert!(json(&deployed.run(&["list", "--json"]))[0]["answered"].is_null());
}
