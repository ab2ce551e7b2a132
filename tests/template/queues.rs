//! The policies of the queues: what SQS accepts, and who may use a queue.

use std::collections::BTreeSet;

use hookonce_local::tables::queue_policy;
use hookonce_runtime::config::MESSAGE_BYTES_MAX;
use serde_json::{Value, json};

use super::Rule;
use crate::support::template::{Template, template};

/// What SQS allows in one policy
/// (docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html).
const STATEMENTS_MAX: usize = 20;
const ACTIONS_MAX: usize = 7;
const BYTES_MAX: usize = 8_192;

/// Each queue with the roles that use it. The condition `HasOperator` holds here, and its parameter is empty.
const USERS: [(&str, &[&str]); 4] = [
    ("HintQueue", &["WebhookRole.Arn", "WorkerRole.Arn", "RelayRole.Arn", ""]),
    ("SlowQueue", &["WorkerRole.Arn", ""]),
    ("DeadLetterQueue", &["RelayRole.Arn", ""]),
    ("EffectsQueue", &["WorkerRole.Arn", "RelayRole.Arn", "DispatcherRole.Arn", ""]),
];

fn findings(template: &Template) -> Vec<String> {
    let queues: BTreeSet<_> = template.resources("AWS::SQS::Queue").into_iter().collect();
    assert_eq!(queues, USERS.iter().map(|(queue, _)| *queue).collect());
    let findings = USERS.iter().flat_map(|(queue, users)| of_queue(template, queue, users));
    findings.chain(takes_from_others(template)).collect()
}

/// A queue may name any other one as its dead-letter queue, and then SQS itself moves messages there.
fn takes_from_others(template: &Template) -> Option<String> {
    let feeds =
        |queue: &&str| template.property(queue, &["RedrivePolicy", "deadLetterTargetArn"]) == "DeadLetterQueue.Arn";
    let arn = |queue: &str| {
        let name = template.property(queue, &["QueueName"]);
        format!("arn:AWS::Partition:sqs:AWS::Region:AWS::AccountId:{}", name.as_str().unwrap_or_default())
    };
    let sources: Vec<_> = USERS.iter().map(|(queue, _)| *queue).filter(feeds).map(arn).collect();
    let allowed = template.property("DeadLetterQueue", &["RedriveAllowPolicy"]);
    let wanted = json!({ "redrivePermission": "byQueue", "sourceQueueArns": sources });
    (allowed != wanted).then(|| "DeadLetterQueue takes messages from queues of others".to_owned())
}

fn of_queue(template: &Template, queue: &str, users: &[&str]) -> Vec<String> {
    let policies = template.resources("AWS::SQS::QueuePolicy").into_iter();
    let mut policies = policies.filter(|policy| template.property(policy, &["Queues"]) == json!([queue]));
    let (Some(policy), None) = (policies.next(), policies.next()) else {
        return vec![format!("{queue} needs one policy for itself alone")];
    };
    let document = template.property(policy, &["PolicyDocument"]);
    let statements = document["Statement"].as_array().cloned().unwrap_or_default();
    let arn = json!(format!("{queue}.Arn"));
    let users: Vec<_> = users.iter().map(|user| (*user).to_owned()).collect();
    let never_sends = (queue == "EffectsQueue").then_some("DispatcherRole.Arn");
    let expected = queue_policy(arn.as_str().unwrap_or_default(), &users, never_sends);
    let mut unnamed = document.clone();
    for statement in unnamed["Statement"].as_array_mut().into_iter().flatten() {
        statement.as_object_mut().map(|statement| statement.remove("Sid"));
    }
    // Only its users may move its messages, with TLS; what SQS does itself has no principal, and is not stopped.
    if unnamed != expected {
        return vec![format!("{policy} is not what doctor compares with")];
    }
    let rules = [
        ("has more actions than SQS takes", statements.iter().all(|statement| actions(statement) <= ACTIONS_MAX)),
        ("has more statements than SQS takes", statements.len() <= STATEMENTS_MAX),
        ("is larger than SQS takes", document.to_string().len() <= BYTES_MAX),
    ];
    rules.iter().filter(|(_, holds)| !holds).map(|(what, _)| format!("{policy} {what}")).collect()
}

fn actions(statement: &Value) -> usize {
    statement["Action"].as_array().map_or(1, Vec::len)
}

#[test]
fn each_queue_has_a_policy_that_sqs_takes_and_that_only_its_functions_pass() {
    let tls = "Resource: !GetAtt HintQueue.Arn\n            Condition: { Bool";
    let two = "Resource: [!GetAtt HintQueue.Arn, !GetAtt DeadLetterQueue.Arn]\n            Condition: { Bool";
    let dispatcher = "ArnEquals: { \"aws:PrincipalArn\": !GetAtt DispatcherRole.Arn }";
    let other = "ArnEquals: { \"aws:PrincipalArn\": !GetAtt RelayRole.Arn }";
    let many = "sqs:PurgeQueue, sqs:AddPermission, sqs:RemovePermission, sqs:GetQueueUrl]";
    Rule(findings).finds([
        ("Queues: [!Ref HintQueue]", "Queues: [!Ref HintQueue, !Ref DeadLetterQueue]", "HintQueue needs one policy"),
        (tls, two, "HintQueuePolicy is not what doctor compares with"),
        (dispatcher, other, "EffectsQueuePolicy is not what doctor compares with"),
        ("sqs:PurgeQueue]", many, "HintQueuePolicy is not what doctor compares with"),
        ("                  - !GetAtt WorkerRole.Arn\n", "", "is not what doctor"),
        ("              \"Null\": { \"aws:PrincipalArn\": \"false\" }\n", "", "is not what doctor"),
        ("\"aws:SecureTransport\": \"false\"", "\"aws:SecureTransport\": \"true\"", "is not what doctor"),
        ("redrivePermission: byQueue", "redrivePermission: allowAll", "queues of others"),
        ("QueueName: !Sub [\"hookonce-${Id}-hints\"", "QueueName: !Sub [\"${Id}-hints\"", "queues of others"),
    ]);
}

/// Since 2025 a message may have 1 MiB, but a queue that does not say so may keep the old limit.
#[test]
fn a_queue_takes_the_largest_message_that_the_webhook_sends() {
    let template = template();
    for (queue, _) in USERS {
        assert_eq!(template.property(queue, &["MaximumMessageSize"]), MESSAGE_BYTES_MAX, "{queue}");
    }
}
