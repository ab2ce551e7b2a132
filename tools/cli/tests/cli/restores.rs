//! Tables that were restored from a backup, beside those of a stack that goes on.

use std::process::Output;

use serde_json::Value;

use crate::aws::{Aws, now, outputs_of};
use crate::stacks::{Stack, Tables, summary};
use crate::support::{Ended, json, text, wait_until};

/// A stack, and copies of its tables as they were earlier.
struct Restored {
    stack: Stack,
    tables: Tables,
    _aws: Aws,
    variables: Vec<(String, String)>,
}

impl Restored {
    fn new() -> Self {
        let stack = Stack::with(2, 2);
        let tables = Tables::of(&stack);
        tables.copy_table(&tables.inbox, "restored-inbox");
        tables.copy_table(&tables.domain, "restored-domain");
        let mut variables = stack.workspace.environment();
        let aws = Aws::with_stack(&outputs_of(&variables, &[("DeliveryRetentionDays", "41")]));
        variables.extend(aws.environment(&[]));
        Self { stack, tables, _aws: aws, variables }
    }

    /// Runs a command on the restored tables.
    fn run(&self, arguments: &[&str]) -> Output {
        let copy = ["--stack", "inbox", "--table", "restored-inbox", "--domain-table", "restored-domain"];
        self.stack.workspace.run_with_environment(&[arguments, &copy].concat(), &self.variables)
    }
}

#[test]
fn restored_tables_are_looked_at_and_mended_beside_the_stack() {
    let restored = Restored::new();
    // What the stack did after the moment of the restore.
    assert!(restored.stack.deliver(4, true).status.success());
    restored.stack.wait_for("APPLIED", 3);
    assert_eq!(json(&restored.run(&["list", "--json"])).as_array().unwrap().len(), 4);
    let audited = restored.run(&["audit", "--scan", "--json"]);
    assert_eq!((audited.status.code(), &summary(&audited)["violations"]), (Some(0), &0.into()), "{}", text(&audited));
    assert!(text(&restored.run(&["drill", "--state", "APPLIED"])).contains("2 record(s) tried: 2 in part"));
    let shown = restored.run(&["show", "stripe", "evt_0", "--json"]);
    assert_eq!(json(&shown)["state"], "PROCESSED", "{}", text(&shown));

    let by = ["--reason", "restored", "--by", "ada", "--yes"];
    for order in [
        &["discard", "--key", "stripe", "evt_2"][..],
        &["redact", "--key", "stripe", "evt_0"],
        &["replay", "--key", "stripe", "evt_3"],
    ] {
        let done = restored.run(&[order, &by].concat());
        assert_eq!(done.status.code(), Some(0), "{order:?}: {}", text(&done));
    }
    // The orders keep to the stack's retention, and leave the stack's own tables alone.
    let expires_at = restored.tables.number("restored-inbox", "in#stripe#evt_2", "expires_at");
    let left = expires_at - i64::try_from(now()).unwrap();
    assert!((41 * 86_400 - 600..=41 * 86_400).contains(&left), "{left} s");
    assert_eq!(json(&restored.run(&["list", "--state", "PENDING", "--json"]))[0]["key"], "evt_3");
    assert_eq!(restored.stack.list("DEAD").len(), 2);
    assert_eq!(restored.stack.run(&["show", "stripe", "evt_0", "--body"]).status.code(), Some(0));
    assert!(restored.stack.show("evt_2")["operations"].as_array().unwrap().is_empty());
}

/// The stack's own domain table says nothing of what a restored inbox table holds.
#[test]
fn a_restored_inbox_table_is_not_judged_by_the_domain_table_of_the_stack() {
    let restored = Restored::new();
    let with = |arguments: &[&str]| {
        let copy = ["--stack", "inbox", "--table", "restored-inbox"];
        restored.stack.workspace.run_with_environment(&[arguments, &copy].concat(), &restored.variables)
    };
    assert_eq!(with(&["list"]).status.code(), Some(0));
    for command in [&["audit", "--scan"][..], &["discard", "--state", "DEAD"]] {
        with(command).exits(2).says("pass --domain-table NAME beside --table");
    }
}

/// What is in force says nothing of a copy, and the stack's own domain table is no copy.
#[test]
fn a_copy_is_not_mixed_with_what_the_stack_has_in_force() {
    let restored = Restored::new();
    let value = |name: &str| restored.variables.iter().find(|(it, _)| it == name).unwrap().1.clone();
    let with = |arguments: &[&str]| {
        let copy = ["--stack", "inbox", "--table", "restored-inbox"];
        restored.stack.workspace.run_with_environment(&[arguments, &copy].concat(), &restored.variables)
    };
    let live = value("HOOKONCE_DOMAIN_TABLE");
    with(&["audit", "--scan", "--domain-table", &live]).exits(2).says("is its live domain table");
    with(&["list", "--index-shards", "32"]).exits(2).says("cannot be used with");

    let told = json(&with(&["status", "--json"]));
    assert_eq!((&told["dead"], &told["queue"], &told["aws"]), (&2.into(), &Value::Null, &Value::Null), "{told}");
    assert_eq!(told["needs"].as_array().unwrap().len(), 1, "{told}");
    let printed = text(&with(&["status"]));
    assert!(printed.contains("queues, alarms and relay are left out") && !printed.contains("visible"), "{printed}");
    let queue = value("HOOKONCE_QUEUE_URL");
    let named = || json(&with(&["status", "--json", "--queue-url", &queue]));
    wait_until("whoever names a queue sees it", || named()["queue"]["in_flight"] == 0);
}
