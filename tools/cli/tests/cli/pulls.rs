//! A delivery of a deployed stack runs again on this machine.

use serde_json::Value;

use crate::aws::Deployed;
use crate::stacks::{Stack, lines};
use crate::support::{Ended, sample, text, wait_until};

/// What an endpoint received and the stack applied.
fn of(stack: &Stack, endpoint: &str) -> Vec<Value> {
    stack.list("APPLIED").into_iter().filter(|record| record["endpoint"] == endpoint).collect()
}

#[test]
fn what_a_deployed_stack_received_is_delivered_here_and_changes_nothing_there() {
    let production = Stack::with(0, 1);
    production.run(&["trigger", "github.push", "--id", "push-1"]).exits(0);
    production.write("batch.json", sample("meta_whatsapp-messages").to_string().as_bytes());
    production.run(&["send", "--provider", "meta_whatsapp", "--file", "batch.json"]).exits(0);
    wait_until("the events of the batch are applied", || of(&production, "whatsapp").len() == 2);
    wait_until("the push is applied", || of(&production, "github").len() == 1);
    let deployed = Deployed::of(&production, &[]);
    let here = Stack::new();
    let pull = |words: &[&str]| {
        let arguments = [&["pull", "--stack", "inbox", "--json"], words].concat();
        here.run_with_environment(&arguments, &deployed.variables)
    };
    let before = production.list("DEAD");

    let pulled = pull(&["evt_0"]).exits(0);
    assert_eq!(lines(&pulled)[0]["deliveries"][0]["answer"], "accepted");
    here.wait_for("DEAD", 1);
    // Its type is in a header.
    let push = of(&production, "github").remove(0);
    let key = push["key"].as_str().unwrap();
    pull(&["github", key]).exits(0);
    here.run(&["show", "github", key]).exits(0).prints("push");
    let message = &of(&production, "whatsapp")[0]["key"];
    pull(&["whatsapp", message.as_str().unwrap()]).exits(0);
    wait_until("one of them is applied here", || of(&here, "whatsapp").len() == 1);
    assert_eq!(&of(&here, "whatsapp")[0]["key"], message);
    let batch = production.list("FANNED_OUT").remove(0);
    assert!(text(&pull(&["whatsapp", batch["key"].as_str().unwrap()]).exits(2)).contains("a batch keeps none"));

    assert!(text(&pull(&["stripe", "evt_none"]).exits(1)).contains("there is no record stripe evt_none"));
    here.run(&["endpoint", "remove", "github"]).exits(0);
    let refused = text(&pull(&["github", key]).exits(2));
    assert!(refused.contains("no endpoint of the local stack belongs to github"), "{refused}");
    assert_eq!(production.list("DEAD"), before);
}
