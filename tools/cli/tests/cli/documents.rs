//! `hookonce endpoint --stack` against the table of documents: what it writes, and who else may write meanwhile.

use std::collections::BTreeMap;

use serde_json::{Value, json as object};

use crate::aws::{CALLER, Deployed, Interception, now, of_the_template, outputs_of};
use crate::stacks::{Stack, Tables};
use crate::support::{Ended, Workspace, json, text};
use crate::terminal::signature;

impl Deployed {
    fn empty() -> Self {
        Self::new("endpoint", &[])
    }

    fn added(id: &str) -> Self {
        let stack = Self::empty();
        stack.run(&["add", id, "--provider", "standard_webhooks"]).exits(0);
        stack
    }

    /// Lets the next requests of an operation meet these.
    fn meets<const N: usize>(&self, operation: &'static str, met: [Interception; N]) {
        self.aws.account().snags.extend(met.map(|met| (operation, met)));
    }

    fn document(&self, id: &str) -> Value {
        serde_json::from_str(&self.aws.account().document("endpoint", id).unwrap()).unwrap()
    }

    fn secrets(&self, id: &str) -> usize {
        self.document(id)["secrets"].as_array().unwrap().len()
    }

    fn puts(&self) -> usize {
        self.aws.account().count("PutItem")
    }
}

#[test]
fn an_endpoint_of_a_stack_is_managed_with_the_same_words() {
    let stack = Deployed::empty();
    let added = stack.run(&["add", "shop", "--provider", "standard_webhooks", "--on-store-outage", "enqueue"]).exits(0);
    let secret = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert_eq!(stack.document("shop")["secrets"], object!([secret]));
    {
        let account = stack.aws.account();
        let item = &account.documents[&("endpoint".to_owned(), "shop".to_owned())];
        assert_eq!(
            (&item["changed_by"]["S"], &item["changed_with"]["S"]),
            (&object!(CALLER), &object!(env!("CARGO_PKG_VERSION")))
        );
    }

    stack.run(&["add", "shop", "--provider", "standard_webhooks"]).exits(2).prints("already exists");
    assert_eq!(stack.document("shop")["secrets"], object!([secret]), "the first one stands");

    assert_eq!(json(&stack.run(&["list", "--json"]))[0]["id"], "shop");
    stack.run(&["show", "shop"]).prints_all(&["<hidden>", "enqueue"]).omits(&secret);
    stack.run(&["show", "shop", "--reveal"]).prints(&secret);
    stack.run(&["check"]).exits(0);

    stack.run(&["remove", "shop"]).exits(2).prints("pass --yes");
    stack.run(&["remove", "shop", "--yes"]).exits(0);
    assert!(stack.aws.account().ids("endpoint").is_empty());
    stack.run(&["show", "shop"]).exits(1);
}

#[test]
fn a_lost_reply_is_no_other_writer() {
    let stack = Deployed::empty();
    for (operation, arguments) in [
        ("PutItem", &["add", "shop", "--provider", "standard_webhooks"][..]),
        ("PutItem", &["rotate", "shop"]),
        ("DeleteItem", &["remove", "shop", "--yes"]),
    ] {
        stack.meets(operation, [Interception::ReplyLost]);
        stack.run(arguments).exits(0);
    }
    assert_eq!((stack.puts(), stack.aws.account().ids("endpoint").len()), (4, 0));
}

#[test]
fn a_rotation_that_meets_another_writer_writes_nothing() {
    let stack = Deployed::added("shop");
    let mut others = stack.document("shop");
    others["on_store_outage"] = object!("enqueue");
    let others = others.to_string();
    stack.meets("PutItem", [Interception::Overtaken(others.clone())]);
    stack.run(&["rotate", "shop"]).exits(2).prints_all(&[
        "endpoint shop was changed by someone else after it was read; nothing was written",
        "`hookonce endpoint show shop --stack inbox`",
    ]);
    assert_eq!(stack.aws.account().document("endpoint", "shop"), Some(others));
    stack.meets("PutItem", [Interception::Removed]);
    stack.run(&["rotate", "shop"]).exits(1).prints("there is no endpoint shop");
    assert!(stack.aws.account().ids("endpoint").is_empty(), "it does not come back");
}

#[test]
fn a_rotation_drops_no_secret_that_may_be_in_use_and_writes_nothing_twice() {
    let stack = Deployed::added("shop");
    for secrets in 2..=8 {
        stack.run(&["rotate", "shop"]).exits(0);
        assert_eq!(stack.secrets("shop"), secrets);
    }
    let before = stack.document("shop");
    stack.run(&["rotate", "shop"]).exits(2).prints("rotate shop --finish --stack inbox");
    assert_eq!(stack.document("shop"), before);
}

#[test]
fn the_same_secret_again_writes_nothing() {
    let workspace = Workspace::new();
    let secret = "whsec_0123456789abcdef";
    let stdin = |command: &str, more: &[&str]| {
        workspace.run_with_input(&[&["endpoint", command, "shop", "--secret", "-"], more].concat(), secret)
    };
    stdin("add", &["--provider", "stripe"]).exits(0);
    stdin("rotate", &[]).exits(0).prints("nothing was written");
    let shown = json(&workspace.run(&["endpoint", "show", "shop", "--reveal", "--json"]));
    assert_eq!(shown["secrets"], object!([secret]));
}

#[test]
fn secret_settings_are_hidden_and_public_ones_are_not() {
    let stack = Deployed::empty();
    let settings = r#""settings": {"verify_token": "a-token-of-meta", "public_url": "https://example.com/hook"}"#;
    let document =
        format!(r#"{{"provider": "whatsapp", "secrets": ["0123456789abcdef0123456789abcdef"], {settings}}}"#);
    stack.aws.account().put("endpoint", "chat", &document);
    for more in [&[][..], &["--json"]] {
        let shown = stack.run(&[&["show", "chat"], more].concat());
        let shown = shown.prints_all(&["verify_token", "https://example.com/hook"]);
        shown.omits("a-token-of-meta").omits("0123456789abcdef");
        stack.run(&[&["show", "chat", "--reveal"], more].concat()).prints("a-token-of-meta");
    }
}

#[test]
fn a_refusal_prints_the_next_step_and_no_secret() {
    let stack = Deployed::added("shop");
    let rotate = &["rotate", "shop"][..];
    let without_key = "AccessDeniedException: User is not authorized to perform: kms:Decrypt on this resource";
    for (operation, arguments, code, expected) in [
        ("PutItem", rotate, "ValidationException", "AWS rejects the name or the value"),
        ("PutItem", rotate, without_key, "ask for the permissions kms:Decrypt and kms:DescribeKey"),
        ("PutItem", rotate, "AccessDeniedException", "ask for the permission dynamodb:PutItem"),
        ("GetItem", rotate, "AccessDeniedException", "ask for the permission dynamodb:GetItem"),
        ("Query", &["list"], "AccessDeniedException", "ask for the permission dynamodb:Query"),
        (
            "DeleteItem",
            &["remove", "shop", "--yes"],
            "AccessDeniedException",
            "ask for the permission dynamodb:DeleteItem",
        ),
    ] {
        stack.meets(operation, [Interception::Answered(code)]);
        stack.run(arguments).exits(3).prints(expected).omits("whsec_");
    }
    assert_eq!(stack.secrets("shop"), 1);
}

#[test]
fn an_endpoint_that_changed_after_it_was_read_is_left_alone() {
    let stack = Deployed::added("shop");
    let changed = stack.document("shop").to_string() + " ";
    stack.meets("DeleteItem", [Interception::Overtaken(changed.clone())]);
    stack.run(&["remove", "shop", "--yes"]).exits(2).prints("was changed by someone else");
    assert_eq!(stack.aws.account().document("endpoint", "shop"), Some(changed));
}

#[test]
fn outputs_that_lack_a_part_are_refused_with_the_next_step() {
    let stack = Deployed::empty();
    let lacking = ["InboxTable", "DomainTable"].map(|name| (name.to_owned(), "a".to_owned()));
    stack.aws.account().stack = Some(BTreeMap::from(lacking));
    stack.run(&["add", "shop", "--provider", "standard_webhooks"]).exits(2).prints("deploy it again from this release");
    assert_eq!(stack.puts(), 0);
}

/// An entry of a file to import.
fn entry(id: &str) -> String {
    object!({ "id": id, "provider": "stripe", "secrets": [format!("whsec_secret_of_{id}")] }).to_string() + "\n"
}

/// Two more than two pages of a list, and than two groups of writes.
const ENDPOINTS: usize = 34;

#[test]
fn an_import_that_was_stopped_goes_on_when_it_is_run_again() {
    let stack = Deployed::empty();
    let all: String = (0..ENDPOINTS).map(|number| entry(&format!("shop-{number}"))).collect();
    let file = stack.workspace.write("endpoints.jsonl", all.as_bytes());
    stack.meets("PutItem", [(); 20].map(|()| Interception::Passed));
    stack.meets("PutItem", [Interception::Answered("AccessDeniedException")]);
    let import = ["import", file.as_str(), "--json"];
    let first = stack.run(&import).exits(3).prints("run the same command again: it does the rest");
    let written = stack.aws.account().ids("endpoint").len();
    assert!((1..ENDPOINTS).contains(&written), "{written}");
    assert_eq!((&json(&first)["imported"], &json(&first)["complete"]), (&object!(written), &object!(false)));
    let second = json(&stack.run(&import));
    assert_eq!(second["imported"], ENDPOINTS - written);
    assert_eq!((&second["there_before"], &second["complete"]), (&object!(written), &object!(true)));
    let puts = stack.puts();
    assert_eq!(json(&stack.run(&import).exits(0))["imported"], 0);
    assert_eq!(stack.puts(), puts, "nothing is written again");
    assert_eq!(json(&stack.run(&["list", "--json"])).as_array().unwrap().len(), ENDPOINTS, "a list has every page");
}

#[test]
fn an_import_writes_over_nothing_that_somebody_else_adds_meanwhile() {
    let stack = Deployed::empty();
    let other = r#"{"provider": "github", "secrets": ["another-secret-of-somebody"]}"#;
    stack.meets("PutItem", [Interception::Overtaken(other.to_owned())]);
    let file = stack.workspace.write("in.jsonl", entry("shop").as_bytes());
    stack.run(&["import", &file]).exits(1).prints("endpoint shop exists with another document");
    assert_eq!(stack.document("shop")["provider"], "github");
}

#[test]
fn an_import_that_replaces_writes_over_the_document_that_it_read() {
    let stack = Deployed::added("shop");
    let wanted = entry("shop").replace("\"provider\"", "\"expect_every\": \"26h\", \"provider\"");
    let file = stack.workspace.write("in.jsonl", wanted.as_bytes());
    let other = r#"{"provider": "github", "secrets": ["another-secret-of-somebody"]}"#;
    stack.meets("PutItem", [Interception::Overtaken(other.to_owned())]);
    stack.run(&["import", "--replace", &file]).exits(2);
    assert_eq!(stack.document("shop")["provider"], "github", "somebody wrote after it was read");
    stack.run(&["import", "--replace", &file]).exits(0).prints("0 endpoints imported, 1 replaced, 0 existed already");
    assert_eq!(stack.document("shop")["expect_every"], "26h");
    let puts = stack.puts();
    stack.run(&["import", "--replace", &file]).exits(0).prints("0 endpoints imported, 1 existed already");
    assert_eq!(stack.puts(), puts, "nothing is written again");
}

#[test]
fn an_import_leaves_what_is_different_and_writes_nothing_unless_all_is_valid() {
    let stack = Deployed::added("shop-1");
    let before = stack.document("shop-1");
    let good = format!("[{},{}]", entry("shop-1").trim(), entry("shop-2").trim());
    let file = stack.workspace.write("endpoints.json", good.as_bytes());
    stack.run(&["import", &file]).exits(1).prints("endpoint shop-1 exists with another document");
    assert_eq!((stack.document("shop-1"), stack.secrets("shop-2")), (before, 1));

    let puts = stack.puts();
    let bad = entry("shop-3")
        + &entry("shop-3")
        + "{\"id\": \"Shop\"}\n{\"provider\": \"stripe\"}\n7\n"
        + &entry("shop-4").replace("\"provider\"", "\"colour\"")
        + "{\"id\": \"shop-5\", \"provider\": \"stripe\", \"secrets\": [\"whsec_1\"]}";
    let file = stack.workspace.write("bad.jsonl", bad.as_bytes());
    let problems = [
        "entry 2: shop-3 is there twice",
        "entry 3:",
        "entry 4: it has no `id`",
        "entry 5: not a JSON object",
        "entry 6: shop-4: a field is missing",
        "entry 7: shop-5:",
    ];
    stack.run(&["import", &file]).exits(2).prints_all(&problems).omits("whsec_secret");
    assert_eq!(stack.puts(), puts);
    for (name, broken) in [("half.json", "[{"), ("none.json", "")] {
        let file = stack.workspace.write(name, broken.as_bytes());
        stack.run(&["import", &file]).exits(2);
    }
}

/// A document of this many bytes, or a few more.
fn long_entry(id: &str, bytes: usize) -> String {
    let ranges: Vec<_> = (0..bytes / 18).map(|number| format!("10.{}.{}.0/24", number / 256, number % 256)).collect();
    let secrets = [format!("whsec_secret_of_{id}")];
    object!({ "id": id, "provider": "stripe", "secrets": secrets, "source_ranges": ranges }).to_string()
}

#[test]
fn an_import_with_a_document_that_is_too_large_writes_nothing() {
    let stack = Deployed::empty();
    let all = [entry("shop-1"), long_entry("shop-2", 9_000), long_entry("shop-3", 7_000)].concat();
    let refused = stack.run(&["import", &stack.workspace.write("in.jsonl", all.as_bytes())]).exits(2);
    refused.prints("shop-2: the endpoint is too long: it takes").prints("and 8192 are allowed").omits("shop-3");
    assert_eq!(stack.puts(), 0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_an_import_between_two_writes_and_prints_how_to_go_on() {
    let stack = Deployed::empty();
    let all: String = (0..ENDPOINTS).map(|number| entry(&format!("shop-{number}"))).collect();
    let file = stack.workspace.write("endpoints.jsonl", all.as_bytes());
    let import = ["endpoint", "import", &file, "--stack", "inbox"];
    let variables = stack.aws.signed_in();
    // Nobody is answered while the account is held.
    let mut account = stack.aws.account();
    let child = stack.workspace.start_with_environment(&import, &variables);
    account.snags.push_back(("PutItem", Interception::Interrupted(child.id())));
    drop(account);
    child.wait_with_output().unwrap().exits(1).prints("Run the same command again");
    let written = stack.aws.account().ids("endpoint").len();
    assert!((1..ENDPOINTS).contains(&written), "{written}");
    stack.run(&["import", &file]).exits(0);
    assert_eq!(stack.aws.account().ids("endpoint").len(), ENDPOINTS);
}

/// The records say which secret verified them: the older ones go only when none was needed for a day.
#[test]
fn a_rotation_is_finished_when_the_older_secret_is_silent() {
    let local = Stack::with(1, 0);
    let stack = Deployed { word: Some("endpoint"), ..Deployed::of(&local, &[]) };
    stack.run(&["add", "stripe", "--provider", "standard_webhooks"]).exits(0);
    let finish = |more: &[&str]| stack.run(&[&["rotate", "stripe", "--finish"], more].concat());
    finish(&[]).prints("nothing is left to remove");
    stack
        .run(&["rotate", "stripe"])
        .prints_all(&["rotate stripe --finish --stack inbox", "endpoint show stripe --stack inbox"]);

    let refused = |exit: i32, expected: &str| {
        finish(&[]).exits(exit).prints_all(&[expected, "Pass --yes"]);
        assert_eq!(stack.secrets("stripe"), 2);
    };
    refused(1, "less than a day ago");
    stack.aws.account().age("endpoint", "stripe", 86_400 + 400);
    // The delivery of this stack was verified by the newest secret.
    let tables = Tables::of(&local);
    tables.set_number(&tables.inbox, "in#stripe#evt_0", "secret_index", 1);
    refused(1, "a delivery used an older secret at");
    tables.set_number(&tables.inbox, "in#stripe#evt_0", "secret_index", 0);
    stack.aws.account().stack = Some(of_the_template(&[("InboxTable", "gone")]));
    refused(3, "the records cannot be read");
    stack.aws.account().stack = Some(outputs_of(&stack.variables, &[]));
    finish(&[]).exits(0).prints("1 deliveries used the newest secret");
    assert_eq!(stack.secrets("stripe"), 1);

    stack.run(&["rotate", "stripe"]).exits(0);
    finish(&["--yes"]).exits(0);
    assert_eq!(stack.secrets("stripe"), 1);

    // What cannot be taken back says what it costs, and asks.
    let before = stack.document("stripe");
    let retire = |more: &[&str]| stack.run(&[&["rotate", "stripe", "--retire"], more].concat());
    retire(&[]).exits(2).prints_all(&[
        "within 5 minutes, inbox will refuse every delivery to stripe that an older secret signed",
        "1 deliveries of the last day were verified by a secret that goes",
        "pass --yes to remove them",
    ]);
    assert_eq!(stack.document("stripe"), before);
    retire(&["--yes"]).exits(0).prints_all(&["has 1 secret", "give the new secret to the provider"]);
    assert_ne!(stack.document("stripe"), before);
    stack.run(&["rotate", "stripe", "--yes"]).exits(2);
}

/// Without a delivery, nothing shows that the provider has the new secret.
#[test]
fn a_rotation_without_a_delivery_is_not_finished() {
    let local = Stack::new();
    let run = |arguments: &[&str]| local.run(&[&["endpoint"], arguments].concat());
    let rotate = ["endpoint", "rotate", "stripe", "--secret", "-"];
    local.run_with_input(&rotate, "whsec_another_secret_of_stripe").exits(0).omits("to the provider");
    let path = local.path(".hookonce/endpoints/stripe.json");
    let file = std::fs::File::options().append(true).open(path).unwrap();
    let before = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now() - 2 * 86_400);
    file.set_modified(before).unwrap();
    run(&["rotate", "stripe", "--finish"]).exits(1).prints("no delivery came for a day");
}

#[test]
fn a_request_is_verified_with_the_secrets_of_a_stack() {
    let stack = Deployed::empty();
    let add = ["endpoint", "add", "shop", "--provider", "stripe", "--secret", "-", "--stack", "inbox"];
    stack.workspace.run_with_environment_and_input(&add, &stack.variables, "whsec_a_signing_secret").exits(0);
    let body = r#"{"id":"evt_1","type":"invoice.paid"}"#;
    let secret = stack.document("shop")["secrets"][0].as_str().unwrap().to_owned();
    let header = format!("stripe-signature: {}", signature(&secret, body));
    let file = stack.workspace.write("body.json", body.as_bytes());
    let verify = |id: &str| {
        let request = ["--endpoint", id, "--header", &header, "--body", &file, "--at", "2026-01-01T00:00:00Z"];
        let arguments = [&["verify", "--stack", "inbox", "--json"][..], &request].concat();
        stack.workspace.run_with_environment(&arguments, &stack.aws.signed_in())
    };
    let judged = verify("shop").omits(&secret);
    assert_eq!(json(&judged)["verdict"], "accepted", "{}", text(&judged));
    verify("nobody").exits(1).prints("there is no endpoint nobody");
}
