//! Tables that were restored from a backup, beside those of a stack that goes on.

use std::process::Output;

use serde_json::Value;

use crate::aws::{Deployed, now};
use crate::stacks::{Stack, Tables, summary};
use crate::support::{Ended, json, text};

/// A stack, and copies of its tables as they were earlier.
struct Restored {
    stack: Stack,
    tables: Tables,
    deployed: Deployed,
}

impl Restored {
    fn new() -> Self {
        let stack = Stack::with(2, 2);
        let tables = Tables::of(&stack);
        tables.copy_table(&tables.inbox, "restored-inbox");
        tables.copy_table(&tables.domain, "restored-domain");
        let deployed = Deployed::of(&stack, &[]);
        Self { stack, tables, deployed }
    }

    /// Runs a command on the restored tables.
    fn run(&self, arguments: &[&str]) -> Output {
        self.run_on_inbox(&[arguments, &["--domain-table", "restored-domain"]].concat())
    }

    /// Runs a command on the restored inbox table. It may name another domain table.
    fn run_on_inbox(&self, arguments: &[&str]) -> Output {
        self.deployed.run(&[arguments, &["--table", "restored-inbox"]].concat())
    }
}

#[test]
fn restored_tables_are_looked_at_and_mended_beside_the_stack() {
    let restored = Restored::new();
    // What the stack did after the moment of the restore.
    restored.stack.deliver(4, true).exits(0);
    restored.stack.wait_for("APPLIED", 3);
    assert_eq!(json(&restored.run(&["list", "--since", "1h", "--json"])).as_array().unwrap().len(), 4);
    assert_eq!(summary(&restored.run(&["audit", "--scan", "--json"]).exits(0))["violations"], 0);
    restored.run(&["drill", "--since", "1h", "--state", "APPLIED"]).prints("2 records tried: 2 differs");
    let shown = restored.run(&["show", "stripe", "evt_0", "--json"]);
    assert_eq!(json(&shown)["state"], "PROCESSED", "{}", text(&shown));

    let by = ["--reason", "restored", "--by", "ada", "--yes"];
    for order in [
        &["discard", "--key", "stripe", "evt_2"][..],
        &["redact", "--key", "stripe", "evt_0"],
        &["replay", "--key", "stripe", "evt_3"],
    ] {
        restored.run(&[order, &by].concat()).exits(0);
    }
    // The orders keep to the retention, and leave the stack's own tables alone.
    let expires_at = restored.tables.number("restored-inbox", "in#stripe#evt_2", "hookonce_expires_at");
    let left = expires_at - i64::try_from(now()).unwrap();
    assert!((35 * 86_400 - 600..=35 * 86_400).contains(&left), "{left} s");
    assert_eq!(json(&restored.run(&["list", "--state", "PENDING", "--json"]))[0]["key"], "evt_3");
    // What could run from the copy may have run since: it runs only for one who accepts a duplicate.
    for (state, would) in [("PENDING", 1), ("DEAD", 0), ("APPLIED", 0)] {
        let foreseen = summary(&restored.run(&["doubt", "--state", state, "--json"]));
        assert_eq!((&foreseen["would"], &foreseen["refused"]), (&would.into(), &0.into()), "{state}");
    }
    let agreed = ["doubt", "--state", "PENDING", "--reason", "restored", "--by", "ada", "--yes", "1"];
    restored.run(&agreed).exits(0);
    restored.run(&[&["doubt", "--key", "stripe", "evt_0"], &by[..]].concat()).exits(1).prints("can be doubted");
    let doubted = json(&restored.run(&["list", "--state", "DEAD", "--error", "STALE", "--json"]));
    assert_eq!(doubted[0]["key"], "evt_3", "{doubted}");
    restored.run(&["replay", "--error", "STALE"]).prints("pass --accept-duplicate");
    assert_eq!(restored.stack.list("DEAD").len(), 2);
    restored.stack.run(&["show", "stripe", "evt_0", "--body"]).exits(0);
    assert!(restored.stack.show("evt_2")["operations"].as_array().unwrap().is_empty());
}

/// What the stack has in force says nothing of a copy, and its own domain table is no copy.
#[test]
fn a_restored_inbox_table_is_not_mixed_with_what_the_stack_has_in_force() {
    let restored = Restored::new();
    let with = |arguments: &[&str]| restored.run_on_inbox(arguments);
    with(&["list"]).exits(0);
    for command in [&["audit", "--scan"][..], &["discard", "--state", "DEAD"]] {
        with(command).exits(2).prints("pass --domain-table NAME");
    }
    let value = |name: &str| restored.deployed.variables.iter().find(|(it, _)| it == name).unwrap().1.clone();
    let live = value("HOOKONCE_DOMAIN_TABLE");
    with(&["audit", "--scan", "--domain-table", &live]).exits(2).prints("is its live domain table");

    let report = json(&with(&["status", "--json"]));
    assert_eq!(
        (&report["dead"], &report["queue"], &report["aws"]),
        (&2.into(), &Value::Null, &Value::Null),
        "{report}"
    );
    assert_eq!(report["needs"].as_array().unwrap().len(), 1, "{report}");
    with(&["status"]).prints("queues, alarms and relay are left out").omits("visible");
}
