//! What a person sees on a terminal, and how little of a record's key has to be typed.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use console::{measure_text_width, strip_ansi_codes};
use hookonce_local::clients;
use serde_json::{Value, json as object};

use crate::destinations::receiver;
use crate::stacks::{Stack, summary};
use crate::support::{Ended, Workspace, interrupt, json, listen, text, wait_until};

/// The lines that a command prints on a terminal of 80 columns with colours.
fn on_screen(workspace: &Workspace, arguments: &[&str]) -> Vec<String> {
    let colours = [("TERM".to_owned(), "xterm-256color".to_owned())];
    let printed = workspace.run_at_terminal(arguments, &colours, "");
    // What moves while a command works is wiped before its result.
    let lines = String::from_utf8(printed.stdout).unwrap();
    let lines =
        lines.lines().map(|line| line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default().to_owned());
    lines.collect()
}

fn plain(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| strip_ansi_codes(line).into_owned()).collect()
}

const FORWARD: &str = r#"{"version": 1, "otherwise": "dead", "routes": [
    {"name": "out", "consumer": "crm", "types": ["invoice.paid"], "forward": ["crm"]}]}"#;

#[test]
fn a_list_fits_a_terminal_and_shows_states_as_signs_words_and_colours() {
    let workspace = Workspace::routed(FORWARD);
    workspace.destination("crm", receiver(200));
    let stack = Stack::of(workspace);
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "sound"]).exits(0);
    stack.run(&["trigger", "stripe.customer.subscription.deleted", "--id", "nobody_wants_this_one"]).exits(0);
    stack.wait_for("DEAD", 1);
    stack.wait_for("DELIVERED", 1);
    let listed = on_screen(&stack, &["list", "--since", "1h"]);
    let shown = plain(&listed);
    let rows = || listed.iter().filter(|line| line.contains("  stripe "));
    assert!(rows().count() == 2 && rows().all(|line| measure_text_width(line) <= 80), "{shown:#?}");
    assert!(shown[0].contains("RECEIVED") && !shown[0].contains("DUPS"), "no column of nothing: {shown:#?}");
    let row = |part: &str| shown.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{shown:#?}"));
    assert!(listed[row("evt_sound")].contains("\u{1b}[32m✓ applied\u{1b}[0m"), "{listed:#?}");
    assert!(listed[row("✕ dead")].contains("\u{1b}[31m"), "{listed:#?}");
    let received = shown[row("evt_sound")].trim_start().split(' ').next().unwrap();
    assert_eq!((received.len(), received.matches(':').count()), (8, 2), "the time of day: {received}");
    stack.run(&["list", "--since", received, "--until", "0s", "--json"]).exits(0).prints("evt_sound");

    let coloured = |command: &[&str], part: &str| on_screen(&stack, command).iter().any(|line| line.contains(part));
    let stats = &["stats", "--since", "1h"][..];
    assert!(coloured(stats, "\u{1b}[32m✓ applied\u{1b}[0m") && coloured(stats, "\u{1b}[31m✕ dead\u{1b}[0m"));
    assert!(coloured(&["doctor"], "\u{1b}[32m✓ ok\u{1b}[0m"));
    let clock =
        on_screen(&stack, &["doctor"]).into_iter().find(|line| strip_ansi_codes(line).contains(" clock ")).unwrap();
    let clock = strip_ansi_codes(&clock).trim_end().to_owned();
    let shown = clock.split_once(" clock ").unwrap().1.trim();
    assert!(shown.parse::<jiff::Timestamp>().is_ok(), "with its date and its zone, which may be wrong, too: {clock}");
    stack.run(&["stats", "--since", "1h"]).prints_all(&[" state APPLIED ", " state DEAD "]).omits("✓");
    stack.run(&["doctor"]).prints(" ok ").omits("✓");

    for (command, exit) in [("list", 0), ("stats", 1)] {
        stack
            .run(&[command, "--since", "1h", "--type", "invoice.*"])
            .exits(exit)
            .prints("--type is compared exactly, without patterns");
        stack.run(&[command, "--since", "1h", "--type", "invoice.paid"]).exits(0).omits("patterns");
    }

    // What is not read on a terminal stays as it was.
    let piped = stack.run(&["list", "--since", "1h"]);
    piped.prints_all(&["DUPS", " APPLIED ", " DEAD "]).omits("✓");

    let effects = plain(&on_screen(&stack, &["list", "--since", "1h", "--kind", "effect"]));
    let short = effects[1].split_whitespace().last().unwrap();
    assert!(short.starts_with("fx#") && short.contains("…#forw") && short.chars().count() < 30, "{effects:#?}");
    let whole = json(&stack.run(&["list", "--since", "1h", "--kind", "effect", "--json"]))[0]["key"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(json(&stack.run(&["show", "stripe", short, "--json"]))["key"], whole.as_str());
    let story = plain(&on_screen(&stack, &["show", "stripe", "evt_sound"]));
    assert!(
        story.iter().any(|line| line.starts_with("  ✓ applied: invoice.paid from Stripe at the endpoint stripe")),
        "{story:#?}"
    );
}

/// What somebody does in another terminal while `dev` shows it.
const IN_ANOTHER_TERMINAL: &str = r#"
until [ -e .hookonce/stack.json ]; do sleep 0.1; done
$HOOKONCE trigger stripe.customer.subscription.deleted --id a_customer_that_leaves >/dev/null 2>&1
echo whsec_another_secret_of_enough_bytes | $HOOKONCE trigger stripe.invoice.paid --secret - >/dev/null 2>&1
until $HOOKONCE list --state DEAD --json 2>/dev/null | grep -q leaves; do sleep 0.1; done
kill -INT $(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' .hookonce/stack.json)
wait
"#;

#[test]
fn what_dev_shows_fits_a_terminal() {
    let workspace = Workspace::routed(r#"{"version": 1, "otherwise": "dead", "routes": []}"#);
    let script = IN_ANOTHER_TERMINAL.replace("$HOOKONCE", env!("CARGO_BIN_EXE_hookonce"));
    workspace.write("elsewhere.sh", script.as_bytes());
    let shown = plain(&on_screen(&workspace, &["dev", "--port", "0", "&", "sh", "elsewhere.sh;", "wait"]));
    // An address is there to be copied.
    let is_wide = |line: &&String| !line.contains("http://") && measure_text_width(line) > 80;
    assert_eq!(shown.iter().find(is_wide), None, "{shown:#?}");
    let refused = shown.iter().position(|line| line.contains("in   ✕ refused     stripe  401 ")).unwrap();
    assert_eq!(shown[refused + 1].trim(), "`hookonce explain signature_mismatch`, `hookonce verify --last`");
    assert!(
        shown.iter().any(|line| line.contains("out  ✕ dead        stripe customer.subscription.deleted")),
        "{shown:#?}"
    );
}

#[test]
fn a_record_is_named_by_the_beginning_of_its_key_and_without_its_endpoint() {
    let stack = Stack::new();
    let trigger = |id: &str| stack.run(&["trigger", "stripe.invoice.paid", "--id", id]).exits(0);
    for id in ["one1", "one2", "two"] {
        trigger(id);
    }
    stack.wait_for("APPLIED", 3);
    let key =
        |arguments: &[&str]| -> Value { json(&stack.run(&[arguments, &["--json"]].concat()).exits(0))["key"].clone() };
    for named in [&["show", "stripe", "evt_tw"][..], &["show", "evt_two"], &["show", "evt_t"]] {
        assert_eq!(key(named), "evt_two", "{named:?}");
    }
    stack.run(&["show", "stripe", "evt_one"]).exits(2).prints_all(&[
        "evt_one may be one of several records",
        "stripe evt_one1\n",
        "stripe evt_one2",
    ]);
    stack.run(&["show", "evt_none"]).exits(1).prints("no endpoint has a record evt_none");
    stack.run(&["show", "strype", "evt_two"]).exits(1).prints("there is no endpoint strype");
    stack.run(&["show", "evt_two", "--wait"]).exits(0).prints("APPLIED");

    let force = |words: &[&str]| {
        stack.run(&[&["replay", "--force", "--reason", "a test", "--by", "ada", "--json"], words].concat())
    };
    for named in [&["evt_two"][..], &["stripe", "evt_two"], &["--key", "stripe", "evt_tw"], &["evt_tw"]] {
        assert_eq!(summary(&force(named))["would"], 1, "{named:?}");
    }
    let dry = stack.run(&["replay", "evt_tw", "--force", "--reason", "test"]);
    assert!(
        text(&dry).contains("hookonce replay stripe evt_two --force --reason test --by NAME --yes"),
        "{}",
        text(&dry)
    );
    force(&["evt_tw", "--yes"]).exits(2).prints_all(&["name it whole", "it is stripe evt_two"]);
    assert_eq!(summary(&force(&["evt_two", "--yes"]))["done"], 1);
    stack.run(&["replay", "evt_none"]).exits(2).prints("no endpoint has a record evt_none");
    stack.run(&["replay", "evt_two", "--state", "DEAD"]).exits(2).prints("cannot be used with");
}

/// A key without an endpoint may be of several.
#[test]
fn one_key_at_two_endpoints_needs_its_endpoint() {
    let stack = Stack::new();
    stack.run(&["endpoint", "add", "shop", "--provider", "stripe"]).exits(0);
    for endpoint in ["stripe", "shop"] {
        let trigger = ["trigger", "stripe.invoice.paid", "--id", "same", "--endpoint", endpoint];
        stack.run(&trigger).exits(0);
    }
    let several = stack.run(&["show", "evt_same"]).exits(2);
    several.prints_all(&["shop evt_same", "stripe evt_same"]);
}

#[test]
fn a_list_of_endpoints_shows_what_each_answered() {
    let stack = Stack::new();
    stack.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    let forged = ["trigger", "stripe.invoice.paid", "--secret", "-"];
    stack.run_with_input(&forged, "whsec_another_secret_of_enough_bytes").exits(1);
    let of = |endpoint: &str| {
        let listed = json(&stack.run(&["endpoint", "list", "--json"]));
        listed.as_array().unwrap().iter().find(|it| it["id"] == endpoint).unwrap()["answered"].clone()
    };
    // The running stack keeps its counts every two seconds.
    crate::support::wait_until("both are counted", || of("stripe")["refused_24h"] == 1);
    let stripe = of("stripe");
    assert_eq!(
        (&stripe["accepted_24h"], &stripe["last_refusal"]["code"]),
        (&object!(1), &object!("signature_mismatch"))
    );
    assert_eq!(of("github")["last_accepted_at_ms"], Value::Null);
    let listed = stack.run(&["endpoint", "list"]);
    listed.prints_all(&["LAST ACCEPTED", "REFUSED 24H", "signature_mismatch", "never"]).omits("LAST WRITTEN");
}

#[test]
fn a_body_and_an_item_are_readable_on_a_terminal_and_exact_elsewhere() {
    let stack = Stack::with(1, 0);
    let sent = std::fs::read(stack.path("event.json")).unwrap();
    assert_eq!(stack.run(&["show", "stripe", "evt_0", "--body"]).stdout, sent);
    let lines = plain(&on_screen(&stack, &["show", "stripe", "evt_0", "--body"]));
    assert!(
        lines.len() > 10 && lines.iter().any(|line| line.trim_start() == "\"type\": \"invoice.paid\""),
        "{lines:#?}"
    );
    let story = on_screen(&stack, &["show", "stripe", "evt_0", "--items"]).concat();
    assert!(story.contains("record=in#stripe#evt_0") && !story.contains("{\"S\""), "{story}");
    stack.run(&["show", "stripe", "evt_0", "--items"]).exits(0).prints("{\"S\":\"in#stripe#evt_0\"}");
}

/// A bar that says another number than the limit, or more digits than anybody reads, is none.
#[test]
fn a_bar_is_as_long_as_the_limit_and_its_rate_has_one_decimal() {
    let stack = Stack::with(0, 3);
    let retry = ["replay", "--state", "DEAD", "--limit", "2", "--rate", "4", "--yes", "--by", "ada"];
    let colours = [("TERM".to_owned(), "xterm-256color".to_owned())];
    let printed = text(&stack.run_at_terminal(&retry, &colours, ""));
    assert!(printed.contains(" 1/2  ") && !printed.contains("/3  "), "{printed}");
    let rates: Vec<_> = printed.split("/s  ").filter_map(|before| before.rsplit(' ').next()).collect();
    let is_short = |rate: &&str| rate.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 1);
    assert!(rates.len() > 1 && rates[..rates.len() - 1].iter().all(is_short), "{rates:?}");
    let last = |words: &[&str]| text(&stack.run(words)).lines().rfind(|line| !line.is_empty()).unwrap().to_owned();
    let go_on = ["replay", "--state", "DEAD", "--limit", "1", "--rate", "1000", "--yes", "--by", "ada"];
    stack.wait_for("DEAD", 3);
    assert!(last(&go_on).starts_with("  hookonce replay"), "the command that goes on stands at the end");
}

#[test]
fn a_drill_says_when_there_may_be_more_records() {
    let stack = Stack::with(3, 0);
    let more = "there may be more records, which were not tried: raise --limit";
    stack.run(&["drill", "--since", "1h", "--limit", "2"]).prints(more);
    stack.run(&["drill"]).omits(more);
    assert_eq!(summary(&stack.run(&["drill", "--since", "1h", "--limit", "2", "--json"]))["cut"], true);
}

#[test]
fn who_looks_in_the_wrong_folder_or_starts_a_second_stack_is_told_where_one_runs() {
    let stack = Stack::new();
    stack.run(&["dev", "--stack", "inbox"]).exits(2).prints("named by its folder: write ./inbox");
    std::fs::create_dir(stack.path("below")).unwrap();
    let data = stack.path(".hookonce").canonicalize().unwrap();
    let place = stack.announced();
    let again = stack.run(&["dev", "--port", "0"]).exits(3);
    let (url, pid) = (place["url"].as_str().unwrap(), &place["pid"]);
    again.prints(&format!("a stack runs in this folder already: {url}, process {pid}"));
    // `trigger` and `dev` name it in the same way.
    for elsewhere in [stack.path("below"), data.parent().unwrap().parent().unwrap().to_owned()] {
        let list = std::process::Command::new(env!("CARGO_BIN_EXE_hookonce"))
            .arg("list")
            .current_dir(elsewhere)
            .output()
            .unwrap();
        list.exits(3).prints(&format!("--stack {}", data.display()));
    }
}

/// A table of months is read for minutes.
#[test]
fn a_command_that_reads_for_long_says_at_ctrl_c_how_far_it_was() {
    let stack = Stack::new();
    for command in ["stats", "list"] {
        let taken = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&taken);
        // It takes calls, and answers none.
        let address = listen(move |mut call| {
            seen.fetch_add(1, Ordering::SeqCst);
            let _ = call.read_to_end(&mut Vec::new());
        });
        let mut state = stack.announced();
        let key = clients::access_key_id(state["dynamodb_url"].as_str().unwrap());
        state["dynamodb_url"] = format!("http://{key}@{address}").into();
        let hung = Workspace::new();
        std::fs::create_dir(hung.path(".hookonce")).unwrap();
        hung.write(".hookonce/stack.json", state.to_string().as_bytes());
        let reads = hung.start(&[command]);
        wait_until("it reads", || taken.load(Ordering::SeqCst) > 0);
        interrupt(reads).exits(1).prints("stopped after reading 0 records; nothing was changed");
    }
}

/// Whoever asks about a booking knows its invoice, not the id of an event.
#[test]
fn a_record_is_found_by_the_fact_that_it_applied() {
    let stack = Stack::with(2, 0);
    let key = stack.show("evt_1")["domain_key_today"].as_str().unwrap().to_owned();
    let (_, fact) = key.split_once("#payments#").unwrap();
    for fact in [fact, &key, key.trim_start_matches("#dk#")] {
        let shown = json(&stack.run(&["show", "--fact", fact, "--json"]).exits(0));
        assert_eq!(shown["key"], "evt_1", "{fact}");
    }
    let (event_type, invoice) = fact.split_once('#').unwrap();
    assert_eq!((event_type, invoice), ("invoice.paid", "in_1"), "{fact}");
    let shown = json(&stack.run(&["show", "--fact", invoice, "--json"]).exits(0));
    assert_eq!(shown["key"], "evt_1", "an invoice's number is what support has in hand");
    let none = stack.run(&["show", "--fact", "in_none"]).exits(1);
    none.prints("no record that is kept has applied the fact");
    stack.run(&["show", "stripe", "evt_1", "--fact", fact]).exits(2);
    stack.run(&["show"]).exits(2);
}

/// The log is of the functions. A command that asks today's handlers says itself which field they could not read.
#[test]
fn a_body_that_no_handler_can_read_is_a_sentence_with_its_field() {
    let stack = Stack::with(0, 1);
    let why = "INVOICE_UNREADABLE: the body does not fit at data.object";
    for command in [&["show", "stripe", "evt_0"][..], &["drill", "--state", "DEAD"]] {
        stack.run(command).prints(why).omits("WARN").omits("record.key");
    }
    let page = stack.run(&["show", "stripe", "evt_0", "--json"]).exits(0).omits("WARN");
    assert_eq!(json(&page)["state"], "DEAD");
}

#[test]
fn an_alarm_is_explained_by_its_section_of_the_runbook() {
    let workspace = Workspace::new();
    for name in ["RecordsDied", "hookonce/inbox/page/RecordsDied", "docs/run/runbook.md#records-died"] {
        workspace.run(&["explain", name]).exits(0).prints_all(&["Records died", "hookonce stats"]).omits("## ");
    }
    workspace.run(&["explain", "RecordsDiedd"]).exits(2).prints("did you mean RecordsDied?");
    let stack = Stack::with(0, 1);
    stack.run(&["status"]).prints("  hookonce explain records-died\n");
}
