//! `hookonce doctor`: each problem of the first hour is named, with what to do.

use std::net::TcpListener;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::{Value, json as object};

use crate::aws::{Aws, CALLER, Deployed, Interception, now, outputs_of};
use crate::stacks::{Stack, Tables};
use crate::support::{Ended, Workspace, json, text};

/// The checks that are not well, by name.
fn problems(printed: &Value) -> Vec<&str> {
    let checks = printed.as_array().unwrap().iter();
    checks.filter(|check| check["ok"] == false).map(|check| check["check"].as_str().unwrap()).collect()
}

#[test]
fn a_machine_where_nothing_is_wrong_and_one_where_something_is() {
    let workspace = Workspace::new();
    // Whether the default port is free is up to the machine.
    let ours = TcpListener::bind("127.0.0.1:8787");
    let doctor = workspace.run(&["doctor", "--json"]).exits(1);
    assert_eq!(problems(&json(&doctor)), ["local stack"]);
    doctor.prints("hookonce dev --port 0");
    drop(ours);
    let running = workspace.dev(&["dev", "--port", "0"]);
    let calm =
        ["running at http://127.0.0.1:", "3 valid", "data folder", "clock", "cargo-lambda", "rustc", "C compiler"];
    workspace.run(&["doctor"]).exits(0).prints_all(&calm);
    workspace.write(".hookonce/endpoints/bad.json", b"{");
    let status = workspace.run(&["status", "--json"]).exits(1);
    assert_eq!(json(&status)["needs"], object!(["endpoints_not_valid"]), "{status:?}");
    workspace
        .run(&["status"])
        .exits(1)
        .prints_all(&["1 endpoint document is not valid: endpoint bad: ", "hookonce endpoint check"]);
    drop(running);
    let broken = workspace.run(&["doctor", "--json"]).exits(3);
    assert_eq!(problems(&json(&broken)), ["local stack", "endpoints"], "it was killed, so its file is still there");
    broken.prints_all(&["not valid: bad", "hookonce endpoint check"]);
}

/// Where no stack runs, nothing takes deliveries.
#[test]
fn an_endpoint_is_not_silent_while_no_stack_runs() {
    let workspace = Workspace::new();
    let path = ".hookonce/endpoints/github.json";
    let expecting = br#"{"provider": "github", "secrets": ["0123456789abcdef"], "expect_every": "1h"}"#;
    std::fs::create_dir_all(workspace.path(".hookonce/endpoints")).unwrap();
    workspace.write(path, expecting);
    let file = std::fs::File::options().write(true).open(workspace.path(path)).unwrap();
    file.set_modified(file.metadata().unwrap().modified().unwrap() - std::time::Duration::from_hours(2)).unwrap();
    workspace.run(&["doctor"]).omits("is silent");
    let _running = workspace.dev(&["dev", "--port", "0"]);
    workspace.run(&["doctor"]).prints("the endpoint github is silent: it expects a delivery every 1h, and none came");
}

#[test]
fn a_deployed_stack_is_checked_with_calls_that_change_nothing() {
    let local = Stack::with(1, 0);
    let deployed = Deployed::of(&local, &[]);
    let aws = &deployed.aws;
    let doctor = || deployed.run(&["doctor", "--json"]);
    let calm = json(&doctor().exits(0));
    assert_eq!(calm[0]["seen"], CALLER);
    assert_eq!(calm.as_array().unwrap().len(), 23);
    for (check, seen) in [
        ("alarm topics", "1 topic with 1 confirmed subscription"),
        ("metric filters", "9 count what alarms watch"),
        ("destinations", "0 valid"),
        ("routes", "0 valid"),
        ("dead-letter queue", "0 messages"),
        ("protection", "termination protection and stack policy are on"),
        ("functions", "4 functions; the worker's event sources are on"),
        ("event sources", "each queue has one, which takes batches and gives back what failed"),
        // The worker has two event sources here and the dispatcher as many, each with two executions.
        ("concurrency", "queues and relay take at most 9 of the account's 1000 executions"),
        ("address", "http://127.0.0.1:9/webhooks/"),
        ("metrics", "they can be read; none says that the relay ran: docs/run/runbook.md#the-relay-does-not-run"),
    ] {
        assert_eq!(seen_of(&calm, check), seen);
    }
    assert!(seen_of(&calm, "writes").starts_with("not tried"));
    let wrote =
        |request: &crate::aws::ApiCall| request.operation.starts_with("Put") || request.operation.starts_with("Delete");
    assert!(!aws.account().requests.iter().any(wrote));

    let reports = |exit: i32, wrong: &[&str], expected: &str| {
        let output = doctor().exits(exit);
        assert_eq!(problems(&json(&output)), wrong, "{}", text(&output));
        output.prints(expected);
    };
    aws.account().ahead_seconds = 45;
    reports(1, &["clock"], "off AWS's");
    aws.account().ahead_seconds = 0;
    aws.account().put("endpoint", "bad", "{");
    reports(1, &["endpoints"], "hookonce endpoint check --stack inbox");
    aws.account().remove("endpoint", "bad");
    documents_of_effects_and_routes(aws, &reports, &|| json(&doctor()));
    aws.account().snags.push_back(("GetCallerIdentity", Interception::Answered("ExpiredToken")));
    reports(3, &["credentials"], "sign in again");
    aws.account().snags.push_back(("DescribeAlarms", Interception::Answered("AccessDenied")));
    reports(3, &["alarms"], "ask for the permission cloudwatch:DescribeAlarms");
    what_status_needs(aws, &reports);
    what_safety_rests_on(aws, &reports);
    queues_and_their_readers(&deployed, &Tables::of(&local), &reports);
    who_may_delete_it(aws, &reports);
    aws.account().relay_ran_at = Some(now() - 660);
    reports(1, &["metrics"], "ago: its schedule is off, or it fails");
    aws.account().relay_ran_at = Some(now() - 20);
    assert!(seen_of(&json(&doctor()), "metrics").starts_with("the relay ran 2"), "{}", text(&doctor()));
    alarms(aws, &reports);
    let deploy = |parts: &[(&str, &str)]| aws.account().stack = Some(outputs_of(&deployed.variables, parts));
    deploy(&[("Version", "0.0.1")]);
    reports(1, &["outputs"], "the stack is of release 0.0.1");
    deploy(&[("EffectsQueueUrl", "http://127.0.0.1:9/no")]);
    reports(3, &["effects queue", "dead-letter queue"], "sqs:GetQueueAttributes failed");
    deploy(&[("SlowQueueUrl", "http://127.0.0.1:9/no")]);
    reports(3, &["slow queue", "dead-letter queue"], "sqs:GetQueueAttributes failed");
    dead_letters(&local, &reports, deploy);
    aws.account().stack = None;
    reports(1, &["outputs"], "check the stack's name");
}

fn dead_letters(local: &Stack, reports: &dyn Fn(i32, &[&str], &str), deploy: impl Fn(&[(&str, &str)])) {
    let letters = Tables::of(local).dead_letter_queue();
    Tables::of(local).remove_queue(&letters);
    deploy(&[]);
    reports(3, &["dead-letter queue"], "sqs:GetQueueAttributes failed");
}

fn alarms(aws: &Aws, reports: &dyn Fn(i32, &[&str], &str)) {
    let place = |name: &str| aws.account().alarms.iter().position(|alarm| alarm.name.ends_with(name)).unwrap();
    let (fails, died) = (place("page/WebhookFails"), place("page/RecordsDied"));
    aws.account().alarms[fails].is_raised = true;
    reports(0, &[], "14 alarms, raised: page/WebhookFails");
    let actions = std::mem::take(&mut aws.account().alarms[died].actions);
    reports(1, &["alarms"], "1 of 14 alarms notify nobody: page/RecordsDied");
    aws.account().alarms[died].actions = actions;
    topics(aws, reports);
    for (drift, expected) in [
        ("filter of logs", "records_died has 2 of its 3; records_overdue has 0 of its 1; needs_a_look has 4 of its 5"),
        ("pattern", "records_died has 2 of its 3; needs_a_look has 4 of its 5"),
    ] {
        aws.account().drift = vec![drift];
        reports(1, &["metric filters"], expected);
    }
    aws.account().drift.clear();
    aws.account().snags.push_back(("DescribeMetricFilters", Interception::Answered("AccessDenied")));
    reports(3, &["metric filters"], "ask for the permission logs:DescribeMetricFilters");
    let removed = aws.account().alarms.remove(died);
    reports(1, &["alarms"], "alarms of the template are missing: page/RecordsDied; raised: page/WebhookFails");
    aws.account().alarms.push(removed);
    let all = std::mem::take(&mut aws.account().alarms);
    reports(1, &["alarms"], "nothing watches this stack");
    aws.account().alarms = all;
}

/// The alarms tell a topic. Whether that tells anybody, its owner may keep to himself.
fn topics(aws: &Aws, reports: &dyn Fn(i32, &[&str], &str)) {
    let arn = "arn:aws:sns:us-east-1:123456789012:hookonce-alarms";
    for (drift, expected) in [
        ("topic", format!("{arn} is gone")),
        ("topic key", format!("CloudWatch cannot publish to {arn}")),
        ("subscribers", format!("nobody subscribes to {arn}")),
        ("confirmed", format!("{arn} tells nobody: 1 subscription to be confirmed")),
    ] {
        aws.account().drift.push(drift);
        reports(1, &["alarm topics"], &expected);
        aws.account().drift.pop();
    }
    aws.account().snags.push_back(("GetTopicAttributes", Interception::Answered("AuthorizationError")));
    reports(0, &[], &format!("whether {arn} tells anybody is not known: sns:GetTopicAttributes failed"));
    aws.account().snags.push_back(("GetTopicAttributes", Interception::Answered("AuthorizationError")));
    reports(0, &[], "ask for the permission sns:GetTopicAttributes");
}

/// `status` shows what each of these answers. A permission that is missing is to be known before the night.
fn what_status_needs(aws: &Aws, reports: &dyn Fn(i32, &[&str], &str)) {
    for (operation, check, permission) in [
        ("GetFunctionConfiguration", "functions", "lambda:GetFunctionConfiguration"),
        ("ListEventSourceMappings", "functions", "lambda:ListEventSourceMappings"),
        ("GetAccountSettings", "concurrency", "lambda:GetAccountSettings"),
        ("GetFunctionConcurrency", "concurrency", "lambda:GetFunctionConcurrency"),
        ("GetMetricStatistics", "metrics", "cloudwatch:GetMetricStatistics"),
    ] {
        aws.account().snags.push_back((operation, Interception::Answered("AccessDenied")));
        reports(3, &[check], &format!("ask for the permission {permission}"));
    }
    for (function, reserved, takes) in [("webhook", 0, 1), ("worker", 3, 4), ("relay", 0, 1), ("dispatcher", 3, 4)] {
        let name = aws.account().functions.iter().find(|name| name.ends_with(function)).copied().unwrap();
        aws.account().reserved = Some((name, reserved));
        reports(1, &["concurrency"], &format!("is too low: {name} has {reserved} and takes {takes}"));
        aws.account().reserved = Some((name, takes));
        reports(0, &[], "queues and relay take at most 9");
    }
    aws.account().reserved = None;
    aws.account().off = Some("inbox-worker");
    reports(0, &[], "the worker's event sources are not all on: docs/run/runbook.md#containment");
    aws.account().off = None;
}

/// Somebody changed a table or a function, or the stack was given a table that was restored.
fn what_safety_rests_on(aws: &Aws, reports: &dyn Fn(i32, &[&str], &str)) {
    for (drift, expected) in [
        ("due", "inbox table: no index due by due_shard, due_at of keys only"),
        ("type", "inbox table: due_at is not of type N"),
        ("expiry", "domain table: items expire by nothing, not by hookonce_expires_at"),
        ("recovery", "documents table: no point-in-time recovery"),
        ("protection", "inbox table: no deletion protection"),
        ("policy", "documents table: no resource policy denies a scan"),
        ("table policy", "documents table: the resource policy is not that of the template"),
    ] {
        aws.account().drift = vec![drift];
        reports(1, &["tables"], expected);
    }
    aws.account().drift = vec!["own policy"];
    reports(
        0,
        &[],
        "get-resource-policy --resource-arn arn:aws:dynamodb:us-east-1:123456789012:table/hookonce-domain` prints whom",
    );
    aws.account().drift.clear();
    for operation in ["DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "GetResourcePolicy"] {
        aws.account().snags.push_back((operation, Interception::Answered("AccessDenied")));
        reports(3, &["tables"], &format!("ask for the permission dynamodb:{operation}"));
    }
    aws.account().misspelt = Some("HOOKONCE_EDGE_PROOF_HASH");
    reports(1, &["functions"], "the webhook ignores HOOKONCE_EDGE_PROOF_HASH");
    aws.account().misspelt = None;
}

/// Somebody changed a queue, or what reads it.
fn queues_and_their_readers(deployed: &Deployed, local: &Tables, reports: &dyn Fn(i32, &[&str], &str)) {
    let url = |name: &str| deployed.aws.account().stack.as_ref().unwrap()[name].clone();
    let letters = local.dead_letter_queue();
    let others =
        [("queue", url("QueueUrl")), ("slow queue", url("SlowQueueUrl")), ("effects queue", url("EffectsQueueUrl"))];
    for (check, url) in others.iter().map(|(check, url)| (*check, url)).chain([("dead-letter queue", &letters)]) {
        let retention = if *url == letters { "1209600" } else { "604800" };
        for (name, drift, usual) in [
            (QueueAttributeName::VisibilityTimeout, "30", "360"),
            (QueueAttributeName::MessageRetentionPeriod, "3600", retention),
        ] {
            local.set_queue(url, &[(name.clone(), drift)]);
            reports(1, &[check], &format!("{} is {drift}, not {usual}", name.as_str()));
            local.set_queue(url, &[(name, usual)]);
        }
    }
    let redrive = |receives: u32| {
        format!(
            r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{}","maxReceiveCount":{receives}}}"#,
            letters.rsplit('/').next().unwrap()
        )
    };
    for (check, url) in &others {
        local.set_queue(url, &[(QueueAttributeName::RedrivePolicy, &redrive(3))]);
        reports(1, &[check], "maxReceiveCount is 3, not 100");
        local.set_queue(url, &[(QueueAttributeName::RedrivePolicy, &redrive(100))]);
    }
    let foreign = redrive(100).replace(letters.rsplit('/').next().unwrap(), others[1].1.rsplit('/').next().unwrap());
    local.set_queue(&others[0].1, &[(QueueAttributeName::RedrivePolicy, &foreign)]);
    reports(1, &["queue"], "-slow, not ");
    local.set_queue(&others[0].1, &[(QueueAttributeName::RedrivePolicy, &redrive(100))]);
    let all = ["queue", "slow queue", "effects queue", "dead-letter queue"];
    for drift in ["no queue policy", "queue policy"] {
        deployed.aws.account().drift = vec![drift];
        reports(1, &all, "Policy is not that of the template");
    }
    deployed.aws.account().drift = vec!["message size"];
    reports(1, &all, "MaximumMessageSize is 262144, not 1048576");
    deployed.aws.account().drift = vec!["sources"];
    reports(1, &["dead-letter queue"], "RedriveAllowPolicy is not that of the template");
    for (drift, expected) in [
        ("source", "-slow has none at the worker"),
        ("source", "-effects has none at the dispatcher"),
        ("batch", "-hints takes 100 messages, not 10"),
        ("window", "-hints lets messages wait 300 seconds for more, not 0"),
        ("report", "-effects lacks ReportBatchItemFailures"),
        ("filter", "that of hookonce-effects has a filter: Lambda deletes what does not match"),
        ("hidden filter", "has a filter: Lambda deletes what does not match"),
    ] {
        deployed.aws.account().drift = vec![drift];
        reports(1, &["event sources"], expected);
    }
    deployed.aws.account().drift = vec!["timeout"];
    reports(1, &["functions"], "Timeout of the worker is 300 seconds, not 60; Timeout of the dispatcher is 300");
    deployed.aws.account().drift = vec!["no variable"];
    reports(1, &["functions"], "the relay lacks HOOKONCE_DOMAIN_TABLE");
    deployed.aws.account().drift = vec!["encrypted"];
    reports(0, &[], "you may not decrypt the variables of webhook, worker, relay, dispatcher");
    deployed.aws.account().drift = vec!["no key"];
    reports(1, &["functions"], "Lambda cannot read variables: those of the webhook: KMSDisabledException");
    deployed.aws.account().drift = vec!["variable"];
    reports(1, &["functions"], "HOOKONCE_DOMAIN_TABLE of the worker is other, not hookonce-domain");
    deployed.aws.account().drift.clear();
}

/// Somebody let the stack, or parts of it, go.
fn who_may_delete_it(aws: &Aws, reports: &dyn Fn(i32, &[&str], &str)) {
    for (drift, expected) in [
        ("termination", "--enable-termination-protection --stack-name inbox"),
        ("no stack policy", "an update may replace or remove a table, a queue, the gateway or its domain name"),
        ("stack policy", "an update may replace or remove a table, a queue, the gateway or its domain name"),
    ] {
        aws.account().drift = vec![drift];
        reports(0, &[], expected);
    }
    aws.account().drift = vec!["termination", "nested"];
    reports(0, &[], "--enable-termination-protection --stack-name shop");
    aws.account().drift.clear();
    aws.account().snags.push_back(("GetStackPolicy", Interception::Answered("AccessDenied")));
    reports(3, &["protection"], "ask for the permission cloudformation:GetStackPolicy");
}

#[test]
fn a_new_account_is_told_what_is_left_for_deliveries_and_that_its_address_cannot_move() {
    let local = Stack::with(1, 0);
    let gateway = "https://a1b2c3.execute-api.us-east-1.amazonaws.com/webhooks/";
    let deployed = Deployed::of(&local, &[("WebhookUrl", gateway)]);
    let doctor = || deployed.run(&["doctor"]);
    let left = "the webhook function and handlers in other languages have ";
    doctor().exits(0).prints("it belongs to this stack and can never be moved").omits(left);
    deployed.aws.account().executions = Some(10);
    doctor().exits(0).prints_all(&[
        "queues and relay take at most 9 of the account's 10 executions",
        &format!("{left}1 execution left"),
    ]);
    let set = object!({ "version": 1, "otherwise": "ignore", "routes": [{
        "name": "paid", "consumer": "paid", "types": ["invoice.paid"], "handler": { "lambda": "paid" },
    }] });
    deployed.aws.account().executions = Some(49);
    let burst = "the route set calls functions, 40 at most at one time, and 40 are left";
    doctor().exits(0).omits(burst);
    deployed.aws.account().put("routes", "set", &set.to_string());
    doctor().prints(burst);
    deployed.aws.account().executions = Some(50);
    doctor().omits(burst);
    deployed.aws.account().executions = Some(9);
    doctor().exits(1).prints_all(&["may take all of the account's 9 executions", "lower WorkerConcurrencyMax"]);
}

/// What a check saw.
fn seen_of<'a>(printed: &'a Value, check: &str) -> &'a str {
    let line = printed.as_array().unwrap().iter().find(|line| line["check"] == check);
    line.unwrap()["seen"].as_str().unwrap()
}

/// A destination or a route set with a fault lets effects and records wait.
fn documents_of_effects_and_routes(aws: &Aws, reports: &dyn Fn(i32, &[&str], &str), printed: &dyn Fn() -> Value) {
    aws.account().put("destination", "crm", r#"{"kind": "http"}"#);
    reports(1, &["destinations"], "`hookonce destination check --stack inbox` shows what is wrong with each");
    let good = r#"{"kind": "http", "url": "https://crm.example/in", "class": "at_least_once"}"#;
    aws.account().put("destination", "crm", good);
    assert_eq!(seen_of(&printed(), "destinations"), "1 valid");

    // The samples are for a laptop.
    let sample = object!({ "builtin": "payments" });
    for (handler, wrong) in [(object!({ "lambda": "payments" }), None), (sample, Some("has 1 fault"))] {
        let route = object!({ "name": "paid", "consumer": "billing", "handler": handler });
        let set = object!({ "version": 1, "otherwise": "dead", "routes": [route] }).to_string();
        aws.account().put("routes", "set", &set);
        match wrong {
            None => assert_eq!(seen_of(&printed(), "routes"), "1 valid"),
            Some(wrong) => reports(1, &["routes"], wrong),
        }
    }
    aws.account().remove("routes", "set");
    reports(1, &["routes"], "`hookonce route deploy FILE --stack inbox` writes one");
    aws.account().put("routes", "set", r#"{"version":1,"otherwise":"builtin","routes":[]}"#);
    reports(1, &["routes"], "`builtin` asks the handlers of this build, and it has none");
    aws.account().put("routes", "set", r#"{"version":1,"otherwise":"dead","routes":[]}"#);
}
