//! `hookonce endpoint --stack` against Parameter Store: what it writes, in which order, and who else may write
//! meanwhile.

use std::process::{Child, Output};
use std::sync::MutexGuard;

use hookonce_protocol::key::EndpointId;
use hookonce_runtime::index::{IdShard, parameter, shard};
use serde_json::{Value, json as object};

use crate::aws::{Account, Deployed, Interception, KEY, now, outputs_of, written_by_the_template};
use crate::stacks::{Stack, Tables};
use crate::support::{Ended, Workspace, interrupt, json, send_interrupt, text, wait_until};
use crate::terminal::signature;

impl Deployed {
    fn empty() -> Self {
        Self::new("endpoint", &[("EndpointKeyArn", KEY)])
    }

    /// Waits until the endpoints were read this often. Nobody is answered while the account is held.
    #[cfg(unix)]
    fn held_after(&self, reads: usize) -> MutexGuard<'_, Account> {
        let mut held = None;
        wait_until("it reads", || {
            held = Some(self.aws.account()).filter(|account| account.count("GetParametersByPath") >= reads);
            held.is_some()
        });
        held.unwrap()
    }

    /// Sends Ctrl-C once the endpoints were read this often, before anybody is answered again.
    #[cfg(unix)]
    fn interrupt_after(&self, child: Child, reads: usize) -> Output {
        let held = self.held_after(reads);
        send_interrupt(&child);
        drop(held);
        child.wait_with_output().unwrap()
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
        serde_json::from_str(self.aws.account().value(&name(id)).unwrap()).unwrap()
    }

    fn secrets(&self, id: &str) -> usize {
        self.document(id)["secrets"].as_array().unwrap().len()
    }

    fn is_listed(&self, id: &str) -> bool {
        let id = EndpointId::parse(id).unwrap();
        let account = self.aws.account();
        account.value(&name(&parameter(shard(&id)))).is_some_and(|text| IdShard::parse(text).unwrap().contains(&id))
    }

    /// The names that were written, in order.
    fn written(&self) -> Vec<String> {
        let account = self.aws.account();
        let puts = account.asked.iter().filter(|asked| asked.operation == "PutParameter");
        puts.map(|asked| asked.body["Name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    }
}

fn name(id: &str) -> String {
    format!("/hookonce/inbox/endpoints/{id}")
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
        let stored = account.parameters[&name("shop")].last().unwrap();
        assert_eq!((stored.kind.as_str(), stored.key.as_deref()), ("SecureString", Some(KEY)));
    }
    let shard = parameter(shard(&EndpointId::parse("shop").unwrap()));
    assert_eq!(stack.written(), [shard, "messages".to_owned(), "shop".to_owned()], "the index and the key first");
    assert!(stack.is_listed("shop"));

    stack.run(&["add", "shop", "--provider", "standard_webhooks"]).exits(2).says("already exists");
    assert_eq!(stack.document("shop")["secrets"], object!([secret]), "the first one stands");

    assert_eq!(json(&stack.run(&["list", "--json"]))[0]["id"], "shop");
    stack.run(&["show", "shop"]).says_all(&["<hidden>", "enqueue"]).omits(&secret);
    stack.run(&["show", "shop", "--reveal"]).says(&secret);
    stack.run(&["check"]).exits(0);

    stack.run(&["remove", "shop"]).exits(2).says("pass --yes");
    stack.run(&["remove", "shop", "--yes"]).exits(0);
    assert!(stack.aws.account().value(&name("shop")).is_none());
    stack.run(&["show", "shop"]).exits(2);
}

/// Deliveries that an older key sealed may wait in the queue.
#[test]
fn the_message_key_is_made_for_an_endpoint_that_needs_it_and_never_written_over() {
    let stack = Deployed::added("other");
    let key = || stack.aws.account().value("/hookonce/inbox/key/messages").map(str::to_owned);
    assert_eq!(key(), None, "nobody needs it");
    let add =
        |id: &str| stack.run(&["add", id, "--provider", "standard_webhooks", "--on-store-outage", "enqueue"]).exits(0);
    stack.meets("PutParameter", [Interception::Passed, Interception::ReplyLost]);
    add("shop");
    let made = key().unwrap();
    assert!(hookonce_protocol::message::MessageKey::parse(&made).is_some());
    {
        let account = stack.aws.account();
        let stored = account.parameters["/hookonce/inbox/key/messages"].last().unwrap();
        assert_eq!((stored.kind.as_str(), stored.key.as_deref()), ("SecureString", Some(KEY)));
    }
    add("second");
    assert_eq!(key().unwrap(), made);
    stack.run(&["list", "--json"]).exits(0).omits(&made);
    stack.aws.account().parameters.remove("/hookonce/inbox/key/messages");
    let secret = "whsec_9f3kQz71LmPx82VbTnRwYc45";
    let import = object!({ "id": "third", "provider": "stripe", "secrets": [secret], "on_store_outage": "enqueue" });
    let file = stack.workspace.write("third.json", import.to_string().as_bytes());
    stack.run(&["import", &file]).exits(0);
    assert_ne!(key().unwrap(), made);
}

/// Nobody else knows the secret, so it is told before anything that may still fail.
#[test]
fn an_endpoint_whose_second_listing_fails_is_told_with_its_secret() {
    let stack = Deployed::added("other");
    // The outputs, and the first listing.
    stack.meets("GetParameter", [Interception::Passed, Interception::Passed]);
    stack.meets("GetParameter", [Interception::Answered("AccessDeniedException")]);
    let said = ["receives webhooks from", "the endpoint shop was added", "`hookonce endpoint index --stack inbox`"];
    let added = stack.run(&["add", "shop", "--provider", "standard_webhooks"]).exits(3).says_all(&said);
    let secret = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    assert_eq!(stack.document("shop")["secrets"], object!([secret]));
}

#[test]
fn a_lost_reply_is_no_other_writer() {
    let stack = Deployed::empty();
    stack.meets("PutParameter", [Interception::ReplyLost, Interception::ReplyLost]);
    stack.run(&["add", "shop", "--provider", "standard_webhooks"]).exits(0);
    assert!(stack.is_listed("shop"));
    // The index was written twice; let the document's write lose its reply, too.
    stack.meets("PutParameter", [Interception::ReplyLost]);
    stack.run(&["rotate", "shop"]).exits(0);
    assert_eq!(stack.secrets("shop"), 2);
    stack.meets("DeleteParameter", [Interception::ReplyLost]);
    stack.run(&["remove", "shop", "--yes"]).exits(0);
}

#[test]
fn a_create_whose_reply_is_lost_finds_its_own_document() {
    let stack = Deployed::added("other");
    let file = stack.workspace.write("in.jsonl", entry("shop").as_bytes());
    // The index of another shard may be written first, so only the document's own write is counted.
    stack.run(&["import", &file]);
    stack.aws.account().parameters.remove(&name("shop"));
    stack.meets("PutParameter", [Interception::ReplyLost]);
    let imported = stack.run(&["import", &file, "--json"]).exits(0);
    assert_eq!(json(&imported)["imported"], 1, "{}", text(&imported));
}

/// Parameter Store would overwrite: the command finds out and says whose version is in force.
#[test]
fn a_rotation_that_meets_another_one_says_so() {
    let stack = Deployed::added("shop");
    let others = stack.document("shop").to_string().replace("whsec_", "whsec_other");
    stack.meets("PutParameter", [Interception::Overtaken(others)]);
    stack.run(&["rotate", "shop"]).exits(2).says_all(&[
        "version 2",
        "version 3, which is in force now",
        &format!("--name {}:2", name("shop")),
        "the new secret may be in force",
        "`hookonce endpoint show shop --reveal --stack inbox`",
    ]);
}

#[test]
fn a_rotation_that_meets_a_removal_says_that_it_brought_the_endpoint_back() {
    let stack = Deployed::added("shop");
    stack.meets("PutParameter", [Interception::Removed]);
    stack.run(&["rotate", "shop"]).exits(2).says("this write restored it").says("endpoint remove shop --stack inbox");
}

#[test]
fn a_rotation_drops_no_secret_that_may_be_in_use_and_writes_nothing_twice() {
    let stack = Deployed::added("shop");
    for secrets in 2..=8 {
        stack.run(&["rotate", "shop"]).exits(0);
        assert_eq!(stack.secrets("shop"), secrets);
    }
    let before = stack.document("shop");
    stack.run(&["rotate", "shop"]).exits(2).says("rotate shop --finish --stack inbox");
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
    stdin("rotate", &[]).exits(0).says("nothing was written");
    let shown = json(&workspace.run(&["endpoint", "show", "shop", "--reveal", "--json"]));
    assert_eq!(shown["secrets"], object!([secret]));
}

#[test]
fn secret_settings_are_hidden_and_public_ones_are_not() {
    let stack = Deployed::empty();
    let settings = r#""settings": {"verify_token": "a-token-of-meta", "public_url": "https://example.com/hook"}"#;
    let document =
        format!(r#"{{"provider": "whatsapp", "secrets": ["0123456789abcdef0123456789abcdef"], {settings}}}"#);
    stack.aws.account().put(&name("chat"), &document);
    for more in [&[][..], &["--json"]] {
        let shown = stack.run(&[&["show", "chat"], more].concat());
        let shown = shown.says_all(&["verify_token", "https://example.com/hook"]);
        shown.omits("a-token-of-meta").omits("0123456789abcdef");
        stack.run(&[&["show", "chat", "--reveal"], more].concat()).says("a-token-of-meta");
    }
}

#[test]
fn a_write_that_meets_another_one_waits_and_comes_again() {
    let stack = Deployed::added("shop");
    stack.meets("PutParameter", [Interception::Answered("TooManyUpdates")]);
    stack.run(&["rotate", "shop"]).exits(0);
    assert_eq!(stack.secrets("shop"), 2);
}

#[test]
fn a_refusal_says_what_to_do_about_its_cause_and_repeats_no_secret() {
    let stack = Deployed::added("shop");
    let rotate = &["rotate", "shop"][..];
    let without_key = "AccessDeniedException: User is not authorized to perform: kms:GenerateDataKey on this resource";
    for (operation, arguments, code, said) in [
        ("PutParameter", rotate, "InvalidKeyId", "EndpointKeyArn exists, is enabled"),
        ("PutParameter", rotate, "ParameterLimitExceeded", "raise the quota of Parameter Store"),
        ("PutParameter", rotate, "ValidationException", "AWS rejects the name or the value"),
        ("PutParameter", rotate, without_key, "kms:Encrypt, kms:Decrypt and kms:GenerateDataKey"),
        ("PutParameter", rotate, "AccessDeniedException", "ask for the permission ssm:PutParameter"),
        ("GetParametersByPath", &["list"], "AccessDeniedException", "ask for the permission ssm:GetParametersByPath"),
        (
            "DeleteParameter",
            &["remove", "shop", "--yes"],
            "AccessDeniedException",
            "ask for the permission ssm:DeleteParameter",
        ),
    ] {
        stack.meets(operation, [Interception::Answered(code)]);
        stack.run(arguments).exits(3).says(said).omits("whsec_");
    }
    assert_eq!(stack.secrets("shop"), 1);
}

#[test]
fn an_endpoint_that_changed_after_it_was_read_is_left_alone() {
    let stack = Deployed::added("shop");
    // The second read is the check before the write.
    let changed = stack.document("shop").to_string();
    stack.aws.account().put(&name("shop"), &changed);
    let text_before = stack.aws.account().value(&name("shop")).unwrap().to_owned();
    stack.meets("GetParameter", [Interception::Passed, Interception::Passed]);
    stack.meets("GetParameter", [Interception::Overtaken(changed + " ")]);
    stack.run(&["remove", "shop", "--yes"]).exits(2).says("was changed by someone else");
    assert_eq!(stack.aws.account().value(&name("shop")).unwrap(), text_before + " ");
}

#[test]
fn outputs_that_lack_a_part_say_what_to_do() {
    let stack = Deployed::empty();
    let lacking = r#"{"inbox_table": "a", "domain_table": "b", "queue_url": "c"}"#;
    stack.aws.account().put("/hookonce/inbox/outputs", lacking);
    stack.run(&["add", "shop", "--provider", "standard_webhooks"]).exits(2).says("deploy the stack again");
    assert!(stack.written().is_empty());
}

/// An entry of a file to import.
fn entry(id: &str) -> String {
    object!({ "id": id, "provider": "stripe", "secrets": [format!("whsec_secret_of_{id}")] }).to_string() + "\n"
}

#[test]
fn an_import_that_was_stopped_goes_on_when_it_is_run_again() {
    const ENDPOINTS: usize = 40;
    let stack = Deployed::empty();
    let all: String = (0..ENDPOINTS).map(|number| entry(&format!("shop-{number}"))).collect();
    let file = stack.workspace.write("endpoints.jsonl", all.as_bytes());
    // The index has at most 16 texts, so this one is in the middle of the documents.
    stack.meets("PutParameter", [(); 30].map(|()| Interception::Passed));
    stack.meets("PutParameter", [Interception::Answered("AccessDeniedException")]);
    let import = ["import", file.as_str(), "--rate", "1000", "--json"];
    let first = stack.run(&import).exits(3).says("run the same command again: it does the rest");
    assert!((0..ENDPOINTS).all(|number| stack.is_listed(&format!("shop-{number}"))), "all are listed first");
    let written = stack.aws.account().parameters.keys().filter(|name| name.contains("/shop-")).count();
    assert!((1..ENDPOINTS).contains(&written), "{written}");
    assert_eq!((&json(&first)["imported"], &json(&first)["complete"]), (&object!(written), &object!(false)));
    let is_index = |body: &Value| body["Name"].as_str().is_some_and(|name| name.contains("/ids."));
    let last = stack.aws.account().asked.last().unwrap().clone();
    assert!(last.operation == "GetParameter" && is_index(&last.body), "the ids are listed again: {:?}", last.body);
    let second = json(&stack.run(&import));
    assert_eq!(second["imported"], ENDPOINTS - written);
    assert_eq!((&second["there_before"], &second["complete"]), (&object!(written), &object!(true)));
    let puts = stack.aws.account().count("PutParameter");
    assert_eq!(json(&stack.run(&import).exits(0))["imported"], 0);
    assert_eq!(stack.aws.account().count("PutParameter"), puts, "nothing is written again");
}

#[test]
fn an_import_leaves_what_is_different_and_writes_nothing_unless_all_is_valid() {
    let stack = Deployed::added("shop-1");
    let before = stack.document("shop-1");
    let good = format!("[{},{}]", entry("shop-1").trim(), entry("shop-2").trim());
    let file = stack.workspace.write("endpoints.json", good.as_bytes());
    stack.run(&["import", &file]).exits(1).says("endpoint shop-1 exists with another document");
    assert_eq!((stack.document("shop-1"), stack.secrets("shop-2")), (before, 1));

    let puts = stack.aws.account().count("PutParameter");
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
    stack.run(&["import", &file]).exits(2).says_all(&problems).omits("whsec_secret");
    assert_eq!(stack.aws.account().count("PutParameter"), puts);
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
    let all = [entry("shop-1"), long_entry("shop-2", 9_000), long_entry("shop-3", 5_000)].concat();
    let refused = stack.run(&["import", &stack.workspace.write("in.jsonl", all.as_bytes())]).exits(2);
    refused.says("shop-2: the document has").omits("shop-3");
    assert!(stack.written().is_empty(), "{:?}", stack.written());
}

/// What an advanced parameter holds may become short, and the parameter stays advanced.
#[test]
fn a_document_that_becomes_short_is_written_over_a_long_one() {
    let stack = Deployed::empty();
    let file = stack.workspace.write("in.jsonl", long_entry("shop", 4_500).as_bytes());
    stack.run(&["import", &file]).exits(0);
    let mut document = stack.document("shop");
    document.as_object_mut().unwrap().remove("source_ranges");
    stack.aws.account().parameters.get_mut(&name("shop")).unwrap().last_mut().unwrap().value = document.to_string();
    let rotate = ["endpoint", "rotate", "shop", "--secret", "-", "--stack", "inbox"];
    let variables = &stack.variables;
    stack.workspace.run_with_environment_and_input(&rotate, variables, "whsec_another_secret_of_shop").exits(0);
    assert_eq!(stack.secrets("shop"), 2);
    assert!(stack.aws.account().parameters[&name("shop")].last().unwrap().is_advanced);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_an_import_between_two_writes_and_says_how_to_go_on() {
    const ENDPOINTS: usize = 12;
    let stack = Deployed::empty();
    let all: String = (0..ENDPOINTS).map(|number| entry(&format!("shop-{number}"))).collect();
    let file = stack.workspace.write("endpoints.jsonl", all.as_bytes());
    let import = ["endpoint", "import", &file, "--rate", "1", "--stack", "inbox"];
    let written = || stack.aws.account().parameters.keys().filter(|name| name.contains("/shop-")).count();
    let child = stack.workspace.start_with_environment(&import, &stack.aws.signed_in());
    wait_until("two are written", || written() >= 2);
    interrupt(child).exits(1).says("stopped. Run the same command again: it does the rest");
    assert!(written() < ENDPOINTS && (0..ENDPOINTS).all(|number| stack.is_listed(&format!("shop-{number}"))));
    stack.run(&["import", &file, "--rate", "1000"]).exits(0);
    assert_eq!(written(), ENDPOINTS);

    // While the endpoints are read, which takes a second for each hundred, nothing is written.
    for number in 0..100 {
        stack.aws.account().put(&name(&format!("other-{number}")), "{}");
    }
    let new = stack.workspace.write("new.jsonl", entry("shop-new").as_bytes());
    let reads = stack.aws.account().count("GetParametersByPath");
    let puts = stack.aws.account().count("PutParameter");
    let import = ["endpoint", "import", &new, "--stack", "inbox"];
    let child = stack.workspace.start_with_environment(&import, &stack.aws.signed_in());
    stack.interrupt_after(child, reads + 1).exits(1).says("Run the same command again");
    assert_eq!(stack.aws.account().count("PutParameter"), puts);
}

/// An id that is removed from the index and has an endpoint is refused, so a dry run comes first.
#[test]
fn the_index_is_compared_with_the_endpoints_and_written_only_when_asked_to() {
    let stack = Deployed::added("gone");
    stack.run(&["remove", "gone", "--yes"]).exits(0);
    stack.aws.account().put(&name("by-hand"), r#"{"provider": "stripe", "secrets": ["whsec_a_signing_secret"]}"#);
    stack.aws.account().put(&name("broken"), "{");
    let puts = stack.aws.account().count("PutParameter");
    let said = ["the index lacks 2: by-hand, broken", "lists 1 id(s) that have no endpoint", "Pass --yes"];
    stack.run(&["index"]).exits(1).says_all(&said);
    assert_eq!(stack.aws.account().count("PutParameter"), puts);
    // Somebody may be about to add what was listed a short time ago.
    stack.run(&["index", "--yes"]).exits(0).says("1 id(s) without an endpoint stay in the index");
    let is_listed = ["by-hand", "broken", "gone", "nobody"].map(|id| stack.is_listed(id));
    assert_eq!(is_listed, [true, true, true, false]);
    {
        let mut account = stack.aws.account();
        let of_index = account.parameters.iter_mut().filter(|(name, _)| name.contains("/ids."));
        of_index.for_each(|(_, versions)| versions.last_mut().unwrap().changed_at = now() - 3_600);
    }
    stack.run(&["index", "--yes"]).exits(0);
    assert!(stack.is_listed("by-hand") && !stack.is_listed("gone"));
    stack.run(&["index"]).exits(0).says("and nothing else");
    stack.workspace.run(&["endpoint", "index"]).exits(2).says("--stack NAME");
    stack.run(&["check"]).exits(1).says_all(&["by-hand: valid", "broken: not valid"]);
}

/// The endpoints are read at most a hundred a second, twice: to be compared, and to be written.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_rebuild_of_the_index_between_two_writes() {
    let stack = Deployed::empty();
    for number in 0..100 {
        stack.aws.account().put(&name(&format!("shop-{number}")), "{}");
    }
    let index = ["endpoint", "index", "--yes", "--stack", "inbox"];
    let start = || {
        let before = stack.aws.account().count("GetParametersByPath");
        (stack.workspace.start_with_environment(&index, &stack.aws.signed_in()), before)
    };
    for (pages, said) in [(1, "nothing was written"), (12, "Run the same command again")] {
        let (child, before) = start();
        stack.interrupt_after(child, before + pages).exits(1).says(said);
        assert_eq!(stack.aws.account().count("PutParameter"), 0);
    }
    let (mut child, before) = start();
    let held = stack.held_after(before + 12);
    wait_until("it ends", || {
        send_interrupt(&child);
        child.try_wait().unwrap().is_some()
    });
    drop(held);
    assert_eq!(child.wait().unwrap().code(), Some(130), "the second one does not wait");
    stack.run(&["index", "--yes"]).exits(0);
    assert!(stack.is_listed("shop-0") && stack.is_listed("shop-99"));
}

/// The records say which secret verified them: the older ones go only when none was needed for a day.
#[test]
fn a_rotation_is_finished_when_the_older_secret_is_silent() {
    let local = Stack::with(1, 0);
    let stack = Deployed { word: Some("endpoint"), ..Deployed::of(&local, &[]) };
    stack.run(&["add", "stripe", "--provider", "standard_webhooks"]).exits(0);
    let finish = |more: &[&str]| stack.run(&[&["rotate", "stripe", "--finish"], more].concat());
    finish(&[]).says("nothing is left to remove");
    stack.run(&["rotate", "stripe"]).says_all(&["rotate stripe --finish --stack inbox", "old_secret_used"]);

    let refused = |exit: i32, said: &str| {
        finish(&[]).exits(exit).says_all(&[said, "Pass --yes"]);
        assert_eq!(stack.secrets("stripe"), 2);
    };
    refused(1, "less than a day ago");
    let age = |seconds: u64| {
        let mut account = stack.aws.account();
        account.parameters.get_mut(&name("stripe")).unwrap().last_mut().unwrap().changed_at = now() - seconds;
    };
    age(86_400 + 400);
    // The delivery of this stack was verified by the newest secret.
    let tables = Tables::of(&local);
    tables.set_number(&tables.inbox, "in#stripe#evt_0", "secret_index", 1);
    refused(1, "a delivery used an older secret at");
    tables.set_number(&tables.inbox, "in#stripe#evt_0", "secret_index", 0);
    stack.aws.account().put("/hookonce/inbox/outputs", &written_by_the_template(&[("InboxTable", "gone")]));
    refused(3, "the records cannot be read");
    stack.aws.account().put("/hookonce/inbox/outputs", &outputs_of(&stack.variables, &[]));
    finish(&[]).exits(0).says("1 deliveries used the newest secret");
    assert_eq!(stack.secrets("stripe"), 1);

    stack.run(&["rotate", "stripe"]).exits(0);
    finish(&["--yes"]).exits(0);
    assert_eq!(stack.secrets("stripe"), 1);

    // What cannot be taken back says what it costs, and asks.
    let before = stack.document("stripe");
    let retire = |more: &[&str]| stack.run(&[&["rotate", "stripe", "--retire"], more].concat());
    retire(&[]).exits(2).says_all(&[
        "within 5 minutes, inbox will refuse every delivery to stripe that an older secret signed",
        "1 deliveries of the last day were verified by a secret that goes",
        "pass --yes to remove them",
    ]);
    assert_eq!(stack.document("stripe"), before);
    retire(&["--yes"]).exits(0).says_all(&["has 1 secret(s)", "give the new secret to the provider"]);
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
    run(&["rotate", "stripe", "--finish"]).exits(1).says("no delivery came for a day");
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
    verify("nobody").exits(2).says("there is no endpoint nobody");
}
