//! `hookonce destination test` for a queue and a function of a deployed stack: one probe, and what its answer means.

use std::process::Output;

use serde_json::{Value, json as object};

use crate::aws::{Aws, Interception, MESSAGE_ID, REQUEST_ID, written_by_the_template};
use crate::support::{Workspace, json, text};

const QUEUE: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/jobs.fifo";

/// An account with a stack that has a queue and a function for destinations.
struct Deployed {
    aws: Aws,
    workspace: Workspace,
}

impl Deployed {
    fn new() -> Self {
        let (aws, workspace) = (Aws::with_stack(&written_by_the_template(&[])), Workspace::new());
        aws.account().functions.push("billing:live");
        let deployed = Self { aws, workspace };
        for added in [["add", "jobs", "--queue", QUEUE], ["add", "billing", "--function", "billing:live"]] {
            let output = deployed.run(&added);
            let next = format!("`hookonce destination test {} --stack inbox`", added[1]);
            assert!(output.status.success() && text(&output).contains(&next), "{}", text(&output));
        }
        deployed
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut environment = self.aws.signed_in();
        environment.push(("AWS_ENDPOINT_URL_SQS".to_owned(), self.aws.url.clone()));
        let arguments = [&["destination"], arguments, &["--stack", "inbox"]].concat();
        self.workspace.run_with_environment(&arguments, &environment)
    }

    /// What the only request of an operation asked for.
    fn asked(&self, operation: &str) -> Value {
        let account = self.aws.account();
        let asked: Vec<_> = account.asked.iter().filter(|asked| asked.operation == operation).collect();
        assert_eq!(asked.len(), 1, "{operation}");
        asked[0].body.clone()
    }
}

/// The event by which a consumer tells a probe.
fn probe(said: &Value) -> String {
    format!("in#hookonce-test#{}", said["key"].as_str().unwrap())
}

#[test]
fn a_queue_gets_one_probe_as_a_message_of_the_dispatcher() {
    let deployed = Deployed::new();
    let asked = deployed.run(&["test", "jobs"]);
    assert!(asked.status.code() == Some(2), "{}", text(&asked));
    assert!(text(&asked).contains(&format!("one real hand-over to the queue {QUEUE}")), "{}", text(&asked));
    let tested = deployed.run(&["test", "jobs", "--yes", "--json"]);
    let said = json(&tested);
    assert_eq!(tested.status.code(), Some(0), "{said}");
    assert_eq!((&said["outcome"], &said["status"], &said["sent"]), (&object!("done"), &object!(200), &object!(true)));
    assert_eq!((&said["kind"], &said["address"], &said["host"]), (&object!("sqs"), &object!(QUEUE), &Value::Null));
    assert_eq!((&said["answer_id"], &said["permission"]), (&object!(MESSAGE_ID), &object!("sqs:SendMessage")));
    let sent = deployed.asked("SendMessage");
    assert_eq!((&sent["QueueUrl"], &sent["MessageBody"]), (&object!(QUEUE), &object!(r#"{"hookonce":"test"}"#)));
    assert_eq!(sent["MessageDeduplicationId"], said["key"]);
    assert_eq!(sent["MessageGroupId"].as_str().map(str::len), Some(64), "a group of its own: {sent}");
    let attribute = |name: &str| sent["MessageAttributes"][name]["StringValue"].clone();
    assert_eq!((attribute("hookonce-key"), attribute("hookonce-event")), (said["key"].clone(), object!(probe(&said))));
    assert_eq!((attribute("hookonce-hops"), attribute("content-type")), (object!("1"), object!("application/json")));
}

#[test]
fn a_function_gets_one_probe_as_an_event_of_the_dispatcher() {
    let deployed = Deployed::new();
    let file = deployed.workspace.write("total.json", br#"{"total": 10.50}"#);
    for (more, payload) in [(&[][..], object!({"hookonce": "test"})), (&["--file", &file], object!({"total": 10.5}))] {
        let said = json(&deployed.run(&[&["test", "billing", "--yes", "--json"], more].concat()));
        assert_eq!((&said["outcome"], &said["status"]), (&object!("done"), &object!(202)), "{said}");
        assert_eq!((&said["kind"], &said["address"]), (&object!("lambda"), &object!("billing:live")));
        assert_eq!(said["answer_id"], REQUEST_ID);
        assert_eq!(said["permission"], "lambda:InvokeFunction");
        let event = object!({
            "key": said["key"], "event": probe(&said), "hops": 1, "content_type": "application/json", "payload": payload,
        });
        let call = object!({ "FunctionName": "billing:live", "InvocationType": "Event", "Payload": event });
        assert_eq!(deployed.asked("Invoke"), call);
        deployed.aws.account().asked.clear();
    }
    let printed = text(&deployed.run(&["test", "billing", "--yes"]));
    assert!(
        printed.contains("asynchronous call of the function billing:live") && printed.contains(REQUEST_ID),
        "{printed}"
    );
    let role = "parameter DestinationPolicyArn must allow it lambda:InvokeFunction";
    assert!(printed.contains("your own credentials") && printed.contains(role), "{printed}");
}

/// A program reads what it read before there were queues and functions.
#[test]
fn a_program_finds_the_same_fields_for_every_kind() {
    let deployed = Deployed::new();
    let url = ["--url", "https://localhost:9/in", "--class", "at_least_once"];
    assert!(deployed.run(&[&["add", "crm"], &url[..]].concat()).status.success());
    for id in ["crm", "jobs", "billing"] {
        let said = json(&deployed.run(&["test", id, "--yes", "--json"]));
        let fields: Vec<_> = said.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "address answer_id code destination duration_ms host key kind message method outcome permission \
                        sent status then trouble";
        assert_eq!(fields.join(" "), expected, "{id}");
    }
}

#[test]
fn a_refusal_of_a_service_is_told_with_what_to_do() {
    let deployed = Deployed::new();
    let (queue, function) = (("jobs", "SendMessage"), ("billing", "Invoke"));
    for ((id, operation), refusal, status, outcome, advice) in [
        (
            queue,
            "AWS.SimpleQueueService.NonExistentQueue: it does not exist",
            400,
            "not_done",
            "there is no such queue",
        ),
        (queue, "AccessDenied: ada may not sqs:SendMessage", 400, "not_done", "credentials need sqs:SendMessage"),
        (queue, "KMS.AccessDeniedException: no kms", 400, "not_done", "kms:GenerateDataKey and kms:Decrypt"),
        (queue, "KMS.DisabledException: off", 400, "not_done", "key cannot be used"),
        (queue, "RequestThrottled: slower", 400, "not_done", "wait a moment"),
        (queue, "InvalidParameterValue: must be shorter", 400, "refused", "MaximumMessageSize"),
        (queue, "InvalidAddress: not for this endpoint", 400, "not_done", "the stack's Region"),
        (function, "ResourceNotFoundException: Function not found", 404, "not_done", "no such function"),
        (function, "AccessDeniedException: ada may not", 403, "not_done", "credentials need lambda:InvokeFunction"),
        (function, "TooManyRequestsException: slower", 429, "not_done", "wait a moment"),
        (function, "KMSDisabledException: off", 502, "not_done", "kms:Decrypt"),
        (function, "RequestTooLargeException: 1048576", 413, "refused", "at most 1 MB"),
    ] {
        let (code, message) = refusal.split_once(": ").unwrap();
        let fail = || deployed.aws.account().snags.push_back((operation, Interception::Answered(refusal)));
        fail();
        let tested = deployed.run(&["test", id, "--yes", "--json"]);
        let said = json(&tested);
        assert_eq!((tested.status.code(), &said["status"]), (Some(1), &object!(status)), "{refusal}: {said}");
        assert_eq!((&said["code"], &said["message"]), (&object!(code), &object!(message)));
        assert_eq!((&said["outcome"], &said["sent"]), (&object!(outcome), &object!(true)), "{refusal}");
        fail();
        let printed = text(&deployed.run(&["test", id, "--yes"]));
        let told = [code, message, advice, "DestinationPolicyArn"];
        assert!(told.iter().all(|word| printed.contains(word)), "{refusal}: {printed}");
        assert_eq!(deployed.aws.account().count(operation), 2, "nothing is repeated");
        deployed.aws.account().asked.clear();
    }
}

#[test]
fn a_hand_over_without_an_answer_may_have_been_done_and_is_not_repeated() {
    let deployed = Deployed::new();
    for (id, operation) in [("jobs", "SendMessage"), ("billing", "Invoke")] {
        deployed.aws.account().snags.push_back((operation, Interception::ReplyLost));
        let said = json(&deployed.run(&["test", id, "--yes", "--json"]));
        assert_eq!((&said["trouble"], &said["outcome"]), (&object!("no_answer"), &object!("unclear")), "{said}");
        assert_eq!(said["then"], "the effect is called again with the same key");
        assert_eq!(deployed.aws.account().count(operation), 1);
    }
}

#[test]
fn what_a_hand_over_cannot_carry_leaves_nothing() {
    let deployed = Deployed::new();
    let bytes = deployed.workspace.write("bytes", &[0, 255]);
    let large = deployed.workspace.write("large", &vec![b'a'; 1024 * 1024]);
    for (arguments, advice) in [
        (["jobs", "--file", &bytes], "a queue takes text only"),
        (["jobs", "--file", &large], "at most 1 MiB"),
        (["jobs", "--path", "/in"], "leave out --method and --path"),
        (["billing", "--method", "PUT"], "leave out --method and --path"),
    ] {
        let tested = deployed.run(&[&["test"], &arguments[..], &["--yes"]].concat());
        let printed = text(&tested);
        assert!(tested.status.code() == Some(1) && printed.contains(advice), "{printed}");
        assert!(printed.contains("REFUSED") && printed.contains("nothing has left this machine"), "{printed}");
        assert!(!printed.contains("your own credentials"), "{printed}");
    }
    let account = deployed.aws.account();
    assert_eq!((account.count("SendMessage"), account.count("Invoke")), (0, 0));
}
