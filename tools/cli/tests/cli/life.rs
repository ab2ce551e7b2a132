//! `dev` shows what happens, and `status` whether anything needs a person.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json as object};

use crate::destinations::receiver;
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, json, root, wait_until};

const FORWARD: &str = r#"{"version": 1, "otherwise": "ignore", "routes": [
  {"name": "out", "consumer": "crm", "forward": ["crm"]}]}"#;

/// A set that the worker can read, and not run as a whole.
const SET: &str = r#"{"version": 1, "otherwise": "dead", "routes": [
  {"name": "gone", "consumer": "c", "types": ["invoice.paid"], "handler": {"builtin": "none"}}]}"#;

#[test]
fn dev_prints_a_line_for_each_delivery_and_each_outcome() {
    let workspace = Workspace::new();
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    let file = "events/deliveries/stripe-invoice-paid.json";
    workspace.run(&["send", "--provider", "stripe", "--file", file, "--copies", "2"]).exits(0);
    let forged = ["send", "--provider", "stripe", "--file", file, "--secret", "-"];
    workspace.run_with_input(&forged, "whsec_Zm9yZ2Vk").exits(1);
    let mut seen: Vec<Value> = Vec::new();
    let is = |line: &Value, word: &str| line["answer"] == word || line["outcome"] == word;
    let words = ["accepted", "duplicate", "signature_mismatch", "applied"];
    while !words.iter().all(|word| seen.iter().any(|line| is(line, word))) {
        seen.push(lines.next(|_| true));
    }
    let line = |name: &str, word: &str| seen.iter().find(|line| line[name] == word).unwrap().clone();
    let accepted = line("answer", "accepted");
    assert_eq!((&accepted["what"], &accepted["status"]), (&object!("delivery"), &object!(200)));
    assert_eq!((&accepted["endpoint"], &accepted["type"]), (&object!("stripe"), &object!("invoice.paid")));
    assert_eq!(accepted["key"], "evt_1SampleInvoicePaid");
    assert!(accepted["duration_ms"].as_i64().unwrap() >= 0);
    assert_eq!(line("answer", "signature_mismatch")["status"], 401);
    let applied = line("outcome", "applied");
    assert_eq!((&applied["what"], &applied["key"]), (&object!("outcome"), &object!("evt_1SampleInvoicePaid")));
    let shown = workspace.show("evt_1SampleInvoicePaid");
    let took = ["processed_at_ms", "received_at_ms"].map(|name| shown[name].as_i64().unwrap());
    assert_eq!(applied["since_receipt_ms"], took[0] - took[1], "until it was applied, not until it is told");
}

/// The queue sends it again long before the relay would.
#[test]
fn dev_prints_when_a_call_that_failed_is_made_again() {
    let workspace = Workspace::routed(FORWARD);
    workspace.destination("crm", receiver(503));
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let retry = lines.outcome(&["retry"]);
    let [at, at_most] = ["retry_in_ms", "retry_in_ms_max"].map(|name| retry[name].as_i64().unwrap());
    assert!((0..=10_000).contains(&at) && at_most > 300_000, "{retry}");
}

#[test]
fn dev_prints_an_outcome_once_and_ends_a_refusal_with_its_cause() {
    let workspace = Workspace::new();
    let dev = workspace.dev_with_all_output(&["dev", "--port", "0", "--capture", "captures"], &[]);
    let url = format!("{}/webhooks/stripe/", workspace.announced()["url"].as_str().unwrap());
    let forged = ["trigger", "stripe.invoice.paid", "--url", &url, "--secret", "-"];
    workspace.run_with_input(&forged, "whsec_another_secret_of_enough_bytes").exits(1);
    let file = workspace.write("poison.json", br#"{"id":"evt_poison","type":"invoice.paid"}"#);
    workspace.run(&["send", "--provider", "stripe", "--file", &file]).exits(0);
    workspace.wait_for("DEAD", 1);
    let printed = dev.stop().omits("a record died");
    let lines = String::from_utf8(printed.stdout).unwrap();
    let line = |part: &str| lines.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {lines}"));
    let refused = line("in   refused     stripe  401 ");
    let why = "ms  signature_mismatch: `hookonce explain signature_mismatch`, `hookonce verify --last`";
    assert!(refused.ends_with(why), "{refused}");
    line("in   accepted    stripe invoice.paid evt_poison");
    line("out  dead        stripe invoice.paid evt_poison  INVOICE_UNREADABLE");
    let kept = std::fs::read_dir(workspace.path("captures")).unwrap().count();
    assert_eq!(kept, 2, "a slash at the end of the path is no other endpoint");
}

#[test]
fn dev_prints_lines_for_people_without_colours_where_nobody_watches() {
    let workspace = Workspace::new();
    let (_running, out) = workspace.dev_with_output(&["dev", "--port", "0"], &[]);
    let file = "events/deliveries/stripe-invoice-paid.json";
    workspace.run(&["send", "--provider", "stripe", "--file", file]).exits(0);
    let lines = BufReader::new(out).lines().map(Result::unwrap);
    let ours: Vec<_> = lines.filter(|line| line.contains("evt_1Sample")).take(2).collect();
    // The worker may end before the webhook function does.
    let has = |part: &str| ours.iter().any(|line| line.contains(part));
    assert!(has("in   accepted    stripe invoice.paid evt_1SampleInvoicePaid  200 "), "{ours:?}");
    assert!(has("out  applied     stripe invoice.paid evt_1SampleInvoicePaid  "), "{ours:?}");
    assert!(!ours.concat().contains('\u{1b}'), "{ours:?}");
}

#[test]
fn status_prints_what_needs_a_person_and_the_next_step() {
    let stack = Stack::with(1, 0);
    wait_until("the queue is empty", || json(&stack.run(&["status", "--json"]))["queue"]["in_flight"] == 0);
    stack.run(&["status"]).exits(0).prints("nothing needs a person");
    stack.deliver(1, false);
    stack.wait_for("DEAD", 1);
    let status = stack.run(&["status"]).exits(1).prints_all(&[
        "1 record is DEAD: INVOICE_UNREADABLE at stripe, invoice.paid\n",
        "  hookonce stats --state DEAD\n  hookonce explain records-died\n",
    ]);
    let shown = json(&stack.run(&["status", "--json"]));
    assert_eq!((&shown["dead"], &shown["needs"]), (&object!(1), &object!(["records_died"])), "{shown}");
    assert_eq!(shown["dead_letter_queue"]["visible"], 0, "{shown}");
    let url = format!("{}/webhooks/stripe", stack.announced()["url"].as_str().unwrap());
    for _ in 0..3 {
        let forged = ["trigger", "stripe.invoice.paid", "--url", &url, "--secret", "-"];
        stack.run_with_input(&forged, "whsec_another_secret_of_enough_bytes").exits(1);
    }
    wait_until("the refusals are counted", || {
        json(&stack.run(&["status", "--json"]))["needs"] == object!(["records_died", "refused:stripe"])
    });
    stack
        .run(&["status"])
        .exits(1)
        .prints("3 deliveries in a row were refused at stripe, the latest with signature_mismatch\n  hookonce verify --last --endpoint stripe\n");
    assert_eq!(shown["local"]["version"], env!("CARGO_PKG_VERSION"), "{shown}");
    status.prints("runs at").omits("this command is");
    let state = stack.read(".hookonce/stack.json").replace(env!("CARGO_PKG_VERSION"), "0.0.9");
    stack.write(".hookonce/stack.json", state.as_bytes());
    stack.run(&["status"]).prints(concat!("this command is ", env!("CARGO_PKG_VERSION")));
}

/// Who expects deliveries is named once none came for that long, and is not once one came.
#[test]
fn status_names_an_endpoint_that_is_silent() {
    let stack = Stack::new();
    let path = ".hookonce/endpoints/github.json";
    let document: Value = serde_json::from_str(&stack.read(path)).unwrap();
    let mut expecting = document;
    expecting["expect_every"] = "2h".into();
    stack.write(path, expecting.to_string().as_bytes());
    let needs = || json(&stack.run(&["status", "--json"]))["needs"].clone();
    assert_eq!(needs(), object!([]), "the field is new");
    let file = std::fs::File::options().write(true).open(stack.path(path)).unwrap();
    file.set_modified(file.metadata().unwrap().modified().unwrap() - std::time::Duration::from_hours(3)).unwrap();
    stack.run(&["status"]).exits(1).prints_all(&[
        "the endpoint github is silent: it expects a delivery every 2h, and none came in that time\n",
        "  hookonce endpoint list\n  hookonce explain an-endpoint-is-silent\n",
    ]);
    assert_eq!(needs(), object!(["silent:github"]));
    stack.run(&["trigger", "github.push"]).exits(0);
    wait_until("the delivery is counted", || needs() == object!([]));
}

/// Whoever edits the file sees at the save what becomes of the events. `status` and `doctor` say the same.
#[test]
fn dev_reports_a_changed_route_set_at_once() {
    let workspace = Workspace::routed(r#"{"version": 1,"#);
    workspace.write(".hookonce/destinations/bad.json", b"{");
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    let mut next = |state: &str| {
        let line = lines.next(|line| line["what"] == "routes");
        assert_eq!((&line["state"], &line["file"]), (&object!(state), &object!(".hookonce/routes.json")), "{line}");
        line["why"].to_string()
    };
    let why = next("refused");
    assert!(why.contains("line 1 column 14") && why.contains("all events wait"), "{why}");
    workspace
        .run(&["status"])
        .exits(1)
        .prints(".hookonce/routes.json is refused, so all events wait: line 1 column 14");
    let doctor = workspace.run(&["doctor"]).exits(1);
    doctor.prints_all(&["not valid: bad; their effects wait", "which has 1 fault. The first is line 1 column 14"]);
    workspace.write(".hookonce/routes.json", SET.as_bytes());
    let why = next("in use");
    assert!(why.contains("events of the route gone wait: this build has no handler `none`"), "{why}");
    workspace.run(&["status", "--json"]).exits(1).prints(r#""needs": ["#).prints("destinations_not_valid");
    workspace
        .run(&["doctor"])
        .exits(1)
        .prints("The first is routes[0].handler.builtin: this build has no handler `none`");
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    wait_until("the event waits", || {
        workspace.list("PENDING").iter().any(|record| record["last_error"] == "HANDLER_UNAVAILABLE")
    });
    let key = workspace.list("PENDING")[0]["key"].as_str().unwrap().to_owned();
    workspace.run(&["show", "stripe", &key]).prints("waits: this build has no handler `none`");
    let drill = workspace.run(&["drill", "--state", "PENDING"]).exits(1);
    drill.prints("waits: this build has no handler `none`");
    std::fs::remove_file(workspace.path(".hookonce/routes.json")).unwrap();
    next("gone");
}

/// The same for the other documents. The event comes later, and who edits the file is elsewhere by then.
#[test]
fn dev_reports_a_broken_document_at_the_save_and_route_show_a_broken_set() {
    let workspace = Workspace::new();
    let (_running, mut lines) = workspace.dev_with_json(&[]);
    std::fs::create_dir_all(workspace.path(".hookonce/destinations")).unwrap();
    for (family, file, field, consequence) in [
        ("destination", ".hookonce/destinations/crm.json", "kind", "its effects wait"),
        ("endpoint", ".hookonce/endpoints/stripe.json", "provider", "503"),
    ] {
        workspace.write(file, format!("{{\n  \"{field}\":").as_bytes());
        let line = lines.next(|line| line["what"] == family);
        assert_eq!((&line["state"], &line["file"]), (&object!("refused"), &object!(file)), "{line}");
        let why = line["why"].to_string();
        assert!(why.contains("line 2 column") && why.contains(consequence), "{why}");
    }
    workspace.destination("crm", 9);
    assert_eq!(lines.next(|line| line["what"] == "destination")["state"], "in use");

    workspace.write(".hookonce/routes.json", b"{\n  \"version\": 1,");
    workspace.run(&["route", "show"]).exits(1).prints_all(&["\"version\"", "this set is refused", "line 2 column"]);
    workspace.write(".hookonce/routes.json", SET.as_bytes());
    workspace.run(&["route", "show"]).exits(0);
}

#[test]
fn send_reads_standard_input() {
    let stack = Stack::new();
    let body = std::fs::read_to_string(root().join("events/deliveries/stripe-invoice-paid.json")).unwrap();
    let sent = stack.run_with_input(&["send", "--provider", "stripe", "--file", "-", "--json"], &body).exits(0);
    assert_eq!(json(&sent)[0]["answer"], "accepted");
}

/// The gateway refuses a body that no function sees, with an answer of its own.
#[test]
fn an_answer_that_is_not_hookonces_own_is_named_by_its_status() {
    let stack = Stack::new();
    let file = stack.write("large.json", &vec![b'x'; 11 * 1024 * 1024]);
    let sent = json(&stack.run(&["send", "--provider", "stripe", "--file", &file, "--json"]));
    assert_eq!(sent[0]["status"], 413, "{sent}");
    assert!(["payload_too_large", "body_too_large"].iter().any(|word| sent[0]["answer"] == *word), "{sent}");
}

#[test]
fn two_stacks_on_one_server_have_tables_and_queues_of_their_own() {
    let (host, guest) = (Stack::new(), Workspace::new());
    let place = host.announced();
    let url = |name: &str| place[name].as_str().unwrap();
    let dev = ["dev", "--port", "0", "--dynamodb-url", url("dynamodb_url"), "--sqs-url", url("sqs_url"), "--prefix"];
    for faulty in ["", "a b", "a/b", "ü", &"a".repeat(61)] {
        guest.run(&[&dev[..], &[faulty]].concat()).exits(2).prints("1 to 60 letters");
    }
    // Only other servers have other stacks.
    guest.run(&["dev", "--prefix", "guest"]).exits(2);
    let _running = guest.dev(&[&dev[..], &["guest"]].concat());
    guest.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    guest.wait_for("APPLIED", 1);
    assert!(json(&host.run(&["list", "--since", "1h", "--json"])).as_array().unwrap().is_empty());
}
