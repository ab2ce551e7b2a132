//! Everything that a person can set or watch is documented.

use super::metrics::counted;
use super::{Rule, file, none, only};
use crate::support::template::{Template, template};

/// Names that a text does not contain as code.
fn unnamed<'a>(names: impl IntoIterator<Item = &'a str>, text: &str) -> Vec<String> {
    names.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).map(str::to_owned).collect()
}

#[test]
fn every_parameter_is_explained() {
    let rule = Rule(|template: &Template| unnamed(template.parameters(), &file("docs/deploy.md")));
    rule.finds([("  RequestBurstMax:\n    Type", "  RequestBurstMost:\n    Type", "RequestBurstMost")]);
}

#[test]
fn every_metric_is_explained() {
    let counted = counted();
    none(&unnamed(counted.iter().map(String::as_str), &file("docs/runbook.md")));
}

#[test]
fn the_number_of_alarms_that_are_paid_for_is_right() {
    let alarms = template().resources("AWS::CloudWatch::Alarm").len();
    assert!(file("docs/deploy.md").contains(&format!("creates {alarms} alarms")), "{alarms} alarms");
}

/// Which functions and queues of the template the page of the first deployment leaves out.
fn not_deployed(template: &Template, page: &str) -> Vec<String> {
    let (functions, queues) = (template.resources("AWS::Serverless::Function"), template.resources("AWS::SQS::Queue"));
    let counted = format!("{} functions", functions.len());
    let queued = format!("and {} queues", queues.len());
    let missing = [counted, queued].into_iter().filter(|words| !page.contains(words.as_str()));
    let name = |function: &&str| function.trim_end_matches("Function").to_lowercase();
    missing.chain(unnamed(functions.iter().map(name).collect::<Vec<_>>().iter().map(String::as_str), page)).collect()
}

#[test]
fn the_first_deployment_knows_every_function_and_every_queue() {
    let page = file("docs/first-deployment.md");
    let (from, to) = ("  DispatcherFunction:\n    Type: AWS::Serverless", "  DispatcherFunction:\n    Type: Other");
    Rule(|template: &Template| not_deployed(template, &page)).finds([(from, to, "3 functions")]);
    let built = format!(
        "{} files of less than",
        ["no", "one", "two", "three", "four", "five"][template().resources("AWS::Serverless::Function").len()]
    );
    assert!(page.contains(&built), "{built}");
    let outputs = ["QueueUrl", "SlowQueueUrl", "EffectsQueueUrl", "DeadLetterQueueUrl"];
    assert_eq!(outputs.len(), template().resources("AWS::SQS::Queue").len());
    assert!(page.contains(&format!("for name in {}; do", outputs.join(" "))));
}

/// What whoever deploys a resource of this type needs: the row of the table, and words of it.
const RIGHTS: [(&str, &str, &[&str]); 14] = [
    ("AWS::ApiGatewayV2::ApiMapping", "API Gateway", &["/domainnames"]),
    ("AWS::ApiGatewayV2::DomainName", "API Gateway", &["GET", "POST", "PATCH", "DELETE", "/domainnames"]),
    ("AWS::CloudWatch::Alarm", "CloudWatch", &["PutMetricAlarm", "DescribeAlarms", "DeleteAlarms"]),
    ("AWS::CloudWatch::Dashboard", "CloudWatch", &["PutDashboard", "GetDashboard", "DeleteDashboards"]),
    (
        "AWS::DynamoDB::Table",
        "DynamoDB",
        &["CreateTable", "DescribeTable", "UpdateTable", "UpdateTimeToLive", "PutResourcePolicy", "GetResourcePolicy"],
    ),
    ("AWS::Events::Rule", "EventBridge", &["PutRule", "DescribeRule", "PutTargets", "RemoveTargets", "DeleteRule"]),
    ("AWS::IAM::Policy", "IAM", &["PutRolePolicy", "GetRolePolicy", "DeleteRolePolicy"]),
    ("AWS::IAM::Role", "IAM", &["CreateRole", "PutRolePolicy", "AttachRolePolicy", "DetachRolePolicy", "PassRole"]),
    ("AWS::Logs::LogGroup", "Logs", &["CreateLogGroup", "DescribeLogGroups", "PutRetentionPolicy", "DeleteLogGroup"]),
    ("AWS::Logs::MetricFilter", "Logs", &["PutMetricFilter", "DescribeMetricFilters", "DeleteMetricFilter"]),
    ("AWS::SQS::Queue", "SQS", &["CreateQueue", "GetQueueAttributes", "SetQueueAttributes", "DeleteQueue"]),
    ("AWS::SQS::QueuePolicy", "SQS", &["SetQueueAttributes"]),
    ("AWS::Serverless::Function", "Lambda", &["AddPermission", "RemovePermission"]),
    ("AWS::Serverless::HttpApi", "API Gateway", &["GET", "POST", "PUT", "PATCH", "DELETE", "/apis"]),
];

/// The types of resources for which the table of rights lacks the row or one of its words.
fn without_rights(template: &Template, page: &str) -> Vec<String> {
    let table = page.split("## Rights").nth(1).and_then(|rest| rest.split("Other tasks need").next()).unwrap();
    let lacks = |kind: &str| match RIGHTS.iter().find(|(known, ..)| *known == kind) {
        None => vec![format!("{kind}: which rights does it need?")],
        Some((_, service, words)) => {
            let row = table.lines().find(|line| line.starts_with(&format!("| {service} |"))).unwrap_or_default();
            let missing = unnamed(words.iter().copied(), row);
            missing.into_iter().map(|word| format!("{kind}: {word}")).collect()
        }
    };
    // A schedule becomes a rule of its own.
    template.types().into_iter().chain(["AWS::Events::Rule"]).flat_map(lacks).collect()
}

#[test]
fn the_table_of_rights_has_what_every_resource_needs() {
    let page = file("docs/deploy.md");
    let rule = Rule(|template: &Template| without_rights(template, &page));
    rule.finds([("Type: AWS::SQS::QueuePolicy", "Type: AWS::SNS::Topic", "AWS::SNS::Topic")]);
    only(&without_rights(&template(), &page.replace("`PutMetricFilter`, ", "")), "MetricFilter: PutMetricFilter");
}
