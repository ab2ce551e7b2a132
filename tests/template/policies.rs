//! Each function may do exactly what its adapters call.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::document::Template;
use super::{changed, none, only, template};

/// Actions by resource.
type Allowed = BTreeMap<String, BTreeSet<String>>;

const PARAMETERS: &str =
    "arn:AWS::Partition:ssm:AWS::Region:AWS::AccountId:parameter/hookonce/AWS::StackName/endpoints/*";

/// What each function calls. A transaction is authorised by the writes in it; the event source mapping receives and
/// deletes with the function's own permissions; a warm-up reads one item and one attribute of the queue.
fn expected(function: &str) -> Allowed {
    let calls: &[(&str, &[&str])] = match function {
        "WebhookFunction" => &[
            ("InboxTable.Arn", &["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]),
            ("HintQueue.Arn", &["sqs:SendMessage", "sqs:GetQueueAttributes"]),
            (PARAMETERS, &["ssm:GetParameter"]),
            ("WebhookLogs.Arn", &["logs:CreateLogStream", "logs:PutLogEvents"]),
            ("", &["kms:Decrypt"]),
        ],
        "WorkerFunction" => &[
            (
                "InboxTable.Arn",
                &["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
            ),
            (
                "DomainTable.Arn",
                &["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"],
            ),
            (
                "HintQueue.Arn",
                &[
                    "sqs:SendMessage",
                    "sqs:ChangeMessageVisibility",
                    "sqs:ReceiveMessage",
                    "sqs:DeleteMessage",
                    "sqs:GetQueueAttributes",
                ],
            ),
            ("WorkerLogs.Arn", &["logs:CreateLogStream", "logs:PutLogEvents"]),
        ],
        "RelayFunction" => &[
            (
                "InboxTable.Arn",
                &["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
            ),
            ("InboxTable.Arn/index/due", &["dynamodb:Query"]),
            ("InboxTable.Arn/index/journal", &["dynamodb:Query"]),
            ("HintQueue.Arn", &["sqs:SendMessage"]),
            ("DeadLetterQueue.Arn", &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]),
            ("RelayLogs.Arn", &["logs:CreateLogStream", "logs:PutLogEvents"]),
        ],
        other => panic!("{other} is not a function of this project"),
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    calls.iter().map(|(resource, actions)| ((*resource).to_owned(), words(actions))).collect()
}

/// What the role of a function allows.
fn allowed(template: &Template, function: &str) -> Allowed {
    let role = template.property(function, &["Role"]);
    let role = role.as_str().and_then(|role| role.strip_suffix(".Arn")).unwrap_or_default();
    let mut allowed = Allowed::new();
    for policy in list(&template.property(role, &["Policies"])) {
        for statement in list(&policy["PolicyDocument"]["Statement"]) {
            assert_eq!(statement["Effect"], "Allow", "a role of a function only allows");
            for resource in texts(&statement["Resource"]) {
                allowed.entry(resource).or_default().extend(texts(&statement["Action"]));
            }
        }
    }
    allowed
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// One text or a list of them.
fn texts(value: &Value) -> Vec<String> {
    let many = list(value);
    let all = if many.is_empty() { vec![value.clone()] } else { many };
    all.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
}

fn findings(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for function in template.resources("AWS::Serverless::Function") {
        // Policies of its own, or a role that the transform makes, would come on top of what is compared here.
        for property in ["Policies", "ManagedPolicyArns"] {
            if !template.property(function, &[property]).is_null() {
                findings.push(format!("{function} has {property} of its own"));
            }
        }
        let (allowed, expected) = (allowed(template, function), expected(function));
        let pairs = |all: &Allowed| -> BTreeSet<(String, String)> {
            let pairs = |(resource, actions): (&String, &BTreeSet<String>)| {
                actions.iter().map(|action| (resource.clone(), action.clone())).collect::<Vec<_>>()
            };
            all.iter().flat_map(pairs).collect()
        };
        let (allowed, expected) = (pairs(&allowed), pairs(&expected));
        let extra = allowed.difference(&expected).map(|(on, what)| format!("{function} need not {what} on {on:?}"));
        let missing = expected.difference(&allowed).map(|(on, what)| format!("{function} must {what} on {on:?}"));
        findings.extend(extra.chain(missing));
    }
    findings
}

/// A wildcard in place of a name, in any role or policy of the template.
fn wildcards(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for role in template.resources("AWS::IAM::Role") {
        if !template.property(role, &["ManagedPolicyArns"]).is_null() {
            findings.push(format!("{role} uses a managed policy"));
        }
        for policy in list(&template.property(role, &["Policies"])) {
            for statement in list(&policy["PolicyDocument"]["Statement"]) {
                let actions = texts(&statement["Action"]).into_iter().filter(|action| action.contains('*'));
                let resources = texts(&statement["Resource"]).into_iter();
                let resources = resources.filter(|resource| resource.contains('*') && resource != PARAMETERS);
                findings.extend(actions.chain(resources).map(|wild| format!("{role}: {wild}")));
            }
        }
    }
    findings
}

#[test]
fn each_policy_allows_exactly_what_its_function_calls() {
    none(&findings(&template()));
    only(&findings(&changed("Action: dynamodb:Query", "Action: [dynamodb:Query, dynamodb:Scan]")).split_off(1), "Scan");
    only(
        &findings(&changed("[sqs:SendMessage, sqs:GetQueueAttributes]", "[sqs:SendMessage]")),
        "must sqs:GetQueueAttributes",
    );
    only(
        &findings(&changed(
            "dynamodb:PutItem, dynamodb:UpdateItem, dynamodb:DeleteItem]",
            "dynamodb:PutItem, dynamodb:UpdateItem]",
        )),
        "must dynamodb:DeleteItem",
    );
}

#[test]
fn no_wildcard_stands_where_a_name_could() {
    none(&wildcards(&template()));
    only(&wildcards(&changed("Action: dynamodb:Query", "Action: dynamodb:*")), "dynamodb:*");
    only(&wildcards(&changed("Resource: !GetAtt DeadLetterQueue.Arn", "Resource: \"*\"")), "RelayRole: *");
}
