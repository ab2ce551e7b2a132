//! A command asks `CloudFormation` about its stack at most once: an account has a few such calls a second, for all of
//! its people and pipelines.

use serde_json::json as object;

use crate::aws::Deployed;
use crate::stacks::Stack;
use crate::support::text;

const SET: &str =
    r#"{"version": 1, "otherwise": "dead", "routes": [{"name": "a", "consumer": "b", "forward": ["crm"]}]}"#;

#[test]
fn a_command_describes_its_stack_at_most_once() {
    let stack = Stack::with(1, 1);
    let deployed = Deployed::of(&stack, &[]);
    let secrets = object!({ "provider": "stripe", "secrets": ["whsec_0123456789abcdef", "whsec_fedcba9876543210"] });
    deployed.aws.account().put("endpoint", "stripe", &secrets.to_string());
    deployed.aws.account().age("endpoint", "stripe", 3 * 86_400);
    let crm = object!({ "kind": "http", "url": "https://crm.example/in", "class": "at_least_once",
        "headers": { "authorization": "Bearer an-api-key-of-the-crm" } });
    deployed.aws.account().put("destination", "crm", &crm.to_string());
    let [set, body] = [("set.json", SET), ("body.json", r#"{"id": "1", "type": "a"}"#)]
        .map(|(name, text)| deployed.workspace.write(name, text.as_bytes()));
    let by = ["--reason", "a test", "--yes"];
    let mut findings = Vec::new();
    for (arguments, exit) in [
        (&["status"][..], 1),
        (&["doctor"], 0),
        (&["list", "--since", "1h"], 0),
        (&["list", "--since", "1h", "--endpoint", "nope"], 0),
        (&["stats", "--since", "1h"], 0),
        (&["show", "stripe", "evt_0", "--items"], 0),
        (&["show", "stripe", "evt_0", "--call-handlers"], 0),
        (&["drill", "--since", "1h", "--call-handlers"], 1),
        (&["audit", "--scan"], 0),
        (&["replay", "--state", "DEAD"], 0),
        (&["replay", "--key", "stripe", "evt_1", "--yes"], 0),
        (&["redact", "--key", "stripe", "evt_0", by[0], by[1], by[2]], 0),
        (&["endpoint", "add", "shop", "--provider", "standard_webhooks"], 0),
        (&["endpoint", "list"], 0),
        (&["endpoint", "show", "stripe"], 0),
        (&["endpoint", "check"], 0),
        (&["endpoint", "rotate", "stripe", "--finish", "--yes"], 0),
        (&["endpoint", "rotate", "stripe", "--retire", "--yes"], 2),
        (&["destination", "list"], 0),
        (&["destination", "show", "crm"], 0),
        (&["destination", "check"], 0),
        (&["destination", "rotate", "crm", "--url"], 2),
        (&["destination", "remove", "crm"], 2),
        (&["route", "check", &set], 0),
        (&["route", "deploy", &set], 0),
        (&["route", "show"], 0),
        (&["route", "explain", "--endpoint", "stripe", "--file", &body], 0),
        (&["submit", "--endpoint", "shop", "--key", "1", "--type", "a", "--file", &body], 3),
        (&["pause", "worker", by[0], by[1], by[2]], 0),
        (&["resume", "worker"], 0),
    ] {
        deployed.aws.account().requests.clear();
        let output = deployed.run(arguments);
        let counts = ["DescribeStacks", "GetCallerIdentity"].map(|operation| deployed.aws.account().count(operation));
        if output.status.code() != Some(exit) || counts[0] != 1 || counts[1] > 1 {
            findings.push(format!("{arguments:?}: {counts:?} {}", text(&output)));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    // A refusal is one answer, too.
    deployed.aws.account().requests.clear();
    deployed.aws.account().stack = None;
    deployed.run(&["status"]);
    assert_eq!(deployed.aws.account().count("DescribeStacks"), 1);
}
