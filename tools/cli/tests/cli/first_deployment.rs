//! The part of the first deployment in which something is delivered is true: this types its commands, on a running
//! stack.

use std::process::Command;

use serde_json::json as object;

use crate::stacks::Stack;
use crate::support::{Ended, json, root, text, wait_until};

/// The lines of every shell block of a section.
fn script(page: &str, section: &str) -> String {
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    // A local stack has no such services.
    blocks.filter(|block| !block.contains("aws ")).collect()
}

#[test]
fn what_the_page_delivers_is_applied_once_and_its_effect_reaches_the_callee() {
    let page = std::fs::read_to_string(root().join("docs/first-deployment.md")).unwrap();
    let script = script(&page, "Deliver");
    assert!(script.contains("hookonce destination add callee") && script.contains("hookonce send"), "{script}");
    let stack = Stack::new();
    // What differs on this machine: nothing names the stack, and the callee is on loopback.
    let here = script.replace(" --stack \"$stack\"", "").replace("--stack \"$stack\" ", "");
    let here = here.replace("--class at_least_once", "--class at_least_once --allow-private");
    let functions = format!(
        "set -euo pipefail\nhookonce() {{ '{}' \"$@\"; }}\noutput() {{ echo {}/webhooks/; }}\n",
        env!("CARGO_BIN_EXE_hookonce"),
        stack.announced()["url"].as_str().unwrap()
    );
    let type_in = |commands: &str| {
        let script = format!("{functions}{commands}");
        text(&Command::new("bash").args(["-c", &script]).current_dir(stack.path("")).output().unwrap().exits(0))
    };
    let listed = |more: &[&str]| json(&stack.run(&[&["list", "--json"], more].concat()));
    let last =
        here.find("hookonce send --provider stripe --file events/deliveries/stripe-charge-refunded.json").unwrap();
    let (before, after) = here.split_at(last);
    let mut said = type_in(&format!("{before}\necho \"$secret\" > secret"));
    // Where a person waits a minute for the routes.
    wait_until("the worker has read the routes", || {
        stack.run(&["trigger", "stripe.charge.refunded", "--endpoint", "first"]);
        !listed(&["--kind", "effect"]).as_array().unwrap().is_empty()
    });
    said += &type_in(&format!("secret=$(cat secret)\n{after}"));
    for expected in ["unknown_endpoint\"} 404", " 401", "accepted", "duplicate"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }

    wait_until("the effect is delivered", || {
        text(&stack.run(&["show", "first", "evt_1SampleChargeRefunded"])).contains("DELIVERED")
    });
    wait_until("the callee has ignored it", || listed(&["--endpoint", "callee"])[0]["outcome"] == "IGNORED");
    wait_until("the invoice is applied", || {
        listed(&["--endpoint", "first", "--type", "invoice.paid"])[0]["outcome"] == "APPLIED"
    });
    let paid = listed(&["--endpoint", "first", "--type", "invoice.paid"]);
    assert_eq!((&paid[0]["duplicates"], paid.as_array().unwrap().len()), (&object!(2), 1), "{paid}");
}
