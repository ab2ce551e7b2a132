//! `hookonce destination test` for a queue and a function of a deployed stack: one probe, and what its answer means.

use serde_json::{Value, json as object};

use crate::aws::{Deployed, Interception, MESSAGE_ID, REQUEST_ID};
use crate::support::{Ended, json};

const QUEUE: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/jobs.fifo";

/// A stack that has a queue and a function for destinations.
fn deployed() -> Deployed {
    let deployed = Deployed::new("destination", &[]);
    deployed.aws.account().functions.push("billing:live");
    for [id, option, place] in [["jobs", "--queue", QUEUE], ["billing", "--function", "billing:live"]] {
        let added = deployed.run(&["add", id, option, place]).exits(0);
        added.prints(&format!("`hookonce destination test {id} --stack inbox`"));
    }
    deployed
}

/// What the only request of an operation asked for.
fn sent_request(deployed: &Deployed, operation: &str) -> Value {
    let account = deployed.aws.account();
    let matching: Vec<_> = account.requests.iter().filter(|request| request.operation == operation).collect();
    assert_eq!(matching.len(), 1, "{operation}");
    matching[0].body.clone()
}

/// The event by which a consumer tells a probe.
fn probe(report: &Value) -> String {
    format!("in#hookonce-test#{}", report["key"].as_str().unwrap())
}

#[test]
fn a_queue_gets_one_probe_as_a_message_of_the_dispatcher() {
    let deployed = deployed();
    let question = format!("one real hand-over to the queue {QUEUE}");
    deployed.run(&["test", "jobs"]).exits(2).prints(&question);
    let report = json(&deployed.run(&["test", "jobs", "--yes", "--json"]).exits(0));
    assert_eq!(
        (&report["outcome"], &report["status"], &report["sent"]),
        (&object!("done"), &object!(200), &object!(true))
    );
    assert_eq!(
        (&report["kind"], &report["address"], &report["host"]),
        (&object!("sqs"), &object!(QUEUE), &Value::Null)
    );
    assert_eq!((&report["answer_id"], &report["permission"]), (&object!(MESSAGE_ID), &object!("sqs:SendMessage")));
    let sent = sent_request(&deployed, "SendMessage");
    assert_eq!((&sent["QueueUrl"], &sent["MessageBody"]), (&object!(QUEUE), &object!(r#"{"hookonce":"test"}"#)));
    assert_eq!(sent["MessageDeduplicationId"], report["key"]);
    assert_eq!(sent["MessageGroupId"].as_str().map(str::len), Some(64), "a group of its own: {sent}");
    let attribute = |name: &str| sent["MessageAttributes"][name]["StringValue"].clone();
    assert_eq!(
        (attribute("hookonce-key"), attribute("hookonce-event")),
        (report["key"].clone(), object!(probe(&report)))
    );
    assert_eq!((attribute("hookonce-hops"), attribute("content-type")), (object!("1"), object!("application/json")));
}

#[test]
fn a_function_gets_one_probe_as_an_event_of_the_dispatcher() {
    let deployed = deployed();
    let file = deployed.workspace.write("total.json", br#"{"total": 10.50}"#);
    for (more, payload) in [(&[][..], object!({"hookonce": "test"})), (&["--file", &file], object!({"total": 10.5}))] {
        let report = json(&deployed.run(&[&["test", "billing", "--yes", "--json"], more].concat()));
        assert_eq!((&report["outcome"], &report["status"]), (&object!("done"), &object!(202)), "{report}");
        assert_eq!((&report["kind"], &report["address"]), (&object!("lambda"), &object!("billing:live")));
        assert_eq!(report["answer_id"], REQUEST_ID);
        assert_eq!(report["permission"], "lambda:InvokeFunction");
        let event = object!({
            "key": report["key"], "event": probe(&report), "hops": 1, "content_type": "application/json", "payload": payload,
        });
        let call = object!({ "FunctionName": "billing:live", "InvocationType": "Event", "Payload": event });
        assert_eq!(sent_request(&deployed, "Invoke"), call);
        deployed.aws.account().requests.clear();
    }
    let role = "parameter DestinationPolicyArn must allow it lambda:InvokeFunction";
    let printed = deployed.run(&["test", "billing", "--yes"]).prints_all(&["your own credentials", role]);
    printed.prints_all(&["asynchronous call of the function billing:live", REQUEST_ID]);
}

/// A program reads what it read before there were queues and functions.
#[test]
fn a_program_finds_the_same_fields_for_every_kind() {
    let deployed = deployed();
    let add = ["add", "crm", "--url", "https://localhost:9/in", "--class", "at_least_once"];
    deployed.run(&add).exits(0);
    for id in ["crm", "jobs", "billing"] {
        let report = json(&deployed.run(&["test", id, "--yes", "--json"]));
        let fields: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "address answer_id code destination duration_ms host key kind message method outcome permission \
                        sent status then trouble";
        assert_eq!(fields.join(" "), expected, "{id}");
    }
}

#[test]
fn a_refusal_of_a_service_is_printed_with_the_next_step() {
    let deployed = deployed();
    // The tests of the adapters and of the advice go through the codes.
    for (id, operation, refusal, status, outcome, advice) in [
        ("jobs", "SendMessage", "KMS.DisabledException: off", 400, "not_done", "key cannot be used"),
        ("jobs", "SendMessage", "InvalidParameterValue: must be shorter", 400, "refused", "MaximumMessageSize"),
        (
            "billing",
            "Invoke",
            "AccessDeniedException: ada may not",
            403,
            "not_done",
            "credentials need lambda:InvokeFunction",
        ),
        ("billing", "Invoke", "RequestTooLargeException: 1048576", 413, "refused", "at most 1 MB"),
    ] {
        let (code, message) = refusal.split_once(": ").unwrap();
        let fail = || deployed.aws.account().snags.push_back((operation, Interception::Answered(refusal)));
        fail();
        let report = json(&deployed.run(&["test", id, "--yes", "--json"]).exits(1));
        let fields = ["status", "code", "message", "outcome", "sent"].map(|name| report[name].clone());
        assert_eq!(object!(fields), object!([status, code, message, outcome, true]), "{refusal}");
        fail();
        let printed = deployed.run(&["test", id, "--yes"]);
        printed.prints_all(&[code, message, advice, "DestinationPolicyArn"]);
        assert_eq!(deployed.aws.account().count(operation), 2, "nothing is repeated");
        deployed.aws.account().requests.clear();
    }
}

#[test]
fn a_hand_over_without_an_answer_may_have_been_done_and_is_not_repeated() {
    let deployed = deployed();
    for (id, operation) in [("jobs", "SendMessage"), ("billing", "Invoke")] {
        deployed.aws.account().snags.push_back((operation, Interception::ReplyLost));
        let report = json(&deployed.run(&["test", id, "--yes", "--json"]));
        assert_eq!((&report["trouble"], &report["outcome"]), (&object!("no_answer"), &object!("unclear")), "{report}");
        assert_eq!(report["then"], "the effect is called again with the same key");
        assert_eq!(deployed.aws.account().count(operation), 1);
    }
}

#[test]
fn what_a_hand_over_cannot_carry_leaves_nothing() {
    let deployed = deployed();
    let bytes = deployed.workspace.write("bytes", &[0, 255]);
    let large = deployed.workspace.write("large", &vec![b'a'; 1024 * 1024]);
    for (arguments, advice) in [
        (["jobs", "--file", &bytes], "a queue takes text only"),
        (["jobs", "--file", &large], "at most 1 MiB"),
        (["jobs", "--path", "/in"], "leave out --method and --path"),
        (["billing", "--method", "PUT"], "leave out --method and --path"),
    ] {
        let tested = deployed.run(&[&["test"], &arguments[..], &["--yes"]].concat()).exits(1);
        tested.prints_all(&[advice, "REFUSED", "nothing has left this machine"]).omits("your own credentials");
    }
    let account = deployed.aws.account();
    assert_eq!((account.count("SendMessage"), account.count("Invoke")), (0, 0));
}
