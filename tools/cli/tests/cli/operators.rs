//! `replay` and `discard` as the person on call uses them, and as a script does.

use std::process::Output;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json as object;

use crate::aws::now;
use crate::stacks::{Stack, Tables, lines, summary};
use crate::support::{Ended, interrupt, json, sample, text, wait_until};

#[test]
fn a_dry_run_prints_what_would_happen_and_changes_nothing() {
    let stack = Stack::with(1, 2);
    let dry = stack.run(&["replay", "--state", "DEAD"]).exits(0);
    dry.prints_all(&["retry", "INVOICE_UNREADABLE", "evt_1", "evt_2", "would retry 2 records", "Pass --yes"]);
    // One is refused.
    let dry = stack.run(&["replay", "--key", "stripe", "evt_0", "--key", "stripe", "evt_1", "--json"]).exits(1);
    let lines = lines(&dry);
    let results: Vec<_> = lines.iter().map(|line| line["result"].as_str().unwrap_or_default()).collect();
    assert_eq!(results, ["refused", "would", ""]);
    assert!(lines[0]["refusal"].as_str().unwrap().contains("one that was applied can be forced"));
    assert_eq!(lines[2]["summary"]["dry_run"], true);
    assert_eq!((stack.list("DEAD").len(), stack.list("APPLIED").len()), (2, 1));
    assert!(stack.show("evt_1")["operations"].as_array().unwrap().is_empty(), "no trail of a dry run");
}

/// Whoever has seen what would happen is not stopped at the next command.
#[test]
fn a_dry_run_notes_that_the_order_needs_a_name_and_only_then() {
    let stack = Stack::with(0, 1);
    let needs = "needs your name: add --by NAME, or set USER";
    for unnamed in [&["--by", ""][..], &["--by", " ", "--json"]] {
        let dry = stack.run(&[&["replay", "--state", "DEAD"], unnamed].concat()).exits(0);
        assert!(text(&dry).contains(needs), "{unnamed:?}: {}", text(&dry));
        assert!(!String::from_utf8_lossy(&dry.stdout).contains(needs), "{unnamed:?}: standard output is for data");
    }
    stack.run(&["replay", "--state", "DEAD", "--by", "ada"]).exits(0).omits(needs);
    stack.run(&["replay", "--state", "APPLIED", "--by", ""]).omits(needs);
}

#[test]
fn what_is_missing_is_named_and_nothing_is_done() {
    let stack = Stack::with(1, 1);
    for (arguments, expected) in [
        (&["replay"][..], "pass --key ENDPOINT KEY, or a filter"),
        (&["replay", "--state", "DEAD", "--accept-duplicate", "--yes", "--by", "ada"], "pass --reason"),
        (&["replay", "--accept-other-body"], "pass --key ENDPOINT KEY, or a filter"),
        (&["replay", "--state", "DEAD", "--accept-other-body"], "cannot be used with"),
        (&["replay", "--state", "APPLIED", "--force", "--yes", "--by", "ada"], "pass --reason"),
        (&["discard", "--state", "DEAD", "--yes", "--by", "ada"], "pass --reason"),
        (&["discard", "--state", "DEAD", "--yes", "--reason", "x", "--by", ""], "pass --by NAME"),
        (&["replay", "--state", "LOST"], "it must be one of PENDING, PROCESSED"),
        (&["replay", "--key", "stripe"], "2 values required"),
        (&["discard", "--key", "stripe", "evt_1", "--error", "X", "--by", "ada", "--yes"], "cannot be used with"),
        (&["audit", "--table", "t"], "--stack <NAME|DIR>"),
        (&["discard", "--state", "DEAD", "--yes", "--reason", "...", "--by", "ada"], "pass --reason"),
        (&["replay", "--force", "--since", "96d"], "pass --since 95d"),
        (&["list", "--since", "96d"], "95 days at once"),
        (&["stats", "--since", "1y"], "95 days at once"),
        (&["drill", "--since", "96d"], "95 days at once"),
        (&["replay", "--key", "No Endpoint", "evt_1"], "as `hookonce list` prints them"),
    ] {
        let output = stack.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {}", text(&output));
        output.prints(expected);
    }
    let none = stack.run(&["replay", "--key", "stripe", "evt_404", "--yes", "--by", "ada"]);
    none.exits(1).prints("endpoint stripe has no record evt_404");
    assert_eq!((stack.list("DEAD").len(), stack.list("APPLIED").len()), (1, 1));
}

/// What has no way back takes as many records as the person saw, or none.
#[test]
fn what_cannot_be_taken_back_is_done_to_the_counted_records_or_to_none() {
    let stack = Stack::with(1, 2);
    let discard = ["discard", "--state", "DEAD", "--reason", "test data"];
    let with = |more: &[&str]| stack.run(&[&discard[..], &["--by", "ada"], more].concat());
    let dry = stack.run(&discard).exits(0).prints_all(&["would discard 2 records", "there is no way back", "--yes 2"]);
    for order in [
        &["discard", "--state", "DEAD", "--reason", "a test", "--by", "ada"][..],
        &["replay", "--force", "--since", "1h", "--reason", "a test", "--by", "ada"],
        &["redact", "--endpoint", "stripe", "--since", "1h", "--by", "ada", "--reason", "a test"],
        &["doubt", "--state", "PENDING", "--reason", "a test", "--by", "ada"],
    ] {
        let uncounted = stack.run(&[order, &["--yes"], &["--rate", "10"]].concat());
        uncounted.exits(2).prints_all(&["needs their number", "run it without --yes first"]);
    }
    for wrong in ["1", "3", "0"] {
        let agreed = format!("you agreed to discard {wrong} record");
        with(&["--yes", wrong]).exits(1).prints_all(&[&agreed, "and the filter finds 2 now"]);
    }
    with(&["--yes", "two"]).exits(2).prints("the number that a dry run prints");
    assert_eq!(stack.list("DEAD").len(), 2, "nothing was done");

    // One more dies after the dry run, so what it printed leaves that one out.
    let command = printed(&text(&dry));
    stack.deliver(7, false).exits(0);
    stack.wait_for("DEAD", 3);
    with(&["--yes", "2"]).exits(1).prints("finds 3 now");
    assert_eq!(run_printed(&stack, &command).0, 2);
    assert_eq!(stack.list("DEAD").len(), 1);
    // A single record is named, not counted.
    stack.run(&["discard", "--key", "stripe", "evt_7", "--reason", "x", "--by", "ada", "--yes"]).exits(0);
}

#[test]
fn a_discarded_record_and_a_retried_one_show_who_did_it_and_why() {
    let stack = Stack::with(0, 2);
    let by = ["--by", "ada", "--yes"];
    stack.run(&[&["discard", "--key", "stripe", "evt_0", "--reason", "test data"][..], &by].concat()).exits(0);
    let retried = stack.run(&[&["replay", "--error", "INVOICE_UNREADABLE", "--json"][..], &by].concat());
    assert_eq!(summary(&retried)["done"], 1, "{}", text(&retried));
    let shown = stack.show("evt_0");
    assert_eq!(shown["state"], "DISCARDED");
    let operation = ["by", "reason", "from", "to"].map(|name| shown["operations"][0][name].clone());
    assert_eq!(object!(operation), object!(["ada", "test data", "DEAD", "DISCARDED"]));
    stack.run(&["show", "stripe", "evt_0"]).prints("discard by ada: DEAD to DISCARDED, \"test data\"");
    // No handler can read it, so it dies again.
    stack.wait_for("DEAD", 1);
    let shown = stack.show("evt_1");
    assert_eq!((&shown["operations"][0]["operation"], &shown["tries"]), (&object!("retry"), &object!(2)), "{shown}");
    stack.run(&["show", "stripe", "evt_1"]).prints("dead: PERMANENT, after 2 attempts, 1 since the last replay");
    let listed = text(&stack.run(&["list", "--state", "DEAD"]));
    let row: Vec<_> = listed.lines().find(|line| line.contains("evt_1")).unwrap().split_whitespace().collect();
    assert_eq!(row[4], "2", "tries, as many as show has lines: {listed}");
}

#[test]
fn list_filters_by_the_word_that_it_prints_and_counts_what_a_person_calls_tries() {
    let stack = Stack::with(1, 1);
    for (state, key, tries) in [("APPLIED", "evt_0", 1), ("PROCESSED", "evt_0", 1), ("DEAD", "evt_1", 1)] {
        let listed = stack.list(state);
        assert_eq!((listed.len(), &listed[0]["key"], &listed[0]["tries"]), (1, &object!(key), &object!(tries)));
    }
    for state in ["DUPLICATE", "IGNORED", "FANNED_OUT", "PENDING", "DISCARDED"] {
        assert!(stack.list(state).is_empty(), "{state}");
    }
    stack.run(&["list", "--state", "applied"]).prints_all(&["APPLIED", "evt_0"]).omits("evt_1");
    let keys = |more: &[&str]| -> Vec<serde_json::Value> {
        let listed = json(&stack.run(&[&["list", "--since", "1h", "--json"], more].concat()));
        listed.as_array().unwrap().iter().map(|record| record["key"].clone()).collect()
    };
    assert_eq!(keys(&[]), ["evt_1", "evt_0"], "newest first");
    assert_eq!(keys(&["--limit", "1"]), ["evt_1"]);
}

#[test]
fn show_prints_the_timeline_of_a_record() {
    let stack = Stack::with(1, 1);
    stack.run(&["show", "stripe", "evt_0"]).prints_all(&[
        "APPLIED: invoice.paid from Stripe at the endpoint stripe",
        "received, verified with the newest secret",
        "processed: APPLIED, 1 attempt",
        "domain key",
        "#dk#stripe#payments#",
        "update stripe#balance#",
        "bytes stored",
        "expires",
    ]);
    stack.run(&["show", "stripe", "evt_1"]).prints_all(&[
        "attempt failed: INVOICE_UNREADABLE",
        "dead: PERMANENT, after 1 attempt; see `hookonce explain INVOICE_UNREADABLE`",
        "fails with INVOICE_UNREADABLE",
    ]);
}

/// A person reads the clock of the wall. What a program reads has no zone.
#[test]
fn times_for_people_are_in_their_zone_and_name_it() {
    let stack = Stack::with(0, 1);
    let zone = [("TZ".to_owned(), "Asia/Kathmandu".to_owned())];
    // The log, on standard error, is in UTC for everybody.
    let here = |arguments: &[&str]| String::from_utf8(stack.run_with_environment(arguments, &zone).stdout).unwrap();
    let listed = here(&["list"]);
    let received = listed.split_whitespace().find(|word| word.ends_with("+05:45"));
    let received = received.unwrap_or_else(|| panic!("{listed}"));
    for arguments in [&["show", "stripe", "evt_0"][..], &["replay", "--state", "DEAD"]] {
        let printed = here(arguments);
        assert!(printed.contains("+05:45"), "{arguments:?}: {printed}");
        let columns = printed.lines().filter(|line| !line.starts_with("  hookonce "));
        let utc = columns.flat_map(str::split_whitespace).find(|word| word.contains(':') && word.ends_with('Z'));
        assert_eq!(utc, None, "{arguments:?}: {printed}");
    }
    assert!(here(&["show", "stripe", "evt_0"]).contains(received), "the same time in the same form on both screens");
    let since = stack.run(&["list", "--since", received, "--json"]);
    assert_eq!(json(&since)[0]["key"], "evt_0", "what it prints can be typed: {}", text(&since));
    let earlier = received.replace("+05:45", "+05:46");
    assert_eq!(json(&stack.run(&["list", "--until", &earlier, "--json"])), object!([]), "a minute earlier");
}

#[test]
fn what_cannot_be_found_is_named_with_the_next_step() {
    let stack = Stack::with(1, 0);
    let none = "there is no endpoint nope; list them with `hookonce endpoint list`";
    stack.run(&["list", "--endpoint", "nope"]).exits(0).prints(none);
    stack.run(&["list", "--endpoint", "github"]).omits("there is no endpoint");
    stack.run(&["list", "--limit", "0"]).exits(2);
    stack.run(&["drill", "--state", "DEAD"]).prints("0 records tried: no record matches");
    stack.run(&["endpoint", "add", "stripe-2", "--provider", "stripe"]).exits(0);
    stack.deliver(1, true).prints("several endpoints of the local stack belong to stripe: stripe, stripe-2");
}

/// A handler may fail with a code that no page describes.
#[test]
fn show_names_a_page_that_exists() {
    let stack = Stack::with(0, 1);
    let tables = Tables::of(&stack);
    tables.damage(&tables.inbox, "in#stripe#evt_0", "last_error", Some(AttributeValue::S("OUT_OF_STOCK".to_owned())));
    let expected =
        "dead: PERMANENT, after 1 attempt; see `hookonce explain PERMANENT`; OUT_OF_STOCK is its handler's own code";
    stack.run(&["show", "stripe", "evt_0"]).prints(expected);
}

/// What it prints is a whole command: a person puts a reason in place of the dots.
#[test]
fn a_dry_run_that_needs_a_reason_has_a_place_for_it() {
    let stack = Stack::with(1, 1);
    let again = |order: &[&str]| printed(&text(&stack.run(order)));
    let place = ["--reason", "...", "--yes"].map(str::to_owned);
    let counted = [&place[..], &["1".to_owned()]].concat();
    assert!(again(&["discard", "--state", "DEAD"]).ends_with(&counted), "there is no way back");
    assert!(again(&["replay", "--force", "--key", "stripe", "evt_0"]).ends_with(&place));
    assert!(!again(&["discard", "--state", "DEAD", "--reason", "a test"]).contains(&place[1]));
    assert!(!again(&["replay", "--state", "DEAD"]).contains(&place[0]), "a retry needs none");
}

/// A batch and the records of its events, as `show` and `drill` print them.
#[test]
fn a_batch_is_shown_with_its_events() {
    let stack = Stack::new();
    let file = "events/deliveries/meta_whatsapp-messages.json";
    stack.run(&["send", "--provider", "meta_whatsapp", "--file", file]).exits(0);
    stack.wait_for("FANNED_OUT", 1);
    stack.wait_for("PENDING", 0);
    let batch = stack.list("FANNED_OUT").remove(0);
    let (endpoint, key) = (batch["endpoint"].as_str().unwrap(), batch["key"].as_str().unwrap());
    let processed = stack.list("PROCESSED");
    let events = processed.iter().filter(|it| it["parent"] == key).count();
    assert!(events > 1, "{processed:?}");
    let story = text(&stack.run(&["show", endpoint, key]));
    assert_eq!(story.lines().filter(|line| line.trim_start().starts_with("event ")).count(), events, "{story}");
    stack.run(&["show", endpoint, key, "--body"]).exits(1).prints("a batch keeps no body");
    let drilled = stack.run(&["drill", "--since", "1h", "--state", "PROCESSED", "--json"]);
    // The plans of its events update items that others share. The batch itself has no body left to drill.
    let of = |word: &str| summary(&drilled)[word].as_u64().unwrap_or(0);
    assert_eq!((of("same"), of("in part") + of("not compared")), (0, events as u64), "{}", text(&drilled));
}

/// A force is killed somewhere in the middle. The same command goes on: every record has one more effect, none two.
#[test]
fn a_force_that_is_killed_goes_on_when_it_is_run_again() {
    const RECORDS: usize = 12;
    let stack = Stack::with(RECORDS, 0);
    let command = ["replay", "--force", "--since", "1h", "--reason", "wrong account", "--by", "ada"];
    // Whoever runs it again looks how many are left.
    let left = || summary_of(&stack.run(&[&command[..], &["--json"]].concat()), "would").to_string();
    for moment in [1, 4, 7] {
        let mut child = stack.start(&[&command[..], &["--rate", "20/s", "--yes", &left()]].concat());
        let forced = || stack.list("PROCESSED").iter().filter(|it| it["generation"] == 1).count();
        wait_until("some are forced", || forced() >= moment || child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_until("what was forced is applied", || stack.list("PENDING").is_empty());
    let rest = ["--rate", "1000", "--json", "--yes"];
    let summary = summary(&stack.run(&[&command[..], &rest, &[&left()]].concat()).exits(0));
    let count = |word: &str| summary[word].as_u64().unwrap();
    assert_eq!(count("done") + count("done_before"), RECORDS as u64, "{summary}");
    stack.wait_for("APPLIED", RECORDS);
    for record in stack.list("APPLIED") {
        let shown = stack.show(record["key"].as_str().unwrap());
        assert_eq!(shown["generation"], 1, "{shown}");
        assert_eq!(shown["operations"].as_array().unwrap().len(), 1, "{shown}");
    }
    let twice = stack.run(&[&command[..], &["--json", "--yes", "0"]].concat()).exits(0);
    assert_eq!(summary_of(&twice, "done_before"), RECORDS as u64);
}

/// Two people click at the same moment, and one of them again.
#[test]
fn a_force_that_two_people_click_and_one_of_them_twice_has_one_more_effect() {
    let stack = Stack::with(1, 0);
    let command = ["replay", "--force", "--key", "stripe", "evt_0", "--reason", "wrong account", "--yes", "--json"];
    let both = ["ada", "grace"].map(|by| stack.start(&[&command[..], &["--by", by]].concat()));
    let done = both.map(|child| summary_of(&child.wait_with_output().unwrap(), "done"));
    assert_eq!(done.iter().sum::<u64>(), 1, "{done:?}");
    stack.wait_for("APPLIED", 1);
    let again = stack.run(&[&command[..], &["--by", "ada"]].concat()).exits(0);
    assert_eq!(summary_of(&again, "done_before"), 1);
    let shown = stack.show("evt_0");
    assert_eq!((&shown["generation"], shown["operations"].as_array().unwrap().len()), (&object!(1), 1), "{shown}");
    assert_eq!((&shown["applied_before"][0]["generation"], &shown["tries"]), (&object!(0), &object!(2)), "{shown}");
    let story = text(&stack.run(&["show", "stripe", "evt_0"]));
    let at = |what: &str| story.find(what).unwrap_or_else(|| panic!("{what} in {story}"));
    assert!(at("applied, before it was forced") < at("force by"), "{story}");
    assert!(at("processed: APPLIED, 2 attempts, 1 since the last replay") > at("force by"), "{story}");
    let tables = Tables::of(&stack);
    let keys = tables.items(&tables.domain).into_iter().map(|item| item["pk"].as_s().unwrap().clone());
    assert_eq!(keys.filter(|key| key.starts_with("stripe#ledger#")).count(), 2, "the first effect and one more");
}

fn summary_of(output: &Output, word: &str) -> u64 {
    summary(output)[word].as_u64().unwrap()
}

/// Two deliveries report one fact. To force the record that found it applied would apply it twice more.
#[test]
fn a_force_leaves_duplicates_alone_unless_they_are_selected() {
    let stack = Stack::with(1, 0);
    let mut event = sample("stripe-invoice-paid");
    event["id"] = object!("evt_again");
    event["data"]["object"]["id"] = object!("in_0");
    let file = stack.write("again.json", event.to_string().as_bytes());
    stack.run(&["send", "--provider", "stripe", "--file", &file]).exits(0);
    stack.wait_for("DUPLICATE", 1);
    let dry = stack.run(&["replay", "--force", "--endpoint", "stripe", "--json"]);
    assert_eq!(summary_of(&dry, "would"), 1, "{}", text(&dry));
    assert_eq!(lines(&dry)[0]["key"], "evt_0");
    let forced = stack.run(&["replay", "--force", "--endpoint", "stripe", "--state", "DUPLICATE", "--json"]);
    assert_eq!(lines(&forced)[0]["key"], "evt_again", "{}", text(&forced));
}

/// The command that an order printed to go on with.
fn printed(output: &str) -> Vec<String> {
    let again = output.lines().find_map(|line| line.strip_prefix("  hookonce ")).unwrap_or_else(|| panic!("{output}"));
    shlex::split(again).unwrap()
}

/// Runs such a command as JSON. Returns how many records it did, and their keys.
fn run_printed(stack: &Stack, again: &[String]) -> (u64, Vec<String>) {
    // A dry run without a name has a place for it.
    let name: &[&str] = if again.contains(&"--by".to_owned()) { &[] } else { &["--by", "ada"] };
    let again: Vec<_> = again.iter().map(String::as_str).chain(name.iter().copied()).chain(["--json"]).collect();
    let ran = stack.run(&again);
    let keys = lines(&ran).iter().filter_map(|line| Some(line["key"].as_str()?.to_owned())).collect();
    (summary_of(&ran, "done"), keys)
}

/// `--since 1h` is another time an hour later. What a dry run prints is not.
#[test]
fn the_command_that_a_dry_run_prints_is_about_the_records_that_it_listed() {
    let stack = Stack::with(1, 1);
    let force = printed(&text(&stack.run(&["replay", "--force", "--since", "1h", "--reason", "it's wrong"])));
    assert!(force.contains(&"it's wrong".to_owned()) && !force.contains(&"1h".to_owned()), "{force:?}");
    let discard = printed(&text(&stack.run(&["discard", "--state", "DEAD", "--reason", "spam"])));
    stack.deliver(2, true).exits(0);
    stack.deliver(3, false).exits(0);
    stack.wait_for("APPLIED", 2);
    stack.wait_for("DEAD", 2);
    assert_eq!(run_printed(&stack, &force), (1, vec!["evt_0".to_owned()]));
    assert_eq!(run_printed(&stack, &discard), (1, vec!["evt_1".to_owned()]), "nobody saw the one that died since");
    assert_eq!(stack.list("DEAD")[0]["key"], "evt_3");
}

/// A retry moves a record to another place in the index, where a later page lists it again.
#[test]
fn a_pending_record_is_retried_once_in_a_run() {
    const COPIES: usize = 60;
    let stack = Stack::new();
    stack.run(&["pause", "worker", "--reason", "a test", "--by", "ada"]).exits(0);
    stack.deliver(0, true).exits(0);
    stack.wait_for("PENDING", 1);
    let tables = Tables::of(&stack);
    let later = (i64::try_from(now()).unwrap() + 3_600) * 1_000;
    tables.copy("in#stripe#evt_0", COPIES, |_, item| {
        item.insert("due_at".to_owned(), AttributeValue::N(later.to_string()));
    });
    let retry = ["replay", "--state", "PENDING", "--rate", "1000", "--by", "ada", "--yes", "--json"];
    let retried = stack.run(&retry).exits(0);
    assert_eq!(summary_of(&retried, "done"), COPIES as u64 + 1, "{}", text(&retried));
}

#[test]
fn a_replay_that_is_stopped_goes_on_without_what_died_again() {
    const RECORDS: usize = 3;
    let stack = Stack::with(0, RECORDS);
    // The second record would follow after a minute and a half.
    let replay = stack.start(&["replay", "--state", "DEAD", "--rate", "0.01/s", "--by", "ada", "--yes"]);
    let operations = |key: &str| stack.show(key)["operations"].as_array().unwrap().len();
    let keys: Vec<_> = (0..RECORDS).map(|index| format!("evt_{index}")).collect();
    let retried = || keys.iter().filter(|key| operations(key) == 1).count();
    wait_until("one is retried", || retried() == 1);
    stack.wait_for("DEAD", RECORDS);
    let stopped = interrupt(replay).exits(1).prints("retry: 1 record done");
    // Nobody watches, so nobody counted the index.
    let resume = "stopped: 1 record done. To resume; these are skipped:\n  hookonce replay --state DEAD";
    let mut again = printed(&text(&stopped.prints(resume)));
    again.iter_mut().filter(|word| *word == "0.01/s").for_each(|word| "1000/s".clone_into(word));
    again.retain(|word| word != "--by" && word != "ada");
    assert_eq!(run_printed(&stack, &again).0, 2, "the first one died again");
    assert_eq!(retried(), RECORDS, "each is retried once");
}
