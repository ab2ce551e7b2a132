//! `hookonce destination`, here and on a deployed stack: ready-made documents, documents of your own, and what a call
//! says.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use serde_json::{Value, json as object};

use crate::aws::Deployed;
use crate::stacks::{Stack, lines};
use crate::support::{Ended, Workspace, json, listen, root, wait_until};

fn run(workspace: &Workspace, arguments: &[&str]) -> Output {
    workspace.run(&[&["destination"], arguments].concat())
}

fn give(workspace: &Workspace, arguments: &[&str], input: &str) -> Output {
    workspace.run_with_input(&[&["destination"], arguments].concat(), input)
}

/// It ended with this code, and printed this and no secret.
#[track_caller]
fn check(output: Output, code: i32, expected: &str) {
    output.exits(code).prints(expected).omits("hush");
}

fn stored(workspace: &Workspace, id: &str) -> Value {
    serde_json::from_str(&workspace.read(&format!(".hookonce/destinations/{id}.json"))).unwrap()
}

/// Answers every call with this status. Ends with the test's process.
pub(crate) fn receiver(status: u16) -> u16 {
    let answer = format!("HTTP/1.1 {status} It\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let address = listen(move |mut call| {
        let _ = call.read(&mut vec![0; 65_536]);
        let _ = call.write_all(answer.as_bytes());
    });
    address.port()
}

/// A port where nobody listens.
const fn nobody() -> u16 {
    9
}

#[test]
fn a_ready_made_destination_needs_its_secret_and_nothing_else() {
    let workspace = Workspace::new();
    for (arguments, expected) in [
        (&["add", "stripe"][..], "pass `--secret -`"),
        (&["add", "stripe", "--secret", "sk_live_hush"], "every process of this machine can read it"),
        (&["add", "pay", "--ready", "nobody", "--secret", "-"], "no ready-made document"),
        (&["add", "adyen", "--secret", "-"], "no API key came"),
    ] {
        check(run(&workspace, arguments), 2, expected);
    }
    check(give(&workspace, &["add", "adyen", "--secret", "-"], "hush\n"), 2, "pass --url URL");

    let expected = ["destination stripe is keyed", "https://docs.stripe.com/api/idempotent_requests"];
    give(&workspace, &["add", "stripe", "--secret", "-"], "sk_live_hush\n").exits(0).prints_all(&expected);
    let document = stored(&workspace, "stripe");
    assert_eq!(document["headers"]["authorization"], "Bearer sk_live_hush");
    assert_eq!((&document["class"], &document["key_window_hours"]), (&object!("keyed"), &object!(24)));
    let path = workspace.path(".hookonce/destinations/stripe.json");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);

    check(give(&workspace, &["add", "stripe", "--secret", "-"], "other"), 2, "already exists");
    assert_eq!(stored(&workspace, "stripe"), document);
    give(&workspace, &["rotate", "stripe", "--secret", "-"], "sk_live_hush2").exits(0);
    assert_eq!(mode(), 0o600, "another secret opens it to nobody");
    let second = ["add", "stripe-eu", "--ready", "stripe", "--secret", "-", "--account", "eu"];
    give(&workspace, &second, "sk_live_eu").exits(0);
    assert_eq!(stored(&workspace, "stripe-eu")["account"], "eu");
    let choice = ["add", "slack", "--secret", "-", "--class", "at_least_once"];
    give(&workspace, &choice, "xoxb-hush").exits(0);
    assert_eq!(stored(&workspace, "slack")["class"], "at_least_once");
    for shown in [&["list"][..], &["list", "--json"], &["show", "stripe"], &["show", "stripe", "--json"], &["check"]] {
        check(run(&workspace, shown), 0, "stripe");
    }
    run(&workspace, &["show", "stripe", "--reveal"]).prints("sk_live_hush");
}

#[test]
fn a_destination_of_your_own_is_checked_field_by_field() {
    let workspace = Workspace::new();
    let url = ["--url", "https://api.example.com/v1"];
    for (arguments, expected) in [
        (&["--class", "keyed"][..], "key_window_hours: `keyed` requires it"),
        (&["--class", "exactly_once"], "invalid value 'exactly_once'"),
        (&[], "class: say `keyed`"),
        (&["--class", "at_least_once", "--header", "Authorization=Bearer hush"], "pass `--header authorization=-`"),
        (&["--class", "at_least_once", "--secret", "-"], "no secret came"),
        (&["--class", "at_least_once", "--url", "http://api.example.com"], "plain http needs --allow-private"),
    ] {
        let all = if arguments.contains(&"--url") { arguments.to_vec() } else { [&url[..], arguments].concat() };
        check(run(&workspace, &[&["add", "own"], &all[..]].concat()), 2, expected);
    }
    let several = ["add", "own", "--class", "keyed", "--url", "http://api.example.com"];
    check(run(&workspace, &several), 2, "destination own:\n  ");
    let own = ["add", "own", "--class", "at_least_once", "--header", "x-api-key=-", "--header", "accept=text/plain"];
    give(&workspace, &[&own[..], &url].concat(), "hush").exits(0);
    assert_eq!(stored(&workspace, "own")["headers"], object!({"accept": "text/plain", "x-api-key": "hush"}));

    let signed =
        run(&workspace, &[&["add", "shop", "--class", "at_least_once", "--signed"], &url[..]].concat()).exits(0);
    let secret = String::from_utf8(signed.stdout).unwrap().trim().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert_eq!(stored(&workspace, "shop")["standard_webhooks_secret"], secret.as_str());

    let file = workspace.write("own.json", br#"{"kind": "http", "url": "https://a.example", "class": "at_most_once"}"#);
    run(&workspace, &["add", "file", "--file", &file]).exits(0);
    for (document, code, expected) in [
        (r#"{"kind": "http", "url": "https://a.example", "class": "at_most_once"}"#, 0, "valid"),
        (r#"{"kind": "http", "url": "https://u:hush@a.example", "class": "at_most_once"}"#, 1, "url: its host"),
        (r#"{"kind": "http", "colour": "hush"}"#, 1, "`col...` (6 bytes): unknown field"),
        ("{\n\"kind\": \"http\",\n hush}", 1, "line 3"),
    ] {
        let file = workspace.write("check.json", document.as_bytes());
        check(run(&workspace, &["check", &file]), code, expected);
    }
    // What stands in a file that a person edited stands in nobody's way, and does not reach the terminal.
    workspace.write(".hookonce/destinations/bad.json", b"{\"kind\": \"http\", \"\x1b[31m\": 1}");
    run(&workspace, &["check"]).exits(1).prints_all(&["bad: not valid", "own: valid"]).omits("\u{1b}");
    let checked = lines(&run(&workspace, &["check", "--json"]).exits(1));
    for (id, is_valid) in [("bad", false), ("own", true)] {
        assert!(checked.iter().any(|line| line["document"] == id && line["valid"] == is_valid), "{id}: {checked:?}");
    }
    run(&workspace, &["remove", "bad"]).exits(0);
}

#[test]
fn what_add_cannot_place_or_keep_secret_is_refused() {
    let workspace = Workspace::new();
    let own = ["add", "own", "--url", "https://api.example.com/v1", "--class", "at_least_once"];
    for name in ["authorization", "Cookie", "x-api-key"].into_iter().chain(hookonce_providers::CREDENTIAL_WORDS) {
        let header = format!("{name}=hush");
        check(run(&workspace, &[&own[..], &["--header", &header]].concat()), 2, "=-`");
    }
    let unplaced = give(&workspace, &[&own[..], &["--secret", "-"]].concat(), "hush");
    check(unplaced, 2, "does not say where the secret goes");
    for more in [&["--secret", "-"][..], &["--signed"], &["--ready", "stripe"]] {
        run(&workspace, &[&["add", "own", "--file", "-"], more].concat()).exits(2);
    }
    assert!(!workspace.path(".hookonce/destinations/own.json").exists());

    let file = ["add", "own", "--file", "-", "--header", "x-token=-"];
    check(give(&workspace, &file, "{}"), 2, "`--file -` reads all of standard input");

    // Who gives an address and a class writes a document of their own, whatever its name.
    let named = ["add", "stripe", "--url", "https://api.example.com/v1", "--class", "at_least_once"];
    run(&workspace, &named).exits(0);
    assert_eq!(stored(&workspace, "stripe")["headers"], Value::Null);
    // A ready-made document promises more than the class that is chosen.
    let weaker = ["add", "once", "--ready", "stripe", "--secret", "-", "--class", "at_most_once"];
    give(&workspace, &weaker, "sk_1").exits(0);
    assert_eq!(stored(&workspace, "once")["key_window_hours"], Value::Null);
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
    give(&workspace, &[&own[..], &["--signed", "--secret", "-"]].concat(), secret).exits(0).omits(secret);
    assert_eq!(stored(&workspace, "own")["standard_webhooks_secret"], secret);
    let document = r#"{"kind": "http", "url": "https://a.example", "class": "at_most_once"}"#;
    give(&workspace, &["add", "piped", "--file", "-"], document).exits(0);

    // A broken document stands in nobody's way, and an address may be a secret.
    workspace.write(".hookonce/destinations/bad.json", b"{");
    give(&workspace, &["add", "discord", "--secret", "-"], "1/hush").exits(0);
    for shown in [&["list"][..], &["list", "--json"], &["show", "discord"], &["show", "discord", "--json"]] {
        check(run(&workspace, shown), 0, "discord");
    }
    for absent in [&["show", "none"][..], &["rotate", "none"], &["remove", "none"], &["test", "none", "--yes"]] {
        check(run(&workspace, absent), 1, "none");
    }
}

/// Some callees take the address for the proof of who calls.
#[test]
fn an_address_that_is_a_secret_is_never_on_the_command_line() {
    let workspace = Workspace::new();
    let class = ["--class", "at_most_once"];
    for address in [
        "https://discord.com/api/webhooks/1/hush",
        "https://hooks.slack.com/services/T0/B0/hush",
        "https://chat.example.com/in?token=hush",
        "https://n8n.example.com/webhook/2f0c1ab6-9d35-4cf9-8f5e-0d7ahush7a11",
    ] {
        check(run(&workspace, &[&["add", "chat", "--url", address], &class[..]].concat()), 2, "pass `--url -`");
        give(&workspace, &[&["add", "chat", "--url", "-"], &class[..]].concat(), address).exits(0).omits("hush");
        assert_eq!(stored(&workspace, "chat")["url"], address);
        run(&workspace, &["remove", "chat"]).exits(0);
    }
    let both = ["add", "own", "--url", "-", "--header", "x-id=7", "--header", "x-token=-"];
    give(&workspace, &[&both[..], &class].concat(), "https://a.example/in\nhush\n").exits(0);
    let document = stored(&workspace, "own");
    assert_eq!(document["url"], "https://a.example/in");
    assert_eq!(document["headers"], object!({"x-id": "7", "x-token": "hush"}));
}

#[test]
fn a_new_secret_that_does_not_fit_changes_nothing() {
    let workspace = Workspace::new();
    let url = ["--url", "https://api.example.com/v1", "--class", "at_least_once"];
    run(&workspace, &[&["add", "shop", "--signed"], &url[..]].concat()).exits(0);
    let headers = ["--header", "x-api-key=-", "--header", "accept=text/plain"];
    give(&workspace, &[&["add", "own"], &url[..], &headers].concat(), "old").exits(0);
    let before = (stored(&workspace, "shop"), stored(&workspace, "own"));
    for (arguments, given, expected) in [
        (&["rotate", "shop", "--secret", "-"][..], "hush", "standard_webhooks_secret: it must be"),
        (&["rotate", "shop", "--url", "--secret", "-"], "http://hush.example", "plain http needs"),
        (&["rotate", "own", "--secret", "-"], "hush", "which secret is meant"),
        (&["rotate", "own", "--header", "x-other", "--secret", "-"], "hush", "no header x-other"),
        (&["rotate", "own", "--header", "x-api-key", "--secret", "-"], "hush\u{7f}", "headers.x-api-key"),
        (&["rotate", "own", "--header", "x-api-key", "--secret", "-"], " \n", "no new secret came"),
    ] {
        check(give(&workspace, arguments, given), 2, expected);
    }
    assert_eq!((stored(&workspace, "shop"), stored(&workspace, "own")), before);
    let own = ["rotate", "own", "--header", "X-API-KEY", "--secret", "-"];
    give(&workspace, &own, "new").exits(0);
    assert_eq!(stored(&workspace, "own")["headers"], object!({"accept": "text/plain", "x-api-key": "new"}));
    // It is called at least once.
    let address = give(&workspace, &["rotate", "shop", "--url", "--secret", "-"], "https://b.example/hush");
    check(address, 0, "repeated with their keys");
}

/// One call, its answer, and what would become of an effect.
#[test]
fn a_test_makes_one_call_and_prints_what_its_answer_means() {
    let workspace = Workspace::new();
    let local = |status: u16| format!("http://127.0.0.1:{}/in", receiver(status));
    let (closed, guarded) = (format!("http://127.0.0.1:{}", nobody()), format!("https://localhost:{}", nobody()));
    let not_tls = format!("https://127.0.0.1:{}", receiver(200));
    let private = &["--allow-private"][..];
    for (id, class, url, more, answer, outcome, then) in [
        ("done", "at_least_once", local(200), private, Ok(200), "done", "DELIVERED"),
        ("refused", "at_least_once", local(400), private, Ok(400), "refused", "REFUSED"),
        ("slow", "at_least_once", local(429), private, Ok(429), "not_done", "called again later"),
        ("open", "at_least_once", local(500), private, Ok(500), "unclear", "called again with the same key"),
        ("once", "at_most_once", local(500), private, Ok(500), "unclear", "UNKNOWN_OUTCOME"),
        ("nobody", "at_most_once", closed, private, Err("connect"), "not_done", "called again later"),
        ("dns", "at_most_once", "https://nobody.invalid".to_owned(), &[], Err("dns"), "not_done", "called again later"),
        ("guard", "at_most_once", guarded, &[], Err("address_refused"), "not_done", "called again later"),
        ("tls", "at_most_once", not_tls, private, Err("tls"), "not_done", "called again later"),
    ] {
        run(&workspace, &[&["add", id, "--class", class, "--url", &url], more].concat()).exits(0);
        let report = json(&run(&workspace, &["test", id, "--yes", "--json"]).exits(i32::from(outcome != "done")));
        let fields = ["status", "trouble", "outcome"].map(|name| report[name].clone());
        assert_eq!(object!(fields), object!([answer.ok(), answer.err(), outcome]), "{id}");
        assert!(report["then"].as_str().unwrap().contains(then), "{id}: {report}");
    }
    let url = local(401);
    run(&workspace, &["add", "denied", "--class", "at_least_once", "--allow-private", "--url", &url]).exits(0);
    run(&workspace, &["test", "done"]).exits(2).prints_all(&["one real POST to 127.0.0.1", "pass --yes"]);
    run(&workspace, &["test", "done", "--yes", "--file", "none"]).exits(2).prints("reading none failed");
    run(&workspace, &["test", "done", "--yes", "--path", "/../x"]).exits(1).prints("nothing has left this machine");
    for (id, expected) in
        [("refused", "does not know this payload"), ("denied", "destination rotate"), ("tls", "certificate")]
    {
        run(&workspace, &["test", id, "--yes"]).prints(expected);
    }
}

#[test]
fn a_new_secret_leaves_the_callee_as_it_is_unless_the_account_changes() {
    let workspace = Workspace::new();
    give(&workspace, &["add", "stripe", "--secret", "-"], "sk_1").exits(0);
    check(run(&workspace, &["rotate", "stripe"]), 2, "only the callee can make this secret");
    let rotate = ["rotate", "stripe", "--secret", "-"];
    give(&workspace, &rotate, "sk_2\n").exits(0).prints("repeated with their keys").omits("sk_2");
    assert_eq!(stored(&workspace, "stripe")["headers"]["authorization"], "Bearer sk_2");
    give(&workspace, &rotate, "sk_2").prints("nothing was written");
    give(&workspace, &[&rotate[..], &["--account", "new"]].concat(), "sk_3").prints("UNKNOWN_OUTCOME");
    assert_eq!(stored(&workspace, "stripe")["account"], "new");

    give(&workspace, &["add", "discord", "--secret", "-"], "1/token").exits(0);
    let whole = "https://discord.com/api/webhooks/2/other";
    give(&workspace, &["rotate", "discord", "--url", "--secret", "-"], whole).exits(0);
    assert_eq!(stored(&workspace, "discord")["url"], whole);
    check(give(&workspace, &["rotate", "discord", "--secret", "-"], "x"), 2, "which secret is meant");
}

/// The page of ready-made documents says what the command knows.
#[test]
fn the_page_lists_every_ready_made_document() {
    let listed = json(&Workspace::new().run(&["destination", "list", "--ready", "--json"]));
    let mut table = String::from("| name | class | key | why | address | note |\n|---|---|---|---|---|---|\n");
    for ready in listed.as_array().unwrap() {
        let document = &ready["document"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut place = [("key_header", "header"), ("key_json_pointer", "field")].into_iter();
        let place = place.find_map(|(field, kind)| Some(format!("{kind} `{}`", document[field].as_str()?)));
        let key = place.map_or_else(String::new, |place| format!("{place}, {} h", document["key_window_hours"]));
        let (class, because) = (text(&document["class"]), text(&ready["because"]));
        let row = [
            format!("`{}`", text(&ready["id"])),
            format!("`{class}`"),
            key,
            format!("[{because}]({})", text(&ready["source"])),
            ready["address_source"].as_str().map_or_else(String::new, |page| format!("[page]({page})")),
            text(&ready["note"]),
        ];
        table.extend(["| ", &row.join(" | "), " |\n"]);
    }
    let page = fs::read_to_string(root().join("docs/use/destinations.md")).unwrap();
    assert!(page.contains(&table), "docs/use/destinations.md must have this table:\n\n{table}");
}

#[test]
fn a_destination_of_a_stack_is_managed_with_the_same_words() {
    let stack = Deployed::new("destination", &[]);
    let url = ["--url", "https://127.0.0.1/v1", "--class", "at_least_once", "--allow-private"];
    let added = stack.run(&[&["add", "own", "--signed"], &url[..]].concat()).exits(0);
    let secret = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    let document = || stack.aws.account().document("destination", "own").unwrap();
    assert!(document().contains(&secret));
    stack.run(&[&["add", "own"], &url[..]].concat()).exits(2).prints("already exists");
    assert_eq!(json(&stack.run(&["list", "--json"]))[0]["id"], "own");
    stack.run(&["show", "own"]).omits(&secret);
    stack.run(&["show", "own", "--reveal"]).prints(&secret);
    stack.run(&["check"]).exits(0);
    stack.run(&["rotate", "own"]).exits(0);
    assert!(!document().contains(&secret), "another secret is in force");
    // The functions of a stack never call loopback, so the test of its destination does not either.
    let tested = json(&stack.run(&["test", "own", "--yes", "--json"]));
    assert_eq!(tested["trouble"], "address_refused");
    stack.run(&["remove", "own"]).exits(2).prints("pass --yes");
    stack.run(&["remove", "own", "--yes"]).exits(0);
    assert!(stack.aws.account().ids("destination").is_empty());
    stack.run(&["show", "own"]).exits(1);
}

const ROUTES: &str = r#"{"version": 1, "otherwise": "ignore", "routes": [
    {"name": "out", "consumer": "crm", "forward": ["crm"]}]}"#;

#[test]
fn effects_that_wait_are_listed_and_keep_their_destination() {
    let workspace = Workspace::routed(ROUTES);
    let url = format!("http://127.0.0.1:{}", nobody());
    let crm = ["add", "crm", "--class", "at_least_once", "--allow-private", "--url", &url];
    run(&workspace, &crm).exits(0);
    let workspace = Stack::of(workspace);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let list = |more: &[&str]| json(&workspace.run(&[&["list", "--since", "1h", "--json"], more].concat()));
    wait_until("an effect waits", || list(&["--kind", "effect"])[0]["state"] == "PENDING");

    let effect = &list(&["--kind", "effect", "--destination", "crm"])[0];
    assert_eq!((&effect["effect"], &effect["destination"]), (&object!("forward:crm"), &object!("crm")));
    assert_eq!(list(&["--destination", "other"]), object!([]));
    assert_eq!(list(&["--kind", "event", "--state", "PENDING"]), object!([]));
    assert_eq!(list(&["--kind", "event"])[0]["effect"], Value::Null);
    assert_eq!(list(&["--kind", "effect"]).as_array().map(Vec::len), Some(1), "it is listed once");
    assert_eq!(list(&["--kind", "effect", "--state", "DELIVERED"]), object!([]));
    let status = json(&workspace.run(&["status", "--json"]));
    assert_eq!(status["effects"]["pending"], 1, "{status}");
    assert!(status["effects_queue"]["visible"].is_u64(), "{status}");
    let stats = json(&workspace.run(&["stats", "--since", "1h", "--kind", "effect", "--json"]));
    assert_eq!(stats["by"]["destination"], object!({"crm": 1}), "{stats}");

    check(run(&workspace, &["remove", "crm"]), 2, "waiting for it: 1 effect, 0 of which");
    run(&workspace, &["remove", "crm", "--yes"]).exits(0);
}

#[test]
fn a_queue_and_a_function_are_at_least_once_and_wait_on_a_laptop() {
    let workspace = Workspace::new();
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs.fifo";
    let queue = ["add", "jobs", "--queue", url];
    let function = ["add", "billing", "--function", "billing:live"];
    for arguments in [&queue[..], &function] {
        for class in ["keyed", "at_most_once"] {
            let refused = run(&workspace, &[arguments, &["--class", class]].concat()).exits(2);
            refused.prints("must be `at_least_once`: an answer may be lost");
        }
        run(&workspace, arguments).exits(0).prints_all(&["at least once", "calls URLs only"]);
        // As the stack on this machine: nothing leaves, so nobody is asked.
        let tested = run(&workspace, &["test", arguments[1]]).exits(1).omits("your own credentials");
        tested.prints_all(&["nothing has left this machine", "pass --stack NAME"]);
        let report = json(&run(&workspace, &["test", arguments[1], "--json"]));
        assert_eq!((&report["trouble"], &report["outcome"]), (&object!("no_url"), &object!("not_done")));
    }
    let document = object!({ "kind": "sqs", "url": url, "class": "at_least_once", "allow_private": false });
    assert_eq!(stored(&workspace, "jobs"), document);
    assert_eq!(stored(&workspace, "billing")["function"], "billing:live");
    for shown in [&["list"][..], &["list", "--json"]] {
        run(&workspace, shown).prints_all(&[url, "billing:live", "sqs", "lambda"]);
    }
    run(&workspace, &["show", "jobs"]).prints(url);
    run(&workspace, &["check"]).exits(0);
    let other = ["add", "plain", "--queue", "https://sqs.eu-west-1.amazonaws.com/jobs"];
    check(run(&workspace, &other), 2, "url: it must be the URL of a queue");
}
