//! What the person on call is told of events that were forwarded: by `replay --force`, `drill` and `redact`.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::ChildStdout;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_runtime::body::decompress;
use serde_json::{Value, json as object};

use crate::destinations::receiver;
use crate::stacks::{Tables, lines, summary};
use crate::support::{Ended, Running, Workspace, json, root, text, wait_until};

/// What no one may find after a redaction.
pub(crate) const MARKER: &str = "a person's own words";

pub(crate) const WHY: [&str; 5] = ["--reason", "asked for", "--by", "ada", "--yes"];

/// A running stack that forwards one event.
struct Forwarding {
    workspace: Workspace,
    _running: Running,
    told: Lines<BufReader<ChildStdout>>,
}

impl Forwarding {
    /// Forwards an event, with its destination or without. Returns the key of its effect.
    fn start(with_destination: bool) -> (Self, String) {
        let workspace = Workspace::new();
        std::fs::create_dir_all(workspace.path(".hookonce/destinations")).unwrap();
        if with_destination {
            let url = format!("http://127.0.0.1:{}/in", receiver(200));
            let crm = object!({ "kind": "http", "url": url, "class": "at_least_once", "allow_private": true });
            workspace.write(".hookonce/destinations/crm.json", crm.to_string().as_bytes());
        }
        let sample = std::fs::read(root().join("events/deliveries/stripe-invoice-paid.json")).unwrap();
        let mut event: Value = serde_json::from_slice(&sample).unwrap();
        (event["id"], event["data"]["object"]["description"]) = (object!("evt_0"), object!(MARKER));
        workspace.write("event.json", event.to_string().as_bytes());
        forward(&workspace, &["crm"]);
        let (running, out) = workspace.dev_with_output(&["dev", "--port", "0", "--json"]);
        workspace.run(&["send", "--provider", "stripe", "--file", "event.json"]).exits(0);
        let mut stack = Self { workspace, _running: running.into(), told: BufReader::new(out).lines() };
        let effect = stack.effect();
        (stack, effect)
    }

    /// The key of the effect that is told of next.
    fn effect(&mut self) -> String {
        let mut told = self.told.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        told.find(|line| line["effect"] == "forward:crm").unwrap()["key"].as_str().unwrap().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        self.workspace.run(arguments)
    }

    fn show(&self, key: &str) -> Value {
        json(&self.run(&["show", "stripe", key, "--json"]))
    }

    fn wait_until_delivered(&self, effect: &str) {
        wait_until("the effect is delivered", || self.show(effect)["outcome"] == "DELIVERED");
    }

    fn places_of_the_marker(&self) -> usize {
        places_of_the_marker(&self.workspace)
    }
}

/// How many stored values hold the marker, as it is, compressed or in base64, and how many messages.
pub(crate) fn places_of_the_marker(workspace: &Workspace) -> usize {
    let tables = Tables::of_workspace(workspace);
    let items = [&tables.inbox, &tables.domain].map(|table| tables.items(table)).concat();
    let entries = tables.entries(&tables.inbox);
    assert!(!entries.is_empty());
    let values = items.iter().chain(&entries).flat_map(|item| item.values()).filter(|value| holds(value)).count();
    values + tables.messages().iter().filter(|message| message_holds(message)).count()
}

/// Writes a route set that forwards every event to these.
fn forward(workspace: &Workspace, destinations: &[&str]) {
    let route = object!({ "name": "out", "consumer": "crm", "forward": destinations });
    let set = object!({ "version": 1, "otherwise": "dead", "routes": [route] });
    workspace.write(".hookonce/routes.json", set.to_string().as_bytes());
}

fn holds_text(text: &str) -> bool {
    let found = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(MARKER);
    found(text.as_bytes()) || STANDARD.decode(text).is_ok_and(|bytes| found(&bytes))
}

/// Whether a message holds it, also in a body that is compressed and in base64.
pub(crate) fn message_holds(message: &str) -> bool {
    fn any(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.values().any(any),
            Value::Array(list) => list.iter().any(any),
            Value::String(text) => {
                let packed = STANDARD.decode(text).ok().and_then(|bytes| decompress(&bytes).ok());
                holds_text(text) || packed.is_some_and(|plain| holds_text(&String::from_utf8_lossy(&plain)))
            }
            _ => false,
        }
    }
    holds_text(message) || serde_json::from_str(message).is_ok_and(|value| any(&value))
}

fn holds(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::B(bytes) => {
            let bytes = bytes.as_ref();
            let plain = decompress(bytes).unwrap_or_default();
            [bytes, &plain].iter().any(|bytes| holds_text(&String::from_utf8_lossy(bytes)))
        }
        AttributeValue::M(map) => map.values().any(holds),
        AttributeValue::L(list) => list.iter().any(holds),
        AttributeValue::S(text) => holds_text(text),
        _ => false,
    }
}

#[test]
fn a_redaction_of_an_event_leaves_no_byte_of_it_in_the_effects_of_any_generation() {
    let (mut stack, first) = Forwarding::start(true);
    stack.wait_until_delivered(&first);

    let force = ["replay", "--force", "--key", "stripe", "evt_0"];
    let foreseen = text(&stack.run(&force));
    assert!(foreseen.contains("a force sends such effects again, with new keys: crm (1)"), "{foreseen}");
    let foreseen = stack.run(&[&force[..], &["--json"]].concat());
    assert_eq!(lines(&foreseen)[0]["sends_again"], object!(["crm"]));
    assert_eq!(summary(&foreseen)["sends_again"], object!({ "crm": 1 }));
    assert!(stack.run(&[&force[..], &WHY].concat()).status.success());
    let second = loop {
        let next = stack.effect();
        if next != first {
            break next;
        }
    };
    stack.wait_until_delivered(&second);
    let shown = stack.show("evt_0");
    assert_eq!(shown["effects"], object!([{ "key": second, "state": "DELIVERED" }]));
    assert_eq!(shown["earlier_effects"], object!([{ "key": first, "state": "DELIVERED" }]));
    assert_eq!(stack.places_of_the_marker(), 3, "the event and two effects hold it");

    let redact = ["redact", "--key", "stripe", "evt_0"];
    let dry = text(&stack.run(&redact));
    assert!(dry.contains(&first) && dry.contains(&second) && dry.contains("would redact 3 record(s)"), "{dry}");
    let done = stack.run(&[&redact[..], &WHY].concat());
    assert!(text(&done).contains("redact: 3 record(s) done") && done.status.success(), "{}", text(&done));
    assert_eq!(stack.places_of_the_marker(), 0);
    let again = stack.run(&[&redact[..], &WHY, &["--json"]].concat());
    assert_eq!((&summary(&again)["done_before"], again.status.code()), (&object!(3), Some(0)), "{}", text(&again));
    let dry = text(&stack.run(&redact));
    assert!(dry.contains("already redacted") && !dry.contains("done_before"), "{dry}");
    let all = stack.run(&[&["redact", "--endpoint", "stripe", "--json"][..], &WHY].concat());
    assert_eq!(summary(&all)["done_before"], 3, "each once: {}", text(&all));
    let story = text(&stack.run(&["show", "stripe", "evt_0"]));
    assert!(story.contains("redact by ada: APPLIED, \"asked for\""), "{story}");
    assert_eq!(stack.run(&["audit", "--scan"]).status.code(), Some(0));

    let drill = stack.run(&["drill", "--key", "stripe", "evt_0"]);
    assert!(text(&drill).contains("no record was compared as a whole"), "{}", text(&drill));
    assert_eq!(drill.status.code(), Some(1));
}

/// The record of a batch holds the bytes of each of its events.
#[test]
fn a_redaction_of_one_event_of_a_batch_leaves_no_byte_of_it_in_the_batch() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0"]);
    let sample = std::fs::read(root().join("events/deliveries/meta_whatsapp-messages.json")).unwrap();
    let mut batch: Value = serde_json::from_slice(&sample).unwrap();
    batch["entry"][0]["changes"][0]["value"]["messages"][0]["note"] = object!(MARKER);
    workspace.write("batch.json", batch.to_string().as_bytes());
    workspace.run(&["send", "--provider", "meta_whatsapp", "--file", "batch.json"]).exits(0);
    let listed = |state: &str| json(&workspace.run(&["list", "--state", state, "--json"]));
    wait_until("its events are applied", || listed("APPLIED").as_array().unwrap().len() == 2);
    wait_until("the batch is closed", || listed("FANNED_OUT").as_array().unwrap().len() == 1);
    let events = listed("APPLIED");
    let own = |event: &&Value| {
        text(&workspace.run(&["show", "whatsapp", event["key"].as_str().unwrap(), "--body"])).contains(MARKER)
    };
    let event = events.as_array().unwrap().iter().find(own).unwrap()["key"].as_str().unwrap().to_owned();
    let batch = listed("FANNED_OUT")[0]["key"].as_str().unwrap().to_owned();
    assert_eq!(places_of_the_marker(&workspace), 2, "the event and its batch hold it");

    // A batch that may still run keeps its bytes.
    let tables = Tables::of_workspace(&workspace);
    let stored = format!("in#whatsapp#{batch}");
    let word = |word: &str| Some(AttributeValue::S(word.to_owned()));
    tables.damage(&tables.inbox, &stored, "status", word("DEAD"));
    let redact = ["redact", "--key", "whatsapp", &event];
    let kept = workspace.run(&redact).exits(1);
    assert!(text(&kept).contains(&batch) && text(&kept).contains("still hold bytes"), "{}", text(&kept));
    tables.damage(&tables.inbox, &stored, "status", word("PROCESSED"));

    let dry = text(&workspace.run(&redact));
    assert!(dry.contains(&batch) && dry.contains("would redact 2 record(s)"), "{dry}");
    let done = workspace.run(&[&redact[..], &WHY].concat());
    assert!(text(&done).contains(&batch) && text(&done).contains("1 of them were redacted because"), "{}", text(&done));
    assert_eq!((done.status.code(), places_of_the_marker(&workspace)), (Some(0), 0));
    let story = text(&workspace.run(&["show", "whatsapp", &batch]));
    assert!(story.contains("redact by ada: FANNED_OUT, \"asked for\""), "{story}");
    let all = workspace.run(&[&["redact", "--endpoint", "whatsapp", "--json"][..], &WHY].concat());
    let counts = ["done", "done_before", "refused"].map(|word| summary(&all)[word].as_u64().unwrap());
    assert_eq!(counts, [1, 2, 0], "each once: {}", text(&all));
}

/// The commit wrote the record of the effect with the event's. Until both expire, it can be gone only by another hand.
#[test]
fn an_audit_misses_the_record_of_an_effect_until_its_time_is_over() {
    const DAY_MS: i64 = 86_400_000;
    let (stack, effect) = Forwarding::start(true);
    stack.wait_until_delivered(&effect);
    let audit = || stack.run(&["audit", "--scan", "--json"]);
    assert_eq!(audit().status.code(), Some(0), "{}", text(&audit()));
    let tables = Tables::of_workspace(&stack.workspace);
    tables.delete(&tables.inbox, &format!("in#stripe#{effect}"));
    let missed = audit();
    let found = object!({
        "endpoint": "stripe", "key": "evt_0", "invariant": "P6", "violation": "effect-record-missing",
    });
    assert_eq!((&lines(&missed)[0], missed.status.code()), (&found, Some(1)), "{}", text(&missed));
    let page = std::fs::read_to_string(root().join("docs/audit.md")).unwrap();
    assert!(page.contains("\n## effect-record-missing\n"), "{page}");

    let key = "in#stripe#evt_0";
    let processed = tables.number(&tables.inbox, key, "processed_at");
    tables.set_number(&tables.inbox, key, "processed_at", processed - 93 * DAY_MS);
    let expired = text(&audit());
    assert!(!expired.contains("effect-record-missing"), "{expired}");
}

#[test]
fn an_effect_that_waits_is_named_and_neither_redacted_nor_forced_over() {
    let (stack, effect) = Forwarding::start(false);
    let forced = stack.run(&["replay", "--force", "--key", "stripe", "evt_0"]);
    assert!(text(&forced).contains("an effect of this event is still PENDING or DEAD"), "{}", text(&forced));
    assert_eq!(forced.status.code(), Some(1));

    let redact = ["redact", "--key", "stripe", "evt_0"];
    let dry = stack.run(&redact);
    assert!(text(&dry).contains(&effect) && text(&dry).contains("refused 1 record(s)"), "{}", text(&dry));
    assert_eq!(dry.status.code(), Some(1));
    let counts = |arguments: &[&str]| {
        let output = stack.run(&[arguments, &WHY, &["--json"]].concat());
        let told = summary(&output);
        (told["done"].clone(), told["done_before"].clone(), told["refused"].clone(), output.status.code().unwrap())
    };
    let expected =
        |done: u8, before: u8, refused: u8, code: i32| (object!(done), object!(before), object!(refused), code);
    assert_eq!(counts(&redact), expected(1, 0, 1, 1), "its event has no body any more");
    assert_eq!(counts(&["doubt", "--until", "0s"]), expected(1, 0, 0, 0));
    assert_eq!(counts(&redact), expected(0, 1, 1, 1), "a person may call it again");
    assert_eq!(counts(&["discard", "--key", "stripe", &effect]), expected(1, 0, 0, 0));
    assert_eq!(counts(&redact), expected(1, 1, 0, 0));
    assert_eq!(stack.places_of_the_marker(), 0);
}

#[test]
fn a_drill_compares_effects_with_those_that_were_sent() {
    let (stack, effect) = Forwarding::start(true);
    stack.wait_until_delivered(&effect);
    let drill = || {
        let output = stack.run(&["drill", "--state", "APPLIED", "--json"]);
        let line = lines(&output).remove(0);
        (line["result"].as_str().unwrap().to_owned(), line["why"].clone(), output.status.code().unwrap())
    };
    let differs = |why: &str| ("differs".to_owned(), object!(why), 1);
    assert_eq!(drill(), ("same".to_owned(), Value::Null, 0));
    forward(&stack.workspace, &["crm", "n8n"]);
    assert_eq!(drill(), differs("it would also send the effect forward:n8n to n8n"));
    forward(&stack.workspace, &["n8n"]);
    assert_eq!(drill(), differs("it would not send the effect forward:crm"));
    forward(&stack.workspace, &["crm"]);
    let tables = Tables::of_workspace(&stack.workspace);
    let stored = format!("in#stripe#{effect}");
    tables.damage(&tables.inbox, &stored, "path", Some(AttributeValue::S("/other".to_owned())));
    assert_eq!(drill(), differs("the effect forward:crm would have another path"));
    tables.delete(&tables.inbox, &stored);
    let (result, why, code) = drill();
    assert_eq!((result.as_str(), code), ("unknown", 1), "{why}");
}

#[test]
fn a_drill_says_that_a_mended_route_would_apply_what_died() {
    let workspace = Workspace::routed(r#"{"version": 1, "otherwise": "dead", "routes": []}"#);
    let _running = workspace.dev(&["dev", "--port", "0"]);
    assert!(workspace.run(&["trigger", "stripe.invoice.paid"]).status.success());
    let dead = || json(&workspace.run(&["list", "--state", "DEAD", "--json"])).as_array().unwrap().len();
    wait_until("it is dead", || dead() == 1);
    let drill = || workspace.run(&["drill", "--state", "DEAD", "--json"]);
    assert_eq!((summary(&drill()), drill().status.code()), (object!({ "fails": 1 }), Some(1)));
    forward(&workspace, &["crm"]);
    assert_eq!((summary(&drill()), drill().status.code()), (object!({ "would apply": 1 }), Some(0)));
}
