//! `dev --handler` runs a handler in another language: here a script that speaks to the Runtime API.

use std::io::{BufRead as _, BufReader};
use std::process::ChildStdout;

use serde_json::{Value, json};

use crate::support::{Workspace, text};

const RUNTIME: &str = include_str!("../../../local/tests/local/runtime.bash");

const ROUTES: &str = r#"{"version": 1, "otherwise": "dead", "routes": [
    {"name": "all", "consumer": "counter", "handler": {"lambda": "counter"}}]}"#;

/// A handler that answers each request with this. `$key` is the event's.
fn script(answer: &str) -> String {
    format!(
        r#"{RUNTIME}
while take; do
    [[ $event =~ \"request\":\"([^\"]*)\" ]] && request=${{BASH_REMATCH[1]}}
    [[ $event =~ \"key\":\"([^\"]*)\" ]] && key=${{BASH_REMATCH[1]}}
    [ -e died ] || {{ : >died; kill -KILL $$; }}
    answer response "{{\"request\":\"$request\",{answer}}}"
done
"#
    )
}

struct Outcomes(std::io::Lines<BufReader<ChildStdout>>);

impl Outcomes {
    /// The next outcome that is one of these.
    fn next(&mut self, words: &[&str]) -> Value {
        let mut lines = self.0.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        lines.find(|line| line["what"] == "outcome" && words.iter().any(|word| line["outcome"] == *word)).unwrap()
    }
}

#[test]
fn dev_runs_a_handler_again_when_it_dies_and_anew_when_its_file_changes() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path(".hookonce")).unwrap();
    workspace.write(".hookonce/routes.json", ROUTES.as_bytes());
    let write = r#"{\"key\":\"stripe#count#all\",\"action\":{\"update\":[{\"add\":[\"events\",1]}]}}"#;
    workspace.write("handler.bash", script(&format!(r#"\"fact\":\"$key\",\"writes\":[{write}]"#)).as_bytes());
    let arguments = ["dev", "--port", "0", "--json", "--handler", "counter=bash handler.bash"];
    let (mut child, out) = workspace.dev_with_output(&arguments);
    let mut outcomes = Outcomes(BufReader::new(out).lines());
    let trigger = || {
        let sent = workspace.run(&["trigger", "stripe.invoice.paid", "--copies", "3"]);
        assert!(sent.status.success(), "{}", text(&sent));
    };

    // The first invocation kills its process. A further attempt starts another one.
    trigger();
    let first = outcomes.next(&["retry", "applied", "dead"]);
    assert_eq!((&first["outcome"], &first["error"]), (&json!("retry"), &json!("HANDLER_CRASHED")), "{first}");
    assert_eq!(outcomes.next(&["applied", "dead"])["outcome"], "applied");

    // New code runs soon after it is written.
    workspace.write("handler.bash", script(r#"\"error\":{\"code\":\"NEW_CODE\",\"retryable\":false}"#).as_bytes());
    let refused = loop {
        trigger();
        let outcome = outcomes.next(&["applied", "dead"]);
        if outcome["outcome"] != "applied" {
            break outcome;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(refused["error"], json!("NEW_CODE"), "{refused}");
}

/// An effect's payload is sent as the handler wrote it, and a field that stands there twice is refused, as on AWS.
#[test]
fn dev_reads_the_very_bytes_that_a_handler_answers() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path(".hookonce")).unwrap();
    workspace.write(".hookonce/routes.json", ROUTES.as_bytes());
    workspace.write("died", b"");
    workspace.write("handler.bash", script(r#"\"fact\":\"$key\",\"writes\":[],\"writes\":[]"#).as_bytes());
    let (mut child, out) =
        workspace.dev_with_output(&["dev", "--port", "0", "--json", "--handler", "counter=bash handler.bash"]);
    let sent = workspace.run(&["trigger", "stripe.invoice.paid"]);
    assert!(sent.status.success(), "{}", text(&sent));
    let first = Outcomes(BufReader::new(out).lines()).next(&["retry", "applied", "dead"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((&first["outcome"], &first["error"]), (&json!("retry"), &json!("HANDLER_ANSWER_MALFORMED")), "{first}");
}

/// Whoever looks at a record calls nobody, so nobody is reported to be away.
#[test]
fn show_says_that_it_asks_no_handler_in_another_language() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path(".hookonce")).unwrap();
    workspace.write(".hookonce/routes.json", ROUTES.as_bytes());
    let _running = workspace.dev(&["dev", "--port", "0"]);
    let sent = workspace.run(&["trigger", "stripe.invoice.paid", "--id", "first"]);
    assert!(sent.status.success(), "{}", text(&sent));
    let shown = text(&workspace.run(&["show", "stripe", "evt_first"]));
    assert!(shown.contains("not asked: its handler is in another language"), "{shown}");
    assert!(!shown.contains("WARN"), "{shown}");
}

#[test]
fn a_command_that_cannot_be_read_is_refused_with_its_reason() {
    let refused = Workspace::new().run(&["dev", "--handler", "python app.py"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("it must be NAME=COMMAND"), "{}", text(&refused));
}
