//! What the person on call is told of events that were forwarded: by `replay --force`, `drill` and `redact`.

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_runtime::inbox::body::decompress;
use serde_json::{Value, json as object};

use crate::destinations::receiver;
use crate::stacks::{Stack, Tables, lines, summary};
use crate::support::{DevLines, Ended, Running, Workspace, sample, text, wait_until};

/// What no one may find after a redaction.
const MARKER: &str = "a person's own words";

pub(crate) const WHY: [&str; 5] = ["--reason", "asked for", "--by", "ada", "--yes"];

/// Forwards an event, with its destination or without. Returns the running stack, and the key of the effect.
fn forwarding(workspace: &Workspace, with_destination: bool) -> (Running, DevLines, String) {
    std::fs::create_dir_all(workspace.path(".hookonce/destinations")).unwrap();
    if with_destination {
        workspace.destination("crm", receiver(200));
    }
    write_marked_event(workspace);
    forward(workspace, &["crm"]);
    let (running, mut printed) = workspace.dev_with_json(&[]);
    workspace.run(&["send", "--provider", "stripe", "--file", "event.json"]).exits(0);
    let effect = next_effect(&mut printed);
    if with_destination {
        wait_until_delivered(workspace, &effect);
    }
    (running, printed, effect)
}

/// The key of the effect that is told of next.
fn next_effect(printed: &mut DevLines) -> String {
    printed.next(|line| line["effect"] == "forward:crm")["key"].as_str().unwrap().to_owned()
}

fn wait_until_delivered(workspace: &Workspace, effect: &str) {
    wait_until("the effect is delivered", || workspace.show(effect)["outcome"] == "DELIVERED");
}

/// Writes an event that holds the marker.
pub(crate) fn write_marked_event(workspace: &Workspace) {
    let mut event = sample("stripe-invoice-paid");
    (event["id"], event["data"]["object"]["description"]) = (object!("evt_0"), object!(MARKER));
    workspace.write("event.json", event.to_string().as_bytes());
}

/// How many stored values hold the marker, as it is, compressed or in base64, and how many messages.
pub(crate) fn places_of_the_marker(workspace: &Workspace) -> usize {
    let tables = Tables::of(workspace);
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
                // A sealed claim is text in a text.
                let claim = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
                holds_text(text)
                    || packed.is_some_and(|plain| holds_text(&String::from_utf8_lossy(&plain)))
                    || claim.is_some_and(|claim| any(&claim))
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
    let workspace = Workspace::new();
    let (_running, mut printed, first) = forwarding(&workspace, true);

    let force = ["replay", "--force", "--key", "stripe", "evt_0"];
    workspace.run(&force).prints("a force sends such effects again, with new keys: crm (1)");
    let foreseen = workspace.run(&[&force[..], &["--json"]].concat());
    assert_eq!(lines(&foreseen)[0]["sends_again"], object!(["crm"]));
    assert_eq!(summary(&foreseen)["sends_again"], object!({ "crm": 1 }));
    workspace.run(&[&force[..], &WHY].concat()).exits(0);
    let second = loop {
        let next = next_effect(&mut printed);
        if next != first {
            break next;
        }
    };
    wait_until_delivered(&workspace, &second);
    let shown = workspace.show("evt_0");
    assert_eq!(shown["effects"], object!([{ "key": second, "state": "DELIVERED" }]));
    assert_eq!(shown["earlier_effects"], object!([{ "key": first, "state": "DELIVERED" }]));
    assert_eq!(places_of_the_marker(&workspace), 3, "the event and two effects hold it");

    let redact = ["redact", "--key", "stripe", "evt_0"];
    workspace.run(&redact).prints_all(&[&first, &second, "would redact 3 records"]);
    workspace.run(&[&redact[..], &WHY].concat()).exits(0).prints("redact: 3 records done");
    assert_eq!(places_of_the_marker(&workspace), 0);
    let again = workspace.run(&[&redact[..], &WHY, &["--json"]].concat()).exits(0);
    assert_eq!(summary(&again)["done_before"], 3, "{}", text(&again));
    workspace.run(&redact).prints("no body").omits("done_before");
    let all = workspace.run(&[&["redact", "--endpoint", "stripe", "--json"][..], &WHY, &["0"]].concat());
    assert_eq!(summary(&all)["done_before"], 3, "each once: {}", text(&all));
    workspace.run(&["show", "stripe", "evt_0"]).prints("redact by ada: APPLIED, \"asked for\"");
    workspace.run(&["audit", "--scan"]).exits(0);

    workspace.run(&["drill", "--key", "stripe", "evt_0"]).exits(1).prints("no record was compared as a whole");
}

/// A stack whose endpoint keeps other bodies, after three batches with the same event. In the last one its body is
/// another. Returns the key of the event, too.
fn regrouped() -> (Stack, String) {
    let workspace = Workspace::new();
    let add = ["endpoint", "add", "whatsapp", "--provider", "meta_whatsapp", "--setting", "verify_token=-"];
    let add = [&add[..], &["--on-body-mismatch", "quarantine"]].concat();
    workspace.run_with_input(&add, "a token").exits(0);
    let stack = Stack::of(workspace);
    let other = format!("{MARKER}, and more");
    let batches =
        [[("a", "one"), ("b", MARKER)], [("b", MARKER), ("c", "three")], [("b", other.as_str()), ("d", "four")]];
    for (number, notes) in batches.iter().enumerate() {
        let mut batch = sample("meta_whatsapp-messages");
        let messages = batch["entry"][0]["changes"][0]["value"]["messages"].as_array_mut().unwrap();
        for (message, (id, note)) in messages.iter_mut().zip(notes) {
            (message["id"], message["note"]) = (object!(format!("wamid.{id}")), object!(note));
        }
        stack.write("batch.json", batch.to_string().as_bytes());
        stack.run(&["send", "--provider", "meta_whatsapp", "--file", "batch.json"]).exits(0);
        stack.wait_for("FANNED_OUT", number + 1);
    }
    stack.wait_for("APPLIED", 4);
    stack.wait_for("DEAD", 1);
    let event = stack.list("APPLIED").into_iter().find(|event| event["key"].as_str().unwrap().ends_with("wamid.b"));
    (stack, event.unwrap()["key"].as_str().unwrap().to_owned())
}

/// A provider may regroup events. Each closed batch has given its bytes to the records of its events.
#[test]
fn an_erased_event_is_in_no_batch_and_not_under_another_key() {
    let (stack, event) = regrouped();
    assert_eq!(places_of_the_marker(&stack), 2, "the event, and the other body under its id");
    let (event, other) = (event.as_str(), format!("{event}#alt#1"));
    let (other, redact) = (other.as_str(), ["redact", "--key", "whatsapp", event]);
    stack.run(&[&redact[..], &WHY].concat()).exits(1).prints_all(&[other, "are still in ", "discard a DEAD one"]);
    assert_eq!(places_of_the_marker(&stack), 1, "a person may let the other one run");
    stack.run(&[&["discard", "--key", "whatsapp", other][..], &WHY].concat()).exits(0);
    stack.run(&[&redact[..], &WHY].concat()).exits(0).prints_all(&[other, "1 of these only holds bytes of the events"]);
    assert_eq!(places_of_the_marker(&stack), 0);

    let batches = stack.list("FANNED_OUT");
    let keys: Vec<_> = batches.iter().map(|batch| batch["key"].as_str().unwrap()).collect();
    for batch in &keys {
        stack.run(&["show", "whatsapp", batch, "--body"]).exits(1).prints("a batch keeps no body");
    }
    let all = stack.run(&[&["redact", "--endpoint", "whatsapp", "--json"][..], &WHY, &["3"]].concat());
    let counts = ["done", "done_before", "refused"].map(|word| summary(&all)[word].as_u64().unwrap());
    assert_eq!(counts, [3, 5, 0], "each once: {}", text(&all));
    stack.run(&["audit", "--scan"]).exits(0);

    // A batch that may still run keeps its bytes.
    let parent = stack.list("APPLIED").into_iter().find(|it| it["key"] == event).unwrap()["parent"].take();
    let tables = Tables::of(&stack);
    let stored = format!("in#whatsapp#{}", parent.as_str().unwrap());
    let status = |word: &str| tables.damage(&tables.inbox, &stored, "status", Some(AttributeValue::S(word.to_owned())));
    tables.damage(&tables.inbox, &stored, "body", Some(AttributeValue::B(MARKER.as_bytes().into())));
    status("DEAD");
    stack.run(&redact).exits(1).prints_all(&[parent.as_str().unwrap(), "are still in "]);
    status("PROCESSED");
    stack.run(&[&redact[..], &WHY].concat()).exits(0).prints("1 of these only holds bytes of the events");
    assert_eq!(places_of_the_marker(&stack), 0);
}

/// The commit wrote the record of the effect with the event's. Until both expire, it can be gone only by another hand.
#[test]
fn an_audit_misses_the_record_of_an_effect_until_its_time_is_over() {
    const DAY_MS: i64 = 86_400_000;
    let workspace = Workspace::new();
    let (_running, _printed, effect) = forwarding(&workspace, true);
    let audit = || workspace.run(&["audit", "--scan", "--json"]);
    audit().exits(0);
    let tables = Tables::of(&workspace);
    tables.delete(&tables.inbox, &format!("in#stripe#{effect}"));
    let missed = audit().exits(1);
    let found = object!({
        "endpoint": "stripe", "key": "evt_0", "invariant": "P6", "violation": "effect-record-missing",
    });
    assert_eq!(lines(&missed)[0], found, "{}", text(&missed));

    let key = "in#stripe#evt_0";
    let processed = tables.number(&tables.inbox, key, "processed_at");
    tables.set_number(&tables.inbox, key, "processed_at", processed - 93 * DAY_MS);
    audit().omits("effect-record-missing");
}

#[test]
fn an_effect_that_waits_is_named_and_neither_redacted_nor_forced_over() {
    let workspace = Workspace::new();
    let (_running, _printed, effect) = forwarding(&workspace, false);
    let force = ["replay", "--force", "--key", "stripe", "evt_0"];
    workspace.run(&force).exits(1).prints("an effect of this event is still PENDING or DEAD");

    let redact = ["redact", "--key", "stripe", "evt_0"];
    workspace.run(&redact).exits(1).prints_all(&[&effect, "refused 1 record"]);
    let counts_of = |arguments: &[&str], agreed: &[&str]| {
        let output = workspace.run(&[arguments, &WHY, agreed, &["--json"]].concat());
        let counted = summary(&output);
        let counts = ["done", "done_before", "refused"].map(|word| counted[word].as_u64().unwrap());
        (counts, output.status.code().unwrap())
    };
    let counts = |arguments: &[&str]| counts_of(arguments, &[]);
    assert_eq!(counts(&redact), ([1, 0, 1], 1), "its event has no body any more");
    assert_eq!(counts_of(&["doubt", "--until", "0s"], &["1"]), ([1, 0, 0], 0));
    assert_eq!(counts(&redact), ([0, 1, 1], 1), "a person may call it again");
    assert_eq!(counts(&["discard", "--key", "stripe", &effect]), ([1, 0, 0], 0));
    assert_eq!(counts(&redact), ([1, 1, 0], 0));
    assert_eq!(places_of_the_marker(&workspace), 0);
}

#[test]
fn a_drill_compares_effects_with_those_that_were_sent() {
    let workspace = Workspace::new();
    let (_running, _printed, effect) = forwarding(&workspace, true);
    let drill = || {
        let output = workspace.run(&["drill", "--since", "1h", "--state", "APPLIED", "--json"]);
        let line = lines(&output).remove(0);
        (line["result"].as_str().unwrap().to_owned(), line["why"].clone(), output.status.code().unwrap())
    };
    let differs = |why: &str| ("differs".to_owned(), object!(why), 1);
    assert_eq!(drill(), ("same".to_owned(), Value::Null, 0));
    forward(&workspace, &["crm", "n8n"]);
    assert_eq!(drill(), differs("it would also send the effect forward:n8n to n8n"));
    forward(&workspace, &["n8n"]);
    assert_eq!(drill(), differs("it would not send the effect forward:crm"));
    forward(&workspace, &["crm"]);
    let tables = Tables::of(&workspace);
    let stored = format!("in#stripe#{effect}");
    tables.damage(&tables.inbox, &stored, "path", Some(AttributeValue::S("/other".to_owned())));
    assert_eq!(drill(), differs("the effect forward:crm would have another path"));
    tables.delete(&tables.inbox, &stored);
    let (result, why, code) = drill();
    assert_eq!((result.as_str(), code), ("unknown", 1), "{why}");
}

#[test]
fn a_drill_reports_that_a_mended_route_would_apply_what_died() {
    let stack = Stack::of(Workspace::routed(r#"{"version": 1, "otherwise": "dead", "routes": []}"#));
    stack.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    stack.wait_for("DEAD", 1);
    let drill = || stack.run(&["drill", "--state", "DEAD", "--json"]);
    assert_eq!(summary(&drill().exits(1)), object!({ "fails": 1 }));
    forward(&stack, &["crm"]);
    assert_eq!(summary(&drill().exits(0)), object!({ "would apply": 1 }));
}
