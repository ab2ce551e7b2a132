//! The demo's figures, as JSON and as text.

use crate::stacks::Stack;
use crate::support::{Ended, Workspace, interrupt, json, text, wait_until};

#[test]
fn every_genuine_event_of_the_demo_takes_effect_once() {
    let demo = ["demo", "--deliveries", "90", "--copies", "4", "--concurrency", "32", "--json"];
    let report = json(&Workspace::new().run(&demo).exits(0));
    let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {report}"));
    assert_eq!(number("events"), 90);
    assert_eq!(number("applied"), 90);
    for none in ["applied_twice", "lost", "dead", "pending", "violations", "unanswered"] {
        assert_eq!(number(none), 0, "{none} in {report}");
    }
    assert!(number("refused") > 0 && number("duplicate") > 0, "{report}");
    assert_eq!(number("sent"), number("accepted") + number("duplicate") + number("refused"));
    assert!(number("p50_ms") <= number("p99_ms"));
    let calls = |name: &str| report["webhook_calls"][name].as_u64().unwrap_or(0);
    // On a busy machine an answer may come too late. The sender then tries again, which costs another claim.
    if number("retried") == 0 {
        assert_eq!(calls("PutItem"), number("accepted") + number("duplicate"), "one claim for each genuine delivery");
        assert_eq!(calls("SendMessage"), number("accepted"), "one hint for each accepted delivery");
    }
    // The outside: a third of the answers is lost after the work was done.
    let outside =
        |name: &str| report["outside"][name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {report}"));
    assert_eq!(["expected", "done", "done_twice", "lost", "answers_lost"].map(outside), [30, 30, 0, 0, 10]);
    assert!(outside("calls") >= 40, "every lost answer is followed by a repeat: {report}");
    assert!(report["store_calls"]["TransactWriteItems"].as_u64() >= Some(90));
}

#[test]
fn the_demo_prints_what_happened() {
    let output = Workspace::new().run(&["demo", "--deliveries", "9", "--copies", "2"]).exits(0);
    let printed = text(&output);
    assert!(printed.contains("Every genuine event was applied exactly once"), "{printed}");
    for row in ["forwarded 3", "answers lost 1", "booked 3", "booked twice 0", "not booked 0"] {
        let same = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(row);
        assert!(printed.lines().any(same), "{row}: {printed}");
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("hookonce dev"), "the next step is named: {printed}");
}

/// The demo forwards nothing to a stack that it did not start.
#[test]
fn the_demo_prints_nothing_of_the_outside_of_another_stack() {
    let stack = Stack::new();
    let url = stack.announced()["url"].clone();
    let demo = ["demo", "--deliveries", "3", "--copies", "2", "--url", url.as_str().unwrap()];
    let demo = stack.run(&demo).exits(0).prints("Every genuine event was applied exactly once.\n");
    demo.omits("outside").omits("forwarded");
}

#[test]
fn wrong_usage_and_an_absent_stack_have_exit_codes_of_their_own() {
    let workspace = Workspace::new();
    for wrong in [&["demo", "--stack", "prod"][..], &["demo", "--deliveries", "0"], &["providers", "nobody"]] {
        assert!(workspace.run(wrong).exits(2).stdout.is_empty(), "{wrong:?}: standard output is for data");
    }
    assert!(workspace.run(&["list"]).exits(3).stdout.is_empty(), "standard output is for data");
}

#[test]
fn a_demo_that_is_stopped_leaves_nothing() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("tmp")).unwrap();
    let folder = workspace.path("tmp").to_str().unwrap().to_owned();
    let left = || std::fs::read_dir(workspace.path("tmp")).unwrap().count();
    let demo = ["demo", "--deliveries", "5000", "--concurrency", "32"];
    let demo = workspace.start_with_environment(&demo, &[("TMPDIR".to_owned(), folder)]);
    wait_until("the demo has a folder", || left() > 0);
    std::thread::sleep(std::time::Duration::from_millis(700));
    let stopped = interrupt(demo).exits(1);
    // What its functions were doing may fail as they end, and nobody has to read of that.
    assert_eq!(String::from_utf8_lossy(&stopped.stderr), "stopped; nothing is left of the demo\n");
    assert_eq!(left(), 0);
}
