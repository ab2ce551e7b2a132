//! `stats`, `drill`, `audit` and `redact` on a running stack, sound and then damaged.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Output;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json as object};

use crate::aws::{Deployed, now};
use crate::stacks::{Stack, Tables, lines, summary};
use crate::support::{Ended, json, root, send_interrupt, text};

#[test]
fn stats_count_by_state_endpoint_type_and_error() {
    let stack = Stack::with(3, 2);
    let stats = json(&stack.run(&["stats", "--since", "1h", "--json"]));
    assert_eq!(stats["records"], 5);
    assert_eq!(stats["by"]["state"], object!({ "APPLIED": 3, "DEAD": 2 }));
    assert_eq!(stats["by"]["endpoint"], object!({ "stripe": 5 }));
    assert_eq!(stats["by"]["error"], object!({ "INVOICE_UNREADABLE": 2 }));
    assert!(stats["oldest_dead_age_ms"].as_i64().unwrap() >= 0);
    let columns = stats["over_time"]["records"].as_array().unwrap();
    assert_eq!(columns.iter().map(|count| count.as_i64().unwrap()).sum::<i64>(), 5);
    let dead = json(&stack.run(&["stats", "--state", "DEAD", "--json"]));
    assert_eq!(dead["by"]["state"], object!({ "DEAD": 2 }));
    stack.run(&["stats"]).prints_all(&["state APPLIED", "60.0%", "oldest DEAD", "█"]);
    stack.run(&["stats", "--endpoint", "other"]).exits(1);
}

/// The journal is read for a day unless a time is named. Whoever repairs records must not take that for all of them.
#[test]
fn a_command_that_reads_only_a_day_notes_how_to_reach_further() {
    const HOUR_MS: i64 = 3_600_000;
    let stack = Stack::with(2, 0);
    let tables = Tables::of(&stack);
    let (key, word) = ("in#stripe#evt_0", "reaches further");
    let received = tables.number(&tables.inbox, key, "received_at") - 25 * HOUR_MS;
    tables.set_number(&tables.inbox, key, "received_at", received);
    let shard = AttributeValue::S(format!("{}#0", received.div_euclid(HOUR_MS)));
    tables.damage(&tables.inbox, key, "journal_shard", Some(shard));
    for (command, counted) in [("replay --force", "would"), ("drill", "in part"), ("stats", "records")] {
        let words: Vec<_> = command.split(' ').collect();
        let run = |more: &[&str]| stack.run(&[&words[..], &["--state", "APPLIED"], more].concat());
        let report = |output: &Output| match lines(output).pop().unwrap_or_else(|| panic!("{}", text(output))) {
            line if line["summary"].is_object() => line["summary"].clone(),
            line => line,
        };
        let (day, all) = (report(&run(&["--json"])), report(&run(&["--json", "--since", "26h"])));
        // A plan may name the time of receipt, so a drill may find another one.
        let count = |report: &Value| [counted, "differs"].iter().filter_map(|word| report[word].as_u64()).sum::<u64>();
        assert_eq!((count(&day), count(&all)), (1, 2), "{command}: {day}, {all}");
        let since = |report: &Value| report["since_ms"].as_i64().unwrap();
        assert!(received < since(&day) && since(&all) < received, "{command}: {day}, {all}");
        run(&[]).prints(word);
    }
    assert_eq!(stack.list("APPLIED").len(), 1);
    stack.run(&["list"]).prints(word);
    stack.run(&["list", "--since", "26h"]).omits(word);
    // These are of every age.
    stack.run(&["list", "--state", "DEAD"]).omits(word);
}

/// The counts of a summary, without its times.
fn summary_of(output: &Output) -> Value {
    let mut summary = summary(output);
    summary.as_object_mut().unwrap().remove("since_ms");
    summary
}

/// The plan of a refund depends on what was refunded before: after it was applied, nothing is left to refund.
#[test]
fn a_drill_does_not_call_an_empty_plan_the_same() {
    let stack = Stack::new();
    stack.run(&["trigger", "stripe.charge.refunded"]).exits(0);
    stack.wait_for("APPLIED", 1);
    let drilled = stack.run(&["drill", "--since", "1h", "--state", "APPLIED", "--json"]).exits(1);
    assert_eq!(summary_of(&drilled), object!({ "not compared": 1 }));
    assert_eq!(lines(&drilled)[0]["why"], "its plan writes nothing today", "{}", text(&drilled));
}

#[test]
fn a_drill_compares_todays_plans_with_what_was_applied() {
    let stack = Stack::with(2, 1);
    let sound = stack.run(&["drill", "--since", "1h", "--state", "APPLIED", "--json"]).exits(1);
    // Its plans create an entry of the ledger and update a balance, which all events share.
    assert_eq!(summary_of(&sound), object!({ "in part": 2 }), "{}", text(&sound));
    assert!(lines(&sound)[0]["why"].as_str().unwrap().contains("stripe#balance#"), "{}", text(&sound));
    let drill = || stack.run(&["drill", "--since", "1h", "--state", "APPLIED"]);
    drill().prints_all(&["2 in part", "no record was compared as a whole"]);
    stack.run(&["drill", "--state", "DEAD"]).exits(1).prints_all(&["INVOICE_UNREADABLE", "1 fails"]);
    let tables = Tables::of(&stack);
    // As if another handler had written the ledger.
    let before = tables.dump(&tables.domain);
    let entry = before.split('"').find(|key| key.starts_with("stripe#ledger#")).unwrap();
    tables.set_number(&tables.domain, entry, "minor", 1);
    drill().exits(1).prints(&format!("{entry} would have another minor"));
    tables.delete(&tables.domain, entry);
    drill().prints("which was not created");
    assert_ne!(before, tables.dump(&tables.domain), "only this test writes");
    assert_eq!(stack.list("APPLIED").len(), 2);
}

#[test]
fn an_audit_of_a_sound_stack_finds_nothing_and_of_a_damaged_one_everything() {
    let stack = Stack::with(6, 3);
    // Nobody can be asked.
    stack.run(&["audit"]).exits(2);
    let sound = summary(&stack.run(&["audit", "--scan", "--json"]).exits(0));
    let figures = ["records", "violations", "complete"].map(|name| sound[name].clone());
    assert_eq!(object!(figures), object!([9, 0, true]));

    let tables = Tables::of(&stack);
    let (inbox, number) = (&tables.inbox, |number: &str| Some(AttributeValue::N(number.to_owned())));
    let key = |index: usize| format!("in#stripe#evt_{index}");
    let word = |word: &str| Some(AttributeValue::S(word.to_owned()));
    tables.damage(inbox, &key(0), "hookonce_expires_at", None);
    tables.damage(inbox, &key(1), "outcome", None);
    tables.damage(inbox, &key(2), "due_shard", word("due#0"));
    tables.damage(inbox, &key(2), "due_at", number("1"));
    tables.damage(inbox, &key(3), "status", word("LOST"));
    tables.damage(inbox, &key(5), "duplicate_count", number("-1"));
    tables.damage(inbox, &key(6), "body", None);
    tables.damage(inbox, &key(7), "dead_reason", None);
    tables.damage(inbox, &key(5), "outcome", word("FANNED_OUT"));
    // No record of a few minutes was due so often.
    tables.set_number(inbox, &key(8), "resends", 1_000);
    // Applied long enough ago that no clock explains it.
    let received = tables.number(inbox, &key(4), "received_at");
    tables.set_number(inbox, &key(4), "processed_at", received - 3_600_000);
    let shown = stack.show("evt_4");
    assert_eq!([&shown["received_at_ms"], &shown["processed_at_ms"]], [received, received - 3_600_000]);
    tables.delete(&tables.domain, shown["domain_key_today"].as_str().unwrap());
    let damaged = lines(&stack.run(&["audit", "--scan", "--json"]).exits(1));
    assert_eq!(
        found(&damaged),
        [
            ("evt_0", "expiry"),
            ("evt_1", "domain-key-stands"),
            ("evt_1", "outcome-missing"),
            ("evt_2", "due-entry"),
            ("evt_3", "unreadable"),
            ("evt_4", "domain-key-missing"),
            ("evt_5", "body-kept"),
            ("evt_5", "domain-key-stands"),
            ("evt_5", "negative-counter"),
            ("evt_6", "body-missing"),
            ("evt_7", "reason-missing"),
            ("evt_8", "resent-too-often"),
        ]
    );
    stack.run(&["audit", "--scan"]).prints_all(&["docs/trust/audit.md#body-missing", "12 violations"]);
}

/// The keys and the violations that the lines of an audit tell, sorted.
fn found(audited: &[Value]) -> Vec<(&str, &str)> {
    let found = audited.iter().filter_map(|line| Some((line["key"].as_str()?, line["violation"].as_str()?)));
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found
}

/// A running relay sends what is due, so these records are in copies of the tables, at which none looks.
#[test]
fn an_audit_finds_pending_records_that_no_relay_kept() {
    const DAY_S: i64 = 86_400;
    let stack = Stack::with(0, 3);
    let tables = Tables::of(&stack);
    let inbox = "inbox-copy";
    tables.copy_table(&tables.inbox, inbox);
    tables.copy_table(&tables.domain, "domain-copy");
    let now_s = i64::try_from(now()).unwrap();
    let planted = [
        ("evt_0", "overdue", now_s - 660, 35 * DAY_S, 0),
        ("evt_1", "expires-early", now_s, 35 * DAY_S - 60, 0),
        ("evt_2", "resent-too-often", now_s, 35 * DAY_S, 1_000),
    ];
    for (key, _, due_s, kept_s, resends) in planted {
        let key = &format!("in#stripe#{key}");
        tables.damage(inbox, key, "status", Some(AttributeValue::S("PENDING".to_owned())));
        tables.damage(inbox, key, "due_shard", Some(AttributeValue::S("due#0".to_owned())));
        tables.set_number(inbox, key, "due_at", due_s * 1_000);
        tables.set_number(inbox, key, "resends", resends);
        let received_ms = tables.number(inbox, key, "received_at");
        tables.set_number(inbox, key, "hookonce_expires_at", received_ms.div_euclid(1_000) + kept_s);
    }
    let audit = ["audit", "--scan", "--json", "--table", inbox, "--domain-table", "domain-copy"];
    let audited = Deployed::of(&stack, &[]).run(&audit);
    assert_eq!(found(&lines(&audited)), planted.map(|(key, violation, ..)| (key, violation)), "{}", text(&audited));
}

/// Whoever meets a finding reads its section.
#[test]
fn every_finding_of_an_audit_has_a_section_and_every_section_a_finding() {
    let page = std::fs::read_to_string(root().join("docs/trust/audit.md")).unwrap();
    let sections: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let source = std::fs::read_to_string(root().join("tools/cli/src/command/audit.rs")).unwrap();
    let (_, table) = source.split_once("const fn section(self)").unwrap();
    let (table, _) = table.split_once("\n    }\n").unwrap();
    let named =
        table.lines().filter_map(|line| line.trim().strip_suffix("\"),")?.rsplit_once("(\"")?.1.split_once("\", \""));
    assert_eq!(named.map(|(_, section)| section).collect::<BTreeSet<_>>(), sections);
}

#[test]
fn a_redaction_leaves_no_byte_of_the_body_and_keeps_the_dedup() {
    let stack = Stack::with(3, 1);
    let by = ["--reason", "erasure asked for", "--by", "ada", "--yes"];
    let tables = Tables::of(&stack);
    stack.run(&[&["redact", "--key", "stripe", "evt_0"][..], &by].concat()).exits(0).prints("point-in-time recovery");
    stack.run(&["show", "stripe", "evt_0", "--body"]).exits(1);
    let force = ["replay", "--force", "--key", "stripe", "evt_0"];
    stack.run(&[&force[..], &by].concat()).exits(1).prints("its payload is gone");

    // Nobody can be asked.
    stack.run(&["redact", "--endpoint", "stripe"]).exits(2);
    let all = stack.run(&[&["redact", "--endpoint", "stripe", "--json"][..], &by, &["2"]].concat());
    let counts = ["done", "done_before", "refused"].map(|word| summary(&all)[word].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 1], "{}", text(&all));
    let bodies = tables.dump(&tables.inbox).matches("\"body\"").count();
    assert_eq!(bodies, 1, "only the dead record has its body");
    assert_eq!(stack.list("APPLIED").len(), 3);
    stack.deliver(0, true).prints("duplicate");
    stack.run(&["audit", "--scan"]).exits(0);
}

/// Both parts of an audit that is interrupted find together what a whole one finds, and nothing twice.
#[test]
fn an_audit_that_was_stopped_goes_on_after_the_last_record_that_it_checked() {
    /// Two pages of an audit.
    const RECORDS: usize = 1_000;
    let stack = Stack::with(0, 1);
    let tables = Tables::of(&stack);
    tables.copy("in#stripe#evt_0", RECORDS, |_, item| drop(item.remove("body")));
    // One page takes ten seconds, so the signal comes within the second one.
    let mut child = stack.start(&["audit", "--scan", "--json", "--rate", "100"]);
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    #[expect(clippy::disallowed_methods, reason = "how long a command takes is what is checked")]
    let started = Instant::now();
    let mut first = String::new();
    // All but one of the first page: the record that was copied may be in it, and is sound.
    for _ in 0..499 {
        printed.read_line(&mut first).unwrap();
    }
    // Each of them was read twice: with its page, and as a suspect.
    assert!(started.elapsed() >= Duration::from_millis(2 * 499 * 10 - 500), "{:?}", started.elapsed());
    send_interrupt(child.id());
    printed.read_to_string(&mut first).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{first}");
    let mut first: Vec<Value> = first.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stopped = first.pop().unwrap()["summary"].clone();
    assert_eq!((&stopped["complete"], first.len() < RECORDS), (&object!(false), true), "{stopped}");
    let after = stopped["after"].as_str().unwrap();
    let mut second = lines(&stack.run(&["audit", "--scan", "--json", "--after", after]).exits(1));
    assert_eq!(second.pop().unwrap()["summary"]["complete"], true);
    let keys: BTreeSet<_> = first.iter().chain(&second).map(|line| line["key"].to_string()).collect();
    assert_eq!((keys.len(), first.len() + second.len()), (RECORDS, RECORDS));
}
